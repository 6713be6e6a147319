// SPDX-License-Identifier: MIT
// More rows of a table than it has for all that a symbol may be worth.
// expect: meganeura: slice<axis, start, count, step>\(x\): the elements must lie within the axis, whatever its symbols
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr mn::dim sequence = mn::sym<"sequence", 33>;
#else
inline constexpr mn::dim sequence = mn::sym<"sequence", 32>;
#endif

constexpr auto positions = mn::slice<0, 0, sequence>(mn::parameter<"table", mn::dims<32, 8>>);
static_assert(decltype(positions)::shape.rank == 2);
