// SPDX-License-Identifier: MIT
// The name of a call of typed values as an argument.
// expect: meganeura: call<module>\(name, x...\): of values of types the name is a part as well
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct inner {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"fc", 3>(x); }
};
struct network {
  static constexpr auto forward(mn::value auto x) {
#ifdef MEGANEURA_EXPECT_FAILURE
    return mn::call<inner>("inner", x);
#else
    return mn::call<"inner", inner>(x);
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 4>>>;
static_assert(model::output.rank <= 2);
