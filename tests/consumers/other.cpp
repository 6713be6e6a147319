// SPDX-License-Identifier: MIT
// Second translation unit of a consumer: the same headers again must link without duplicates.
#ifdef CONSUMER_SINGLE_INCLUDE
#include <meganeura.hpp>
#else
#include <meganeura/meganeura.hpp>
#endif

std::string other_version();
std::string other_version() {
  return fmt::format("{}.{}.{}", MEGANEURA_VERSION_MAJOR, MEGANEURA_VERSION_MINOR, MEGANEURA_VERSION_PATCH);
}
