// SPDX-License-Identifier: MIT
// The one result of a model that has two.
// expect: meganeura: model::output: the model has several results; ask for one of them: model::result<name>
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct heads {
  static constexpr auto forward(mn::value auto x) {
    auto y = mn::linear<"y", 3>(x);
#ifdef MEGANEURA_EXPECT_FAILURE
    return mn::results<"y", "x">(y, x);
#else
    return mn::results<"y">(y);
#endif
  }
};
using model = mn::model<heads, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
constexpr int rank = model::output.rank;
