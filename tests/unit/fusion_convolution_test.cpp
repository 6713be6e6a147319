// SPDX-License-Identifier: MIT
// Convolutions as products: every geometry and all three forms compute the same, and which have one.
#include <meganeura/fusion/optimize.hpp>

#include <support/convolution_samples.hpp>
#include <support/egraph_sample_graphs.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

std::size_t count(const graph& g, op kind) {
  std::size_t found = 0;
  for (node_id id{0}; id < g.size(); ++id) found += g[id].kind == kind;
  return found;
}

std::size_t applied_of(const fusion::optimize_report& report) {
  return samples::applied(report, "convolution_to_contract");
}

// Where nothing else computes it.
TEST(fusion_convolution, every_geometry_is_a_product) {
  std::size_t products = 0, others = 0, strided = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    support::dice dice(seed);
    convolution_attribute c;
    const int spatial = static_cast<int>(dice.between(1, 3));
    const support::convolution_sizes all = support::draw_convolution(dice, c, spatial);
    for (const auto form :
         {convolution_attribute::output, convolution_attribute::input, convolution_attribute::filter}) {
      c.form = form;
      const graph g = support::convolution_graph(c, all);
      fusion::optimize_options options;
      options.device.prefers_texel_buffers = seed % 2 == 1;
      options.device.parallel = seed % 2 == 0;
      fusion::optimize_report report;
      samples::expect_equal(g, fusion::optimize(g, options, &report), "seed " + std::to_string(seed));
      const bool is_apart = c.groups > 1 && all.w[0] == c.groups && all.w[1] == 1;
      const bool expected = !is_apart && !(spatial == 3 && c.groups > 1);
      if (spatial < 3 || !expected) {
        EXPECT_EQ(applied_of(report), expected ? 1u : 0u) << "seed " << seed;
      }
      others += applied_of(report) == 0;
      if (applied_of(report) == 0) continue;
      options.disabled = {"convolution_to_convolve"};
      const graph plan = fusion::optimize(g, options);
      products += count(plan, op::matmul);
      strided += form == convolution_attribute::input && std::max({c.stride[0], c.stride[1], c.stride[2]}) > 1;
      EXPECT_EQ(count(plan, op::convolve), 0u);
      samples::expect_equal(g, plan, "seed " + std::to_string(seed) + to_text(g));
    }
  }
  EXPECT_GT(products, 400u);
  EXPECT_GT(strided, 100u);
  EXPECT_GT(others, 50u);
}

// As many places as the stride passes along each axis, of 4 x 8 channels.
graph square_gradient(std::int64_t taps, std::int64_t stride, std::int64_t side, std::int64_t low) {
  convolution_attribute c;
  c.form = convolution_attribute::input;
  for (int i = 0; i < 2; ++i) c.stride[i] = stride, c.pad_low[i] = c.pad_high[i] = low;
  const std::int64_t out = (side + 2 * low - taps) / stride + 1;
  return support::convolution_graph(c, {{2, 8, side, side}, {4, 8, taps, taps}, {2, 4, out, out}});
}

fusion::optimize_options without_convolve(bool texels) {
  fusion::optimize_options options;
  options.device.prefers_texel_buffers = texels, options.device.parallel = !texels;
  options.disabled = {"convolution_to_convolve"};
  return options;
}

// For a graphics processor that has them.
fusion::optimize_options on_units() {
  fusion::optimize_options options = without_convolve(false);
  options.device.matrix_units = matrix_units::cooperative;
  options.device.max_shared_bytes = 49152, options.device.max_invocations = 1024;
  return options;
}

// Products that are part of what a node reads.
std::size_t products_behind(const graph& g, node_id id) {
  std::set<std::size_t> seen, products;
  std::vector<node_id> waiting{id};
  while (!waiting.empty()) {
    const node_id next = waiting.back();
    waiting.pop_back();
    for (const node_id operand : g.operands(next)) {
      if (!seen.insert(static_cast<std::size_t>(operand)).second) continue;
      if (g[operand].kind == op::matmul) products.insert(static_cast<std::size_t>(operand));
      waiting.push_back(operand);
    }
  }
  return products.size();
}

TEST(fusion_convolution, gradients_of_strided_images_multiply_as_often_as_the_convolution) {
  struct expectation {
    std::int64_t taps, low;
    std::size_t products;
  };
  for (const expectation& each : {expectation{1, 0, 1}, {2, 0, 1}, {3, 1, 4}, {7, 3, 4}}) {
    for (const bool texels : {false, true}) {
      const graph g = square_gradient(each.taps, 2, 16, each.low);
      const graph plan = fusion::optimize(g, without_convolve(texels));
      std::int64_t multiplications = 0;
      std::size_t products = 0;
      for (node_id id{0}; id < plan.size(); ++id) {
        if (plan[id].kind != op::matmul) continue;
        multiplications += plan.get<matmul_attribute>(id).space.elements();
        ++products;
        EXPECT_EQ(products_behind(plan, id), 0u);  // they run side by side
      }
      EXPECT_EQ(multiplications, 2 * 4 * 8 * 8 * 8 * each.taps * each.taps) << each.taps;
      EXPECT_EQ(products, each.products) << each.taps;
      // What puts places side by side is one kernel, and none where each product's results are places of their own.
      const node_id result = plan.outputs()[0].node;
      EXPECT_EQ(plan[result].kind, each.taps == 2 ? op::matmul : op::region) << each.taps;
      const auto operands = plan.operands(result);
      if (each.taps != 2) {
        EXPECT_TRUE(std::ranges::all_of(operands, [&](node_id id) { return plan[id].kind == op::matmul; }));
        EXPECT_EQ(operands.size(), products);
      }
      samples::expect_equal(g, plan, std::to_string(each.taps));
    }
  }
}

// Of one window along an axis: as of a layer whose filter is as large as its image, or of a generator's first one.
TEST(fusion_convolution, gradients_of_lone_windows_multiply_each_tap_once) {
  struct geometry {
    shape x, w;
    std::int64_t stride = 1, low = 0, dilation = 1, groups = 1;
  };
  for (const geometry& of : {geometry{{3, 4, 5, 5}, {8, 4, 5, 5}}, geometry{{3, 4, 5, 7}, {8, 4, 5, 7}, 3},
                             geometry{{3, 4, 6, 6}, {8, 4, 5, 5}, 2}, geometry{{3, 4, 3, 3}, {8, 4, 5, 5}, 1, 1},
                             geometry{{3, 4, 7, 7}, {8, 4, 4, 4}, 1, 0, 2},
                             geometry{{3, 8, 5, 5}, {8, 4, 5, 5}, 1, 0, 1, 2}, geometry{{3, 4, 5, 9}, {8, 4, 5, 3}},
                             geometry{{3, 4, 9}, {8, 4, 9}}, geometry{{2, 2, 3, 2, 5}, {4, 2, 3, 2, 3}}}) {
    convolution_attribute c{.form = convolution_attribute::input, .spatial = of.x.rank() - 2, .groups = of.groups};
    shape y{of.x[0], of.w[0]};
    std::int64_t multiplications = of.x[0] * of.w.elements();
    for (int i = 0; i < c.spatial; ++i) {
      c.stride[i] = of.stride, c.pad_low[i] = c.pad_high[i] = of.low, c.dilation[i] = of.dilation;
      y.push_back((of.x[i + 2] + 2 * of.low - of.dilation * (of.w[i + 2] - 1) - 1) / of.stride + 1);
      multiplications *= y[i + 2];
    }
    const graph g = support::convolution_graph(c, {of.x, of.w, y});
    for (const char* without : {"convolution_to_convolve", "convolution_to_contract"}) {
      for (const bool texels : {false, true}) {
        fusion::optimize_options options = without_convolve(texels);
        options.disabled = {without};
        const graph plan = fusion::optimize(g, options);
        samples::expect_equal(g, plan, to_text(g) + without);
        std::int64_t found = 0;
        for (node_id id{0}; id < plan.size(); ++id)
          found += plan[id].kind == op::matmul ? plan.get<matmul_attribute>(id).space.elements() : 0;
        const bool is_alone = y.elements() == y[0] * y[1] && of.dilation == 1;
        if (is_alone && std::string_view(without) == "convolution_to_convolve") {
          // Results beside the image, of a border or of what no window reaches, may be computed, too.
          EXPECT_GE(found, multiplications) << to_text(plan);
          EXPECT_LE(found, of.low == 0 ? multiplications : 3 * multiplications) << to_text(plan);
        }
      }
    }
  }
}

// Where no windows share elements the filter of an image's gradient is copied, not the windows, which have nine times
// as many; where they do neither is.
TEST(fusion_convolution, gradients_read_windows_where_they_lie) {
  convolution_attribute c{.form = convolution_attribute::input};
  for (int i = 0; i < 2; ++i) c.pad_low[i] = c.pad_high[i] = 1;
  const graph g = support::convolution_graph(c, {{2, 64, 56, 56}, {64, 64, 3, 3}, {2, 64, 56, 56}});
  for (const bool units : {false, true}) {
    const fusion::optimize_options options = units ? on_units() : without_convolve(false);
    const graph plan = fusion::optimize(g, options);
    for (node_id id{0}; id < plan.size(); ++id)
      EXPECT_LE(plan[id].extents.elements(), 2 * 64 * 60 * 60) << to_text(plan);
    EXPECT_EQ(to_text(plan).find(" taps ") != std::string::npos, units) << to_text(plan);
    EXPECT_TRUE(!units || count(plan, op::region) == 0) << to_text(plan);
  }
}

// With schedules of windows that share elements wherever there are any: in borders that are not in memory, with filters
// that are read backwards, and of filters' gradients.
TEST(fusion_convolution, any_geometry_shares_elements) {
  std::size_t sharing = 0, bordered = 0, backwards = 0, along_terms = 0, bordered_terms = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    support::dice dice(seed);
    convolution_attribute c;
    support::convolution_sizes all = support::draw_convolution(dice, c, static_cast<int>(dice.between(1, 2)));
    const std::int64_t channels = seed % 2 == 0 ? 16 : 32;
    all.x.set(1, c.groups * channels), all.y.set(1, c.groups * 16), all.w.set(0, c.groups * 16), all.w.set(1, channels);
    for (const auto form :
         {convolution_attribute::output, convolution_attribute::input, convolution_attribute::filter}) {
      c.form = form;
      const graph g = support::convolution_graph(c, all);
      fusion::optimize_options options = on_units();
      for (std::size_t number = 40; number < 130; number += 3) {
        options.schedule = number;
        const graph plan = fusion::optimize(g, options);
        const std::size_t before = sharing;
        for (node_id id{0}; id < plan.size(); ++id) {
          if (plan[id].kind != op::matmul || plan.get<matmul_attribute>(id).schedule.places == place_axes::none)
            continue;
          const auto& product = plan.get<matmul_attribute>(id);
          const bool has_border = !product.border.is_empty(), by_place = product.schedule.places == place_axes::terms;
          ++sharing, bordered += has_border, along_terms += by_place, bordered_terms += has_border && by_place;
          backwards += std::ranges::min(product.a.strides) < 0 ? 1 : 0;
        }
        if (sharing > before) samples::expect_equal(g, plan, "seed " + std::to_string(seed) + to_text(g));
      }
    }
  }
  EXPECT_GT(sharing, 100u);
  EXPECT_GT(bordered, 50u);
  EXPECT_GT(backwards, 50u);
  EXPECT_GT(along_terms, 50u);
  EXPECT_GT(bordered_terms, 20u);
}

// Strides of 4 with 4 dilated taps reach one class of 16.
TEST(fusion_convolution, classes_that_no_tap_reaches_do_not_count) {
  convolution_attribute c{.form = convolution_attribute::input};
  for (int i = 0; i < 2; ++i) c.stride[i] = 4, c.dilation[i] = 4, c.pad_low[i] = 1;
  const graph g = support::convolution_graph(c, {{2, 4, 16, 15}, {8, 4, 2, 2}, {2, 8, 4, 3}});
  const graph plan = fusion::optimize(g, without_convolve(false));
  EXPECT_EQ(count(plan, op::matmul), 1u);
  samples::expect_equal(g, plan, "one class");
}

// Of all taps, whose results are added up: 16 classes, and 160 of a window of sound. Dilated, with zeros between the
// elements of the output's gradient.
TEST(fusion_convolution, too_many_classes_are_one_product) {
  convolution_attribute dilated{.form = convolution_attribute::input, .spatial = 1};
  dilated.stride[0] = 12, dilated.dilation[0] = 5, dilated.pad_low[0] = 3;
  const graph apart = support::convolution_graph(dilated, {{2, 4, 80}, {8, 4, 13}, {2, 8, 2}});
  const graph zeros = fusion::optimize(apart, without_convolve(false));
  EXPECT_EQ(count(zeros, op::matmul), 1u);
  samples::expect_equal(apart, zeros, "12 classes");
  const graph g = square_gradient(5, 4, 16, 2);
  const graph plan = fusion::optimize(g, without_convolve(false));
  EXPECT_EQ(count(plan, op::matmul), 1u);
  samples::expect_equal(g, plan, "16 classes");
  convolution_attribute c{.form = convolution_attribute::input, .spatial = 1};
  c.stride[0] = 160, c.pad_low[0] = 200;
  const graph sound = support::convolution_graph(c, {{1, 2, 1200}, {4, 2, 400}, {1, 4, 7}});
  for (const bool texels : {false, true}) {
    const graph one = fusion::optimize(sound, without_convolve(texels));
    ASSERT_EQ(count(one, op::matmul), 1u);
    for (node_id id{0}; id < one.size(); ++id) {
      if (one[id].kind != op::matmul) continue;
      EXPECT_LE(one.get<matmul_attribute>(id).space.elements(), 2 * 4 * 400 * 8);
    }
    samples::expect_equal(sound, one, "160 classes");
  }
}

// Positions that are rounded up to whole texels count as well.
TEST(fusion_convolution, what_is_larger_than_a_tensor_may_be_is_no_product) {
  for (const auto form : {convolution_attribute::output, convolution_attribute::input, convolution_attribute::filter}) {
    convolution_attribute c{.form = form};
    const graph g = support::convolution_graph(c, {{2, 8, 7, 7}, {8, 8, 1, 1}, {2, 8, 7, 7}});
    for (const bool texels : {false, true}) {
      fusion::optimize_options options = without_convolve(texels);
      options.disabled = {};
      options.region.tensor_bytes = shape{2, 8, 7, 7}.bytes(dtype::f32);
      fusion::optimize_report report;
      const graph plan = fusion::optimize(g, options, &report);
      EXPECT_EQ(applied_of(report), texels ? 0u : 1u);
      samples::expect_equal(g, plan, "within limits");
    }
  }
}

}  // namespace
