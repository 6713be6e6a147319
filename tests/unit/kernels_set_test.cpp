// SPDX-License-Identifier: MIT
// The kernels of a plan: what equal layers compute is generated once, what differs is not shared.
#include <meganeura/expr/value.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/kernels/generate.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using namespace meganeura;

plan::execution_plan stack(const std::vector<std::int64_t>& widths) {
  graph g;
  node_value x(g, g.input("x", dtype::f32, {8, widths[0]}));
  for (std::size_t i = 1; i < widths.size(); ++i) {
    const std::string layer = "layers." + std::to_string(i);
    x = relu(linear(layer + ".fc", rms_norm(layer + ".norm", x), widths[i]));
  }
  g.add_output("y", x);
  return plan::make_plan(fusion::optimize(g), plan::make_layout(g));
}

void expect_kernels(const plan::execution_plan& p, std::size_t steps, std::size_t kernels) {
  const device_profile on;
  const kernels::kernel_set made = kernels::generate(p, on, 4);  // threads
  EXPECT_EQ(p.steps.size(), steps);
  EXPECT_EQ(made.kernels.size(), kernels);
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const kernels::kernel_dispatch alone = kernels::generate(p, p.steps[i], on);
    EXPECT_EQ(made.kernels[made.of_step[i]].module.words, alone.module.words);
    EXPECT_EQ(made.kernels[made.of_step[i]].groups, alone.groups);
  }
}

TEST(kernels_set, equal_layers_share_what_is_generated_once) {
  expect_kernels(stack(std::vector<std::int64_t>(21, 64)), 40, 2);
}

TEST(kernels_set, layers_of_other_extents_share_nothing) { expect_kernels(stack({64, 32, 96, 16}), 6, 6); }

}  // namespace
