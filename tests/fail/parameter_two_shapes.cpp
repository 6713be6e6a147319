// SPDX-License-Identifier: MIT
// One parameter name with two shapes, reached by different paths.
// expect: meganeura: model: one name, two shapes
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr int width = 9;
#else
inline constexpr int width = 8;
#endif

struct tied {
  static constexpr auto forward(mn::value auto x) {
    auto y = mn::linear<"layer", 8, mn::no_bias>(x);
    return mn::tied_linear(mn::slice<-1, 0, 8>(y), mn::shared(mn::parameter<"layer.weight", mn::dims<width, 8>>));
  }
};
using model = mn::model<tied, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(model::parameter_count == 64);
