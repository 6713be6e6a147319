// SPDX-License-Identifier: MIT
// Products that compute what they read, on the device: every schedule against the oracle, and what is no number.
#include <meganeura/meganeura.hpp>
#include <meganeura/runtime/measured_rates.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/program_values.hpp>
#include <support/prologue_samples.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::support;

struct way {
  precision accuracy = precision::exact;
  std::optional<std::size_t> schedule{};
  bool small_units = false;  // of 8x8x8 where they are emulated
};

bool has_units() { return profile_of(support::shared_device()).matrix_units == matrix_units::cooperative; }

// All schedules that there are, or of emulated units, which are slow, a few.
std::vector<way> ways() {
  std::vector<way> found;
  for (const precision accuracy : {precision::exact, precision::fast}) {
    for (std::size_t i = 0; i < (has_units() ? 40u : 1u); i += 3) found.push_back({accuracy, i, true});
  }
  return found;
}

std::vector<double> on_device(const graph& g, const oracle::tensors<double>& leaves, const way& how) {
  const device& gpu =
      how.small_units ? support::shared_unit_device<matrix_shape{8, 8, 8}>() : support::shared_unit_device();
  const parameters weights(gpu, g);
  program run(gpu, g, weights, options_of_one_product(gpu, how.accuracy, how.schedule));
  std::size_t found = 0;
  for (const matmul_attribute* product : products(run.plan().implementation)) found += !product->start.is_empty();
  EXPECT_EQ(found, 1u) << to_text(run.plan());
  support::set_inputs(run, g, leaves);
  run.submit({});
  return support::loaded(run.output("y"), dtype::f32, shape(g[g.outputs()[0].node].extents)).values;
}

void expect_oracle(const graph& g, std::int64_t terms, const std::string& what, const way& how,
                   const std::function<void(oracle::tensors<double>&)>& change = {}) {
  oracle::tensors<double> leaves = samples::random_leaves(g, -2, 2);
  if (change) change(leaves);
  const std::vector<double> expected = oracle::interpreter<double>(g, leaves, {}).run().at("y").values;
  const double permitted = how.accuracy == precision::fast ? 2e-3 : oracle::tolerance(dtype::f32, terms);
  const std::vector<double> found = on_device(g, leaves, how);
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_LE(oracle::relative_error(found, expected), permitted) << what;
}

TEST(runtime_prologue, on_matrix_units) {
  std::vector<sizes> all{{21, 36, 20}};
  if (has_units())
    all.insert(all.end(), {{40, 200, 33}, {128, 576, 192}, {50, 720, 200}, {130, 1000, 70}, {1500, 384, 384}});
  for (const sizes& each : all) {
    const std::string size =
        std::to_string(each.rows) + "x" + std::to_string(each.terms) + "x" + std::to_string(each.columns);
    for (std::size_t i = 0; i < spellings().size(); ++i) {
      const named& form = spellings()[i];
      const graph g = product_of(form.make, each, each.columns % 4 == 0);
      for (const way& how : ways()) {  // of real ones each schedule with some spelling
        if (has_units() ? (*how.schedule + i) % spellings().size() != 0
                        : how.accuracy == precision::fast && !form.has_statistic)
          continue;
        expect_oracle(g, each.terms, size + " " + form.name, how);
      }
    }
  }
}

// Of operands whose neighbours are rows: the gradient of weights.
TEST(runtime_prologue, along_rows) {
  graph g;
  const node_value x = f32_input(g, "x", {70, 24}), up = f32_input(g, "up", {70, 24}), y = f32_input(g, "dy", {70, 20});
  const node_value tokens = f32_input(g, "tokens", {70, 1});
  g.add_output("y", matmul(transpose(silu(x) * up * tokens), y));
  for (const way& how : ways()) expect_oracle(g, 70, "gradient", how);
}

// Batches whose programs read what differs between them and what does not.
TEST(runtime_prologue, batches) {
  graph g;
  const node_value x = f32_input(g, "x", {3, 10, 24}), w = f32_input(g, "w", {3, 24, 20});
  const node_value each = f32_input(g, "each", {3, 1, 24}), all = f32_input(g, "all", {24});
  g.add_output("y", matmul(x * rsqrt(mean_along(square(x), 2) + 1e-5) * each * all, w));
  for (const way& how : ways()) expect_oracle(g, 24, "batch", how);
}

// Gradients of a softmax, whose rows' sums are of what the product multiplies.
TEST(runtime_prologue, gradients_of_softmax) {
  graph g;
  const node_value w = f32_input(g, "w", {2, 3, 20, 40}), dy = f32_input(g, "dy", {20, 2, 3, 24});
  const node_value v = f32_input(g, "v", {40, 2, 24});
  const node_value x{g, g.contract(dy, v, "qhgc", "khc", "hgqk")};
  g.add_output("y", select(less(w, 0), 0, w * (x - sum_along(w * x, 3))) * 0.125);
  g.add_output("o", g.contract(w, v, "hgqk", "khc", "qhgc"));
  for (const way& how : ways()) {
    for (const double scale : {1.0, 1e-12, 1e12}) {
      expect_oracle(g, 40 * 24, "scale " + std::to_string(scale), how, [&](oracle::tensors<double>& leaves) {
        for (double& each : leaves.at("dy").values) each = static_cast<float>(each * scale);
      });
    }
  }
}

// Magnitudes that f16 does not hold, rows of zeros.
TEST(runtime_prologue, extreme_values) {
  const graph g = product_of(spellings()[0].make, {21, 72, 20});
  for (const way& how : ways()) {
    for (const double scale : {1e-30, 1e-12, 1e12}) {
      expect_oracle(g, 72, "scale " + std::to_string(scale), how, [&](oracle::tensors<double>& leaves) {
        for (double& each : leaves.at("x").values) each = static_cast<float>(each * scale);
        for (std::size_t i = 0; i < 72; ++i) leaves.at("x").values[72 * 5 + i] = 0;
        leaves.at("x").values[72 * 7 + 70] *= 1e4;
      });
    }
  }
}

// What is no number stays in its row.
TEST(runtime_prologue, not_a_number) {
  const graph g = product_of(spellings()[0].make, {21, 72, 20});
  for (const way& how : ways()) {
    oracle::tensors<double> leaves = samples::random_leaves(g, -2, 2);
    leaves.at("x").values[72 * 3 + 71] = std::numeric_limits<double>::quiet_NaN();
    leaves.at("x").values[72 * 4] = std::numeric_limits<double>::infinity();
    const std::vector<double> expected = oracle::interpreter<double>(g, leaves, {}).run().at("y").values;
    const std::vector<double> found = on_device(g, leaves, how);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(std::isnan(found[i]), i / 20 == 3 || i / 20 == 4) << i;
      if (!std::isnan(expected[i])) {
        EXPECT_NEAR(found[i], expected[i], 1e-2) << i;
      }
    }
  }
}

}  // namespace
