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

numbers sorted(numbers row) {
  std::sort(row.begin(), row.end());
  return row;
}

// [2, 5, 3] -> [2, 3]
operation of_row(const char* call, const char* torch, double (*definition)(const numbers& row),
                 mn::node_value (*build)(mn::node_value)) {
  const auto all = [definition](const std::vector<numbers>& x) {
    numbers y;
    for (std::size_t line = 0; line < 6; ++line) {
      numbers row;
      for (std::size_t i = 0; i < 5; ++i) row.push_back(x[0][line / 3 * 15 + line % 3 + 3 * i]);
      y.push_back(definition(row));
    }
    return y;
  };
  return {call, "[.., n, ..] -> [.., ..]", torch, "", {{{2, 5, 3}}}, [build](const values& x) { return build(x[0]); },
          all};
}

void add_sorting(std::vector<operation>& list) {
  list.push_back(along(
      "argsort<axis>(x)", "argsort", "", integers(-2, 2),
      [](numbers& row) {
        const numbers x = row;
        for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<double>(i);
        std::stable_sort(row.begin(), row.end(), [&](double a, double b) {
          return x[static_cast<std::size_t>(a)] < x[static_cast<std::size_t>(b)];
        });
      },
      [](mn::node_value x) { return mn::argsort(x, 1); }));
  list.push_back(along(
      "sort<axis>(x)", "sort", "", floats(-2, 2), [](numbers& row) { row = sorted(row); },
      [](mn::node_value x) { return mn::sort(x, 1); }));
  list.push_back(along(
      "sparsemax<axis>(x)", "", "", floats(-1, 1),
      [](numbers& row) {  // the threshold by bisection
        double low = -2, high = 2;
        for (int i = 0; i < 80; ++i) {
          const double middle = (low + high) / 2;
          double sum = 0;
          for (const double x : row) sum += std::max(x - middle, 0.0);
          (sum > 1 ? low : high) = middle;
        }
        for (double& x : row) x = std::max(x - low, 0.0);
      },
      [](mn::node_value x) { return mn::sparsemax(x, 1); }));
  list.push_back(of_row(
      "kthvalue<k, axis>(x)", "kthvalue", [](const numbers& row) { return sorted(row)[3]; },
      [](mn::node_value x) { return mn::kthvalue(x, 4, 1); }));
  list.push_back(of_row(
      "median<axis>(x)", "median", [](const numbers& row) { return sorted(row)[2]; },
      [](mn::node_value x) { return mn::median(x, 1); }));
  list.push_back(of_row(
      "quantile<axis>(x, share)", "quantile",
      [](const numbers& row) { return 0.75 * sorted(row)[2] + 0.25 * sorted(row)[3]; },
      [](mn::node_value x) { return mn::quantile(x, mn::quantile_share{0.5625}, 1); }));
  list.push_back({"topk<count, axis>(x)",
                  "[.., n, ..] -> [.., count, ..]",
                  "topk",
                  "TopK",
                  {{{3, 5}}},
                  [](const values& x) { return mn::topk(x[0], 2, -1).get<"values">(); },
                  [](const std::vector<numbers>& x) {
                    numbers y;
                    for (std::ptrdiff_t line = 0; line < 3; ++line) {
                      const numbers row = sorted({x[0].begin() + 5 * line, x[0].begin() + 5 * line + 5});
                      y.insert(y.end(), {row[4], row[3]});
                    }
                    return y;
                  }});
}

}  // namespace

void add_scans(std::vector<operation>& list) {
  add_sorting(list);
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
