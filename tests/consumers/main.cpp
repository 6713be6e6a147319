// SPDX-License-Identifier: MIT
// First translation unit of a consumer: includes the umbrella, throws across units, prints the version.
#ifdef CONSUMER_SINGLE_INCLUDE
#include <meganeura.hpp>
#if __has_include(<meganeura/version.hpp>)
#error "the single include is tested where the package's own headers can be reached"
#endif
#else
#include <meganeura/meganeura.hpp>
#endif

#include <cstdio>

std::string other_version();
using meganeura::detail::resolved;

int main() {
  try {
    meganeura::fail(meganeura::error_category::internal, "{}", other_version());
  } catch (const meganeura::error& caught) {
    std::printf("meganeura %s %s\n", caught.what(), MEGANEURA_HEADER_ONLY ? "header_only" : "compiled");
    if (MEGANEURA_HEADER_ONLY && resolved(meganeura::checks::automatic) != meganeura::checks::all) {
      std::printf("and this unit's NDEBUG decided for the other\n");
    }
    return 0;
  }
}
