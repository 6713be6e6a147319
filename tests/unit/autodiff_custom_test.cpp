// SPDX-License-Identifier: MIT
// Functions with a backward of their own: what reverse mode makes of it, and what is left of it elsewhere.

#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/expr/summary.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/graph/summary.hpp>
#include <meganeura/nn/channel_norm.hpp>

#include <oracle/gradient_check.hpp>
#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::oracle;

constexpr auto straight_through(value auto x) {
  return custom_gradient([](value auto a) { return round(a); }, [](value auto g, value auto, value auto) { return g; },
                         x);
}

// log(1 + exp(x)), whose derivative is 1 / (1 + exp(-x)).
constexpr auto softplus_of(value auto x) {
  return custom_gradient([](value auto a) { return log(exp(a) + constant<1.0f>); },
                         [](value auto g, value auto, value auto a) { return g / (exp(-a) + constant<1.0f>); }, x);
}

// a b + b^2 of a [3, 4] and b [4], with derivatives that use the result and are right: (y - b^2) / a is b.
constexpr auto joined(value auto a, value auto b) {
  return custom_gradient([](value auto u, value auto v) { return u * v + v * v; },
                         [](value auto g, value auto y, value auto u, value auto v) {
                           return results<"u", "v">(g * (y - v * v) / u, sum<0>(g * (u + v + v)));
                         },
                         a, b);
}

struct everything {
  static constexpr auto forward(value auto x, value auto b) {
    return straight_through(x) + softplus_of(x) * joined(x, b) + joined(softplus_of(x), sum<0>(x));
  }
};
using model = meganeura::model<everything, input<"x", dtype::f32, dims<3, 4>>, input<"b", dtype::f32, dims<4>>>;

TEST(autodiff_custom, types_and_run_time_give_the_same_nodes) {
  graph g;
  const node_id typed = lower_into<model>(g, {})[0];
  const std::string before = to_text(g);
  const node_value x(g, g.find_leaf("x")), b(g, g.find_leaf("b"));
  EXPECT_EQ(everything::forward(x, b).id(), typed);
  EXPECT_EQ(to_text(g), before);
}

TEST(autodiff_custom, a_gradient_is_what_backward_returns) {
  graph g;
  const node_value x(g, g.input("x", dtype::f32, {5}));
  const node_id y = straight_through(x), loss = sum<0>(node_value(g, y) * node_value(g, y)), wrt[] = {x};
  const node_id slope = gradients(g, loss, wrt)[0];
  const tensor<double> at({5}, {-1.6, -0.4, 0.2, 0.9, 3.3});
  interpreter<double> run(g, {{"x", at}});
  const tensor<double> expected({5}, {-4, 0, 0, 2, 6});
  EXPECT_EQ(run.value(slope).values, expected.values);
}

TEST(autodiff_custom, right_derivatives_agree_with_differences_to_second_order) {
  graph g;
  const node_value x(g, g.input("x", dtype::f32, {3, 4})), b(g, g.input("b", dtype::f32, {4}));
  const tensors<double> at = {{"x", random_tensor({3, 4}, 1, 0.5, 2)}, {"b", random_tensor({4}, 2, -1, 1)}};
  for (const node_value& y : {softplus_of(x), joined(x, b), joined(softplus_of(x), sum<0>(x)), joined(x, sum<0>(x))}) {
    EXPECT_LT(gradient_error(g, y, {x, b}, at), gradient_tolerance);
    EXPECT_LT(second_gradient_error(g, y, {x, b}, at), gradient_tolerance);
  }
}

// Their gradients by x are written out.
TEST(autodiff_custom, norms_agree_with_differences_to_second_order) {
  graph g(run_mode::training);
  const node_value x(g, g.input("x", dtype::f32, {3, 4, 2}));
  const node_value batch = batch_norm("batch", x), group = group_norm("group", x, 2);
  const std::vector<node_id> wrt{x, g.find_leaf("batch.weight"), g.find_leaf("batch.bias"), g.find_leaf("group.weight"),
                                 g.find_leaf("group.bias")};
  tensors<double> at = {{"x", random_tensor({3, 4, 2}, 1, -1, 2)}};
  for (const char* name :
       {"batch.weight", "batch.bias", "batch.running_mean", "batch.running_var", "group.weight", "group.bias"})
    at[name] = random_tensor({4}, at.size() + 1, 0.5, 2);
  const node_value y = batch * group + group * group;
  EXPECT_LT(gradient_error(g, y, wrt, at), gradient_tolerance);
  EXPECT_LT(second_gradient_error(g, y, wrt, at), gradient_tolerance);
}

TEST(autodiff_custom, what_the_functions_capture_takes_part_and_gets_no_gradient) {
  graph g;
  const node_value x(g, g.input("x", dtype::f32, {4})), limit(g, g.input("limit", dtype::f32, {4}));
  const node_value y = custom_gradient(
      [](value auto a) { return a; },
      [=](value auto gradient, value auto, value auto) { return maximum(-limit, minimum(limit, gradient)); }, x);
  const node_id wrt[] = {x, limit};
  const std::vector<node_id> slopes = gradients(g, sum<0>(y * y), wrt);
  interpreter<double> run(g, {{"x", {{4}, {-3, 0.25, 1, 4}}}, {"limit", {{4}, {1, 1, 1, 5}}}});
  EXPECT_EQ(run.value(slopes[0]).values, (std::vector<double>{-1, 0.5, 1, 5}));
  EXPECT_EQ(run.value(slopes[1]).values, (std::vector<double>{0, 0, 0, 0}));
}

TEST(autodiff_custom, a_function_inside_of_a_backward_that_gives_the_same_value_keeps_its_own) {
  graph g;
  const node_value x(g, g.input("x", dtype::f32, {2}));
  const auto tripled = [](value auto a) {
    return custom_gradient([](value auto v) { return v * v; }, [](auto up, auto, auto v) { return up * v * 3.0f; }, a);
  };
  const node_value y =
      custom_gradient([](value auto v) { return v * v; }, [&](auto up, auto, auto v) { return up * tripled(v); }, x);
  const node_id outputs[] = {y}, seeds[] = {x}, wrt[] = {x};   // a seed that backward reads as well
  const node_id first = gradients(g, outputs, seeds, wrt)[0];  // x tripled(x)
  const node_id second = gradients(g, sum<0>(node_value(g, first) * 2.0f), wrt)[0];
  interpreter<double> run(g, {{"x", {{2}, {2, 5}}}});
  EXPECT_EQ(run.value(first).values, (std::vector<double>{8, 125}));
  EXPECT_EQ(run.value(second).values, (std::vector<double>{32, 200}));  // 2 x^2 + 2 x 3 x
}

TEST(autodiff_custom, explain_looks_past_what_gradients_alone_compute) {
  graph g;
  g.add_output("y", lower_into<model>(g, {})[0]);
  fusion::optimize_report report;
  (void)fusion::optimize(g, {.explain = true}, &report);
  EXPECT_NE(report.explain.find("  computes round, exp, add, log, multiply, reduce"), std::string::npos)
      << report.explain;
}

TEST(autodiff_custom, explain_follows_what_a_function_captures) {
  graph g;
  const node_value x(g, g.input("x", dtype::f32, {4, 8}));
  const node_value e = exp(x);
  const node_value y = custom_gradient([=](value auto) { return e * 3.0f; },
                                       [](value auto up, value auto, value auto) { return up; }, x);
  g.add_output("e", e);
  g.add_output("y", maximum(y + x, 0.0f));
  fusion::optimize_report report;
  (void)fusion::optimize(g, {.explain = true}, &report);
  EXPECT_NE(report.explain.find("multiply, add, maximum\n"), std::string::npos) << report.explain;
}

TEST(autodiff_custom, evaluation_computes_nothing_of_a_backward) {
  const auto plain = [](const auto& function) {
    graph g;
    const node_value x(g, g.input("x", dtype::f32, {3, 4}));
    g.add_output("y", function(x));
    return g;
  };
  const graph with = plain([](value auto x) { return softplus_of(x); });
  const graph without = plain([](value auto x) { return log(exp(x) + constant<1.0f>); });
  EXPECT_EQ(to_text(fusion::optimize(with)), to_text(fusion::optimize(without)));
  EXPECT_EQ(with.flops(), without.flops());
  EXPECT_EQ(summary(with).flops.value(), without.flops());
  using typed = meganeura::model<everything, input<"x", dtype::f32, dims<3, 4>>, input<"b", dtype::f32, dims<4>>>;
  EXPECT_EQ(summary<typed>().flops.value(), lower<typed>().flops());
  constexpr double while_compiling = typed::flops();
  EXPECT_EQ(while_compiling, lower<typed>().flops());
  interpreter<double> run(with, {{"x", random_tensor({3, 4}, 1, -1, 1)}});
  EXPECT_EQ(run.run().size(), 1u);
}

TEST(autodiff_custom, mistakes_are_sentences_at_run_time) {
  graph g;
  const node_value x(g, g.input("x", dtype::f32, {3, 4})), n(g, g.input("n", dtype::i32, {4}));
  const auto same = [](value auto a) { return a; };
  EXPECT_EQ(support::refusal([&] {
              (void)custom_gradient(
                  same, [](auto up, auto, auto) { return sum<0>(up); }, x);
            }),
            "custom_gradient(forward, backward, x...): what backward returns for an operand must have its shape and "
            "dtype; sum over what was broadcast, expand a number; found f32 [3, 4]");
  EXPECT_EQ(
      support::refusal([&] {
        (void)custom_gradient(
            same, [](auto up, auto, auto) { return up; }, n);
      }),
      "custom_gradient(forward, backward, x...): operands must be floats; capture what has no gradient: [=](value "
      "auto x) { return gather<0>(x, indices); }; found i32 [4]");
  EXPECT_EQ(support::refusal([&] {
              (void)custom_gradient([](auto a) { return cast(a, dtype::i32); }, [](auto up, auto, auto) { return up; },
                                    x);
            }),
            "custom_gradient(forward, backward, x...): forward must return floats; found i32 [3, 4]");
  EXPECT_EQ(support::refusal([&] {
              (void)g.apply(op::custom_gradient, no_attribute{}, {x, x, x, x});
            }),
            "custom_gradient of f32 [3, 4] by f32 [3, 4]: found a gradient f32 [3, 4] and, of the kind input, f32 [3, "
            "4]; both are floats, the gradient has the operand's dtype and shape, and the last is an adjoint of the "
            "first one's");
}

TEST(autodiff_custom, a_gradient_that_escapes_from_backward_is_refused) {
  graph g;
  const node_value x(g, g.input("x", dtype::f32, {2}));
  node_value kept;
  const graph::scope in(g, "layer");
  (void)custom_gradient([](value auto a) { return a * a; },
                        [&](auto up, auto, auto a) {
                          kept = up * a;
                          return kept;
                        },
                        x);
  g.add_output("y", kept);
  EXPECT_EQ(support::refusal([&] { (void)fusion::optimize(g); }),
            "a step reads what the backward of a custom_gradient computes, f32 [2] in layer, and only gradients know "
            "it; return it from backward and read it nowhere else");
}

}  // namespace
