// SPDX-License-Identifier: MIT
// A name that is given another value, as tensors of other libraries are.
// expect: meganeura: h = f\(h\): a value's type is what computes it, so each result has a name of its own: auto next =
// f\(h\)
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
    auto h = x;
#ifdef MEGANEURA_EXPECT_FAILURE
    h = mn::linear<"b", 4>(h);
    return h;
#else
    auto next = mn::linear<"b", 4>(h);
    return next;
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 4>>>;
static_assert(model::output == mn::dims<4, 4>);
