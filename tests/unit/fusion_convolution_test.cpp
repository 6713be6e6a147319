// SPDX-License-Identifier: MIT
// Convolutions as products: every geometry and all three forms compute the same, and which have one.
#include <meganeura/fusion/optimize.hpp>

#include <support/convolution_samples.hpp>
#include <support/egraph_sample_graphs.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace {

using namespace meganeura;

std::size_t count(const graph& g, op kind) {
  std::size_t found = 0;
  for (node_id id{0}; id < g.size(); ++id) found += g[id].kind == kind;
  return found;
}

// Where nothing else computes it.
TEST(fusion_convolution, every_geometry_is_a_product) {
  std::size_t products = 0, others = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    support::dice dice(seed);
    convolution_attribute c;
    const int spatial = static_cast<int>(dice.between(1, 3));
    const support::convolution_sizes all = support::draw_convolution(dice, c, spatial);
    for (const auto form :
         {convolution_attribute::output, convolution_attribute::input, convolution_attribute::filter}) {
      c.form = form;
      const graph g = support::convolution_graph(c, all);
      fusion::optimize_options options;
      options.device.prefers_texel_buffers = seed % 2 == 1;
      options.device.parallel = seed % 2 == 0;
      fusion::optimize_report report;
      (void)fusion::optimize(g, options, &report);
      std::size_t applied = 0;
      for (const fusion::rule_report& each : report.rules)
        applied += each.name == "convolution_to_contract" ? each.applied : 0;
      const bool is_apart = c.groups > 1 && all.w[0] == c.groups && all.w[1] == 1;
      const bool expected = !is_apart && !(spatial == 3 && c.groups > 1);
      EXPECT_EQ(applied, expected ? 1u : 0u) << "seed " << seed;
      others += !expected;
      if (!expected || spatial == 3) continue;  // more loops than a product has
      options.disabled = {"convolution_to_convolve"};
      const graph plan = fusion::optimize(g, options);
      products += count(plan, op::matmul);
      EXPECT_EQ(count(plan, op::convolve), 0u);
      samples::expect_equal(g, plan, "seed " + std::to_string(seed) + to_text(g));
    }
  }
  EXPECT_GT(products, 400u);
  EXPECT_GT(others, 50u);
}

}  // namespace
