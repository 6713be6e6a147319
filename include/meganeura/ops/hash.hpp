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
    const auto word = [&](double bits) { return detail::number_of(x, bits, dtype::u32); };
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
    return cast(shift_right(bits, detail::number_of(bits, 8, dtype::u32)), dtype::f32) * 0x1p-24;
  }
};

}  // namespace layers

/// 32 bits that look random, each of x's bits changing half of them; no two x have the same. Of two, hash(hash(x) + y):
/// hash(position, seed). Not for secrets. shapes: [..] -> [..]. dtypes: integers -> u32. gradient: none flows.
/// errors: "operands must be integers", of two as x + y, which may differ in sign.
template <value A, value... B>
  requires(sizeof...(B) <= 1)
[[nodiscard]] constexpr auto hash(A x, B... seed) {
  MEGANEURA_EXPECT((is_integer(x.facts().type) && ... && is_integer(seed.facts().type)),
                   "meganeura: hash(x, y): operands must be integers; cast them", x, seed...)
  MEGANEURA_EXPECT((true && ... && detail::mismatch(x, seed).agrees()),
                   "meganeura: hash(x, y): extents must be equal or 1", x, seed...)
  return detail::layer<layers::hash>(fixed_text<"">{}, x, seed...);
}

/// Numbers from 0 to 1, without 1, that look random, from counters: noise(position), or noise(position, seed). 2^24
/// different ones. shapes: [..] -> [..]. dtypes: integers -> f32. gradient: none flows. errors: as hash.
template <value A, value... B>
  requires(sizeof...(B) <= 1)
[[nodiscard]] constexpr auto noise(A x, B... seed) {
  MEGANEURA_EXPECT((is_integer(x.facts().type) && ... && is_integer(seed.facts().type)),
                   "meganeura: noise(x, y): operands must be integers; cast them", x, seed...)
  MEGANEURA_EXPECT((true && ... && detail::mismatch(x, seed).agrees()),
                   "meganeura: noise(x, y): extents must be equal or 1", x, seed...)
  return detail::layer<layers::noise>(fixed_text<"">{}, x, seed...);
}

}  // namespace meganeura::inline MEGANEURA_ABI
