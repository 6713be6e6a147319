// SPDX-License-Identifier: MIT
// Sizes come from what is bound: any batch runs, and the last, smaller one of a data set is trained like the others.
#include <meganeura/meganeura.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"out", 1>(mn::tanh(mn::linear<"in", 16>(x))); }
};
inline constexpr mn::dim batch = mn::sym<"batch">;
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<batch, 2>>>;

int main() {
  const mn::device gpu;
  mn::trainer<model, mn::mean_squared_error<"y">> fit(gpu, mn::adam{.learning_rate = 0.02f});
  fit.parameters().init({.seed = 1});
  const std::vector<float> x{0, 0, 0, 1, 1, 0, 1, 1, 0, 1}, y{0, 1, 1, 0, 1};  // five rows, in batches of three
  for (int epoch = 0; epoch < 300; ++epoch) {
    fit.step(mn::bind<"x">(std::span(x).first(6)), mn::bind<"y">(std::span(y).first(3)));
    fit.step(mn::bind<"x">(std::span(x).subspan(6)), mn::bind<"y">(std::span(y).subspan(3)));
  }
  mn::session<model> s(gpu, fit.parameters());
  const std::vector<float> four = s.run(mn::bind<"x">(std::span(x).first(8)));
  const std::vector<float> one = s.run(mn::bind<"x">(std::vector<float>{1, 0}));
  return four.size() == 4 && four[0] < 0.5f && four[3] < 0.5f && one.size() == 1 && one[0] > 0.5f ? 0 : 1;
}
