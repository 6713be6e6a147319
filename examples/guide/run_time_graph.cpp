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

// A loss is the number of a node, so it is asked for before the graph is moved.
mn::graph_with_loss classifier(std::int64_t batch, const std::vector<std::int64_t>& widths, mn::run_mode mode) {
  mn::graph g(mode);
  mn::node_value x(g, g.input("x", mn::dtype::f32, {batch, widths[0]}));
  x = mn::relu(mn::batch_norm("norm", mn::linear("in", x, widths[1])));
  const mn::node_value label(g, g.input("label", mn::dtype::i32, {batch}));
  const mn::node_id loss = mn::cross_entropy_loss(mn::linear("out", x, widths[2]), label);
  return {std::move(g), loss};
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
  const mn::open_sizes rows({{"x", mn::dims<mn::sym<"batch">, 4>}, {"label", mn::dims<mn::sym<"batch">>}});
  const auto graph_of = [&](const mn::symbol_extents& at, mn::run_mode mode) {
    return classifier(at["batch"], {4, 16, 3}, mode);
  };
  mn::training fit(gpu, {rows, graph_of}, mn::adam{.learning_rate = 0.05f});
  fit.prepare({{"batch", 3}});
  fit.parameters().init({.seed = 1});
  const std::vector<float> points{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
  const std::vector<std::int32_t> classes{0, 1, 2};
  const float before = fit.evaluate({{"x", points}, {"label", classes}});
  for (int i = 0; i < 50; ++i) fit.step({{"x", points}, {"label", classes}});
  const float after = fit.evaluate({{"x", points}, {"label", classes}});
  return two.size() == 2 * 3 && five.size() == 5 * 3 && two[0] == five[0] && after < before / 4 ? 0 : 1;
}
