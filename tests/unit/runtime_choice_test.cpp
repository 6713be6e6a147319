// SPDX-License-Identifier: MIT
// What gumbel_softmax draws on a device.
#include <meganeura/expr/value.hpp>
#include <meganeura/operations.hpp>
#include <meganeura/runtime/inference.hpp>

#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace {

using namespace meganeura;

TEST(runtime_choice, classes_are_drawn_by_their_logits) {
  constexpr std::int64_t rows = 4000;
  constexpr double shares[]{0.2, 0.3, 0.5};
  std::vector<float> logits;
  for (std::int64_t i = 0; i < 3 * rows; ++i) logits.push_back(static_cast<float>(std::log(shares[i % 3])));
  graph g(run_mode::training);
  const node_value x(g, g.input("x", dtype::f32, {rows, 3}));
  const node_value hard = gumbel_softmax("hard", x, 1, gumbel_options{.temperature = 0.5, .hard = true});
  const node_value soft = gumbel_softmax("soft", x, -1, gumbel_options{});
  g.add_output("y", concat(1, hard, soft).id());
  inference run(support::shared_device(), g, {.seed = 3});
  const std::vector<float> first = run.run({{"x", logits}}), second = run.run({{"x", logits}});
  EXPECT_NE(first, second);
  double drawn[3]{}, likeliest[3]{};
  for (std::size_t i = 0; i < first.size(); i += 6) {
    const float* row = &first[i];
    EXPECT_EQ(row[0] + row[1] + row[2], 1);
    EXPECT_NEAR(row[3] + row[4] + row[5], 1, 1e-6);
    for (int k = 0; k < 3; ++k) {
      EXPECT_TRUE(row[k] == 0 || row[k] == 1) << row[k];
      drawn[k] += static_cast<double>(row[k]);
      likeliest[k] += row[3 + k] >= row[3] && row[3 + k] >= row[4] && row[3 + k] >= row[5] ? 1 : 0;
    }
  }
  for (int k = 0; k < 3; ++k) {
    const double expected = shares[k] * rows, spread = 4 * std::sqrt(expected * (1 - shares[k]));
    EXPECT_NEAR(drawn[k], expected, spread) << k;
    EXPECT_NEAR(likeliest[k], expected, spread) << k;
  }
}

}  // namespace
