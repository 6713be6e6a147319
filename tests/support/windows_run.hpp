// SPDX-License-Identifier: MIT
// For the tests of products of windows: such a kernel on matrix units, or on what stands in for them, and what its sums
// are compared with.
#pragma once
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/kernels/matmul_cooperative.hpp>

#include <support/device_fixture.hpp>
#include <support/product_run.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// Of the shared device, with units of 8 x 8 x 8 that are emulated where it has none.
inline device_profile units() {
  device_profile on = shared_profile();
  if (on.matrix_units != matrix_units::cooperative) on.matrix_units = matrix_units::emulated, on.unit = {8, 8, 8};
  return on;
}

/// What run_product() gives of a kernel that is valid and takes no more workgroup memory than was said.
inline std::vector<float> run_on_units(const kernels::matmul_problem& problem, const product_schedule& s,
                                       const fusion::product_extents& size,
                                       const std::vector<const std::vector<float>*>& inputs, std::size_t results) {
  const device_profile on = units();
  const kernels::kernel_dispatch made = kernels::make_cooperative_matmul(problem, s, on);
  EXPECT_EQ(validation_of(made.module), "") << to_string(s);
  EXPECT_LE(made.module.shared_bytes, fusion::shared_bytes_of(s, on.unit)) << to_string(s);
  return run_product(made, inputs, results, fusion::scratch_of(s, size));
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
