// SPDX-License-Identifier: MIT
// Backwards of too few gradients and of another shape.
// expect 1: meganeura: custom_gradient\(forward, backward, x...\): backward\(g, y, x...\) must return one gradient
// expect 1: one_gradient_each<2, 1>
// expect 2: meganeura: custom_gradient\(forward, backward, x...\): what backward returns for an operand must have its
// bytes: 3400
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
    auto scale = mn::parameter<"scale", mn::dims<4>>;
    return mn::custom_gradient([](auto a, auto s) { return a * s; },
                               [](auto g, auto, auto a, auto s) {
#if !defined MEGANEURA_EXPECT_FAILURE
                                 return mn::results<"a", "s">(g * s, mn::sum<0>(g * a));
#elif MEGANEURA_EXPECT_FAILURE == 1
                                 return g * s + a;
#else
                                 return mn::results<"a", "s">(g * s, g * a);
#endif
                               },
                               x, scale);
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<3, 4>>>;
static_assert(model::output == mn::dims<3, 4>);
