// SPDX-License-Identifier: MIT
// Backwards of too few gradients and of another shape, forwards of several values, of integers and of nothing.
// expect 1: meganeura: custom_gradient\(forward, backward, x...\): backward\(g, y, x...\) must return one gradient
// expect 1: one_gradient_each<2, 1>
// expect 2: meganeura: custom_gradient\(forward, backward, x...\): what backward returns for an operand must have its
// expect 3: meganeura: custom_gradient\(forward, backward, x...\): forward must return one value
// expect 4: meganeura: custom_gradient\(forward, backward, x...\): forward must return floats
// expect 5: meganeura: custom_gradient\(forward, backward, x...\): there is no operand x
// bytes: 4100
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
#if MEGANEURA_EXPECT_FAILURE == 3
    return mn::custom_gradient([](auto a) { return mn::results<"a", "b">(a, a); }, [](auto g, auto, auto) { return g; },
                               x);
#elif MEGANEURA_EXPECT_FAILURE == 4
    return mn::custom_gradient([](auto a) { return mn::cast<mn::dtype::i32>(a); }, [](auto g, auto, auto) { return g; },
                               x);
#elif MEGANEURA_EXPECT_FAILURE == 5
    return x + mn::custom_gradient([] { return mn::constant<1.0f>; }, [](auto g, auto) { return g; });
#else
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
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<3, 4>>>;
static_assert(model::output.rank == 2);
