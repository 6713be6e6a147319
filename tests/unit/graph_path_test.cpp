// SPDX-License-Identifier: MIT
// Provenance: the module that made a node, from the graph through gradients and fusion to the plan.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/plan/plan.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <set>
#include <vector>

namespace {

using namespace meganeura;

TEST(graph_path, scopes_nest_and_end) {
  graph g;
  node_id outside, inner, next, after;
  {
    const graph::scope layers(g, "layers.7");
    outside = g.input("x", dtype::f32, {4});
    {
      const graph::scope mlp(g, "mlp");
      inner = g.map(scalar_op::exp, {outside});
    }
    const graph::scope nothing(g, "");
    next = g.map(scalar_op::log, {inner});
  }
  after = g.map(scalar_op::abs, {next});
  EXPECT_EQ(g.path_of(outside), "layers.7");
  EXPECT_EQ(g.path_of(inner), "layers.7.mlp");
  EXPECT_EQ(g.path_of(next), "layers.7");
  EXPECT_EQ(g.path_of(after), "");
}

// Time grows with their number: of 16 times as many, 256 times as much if each were looked for among all.
TEST(graph_path, many_modules_and_taps_are_found_by_name) {
  const auto seconds = [](int count) {
    const std::clock_t begin = std::clock();  // of the processor: others may be at work
    graph g;
    const node_id x = g.input("x", dtype::f32, {4});
    for (int i = 0; i < count; ++i) {
      const graph::scope in(g, fmt::format("layers.{}", i));
      g.tap(fmt::format("layers.{}", i), x);
    }
    EXPECT_EQ(g.taps().size(), static_cast<std::size_t>(count));
    EXPECT_EQ(g.paths().size(), 2 * static_cast<std::size_t>(count + 2));
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  double few = 1e9, many = 1e9;
  for (int i = 0; i < 3; ++i) few = std::min(few, seconds(2'000)), many = std::min(many, seconds(32'000));
  EXPECT_LT(many, 100 * few);
}

TEST(graph_path, a_node_made_again_is_the_first_makers) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {4});
  const auto exponential = [&](const char* name) {
    const graph::scope in(g, name);
    return g.map(scalar_op::exp, {x});
  };
  const node_id first = exponential("a");
  EXPECT_EQ(exponential("b"), first);
  EXPECT_EQ(g.path_of(first), "a");
}

TEST(graph_path, gradients_belong_to_the_node_they_are_for) {
  graph g;
  const node_id x = g.parameter("x", dtype::f32, {4});
  node_id y;
  {
    const graph::scope in(g, "a.b");
    y = g.map(scalar_op::sin, {x});
  }
  const node_id loss = g.reduce(reduce_kind::sum, y, 1);
  const node_id before{static_cast<std::uint32_t>(g.size())};
  const node_id slope = gradients(g, loss, std::span(&x, 1))[0];
  EXPECT_EQ(g.path_of(slope), "a.b backward");
  for (node_id id = before; id < g.size(); ++id) EXPECT_TRUE(path_pool::is_backward(g[id].path)) << g.path_of(id);
  const node_id again = gradients(g, g.reduce(reduce_kind::sum, slope, 1), std::span(&x, 1))[0];
  EXPECT_EQ(g.path_of(again), "a.b backward");
}

inline constexpr dim batch = sym<"batch">;

struct residual {
  static constexpr auto forward(value auto x) {
    return x + linear<"down", 16>(relu(linear<"up", 24>(layer_norm<"norm">(x))));
  }
};
struct tower {
  static constexpr auto forward(value auto x) {
    return linear<"head", 5>(repeat<"layers", 3, residual>(linear<"embed", 16>(x)));
  }
};
using net = model<tower, input<"x", dtype::f32, dims<batch, 8>>>;

graph training_graph() {
  const symbol_extent symbols[] = {{"batch", 32}};
  return make_training_graph<net, cross_entropy<"label">>(adam{}, symbols);
}

std::set<std::string> paths_of(const graph& g) {
  std::set<std::string> found;
  for (node_id id{0}; id < g.size(); ++id) found.insert(g.path_of(id));
  return found;
}

TEST(graph_path, calls_and_the_turns_of_a_repeat_are_modules) {
  const std::set<std::string> expected = {"",
                                          "embed",
                                          "layers.0",
                                          "layers.0.norm",
                                          "layers.0.up",
                                          "layers.0.down",
                                          "layers.1",
                                          "layers.1.norm",
                                          "layers.1.up",
                                          "layers.1.down",
                                          "layers.2",
                                          "layers.2.norm",
                                          "layers.2.up",
                                          "layers.2.down",
                                          "head"};
  const graph g = lower<net>({{"batch", 32}});
  EXPECT_EQ(paths_of(g), expected) << to_text(g);
  EXPECT_EQ(g.path_of(g.find_leaf("layers.1.up.weight")), "layers.1.up");
}

TEST(graph_path, loss_and_optimizer_have_their_own) {
  const std::set<std::string> found = paths_of(training_graph());
  for (const char* path : {"loss", "loss backward", "optimizer", "layers.2.up backward", "head backward"}) {
    EXPECT_TRUE(found.contains(path)) << path;
  }
}

TEST(graph_path, kernels_are_named_after_the_product_in_them_or_what_they_store) {
  const graph g = training_graph();
  fusion::optimize_report report;
  const graph chosen = fusion::optimize(g, {.explain = true}, &report);
  const std::set<std::string> known = paths_of(g), found = paths_of(chosen);
  EXPECT_TRUE(std::ranges::includes(known, found));
  for (node_id id{0}; id < chosen.size(); ++id) EXPECT_TRUE(chosen.path_of(id) != "" || id == chosen.find_leaf("x"));
  // up's product, bias and relu are one kernel, and so are down's and the addition around it.
  for (int layer = 0; layer < 3; ++layer) {
    for (const char* name : {"up", "down"}) {
      const std::string path = "layers." + std::to_string(layer) + '.' + name;
      std::vector<op> kinds;
      for (node_id id{0}; id < chosen.size(); ++id) {
        if (chosen.path_of(id) == path && chosen[id].kind != op::parameter) kinds.push_back(chosen[id].kind);
      }
      EXPECT_EQ(kinds, std::vector<op>{op::matmul}) << path << '\n' << report.explain;
    }
  }
  EXPECT_NE(report.explain.find(" = layers.1.up: matmul f32[32, 24]"), std::string::npos) << report.explain;
}

TEST(graph_path, the_parts_of_a_long_sum_are_its_modules) {
  graph g;
  for (const char* name : {"a", "b"}) {
    const graph::scope in(g, name);
    const node_id x = g.input(std::string(name) + ".x", dtype::f32, {16, 65536});
    const node_id w = g.parameter(std::string(name) + ".w", dtype::f32, {65536, 16});
    g.add_output(name, g.contract(x, w, "ik", "kj", "ij"));
  }
  fusion::optimize_report report;
  const graph chosen = fusion::optimize(g, {.explain = true}, &report);
  std::map<std::string, int> kernels;
  for (node_id id{0}; id < chosen.size(); ++id) {
    if (info(chosen[id].kind).runs) ++kernels[chosen.path_of(id)];
  }
  EXPECT_EQ(kernels, (std::map<std::string, int>{{"a", 2}, {"b", 2}})) << report.explain;
}

TEST(graph_path, copies_of_a_graph_keep_it) {
  const graph g = training_graph();
  EXPECT_EQ(to_text(pruned(pruned(g))), to_text(pruned(g)));
  EXPECT_NE(to_text(pruned(g)).find(" @ layers.2.up backward\n"), std::string::npos);
}

TEST(graph_path, a_plan_labels_its_steps) {
  const graph g = training_graph();
  const auto p = plan::make_plan(fusion::optimize(g), plan::make_layout(g));
  std::vector<std::string> labels;
  for (const plan::step& s : p.steps) labels.push_back(plan::label(p, s));
  for (const char* expected :
       {"layers.1.up: matmul 32x24x16", "layers.1.down: matmul 32x16x24", "layers.0.up backward: matmul 24x16x32"}) {
    EXPECT_EQ(std::ranges::count(labels, expected), 1) << expected << '\n' << plan::to_text(p);
  }
  EXPECT_EQ(labels.back(), fmt::format("optimizer: optimizer_step {}", p.updated.bytes / 4));
  const std::string text = plan::to_text(p);
  for (const std::string& label : labels) EXPECT_NE(text.find("  " + label + " = %"), std::string::npos) << label;
}

TEST(graph_path, a_drawing_has_a_cluster_for_each_module) {
  const std::string text = to_dot(lower<net>({{"batch", 32}}));
  std::vector<std::string> around;  // the labels of open clusters
  std::set<std::string> nested;
  std::size_t nodes = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.rfind("  subgraph cluster_", 0) == 0) around.emplace_back();
    if (line.rfind("  label=\"", 0) == 0) {
      around.back() = line.substr(9, line.size() - 11);
      nested.insert((around.size() > 1 ? around[around.size() - 2] : "") + '>' + around.back());
    }
    if (line == "  }") around.pop_back();
    nodes += line.find(" [label=\"") != std::string::npos && line.rfind("  n", 0) == 0;
  }
  EXPECT_TRUE(around.empty());
  EXPECT_EQ(nodes, lower<net>({{"batch", 32}}).size());
  for (const char* pair : {">embed", ">layers", "layers>layers.1", "layers.1>layers.1.norm", ">head"}) {
    EXPECT_TRUE(nested.contains(pair)) << pair << '\n' << text;
  }
}

}  // namespace
