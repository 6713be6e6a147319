// SPDX-License-Identifier: MIT
// A model without inputs.
// expect: meganeura: model<module, inputs...>: a model needs an input
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) { return x * x; }
};
#ifdef MEGANEURA_EXPECT_FAILURE
using model = mn::model<network>;
#else
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4>>>;
#endif
constexpr std::size_t size = sizeof(model);
