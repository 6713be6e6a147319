// SPDX-License-Identifier: MIT
// An evaluation of a model that has a result "loss" of its own.
// expect: meganeura: trainer.evaluate\(..\): the model has a result .*, which is what an evaluation calls the number
#include <meganeura/runtime/trainer.hpp>

#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
#define NAME "loss"
#else
#define NAME "penalty"
#endif

struct heads {
  static constexpr auto forward(mn::value auto x) {
    auto y = mn::linear<"y", 3>(x);
    return mn::results<"y", NAME>(y, mn::mean(y * y));
  }
};
struct both {
  static constexpr auto forward(mn::value auto y, mn::value auto penalty, mn::value auto label) {
    return mn::cross_entropy_loss(y, label) + penalty;
  }
};
using model = mn::model<heads, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;

float evaluated(mn::trainer<model, mn::loss<both, mn::labels<"label">>>& fit) { return fit.evaluate(); }
