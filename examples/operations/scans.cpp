// SPDX-License-Identifier: MIT
// Operations along a row, each element by those before it.
#include "operation.hpp"

#include <algorithm>
#include <functional>

namespace operations {

namespace {

using values = std::vector<mn::node_value>;
using along_row = void (*)(numbers& row);

// Each row of the middle axis of [2, 5, 3] is changed in its place.
operation along(const char* call, const char* torch, const char* onnx, operand taken, along_row change,
                mn::node_value (*build)(mn::node_value)) {
  taken.extents = {2, 5, 3};
  const auto definition = [change](const std::vector<numbers>& x) {
    numbers y = x[0];
    for (std::size_t line = 0; line < 6; ++line) {
      const std::size_t begin = line / 3 * 15 + line % 3;
      numbers row;
      for (std::size_t i = 0; i < 5; ++i) row.push_back(y[begin + 3 * i]);
      change(row);
      for (std::size_t i = 0; i < 5; ++i) y[begin + 3 * i] = row[i];
    }
    return y;
  };
  return {
      call,      "[.., n, ..] -> [.., n, ..]", torch, onnx, {taken}, [build](const values& x) { return build(x[0]); },
      definition};
}

operand floats(double low, double high) { return {{}, low, high}; }
operand integers(double low, double high) { return {{}, low, high, mn::dtype::i32}; }

// The place of the last element so far that `beats` no other.
template <class Beats>
void places(numbers& row, Beats beats) {
  const numbers x = row;
  std::size_t best = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!beats(x[best], x[i])) best = i;
    row[i] = static_cast<double>(best);
  }
}

}  // namespace

void add_scans(std::vector<operation>& list) {
  list.push_back(along(
      "cumsum<axis>(x)", "cumsum", "CumSum", floats(-2, 2),
      [](numbers& row) {
        for (std::size_t i = 1; i < row.size(); ++i) row[i] += row[i - 1];
      },
      [](mn::node_value x) { return mn::cumsum(x, 1); }));
  list.push_back(along(
      "cumsum<axis>(x, reverse)", "", "CumSum", floats(-2, 2),
      [](numbers& row) {
        for (std::size_t i = row.size() - 1; i > 0; --i) row[i - 1] += row[i];
      },
      [](mn::node_value x) { return mn::cumsum(x, -2, true); }));
  list.push_back(along(
      "cumprod<axis>(x)", "cumprod", "", floats(-2, 2),
      [](numbers& row) {
        for (std::size_t i = 1; i < row.size(); ++i) row[i] *= row[i - 1];
      },
      [](mn::node_value x) { return mn::cumprod(x, 1); }));
  list.push_back(along(
      "cummax<axis>(x)", "cummax", "", floats(-2, 2),
      [](numbers& row) {
        for (std::size_t i = 1; i < row.size(); ++i) row[i] = std::max(row[i], row[i - 1]);
      },
      [](mn::node_value x) { return mn::cummax(x, 1); }));
  list.push_back(along(
      "cummin<axis>(x)", "cummin", "", floats(-2, 2),
      [](numbers& row) {
        for (std::size_t i = 1; i < row.size(); ++i) row[i] = std::min(row[i], row[i - 1]);
      },
      [](mn::node_value x) { return mn::cummin(x, 1); }));
  list.push_back(along(
      "cumargmax<axis>(x)", "cummax", "", integers(-2, 2), [](numbers& row) { places(row, std::greater<double>()); },
      [](mn::node_value x) { return mn::cumargmax(x, 1); }));
  list.push_back(along(
      "cumargmin<axis>(x)", "cummin", "", integers(-2, 2), [](numbers& row) { places(row, std::less<double>()); },
      [](mn::node_value x) { return mn::cumargmin(x, 1); }));
}

}  // namespace operations
