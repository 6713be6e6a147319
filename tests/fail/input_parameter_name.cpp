// SPDX-License-Identifier: MIT
// A parameter of the model that is called as its input.
// expect: meganeura: model: an input and a parameter or state have one name; give each a name of its own
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct shifted {
  static constexpr auto forward(mn::value auto x) {
#ifdef MEGANEURA_EXPECT_FAILURE
    return x + mn::parameter<"x", mn::dims<4>>;
#else
    return x + mn::parameter<"shift", mn::dims<4>>;
#endif
  }
};
using model = mn::model<shifted, mn::input<"x", mn::dtype::f32, mn::dims<2, 4>>>;
static_assert(model::input_count == 1);
