// SPDX-License-Identifier: MIT
// The functions of operations.hpp: each is one operation, of types and of values of run time, and what they refuse.
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <meganeura/expr/lower.hpp>
#include <meganeura/operations.hpp>

#include <set>
#include <string>

namespace mn = meganeura;

namespace {

struct functions {
  static constexpr auto forward(mn::value auto x) {
    auto a = mn::exp2(x) + mn::expm1(x) + mn::log2(x) + mn::log10(x) + mn::log1p(x) + mn::cbrt(x);
    auto b = mn::tan(x) + mn::asin(x) + mn::acos(x) + mn::atan(x) + mn::atan2(x, mn::constant<2.0f>) + mn::hypot(x, a);
    auto c = mn::sinh(x) + mn::cosh(x) + mn::asinh(x) + mn::acosh(x) + mn::atanh(x) + mn::trunc(x);
    auto d = mn::erfc(x) + mn::tgamma(x) + mn::lgamma(x) + mn::digamma(x) + mn::trigamma(x) + mn::copysign(x, b);
    auto i = mn::reinterpret<mn::dtype::i32>(d);
    auto j = mn::bitwise_or(mn::bitwise_and(i, mn::constant<255>), mn::bitwise_xor(i, mn::bitwise_not(i)));
    return c + mn::reinterpret<mn::dtype::f32>(mn::shift_left(mn::shift_right(j, mn::constant<3>), i));
  }
};
using model = mn::model<functions, mn::input<"x", mn::dtype::f32, mn::dims<2, 3>>>;

}  // namespace

TEST(expr_math, every_function_is_one_operation_both_ways) {
  mn::graph g;
  const mn::node_id typed = mn::lower_into<model>(g, {})[0];
  const std::string before = mn::to_text(g);
  EXPECT_EQ(functions::forward(mn::node_value(g, g.find_leaf("x"))).id(), typed);
  EXPECT_EQ(mn::to_text(g), before);
  std::set<std::string> found;
  for (mn::node_id id{0}; id < g.size(); ++id) {
    if (g[id].kind != mn::op::map) continue;
    const mn::scalar_program& program = g.get<mn::map_attribute>(id).program;
    found.insert(mn::to_string(program.nodes.back().op));
  }
  const std::set<std::string> expected{
      "acos",        "acosh",       "add",        "asin",        "asinh",    "atan",     "atan2",   "atanh",
      "bitwise_and", "cbrt",        "bitwise_or", "bitwise_xor", "copysign", "cosh",     "digamma", "erfc",
      "exp2",        "expm1",       "hypot",      "lgamma",      "log10",    "log1p",    "log2",    "reinterpret",
      "shift_left",  "shift_right", "sinh",       "tan",         "tgamma",   "trigamma", "trunc"};
  EXPECT_EQ(found, expected);
}

TEST(expr_math, operands_of_another_kind_are_refused) {
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {2})), i(g, g.input("i", mn::dtype::i32, {2})),
      h(g, g.input("h", mn::dtype::f16, {2}));
  const auto sentence = [](const auto& call) { return mn::support::sentence_of(call); };
  EXPECT_EQ(sentence([&] { (void)mn::log1p(i); }), "log1p(x): x must be floats; cast it; found i32 [2]");
  EXPECT_EQ(sentence([&] { (void)mn::atan2(i, i); }),
            "atan2(y, x): operands must be floats; cast them; found i32 [2], i32 [2]");
  EXPECT_EQ(sentence([&] { (void)mn::bitwise_and(x, x); }),
            "bitwise_and(a, b): operands must be integers; cast them; found f32 [2], f32 [2]");
  EXPECT_EQ(sentence([&] { (void)mn::shift_left(i, 1.5); }),
            "shift_left(a, b): the dtype does not hold that number (an integer whole ones within its range, f16 none "
            "beyond 65504); cast it to f32; found i32 [2], f32 []");
  EXPECT_EQ(
      sentence([&] { (void)mn::reinterpret<mn::dtype::i32>(h); }),
      "reinterpret<type>(x): x and the result are two of f32, i32 and u32, or of i8 and u8; cast x; found f16 [2]");
}
