// SPDX-License-Identifier: MIT
// Reductions of operations.hpp: of types and of values of run time, at the ends of their ranges, and what they refuse.
#include <meganeura/autodiff/gradient.hpp>

#include <oracle/interpreter.hpp>
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <meganeura/expr/lower.hpp>
#include <meganeura/operations.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace mn = meganeura;

namespace {

constexpr double inf = INFINITY;
using numbers = std::vector<double>;
using function = mn::node_value (*)(mn::node_value);

struct functions {
  static constexpr auto forward(mn::value auto x) {
    auto places = mn::argmax<-1>(x) + mn::argmin<1>(x) + mn::count_nonzero<1>(x);
    auto truth = mn::any<1>(mn::less(x, mn::constant<0>)) + mn::all<1>(x) + mn::argmax(x);
    auto spread = mn::variance<1>(x) + mn::standard_deviation<1>(x, mn::c<mn::correction{0}>) + mn::logsumexp<1>(x);
    auto y = mn::l2_normalize<1>(x);
    auto lengths = mn::norm<1>(x) + mn::norm<1>(x, mn::c<mn::norm_order{0}>) + mn::norm<1>(x, mn::c<mn::norm_order{3}>);
    auto apart = mn::euclidean_distance<1>(x, y) + mn::manhattan_distance<1>(x, y) + mn::chebyshev_distance<1>(x, y) +
                 mn::minkowski_distance<1>(x, y, mn::c<mn::norm_order{0.5}>) + mn::cosine_similarity<1>(x, y);
    return spread + lengths + apart + mn::cast<mn::dtype::f32>(places + truth);
  }
};
using model = mn::model<functions, mn::input<"x", mn::dtype::f32, mn::dims<2, 3>>>;

struct computed {
  numbers values, gradient;
};
computed of(const numbers& row, function build) {
  mn::graph g;
  const mn::shape extents{static_cast<std::int64_t>(row.size())};
  const mn::node_value x(g, g.input("x", mn::dtype::f32, extents));
  const mn::node_value y = build(x);
  mn::oracle::tensors<double> leaves;
  leaves["x"] = {extents, row, mn::dtype::f32};
  std::vector<mn::node_id> found{mn::no_id};
  const mn::node_id wrt[] = {x.id()};
  if (is_float(g[y.id()].type)) found = mn::reached_gradients(g, mn::sum(y).id(), wrt);
  mn::oracle::interpreter<double> run(g, leaves);
  return {run.value(y.id()).values, found[0] == mn::no_id ? numbers{} : run.value(found[0]).values};
}

void expect_same(const numbers& found, const numbers& expected, const char* of) {
  ASSERT_EQ(found.size(), expected.size()) << of;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << of << " " << found[i];
    } else if (std::isinf(expected[i])) {
      EXPECT_EQ(found[i], expected[i]) << of;
    } else {
      EXPECT_NEAR(found[i], expected[i], 1e-6 * std::fmax(1, std::fabs(expected[i]))) << of;
    }
  }
}

}  // namespace

TEST(expr_reductions, every_function_is_one_operation_both_ways) {
  mn::graph g;
  const mn::node_id typed = mn::lower_into<model>(g, {})[0];
  const std::string before = mn::to_text(g);
  EXPECT_EQ(functions::forward(mn::node_value(g, g.find_leaf("x"))).id(), typed);
  EXPECT_EQ(mn::to_text(g), before);
}

TEST(expr_reductions, ends_of_the_range_are_as_pytorch_has_them) {
  struct {
    const char* name;
    function build;
    numbers x, value, gradient;  // no gradient: not looked at
  } cases[] = {
      {"argmax", [](mn::node_value x) { return mn::argmax(x); }, {1, 3, 3}, {1}, {}},
      {"argmax", [](mn::node_value x) { return mn::argmax(x); }, {1, NAN, inf, NAN}, {1}, {}},
      {"argmin", [](mn::node_value x) { return mn::argmin(x); }, {2, -inf, NAN}, {2}, {}},
      {"argmax", [](mn::node_value x) { return mn::argmax(mn::sum(x)); }, {1, 2}, {0}, {}},
      {"count", [](mn::node_value x) { return mn::count_nonzero(x); }, {0, -0.0, NAN, 1}, {2}, {}},
      {"any", [](mn::node_value x) { return mn::any(mn::sum(x)); }, {1, -1}, {0}, {}},
      {"variance", [](mn::node_value x) { return mn::variance(x); }, {4}, {NAN}, {}},
      {"variance", [](mn::node_value x) { return mn::variance(x, mn::correction{0}); }, {4}, {0}, {0}},
      {"variance", [](mn::node_value x) { return mn::variance(x, mn::correction{5}); }, {4, 5}, {inf}, {}},
      {"variance", [](mn::node_value x) { return mn::variance(x); }, {1e8, 1e8 + 2}, {2}, {-2, 2}},
      {"deviation", [](mn::node_value x) { return mn::standard_deviation(x); }, {4, 4}, {0}, {0, 0}},
      {"logsumexp", [](mn::node_value x) { return mn::logsumexp(x); }, {-inf, -inf}, {-inf}, {0, 0}},
      {"logsumexp", [](mn::node_value x) { return mn::logsumexp(x); }, {-inf, 1000}, {1000}, {0, 1}},
      {"logsumexp", [](mn::node_value x) { return mn::logsumexp(x); }, {inf, 0}, {inf}, {}},
      {"norm", [](mn::node_value x) { return mn::norm(x); }, {0, 0}, {0}, {0, 0}},
      {"norm", [](mn::node_value x) { return mn::norm(x, mn::norm_order{0}); }, {0, -3}, {1}, {}},
      {"norm", [](mn::node_value x) { return mn::norm(x, mn::norm_order{1}); }, {0, -3}, {3}, {0, -1}},
      {"norm", [](mn::node_value x) { return mn::norm(x, mn::norm_order{0.5}); }, {0, -4}, {4}, {0, -1}},
      {"norm", [](mn::node_value x) { return mn::norm(x, mn::norm_order{3}); }, {0, 0}, {0}, {0, 0}},
      {"norm", [](mn::node_value x) { return mn::norm(x, mn::norm_order{-1}); }, {0, 2}, {0}, {}},
      {"norm", [](mn::node_value x) { return mn::norm(x, mn::norm_order{inf}); }, {1, -4}, {4}, {0, -1}},
      {"norm", [](mn::node_value x) { return mn::norm(x, mn::norm_order{-inf}); }, {1, -4}, {1}, {1, 0}},
      {"l2_normalize", [](mn::node_value x) { return mn::l2_normalize(x); }, {0, 0}, {0, 0}, {1e12, 1e12}},
      {"cosine", [](mn::node_value x) { return mn::cosine_similarity(x, x * 0); }, {3, 4}, {0}, {0, 0}},
  };
  for (const auto& each : cases) {
    const computed found = of(each.x, each.build);
    expect_same(found.values, each.value, each.name);
    if (!each.gradient.empty()) expect_same(found.gradient, each.gradient, each.name);
  }
}

TEST(expr_reductions, operands_are_broadcast_and_axes_are_those_of_both) {
  mn::graph g;
  const mn::node_value a(g, g.input("a", mn::dtype::f16, {2, 1, 3})), b(g, g.input("b", mn::dtype::f16, {4, 1}));
  EXPECT_EQ(g[mn::cosine_similarity(a, b, -1).id()].extents, (mn::shape{2, 4}));
  EXPECT_EQ(g[mn::euclidean_distance(b, a, 0).id()].extents, (mn::shape{4, 3}));
  EXPECT_EQ(g[mn::euclidean_distance(b, a).id()].type, mn::dtype::f16);
  EXPECT_EQ(g[mn::variance(a, 0, 2).id()].extents, (mn::shape{1}));
}

TEST(expr_reductions, what_breaks_a_rule_is_refused) {
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {2, 3})), i(g, g.input("i", mn::dtype::i32, {2}));
  const auto sentence = [](const auto& call) { return mn::support::sentence_of(call); };
  EXPECT_EQ(sentence([&] { (void)mn::argmax(x, 2); }), "argmax<axes...>(x): x has no such axis; found f32 [2, 3]");
  EXPECT_EQ(sentence([&] { (void)mn::any(x, 1, -1); }), "any<axes...>(x): an axis is named twice; found f32 [2, 3]");
  EXPECT_EQ(sentence([&] { (void)mn::variance(i); }), "variance<axes...>(x): x must be floats; cast it; found i32 [2]");
  EXPECT_EQ(sentence([&] { (void)mn::cosine_similarity(x, x, 0, 0); }),
            "cosine_similarity<axes...>(a, b): each axis must be one of theirs, named once; found f32 [2, 3], f32 [2, "
            "3]");
  EXPECT_EQ(sentence([&] { (void)mn::manhattan_distance(i, i); }),
            "manhattan_distance<axes...>(a, b): operands must be floats; cast them; found i32 [2], i32 [2]");
}
