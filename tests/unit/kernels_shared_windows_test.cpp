// SPDX-License-Identifier: MIT
// Products of windows that share elements, on matrix units or on what stands in for them, against a double-precision
// reference.
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/kernels/matmul_cooperative.hpp>
#include <meganeura/kernels/shared_windows.hpp>

#include <support/windows_run.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace {

using namespace meganeura;
using kernels::matmul_problem;
using support::units;

// Of x and a filter [groups, filters, channels, taps, taps] or with filters and channels the other way round; result
// [images, groups, filters, height, width].
using windows = support::windows_sample;

std::uint32_t results(const windows& of) { return of.images * of.groups * of.filters * of.height * of.width; }
std::size_t weight(const windows& of, std::uint32_t g, std::uint32_t o, std::uint32_t c, std::uint32_t ty,
                   std::uint32_t tx) {
  const std::uint32_t row =
      of.channels_first ? (g * of.channels + c) * of.filters + o : (g * of.filters + o) * of.channels + c;
  const std::uint32_t tap = ty * of.taps_across + tx;
  return row * of.taps() + (of.backwards ? of.taps() - 1 - tap : tap);
}
windows filled(const windows& of) { return support::filled(of, std::size_t{of.groups} * of.filters * of.terms()); }

matmul_problem problem_of(const windows& of) {
  const std::uint32_t plane = of.rows() * of.pitch(), image = of.height * of.width, taps = of.taps();
  const std::uint32_t filter = of.channels_first ? taps : of.terms(),
                      channel = of.channels_first ? of.filters * taps : taps;
  matmul_problem p;
  p.batch = {{of.groups, of.filters * of.terms(), of.channels * plane, of.filters * image}};
  p.m = {{of.filters, filter, 0, image}};
  p.n = {{of.images, 0, of.groups * of.channels * plane, of.groups * of.filters * image},
         {of.height, 0, of.pitch(), of.width},
         {of.width, 0, 1, 1}};
  p.border = of.border();
  const std::uint32_t step = of.backwards ? ~0u : 1;  // which is -1
  if (of.backwards) p.offset_a = taps - 1;
  p.k = {{of.channels, channel, plane, 0},
         {of.taps_down, of.taps_across * step, of.dilation * of.pitch(), 0},
         {of.taps_across, step, of.dilation, 0}};
  return p;
}

fusion::product_extents extents_of(const windows& of) {
  fusion::product_extents p{of.groups, of.filters, of.images * of.height * of.width, of.terms()};
  p.windows = kernels::detail::windows_of(problem_of(of));
  return p;
}

product_schedule with(product_schedule s, const windows& of, std::uint32_t taps, std::uint32_t parts = 1) {
  s.places = place_axes::columns, s.taps = taps, s.parts = parts,
  s.reach = static_cast<std::uint32_t>(extents_of(of).windows.reach);
  return s;
}

std::vector<float> run(const windows& of, const product_schedule& s, const matmul_problem& p,
                       const std::vector<float>* extra = nullptr) {
  return support::run_on_units(of, p, s, extents_of(of), results(of), extra);
}

// f(result, sum, magnitude of its terms' squares) of each.
template <class Function>
void for_each_result(windows of, const Function& f) {
  std::size_t at = 0;
  for (std::uint32_t n = 0; n < of.images; ++n) {
    for (std::uint32_t g = 0; g < of.groups; ++g) {
      for (std::uint32_t o = 0; o < of.filters; ++o) {
        for (std::uint32_t y = 0; y < of.height; ++y) {
          for (std::uint32_t z = 0; z < of.width; ++z) {
            double sum = 0, of_x = 0, of_filter = 0;
            for (std::uint32_t t = 0; t < of.terms(); ++t) {
              const std::uint32_t c = t / of.taps(), ty = t / of.taps_across % of.taps_down, tx = t % of.taps_across;
              const double a = of.others[weight(of, g, o, c, ty, tx)];
              const double b = of.at_x(n, g, c, y + ty * of.dilation, z + tx * of.dilation);
              sum += a * b, of_filter += a * a, of_x += b * b;
            }
            f(at++, sum, std::sqrt(of_x * of_filter));
          }
        }
      }
    }
  }
}

void expect_right(const windows& of, const product_schedule& s) {
  support::expect_sums(run(of, s, problem_of(of)), s, [&](const auto& f) { for_each_result(of, f); });
}

product_schedule small(product_arithmetic arithmetic, std::uint32_t slices = 1) {
  const auto [m, n, k] = units().unit;
  return {arithmetic, 2 * m, 2 * n, slices * k, m, n, slices};
}

TEST(kernels_shared_windows, share_elements) {
  const windows squares = filled({.images = 3, .channels = 32, .filters = 37, .height = 5, .width = 11});
  expect_right(squares, with(small(product_arithmetic::rounded), squares, 3));
  expect_right(squares, with(small(product_arithmetic::split), squares, 3));
  expect_right(squares, with(small(product_arithmetic::rounded, 2), squares, 9));
  if (units().device_scope) expect_right(squares, with(small(product_arithmetic::split), squares, 3, 2));
}

TEST(kernels_shared_windows, may_be_of_groups_dilated_or_of_one_row) {
  const windows groups = filled({.images = 2, .groups = 2, .height = 4, .width = 5, .dilation = 2});
  expect_right(groups, with(small(product_arithmetic::split), groups, 3));
  const windows row = filled({.images = 2, .height = 1, .width = 37, .taps_down = 1, .taps_across = 5});
  expect_right(row, with(small(product_arithmetic::split), row, 5));
  const windows column = filled({.height = 7, .width = 9, .taps_down = 3, .taps_across = 1});
  expect_right(column, with(small(product_arithmetic::rounded), column, 3));
}

// As gradients of images read it, and with rows of a scale that one power of two does not do for.
TEST(kernels_shared_windows, may_meet_a_filter_that_lies_otherwise) {
  windows of = filled({.images = 2, .filters = 40, .height = 4, .width = 5, .channels_first = true, .backwards = true});
  expect_right(of, with(small(product_arithmetic::split), of, 3));
  for (std::uint32_t t = 0; t < of.terms(); ++t) of.others[weight(of, 0, 3, t / 9, t % 9 / 3, t % 3)] *= 1e-12f;
  expect_right(of, with(small(product_arithmetic::rounded), of, 3));

  // Filters innermost, in groups of four.
  windows fours = filled({.images = 2, .filters = 40, .height = 4, .width = 5});
  matmul_problem p = problem_of(fours);
  const std::vector<float> usual = fours.others;
  p.m[0].stride_a = 1, p.offset_a = 8 * 40;
  p.k[0].stride_a = 9 * 40, p.k[1].stride_a = ~(3 * 40) + 1, p.k[2].stride_a = ~40u + 1;
  for (std::uint32_t o = 0; o < 40; ++o) {
    for (std::uint32_t c = 0; c < 16; ++c) {
      for (std::uint32_t t = 0; t < 9; ++t) fours.others[(c * 9 + 8 - t) * 40 + o] = usual[(o * 16 + c) * 9 + t];
    }
  }
  for (float& each : fours.others) each *= 1e-9f;
  const std::vector<float> found = run(fours, with(small(product_arithmetic::split), fours, 3), p);
  fours.others = usual;
  for_each_result(fours, [&](std::size_t at, double sum, double size) {
    EXPECT_NEAR(1e9 * static_cast<double>(found[at]), sum, 5e-7 * size) << at;
  });
}

TEST(kernels_shared_windows, may_stand_in_a_border_that_is_not_in_memory) {
  windows of = filled({.images = 2, .groups = 2, .filters = 20, .height = 4, .width = 5, .bordered = true});
  expect_right(of, with(small(product_arithmetic::split), of, 3));
  for (std::size_t i = 0; i < of.x.size() / 3; ++i) of.x[i] *= 1e-11f;
  of.at_x(1, 1, 3, 2, 2) = 1e20f;
  expect_right(of, with(small(product_arithmetic::split), of, 9));
}

// What one power of two does not do for is computed row by row, and with infinities and NaN one by one.
TEST(kernels_shared_windows, have_any_scale) {
  windows of = filled({.images = 2, .filters = 20, .height = 4, .width = 5});
  for (std::uint32_t t = 0; t < of.terms(); ++t)
    of.others[3 * of.terms() + t] *= 1e-9f, of.others[7 * of.terms() + t] *= 1e12f;
  for (std::size_t i = of.x.size() / 2; i < of.x.size(); ++i) of.x[i] *= 1e-7f;
  expect_right(of, with(small(product_arithmetic::split), of, 3));

  windows odd = filled({.images = 2, .filters = 20, .height = 4, .width = 5});
  odd.at_x(1, 0, 3, 2, 2) = std::numeric_limits<float>::infinity();
  odd.at_x(0, 0, 15, 5, 6) = std::numeric_limits<float>::quiet_NaN();
  const product_schedule s = with(small(product_arithmetic::split), odd, 3);
  const std::vector<float> found = run(odd, s, problem_of(odd));
  support::expect_sums_of_any(found, [&](const auto& f) { for_each_result(odd, f); });
}

TEST(kernels_shared_windows, epilogues_see_windows) {
  const windows of = filled({.images = 2, .filters = 20, .height = 4, .width = 5});
  const std::vector<float> added = support::numbers_below(results(of));
  matmul_problem p = problem_of(of);
  p.epilogue = [&](spirv::kernel& k) -> kernels::matmul_programs {
    const auto extra = k.storage_buffer<spirv::f32>("extra");
    const std::uint32_t image = of.height * of.width;
    return kernels::matmul_epilogue([=](const spirv::f32& sum, const kernels::matmul_point& at) {
      return sum + extra.load((at.n / image * of.filters + at.m) * image + at.n % image);
    });
  };
  const std::vector<float> found = run(of, with(small(product_arithmetic::split), of, 3), p, &added);
  support::expect_numbered_sums(found, [&](const auto& f) { for_each_result(of, f); });
}

TEST(kernels_shared_windows, on_offer_are_valid) {
  const windows of{.images = 4, .channels = 64, .filters = 64, .height = 56, .width = 56};
  support::expect_offers_are_valid(problem_of(of), extents_of(of));
}

TEST(kernels_shared_windows, schedules_that_do_not_fit_are_refused) {
  const windows of{.channels = 16};
  const auto refused = [&](const product_schedule& s) {
    EXPECT_THROW((void)kernels::make_cooperative_matmul(problem_of(of), s, units()), error) << to_string(s);
  };
  product_schedule longer = with(small(product_arithmetic::rounded, 1), of, 3);
  longer.tile_k = 3 * units().unit.k;  // channels that do not divide all
  refused(longer);
  refused(with(small(product_arithmetic::rounded), of, 4));
  product_schedule s = with(small(product_arithmetic::rounded), of, 3);
  s.reach += 1;
  refused(s);
}

TEST(kernels_shared_windows, are_found_by_their_strides) {
  const windows of{.images = 3, .channels = 32, .height = 4, .width = 7, .dilation = 2};
  const fusion::product_windows found = extents_of(of).windows;
  EXPECT_EQ(found, (fusion::product_windows{3, 4, 7, 11, 9, 3, 4 * 11 + 4, place_axes::columns}));
  EXPECT_EQ(found.length(), 3 * 11 + 7);
  matmul_problem strided = problem_of(of);
  strided.n[2].stride_b = 2;
  EXPECT_TRUE(kernels::detail::windows_of(strided).is_empty());
  EXPECT_TRUE(kernels::detail::windows_of(problem_of({.channels = 8})).is_empty());
  EXPECT_TRUE(kernels::detail::windows_of(problem_of({.taps_down = 1, .taps_across = 1})).is_empty());
}

}  // namespace
