// SPDX-License-Identifier: MIT
// What depends on parameters and constants alone: computed when these change, and kept for all steps.
#include <meganeura/core/error.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/plan/plan.hpp>

#include <support/random_kernels.hpp>
#include <support/random_program.hpp>
#include <support/sentence_of.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using support::named, support::region;

constexpr plan::plan_options folding{.fold = true};

plan::execution_plan plan_of(const graph& g, plan::plan_options options = folding) {
  return plan::make_plan(g, plan::make_layout(g), options);
}

TEST(plan_fold, what_reads_parameters_alone_is_not_in_a_step) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {64}), w = g.parameter("w", dtype::f32, {64}),
                s = g.state("s", dtype::f32, {64});
  const node_id of_w = region(g, {w}), of_both = region(g, {of_w, s}), last = region(g, {x, of_both});
  g.add_output("y", last);
  const plan::execution_plan p = plan_of(g);
  ASSERT_EQ(p.folded.size(), 2u) << to_text(p);
  EXPECT_EQ(p.folded[0].node, of_w);
  EXPECT_EQ(p.folded[1].node, of_both);
  ASSERT_EQ(p.steps.size(), 1u);
  EXPECT_EQ(p.steps[0].node, last);
  EXPECT_EQ(p.steps[0].group, 0u);
  EXPECT_EQ(p.groups, 1u);
  support::expect_computes(p, g);
  EXPECT_TRUE(plan_of(g, {}).folded.empty());
}

TEST(plan_fold, what_a_step_changes_is_computed_in_it) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {64}), w = g.parameter("w", dtype::f32, {64}),
                v = g.parameter("v", dtype::f32, {64}), s = g.state("s", dtype::f32, {64});
  g.add_output("y", region(g, {region(g, {w}), region(g, {v}), region(g, {s}), x}));
  g.assign(s, region(g, {s, x}));
  const node_id pair[] = {w, region(g, {x})};
  g.optimizer_step(optimizer(sgd{.learning_rate = 0.5f}).rule(), pair);
  const plan::execution_plan p = plan_of(g);
  ASSERT_EQ(p.folded.size(), 1u) << to_text(p);
  EXPECT_EQ(p.implementation.operand(p.folded[0].node, 0), p.implementation.find_leaf("v"));
  support::expect_computes(p, g);
}

// The host reads it of every step, another program may read it, and a step stores it: none of these may be left out.
TEST(plan_fold, what_others_read_of_each_step_is_computed_in_it) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {64}), w = g.parameter("w", dtype::f32, {64}),
                one = g.parameter("one", dtype::f32, {}), s = g.state("s", dtype::f32, {64});
  g.add_output("number", region(g, {one}));
  g.add_output("y", region(g, {x, w}));
  g.add_output("table", region(g, {w}));
  g.assign(s, region(g, {w, w}));
  const plan::execution_plan p = plan_of(g);
  ASSERT_EQ(p.folded.size(), 1u) << to_text(p);
  EXPECT_EQ(p.outputs[2].where.where, plan::area::arena);
  support::expect_computes(p, g);
}

TEST(plan_fold, nothing_of_a_step_takes_its_place) {
  graph g;
  const node_id w = g.parameter("w", dtype::f32, {256});
  node_id h = g.input("x", dtype::f32, {256});
  node_id early = region(g, {w});
  for (int i = 0; i < 5; ++i) early = region(g, {early, w});
  const node_id both = region(g, {early, w}, true), first = named(g, both, 0), second = named(g, both, 1);
  for (int i = 0; i < 9; ++i) h = region(g, {h, i % 3 == 0 ? early : i % 3 == 1 ? first : second});
  g.add_output("y", h);
  const plan::execution_plan p = plan_of(g);
  EXPECT_EQ(p.folded.size(), 7u);
  EXPECT_EQ(p.steps.size(), 9u);
  support::expect_computes(p, g);
  const plan::execution_plan apart = plan_of(g, {.share_memory = false, .fold = true});
  support::expect_computes(apart, g);
}

TEST(plan_fold, the_verifier_finds_what_overwrites_it) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {64}), w = g.parameter("w", dtype::f32, {64});
  const node_id table = region(g, {w}), first = region(g, {x, table});
  g.add_output("y", region(g, {first}));
  plan::execution_plan p = plan_of(g);
  plan::verify(p);
  const plan::range kept = p.folded[0].bindings.back().where;
  p.steps[1].bindings.back().where = p.outputs[0].where = kept;
  EXPECT_THAT(support::sentence_of([&] { plan::verify(p); }), testing::HasSubstr("folded"));
}

TEST(plan_fold, the_verifier_finds_what_depends_on_the_step) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {64});
  g.add_output("y", region(g, {region(g, {x})}));
  plan::execution_plan p = plan_of(g);
  p.folded.push_back(p.steps[0]);
  p.steps.erase(p.steps.begin());
  p.steps[0].group = 0;
  EXPECT_THAT(support::sentence_of([&] { plan::verify(p); }), testing::HasSubstr("folded"));
}

// Of a step's own values.
TEST(plan_fold, a_budget_has_values_computed_again_beside_what_is_folded) {
  graph g;
  const node_id w = g.parameter("w", dtype::f32, {1024});
  node_id h = g.input("x", dtype::f32, {1024}), table = w;
  for (int i = 0; i < 3; ++i) table = region(g, {table, w});
  std::vector<node_id> values;
  for (int i = 0; i < 12; ++i) values.push_back(h = region(g, {h, table}));
  for (std::size_t i = values.size(); i-- > 0;) h = region(g, {h, values[i]});
  g.add_output("y", h);
  const plan::execution_plan whole = plan_of(g);
  const plan::execution_plan less = plan_of(g, {.fold = true, .memory_budget = whole.peak_bytes() - 4 * 4096});
  EXPECT_EQ(less.folded.size(), 3u);
  EXPECT_GT(less.computed_again(), 0u);
  EXPECT_LE(less.peak_bytes(), whole.peak_bytes() - 4 * 4096);
  support::expect_computes(less, g);
}

TEST(plan_fold, what_is_folded_is_kept_in_any_budget) {
  graph g;
  node_id h = g.input("x", dtype::f32, {1024});
  const node_id w = g.parameter("w", dtype::f32, {1024});
  std::vector<node_id> tables;
  for (int i = 0; i < 8; ++i) tables.push_back(region(g, {i == 0 ? w : tables.back()}));
  for (const node_id table : tables) h = region(g, {h, table});
  g.add_output("y", h);
  const std::uint64_t bytes = plan_of(g).peak_bytes();
  EXPECT_EQ(plan_of(g, {.fold = true, .memory_budget = bytes}).folded.size(), 8u);
  EXPECT_THAT(support::sentence_of([&] { (void)plan_of(g, {.fold = true, .memory_budget = bytes - 1}); }),
              testing::HasSubstr("memory_budget"));
  EXPECT_LT(plan_of(g, {}).peak_bytes(), bytes);
}

TEST(plan_fold, plans_of_random_kernels_agree) {
  std::size_t folded = 0;
  const support::check run = [&](std::uint64_t seed, int steps, int, support::verdict& v) {
    const graph g = support::random_kernels(seed, 2 * steps);
    support::dice d(seed);
    plan::plan_options options{.share_memory = d.chance(0.9),
                               .late_scheduling = d.chance(0.8),
                               .in_place = d.chance(0.8),
                               .fold = true,
                               .launch = {1e-6, 1e-7}};
    for (node_id id{0}; id < g.size() && seed % 2 == 0; ++id) {
      const double alone = static_cast<double>(d.below(100)) * 1e-6;
      options.times.push_back({alone, alone * d.unit()});
    }
    const plan::execution_plan p = plan::make_plan(g, plan::make_layout(g), options);
    folded += p.folded.size();
    support::compare(p, g, v);
  };
  support::fuzz(300, run, [](int steps, int, std::uint64_t seed) {
    return to_text(plan_of(support::random_kernels(seed, 2 * steps)));
  });
  EXPECT_GT(folded, 0u);
}

TEST(plan_fold, the_choice_of_kernels_knows_that_it_takes_no_time) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {64, 256}), w = g.parameter("w", dtype::f32, {256});
  g.add_output("y", g.multiply(x, g.expand(g.map(scalar_op::exp, {w}), {64, 256})));
  double seconds[2];
  for (const bool folds : {false, true}) {
    fusion::optimize_report report;
    const graph chosen = fusion::optimize(g, {.fold = folds, .explain = true}, &report);
    const plan::execution_plan p =
        plan::make_plan(chosen, plan::make_layout(g), {.fold = folds, .times = report.times});
    EXPECT_EQ(p.folded.size(), folds ? 1u : 0u) << to_text(p);
    EXPECT_EQ(p.steps.size(), folds ? 1u : 2u) << to_text(p);
    EXPECT_EQ(report.groups, p.steps.size());
    EXPECT_EQ(report.explain.find("when parameters change") != std::string::npos, folds) << report.explain;
    seconds[folds] = report.predicted_seconds;
    plan::verify(p);
  }
  EXPECT_LT(seconds[1], seconds[0]);
}

// The quicker of two ways, though neither takes time of a step; and no way that reads what changes.
TEST(plan_fold, what_is_folded_is_chosen_by_its_time) {
  graph g;
  const node_id w = g.parameter("w", dtype::f32, {256, 256}), v = g.parameter("v", dtype::f32, {256, 256});
  const node_id x = g.input("x", dtype::f32, {256, 256});
  const node_id folded = g.contract(w, v, "mk", "kn", "mn");
  g.add_output("y", g.add(x, folded));
  const graph chosen = fusion::optimize(g, {.fold = true});
  const plan::execution_plan p = plan_of(chosen);
  ASSERT_EQ(p.folded.size(), 1u) << to_text(p);
  EXPECT_EQ(p.implementation[p.folded[0].node].kind, op::matmul);
  EXPECT_EQ(p.steps.size(), 1u) << to_text(p);
}

// Of each kernel that the plan folds the optimiser says that it takes no time of a step, and of no other.
TEST(plan_fold, the_optimiser_and_the_planner_agree) {
  std::size_t folded = 0;
  const support::check run = [&](std::uint64_t seed, int steps, int only_output, support::verdict& v) {
    std::optional<support::sample> made = support::make_sample(seed, steps, only_output);
    if (!made) return;
    made->optimize.fold = made->optimize.explain = true;
    fusion::optimize_report report;
    const graph chosen = fusion::optimize(made->source, made->optimize, &report);
    const plan::execution_plan p = plan_of(chosen);
    std::size_t said = 0;
    for (std::size_t at = 0; (at = report.explain.find("us when parameters change", at)) != std::string::npos; ++at)
      ++said;
    ++v.compared;
    folded += p.folded.size();
    if (said != p.folded.size()) v.fail("said " + std::to_string(said) + "\n" + report.explain + to_text(p));
  };
  support::fuzz(200, run, [](int, int, std::uint64_t) { return std::string(); });
  EXPECT_GT(folded, 0u);
}

}  // namespace
