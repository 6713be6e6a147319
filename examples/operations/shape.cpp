// SPDX-License-Identifier: MIT
// Shapes, indices and rearrangements.
#include "operation.hpp"

#include <cstdint>

namespace operations {

namespace {

using values = std::vector<mn::node_value>;
using all_numbers = std::vector<numbers>;
using std::size_t;

constexpr mn::dtype i32 = mn::dtype::i32;

// What has the result's elements, one each: `at(x, i)` for i in row-major order.
auto elements(size_t count, double (*at)(const all_numbers& x, size_t i)) {
  return [=](const all_numbers& x) {
    numbers y(count);
    for (size_t i = 0; i < count; ++i) y[i] = at(x, i);
    return y;
  };
}

size_t whole(double x) { return static_cast<size_t>(x); }

void add_along_axes(std::vector<operation>& list) {
  const operand table{{2, 5, 3}}, places{{2, 4, 3}, 0, 5, i32}, news{{2, 4, 3}};
  list.push_back(
      {"take_along<axis>(data, indices)",
       "[.., n, ..], [.., m, ..] -> [.., m, ..]",
       "gather",
       "GatherElements",
       {table, places},
       [](const values& x) { return mn::take_along(x[0], x[1], 1); },
       elements(24, [](const all_numbers& x, size_t i) { return x[0][i / 12 * 15 + whole(x[1][i]) * 3 + i % 3]; })});
  list.push_back({"put_along<axis>(x, indices, updates)",
                  "[.., n, ..], [.., m, ..], [.., m, ..] -> [.., n, ..]",
                  "scatter",
                  "ScatterElements",
                  {table, places, news},
                  [](const values& x) { return mn::put_along(x[0], x[1], x[2], -2); },
                  [](const all_numbers& x) {
                    numbers y = x[0];
                    for (size_t i = 0; i < 24; ++i) y[i / 12 * 15 + whole(x[1][i]) * 3 + i % 3] = x[2][i];
                    return y;
                  }});
  list.push_back({"add_along<axis>(x, indices, updates)",
                  "[.., n, ..], [.., m, ..], [.., m, ..] -> [.., n, ..]",
                  "scatter_add",
                  "ScatterElements",
                  {table, places, news},
                  [](const values& x) { return mn::add_along(x[0], x[1], x[2], 1); },
                  [](const all_numbers& x) {
                    numbers y = x[0];
                    for (size_t i = 0; i < 24; ++i) y[i / 12 * 15 + whole(x[1][i]) * 3 + i % 3] += x[2][i];
                    return y;
                  }});
}

}  // namespace

void add_shape(std::vector<operation>& list) { add_along_axes(list); }

}  // namespace operations
