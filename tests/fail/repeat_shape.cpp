// SPDX-License-Identifier: MIT
// A repeated module that returns another shape than it takes.
// expect: meganeura: repeat<name, count, module>\(x\): the module must return what it takes
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr int width = 16;
#else
inline constexpr int width = 8;
#endif

struct layer {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"fc", width>(x); }
};
struct stack {
  static constexpr auto forward(mn::value auto x) { return mn::repeat<"layers", 3, layer>(x); }
};
using model = mn::model<stack, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(model::output.rank == 2);
