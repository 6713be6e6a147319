// SPDX-License-Identifier: MIT
// Losses both ways, reduced in each way, where their formulas end, and as what a trainer minimises.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/operations.hpp>

#include <oracle/interpreter.hpp>
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace mn = meganeura;

namespace {

using numbers = std::vector<double>;

struct pairs {
  static constexpr auto forward(mn::value auto x, mn::value auto y) {
    auto a = mn::l1_loss(x, y) + mn::smooth_l1_loss<mn::smooth_l1_options{.beta = 2}>(x, y) + mn::huber_loss(x, y) +
             mn::log_cosh_loss(x, y);
    auto b = mn::quantile_loss(x, y) + mn::kl_div_loss<mn::kl_div_options{.log_target = true}>(x, y) +
             mn::poisson_nll_loss(x, y);
    auto c = mn::hinge_embedding_loss(x, y) + mn::squared_hinge_loss(x, y) + mn::soft_margin_loss(x, y);
    auto d = mn::focal_loss(x, y) + mn::binary_cross_entropy_loss(x, y) +
             mn::binary_cross_entropy_with_logits_loss(x, y) + mn::mean_squared_error_loss<mn::loss_options{}>(x, y);
    return a + b + c + d;
  }
};
struct others {
  static constexpr auto forward(mn::value auto x, mn::value auto y, mn::value auto label, mn::value auto weight) {
    auto a = mn::gaussian_nll_loss(x, y, y) + mn::margin_ranking_loss(x, y, y) + mn::triplet_margin_loss(x, y, x);
    auto b = mn::cosine_embedding_loss(x, y, mn::sum<-1>(x)) + mn::binary_cross_entropy_with_logits_loss(x, y, weight);
    auto c = mn::cross_entropy_loss(x, label, weight) + mn::cross_entropy_loss(x, y) + mn::nll_loss(x, label, weight);
    return a + b + c + mn::nll_loss(x, label) + mn::cross_entropy_loss(x, y, weight);
  }
};
using x_input = mn::input<"x", mn::dtype::f32, mn::dims<4, 3>>;
using y_input = mn::input<"y", mn::dtype::f32, mn::dims<4, 3>>;
using label_input = mn::input<"label", mn::dtype::i32, mn::dims<4>>;
using weight_input = mn::input<"weight", mn::dtype::f32, mn::dims<3>>;

struct straight {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"fc", 3>(x); }
};
using line = mn::model<straight, x_input>;

// f(x, y) and its gradient by x, of lists of numbers.
struct computed {
  numbers value, gradient;
};
template <class F>
computed compute(const numbers& x, const numbers& y, const F& f) {
  mn::graph g;
  const auto count = static_cast<std::int64_t>(x.size());
  const mn::node_value a(g, g.input("x", mn::dtype::f32, {count})), b(g, g.input("y", mn::dtype::f32, {count}));
  const mn::node_id loss = f(a, b).id();
  const mn::node_id outputs[] = {mn::sum(mn::node_value(g, loss)).id()}, wrt[] = {a.id()};
  const mn::node_id seeds[] = {g.constant(1.0, mn::dtype::f32)};
  const mn::node_id slope = mn::gradients(g, outputs, seeds, wrt)[0];
  mn::oracle::tensors<double> leaves{{"x", {{count}, x, mn::dtype::f32}}, {"y", {{count}, y, mn::dtype::f32}}};
  mn::oracle::interpreter<double> run(g, leaves);
  return {run.value(loss).values, run.value(slope).values};
}
constexpr mn::loss_options unreduced{mn::loss_reduction::none};

}  // namespace

TEST(expr_losses, typed_and_run_time_losses_are_one) {
  mn::graph g;
  const mn::node_id typed = mn::lower_into<mn::model<pairs, x_input, y_input>>(g, {})[0];
  std::string before = mn::to_text(g);
  const mn::node_value x(g, g.find_leaf("x")), y(g, g.find_leaf("y"));
  EXPECT_EQ(pairs::forward(x, y).id(), typed);
  EXPECT_EQ(mn::to_text(g), before);

  mn::graph h;
  const mn::node_id second = mn::lower_into<mn::model<others, x_input, y_input, label_input, weight_input>>(h, {})[0];
  before = mn::to_text(h);
  const auto leaf = [&](const char* name) { return mn::node_value(h, h.find_leaf(name)); };
  EXPECT_EQ(others::forward(leaf("x"), leaf("y"), leaf("label"), leaf("weight")).id(), second);
  EXPECT_EQ(mn::to_text(h), before);
}

TEST(expr_losses, the_reduction_says_what_becomes_of_elements) {
  const auto reduced = [](mn::loss_reduction how) {
    mn::graph g;
    const mn::node_value x(g, g.input("x", mn::dtype::f32, {2, 2})), y(g, g.input("y", mn::dtype::f32, {2, 2}));
    mn::oracle::tensors<double> leaves{{"x", {{2, 2}, {1, 2, 3, 4}, mn::dtype::f32}},
                                       {"y", {{2, 2}, {1, 0, 0, 0}, mn::dtype::f32}}};
    return mn::oracle::interpreter<double>(g, leaves).value(mn::l1_loss(x, y, mn::loss_options{how}).id()).values;
  };
  EXPECT_EQ(reduced(mn::loss_reduction::none), (numbers{0, 2, 3, 4}));
  EXPECT_EQ(reduced(mn::loss_reduction::sum), numbers{9});
  EXPECT_EQ(reduced(mn::loss_reduction::mean), numbers{2.25});
  EXPECT_EQ(reduced(mn::loss_reduction::batch_mean), numbers{4.5});
}

TEST(expr_losses, ends_of_formulas_are_those_of_torch) {
  const double inf = std::numeric_limits<double>::infinity();
  const computed chance = compute({0, 1, 0, 1}, {0, 1, 1, 0},
                                  [](auto x, auto y) { return mn::binary_cross_entropy_loss(x, y, unreduced); });
  EXPECT_EQ(chance.value, (numbers{0, 0, 100, 100}));
  for (const double slope : chance.gradient) EXPECT_TRUE(std::isfinite(slope));

  const computed logits = compute({0, 1000, -1000, 1000}, {0, 0, 1, 1}, [](auto x, auto y) {
    return mn::binary_cross_entropy_with_logits_loss(x, y, unreduced);
  });
  EXPECT_EQ(logits.value, (numbers{std::log(2.0), 1000, 1000, 0}));
  EXPECT_EQ(logits.gradient, (numbers{0.5, 1, -1, 0}));

  const auto huber = [](auto x, auto y) {
    return mn::huber_loss(x, y, mn::huber_options{.reduction = mn::loss_reduction::none});
  };
  EXPECT_EQ(compute({1, -1, 1e30, inf}, {0, 0, 0, 0}, huber).value, (numbers{0.5, 0.5, 1e30, inf}));
  EXPECT_EQ(compute({1, -1, 1e30, 0}, {0, 0, 0, 0}, huber).gradient, (numbers{1, -1, 1, 0}));

  const computed divergence = compute({-1, -2}, {0, 1}, [](auto x, auto y) {
    return mn::kl_div_loss(x, y, mn::kl_div_options{.reduction = mn::loss_reduction::none});
  });
  EXPECT_EQ(divergence.value, (numbers{0, 2}));

  const auto log_cosh = [](auto x, auto y) { return mn::log_cosh_loss(x, y, unreduced); };
  EXPECT_NEAR(compute({1e-6}, {0}, log_cosh).value[0], 5e-13, 1e-24);
  EXPECT_EQ(compute({0, 1e30, -1e30}, {0, 0, 0}, log_cosh).gradient, (numbers{0, 1, -1}));
}

TEST(expr_losses, options_choose_among_formulas) {
  const numbers x{0.5, 2, -3}, y{1, 0, 3};
  const auto none = mn::loss_reduction::none;
  const auto expect = [&](const auto& loss, const auto& definition) {
    const numbers found = compute(x, y, loss).value;
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(found[i], definition(x[i], y[i]), 1e-7) << i;
  };
  for (const auto& [alpha, gamma] : {std::pair{0.75f, 3.0f}, {-1.0f, 2.0f}, {0.25f, 1.0f}, {0.5f, 0.0f}}) {
    expect(
        [&, a = alpha, c = gamma](auto p, auto t) {
          return mn::focal_loss(p, t, mn::focal_options{a, c, none});
        },
        [&, a = alpha, c = gamma](double p, double t) {
          const double chance = 1 / (1 + std::exp(-p)), share = a < 0 ? 1 : a * t + (1 - a) * (1 - t);
          const double entropy = -t * std::log(chance) - (1 - t) * std::log(1 - chance);
          return share * std::pow(chance * (1 - t) + (1 - chance) * t, static_cast<double>(c)) * entropy;
        });
  }
  const mn::poisson_nll_options rates{.log_input = false, .full = true, .epsilon = 4, .reduction = none};
  expect([&](auto p, auto t) { return mn::poisson_nll_loss(p, t, rates); },
         [&](double p, double t) {
           const double stirling = t > 1 ? t * std::log(t) - t + std::log(2 * 3.141592653589793 * t) / 2 : 0;
           return p - t * std::log(p + 4) + stirling;
         });
  const mn::gaussian_nll_options bounded{.full = true, .epsilon = 0.5f, .reduction = none};
  expect([&](auto p, auto t) { return mn::gaussian_nll_loss(p, t, t, bounded); },
         [&](double p, double t) {
           const double variance = std::max(t, 0.5);
           return (std::log(variance) + (p - t) * (p - t) / variance + std::log(2 * 3.141592653589793)) / 2;
         });
  expect([&](auto p, auto t) { return mn::binary_cross_entropy_with_logits_loss(p, t, t + 2.0f, unreduced); },
         [&](double p, double t) { return (1 - t) * p + (1 + t * (t + 1)) * std::log1p(std::exp(-p)); });
}

TEST(expr_losses, labels_that_do_not_count_change_nothing) {
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {3, 2})), label(g, g.input("label", mn::dtype::i32, {3})),
      weight(g, g.input("weight", mn::dtype::f32, {2}));
  constexpr mn::cross_entropy_options second{.ignore_index = 1};
  const mn::node_id losses[] = {
      mn::nll_loss(x, label, weight, second).id(), mn::cross_entropy_loss(x, label, weight).id(),
      mn::nll_loss(x, label, mn::cross_entropy_options{.reduction = mn::loss_reduction::none}).id()};
  mn::oracle::tensors<double> leaves{{"x", {{3, 2}, {-1, -2, -3, -4, -5, -6}, mn::dtype::f32}},
                                     {"label", {{3}, {1, -100, 0}, mn::dtype::i32}},
                                     {"weight", {{2}, {4, 2}, mn::dtype::f32}}};
  EXPECT_EQ((mn::oracle::interpreter<double>(g, leaves).value(losses[0]).values), numbers{5});
  const double near = std::log(1 + std::exp(-1.0)), far = std::log(1 + std::exp(1.0));
  EXPECT_NEAR((mn::oracle::interpreter<double>(g, leaves).value(losses[1]).values[0]), (4 * near + 2 * far) / 6, 1e-12);
  EXPECT_EQ((mn::oracle::interpreter<double>(g, leaves).value(losses[2]).values), (numbers{2, 0, 5}));
  leaves.at("label").values = {7, -100, 9};
  EXPECT_EQ((mn::oracle::interpreter<double>(g, leaves).value(losses[0]).values), numbers{0});
}

namespace {
// What a trainer minimises beside what the function gives for the model's result and an input of that name.
template <class Loss, class F>
void expect_trains(mn::dtype type, const mn::shape& shape, const F& f) {
  mn::graph g;
  const std::vector<mn::node_id> result = mn::lower_into<line>(g, {});
  const mn::node_id loss = mn::lower_loss<line, Loss>(g, result, {})[0], target = g.find_leaf("t");
  ASSERT_NE(target, mn::no_id);
  EXPECT_EQ(g[target].type, type);
  EXPECT_EQ(g[target].extents, shape);
  EXPECT_EQ(f(mn::node_value(g, result[0]), mn::node_value(g, target)).id(), loss);
}
}  // namespace

TEST(expr_losses, a_trainer_minimises_what_the_function_gives) {
  const mn::shape rows{4, 3};
  const auto floats = mn::dtype::f32;
#define EXPECT_TRAINS(type, f) expect_trains<mn::type<"t">>(floats, rows, [](auto x, auto y) { return mn::f(x, y); })
  EXPECT_TRAINS(l1, l1_loss);
  EXPECT_TRAINS(smooth_l1, smooth_l1_loss);
  EXPECT_TRAINS(huber, huber_loss);
  EXPECT_TRAINS(log_cosh_error, log_cosh_loss);
  EXPECT_TRAINS(quantile_error, quantile_loss);
  EXPECT_TRAINS(binary_cross_entropy, binary_cross_entropy_loss);
  EXPECT_TRAINS(binary_cross_entropy_with_logits, binary_cross_entropy_with_logits_loss);
  EXPECT_TRAINS(focal, focal_loss);
  EXPECT_TRAINS(kl_div, kl_div_loss);
  EXPECT_TRAINS(hinge_embedding, hinge_embedding_loss);
  EXPECT_TRAINS(squared_hinge, squared_hinge_loss);
  EXPECT_TRAINS(soft_margin, soft_margin_loss);
  EXPECT_TRAINS(poisson_nll, poisson_nll_loss);
  EXPECT_TRAINS(dense_cross_entropy, cross_entropy_loss);
#undef EXPECT_TRAINS
  expect_trains<mn::huber<"t", mn::huber_options{.delta = 2}>>(
      floats, rows, [](auto x, auto y) { return mn::huber_loss(x, y, mn::huber_options{.delta = 2}); });
  expect_trains<mn::mean_squared_error<"t", mn::loss_options{mn::loss_reduction::sum}>>(
      floats, rows,
      [](auto x, auto y) { return mn::mean_squared_error_loss(x, y, mn::loss_options{mn::loss_reduction::sum}); });
  expect_trains<mn::nll<"t">>(mn::dtype::i32, {4}, [](auto x, auto y) { return mn::nll_loss(x, y); });
  expect_trains<mn::cross_entropy<"t", mn::cross_entropy_options{.axis = 0, .label_smoothing = 0.5f}>>(
      mn::dtype::i32, {3}, [](auto x, auto y) {
        return mn::cross_entropy_loss(x, y, mn::cross_entropy_options{.axis = 0, .label_smoothing = 0.5f});
      });
}

TEST(expr_losses, operands_that_do_not_agree_are_refused) {
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {4, 3})), y(g, g.input("y", mn::dtype::f32, {4})),
      label(g, g.input("label", mn::dtype::i32, {4}));
  const auto sentence = [](const auto& call) { return mn::support::sentence_of(call); };
  EXPECT_EQ(
      sentence([&] { (void)mn::huber_loss(x, y); }),
      "huber_loss<options>(prediction, target): both must be floats of one shape and dtype; found f32 [4, 3], f32 "
      "[4]");
  EXPECT_EQ(sentence([&] { (void)mn::cosine_embedding_loss(x, x, x); }),
            "cosine_embedding_loss<options>(a, b, target): the target must have their dtype and their shape less the "
            "last axis; found f32 [4, 3], f32 [4, 3], f32 [4, 3]");
  EXPECT_EQ(
      sentence([&] { (void)mn::cross_entropy_loss(x, label, y); }),
      "cross_entropy_loss(logits, labels, weights): weights must be floats, one for each class; found f32 [4, 3], "
      "i32 [4], f32 [4]");
  EXPECT_EQ(sentence([&] { (void)mn::nll_loss(x, label, mn::cross_entropy_options{.axis = 2}); }),
            "nll_loss(scores, labels): labels must be i32 of the scores' shape less the axis of the classes (the last "
            "one, or .axis = 1 "
            "of [n, classes, ..]), which must be a number; found f32 [4, 3], i32 [4]");
  const mn::node_value scores(g, g.input("scores", mn::dtype::f32, {2, 5, 3, 4})),
      places(g, g.input("places", mn::dtype::i32, {2, 3, 4}));
  EXPECT_EQ(sentence([&] { (void)mn::cross_entropy_loss(scores, places); }),
            "cross_entropy_loss(logits, labels): labels must be i32 of the logits' shape less the axis of the classes "
            "(the last one, or .axis = 1 of [n, classes, ..]), which must be a number, or shares of its shape and "
            "dtype; found f32 [2, 5, 3, 4], i32 [2, 3, 4]");
}
