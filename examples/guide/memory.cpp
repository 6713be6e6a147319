// SPDX-License-Identifier: MIT
// Training in less memory: what the way back needs is computed again instead of being kept.
#include <meganeura/meganeura.hpp>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace mn = meganeura;

inline constexpr mn::transformer_options block{.width = 32, .heads = 4, .hidden = 64};
struct encoder {
  static constexpr auto forward(mn::value auto x) {
    return mn::linear<"head", 1>(mn::repeat<"blocks", 6, mn::transformer_encoder_layer<block>>(x));
  }
};
using net = mn::model<encoder, mn::input<"x", mn::dtype::f32, mn::dims<4, 64, 32>>>;
using trainer = mn::trainer<net, mn::mean_squared_error<"y">>;

float trained(trainer& run) {
  run.parameters().init({.seed = 1});
  const std::vector<float> x(4 * 64 * 32, 0.5f), y(4 * 64, 1.0f);
  float loss = 0;
  for (int i = 0; i < 3; ++i) loss = run.step(mn::bind<"x">(x), mn::bind<"y">(y)).loss();
  return loss;
}

int main() {
  const mn::device gpu;
  trainer whole(gpu, mn::adam{});
  const std::uint64_t bytes = whole.program().plan().peak_bytes(), budget = bytes * 7 / 10;
  trainer less(gpu, mn::adam{}, {}, {.program = {.plan = {.memory_budget = budget}}});
  const auto& plan = less.program().plan();
  std::printf("%.2f MB, and %.2f with %zu dispatches more\n", 1e-6 * static_cast<double>(bytes),
              1e-6 * static_cast<double>(plan.peak_bytes()), plan.computed_again());
  return plan.peak_bytes() <= budget && trained(whole) == trained(less) ? 0 : 1;  // not one bit is another
}
