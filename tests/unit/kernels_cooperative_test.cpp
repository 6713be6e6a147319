// SPDX-License-Identifier: MIT
// Products on matrix units, or on what stands in for them, against a double-precision reference: sizes, strides,
// scales.
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/kernels/matmul_cooperative.hpp>
#include <meganeura/runtime/device.hpp>

#include <support/device_fixture.hpp>
#include <support/product_run.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using kernels::matmul_problem;

constexpr float infinity = std::numeric_limits<float>::infinity();

bool has_units() { return support::shared_profile().matrix_units == matrix_units::cooperative; }

// The shared device, with emulated units where it has none; those it would take, or of this shape.
device_profile units() {
  device_profile on = support::shared_profile();
  if (!has_units()) on.matrix_units = matrix_units::emulated;
  return on;
}
device_profile units(const matrix_shape& unit) {
  device_profile on = units();
  on.unit = unit;
  return on;
}

// With those of each other shape that it lists; emulated those of Intel, NVIDIA and Mesa's lavapipe.
std::vector<device_profile> units_of_other_shapes() {
  std::vector<matrix_shape> shapes{{8, 16, 16}, {16, 8, 16}, {16, 8, 8}, {8, 8, 8}, {16, 16, 8}};
  if (has_units()) shapes = usable_units(support::shared_device().facts());
  std::vector<device_profile> all;
  for (const matrix_shape& each : shapes) {
    if (each != units().unit) all.push_back(units(each));
  }
  return all;
}

// One that need not be here.
device_profile graphics_processor() {
  device_profile on;
  on.matrix_units = matrix_units::cooperative;
  on.f16 = true;
  on.max_shared_bytes = 49152;
  on.max_invocations = 1024;
  return on;
}

std::string described(const product_schedule& s, const device_profile& on) {
  return to_string(s) + " on " + std::to_string(on.unit.m) + "x" + std::to_string(on.unit.n) + "x" +
         std::to_string(on.unit.k);
}

struct layout {
  bool plain_a = false, plain_b = false;  // a [k, m] instead of [m, k], b [k, n] instead of [n, k]
};

struct operands {
  std::uint32_t m, n, k;
  layout lies;
  std::vector<float> a, b;
  [[nodiscard]] float& at_a(std::uint32_t i, std::uint32_t t) { return a[lies.plain_a ? t * m + i : i * k + t]; }
  [[nodiscard]] float& at_b(std::uint32_t j, std::uint32_t t) { return b[lies.plain_b ? t * n + j : j * k + t]; }
};

operands random_operands(std::uint32_t m, std::uint32_t n, std::uint32_t k, layout lies = {}) {
  operands made{m, n, k, lies, std::vector<float>(std::size_t{m} * k), std::vector<float>(std::size_t{n} * k)};
  std::mt19937 generator(m * 31 + n * 7 + k);
  std::normal_distribution<float> normal;
  for (float& each : made.a) each = normal(generator);
  for (float& each : made.b) each = normal(generator);
  return made;
}

matmul_problem problem_of(const operands& in) {
  matmul_problem p;
  p.m = {{in.m, in.lies.plain_a ? 1 : in.k, 0, in.n}};
  p.n = {{in.n, 0, in.lies.plain_b ? 1 : in.k, 1}};
  p.k = {{in.k, in.lies.plain_a ? in.m : 1, in.lies.plain_b ? in.n : 1, 0}};
  return p;
}

std::vector<float> run(const matmul_problem& p, const product_schedule& s, const operands& in, const device_profile& on,
                       const std::vector<float>* extra = nullptr) {
  const kernels::kernel_dispatch made = kernels::make_cooperative_matmul(p, s, on);
  EXPECT_EQ(support::validation_of(made.module), "") << described(s, on);
  const std::uint32_t padding = p.offset_second ? 16 * s.tile_k * s.terms() : 0;
  EXPECT_LE(made.module.shared_bytes, fusion::shared_bytes_of(s, on.unit) + padding);
  std::vector<const std::vector<float>*> inputs{&in.a, &in.b};
  if (extra != nullptr) inputs.push_back(extra);
  const std::int64_t columns = std::int64_t{in.n} * p.sums();
  return support::run_product(made, inputs, std::size_t{in.m} * in.n, fusion::scratch_of(s, {1, in.m, columns, in.k}));
}

// Of each row's and column's own size: rows of other scales count alike. An f32 sum is off by at most k roundings.
double worst_error(const std::vector<float>& found, operands in) {
  double worst = 0;
  for (std::uint32_t i = 0; i < in.m; ++i) {
    for (std::uint32_t j = 0; j < in.n; ++j) {
      double sum = 0, of_a = 0, of_b = 0;
      for (std::uint32_t t = 0; t < in.k; ++t) {
        const double x = in.at_a(i, t), y = in.at_b(j, t);
        sum += x * y, of_a += x * x, of_b += y * y;
      }
      const double off = std::abs(static_cast<double>(found[i * in.n + j]) - sum);
      const double error = of_a * of_b == 0 ? off : off / std::sqrt(of_a * of_b);
      if (std::isnan(error)) return error;
      worst = std::max(worst, error);
    }
  }
  return worst;
}

constexpr product_arithmetic both[] = {product_arithmetic::split, product_arithmetic::rounded};
double allowed(product_arithmetic arithmetic) { return arithmetic == product_arithmetic::split ? 5e-7 : 1e-3; }

// Slices that meet, and bands; small ones, since a software driver takes long to compile large ones. On a device with
// units one of each tile, in turn one step on its way and as many as there are.
std::vector<product_schedule> schedules(product_arithmetic arithmetic, const device_profile& on) {
  const auto [m, n, k] = on.unit;
  if (!has_units()) return {{arithmetic, 2 * m, 2 * n, 2 * k, m, 2 * n, 2}, {arithmetic, 2 * m, n, k, m, n, 1, 2}};
  std::vector<product_schedule> all;
  const auto is_same_tile = [](const product_schedule& a, const product_schedule& b) {
    return a.tile_m == b.tile_m && a.tile_n == b.tile_n && a.subgroup_m == b.subgroup_m && a.slices == b.slices;
  };
  for (const product_schedule& each : fusion::product_schedules(arithmetic, 64, on)) {
    if (all.empty() || !is_same_tile(all.back(), each))
      all.push_back(each);
    else if (all.size() % 2 == 0)
      all.back() = each;
  }
  return all;
}

void expect_right(const operands& in, const product_schedule& s, const device_profile& on) {
  EXPECT_LE(worst_error(run(problem_of(in), s, in, on), in), allowed(s.arithmetic)) << described(s, on);
}
void expect_right(const operands& in) {
  for (const product_arithmetic arithmetic : both) {
    std::vector<product_schedule> all = schedules(arithmetic, units());
    if (arithmetic == product_arithmetic::rounded) all.resize(1);  // as split, but for what is staged
    for (const product_schedule& s : all) expect_right(in, s, units());
  }
}

// Those of a graphics processor.
TEST(kernels_cooperative, modules_of_all_schedules_are_valid) {
  device_profile on = graphics_processor();
  struct hardware {
    matrix_shape unit;
    std::uint32_t lanes;
  };
  std::vector<matmul_problem> problems;
  for (const layout lies : {layout{}, layout{true, false}, layout{false, true}, layout{true, true}})
    problems.push_back(problem_of(operands{136, 72, 200, lies, {}, {}}));
  problems.push_back(problem_of(operands{37, 29, 131, {}, {}, {}}));
  for (const auto& [unit, lanes] : {hardware{{16, 16, 16}, 32},
                                    {{16, 16, 16}, 64},
                                    {{8, 16, 16}, 16},
                                    {{8, 8, 8}, 8},
                                    {{16, 8, 8}, 32},
                                    {{32, 32, 16}, 64}}) {
    on.unit = unit, on.subgroup_size = lanes;
    for (const product_arithmetic arithmetic :
         {product_arithmetic::split, product_arithmetic::rounded, product_arithmetic::half}) {
      std::size_t made = 0, next = 0;
      for (const product_schedule& s : fusion::product_schedules(arithmetic, 200, on)) {
        const matmul_problem& p = problems[next++ % problems.size()];
        if (!kernels::cooperative_fits(p, s, on)) continue;
        ++made;
        const kernels::kernel_dispatch kernel = kernels::make_cooperative_matmul(p, s, on);
        EXPECT_LE(kernel.module.shared_bytes, fusion::shared_bytes_of(s, unit)) << described(s, on);
        if (!support::can_validate(kernel.module)) continue;  // spirv-val does not know cooperative matrices
        EXPECT_EQ(support::validation_of(kernel.module), "") << described(s, on);
      }
      EXPECT_GT(made, 0u) << unit.m << "x" << unit.n << "x" << unit.k;
    }
  }
}

// The same with a second right operand, which lies as the first does: the product of both sums of each result.
matmul_problem pair_of(const operands& in) {
  matmul_problem p = problem_of(in);
  p.offset_second = 0;
  p.epilogue = [](spirv::kernel&) {
    kernels::matmul_programs made;
    made.several = {true, [](std::span<const kernels::scalar_value> sums, const kernels::matmul_point&) {
                      using spirv::untyped::binary;
                      return std::vector{binary(spirv::untyped::binary_op::multiply, sums[0], sums[1])};
                    }};
    return made;
  };
  return p;
}

TEST(kernels_cooperative, pairs) {
  for (const bool whole : {true, false}) {
    const layout lies{false, whole};
    const operands first = random_operands(whole ? 40 : 37, whole ? 48 : 29, whole ? 72 : 51, lies);
    operands second = first;
    for (float& each : second.b) each = 1 - 3 * each;
    const device_profile on = has_units() ? units() : units({8, 8, 8});
    const auto [um, un, uk] = on.unit;
    std::vector<product_schedule> all{{product_arithmetic::split, 2 * um, 4 * un, uk, um, 2 * un, 1, 2},
                                      {product_arithmetic::split, 2 * um, 2 * un, 2 * uk, um, 2 * un, 2},
                                      {product_arithmetic::split, 2 * um, 4 * un, 2 * uk, um, un, 2}};
    if (whole) all.push_back({product_arithmetic::split, 2 * um, 2 * un, uk, um, 2 * un, 1, 1, first.k / uk});
    if (has_units()) all = fusion::product_schedules(product_arithmetic::split, first.k, on);
    for (const product_schedule& s : all) {
      if (!fusion::fits_beside(s, false, true, on)) continue;
      const std::vector<float> found = run(pair_of(first), s, first, on, &second.b);
      const std::vector<float> a = run(problem_of(first), s, first, on), b = run(problem_of(second), s, second, on);
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], a[i] * b[i]) << i << ' ' << described(s, on);
    }
  }
}

// Workgroups that each have a part of k: slices and bands, several steps on their way, results that end within a tile,
// and rows whose parts have very different factors.
TEST(kernels_cooperative, parts_of_k_meet_in_the_last_workgroup) {
  const device_profile on = has_units() ? units() : units({8, 8, 8});
  const auto [um, un, uk] = on.unit;
  for (const product_arithmetic arithmetic : both) {
    const product_schedule bands{arithmetic, 2 * um, 2 * un, uk, um, 2 * un, 1, 1, 3},
        slices{arithmetic, 2 * um, 2 * un, 2 * uk, um, 2 * un, 2, 1, 2},
        deep{arithmetic, 2 * um, 2 * un, uk, um, 2 * un, 1, 2, 2};
    for (const bool whole : {true, false}) {
      const layout lies{!whole, whole};
      operands in = random_operands(whole ? 40 : 37, whole ? 48 : 29, 12 * uk, lies);
      for (std::uint32_t t = 0; t < in.k; ++t)
        in.at_a(3, t) = std::ldexp(in.at_a(3, t), static_cast<int>(t * 96 / in.k));
      for (std::uint32_t t = 0; t + 2 < in.k; ++t) in.at_a(5, t) = 0;
      for (const product_schedule& s : {bands, slices, deep}) {
        if (has_units() || arithmetic == product_arithmetic::split || (s == bands && whole)) expect_right(in, s, on);
      }
      if (has_units() && whole) {
        std::uint32_t next = 0;
        for (product_schedule s : fusion::product_schedules(arithmetic, in.k, on)) {
          s.parts = 2 + next++ % 3;
          if (fusion::shares_terms(s, in.k, on)) expect_right(in, s, on);
        }
      }
    }
  }
}

TEST(kernels_cooperative, parts_of_k_keep_infinities_and_nan) {
  const device_profile on = has_units() ? units() : units({8, 8, 8});
  const auto [um, un, uk] = on.unit;
  operands in = random_operands(20, 20, 6 * uk);
  in.at_a(1, 3) = infinity;
  in.at_a(2, in.k - 1) = std::numeric_limits<float>::quiet_NaN();
  in.at_b(5, in.k / 2) = -infinity;
  const auto found = run(problem_of(in), {product_arithmetic::split, 2 * um, 2 * un, uk, um, 2 * un, 1, 1, 3}, in, on);
  for (std::uint32_t i = 0; i < in.m; ++i) {
    for (std::uint32_t j = 0; j < in.n; ++j) {
      double sum = 0;
      for (std::uint32_t t = 0; t < in.k; ++t)
        sum += static_cast<double>(in.at_a(i, t)) * static_cast<double>(in.at_b(j, t));
      const float x = found[i * in.n + j];
      if (std::isfinite(sum))
        EXPECT_NEAR(static_cast<double>(x), sum, 1e-4) << i << ' ' << j;
      else
        EXPECT_EQ(std::isnan(x) ? "nan" : std::to_string(x),
                  std::isnan(sum) ? "nan" : std::to_string(static_cast<float>(sum)))
            << i << ' ' << j;
    }
  }
}

TEST(kernels_cooperative, parts_are_whole_steps_of_devices_that_count_workgroups) {
  const device_profile on = graphics_processor();
  const product_schedule s{product_arithmetic::split, 32, 32, 64, 16, 16, 4, 1, 3};
  EXPECT_EQ(to_string(s), "split 32x32x64 16x16 slices 4 parts 3");
  EXPECT_TRUE(fusion::shares_terms(s, 576, on));
  for (const std::uint32_t k : {512u, 96u}) {
    EXPECT_FALSE(fusion::shares_terms(s, k, on));
    EXPECT_THROW((void)kernels::make_cooperative_matmul(problem_of(operands{64, 64, k, {}, {}, {}}), s, on), error);
  }
  device_profile without = on;
  without.device_scope = false;
  EXPECT_FALSE(fusion::shares_terms(s, 576, without));
  EXPECT_EQ(fusion::best_product({1, 128, 576, 1536}, precision::exact, without).schedule.parts, 1u);
  EXPECT_GT(fusion::best_product({1, 128, 576, 1536}, precision::exact, on).schedule.parts, 1u);
}

TEST(kernels_cooperative, pairs_take_no_more_memory_than_foretold) {
  device_profile on = graphics_processor();
  std::size_t made = 0;
  for (const layout lies : {layout{}, layout{true, false}, layout{false, true}}) {
    const matmul_problem p = pair_of(operands{136, 72, 200, lies, {}, {}});
    for (const product_arithmetic arithmetic : {product_arithmetic::split, product_arithmetic::half}) {
      for (const product_schedule& s : fusion::product_schedules(arithmetic, 200, on)) {
        if (!kernels::cooperative_fits(p, s, on) || !fusion::fits_beside(s, false, true, on)) continue;
        ++made;
        const kernels::kernel_dispatch kernel = kernels::make_cooperative_matmul(p, s, on);
        EXPECT_LE(kernel.module.shared_bytes, on.max_shared_bytes) << described(s, on);
        EXPECT_LE(kernel.module.shared_bytes, fusion::shared_bytes_of(s, on.unit) + 16 * s.tile_k * s.terms());
      }
    }
  }
  EXPECT_GT(made, 20u);
  // Where a subgroup has one column of fragments no result has both of its sums, and here they do not meet.
  const product_schedule narrow{product_arithmetic::split, 32, 32, 64, 16, 16, 1};
  EXPECT_THROW((void)kernels::make_cooperative_matmul(pair_of(operands{64, 64, 64, {}, {}, {}}), narrow, on), error);
}

// What is on offer where drivers end long loops.
TEST(kernels_cooperative, loops_of_emulated_units_are_no_longer_than_foretold) {
  device_profile on;
  on.matrix_units = matrix_units::emulated;
  on.max_shared_bytes = 49152, on.max_invocations = 1024, on.subgroup_size = 8;
  constexpr product_arithmetic all[] = {product_arithmetic::split, product_arithmetic::rounded,
                                        product_arithmetic::half};
  std::size_t too_long = 0;
  for (const matrix_shape& unit : {matrix_shape{16, 16, 16}, {8, 8, 8}, {16, 8, 8}, {32, 8, 8}}) {
    on.unit = unit;
    for (const std::uint32_t k : {1u, 33u, 300u, 2500u}) {
      const matmul_problem p = problem_of(operands{64, 64, k, {}, {}, {}});
      for (const product_arithmetic arithmetic : all) {
        on.max_loop_iterations = 0;
        const std::vector<product_schedule> every = fusion::product_schedules(arithmetic, k, on);
        on.max_loop_iterations = 65535;
        const std::vector<product_schedule> offered = fusion::product_schedules(arithmetic, k, on);
        for (const product_schedule& s : every) {
          if (s.depth > 2 || !kernels::cooperative_fits(p, s, on)) continue;
          const std::uint64_t found = kernels::make_cooperative_matmul(p, s, on).module.loop_iterations;
          const std::uint64_t foretold = fusion::detail::emulated_iterations(s, k, on);
          EXPECT_LE(found, foretold) << described(s, on) << ", " << k << " terms";
          EXPECT_LE(foretold, found + found / 8 + 10000) << described(s, on) << ", " << k << " terms";
          too_long += found > 65535 && std::ranges::find(offered, s) == offered.end();
        }
      }
    }
  }
  EXPECT_GT(too_long, 0u);
}

TEST(kernels_cooperative, whole_tiles_match_the_reference) { expect_right(random_operands(64, 64, 32)); }

TEST(kernels_cooperative, all_orders_of_operands_match_the_reference) {
  expect_right(random_operands(36, 68, 32, {true, false}));
  expect_right(random_operands(68, 36, 24, {false, true}));
  expect_right(random_operands(36, 68, 28, {true, true}));
}

TEST(kernels_cooperative, odd_sizes_match_the_reference) {
  expect_right(random_operands(37, 29, 31));
  expect_right(random_operands(37, 29, 23, {true, true}));
  expect_right(random_operands(1, 5, 3));
}

TEST(kernels_cooperative, deep_tiles_match_the_reference) {
  const operands in = random_operands(40, 33, 300);
  for (const product_arithmetic arithmetic : both) {
    for (const std::uint32_t depth : {1u, 3u, 4u})
      expect_right(in, {arithmetic, 32, 32, 96, 16, 16, 3, depth}, units());
  }
}

// Whole groups and odd sizes in all orders, a row that is looked at again; where units are emulated each time with
// another of the schedules in either precision.
TEST(kernels_cooperative, units_of_other_shapes_match_the_reference) {
  std::size_t next = 0;
  for (const device_profile& on : units_of_other_shapes()) {
    std::vector<product_schedule> all = schedules(product_arithmetic::split, on);
    for (const product_schedule& each : schedules(product_arithmetic::rounded, on)) all.push_back(each);
    for (const layout lies : {layout{}, layout{true, false}, layout{false, true}, layout{true, true}}) {
      operands in = next % 3 == 0 ? random_operands(36, 40, 36, lies) : random_operands(37, 29, 35, lies);
      in.at_a(2, in.k - 1) = 1e9f;
      if (has_units())
        for (const product_schedule& s : all) expect_right(in, s, on);
      else
        expect_right(in, all[next % all.size()], on);
      ++next;
    }
    ++next;
  }
}

// A subgroup with too many results for a second total of each: two units' products are added up before they join one.
TEST(kernels_cooperative, large_parts_of_subgroups_match_the_reference) {
  const device_profile on = has_units() ? units() : units({32, 8, 8});
  const std::uint32_t subgroup_n = has_units() ? 64 : 40;
  const product_schedule s{product_arithmetic::split, 32, subgroup_n, 4 * on.unit.k, 32, subgroup_n, 2};
  ASSERT_FALSE(s.keeps_low());
  expect_right(random_operands(40, 72, 50), s, on);
}

TEST(kernels_cooperative, rows_of_all_scales_keep_their_precision) {
  for (const layout lies : {layout{}, layout{true, true}}) {
    operands in = random_operands(40, 36, 32, lies);
    for (std::uint32_t i = 0; i < in.m; ++i) {
      for (std::uint32_t t = 0; t < in.k; ++t) in.at_a(i, t) = std::ldexp(in.at_a(i, t), static_cast<int>(i * 5) - 100);
    }
    for (std::uint32_t j = 0; j < in.n; ++j) {
      for (std::uint32_t t = 0; t < in.k; ++t) in.at_b(j, t) = std::ldexp(in.at_b(j, t), 20 - static_cast<int>(j));
    }
    expect_right(in);
  }
}

TEST(kernels_cooperative, sums_that_cancel_are_as_good_as_in_f32) {
  operands in = random_operands(32, 32, 32);
  for (std::uint32_t i = 0; i < in.m; ++i) {
    for (std::uint32_t t = 0; t < in.k; t += 2) in.at_a(i, t + 1) = -in.at_a(i, t);
  }
  for (std::uint32_t j = 0; j < in.n; ++j) {
    for (std::uint32_t t = 0; t < in.k; t += 2) in.at_b(j, t + 1) = in.at_b(j, t) * (1 + 1e-4f);
  }
  expect_right(in);
}

// Parameters are taken for what they mostly are, and other operands for what a few elements tell: not if they are not.
TEST(kernels_cooperative, parameters_of_any_size_are_as_good_as_others) {
  for (const layout lies : {layout{}, layout{true, true}}) {
    for (const int exponent : {-60, 12}) {
      operands in = random_operands(36, 33, 48, lies);
      for (std::uint32_t j = 0; j < in.n; ++j) {
        for (std::uint32_t t = 0; t < in.k; ++t)
          in.at_b(j, t) = j % 8 == 3 ? 0 : std::ldexp(in.at_b(j, t), j % 2 == 0 ? exponent : 0);
      }
      matmul_problem p = problem_of(in);
      p.parameters.b = true;
      for (const product_arithmetic arithmetic : both) {
        const product_schedule s = schedules(arithmetic, units())[0];
        EXPECT_LE(worst_error(run(p, s, in, units()), in), allowed(arithmetic)) << exponent << ", " << to_string(s);
      }
    }
  }
}
TEST(kernels_cooperative, rows_of_small_and_of_large_elements_keep_their_precision) {
  for (const layout lies : {layout{}, layout{true, true}}) {
    operands in = random_operands(36, 33, 48, lies);
    for (std::uint32_t i = 0; i < in.m; ++i) {
      for (std::uint32_t t = 0; t < in.k; ++t)
        in.at_a(i, t) = std::ldexp(in.at_a(i, t), (t < 24) == (i < 20) ? 0 : -static_cast<int>(i));
    }
    expect_right(in, schedules(product_arithmetic::split, units())[0], units());
  }
}

// What is small beside something at the row's beginning that meets zeros counts, whether all of the row is looked at or
// what comes first.
TEST(kernels_cooperative, small_elements_beside_a_large_one_keep_their_precision) {
  for (const std::uint32_t terms : {16u, 48u}) {
    operands in = random_operands(36, 33, terms);
    for (std::uint32_t i = 0; i < in.m; ++i) in.at_a(i, 5) = std::ldexp(1.0f, static_cast<int>(i) % 16);
    for (std::uint32_t j = 0; j < in.n; ++j) in.at_b(j, 5) = 0;
    operands without = in;
    for (std::uint32_t i = 0; i < in.m; ++i) without.at_a(i, 5) = 0;
    for (const product_arithmetic arithmetic : both) {
      for (const product_schedule& s : schedules(arithmetic, units())) {
        const std::vector<float> found = run(problem_of(in), s, in, units());
        EXPECT_LE(worst_error(found, without), allowed(arithmetic)) << terms << " terms, " << to_string(s);
      }
    }
  }
}

// A few elements tell of a row: what is far larger than they are, and zeros where they are.
TEST(kernels_cooperative, elements_behind_the_beginning_count) {
  for (const layout lies : {layout{}, layout{true, true}}) {
    operands in = random_operands(32, 32, 100, lies);
    std::mt19937 generator(5);
    for (std::uint32_t i = 0; i < 8; ++i)
      in.at_a(i, static_cast<std::uint32_t>(generator() % in.k)) = std::ldexp(1.0f, 20 + static_cast<int>(i));
    for (std::uint32_t i = 8; i < 20; ++i) {
      for (std::uint32_t t = 0; t < in.k; ++t) in.at_a(i, t) = 0;
      if (i > 9) in.at_a(i, i * 4) = std::ldexp(1.0f, 4 * static_cast<int>(i) - 50);
    }
    for (std::uint32_t t = 0; t + 3 < in.k; ++t) in.at_b(2, t) = 0;
    in.at_b(3, 75) = 1e9f;
    expect_right(in);
  }
}

// Rows of zeros but for one element, of any size, at the end.
TEST(kernels_cooperative, rows_that_begin_with_zeros_keep_their_precision) {
  for (const layout lies : {layout{}, layout{true, true}}) {
    operands in = random_operands(32, 32, 100, lies);
    for (std::uint32_t i = 0; i < in.m; ++i) {
      for (std::uint32_t t = 0; t < in.k; ++t) in.at_a(i, t) = 0;
      if (i > 2) in.at_a(i, in.k - 1) = std::ldexp(1.25f, 4 * static_cast<int>(i) - 125);
    }
    for (std::uint32_t j = 0; j < in.n; ++j) {
      for (std::uint32_t t = 0; t < in.k; ++t) in.at_b(j, t) = std::ldexp(in.at_b(j, t), 50);
    }
    for (std::uint32_t t = 0; t < in.k; ++t) in.at_b(4, t) = 0;
    expect_right(in);
  }
}

// What f32 arithmetic gives: infinities stay, NaN stay, numbers beside them are as good as ever.
TEST(kernels_cooperative, rows_without_a_scale_are_summed_in_f32) {
  operands in = random_operands(36, 40, 32);
  in.at_a(1, 3) = infinity;
  in.at_a(2, 0) = std::numeric_limits<float>::quiet_NaN();
  in.at_b(5, 7) = -infinity;
  for (std::uint32_t t = 0; t < in.k; ++t) {
    in.at_a(3, t) *= 1e-25f, in.at_b(4, t) = std::ldexp(in.at_b(4, t), 110);
    in.at_a(6, t) = 0;
  }
  for (const product_arithmetic arithmetic : both) {
    for (const product_schedule& s : schedules(arithmetic, units())) {
      const std::vector<float> found = run(problem_of(in), s, in, units());
      for (std::uint32_t i = 0; i < in.m; ++i) {
        for (std::uint32_t j = 0; j < in.n; ++j) {
          double sum = 0, size = 0;
          for (std::uint32_t t = 0; t < in.k; ++t) {
            const double term = static_cast<double>(in.at_a(i, t)) * static_cast<double>(in.at_b(j, t));
            sum += term, size += std::abs(term);
          }
          const float got = found[i * in.n + j];
          if (std::isnan(sum))
            EXPECT_TRUE(std::isnan(got)) << i << ", " << j << " " << got << " " << to_string(s);
          else if (std::isinf(sum))
            EXPECT_EQ(got, static_cast<float>(sum)) << i << ", " << j << " " << to_string(s);
          else
            EXPECT_NEAR(got, sum, size * allowed(arithmetic)) << i << ", " << j << " " << to_string(s);
        }
      }
    }
  }
}

TEST(kernels_cooperative, an_epilogue_sees_the_indices_of_each_result) {
  const operands in = random_operands(40, 36, 32);
  std::vector<float> bias(in.n);
  for (std::uint32_t j = 0; j < in.n; ++j) bias[j] = static_cast<float>(j);
  matmul_problem p = problem_of(in);
  p.epilogue = [](spirv::kernel& k) -> kernels::matmul_epilogue {
    const auto bias_in = k.storage_buffer<spirv::f32>("bias");
    return [=](const spirv::f32& sum, const kernels::matmul_point& at) {
      return sum + bias_in.load(at.n) + convert<spirv::f32>(at.m * 100);
    };
  };
  for (const product_schedule& s : schedules(product_arithmetic::split, units())) {
    std::vector<float> found = run(p, s, in, units(), &bias);
    for (std::uint32_t i = 0; i < in.m; ++i) {
      for (std::uint32_t j = 0; j < in.n; ++j) found[i * in.n + j] -= bias[j] + static_cast<float>(i * 100);
    }
    EXPECT_LE(worst_error(found, in), 1e-4) << to_string(s);
  }
}

// Attention scores over [batch, sequence, heads, width].
TEST(kernels_cooperative, batches_and_groups_of_axes_match_the_reference) {
  constexpr std::uint32_t batch = 2, heads = 3, sequence = 20, width = 8, whole = batch * heads * sequence;
  const matmul_problem p = support::attention_scores(batch, heads, sequence, width);
  operands in = random_operands(whole, sequence, width);  // of as many elements: a's and the result's
  in.b = random_operands(whole, 1, width).a;
  for (const product_schedule& s : schedules(product_arithmetic::split, units())) {
    const std::vector<float> found = run(p, s, in, units());
    for (std::uint32_t g = 0; g < batch * heads; ++g) {
      const std::uint32_t first = g / heads * sequence * heads * width + g % heads * width;
      for (std::uint32_t i = 0; i < sequence; ++i) {
        for (std::uint32_t j = 0; j < sequence; ++j) {
          double sum = 0, size = 0;
          for (std::uint32_t t = 0; t < width; ++t) {
            const double term = static_cast<double>(in.a[first + i * heads * width + t]) *
                                static_cast<double>(in.b[first + j * heads * width + t]);
            sum += term, size += std::abs(term);
          }
          ASSERT_NEAR(found[(g * sequence + i) * sequence + j], sum, 1e-6 * size) << to_string(s);
        }
      }
    }
  }
}

TEST(kernels_cooperative, schedules_that_do_not_fit_are_refused) {
  const matmul_problem p = problem_of(random_operands(32, 32, 32));
  const auto refused = [&](const product_schedule& s) {
    EXPECT_THROW((void)kernels::make_cooperative_matmul(p, s, units(matrix_shape{})), error) << to_string(s);
  };
  refused({});
  refused({product_arithmetic::split, 32, 32, 32, 24, 16, 1});
  refused({product_arithmetic::split, 32, 32, 32, 16, 16, 4});
  refused({product_arithmetic::split, 48, 32, 32, 32, 16, 1});
  refused({product_arithmetic::split, 64, 64, 16, 64, 64, 1});        // registers
  refused({product_arithmetic::split, 256, 256, 64, 64, 64, 1});      // workgroup memory
  refused({product_arithmetic::rounded, 16, 2048, 16, 16, 2048, 1});  // too few invocations to look at all rows
  const product_schedule small{product_arithmetic::split, 16, 16, 16, 8, 8, 2};
  refused(small);
  EXPECT_NO_THROW((void)kernels::make_cooperative_matmul(p, small, units({8, 8, 8})));
  for (const matrix_shape& unit : {matrix_shape{8, 16, 8}, {16, 8, 8}, {8, 8, 16}, {4, 8, 8}, {8, 8, 64}})
    EXPECT_THROW((void)kernels::make_cooperative_matmul(p, small, units(unit)), error);
  EXPECT_FALSE(kernels::cooperative_fits(p, {}, units()));
  EXPECT_THROW((void)kernels::make_cooperative_matmul(problem_of(random_operands(32, 0, 32)),
                                                      schedules(product_arithmetic::split, units())[0], units()),
               error);
  device_profile none = units();
  none.matrix_units = matrix_units::none;
  EXPECT_THROW((void)kernels::make_cooperative_matmul(p, schedules(product_arithmetic::split, units())[0], none),
               error);
}

}  // namespace
