// SPDX-License-Identifier: MIT
// Floats of 16 bits: a model of f16 with weights that an f32 one has learnt through a product of f16.
#include <meganeura/meganeura.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace mn = meganeura;

struct mixed {  // the product reads f16, what is learnt is f32
  static constexpr auto forward(mn::value auto x) {
    constexpr auto weight = mn::parameter<"fc.weight", mn::dims<8, 16>>;
    return mn::cast<mn::dtype::f32>(
        mn::matmul(mn::cast<mn::dtype::f16>(x), mn::transpose(mn::cast<mn::dtype::f16>(weight))));
  }
};
using learner = mn::model<mixed, mn::input<"x", mn::dtype::f32, mn::dims<32, 16>>>;

struct layers {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"fc", 8, mn::no_bias>(x); }
};
using half = mn::model<layers, mn::input<"x", mn::dtype::f16, mn::dims<32, 16>>>;

int main() {
  const mn::device gpu;
  std::vector<float> x(32 * 16), wanted(32 * 8);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 41) / 20 - 1;
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = x[i / 8 * 16 + i % 8];
  mn::trainer<learner, mn::mean_squared_error<"wanted">> run(gpu, mn::adam{.learning_rate = 0.02f});
  run.parameters().init({.seed = 1});
  for (int step = 0; step < 300; ++step) run.step(mn::bind<"x">(x), mn::bind<"wanted">(wanted));

  mn::session<half> served(gpu);
  served.parameters().set("fc.weight", run.parameters().get("fc.weight"));  // rounded to f16
  const std::vector<float> found = served.run(mn::bind<"x">(x));
  float most = 0;
  for (std::size_t i = 0; i < found.size(); ++i) most = std::max(most, std::fabs(found[i] - wanted[i]));
  std::printf("off by %g at most\n", static_cast<double>(most));
  return most < 0.1f ? 0 : 1;
}
