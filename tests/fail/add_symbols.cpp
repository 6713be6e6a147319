// SPDX-License-Identifier: MIT
// Batch and sequence are both unknown and still not the same.
// expect: meganeura: a \* b: extents must be equal or 1
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr mn::dim rows = mn::sym<"sequence">;
#else
inline constexpr mn::dim rows = mn::sym<"batch">;
#endif

struct product {
  static constexpr auto forward(mn::value auto a, mn::value auto b) { return a * b; }
};
using model = mn::model<product, mn::input<"a", mn::dtype::f32, mn::dims<mn::sym<"batch">, 8>>,
                        mn::input<"b", mn::dtype::f32, mn::dims<rows, 8>>>;
static_assert(model::output.rank == 2);
