// SPDX-License-Identifier: MIT
// The sample graphs and the comparison of their forms.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/egraph/extract.hpp>
#include <meganeura/egraph/saturate.hpp>
#include <meganeura/fusion/saturated_graph.hpp>
#include <meganeura/runtime/optimizer.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/egraph_forms.hpp>
#include <support/egraph_sample_graphs.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace meganeura::inline MEGANEURA_ABI::samples {

node_id relu(graph& g, node_id x) {
  scalar_builder b;
  const scalar_ref a = b.argument(0, dtype::f32), zero = b.constant(0);
  const node_id operands[] = {x};
  return g.map(b.finish(b.select(b.binary(scalar_op::less_equal, a, zero), zero, a)), operands, dtype::f32);
}

node_id exp(graph& g, node_id x) { return g.map(scalar_op::exp, {x}); }

std::uint32_t last_axis(const graph& g, node_id x) { return 1u << (g[x].extents.rank() - 1); }

node_id row_value(graph& g, reduce_kind kind, node_id x) {
  const shape extents = g[x].extents;
  return g.expand_axes(g.reduce(kind, x, last_axis(g, x)), extents, last_axis(g, x));
}

node_id mean(graph& g, node_id x, std::uint32_t axes) {
  const double count = static_cast<double>(g[x].extents.elements());
  const node_id sum = g.reduce(reduce_kind::sum, x, axes);
  return g.multiply(sum, g.full_like(sum, static_cast<double>(g[sum].extents.elements()) / count));
}

node_id row_mean(graph& g, node_id x) {
  return g.expand_axes(mean(g, x, last_axis(g, x)), shape(g[x].extents), last_axis(g, x));
}

node_id softmax(graph& g, node_id x) {
  const node_id e = exp(g, g.subtract(x, g.stop_gradient(row_value(g, reduce_kind::max, x))));
  return g.divide(e, row_value(g, reduce_kind::sum, e));
}

node_id log_softmax(graph& g, node_id x) {
  const node_id shifted = g.subtract(x, g.stop_gradient(row_value(g, reduce_kind::max, x)));
  const node_id sum = g.reduce(reduce_kind::sum, exp(g, shifted), last_axis(g, x));
  return g.subtract(shifted, g.expand_axes(g.map(scalar_op::log, {sum}), shape(g[x].extents), last_axis(g, x)));
}

node_id cross_entropy(graph& g, node_id logits, node_id labels) {
  const shape extents = g[logits].extents;
  scalar_builder b;
  const scalar_ref column = b.argument(0, dtype::i32), label = b.argument(1, dtype::i32);
  const scalar_ref value = b.argument(2, dtype::f32);
  const scalar_program pick = b.finish(b.select(b.binary(scalar_op::equal, column, label), value, b.constant(0)));
  const node_id operands[] = {g.coordinates(extents, 1), g.expand_axes(labels, extents, 2), log_softmax(g, logits)};
  const node_id picked = g.reduce(reduce_kind::sum, g.map(pick, operands, dtype::f32), 2);
  const node_id mean_loss = mean(g, picked, 1);
  return g.map(scalar_op::negate, {mean_loss});
}

node_id linear(graph& g, node_id x, const std::string& name, std::int64_t out) {
  const std::int64_t in = g[x].extents[g[x].extents.rank() - 1];
  const node_id w = g.parameter(name + ".weight", dtype::f32, {out, in});
  const node_id b = g.parameter(name + ".bias", dtype::f32, {out});
  const bool flat = g[x].extents.rank() == 2;
  const node_id y = flat ? g.contract(x, w, "bi", "oi", "bo") : g.contract(x, w, "bti", "oi", "bto");
  return g.add(y, g.expand(b, shape(g[y].extents)));
}

node_id layer_norm(graph& g, node_id x, const std::string& name) {
  const shape extents = g[x].extents;
  const node_id w = g.parameter(name + ".weight", dtype::f32, {extents[extents.rank() - 1]});
  const node_id b = g.parameter(name + ".bias", dtype::f32, {extents[extents.rank() - 1]});
  const node_id centered = g.subtract(x, row_mean(g, x));
  const node_id variance = mean(g, g.multiply(centered, centered), last_axis(g, x));
  const node_id root = g.map(scalar_op::sqrt, {g.add(variance, g.full_like(variance, 1e-5))});
  const node_id scale = g.divide(g.full_like(root, 1), root);
  const node_id normal = g.multiply(centered, g.expand_axes(scale, extents, last_axis(g, x)));
  return g.add(g.multiply(normal, g.expand(w, extents)), g.expand(b, extents));
}

node_id rms_norm(graph& g, node_id x, const std::string& name) {
  const shape extents = g[x].extents;
  const node_id w = g.parameter(name + ".weight", dtype::f32, {extents[extents.rank() - 1]});
  const node_id square = mean(g, g.multiply(x, x), last_axis(g, x));
  const node_id scale = g.map(scalar_op::rsqrt, {g.add(square, g.full_like(square, 1e-5))});
  return g.multiply(g.multiply(x, g.expand_axes(scale, extents, last_axis(g, x))), g.expand(w, extents));
}

node_id attention(graph& g, node_id x, const std::string& name, std::int64_t heads) {
  const shape extents = g[x].extents;
  const std::int64_t b = extents[0], t = extents[1], d = extents[2], h = d / heads;
  const int order[] = {0, 2, 1, 3};
  const auto split = [&](const char* part) {
    const node_id y = linear(g, x, name + "." + part, d);
    return g.permute(g.reshape(y, {b, t, heads, h}), order);
  };
  const node_id q = split("q"), k = split("k"), v = split("v");
  const node_id scores = g.contract(q, k, "bhik", "bhjk", "bhij");
  const shape square = g[scores].extents;
  const node_id scaled = g.multiply(scores, g.full(square, 1 / std::sqrt(static_cast<double>(h))));
  scalar_builder s;
  const scalar_ref row = s.argument(0, dtype::i32), column = s.argument(1, dtype::i32),
                   score = s.argument(2, dtype::f32);
  const scalar_program mask =
      s.finish(s.select(s.binary(scalar_op::less_equal, column, row), score, s.constant(-1e30)));
  const node_id operands[] = {g.coordinates(square, 2), g.coordinates(square, 3), scaled};
  const node_id p = softmax(g, g.map(mask, operands, dtype::f32));
  const node_id mixed = g.permute(g.contract(p, v, "bhij", "bhjd", "bhid"), order);
  return linear(g, g.reshape(mixed, extents), name + ".o", d);
}

node_id transformer(graph& g, node_id x, int layers, std::int64_t heads, std::int64_t hidden) {
  const std::int64_t width = g[x].extents[2];
  for (int i = 0; i < layers; ++i) {
    const std::string name = "layer" + std::to_string(i);
    x = g.add(x, attention(g, rms_norm(g, x, name + ".norm1"), name + ".attention", heads));
    const node_id normal = rms_norm(g, x, name + ".norm2"), gate = linear(g, normal, name + ".gate", hidden);
    const node_id one = g.full_like(gate, 1), decay = exp(g, g.map(scalar_op::negate, {gate}));
    const node_id silu = g.multiply(gate, g.map(scalar_op::reciprocal, {g.add(one, decay)}));
    x = g.add(x, linear(g, g.multiply(silu, linear(g, normal, name + ".up", hidden)), name + ".down", width));
  }
  return x;
}

void add_gradients(graph& g, node_id loss) {
  const std::vector<node_id> wrt = g.leaves(op::parameter);
  const std::vector<node_id> d = gradients(g, loss, wrt);
  for (std::size_t i = 0; i < wrt.size(); ++i) g.add_output("d " + g.get<leaf_attribute>(wrt[i]).name, d[i]);
}

node_id total(graph& g, node_id x) {
  const node_id weights = g.input("weights", dtype::f32, shape(g[x].extents));
  return g.reduce(reduce_kind::sum, g.multiply(x, weights), (1u << g[x].extents.rank()) - 1);
}

graph mlp_training(std::int64_t batch, std::int64_t in, std::int64_t hidden, std::int64_t classes) {
  graph g;
  const node_id x = g.input("image", dtype::f32, {batch, in}), y = g.input("label", dtype::i32, {batch});
  const node_id logits = linear(g, relu(g, linear(g, x, "fc1", hidden)), "fc2", classes);
  const node_id loss = cross_entropy(g, logits, y);
  g.add_output("loss", loss);
  const std::vector<node_id> wrt = g.leaves(op::parameter), d = gradients(g, loss, wrt);
  std::vector<node_id> pairs;
  for (std::size_t i = 0; i < wrt.size(); ++i) pairs.insert(pairs.end(), {wrt[i], d[i]});
  g.optimizer_step(optimizer(adam{}).rule(), pairs);
  return g;
}

graph softmax_graph(bool backward) {
  graph g;
  const node_id x = g.parameter("x", dtype::f32, {4, 6}), y = softmax(g, x);
  g.add_output("y", y);
  if (backward) add_gradients(g, total(g, y));
  return g;
}

graph cross_entropy_graph() {
  graph g;
  const node_id z = g.parameter("z", dtype::f32, {5, 7}), labels = g.input("labels", dtype::i32, {5});
  const node_id loss = cross_entropy(g, z, labels);
  g.add_output("loss", loss);
  add_gradients(g, loss);
  return g;
}

graph norm_graph(node_id (*norm)(graph&, node_id, const std::string&)) {
  graph g;
  const node_id y = norm(g, g.parameter("x", dtype::f32, {2, 3, 6}), "norm");
  g.add_output("y", y);
  add_gradients(g, total(g, y));
  return g;
}

graph attention_graph(bool backward) {
  graph g;
  const node_id y = attention(g, g.parameter("x", dtype::f32, {2, 4, 6}), "attention", 2);
  g.add_output("y", y);
  if (backward) add_gradients(g, total(g, y));
  return g;
}

graph gated_unit(std::int64_t rows, std::int64_t terms, std::int64_t columns, bool backward) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {rows, terms});
  const auto side = [&](const char* name) {
    return g.contract(x, g.parameter(name, dtype::f32, {columns, terms}), "mk", "nk", "mn");
  };
  const node_id gate = side("gate"), one = g.expand(g.constant(1), {rows, columns});
  const node_id silu = g.divide(gate, g.add(one, exp(g, g.map(scalar_op::negate, {gate}))));
  const node_id y = g.multiply(silu, side("up"));
  g.add_output("y", y);
  if (backward) add_gradients(g, total(g, y));
  return g;
}

graph transformer_graph(int layers, const shape& extents) {
  graph g;
  const node_id loss = total(g, transformer(g, g.input("x", dtype::f32, extents), layers, 2, 5));
  g.add_output("loss", loss);
  add_gradients(g, loss);
  return pruned(g);
}

std::vector<named_graph> sample_graphs() {
  return {{"softmax", softmax_graph(false)},
          {"softmax, trained", softmax_graph(true)},
          {"cross entropy, trained", cross_entropy_graph()},
          {"layer norm, trained", norm_graph(layer_norm)},
          {"RMS norm, trained", norm_graph(rms_norm)},
          {"attention", attention_graph(false)},
          {"attention, trained", attention_graph(true)},
          {"gated unit", gated_unit(4, 6, 8, false)},
          {"gated unit, trained", gated_unit(4, 6, 8, true)},
          {"mlp training", mlp_training(6, 7, 5, 3)},
          {"transformer, trained", transformer_graph(1)}};
}

fusion::optimize_options on_units() {
  fusion::optimize_options options;
  options.device.matrix_units = matrix_units::cooperative;
  options.device.max_shared_bytes = 49152, options.device.max_invocations = 1024;
  return options;
}

oracle::tensors<double> random_leaves(const graph& g, double low, double high) {
  oracle::tensors<double> values;
  std::uint64_t seed = 1;
  for (op kind : {op::input, op::parameter, op::state}) {
    for (node_id id : g.leaves(kind)) {
      const bool integer = !is_float(g[id].type);
      values[g.get<leaf_attribute>(id).name] =
          oracle::random_tensor(g[id].extents, ++seed, integer ? 0 : low, integer ? 2 : high, g[id].type);
    }
  }
  return values;
}

std::size_t applied(const fusion::optimize_report& report, const std::string& rule) {
  const auto found = std::ranges::find(report.rules, rule, &fusion::rule_report::name);
  if (found != report.rules.end()) return found->applied;
  ADD_FAILURE() << "no rule " << rule;
  return 0;
}

int count(const graph& g, op kind) { return static_cast<int>(g.leaves(kind).size()); }

int kernel_count(const graph& g) {
  int total = 0;
  for (node_id id{0}; id < g.size(); ++id) total += info(g[id].kind).stage == op_stage::implementation;
  return total;
}

double bound() { return 1e3 * oracle::tolerance_f64(1 << 20); }

std::size_t expect_all_forms_agree(const graph& source, const oracle::tensors<double>& leaves,
                                   const fusion::optimize_options& options) {
  fusion::optimize_report report;
  fusion::saturated_graph all = fusion::saturate(source, options, report);
  (void)fusion::choose(all, options);  // adds merged regions
  const egraph::engine& e = all.graph;
  const support::egraph_forms forms(e);
  const graph& g = forms.nodes;
  oracle::interpreter<double> run(g, leaves);
  std::size_t compared = 0;
  for (const auto& [id, form, value] : forms.list) {
    EXPECT_NE(form, no_id);
    if (form == no_id) continue;
    const double error = oracle::relative_error(run.value(form), run.value(value));
    EXPECT_LE(error, bound()) << to_string(e.node(id).kind) << " " << to_string(e.attribute_of(id)) << "\nversus "
                              << to_string(g[value].kind) << " " << to_string(g.attribute_of(value));
    ++compared;
  }
  return compared;
}

void expect_equal(const graph& source, const graph& plan, const std::string& what) {
  const oracle::tensors<double> leaves = random_leaves(source, -2, 2);
  const auto expected = oracle::interpreter<double>(source, leaves, {}).run();
  const auto found = oracle::interpreter<double>(plan, leaves, {}).run();
  for (const auto& [name, value] : expected)
    EXPECT_LE(oracle::relative_error(found.at(name).values, value.values), oracle::tolerance(dtype::f32))
        << what << ' ' << name << '\n'
        << to_text(plan);
}

graph expect_plan_agrees(const graph& source, const oracle::tensors<double>& leaves,
                         const fusion::optimize_options& options, fusion::optimize_report* report) {
  graph plan = fusion::optimize(source, options, report);
  oracle::interpreter<double> before(source, leaves), after(plan, leaves);
  const auto expected = before.run(), actual = after.run();
  EXPECT_EQ(expected.size(), actual.size());
  // As the gradient of keys' bias, which all of a row's scores share: zero but for rounding.
  const auto vanishes = [](const auto& value) {
    return std::ranges::all_of(value.values, [](double each) { return std::abs(each) < 1e-12; });
  };
  for (const auto& [name, value] : expected) {
    if (vanishes(value) && vanishes(actual.at(name))) continue;
    EXPECT_LE(oracle::relative_error(actual.at(name), value), bound()) << name;
  }
  for (const auto& [name, value] : before.leaves) {
    if (!after.leaves.contains(name)) continue;
    EXPECT_LE(oracle::relative_error(after.leaves.at(name), value), bound()) << name;
  }
  for (node_id id{0}; id < plan.size(); ++id) {
    const op kind = plan[id].kind;
    EXPECT_TRUE(info(kind).stage != op_stage::primitive || info(kind).runs) << to_string(kind);
  }
  return plan;
}

}  // namespace meganeura::inline MEGANEURA_ABI::samples
