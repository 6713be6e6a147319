// SPDX-License-Identifier: MIT
// A result that the model does not have.
// expect: meganeura: the model has neither a result nor a tap of that name
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
#define NAME "hiden"
#else
#define NAME "hidden"
#endif

struct heads {
  static constexpr auto forward(mn::value auto x) {
    auto h = mn::tap<"hidden">(mn::linear<"trunk", 3>(x));
    return mn::results<"y", "z">(h, x);
  }
};
using model = mn::model<heads, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
constexpr int rank = model::result<NAME>.shape.rank;
