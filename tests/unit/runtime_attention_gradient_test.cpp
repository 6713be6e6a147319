// SPDX-License-Identifier: MIT
// Gradients of attention in two kernels on the device: all sizes and masks against the oracle, and what is no number.
#include <meganeura/meganeura.hpp>
#include <meganeura/runtime/measured_rates.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/program_values.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

// y, and of a loss that weighs its elements by dy the gradients for q, k and v.
void add_gradients(graph& g, node_id y, const std::vector<std::string>& of = {"q", "k", "v"}) {
  const node_id by = g.input("dy", dtype::f32, shape(g[y].extents));
  g.add_output("y", y);
  const node_id loss = g.reduce(reduce_kind::sum, g.multiply(y, by), (1u << g[y].extents.rank()) - 1);
  std::vector<node_id> wrt;
  for (const std::string& name : of) wrt.push_back(g.find_leaf(name));
  const std::vector<node_id> found = gradients(g, loss, wrt);
  for (std::size_t i = 0; i < wrt.size(); ++i) g.add_output("d" + of[i], found[i]);
}

struct asked {
  std::int64_t queries, keys, heads, kv_heads, width, channels;
  gqa_options options{};
};

graph attention(const asked& a) {
  graph g;
  const node_value q(g, g.input("q", dtype::f32, {a.queries, a.heads, a.width}));
  const node_value k(g, g.input("k", dtype::f32, {a.keys, a.kv_heads, a.width}));
  const node_value v(g, g.input("v", dtype::f32, {a.keys, a.kv_heads, a.channels}));
  add_gradients(g, attend(q, k, v, a.options));
  return g;
}

// How they are to be computed: by kernels that store weights, or by one for each on multiply-add or on matrix units.
struct way {
  bool fuse = true;
  precision accuracy = precision::exact;
  std::optional<std::size_t> schedule{};  // of those on units
};
constexpr way apart{.fuse = false};

// One kernel for each of the three, whatever they take, or none of them.
oracle::tensors<double> on_device(const graph& g, const oracle::tensors<double>& leaves, const way& how = {}) {
  const device& gpu = how.schedule ? support::shared_unit_device<matrix_shape{8, 8, 8}>() : support::shared_device();
  program_options options{.precision = how.accuracy, .device_costs = false, .checks = checks::none};
  options.optimize.device = profile_of(gpu);
  options.optimize.device.launch = {1, 1};
  options.optimize.matrix_units = how.schedule.has_value();
  options.optimize.schedule = how.schedule;
  if (!how.fuse) options.optimize.disabled = {"fuse_attention"};
  const parameters weights(gpu, g);
  program run(gpu, g, weights, options);
  std::size_t fused = 0, on_units = 0;
  for (const plan::step& each : run.plan().steps) {
    const auto* node = std::get_if<attention_attribute>(&run.plan().implementation.attribute_of(each.node));
    fused += node != nullptr, on_units += node != nullptr && node->schedule.is_on_units();
  }
  EXPECT_EQ(fused, how.fuse ? 3u : 0u) << to_text(run.plan());
  EXPECT_EQ(on_units, how.fuse && how.schedule ? 3u : 0u) << to_text(run.plan());
  support::set_inputs(run, g, leaves);
  run.submit({});
  oracle::tensors<double> found;
  for (const graph_output& each : g.outputs()) {
    const shape extents = g[each.node].extents;
    found[each.name] = support::loaded(run.output(each.name), dtype::f32, extents);
  }
  return found;
}

void expect_oracle(const graph& g, const oracle::tensors<double>& leaves, std::int64_t terms, const std::string& what,
                   const way& how = {}) {
  oracle::tensors<double> expected = oracle::interpreter<double>(g, leaves, {}).run();
  const oracle::tensors<double> found = on_device(g, leaves, how);
  const double permitted = how.accuracy == precision::fast ? 4e-3 : 2 * oracle::tolerance(dtype::f32, terms);
  for (const auto& [name, value] : found)
    EXPECT_LE(oracle::relative_error(value.values, expected.at(name).values), permitted) << what << ' ' << name;
}

void expect_oracle(const graph& g, std::int64_t terms, const std::string& what, const way& how = {}) {
  expect_oracle(g, samples::random_leaves(g, -2, 2), terms, what, how);
}

bool has_units() { return profile_of(support::shared_device()).fragments_by_rows; }

// Ways on matrix units: all that there are, or of emulated ones, which are slow, a few.
std::vector<way> on_units() {
  if (!has_units()) return {{.schedule = 0}, {.schedule = 1}, {.accuracy = precision::fast, .schedule = 1}};
  std::vector<way> found;
  for (const precision accuracy : {precision::exact, precision::fast}) {
    for (std::size_t i = 0; i < 56; ++i) found.push_back({.accuracy = accuracy, .schedule = i});
  }
  return found;
}

TEST(runtime_attention_gradient, heads_of_all_sizes) {
  for (const asked& each : {asked{33, 65, 2, 1, 64, 64}, asked{2, 2, 1, 1, 2, 2}, asked{9, 33, 2, 2, 7, 5},
                            asked{16, 32, 1, 1, 80, 33}, asked{3, 40, 2, 2, 128, 128}, asked{20, 130, 6, 2, 9, 6}}) {
    const std::string what = std::to_string(each.queries) + "x" + std::to_string(each.keys) + "x" +
                             std::to_string(each.width) + "x" + std::to_string(each.channels);
    expect_oracle(attention(each), each.keys + each.queries + each.width, what);
  }
}

TEST(runtime_attention_gradient, masks) {
  for (const gqa_options& each :
       {gqa_options{.causal = true}, gqa_options{.causal = true, .alibi = true}, gqa_options{.scale = 3}})
    expect_oracle(attention({21, 21, 4, 2, 16, 16, each}), 40, "square");
  expect_oracle(attention({6, 37, 2, 2, 16, 16, {.causal = true}}), 60, "behind a past");
}

// What hides scores at run time, all of a row's among them, and a sink whose gradient comes of the same rows.
graph masked(const asked& a) {
  graph g;
  const node_value q(g, g.input("q", dtype::f32, {2, a.queries, a.heads, a.width}));
  const node_value k(g, g.input("k", dtype::f32, {2, a.keys, a.kv_heads, a.width}));
  const node_value v(g, g.input("v", dtype::f32, {2, a.keys, a.kv_heads, a.channels}));
  const node_value mask(g, g.input("mask", dtype::f32, {a.queries, a.keys}));
  const node_value lengths(g, g.input("lengths", dtype::i32, {2}));
  add_gradients(g, attend(q, k, v, attn_mask(mask), key_lengths(lengths), a.options));
  return g;
}
graph with_sinks(const asked& a) {
  graph g;
  const node_value q(g, g.input("q", dtype::f32, {a.queries, a.heads, a.width}));
  const node_value k(g, g.input("k", dtype::f32, {a.keys, a.kv_heads, a.width}));
  const node_value v(g, g.input("v", dtype::f32, {a.keys, a.kv_heads, a.channels}));
  const node_value sinks(g, g.input("sinks", dtype::f32, {a.heads}));
  add_gradients(g, attend(q, k, v, attention_sinks(sinks), a.options), {"q", "k", "v", "sinks"});
  return g;
}
TEST(runtime_attention_gradient, of_what_is_hidden_at_run_time) {
  const graph g = masked({21, 33, 2, 1, 8, 5, {.sliding_window = 9}});
  oracle::tensors<double> leaves = samples::random_leaves(g, -2, 2);
  for (std::size_t i = 0; i < 21 * 33; ++i) {
    if (i / 33 == 4 || i % 5 == 0) leaves.at("mask").values[i] = -std::numeric_limits<double>::infinity();
  }
  leaves.at("lengths").values = {17, 0};
  for (const way& how : {way{}, way{.schedule = 0}, way{.accuracy = precision::fast, .schedule = 1}})
    expect_oracle(g, leaves, 80, "hidden", how);
}
TEST(runtime_attention_gradient, sinks) {
  expect_oracle(with_sinks({9, 40, 2, 2, 7, 6}), 80, "alone");
  const graph g = with_sinks({21, 33, 4, 2, 8, 5, {.causal = true, .sliding_window = 6}});
  for (const way& how : {way{}, way{.schedule = 0}}) expect_oracle(g, 80, "within a window", how);
}

// Narrow rows, as many as a workgroup takes at a time.
TEST(runtime_attention_gradient, narrow_heads) {
  for (const asked& each : {asked{64, 64, 1, 1, 2, 3}, asked{32, 64, 2, 1, 3, 8}})
    expect_oracle(attention(each), 130, "narrow");
}

// Workgroups go through the rows alone that weigh something for some of theirs.
TEST(runtime_attention_gradient, blocks_that_nobody_sees) {
  expect_oracle(attention({100, 103, 2, 1, 4, 4, {.causal = true}}), 220, "behind a short past");
  expect_oracle(attention({40, 130, 1, 1, 8, 8, {.causal = true}}), 180, "behind a past");
}

TEST(runtime_attention_gradient, on_matrix_units) {
  std::vector<asked> sizes{{11, 21, 2, 1, 8, 7, {.causal = true}}};
  if (has_units())
    sizes.insert(sizes.end(), {{9, 33, 2, 2, 7, 5},
                               {130, 200, 2, 1, 64, 64},
                               {200, 77, 1, 1, 40, 120},
                               {70, 300, 1, 1, 80, 5},
                               {500, 500, 2, 1, 64, 64, {.causal = true}}});
  for (const asked& each : sizes) {
    const std::string what = std::to_string(each.queries) + "x" + std::to_string(each.keys) + "x" +
                             std::to_string(each.width) + "x" + std::to_string(each.channels);
    const graph g = attention(each);
    for (const way& how : on_units())
      expect_oracle(g, each.keys + each.queries + each.width, what + " schedule " + std::to_string(*how.schedule), how);
  }
}

// f16 has a small range: rows far below and above it, rows that it has no number for, gradients that vanish.
TEST(runtime_attention_gradient, whatever_the_scale_on_matrix_units) {
  const graph g = attention({18, 40, 1, 1, 8, 6});
  const oracle::tensors<double> usual = samples::random_leaves(g, -2, 2);
  for (const int size : {-60, 60, -90}) {
    oracle::tensors<double> leaves = usual;
    for (double& each : leaves.at("q").values) each = std::ldexp(each, size);
    for (double& each : leaves.at("k").values) each = std::ldexp(each, -size);
    auto &v = leaves.at("v").values, &dy = leaves.at("dy").values;
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = std::ldexp(v[i], static_cast<int>(i / 6 % 20) - 10);
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = std::ldexp(dy[i], -static_cast<int>(i / 6) * 2);
    oracle::tensors<double> expected = oracle::interpreter<double>(g, leaves, {}).run();
    for (const precision accuracy : {precision::exact, precision::fast}) {
      if (accuracy == precision::fast && size != 60) continue;
      for (const std::size_t schedule : {0u, 1u}) {
        const oracle::tensors<double> found = on_device(g, leaves, {.accuracy = accuracy, .schedule = schedule});
        for (const auto& [name, value] : found)
          EXPECT_LE(oracle::relative_error(value.values, expected.at(name).values),
                    accuracy == precision::exact ? 5e-6 : 1e-2)
              << size << ' ' << name;
      }
    }
  }
}

// Sums over many blocks, as exact as others.
TEST(runtime_attention_gradient, long_rows) {
  expect_oracle(attention({140, 3000, 1, 1, 4, 4}), 3000, "3000 keys");
  expect_oracle(attention({3000, 140, 1, 1, 4, 4}), 3000, "3000 queries");
}

void expect_alike(const oracle::tensors<double>& found, const oracle::tensors<double>& stored) {
  for (const auto& [name, value] : found) {
    const std::vector<double>& other = stored.at(name).values;
    double largest = 0;
    for (const double each : other) largest = std::isfinite(each) ? std::max(largest, std::abs(each)) : largest;
    for (std::size_t i = 0; i < other.size(); ++i) {
      EXPECT_EQ(std::isnan(value.values[i]), std::isnan(other[i])) << name << ' ' << i;
      if (!std::isfinite(other[i])) continue;
      EXPECT_NEAR(value.values[i], other[i], 1e-5 * largest) << name << ' ' << i;
    }
  }
}

// Rows whose scores are far apart, beyond what e is told apart for, infinite and unknown: as kernels that store them.
TEST(runtime_attention_gradient, what_is_no_number) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  graph g;
  const node_id q = g.input("q", dtype::f32, {10, 4}), k = g.input("k", dtype::f32, {70, 4}),
                v = g.input("v", dtype::f32, {70, 5}), mask = g.input("mask", dtype::f32, {10, 70});
  const node_id scores = g.add(g.contract(q, k, "iw", "jw", "ij"), mask);
  add_gradients(g, g.contract(samples::softmax(g, scores), v, "ij", "jc", "ic"));
  for (const bool finite : {true, false}) {
    oracle::tensors<double> leaves = samples::random_leaves(g, -2, 2);
    auto& added = leaves.at("mask").values;
    for (std::size_t key = 0; key < 70; ++key) {
      added[1 * 70 + key] = key == 69 ? 0 : -infinity;                // sees the last key alone
      added[2 * 70 + key] = key == 3 ? 0 : -1.5e38;                   // one of the first block
      added[3 * 70 + key] = -1.5e38;                                  // all alike
      added[4 * 70 + key] = static_cast<double>(key) * 100 - 3000;    // grows all along the row
      added[5 * 70 + key] = 3000 - static_cast<double>(key) * 100.0;  // shrinks
      if (finite) continue;
      added[6 * 70 + key] = -infinity;  // sees nothing
      added[7 * 70 + key] = key == 33 ? infinity : 0;
      added[8 * 70 + key] = key == 40 ? std::nan("") : 0;
    }
    const oracle::tensors<double> stored = on_device(g, leaves, apart);
    for (const way& how : {way{}, way{.schedule = 0}, way{.schedule = 1}})
      expect_alike(on_device(g, leaves, how), stored);
  }
}

}  // namespace
