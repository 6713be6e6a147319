// SPDX-License-Identifier: MIT
// A trainer is given the module of a loss instead of a loss.
// expect: meganeura: trainer<model, loss>: a loss is cross_entropy<.*loss<module, inputs...>
#include <meganeura/meganeura.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"fc", 3>(x); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 4>>>;
struct difference {
  static constexpr auto forward(mn::value auto a, mn::value auto b) { return mn::mean(mn::abs(a - b)); }
};
#ifdef MEGANEURA_EXPECT_FAILURE
using loss = difference;
#else
using loss = mn::loss<difference, mn::target<"y">>;
#endif
void start(const mn::device& gpu) { mn::trainer<model, loss> made(gpu, mn::sgd{}); }
