// SPDX-License-Identifier: MIT
// A module is a struct with a static forward; a model is a module with named inputs; a session runs it.
#include <meganeura/meganeura.hpp>

namespace mn = meganeura;

struct block {
  static constexpr auto forward(mn::value auto x) { return x + mn::relu(mn::linear<"inner", 8>(x)); }
};
struct network {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"head", 3>(mn::call<"block", block>(x)); }
};
inline constexpr mn::dim batch = mn::sym<"batch">;
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<batch, 8>>>;
static_assert(model::output == mn::dims<batch, 3> && model::parameter_count == 8 * 8 + 8 + 8 * 3 + 3);

int main() {
  const mn::device gpu;
  mn::session<model> s(gpu, {{"batch", 2}});
  s.parameters().init({.seed = 1});  // "block.inner.weight", "block.inner.bias", "head.weight", ...
  const std::vector<float> y = s.run(mn::bind<"x">(std::vector<float>(2 * 8, 0.5f)));
  return y.size() == 2 * 3 && y[0] == y[3] ? 0 : 1;
}
