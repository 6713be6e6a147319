// SPDX-License-Identifier: MIT
// Labels with the name of the model's input.
// expect: meganeura: loss<module, inputs...>: the model has an input of that name, of another dtype or shape
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
#define NAME "x"
#else
#define NAME "label"
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"y", 3>(x); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
using trained = mn::detail::trained<model, mn::cross_entropy<NAME>>;
static_assert(trained::input_index(NAME) >= 0);
