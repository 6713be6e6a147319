// SPDX-License-Identifier: MIT
// The sentence of an overflow.
#pragma once
#include <meganeura/core/checked.hpp>
#include <meganeura/core/error.hpp>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE void checked_int::refuse(std::uint64_t value) {
  fail(error_category::invalid_argument, "a size of {} is more than 63 bits; choose smaller extents", value);
}

MEGANEURA_INLINE void checked_int::refuse(char operation, std::int64_t a, std::int64_t b) {
  fail(error_category::invalid_argument, "a size of {} {} {} does not fit into 64 bits; choose smaller extents", a,
       operation, b);
}

}  // namespace meganeura::inline MEGANEURA_ABI
