// SPDX-License-Identifier: MIT
// Operations along rows: of types and of values of run time, at the ends of their ranges, and what they refuse.
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

using numbers = std::vector<double>;
using function = mn::node_value (*)(mn::node_value);

struct functions {
  static constexpr auto forward(mn::value auto x) {
    auto sums = mn::cumsum<1>(x) + mn::cumsum(x, mn::c<0>, mn::c<true>) + mn::cumprod<-1>(x);
    auto [values, places] = mn::topk<3, 1>(x);
    auto sorted = mn::sort<1>(x) + mn::sort(x, mn::c<0>, mn::c<true>) + mn::sparsemax<1>(x) + values;
    auto order = mn::cast<mn::dtype::f32>(mn::argsort<1>(x) + mn::cumargmax<1>(x) + mn::cumargmin<1>(x) + places);
    auto middle = mn::median<1>(x) + mn::quantile<1>(x, mn::c<mn::quantile_share{0.3}>) + mn::kthvalue<2>(x);
    return sums + mn::cummax<1>(x) + mn::cummin<0>(x) + sorted + order + mn::unsqueeze<1>(middle);
  }
};
using model = mn::model<functions, mn::input<"x", mn::dtype::f32, mn::dims<2, 3>>>;

struct computed {
  numbers values, gradient;
};
// The gradient of the results times 1, 2, 3, ..
computed of(const numbers& row, function build) {
  mn::graph g;
  const mn::shape extents{static_cast<std::int64_t>(row.size())};
  const mn::node_value x(g, g.input("x", mn::dtype::f32, extents));
  const mn::node_value y = build(x);
  mn::oracle::tensors<double> leaves;
  leaves["x"] = {extents, row, mn::dtype::f32};
  const mn::node_value weight(g, g.cast(g.iota(g[y.id()].extents[0]), mn::dtype::f32));
  const mn::node_id wrt[] = {x.id()};
  const mn::node_id found = mn::gradients(g, mn::sum(y * (weight + 1)).id(), wrt)[0];
  mn::oracle::interpreter<double> run(g, leaves);
  return {run.value(y.id()).values, run.value(found).values};
}

void expect_same(const numbers& found, const numbers& expected, const char* of) {
  ASSERT_EQ(found.size(), expected.size()) << of;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
        << of << ", element " << i << " is " << found[i] << "; expected " << expected[i];
  }
}

}  // namespace

TEST(expr_scans, every_function_is_one_operation_both_ways) {
  mn::graph g;
  const mn::node_id typed = mn::lower_into<model>(g, {})[0];
  const std::string before = mn::to_text(g);
  EXPECT_EQ(functions::forward(mn::node_value(g, g.find_leaf("x"))).id(), typed);
  EXPECT_EQ(mn::to_text(g), before);
}

TEST(expr_scans, ties_zeros_and_nan_are_as_pytorch_has_them) {
  constexpr double inf = INFINITY;
  struct {
    const char* name;
    function build;
    numbers x, value, gradient;
  } cases[] = {
      {"cumsum", [](mn::node_value x) { return mn::cumsum(x, 0); }, {1, inf, 2}, {1, inf, inf}, {6, 5, 3}},
      {"cumsum", [](mn::node_value x) { return mn::cumsum(x, 0, true); }, {1, 2, 4}, {7, 6, 4}, {1, 3, 6}},
      {"cumprod", [](mn::node_value x) { return mn::cumprod(x, 0); }, {2, 0, 3, 5}, {2, 0, 0, 0}, {1, 142, 0, 0}},
      {"cumprod", [](mn::node_value x) { return mn::cumprod(x, 0); }, {0, 4, 0, 5}, {0, 0, 0, 0}, {9, 0, 0, 0}},
      {"cumprod", [](mn::node_value x) { return mn::cumprod(x, 0, true); }, {2, 0, 3}, {0, 0, 3}, {0, 12, 3}},
      {"cummax", [](mn::node_value x) { return mn::cummax(x, 0); }, {1, 3, 2, 3, 0}, {1, 3, 3, 3, 3}, {1, 5, 0, 9, 0}},
      {"cummin", [](mn::node_value x) { return mn::cummin(x, 0); }, {1, NAN, 0}, {1, NAN, NAN}, {1, 5, 0}},
      {"sort", [](mn::node_value x) { return mn::sort(x, 0); }, {3, NAN, 1, 3}, {1, 3, 3, NAN}, {2, 4, 1, 3}},
      {"sort", [](mn::node_value x) { return mn::sort(x, 0, true); }, {3, NAN, 1, 3}, {NAN, 3, 3, 1}, {2, 1, 4, 3}},
      {"median", [](mn::node_value x) { return unsqueeze(mn::median(x, 0), 0); }, {4, 1, 3, 2}, {2}, {0, 0, 0, 1}},
      {"median", [](mn::node_value x) { return unsqueeze(mn::median(x, 0), 0); }, {4, NAN, 3}, {NAN}, {0, 0, 0}},
      {"quantile",
       [](mn::node_value x) { return unsqueeze(mn::quantile(x, mn::quantile_share{1}, 0), 0); },
       {4, 1},
       {4},
       {1, 0}},
      {"sparsemax", [](mn::node_value x) { return mn::sparsemax(x, 0); }, {1, 5, 1}, {0, 1, 0}, {0, 0, 0}},
      {"sparsemax", [](mn::node_value x) { return mn::sparsemax(x, 0); }, {2, 2, 0}, {0.5, 0.5, 0}, {-0.5, 0.5, 0}},
  };
  for (const auto& each : cases) {
    const computed found = of(each.x, each.build);
    expect_same(found.values, each.value, each.name);
    expect_same(found.gradient, each.gradient, each.name);
  }
}

TEST(expr_scans, what_breaks_a_rule_is_refused) {
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {2, 3}));
  const auto sentence = [](const auto& call) { return mn::support::sentence_of(call); };
  EXPECT_EQ(sentence([&] { (void)mn::cumsum(x, 2); }), "cumsum<axis>(x): x has no such axis; found f32 [2, 3]");
  EXPECT_EQ(sentence([&] { (void)mn::cummax(x, -3); }), "cummax<axis>(x): x has no such axis; found f32 [2, 3]");
  EXPECT_EQ(sentence([&] { (void)mn::topk(x, 4, -1); }),
            "topk<count, axis>(x): the axis, of an extent that is known, must hold that many; found f32 [2, 3]");
  EXPECT_EQ(sentence([&] { (void)mn::quantile(x, mn::quantile_share{1.5}, 0); }),
            "quantile<axis>(x, share): the share must lie between 0 and 1; found f32 [2, 3]");
  EXPECT_EQ(sentence([&] { (void)mn::kthvalue(x, 0, 0); }),
            "kthvalue<k, axis>(x): the axis, of an extent that is known, must hold that many; found f32 [2, 3]");
  EXPECT_EQ(sentence([&] {
              (void)g.apply(mn::op::cumulative, mn::cumulative_attribute{mn::reduce_kind::max, 0, false}, {x.id()});
            }),
            "cumulative kind=1 axis=0 reverse=false of f32 [2, 3]: the kind is sum, product, arg_max or arg_min; an "
            "extremum is the element at its place");
}
