// SPDX-License-Identifier: MIT
// Plans within a memory budget: what is computed again, what is kept, and what cannot be had.
#include <meganeura/core/error.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/fusion/structural_rules.hpp>
#include <meganeura/plan/plan.hpp>
#include <meganeura/runtime/optimizer.hpp>

#include <support/egraph_sample_graphs.hpp>
#include <support/random_graph.hpp>
#include <support/random_kernels.hpp>
#include <support/random_program.hpp>
#include <support/sentence_of.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;
using support::named, support::random_kernels, support::region;

constexpr std::int64_t columns = 1024, bytes_a_value = columns * 4;

// Forward through layers that the way back reads in turn: as many values wait in the middle as there are layers.
graph there_and_back(int layers, bool two = false) {
  graph g;
  std::vector<node_id> values, pairs;
  node_id h = g.input("x", dtype::f32, {columns});
  for (int i = 0; i < layers; ++i) {
    const node_id w = g.parameter("w" + std::to_string(i), dtype::f32, {columns});
    pairs.insert(pairs.end(), {w, no_id});
    const node_id made = region(g, {h, w}, two);
    h = two ? named(g, made, 0) : made;
    values.push_back(two ? named(g, made, 1) : made);
  }
  node_id back = region(g, {h});
  for (auto i = static_cast<std::size_t>(layers); i-- > 0;) {
    pairs[2 * i + 1] = region(g, {back, values[i]});
    back = region(g, {back, pairs[2 * i], values[i]});
  }
  g.optimizer_step(optimizer(sgd{.learning_rate = 0.5f}).rule(), pairs);
  g.add_output("y", back);
  return g;
}

std::uint64_t arena_of(const plan::execution_plan& p) { return p.area_bytes[plan::index_of(plan::area::arena)]; }

// What the sentence of a refusal says is needed.
std::uint64_t least_budget(const graph& g, const plan::layout& parameters, plan::plan_options options) {
  options.memory_budget = 1;
  try {
    (void)plan::make_plan(g, parameters, options);
    ADD_FAILURE() << "a byte is enough";
    return 1;
  } catch (const error& refused) {
    EXPECT_EQ(refused.category(), error_category::out_of_memory);
    const std::string text = refused.what();
    std::smatch found;
    EXPECT_TRUE(std::regex_search(text, found, std::regex("bytes; (\\d+) are needed"))) << text;
    return std::stoull(found[1]);
  }
}

TEST(plan_memory, plans_of_random_kernels_agree_in_any_budget) {
  std::size_t again = 0;
  const support::check run = [&](std::uint64_t seed, int steps, int, support::verdict& v) {
    const graph g = random_kernels(seed, 4 * steps);
    support::dice d(seed);
    const plan::layout parameters = plan::make_layout(g);
    plan::plan_options options{.late_scheduling = d.chance(0.8), .in_place = d.chance(0.8), .launch = {1e-6, 1e-7}};
    for (node_id id{0}; id < g.size() && seed % 2 == 0; ++id) {
      const double alone = static_cast<double>(d.below(100)) * 1e-6;
      options.times.push_back({alone, alone * d.unit()});
    }
    const plan::execution_plan whole = plan::make_plan(g, parameters, options);
    const std::uint64_t least = least_budget(g, parameters, options);
    options.memory_budget = whole.peak_bytes() - 1;
    if (least < whole.peak_bytes())
      options.memory_budget =
          least + static_cast<std::uint64_t>(d.unit() * static_cast<double>(whole.peak_bytes() - least));
    if (options.memory_budget < least) return support::compare(whole, g, v);
    const plan::execution_plan p = plan::make_plan(g, parameters, options);
    if (p.peak_bytes() > options.memory_budget) v.fail("more than the budget");
    again += p.computed_again();
    support::compare(p, g, v);
  };
  support::fuzz(300, run, [](int steps, int, std::uint64_t seed) { return to_text(random_kernels(seed, 4 * steps)); });
  EXPECT_GT(again, 100u);
}

TEST(plan_memory, values_are_computed_again_where_they_would_wait) {
  for (const bool two : {false, true}) {
    const graph g = there_and_back(32, two);
    const plan::layout parameters = plan::make_layout(g);
    const plan::execution_plan whole = plan::make_plan(g, parameters);
    EXPECT_EQ(whole.computed_again(), 0u);
    EXPECT_GE(arena_of(whole), 30 * bytes_a_value);
    std::size_t before = 0;
    for (const std::uint64_t values : {28, 24, 20, 16}) {
      const std::uint64_t budget = whole.peak_bytes() - arena_of(whole) + values * bytes_a_value;
      const plan::execution_plan p = plan::make_plan(g, parameters, {.memory_budget = budget});
      EXPECT_LE(p.peak_bytes(), budget);
      EXPECT_GE(p.computed_again(), std::max(before, std::size_t{4})) << values << " values, " << two;
      EXPECT_EQ(p.steps.size(), whole.steps.size() + p.computed_again());
      EXPECT_EQ(p.groups, whole.groups) << "what is computed again runs beside the way back";
      support::expect_computes(p, g);
      before = p.computed_again();
    }
  }
}

TEST(plan_memory, a_budget_that_suffices_changes_nothing) {
  const graph g = samples::transformer_graph(2);
  const graph chosen = fusion::optimize(g);
  const plan::execution_plan whole = plan::make_plan(chosen, plan::make_layout(g));
  for (const std::uint64_t more : {0, 1 << 20}) {
    const std::uint64_t budget = whole.peak_bytes() + more;
    EXPECT_EQ(to_text(plan::make_plan(chosen, plan::make_layout(g), {.memory_budget = budget})), to_text(whole));
  }
}

TEST(plan_memory, plans_of_one_budget_are_equal) {
  const graph g = there_and_back(20);
  const plan::layout parameters = plan::make_layout(g);
  const plan::execution_plan whole = plan::make_plan(g, parameters);
  const plan::plan_options half{.memory_budget = whole.peak_bytes() - arena_of(whole) / 2};
  EXPECT_EQ(to_text(plan::make_plan(g, parameters, half)), to_text(plan::make_plan(g, parameters, half)));
}

// Times count: of two layers alike the one that is computed sooner runs again.
TEST(plan_memory, the_cheapest_is_computed_again_first) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {columns}), z = g.input("z", dtype::f32, {columns});
  const node_id dear = region(g, {x}), cheap = region(g, {z});
  node_id before = x, between = region(g, {x, z, dear, cheap});
  for (int i = 0; i < 6; ++i) {  // two of these wait as well
    const node_id next = region(g, {before, between});
    before = std::exchange(between, next);
  }
  for (int i = 0; i < 3; ++i) between = region(g, {between});
  g.add_output("y", region(g, {between, dear, cheap}));
  plan::plan_options options{.times = std::vector<kernel_time>(g.size(), kernel_time{2e-6, 2e-6, 0})};
  options.times[dear].busy = options.times[dear].alone = 8e-6;
  const plan::execution_plan whole = plan::make_plan(g, {}, options);
  options.memory_budget = whole.peak_bytes() - bytes_a_value;
  const plan::execution_plan p = plan::make_plan(g, {}, options);
  ASSERT_EQ(p.computed_again(), 1u) << to_text(p);
  const auto again =
      std::ranges::find_if(p.steps, [&](const plan::step& s) { return p.implementation[s.node].turn > 0; });
  EXPECT_EQ(p.implementation.get<leaf_attribute>(p.implementation.operand(again->node, 0)).name, "z");
  EXPECT_NE(plan::label(p, *again).find(" again"), std::string::npos);
  support::expect_computes(p, g);
}

TEST(plan_memory, what_the_host_reads_is_kept) {
  graph g;
  node_id h = g.input("x", dtype::f32, {columns});
  for (int i = 0; i < 10; ++i) g.add_output(std::to_string(i), h = region(g, {h}));
  const plan::execution_plan whole = plan::make_plan(g, {});
  const std::string sentence = support::sentence_of(
      [&] { (void)plan::make_plan(g, {}, {.memory_budget = whole.peak_bytes() - bytes_a_value}); });
  EXPECT_THAT(sentence, testing::HasSubstr("memory_budget")) << sentence;
}

TEST(plan_memory, what_is_said_to_be_needed_is_enough) {
  const graph g = there_and_back(40);
  const plan::layout parameters = plan::make_layout(g);
  const std::uint64_t least = least_budget(g, parameters, {});
  EXPECT_LE(plan::make_plan(g, parameters, {.memory_budget = least}).peak_bytes(), least);
}

TEST(plan_memory, a_step_without_values_of_its_own_is_refused_as_well) {
  graph g;
  const node_id pair[] = {g.parameter("w", dtype::f32, {columns}), g.input("x", dtype::f32, {columns})};
  g.optimizer_step(optimizer(sgd{}).rule(), pair);
  const plan::layout parameters = plan::make_layout(g);
  EXPECT_THAT(support::sentence_of([&] { (void)plan::make_plan(g, parameters, {.memory_budget = 1}); }),
              testing::HasSubstr("memory_budget"));
}

TEST(plan_memory, steps_of_training_agree_in_any_budget) {
  const graph graphs[] = {samples::transformer_graph(2), samples::mlp_training(16, 64, 32, 8),
                          samples::attention_graph(true)};
  std::size_t again = 0, refused = 0;
  for (const graph& g : graphs) {
    fusion::optimize_report report;
    const graph chosen = fusion::optimize(g, {}, &report);
    const plan::layout parameters = plan::make_layout(g);
    plan::plan_options options{.times = report.times, .launch = {2e-6, 1e-7}};
    const plan::execution_plan whole = plan::make_plan(chosen, parameters, options);
    for (const int tenths : {9, 8, 7, 6, 5, 4, 3}) {
      const std::uint64_t arena = arena_of(whole);
      options.memory_budget = whole.peak_bytes() - arena + arena * static_cast<std::uint64_t>(tenths) / 10;
      try {
        const plan::execution_plan p = plan::make_plan(chosen, parameters, options);
        EXPECT_LE(p.peak_bytes(), options.memory_budget);
        again += p.computed_again();
        support::expect_computes(p, chosen);
      } catch (const error& e) {
        EXPECT_EQ(e.category(), error_category::out_of_memory) << e.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(again, 0u);
  EXPECT_LT(refused, 21u);
}

TEST(plan_memory, planning_grows_in_proportion_to_layers) {
  const auto seconds = [](int layers) {
    const graph g = there_and_back(layers);
    const plan::layout parameters = plan::make_layout(g);
    const plan::execution_plan whole = plan::make_plan(g, parameters);
    const plan::plan_options half{.memory_budget = whole.peak_bytes() - arena_of(whole) / 2};
    double least = 1e9;
    for (int i = 0; i < 3; ++i) {  // the machine may be busy with other things
      const std::clock_t begin = std::clock();
      EXPECT_GT(plan::make_plan(g, parameters, half).computed_again(), 0u);
      least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return least;
  };
  const double few = seconds(1000), many = seconds(4000);
  EXPECT_LT(many / few, 9) << few << " s, " << many << " s";  // 4 in proportion, 16 by the square
}

}  // namespace
