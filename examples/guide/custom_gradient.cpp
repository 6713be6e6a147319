// SPDX-License-Identifier: MIT
// Weights of one bit: the sign forward, and backward as if it were not there where the weight is small.
#include <meganeura/meganeura.hpp>

#include <array>
#include <vector>

namespace mn = meganeura;

constexpr auto binary(mn::value auto x) {
  auto forward = [](mn::value auto a) {
    return mn::select(mn::less(a, mn::constant<0.0f>), mn::constant<-1.0f>, mn::constant<1.0f>);
  };
  auto backward = [](mn::value auto g, mn::value auto, mn::value auto a) {
    return mn::select(mn::less(mn::abs(a), mn::constant<1.0f>), g, mn::constant<0.0f>);
  };
  return mn::custom_gradient(forward, backward, x);
}
struct network {
  static constexpr auto forward(mn::value auto x) {
    auto weight = mn::parameter<"weight", mn::dims<4>>;
    return mn::sum<-1>(x * binary(weight));
  }
};
inline constexpr mn::dim batch = mn::sym<"batch">;
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<batch, 4>>>;

int main() {
  const mn::device gpu;
  mn::trainer<model, mn::mean_squared_error<"y">> fit(gpu, mn::sgd{.learning_rate = 0.1f});
  fit.parameters().init({.seed = 1});
  // y = x0 - x1 + x2 - x3
  const std::vector<float> x{1, 2, 3, 4, -1, 2, 0, 1, 2, -1, 1, 1, 0, 1, -2, 1}, y{-2, -4, 3, -4};
  for (int i = 0; i < 50; ++i) fit.step(mn::bind<"x">(x), mn::bind<"y">(y));
  mn::session<model> s(gpu, fit.parameters());
  return s.run(mn::bind<"x">(x)) == y ? 0 : 1;
}
