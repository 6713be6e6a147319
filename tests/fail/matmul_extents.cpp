// SPDX-License-Identifier: MIT
// Inner extents of a product.
// expect: meganeura: matmul\(a, b\): the last extent of a must equal the last but one of b
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr int inner = 6;
#else
inline constexpr int inner = 5;
#endif

struct product {
  static constexpr auto forward(mn::value auto a, mn::value auto b) { return mn::matmul(a, b); }
};
using model = mn::model<product, mn::input<"a", mn::dtype::f32, mn::dims<4, 5>>,
                        mn::input<"b", mn::dtype::f32, mn::dims<inner, 3>>>;
static_assert(model::output.rank == 2);
