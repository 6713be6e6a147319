// SPDX-License-Identifier: MIT
// Two inputs of one name, which one binding would feed both.
// expect: meganeura: model: two inputs of one name
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
#define SECOND "x"
#else
#define SECOND "y"
#endif

struct network {
  static constexpr auto forward(mn::value auto x, mn::value auto y) { return x * y; }
};
using model =
    mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4>>, mn::input<SECOND, mn::dtype::f32, mn::dims<4>>>;
static_assert(model::input_count == 2);
