// SPDX-License-Identifier: MIT
// Convolutions and their gradients on the device, as they are and as products: any geometry against the oracle.
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/meganeura.hpp>
#include <meganeura/runtime/measured_rates.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/convolution_samples.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/program_values.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using support::convolution_sizes;

struct way {
  const char* without;  // the rule that is left out
  bool units = false;
  bool multiplies = false;   // by kernels of products, for sure
  std::size_t schedule = 0;  // of those on units
  bool shares = false;       // whose windows share elements, for sure
  bool is_rounded = false;   // and texels are not preferred
};

std::vector<double> on_device(const graph& g, const oracle::tensors<double>& leaves, const way& how) {
  const device& gpu = how.units ? support::shared_unit_device<matrix_shape{8, 8, 8}>() : support::shared_device();
  const parameters weights(gpu, g);
  program_options options{.device_costs = false, .checks = checks::none};
  options.optimize.device = profile_of(gpu);
  if (how.is_rounded) options.precision = precision::fast, options.optimize.device.prefers_texel_buffers = false;
  options.optimize.disabled = {how.without};
  options.optimize.matrix_units = how.units;
  if (how.units) options.optimize.schedule = how.schedule;
  program run(gpu, g, weights, options);
  if (how.multiplies) {
    const graph& plan = run.plan().implementation;
    std::size_t products = 0;
    for (node_id id{0}; id < plan.size(); ++id)
      products += plan[id].kind == op::matmul && plan.get<matmul_attribute>(id).schedule.is_on_units() == how.units;
    EXPECT_GT(products, 0u) << to_text(plan);
  }
  const std::string plan = to_text(run.plan().implementation);
  EXPECT_TRUE(!how.shares || plan.find(" taps ") != std::string::npos) << plan;
  EXPECT_TRUE(!how.shares || plan.find(" in a border") != std::string::npos) << plan;
  support::set_inputs(run, g, leaves);
  run.submit({});
  return support::loaded(run.output("result"), dtype::f32, shape(g[g.outputs()[0].node].extents)).values;
}

void expect_oracle(const convolution_attribute& c, const convolution_sizes& all, const way& how,
                   const std::string& what) {
  const graph g = support::convolution_graph(c, all);
  const oracle::tensors<double> leaves = samples::random_leaves(g, -2, 2);
  const std::vector<double> expected = oracle::interpreter<double>(g, leaves, {}).run().at("result").values;
  const double within = how.is_rounded ? 1e-3 : oracle::tolerance(dtype::f32, 400);
  EXPECT_LE(oracle::relative_error(on_device(g, leaves, how), expected), within) << what;
}

constexpr auto forms = {convolution_attribute::output, convolution_attribute::input, convolution_attribute::filter};

TEST(runtime_convolution, every_geometry) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    support::dice dice(seed);
    convolution_attribute c;
    const int spatial = static_cast<int>(dice.between(1, 2));
    const convolution_sizes all = support::draw_convolution(dice, c, spatial);
    const bool is_apart = c.groups > 1 && all.w[0] == c.groups && all.w[1] == 1;
    if (is_apart) continue;
    for (const auto form : forms) {
      c.form = form;
      const std::string what = "seed " + std::to_string(seed);
      expect_oracle(c, all, {"convolution_to_convolve"}, what);
      if (seed < 6) expect_oracle(c, all, {"convolution_to_contract"}, what);
    }
  }
}

// As networks have them: rows of whole texels, such that are not, strides, and channels that are no fours.
TEST(runtime_convolution, usual_sizes) {
  struct sizes {
    std::int64_t images, in, side, out, kernel, stride;
  };
  for (const sizes& s : {sizes{2, 8, 16, 8, 3, 1}, sizes{2, 6, 14, 8, 3, 1}, sizes{3, 4, 7, 4, 3, 1},
                         sizes{1, 3, 24, 8, 7, 2}, sizes{2, 8, 8, 16, 1, 1}, sizes{2, 8, 9, 4, 1, 2},
                         sizes{2, 8, 12, 8, 3, 2}, sizes{2, 8, 15, 4, 3, 2}, sizes{2, 4, 12, 8, 2, 2}}) {
    convolution_attribute c;
    for (int i = 0; i < 2; ++i) c.stride[i] = s.stride, c.pad_low[i] = c.pad_high[i] = s.kernel / 2;
    const std::int64_t out = (s.side + 2 * (s.kernel / 2) - s.kernel) / s.stride + 1;
    const convolution_sizes all{
        {s.images, s.in, s.side, s.side}, {s.out, s.in, s.kernel, s.kernel}, {s.images, s.out, out, out}};
    for (const auto form : forms) {
      c.form = form;
      const std::string what = std::to_string(s.side) + " by " + std::to_string(s.kernel);
      expect_oracle(c, all, {"convolution_to_convolve", false, true}, what);
      if (s.side == 14) expect_oracle(c, all, {"convolution_to_convolve", true, true}, what + " on units");
    }
  }
}

// Elements are staged once for all windows that have them; the gradient's filter is read backwards where it lies.
TEST(runtime_convolution, windows_share_elements) {
  const device& gpu = support::shared_unit_device<matrix_shape{8, 8, 8}>();
  convolution_attribute c;
  for (int i = 0; i < 2; ++i) c.pad_low[i] = c.pad_high[i] = 1;
  const convolution_sizes all{{2, 16, 6, 6}, {16, 16, 3, 3}, {2, 16, 6, 6}};
  for (const auto form : {convolution_attribute::output, convolution_attribute::input}) {
    const bool is_gradient = form == convolution_attribute::input;
    const bool has_texels = profile_of(gpu).prefers_texel_buffers;  // then rows are whole ones
    fusion::product_extents p{1, 16, has_texels ? 96 : 72, 144};
    p.single_left = is_gradient, p.single_right = true;
    p.windows = {2, 6, 6, 8, 9, 3, 18, place_axes::columns};
    if (has_texels) p.windows = {2, 6, 8, 12, 9, 3, 26, place_axes::columns};
    c.form = form;
    const auto every = fusion::product_schedules(product_arithmetic::split, p, profile_of(gpu));
    ASSERT_EQ(every.back().places, place_axes::columns);
    expect_oracle(c, all, {"convolution_to_convolve", true, true, every.size() - 1, true}, is_gradient ? "dx" : "y");
  }
}

// The same of a filter's gradient, by places.
TEST(runtime_convolution, filters_gradients_share_elements) {
  const device& gpu = support::shared_unit_device<matrix_shape{8, 8, 8}>();
  convolution_attribute c{.form = convolution_attribute::filter};
  for (int i = 0; i < 2; ++i) c.pad_low[i] = c.pad_high[i] = 1;
  const convolution_sizes all{{1, 32, 5, 4}, {16, 32, 3, 3}, {1, 16, 5, 4}};
  const graph g = support::convolution_graph(c, all);
  fusion::optimize_options options{
      .disabled = {"convolution_to_convolve"}, .precision = precision::fast, .device = profile_of(gpu)};
  options.device.prefers_texel_buffers = false;  // else windows are copied
  std::optional<std::size_t> number;
  for (std::size_t i = 0; i < 200 && !number; ++i) {
    options.schedule = i;
    if (to_text(fusion::optimize(g, options)).find(" for taps ") != std::string::npos) number = i;
  }
  ASSERT_TRUE(number);
  expect_oracle(c, all, {"convolution_to_convolve", true, true, *number, true, true}, "dfilter");
}

// What is read beside an image's rows is multiplied by nothing: infinities there stay where they are.
TEST(runtime_convolution, infinities_reach_what_sees_them) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  convolution_attribute c;
  for (int i = 0; i < 2; ++i) c.pad_low[i] = c.pad_high[i] = 1;
  const convolution_sizes all{{2, 4, 7, 7}, {4, 4, 3, 3}, {2, 4, 7, 7}};
  for (const auto form : forms) {
    c.form = form;
    const graph g = support::convolution_graph(c, all);
    oracle::tensors<double> leaves = samples::random_leaves(g, 1, 2);
    leaves.at(form == convolution_attribute::input ? "y" : "x").values[6] = infinity;  // at the end of a row
    std::vector<double> expected = oracle::interpreter<double>(g, leaves, {}).run().at("result").values;
    for (const char* without : {"convolution_to_convolve", "convolution_to_contract"}) {
      const std::vector<double> found = on_device(g, leaves, {without});
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(std::isfinite(found[i]), std::isfinite(expected[i])) << without << ' ' << i;
        EXPECT_TRUE(std::isfinite(expected[i]) || std::isnan(found[i]) == std::isnan(expected[i])) << without << i;
      }
    }
  }
}

}  // namespace
