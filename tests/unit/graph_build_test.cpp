// SPDX-License-Identifier: MIT
// Building graphs: equal nodes are one node, and mistakes are answered with a sentence.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/runtime/optimizer.hpp>

#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;

TEST(graph_build, equal_nodes_are_one_node) {
  graph g;
  const node_id a = g.input("a", dtype::f32, {2, 3}), b = g.input("b", dtype::f32, {2, 3});
  EXPECT_EQ(g.find_leaf("a"), a);
  EXPECT_EQ(g.parameter("w", dtype::f32, {3}), g.parameter("w", dtype::f32, {3}));
  EXPECT_EQ(g.add(a, b), g.add(a, b));
  EXPECT_NE(g.add(a, b), g.add(b, a));
  EXPECT_EQ(g.reduce(reduce_kind::sum, a, 1), g.reduce(reduce_kind::sum, a, 1));
  EXPECT_NE(g.reduce(reduce_kind::sum, a, 1), g.reduce(reduce_kind::max, a, 1));
  EXPECT_EQ(g.full({2, 3}, 2), g.full_like(a, 2));
  const std::size_t size = g.size();
  static_cast<void>(g.add(a, b));
  EXPECT_EQ(g.size(), size);
}

TEST(graph_build, numbers_are_compared_by_their_bits) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  graph g;
  const node_id x = g.input("x", dtype::f32, {2});
  const std::int64_t one[] = {1};
  EXPECT_EQ(g.constant(nan), g.constant(nan));
  EXPECT_NE(g.constant(0.0), g.constant(-0.0));
  EXPECT_EQ(g.pad(x, one, one, nan), g.pad(x, one, one, nan));
  EXPECT_NE(g.pad(x, one, one, 0.0), g.pad(x, one, one, -0.0));
  scalar_builder b;
  const scalar_program added = b.finish(b.binary(scalar_op::add, b.argument(0, dtype::f32), b.constant(nan)));
  EXPECT_EQ(g.map(added, {{x}}, dtype::f32), g.map(added, {{x}}, dtype::f32));
  EXPECT_EQ((index_map{.fill = nan}), (index_map{.fill = nan}));
  EXPECT_FALSE((index_map{.fill = 0.0} == index_map{.fill = -0.0}));
  EXPECT_FALSE((initializer{.centre = 0.0} == initializer{.centre = -0.0}));
}

TEST(graph_build, contractions_that_only_differ_in_letters_are_one_node) {
  graph g;
  const node_id a = g.input("a", dtype::f32, {2, 3, 4}), b = g.input("b", dtype::f32, {2, 4, 3, 5});
  EXPECT_EQ(g.contract(a, b, "bij", "bjik", "bk"), g.contract(a, b, "xqr", "xrqm", "xm"));
  EXPECT_EQ(g[g.contract(a, b, "bij", "bjik", "kb")].extents, (shape{5, 2}));
}

TEST(graph_build, operands_precede_their_users_and_survive_growth) {
  graph g;
  node_id x = g.input("x", dtype::f32, {4});
  for (int i = 0; i < 500; ++i) x = g.add(x, g.full(g[x].extents, i));  // a shape read from the graph itself
  for (node_id id{0}; id < g.size(); ++id) {
    EXPECT_EQ(g[id].extents.elements(), g[id].kind == op::constant ? 1 : 4);
    for (node_id operand : g.operands(id)) EXPECT_LT(operand, id);
  }
}

TEST(graph_build, scalar_identities_fold_inside_programs) {
  scalar_builder b;
  const scalar_ref x = b.argument(0, dtype::f32);
  EXPECT_EQ(b.binary(scalar_op::add, x, b.constant(-0.0)), x);
  EXPECT_EQ(b.binary(scalar_op::multiply, b.constant(1), x), x);
  EXPECT_EQ(b.unary(scalar_op::negate, b.unary(scalar_op::negate, x)), x);
  EXPECT_EQ(b.node(b.binary(scalar_op::add, b.constant(2), b.constant(3))).value, 5);
}

TEST(graph_build, integer_constants_take_what_their_dtype_holds) {
  graph g;
  for (double value : {-2147483648.0, -1.0, 0.0, -0.0, 2147483647.0}) {
    EXPECT_EQ(g.get<constant_attribute>(g.constant(value, dtype::i32)).value, value);
  }
  EXPECT_EQ(g.get<constant_attribute>(g.constant(4294967295.0, dtype::u32)).value, 4294967295.0);
  scalar_builder b;  // what arithmetic makes of constants wraps
  const scalar_ref most = b.constant(2147483647, dtype::i32), one = b.constant(1, dtype::i32);
  EXPECT_EQ(b.node(b.binary(scalar_op::add, most, one)).value, -2147483648.0);
}

struct mistake {
  const char* expected;  // a part of the sentence
  std::function<void(graph&, node_id, node_id)> make;
};

const mistake mistakes[] = {
    {"[2, 3] and [4]; expand one of them", [](graph& g, node_id a, node_id v) { g.add(a, v); }},
    {"both operands must have one type",
     [](graph& g, node_id a, node_id) {
       g.add(a, g.input("i", dtype::i32, {2, 3}));
     }},
    {"constant: 0.5 was asked for as i32, which holds whole numbers from -2147483648 to 2147483647",
     [](graph& g, node_id, node_id) { g.full({2}, 0.5, dtype::i32); }},
    {"constant: nan was asked for as u32", [](graph& g, node_id, node_id) { g.constant(std::nan(""), dtype::u32); }},
    {"constant: 3000000000 was asked for as i32", [](graph& g, node_id, node_id) { g.constant(3e9, dtype::i32); }},
    {"constant: -1 was asked for as u32, which holds whole numbers from 0 to 4294967295",
     [](graph& g, node_id, node_id) { g.full_like(g.input("u", dtype::u32, {2}), -1); }},
    {"scalar constant: 2.5 was asked for as i32",
     [](graph&, node_id, node_id) { static_cast<void>(scalar_builder().constant(2.5, dtype::i32)); }},
    {"pad: inf was asked for as i32",
     [](graph& g, node_id, node_id) {
       g.pad(g.input("i", dtype::i32, {2}), std::array{std::int64_t{1}}, std::array{std::int64_t{0}}, INFINITY);
     }},
    {"there is no such axis", [](graph& g, node_id a, node_id) { g.reduce(reduce_kind::sum, a, 4); }},
    {"contract \"ij,j->i\" of [2, 3] and [4]: extents of one label must agree; j is 3 in the one and 4 in the other",
     [](graph& g, node_id a, node_id v) { g.contract(a, v, "ij", "j", "i"); }},
    {"contract \"ba,a->ab\" of [2, 3] and [4]: extents of one label must agree; a is 3 in the one and 4 in the other",
     [](graph& g, node_id a, node_id v) {
       g.contract(a, v, {.a = {1, 0}, .b = {0}, .result_rank = 2});
     }},
    {"each axis needs a label", [](graph& g, node_id a, node_id v) { g.contract(a, v, "i", "j", "ij"); }},
    {"label j (3) is summed over one operand alone",
     [](graph& g, node_id a, node_id v) { g.contract(a, v, "ij", "k", "ik"); }},
    {"label i may stand only once",
     [](graph& g, node_id a, node_id) {
       const node_id s = g.full({3, 3}, 1);
       g.contract(s, a, "ii", "ji", "j");
     }},
    {"6 elements cannot become 8",
     [](graph& g, node_id a, node_id) {
       g.reshape(a, {2, 4});
     }},
    {"each axis must be named exactly once",
     [](graph& g, node_id a, node_id) {
       g.permute(a, std::array{0, 0});
     }},
    {"2 elements from 2 by 1 do not fit", [](graph& g, node_id a, node_id) { g.slice(a, 1, 2, 2); }},
    {"trailing extents must be equal or 1",
     [](graph& g, node_id a, node_id) {
       g.expand(a, {2, 4});
     }},
    {"trailing extents must be equal or 1",
     [](graph& g, node_id a, node_id) {
       g.expand(a, {5, 2, 4});
     }},
    {"non-negative border",
     [](graph& g, node_id a, node_id) {
       g.pad(a, std::array<std::int64_t, 2>{-1, 0}, std::array<std::int64_t, 2>{0, 0});
     }},
    {"must agree in dtype and all other extents",
     [](graph& g, node_id a, node_id v) {
       g.concat(std::array{a, v}, 0);
     }},
    {"i32 indices", [](graph& g, node_id a, node_id v) { g.gather(a, v, 0); }},
    {"updates must have the shape gather would return",
     [](graph& g, node_id a, node_id) {
       g.scatter_add(g.iota(5), a, 0, {7, 3});
     }},
    {"shapes must be x [n, c, in..]",
     [](graph& g, node_id a, node_id) {
       g.convolution(a, a, {}, {2, 3});
     }},
    {"the window must fit",
     [](graph& g, node_id a, node_id) {
       g.window_reduce(a, {.spatial = 2, .window = {3, 1, 1}});
     }},
    {"reads elements 0 to 9 of 6", [](graph& g, node_id a, node_id) { g.view(a, {10}, {.strides = {1}}); }},
    {"the name is taken by a input f32 [2, 3]",
     [](graph& g, node_id, node_id) {
       g.parameter("a", dtype::f32, {2, 3});
     }},
    {"parameter \"w\": begins as constant(0) and was said to begin as normal(0, 0.5); say one",
     [](graph& g, node_id, node_id) {
       g.parameter("w", dtype::f32, {2, 3}, init::normal(0, 0.5));
       g.parameter("w", dtype::f32, {2, 3}, init::zeros);
     }},
    {"parameter \"w\" f32 [2]: cannot begin as orthogonal(1), which takes two axes or more",
     [](graph& g, node_id, node_id) { g.parameter("w", dtype::f32, {2}, init::orthogonal()); }},
    {"state \"n\" i32 [2, 3]: cannot begin as normal of variance 2 / fan_in, which takes a parameter of floats",
     [](graph& g, node_id, node_id) { g.state("n", dtype::i32, {2, 3}, init::kaiming_normal()); }},
    {"parameter \"n\": 0.5 was asked for as u32",
     [](graph& g, node_id, node_id) { g.parameter("n", dtype::u32, {2}, init::constant(0.5)); }},
    {"input \"\" f32 [2]: the name is empty", [](graph& g, node_id, node_id) { g.input("", dtype::f32, {2}); }},
    {"output \"\" of %0: the name is empty", [](graph& g, node_id a, node_id) { g.add_output("", a); }},
    {"argument 1 is i32 and operand %0 is f32; cast the operand",
     [](graph& g, node_id a, node_id) {
       scalar_builder b;
       const scalar_ref taken = b.convert(b.argument(1, dtype::i32), dtype::f32);
       g.map(b.finish(b.binary(scalar_op::add, b.argument(0, dtype::f32), taken)), std::array{a, a}, dtype::f32);
     }},
    {"input \"q\": shape [0]: axis 0 cannot be 0;",
     [](graph& g, node_id, node_id) {
       g.input("q", dtype::f32, {0, 3});
     }},
    {"parameter \"q\": shape [2, -3]: axis 1 cannot be -3;",
     [](graph& g, node_id, node_id) {
       g.parameter("q", dtype::f32, {2, -3});
     }},
    {"state \"q\": shape [1, 1, 1, 1, 1, 1, 1, 1]: cannot have another axis of 1;",
     [](graph& g, node_id, node_id) {
       g.state("q", dtype::f32, {1, 1, 1, 1, 1, 1, 1, 1, 1});
     }},
    {"bool tensors do not exist", [](graph& g, node_id, node_id) { g.input("c", dtype::boolean, {2}); }},
    {"the target must be a state", [](graph& g, node_id a, node_id) { g.assign(a, a); }},
    {"must be an f32 parameter",
     [](graph& g, node_id a, node_id) {
       g.optimizer_step({}, std::array{a, a});
     }},
    {"exists already",
     [](graph& g, node_id a, node_id) {
       g.add_output("y", a);
       g.add_output("y", a);
     }},
    {"add: an operand is no node (no_id)", [](graph& g, node_id a, node_id) { g.add(a, no_id); }},
    {"reduce: operand %77 does not exist",
     [](graph& g, node_id, node_id) { g.reduce(reduce_kind::sum, node_id{77}, 1); }},
    {"output \"y\": an operand is no node (no_id)", [](graph& g, node_id, node_id) { g.add_output("y", no_id); }},
    {"output \"y\": operand %3 is an assign, which has no value",
     [](graph& g, node_id a, node_id) {
       g.add_output("y", g.assign(g.state("s", dtype::f32, {2, 3}), a));
     }},
    {"full_like: operand %3 is an assign, which has no value",
     [](graph& g, node_id a, node_id) {
       g.full_like(g.assign(g.state("s", dtype::f32, {2, 3}), a), 1);
     }},
    {"operand %3 is an optimizer_step, which has no value",
     [](graph& g, node_id, node_id) {
       const node_id w = g.parameter("w", dtype::f32, {4});
       const node_id step = g.optimizer_step(optimizer(sgd{}).rule(), std::array{w, w});
       g.map(scalar_op::exp, {step});
     }},
    {"map add: takes 2 operands; found 12",
     [](graph& g, node_id a, node_id) {
       g.map(scalar_op::add, {a, a, a, a, a, a, a, a, a, a, a, a});
     }},
    {"map add: takes 2 operands; found 0", [](graph& g, node_id, node_id) { g.map(scalar_op::add, {}); }},
    {"map add: takes 2 operands; found 1", [](graph& g, node_id a, node_id) { g.map(scalar_op::add, {a}); }},
    {"map add: takes 2 operands; found 3",
     [](graph& g, node_id a, node_id) {
       g.map(scalar_op::add, {a, a, a});
     }},
    {"each axis needs a label", [](graph& g, node_id, node_id v) { g.contract(v, v, "", "i", "i"); }},
    {"labels must be below 16",
     [](graph& g, node_id, node_id v) { g.contract(v, v, {.a = {16}, .b = {0}, .result_rank = 0}); }},
    {"must be pairs of a parameter and its gradient; found 3",
     [](graph& g, node_id, node_id) {
       const node_id w = g.parameter("w", dtype::f32, {4});
       g.optimizer_step({}, std::array{w, w, w});
     }},
    {"it has 1 to 3 spatial axes, and stride, dilation and groups are at least 1, padding 0",
     [](graph& g, node_id a, node_id) {
       g.convolution(a, a, {.spatial = INT32_MAX}, {2, 3});
     }},
    {"stride, dilation and groups are at least 1, padding 0",
     [](graph& g, node_id a, node_id) {
       g.convolution(a, a, {.spatial = 1, .stride = {0, 1, 1}}, {2, 3});
     }},
    {"convolution of f16 [2, 3] and f32 [2, 3]: both must be floats of one dtype; cast them",
     [](graph& g, node_id a, node_id) {
       g.convolution(g.cast(a, dtype::f16), a, {}, {2, 3});
     }},
    {"the window must fit", [](graph& g, node_id a, node_id) { g.window_reduce(a, {.spatial = INT32_MAX}); }},
    {"the operand and the pooled operand must have one dtype; found f16 and f32",
     [](graph& g, node_id a, node_id) {
       g.window_scatter(std::array{g.cast(a, dtype::f16), a}, {}, {2, 3});
     }},
    {"operand %99 does not exist",
     [](graph& g, node_id a, node_id) { (void)gradients(g, g.reduce(reduce_kind::sum, a, 3), std::array{node_id{99}}); }},
    {"operand %99 does not exist",
     [](graph& g, node_id a, node_id) { (void)reached_gradients(g, node_id{99}, std::array{a}); }},
    {"operand %99 does not exist",
     [](graph& g, node_id a, node_id) { (void)gradients(g, std::array{a}, std::array{node_id{99}}, std::array{a}); }},
    {"gradients: 1 outputs need as many seeds; found 2",
     [](graph& g, node_id a, node_id) { (void)gradients(g, std::array{a}, std::array{a, a}, std::array{a}); }},
    {"gradients: the loss must be one number; found [2, 3]; reduce it or give seeds for each output",
     [](graph& g, node_id a, node_id) { (void)reached_gradients(g, a, std::array{a}); }},
    {"optimizer_step: operands 0 and 2 are one parameter, \"w\"; add its gradients",
     [](graph& g, node_id, node_id v) {
       const node_id w = g.parameter("w", dtype::f32, {4});
       g.optimizer_step(optimizer(sgd{}).rule(), std::array{w, v, w, v});
     }},
    {"optimizer_step: odd names node 7 of its program, which is no f32 value",
     [](graph& g, node_id, node_id v) {
       const node_id w = g.parameter("w", dtype::f32, {4});
       g.optimizer_step({"odd", {}, single_op_program(scalar_op::negate, std::array{dtype::f32}), {scalar_ref(7)}},
                        std::array{w, v});
     }},
    {"optimizer_step: summing has a row_sum; its program sees one element at a time",
     [](graph& g, node_id, node_id v) {
       const node_id w = g.parameter("w", dtype::f32, {4});
       g.optimizer_step({"summing", {}, single_op_program(scalar_op::row_sum, std::array{dtype::f32}), {scalar_ref(1)}},
                        std::array{w, v});
     }},
    {"state \"s\" is written by %3 already, and a step writes it once; combine the two",
     [](graph& g, node_id a, node_id) {
       const node_id s = g.state("s", dtype::f32, {2, 3});
       g.assign(s, a);
       g.assign(s, g.add(s, a));
     }},
    {"iota of 2147483649: i32 counts to 2^31 only",
     [](graph& g, node_id, node_id) { g.iota((std::int64_t{1} << 31) + 1); }},
    {"concat: needs at least one operand", [](graph& g, node_id, node_id) { g.concat({}, 0); }},
    {"the result has too many or too few labels",
     [](graph& g, node_id, node_id v) { g.contract(v, v, {.a = {0}, .b = {0}, .result_rank = 9}); }},
    {"label k of the result is in no operand", [](graph& g, node_id a, node_id) { g.contract(a, a, "ij", "ij", "k"); }},
    {"scalar logical_and: operands must be boolean; found operand types f32 f32",
     [](graph& g, node_id a, node_id) {
       g.map(scalar_op::logical_and, {a, a});
     }},
    {"reduce of 2 operands with ",
     [](graph& g, node_id a, node_id) { g.apply(op::reduce, reduce_attribute{.kind = reduce_kind::sum, .axes = 1}, std::array{a, a}, {}); }},
    {"it is not made this way, or takes another number of operands or attribute",
     [](graph& g, node_id a, node_id) { g.apply(op::assign, no_attribute{}, std::array{a, a}, {}); }},
    {"the condition must be boolean; found operand types f32 f32",
     [](graph& g, node_id a, node_id) {
       g.map(scalar_op::select, {a, a, a});
     }},
    {"the last operand must have the pooled shape",
     [](graph& g, node_id a, node_id) { g.window_scatter(std::array{a}, {.kind = reduce_kind::sum}, {2, 4}); }},
    {"expand_axes [2, 3] to [2, 4, 4] (new axes 0x4): the other extents must be the operand's",
     [](graph& g, node_id a, node_id) { g.expand_axes(a, {2, 4, 4}, 4); }},
    {"there is no rule or family of rules \"fuse_all\" to leave out, as optimize_options::disabled or MEGANEURA_DISABLE asks; "
     "families are algebra, fusion, products, epilogues, attention and splits, rules those of optimize_report::rules; did "
     "you mean \"fuse_view\"?",
     [](graph& g, node_id a, node_id) {
       g.add_output("y", a);
       (void)fusion::optimize(g, {.disabled = {"fuse_all"}});
     }},
    {"optimizer_step: there is nothing to update", [](graph& g, node_id, node_id) { g.optimizer_step({}, {}); }},
    {"scalar program: it is empty",
     [](graph& g, node_id, node_id v) {
       g.optimizer_step({}, std::array{g.parameter("w", dtype::f32, {4}), v});
     }},
    {"optimizer_step: momentless keeps 1 moments and its program makes 1 values",
     [](graph& g, node_id, node_id v) {
       const node_id w = g.parameter("w", dtype::f32, {4});
       g.optimizer_step({"momentless", {"m"}, single_op_program(scalar_op::negate, std::array{dtype::f32}), {scalar_ref(1)}},
                        std::array{w, v});
     }},
    {"optimizer_step: greedy reads argument 15 as f32; there are parameter, gradient, 0 moments and 13 numbers",
     [](graph& g, node_id, node_id v) {
       const node_id w = g.parameter("w", dtype::f32, {4});
       scalar_builder program;
       const scalar_program all = program.finish(program.argument(15, dtype::f32));
       g.optimizer_step({"greedy", {}, all, {scalar_ref(0)}}, std::array{w, v});
     }},
    {"convolution: form 9 does not exist",
     [](graph& g, node_id a, node_id) {
       g.convolution(a, a, {.form = static_cast<convolution_attribute::form_kind>(9)}, {2, 3});
     }},
    {"kind 77 does not exist",
     [](graph& g, node_id a, node_id) { g.reduce(static_cast<reduce_kind>(77), a, 1); }},
    {"window_reduce unknown kind",
     [](graph& g, node_id a, node_id) { g.window_reduce(a, {.kind = static_cast<reduce_kind>(77)}); }},
    {"distribution 7 does not exist",
     [](graph& g, node_id, node_id) { g.random("r", static_cast<distribution>(7), {2}); }},
    {"dtype 99 does not exist", [](graph& g, node_id, node_id) { g.input("c", static_cast<dtype>(99), {2}); }},
    {"dtype 99 does not exist", [](graph& g, node_id a, node_id) { g.cast(a, static_cast<dtype>(99)); }},
    {"takes 0 operands", [](graph& g, node_id a, node_id) { g.map(static_cast<scalar_op>(200), {a}); }},
    {"coordinates of [3, 4] along axis -1", [](graph& g, node_id, node_id) { g.coordinates({3, 4}, -1); }},
    {"there is no axis 9", [](graph&, node_id, node_id) { shape{2, 3}.set(9, 4); }},
    {"output \"y\" of %2: it is bool",
     [](graph& g, node_id, node_id) { g.add_output("y", g.constant(1, dtype::boolean)); }},
    {"divides i32 by the constant 0, %2",
     [](graph& g, node_id a, node_id) {
       const node_id zero = g.full({2, 3}, 0, dtype::i32);
       g.divide(g.cast(a, dtype::i32), zero);
     }},
    {"divides u32 by the constant 0;",
     [](graph& g, node_id a, node_id) {
       scalar_builder b;
       const scalar_ref x = b.convert(b.argument(0, dtype::f32), dtype::u32);
       const scalar_ref quotient = b.binary(scalar_op::divide, x, b.constant(0, dtype::u32));
       g.map(b.finish(quotient), std::array{a}, dtype::u32);
     }},
};

void map_by_hand(graph& g, node_id a, const decltype(scalar_program::nodes)& nodes) {
  g.map(scalar_program{nodes}, std::array{a}, dtype::f32);
}

const mistake programs_by_hand[] = {
    {"it is empty", [](graph& g, node_id a, node_id) { map_by_hand(g, a, {}); }},
    {"reads node 5000, which does not precede it",
     [](graph& g, node_id a, node_id) { map_by_hand(g, a, {{.op = scalar_op::exp, .operands = {scalar_ref{5000}}}}); }},
    {"reads node 1, which does not precede it",
     [](graph& g, node_id a, node_id) {
       map_by_hand(g, a, {{.op = scalar_op::argument}, {.op = scalar_op::exp, .operands = {scalar_ref{1}}}});
     }},
    {"is argument -1; arguments count from 0",
     [](graph& g, node_id a, node_id) { map_by_hand(g, a, {{.op = scalar_op::argument, .value = -1}}); }},
    {"is argument 0.5",
     [](graph& g, node_id a, node_id) { map_by_hand(g, a, {{.op = scalar_op::argument, .value = 0.5}}); }},
    {"needs an operand for each argument",
     [](graph& g, node_id a, node_id) { map_by_hand(g, a, {{.op = scalar_op::argument, .value = 2e9}}); }},
    {"is the constant 0.1, which no f32 is",
     [](graph& g, node_id a, node_id) { map_by_hand(g, a, {{.op = scalar_op::constant, .value = 0.1}}); }},
    {"is the constant 7, which no bool is",
     [](graph& g, node_id a, node_id) {
       map_by_hand(g, a, {{.op = scalar_op::constant, .type = dtype::boolean, .value = 7}});
     }},
    {"computes in f16",
     [](graph& g, node_id a, node_id) { map_by_hand(g, a, {{.op = scalar_op::argument, .type = dtype::f16}}); }},
    {"is an unknown operation",
     [](graph& g, node_id a, node_id) { map_by_hand(g, a, {{.op = static_cast<scalar_op>(99)}}); }},
    {"is exp of f32 and says i32",
     [](graph& g, node_id a, node_id) {
       map_by_hand(g, a, {{.op = scalar_op::argument}, {.op = scalar_op::exp, .type = dtype::i32}});
     }},
    {"node 60000 does not exist",
     [](graph&, node_id, node_id) { (void)scalar_builder().unary(scalar_op::exp, scalar_ref{60000}); }},
    {"node 3 does not exist", [](graph&, node_id, node_id) { (void)scalar_builder().finish(scalar_ref{3}); }},
    {"argument -1000000 was asked for",
     [](graph&, node_id, node_id) { (void)scalar_builder().argument(-1000000, dtype::f32); }},
    {"add does not take 1 operands",
     [](graph&, node_id, node_id) {
       scalar_builder b;
       (void)b.unary(scalar_op::add, b.argument(0, dtype::f32));
     }},
};

constexpr std::int64_t turn = std::int64_t{1} << 32;  // added, it is lost in 32 bits

node_id correlate(std::int64_t taps, const convolution_attribute& c, std::int64_t result) {
  graph g;
  return g.convolution(g.input("x", dtype::f32, {1, 1, 8}), g.input("w", dtype::f32, {1, 1, taps}), c, {1, 1, result});
}

node_id pool(const window_attribute& w) {
  graph g;
  return g.window_reduce(g.input("x", dtype::f32, {8}), w);
}

const mistake uncountable[] = {
    {"the stride along spatial axis 0 is 4294967297",
     [](graph&, node_id, node_id) { correlate(1, {.spatial = 1, .stride = {turn + 1}, .pad_low = {turn + 1}}, 2); }},
    {"the dilation along spatial axis 0 is 4294967296",
     [](graph&, node_id, node_id) { correlate(2, {.spatial = 1, .pad_low = {turn}, .dilation = {turn}}, 8); }},
    {"the low padding along spatial axis 0 is 4294967296",
     [](graph&, node_id, node_id) { correlate(2, {.spatial = 1, .pad_low = {turn}}, turn + 7); }},
    {"the dilation along spatial axis 0 is 4294967296",
     [](graph&, node_id, node_id) { correlate(1, {.spatial = 1, .dilation = {turn}}, 8); }},
    {"the high padding along spatial axis 0 is 4294967296",
     [](graph&, node_id, node_id) { correlate(2, {.spatial = 1, .pad_high = {turn}}, turn + 7); }},
    {"the padded extent along spatial axis 0 is 3221225480",
     [](graph&, node_id, node_id) {
       correlate(2, {.spatial = 1, .pad_low = {3 * turn / 8}, .pad_high = {3 * turn / 8}}, 3 * turn / 4 + 7);
     }},
    {"the dilated window along spatial axis 0 is 4294967297",
     [](graph&, node_id, node_id) { correlate(5, {.spatial = 1, .pad_low = {turn / 4}, .dilation = {turn / 4}}, 8); }},
    {"the window along spatial axis 0 is 4294967298",
     [](graph&, node_id, node_id) {
       pool({.kind = reduce_kind::sum, .spatial = 1, .window = {turn + 2}, .pad_low = {turn}});
     }},
    {"the stride along spatial axis 0 is 4294967297",
     [](graph&, node_id, node_id) { pool({.kind = reduce_kind::sum, .spatial = 1, .stride = {turn + 1}}); }},
    {"the padded extent along spatial axis 0 is 2147483648",
     [](graph&, node_id, node_id) { pool({.kind = reduce_kind::sum, .spatial = 1, .pad_high = {turn / 2 - 8}}); }},
};

void expect_refused(const mistake& tried) {
  graph g;
  const node_id a = g.input("a", dtype::f32, {2, 3}), v = g.input("v", dtype::f32, {4});
  try {
    tried.make(g, a, v);
    ADD_FAILURE() << "accepted: " << tried.expected;
  } catch (const error& refused) {
    EXPECT_EQ(refused.category(), error_category::invalid_argument);
    EXPECT_NE(std::string(refused.what()).find(tried.expected), std::string::npos) << refused.what();
  }
}

TEST(graph_build, one_of_those_who_ask_for_a_leaf_says_how_it_begins) {
  graph g;
  const auto begin = [&] { return g.get<leaf_attribute>(g.find_leaf("w")).begin; };
  const node_id w = g.parameter("w", dtype::f32, {2, 3});
  EXPECT_EQ(begin(), std::nullopt);
  EXPECT_EQ(g.parameter("w", dtype::f32, {2, 3}, init::ones), w);
  EXPECT_EQ(begin(), init::ones);
  EXPECT_EQ(g.parameter("w", dtype::f32, {2, 3}), w);
  EXPECT_EQ(begin(), init::ones);
  EXPECT_EQ(g.add_node(op::parameter, dtype::f32, {2, 3}, leaf_attribute{"w", init::ones}, {}), w);
  g.add_output("y", g.add(w, w));
  const graph kept = pruned(g);
  EXPECT_EQ(kept.get<leaf_attribute>(kept.find_leaf("w")).begin, init::ones);
}

TEST(graph_build, mistakes_are_answered_with_a_sentence) {
  for (const mistake& tried : mistakes) expect_refused(tried);
}

TEST(graph_build, what_has_no_second_gradient_says_so) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {1, 4});
  const window_attribute pairs{.kind = reduce_kind::max, .spatial = 1, .window = {2, 1, 1}, .stride = {2, 1, 1}};
  const node_id y = g.window_reduce(x, pairs),
                slope = gradients(g, g.reduce(reduce_kind::sum, g.multiply(y, y), 3), std::array{x})[0];
  std::string text;
  EXPECT_EQ(support::thrown_by([&] { (void)gradients(g, g.reduce(reduce_kind::sum, slope, 3), std::array{x}); }, &text),
            error_category::unsupported);
  EXPECT_NE(text.find("the gradient of max pooling cannot be differentiated again; use a sum window or stop_gradient"),
            std::string::npos)
      << text;
}

TEST(graph_build, parts_that_make_no_primitive_are_refused) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 3}), at = g.input("at", dtype::i32, {5});
  const std::size_t before = g.size();
  EXPECT_THROW(g.apply(op::gather, axis_attribute{0}, {x}), error);                     // an operand is missing
  EXPECT_THROW(g.apply(op::gather, reduce_attribute{}, {x, at}), error);                // the attribute of another one
  EXPECT_THROW(g.apply(op::gather, axis_attribute{2}, {x, at}), error);                 // what its function refuses
  EXPECT_THROW(g.apply(op::concat, axis_attribute{0}, std::vector<node_id>{}), error);  // none at all
  EXPECT_THROW(g.apply(op::region, region_attribute{}, {x}), error);                    // no primitive
  EXPECT_EQ(g.size(), before);
}

}  // namespace
