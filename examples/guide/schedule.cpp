// SPDX-License-Identifier: MIT
// The learning rate rises and falls, gradients are held within a norm, and the weights are averaged.
#include <meganeura/meganeura.hpp>

#include <cstdio>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"out", 1>(mn::tanh(mn::linear<"hidden", 8>(x))); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 2>>>;

int main() {
  const mn::device gpu;
  const std::vector<float> x{0, 0, 0, 1, 1, 0, 1, 1}, y{0, 1, 1, 0};
  mn::training_options options{.clip_norm = 1, .schedule = mn::warmup_cosine(20, 400), .ema = 0.98f};
  mn::trainer<model, mn::mean_squared_error<"y">> fit(gpu, mn::rmsprop{.learning_rate = 0.01f}, {}, options);
  fit.parameters().init({.seed = 1});
  while (fit.steps() < 400) {
    const auto step = fit.step(mn::bind<"x">(x), mn::bind<"y">(y));
    if (fit.steps() % 100 == 0) std::printf("loss %g, norm %g\n", step.loss(), step.value("grad_norm"));
  }
  const float averaged = fit.evaluate_averages(mn::bind<"x">(x), mn::bind<"y">(y));
  mn::session<model> s(gpu, fit.averages());
  const std::vector<float> found = s.run(mn::bind<"x">(x));
  return averaged < 0.01f && found[1] > 0.9f && found[3] < 0.1f && fit.learning_rate() == 0 ? 0 : 1;
}
