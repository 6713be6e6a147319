// SPDX-License-Identifier: MIT
// Weights that are made of weights: an adapter, merged when it changes and not in each run.
#include <meganeura/meganeura.hpp>

#include <cstdio>
#include <vector>

namespace mn = meganeura;

struct adapted {
  static constexpr auto forward(mn::value auto x) {
    auto weight = mn::parameter<"weight", mn::dims<64, 32>>;
    auto up = mn::parameter<"lora.up", mn::dims<64, 4>>, down = mn::parameter<"lora.down", mn::dims<4, 32>>;
    return mn::tied_linear(x, weight + mn::matmul(up, down) * mn::constant<0.5f>);
  }
};
using net = mn::model<adapted, mn::input<"x", mn::dtype::f32, mn::dims<8, 32>>>;

int main() {
  const mn::device gpu;
  mn::session<net> s(gpu);
  s.parameters().init({.seed = 1});
  const std::vector<float> x(8 * 32, 1.0f);
  s.parameters().set("lora.up", std::vector<float>(64 * 4, 0.0f));
  const std::vector<float> plain = s.run(mn::bind<"x">(x));
  s.parameters().set("lora.up", std::vector<float>(64 * 4, 0.25f));  // merged again before the next run
  const std::vector<float> merged = s.run(mn::bind<"x">(x));
  const auto& plan = s.program().plan();
  std::printf("%zu dispatches a run, and %zu when parameters change\n", plan.steps.size(), plan.folded.size());
  return plan.steps.size() == 1 && !plan.folded.empty() && plain != merged ? 0 : 1;
}
