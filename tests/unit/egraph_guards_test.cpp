// SPDX-License-Identifier: MIT
// What rules must not do: borders and backwards reads in products, lost roundings, undefined arithmetic, too many axes.
#include <meganeura/core/error.hpp>
#include <meganeura/egraph/saturate.hpp>
#include <meganeura/fusion/saturated_graph.hpp>

#include <support/egraph_sample_graphs.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::samples;

bool is_plain(const index_map& access) {
  return access.bounded == 0 && access.offset >= 0 &&
         std::all_of(access.strides, access.strides + max_rank, [](std::int64_t stride) { return stride >= 0; });
}

/// Every way found to compute anything agrees, and no product in any of them has a border or counts backwards.
fusion::optimize_report expect_plain_products(const graph& g, std::size_t least_products) {
  fusion::optimize_report report;
  const fusion::saturated_graph all = fusion::saturate(g, {}, report);
  std::size_t products = 0;
  for (egraph::enode_id id{0}; id < all.graph.node_count(); ++id) {
    const attribute& value = all.graph.attribute_of(id);
    std::vector<index_map> accesses;
    if (const auto* product = std::get_if<matmul_attribute>(&value)) {
      ++products;
      accesses = product->finish.accesses;
      accesses.insert(accesses.end(), {product->a, product->b, product->output});
    } else if (const auto* convolve = std::get_if<convolve_attribute>(&value)) {
      ++products;
      accesses = convolve->finish.accesses;
    }
    for (const index_map& access : accesses) EXPECT_TRUE(is_plain(access)) << to_string(value);
  }
  EXPECT_GE(products, least_products);
  const auto leaves = random_leaves(g);
  expect_all_forms_agree(g, leaves);
  expect_plan_agrees(g, leaves, {.explain = true}, &report);
  return report;
}

TEST(egraph_guards, a_flipped_operand_is_not_read_backwards_by_a_product) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {6, 5}), w = g.input("w", dtype::f32, {5, 7});
  g.add_output("k", g.contract(g.flip(x, 1), w, "mk", "kn", "mn"));
  g.add_output("m", g.contract(g.flip(x, 0), w, "mk", "kn", "mn"));
  g.add_output("n", g.contract(x, g.flip(exp(g, w), 1), "mk", "kn", "mn"));
  const fusion::optimize_report report = expect_plain_products(g, 3);
  EXPECT_NE(report.explain.find("the operand would be read backwards"), std::string::npos);
}

TEST(egraph_guards, a_flipped_result_is_not_stored_backwards_by_a_product) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {6, 5}), w = g.input("w", dtype::f32, {5, 7});
  g.add_output("y", exp(g, g.flip(g.contract(x, w, "mk", "kn", "mn"), 1)));
  const fusion::optimize_report report = expect_plain_products(g, 1);
  EXPECT_NE(report.explain.find("the result would be stored backwards"), std::string::npos);
}

TEST(egraph_guards, a_flipped_or_padded_addend_stays_out_of_an_epilogue) {
  const std::int64_t low[] = {1, 2}, high[] = {0, 1};
  for (bool flipped : {true, false}) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {6, 5}), w = g.input("w", dtype::f32, {5, 7});
    const node_id y = g.contract(x, w, "mk", "kn", "mn");
    const node_id b = g.input("b", dtype::f32, flipped ? shape{6, 7} : shape{5, 4});
    const node_id other = flipped ? g.flip(b, 0) : g.pad(b, low, high);
    g.add_output("y", g.add(y, other));
    const fusion::optimize_report report = expect_plain_products(g, 1);
    const char* guard = flipped ? "an operand would be read backwards" : "an operand has a border";
    EXPECT_NE(report.explain.find(guard), std::string::npos) << report.explain;
  }
}

TEST(egraph_guards, padded_operands_and_results_of_products_are_kernels_of_their_own) {
  graph g;
  const std::int64_t low[] = {1, 0}, high[] = {0, 2};
  const node_id x = g.input("x", dtype::f32, {5, 3}), w = g.input("w", dtype::f32, {5, 7});
  const node_id y = g.contract(g.pad(x, low, high), w, "mk", "kn", "mn");
  g.add_output("y", exp(g, g.pad(y, low, high, 0.5)));
  const fusion::optimize_report report = expect_plain_products(g, 1);
  EXPECT_NE(report.explain.find("border"), std::string::npos);
}

TEST(egraph_guards, a_convolution_takes_no_flipped_or_padded_addend) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {1, 3, 4, 4}), w = g.parameter("w", dtype::f32, {2, 3, 1, 1});
  const std::int64_t low[] = {0, 0, 1, 1}, high[] = {0, 0, 1, 1};
  const node_id y = g.convolution(x, w, {}, {1, 2, 4, 4});
  const node_id bordered = g.pad(g.input("a", dtype::f32, {1, 2, 2, 2}), low, high);
  g.add_output("y", g.add(y, bordered));
  const node_id z = g.convolution(exp(g, x), w, {}, {1, 2, 4, 4});
  g.add_output("z", g.add(z, g.flip(g.input("b", dtype::f32, {1, 2, 4, 4}), 3)));
  expect_plain_products(g, 2);
}

// ---- roundings ------------------------------------------------------------------------------------------------------

int values_of(const graph& plan, dtype type) {
  int total = 0;
  for (node_id id{0}; id < plan.size(); ++id) total += plan[id].type == type && !plan.has_several_results(id);
  return total;
}

TEST(egraph_guards, a_product_does_not_compute_what_it_also_reads) {
  graph g;
  const node_id a = g.input("a", dtype::f32, {2, 5, 4}), b = g.input("b", dtype::f32, {2, 4, 3});
  const node_id product = g.contract(a, b, "bmk", "bkn", "bmn");
  const node_id turned = g.permute(product, std::array{2, 1, 0});
  const node_id copied = g.reshape(g.permute(product, std::array{1, 0, 2}), {3, 5, 2});  // two views that are not one
  scalar_builder builder;
  const scalar_ref less =
      builder.binary(scalar_op::less, builder.argument(0, dtype::f32), builder.argument(1, dtype::f32));
  const node_id compared[] = {turned, copied};
  const node_id is_less =
      g.map(builder.finish(builder.select(less, builder.constant(1), builder.constant(0))), compared, dtype::f32);
  g.add_output("less", is_less);
  fusion::optimize_report report;
  const fusion::saturated_graph all = fusion::saturate(g, {}, report);
  for (const egraph::enode_id form : all.graph[all.graph.find(all.classes[is_less])].nodes)
    EXPECT_NE(all.graph.node(form).kind, op::matmul) << to_string(all.graph.attribute_of(form));
}

TEST(egraph_guards, a_cast_to_f16_and_back_still_rounds) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {4, 6});
  g.add_output("y", exp(g, g.cast(g.cast(exp(g, x), dtype::f16), dtype::f32)));
  g.add_output("z", g.cast(g.cast(x, dtype::f16), dtype::f32));
  EXPECT_EQ(values_of(fusion::optimize(g), dtype::f16), 2);
}

TEST(egraph_guards, positions_as_a_narrow_type_are_read_by_others) {
  graph g;
  const node_id narrow = g.cast(g.iota(3), dtype::i8);
  g.add_output("padded", g.pad(narrow, std::array<std::int64_t, 1>{1}, std::array<std::int64_t, 1>{2}));
  g.add_output("turned", g.flip(narrow, 0));
  expect_all_forms_agree(g, {});
  expect_plan_agrees(g, {});
}

TEST(egraph_guards, a_cast_of_integers_to_f16_and_back_still_rounds) {
  for (dtype from : {dtype::i32, dtype::u32}) {
    graph g;
    const node_id x = g.input("x", from, {4}), y = g.cast(g.cast(x, dtype::f16), dtype::f32);
    g.add_output("y", y);
    g.add_output("z", g.add(y, g.full_like(y, 0.25)));
    oracle::tensors<double> leaves;
    leaves.insert_or_assign("x", oracle::tensor<double>({4}, {2049, 100001, 16777217, 65521}, from));
    expect_plan_agrees(g, leaves);
  }
}

TEST(egraph_guards, a_convolution_cast_to_f16_and_back_still_rounds) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {1, 1, 4, 4}), w = g.input("w", dtype::f32, {1, 1, 3, 3});
  g.add_output("y", g.cast(g.cast(g.convolution(x, w, {.spatial = 2}, {1, 1, 2, 2}), dtype::f16), dtype::f32));
  EXPECT_EQ(values_of(fusion::optimize(g), dtype::f16), 1);
}

TEST(egraph_guards, arithmetic_on_f16_is_fused_unless_exactness_is_asked_for) {
  graph g;
  const node_id y = exp(g, exp(g, g.input("x", dtype::f16, {4, 6})));
  g.add_output("y", y);
  EXPECT_EQ(kernel_count(fusion::optimize(g)), 1);
  fusion::optimize_options exact;
  exact.tolerance = egraph::exactness::exact;
  EXPECT_EQ(kernel_count(fusion::optimize(g, exact)), 2);
}

TEST(egraph_guards, a_rule_does_not_look_through_a_value_of_another_dtype) {
  const auto twice_negated = [](dtype between) {
    graph g;
    const dtype types[] = {dtype::f32};
    const node_id x[] = {g.input("x", dtype::f32, {4})};
    const node_id inner[] = {g.map(single_op_program(scalar_op::negate, types), x, between)};
    g.add_output("y", g.map(single_op_program(scalar_op::negate, types), inner, dtype::f32));
    fusion::optimize_options exact;
    exact.tolerance = egraph::exactness::exact;
    return kernel_count(fusion::optimize(g, exact));
  };
  EXPECT_EQ(twice_negated(dtype::f32), 0);  // the output is the input
  EXPECT_EQ(twice_negated(dtype::f16), 2);
}

TEST(egraph_guards, a_mask_is_not_read_from_a_narrower_activation) {
  const auto masks = [](dtype stored) {
    graph g;
    scalar_builder b;
    const scalar_ref a = b.argument(0, dtype::f32), zero = b.constant(0), slope = b.argument(1, dtype::f32);
    const scalar_program mask = b.finish(b.select(b.binary(scalar_op::less, zero, a), slope, zero));
    const scalar_program rectify = b.finish(b.select(b.binary(scalar_op::less, zero, a), a, zero));
    const node_id x[] = {g.input("x", dtype::f32, {4})};
    const node_id both[] = {x[0], g.input("dy", dtype::f32, {4})};
    g.add_output("y", g.map(rectify, x, stored));
    g.add_output("dx", g.map(mask, both, dtype::f32));
    fusion::optimize_report report;
    (void)fusion::optimize(g, {}, &report);
    return applied(report, "relu_mask");
  };
  EXPECT_EQ(masks(dtype::f32), 1u);
  EXPECT_EQ(masks(dtype::f16), 0u);
}

TEST(egraph_guards, a_mask_that_passes_a_nan_is_read_only_from_an_activation_that_keeps_it) {
  const auto masks = [](bool mask_passes, bool activation_keeps) {
    const auto choose = [](scalar_builder& b, bool passes, scalar_ref a, scalar_ref chosen) {
      const scalar_ref zero = b.constant(0);
      return passes ? b.select(b.binary(scalar_op::less_equal, a, zero), zero, chosen)
                    : b.select(b.binary(scalar_op::less, zero, a), chosen, zero);
    };
    graph g;
    scalar_builder m, r;
    const scalar_ref a = m.argument(0, dtype::f32), x = r.argument(0, dtype::f32);
    const node_id both[] = {g.input("x", dtype::f32, {4}), g.input("dy", dtype::f32, {4})};
    g.add_output("y", g.map(r.finish(choose(r, activation_keeps, x, x)), std::span(both).first(1), dtype::f32));
    g.add_output("dx", g.map(m.finish(choose(m, mask_passes, a, m.argument(1, dtype::f32))), both, dtype::f32));
    fusion::optimize_report report;
    (void)fusion::optimize(g, {}, &report);
    return applied(report, "relu_mask");
  };
  EXPECT_EQ(masks(false, false), 1u);
  EXPECT_EQ(masks(false, true), 1u);
  EXPECT_EQ(masks(true, true), 1u);
  EXPECT_EQ(masks(true, false), 0u);
}

TEST(egraph_guards, a_division_becomes_a_multiplication_only_by_a_normal_reciprocal) {
  const auto rewritten = [](double divisor) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {4});
    g.add_output("y", g.divide(x, g.full_like(x, divisor)));
    fusion::optimize_report report;
    (void)fusion::optimize(g, {}, &report);
    return applied(report, "divide_by_constant");
  };
  EXPECT_EQ(rewritten(3), 1u);
  EXPECT_EQ(rewritten(0), 0u);
  EXPECT_EQ(rewritten(1e-40), 0u);  // 1 / 1e-40 is no f32
  EXPECT_EQ(rewritten(3e38), 0u);   // a denormal, which devices flush to 0
  EXPECT_EQ(rewritten(std::numeric_limits<double>::infinity()), 0u);
}

// ---- scalars --------------------------------------------------------------------------------------------------------

TEST(egraph_guards, folded_integers_wrap_as_on_a_device) {
  EXPECT_EQ(evaluate(scalar_op::add, 2147483647, 1, 0, dtype::i32), -2147483648.0);
  EXPECT_EQ(evaluate(scalar_op::subtract, 0, 1, 0, dtype::u32), 4294967295.0);
  EXPECT_EQ(evaluate(scalar_op::multiply, 4294967295.0, 4294967295.0, 0, dtype::u32), 1);
  EXPECT_EQ(evaluate(scalar_op::multiply, -65537, 65537, 0, dtype::i32), -131073);
  EXPECT_EQ(evaluate(scalar_op::divide, -7, 2, 0, dtype::i32), -3);
  EXPECT_EQ(evaluate(scalar_op::negate, 1, 0, 0, dtype::u32), 4294967295.0);
  EXPECT_EQ(evaluate(scalar_op::divide, 7, 0, 0, dtype::u32), 0);
  EXPECT_EQ(evaluate(scalar_op::divide, -2147483648.0, -1, 0, dtype::i32), -2147483648.0);
  scalar_builder b;
  const scalar_ref quotient = b.binary(scalar_op::divide, b.constant(7, dtype::i32), b.constant(0, dtype::i32));
  EXPECT_EQ(b.node(quotient), b.node(b.constant(0, dtype::i32)));
}

TEST(egraph_guards, constants_are_rounded_as_they_would_be_stored) {
  EXPECT_EQ(rounded_to(0.1, dtype::f16), 0.0999755859375);
  EXPECT_EQ(rounded_to(2049, dtype::f16), 2048);  // ties to even
  EXPECT_EQ(rounded_to(2051, dtype::f16), 2052);
  EXPECT_EQ(rounded_to(65519, dtype::f16), 65504);
  EXPECT_EQ(rounded_to(-65520, dtype::f16), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(rounded_to(0x1.8p-24, dtype::f16), 0x1p-23);  // denormals: steps of 2^-24
  EXPECT_EQ(rounded_to(0x1p-25, dtype::f16), 0);
  EXPECT_TRUE(std::isnan(rounded_to(std::nan(""), dtype::f16)));
  EXPECT_EQ(rounded_to(0.1, dtype::f32), static_cast<double>(0.1f));
  EXPECT_EQ(rounded_to(-2.5, dtype::i32), -2);
  EXPECT_EQ(rounded_to(4294967296.0 + 7, dtype::i32), 7);
  EXPECT_EQ(evaluate(scalar_op::abs, -2147483648.0, 0, 0, dtype::i32), -2147483648.0);
  scalar_builder b;  // (1 + 2^-24) - 1 in f32
  const scalar_ref sum = b.binary(scalar_op::add, b.constant(1), b.constant(0x1p-24));
  EXPECT_EQ(b.node(b.binary(scalar_op::subtract, sum, b.constant(1))).value, 0);
}

TEST(egraph_guards, a_constant_cast_to_f16_and_back_is_rounded) {
  for (auto tolerance : {egraph::exactness::exact, egraph::exactness::reassociates}) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {3});
    const node_id narrow = g.cast(g.full_like(x, 0.1), dtype::f16);
    g.add_output("constant", g.cast(narrow, dtype::f32));
    g.add_output("sum", g.add(x, g.cast(narrow, dtype::f32)));
    const std::int64_t one[] = {1};
    g.add_output("border", g.cast(g.pad(g.cast(x, dtype::f16), one, one, 0.1), dtype::f32));
    const node_id wide = g.cast(g.full_like(x, 1e6), dtype::f16);  // infinity
    g.add_output("inverse", g.map(scalar_op::reciprocal, {g.cast(wide, dtype::f32)}));
    fusion::optimize_options options;
    options.tolerance = tolerance;
    expect_plan_agrees(g, random_leaves(g), options);
  }
}

TEST(egraph_guards, folding_keeps_the_sign_of_zeros) {
  scalar_builder b;
  const scalar_ref x = b.argument(0, dtype::f32), i = b.argument(1, dtype::i32);
  const scalar_ref zero = b.constant(0), minus = b.constant(-0.0), no_id = b.constant(0, dtype::i32);
  EXPECT_NE(b.binary(scalar_op::add, x, zero), x);  // 0 where x is -0
  EXPECT_NE(b.binary(scalar_op::add, zero, x), x);
  EXPECT_NE(b.binary(scalar_op::subtract, x, minus), x);
  EXPECT_EQ(b.binary(scalar_op::add, x, minus), x);
  EXPECT_EQ(b.binary(scalar_op::subtract, x, zero), x);
  EXPECT_EQ(b.binary(scalar_op::add, no_id, i), i);
}

TEST(egraph_guards, constants_are_shared_by_their_bits) {
  scalar_builder b;
  EXPECT_NE(b.constant(0.0), b.constant(-0.0));
  EXPECT_TRUE(std::signbit(b.node(b.constant(-0.0)).value));
  EXPECT_EQ(b.constant(std::nan("")), b.constant(std::nan("")));
}

TEST(egraph_guards, long_programs_print_shared_terms_once) {
  scalar_builder b;
  scalar_ref x = b.argument(0, dtype::f32);
  for (int i = 0; i < 3; ++i) x = b.binary(scalar_op::add, x, x);
  EXPECT_EQ(to_string(b.finish(x)), "add(add(add(a0, a0), add(a0, a0)), add(add(a0, a0), add(a0, a0)))");
  x = b.binary(scalar_op::add, x, x);
  EXPECT_EQ(to_string(b.finish(x)), "t0 = add(a0, a0); t1 = add(t0, t0); t2 = add(t1, t1); add(t2, t2)");
  for (int i = 0; i < 200; ++i) x = b.binary(scalar_op::add, x, x);
  EXPECT_LT(to_string(b.finish(x)).size(), 204u * 32);
}

// ---- sizes ----------------------------------------------------------------------------------------------------------

TEST(egraph_guards, a_map_of_many_operands_has_a_kernel) {
  graph g;
  scalar_builder b;
  std::vector<node_id> operands;
  scalar_ref sum = b.constant(0);
  for (int i = 0; i < 24; ++i) {
    operands.push_back(g.input("x" + std::to_string(i), dtype::f32, {3, 4}));
    sum = b.binary(scalar_op::add, sum, b.argument(i, dtype::f32));
  }
  g.add_output("y", exp(g, g.map(b.finish(sum), operands, dtype::f32)));
  expect_plan_agrees(g, random_leaves(g));
}

TEST(egraph_guards, repeated_and_constant_operands_are_no_buffers) {
  graph g;
  scalar_builder b;
  std::vector<node_id> operands;
  const node_id x = g.input("x", dtype::f32, {3, 4}), y = g.input("y", dtype::f32, {3, 4});
  scalar_ref sum = b.constant(0);
  for (int i = 0; i < 8; ++i) {
    operands.push_back(i % 4 == 3 ? g.full({3, 4}, i) : i % 2 == 0 ? x : y);
    sum = b.binary(scalar_op::add, b.unary(scalar_op::sin, sum), b.argument(i, dtype::f32));
  }
  g.add_output("sum", g.map(b.finish(sum), operands, dtype::f32));
  fusion::optimize_options options;
  options.disabled = {"fusion", "products", "algebra"};  // or what was split could grow together again
  options.region.buffers = 3;
  const graph plan = fusion::optimize(g, options);
  int kernels = 0;
  for (node_id id{0}; id < plan.size(); ++id) kernels += plan[id].kind == op::region;
  EXPECT_EQ(kernels, 1);
  expect_plan_agrees(g, random_leaves(g), options);
}

TEST(egraph_guards, a_product_of_nine_labels_has_a_kernel_when_some_of_them_merge) {
  graph g;
  const node_id a = g.input("a", dtype::f32, {2, 2, 2, 2, 2, 2, 2, 2});
  const node_id b = g.input("b", dtype::f32, {2, 2, 2, 2, 2, 2, 2, 3});
  g.add_output("y", g.contract(a, b, "abcdefgk", "abcdefkh", "abcdefgh"));
  expect_plan_agrees(g, random_leaves(g));
}

// Twelve loops are the most that three tensors of eight axes can have: a label stands in two of them.
TEST(egraph_guards, products_of_eight_to_twelve_labels_that_do_not_merge_have_kernels) {
  struct form {
    const char *a, *b, *result;
  };
  const form forms[] = {{"akblcmdn", "nemflgkh", "haebgfcd"}, {"akblcqdr", "ekflgqhr", "aebfcgdh"},
                        {"abkcldmq", "ebfkglqm", "efgdcba"},  // one label of a batch
                        {"dkewzlf", "akblwzc", "fcwzbdae"},   // two
                        {"akblc", "ldkef", "daebfc"},         {"akblc", "ldkefg", "gdaebfc"}};
  std::set<std::size_t> counts;
  for (const form& labels : forms) {
    const std::string a = labels.a, b = labels.b, all = a + b;
    graph g;
    const auto tensor = [&](const char* name, const std::string& axes) {
      shape extents;
      for (const char axis : axes) extents.push_back(axis % 4 == 0 ? 3 : 2);
      return g.parameter(name, dtype::f32, extents);
    };
    const node_id y = g.contract(tensor("a", a), tensor("b", b), a, b, labels.result);
    g.add_output("y", exp(g, g.multiply(y, g.full_like(y, 0.1))));
    add_gradients(g, samples::total(g, y));
    counts.insert(std::set<char>(all.begin(), all.end()).size());
    const auto leaves = random_leaves(g);
    expect_plan_agrees(g, leaves);
    expect_all_forms_agree(g, leaves);
  }
  EXPECT_EQ(counts, (std::set<std::size_t>{8, 9, 10, 11, 12}));
}

TEST(egraph_guards, tensors_without_elements_are_refused_with_a_sentence) {
  graph g;
  EXPECT_THROW((void)g.full({0, 3}, 1), error);
}

TEST(egraph_guards, seven_axes_permuted_and_reduced_in_rows) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 1, 3, 2, 2, 1, 2, 2});
  const int order[] = {7, 0, 2, 5, 4, 3, 6, 1};
  const node_id y = softmax(g, g.permute(softmax(g, g.permute(x, order)), order));
  g.add_output("y", g.reduce(reduce_kind::sum, g.reshape(y, {8, 12}), 1));
  const auto leaves = random_leaves(g);
  expect_all_forms_agree(g, leaves);
  expect_plan_agrees(g, leaves);
}

}  // namespace
