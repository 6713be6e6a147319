// SPDX-License-Identifier: MIT
// States that models assign, and what differs between training and evaluation: typed, and on values of run time.
#include <meganeura/expr/lower.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/optimizer.hpp>
#include <meganeura/runtime/training.hpp>

#include <oracle/interpreter.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using namespace meganeura;

// x - mean, of the batch in training, of the past in evaluation.
struct centred {
  static constexpr auto forward(value auto x) {
    auto past = state<"mean", dims<3>>;
    auto now = mean<0>(x);
    return when_training(
        x, [&] { return (x - now) | assign(past, past * constant<0.5f> + now * constant<0.5f>); },
        [&] { return x - past; });
  }
};
struct scaled {
  static constexpr auto forward(value auto x) { return call<"inner", centred>(x * parameter<"scale", dims<3>>); }
};
struct only_trained {  // what is called in one mode alone
  static constexpr auto forward(value auto x) {
    return when_training(
        x, [&] { return call<"noise", scaled>(x) * meganeura::random<"noise", dims<2, 3>>; }, [&] { return x; });
  }
};
struct stack {
  static constexpr auto forward(value auto x) { return call<"last", only_trained>(repeat<"layers", 2, scaled>(x)); }
};
using net = model<stack, input<"x", dtype::f32, dims<2, 3>>>;
static_assert(net::leaves.size == 4 && net::parameter_count == 3 * 3);

std::vector<std::string> names(const graph& g, op kind) {
  std::vector<std::string> all;
  for (node_id id : g.leaves(kind)) all.push_back(g.get<leaf_attribute>(id).name);
  return all;
}

graph built(run_mode mode) {
  graph g(mode);
  const node_value x(g, g.input("x", dtype::f32, {2, 3}));
  g.add_output("output", stack::forward(x));
  return g;
}

TEST(expr_state, a_mode_has_its_nodes_and_both_have_every_parameter_and_state) {
  const graph training = lower<net>({}, run_mode::training), evaluation = lower<net>();
  const std::vector<std::string> parameters{"layers.0.scale", "layers.1.scale", "last.noise.scale"},
      states{"layers.0.inner.mean", "layers.1.inner.mean", "last.noise.inner.mean"};
  for (const graph* g : {&training, &evaluation}) {
    EXPECT_EQ(names(*g, op::parameter), parameters);
    EXPECT_EQ(names(*g, op::state), states);
    EXPECT_TRUE(g->depends_on_mode());
  }
  EXPECT_EQ(training.effects().size(), 3u);
  EXPECT_EQ(training.leaves(op::random).size(), 1u);
  EXPECT_TRUE(evaluation.effects().empty());
  EXPECT_TRUE(evaluation.leaves(op::random).empty());
  EXPECT_EQ(net::flops(), evaluation.flops());
}

TEST(expr_state, values_of_run_time_do_the_same) {
  for (const run_mode mode : {run_mode::training, run_mode::evaluation}) {
    const graph typed = lower<net>({}, mode), plain = built(mode);
    const auto leaves = samples::random_leaves(typed, -1, 1);
    oracle::interpreter<double> one(typed, leaves), other(plain, leaves);
    EXPECT_EQ(one.run().at("output").values, other.run().at("output").values);
    for (const std::string& state : names(typed, op::state))
      EXPECT_EQ(one.leaves.at(state).values, other.leaves.at(state).values) << state;
  }
}

// One new value in each mode: a state that both modes assign is assigned once.
struct either_way {
  static constexpr auto forward(value auto x) {
    auto last = state<"last", dims<3>>;
    return when_training(
        x, [&] { return call<"inner", centred>(x) | assign(last, last + constant<1.0f>); },
        [&] { return x | assign(last, last * constant<2.0f>); });
  }
};

TEST(expr_state, both_modes_may_assign_one_state) {
  using either = model<either_way, input<"x", dtype::f32, dims<2, 3>>>;
  const auto after = [](run_mode mode) {
    const graph g = lower<either>({}, mode);
    oracle::interpreter<double> run(
        g, {{"x", {{2, 3}, {1, 2, 3, 3, 2, 1}}}, {"last", {{3}, {4, 0, 2}}}, {"inner.mean", {{3}, {0, 0, 0}}}});
    (void)run.run();
    return run.leaves.at("last").values;
  };
  EXPECT_EQ(after(run_mode::training), (std::vector<double>{5, 1, 3}));
  EXPECT_EQ(after(run_mode::evaluation), (std::vector<double>{8, 0, 4}));
}

TEST(expr_state, a_step_reads_the_past_and_leaves_the_new_mean) {
  const graph g = lower<model<centred, input<"x", dtype::f32, dims<2, 3>>>>({}, run_mode::training);
  oracle::interpreter<double> run(g, {{"x", {{2, 3}, {1, 2, 3, 3, 2, 1}}}, {"mean", {{3}, {4, 0, 2}}}});
  EXPECT_EQ(run.run().at("output").values, (std::vector<double>{-1, 0, 1, 1, 0, -1}));
  EXPECT_EQ(run.leaves.at("mean").values, (std::vector<double>{3, 1, 2}));
}

TEST(expr_state, mistakes_on_values_of_run_time_are_sentences) {
  graph g;
  const node_value x(g, g.input("x", dtype::f32, {4})), s(g, g.state("s", dtype::f32, {4}));
  EXPECT_EQ(support::sentence_of([&] { (void)(x | assign(x, x)); }),
            "assign(state, x): the first operand must be a state, as it was declared; found f32 [4], f32 [4]");
  EXPECT_EQ(support::sentence_of([&] { (void)(x | assign(s, sum(x))); }),
            "assign(state, x): x must have the state's shape and dtype; found f32 [4], f32 []");
  (void)(x | assign(s, x));
  EXPECT_NE(support::sentence_of([&] { (void)(x | assign(s, x + 1.0f)); }), "no error");
}

TEST(expr_state, a_graph_for_evaluation_is_not_trained) {
  const auto loss_of = [](graph& g) {
    const node_value x(g, g.input("x", dtype::f32, {2, 3}));
    return mean(centred::forward(x * node_value(g, g.parameter("w", dtype::f32, {3}))));
  };
  graph evaluation, training(run_mode::training);
  const node_id wrong = loss_of(evaluation), right = loss_of(training);
  EXPECT_EQ(
      support::sentence_of([&] { (void)make_training_graph(evaluation, wrong, sgd{}); }),
      "the graph has layers that do something else in training and was built for evaluation; build the model in a "
      "graph(run_mode::training)");
  EXPECT_NO_THROW((void)make_training_graph(training, right, sgd{}));
}

}  // namespace
