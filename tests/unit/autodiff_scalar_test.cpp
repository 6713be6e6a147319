// SPDX-License-Identifier: MIT
// Derivatives of every scalar operation and of programs made of several.
#include <meganeura/autodiff/gradient.hpp>

#include <oracle/gradient_check.hpp>
#include <oracle/interpreter.hpp>

#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::oracle;

const shape size = {3, 5};

struct operation {
  scalar_op kind;
  double low = -2, high = 2;  // a range without kinks, or one where random values do not sit on them
};

const operation unary_operations[] = {
    {scalar_op::negate},
    {scalar_op::abs},
    {scalar_op::reciprocal, 0.5},
    {scalar_op::sqrt, 0.5},
    {scalar_op::rsqrt, 0.5},
    {scalar_op::exp},
    {scalar_op::log, 0.5},
    {scalar_op::sin},
    {scalar_op::cos},
    {scalar_op::tanh},
    {scalar_op::erf},
    {scalar_op::tan, -1, 1},
    {scalar_op::asin, -0.9, 0.9},
    {scalar_op::acos, -0.9, 0.9},
    {scalar_op::atan},
    {scalar_op::sinh},
    {scalar_op::cosh},
    {scalar_op::asinh},
    {scalar_op::acosh, 1.5, 4},
    {scalar_op::atanh, -0.9, 0.9},
    {scalar_op::cbrt, 0.5},
    {scalar_op::erfc},
    {scalar_op::exp2},
    {scalar_op::expm1},
    {scalar_op::log2, 0.5},
    {scalar_op::log10, 0.5},
    {scalar_op::log1p, -0.5},
    {scalar_op::tgamma, 0.5, 4},
    {scalar_op::lgamma, 0.5, 4},
};
const scalar_op binary_operations[] = {scalar_op::add,   scalar_op::subtract, scalar_op::multiply, scalar_op::divide,
                                       scalar_op::power, scalar_op::minimum,  scalar_op::maximum,  scalar_op::atan2};

TEST(autodiff_scalar, unary_operations_match_central_differences) {
  for (const operation& tried : unary_operations) {
    graph g;
    const node_id x = g.input("x", dtype::f32, size);
    EXPECT_LT(gradient_error(g, g.map(tried.kind, {x}), {x}, {{"x", random_tensor(size, 1, tried.low, tried.high)}}),
              gradient_tolerance)
        << info(tried.kind).name;
  }
}

TEST(autodiff_scalar, second_derivatives_of_unary_operations_match) {
  for (const operation& tried : unary_operations) {
    graph g;
    const node_id x = g.input("x", dtype::f32, size);
    EXPECT_LT(
        second_gradient_error(g, g.map(tried.kind, {x}), {x}, {{"x", random_tensor(size, 2, tried.low, tried.high)}}),
        gradient_tolerance)
        << info(tried.kind).name;
  }
}

TEST(autodiff_scalar, binary_operations_match_central_differences_for_both_operands) {
  for (scalar_op kind : binary_operations) {
    graph g;
    const node_id a = g.input("a", dtype::f32, size), b = g.input("b", dtype::f32, size);
    const tensors<double> leaves{{"a", random_tensor(size, 3, 0.5, 2)}, {"b", random_tensor(size, 4, 0.5, 2)}};
    EXPECT_LT(gradient_error(g, g.map(kind, {a, b}), {a, b}, leaves), gradient_tolerance) << info(kind).name;
  }
}

TEST(autodiff_scalar, second_derivatives_of_binary_operations_match) {
  for (scalar_op kind :
       {scalar_op::multiply, scalar_op::divide, scalar_op::power, scalar_op::atan2, scalar_op::hypot}) {
    graph g;
    const node_id a = g.input("a", dtype::f32, size), b = g.input("b", dtype::f32, size);
    const tensors<double> leaves{{"a", random_tensor(size, 3, 0.5, 2)}, {"b", random_tensor(size, 4, 0.5, 2)}};
    EXPECT_LT(second_gradient_error(g, g.map(kind, {a, b}), {a, b}, leaves), gradient_tolerance) << info(kind).name;
  }
}

TEST(autodiff_scalar, every_operation_has_a_rule_or_none_by_design) {
  // Each operation of the table is differentiated here: a new one without a rule throws.
  for (int i = static_cast<int>(scalar_op::negate); i < static_cast<int>(scalar_op::row_sum); ++i) {
    const auto kind = static_cast<scalar_op>(i);
    scalar_builder b;
    const scalar_ref x = b.argument(0, dtype::f32), y = b.argument(1, dtype::f32);
    const bool logical =
        kind == scalar_op::logical_not || kind == scalar_op::logical_and || kind == scalar_op::logical_or;
    if (kind == scalar_op::trigamma) continue;     // by design: see the next test
    if (kind == scalar_op::reinterpret) continue;  // a step at every float
    const scalar_ref condition = b.binary(scalar_op::less, x, y);
    if (info(kind).is.integers_only) {
      const scalar_ref whole = b.convert(x, dtype::i32);
      const scalar_ref bits = b.convert(b.binary(kind, whole, whole), dtype::f32);
      graph g;
      const node_id inputs[] = {g.input("x", dtype::f32, size), g.input("y", dtype::f32, size)};
      const node_id output =
          g.multiply(inputs[0], g.map(b.finish(b.binary(scalar_op::multiply, bits, y)), inputs, dtype::f32));
      const tensors<double> leaves{{"x", random_tensor(size, 5, 3.1, 3.9)}, {"y", random_tensor(size, 6, 0.5, 2)}};
      EXPECT_LT(gradient_error(g, output, {inputs[0], inputs[1]}, leaves), gradient_tolerance) << info(kind).name;
      continue;
    }
    const scalar_ref operands[] = {logical || kind == scalar_op::select ? condition : x, logical ? condition : y, x};
    scalar_ref result = b.apply(kind, {operands, static_cast<std::size_t>(info(kind).arity)}, dtype::i32);
    if (b.type(result) == dtype::boolean) result = b.select(result, x, y);
    if (b.type(result) == dtype::i32) result = b.binary(scalar_op::multiply, b.convert(result, dtype::f32), x);
    graph g;
    const node_id inputs[] = {g.input("x", dtype::f32, size), g.input("y", dtype::f32, size)};
    const node_id output = g.multiply(inputs[0], g.add(inputs[1], g.map(b.finish(result), inputs, dtype::f32)));
    const auto listed = std::ranges::find(unary_operations, kind, &operation::kind);
    const bool has_range = listed != std::end(unary_operations);
    const tensors<double> leaves{
        {"x", random_tensor(size, 5, has_range ? listed->low : 0.5, has_range ? listed->high : 2)},
        {"y", random_tensor(size, 6, 0.5, 2)}};
    EXPECT_LT(gradient_error(g, output, {inputs[0], inputs[1]}, leaves), gradient_tolerance) << info(kind).name;
  }
}

TEST(autodiff_scalar, the_derivative_of_trigamma_is_refused_by_its_name) {
  graph g;
  const node_id x = g.input("x", dtype::f32, size), y = g.map(scalar_op::trigamma, {x});
  EXPECT_NE(support::sentence_of([&] {
              (void)gradients(g, g.reduce(reduce_kind::sum, y, 3), {&x, 1});
            }).find("trigamma has no derivative"),
            std::string::npos);
}

TEST(autodiff_scalar, a_program_of_many_operations_matches) {
  scalar_builder b;
  const scalar_ref x = b.argument(0, dtype::f32), y = b.argument(1, dtype::f32);
  const scalar_ref sigmoid =
      b.unary(scalar_op::reciprocal,
              b.binary(scalar_op::add, b.constant(1), b.unary(scalar_op::exp, b.unary(scalar_op::negate, x))));
  const scalar_ref silu = b.binary(scalar_op::multiply, x, sigmoid);
  const scalar_ref gated =
      b.binary(scalar_op::multiply, silu, b.unary(scalar_op::tanh, b.binary(scalar_op::add, y, x)));
  const scalar_ref chosen = b.select(b.binary(scalar_op::less, x, y), gated,
                                     b.binary(scalar_op::divide, y, b.binary(scalar_op::add, b.constant(3), x)));
  graph g;
  const node_id inputs[] = {g.input("x", dtype::f32, size), g.input("y", dtype::f32, size)};
  const tensors<double> leaves{{"x", random_tensor(size, 7, -2, 2)}, {"y", random_tensor(size, 8, -2, 2)}};
  const node_id output = g.map(b.finish(chosen), inputs, dtype::f32);
  EXPECT_LT(gradient_error(g, output, {inputs[0], inputs[1]}, leaves), gradient_tolerance);
  EXPECT_LT(second_gradient_error(g, output, {inputs[0], inputs[1]}, leaves), gradient_tolerance);
}

// A value and its derivative: forward mode, which shares nothing with the rules under test.
struct dual {
  double value = 0, slope = 0;
};

dual forward(scalar_op kind, dual a, dual b) {
  const double p = a.value, q = b.value, da = a.slope, db = b.slope;
  switch (kind) {
    // clang-format off
    case scalar_op::negate: return {-p, -da};
    case scalar_op::abs: return {std::fabs(p), p < 0 ? -da : da};
    case scalar_op::sqrt: return {std::sqrt(p), da / (2 * std::sqrt(p))};
    case scalar_op::exp: return {std::exp(p), da * std::exp(p)};
    case scalar_op::log: return {std::log(p), da / p};
    case scalar_op::sin: return {std::sin(p), da * std::cos(p)};
    case scalar_op::tanh: return {std::tanh(p), da / (std::cosh(p) * std::cosh(p))};
    case scalar_op::reciprocal: return {1 / p, -da / (p * p)};
    case scalar_op::add: return {p + q, da + db};
    case scalar_op::subtract: return {p - q, da - db};
    case scalar_op::multiply: return {p * q, da * q + p * db};
    case scalar_op::divide: return {p / q, (da * q - p * db) / (q * q)};
    case scalar_op::minimum: return std::isnan(p) || p < q ? a : b;
    default: return std::isnan(p) || p > q ? a : b;  // maximum
      // clang-format on
  }
}

// Programs over few arguments and constants: every operand occurs in several places, and in some it is the last word.
scalar_program random_program(std::mt19937& random) {
  constexpr scalar_op kinds[] = {scalar_op::negate,  scalar_op::abs,      scalar_op::sqrt,     scalar_op::exp,
                                 scalar_op::log,     scalar_op::sin,      scalar_op::tanh,     scalar_op::reciprocal,
                                 scalar_op::add,     scalar_op::subtract, scalar_op::multiply, scalar_op::divide,
                                 scalar_op::minimum, scalar_op::maximum};
  scalar_builder b;
  std::vector<scalar_ref> pool = {b.argument(0, dtype::f32), b.argument(1, dtype::f32), b.constant(1.5)};
  for (std::size_t left = 1 + random() % 4; left > 0; --left) {
    const scalar_op kind = kinds[random() % std::size(kinds)];
    const scalar_ref operands[] = {pool.back(), pool[random() % pool.size()]};
    pool.push_back(b.apply(kind, {operands, static_cast<std::size_t>(info(kind).arity)}));
    if (random() % 3 == 0) std::swap(pool.back(), pool[random() % pool.size()]);
  }
  return b.finish(
      b.binary(scalar_op::multiply, pool.back(), b.binary(scalar_op::add, pool.back(), pool[random() % 3])));
}

dual forward(const scalar_program& program, std::span<const dual> arguments) {
  std::vector<dual> values;
  for (const scalar_node& node : program.nodes) {
    const bool leaf = node.op == scalar_op::argument || node.op == scalar_op::constant;
    values.push_back(node.op == scalar_op::argument ? arguments[static_cast<std::size_t>(node.value)]
                     : leaf                         ? dual{node.value, 0}
                            : forward(node.op, values[node.operands[0]], values[node.operands[1]]));
  }
  return values.back();
}

// The largest error of the gradients of one map by all of its operands, against forward mode.
double map_gradient_error(const scalar_program& program) {
  graph g;
  const node_id inputs[] = {g.input("x", dtype::f32, size), g.input("y", dtype::f32, size)};
  const node_id output = g.map(program, inputs, dtype::f32), seed = g.full(size, 1);
  const auto found = gradients(g, std::span(&output, 1), std::span(&seed, 1), inputs);
  const tensor<double> at[] = {random_tensor(size, 31, -2, 2), random_tensor(size, 32, 0.5, 2)};
  interpreter<double> run(g, {{"x", at[0]}, {"y", at[1]}});
  double worst = 0;
  for (std::size_t wrt = 0; wrt < 2; ++wrt) {
    const tensor<double>& symbolic = run.value(found[wrt]);
    for (std::int64_t i = 0; i < size.elements(); ++i) {
      const dual arguments[] = {{at[0][i], wrt == 0 ? 1.0 : 0.0}, {at[1][i], wrt == 1 ? 1.0 : 0.0}};
      const dual expected = forward(program, arguments);
      if (!std::isfinite(expected.value + expected.slope)) continue;  // the logarithm of a negative number
      const double scale = std::max({1.0, std::fabs(expected.slope), std::fabs(expected.value)});
      const double off = std::fabs(symbolic[i] - expected.slope) / scale;
      worst = std::max(worst, std::isnan(off) ? INFINITY : off);
    }
  }
  return worst;
}

TEST(autodiff_scalar, an_argument_used_in_several_places_of_one_program_gets_all_parts) {
  const auto error_of = [](auto&& write) {
    scalar_builder b;
    return map_gradient_error(b.finish(write(b, b.argument(0, dtype::f32))));
  };
  const auto binary = [](scalar_op outer, scalar_op inner) {
    return [=](scalar_builder& b, scalar_ref x) { return b.binary(outer, x, b.unary(inner, x)); };
  };
  EXPECT_LT(error_of([](scalar_builder& b, scalar_ref x) {
              return b.binary(scalar_op::multiply, b.binary(scalar_op::multiply, x, x), x);
            }),
            gradient_tolerance);
  EXPECT_LT(error_of(binary(scalar_op::multiply, scalar_op::tanh)), gradient_tolerance);
  EXPECT_LT(error_of(binary(scalar_op::maximum, scalar_op::negate)), gradient_tolerance);
  EXPECT_LT(error_of(binary(scalar_op::divide, scalar_op::exp)), gradient_tolerance);
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    const scalar_program program = random_program(random);
    ASSERT_LT(map_gradient_error(program), gradient_tolerance) << round << ": " << to_string(program);
  }
}

TEST(autodiff_scalar, an_operand_used_twice_gets_both_parts) {
  graph g;
  const node_id x = g.input("x", dtype::f32, size);
  EXPECT_LT(gradient_error(g, g.multiply(x, g.multiply(x, x)), {x}, {{"x", random_tensor(size, 9)}}),
            gradient_tolerance);
}

TEST(autodiff_scalar, constant_exponents_work_for_negative_bases) {
  for (double exponent : {2.0, 3.0, -1.0, -2.0}) {
    graph g;
    const node_id x = g.input("x", dtype::f32, size);
    const node_id output = g.map(scalar_op::power, {x, g.full(size, exponent)});
    EXPECT_LT(gradient_error(g, output, {x}, {{"x", random_tensor(size, 10, -2, -0.5)}}), gradient_tolerance)
        << exponent;
  }
}

TEST(autodiff_scalar, power_has_finite_derivatives_at_zero) {
  graph g;
  const node_id a = g.input("a", dtype::f32, {2}), b = g.input("b", dtype::f32, {2});
  const node_id wrt[] = {a, b};
  const node_id loss = g.reduce(reduce_kind::sum, g.map(scalar_op::power, {a, b}), 1);
  const auto found = gradients(g, loss, wrt);
  interpreter<double> run(g, {{"a", {{2}, {0, 0}}}, {"b", {{2}, {2, 0}}}});
  EXPECT_EQ(run.value(found[0]).values, (std::vector<double>{0, 0}));
  EXPECT_EQ(run.value(found[1]).values, (std::vector<double>{0, 0}));
}

TEST(autodiff_scalar, ties_share_the_gradient_evenly) {
  for (scalar_op kind : {scalar_op::minimum, scalar_op::maximum}) {
    graph g;
    const node_id a = g.input("a", dtype::f32, {1}), b = g.input("b", dtype::f32, {1});
    const node_id wrt[] = {a, b};
    const auto found = gradients(g, g.map(kind, {a, b}), wrt);
    interpreter<double> run(g, {{"a", {{1}, {3}}}, {"b", {{1}, {3}}}});
    EXPECT_EQ(run.value(found[0])[0], 0.5);
    EXPECT_EQ(run.value(found[1])[0], 0.5);
  }
}

TEST(autodiff_scalar, a_nan_passes_the_gradient_through_bounds_and_extrema) {
  for (scalar_op kind : {scalar_op::minimum, scalar_op::maximum}) {
    graph g;
    const node_id a = g.input("a", dtype::f32, {3}), b = g.input("b", dtype::f32, {3}), wrt[] = {a, b};
    const node_id outputs[] = {g.map(kind, {a, b}), g.map(kind, {a, g.full({3}, 0)})};
    const node_id seeds[] = {g.full({3}, 1), g.full({3}, 10)};
    const auto found = gradients(g, outputs, seeds, wrt);
    interpreter<double> run(g, {{"a", {{3}, {NAN, -INFINITY, NAN}}}, {"b", {{3}, {2, NAN, NAN}}}});
    EXPECT_EQ(run.value(found[0]).values, (std::vector<double>{11, kind == scalar_op::minimum ? 11.0 : 1.0, 11}));
    EXPECT_EQ(run.value(found[1]).values, (std::vector<double>{1, 1, 1}));
  }
}

TEST(autodiff_scalar, a_bound_that_is_a_tensor_of_one_number_is_constant_in_every_float_type) {
  for (dtype type : {dtype::f32, dtype::f16, dtype::bf16}) {
    for (double bound : {0.0, 1.0 / 3}) {
      for (scalar_op kind : {scalar_op::minimum, scalar_op::maximum}) {
        graph g;
        const node_id x = g.input("x", type, {1}), y = g.map(kind, {x, g.full_like(x, bound)});
        const node_id seed = g.full_like(y, 1);
        const node_id result = gradients(g, std::span(&y, 1), std::span(&seed, 1), std::span(&x, 1))[0];
        interpreter<double> run(g, {{"x", {{1}, {rounded_to(bound, type)}, type}}});
        EXPECT_EQ(run.value(result)[0], 0) << to_string(type) << ' ' << bound;
      }
    }
  }
}

// As a loss scale has them, or the linear end of a graph.
TEST(autodiff_scalar, a_constant_gradient_beyond_the_largest_of_its_type_is_infinite) {
  for (dtype type : {dtype::f16, dtype::f32}) {
    graph g;
    const node_id x = g.input("x", dtype::f16, {1}), wide = g.cast(x, type);
    node_id y = g.map(scalar_op::multiply, {wide, g.full_like(wide, 300)});
    y = g.map(scalar_op::multiply, {y, g.full_like(y, 300)});
    const node_id seed = g.full_like(y, 1);
    const node_id result = gradients(g, std::span(&y, 1), std::span(&seed, 1), std::span(&x, 1))[0];
    interpreter<double> run(g, {{"x", {{1}, {1}, dtype::f16}}});
    EXPECT_EQ(run.value(result)[0], std::numeric_limits<double>::infinity()) << to_string(type);
  }
}

TEST(autodiff_scalar, a_constant_bound_stops_the_gradient_where_it_is_reached_in_every_float_type) {
  for (dtype type : {dtype::f32, dtype::f16}) {
    for (double bound : {0.0, 1.0 / 3, 0.1, 0.7}) {  // f16 rounds some of these up and some down
      for (scalar_op kind : {scalar_op::minimum, scalar_op::maximum}) {
        scalar_builder b;
        const scalar_ref clamped = b.binary(kind, b.argument(0, type), b.constant(bound));
        graph g;
        const node_id x = g.input("x", type, {3}), y = g.map(b.finish(clamped), std::span(&x, 1), type);
        const node_id seed = g.full_like(y, 1);
        const node_id result = gradients(g, std::span(&y, 1), std::span(&seed, 1), std::span(&x, 1))[0];
        // one below the bound, one above, and the bound itself where every type can hold it
        interpreter<double> run(g, {{"x", {{3}, {bound - 1, bound + 1, bound == 0 ? 0.0 : bound + 2}, type}}});
        const double below = kind == scalar_op::minimum ? 1 : 0, above = 1 - below;
        EXPECT_EQ(run.value(result).values, (std::vector<double>{below, above, bound == 0 ? 0.0 : above}))
            << to_string(type) << ' ' << bound;
      }
    }
  }
}

TEST(autodiff_scalar, single_operations_read_their_own_result) {
  for (scalar_op kind : {scalar_op::exp, scalar_op::tanh, scalar_op::sqrt, scalar_op::reciprocal, scalar_op::rsqrt}) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {4}), y = g.map(kind, {x}), seed = g.input("seed", dtype::f32, {4});
    const node_id result = gradients(g, std::span(&y, 1), std::span(&seed, 1), std::span(&x, 1))[0];
    ASSERT_EQ(g[result].kind, op::map) << info(kind).name;
    for (node_id operand : g.operands(result)) EXPECT_TRUE(operand == y || operand == seed) << info(kind).name;
  }
}

TEST(autodiff_scalar, casts_between_float_types_pass_gradients_in_the_operand_type) {
  graph g;
  const node_id x = g.input("x", dtype::f16, size), y = g.cast(x, dtype::f32), wrt[] = {x};
  const node_id loss = g.reduce(reduce_kind::sum, g.multiply(y, y), 3);
  const node_id result = gradients(g, loss, wrt)[0];
  EXPECT_EQ(g[result].type, dtype::f16);
  interpreter<double> run(g, {{"x", random_tensor(size, 11, -1, 1, dtype::f16)}});
  tensor<double> expected = run.value(x);
  for (double& value : expected.values) value *= 2;  // exact in f16
  EXPECT_EQ(run.value(result).values, expected.values);
}

}  // namespace
