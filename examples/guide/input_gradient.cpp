// SPDX-License-Identifier: MIT
// What a result would change by, were an input changed: gradients of inputs.
#include <meganeura/meganeura.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x, mn::value auto shift) {
    return mn::results<"score", "hidden">(mn::sum<1>(x * x + shift), x);
  }
};
inline constexpr mn::dim batch = mn::sym<"batch">;
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<batch, 3>>,
                        mn::input<"shift", mn::dtype::f32, mn::dims<3>>>;

int main() {
  const mn::device gpu;
  const std::vector<float> x{1, 2, 3, -1, -2, -3}, shift(3, 5.0f);
  mn::gradient<model, mn::of<"score">, mn::wrt<"x", "shift">> slope(gpu);
  const auto [of_x, of_shift] = slope.run(mn::bind<"x">(x), mn::bind<"shift">(shift));
  return of_x == std::vector<float>{2, 4, 6, -2, -4, -6} && of_shift == std::vector<float>{2, 2, 2} ? 0 : 1;
}
