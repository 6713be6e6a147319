// SPDX-License-Identifier: MIT
// Every scalar operation on the device, with literal operands and with equal ones, at NaN, infinities and both zeros.
#include <meganeura/kernels/scalar_emit.hpp>

#include <gtest/gtest.h>
#include <oracle/precision.hpp>
#include <oracle/scalar_machine.hpp>
#include <oracle/tolerance.hpp>
#include <support/device_fixture.hpp>
#include <support/shared_device.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;

constexpr double nan_value = NAN, infinity = INFINITY;
const std::vector<double> literals = {0.0, -0.0, 1, -1, infinity, -infinity, 2.5, nan_value};

scalar_program written(const std::function<scalar_ref(scalar_builder&)>& write) {
  scalar_builder b;
  return b.finish(write(b));
}

/// Argument 1 beside element `i` of argument 0: four components of which two are literals.
double partly_literal(double x, std::size_t i) { return i % 4 == 0 ? 0.0 : i % 4 == 1 ? -0.0 : x; }

/// What every program gives for each x, `components` elements an invocation; one kernel for all programs.
std::vector<std::vector<double>> results_of(const std::vector<scalar_program>& programs, const std::vector<double>& xs,
                                            int components) {
  const auto count = static_cast<std::uint32_t>(xs.size() / static_cast<std::size_t>(components));
  spirv::kernel k("scalars", {1, 1, 1});
  const auto type = [&](spirv::scalar_kind kind) {
    return spirv::data_type{kind, static_cast<std::uint8_t>(components)};
  };
  const auto in = k.declare_buffer(type(spirv::scalar_kind::f32), "in", spirv::access::read, {});
  const auto out = k.declare_buffer(type(spirv::scalar_kind::u32), "out", spirv::access::write, {});
  const spirv::u32 i = k.global_id();
  const kernels::scalar_value x = spirv::untyped::load(spirv::untyped::locate(in, i));
  const auto argument = [&](int number) {
    if (number == 0) return x;
    const kernels::scalar_value zero = kernels::literal(dtype::f32, 0.0), minus = kernels::literal(dtype::f32, -0.0);
    return kernels::grouped(k, {zero, minus, kernels::component(x, 2), kernels::component(x, 3)});
  };
  for (std::size_t p = 0; p < programs.size(); ++p) {
    const scalar_program& program = programs[p];
    kernels::scalar_value y = kernels::widened(kernels::emit(k, program, argument), components);
    if (program.type() == dtype::boolean) y = kernels::converted(y, spirv::u32::static_type);
    y = spirv::untyped::bitcast(type(spirv::scalar_kind::u32), y);
    spirv::untyped::store(spirv::untyped::locate(out, i + static_cast<std::uint32_t>(p) * count), y);
  }
  spirv::module made = k.finish();
  if (support::shared_profile().special_values) made = spirv::preserve_special_values(std::move(made));
  EXPECT_EQ(support::validation_of(made), "");
  const vulkan::device& device = support::shared_device();
  const std::size_t bytes = xs.size() * 4;
  const vulkan::buffer source = device.allocate(bytes), target = device.allocate(programs.size() * bytes);
  device.upload(source, 0, std::vector<float>(xs.begin(), xs.end()));
  vulkan::recorder recorder(device);
  recorder.dispatch(device.create_pipeline(made), {{source, 0, 0}, {target, 0, 0}}, {count, 1, 1});
  device.submit(recorder.finish());
  const auto ticket = device.read_back(target);
  std::vector<std::vector<double>> results;
  for (std::size_t p = 0; p < programs.size(); ++p) {
    const shape extents{static_cast<std::int64_t>(xs.size())};
    const dtype stored = programs[p].type() == dtype::boolean ? dtype::u32 : programs[p].type();
    results.push_back(support::loaded(ticket.data().subspan(p * bytes, bytes), stored, extents).values);
  }
  return results;
}

// Of a power with a negative base, an infinite one as well: a number only where the exponent is whole.
bool open_power(const scalar_node& n, double a, double b) {
  return n.op == scalar_op::power && a < 0 && b != std::trunc(b);
}

bool no_angle(const scalar_node& n, double x) {
  return (n.op == scalar_op::sin || n.op == scalar_op::cos || n.op == scalar_op::tan) && std::fabs(x) > 0x1p24;
}

double rounded(const scalar_node& n, double a, double b, double c, dtype from) {
  return rounded_to(evaluate(n.op, a, b, c, n.type, from), n.type);
}

double evaluated(const scalar_program& program, double x, double second = 0) {
  std::vector<double> values;
  for (const scalar_node& n : program.nodes) {
    const auto operand = [&](int i) { return values.empty() ? 0 : values[n.operands[i]]; };
    const double a = operand(0), b = operand(1);
    values.push_back(n.op == scalar_op::argument   ? (n.value == 0 ? x : second)
                     : n.op == scalar_op::constant ? n.value
                     : open_power(n, a, b)         ? nan_value
                     : no_angle(n, a)              ? nan_value
                                                   : rounded(n, a, b, operand(2), program.nodes[n.operands[0]].type));
  }
  return values.back();
}

// Which of two zeros an extremum or a power is stays open.
bool agrees(double found, double expected, bool any_zero) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  if (any_zero && (expected == 0 || std::isinf(expected))) return std::fabs(found) == std::fabs(expected);
  if (expected == 0 || std::isinf(expected)) return found == expected && std::signbit(found) == std::signbit(expected);
  if (std::fabs(expected) < 0x1p-126 && found == 0) return true;  // denormal
  return std::fabs(found - expected) <= oracle::tolerance(dtype::f32) * std::fabs(expected);
}

void expect_agreement(const std::vector<scalar_program>& programs, const std::vector<double>& xs,
                      bool zeros_alike = false, std::initializer_list<int> widths = {1, 4}) {
  for (int components : widths) {
    const auto results = results_of(programs, xs, components);
    for (std::size_t p = 0; p < programs.size(); ++p) {
      const scalar_op last = programs[p].nodes.back().op;
      const bool open = last == scalar_op::minimum || last == scalar_op::maximum || last == scalar_op::power;
      std::string wrong;
      for (std::size_t i = 0; i < xs.size(); ++i) {
        const double expected = evaluated(programs[p], xs[i], partly_literal(xs[i], i));
        if (agrees(results[p][i], expected, open || zeros_alike)) continue;
        wrong += fmt::format(" x = {}: {}, not {};", xs[i], results[p][i], expected);
      }
      EXPECT_EQ(wrong, "") << to_string(programs[p]) << ", " << components << " wide";
    }
  }
}

const std::vector<double> edges = {nan_value, -infinity, infinity, -0.0, 0,       1,        -1,       0.5,
                                   -0.5,      2.5,       -3,       7,    0x1p100, -0x1p100, 0x1p-100, 100};

TEST(kernels_scalar, literal_operands_meet_nan_infinities_and_both_zeros) {
  for (int first = int(scalar_op::add); first <= int(scalar_op::equal); ++first) {
    std::vector<scalar_program> programs;
    const auto kind = static_cast<scalar_op>(first);
    if (info(kind).is.integers_only) continue;
    for (double literal : literals) {
      for (bool left : {false, true}) {
        programs.push_back(written([&](scalar_builder& b) {
          const scalar_ref x = b.argument(0, dtype::f32), c = b.constant(literal);
          return b.binary(kind, left ? c : x, left ? x : c);
        }));
      }
    }
    expect_agreement(programs, edges);
  }
}

TEST(kernels_scalar, unary_operations_meet_nan_infinities_and_both_zeros) {
  std::vector<scalar_program> programs;
  for (int first = int(scalar_op::negate); first <= int(scalar_op::round); ++first) {
    programs.push_back(
        written([&](scalar_builder& b) { return b.unary(static_cast<scalar_op>(first), b.argument(0, dtype::f32)); }));
  }
  expect_agreement(programs, edges);
}

TEST(kernels_scalar, erf_is_within_five_units_in_the_last_place) {
  std::vector<double> xs;
  for (int i = -(1 << 14); i < 1 << 14; ++i) xs.push_back(static_cast<double>(static_cast<float>(i * 4.2 / (1 << 14))));
  const auto found = results_of({single_op_program(scalar_op::erf, std::vector{dtype::f32})}, xs, 4)[0];
  double worst = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double expected = std::erf(xs[i]);
    worst = std::max(worst, std::fabs(found[i] - expected) / oracle::ulp(expected, dtype::f32));
  }
  EXPECT_LE(worst, 5);
  RecordProperty("worst", std::to_string(worst));
}

TEST(kernels_scalar, equal_operands_meet_nan_infinities_and_both_zeros) {
  std::vector<scalar_program> programs;
  for (int first = int(scalar_op::add); first <= int(scalar_op::equal); ++first) {
    if (info(static_cast<scalar_op>(first)).is.integers_only) continue;
    programs.push_back(written([&](scalar_builder& b) {
      const scalar_ref x = b.argument(0, dtype::f32);
      return b.binary(static_cast<scalar_op>(first), x, x);
    }));
  }
  expect_agreement(programs, edges);
}

TEST(kernels_scalar, vectors_with_a_literal_among_their_components_meet_nan_infinities_and_both_zeros) {
  std::vector<double> xs;
  for (double x : edges) xs.insert(xs.end(), 4, x);
  for (int first = int(scalar_op::negate); first <= int(scalar_op::equal); ++first) {
    const auto kind = static_cast<scalar_op>(first);
    const bool skipped = kind == scalar_op::logical_not || kind == scalar_op::convert;
    if (skipped || info(kind).is.integers_only) continue;
    std::vector<scalar_program> programs;
    for (bool left : {false, true}) {
      programs.push_back(written([&](scalar_builder& b) {
        const scalar_ref x = b.argument(0, dtype::f32), y = b.argument(1, dtype::f32);
        if (info(kind).arity == 1) return b.binary(left ? scalar_op::divide : scalar_op::multiply, b.unary(kind, y), x);
        const scalar_ref both = b.binary(kind, left ? y : x, left ? x : y);
        return b.type(both) == dtype::boolean ? b.select(both, x, y) : both;
      }));
    }
    expect_agreement(programs, xs, false, {4});
  }
}

TEST(kernels_scalar, choices_between_literals_and_results_keep_nan) {
  for (int test = int(scalar_op::less); test <= int(scalar_op::equal); ++test) {
    for (double literal : {0.0, -0.0, 1.0, infinity}) {
      std::vector<scalar_program> programs;
      for (int swaps = 0; swaps < 4; ++swaps) {
        for (int other = 0; other < 6; ++other) {
          programs.push_back(written([&](scalar_builder& b) {
            const scalar_ref x = b.argument(0, dtype::f32), c = b.constant(literal);
            const scalar_ref values[] = {x,
                                         b.unary(scalar_op::sqrt, x),
                                         b.unary(scalar_op::exp, x),
                                         b.binary(scalar_op::multiply, x, x),
                                         b.binary(scalar_op::add, x, b.constant(1)),
                                         b.unary(scalar_op::negate, x)};
            const scalar_ref condition = b.binary(static_cast<scalar_op>(test), swaps & 1 ? c : x, swaps & 1 ? x : c);
            return b.select(condition, swaps & 2 ? values[other] : c, swaps & 2 ? c : values[other]);
          }));
        }
      }
      expect_agreement(programs, edges);
    }
  }
}

TEST(kernels_scalar, integers_are_divided_by_zero_and_by_minus_one) {
  std::vector<scalar_program> programs;
  for (dtype type : {dtype::i32, dtype::u32}) {
    for (double literal :
         {type == dtype::i32 ? -2147483648.0 : 2147483648.0, type == dtype::i32 ? -1.0 : 4294967295.0, 0.0, 1.0, 3.0}) {
      for (bool left : {false, true}) {
        programs.push_back(written([&](scalar_builder& b) {
          const scalar_ref x = b.convert(b.argument(0, dtype::f32), type), c = b.constant(literal, type);
          return b.binary(scalar_op::divide, left ? c : x, left ? x : c);
        }));
      }
    }
  }
  expect_agreement(programs, edges);
}

TEST(kernels_scalar, products_and_sums_with_zero_inside_longer_programs) {
  for (double literal : {0.0, -0.0}) {
    std::vector<scalar_program> programs, choices;
    using written_with_zero = std::function<scalar_ref(scalar_builder&, scalar_ref, scalar_ref)>;
    const auto add_to = [&](std::vector<scalar_program>& all, const written_with_zero& write) {
      all.push_back(
          written([&](scalar_builder& b) { return write(b, b.argument(0, dtype::f32), b.constant(literal)); }));
    };
    const auto add = [&](const written_with_zero& write) { add_to(programs, write); };
    add([](scalar_builder& b, scalar_ref x, scalar_ref zero) {
      return b.binary(scalar_op::add, b.binary(scalar_op::multiply, x, zero), b.constant(2.5));
    });
    add([](scalar_builder& b, scalar_ref x, scalar_ref zero) {
      return b.binary(scalar_op::add, b.binary(scalar_op::multiply, zero, x), x);
    });
    add([](scalar_builder& b, scalar_ref x, scalar_ref zero) {
      return b.binary(scalar_op::multiply, b.binary(scalar_op::subtract, x, x), zero);
    });
    for (scalar_op kind : {scalar_op::multiply, scalar_op::divide}) {
      for (double unit : {1.0, -1.0}) {
        add_to(choices, [=](scalar_builder& b, scalar_ref x, scalar_ref zero) {
          return b.binary(kind, x, b.select(b.binary(scalar_op::less, x, zero), b.constant(unit), zero));
        });
        add_to(choices, [=](scalar_builder& b, scalar_ref x, scalar_ref zero) {
          return b.binary(kind, x, b.select(b.binary(scalar_op::less, x, zero), zero, b.constant(unit)));
        });
      }
      add([=](scalar_builder& b, scalar_ref x, scalar_ref zero) {
        return b.binary(kind, x, b.convert(b.binary(scalar_op::less, zero, x), dtype::f32));
      });
      add([=](scalar_builder& b, scalar_ref x, scalar_ref) {
        return b.binary(kind, x, b.convert(b.binary(scalar_op::less, x, x), dtype::f32));
      });
    }
    add([](scalar_builder& b, scalar_ref x, scalar_ref zero) {
      return b.unary(scalar_op::reciprocal, b.binary(scalar_op::add, x, zero));
    });
    add([](scalar_builder& b, scalar_ref x, scalar_ref zero) {
      return b.select(b.unary(scalar_op::logical_not, b.binary(scalar_op::less, x, zero)), x, b.constant(3));
    });
    add_to(choices, [](scalar_builder& b, scalar_ref x, scalar_ref zero) {
      const scalar_ref unit = b.constant(std::signbit(b.node(zero).value) ? 1 : -1);
      return b.select(b.binary(scalar_op::less, x, b.constant(1)), unit, zero);
    });
    expect_agreement(programs, edges);
    // NVIDIA's driver 580 forgets the sign of a literal -0 in a choice.
    const bool forgets_sign = std::signbit(literal) && !support::shared_profile().prefers_texel_buffers;
    expect_agreement(choices, edges, forgets_sign);
  }
}

// Of f32; 2^32 - 256 is the last below 2^32.
const std::vector<double> far_numbers = {
    nan_value,   -infinity, infinity,     -0.0,   -0.5,        -1,     0.99,    -1.5,  2.5,    0x1p31,
    2147483520., -0x1p31,   -2147483904., 0x1p32, 4294967040., 0x1p33, -0x1p33, 1e30f, -1e30f, 3};

double truncated(double x, dtype type) {  // what scalar.hpp says of convert
  const double low = type == dtype::u32 ? 0 : -0x1p31, high = type == dtype::u32 ? 0x1p32 - 1 : 0x1p31 - 1;
  return std::isnan(x) ? 0 : x <= low ? low : x >= high ? high : std::trunc(x);
}

TEST(kernels_scalar, floats_become_integers_and_conditions_on_the_device_in_folding_and_in_the_oracle) {
  for (dtype type : {dtype::i32, dtype::u32, dtype::boolean}) {
    const scalar_program program =
        written([&](scalar_builder& b) { return b.convert(b.argument(0, dtype::f32), type); });
    for (int components : {1, 4}) {
      const auto found = results_of({program}, far_numbers, components)[0];
      for (std::size_t i = 0; i < far_numbers.size(); ++i) {
        const double x = far_numbers[i], expected = type == dtype::boolean ? x != 0 : truncated(x, type);
        EXPECT_EQ(found[i], expected) << x << " as " << to_string(type) << ", " << components << " wide";
        EXPECT_EQ(oracle::scalar_apply(scalar_op::convert, dtype::f32, type, x, x, x), expected) << x;
        scalar_builder b;
        EXPECT_EQ(b.node(b.convert(b.constant(x), type)).value, expected) << x;
      }
    }
  }
}

TEST(kernels_scalar, integers_wrap_into_each_other_and_round_into_floats) {
  const auto folded = [](double value, dtype from, dtype to) {
    scalar_builder b;
    return b.node(b.convert(b.constant(value, from), to)).value;
  };
  EXPECT_EQ(folded(-1, dtype::i32, dtype::u32), 4294967295.0);
  EXPECT_EQ(folded(4294967295.0, dtype::u32, dtype::i32), -1);
  EXPECT_EQ(folded(2147483648.0, dtype::u32, dtype::i32), -2147483648.0);
  EXPECT_EQ(folded(16777217, dtype::i32, dtype::f32), 16777216);  // ties to even
  EXPECT_EQ(folded(16777219, dtype::u32, dtype::f32), 16777220);
  EXPECT_EQ(folded(4294967295.0, dtype::u32, dtype::f32), 0x1p32);
  // The same from integers that the device computes: what these numbers become, less 1 or plus 1.
  const std::vector<double> xs = {0, 1, 0x1p24, 0x1p31, 0x1p32, -1, -0x1p24, 16777218};
  for (double more : {0.0, 1.0, 3.0}) {
    const auto converted = [&](dtype from, dtype to) {
      const scalar_program program = written([&](scalar_builder& b) {
        const scalar_ref whole = b.convert(b.argument(0, dtype::f32), from);
        return b.convert(b.binary(scalar_op::add, whole, b.constant(more, from)), to);
      });
      for (int components : {1, 4}) {
        const auto found = results_of({program}, xs, components)[0];
        for (std::size_t i = 0; i < xs.size(); ++i)
          EXPECT_EQ(found[i], evaluated(program, xs[i])) << to_string(program) << " of " << xs[i];
      }
    };
    converted(dtype::i32, dtype::u32), converted(dtype::u32, dtype::i32);
    converted(dtype::i32, dtype::f32), converted(dtype::u32, dtype::f32), converted(dtype::i32, dtype::boolean);
  }
}

void expect_rounds_when_stored(dtype type) {
  const std::vector<double> xs = {
      2049,       2051,       0.1f,      -65519,  65520, -1e6, infinity, nan_value, -65504,     65519,
      -0.0,       1.5,        0x1.8p-24, 0x1p-20, 1e30f, -3,   0x1.01p0, 0x1.03p0,  0x1.0101p0, -0x1.fffffep127,
      0x1.fep127, 0x1.ffp127, 257,       259};
  const shape space{static_cast<std::int64_t>(xs.size())};
  graph g;
  const node_id x = g.input("x", dtype::f32, space);
  scalar_builder b;
  index_map dense;
  dense.strides[0] = 1;
  const region_attribute region{
      .space = space, .program = b.finish(b.argument(0, dtype::f32)), .accesses = {dense}, .output = dense};
  g.add_output("y", g.add_node(op::region, type, space, region, std::span(&x, 1)));
  for (const device_profile& on : support::all_targets()) {
    const auto found = support::device_graph(g, on).run({{"x", {space, xs}}}).at("y");
    for (std::size_t i = 0; i < xs.size(); ++i) {
      EXPECT_TRUE(agrees(found[static_cast<std::int64_t>(i)], rounded_to(xs[i], type), false)) << xs[i];
      EXPECT_TRUE(agrees(oracle::stored(xs[i], type), rounded_to(xs[i], type), false)) << xs[i];
    }
  }
}

TEST(kernels_scalar, narrow_floats_are_rounded_to_even_and_overflow_to_infinity) {
  expect_rounds_when_stored(dtype::f16);
  expect_rounds_when_stored(dtype::bf16);
}

// Any values but NaN, infinities and numbers that every operation keeps exactly; the sign of a zero is not looked at.
scalar_program random_program(std::mt19937& generator) {
  const auto below = [&](std::size_t n) { return generator() % n; };
  return written([&](scalar_builder& b) {
    std::vector<scalar_ref> numbers{b.argument(0, dtype::f32)}, tests;
    for (double c : {0.0, -0.0, 1.0, -1.0, 2.0, infinity}) numbers.push_back(b.constant(c));
    const auto number = [&] {
      const std::size_t recent = below(3) ? numbers.size() : std::min<std::size_t>(3, numbers.size());
      return numbers[numbers.size() - 1 - below(recent)];
    };
    const std::size_t steps = 2 + below(6);
    for (std::size_t i = 0; i < steps; ++i) {
      constexpr scalar_op binaries[] = {scalar_op::add, scalar_op::subtract, scalar_op::multiply};
      constexpr scalar_op unaries[] = {scalar_op::negate, scalar_op::abs, scalar_op::sign, scalar_op::sqrt,
                                       scalar_op::floor};
      constexpr scalar_op comparisons[] = {scalar_op::less, scalar_op::less_equal, scalar_op::equal};
      switch (below(4)) {
        case 0:
          numbers.push_back(b.unary(unaries[below(std::size(unaries))], number()));
          break;
        case 1:
          numbers.push_back(b.binary(binaries[below(std::size(binaries))], number(), number()));
          break;
        default:
          tests.push_back(b.binary(comparisons[below(std::size(comparisons))], number(), number()));
          if (below(3) == 0) tests.push_back(b.unary(scalar_op::logical_not, tests.back()));
          numbers.push_back(b.select(tests[below(tests.size())], number(), number()));
      }
    }
    return numbers.back();
  });
}

TEST(kernels_scalar, random_programs_with_literals_keep_nan_and_infinities) {
  std::mt19937 generator(1);
  for (int round = 0; round < 4; ++round) {
    std::vector<scalar_program> programs;
    for (int k = 0; k < 80; ++k) programs.push_back(random_program(generator));
    std::erase_if(programs, [](const scalar_program& p) { return p.nodes.size() < 2; });
    const std::vector<double> xs = {nan_value, -infinity, infinity, -0.0, 0,   1,      -1,      0.25,
                                    -0.25,     4,         -4,       16,   -16, 0x1p60, -0x1p60, 9};
    expect_agreement(programs, xs, true);
  }
}

}  // namespace
