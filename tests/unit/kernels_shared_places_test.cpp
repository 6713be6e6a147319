// SPDX-License-Identifier: MIT
// Products whose terms are places of windows, as gradients of filters are, on matrix units or on what stands in for
// them, against a double-precision reference.
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

// Of x and slopes [images, groups, filters, height, width]; result [parts, groups, filters, channels, taps]: each part
// of so many rows of an image, of one image, or of all.
using places = support::windows_sample;

std::uint32_t batches(const places& of) { return of.parts > 1 || of.by_image ? of.images * of.parts : 1; }
std::uint32_t results(const places& of) { return batches(of) * of.groups * of.filters * of.terms(); }
std::size_t slope(const places& of, std::uint32_t n, std::uint32_t g, std::uint32_t o, std::uint32_t y,
                  std::uint32_t z) {
  return (((n * of.groups + g) * of.filters + o) * of.height + y) * of.width + z;
}
places filled(const places& of) {
  return support::filled(of, std::size_t{of.images} * of.groups * of.filters * of.height * of.width);
}

matmul_problem problem_of(const places& of) {
  const std::uint32_t plane = of.rows() * of.pitch(), image = of.height * of.width, filter = of.terms();
  const std::uint32_t together = of.height / of.parts;  // rows
  const kernels::matmul_axis images{of.images, of.groups * of.filters * image, of.groups * of.channels * plane, 0};
  matmul_problem p;
  if (batches(of) > 1) {
    p.batch.push_back(images);
    p.batch[0].stride_out = of.parts * of.groups * of.filters * filter;
    p.batch.push_back({of.parts, together * of.width, together * of.pitch(), of.groups * of.filters * filter});
  }
  p.batch.push_back({of.groups, of.filters * image, of.channels * plane, of.filters * filter});
  p.m = {{of.filters, image, 0, filter}};
  p.n = {{of.channels, 0, plane, of.taps()},
         {of.taps_down, 0, of.dilation * of.pitch(), of.taps_across},
         {of.taps_across, 0, of.dilation, 1}};
  if (batches(of) == 1) p.k.push_back(images);
  p.k.push_back({together, of.width, of.pitch(), 0});
  p.k.push_back({of.width, 1, 1, 0});
  p.border = of.border();
  return p;
}

fusion::product_extents extents_of(const places& of) {
  const matmul_problem p = problem_of(of);
  const auto extent = [](const std::vector<kernels::matmul_axis>& axes) {
    return static_cast<std::int64_t>(kernels::extent_of(axes));
  };
  fusion::product_extents found{extent(p.batch), extent(p.m), extent(p.n), extent(p.k)};
  found.windows = kernels::detail::windows_of(p);
  return found;
}

// Of so many channels a tile.
product_schedule with(product_arithmetic arithmetic, const places& of, std::uint32_t steps = 1,
                      std::uint32_t channels = 16) {
  const auto [m, n, k] = units().unit;
  product_schedule s{arithmetic, 2 * m, of.taps() * channels, steps * k, m, channels};
  s.taps = of.taps(), s.reach = static_cast<std::uint32_t>(extents_of(of).windows.reach), s.places = place_axes::terms;
  return s;
}

std::vector<float> run(const places& of, const product_schedule& s, const matmul_problem& p,
                       const std::vector<float>* extra = nullptr) {
  return support::run_on_units(of, p, s, extents_of(of), results(of), extra);
}

// f(result, sum, magnitude of its terms' squares) of each.
template <class Function>
void for_each_result(places of, const Function& f) {
  const std::uint32_t together = of.height / of.parts, last = batches(of) == 1 ? of.images : 1;
  std::size_t at = 0;
  for (std::uint32_t batch = 0; batch < batches(of); ++batch) {
    for (std::uint32_t g = 0; g < of.groups; ++g) {
      for (std::uint32_t o = 0; o < of.filters; ++o) {
        for (std::uint32_t column = 0; column < of.terms(); ++column) {
          const std::uint32_t c = column / of.taps(), tap = column % of.taps();
          const std::uint32_t down = tap / of.taps_across * of.dilation, across = tap % of.taps_across * of.dilation;
          double sum = 0, of_x = 0, of_slopes = 0;
          for (std::uint32_t image = 0; image < last; ++image) {
            for (std::uint32_t row = 0; row < together; ++row) {
              for (std::uint32_t z = 0; z < of.width; ++z) {
                const std::uint32_t n = last > 1 ? image : batch / of.parts, y = batch % of.parts * together + row;
                const double a = of.others[slope(of, n, g, o, y, z)], b = of.at_x(n, g, c, y + down, z + across);
                sum += a * b, of_x += b * b, of_slopes += a * a;
              }
            }
          }
          f(at++, sum, std::sqrt(of_x * of_slopes));
        }
      }
    }
  }
}

void expect_right(const places& of, const product_schedule& s) {
  support::expect_sums(run(of, s, problem_of(of)), s, [&](const auto& f) { for_each_result(of, f); });
}

constexpr auto split = product_arithmetic::split, rounded = product_arithmetic::rounded;

TEST(kernels_shared_places, are_staged_once_for_all_taps) {
  const places squares = filled({.images = 3, .channels = 32, .filters = 37, .height = 5, .width = 11});
  expect_right(squares, with(rounded, squares));
  expect_right(squares, with(split, squares, 2));
  expect_right(squares, with(rounded, squares, 4, 32));
}

TEST(kernels_shared_places, may_be_of_groups_dilated_or_of_one_row) {
  const places groups = filled({.images = 2, .groups = 2, .height = 4, .width = 5, .dilation = 2});
  expect_right(groups, with(split, groups));
  const places row = filled({.images = 2, .height = 1, .width = 37, .taps_down = 1, .taps_across = 5});
  expect_right(row, with(split, row, 2));
  const places column = filled({.height = 7, .width = 9, .taps_down = 3, .taps_across = 1});
  expect_right(column, with(rounded, column));
}

TEST(kernels_shared_places, may_be_those_of_an_image_or_of_some_of_its_rows) {
  const places images = filled({.images = 2, .groups = 2, .height = 4, .width = 5, .by_image = true});
  expect_right(images, with(split, images));
  places rows = filled({.images = 2, .height = 6, .width = 5, .parts = 3, .bordered = true});
  expect_right(rows, with(split, rows));
  for (std::size_t i = 0; i < rows.x.size() / 3; ++i) rows.x[i] *= 1e-11f;
  expect_right(rows, with(split, rows));
}

TEST(kernels_shared_places, may_stand_in_a_border_that_is_not_in_memory) {
  places of = filled({.images = 2, .groups = 2, .filters = 20, .height = 4, .width = 5, .bordered = true});
  expect_right(of, with(split, of, 2));
  of.at_x(1, 1, 3, 2, 2) = 1e20f;
  expect_right(of, with(split, of));
}

// What one power of two does not do for is computed row by row, and with infinities and NaN one by one; those stay
// with what sees them.
TEST(kernels_shared_places, have_any_scale) {
  places of = filled({.images = 2, .filters = 20, .height = 4, .width = 5});
  for (std::uint32_t i = 0; i < 20; ++i) of.others[slope(of, 1, 0, 3, i / 5, i % 5)] *= 1e-9f;
  expect_right(of, with(split, of));
  for (std::uint32_t i = 0; i < 20; ++i)
    of.others[slope(of, 0, 0, 3, i / 5, i % 5)] *= 1e-9f, of.others[slope(of, 0, 0, 7, i / 5, i % 5)] *= 1e12f;
  expect_right(of, with(split, of));
  expect_right(of, with(rounded, of));
  for (float& each : of.others) each = 0;
  of.others[slope(of, 1, 0, 3, 2, 4)] = 1e-5f;
  expect_right(of, with(split, of));

  for (const bool is_bordered : {false, true}) {
    places odd = filled({.images = 2, .filters = 20, .height = 4, .width = 5, .bordered = is_bordered});
    odd.at_x(1, 0, 3, 2, 2) = std::numeric_limits<float>::infinity();
    odd.at_x(0, 0, 15, 4, 5) = std::numeric_limits<float>::quiet_NaN();
    odd.others[slope(odd, 1, 0, 9, 3, 4)] = -std::numeric_limits<float>::infinity();
    const std::vector<float> found = run(odd, with(split, odd), problem_of(odd));
    support::expect_sums_of_any(found, [&](const auto& f) { for_each_result(odd, f); });
  }
}

TEST(kernels_shared_places, epilogues_see_columns_as_they_lie) {
  const places of = filled({.images = 2, .filters = 20, .height = 4, .width = 5});
  const std::vector<float> added = support::numbers_below(results(of));
  matmul_problem p = problem_of(of);
  p.epilogue = [&](spirv::kernel& k) -> kernels::matmul_programs {
    const auto extra = k.storage_buffer<spirv::f32>("extra");
    return kernels::matmul_epilogue([=, columns = of.terms()](const spirv::f32& sum, const kernels::matmul_point& at) {
      return sum + extra.load(at.m * columns + at.n);
    });
  };
  const std::vector<float> found = run(of, with(split, of), p, &added);
  support::expect_numbered_sums(found, [&](const auto& f) { for_each_result(of, f); });
}

TEST(kernels_shared_places, on_offer_are_valid) {
  const places of{.images = 4, .channels = 64, .filters = 64, .height = 56, .width = 56};
  support::expect_offers_are_valid(problem_of(of), extents_of(of));
}

TEST(kernels_shared_places, schedules_that_do_not_fit_are_refused) {
  const places of{.images = 3, .channels = 48};
  const auto refused = [&](product_schedule s) {
    EXPECT_THROW((void)kernels::make_cooperative_matmul(problem_of(of), s, units()), error) << to_string(s);
  };
  product_schedule s = with(rounded, of);
  EXPECT_NO_THROW((void)kernels::make_cooperative_matmul(problem_of(of), s, units()));
  s.places = place_axes::columns;
  refused(s);
  s = with(rounded, of), s.reach += 1;
  refused(s);
  s = with(rounded, of), s.parts = 2;
  refused(s);
  s = with(rounded, of), s.taps = 3;
  refused(s);
  s = with(rounded, of), s.subgroup_n /= 2;
  refused(s);
  refused(with(rounded, of, 1, 32));  // channels that do not divide all
}

TEST(kernels_shared_places, are_found_by_their_strides) {
  const places of{.images = 3, .channels = 32, .height = 4, .width = 7, .dilation = 2};
  const fusion::product_windows found = extents_of(of).windows;
  EXPECT_EQ(found, (fusion::product_windows{3, 4, 7, 11, 9, 3, 4 * 11 + 4, place_axes::terms}));
  matmul_problem strided = problem_of(of);
  strided.k[2].stride_b = 2;
  EXPECT_TRUE(kernels::detail::windows_of(strided).is_empty());
  EXPECT_TRUE(kernels::detail::windows_of(problem_of({.channels = 8})).is_empty());
}

}  // namespace
