// SPDX-License-Identifier: MIT
// Operations that make one number of a row.
#include "operation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace operations {

namespace {

using values = std::vector<mn::node_value>;
using of_row = double (*)(const numbers&);
using of_rows = double (*)(const numbers&, const numbers&);

// Row j of a tensor [2, 3, 4] is [:, j, :].
numbers row(const numbers& x, std::size_t j) {
  numbers found;
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t k = 0; k < 4; ++k) found.push_back(x[(i * 3 + j) * 4 + k]);
  }
  return found;
}

// [2, 3, 4] -> [3]
operation reduction(const char* call, const char* torch, const char* onnx, operand taken, of_row of,
                    mn::node_value (*build)(mn::node_value)) {
  taken.extents = {2, 3, 4};
  const auto definition = [of](const std::vector<numbers>& x) {
    return numbers{of(row(x[0], 0)), of(row(x[0], 1)), of(row(x[0], 2))};
  };
  return {call,      "[.., n, ..] -> [.., ..]", torch, onnx, {taken}, [build](const values& x) { return build(x[0]); },
          definition};
}

// [2, 3, 4], [2, 3, 4] -> [3]
operation of_two(const char* call, const char* torch, of_rows of,
                 mn::node_value (*build)(mn::node_value, mn::node_value)) {
  const auto definition = [of](const std::vector<numbers>& x) {
    numbers y;
    for (std::size_t j = 0; j < 3; ++j) y.push_back(of(row(x[0], j), row(x[1], j)));
    return y;
  };
  return {call,
          "[.., n, ..], [.., n, ..] -> [.., ..]",
          torch,
          "",
          {{{2, 3, 4}}, {{2, 3, 4}}},
          [build](const values& x) { return build(x[0], x[1]); },
          definition};
}

operand floats(double low = -2, double high = 2) { return {{}, low, high}; }
operand integers(double low, double high) { return {{}, low, high, mn::dtype::i32}; }

double sum_of(const numbers& x, double (*term)(double)) {
  double sum = 0;
  for (const double each : x) sum += term(each);
  return sum;
}
double power_sum(const numbers& x, double p) {
  double sum = 0;
  for (const double each : x) sum += std::pow(std::fabs(each), p);
  return std::pow(sum, 1 / p);
}
double square_distance(const numbers& x) {
  const double mean = sum_of(x, [](double each) { return each; }) / static_cast<double>(x.size());
  double sum = 0;
  for (const double each : x) sum += (each - mean) * (each - mean);
  return sum;
}
double place(const numbers& x, numbers::const_iterator at) { return static_cast<double>(at - x.begin()); }
double dot(const numbers& a, const numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
double largest(const numbers& x) {
  double most = 0;
  for (const double each : x) most = std::fmax(most, std::fabs(each));
  return most;
}
numbers minus(numbers a, const numbers& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

#define REDUCTION(name, torch, onnx, taken, definition, ...)                                            \
  list.push_back(reduction(                                                                             \
      name "<axes...>(x)", torch, onnx, taken, [](const numbers& row) -> double { return definition; }, \
      [](mn::node_value x) -> mn::node_value { return __VA_ARGS__; }))
#define OF_TWO(name, torch, definition, ...)                                                                  \
  list.push_back(of_two(                                                                                      \
      name "<axes...>(a, b)", torch, [](const numbers& a, const numbers& b) -> double { return definition; }, \
      [](mn::node_value a, mn::node_value b) -> mn::node_value { return __VA_ARGS__; }))

void add_sums(std::vector<operation>& list) {
  REDUCTION("sum", "sum", "ReduceSum", floats(), sum_of(row, [](double x) { return x; }), mn::sum(x, 0, -1));
  REDUCTION("mean", "mean", "ReduceMean", floats(), sum_of(row, [](double x) { return x; }) / 8, mn::mean(x, 0, -1));
  REDUCTION("product", "prod", "ReduceProd", floats(0.5, 2),
            std::exp(sum_of(row, [](double x) { return std::log(x); })), mn::product(x, 0, -1));
  REDUCTION("max", "amax", "ReduceMax", floats(), *std::max_element(row.begin(), row.end()), mn::max(x, 0, -1));
  REDUCTION("min", "amin", "ReduceMin", floats(), *std::min_element(row.begin(), row.end()), mn::min(x, 0, -1));
  REDUCTION("variance", "var", "", floats(), square_distance(row) / 7, mn::variance(x, 0, -1));
  REDUCTION("standard_deviation", "std", "", floats(), std::sqrt(square_distance(row) / 8),
            mn::standard_deviation(x, mn::correction{0}, 0, -1));
  REDUCTION("logsumexp", "logsumexp", "ReduceLogSumExp", floats(-3, 3),
            std::log(sum_of(row, [](double x) { return std::exp(x); })), mn::logsumexp(x, 0, -1));
  REDUCTION("norm", "linalg.vector_norm", "ReduceL2", floats(), power_sum(row, 2), mn::norm(x, 0, -1));
}

void add_places(std::vector<operation>& list) {
  REDUCTION("argmax", "argmax", "ArgMax", integers(0, 5), place(row, std::max_element(row.begin(), row.end())),
            mn::argmax(x, 0, -1));
  REDUCTION("argmin", "argmin", "ArgMin", integers(0, 5), place(row, std::min_element(row.begin(), row.end())),
            mn::argmin(x, 0, -1));
  REDUCTION("count_nonzero", "count_nonzero", "", integers(-1, 2), sum_of(row, [](double x) { return double(x != 0); }),
            mn::count_nonzero(x, 0, -1));
  REDUCTION("any", "any", "", integers(0, 9), sum_of(row, [](double x) { return double(x < 1); }) > 0,
            mn::any(mn::less(x, 1), 0, -1));
  REDUCTION("all", "all", "", integers(0, 9), sum_of(row, [](double x) { return double(x < 1); }) == 0,
            mn::all(mn::less_equal(1, x), 0, -1));
}

void add_distances(std::vector<operation>& list) {
  OF_TWO("euclidean_distance", "pairwise_distance", power_sum(minus(a, b), 2), mn::euclidean_distance(a, b, 0, -1));
  OF_TWO("manhattan_distance", "pairwise_distance", power_sum(minus(a, b), 1), mn::manhattan_distance(a, b, 0, -1));
  OF_TWO("minkowski_distance", "pairwise_distance", power_sum(minus(a, b), 3),
         mn::minkowski_distance(a, b, mn::norm_order{3}, 0, -1));
  OF_TWO("chebyshev_distance", "pairwise_distance", largest(minus(a, b)), mn::chebyshev_distance(a, b, 0, -1));
  OF_TWO("cosine_similarity", "cosine_similarity", dot(a, b) / std::sqrt(dot(a, a) * dot(b, b)),
         mn::cosine_similarity(a, b, 0, -1));
  OF_TWO("cosine_distance", "", 1 - dot(a, b) / std::sqrt(dot(a, a) * dot(b, b)), mn::cosine_distance(a, b, 0, -1));
}

}  // namespace

void add_reductions(std::vector<operation>& list) {
  add_sums(list);
  add_places(list);
  add_distances(list);
  list.push_back({"l2_normalize<axes...>(x)",
                  "[..] -> [..]",
                  "nn.functional.normalize",
                  "LpNormalization",
                  {{{2, 3, 4}}},
                  [](const values& x) { return mn::l2_normalize(x[0], 0, -1); },
                  [](const std::vector<numbers>& x) {
                    numbers y = x[0];
                    for (std::size_t i = 0; i < y.size(); ++i) y[i] /= power_sum(row(x[0], i / 4 % 3), 2);
                    return y;
                  }});
}

}  // namespace operations
