// SPDX-License-Identifier: MIT
// Fine-tuning: the trunk stays as it is, the neck learns slowly, and biases and norms do not decay.
#include <meganeura/meganeura.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
    auto trunk = mn::relu(mn::linear<"trunk", 16>(x));
    auto neck = mn::layer_norm<"norm">(mn::linear<"neck", 16>(trunk));
    return mn::linear<"head", 1>(neck);
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 2>>>;

int main() {
  const mn::device gpu;
  mn::training_options options{.frozen = "trunk.*", .no_decay = {"*.bias", "*norm*"}};
  options.groups = {{.names = "neck.*", .rate = 0.1f}};
  mn::trainer<model, mn::mean_squared_error<"y">> fit(gpu, mn::adamw{.learning_rate = 0.02f}, {}, options);
  fit.parameters().init({.seed = 1});
  const std::vector<float> trunk = fit.parameters().get("trunk.weight");
  const std::vector<float> x{0, 0, 0, 1, 1, 0, 1, 1}, y{0, 1, 1, 0};
  const float before = fit.step(mn::bind<"x">(x), mn::bind<"y">(y)).loss();
  for (int step = 0; step < 200; ++step) fit.step(mn::bind<"x">(x), mn::bind<"y">(y));
  const float after = fit.step(mn::bind<"x">(x), mn::bind<"y">(y)).loss();
  return fit.parameters().get("trunk.weight") == trunk && after < 0.1f * before ? 0 : 1;
}
