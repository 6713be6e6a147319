// SPDX-License-Identifier: MIT
// Matrix products against a double-precision reference, every tier, awkward sizes and strides.
#include <meganeura/fusion/product_tiles.hpp>
#include <meganeura/kernels/matmul.hpp>
#include <meganeura/kernels/matmul_node.hpp>

#include <support/device_fixture.hpp>
#include <support/product_run.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using kernels::matmul_axis;
using kernels::matmul_problem;
using kernels::matmul_schedule;
using kernels::matmul_tier;

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& each : values) each = normal(generator);
  return values;
}

std::uint64_t offset_over(const std::vector<matmul_axis>& axes, std::uint64_t flat,
                          std::uint32_t matmul_axis::*stride) {
  std::uint64_t sum = 0;
  for (std::size_t i = axes.size(); i-- > 0; flat /= axes[i].extent) sum += flat % axes[i].extent * (axes[i].*stride);
  return sum;
}

// Elements a buffer needs: the largest offset plus one.
std::uint64_t reach(const matmul_problem& p, std::uint32_t matmul_axis::*stride, std::uint32_t offset) {
  std::uint64_t last = offset;
  for (const auto* group : {&p.batch, &p.m, &p.n, &p.k}) {
    for (const matmul_axis& axis : *group) last += std::uint64_t{axis.extent - 1} * (axis.*stride);
  }
  return last + 1;
}

struct outcome {
  double worst = 0;                 // |error| over its bound
  std::size_t touched_outside = 0;  // elements of the result buffer written although no result belongs there
};

using host_epilogue = std::function<double(double, std::uint64_t batch, std::uint64_t m, std::uint64_t n)>;

outcome check(const matmul_problem& p, const matmul_schedule& s,
              const std::vector<const std::vector<float>*>& extra = {}, const host_epilogue& finish = {},
              const device_profile& device = support::shared_profile()) {
  const auto a = random_values(reach(p, &matmul_axis::stride_a, p.offset_a), 1);
  const auto b = random_values(reach(p, &matmul_axis::stride_b, p.offset_b), 2);
  std::vector<const std::vector<float>*> inputs{&a, &b};
  inputs.insert(inputs.end(), extra.begin(), extra.end());
  const std::size_t results = reach(p, &matmul_axis::stride_out, p.offset_out);
  const auto found = support::run_product(kernels::make_matmul(p, s, device), inputs, results);

  outcome result;
  std::vector<bool> expected(results, false);
  const std::uint64_t k_count = extent_of(p.k);
  for (std::uint64_t batch = 0; batch < extent_of(p.batch); ++batch) {
    for (std::uint64_t m = 0; m < extent_of(p.m); ++m) {
      for (std::uint64_t n = 0; n < extent_of(p.n); ++n) {
        const std::uint64_t a0 = p.offset_a + offset_over(p.batch, batch, &matmul_axis::stride_a) +
                                 offset_over(p.m, m, &matmul_axis::stride_a);
        const std::uint64_t b0 = p.offset_b + offset_over(p.batch, batch, &matmul_axis::stride_b) +
                                 offset_over(p.n, n, &matmul_axis::stride_b);
        double sum = 0;
        double size = 0;
        for (std::uint64_t k = 0; k < k_count; ++k) {
          const double term = static_cast<double>(a[a0 + offset_over(p.k, k, &matmul_axis::stride_a)]) *
                              static_cast<double>(b[b0 + offset_over(p.k, k, &matmul_axis::stride_b)]);
          sum += term;
          size += std::abs(term);
        }
        const std::uint64_t at = p.offset_out + offset_over(p.batch, batch, &matmul_axis::stride_out) +
                                 offset_over(p.m, m, &matmul_axis::stride_out) +
                                 offset_over(p.n, n, &matmul_axis::stride_out);
        const double wanted = finish ? finish(sum, batch, m, n) : sum;
        // f32 summation in any order: at most k roundings of partial sums bounded by the sum of magnitudes.
        const double bound = (static_cast<double>(k_count) + 4) * 6e-8 * (size + std::abs(wanted));
        const double error = std::abs(static_cast<double>(found[at]) - wanted);
        result.worst = error <= bound ? std::max(result.worst, error / bound)
                                      : std::max(result.worst, std::isnan(error) ? 1e30 : error / bound);
        expected[at] = true;
      }
    }
  }
  for (std::size_t i = 0; i < results; ++i) result.touched_outside += !expected[i] && !std::isnan(found[i]);
  return result;
}

// Row-major [m, k] x [k, n] and its transposes; padding makes rows longer than they need be.
matmul_problem plain(std::uint32_t m, std::uint32_t n, std::uint32_t k, bool transpose_a = false,
                     bool transpose_b = false, std::uint32_t batch = 1) {
  matmul_problem p;
  p.batch = {{batch, m * k, n * k, m * n}};
  p.m = {{m, transpose_a ? 1 : k, 0, n}};
  p.n = {{n, 0, transpose_b ? k : 1, 1}};
  p.k = {{k, transpose_a ? m : 1, transpose_b ? 1 : n, 0}};
  return p;
}

// Small ones: a software driver takes half a second to compile a large unrolled tile.
std::vector<matmul_schedule> schedules() {
  return {{},
          {matmul_tier::tiled, 32, 32, 4, 4, 4, 4, 2, false},
          {matmul_tier::tiled, 16, 64, 8, 4, 8, 2, 1, false},
          {matmul_tier::tiled, 16, 16, 4, 4, 4, 16, 1, false},
          {matmul_tier::registers, 0, 0, 4, 8, 4, 1, 1, false}};
}

void expect_right(const matmul_problem& p) {
  auto all = schedules();
  const device_profile on{.max_texel_elements = 65536};
  if (kernels::detail::fits_texels(p, true, on) && kernels::detail::fits_texels(p, false, on)) {
    all.push_back({matmul_tier::registers, 0, 0, 4, 8, 4, 1, 1, true});
    all.push_back({matmul_tier::registers, 0, 0, 4, 16, 4, 1, 1, true});
  }
  for (const auto& s : all) {
    const outcome found = check(p, s);
    EXPECT_LE(found.worst, 1.0) << s.label();
    EXPECT_EQ(found.touched_outside, 0u) << s.label();
  }
}

// Graphics processors of the device's subgroups, of many multiprocessors and of few, and the least that Vulkan
// guarantees, which has no arithmetic of subgroups.
std::vector<device_profile> targets_of_vectors() {
  std::vector<device_profile> all = support::all_targets();
  all[0] = all[1];
  all[0].compute_units = 132, all[1].compute_units = 2;
  for (device_profile& each : all) each.parallel = true;
  return all;
}

void expect_right_vectors(const matmul_problem& p, const std::vector<const std::vector<float>*>& extra = {},
                          const host_epilogue& finish = {}) {
  for (const device_profile& on : targets_of_vectors()) {
    const matmul_schedule s = choose_matmul(on, p);
    EXPECT_EQ(s.tier, matmul_tier::vectors) << s.label();
    const auto made = kernels::make_matmul(p, s, on);
    EXPECT_EQ(support::validation_of(made.module), "") << s.label();
    EXPECT_LE(made.module.shared_bytes, on.max_shared_bytes) << s.label();
    const outcome found = check(p, s, extra, finish, on);
    EXPECT_LE(found.worst, 1.0) << s.label();
    EXPECT_EQ(found.touched_outside, 0u) << s.label();
  }
}

TEST(kernels_matmul, sizes_of_one_are_products_too) {
  expect_right(plain(1, 1, 1));
  expect_right(plain(1, 37, 5));
  expect_right(plain(41, 1, 8));
}

TEST(kernels_matmul, prime_sizes_match_the_reference) { expect_right(plain(67, 43, 29)); }

TEST(kernels_matmul, transposed_operands_match_the_reference) {
  expect_right(plain(68, 36, 44, true, false));
  expect_right(plain(36, 68, 44, false, true));
  expect_right(plain(68, 36, 47, true, true));
  expect_right(plain(68, 36, 47, true, false));
}

// Eight invocations that multiply the same rows load them together: fours along k or along rows, or single numbers;
// the last of columns and of rows for fewer than a workgroup.
TEST(kernels_matmul, rows_that_a_subgroup_shares_match_the_reference) {
  device_profile on = support::shared_profile();
  for (const std::uint32_t rows : {4u, 8u, 16u}) {
    for (const std::uint32_t slices : {1u, 2u}) {
      const matmul_schedule s{matmul_tier::registers, 0, 0, 4, rows, 4, slices, 1, true};
      for (const matmul_problem& p : {plain(37, 36, 44), plain(36, 68, 44, true), plain(37, 36, 47),
                                      plain(20, 40, 12, true, true, 3), plain(64, 32, 8)}) {
        on.max_texel_elements = 65536;
        if (!fusion::shares_rows(36, 4, on)) GTEST_SKIP() << "of subgroups of eight, which shuffle";
        const outcome found = check(p, s, {}, {}, on);
        EXPECT_LE(found.worst, 1.0) << s.label();
        EXPECT_EQ(found.touched_outside, 0u) << s.label();
      }
    }
  }
  on.max_texel_elements = 500;  // the left operand is too long for texels
  const outcome found = check(plain(48, 32, 60), {matmul_tier::registers, 0, 0, 4, 16, 4, 1, 1, true}, {}, {}, on);
  EXPECT_LE(found.worst, 1.0);
}

TEST(kernels_matmul, whole_tiles_match_the_reference) { expect_right(plain(64, 96, 32, false, true)); }

// What GPUs run; compiling these for a CPU takes seconds each, so they see one problem with an edge on every side.
TEST(kernels_matmul, large_tiles_match_the_reference) {
  const matmul_problem p = plain(140, 132, 44, false, true);
  for (const matmul_schedule& s : {matmul_schedule{matmul_tier::tiled, 128, 128, 8, 8, 8, 1, 2, false},
                                   matmul_schedule{matmul_tier::tiled, 64, 64, 8, 8, 8, 4, 1, false},
                                   matmul_schedule{matmul_tier::tiled, 8, 8, 8, 4, 4, 32, 1, false},
                                   matmul_schedule{matmul_tier::registers, 0, 0, 4, 16, 8, 1, 1, true}}) {
    const outcome found = check(p, s);
    EXPECT_LE(found.worst, 1.0) << s.label();
    EXPECT_EQ(found.touched_outside, 0u) << s.label();
  }
}

TEST(kernels_matmul, every_candidate_runs_and_the_first_is_the_choice) {
  const matmul_problem p = plain(20, 24, 16, false, true);
  device_profile device;
  device.max_invocations = 1024;
  device.max_texel_elements = 65536;
  device.prefers_texel_buffers = true;
  const auto all = kernels::matmul_candidates(device, p);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front().label(), choose_matmul(device, p).label());
  for (const auto& s : all) EXPECT_LE(check(p, s).worst, 1.0) << s.label();
}

TEST(kernels_matmul, one_to_eight_rows_match_the_reference) {
  for (const std::uint32_t rows : {1u, 2u, 3u, 5u, 8u}) {
    for (const bool along_k : {true, false}) {
      expect_right_vectors(plain(rows, 76, 160, false, along_k));
      expect_right_vectors(plain(61, rows, 72, along_k, true));
    }
  }
}

TEST(kernels_matmul, few_rows_of_odd_sizes_match_the_reference) {
  for (const bool along_k : {true, false}) {
    for (const std::uint32_t k : {1u, 3u, 577u}) {
      for (const std::uint32_t n : {1u, 7u, 33u}) expect_right_vectors(plain(3, n, k, k == 3, along_k));
    }
  }
  matmul_problem p = plain(2, 40, 24, false, true);  // fours of one operand, single elements of the other
  p.offset_b = 1;
  expect_right_vectors(p);
  p = plain(4, 24, 20, true, false);  // both along their rows
  p.offset_out = 3;
  expect_right_vectors(p);
}

TEST(kernels_matmul, batches_of_few_rows_match_the_reference) {
  expect_right_vectors(plain(2, 20, 48, false, true, 5));
  expect_right_vectors(plain(1, 20, 48, false, false, 5));
  matmul_problem p = plain(1, 24, 12, false, true, 3);
  p.batch[0].stride_b = 0;
  expect_right_vectors(p);
  expect_right_vectors(support::attention_scores(2, 3, 7, 8));
}

TEST(kernels_matmul, every_candidate_for_few_rows_computes_the_same) {
  const device_profile on = targets_of_vectors().front();
  for (const bool along_k : {true, false}) {
    const matmul_problem p = plain(2, 28, 132, false, along_k);
    const auto all = kernels::matmul_candidates(on, p);
    EXPECT_EQ(all.front(), choose_matmul(on, p));
    for (const matmul_schedule& s : all) {
      if (s.tier != matmul_tier::vectors) continue;
      EXPECT_LE(check(p, s, {}, {}, on).worst, 1.0) << s.label();
    }
  }
}

// All terms near one: a running total would lose what is below its last bit, two thousand times the bound here.
TEST(kernels_matmul, long_sums_of_few_rows_keep_their_terms) {
  constexpr std::uint32_t length = 200'000;
  std::vector<float> a(2 * std::size_t{length}), b(3 * std::size_t{length}, 1.0f);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = 1.0f + static_cast<float>(i % 7) * 1e-3f;
  for (const bool along_k : {true, false}) {
    const matmul_problem p = plain(2, 3, length, false, along_k);
    for (const device_profile& on : targets_of_vectors()) {
      const auto made = kernels::make_best_matmul(p, on);
      EXPECT_TRUE(kernels::within_loop_limit(made.module, on));
      const auto found = support::run_product(made, {&a, &b}, 6);
      for (std::size_t i = 0; i < 6; ++i) {
        double sum = 0;
        for (std::size_t k = 0; k < length; ++k) sum += static_cast<double>(a[i / 3 * length + k]);
        EXPECT_NEAR(static_cast<double>(found[i]) / sum, 1.0, 2e-6) << i;
      }
    }
  }
}

TEST(kernels_matmul, infinities_and_nan_reach_the_results_of_few_rows_and_no_others) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const bool along_k : {true, false}) {
    const matmul_problem p = plain(2, 9, 37, false, along_k);
    std::vector<float> a(2 * 37, 1.0f), b(9 * 37, 1.0f);
    b[along_k ? 4 * 37 + 36 : 36 * 9 + 4] = infinity;                   // the last term of column 4
    b[along_k ? 7 * 37 : 7] = std::numeric_limits<float>::quiet_NaN();  // the first of column 7
    a[37] = -1;
    for (const device_profile& on : targets_of_vectors()) {
      const auto found = support::run_product(kernels::make_matmul(p, choose_matmul(on, p), on), {&a, &b}, 18);
      for (std::size_t i = 0; i < 18; ++i) {
        const float wanted = i % 9 == 4 ? infinity : i < 9 ? 37.0f : 35.0f;
        EXPECT_TRUE(i % 9 == 7 ? std::isnan(found[i]) : found[i] == wanted) << i << ": " << found[i];
      }
    }
  }
}

TEST(kernels_matmul, few_rows_fill_the_device_with_lanes_that_have_terms) {
  const device_profile on;
  for (const std::int64_t rows : {1, 8}) {
    for (const std::int64_t columns : {1, 64, 576, 4096, 49152}) {
      for (const std::int64_t k : {1, 64, 576, 4096, 200'000}) {
        for (const bool along_k : {true, false}) {
          const auto tiles = fusion::tiles_of_vectors({1, rows, columns, k}, along_k, on);
          const std::int64_t invocations = tiles.lanes * tiles.beside;
          EXPECT_LE(4 * (tiles.lanes / 2), k + 3) << columns << " " << k;
          EXPECT_TRUE(invocations >= 32 && invocations <= (std::min(rows, columns) == 1 ? 512 : 256))
              << columns << " " << k;
          EXPECT_TRUE(along_k || tiles.columns * tiles.beside >= 8) << columns << " " << k;
        }
      }
    }
  }
  EXPECT_EQ(fusion::tiles_of_vectors({1, 1, 576, 576}, true, on).columns, 1);
  EXPECT_EQ(fusion::tiles_of_vectors({1, 1, 49152, 576}, true, on).columns, 4);
}

TEST(kernels_matmul, few_rows_or_columns_are_vectors_on_parallel_devices_only) {
  device_profile on;
  const auto tier = [&](std::uint32_t m, std::uint32_t n) { return choose_matmul(on, plain(m, n, 576)).tier; };
  EXPECT_EQ(tier(1, 576), matmul_tier::vectors);
  EXPECT_EQ(tier(8, 49152), matmul_tier::vectors);
  EXPECT_EQ(tier(576, 3), matmul_tier::vectors);
  EXPECT_EQ(tier(9, 576), matmul_tier::tiled);
  EXPECT_EQ(tier(128, 576), matmul_tier::tiled);
  on.parallel = false;
  EXPECT_EQ(tier(1, 576), matmul_tier::tiled);
  on.prefers_texel_buffers = true;
  EXPECT_EQ(tier(8, 576), matmul_tier::registers);
}

TEST(kernels_matmul, candidates_respect_the_limits_of_the_device) {
  device_profile device;
  device.max_shared_bytes = 16384;
  device.max_invocations = 128;
  for (const auto& s : kernels::matmul_candidates(device, plain(512, 512, 512))) {
    EXPECT_LE(kernels::make_matmul(plain(512, 512, 512), s, device).module.shared_bytes, 16384u);
    EXPECT_LE(s.invocations(), 128u);
  }
}

TEST(kernels_matmul, operands_of_more_texels_than_the_device_views_are_storage_buffers) {
  device_profile device;
  device.prefers_texel_buffers = true;
  device.max_texel_elements = 65536;
  EXPECT_TRUE(choose_matmul(device, plain(512, 512, 512, false, true)).texels) << "65,536 texels each";
  EXPECT_FALSE(choose_matmul(device, plain(513, 512, 512, false, true)).texels);
}

TEST(kernels_matmul, axes_that_31_bits_do_not_count_are_refused) {
  matmul_problem p = plain(4, 4, 4);
  p.k = {{65536, 0, 0, 0}, {65536, 0, 0, 0}};  // one element read 2^32 times
  try {
    (void)kernels::make_matmul(p, choose_matmul({}, p), {});
    FAIL();
  } catch (const error& problem) {
    EXPECT_EQ(problem.category(), error_category::unsupported);
  }
}

// Extents of a node have 64 bits, those of its kernels 32.
TEST(kernels_matmul, sums_that_32_bits_would_shorten_are_refused) {
  const dtype types[] = {dtype::f32, dtype::f32};
  for (const std::int64_t extent : {(std::int64_t{1} << 32) + 3, std::int64_t{1} << 33, std::int64_t{1} << 31}) {
    matmul_attribute node;
    node.space = {4, 4, extent};
    node.m_axes = node.n_axes = node.k_axes = 1;
    try {
      (void)kernels::make_matmul_problem(node, types, dtype::f32);
      ADD_FAILURE() << "accepted: " << extent;
    } catch (const error& problem) {
      EXPECT_EQ(problem.category(), error_category::unsupported);
      EXPECT_NE(std::string(problem.what()).find(std::to_string(extent)), std::string::npos) << problem.what();
    }
  }
}

// Gradients of weights over a short batch, on 132 multiprocessors.
TEST(kernels_matmul, large_tiles_are_for_long_sums) {
  const auto side = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    return fusion::tiles_of_product(1, m, n, k, 132).side;
  };
  EXPECT_EQ(side(576, 576, 128), 32);
  EXPECT_EQ(side(576, 576, 4096), 64);
  EXPECT_EQ(side(1536, 576, 128), 64);
  EXPECT_EQ(side(49152, 576, 128), 128);
}

TEST(kernels_matmul, a_device_of_the_least_limits_still_gets_tiles) {
  device_profile device;
  device.max_shared_bytes = 16384;
  device.max_invocations = 128;
  EXPECT_EQ(choose_matmul(device, plain(512, 512, 512)).tier, matmul_tier::tiled);
}

TEST(kernels_matmul, the_choice_shrinks_tiles_until_the_device_is_occupied) {
  const device_profile device{.max_shared_bytes = 49152, .max_invocations = 1024, .compute_units = 132};
  const auto side = [&](std::uint32_t m, std::uint32_t n, std::uint32_t k) {
    return choose_matmul(device, plain(m, n, k, false, true)).tile_m;
  };
  EXPECT_EQ(side(4096, 4096, 4096), 128u);
  EXPECT_EQ(side(1024, 1024, 1024), 64u);
  EXPECT_EQ(side(128, 576, 576), 32u);
  EXPECT_EQ(side(256, 256, 256), 16u);
  EXPECT_EQ(side(64, 128, 784), 8u);
  EXPECT_EQ(side(32, 10, 128), 16u);  // too short a sum for 32 slices
}

// The gradient of a linear layer's weight: dY [batch, m] and X [batch, n], the sum runs over the batch.
TEST(kernels_matmul, a_weight_gradient_loads_both_operands_in_fours_along_their_rows) {
  const matmul_problem p = plain(128, 784, 32, true, false);
  for (const bool is_a : {true, false}) {
    EXPECT_EQ(kernels::detail::plan_operand(p, is_a).width, 4u);
    EXPECT_FALSE(kernels::detail::plan_operand(p, is_a).along_k);
  }
  expect_right(plain(36, 52, 8, true, false));
}

TEST(kernels_matmul, long_sums_match_the_reference) { expect_right(plain(20, 24, 784, false, true)); }

TEST(kernels_matmul, batches_match_the_reference) { expect_right(plain(20, 12, 16, false, false, 5)); }

TEST(kernels_matmul, a_transposed_result_matches_the_reference) {
  matmul_problem p = plain(36, 20, 12);
  p.m[0].stride_out = 1;
  p.n[0].stride_out = 36;
  expect_right(p);
}

TEST(kernels_matmul, groups_of_several_axes_match_the_reference) {
  expect_right(support::attention_scores(2, 3, 10, 8));
  // Back from scores: k runs over two axes, of which one operand is transposed.
  matmul_problem q;
  q.m = {{6, 4, 0, 20}, {4, 1, 0, 5}};
  q.n = {{5, 0, 1, 1}};
  q.k = {{7, 24, 35, 0}, {3, 200, 5, 0}};
  q.offset_a = 3;
  q.offset_out = 2;
  expect_right(q);
}

TEST(kernels_matmul, a_repeated_operand_has_stride_zero) {
  matmul_problem p = plain(24, 16, 12, false, true, 3);
  p.batch[0].stride_b = 0;
  expect_right(p);
}

TEST(kernels_matmul, values_past_the_end_of_k_are_not_multiplied) {
  // b holds infinities right behind its rows; a zero of padding times them would be NaN.
  matmul_problem p = plain(8, 8, 5, false, true);
  p.n[0].stride_b = 8;
  auto a = random_values(40, 1);
  std::vector<float> b(64, std::numeric_limits<float>::infinity());
  for (std::size_t n = 0; n < 8; ++n) {
    for (std::size_t k = 0; k < 5; ++k) b[n * 8 + k] = 1.0f;
  }
  auto all = schedules();
  const device_profile on = targets_of_vectors().front();
  all.push_back(choose_matmul(on, p));
  for (const auto& s : all) {
    const auto found = support::run_product(kernels::make_matmul(p, s, on), {&a, &b}, 64);
    for (const float each : found) EXPECT_TRUE(std::isfinite(each)) << s.label();
  }
}

TEST(kernels_matmul, an_epilogue_sees_the_indices_of_each_result) {
  matmul_problem p = plain(21, 12, 16, false, true, 2);
  const auto bias = random_values(12, 3);
  const auto residual = random_values(2 * 21 * 12, 4);
  p.epilogue = [](spirv::kernel& k) -> kernels::matmul_epilogue {
    const auto bias_in = k.storage_buffer<spirv::f32>("bias");
    const auto residual_in = k.storage_buffer<spirv::f32>("residual");
    return [=](const spirv::f32& sum, const kernels::matmul_point& at) {
      return (sum + bias_in.load(at.n)) * 0.5f + residual_in.load(at.offset) +
             convert<spirv::f32>(at.m + at.batch * 100);
    };
  };
  const host_epilogue finish = [&](double sum, std::uint64_t batch, std::uint64_t m, std::uint64_t n) {
    return (sum + static_cast<double>(bias[n])) * 0.5 + static_cast<double>(residual[(batch * 21 + m) * 12 + n]) +
           static_cast<double>(m + batch * 100);
  };
  for (const auto& s : schedules()) {
    const outcome found = check(p, s, {&bias, &residual}, finish);
    EXPECT_LE(found.worst, 1.0) << s.label();
  }
  for (const bool along_k : {true, false}) {
    matmul_problem few = plain(5, 12, 16, false, along_k, 2);
    few.epilogue = p.epilogue;
    const host_epilogue own = [&](double sum, std::uint64_t batch, std::uint64_t m, std::uint64_t n) {
      return (sum + static_cast<double>(bias[n])) * 0.5 + static_cast<double>(residual[(batch * 5 + m) * 12 + n]) +
             static_cast<double>(m + batch * 100);
    };
    expect_right_vectors(few, {&bias, &residual}, own);
  }
}

TEST(kernels_matmul, schedules_that_do_not_fit_are_refused) {
  const matmul_problem p = plain(8, 8, 5);
  EXPECT_THROW((void)kernels::make_matmul(p, {matmul_tier::registers, 0, 0, 4, 8, 8, 1, 1, true}), error);
  EXPECT_THROW((void)kernels::make_matmul(p, {matmul_tier::tiled, 64, 64, 6, 4, 4, 1, 1, false}), error);
  EXPECT_THROW((void)kernels::make_matmul(p, {matmul_tier::tiled, 128, 128, 64, 8, 8, 1, 2, false}), error);
  EXPECT_THROW((void)kernels::make_matmul(plain(0, 8, 5), {}), error);
  EXPECT_THROW((void)kernels::make_matmul(plain(9, 12, 5), {matmul_tier::vectors, 9, 4, 1, 9, 4}), error);
  EXPECT_THROW((void)kernels::make_matmul(plain(8, 12, 5), {matmul_tier::vectors, 4, 4, 1, 4, 4}), error);
  EXPECT_THROW((void)kernels::make_matmul(plain(8, 12, 8), {matmul_tier::vectors, 8, 4, 1, 8, 4}), error);
}

}  // namespace
