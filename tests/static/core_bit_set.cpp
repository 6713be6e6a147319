// SPDX-License-Identifier: MIT
// Sets of small numbers, across the words they lie in.
#include <meganeura/core/bit_set.hpp>

namespace {

using meganeura::bit_set;

template <std::size_t Count>
constexpr int size_of_set(const bit_set<Count>& set) {
  int found = 0;
  for (std::size_t i = 0; i < Count; ++i) found += set[i] ? 1 : 0;
  return found;
}

// a number is in the set of it alone, in whichever word
template <std::size_t Count>
constexpr bool holds_each_alone() {
  for (std::size_t i = 0; i < Count; ++i) {
    const bit_set<Count> one = bit_set<Count>::of(i);
    if (!one[i] || size_of_set(one) != 1) return false;
  }
  return true;
}
static_assert(holds_each_alone<1>() && holds_each_alone<64>() && holds_each_alone<65>() && holds_each_alone<130>());
static_assert(size_of_set(bit_set<70>()) == 0 && size_of_set(bit_set<70>::all()) == 70);
static_assert(sizeof(bit_set<64>) == 8 && sizeof(bit_set<65>) == 16);

// union, intersection, difference
constexpr bit_set<70> low = bit_set<70>::of(3), high = bit_set<70>::of(69), both = low | high;
static_assert(both[3] && both[69] && size_of_set(both) == 2);
static_assert((both & high) == high && (low & high) == bit_set<70>());
constexpr bit_set<70> without(bit_set<70> set, const bit_set<70>& others) { return set -= others; }
static_assert(without(both, low) == high && without(bit_set<70>::all(), both)[68]);

}  // namespace
