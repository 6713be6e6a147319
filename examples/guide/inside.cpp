// SPDX-License-Identifier: MIT
// What a model and a program are made of, how its weights begin, and what its build took.
#include <meganeura/meganeura.hpp>

#include <cstdio>
#include <fstream>
#include <string>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
    constexpr mn::linear_options he{.weight = mn::init::kaiming_normal(), .bias_begin = mn::init::zeros};
    return mn::linear<"out", 2>(mn::relu(mn::linear<"in", 16, he>(x)));
  }
};
inline constexpr mn::dim rows = mn::sym<"rows", 48>;  // at most 48
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<rows, 4>>>;

void write(const char* path, const std::string& text) { std::ofstream(path) << text; }

int main() {
  std::puts(to_text(mn::summary<model>({{"rows", 32}})).c_str());  // modules, shapes, parameters, flops; no device
  const mn::device gpu;
  mn::session<model> s(gpu, {}, {.program = {.optimize = {.explain = true}, .checks = mn::checks::all}});
  s.parameters().init({.seed = 1});
  s.prepare({{"rows", 32}});  // built now: the first run does not wait
  const std::vector<float> y = s.run(mn::bind<"x">(std::vector<float>(32 * 4, 0.5f)));
  std::puts(to_text(s.program().times()).c_str());  // of the build
  std::puts(s.program().report().explain.c_str());  // of each kernel what, why and what else
  write("before.dot", to_dot(mn::lower<model>({{"rows", 32}})));
  write("after.dot", to_dot(s.program().plan().implementation));
  return y.size() == 64 && s.parameters().get("in.bias") == std::vector<float>(16) ? 0 : 1;
}
