// SPDX-License-Identifier: MIT
// Sample graphs of the e-graph tests and the check that every way to compute a value computes the same value.
#pragma once
#include <meganeura/fusion/optimize.hpp>

#include <oracle/tensor.hpp>

#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::samples {

node_id relu(graph& g, node_id x);
node_id exp(graph& g, node_id x);
std::uint32_t last_axis(const graph& g, node_id x);

node_id row_value(graph& g, reduce_kind kind, node_id x);
node_id mean(graph& g, node_id x, std::uint32_t axes);
node_id row_mean(graph& g, node_id x);

node_id softmax(graph& g, node_id x);
node_id log_softmax(graph& g, node_id x);
/// Mean negative log-likelihood of integer labels; the label is picked by comparing with the column number.
node_id cross_entropy(graph& g, node_id logits, node_id labels);
node_id linear(graph& g, node_id x, const std::string& name, std::int64_t out);
node_id layer_norm(graph& g, node_id x, const std::string& name);
node_id rms_norm(graph& g, node_id x, const std::string& name);
/// x [b, t, d] with `heads` heads, causal.
node_id attention(graph& g, node_id x, const std::string& name, std::int64_t heads);

/// Pre-norm blocks with attention and a gated unit, as in Llama: x + attention(norm(x)), then x + down(silu(gate) *
/// up).
node_id transformer(graph& g, node_id x, int layers, std::int64_t heads, std::int64_t hidden);

/// Appends the gradients of a scalar by all parameters as outputs "d <name>".
void add_gradients(graph& g, node_id loss);
node_id total(graph& g, node_id x);

graph mlp_training(std::int64_t batch, std::int64_t in, std::int64_t hidden, std::int64_t classes);
graph softmax_graph(bool backward);
graph cross_entropy_graph();
graph norm_graph(node_id (*norm)(graph&, node_id, const std::string&));
graph attention_graph(bool backward);
/// silu(x gate) * (x up)
graph gated_unit(std::int64_t rows, std::int64_t terms, std::int64_t columns, bool backward);
graph transformer_graph(int layers, const shape& extents = {2, 3, 4});

/// All of these, tiny; trained ones with their gradients.
struct named_graph {
  const char* name;
  graph source;
};
std::vector<named_graph> sample_graphs();

/// As for a device with matrix units.
fusion::optimize_options on_units();

oracle::tensors<double> random_leaves(const graph& g, double low = -1, double high = 1);

/// How often the rule of that name was applied; there must be one.
std::size_t applied(const fusion::optimize_report& report, const std::string& rule);

int count(const graph& g, op kind);
int kernel_count(const graph& g);

// Inside one plan f64 rounding differs between forms by the order of sums alone; the bound is that of f64 over the
// largest sum any of the sample graphs has, and forms may cancel to small values: compared against the tensor's largest
// element.
double bound();

/// Evaluates every e-node of every class; the number compared.
std::size_t expect_all_forms_agree(const graph& source, const oracle::tensors<double>& leaves,
                                   const fusion::optimize_options& options = {});

/// A plan gives what the source gives of random leaves, within what constants that rules put together in f32 may
/// differ.
void expect_equal(const graph& source, const graph& plan, const std::string& what);

/// The optimised graph gives what the source gives, effects included.
graph expect_plan_agrees(const graph& source, const oracle::tensors<double>& leaves,
                         const fusion::optimize_options& options = {}, fusion::optimize_report* report = nullptr);

}  // namespace meganeura::inline MEGANEURA_ABI::samples
