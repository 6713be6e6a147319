// SPDX-License-Identifier: MIT
// Fused loop nests on the device against the oracle: pointwise, rows, columns, every scalar operation.
#include <meganeura/kernels/region.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/precision.hpp>
#include <oracle/tolerance.hpp>
#include <support/device_fixture.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace meganeura;
using support::expect_matches_oracle;

namespace {

/// Dense row-major over the axes of `space` whose bit is set, stride 0 along the others.
index_map dense(const shape& space, int source, std::uint32_t axes = ~0u) {
  index_map result;
  result.source = source;
  std::int64_t stride = 1;
  for (int axis = space.rank() - 1; axis >= 0; --axis) {
    if ((axes >> axis & 1) == 0 || space[axis] == 1) continue;
    result.strides[axis] = stride;
    stride *= space[axis];
  }
  return result;
}

shape kept_axes(const shape& space, std::uint32_t axes) {
  shape result;
  for (int axis = 0; axis < space.rank(); ++axis) {
    if ((axes >> axis & 1) != 0) result.push_back(space[axis]);
  }
  return result;
}

struct operand_case {
  shape extents;
  dtype type = dtype::f32;
  double low = -2, high = 2;
};

void expect_region(const region_attribute& region, dtype type, const shape& result,
                   std::initializer_list<operand_case> operands, std::int64_t reduction_length = 1,
                   double tolerance = 0) {
  graph g;
  std::vector<node_id> ids;
  oracle::tensors<double> leaves;
  for (const operand_case& each : operands) {
    const std::string name = "x" + std::to_string(ids.size());
    leaves[name] = oracle::random_tensor<double>(each.extents, 7 + ids.size(), each.low, each.high, each.type);
    ids.push_back(g.input(name, each.type, each.extents));
  }
  g.add_output("y", g.add_node(op::region, type, result, region, ids));
  expect_matches_oracle(g, leaves, reduction_length, {}, tolerance);
}

scalar_program sum_program(std::initializer_list<dtype> types) {
  scalar_builder b;
  int index = 0;
  scalar_ref total = b.argument(0, *types.begin());
  for (dtype type : types) {
    if (index > 0) total = b.binary(scalar_op::add, total, b.argument(index, type));
    ++index;
  }
  return b.finish(total);
}

scalar_program softmax_program() {
  scalar_builder b;
  const scalar_ref x = b.argument(0, dtype::f32);
  const scalar_ref e = b.unary(scalar_op::exp, b.binary(scalar_op::subtract, x, b.unary(scalar_op::row_max, x)));
  return b.finish(b.binary(scalar_op::divide, e, b.unary(scalar_op::row_sum, e)));
}

// Layer norm with weight and bias: two dependent levels, broadcast operands along the rows.
scalar_program layer_norm_program(double length) {
  scalar_builder b;
  const scalar_ref x = b.argument(0, dtype::f32), inverse = b.constant(1 / length);
  const scalar_ref mean = b.binary(scalar_op::multiply, b.unary(scalar_op::row_sum, x), inverse);
  const scalar_ref centred = b.binary(scalar_op::subtract, x, mean);
  const scalar_ref squares = b.unary(scalar_op::row_sum, b.binary(scalar_op::multiply, centred, centred));
  const scalar_ref variance = b.binary(scalar_op::multiply, squares, inverse);
  const scalar_ref scale = b.unary(scalar_op::rsqrt, b.binary(scalar_op::add, variance, b.constant(1e-5)));
  const scalar_ref normal = b.binary(scalar_op::multiply, centred, scale);
  return b.finish(b.binary(scalar_op::add, b.binary(scalar_op::multiply, normal, b.argument(1, dtype::f32)),
                           b.argument(2, dtype::f32)));
}

scalar_program reduction_program(scalar_op kind, dtype type = dtype::f32) {
  return single_op_program(kind, std::span(&type, 1));
}

/// A region with several results, each an output "y0", "y1", ...; operands are "x0", "x1", ...
void expect_results_match(const region_attribute& region, const tensor_spec& first, std::vector<node_id> ids, graph& g,
                          const oracle::tensors<double>& leaves, std::int64_t reduction_length = 1) {
  const node_id made = g.add_node(op::region, first.type, first.extents, region, ids);
  std::size_t number = 0;
  for (const tensor_spec& each : g.results(made)) {
    const node_id named =
        g.add_node(op::result, each.type, each.extents, result_attribute{number}, std::span(&made, 1));
    g.add_output("y" + std::to_string(number++), named);
  }
  ASSERT_EQ(number, region.further.size() + 1);
  expect_matches_oracle(g, leaves, reduction_length);
}

TEST(kernels_region, several_results_are_stored_by_one_kernel) {
  for (const shape& space : {shape{}, shape{7}, shape{1021}, shape{4099}, shape{4096}, shape{6, 8}, shape{5, 3, 4}}) {
    scalar_builder b;
    const scalar_ref x = b.argument(0, dtype::f32), y = b.argument(1, dtype::f32);
    const scalar_ref gate = b.unary(scalar_op::tanh, x), product = b.binary(scalar_op::multiply, gate, y);
    scalar_ref results[] = {product, gate, b.convert(b.binary(scalar_op::less, x, y), dtype::i32)};
    region_attribute region{
        .space = space, .program = {}, .accesses = {dense(space, 0), dense(space, 1)}, .output = dense(space, 0)};
    region.program = b.finish(results);
    std::swap(results[0], *std::ranges::max_element(results));  // the first is the program's last node
    shape turned;
    index_map across;  // stored transposed
    for (int axis = space.rank(); axis-- > 0;) turned.push_back(space[axis]);
    for (int axis = 0; axis < space.rank(); ++axis)
      across.strides[axis] = space[axis] == 1 ? 0 : turned.stride(space.rank() - 1 - axis);
    const auto type = [&](scalar_ref each) { return region.program.nodes[each].type; };
    region.further = {{results[1], false, across, dtype::f16, turned},
                      {results[2], false, dense(space, 0), type(results[2]), space}};
    graph g;
    const std::vector<node_id> ids = {g.input("x0", dtype::f32, space), g.input("x1", dtype::f32, space)};
    expect_results_match(
        region, {type(results[0]), space}, ids, g,
        {{"x0", oracle::random_tensor<double>(space, 1)}, {"x1", oracle::random_tensor<double>(space, 2)}});
  }
}

TEST(kernels_region, rows_store_their_elements_and_what_they_are_reduced_to) {
  for (const auto& [rows, length] : {std::pair<std::int64_t, std::int64_t>{1, 5}, {7, 3}, {64, 128}, {3, 1030}}) {
    for (const bool across : {false, true}) {
      for (const bool elements : {false, true}) {
        const shape space{rows, length};
        scalar_builder b;
        const scalar_ref x = b.argument(0, dtype::f32), most = b.unary(scalar_op::row_max, x);
        const scalar_ref e = b.unary(scalar_op::exp, b.binary(scalar_op::subtract, x, most));
        const scalar_ref sum = b.unary(scalar_op::row_sum, e);
        scalar_ref results[] = {elements ? b.binary(scalar_op::divide, e, sum) : b.unary(scalar_op::log, sum), most,
                                sum};
        index_map lies = dense(space, 0);
        if (across) lies.strides[0] = rows == 1 ? 0 : 1, lies.strides[1] = rows;
        region_attribute region{.space = space,
                                .row_axes = 1,
                                .per_row = !elements,
                                .program = b.finish(results),
                                .accesses = {lies},
                                .output = elements ? lies : dense(space, 0, 1)};
        region.further = {{results[1], true, dense(space, 0, 1), dtype::f32, {rows}},
                          {results[2], true, dense(space, 0, 1), dtype::f32, {rows}}};
        graph g;
        const shape stored = across ? shape{length, rows} : space;
        const std::vector<node_id> ids = {g.input("x0", dtype::f32, stored)};
        expect_results_match(region, {dtype::f32, elements ? stored : shape{rows}}, ids, g,
                             {{"x0", oracle::random_tensor<double>(stored, 1)}}, length);
      }
    }
  }
}

TEST(kernels_region, pointwise_broadcasts_over_any_rank_and_size) {
  for (const shape& space : {shape{}, shape{1}, shape{7}, shape{4}, shape{1021}, shape{4099}, shape{4096}, shape{3, 5},
                             shape{6, 8}, shape{2, 3, 1, 12}, shape{3, 1, 5, 2, 4}}) {
    for (std::uint32_t axes : {~0u, 1u, 2u, 5u, 0u}) {
      region_attribute region{.space = space,
                              .program = sum_program({dtype::f32, dtype::f32}),
                              .accesses = {dense(space, 0), dense(space, 1, axes)},
                              .output = dense(space, 0)};
      expect_region(region, dtype::f32, space, {{space}, {kept_axes(space, axes)}});
    }
  }
}

TEST(kernels_region, pointwise_transposes_flips_and_permutes_results) {
  const shape space{12, 20}, transposed{20, 12};
  index_map column = dense(space, 0), flipped = dense(space, 1);
  column.strides[0] = 1, column.strides[1] = 12;
  flipped.offset = 239, flipped.strides[0] = -20, flipped.strides[1] = -1;
  region_attribute region{.space = space,
                          .program = sum_program({dtype::f32, dtype::f32}),
                          .accesses = {column, flipped},
                          .output = dense(space, 0)};
  expect_region(region, dtype::f32, space, {{transposed}, {space}});
  region.output = column;
  expect_region(region, dtype::f32, transposed, {{transposed}, {space}});
}

TEST(kernels_region, bounded_accesses_fill_outside_their_box) {
  for (std::int64_t low : {0, 1, 4}) {
    const shape space{9, 24}, inner{7, 16};
    index_map padded;
    padded.source = 0;
    padded.offset = -16 - low;
    padded.strides[0] = 16, padded.strides[1] = 1;
    padded.bounded = 3;
    padded.low[0] = 1, padded.high[0] = 8, padded.low[1] = low, padded.high[1] = low + 16;
    padded.fill = -3.5;
    index_map index;
    index.source = index_map::index_source;
    index.offset = 5;
    index.strides[0] = 100, index.strides[1] = -2;
    scalar_builder b;
    const scalar_ref i = b.convert(b.argument(1, dtype::i32), dtype::f32);
    region_attribute region{.space = space,
                            .program = b.finish(b.binary(scalar_op::add, b.argument(0, dtype::f32), i)),
                            .accesses = {padded, index},
                            .output = dense(space, 0)};
    expect_region(region, dtype::f32, space, {{inner}});
  }
}

TEST(kernels_region, half_integers_and_mixed_types_convert) {
  if (!support::shared_profile().f16) GTEST_SKIP() << "needs f16";
  for (const shape& space : {shape{64, 12}, shape{5, 7}}) {
    region_attribute region{.space = space,
                            .program = sum_program({dtype::f16, dtype::f32}),
                            .accesses = {dense(space, 0), dense(space, 1)},
                            .output = dense(space, 0)};
    expect_region(region, dtype::f16, space, {{space, dtype::f16}, {space}});
    expect_region(region, dtype::f32, space, {{space, dtype::f16}, {space}});
    region.program = sum_program({dtype::i32, dtype::i32});
    expect_region(region, dtype::i32, space, {{space, dtype::i32, -1000, 1000}, {space, dtype::i32, -1000, 1000}});
    region.program = sum_program({dtype::u32, dtype::u32});
    expect_region(region, dtype::u32, space, {{space, dtype::u32, 0, 3e9}, {space, dtype::u32, 0, 1e9}});
  }
}

TEST(kernels_region, every_reduction_along_contiguous_rows) {
  for (scalar_op kind : {scalar_op::row_sum, scalar_op::row_max, scalar_op::row_min, scalar_op::row_product}) {
    for (const shape& space :
         {shape{1, 1}, shape{3, 2}, shape{5, 31}, shape{40, 64}, shape{3, 1021}, shape{2, 4096}, shape{1, 70001}}) {
      region_attribute region{.space = space,
                              .row_axes = 1,
                              .per_row = true,
                              .program = reduction_program(kind),
                              .accesses = {dense(space, 0)},
                              .output = dense(space, 0, 1)};
      const bool product = kind == scalar_op::row_product;
      const double low = product ? 0.999 : -2, high = product ? 1.001 : 2;
      expect_region(region, dtype::f32, {space[0]}, {{space, dtype::f32, low, high}}, space[1],
                    product ? oracle::product_tolerance(space[1]) : 0);
      if (space[1] < 70 && kind != scalar_op::row_product) {
        region.program = reduction_program(kind, dtype::i32);
        expect_region(region, dtype::i32, {space[0]}, {{space, dtype::i32, -1000, 1000}});
      }
    }
  }
}

TEST(kernels_region, columns_are_reduced_across_rows) {
  for (const shape& space :
       {shape{5, 3}, shape{12, 70}, shape{64, 33}, shape{768, 129}, shape{8, 4001}, shape{1000, 2}}) {
    index_map across;  // row axis is the slow one of the operand
    across.strides[0] = 1, across.strides[1] = space[0];
    if (space[0] == 1) across.strides[0] = 0;
    region_attribute region{.space = space,
                            .row_axes = 1,
                            .per_row = true,
                            .program = reduction_program(scalar_op::row_sum),
                            .accesses = {across},
                            .output = dense(space, 0, 1)};
    expect_region(region, dtype::f32, {space[0]}, {{{space[1], space[0]}}}, space[1]);
    region.per_row = false;
    region.program = softmax_program();
    region.output = across;
    expect_region(region, dtype::f32, {space[1], space[0]}, {{{space[1], space[0]}}}, space[1]);
  }
}

TEST(kernels_region, dependent_reductions_of_every_row_length) {
  for (const shape& space : {shape{1, 1}, shape{7, 3}, shape{33, 10}, shape{20, 64}, shape{9, 128}, shape{3, 197},
                             shape{4, 1000}, shape{2, 1023}, shape{2, 5000}, shape{3, 2, 24}}) {
    const int last = space.rank() - 1;
    region_attribute region{.space = space,
                            .row_axes = 1,
                            .program = softmax_program(),
                            .accesses = {dense(space, 0)},
                            .output = dense(space, 0)};
    expect_region(region, dtype::f32, space, {{space, dtype::f32, -10, 10}}, space[last]);
    region.program = layer_norm_program(static_cast<double>(space[last]));
    region.accesses = {dense(space, 0), dense(space, 1, 1u << last), dense(space, 2, 1u << last)};
    if (space[last] > 1)
      expect_region(region, dtype::f32, space, {{space}, {{space[last]}}, {{space[last]}}}, space[last]);
  }
}

TEST(kernels_region, several_reductions_of_one_pass_and_a_value_per_row) {
  scalar_builder b;
  const scalar_ref x = b.argument(0, dtype::f32), y = b.argument(1, dtype::f32);
  const scalar_ref top = b.unary(scalar_op::row_max, x),
                   low = b.unary(scalar_op::row_min, b.binary(scalar_op::multiply, x, y));
  const scalar_ref sum = b.unary(scalar_op::row_sum, b.unary(scalar_op::exp, b.binary(scalar_op::subtract, x, top)));
  const scalar_ref log_sum = b.binary(scalar_op::add, b.unary(scalar_op::log, sum), top);
  const scalar_program program =
      b.finish(b.binary(scalar_op::subtract, log_sum, b.binary(scalar_op::multiply, low, b.argument(2, dtype::f32))));
  for (const shape& space : {shape{6, 24}, shape{5, 301}, shape{2, 3, 2048}}) {
    const int last = space.rank() - 1;
    const std::uint32_t rows = (1u << last) - 1;
    region_attribute region{.space = space,
                            .row_axes = 1,
                            .per_row = true,
                            .program = program,
                            .accesses = {dense(space, 0), dense(space, 1, 1u << last), dense(space, 2, rows)},
                            .output = dense(space, 0, rows)};
    expect_region(region, dtype::f32, kept_axes(space, rows), {{space}, {{space[last]}}, {kept_axes(space, rows)}},
                  space[last]);
  }
}

TEST(kernels_region, rows_of_two_separate_axes) {
  // Batch-norm statistics: reduce axes 0 and 2 of [n, c, s].
  for (std::int64_t s : {5, 16, 300}) {
    const std::int64_t n = 3, c = 6;
    const shape space{c, n, s};
    index_map x;
    x.strides[0] = s, x.strides[1] = c * s, x.strides[2] = 1;
    region_attribute region{.space = space,
                            .row_axes = 2,
                            .per_row = true,
                            .program = reduction_program(scalar_op::row_sum),
                            .accesses = {x},
                            .output = dense(space, 0, 1)};
    expect_region(region, dtype::f32, {c}, {{{n, c, s}}}, n * s);
  }
}

struct unary_case {
  scalar_op kind;
  double low, high;
};

TEST(kernels_region, unary_functions_are_accurate_element_by_element) {
  const unary_case cases[] = {
      {scalar_op::negate, -9, 9},       {scalar_op::abs, -9, 9},         {scalar_op::sign, -1, 1},
      {scalar_op::reciprocal, 0.01, 5}, {scalar_op::sqrt, 0, 50},        {scalar_op::rsqrt, 0.001, 50},
      {scalar_op::exp, -20, 20},        {scalar_op::log, 1e-6, 2},       {scalar_op::log, 0.5, 1e6},
      {scalar_op::sin, -1e4, 1e4},      {scalar_op::cos, -1e4, 1e4},     {scalar_op::tanh, -1e-3, 1e-3},
      {scalar_op::tanh, -12, 12},       {scalar_op::erf, -1e-30, 1e-30}, {scalar_op::erf, -1.2, 1.2},
      {scalar_op::tan, -9, 9},          {scalar_op::asin, -1, 1},        {scalar_op::acos, -1, 1},
      {scalar_op::atan, -9, 9},         {scalar_op::sinh, -9, 9},        {scalar_op::sinh, -89, 89},
      {scalar_op::cosh, -9, 9},         {scalar_op::asinh, -2, 2},       {scalar_op::asinh, -1e20, 1e20},
      {scalar_op::acosh, 1, 9},         {scalar_op::acosh, 1, 1.001},    {scalar_op::atanh, -1, 1},
      {scalar_op::atanh, -1e-4, 1e-4},  {scalar_op::cbrt, -9, 9},        {scalar_op::trunc, -9, 9},
      {scalar_op::exp2, -9, 9},         {scalar_op::expm1, -1e-3, 1e-3}, {scalar_op::expm1, -12, 12},
      {scalar_op::log2, 1e-6, 9},       {scalar_op::log10, 0.1, 1e6},    {scalar_op::log1p, -0.9, 1},
      {scalar_op::log1p, -1e-3, 1e-3},  {scalar_op::erfc, -4, 9},        {scalar_op::tgamma, -9, 30},
      {scalar_op::lgamma, -20, 20},     {scalar_op::lgamma, 0.3, 3},     {scalar_op::digamma, -9, 30},
      {scalar_op::trigamma, -9, 30},    {scalar_op::erf, -6, 6},         {scalar_op::floor, -9, 9},
      {scalar_op::ceil, -9, 9},         {scalar_op::round, -9, 9}};
  for (const unary_case& each : cases) {
    SCOPED_TRACE(info(each.kind).name);
    const shape space{4096};
    const dtype types[] = {dtype::f32};
    region_attribute region{.space = space,
                            .program = single_op_program(each.kind, types),
                            .accesses = {dense(space, 0)},
                            .output = dense(space, 0)};
    expect_region(region, dtype::f32, space, {{space, dtype::f32, each.low, each.high}});
  }
}

TEST(kernels_region, binary_comparison_and_select_operations) {
  const shape space{1000};
  const dtype types[] = {dtype::f32, dtype::f32};
  for (scalar_op kind :
       {scalar_op::add, scalar_op::subtract, scalar_op::multiply, scalar_op::divide, scalar_op::power,
        scalar_op::minimum, scalar_op::maximum, scalar_op::atan2, scalar_op::hypot, scalar_op::copysign}) {
    SCOPED_TRACE(info(kind).name);
    region_attribute region{.space = space,
                            .program = single_op_program(kind, types),
                            .accesses = {dense(space, 0), dense(space, 1)},
                            .output = dense(space, 0)};
    expect_region(region, dtype::f32, space, {{space, dtype::f32, 0.1, 4}, {space, dtype::f32, 0.2, 3}});
  }
  for (scalar_op kind : {scalar_op::less, scalar_op::less_equal, scalar_op::equal}) {
    scalar_builder b;
    const scalar_ref x = b.unary(scalar_op::round, b.argument(0, dtype::f32)),
                     y = b.unary(scalar_op::round, b.argument(1, dtype::f32));
    const scalar_ref test = b.binary(kind, x, y), other = b.binary(scalar_op::less, b.constant(0), x);
    const scalar_ref both = b.binary(scalar_op::logical_and, b.unary(scalar_op::logical_not, test),
                                     b.binary(scalar_op::logical_or, other, test));
    const scalar_ref number = b.convert(test, dtype::f32);
    region_attribute region{.space = space,
                            .program = b.finish(b.select(both, b.argument(0, dtype::f32), number)),
                            .accesses = {dense(space, 0), dense(space, 1)},
                            .output = dense(space, 0)};
    expect_region(region, dtype::f32, space, {{space}, {space}});
  }
  const dtype integers[] = {dtype::i32, dtype::i32};
  for (scalar_op kind : {scalar_op::divide, scalar_op::minimum, scalar_op::maximum, scalar_op::multiply,
                         scalar_op::subtract, scalar_op::bitwise_and, scalar_op::bitwise_or, scalar_op::bitwise_xor,
                         scalar_op::shift_left, scalar_op::shift_right}) {
    region_attribute region{.space = space,
                            .program = single_op_program(kind, integers),
                            .accesses = {dense(space, 0), dense(space, 1)},
                            .output = dense(space, 0)};
    expect_region(region, dtype::i32, space, {{space, dtype::i32, -1000, 1000}, {space, dtype::i32, 1, 9}});
  }
}

oracle::tensor<double> evaluate_on_device(const scalar_program& program, std::vector<double> a, std::vector<double> b) {
  const shape space{static_cast<std::int64_t>(a.size())};
  graph g;
  const node_id operands[] = {g.input("a", dtype::f32, space), g.input("b", dtype::f32, space)};
  region_attribute region{
      .space = space, .program = program, .accesses = {dense(space, 0), dense(space, 1)}, .output = dense(space, 0)};
  g.add_output("y", g.add_node(op::region, dtype::f32, space, region, operands));
  return support::device_graph(g, support::shared_profile())
      .run({{"a", {space, std::move(a)}}, {"b", {space, std::move(b)}}})
      .at("y");
}

// Log and power of every size, half of the bases near 1.
TEST(kernels_region, logarithms_and_powers_are_accurate_near_one_as_well) {
  std::mt19937 generator(19);
  const auto dice = [&] { return static_cast<std::uint32_t>(generator()); };
  std::vector<double> a, b;
  for (int i = 0; i < 1 << 16; ++i) {
    const std::uint32_t near_one = 0x3f800000u - 0x8000u + dice() % 0x10000u, any = 0x00800000u + dice() % 0x7f000000u;
    const auto base = static_cast<double>(std::bit_cast<float>(i % 2 == 0 ? near_one : any));
    const double result = static_cast<double>(dice() % 250) - 125;  // 2 to which power
    a.push_back(base);
    b.push_back(base == 1 ? result : static_cast<double>(static_cast<float>(result / std::log2(base))));
  }
  a.insert(a.end(), {0x1.fffffep-1, 0x1.000002p0, 0x1p-126, 0x1.fffffep127});
  b.insert(b.end(), {0x1.8p24, -0x1.8p24, 0.75, -0.75});
  const dtype types[] = {dtype::f32, dtype::f32};
  const scalar_op kinds[] = {scalar_op::log, scalar_op::power};
  for (const scalar_op kind : kinds) {
    SCOPED_TRACE(info(kind).name);
    const bool is_log = kind == scalar_op::log;
    const auto found = evaluate_on_device(single_op_program(kind, std::span(types).first(is_log ? 1 : 2)), a, b);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double exact = is_log ? std::log(a[i]) : std::pow(a[i], b[i]);
      ASSERT_NEAR(found[i], exact, oracle::permitted_error(kind, dtype::f32, a[i], b[i], exact)) << a[i] << ' ' << b[i];
    }
  }
}

TEST(kernels_region, logarithms_and_powers_beyond_every_range) {
  const dtype types[] = {dtype::f32, dtype::f32};
  const double inf = INFINITY, least = 0x1p-149, lowest = std::log(least);
  const double permitted = oracle::permitted_error(scalar_op::log, dtype::f32, least, 0, lowest);
  const auto logs = evaluate_on_device(single_op_program(scalar_op::log, std::span(types).first(1)),
                                       {0, -0.0, inf, -inf, -1, NAN, 1, least}, std::vector<double>(8));
  EXPECT_TRUE(logs[0] == -inf && logs[1] == -inf && logs[2] == inf && logs[6] == 0);
  for (std::size_t i : {3u, 4u, 5u}) EXPECT_TRUE(std::isnan(logs[i])) << i;
  EXPECT_TRUE(logs[7] == -inf || std::fabs(logs[7] - lowest) <= permitted) << logs[7];  // may be read as 0
  const std::vector<double> a = {2, 2, 0.5, 0.5, inf, inf, 0x1.fffffep-1, 0x1.000002p0, 3, 0.1, 1e30, 0, 0, inf},
                            b = {inf, -inf, inf, -inf, 1.5, -1.5, 1e30, 1e30, 1e38, 1e38, -7.5, inf, -inf, inf};
  const auto powers = evaluate_on_device(single_op_program(scalar_op::power, types), a, b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto exact = static_cast<float>(std::pow(a[i], b[i]));
    EXPECT_EQ(powers[i], static_cast<double>(exact)) << a[i] << ' ' << b[i];
  }
  for (const int exponent : {65, 66, -67}) {
    scalar_builder w;
    const auto found =
        evaluate_on_device(w.finish(w.binary(scalar_op::power, w.argument(0, dtype::f32), w.constant(exponent))),
                           {-1.25, 1.25, -inf, NAN}, std::vector<double>(4));
    for (std::size_t i = 0; i < 2; ++i) {
      const double exact = std::pow(i == 0 ? -1.25 : 1.25, exponent);
      EXPECT_NEAR(found[i], exact, oracle::permitted_error(scalar_op::power, dtype::f32, 1.25, exponent, exact));
    }
    EXPECT_EQ(found[2], std::pow(-inf, exponent));
    EXPECT_TRUE(std::isnan(found[3]));
  }
}

TEST(kernels_region, whole_powers_of_negative_numbers) {
  const dtype types[] = {dtype::f32, dtype::f32};
  const double inf = INFINITY;
  const std::vector<double> a = {-2, -2, -2, -1.5, -1, -1, -1, -0.5, -0.5, -2, -inf, -inf, -inf, -3, -1.25},
                            b = {3, -3, 0, 4, 7, inf, -inf, inf, -inf, inf, 3, -3, 4, 1e30, -101};
  const auto powers = evaluate_on_device(single_op_program(scalar_op::power, types), a, b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double exact = std::pow(a[i], b[i]);
    if (std::isinf(exact) || std::fabs(exact) > 3e38 || exact == 0) {
      EXPECT_EQ(powers[i], exact > 1 ? inf : exact < -1 ? -inf : 0) << a[i] << ' ' << b[i];
    } else {
      EXPECT_NEAR(powers[i], exact, oracle::permitted_error(scalar_op::power, dtype::f32, a[i], b[i], exact))
          << a[i] << ' ' << b[i];
    }
  }
  const auto open = evaluate_on_device(single_op_program(scalar_op::power, types), {-2, -2, -1e-3, -1, -1e30},
                                       {0.5, -1.5, 2.25, NAN, 0.125});
  for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(std::isnan(open[i])) << i;
}

TEST(kernels_region, power_and_extrema_at_the_edges) {
  const dtype types[] = {dtype::f32, dtype::f32};
  const auto power = evaluate_on_device(single_op_program(scalar_op::power, types), {0, 0, 0, -2, 2}, {0, 2, -1, 3, 0});
  EXPECT_EQ(power[0], 1);
  EXPECT_EQ(power[1], 0);
  EXPECT_TRUE(std::isinf(power[2]));
  EXPECT_EQ(power[3], -8);
  EXPECT_EQ(power[4], 1);
  const auto special = evaluate_on_device(single_op_program(scalar_op::power, types), {NAN, 0, 2, NAN, 1, INFINITY},
                                          {1.5, NAN, NAN, 0, NAN, 0.5});
  for (std::size_t i : {0u, 1u, 2u}) EXPECT_TRUE(std::isnan(special[i])) << i;
  EXPECT_EQ(special[3], 1);
  EXPECT_EQ(special[4], 1);
  EXPECT_TRUE(std::isinf(special[5]));
  for (double constant : {1.5, 0.7}) {
    scalar_builder w;
    const auto powers = evaluate_on_device(
        w.finish(w.binary(scalar_op::power, w.argument(0, dtype::f32), w.constant(constant))), {NAN, 1, 0}, {0, 0, 0});
    EXPECT_TRUE(std::isnan(powers[0])) << constant;
    EXPECT_EQ(powers[1], 1);
    EXPECT_EQ(powers[2], 0);
  }
  scalar_builder b;
  const auto cubes = evaluate_on_device(b.finish(b.binary(scalar_op::power, b.argument(0, dtype::f32), b.constant(-3))),
                                        {-2, 2, 1, -1}, {0, 0, 0, 0});
  EXPECT_EQ(cubes[0], -0.125);
  EXPECT_EQ(cubes[1], 0.125);
}

constexpr double nan_value = NAN, infinity = INFINITY;
const std::vector<double> edges = {nan_value, -infinity, -2, -0.0, 0, 0.5, infinity, nan_value};

TEST(kernels_region, nan_infinity_and_minus_zero_pass_through_every_pointwise_operation) {
  std::vector<double> a, b;
  for (double x : edges) {
    for (double y : edges) a.push_back(x), b.push_back(y);
  }
  const shape space{static_cast<std::int64_t>(a.size())};
  const auto expect = [&](const scalar_program& program) {
    SCOPED_TRACE(to_string(program));
    graph g;
    const node_id operands[] = {g.input("a", dtype::f32, space), g.input("b", dtype::f32, space)};
    const region_attribute region{
        .space = space, .program = program, .accesses = {dense(space, 0), dense(space, 1)}, .output = dense(space, 0)};
    g.add_output("y", g.add_node(op::region, dtype::f32, space, region, operands));
    expect_matches_oracle(g, {{"a", {space, a}}, {"b", {space, b}}});
  };
  const dtype types[] = {dtype::f32, dtype::f32};
  for (scalar_op kind :
       {scalar_op::minimum, scalar_op::maximum, scalar_op::add, scalar_op::multiply, scalar_op::negate, scalar_op::abs,
        scalar_op::sign, scalar_op::exp, scalar_op::tanh, scalar_op::sqrt, scalar_op::floor}) {
    expect(single_op_program(kind, std::span(types).first(static_cast<std::size_t>(info(kind).arity))));
  }
  for (double bound : {0.0, 0.25, -infinity, infinity, nan_value}) {
    for (scalar_op kind : {scalar_op::minimum, scalar_op::maximum}) {
      for (bool first : {false, true}) {
        scalar_builder w;
        const scalar_ref x = w.argument(0, dtype::f32), limit = w.constant(bound);
        expect(w.finish(w.binary(kind, first ? limit : x, first ? x : limit)));
      }
    }
  }
  for (scalar_op kind : {scalar_op::less, scalar_op::less_equal, scalar_op::equal}) {
    scalar_builder w;
    const scalar_ref x = w.argument(0, dtype::f32), y = w.argument(1, dtype::f32);
    expect(w.finish(w.select(w.binary(kind, x, y), w.constant(3), w.constant(4))));
  }
}

// Random rows, four of five with one of four special values in one of four places; the fifth is one value all along.
oracle::tensor<double> special_rows(std::int64_t length) {
  constexpr double specials[] = {nan_value, -nan_value, -infinity, infinity};
  oracle::tensor<double> x = oracle::random_tensor<double>({20, length}, 3, -2, 2);
  for (std::int64_t row = 0; row < 20; ++row) {
    const std::int64_t places[] = {0, length - 1, length / 2, length / 3};
    if (row % 5 < 4) x[row * length + places[row % 5]] = specials[row / 5];
    for (std::int64_t i = 0; row % 5 == 4 && i < length; ++i) x[row * length + i] = specials[row / 5];
  }
  return x;
}

TEST(kernels_region, a_nan_anywhere_in_a_row_is_its_extremum_and_infinities_are_numbers) {
  for (scalar_op kind : {scalar_op::row_max, scalar_op::row_min}) {
    for (std::int64_t length : {1, 3, 31, 64, 1021, 4096}) {
      const shape space{20, length};
      for (bool columns : {false, true}) {
        index_map access = dense(space, 0);
        if (columns) access.strides[0] = 1, access.strides[1] = space[0];  // the operand lies transposed
        const region_attribute region{.space = space,
                                      .row_axes = 1,
                                      .per_row = true,
                                      .program = reduction_program(kind),
                                      .accesses = {access},
                                      .output = dense(space, 0, 1)};
        graph g;
        const node_id x = g.input("x", dtype::f32, columns ? shape{space[1], space[0]} : space);
        g.add_output("y", g.add_node(op::region, dtype::f32, {space[0]}, region, std::span(&x, 1)));
        SCOPED_TRACE(fmt::format("{} {} {}", info(kind).name, length, columns));
        oracle::tensor<double> values = special_rows(length);
        if (columns) {
          const oracle::tensor<double> rows = values;
          values.extents = {space[1], space[0]};
          for (std::int64_t i = 0; i < space.elements(); ++i) values[i % space[1] * space[0] + i / space[1]] = rows[i];
        }
        expect_matches_oracle(g, {{"x", values}});
      }
    }
  }
}

TEST(kernels_region, rows_on_a_device_that_adds_across_a_subgroup_but_cannot_shuffle) {
  for (const bool software : {false, true}) {
    device_profile on = support::shared_profile();
    on.prefers_texel_buffers = software;
    on.subgroup_shuffle = false;
    for (const std::int64_t length : {3, 40, 1000}) {
      graph g;
      const shape space{5, length};
      const node_id x = g.input("x", dtype::f32, space);
      const region_attribute region{.space = space,
                                    .row_axes = 1,
                                    .per_row = true,
                                    .program = reduction_program(scalar_op::row_sum),
                                    .accesses = {dense(space, 0)},
                                    .output = dense(space, 0, 1)};
      g.add_output("y", g.add_node(op::region, dtype::f32, {5}, region, std::span(&x, 1)));
      EXPECT_EQ(kernels::generate(g, node_id{1}, on).module.subgroup_operations & spirv::subgroup_shuffle, 0u);
      const oracle::tensors<double> leaves{{"x", oracle::random_tensor<double>(space, 3)}};
      const auto expected = oracle::interpreter<double>(g, leaves).run().at("y");
      EXPECT_LE(oracle::relative_error(support::device_graph(g, on).run(leaves).at("y"), expected),
                oracle::tolerance(dtype::f32, length));
    }
  }
}

// Iteration spaces no tensor has: one element read over and over. Nothing of this size is run.
TEST(kernels_region, spaces_above_32_bits_are_counted_right_or_refused) {
  const auto made = [](std::int64_t outer, std::int64_t row, const device_profile& on) {
    const shape space{outer, row};
    const region_attribute region{.space = space,
                                  .row_axes = 1,
                                  .per_row = true,
                                  .program = reduction_program(scalar_op::row_sum),
                                  .accesses = {dense(space, 0, 0)},
                                  .output = dense(space, 0, 1)};
    const dtype types[] = {dtype::f32};
    return kernels::make_region(region, types, types, on);
  };
  const auto refusal = [&](std::int64_t outer, std::int64_t row, const device_profile& on) -> std::string {
    try {
      (void)made(outer, row, on);
    } catch (const error& problem) {
      return problem.category() == error_category::unsupported ? problem.what() : "another category";
    }
    return {};
  };
  for (const device_profile& on : support::all_targets()) {
    EXPECT_EQ(support::validation_of(made(3, 3LL << 30, on).module), "");
    EXPECT_EQ(support::validation_of(made(2, kernels::max_count, on).module), "");
    EXPECT_NE(refusal(2, kernels::max_count + 1, on), "");
    EXPECT_NE(refusal(2, 1LL << 33, on), "");
    EXPECT_NE(refusal(1LL << 33, 3, on), "");
    const kernels::kernel_dispatch many = made(3LL << 30, 3, on);
    for (std::size_t axis = 0; axis < 3; ++axis) EXPECT_LE(many.groups[axis], on.max_groups[axis]);
  }
  device_profile narrow = support::shared_profile();
  for (std::uint32_t& most : narrow.max_groups) most = 16;
  EXPECT_NE(refusal(1 << 24, 3, narrow), "") << "16^3 workgroups are too few";
}

TEST(kernels_region, row_maximum_of_minus_infinity_is_kept) {
  graph g;
  const shape space{2, 37};
  const node_id x = g.input("x", dtype::f32, space);
  region_attribute region{.space = space,
                          .row_axes = 1,
                          .per_row = true,
                          .program = reduction_program(scalar_op::row_max),
                          .accesses = {dense(space, 0)},
                          .output = dense(space, 0, 1)};
  g.add_output("y", g.add_node(op::region, dtype::f32, {2}, region, std::span(&x, 1)));
  expect_matches_oracle(g, {{"x", oracle::tensor<double>(space, dtype::f32, -INFINITY)}});
}

// A value computed in two kernels has to come out the same in both, so no kernel may round a product and a sum at once.
TEST(kernels_region, every_operation_rounds_for_itself) {
  scalar_builder b;
  const scalar_ref x = b.argument(0, dtype::f32), product = b.binary(scalar_op::multiply, x, x);
  region_attribute region;
  region.space = {256};
  region.program =
      b.finish(b.binary(scalar_op::subtract, b.binary(scalar_op::add, product, x), b.argument(1, dtype::f32)));
  region.accesses = {dense(region.space, 0), dense(region.space, 1)};
  region.output = dense(region.space, 0);
  graph g;
  const node_id operands[] = {g.input("x", dtype::f32, {256}), g.input("y", dtype::f32, {256})};
  g.add_output("z", g.add_node(op::region, dtype::f32, {256}, region, operands));
  const kernels::kernel_dispatch made = kernels::generate(g, node_id{2}, support::shared_profile());
  const std::vector<std::uint32_t>& words = made.module.words;
  int kept = 0;  // OpDecorate (71) of a result with NoContraction (42)
  for (std::size_t at = 5; at < words.size(); at += words[at] >> 16) {
    kept += (words[at] & 0xffffu) == 71 && words[at + 2] == 42;
  }
  EXPECT_GE(kept, 3);
  oracle::tensors<double> leaves;
  auto &values = leaves["x"] = oracle::random_tensor<double>({256}, 3), &sums = leaves["y"] = values;
  for (std::size_t i = 0; i < 256; ++i) {
    const auto single = static_cast<float>(values.values[i]), square = single * single;
    sums.values[i] = static_cast<double>(square + single);
  }
  const auto z = support::device_graph(g, support::shared_profile()).run(leaves).at("z");
  for (double value : z.values) EXPECT_EQ(value, 0);
}

}  // namespace
