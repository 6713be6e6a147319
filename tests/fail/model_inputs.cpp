// SPDX-License-Identifier: MIT
// A model whose input stands before its module, and one without an input.
// expect 1: meganeura: model<module, inputs...>: a model is a module and then at least one input
// expect 2: meganeura: model<module, inputs...>: a model is a module and then at least one input
#include <meganeura/meganeura.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"fc", 3>(x); }
};
using x = mn::input<"x", mn::dtype::f32, mn::dims<4, 4>>;
#if MEGANEURA_EXPECT_FAILURE == 1
using model = mn::model<x, network>;
#elif MEGANEURA_EXPECT_FAILURE == 2
using model = mn::model<network>;
#else
using model = mn::model<network, x>;
#endif
void start(const mn::device& gpu) { mn::session<model> made(gpu); }
