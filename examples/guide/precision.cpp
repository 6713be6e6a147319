// SPDX-License-Identifier: MIT
// Products as precise as f32, or as TF32 and faster, of the same weights.
#include <meganeura/meganeura.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace mn = meganeura;

struct layers {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"down", 64>(mn::relu(mn::linear<"up", 256>(x))); }
};
using net = mn::model<layers, mn::input<"x", mn::dtype::f32, mn::dims<32, 64>>>;

int main() {
  const mn::device gpu;
  mn::session<net> exact(gpu);
  exact.parameters().init({.seed = 1});
  mn::session<net> fast(gpu, exact.parameters(), {}, {.program = {.precision = mn::precision::fast}});
  const std::vector<float> x(32 * 64, 0.5f), a = exact.run(mn::bind<"x">(x)), b = fast.run(mn::bind<"x">(x));
  float most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::fabs(a[i] - b[i]));
  std::printf("differ by %g at most\n", static_cast<double>(most));
  return most < 1e-2f ? 0 : 1;
}
