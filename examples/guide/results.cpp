// SPDX-License-Identifier: MIT
// Two inputs and two results, by name.
#include <meganeura/meganeura.hpp>

namespace mn = meganeura;

struct two_heads {
  static constexpr auto forward(mn::value auto x, mn::value auto condition) {
    auto h = mn::relu(mn::linear<"trunk", 16>(mn::concat<-1>(x, condition)));
    return mn::results<"distance", "label">(mn::linear<"distance", 1>(h), mn::linear<"label", 10>(h));
  }
};
inline constexpr mn::dim batch = mn::sym<"batch">;
using model = mn::model<two_heads, mn::input<"x", mn::dtype::f32, mn::dims<batch, 4>>,
                        mn::input<"condition", mn::dtype::f32, mn::dims<batch, 2>>>;
static_assert(model::result<"label">.shape == mn::dims<batch, 10>);

int main() {
  const mn::device gpu;
  mn::session<model> s(gpu);
  s.parameters().init({.seed = 1});
  const std::vector<float> x(3 * 4, 0.5f), c(3 * 2, 1.0f);
  const auto [distance, label] = s.run(mn::bind<"x">(x), mn::bind<"condition">(c));
  const auto both = s.run(mn::bind<"x">(x), mn::bind<"condition">(c));
  return both.get<"label">() == label && label.size() == 3 * 10 && distance.size() == 3 ? 0 : 1;
}
