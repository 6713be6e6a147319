// SPDX-License-Identifier: MIT
// The three forms of a convolution on the device against the oracle, over geometry, groups, epilogues and types.
#include <meganeura/kernels/convolution.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/device_fixture.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

using namespace meganeura;

namespace {

struct geometry_case {
  const char* name;
  shape x, w;
  convolution_attribute geometry;
};

shape output_shape(const geometry_case& each) {
  shape y{each.x[0], each.w[0]};
  const convolution_attribute& c = each.geometry;
  for (int i = 0; i < c.spatial; ++i) {
    const std::int64_t window = (each.w[i + 2] - 1) * c.dilation[i] + 1;
    y.push_back((each.x[i + 2] + c.pad_low[i] + c.pad_high[i] - window) / c.stride[i] + 1);
  }
  return y;
}

scalar_program identity_program() {
  scalar_builder b;
  return b.finish(b.argument(0, dtype::f32));
}

index_map dense_output(const shape& space) {
  index_map map;
  for (int i = 0; i < space.rank(); ++i) map.strides[i] = space.stride(i);
  return map;
}

struct form_problem {
  graph g;
  oracle::tensors<double> leaves;
  std::int64_t terms = 1;  // of a sum
};

form_problem make_problem(const geometry_case& each, convolution_attribute::form_kind form, dtype type = dtype::f32) {
  const shape y = output_shape(each);
  const bool by_input = form == convolution_attribute::input, by_filter = form == convolution_attribute::filter;
  const shape first = by_input ? y : each.x, second = by_filter ? y : each.w;
  shape result = by_filter ? each.w : by_input ? each.x : y;
  if (each.geometry.per_image) result.set(0, each.x[0] * each.w[0]);
  convolve_attribute attribute{each.geometry, result, dense_output(result), {identity_program(), {}}};
  attribute.primitive.form = form;
  form_problem made;
  const node_id operands[] = {made.g.input("a", type, first), made.g.input("b", type, second)};
  made.g.add_output("result", made.g.add_node(op::convolve, type, result, attribute, operands));
  const std::int64_t taps = each.w.elements() / each.w[0];
  made.terms = by_filter ? y.elements() / y[1] : by_input ? taps * each.w[0] : taps;
  made.leaves = {{"a", oracle::random_tensor<double>(first, 3, -1, 1, type)},
                 {"b", oracle::random_tensor<double>(second, 4, -1, 1, type)}};
  return made;
}

void expect_form(const geometry_case& each, convolution_attribute::form_kind form, dtype type = dtype::f32) {
  SCOPED_TRACE(std::string(each.name) + " form " + std::to_string(form));
  const form_problem made = make_problem(each, form, type);
  support::expect_matches_oracle(made.g, made.leaves, made.terms);
}

const geometry_case cases[] = {
    {"lenet", {2, 1, 12, 12}, {6, 1, 5, 5}, {}},
    {"padded", {2, 3, 8, 8}, {8, 3, 3, 3}, {.pad_low = {1, 1}, .pad_high = {1, 1}}},
    {"strided", {1, 5, 11, 9}, {7, 5, 3, 3}, {.stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1}}},
    {"uneven",
     {3, 4, 10, 7},
     {9, 4, 3, 2},
     {.stride = {3, 1}, .pad_low = {0, 1}, .pad_high = {2, 0}, .dilation = {2, 1}}},
    {"pointwise", {2, 16, 6, 6}, {32, 16, 1, 1}, {}},
    {"wide", {1, 32, 12, 12}, {70, 32, 3, 3}, {.pad_low = {1, 1}, .pad_high = {1, 1}}},
    {"grouped", {2, 8, 6, 5}, {12, 4, 3, 3}, {.pad_low = {1, 1}, .pad_high = {1, 1}, .groups = 2}},
    {"depthwise", {1, 6, 8, 8}, {6, 1, 3, 3}, {.stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1}, .groups = 6}},
    {"line", {2, 3, 50}, {4, 3, 5}, {.spatial = 1, .stride = {2}, .pad_low = {2}, .pad_high = {2}}},
    {"volume",
     {1, 2, 5, 6, 4},
     {3, 2, 2, 3, 2},
     {.spatial = 3, .stride = {1, 2, 1}, .pad_low = {1, 0, 1}, .pad_high = {0, 1, 1}}},
    {"one", {1, 1, 1, 1}, {1, 1, 1, 1}, {}},
    {"beside the image",
     {2, 1, 3},
     {1, 1, 3},
     {.spatial = 1, .stride = {2}, .pad_low = {1}, .pad_high = {2}, .dilation = {2}}},
    {"patches", {2, 3, 16, 16}, {20, 3, 8, 8}, {.stride = {8, 8}}},
};
// Of each channel alone, results or images in fours along the last axis.
const geometry_case cases_of_channels[] = {
    {"rows of 2, 4 or more", {2, 5, 8, 12}, {5, 1, 3, 3}, {.pad_low = {1, 1}, .pad_high = {1, 1}, .groups = 5}},
    {"every other one",
     {1, 3, 12, 16},
     {3, 1, 3, 3},
     {.stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1}, .groups = 3}},
    {"dilated", {1, 2, 12, 8}, {2, 1, 5, 5}, {.pad_low = {4, 4}, .pad_high = {4, 4}, .dilation = {2, 2}, .groups = 2}},
    {"several of a channel", {1, 3, 8, 8}, {6, 1, 3, 3}, {.pad_low = {1, 1}, .pad_high = {1, 1}, .groups = 3}},
    {"a channel's line", {2, 4, 16}, {4, 1, 5}, {.spatial = 1, .pad_low = {2}, .pad_high = {2}, .groups = 4}},
    {"a channel's volume",
     {1, 3, 4, 5, 8},
     {3, 1, 3, 2, 3},
     {.spatial = 3, .pad_low = {1, 1, 1}, .pad_high = {1, 0, 1}, .groups = 3}},
    {"rows of 7", {2, 3, 7, 7}, {3, 1, 3, 3}, {.pad_low = {1, 1}, .pad_high = {1, 1}, .groups = 3}},
    {"rows of 14 and 27",
     {1, 2, 8, 27},
     {2, 1, 3, 5},
     {.stride = {1, 2}, .pad_low = {1, 2}, .pad_high = {1, 2}, .groups = 2}},
    {"windows in the border",
     {1, 2, 6, 9},
     {2, 1, 2, 3},
     {.stride = {1, 2}, .pad_low = {0, 4}, .pad_high = {1, 4}, .groups = 2}},
};

TEST(kernels_convolution, outputs_of_every_geometry) {
  for (const geometry_case& each : cases) expect_form(each, convolution_attribute::output);
  for (const geometry_case& each : cases_of_channels) expect_form(each, convolution_attribute::output);
}

TEST(kernels_convolution, gradients_of_the_input) {
  for (const geometry_case& each : cases) expect_form(each, convolution_attribute::input);
  for (const geometry_case& each : cases_of_channels) expect_form(each, convolution_attribute::input);
}

TEST(kernels_convolution, gradients_of_the_filter) {
  for (const geometry_case& each : cases) expect_form(each, convolution_attribute::filter);
  for (const geometry_case& each : cases_of_channels) expect_form(each, convolution_attribute::filter);
}

TEST(kernels_convolution, filters_of_each_image) {
  for (geometry_case each : cases) {
    each.geometry.per_image = true;
    expect_form(each, convolution_attribute::filter);
  }
}

TEST(kernels_convolution, half_precision_operands_and_results) {
  if (!support::shared_profile().f16) GTEST_SKIP() << "needs f16";
  for (int form = 0; form < 3; ++form)
    expect_form(cases[1], static_cast<convolution_attribute::form_kind>(form), dtype::f16);
}

TEST(kernels_convolution, epilogues_add_bias_residual_and_activation) {
  for (int index : {1, 2}) {
    const geometry_case& each = cases[index];
    const shape y = output_shape(each);
    scalar_builder b;
    const scalar_ref biased = b.binary(scalar_op::add, b.argument(0, dtype::f32), b.argument(1, dtype::f32));
    const scalar_ref sum = b.binary(scalar_op::add, biased, b.argument(2, dtype::f32));
    index_map bias, residual;
    bias.source = 2, bias.strides[1] = 1;
    residual.source = 3;
    for (int i = 0; i < y.rank(); ++i) residual.strides[i] = y.stride(i);
    convolve_attribute attribute{each.geometry,
                                 y,
                                 dense_output(y),
                                 {b.finish(b.binary(scalar_op::maximum, sum, b.constant(0))), {bias, residual}}};
    graph g;
    const node_id operands[] = {g.input("x", dtype::f32, each.x), g.parameter("w", dtype::f32, each.w),
                                g.parameter("bias", dtype::f32, {each.w[0]}), g.input("residual", dtype::f32, y)};
    g.add_output("result", g.add_node(op::convolve, dtype::f32, y, attribute, operands));
    support::expect_matches_oracle(g,
                                   {{"x", oracle::random_tensor(each.x, 1)},
                                    {"w", oracle::random_tensor(each.w, 2)},
                                    {"bias", oracle::random_tensor({each.w[0]}, 3)},
                                    {"residual", oracle::random_tensor(y, 4)}},
                                   each.w.elements() / each.w[0]);
  }
}

// The result of [2, 6, 8, 8] as 64 tokens of 6 channels an image, and flattened: `output` decides, not the result's
// shape.
TEST(kernels_convolution, a_result_of_another_shape_is_stored_through_its_index_map) {
  for (int index : {0, 1}) {  // one width that is stored four at a time, in both layouts
    const geometry_case& each = cases[index];
    const shape y = output_shape(each);
    for (bool tokens : {false, true}) {
      convolve_attribute attribute{each.geometry, y, dense_output(y), {identity_program(), {}}};
      const std::int64_t positions = y[2] * y[3];
      if (tokens) {
        const std::int64_t strides[] = {y[1] * positions, 1, y[3] * y[1], y[1]};
        std::copy(strides, strides + 4, attribute.output.strides);
      }
      graph g;
      const node_id operands[] = {g.input("x", dtype::f32, each.x), g.input("w", dtype::f32, each.w)};
      const shape result = tokens ? shape{y[0], positions, y[1]} : shape{y[0], y[1] * positions};
      g.add_output("result", g.add_node(op::convolve, dtype::f32, result, attribute, operands));
      support::expect_matches_oracle(g,
                                     {{"x", oracle::random_tensor(each.x, 1)}, {"w", oracle::random_tensor(each.w, 2)}},
                                     each.w.elements() / each.w[0]);
    }
  }
}

// What a denoiser ends with: too few tiles for a device that runs them side by side.
TEST(kernels_convolution, lanes_share_the_sums_of_few_channels) {
  const convolution_attribute same{.pad_low = {1, 1}, .pad_high = {1, 1}};
  const struct {
    geometry_case geometry;
    convolution_attribute::form_kind form;
    bool are_long;  // sums that are worth sharing
  } all[] = {{{"last of a denoiser", {2, 48, 9, 7}, {4, 48, 3, 3}, same}, convolution_attribute::output, true},
             {{"into colours", {2, 3, 9, 7}, {64, 3, 3, 3}, same}, convolution_attribute::input, true},
             {{"depthwise", {1, 6, 9, 7}, {6, 1, 3, 3}, {.groups = 6}}, convolution_attribute::output, false}};
  for (const auto& [geometry, form, are_long] : all) {
    SCOPED_TRACE(geometry.name);
    const form_problem made = make_problem(geometry, form);
    const auto expected = oracle::interpreter<double>(made.g, made.leaves).run().at("result");
    device_profile on = support::shared_profile();
    on.prefers_texel_buffers = false;
    on.full_occupancy = 65536;
    const auto groups = [&](bool parallel) {
      on.parallel = parallel;
      return kernels::generate(made.g, node_id{2}, on).groups[0];
    };
    EXPECT_EQ(groups(true) > groups(false), are_long);
    on.parallel = true;
    for (bool shuffle : {false, support::shared_profile().subgroup_shuffle}) {
      on.subgroup_shuffle = shuffle;
      const auto actual = support::device_graph(made.g, on).run(made.leaves).at("result");
      EXPECT_LE(oracle::relative_error(actual, expected), oracle::tolerance(dtype::f32, made.terms)) << shuffle;
    }
  }
}

// Convolutions of each channel where workgroups run side by side: few or many lanes share a filter's taps, a place's
// neighbours lie in one row or in several.
TEST(kernels_convolution, channels_apart_on_devices_of_any_width) {
  const geometry_case all[] = {
      {"channels", {2, 33, 8, 64}, {33, 1, 3, 5}, {.pad_low = {1, 2}, .pad_high = {1, 2}, .groups = 33}},
      {"one of two", {1, 160, 6, 9}, {80, 2, 2, 3}, {.pad_low = {1, 1}, .pad_high = {1, 1}, .groups = 80}},
      {"volumes",
       {1, 40, 3, 4, 8},
       {40, 1, 2, 3, 3},
       {.spatial = 3, .pad_low = {1, 1, 1}, .pad_high = {0, 1, 1}, .groups = 40}}};
  for (int number = 0; number < 9; ++number) {
    const geometry_case& each = all[number / 3];
    const int form = number % 3;
    SCOPED_TRACE(each.name);
    const form_problem made = make_problem(each, static_cast<convolution_attribute::form_kind>(form));
    const auto expected = oracle::interpreter<double>(made.g, made.leaves).run().at("result");
    device_profile on = support::shared_profile();
    on.prefers_texel_buffers = false, on.parallel = true;
    for (const double full : {1.0, 300.0, 65536.0}) {
      for (const bool shuffle : {false, support::shared_profile().subgroup_shuffle}) {
        on.full_occupancy = full, on.subgroup_shuffle = shuffle;
        const auto actual = support::device_graph(made.g, on).run(made.leaves).at("result");
        EXPECT_LE(oracle::relative_error(actual, expected), oracle::tolerance(dtype::f32, made.terms))
            << form << ' ' << full << ' ' << shuffle;
      }
    }
  }
}

// Each tile size and slice count is chosen for some device: small ones prefer large tiles.
TEST(kernels_convolution, every_tile_size_is_right) {
  const geometry_case each{"tiles", {1, 24, 12, 12}, {136, 24, 3, 3}, {.pad_low = {1, 1}, .pad_high = {1, 1}}};
  const shape y = output_shape(each);
  graph g;
  const node_id operands[] = {g.input("x", dtype::f32, each.x), g.input("w", dtype::f32, each.w)};
  g.add_output("result",
               g.add_node(op::convolve, dtype::f32, y,
                          convolve_attribute{each.geometry, y, dense_output(y), {identity_program(), {}}}, operands));
  const oracle::tensors<double> leaves{{"x", oracle::random_tensor(each.x, 1)},
                                       {"w", oracle::random_tensor(each.w, 2)}};
  const auto expected = oracle::interpreter<double>(g, leaves).run().at("result");
  std::set<std::string> names;
  for (std::uint32_t units : {1u, 16u, 132u}) {
    for (std::uint32_t invocations : {32u, 64u, 128u, 256u, 1024u}) {
      device_profile on = support::shared_profile();
      on.prefers_texel_buffers = false;
      on.compute_units = units;
      on.max_invocations = invocations;
      if (!names.insert(kernels::generate(g, node_id{2}, on).module.name).second) continue;
      const auto actual = support::device_graph(g, on).run(leaves).at("result");
      EXPECT_LE(oracle::relative_error(actual, expected), oracle::tolerance(dtype::f32, 24 * 9)) << *names.rbegin();
    }
  }
  EXPECT_GE(names.size(), 3u);
}

}  // namespace
