// SPDX-License-Identifier: MIT
// Products of tensors, images of other sizes, windows as columns.
#include "operation.hpp"

#include <algorithm>
#include <cmath>

namespace operations {

namespace {

using values = std::vector<mn::node_value>;
using all_numbers = std::vector<numbers>;
using std::size_t;

// Sums of a[at_a(i, k)] b[at_b(i, k)] over k < terms, for each element i of the result.
auto products(size_t count, size_t terms, size_t (*at_a)(size_t i, size_t k), size_t (*at_b)(size_t i, size_t k)) {
  return [=](const all_numbers& x) {
    numbers y(count, 0.0);
    for (size_t i = 0; i < count; ++i) {
      for (size_t k = 0; k < terms; ++k) y[i] += x[0][at_a(i, k)] * x[1][at_b(i, k)];
    }
    return y;
  };
}

#define PRODUCT(call, shapes, torch, onnx, a, b, count, terms, built, at_a, at_b)                             \
  list.push_back(                                                                                             \
      {call,                                                                                                  \
       shapes,                                                                                                \
       torch,                                                                                                 \
       onnx,                                                                                                  \
       {{a}, {b}},                                                                                            \
       [](const values& x) -> mn::node_value { return built; },                                               \
       products(                                                                                              \
           count, terms, []([[maybe_unused]] size_t i, [[maybe_unused]] size_t k) -> size_t { return at_a; }, \
           []([[maybe_unused]] size_t i, [[maybe_unused]] size_t k) -> size_t { return at_b; })})

void add_pairs(std::vector<operation>& list) {
  const mn::shape a{2, 3, 4}, b{2, 4, 5}, several{3, 1, 2, 4}, vector{4}, row{3, 4}, column{4, 2}, small{2, 3},
      other{2, 2}, points{2, 3};
  PRODUCT("einsum<\"ik,kj->ij\">(a, b)", "one letter an axis", "einsum", "Einsum", row, column, 6, 4,
          mn::einsum("ik,kj->ji", x[0], x[1]), i % 3 * 4 + k, k * 2 + i / 3);
  PRODUCT("einsum<\"ijk,kl->il\">(a, b)", "one letter an axis", "einsum", "Einsum", a, column, 4, 12,
          mn::einsum("ijk,kl->il", x[0], x[1]), i / 2 * 12 + k, k % 4 * 2 + i % 2);
  PRODUCT("einsum<\"ij,kl->i\">(a, b)", "one letter an axis", "einsum", "Einsum", small, other, 2, 12,
          mn::einsum("ij,kl->i", x[0], x[1]), i * 3 + k / 4, k % 4);
  PRODUCT("matmul(a, b)", "[.., m, k], [.., k, n] -> [.., m, n]", "matmul", "MatMul", several, b, 60, 4,
          mn::matmul(x[0], x[1]), i / 20 * 8 + i / 5 % 2 * 4 + k, i / 10 % 2 * 20 + k * 5 + i % 5);
  PRODUCT("tensordot<axes>(a, b)", "[.., i...], [i..., ..] -> [.., ..]", "tensordot", "", a, column, 12, 4,
          mn::tensordot(x[0], x[1], 1), i / 2 * 4 + k, k * 2 + i % 2);
  PRODUCT("outer(a, b)", "[.., n], [.., m] -> [.., n, m]", "outer", "", vector, vector, 16, 1, mn::outer(x[0], x[1]),
          i / 4, i % 4);
  PRODUCT("kronecker(a, b)", "[.., m, n], [.., p, q] -> [.., m p, n q]", "kron", "", small, other, 24, 1,
          mn::kronecker(x[0], x[1]), i / 12 * 3 + i % 6 / 2, i / 6 % 2 * 2 + i % 2);
  list.push_back({"cross<axis>(a, b)",
                  "[.., 3, ..], [.., 3, ..] -> [.., 3, ..]",
                  "cross",
                  "",
                  {{points}, {points}},
                  [](const values& x) { return mn::cross(x[0], x[1], -1); },
                  [](const all_numbers& x) {
                    numbers y(6);
                    for (size_t i = 0; i < 6; ++i) {
                      const size_t at = i / 3 * 3, p = at + (i + 1) % 3, q = at + (i + 2) % 3;
                      y[i] = x[0][p] * x[1][q] - x[0][q] * x[1][p];
                    }
                    return y;
                  }});
}

// Of `bags` of 12 / bags rows of two numbers, without those of the index `padding`.
numbers bagged(const all_numbers& x, size_t bags, mn::bag_mode mode, double padding) {
  numbers y;
  for (size_t i = 0; i < 2 * bags; ++i) {
    numbers column;
    double sum = 0;
    for (size_t k = i / 2 * (12 / bags); k < (i / 2 + 1) * (12 / bags); ++k) {
      if (x[1][k] == padding) continue;
      column.push_back((x.size() > 2 ? x[2][k] : 1) * x[0][static_cast<size_t>(x[1][k]) * 2 + i % 2]);
      sum += column.back();
    }
    y.push_back(column.empty()               ? 0
                : mode == mn::bag_mode::max  ? *std::max_element(column.begin(), column.end())
                : mode == mn::bag_mode::mean ? sum / static_cast<double>(column.size())
                                             : sum);
  }
  return y;
}

void add_bags(std::vector<operation>& list) {
  const operand table{{6, 2}}, indices{{3, 4}, 0, 6, mn::dtype::i32};
  const operand small{{2, 2}}, padded{{6, 2}, 0, 2, mn::dtype::i32};
  const auto bag = [&](const std::string& mode_name, mn::bag_mode mode) {
    list.push_back({"embedding_bag<bag_mode::" + mode_name + ">(table, indices)",
                    "[rows, ..], [.., m] -> [.., ..]",
                    "embedding_bag",
                    "",
                    {table, indices},
                    [mode](const values& x) { return mn::embedding_bag(x[0], x[1], mode); },
                    [mode](const all_numbers& x) { return bagged(x, 3, mode, -1); }});
    list.push_back({"embedding_bag<bag_mode::" + mode_name + ", padding>(table, indices)",
                    "[rows, ..], [.., m] -> [.., ..]",
                    "embedding_bag",
                    "",
                    {small, padded},
                    [mode](const values& x) { return mn::embedding_bag(x[0], x[1], mode, 1); },
                    [mode](const all_numbers& x) { return bagged(x, 6, mode, 1); }});
  };
  bag("sum", mn::bag_mode::sum);
  bag("mean", mn::bag_mode::mean);
  bag("max", mn::bag_mode::max);
  list.push_back({"embedding_bag(table, indices, weights)",
                  "[rows, ..], [.., m], [.., m] -> [.., ..]",
                  "embedding_bag",
                  "",
                  {table, indices, {{3, 4}}},
                  [](const values& x) { return mn::embedding_bag(x[0], x[1], x[2]); },
                  [](const all_numbers& x) { return bagged(x, 3, mn::bag_mode::sum, -1); }});
  list.push_back({"embedding_bag<padding>(table, indices, weights)",
                  "[rows, ..], [.., m], [.., m] -> [.., ..]",
                  "embedding_bag",
                  "",
                  {small, padded, {{6, 2}}},
                  [](const values& x) { return mn::embedding_bag(x[0], x[1], x[2], 1); },
                  [](const all_numbers& x) { return bagged(x, 6, mn::bag_mode::sum, 1); }});
}

void add_single(std::vector<operation>& list) {
  list.push_back({"einsum<\"iij->j\">(x)",
                  "one letter an axis",
                  "einsum",
                  "Einsum",
                  {{{3, 4, 3, 2, 5}}},
                  [](const values& x) { return mn::einsum("iaibc->ca", x[0]); },
                  [](const all_numbers& x) {
                    numbers y(20, 0.0);
                    for (size_t i = 0; i < 3 * 4 * 2 * 5; ++i) {
                      const size_t c = i % 5, b = i / 5 % 2, a = i / 10 % 4, d = i / 40;
                      y[c * 4 + a] += x[0][(((d * 4 + a) * 3 + d) * 2 + b) * 5 + c];
                    }
                    return y;
                  }});
  list.push_back({"meshgrid(a, ...)",
                  "[n], [m] -> [n, m] each",
                  "meshgrid",
                  "",
                  {{{3}}, {{4}}},
                  [](const values& x) { return mn::meshgrid(x[0], x[1]).get<1>() * mn::meshgrid(x[0], x[1]).get<0>(); },
                  [](const all_numbers& x) {
                    numbers y;
                    for (size_t i = 0; i < 12; ++i) y.push_back(x[0][i / 4] * x[1][i % 4]);
                    return y;
                  }});
  add_bags(list);
}

// Keys' cubic with a = -0.75, the tent, or what is nearest.
double weight(mn::resize_mode mode, double t) {
  t = std::fabs(t);
  if (mode == mn::resize_mode::linear) return std::fmax(0, 1 - t);
  if (t <= 1) return (1.25 * t - 2.25) * t * t + 1;
  return t < 2 ? -0.75 * (((t - 5) * t + 8) * t - 4) : 0;
}

double resized(const double* row, int from, int to, int i, mn::resize_mode mode, mn::resize_place place) {
  const double at = place == mn::resize_place::half_pixel   ? (2.0 * i + 1) * from / (2.0 * to) - 0.5
                    : place == mn::resize_place::asymmetric ? double(i) * from / to
                                                            : double(i) * (from - 1) / (to - 1);
  const auto inside = [&](double k) { return row[static_cast<size_t>(std::fmin(std::fmax(k, 0), from - 1))]; };
  if (mode == mn::resize_mode::nearest) {
    return inside(std::floor(at + (place == mn::resize_place::asymmetric ? 1e-9 : 0.5 + 1e-9)));
  }
  double sum = 0;
  for (int k = -3; k < from + 3; ++k) sum += weight(mode, at - k) * inside(k);
  return sum;
}

void add_sizes(std::vector<operation>& list) {
  const auto add = [&](const char* call, int from, int to, mn::resize_mode mode, mn::resize_place place) {
    const bool known = mode == mn::resize_mode::nearest || place != mn::resize_place::asymmetric;
    list.push_back({call,
                    "[.., n, ..] -> [.., size, ..]",
                    known ? "interpolate" : "",
                    "Resize",
                    {{{2, from}}},
                    [=](const values& x) { return mn::resize(x[0], -1, to, mode, place); },
                    [=](const all_numbers& x) {
                      numbers y;
                      for (int i = 0; i < 2 * to; ++i) {
                        y.push_back(resized(x[0].data() + i / to * from, from, to, i % to, mode, place));
                      }
                      return y;
                    }});
  };
  using mode = mn::resize_mode;
  using place = mn::resize_place;
  add("resize<axis, size, resize_mode::nearest, resize_place::asymmetric>(x)", 5, 8, mode::nearest, place::asymmetric);
  add("resize<axis, size, resize_mode::nearest>(x)", 6, 4, mode::nearest, place::half_pixel);
  add("resize<axis, multiple, resize_mode::nearest, resize_place::asymmetric>(x)", 3, 12, mode::nearest,
      place::asymmetric);
  add("resize<axis, multiple, resize_mode::nearest>(x)", 5, 10, mode::nearest, place::half_pixel);
  add("resize<axis, size, resize_mode::linear>(x)", 5, 8, mode::linear, place::half_pixel);
  add("resize<axis, size, resize_mode::linear, resize_place::align_corners>(x)", 5, 8, mode::linear,
      place::align_corners);
  add("resize<axis, size, resize_mode::linear, resize_place::asymmetric>(x)", 5, 8, mode::linear, place::asymmetric);
  list.push_back({"resize<axis, spatial, resize_mode::linear>(x)",
                  "[.., n, m, ..] -> [.., size, size, ..]",
                  "interpolate",
                  "Resize",
                  {{{4, 5}}},
                  [](const values& x) {
                    return mn::resize(x[0], -2, mn::spatial{6, 3}, mode::linear);
                  },
                  [](const all_numbers& x) {
                    numbers y;
                    for (int i = 0; i < 18; ++i) {
                      numbers column;
                      for (size_t k = 0; k < 4; ++k) {
                        column.push_back(resized(x[0].data() + k * 5, 5, 3, i % 3, mode::linear, place::half_pixel));
                      }
                      y.push_back(resized(column.data(), 4, 6, i / 3, mode::linear, place::half_pixel));
                    }
                    return y;
                  }});
  add("resize<axis, size, resize_mode::cubic>(x)", 8, 5, mode::cubic, place::half_pixel);
  add("resize<axis, size, resize_mode::cubic, resize_place::align_corners>(x)", 5, 8, mode::cubic,
      place::align_corners);
}

constexpr mn::conv_options windows{.kernel = 3, .stride = 2, .padding = 1, .dilation = 2};

// visit(element of the columns, element of the images) of images [1, 2, 7, 8].
template <class Visit>
void for_each_tap(const Visit& visit) {
  for (int i = 0; i < 2 * 9 * 3 * 3; ++i) {
    const int ox = i % 3, oy = i / 3 % 3, kx = i / 9 % 3, ky = i / 27 % 3, channel = i / 81;
    const int y = oy * 2 + ky * 2 - 1, x = ox * 2 + kx * 2 - 1;
    if (y < 0 || y >= 7 || x < 0 || x >= 8) continue;
    visit(static_cast<size_t>(i), static_cast<size_t>((channel * 7 + y) * 8 + x));
  }
}

void add_columns(std::vector<operation>& list) {
  list.push_back({"unfold<options>(x)",
                  "[n, c, h, w] -> [n, c kernel kernel, windows]",
                  "unfold",
                  "",
                  {{{1, 2, 7, 8}}},
                  [](const values& x) { return mn::unfold(x[0], windows); },
                  [](const all_numbers& x) {
                    numbers y(162, 0.0);
                    for_each_tap([&](size_t column, size_t image) { y[column] = x[0][image]; });
                    return y;
                  }});
  list.push_back({"fold<h, w, options>(x)",
                  "[n, c kernel kernel, windows] -> [n, c, h, w]",
                  "fold",
                  "Col2Im",
                  {{{1, 18, 9}}},
                  [](const values& x) { return mn::fold(x[0], 7, 8, windows); },
                  [](const all_numbers& x) {
                    numbers y(112, 0.0);
                    for_each_tap([&](size_t column, size_t image) { y[image] += x[0][column]; });
                    return y;
                  }});
}

}  // namespace

void add_products(std::vector<operation>& list) {
  add_pairs(list);
  add_single(list);
  add_sizes(list);
  add_columns(list);
}

}  // namespace operations
