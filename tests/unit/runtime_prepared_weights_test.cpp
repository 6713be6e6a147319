// SPDX-License-Identifier: MIT
// Products whose right operands are parameters that come prepared, on the device: forms against the oracle, and values
// that f16 does not hold.
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/meganeura.hpp>
#include <meganeura/runtime/measured_rates.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/pair_samples.hpp>
#include <support/program_values.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::support;

using named_values = std::map<std::string, std::vector<double>>;

bool has_units() { return profile_of(support::shared_device()).matrix_units == matrix_units::cooperative; }

// Schedules of one slice of k and of several.
std::vector<std::size_t> schedules() {
  if (!has_units()) return {0, 10};
  return {0, 3, 7, 10, 14, 19, 26, 33};
}

// The same graph, of which "w" and "v" are parameters.
graph with_weights(const graph& from) {
  graph g(from.paths());
  std::vector<node_id> made;
  for (node_id id{0}; id < from.size(); ++id) {
    std::vector<node_id> operands;
    for (const node_id operand : from.operands(id)) operands.push_back(made[operand]);
    const auto* leaf = std::get_if<leaf_attribute>(&from.attribute_of(id));
    const bool is_weight = leaf != nullptr && from[id].kind == op::input && (leaf->name == "w" || leaf->name == "v");
    made.push_back(is_weight
                       ? g.parameter(leaf->name, from[id].type, from[id].extents)
                       : g.add_node(from[id].kind, from[id].type, from[id].extents, from.attribute_of(id), operands));
  }
  for (const graph_output& output : from.outputs()) g.add_output(output.name, made[output.node]);
  return g;
}

class prepared_run {
 public:
  prepared_run(const graph& g, std::size_t schedule, bool folds = true)
      : g_(g), gpu_(support::shared_unit_device<matrix_shape{8, 8, 8}>()), weights_(gpu_, g) {
    program_options options = options_of_one_product(gpu_, precision::fast, schedule);
    options.plan.fold = folds;
    run_.emplace(gpu_, g, weights_, options);
    const auto made = products(run_->plan().implementation);
    EXPECT_EQ(made.size(), 1u) << to_text(run_->plan());
    const bool expected = folds && fusion::can_be_prepared(made[0]->schedule);
    EXPECT_EQ(made[0]->prepared, expected) << to_text(run_->plan());
    EXPECT_EQ(run_->plan().folded.size(), expected ? made[0]->sums() : 0) << to_text(run_->plan());
    plan::verify(run_->plan());
  }

  named_values operator()(const oracle::tensors<double>& leaves) {
    for (const plan::named_tensor& each : weights_.layout().tensors)
      weights_.set_bytes(each.name, support::stored_bytes(leaves.at(each.name)));
    support::set_inputs(*run_, g_, leaves);
    run_->submit({});
    named_values found;
    for (const graph_output& each : g_.outputs())
      found[each.name] = support::loaded(run_->output(each.name), dtype::f32, shape(g_[each.node].extents)).values;
    return found;
  }

 private:
  const graph& g_;
  const device& gpu_;
  parameters weights_;
  std::optional<program> run_;
};

void expect_oracle(const graph& g, const std::string& what, std::size_t schedule,
                   const oracle::tensors<double>& leaves) {
  const auto expected = oracle::interpreter<double>(g, leaves, {}).run();
  const double permitted = has_units() ? 1e-2 : 4e-3;  // longer sums, of which some are nearly 0
  for (const auto& [name, values] : prepared_run(g, schedule)(leaves)) {
    EXPECT_LE(oracle::relative_error(values, expected.at(name).values), permitted)
        << what << ' ' << name << " schedule " << schedule;
  }
}

// Of each column by itself, by its own norm.
void expect_rows(const graph& g, const named_values& found, const oracle::tensors<double>& leaves,
                 std::int64_t columns) {
  const auto expected = oracle::interpreter<double>(g, leaves, {}).run();
  for (const auto& [name, values] : found) {
    const std::vector<double>& truth = expected.at(name).values;
    for (std::size_t column = 0; column < static_cast<std::size_t>(columns); ++column) {
      double error = 0, norm = 0;
      for (std::size_t i = column; i < truth.size(); i += static_cast<std::size_t>(columns))
        error += (values[i] - truth[i]) * (values[i] - truth[i]), norm += truth[i] * truth[i];
      EXPECT_LE(std::sqrt(error), 4e-3 * std::sqrt(norm)) << name << " column " << column;
    }
  }
}

TEST(runtime_prepared_weights, of_pairs_and_several_results) {
  std::vector<sizes> all{{21, 36, 20}};
  if (has_units()) all.insert(all.end(), {{40, 200, 33}, {128, 576, 192}, {130, 1000, 70}});
  for (const sizes& each : all) {
    for (std::size_t i = 0; i < pairs().size(); ++i) {
      const named_pair& form = pairs()[i];
      if (form.has_prologue && each.terms % 4 != 0) continue;
      if (!has_units() && i % 2 == 1 && std::string_view(form.name) != "batches") continue;  // emulated ones are slow
      graph given;
      form.make(given, each);
      const graph g = with_weights(given);
      for (std::size_t j = i / 2 % 2; j < schedules().size(); j += 2)
        expect_oracle(g, form.name, schedules()[j], samples::random_leaves(g, -2, 2));
    }
  }
}

TEST(runtime_prepared_weights, of_rotary_embeddings) {
  for (std::size_t i = 0; i < rotary_products().size(); ++i) {
    graph given;
    rotary_products()[i].make(given, {24, 40, 48});
    const graph g = with_weights(given);
    if (!has_units() && i % 2 == 1) continue;
    for (std::size_t j = i / 2 % 2; j < schedules().size(); j += 2)
      expect_oracle(g, rotary_products()[i].name, schedules()[j], samples::random_leaves(g, -2, 2));
  }
}

graph one_product(std::int64_t m, std::int64_t k, std::int64_t n, bool transposed) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {m, k}), b = g.input("b", dtype::f32, {n});
  const node_id w = g.parameter("w", dtype::f32, transposed ? shape{n, k} : shape{k, n});
  const node_id y = g.contract(x, w, "mk", transposed ? "nk" : "kn", "mn");
  g.add_output("y", g.add(y, g.expand(b, {m, n})));
  return g;
}

// Neither rows nor columns nor terms are whole tiles or groups; either way of lying; long rows.
TEST(runtime_prepared_weights, of_odd_sizes) {
  bool transposed = false;
  for (const auto& [m, k, n] : {std::tuple{9, 7, 5}, {33, 31, 17}, {16, 1100, 24}, {3, 515, 40}}) {
    const graph g = one_product(m, k, n, transposed = !transposed);
    expect_oracle(g, std::to_string(k), 0, samples::random_leaves(g, -2, 2));
  }
}

// A column has its own power of two: what is 1e-30 of its neighbours keeps its digits, as do rows of the left operand.
TEST(runtime_prepared_weights, columns_of_any_magnitude) {
  const graph g = one_product(21, 72, 20, true);
  for (const std::size_t schedule : schedules()) {
    prepared_run run(g, schedule);
    oracle::tensors<double> leaves = samples::random_leaves(g, 0.5, 2);
    for (double& each : leaves.at("b").values) each = 0;
    for (std::size_t n = 0; n < 20; ++n) {
      const double by = std::pow(10.0, n % 5 == 0 ? 0 : n % 5 == 1 ? -15 : n % 5 == 2 ? 15 : n % 5 == 3 ? -17 : 3);
      for (std::size_t k = 0; k < 72; ++k)
        leaves.at("w").values[n * 72 + k] = static_cast<float>(leaves.at("w").values[n * 72 + k] * by);
    }
    for (std::size_t k = 0; k < 72; ++k) leaves.at("w").values[72 * 11 + k] = 0;
    expect_rows(g, run(leaves), leaves, 20);
    // And where rows of the left operand have powers of their own as well.
    for (std::size_t k = 0; k < 72; ++k) leaves.at("x").values[72 * 7 + k] *= 0x1p40;
    expect_rows(g, run(leaves), leaves, 20);
    // Beyond what such powers hold: from the weights themselves.
    for (std::size_t k = 0; k < 72; ++k) leaves.at("x").values[72 * 7 + k] *= 0x1p-40;
    for (std::size_t k = 0; k < 72; ++k) leaves.at("w").values[72 * 3 + k] = std::ldexp(1.0 + double(k) / 72, -100);
    for (std::size_t k = 0; k < 72; ++k) leaves.at("w").values[72 * 4 + k] = std::ldexp(1.0 + double(k) / 72, 100);
    expect_rows(g, run(leaves), leaves, 20);
  }
}

TEST(runtime_prepared_weights, not_a_number) {
  const graph g = one_product(21, 72, 20, false);
  for (const std::size_t schedule : schedules()) {
    prepared_run run(g, schedule);
    oracle::tensors<double> leaves = samples::random_leaves(g, 0.5, 2);
    leaves.at("w").values[20 * 71 + 3] = std::numeric_limits<double>::quiet_NaN();
    leaves.at("w").values[20 * 2 + 4] = std::numeric_limits<double>::infinity();
    leaves.at("x").values[72 * 5 + 8] = std::numeric_limits<double>::quiet_NaN();
    const std::vector<double> found = run(leaves).at("y");
    for (std::size_t i = 0; i < 21 * 20; ++i) {
      EXPECT_EQ(std::isnan(found[i]), i % 20 == 3 || i / 20 == 5) << i;
      EXPECT_EQ(std::isinf(found[i]), i % 20 == 4 && i / 20 != 5) << i;
    }
  }
}

// The next run has what was written, and the same as without.
TEST(runtime_prepared_weights, follow_the_parameters) {
  const graph g = one_product(21, 72, 20, true);
  prepared_run run(g, 0), without(g, 0, false);
  for (int i = 0; i < 3; ++i) {
    oracle::tensors<double> leaves = samples::random_leaves(g, -1 - i, 2);
    const std::vector<double> found = run(leaves).at("y"), expected = without(leaves).at("y");
    EXPECT_LE(oracle::relative_error(found, expected), 1e-3);
    expect_rows(g, {{"y", found}}, leaves, 20);
  }
}

std::size_t prepared_products(const graph& g, const std::function<void(program_options&)>& change,
                              std::string* explain = nullptr) {
  const device& gpu = support::shared_unit_device<matrix_shape{8, 8, 8}>();
  const parameters weights(gpu, g);
  program_options options = options_of_one_product(gpu, precision::fast, 0);
  options.optimize.explain = explain != nullptr;
  change(options);
  const program run(gpu, g, weights, options);
  if (explain != nullptr) *explain = run.report().explain;
  std::size_t count = 0;
  for (const matmul_attribute* each : products(run.plan().implementation)) count += each->prepared;
  return count;
}

TEST(runtime_prepared_weights, only_where_they_are_asked_for_and_fit) {
  const graph g = one_product(24, 64, 24, true);
  EXPECT_EQ(prepared_products(g, [](auto&) {}), 1u);
  EXPECT_EQ(prepared_products(g, [](auto& o) { o.precision = precision::exact; }), 0u);
  EXPECT_EQ(prepared_products(g, [](auto& o) { o.optimize.disabled.push_back("prepare_weights"); }), 0u);
  EXPECT_EQ(prepared_products(g, [](auto& o) { o.plan.fold = false; }), 0u);
  EXPECT_EQ(prepared_products(g, [](auto& o) { o.optimize.fold = false; }), 0u);
  std::string explain;
  EXPECT_EQ(prepared_products(
                g, [](auto& o) { o.optimize.region.buffers = 3; }, &explain),
            0u);
  EXPECT_NE(explain.find("prepare_weights: too many operands"), std::string::npos) << explain;
}

// A trained parameter changes in each step.
TEST(runtime_prepared_weights, of_a_training_where_they_are_frozen) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {24, 64}), frozen = g.parameter("frozen", dtype::f32, {64, 64}),
                trained = g.parameter("trained", dtype::f32, {64, 64});
  const node_id h = g.contract(x, frozen, "mk", "kn", "mn"), y = g.contract(h, trained, "mk", "kn", "mn");
  const node_id gradient = g.contract(h, y, "km", "kn", "mn"), pair[] = {trained, gradient};
  g.optimizer_step(optimizer(sgd{.learning_rate = 0.5f}).rule(), pair);
  g.add_output("y", y);
  EXPECT_EQ(prepared_products(g, [](auto&) {}), 1u);
}

}  // namespace
