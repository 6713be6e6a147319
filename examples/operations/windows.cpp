// SPDX-License-Identifier: MIT
// Pooling and normalisation without parameters, by loops over windows.
#include "operation.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace operations {

namespace {

using values = std::vector<mn::node_value>;
using arguments = std::vector<numbers>;

// The windows of an axis: the places of each, of which those outside of the axis are padding.
using windows = std::vector<std::vector<int>>;
// The elements inside of a window, and how many places it has inside of image and padding.
using of_window = std::function<double(const numbers& inside, int places)>;

windows sliding(int extent, const mn::pool_options& o, int axis) {
  const int size = o.window[axis], padding = o.padding[axis], stride = o.stride[axis] == 0 ? size : o.stride[axis];
  const int span = extent + 2 * padding - o.dilation[axis] * (size - 1) - 1;
  int count = span / stride + 1;
  if (o.ceil_mode && span % stride != 0 && count * stride < extent + padding) ++count;
  windows result(static_cast<std::size_t>(count));
  for (int i = 0; i < count * size; ++i) {
    const int at = i / size * stride - padding + i % size * o.dilation[axis];
    if (at < extent + padding) result[static_cast<std::size_t>(i / size)].push_back(at);
  }
  return result;
}

windows adapted(int extent, int count) {
  windows result(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    for (int at = i * extent / count; at * count < (i + 1) * extent; ++at)
      result[static_cast<std::size_t>(i)].push_back(at);
  }
  return result;
}

// What `along` gives for the extent of each of the last axes, three with those of 1 before.
numbers by_windows(const numbers& x, const mn::shape& extents, int axes, const of_window& of,
                   const std::function<windows(int extent, int axis)>& along) {
  int size[] = {1, 1, 1};
  windows list[] = {{{0}}, {{0}}, {{0}}};
  for (int i = 0; i < axes; ++i) {
    size[3 - axes + i] = static_cast<int>(extents[extents.rank() - axes + i]);
    list[3 - axes + i] = along(size[3 - axes + i], i);
  }
  const int plane = size[0] * size[1] * size[2];
  numbers result;
  for (int first = 0; first < static_cast<int>(x.size()); first += plane) {
    for (const auto& depth : list[0]) {
      for (const auto& rows : list[1]) {
        for (const auto& columns : list[2]) {
          numbers inside;
          for (const int d : depth) {
            for (const int h : rows) {
              for (const int w : columns) {
                if (d < 0 || h < 0 || w < 0 || d >= size[0] || h >= size[1] || w >= size[2]) continue;
                inside.push_back(x[static_cast<std::size_t>(first + (d * size[1] + h) * size[2] + w)]);
              }
            }
          }
          result.push_back(of(inside, static_cast<int>(depth.size() * rows.size() * columns.size())));
        }
      }
    }
  }
  return result;
}

double largest(const numbers& inside, int) { return *std::max_element(inside.begin(), inside.end()); }
double sum_of(const numbers& inside) {
  double sum = 0;
  for (const double x : inside) sum += x;
  return sum;
}
double mean_of_places(const numbers& inside, int places) { return sum_of(inside) / places; }
double mean_inside(const numbers& inside, int) { return sum_of(inside) / static_cast<double>(inside.size()); }
double length(const numbers& inside, int) {
  double sum = 0;
  for (const double x : inside) sum += x * x;
  return std::sqrt(sum);
}
double cubic_length(const numbers& inside, int) {
  double sum = 0;
  for (const double x : inside) sum += std::fabs(x * x * x);
  return std::cbrt(sum);
}

const char* const shapes[] = {"[.., w] -> [.., ow]", "[.., h, w] -> [.., oh, ow]", "[.., d, h, w] -> [.., od, oh, ow]"};

using pool_call = std::function<mn::node_value(mn::node_value, const mn::pool_options&)>;
operation pool(const char* call, const char* torch, const char* onnx, mn::shape extents, int axes,
               const mn::pool_options& options, const of_window& of, const pool_call& build) {
  return {call,
          shapes[axes - 1],
          torch,
          onnx,
          {{extents}},
          [=](const values& x) { return build(x[0], options); },
          [=](const arguments& x) {
            return by_windows(x[0], extents, axes, of,
                              [&](int extent, int axis) { return sliding(extent, options, axis); });
          }};
}

using adaptive_call = std::function<mn::node_value(mn::node_value, mn::spatial)>;
operation adaptive(const char* call, const char* torch, const char* onnx, mn::shape extents, int axes, mn::spatial out,
                   const of_window& of, const adaptive_call& build) {
  return {call,
          shapes[axes - 1],
          torch,
          onnx,
          {{extents}},
          [=](const values& x) { return build(x[0], out); },
          [=](const arguments& x) {
            return by_windows(x[0], extents, axes, of,
                              [&](int extent, int axis) { return adapted(extent, out[axis]); });
          }};
}

void add_max(std::vector<operation>& list) {
  list.push_back(pool("max_pool1d<options>(x)", "nn.functional.max_pool1d", "MaxPool", {2, 7}, 1,
                      {.window = 3, .stride = 2, .padding = 1}, largest,
                      [](auto x, const auto& o) { return mn::max_pool1d(x, o); }));
  list.push_back(pool("max_pool2d<options>(x)", "nn.functional.max_pool2d", "MaxPool", {2, 3, 7, 8}, 2,
                      {.window = {3, 2}, .stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .ceil_mode = true},
                      largest, [](auto x, const auto& o) { return mn::max_pool2d(x, o); }));
  list.push_back(pool("max_pool3d<options>(x)", "nn.functional.max_pool3d", "MaxPool", {2, 4, 6, 5}, 3,
                      {.window = {2, 3, 2}, .stride = {1, 2, 2}, .padding = {1, 1, 0}, .ceil_mode = true}, largest,
                      [](auto x, const auto& o) { return mn::max_pool3d(x, o); }));
  list.push_back(adaptive("adaptive_max_pool1d<out>(x)", "nn.functional.adaptive_max_pool1d", "", {2, 5}, 1, 2, largest,
                          [](auto x, mn::spatial out) { return mn::adaptive_max_pool1d(x, out); }));
  list.push_back(adaptive("adaptive_max_pool2d<out>(x)", "nn.functional.adaptive_max_pool2d", "GlobalMaxPool",
                          {2, 6, 3}, 2, {3, 5}, largest,
                          [](auto x, mn::spatial out) { return mn::adaptive_max_pool2d(x, out); }));
  list.push_back(adaptive("adaptive_max_pool3d<out>(x)", "nn.functional.adaptive_max_pool3d", "GlobalMaxPool",
                          {2, 3, 4, 6}, 3, {2, 1, 3}, largest,
                          [](auto x, mn::spatial out) { return mn::adaptive_max_pool3d(x, out); }));
}

void add_means(std::vector<operation>& list) {
  list.push_back(pool("avg_pool1d<options>(x)", "nn.functional.avg_pool1d", "AveragePool", {2, 7}, 1,
                      {.window = 3, .stride = 2, .padding = 1}, mean_of_places,
                      [](auto x, const auto& o) { return mn::avg_pool1d(x, o); }));
  list.push_back(pool("avg_pool2d<options>(x)", "nn.functional.avg_pool2d", "AveragePool", {2, 6, 8}, 2,
                      {.window = 3, .stride = {2, 3}, .padding = 1, .ceil_mode = true, .count_include_pad = false},
                      mean_inside, [](auto x, const auto& o) { return mn::avg_pool2d(x, o); }));
  list.push_back(pool("avg_pool3d<options>(x)", "nn.functional.avg_pool3d", "AveragePool", {2, 3, 6, 8}, 3,
                      {.window = {2, 3, 3}, .stride = {1, 2, 3}, .padding = 1, .ceil_mode = true}, mean_of_places,
                      [](auto x, const auto& o) { return mn::avg_pool3d(x, o); }));
  list.push_back(pool("lp_pool1d<options>(x)", "nn.functional.lp_pool1d", "LpPool", {2, 7}, 1, {}, length,
                      [](auto x, const auto&) { return mn::lp_pool1d(x, mn::lp_pool_options{}); }));
  list.push_back(
      pool("lp_pool2d<options>(x)", "nn.functional.lp_pool2d", "LpPool", {2, 5, 6}, 2, {.stride = 1}, cubic_length,
           [](auto x, const auto& o) { return mn::lp_pool2d(x, mn::lp_pool_options{.p = 3, .stride = o.stride}); }));
  list.push_back(pool("lp_pool3d<options>(x)", "", "LpPool", {2, 4, 5, 6}, 3, {.window = {2, 1, 3}}, length,
                      [](auto x, const auto& o) { return mn::lp_pool3d(x, mn::lp_pool_options{.window = o.window}); }));
  list.push_back(adaptive("adaptive_avg_pool1d<out>(x)", "nn.functional.adaptive_avg_pool1d", "", {2, 5}, 1, 2,
                          mean_inside, [](auto x, mn::spatial out) { return mn::adaptive_avg_pool1d(x, out); }));
  list.push_back(adaptive("adaptive_avg_pool2d<out>(x)", "nn.functional.adaptive_avg_pool2d", "GlobalAveragePool",
                          {2, 6, 3}, 2, {3, 5}, mean_inside,
                          [](auto x, mn::spatial out) { return mn::adaptive_avg_pool2d(x, out); }));
  list.push_back(adaptive("adaptive_avg_pool3d<out>(x)", "nn.functional.adaptive_avg_pool3d", "GlobalAveragePool",
                          {2, 3, 4, 6}, 3, {2, 1, 3}, mean_inside,
                          [](auto x, mn::spatial out) { return mn::adaptive_avg_pool3d(x, out); }));
}

void add_norms(std::vector<operation>& list) {
  list.push_back({"local_response_norm<options>(x)",
                  "[n, c, ..] -> [n, c, ..]",
                  "nn.functional.local_response_norm",
                  "LRN",
                  {{{2, 6, 3}}},
                  [](const values& x) {
                    return mn::local_response_norm(x[0], mn::local_response_options{.size = 4, .alpha = 0.5f, .k = 2});
                  },
                  [](const arguments& x) {  // two channels before, one behind
                    numbers y;
                    for (int i = 0; i < 36; ++i) {
                      double sum = 0;
                      for (int c = std::max(i / 3 % 6 - 2, 0); c <= std::min(i / 3 % 6 + 1, 5); ++c)
                        sum += std::pow(x[0][static_cast<std::size_t>(i / 18 * 18 + c * 3 + i % 3)], 2);
                      y.push_back(x[0][static_cast<std::size_t>(i)] / std::pow(2 + 0.5 / 4 * sum, 0.75));
                    }
                    return y;
                  }});
  list.push_back({"weight_norm(v, g)",
                  "[out, ..], [out, 1, ..] -> [out, ..]",
                  "_weight_norm",
                  "",
                  {{{3, 2, 2}}, {{3, 1, 1}}},
                  [](const values& x) { return mn::weight_norm(x[0], x[1]); },
                  [](const arguments& x) {
                    numbers y;
                    for (std::size_t i = 0; i < 12; ++i) {
                      double sum = 0;
                      for (std::size_t k = 0; k < 4; ++k) sum += x[0][i / 4 * 4 + k] * x[0][i / 4 * 4 + k];
                      y.push_back(x[1][i / 4] * x[0][i] / std::sqrt(sum));
                    }
                    return y;
                  }});
}

}  // namespace

void add_windows(std::vector<operation>& list) {
  add_max(list);
  add_means(list);
  add_norms(list);
}

}  // namespace operations
