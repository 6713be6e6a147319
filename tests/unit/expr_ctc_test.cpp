// SPDX-License-Identifier: MIT
// ctc_loss: both carriers, targets that do not fit into their frames, refusals.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/operations.hpp>

#include <oracle/interpreter.hpp>
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace mn = meganeura;

namespace {

using numbers = std::vector<double>;

struct functions {
  static constexpr mn::ctc_options last{.blank = 2, .reduction = mn::loss_reduction::sum, .zero_infinity = true};
  static constexpr auto forward(mn::value auto x, mn::value auto targets, mn::value auto lengths) {
    auto scores = mn::log_softmax(x);
    return mn::ctc_loss(scores, targets, lengths, lengths) + mn::ctc_loss<last>(scores, targets, lengths, lengths);
  }
};

struct outcome {
  numbers loss, slope;
};
// Three equal chances in each of 3 frames; two sequences of the targets 1, 1 each.
outcome of(numbers frames, numbers labels, bool zero_infinity, numbers classes = {1, 1, 1, 1},
           numbers scores = numbers(18, -std::log(3.0))) {
  mn::graph g;
  const auto input = [&](const char* name, mn::dtype type, const mn::shape& extents) {
    return mn::node_value(g, g.input(name, type, extents));
  };
  const mn::node_value x = input("x", mn::dtype::f32, {2, 3, 3}), targets = input("targets", mn::dtype::i32, {2, 2}),
                       seed = input("seed", mn::dtype::f32, {2});
  const mn::ctc_options options{.reduction = mn::loss_reduction::none, .zero_infinity = zero_infinity};
  const mn::node_id y =
      mn::ctc_loss(x, targets, input("frames", mn::dtype::i32, {2}), input("labels", mn::dtype::i32, {2}), options)
          .id();
  const mn::node_id outputs[] = {y}, seeds[] = {seed.id()}, wrt[] = {x.id()};
  const mn::node_id slope = mn::gradients(g, outputs, seeds, wrt)[0];
  mn::oracle::interpreter<double> run(g, {{"x", {{2, 3, 3}, std::move(scores)}},
                                          {"targets", {{2, 2}, std::move(classes), mn::dtype::i32}},
                                          {"frames", {{2}, std::move(frames), mn::dtype::i32}},
                                          {"labels", {{2}, std::move(labels), mn::dtype::i32}},
                                          {"seed", {{2}, {1, 1}}}});
  return {run.value(y).values, run.value(slope).values};
}

}  // namespace

TEST(expr_ctc, typed_and_run_time_values_make_one_graph) {
  mn::graph g;
  using model = mn::model<functions, mn::input<"x", mn::dtype::f32, mn::dims<2, 5, 3>>,
                          mn::input<"targets", mn::dtype::i32, mn::dims<2, 2>>,
                          mn::input<"lengths", mn::dtype::i32, mn::dims<2>>>;
  const mn::node_id typed = mn::lower_into<model>(g, {})[0];
  const std::string before = mn::to_text(g);
  const auto leaf = [&](const char* name) { return mn::node_value(g, g.find_leaf(name)); };
  EXPECT_EQ(functions::forward(leaf("x"), leaf("targets"), leaf("lengths")).id(), typed);
  EXPECT_EQ(mn::to_text(g), before);
}

// 1, 1 takes three frames: 1, blank, 1.
TEST(expr_ctc, a_target_that_does_not_fit_has_an_infinite_loss_or_none_and_trains_nothing) {
  for (const bool zero : {false, true}) {
    const outcome found = of({3, 2}, {2, 2}, zero);
    EXPECT_NEAR(found.loss[0], 3 * std::log(3.0), 1e-6);
    EXPECT_EQ(found.loss[1], zero ? 0 : INFINITY);
    const numbers expected{0, -1, 0, -1, 0, 0, 0, -1, 0};
    for (std::size_t i = 0; i < 18; ++i) EXPECT_NEAR(found.slope[i], i < 9 ? expected[i] : 0, 1e-6) << i;
  }
}

TEST(expr_ctc, a_label_that_is_no_class_cannot_be_read_and_lengths_end_with_what_there_is) {
  const outcome other = of({3, 9}, {2, 1}, false, {1, 7, 1, 99}), negative = of({3, -1}, {1, 0}, true, {-1, 7, 1, 1}),
                long_one = of({3, 3}, {3, 1}, false, {1, 2, 1, 1}), three = of({3, 3}, {1, 1}, false, {1, 2, 1, 99});
  EXPECT_EQ(other.loss, (numbers{INFINITY, three.loss[1]}));
  EXPECT_EQ(negative.loss, (numbers{0, 0}));
  EXPECT_EQ(long_one.loss[0], INFINITY);
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(other.slope[i], 0) << i;
    EXPECT_EQ(negative.slope[i], 0) << i;
  }
}

TEST(expr_ctc, without_labels_all_frames_are_blank_and_without_frames_there_is_nothing_to_read) {
  const outcome found = of({2, 0}, {0, 0}, false);
  EXPECT_NEAR(found.loss[0], 2 * std::log(3.0), 1e-6);
  EXPECT_EQ(found.loss[1], 0);
  EXPECT_EQ(of({0, 0}, {1, 2}, false).loss, (numbers{INFINITY, INFINITY}));
  EXPECT_EQ(of({-2147483648.0, -2147483647.0}, {0, 1}, false).loss, (numbers{0, INFINITY}));
}

TEST(expr_ctc, a_chance_of_zero_takes_what_leads_through_it_from_loss_and_gradient) {
  const double third = -std::log(3.0);
  numbers none(18, third), some = none;
  for (std::size_t i = 9; i < 18; ++i) none[i] = -INFINITY;  // no class in any frame
  some[5] = -INFINITY;                                       // class 2 in the second frame
  some[9] = some[10] = -INFINITY;                            // neither class 1 nor a blank in the first frame
  for (const bool zero : {false, true}) {
    const double never = zero ? 0 : INFINITY;
    const outcome without = of({3, 3}, {2, 2}, zero, {1, 2, 1, 2}, none),
                  beside = of({3, 3}, {2, 2}, zero, {1, 2, 1, 2}, some);
    // Of 1 1 2, 1 2 2, 0 1 2, 1 0 2 and 1 2 0 the second and the last are gone.
    const numbers left{-1, -2, 0, -1, -2, 0, 0, 0, -3}, all{-1, -4, 0, -1, -2, -2, -1, 0, -4};
    EXPECT_NEAR(without.loss[0], -3 * third - std::log(5), 1e-6);
    EXPECT_NEAR(beside.loss[0], -3 * third - std::log(3), 1e-6);
    EXPECT_EQ(without.loss[1], never);
    EXPECT_EQ(beside.loss[1], never);
    for (std::size_t i = 0; i < 18; ++i) {
      EXPECT_NEAR(without.slope[i], i < 9 ? all[i] / 5 : 0, 1e-6) << i;
      EXPECT_NEAR(beside.slope[i], i < 9 ? left[i] / 3 : 0, 1e-6) << i;
    }
  }
}

TEST(expr_ctc, scores_that_are_no_numbers_are_not_taken_for_a_target_that_does_not_fit) {
  numbers scores(18, -std::log(3.0));
  scores[4] = NAN;
  for (const bool zero : {false, true}) {
    const outcome found = of({3, 3}, {1, 1}, zero, {1, 1, 1, 1}, scores);
    EXPECT_TRUE(std::isnan(found.loss[0]));
    EXPECT_NEAR(found.loss[1], 3 * std::log(3.0) - std::log(6), 1e-6);
  }
}

TEST(expr_ctc, what_does_not_fit_is_a_sentence) {
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {2, 5, 3})), y(g, g.input("y", mn::dtype::i32, {2, 2})),
      n(g, g.input("n", mn::dtype::i32, {2}));
  const std::string rule =
      "ctc_loss<options>(scores, targets, frames, labels): scores must be floats [n, t, classes], targets i32 [n, l], "
      "frames and labels i32 [n], t, l and classes numbers; blank is a class; found ";
  EXPECT_EQ(mn::support::sentence_of([&] { (void)mn::ctc_loss(x, n, n, n); }),
            rule + "f32 [2, 5, 3], i32 [2], i32 [2], i32 [2]");
  EXPECT_EQ(mn::support::sentence_of([&] { (void)mn::ctc_loss<mn::ctc_options{.blank = 3}>(x, y, n, n); }),
            rule + "f32 [2, 5, 3], i32 [2, 2], i32 [2], i32 [2]");
}
