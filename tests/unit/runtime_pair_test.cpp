// SPDX-License-Identifier: MIT
// Products with two right operands, on the device: schedules against the oracle, and what is no number.
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
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::support;

struct way {
  precision accuracy = precision::exact;
  std::size_t schedule = 0;
};

bool has_units() { return profile_of(support::shared_device()).matrix_units == matrix_units::cooperative; }

// All schedules that there are, or of emulated units, which are slow, two: one slice of k, and several.
std::vector<way> ways() {
  if (!has_units()) return {{precision::exact, 0}, {precision::fast, 10}};
  std::vector<way> found;
  for (const precision accuracy : {precision::exact, precision::fast}) {
    for (std::size_t i = 0; i < 40; i += 3) found.push_back({accuracy, i});
  }
  return found;
}

using named_values = std::map<std::string, std::vector<double>>;

named_values on_device(const graph& g, const oracle::tensors<double>& leaves, const way& how, std::size_t results,
                       bool is_paired = true) {
  const device& gpu = support::shared_unit_device<matrix_shape{8, 8, 8}>();
  const parameters weights(gpu, g);
  program run(gpu, g, weights, options_of_one_product(gpu, how.accuracy, how.schedule));
  const auto made = products(run.plan().implementation);
  EXPECT_EQ(made.size(), 1u) << to_text(run.plan());
  EXPECT_EQ(made[0]->paired, is_paired) << to_text(run.plan());
  EXPECT_EQ(1 + made[0]->further.size(), results);
  support::set_inputs(run, g, leaves);
  run.submit({});
  named_values found;
  for (const graph_output& each : g.outputs())
    found[each.name] = support::loaded(run.output(each.name), dtype::f32, shape(g[each.node].extents)).values;
  return found;
}

void expect_oracle(const graph& g, std::int64_t terms, const std::string& what, const way& how, std::size_t results,
                   const oracle::tensors<double>& leaves, bool is_paired = true) {
  const auto expected = oracle::interpreter<double>(g, leaves, {}).run();
  const double permitted = how.accuracy == precision::fast ? 4e-3 : 2 * oracle::tolerance(dtype::f32, terms);
  for (const auto& [name, values] : on_device(g, leaves, how, results, is_paired)) {
    EXPECT_LE(oracle::relative_error(values, expected.at(name).values), permitted)
        << what << ' ' << name << " schedule " << how.schedule;
  }
}

TEST(runtime_pair, on_matrix_units) {
  std::vector<sizes> all{{21, 36, 20}};
  if (has_units())
    all.insert(all.end(), {{40, 200, 33}, {128, 576, 192}, {50, 720, 200}, {130, 1000, 70}, {128, 576, 1536}});
  for (const sizes& each : all) {
    for (std::size_t i = 0; i < pairs().size(); ++i) {
      const named_pair& form = pairs()[i];
      if (form.has_prologue && each.terms % 4 != 0) continue;
      graph g;
      form.make(g, each);
      const std::string what = std::string(form.name) + " " + std::to_string(each.terms);
      for (const way& how : ways()) {  // of real ones each schedule with some spelling
        if (has_units() && (how.schedule + i) % pairs().size() != 0) continue;
        if (!has_units() && (how.accuracy == precision::fast) != (i % 2 == 1)) continue;
        expect_oracle(g, each.terms, what, how, form.results, samples::random_leaves(g, -2, 2), form.is_paired);
      }
    }
  }
}

TEST(runtime_pair, rotary_embeddings) {
  std::vector<sizes> all{{21, 36, 20}, {24, 40, 48}};
  if (has_units()) all.insert(all.end(), {{40, 200, 36}, {128, 576, 192}, {50, 720, 960}, {130, 1000, 72}});
  for (const sizes& each : all) {
    for (std::size_t i = 0; i < rotary_products().size(); ++i) {
      const named_pair& form = rotary_products()[i];
      graph g;
      form.make(g, each);
      const std::string what = std::string(form.name) + " " + std::to_string(each.columns);
      for (const way& how : ways()) {
        if (has_units() && (how.schedule + i) % rotary_products().size() != 0) continue;
        if (!has_units() && (how.accuracy == precision::fast) != (i % 2 == 1)) continue;
        expect_oracle(g, each.terms, what, how, 1, samples::random_leaves(g, -2, 2));
      }
    }
  }
}

// Magnitudes that f16 does not hold, other ones in either right operand; rows of zeros.
TEST(runtime_pair, extreme_values) {
  graph g;
  pairs()[5].make(g, {21, 72, 20});
  for (const way& how : ways()) {
    oracle::tensors<double> leaves = samples::random_leaves(g, -2, 2);
    for (double& each : leaves.at("w").values) each = static_cast<float>(each * 1e-20);
    for (double& each : leaves.at("v").values) each = static_cast<float>(each * 1e9);
    for (std::size_t i = 0; i < 72; ++i) leaves.at("x").values[72 * 5 + i] = 0;
    leaves.at("x").values[72 * 7 + 70] *= 1e4;
    expect_oracle(g, 72, "extreme", how, 2, leaves);
  }
}

// What is no number stays in its column of its operand.
TEST(runtime_pair, not_a_number) {
  graph g;
  pairs()[4].make(g, {21, 72, 20});
  for (const way& how : ways()) {
    oracle::tensors<double> leaves = samples::random_leaves(g, -2, 2);
    leaves.at("w").values[20 * 71 + 3] = std::numeric_limits<double>::quiet_NaN();
    leaves.at("v").values[20 * 2 + 4] = std::numeric_limits<double>::infinity();
    const named_values found = on_device(g, leaves, how, 3);
    for (std::size_t i = 0; i < 21 * 20; ++i) {
      EXPECT_EQ(std::isnan(found.at("first")[i]), i % 20 == 3) << i;
      EXPECT_EQ(std::isfinite(found.at("second")[i]), i % 20 != 4) << i;
      EXPECT_EQ(std::isfinite(found.at("y")[i]), i % 20 != 3 && i % 20 != 4) << i;
    }
  }
}

}  // namespace
