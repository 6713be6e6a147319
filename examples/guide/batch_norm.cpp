// SPDX-License-Identifier: MIT
// State beside the parameters: batch norm's running statistics, which training assigns and evaluation reads.
#include <meganeura/meganeura.hpp>

#include <cmath>

namespace mn = meganeura;

template <int Channels>
struct my_batch_norm {  // mn::batch_norm<"norm">(x) is this, with an unbiased variance, weight and bias
  static constexpr auto forward(mn::value auto x) {
    auto mean = mn::state<"running_mean", mn::dims<Channels>>;
    auto variance = mn::state<"running_var", mn::dims<Channels>, mn::init::ones>;
    return mn::when_training(
        x,
        [&] {
          auto now = mn::mean<0>(x);
          auto spread = mn::mean<0>((x - now) * (x - now));
          auto y = (x - now) * mn::rsqrt(spread + eps);
          return y | mn::assign(mean, mean * keep + now * move) | mn::assign(variance, variance * keep + spread * move);
        },
        [&] { return (x - mean) * mn::rsqrt(variance + eps); });
  }
  static constexpr auto keep = mn::constant<0.9f>;
  static constexpr auto move = mn::constant<0.1f>;
  static constexpr auto eps = mn::constant<1e-5f>;
};

struct network {
  static constexpr auto forward(mn::value auto x) {
    return mn::linear<"out", 1>(mn::call<"norm", my_batch_norm<2>>(x));
  }
};
inline constexpr mn::dim batch = mn::sym<"batch">;
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<batch, 2>>>;

int main() {
  const mn::device gpu;
  mn::trainer<model, mn::mean_squared_error<"y">> fit(gpu, mn::adam{.learning_rate = 0.05f});
  fit.parameters().init({.seed = 1});
  std::vector<float> x, y;  // columns of mean 10 and 0 and of deviation 0.7 and 7
  for (int i = 0; i < 64; ++i) {
    const auto angle = static_cast<float>(i) * 0.7f;
    x.insert(x.end(), {10 + std::sin(angle), 10 * std::cos(angle)});
    y.push_back(std::sin(angle));
  }
  for (int step = 0; step < 200; ++step) fit.step(mn::bind<"x">(x), mn::bind<"y">(y));
  const std::vector<float> mean = fit.parameters().get("norm.running_mean");
  mn::session<model> s(gpu, fit.parameters());
  const float top = s.run(mn::bind<"x">(std::vector<float>{11, 0}))[0];  // one row has no statistics of its own
  return std::abs(mean[0] - 10) < 0.2f && std::abs(mean[1]) < 0.5f && std::abs(top - 1) < 0.1f ? 0 : 1;
}
