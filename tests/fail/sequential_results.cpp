// SPDX-License-Identifier: MIT
// A module in the middle of a row that returns two values.
// expect: meganeura: sequential<name, modules...>\(x\): only the last module may return several values
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct first {
  static constexpr auto forward(mn::value auto x) {
#ifdef MEGANEURA_EXPECT_FAILURE
    return mn::results<"y", "x">(mn::linear<"y", 3>(x), x);
#else
    return mn::linear<"y", 3>(x);
#endif
  }
};
struct second {
  static constexpr auto forward(mn::value auto x) { return mn::relu(x); }
};
struct row {
  static constexpr auto forward(mn::value auto x) { return mn::sequential<"layers", first, second>(x); }
};
using model = mn::model<row, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(model::input_count == 1);
