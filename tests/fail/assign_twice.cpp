// SPDX-License-Identifier: MIT
// A state that two calls assign.
// expect: meganeura: model: a state is assigned twice, and a step gives it one new value
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct counter {
  static constexpr auto forward(mn::value auto x) {
    auto seen = mn::state<"seen", mn::dims<4>>;
    return x | mn::assign(seen, seen + x);
  }
};
struct network {
  static constexpr auto forward(mn::value auto x) {
    auto y = mn::call<"counter", counter>(x);
#ifdef MEGANEURA_EXPECT_FAILURE
    return mn::shared(mn::call<"counter", counter>(y * y));
#else
    return mn::call<"other", counter>(y * y);
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4>>>;
static_assert(model::output == mn::dims<4>);
