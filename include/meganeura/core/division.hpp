// SPDX-License-Identifier: MIT
// Division that rounds up.
#pragma once
#include <meganeura/config.hpp>

#include <concepts>
#include <type_traits>

namespace meganeura::inline MEGANEURA_ABI {

/// a / b rounded up, of a >= 0 and b > 0.
template <std::integral Integer>
[[nodiscard]] constexpr Integer ceil_div(Integer a, std::type_identity_t<Integer> b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace meganeura::inline MEGANEURA_ABI
