// SPDX-License-Identifier: MIT
// Any value inside of a model, read by name.
#include <meganeura/meganeura.hpp>

namespace mn = meganeura;

struct layer {
  static constexpr auto forward(mn::value auto x) { return mn::tap<"hidden">(mn::relu(mn::linear<"fc", 4>(x))); }
};
struct network {
  static constexpr auto forward(mn::value auto x) { return mn::repeat<"layers", 3, layer>(x); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<mn::sym<"batch">, 4>>>;

int main() {
  const mn::device gpu;
  mn::session<model> s(gpu, {}, {.program = {.taps = "layers.*.hidden"}});
  s.parameters().init({.seed = 1});
  const std::vector<float> y = s.run(mn::bind<"x">(std::vector<float>(2 * 4, 1.0f)));
  const std::vector<float> hidden = s.read<"layers.1.hidden">(), again = s.read("layers.1.hidden");
  return hidden.size() == 2 * 4 && hidden == again && s.read<"layers.2.hidden">() == y ? 0 : 1;
}
