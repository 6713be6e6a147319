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

// [planes, h, w], where windows of one axis have h = 1.
struct image {
  int planes, h, w;
};
struct window_list {
  mn::spatial size{1}, stride{1}, padding{0}, dilation{1};
  bool ceil = false;
};
// The elements inside of a window, and how many places it has inside of image and padding.
using of_window = std::function<double(const numbers& inside, int places)>;

int windows_along(int extent, const window_list& o, int axis) {
  const int span = extent + 2 * o.padding[axis] - o.dilation[axis] * (o.size[axis] - 1) - 1;
  int count = span / o.stride[axis] + 1;
  if (o.ceil && span % o.stride[axis] != 0 && count * o.stride[axis] < extent + o.padding[axis]) ++count;
  return count;
}

numbers by_windows(const numbers& x, image size, const window_list& o, const of_window& of) {
  numbers result;
  const int extents[] = {size.h, size.w};
  for (int plane = 0; plane < size.planes; ++plane) {
    for (int i = 0; i < windows_along(size.h, o, 0); ++i) {
      for (int j = 0; j < windows_along(size.w, o, 1); ++j) {
        numbers inside;
        int places = 0;
        for (int tap = 0; tap < o.size[0] * o.size[1]; ++tap) {
          const int at[] = {i * o.stride[0] - o.padding[0] + tap / o.size[1] * o.dilation[0],
                            j * o.stride[1] - o.padding[1] + tap % o.size[1] * o.dilation[1]};
          bool is_inside = true, is_place = true;
          for (int axis = 0; axis < 2; ++axis) {
            is_inside = is_inside && at[axis] >= 0 && at[axis] < extents[axis];
            is_place = is_place && at[axis] < extents[axis] + o.padding[axis];
          }
          places += is_place ? 1 : 0;
          if (is_inside) inside.push_back(x[static_cast<std::size_t>((plane * size.h + at[0]) * size.w + at[1])]);
        }
        result.push_back(of(inside, places));
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

operation pool(const char* call, const char* torch, const char* onnx, mn::shape extents, image size,
               const window_list& windows, const of_window& of, std::function<mn::node_value(mn::node_value)> build) {
  return {call,
          size.h == 1 ? "[.., w] -> [.., ow]" : "[.., h, w] -> [.., oh, ow]",
          torch,
          onnx,
          {{extents}},
          [build](const values& x) { return build(x[0]); },
          [=](const arguments& x) { return by_windows(x[0], size, windows, of); }};
}

void add_max(std::vector<operation>& list) {
  using value = mn::node_value;
  list.push_back(pool("max_pool1d<options>(x)", "nn.functional.max_pool1d", "MaxPool", {2, 7}, {2, 1, 7},
                      {{1, 3}, {1, 2}, {0, 1}, {1, 1}}, largest, [](value x) {
                        return mn::max_pool1d(x, mn::pool_options{.window = 3, .stride = 2, .padding = 1});
                      }));
  list.push_back(
      pool("max_pool2d<options>(x)", "nn.functional.max_pool2d", "MaxPool", {2, 3, 7, 8}, {6, 7, 8},
           {{3, 2}, {2, 1}, {1, 0}, {1, 2}, true}, largest, [](value x) {
             return mn::max_pool2d(
                 x, mn::pool_options{
                        .window = {3, 2}, .stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .ceil_mode = true});
           }));
  list.push_back(pool("max_pool3d<options>(x)", "nn.functional.max_pool3d", "MaxPool", {3, 1, 6, 5}, {3, 6, 5},
                      {{2, 2}, {2, 2}, {0, 0}, {1, 1}, true}, largest, [](value x) {
                        return mn::max_pool3d(x, mn::pool_options{.window = {1, 2, 2}, .ceil_mode = true});
                      }));
  list.push_back(pool("adaptive_max_pool1d<out>(x)", "nn.functional.adaptive_max_pool1d", "", {2, 5}, {2, 1, 5},
                      {{1, 3}, {1, 2}}, largest, [](value x) { return mn::adaptive_max_pool1d(x, mn::spatial(2)); }));
  list.push_back(pool("adaptive_max_pool2d<out>(x)", "nn.functional.adaptive_max_pool2d", "GlobalMaxPool", {2, 6, 7},
                      {2, 6, 7}, {{2, 3}, {2, 2}}, largest,
                      [](value x) { return mn::adaptive_max_pool2d(x, mn::spatial(3, 3)); }));
  list.push_back(pool("adaptive_max_pool3d<out>(x)", "nn.functional.adaptive_max_pool3d", "GlobalMaxPool", {3, 1, 4, 6},
                      {3, 4, 6}, {{4, 2}, {4, 2}}, largest,
                      [](value x) { return mn::adaptive_max_pool3d(x, mn::spatial(1, 1, 3)); }));
}

void add_means(std::vector<operation>& list) {
  using value = mn::node_value;
  list.push_back(pool("avg_pool1d<options>(x)", "nn.functional.avg_pool1d", "AveragePool", {2, 7}, {2, 1, 7},
                      {{1, 3}, {1, 2}, {0, 1}}, mean_of_places, [](value x) {
                        return mn::avg_pool1d(x, mn::pool_options{.window = 3, .stride = 2, .padding = 1});
                      }));
  list.push_back(
      pool("avg_pool2d<options>(x)", "nn.functional.avg_pool2d", "AveragePool", {2, 6, 8}, {2, 6, 8},
           {{3, 3}, {2, 3}, {1, 1}, {1, 1}, true}, mean_of_places, [](value x) {
             return mn::avg_pool2d(x, mn::pool_options{.window = 3, .stride = {2, 3}, .padding = 1, .ceil_mode = true});
           }));
  list.push_back(pool("avg_pool3d<options>(x)", "nn.functional.avg_pool3d", "AveragePool", {3, 1, 6, 8}, {3, 6, 8},
                      {{3, 3}, {2, 3}, {1, 1}, {1, 1}, true}, mean_inside, [](value x) {
                        return mn::avg_pool3d(x, mn::pool_options{.window = {1, 3, 3},
                                                                  .stride = {1, 2, 3},
                                                                  .padding = {0, 1, 1},
                                                                  .ceil_mode = true,
                                                                  .count_include_pad = false});
                      }));
  list.push_back(pool("lp_pool1d<options>(x)", "nn.functional.lp_pool1d", "LpPool", {2, 7}, {2, 1, 7}, {{1, 2}, {1, 2}},
                      length, [](value x) { return mn::lp_pool1d(x, mn::lp_pool_options{}); }));
  list.push_back(pool("lp_pool2d<options>(x)", "nn.functional.lp_pool2d", "LpPool", {2, 5, 6}, {2, 5, 6},
                      {{2, 2}, {1, 1}}, cubic_length,
                      [](value x) { return mn::lp_pool2d(x, mn::lp_pool_options{.p = 3, .stride = 1}); }));
  list.push_back(
      pool("lp_pool3d<options>(x)", "", "LpPool", {3, 1, 5, 6}, {3, 5, 6}, {{2, 2}, {2, 2}}, length, [](value x) {
        return mn::lp_pool3d(x, mn::lp_pool_options{.window = {1, 2, 2}});
      }));
  list.push_back(pool("adaptive_avg_pool1d<out>(x)", "nn.functional.adaptive_avg_pool1d", "", {2, 5}, {2, 1, 5},
                      {{1, 3}, {1, 2}}, mean_inside,
                      [](value x) { return mn::adaptive_avg_pool1d(x, mn::spatial(2)); }));
  list.push_back(pool("adaptive_avg_pool2d<out>(x)", "nn.functional.adaptive_avg_pool2d", "GlobalAveragePool",
                      {2, 6, 7}, {2, 6, 7}, {{2, 3}, {2, 2}}, mean_inside,
                      [](value x) { return mn::adaptive_avg_pool2d(x, mn::spatial(3, 3)); }));
  list.push_back(pool("adaptive_avg_pool3d<out>(x)", "nn.functional.adaptive_avg_pool3d", "GlobalAveragePool",
                      {3, 1, 4, 6}, {3, 4, 6}, {{4, 2}, {4, 2}}, mean_inside,
                      [](value x) { return mn::adaptive_avg_pool3d(x, mn::spatial(1, 1, 3)); }));
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
