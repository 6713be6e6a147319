// SPDX-License-Identifier: MIT
// First translation unit of a consumer: catches what the second throws, prints the version and the mode of this unit.
#ifdef CONSUMER_SINGLE_INCLUDE
#include <meganeura.hpp>
#if __has_include(<meganeura/version.hpp>)
#error "the single include is tested where the package's own headers can be reached"
#endif
#else
#include <meganeura/meganeura.hpp>
#if !MEGANEURA_HEADER_ONLY && (defined(VK_VERSION_1_0) || defined(VK_NO_PROTOTYPES))
#error "what only bodies need reaches who includes the headers: vulkan/"
#endif
#endif
#include <vulkan/vulkan.h>

#include <cstdio>

using create_instance = decltype(vkCreateInstance);  // Vulkan's own prototypes are the user's to have
void throw_version();

int main() {
  try {
    throw_version();
  } catch (const meganeura::error& caught) {
    std::printf("meganeura %s %s\n", caught.what(), MEGANEURA_HEADER_ONLY ? "header_only" : "compiled");
    const bool checked = meganeura::detail::resolved(meganeura::checks::automatic) == meganeura::checks::all;
    if (MEGANEURA_HEADER_ONLY && !checked) std::printf("and this unit's NDEBUG decided for the other\n");
    return 0;
  }
}
