// SPDX-License-Identifier: MIT
// A stable sort of few elements that needs no memory: std::stable_sort asks for some.
#pragma once
#include <meganeura/config.hpp>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI {

/// As std::stable_sort(first, last, before); n^2 moves in the worst case.
template <class Iterator, class Before>
void insertion_sort(Iterator first, Iterator last, const Before& before) {
  for (Iterator next = first; next != last; ++next)
    std::rotate(std::upper_bound(first, next, *next, before), next, next + 1);
}

}  // namespace meganeura::inline MEGANEURA_ABI
