// SPDX-License-Identifier: MIT
// Attention in one kernel on the device: all sizes, layouts and masks against the oracle, and what is no number.
#include <meganeura/meganeura.hpp>
#include <meganeura/runtime/measured_rates.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/program_values.hpp>
#include <support/random_graph.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

// How it is to be computed: by three kernels, by one on multiply-add, or by one on matrix units.
struct way {
  bool fuse = true;
  precision accuracy = precision::exact;
  std::optional<std::size_t> schedule{};  // of those on units; every second one has prepared rows
  bool small_units = false;               // of 8x8x8 where they are emulated
};

const device& device_for(const way& how) {
  if (!how.schedule) return support::shared_device();
  return how.small_units ? support::shared_unit_device<matrix_shape{8, 8, 8}>() : support::shared_unit_device();
}

// One kernel, whatever it takes.
program_options one_kernel(const device& gpu, const way& how) {
  program_options options{.precision = how.accuracy, .device_costs = false, .checks = checks::none};
  options.optimize.device = profile_of(gpu);
  options.optimize.device.launch = {1, 1};
  options.optimize.matrix_units = how.schedule.has_value();
  options.optimize.schedule = how.schedule;
  if (!how.fuse) options.optimize.disabled = {"fuse_attention"};
  return options;
}

std::vector<double> on_device(const graph& g, const oracle::tensors<double>& leaves, const way& how = {}) {
  const device& gpu = device_for(how);
  const parameters weights(gpu, g);
  program run(gpu, g, weights, one_kernel(gpu, how));
  std::size_t fused = 0, on_units = 0, prepared = 0;
  for (const plan::step& each : run.plan().steps) {
    const auto* node = std::get_if<attention_attribute>(&run.plan().implementation.attribute_of(each.node));
    fused += node != nullptr, on_units += node != nullptr && node->schedule.is_on_units();
    prepared += node != nullptr && node->schedule.prepared;
  }
  EXPECT_EQ(fused, how.fuse ? 1u : 0u) << to_text(run.plan());
  EXPECT_EQ(on_units, how.fuse && how.schedule ? 1u : 0u) << to_text(run.plan());
  if (how.schedule && *how.schedule < 2) {
    EXPECT_EQ(prepared, *how.schedule) << to_text(run.plan());
  }
  support::set_inputs(run, g, leaves);
  run.submit({});
  return support::loaded(run.output("y"), dtype::f32, shape(g[g.outputs()[0].node].extents)).values;
}

void expect_oracle(const graph& g, std::int64_t terms, const std::string& what, const way& how = {}) {
  const oracle::tensors<double> leaves = samples::random_leaves(g, -2, 2);
  const std::vector<double> expected = oracle::interpreter<double>(g, leaves, {}).run().at("y").values;
  const double permitted = how.accuracy == precision::fast ? 2e-3 : oracle::tolerance(dtype::f32, terms);
  EXPECT_LE(oracle::relative_error(on_device(g, leaves, how), expected), permitted) << what;
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
  g.add_output("y", attend(q, k, v, a.options));
  return g;
}

TEST(runtime_attention, heads_of_all_sizes) {
  for (const asked& each : {asked{33, 65, 2, 1, 64, 64}, asked{2, 2, 1, 1, 2, 2}, asked{7, 5, 3, 3, 40, 40},
                            asked{50, 50, 3, 1, 64, 64}, asked{9, 33, 2, 2, 7, 5}, asked{16, 32, 1, 1, 80, 33},
                            asked{3, 40, 2, 2, 160, 160}, asked{2, 17, 1, 1, 31, 256}, asked{20, 31, 2, 1, 128, 2},
                            asked{1, 200, 4, 2, 32, 32}, asked{130, 20, 1, 1, 16, 16}}) {
    const std::string what = std::to_string(each.queries) + "x" + std::to_string(each.keys) + "x" +
                             std::to_string(each.width) + "x" + std::to_string(each.channels);
    expect_oracle(attention(each), each.keys + each.width, what);
  }
}

TEST(runtime_attention, masks) {
  for (const gqa_options& each : {gqa_options{.causal = true}, gqa_options{.causal = true, .alibi = true},
                                  gqa_options{.causal = true, .sliding_window = 5}, gqa_options{.sliding_window = 3},
                                  gqa_options{.softcap = 2}, gqa_options{.scale = 3}}) {
    expect_oracle(attention({21, 21, 4, 2, 16, 16, each}), 40, "square");
    if (each.sliding_window == 0) expect_oracle(attention({6, 37, 2, 2, 16, 16, each}), 60, "behind a past");
  }
}

// Workgroups go through the keys alone that some of their queries see.
TEST(runtime_attention, blocks_that_nobody_sees) {
  for (const gqa_options& each : {gqa_options{.causal = true}, gqa_options{.causal = true, .sliding_window = 40},
                                  gqa_options{.sliding_window = 70}}) {
    expect_oracle(attention({140, 140, 2, 1, 4, 4, each}), 160, "square");
    expect_oracle(attention({101, 111, 1, 1, 5, 7, each}), 120, "behind a short past");
  }
  expect_oracle(attention({40, 150, 2, 2, 8, 8, {.causal = true}}), 160, "behind a past");
}

bool has_units() { return profile_of(support::shared_device()).fragments_by_rows; }

// Ways on matrix units: all that there are, or of emulated ones, which are slow, a few.
std::vector<way> on_units() {
  std::vector<way> found;
  for (const precision accuracy : {precision::exact, precision::fast}) {
    for (std::size_t i = 0; i < (has_units() ? 56u : 2u); ++i)
      found.push_back({.accuracy = accuracy, .schedule = i, .small_units = true});
  }
  return found;
}

TEST(runtime_attention, on_matrix_units) {
  std::vector<asked> sizes{{21, 65, 2, 1, 8, 8, {.causal = true}},
                           {9, 33, 2, 2, 7, 5},
                           {33, 33, 1, 1, 8, 8, {.causal = true, .sliding_window = 9}}};
  if (has_units())
    sizes.insert(sizes.end(), {{130, 200, 2, 1, 64, 64},
                               {20, 77, 1, 1, 40, 128},
                               {70, 300, 1, 1, 80, 5},
                               {500, 500, 2, 1, 64, 64, {.causal = true}},
                               {500, 501, 1, 1, 32, 32, {.sliding_window = 100}}});
  for (const asked& each : sizes) {
    const std::string what = std::to_string(each.queries) + "x" + std::to_string(each.keys) + "x" +
                             std::to_string(each.width) + "x" + std::to_string(each.channels);
    const graph g = attention(each);
    for (const way& how : on_units()) expect_oracle(g, each.keys + each.width, what, how);
  }
}

// Sums over many blocks, as exact as others.
TEST(runtime_attention, long_rows) { expect_oracle(attention({140, 5000, 1, 1, 4, 4}), 5000, "5000 keys"); }

// Operands of any order of axes, masks of numbers and integers, lengths.
TEST(runtime_attention, random_layouts) {
  for (std::uint32_t seed = 0; seed < 24; ++seed) {
    support::dice dice(seed);
    const std::int64_t b = dice.between(1, 3), t = dice.between(2, 20), s = dice.between(2, 50),
                       w = dice.between(2, 20), c = dice.between(2, 20);
    graph g;
    const auto operand = [&](const char* name, std::string labels) {
      std::vector<char> order(labels.begin(), labels.end());
      dice.shuffle(order);
      labels.assign(order.begin(), order.end());
      shape extents;
      for (const char each : labels)
        extents.push_back(each == 'b' ? b : each == 't' ? t : each == 's' ? s : each == 'w' ? w : c);
      return std::pair{g.input(name, dtype::f32, extents), labels};
    };
    const auto [q, of_q] = operand("q", dice.chance(0.7) ? "btw" : "tw");
    const auto [k, of_k] = operand("k", of_q.size() == 2 || dice.chance(0.7) ? "bsw" : "sw");
    const auto [v, of_v] = operand("v", dice.chance(0.7) ? "bsc" : "sc");
    node_id scores = g.contract(q, k, of_q.c_str(), of_k.c_str(), "bts");
    if (dice.chance(0.5)) {
      const node_id bias = g.input("bias", dtype::f32, dice.chance(0.5) ? shape{t, s} : shape{b, t, s});
      scores = g.add(scores, g.expand(bias, shape(g[scores].extents)));
    }
    if (dice.chance(0.5)) {
      const node_id seen = g.input("seen", dtype::i32, {s});
      scalar_builder builder;
      const scalar_ref hidden =
          builder.binary(scalar_op::equal, builder.argument(1, dtype::i32), builder.constant(0, dtype::i32));
      const node_id both[] = {scores, g.expand(seen, shape(g[scores].extents))};
      scores = g.map(builder.finish(builder.select(hidden, builder.constant(-1e30), builder.argument(0, dtype::f32))),
                     both, dtype::f32);
    }
    std::vector<char> result{'b', 't', 'c'};
    dice.shuffle(result);
    const std::uint32_t last = 4;
    const shape extents = g[scores].extents;
    const node_id largest = g.expand_axes(g.reduce(reduce_kind::max, scores, last), extents, last);
    const node_id e = g.map(scalar_op::exp, {g.subtract(scores, largest)});
    const node_id weights = g.divide(e, g.expand_axes(g.reduce(reduce_kind::sum, e, last), extents, last));
    g.add_output("y", g.contract(weights, v, "bts", of_v.c_str(), std::string(result.begin(), result.end()).c_str()));
    expect_oracle(g, s + w, "seed " + std::to_string(seed));
  }
}

// Scores of infinity and NaN, rows that see nothing, and values behind them: as three kernels have them.
struct number_case {
  graph g;
  oracle::tensors<double> leaves;
};
number_case what_is_no_number() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  graph g;
  const node_value q(g, g.input("q", dtype::f32, {12, 1, 4})), k(g, g.input("k", dtype::f32, {70, 1, 4})),
      v(g, g.input("v", dtype::f32, {70, 1, 5})), mask(g, g.input("mask", dtype::f32, {12, 70}));
  g.add_output("y", attend(q, k, v, attn_mask(mask)));
  oracle::tensors<double> leaves = samples::random_leaves(g, -2, 2);
  auto& hides = leaves.at("mask").values;
  for (std::size_t key = 0; key < 70; ++key) {
    hides[0 * 70 + key] = -infinity;                                // sees nothing
    hides[1 * 70 + key] = key == 69 ? 0 : -infinity;                // the last key alone
    hides[2 * 70 + key] = key == 3 ? 0 : -infinity;                 // one of the first block
    hides[3 * 70 + key] = key == 40 ? infinity : 0;                 // more than all others
    hides[4 * 70 + key] = key == 33 ? std::nan("") : 0;             // unknown
    hides[5 * 70 + key] = key == 0 ? 3e38 : -3e38;                  // as far apart as can be
    hides[6 * 70 + key] = static_cast<double>(key) * 100 - 3000;    // grows all along the row
    hides[7 * 70 + key] = 3000 - static_cast<double>(key) * 100.0;  // shrinks
  }
  leaves.at("v").values[40 * 5 + 1] = infinity;
  leaves.at("v").values[41 * 5 + 2] = std::nan("");
  return {g, leaves};
}

void expect_three_kernels(const number_case& of, const way& how) {
  const std::vector<double> found = on_device(of.g, of.leaves, how),
                            apart = on_device(of.g, of.leaves, {.fuse = false});
  ASSERT_EQ(found.size(), apart.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isfinite(apart[i])) {
      EXPECT_NEAR(found[i], apart[i], 1e-5 * std::max(1.0, std::abs(apart[i])))
          << "row " << i / 5 << " channel " << i % 5;
    } else {
      EXPECT_EQ(std::isnan(found[i]), std::isnan(apart[i])) << "row " << i / 5 << " channel " << i % 5;
      EXPECT_TRUE(std::isnan(apart[i]) || found[i] == apart[i]) << "row " << i / 5 << " channel " << i % 5;
    }
  }
}

// Rows of minus infinity alone, of which kernels go through what is not ahead.
TEST(runtime_attention, rows_of_minus_infinity) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  graph g;
  const node_id q = g.input("q", dtype::f32, {72, 4}), k = g.input("k", dtype::f32, {72, 4});
  const node_value scores(g, g.contract(q, k, "td", "sd", "ts")), mask(g, g.input("mask", dtype::f32, {72, 72}));
  const node_value query(g, g.coordinates({72, 72}, 0)), key(g, g.coordinates({72, 72}, 1));
  const node_value weights = softmax(select(less_equal(key, query), scores + mask, -infinity), -1);
  g.add_output("y", g.contract(weights.id(), g.input("v", dtype::f32, {72, 5}), "ts", "sc", "tc"));
  number_case of{g, samples::random_leaves(g, -2, 2)};
  for (const std::size_t row : {0u, 3u, 40u, 71u}) {
    for (std::size_t i = 0; i < 72; ++i) {
      if (row != 71 || i > 2) of.leaves.at("mask").values[row * 72 + i] = -static_cast<double>(infinity);
    }
  }
  for (const way& how : {way{}, way{.schedule = 0, .small_units = true}}) expect_three_kernels(of, how);
}

TEST(runtime_attention, what_is_no_number) { expect_three_kernels(what_is_no_number(), {}); }

// With values as they are; with none of those, where f16 holds all; and with keys and queries besides.
TEST(runtime_attention, what_is_no_number_on_matrix_units) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const std::size_t schedule : {0u, 1u}) {
    number_case of = what_is_no_number();
    const way how{.schedule = schedule, .small_units = true};
    expect_three_kernels(of, how);
    auto& values = of.leaves.at("v").values;
    values[40 * 5 + 1] = values[41 * 5 + 2] = 1;
    expect_three_kernels(of, how);
    of.leaves.at("k").values[50 * 4] = infinity;
    of.leaves.at("k").values[51 * 4 + 2] = std::nan("");
    of.leaves.at("q").values[9 * 4 + 3] = -infinity;
    expect_three_kernels(of, how);
  }
}

std::vector<way> few_on_units() {
  std::vector<way> found;
  for (const precision accuracy : {precision::exact, precision::fast}) {
    for (const std::size_t i : {0u, 1u}) found.push_back({.accuracy = accuracy, .schedule = i, .small_units = true});
  }
  return found;
}

// A score besides those of keys, one for each head; also such as is no number, or far from all others, and rows that
// see nothing else.
graph with_sinks(const asked& a) {
  graph g;
  const node_value q(g, g.input("q", dtype::f32, {a.queries, a.heads, a.width}));
  const node_value k(g, g.input("k", dtype::f32, {a.keys, a.kv_heads, a.width}));
  const node_value v(g, g.input("v", dtype::f32, {a.keys, a.kv_heads, a.channels}));
  const node_value sinks(g, g.input("sinks", dtype::f32, {a.heads}));
  const node_value mask(g, g.input("mask", dtype::f32, {a.queries, a.keys}));
  g.add_output("y", attend(q, k, v, attn_mask(mask), attention_sinks(sinks), a.options));
  return g;
}
TEST(runtime_attention, sinks) {
  for (const asked& each : {asked{21, 65, 2, 1, 8, 8, {.causal = true}}, asked{9, 33, 2, 2, 7, 5}}) {
    const graph g = with_sinks(each);
    std::vector<way> ways{{}, {.schedule = 0, .small_units = true}};
    if (has_units() || each.queries < 10)
      ways.push_back({.accuracy = precision::fast, .schedule = 1, .small_units = true});
    for (const way& how : ways) expect_oracle(g, each.keys + each.width, "schedule", how);
  }
}
TEST(runtime_attention, sinks_that_are_no_numbers) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const graph g = with_sinks({9, 40, 7, 1, 4, 5});
  oracle::tensors<double> leaves = samples::random_leaves(g, -2, 2);
  leaves.at("sinks").values = {-infinity, infinity, std::nan(""), 300, -3e38, 1, 3e38};
  for (std::size_t key = 0; key < 40; ++key) {
    leaves.at("mask").values[key] = -infinity;                             // sees nothing
    leaves.at("mask").values[40 + key] = key == 39 ? 300 : -infinity;      // one alone
    leaves.at("mask").values[80 + key] = 30 * static_cast<double>(key);    // grows all along the row
    leaves.at("mask").values[120 + key] = -30 * static_cast<double>(key);  // shrinks
  }
  for (const bool fits_f16 : {true, false}) {
    if (!fits_f16) leaves.at("v").values[39 * 5 + 1] = infinity;
    expect_three_kernels({g, leaves}, {});
    for (const std::size_t schedule : {0u, 1u})
      expect_three_kernels({g, leaves}, {.schedule = schedule, .small_units = true});
  }
}

// f16 has a small range: rows far below and above it, channels far apart, and values that grow all along.
TEST(runtime_attention, whatever_the_scale_on_matrix_units) {
  const graph g = attention({18, 40, 1, 1, 8, 6});
  const oracle::tensors<double> usual = samples::random_leaves(g, -2, 2);
  for (const double size : {-60.0, 60.0}) {
    oracle::tensors<double> leaves = usual;
    auto &q = leaves.at("q").values, &k = leaves.at("k").values, &v = leaves.at("v").values;
    for (std::size_t i = 0; i < q.size(); ++i) q[i] = std::ldexp(q[i], static_cast<int>(size));
    for (std::size_t i = 0; i < k.size(); ++i)
      k[i] = std::ldexp(k[i], -static_cast<int>(size) - static_cast<int>(i / 8 % 20));
    for (std::size_t i = 0; i < v.size(); ++i) {
      const int channel = static_cast<int>(i % 6) * 20 - 50, grown = size < 0 ? 0 : static_cast<int>(i / 6);
      v[i] = std::ldexp(v[i], channel + grown);
    }
    const std::vector<double> expected = oracle::interpreter<double>(g, leaves, {}).run().at("y").values;
    for (const way& how : few_on_units()) {
      const std::vector<double> found = on_device(g, leaves, how);
      std::vector<double> worst(6), largest(6);
      for (std::size_t i = 0; i < found.size(); ++i) {
        worst[i % 6] = std::max(worst[i % 6], std::abs(found[i] - expected[i]));
        largest[i % 6] = std::max(largest[i % 6], std::abs(expected[i]));
      }
      for (std::size_t c = 0; c < 6; ++c)
        EXPECT_LE(worst[c] / largest[c], how.accuracy == precision::exact ? 2e-6 : 5e-3) << size << " channel " << c;
    }
  }
}

// Values whose sum no f32 holds, and such as vanish in f16: what becomes of them is a mean of them.
TEST(runtime_attention, values_at_the_ends_of_the_range) {
  const graph g = attention({6, 40, 1, 1, 8, 6});
  const oracle::tensors<double> usual = samples::random_leaves(g, -2, 2);
  for (const int size : {126, -70, -80, -100}) {
    oracle::tensors<double> leaves = usual;
    for (double& each : leaves.at("v").values) each = std::ldexp(0.5 + each / 8, size);
    // And queries and keys that are as far from each other.
    if (size < 0) {
      for (double& each : leaves.at("q").values) each = std::ldexp(each, size);
      for (double& each : leaves.at("k").values) each = std::ldexp(each, -size);
    }
    const std::vector<double> expected = oracle::interpreter<double>(g, leaves, {}).run().at("y").values;
    std::vector<way> ways = few_on_units();
    ways.emplace_back();
    for (const way& how : ways) {
      const double permitted = how.accuracy == precision::fast ? 2e-3 : 2e-6;
      EXPECT_LE(oracle::relative_error(on_device(g, leaves, how), expected), permitted) << size;
    }
  }
}

// What is hidden is read, too: it takes no digits from the rest.
TEST(runtime_attention, hidden_values_take_no_digits_from_others) {
  const graph g = attention({9, 21, 1, 1, 8, 6, {.causal = true}});
  oracle::tensors<double> leaves = samples::random_leaves(g, -2, 2);
  for (std::size_t c = 0; c < 6; ++c) leaves.at("v").values[20 * 6 + c] = 1e6, leaves.at("v").values[c] = 1;
  leaves.at("v").values[14 * 6] = -1e7;
  std::vector<double> expected = oracle::interpreter<double>(g, leaves, {}).run().at("y").values;
  for (const std::size_t schedule : {0u, 1u}) {
    const std::vector<double> found = on_device(g, leaves, {.schedule = schedule, .small_units = true});
    for (std::size_t i = 0; i < 2 * 6; ++i) EXPECT_NEAR(found[i], expected[i], 2e-6 * 2) << schedule << " " << i;
  }
  // Not even where they are larger by far more than f16 has room for.
  for (const std::size_t hidden : {15u, 20u}) {
    for (std::size_t c = 0; c < 6; ++c) leaves.at("v").values[hidden * 6 + c] = 1e20;
    expected = oracle::interpreter<double>(g, leaves, {}).run().at("y").values;
    for (const std::size_t schedule : {0u, 1u}) {
      const std::vector<double> found = on_device(g, leaves, {.schedule = schedule, .small_units = true});
      for (std::size_t i = 0; i < 2 * 6; ++i) EXPECT_NEAR(found[i], expected[i], 2e-6 * 2) << schedule << " " << i;
    }
    for (std::size_t c = 0; c < 6; ++c) leaves.at("v").values[hidden * 6 + c] = 1;
  }
}

// Rows of infinities as they are, which layers do not let come about; and weights that are hardly numbers.
TEST(runtime_attention, rows_that_see_nothing_and_weights_at_the_end) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  graph g;
  const node_id q = g.input("q", dtype::f32, {5, 4}), k = g.input("k", dtype::f32, {40, 4}),
                v = g.input("v", dtype::f32, {40, 5}), mask = g.input("mask", dtype::f32, {5, 40});
  const node_id scores = g.add(g.contract(q, k, "iw", "jw", "ij"), mask);
  g.add_output("y", g.contract(samples::softmax(g, scores), v, "ij", "jc", "ic"));
  oracle::tensors<double> leaves = samples::random_leaves(g, -2, 2);
  for (double& each : leaves.at("q").values) each = 0;
  auto& added = leaves.at("mask").values;
  for (std::size_t key = 0; key < 40; ++key) {
    added[key] = -infinity;                        // nothing at all
    added[40 + key] = key < 33 ? -infinity : 0;    // nothing in the first block
    added[80 + key] = key == 7 ? infinity : 0;     // no number
    added[120 + key] = key == 0 ? 0 : -82;         // weights near the end of numbers
    added[160 + key] = key == 39 ? 0 : -infinity;  // one alone
  }
  for (std::size_t c = 0; c < 5; ++c) leaves.at("v").values[c] = 0;
  for (std::size_t key = 1; key < 40; ++key) leaves.at("v").values[key * 5 + 4] = 1e37;
  const number_case all{g, leaves};
  expect_three_kernels(all, {});
  for (const std::size_t schedule : {0u, 1u}) expect_three_kernels(all, {.schedule = schedule, .small_units = true});
}

}  // namespace
