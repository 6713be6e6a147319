// SPDX-License-Identifier: MIT
// Two layers of one name, which would silently have one set of weights.
// expect: meganeura: model: two layers of one name would have one set of weights
// expect: shared\(linear<name, out>\(x\)\)
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
constexpr auto second(mn::value auto x) { return mn::linear<"fc", 128>(x); }
#else
constexpr auto second(mn::value auto x) { return mn::shared(mn::linear<"fc", 128>(x)); }
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return second(mn::relu(mn::linear<"fc", 128>(x))); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 128>>>;
static_assert(model::parameter_count == 128 * 128 + 128);
