// SPDX-License-Identifier: MIT
// A sum of two widths.
// expect: meganeura: a \+ b: extents must be equal or 1
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr int width = 577;
#else
inline constexpr int width = 576;
#endif

struct residual {
  static constexpr auto forward(mn::value auto x) { return x + mn::linear<"head", width>(x); }
};
using model = mn::model<residual, mn::input<"x", mn::dtype::f32, mn::dims<mn::sym<"batch">, 576>>>;
static_assert(model::output.rank == 2);
