// SPDX-License-Identifier: MIT
// Plans of hand-made implementation graphs: groups, lifetimes, in-place results, gradients at their parameter's offset.
#include <meganeura/core/error.hpp>
#include <meganeura/core/kernel_group.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/fusion/structural_rules.hpp>
#include <meganeura/plan/plan.hpp>
#include <meganeura/runtime/optimizer.hpp>

#include <support/plan_executor.hpp>
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;

index_map dense(const shape& extents, int source) {
  index_map found = fusion::detail::dense_access(extents);
  found.source = source;
  return found;
}

// A region without a program that reads each operand at the place it writes.
region_attribute pointwise(const shape& extents, std::size_t operands) {
  region_attribute region{
      .space = extents, .row_axes = 0, .per_row = false, .program = {}, .accesses = {}, .output = dense(extents, 0)};
  for (std::size_t i = 0; i < operands; ++i) region.accesses.push_back(dense(extents, static_cast<int>(i)));
  return region;
}

// A pointwise region adding its operands.
node_id sum(graph& g, std::vector<node_id> operands) {
  const shape extents = g[operands[0]].extents;
  scalar_builder builder;
  scalar_ref total = builder.argument(0, dtype::f32);
  region_attribute region = pointwise(extents, operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (i) total = builder.binary(scalar_op::add, total, builder.argument(static_cast<int>(i), dtype::f32));
  }
  // A lone operand is doubled, so that every node computes something.
  if (operands.size() == 1) total = builder.binary(scalar_op::add, total, total);
  region.program = builder.finish(total);
  return g.add_node(op::region, dtype::f32, extents, region, operands);
}

// One region with two results, a + b and a * b; which of them a node names.
std::vector<node_id> sum_and_product(graph& g, node_id a, node_id b, std::initializer_list<std::size_t> named) {
  const shape extents = g[a].extents;
  scalar_builder builder;
  const scalar_ref x = builder.argument(0, dtype::f32), y = builder.argument(1, dtype::f32);
  scalar_ref results[] = {builder.binary(scalar_op::multiply, x, y), builder.binary(scalar_op::add, x, y)};
  region_attribute region = pointwise(extents, 2);
  region.program = builder.finish(results);
  region.further = {{.value = results[0], .output = dense(extents, 0), .type = dtype::f32, .extents = extents}};
  const node_id operands[] = {a, b}, both = g.add_node(op::region, dtype::f32, extents, region, operands);
  std::vector<node_id> values;
  for (std::size_t index : named)
    values.push_back(g.add_node(op::result, dtype::f32, extents, result_attribute{index}, std::span(&both, 1)));
  return values;
}

// The plan replayed, and run on bytes beside the graph.
void expect_plan_computes(const plan::execution_plan& p, const oracle::tensors<double>& leaves) {
  plan::verify(p);
  support::plan_executor bytes(p, 1);
  oracle::interpreter<double> truth(p.implementation, leaves);
  truth.on_stored = [](node_id, oracle::tensor<double>& value) { support::round_as_memory(value); };
  for (const auto& [name, value] : leaves) bytes.set_leaf(name, value);
  const auto expected = truth.run(), found = bytes.run({});
  for (const auto& [name, value] : expected) EXPECT_EQ(found.at(name).values, value.values) << name;
  for (const auto& [name, value] : bytes.leaves()) EXPECT_EQ(truth.leaves.at(name).values, value.values) << name;
}

TEST(plan_plan, each_of_several_results_has_a_place_and_a_life_of_its_own) {
  const oracle::tensors<double> leaves{{"x", oracle::random_tensor<double>({1000}, 1)},
                                       {"y", oracle::random_tensor<double>({1000}, 2)}};
  for (const bool in_place : {false, true}) {
    graph g;
    const node_id a = sum(g, {g.input("x", dtype::f32, {1000})}), b = sum(g, {g.input("y", dtype::f32, {1000})});
    const std::vector<node_id> both = sum_and_product(g, a, b, {1, 0});
    g.add_output("later", sum(g, {both[0], sum(g, {both[1]})}));
    const auto p = plan::make_plan(std::move(g), {}, {.in_place = in_place});
    expect_plan_computes(p, leaves);
    EXPECT_EQ(p.steps.size(), 5u);
    const plan::step& step = p.steps[2];
    ASSERT_EQ(step.bindings.size(), 4u);
    EXPECT_EQ(plan::overwritten_operands(step).size(), in_place ? 2u : 0u);  // both operands die here
    EXPECT_EQ(p.area_bytes[plan::index_of(plan::area::arena)], (in_place ? 2u : 4u) * 4096u);
    EXPECT_NE(plan::to_text(p).find("add(a0, a1) | multiply(a0, a1)"), std::string::npos) << plan::to_text(p);
  }
}

TEST(plan_plan, a_result_that_nobody_names_has_memory_while_its_kernel_runs) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {1000}), y = g.input("y", dtype::f32, {1000});
  g.add_output("product", sum_and_product(g, x, y, {1})[0]);
  const auto p = plan::make_plan(std::move(g), {});
  expect_plan_computes(
      p, {{"x", oracle::random_tensor<double>({1000}, 1)}, {"y", oracle::random_tensor<double>({1000}, 2)}});
  ASSERT_EQ(p.steps.size(), 1u);
  EXPECT_EQ(p.steps[0].bindings.size(), 4u);
  EXPECT_EQ(p.area_bytes[plan::index_of(plan::area::arena)], 2 * 4096u);
}

TEST(plan_plan, results_of_one_step_are_states_gradients_and_outputs) {
  graph g;
  const node_id s = g.state("s", dtype::f32, {100}), w = g.parameter("w", dtype::f32, {100});
  const std::vector<node_id> both = sum_and_product(g, s, w, {0, 1});
  g.add_output("product", both[1]);
  g.assign(s, both[0]);  // computed right into the state: each element is read before it is written
  const node_id pair[] = {w, both[1]};
  g.optimizer_step(optimizer(sgd{}).rule(), pair);
  const auto parameters = plan::make_layout(g);
  auto p = plan::make_plan(std::move(g), parameters);
  expect_plan_computes(
      p, {{"s", oracle::random_tensor<double>({100}, 1)}, {"w", oracle::random_tensor<double>({100}, 2)}});
  EXPECT_EQ(p.steps.size(), 2u) << plan::to_text(p);
  std::swap(p.steps[0].bindings[2], p.steps[0].bindings[3]);  // the verifier sees a mistake
  EXPECT_THROW(plan::verify(p), error);
}

TEST(plan_plan, independent_nodes_share_a_barrier_group) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {64});
  const node_id a = sum(g, {x}), b = sum(g, {x, a}), c = sum(g, {a});
  g.add_output("y", sum(g, {b, c}));
  const auto p = plan::make_plan(g, plan::make_layout(g));
  plan::verify(p);
  EXPECT_EQ(p.steps.size(), 4u);
  EXPECT_EQ(p.groups, 3u);
}

TEST(plan_plan, a_chain_needs_the_memory_of_one_tensor_in_place_and_two_otherwise) {
  graph g;
  node_id x = g.input("x", dtype::f32, {1000});
  for (int i = 0; i < 6; ++i) x = sum(g, {x});
  g.add_output("y", x);
  const auto arena = [&](const plan::plan_options& options) {
    const auto p = plan::make_plan(g, {}, options);
    plan::verify(p);
    return p.area_bytes[plan::index_of(plan::area::arena)];
  };
  EXPECT_EQ(arena({}), 4096u);
  EXPECT_EQ(arena({.share_memory = true, .late_scheduling = true, .in_place = false}), 2 * 4096u);
  EXPECT_EQ(arena({.share_memory = false, .late_scheduling = true, .in_place = false}), 6 * 4096u);
}

// Two products side by side whose parts meet: each has bytes for their sums and numbers of its own.
TEST(plan_plan, products_whose_parts_meet_have_places_for_that) {
  const auto product = [](graph& g, node_id a, node_id b) {
    matmul_attribute cut;
    cut.space = {40, 50, 96};
    cut.m_axes = cut.n_axes = cut.k_axes = 1;
    cut.b.source = 1;
    cut.a.strides[0] = cut.b.strides[1] = 96, cut.a.strides[2] = cut.b.strides[2] = 1;
    cut.output.strides[0] = 50, cut.output.strides[1] = 1;
    scalar_builder builder;
    cut.finish.program = builder.finish(builder.argument(0, dtype::f32));
    cut.schedule = {product_arithmetic::split, 32, 32, 16, 16, 16, 1, 1, 3};
    const node_id operands[] = {a, b};
    return g.add_node(op::matmul, dtype::f32, {40, 50}, cut, operands);
  };
  graph g;
  const node_id a = g.input("a", dtype::f32, {40, 96}), b = g.input("b", dtype::f32, {50, 96});
  const node_id c = g.input("c", dtype::f32, {50, 96});
  const node_id first = product(g, a, b), second = product(g, a, c);
  g.add_output("y", sum(g, {first, second}));
  for (const std::uint64_t page : {plan::unlimited_page, std::uint64_t{1} << 16}) {
    auto p = plan::make_plan(g, {}, {}, page);
    expect_plan_computes(p, {{"a", oracle::random_tensor<double>({40, 96}, 1)},
                             {"b", oracle::random_tensor<double>({50, 96}, 2)},
                             {"c", oracle::random_tensor<double>({50, 96}, 3)}});
    ASSERT_EQ(p.steps.size(), 3u);
    EXPECT_EQ(p.steps[0].group, p.steps[1].group);
    for (const std::size_t i : {0, 1}) {
      ASSERT_EQ(p.steps[i].bindings.size(), 5u);
      const plan::binding &sums = p.steps[i].bindings[3], &arrivals = p.steps[i].bindings[4];
      EXPECT_EQ(sums.where.where, plan::area::arena);
      EXPECT_EQ(sums.where.bytes, 3u * 4 * 32 * 32 * 4) << "parts, tiles";
      EXPECT_EQ(arrivals.where.where, plan::area::arrivals);
      EXPECT_EQ(arrivals.where.bytes, 4u * 4);
      EXPECT_EQ(arrivals.how, plan::usage::read_write);
    }
    EXPECT_NE(plan::to_text(p).find("arrivals["), std::string::npos) << plan::to_text(p);
    const auto broken = [&](auto change) {
      plan::execution_plan wrong = p;
      change(wrong.steps);
      EXPECT_THROW(plan::verify(wrong), error);
    };
    broken([](auto& steps) { steps[0].bindings.pop_back(); });
    broken([](auto& steps) { steps[0].bindings[3].where.bytes -= 4; });
    broken([](auto& steps) { steps[0].bindings[4].where.bytes -= 4; });
    broken([](auto& steps) { steps[0].bindings[3].where = steps[1].bindings[3].where; });
    broken([](auto& steps) { steps[0].bindings[4].where = steps[1].bindings[4].where; });
    broken([](auto& steps) { steps[0].bindings[3].where = steps[0].bindings[2].where; });
    broken([](auto& steps) {  // in other groups, too
      steps[1].group = 1, steps[2].group = 2;
      steps[1].bindings[4].where = steps[0].bindings[4].where;
    });
  }
}

struct balanced_chain {
  plan::execution_plan early, balanced;
  std::uint32_t side = 0;  // the group of what nobody waits for, with the second plan
};
// Links of a chain take so many us each, nearly all work or, below zero, nearly all waiting. Beside them `side`, 9 us,
// of which 8 are work; the end reads it, if it is read. With room for what it reads: something else takes more memory
// at once.
balanced_chain chain_beside(const std::vector<double>& links, bool is_read, bool has_room) {
  graph g;
  const node_id wide = sum(g, {g.input("wide", dtype::f32, {1000})});
  node_id chain = sum(g, {g.input("x", dtype::f32, {1000})});
  const node_id side = sum(g, {chain, wide});
  std::vector<kernel_time> times(g.size());
  times[chain] = times[wide] = {1e-6, 0.5e-6};
  times[side] = {9e-6, 8e-6};
  for (const double us : links) {
    chain = sum(g, {chain});
    times.resize(g.size());
    times[chain] = {std::abs(us) * 1e-6, us > 0 ? us * 0.9e-6 : 0.1e-6};
  }
  g.add_output("y", chain);
  g.add_output("side", is_read ? sum(g, {chain, side}) : side);
  if (has_room) g.add_output("large", sum(g, {sum(g, {g.input("z", dtype::f32, {100'000})})}));
  times.resize(g.size());
  plan::plan_options options{.in_place = false, .times = times, .launch = {1e-6, 0.1e-6}};
  balanced_chain made{.early = {}, .balanced = plan::make_plan(g, {}, options)};
  options.balance = false;
  made.early = plan::make_plan(g, {}, options);
  for (const plan::execution_plan* each : {&made.early, &made.balanced}) plan::verify(*each);
  made.side = std::ranges::find(made.balanced.steps, side, &plan::step::node)->group;
  return made;
}

TEST(plan_plan, what_nobody_waits_for_runs_where_it_costs_least) {
  for (const bool is_read : {false, true}) {
    const balanced_chain made = chain_beside({8, 7, 10, -9, 1}, is_read, true);
    EXPECT_EQ(made.early.groups, made.balanced.groups);
    // Beside 8 us of work it costs 8 more, beside those that wait next to nothing.
    EXPECT_EQ(made.side, 4u) << plan::to_text(made.balanced);
    EXPECT_LT(made.balanced.predicted_seconds, made.early.predicted_seconds);
    EXPECT_LE(made.balanced.peak_bytes(), made.early.peak_bytes() + made.early.peak_bytes() / 100);
  }
  const balanced_chain best = chain_beside({-9, 8, 7}, true, true);
  EXPECT_EQ(best.side, 1u) << "it is best where it was";
  EXPECT_EQ(best.balanced.predicted_seconds, best.early.predicted_seconds);
}

// It would keep what it reads, beside all the memory that there is.
TEST(plan_plan, nothing_waits_at_the_price_of_memory) {
  const balanced_chain made = chain_beside({8, 7, 10, -9, 1}, false, false);
  EXPECT_EQ(made.side, 1u);
  EXPECT_EQ(made.balanced.peak_bytes(), made.early.peak_bytes());
}

TEST(plan_plan, times_are_of_every_node) {
  graph g;
  g.add_output("y", sum(g, {g.input("x", dtype::f32, {8})}));
  EXPECT_EQ(support::sentence_of([&] { (void)plan::make_plan(g, {}, {.times = std::vector<kernel_time>(3)}); }),
            "plan_options::times has 3 entries and the graph 2 nodes; optimize_report::times has one for each");
}

TEST(plan_plan, one_kernel_more_takes_a_group_as_long_as_if_it_was_added) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> seconds(0, 1e-5);
  const launch_time launch{1e-6, 1e-7};
  kernel_group group;
  EXPECT_EQ(group.seconds(launch), 0);
  std::vector<kernel_time> all;
  for (int i = 0; i < 20; ++i) {
    const double alone = seconds(random);
    all.push_back({alone, alone * std::uniform_real_distribution<double>(0, 1)(random)});
    const double foretold = group.seconds_with(all.back(), launch);
    group.add(all.back());
    EXPECT_DOUBLE_EQ(group.seconds(launch), foretold);
    EXPECT_GE(foretold, alone + launch.alone());
  }
  for (const kernel_time& each : all) group.remove(each);
  EXPECT_TRUE(group.empty());
}

// Seconds of kernels that each take so much of a device's room, 10 us a round.
double seconds_in_room(const std::vector<double>& rooms) {
  kernel_group group;
  for (const double room : rooms) {
    kernel_time made{.alone = 0, .busy = 0, .room = room};
    made.alone = 10e-6 * made.rounds();
    group.add(made);
  }
  return group.seconds({});
}

TEST(plan_plan, kernels_share_the_room_of_a_device) {
  const auto expect_rounds = [](const std::vector<double>& rooms, double rounds) {
    EXPECT_NEAR(seconds_in_room(rooms), rounds * 10e-6, 1e-9) << testing::PrintToString(rooms);
  };
  expect_rounds({0.5, 0.5}, 1);
  expect_rounds({0.7, 0.7}, 2);  // what has no room beside the first waits for it
  expect_rounds({0.7, 0.7, 0.6}, 2);
  expect_rounds({0.7, 0.7, 0.7}, 3);
  expect_rounds({1.6}, 2);  // of which the second leaves room
  expect_rounds({1.6, 0.4}, 2);
  expect_rounds({1.6, 0.5}, 3);
  expect_rounds({5.5}, 5.5);  // of many rounds the last counts by its share
  expect_rounds({5.5, 6.5}, 12);
  expect_rounds({5.5, 0.5}, 6.5);
  expect_rounds({0.9, 0.9, 0, 0}, 2);  // little, or not known, is beside anything
}

// Two of a kind that fill most of the device stand beside what leaves room.
TEST(plan_plan, what_nobody_waits_for_runs_where_there_is_room) {
  for (const bool fills : {false, true}) {
    graph g;
    std::vector<kernel_time> times;
    const auto add = [&](node_id made, const kernel_time& time) {
      times.resize(g.size());
      times[made] = time;
      return made;
    };
    const kernel_time full{10e-6, 4e-6, 0.8}, side_time{9e-6, 4e-6, fills ? 0.8 : 0.0};
    node_id chain = add(sum(g, {g.input("x", dtype::f32, {1000})}), {1e-6, 0.5e-6});
    const node_id side = add(sum(g, {chain, g.input("z", dtype::f32, {1000})}), side_time);
    for (int i = 0; i < 3; ++i) chain = add(sum(g, {chain}), full);
    chain = add(sum(g, {chain}), {8.9e-6, 1e-6, 0.1});
    g.add_output("y", add(sum(g, {chain, side}), {1e-6, 0.5e-6}));
    g.add_output("large", sum(g, {sum(g, {g.input("w", dtype::f32, {100'000})})}));  // takes more memory than waiting
    times.resize(g.size());
    const plan::execution_plan made =
        plan::make_plan(g, {}, {.in_place = false, .times = times, .launch = {1e-6, 0.1e-6}});
    plan::verify(made);
    EXPECT_EQ(std::ranges::find(made.steps, side, &plan::step::node)->group, fills ? 4u : 1u) << plan::to_text(made);
  }
}

// What is needed much later is computed then; what is needed soon beside the others that could be.
TEST(plan_plan, kernels_wait_for_long_and_not_for_short) {
  for (const std::uint32_t links : {5u, 20u}) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {1000});
    node_id chain = x;
    for (std::uint32_t i = 0; i < links; ++i) chain = sum(g, {chain});
    const node_id side = sum(g, {x, x});
    g.add_output("y", sum(g, {chain, side}));
    const auto p = plan::make_plan(g, {});
    plan::verify(p);
    const auto own = std::ranges::find(p.steps, side, &plan::step::node);
    ASSERT_NE(own, p.steps.end());
    const auto beside = std::ranges::count(p.steps, own->group, &plan::step::group);
    EXPECT_EQ(beside, 2) << links;
    EXPECT_EQ(own->group == p.steps.front().group, links == 5) << links << plan::to_text(p);
  }
}

TEST(plan_plan, gradients_lie_at_their_parameters_offset_and_one_dispatch_updates_all) {
  graph g;
  std::vector<node_id> pairs;
  const node_id x = g.input("x", dtype::f32, {10});
  for (const char* name : {"a", "b", "c"}) {
    const node_id parameter = g.parameter(name, dtype::f32, {10});
    pairs.insert(pairs.end(), {parameter, sum(g, {x, parameter})});
  }
  g.add_output("loss", sum(g, {pairs[0], pairs[2]}));
  g.optimizer_step(optimizer(adam{}).rule(), pairs);
  const auto parameters = plan::make_layout(g);
  const auto p = plan::make_plan(std::move(g), parameters);
  plan::verify(p);
  EXPECT_EQ(std::count_if(p.steps.begin(), p.steps.end(),
                          [](const plan::step& s) { return s.kind == plan::step::optimizer; }),
            1);
  const plan::step& last = p.steps.back();
  ASSERT_EQ(last.kind, plan::step::optimizer);
  EXPECT_EQ(last.bindings.size(), 5u);
  EXPECT_EQ(last.bindings[0].where.bytes, 512u + 256u);
  EXPECT_EQ(p.groups, 2u) << plan::to_text(p);  // "loss" reads parameters, so the update waits for it too
}

TEST(plan_plan, a_tensor_longer_than_a_buffer_is_refused_by_its_name) {
  graph g;
  g.parameter("w", dtype::f32, {300});
  EXPECT_EQ(support::sentence_of([&] { (void)plan::paged(plan::make_layout(g), 1024); }),
            "\"w\" f32[300] has 1200 bytes and one buffer of the device holds 1024: split it");
}

TEST(plan_plan, parameters_that_no_optimizer_updates_have_no_gradients_and_no_moments) {
  using plan::area;
  for (const std::uint64_t page : {plan::unlimited_page, std::uint64_t{1024}}) {
    graph g;
    std::vector<node_id> pairs;
    node_id x = g.input("x", dtype::f32, {100});
    for (int i = 0; i < 6; ++i) {  // 512 bytes each; the second of three is frozen
      const node_id parameter = g.parameter(std::string(1, static_cast<char>('a' + i)), dtype::f32, {100});
      if (i % 3 != 1) pairs.insert(pairs.end(), {parameter, sum(g, {x, parameter})});
      if (i % 3 == 1) x = sum(g, {x, parameter});
    }
    g.optimizer_step(optimizer(adam{}).rule(), pairs);
    const auto parameters = plan::paged(plan::make_layout(g), page);
    const auto p = plan::make_plan(std::move(g), parameters, {}, page);
    plan::verify(p);
    const auto bytes = [&](area where) { return p.area_bytes[plan::index_of(where)]; };
    EXPECT_EQ(bytes(area::parameter), 6 * 512u);
    for (const area each : {area::gradient, plan::moment_area(0), plan::moment_area(1)})
      EXPECT_EQ(bytes(each), 4 * 512u);
    // a, c d, f; "c d" crosses a page of parameters
    EXPECT_EQ(std::ranges::count(p.steps, plan::step::optimizer, &plan::step::kind), page == 1024 ? 4 : 3);
    EXPECT_EQ(p.updated.find("b"), nullptr);

    auto broken = p;  // f is updated with the moments of d
    for (plan::step& s : broken.steps) {
      if (s.kind == plan::step::optimizer && s.bindings[0].where.offset == parameters.find("f")->offset)
        s.bindings[2].where.offset = p.updated.find("d")->offset;
    }
    EXPECT_THROW(plan::verify(broken), error);
  }
}

TEST(plan_plan, a_state_is_overwritten_directly_only_when_nobody_reads_the_old_value_later) {
  for (const bool read_later : {false, true}) {
    graph g;
    const node_id s = g.state("s", dtype::f32, {8}), x = g.input("x", dtype::f32, {8});
    const node_id value = sum(g, {sum(g, {s}), x});
    if (read_later) g.add_output("old", sum(g, {value, s}));
    g.assign(s, value);
    const auto p = plan::make_plan(g, plan::make_layout(g));
    plan::verify(p);
    const auto copies =
        std::count_if(p.steps.begin(), p.steps.end(), [](const plan::step& t) { return t.kind == plan::step::copy; });
    EXPECT_EQ(copies, read_later ? 1 : 0) << plan::to_text(p);
  }
}

// What verify says of a plan.
std::string complaint(const plan::execution_plan& p) {
  return support::sentence_of([&] { plan::verify(p); });
}

int copies(const plan::execution_plan& p) {
  return static_cast<int>(std::ranges::count(p.steps, plan::step::copy, &plan::step::kind));
}

TEST(plan_plan, every_read_of_a_state_is_its_value_before_the_step) {
  const auto planned = [](auto&& build) {
    graph g;
    std::vector<node_id> s;
    for (const char* name : {"a", "b", "c", "d"}) s.push_back(g.state(name, dtype::f32, {8}));
    build(g, s, g.input("x", dtype::f32, {8}));
    const auto p = plan::make_plan(g, plan::make_layout(g));
    EXPECT_EQ(complaint(p), "no error") << plan::to_text(p);
    return copies(p);
  };
  using states = std::vector<node_id>;
  // a delay line, in the order that goes wrong when assignments run as written
  EXPECT_EQ(planned([](graph& g, const states& s, node_id x) {
              g.assign(s[0], x);
              g.assign(s[1], s[0]);
              g.assign(s[2], s[1]);
            }),
            3);
  EXPECT_EQ(planned([](graph& g, const states& s, node_id x) {
              g.assign(s[0], sum(g, {x}));
              g.assign(s[1], s[0]);
            }),
            2);
  // a swap, a circle of three with a reader, and a state left as it is
  EXPECT_EQ(planned([](graph& g, const states& s, node_id) {
              g.assign(s[0], s[1]);
              g.assign(s[1], s[0]);
              g.assign(s[2], s[2]);
            }),
            3);
  EXPECT_EQ(planned([](graph& g, const states& s, node_id x) {
              g.assign(s[3], s[1]);
              for (std::size_t i = 0; i < 3; ++i) g.assign(s[i], s[(i + 1) % 3]);
              g.add_output("y", sum(g, {x, s[0]}));
            }),
            5);
  // an output is a state
  EXPECT_EQ(planned([](graph& g, const states& s, node_id x) {
              g.add_output("old", s[0]);
              g.assign(s[0], sum(g, {x, s[0]}));
            }),
            2);
  // one value for two states, and a value that another kernel needs after it was assigned
  EXPECT_EQ(planned([](graph& g, const states& s, node_id x) {
              const node_id value = sum(g, {x});
              g.assign(s[0], value);
              g.assign(s[1], value);
              g.add_output("y", sum(g, {value, s[1]}));
            }),
            1);
}

// A pointwise region: what `from` has at the same place, or from the other end.
node_id read(graph& g, node_id from, bool backwards) {
  const shape extents = g[from].extents;
  scalar_builder builder;
  region_attribute region = pointwise(extents, 1);
  if (backwards) region.accesses[0].offset = extents[0] - 1, region.accesses[0].strides[0] = -1;
  region.program = builder.finish(builder.unary(scalar_op::negate, builder.argument(0, dtype::f32)));
  const node_id operands[] = {from};
  return g.add_node(op::region, dtype::f32, extents, region, operands);
}

// A region of x's extents that reads the beginning of `from` too.
node_id first_rows(graph& g, node_id from, node_id x) {
  const shape extents = g[x].extents;
  scalar_builder builder;
  region_attribute region = pointwise(extents, 2);
  const scalar_ref one = builder.argument(0, dtype::f32), other = builder.argument(1, dtype::f32);
  region.program = builder.finish(builder.binary(scalar_op::add, one, other));
  const node_id operands[] = {from, x};
  return g.add_node(op::region, dtype::f32, extents, region, operands);
}

TEST(plan_plan, a_state_that_its_own_update_reads_is_copied_only_when_elements_move) {
  for (const bool backwards : {false, true}) {
    graph g;
    const node_id s = g.state("s", dtype::f32, {8});
    g.assign(s, read(g, s, backwards));
    auto p = plan::make_plan(g, plan::make_layout(g));
    EXPECT_EQ(complaint(p), "no error");
    EXPECT_EQ(copies(p), backwards ? 1 : 0) << plan::to_text(p);
    if (!backwards) continue;
    for (plan::step& each : p.steps) {  // as if it could be done in place
      for (plan::binding& b : each.bindings) b.where = p.steps.back().bindings.back().where;
    }
    EXPECT_NE(complaint(p).find("overwrites elements that are still to be read"), std::string::npos) << complaint(p);
  }
}

// f16 [128], and the first half of it as f32: as many bytes, and other elements.
graph widened_half() {
  graph g;
  const node_id x = g.input("x", dtype::f16, {128});
  const auto copied = [&](node_id from, dtype type, const shape& extents) {
    scalar_builder builder;
    region_attribute region = pointwise(extents, 1);
    region.program = builder.finish(builder.unary(scalar_op::negate, builder.argument(0, dtype::f32)));
    const node_id operands[] = {from};
    return g.add_node(op::region, type, extents, region, operands);
  };
  g.add_output("half", copied(copied(x, dtype::f16, {128}), dtype::f32, {64}));
  return g;
}

TEST(plan_plan, a_result_of_wider_elements_is_not_computed_over_its_operand) {
  auto p = plan::make_plan(widened_half(), {});
  EXPECT_EQ(complaint(p), "no error") << plan::to_text(p);
  std::vector<plan::binding>& last = p.steps.back().bindings;
  EXPECT_FALSE(last[0].where.overlaps(last[1].where)) << plan::to_text(p);
  last[1].where = p.outputs[0].where = last[0].where;
  EXPECT_NE(complaint(p).find("overwrites elements that are still to be read"), std::string::npos) << complaint(p);
}

oracle::tensor<double> counted(const shape& extents, dtype type) {
  oracle::tensor<double> result(extents, type);
  std::iota(result.values.begin(), result.values.end(), 1.0);
  return result;
}

TEST(plan_plan, a_run_on_bytes_shows_what_a_step_in_place_overwrites_too_early) {
  const auto as_expected = [](const plan::execution_plan& p) {
    const oracle::tensor<double> x = counted({128}, dtype::f16);
    support::plan_executor bytes(p, 1);
    bytes.set_leaf("x", x);
    const auto half = bytes.run({}).at("half").values;
    return std::equal(half.begin(), half.end(), x.values.begin());
  };
  auto p = plan::make_plan(widened_half(), {}, {.in_place = false});
  EXPECT_TRUE(as_expected(p));
  p.steps.back().bindings[1].where = p.outputs[0].where = p.steps.back().bindings[0].where;
  EXPECT_FALSE(as_expected(p));

  for (const bool backwards : {false, true}) {
    graph g;
    const node_id s = g.state("s", dtype::f32, {8});
    g.assign(s, read(g, s, backwards));
    auto update = plan::make_plan(g, plan::make_layout(g));
    for (plan::step& each : update.steps) {
      for (plan::binding& b : each.bindings) b.where = update.steps.back().bindings.back().where;
    }
    update.steps.resize(1);
    support::plan_executor bytes(update, 1);
    bytes.set_leaf("s", counted({8}, dtype::f32));
    bytes.run({});
    std::vector<double> negated = bytes.leaves().at("s").values;
    for (double& element : negated) element = -element;
    if (backwards) std::ranges::reverse(negated);
    EXPECT_EQ(negated == counted({8}, dtype::f32).values, !backwards);
  }
}

TEST(plan_plan, an_update_waits_for_whoever_reads_the_old_value) {
  const auto planned = [](auto&& build) {
    graph g;
    const node_id s = g.state("s", dtype::f32, {8}), t = g.state("t", dtype::f32, {8});
    const node_id x = g.input("x", dtype::f32, {8});
    g.add_output("y", sum(g, {read(g, read(g, x, false), false), s}));  // at level 3
    build(g, s, t, x);
    const auto p = plan::make_plan(g, plan::make_layout(g));
    EXPECT_EQ(complaint(p), "no error") << plan::to_text(p);
    return copies(p);
  };
  EXPECT_EQ(planned([](graph& g, node_id s, node_id, node_id x) { g.assign(s, sum(g, {s, x})); }), 0);
  EXPECT_EQ(planned([](graph& g, node_id s, node_id, node_id x) { g.assign(s, read(g, x, true)); }), 0);
  // two large operands would be kept for it
  EXPECT_EQ(planned([](graph& g, node_id s, node_id, node_id x) {
              const node_id big = g.input("big", dtype::f32, {8, 8});
              g.assign(s, first_rows(g, sum(g, {big}), x));
            }),
            1);
  // it would wait for its old value, and another state for it
  EXPECT_EQ(planned([](graph& g, node_id s, node_id t, node_id x) {
              g.assign(s, sum(g, {s, t}));
              g.assign(t, sum(g, {t, x}));
            }),
            1);
}

// The running statistics of a batch norm, in training.
TEST(plan_plan, running_statistics_are_updated_without_a_copy) {
  for (const bool fusion : {true, false}) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {6, 5, 4, 3});
    const shape channels{5};
    const std::uint32_t others = 0b1101;
    const auto mean = [&](node_id of) {
      return g.multiply(g.reduce(reduce_kind::sum, of, others), g.full(channels, 1.0 / 72));
    };
    const auto spread = [&](node_id of) { return g.expand_axes(of, g[x].extents, others); };
    const node_id average = mean(x), centred = g.subtract(x, spread(average));
    const node_id variance = mean(g.multiply(centred, centred));
    for (const auto& [name, value] : {std::pair("mean", average), std::pair("variance", variance)}) {
      const node_id running = g.state(name, dtype::f32, channels);
      g.assign(running, g.add(g.multiply(running, g.full(channels, 0.9)), g.multiply(value, g.full(channels, 0.1))));
    }
    const node_id scale = g.map(scalar_op::rsqrt, {g.add(variance, g.full(channels, 1e-5))});
    g.add_output("y", g.multiply(centred, spread(scale)));
    fusion::optimize_options options;
    if (!fusion) options.disabled = {"fusion", "products"};
    const auto p = plan::make_plan(fusion::optimize(g, options), plan::make_layout(g));
    EXPECT_EQ(complaint(p), "no error") << plan::to_text(p);
    EXPECT_EQ(copies(p), 0) << plan::to_text(p);
  }
}

TEST(plan_plan, every_read_of_a_parameter_is_its_value_before_the_update) {
  graph g;
  const node_id p = g.parameter("p", dtype::f32, {8}), q = g.parameter("q", dtype::f32, {8});
  const node_id before = g.state("before", dtype::f32, {8}), mean = g.state("mean", dtype::f32, {8});
  // the gradients of p . q, as leaves; one parameter is an output, another is kept in a state
  const node_id pairs[] = {p, q, q, p};
  g.add_output("p", p);
  g.assign(before, q);
  g.assign(mean, sum(g, {mean, p}));
  g.optimizer_step(optimizer(sgd{}).rule(), pairs);
  const auto parameters = plan::make_layout(g);
  auto planned = plan::make_plan(std::move(g), parameters);
  EXPECT_EQ(complaint(planned), "no error") << plan::to_text(planned);
  EXPECT_NE(planned.outputs[0].where.where, plan::area::parameter);
}

TEST(plan_plan, random_assignments_verify_in_every_order) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    graph g;
    std::vector<node_id> leaves = {g.input("x", dtype::f32, {8})}, states;
    for (std::size_t i = 0; i < 6; ++i)
      states.push_back(g.state(std::string(1, static_cast<char>('a' + i)), dtype::f32, {8}));
    leaves.insert(leaves.end(), states.begin(), states.end());
    std::vector<node_id> pool = leaves;
    for (int i = 0; i < 6; ++i) {
      std::vector<node_id> operands = {pool[random() % pool.size()], leaves[random() % leaves.size()]};
      if (operands[0] == operands[1]) operands.pop_back();
      pool.push_back(sum(g, operands));
    }
    std::shuffle(states.begin(), states.end(), random);
    for (node_id state : states) {
      if (random() % 5) g.assign(state, random() % 2 ? leaves[1 + random() % 6] : pool[random() % pool.size()]);
    }
    for (const char* name : {"u", "v", "w"}) g.add_output(name, pool[random() % pool.size()]);
    const auto p = plan::make_plan(pruned(g), plan::make_layout(g));
    ASSERT_EQ(complaint(p), "no error") << round << '\n' << plan::to_text(p);
  }
}

TEST(plan_plan, verify_finds_what_is_read_after_it_was_overwritten) {
  graph g;
  const node_id a = g.state("a", dtype::f32, {8}), b = g.state("b", dtype::f32, {8}), x = g.input("x", dtype::f32, {8});
  g.assign(a, x);
  g.assign(b, a);
  g.add_output("old", a);
  const auto good = plan::make_plan(g, plan::make_layout(g));
  ASSERT_EQ(complaint(good), "no error");
  const plan::range place = good.steps.back().bindings[1].where;  // of a, written last
  auto broken = good;
  std::swap(broken.steps.front(), broken.steps.back());  // b gets the new a
  for (std::size_t i = 0; i < broken.steps.size(); ++i) broken.steps[i].group = static_cast<std::uint32_t>(i);
  EXPECT_NE(complaint(broken).find("does not hold the value"), std::string::npos) << complaint(broken);
  broken = good;
  broken.outputs[0].where = place;  // the host would read the new a
  EXPECT_NE(complaint(broken).find("\"old\" is an output and does not hold its value"), std::string::npos);
  broken = good;
  broken.steps.pop_back();
  EXPECT_NE(complaint(broken).find("\"a\" does not hold its value after the step"), std::string::npos);
  broken = good;
  for (plan::step& s : broken.steps) s.group = 0;
  EXPECT_NE(complaint(broken).find("in the same barrier group"), std::string::npos);
}

TEST(plan_plan, a_leaf_that_two_effects_write_is_refused) {
  graph g;
  const node_id s = g.state("s", dtype::f32, {8}), x = g.input("x", dtype::f32, {8});
  const node_id p = g.parameter("p", dtype::f32, {8}), pair[] = {p, x}, twice[] = {p, x, p, x};
  const node_id assigned = g.assign(s, x);
  EXPECT_EQ(g.assign(s, x), assigned);  // the same effect again
  const node_id other[] = {s, sum(g, {x})};
  EXPECT_THROW(g.assign(s, other[1]), error);
  EXPECT_THROW(g.add_node(op::assign, dtype::f32, {}, no_attribute{}, other), error);  // by its parts, as passes do
  EXPECT_EQ(g.effects().size(), 1u);
  const optimizer_attribute descent = optimizer(sgd{}).rule();
  EXPECT_THROW(g.optimizer_step(descent, twice), error);
  const node_id step = g.optimizer_step(descent, pair);
  EXPECT_EQ(g.optimizer_step(descent, pair), step);
  EXPECT_THROW(g.optimizer_step(optimizer(adam{}).rule(), pair), error);
}

TEST(plan_plan, random_graphs_verify_and_never_need_more_than_without_sharing) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    graph g;
    std::vector<node_id> pool = {g.input("x", dtype::f32, {64}), g.input("y", dtype::f32, {64})};
    for (int i = 0; i < 40; ++i) {
      std::vector<node_id> operands;
      for (std::size_t k = 0; k < 1 + random() % 3; ++k)
        operands.push_back(pool[pool.size() - 1 - random() % std::min<std::size_t>(pool.size(), 9)]);
      std::sort(operands.begin(), operands.end());
      operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
      pool.push_back(sum(g, operands));
    }
    g.add_output("z", pool.back());
    g.add_output("w", pool[pool.size() / 2]);
    const auto p = plan::make_plan(pruned(g), plan::make_layout(g));
    plan::verify(p);
    EXPECT_LE(p.area_bytes[plan::index_of(plan::area::arena)], p.unaliased_arena_bytes);
  }
}

TEST(plan_plan, a_primitive_without_an_implementation_is_refused_by_name) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {4, 4});
  g.add_output("y", g.reduce(reduce_kind::sum, x, 1));
  try {
    (void)plan::make_plan(g, plan::make_layout(g));
    FAIL();
  } catch (const error& e) {
    EXPECT_NE(std::string(e.what()).find("is a reduce, which no kernel implements"), std::string::npos) << e.what();
  }
}

TEST(plan_plan, a_tensor_past_32_bit_indices_is_refused) {
  graph g;
  g.add_output("y", sum(g, {g.input("x", dtype::f32, {1 << 20, 1 << 13})}));
  EXPECT_THROW((void)plan::make_plan(g, plan::make_layout(g)), error);
}

TEST(plan_plan, a_parameter_of_another_shape_is_refused) {
  graph g, other;
  g.add_output("y", sum(g, {g.parameter("w", dtype::f32, {4})}));
  (void)other.parameter("w", dtype::f32, {5});
  EXPECT_THROW((void)plan::make_plan(std::move(g), plan::make_layout(other)), error);
}

// What the host reads is copied behind the last kernel, and here is none: the search for memory once looked behind its
// end, which sanitizers show.
TEST(plan_plan, a_graph_that_computes_nothing_shows_its_parameters) {
  graph g;
  for (const char* name : {"v", "w"}) g.add_output(name, g.parameter(name, dtype::f32, {3}));
  const plan::execution_plan p = plan::make_plan(g, plan::make_layout(g));
  plan::verify(p);
  ASSERT_EQ(p.outputs.size(), 2u);
  EXPECT_NE(p.outputs[0].where.offset, p.outputs[1].where.offset);
}

}  // namespace
