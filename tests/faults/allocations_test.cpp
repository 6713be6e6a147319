// SPDX-License-Identifier: MIT
// How often memory is asked for between a model and its plan: numbers that no clock disturbs.
#include "inject.hpp"

#include <meganeura/fusion/optimize.hpp>
#include <meganeura/nn/loss.hpp>
#include <meganeura/plan/plan.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <support/smollm2_reference.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace mn = meganeura;

namespace {

/// Of tracing, differentiating, optimising and planning SmolLM2-135M's training step with so many layers.
template <int Layers>
std::uint64_t allocations() {
  using model = mn::support::deep_smollm2<Layers>;
  const mn::symbol_extent symbols[] = {{"seq", 128}};
  const mn::faults::allocation_fault none_fails;
  const mn::graph g = mn::make_training_graph<model, mn::cross_entropy<"label">>(mn::adam{}, symbols);
  mn::graph chosen = mn::fusion::optimize(g);
  const mn::plan::layout weights = mn::plan::make_layout(g);
  EXPECT_FALSE(mn::plan::make_plan(std::move(chosen), weights).steps.empty());
  return none_fails.count();
}

TEST(faults_allocations, a_plan_takes_few_and_as_many_for_every_further_layer) {
  const std::uint64_t thirty = allocations<30>(), more = allocations<170>();
  EXPECT_LT(thirty, 60'000u);
  EXPECT_LE(30 * more, 170 * thirty);
}

}  // namespace
