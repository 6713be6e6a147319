// SPDX-License-Identifier: MIT
// Second translation unit of a consumer: the same headers again must link without duplicates, and an error of this
// unit's mode is one of the other's.
#ifdef CONSUMER_SINGLE_INCLUDE
#include <meganeura.hpp>
#else
#include <meganeura/meganeura.hpp>
#endif

[[gnu::visibility("default")]] void throw_version();
void throw_version() {
  meganeura::fail(meganeura::error_category::internal, "{}.{}.{}", MEGANEURA_VERSION_MAJOR, MEGANEURA_VERSION_MINOR,
                  MEGANEURA_VERSION_PATCH);
}
