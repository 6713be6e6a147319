// SPDX-License-Identifier: MIT
// Integers scattered: the same numbers on every device, from counters instead of a stream.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/bits.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace layers {

// source: C. Wellons, "Prospecting for hash functions" (lowbias32), behind a step that moves 0.
struct hash {
  static constexpr auto forward(value auto x) {
    const auto word = [&](double bits) { return x.added(detail::constant_spec(bits, dtype::u32)); };
    const auto mixed = [&](value auto y, double by) { return meganeura::bitwise_xor(y, shift_right(y, word(by))); };
    const auto first = mixed(cast(x, dtype::u32) + word(0x9e3779b9u), 16) * word(0x7feb352du);
    return mixed(mixed(first, 15) * word(0x846ca68bu), 16);
  }
  static constexpr auto forward(value auto x, value auto y) { return forward(forward(x) + cast(y, dtype::u32)); }
};

// The upper 24 bits, which f32 holds.
struct noise {
  static constexpr auto forward(value auto... counters) {
    const auto bits = hash::forward(counters...);
    return cast(shift_right(bits, bits.added(detail::constant_spec(8, dtype::u32))), dtype::f32) * 0x1p-24;
  }
};

}  // namespace layers

/// 32 bits that look random, each of x's bits changing half of them; no two x have the same. Of two, hash(hash(x) + y):
/// hash(position, seed). Not for secrets. shapes: [..] -> [..]. dtypes: integers -> u32. gradient: none flows.
/// errors: "x must be integers", of two as x + y, which may differ in sign.
template <value A>
[[nodiscard]] constexpr auto hash(A x) {
  MEGANEURA_EXPECT(is_integer(x.facts().type), "meganeura: hash(x): x must be integers; cast it", x)
  return detail::layer<layers::hash>(fixed_text<"">{}, x);
}
template <value A, value B>
[[nodiscard]] constexpr auto hash(A x, B y) {
  MEGANEURA_EXPECT((is_integer(x.facts().type) && is_integer(y.facts().type)),
                   "meganeura: hash(x, y): operands must be integers; cast them", x, y)
  MEGANEURA_EXPECT(detail::mismatch(x, y).agrees(), "meganeura: hash(x, y): extents must be equal or 1", x, y)
  return detail::layer<layers::hash>(fixed_text<"">{}, x, y);
}

/// Numbers from 0 to 1, without 1, that look random, from counters: noise(position), or noise(position, seed). 2^24
/// different ones. shapes: [..] -> [..]. dtypes: integers -> f32. gradient: none flows. errors: as hash.
template <value A>
[[nodiscard]] constexpr auto noise(A x) {
  MEGANEURA_EXPECT(is_integer(x.facts().type), "meganeura: noise(x): x must be integers; cast it", x)
  return detail::layer<layers::noise>(fixed_text<"">{}, x);
}
template <value A, value B>
[[nodiscard]] constexpr auto noise(A x, B y) {
  MEGANEURA_EXPECT((is_integer(x.facts().type) && is_integer(y.facts().type)),
                   "meganeura: noise(x, y): operands must be integers; cast them", x, y)
  MEGANEURA_EXPECT(detail::mismatch(x, y).agrees(), "meganeura: noise(x, y): extents must be equal or 1", x, y)
  return detail::layer<layers::noise>(fixed_text<"">{}, x, y);
}

}  // namespace meganeura::inline MEGANEURA_ABI
