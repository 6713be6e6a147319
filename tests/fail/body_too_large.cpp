// SPDX-License-Identifier: MIT
// A module body over the limit.
// expect: meganeura: forward\(x\): the module's body has more than 96 nodes; move a part of it
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct chain {
  template <int Steps>
  static constexpr auto steps(mn::value auto x) {
    if constexpr (Steps == 0) {
      return x;
    } else {
      return steps<Steps - 1>(mn::tanh(x));
    }
  }
#ifdef MEGANEURA_EXPECT_FAILURE
  static constexpr auto forward(mn::value auto x) { return steps<97>(x); }
#else
  static constexpr auto forward(mn::value auto x) { return steps<95>(x); }
#endif
};
using model = mn::model<chain, mn::input<"x", mn::dtype::f32, mn::dims<4>>>;
static_assert(model::output.rank == 1);
