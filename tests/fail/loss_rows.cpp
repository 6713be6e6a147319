// SPDX-License-Identifier: MIT
// A loss that is a number for each row.
// expect: meganeura: loss<module, inputs...>: a trainer minimises one f32 number
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
#define REDUCED mn::mean<1>
#else
#define REDUCED mn::mean
#endif

struct distance {
  static constexpr auto forward(mn::value auto y, mn::value auto wanted) { return REDUCED(mn::abs(y - wanted)); }
};
struct network {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"y", 3>(x); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
using trained = mn::detail::trained<model, mn::loss<distance, mn::target<"wanted">>>;
static_assert(trained::input_index("wanted") == 1);
