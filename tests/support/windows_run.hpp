// SPDX-License-Identifier: MIT
// For the tests of products of windows: images and what they meet, such a kernel on matrix units, or on what stands in
// for them, and what its sums are compared with.
#pragma once
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/kernels/matmul_cooperative.hpp>

#include <support/device_fixture.hpp>
#include <support/product_run.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// x [images, groups, channels, height + down, width + across], and what its windows are multiplied by.
struct windows_sample {
  std::uint32_t images = 1, groups = 1, channels = 16, filters = 16, height = 5, width = 6;
  std::uint32_t taps_down = 3, taps_across = 3, dilation = 1;
  // Of a gradient of filters: results are of so many parts of each image's rows, or of each image.
  std::uint32_t parts = 1;
  bool by_image = false;
  bool bordered = false;  // by one row and column of zeros on each side, which are not in memory
  // Of a filter: filters and channels are the other way round; of its taps the last one is the first.
  bool channels_first = false, backwards = false;
  std::vector<float> x{}, others{};
  float zero = 0;

  [[nodiscard]] std::uint32_t rows() const { return height + (taps_down - 1) * dilation; }
  [[nodiscard]] std::uint32_t pitch() const { return width + (taps_across - 1) * dilation; }
  [[nodiscard]] std::uint32_t taps() const { return taps_down * taps_across; }
  [[nodiscard]] std::uint32_t terms() const { return channels * taps(); }
  [[nodiscard]] float& at_x(std::uint32_t n, std::uint32_t g, std::uint32_t c, std::uint32_t y, std::uint32_t z) {
    const std::uint32_t plane = (n * groups + g) * channels + c;
    if (!bordered) return x[(plane * rows() + y) * pitch() + z];
    if (y == 0 || z == 0 || y + 1 == rows() || z + 1 == pitch()) return zero;
    return x[(plane * (rows() - 2) + y - 1) * (pitch() - 2) + z - 1];
  }
  [[nodiscard]] zero_border border() const {
    return bordered ? zero_border{rows(), pitch(), rows() - 2, pitch() - 2, 1, 1} : zero_border{};
  }
};

/// With so many others.
inline windows_sample filled(windows_sample of, std::size_t others) {
  const std::uint32_t less = of.bordered ? 2 : 0;
  of.x.resize(std::size_t{of.images} * of.groups * of.channels * (of.rows() - less) * (of.pitch() - less));
  of.others.resize(others);
  std::mt19937 generator(of.channels * 31 + of.width);
  std::normal_distribution<float> normal;
  for (float& each : of.x) each = normal(generator);
  for (float& each : of.others) each = normal(generator);
  return of;
}

/// Of the shared device, with units of 8 x 8 x 8 that are emulated where it has none.
inline device_profile units() {
  device_profile on = shared_profile();
  if (on.matrix_units != matrix_units::cooperative) on.matrix_units = matrix_units::emulated, on.unit = {8, 8, 8};
  return on;
}

/// Of a schedule, a kernel that is valid and takes no more workgroup memory than was said.
inline kernels::kernel_dispatch valid_product(const kernels::matmul_problem& problem, const product_schedule& s,
                                              const device_profile& on) {
  kernels::kernel_dispatch made = kernels::make_cooperative_matmul(problem, s, on);
  EXPECT_EQ(validation_of(made.module), "") << to_string(s);
  EXPECT_LE(made.module.shared_bytes, fusion::shared_bytes_of(s, on.unit)) << to_string(s);
  return made;
}

/// What run_product() gives of it; `extra`: a further operand.
inline std::vector<float> run_on_units(const windows_sample& of, const kernels::matmul_problem& problem,
                                       const product_schedule& s, const fusion::product_extents& size,
                                       std::size_t results, const std::vector<float>* extra = nullptr) {
  std::vector<const std::vector<float>*> inputs{&of.others, &of.x};
  if (extra != nullptr) inputs.push_back(extra);
  return run_product(valid_product(problem, s, units()), inputs, results, fusion::scratch_of(s, size));
}

/// All that a graphics processor, which need not be here, is offered of windows.
inline void expect_offers_are_valid(const kernels::matmul_problem& problem, const fusion::product_extents& size) {
  device_profile on;
  on.matrix_units = matrix_units::cooperative;
  on.f16 = true, on.max_shared_bytes = 49152, on.max_invocations = 1024;
  for (const product_arithmetic arithmetic : {product_arithmetic::split, product_arithmetic::rounded}) {
    const auto all = fusion::window_schedules(arithmetic, size, on);
    EXPECT_GE(all.size(), 3u);
    for (const product_schedule& s : all) (void)valid_product(problem, s, on);
  }
}

/// for_each(f) calls f(result, sum, size of the vectors that were multiplied) for each result.
template <class ForEach>
void expect_sums(const std::vector<float>& found, const product_schedule& s, const ForEach& for_each) {
  double worst = 0;
  for_each([&](std::size_t at, double sum, double size) {
    const double off = std::abs(static_cast<double>(found[at]) - sum);
    const double error = size == 0 ? off : off / size;
    if (!(error <= worst)) worst = error;
  });
  EXPECT_LE(worst, s.arithmetic == product_arithmetic::split ? 5e-7 : 1e-3) << to_string(s);
}

/// The same where an epilogue added to each its number.
template <class ForEach>
void expect_numbered_sums(const std::vector<float>& found, const ForEach& for_each) {
  for_each([&](std::size_t at, double sum, double) {
    EXPECT_NEAR(static_cast<double>(found[at]), sum + static_cast<double>(at), 1e-3) << at;
  });
}
[[nodiscard]] inline std::vector<float> numbers_below(std::size_t count) {
  std::vector<float> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  return numbers;
}

/// The same where some are infinite or NaN, which they are to be then.
template <class ForEach>
void expect_sums_of_any(const std::vector<float>& found, const ForEach& for_each) {
  for_each([&](std::size_t at, double sum, double) {
    const auto x = static_cast<double>(found[at]);
    if (std::isfinite(sum))
      EXPECT_NEAR(x, sum, 1e-4) << at;
    else
      EXPECT_EQ(std::isnan(x) ? "nan" : std::to_string(x), std::isnan(sum) ? "nan" : std::to_string(sum)) << at;
  });
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
