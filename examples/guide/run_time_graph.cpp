// SPDX-License-Identifier: MIT
// A graph whose layers and sizes are known when the program runs, with the functions that models are written with.
#include <meganeura/meganeura.hpp>

namespace mn = meganeura;

// The widths of layers may come from a file or from the command line.
mn::graph perceptron(std::int64_t batch, const std::vector<std::int64_t>& widths) {
  mn::graph g;
  mn::node_value x(g, g.input("x", mn::dtype::f32, {batch, widths[0]}));
  for (std::size_t i = 1; i < widths.size(); ++i) {
    x = mn::linear("layers." + std::to_string(i), x, widths[i]);
    if (i + 1 < widths.size()) x = mn::relu(x);
  }
  g.add_output("y", mn::softmax(x, -1));
  return g;
}

int main() {
  const mn::device gpu;
  const std::vector<std::int64_t> widths{4, 16, 16, 3};
  mn::inference fixed(gpu, perceptron(2, widths));
  fixed.parameters().init({.seed = 1});
  const std::vector<float> two = fixed.run({{"x", std::vector<float>(2 * 4, 0.5f)}});

  // Any batch: the graph is made again for a new one.
  const mn::open_sizes sizes({{"x", mn::dims<mn::sym<"batch">, 4>}});
  const auto make = [&](const mn::symbol_extents& at) { return perceptron(at["batch"], widths); };
  mn::inference any(gpu, {sizes, make}, {}, fixed.parameters());
  const std::vector<float> five = any.run({{"x", std::vector<float>(5 * 4, 0.5f)}});
  return two.size() == 2 * 3 && five.size() == 5 * 3 && two[0] == five[0] ? 0 : 1;
}
