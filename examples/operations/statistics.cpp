// SPDX-License-Identifier: MIT
// Shares of a row, what is robust against a few of its elements, counters, quantised numbers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

#include "operation.hpp"

namespace operations {

namespace {

using values = std::vector<mn::node_value>;
using all_numbers = std::vector<numbers>;
using std::size_t;

numbers row_at(const numbers& x, size_t i) {
  const auto begin = x.begin() + static_cast<std::ptrdiff_t>(5 * i);
  return {begin, begin + 5};
}

// A function of each row of [3, 5] that gives `of(row)`, one number or as many as the row has.
operation of_rows(const char* call, const char* shapes, const char* torch, const char* onnx, operand taken,
                  numbers (*of)(numbers), mn::node_value (*build)(mn::node_value)) {
  taken.extents = {3, 5};
  return {call,
          shapes,
          torch,
          onnx,
          {taken},
          [build](const values& x) { return build(x[0]); },
          [of](const all_numbers& x) {
            numbers y;
            for (size_t i = 0; i < 3; ++i) {
              for (const double each : of(row_at(x[0], i))) y.push_back(each);
            }
            return y;
          }};
}

#define ROWS(call, torch, onnx, taken, of, built)                 \
  list.push_back(of_rows(                                         \
      call, "[.., n, ..] -> [.., n, ..]", torch, onnx, taken,     \
      []([[maybe_unused]] numbers row) -> numbers { return of; }, \
      [](mn::node_value x) -> mn::node_value { return built; }))
#define NUMBER(call, torch, taken, of, built)                                                                          \
  list.push_back(of_rows(                                                                                              \
      call, "[.., n, ..] -> [.., ..]", torch, "", taken, []([[maybe_unused]] numbers row) -> numbers { return {of}; }, \
      [](mn::node_value x) -> mn::node_value { return built; }))

operand floats(double low, double high) { return {{}, low, high}; }

template <class Of>
numbers each(numbers row, const Of& of) {
  for (double& x : row) x = of(x);
  return row;
}
double total(const numbers& row) {
  double sum = 0;
  for (const double x : row) sum += x;
  return sum;
}
numbers shares(const numbers& row, double by) {
  const numbers powers = each(row, [&](double x) { return std::exp(x * by); });
  return each(powers, [&](double x) { return x / total(powers); });
}
numbers hard(const numbers& row) {
  const double most = *std::max_element(row.begin(), row.end());
  return each(row, [&](double x) { return double(x == most); });
}
double quantile(numbers row, double share) {
  std::sort(row.begin(), row.end());
  const double at = share * 4;
  const auto low = static_cast<size_t>(at);
  return low == 4 ? row[4] : row[low] + (at - double(low)) * (row[low + 1] - row[low]);
}
double deviation(const numbers& row) {
  return quantile(each(row, [&](double x) { return std::fabs(x - quantile(row, 0.5)); }), 0.5);
}
double most_frequent(const numbers& row) {
  std::map<double, int> counts;
  for (const double x : row) ++counts[x];
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}
numbers sums_of_powers(const numbers& row) {
  double sum = 0;
  return each(row, [&](double x) { return std::log(sum += std::exp(x)); });
}
double variance(const numbers& row) {
  return total(each(row, [&](double x) { return (x - total(row) / 5) * (x - total(row) / 5); })) / 4;
}

void add_rows(std::vector<operation>& list) {
  static constexpr mn::gumbel_options options{.temperature = 0.5}, straight{.temperature = 0.5, .hard = true};
  ROWS("softmax<axis>(x)", "softmax", "Softmax", floats(-2, 2), shares(row, 1), mn::softmax(x, -1));
  ROWS("log_softmax<axis>(x)", "log_softmax", "LogSoftmax", floats(-2, 2),
       each(shares(row, 1), [](double x) { return std::log(x); }), mn::log_softmax(x, -1));
  ROWS("softmin<axis>(x)", "nn.functional.softmin", "", floats(-2, 2), shares(row, -1), mn::softmin(x, 1));
  ROWS("gumbel_softmax<name, axis, options>(x)", "", "", floats(-2, 2), shares(row, 2),
       mn::gumbel_softmax("choice", x, -1, options));
  ROWS("gumbel_softmax<name, axis, gumbel_options{.hard = true}>(x)", "", "", floats(-2, 2), hard(row),
       mn::gumbel_softmax("choice", x, -1, straight));
  list.back().followed = [](const all_numbers& x) {
    numbers y;
    for (size_t i = 0; i < 15; ++i) y.push_back(shares(row_at(x[0], i / 5), 2)[i % 5]);
    return y;
  };
  ROWS("logcumsumexp<axis>(x)", "logcumsumexp", "", floats(-3, 3), sums_of_powers(row), mn::logcumsumexp(x, 1));
  ROWS("linspace_like<axis, low, high>(x)", "linspace", "", floats(0, 1), (numbers{-1, -0.25, 0.5, 1.25, 2}),
       mn::linspace_like(x, -1, -1, 2));
  ROWS("z_score_robust<axis>(x)", "", "", floats(-2, 2),
       each(row, [&](double x) { return 0.67448975 * (x - quantile(row, 0.5)) / deviation(row); }),
       mn::z_score_robust(x, -1));
  ROWS("winsorize<axis>(x, low, high)", "", "", floats(-2, 2),
       each(row, [&](double x) { return std::fmin(std::fmax(x, quantile(row, 0.1)), quantile(row, 0.8125)); }),
       mn::winsorize(x, mn::quantile_share{0.1}, mn::quantile_share{0.8125}, -1));
  NUMBER("mode<axis>(x)", "mode", (operand{{}, 0, 4, mn::dtype::i32}), most_frequent(row), mn::mode(x, -1));
  NUMBER("median_absolute_deviation<axis>(x)", "", floats(-2, 2), deviation(row), mn::median_absolute_deviation(x, -1));
  NUMBER("interquartile_range<axis>(x)", "", floats(-2, 2), quantile(row, 0.75) - quantile(row, 0.25),
         mn::interquartile_range(x, -1));
  NUMBER("mean_and_variance<axes...>(x)", "var_mean", floats(-2, 2), total(row) / 5 * variance(row),
         mn::mean_and_variance(x, -1).get<"mean">() * mn::mean_and_variance(x, -1).get<"variance">());
}

std::uint32_t hashed(std::int64_t x) {
  auto y = static_cast<std::uint32_t>(x) + 0x9e3779b9u;
  y = (y ^ y >> 16) * 0x7feb352du;
  y = (y ^ y >> 15) * 0x846ca68bu;
  return y ^ y >> 16;
}

void add_counters(std::vector<operation>& list) {
  const operand any{{3, 5}, -9, 9, mn::dtype::i32}, row{{5}, 0, 99, mn::dtype::i32};
  const auto of = [](double (*definition)(const all_numbers& x, size_t i)) {
    return [definition](const all_numbers& x) {
      numbers y;
      for (size_t i = 0; i < 15; ++i) y.push_back(definition(x, i));
      return y;
    };
  };
  const auto whole = [](double x) { return static_cast<std::int64_t>(x); };
  static const auto both = [whole](const all_numbers& x, size_t i) {
    return hashed(hashed(whole(x[0][i])) + whole(x[1][i % 5]));
  };
  list.push_back({"hash(x)",
                  "[..] -> [..]",
                  "",
                  "",
                  {any},
                  [](const values& x) { return mn::hash(x[0]); },
                  of([](const all_numbers& x, size_t i) { return double(hashed(std::int64_t(x[0][i]))); })});
  list.push_back({"hash(x, y)",
                  "[..], [..] -> [..]",
                  "",
                  "",
                  {any, row},
                  [](const values& x) { return mn::hash(x[0], x[1]); },
                  of([](const all_numbers& x, size_t i) { return double(both(x, i)); })});
  list.push_back(
      {"noise(x)",
       "[..] -> [..]",
       "",
       "",
       {any},
       [](const values& x) { return mn::noise(x[0]); },
       of([](const all_numbers& x, size_t i) { return double(hashed(std::int64_t(x[0][i])) >> 8) * 0x1p-24; })});
  list.push_back({"noise(x, y)",
                  "[..], [..] -> [..]",
                  "",
                  "",
                  {any, row},
                  [](const values& x) { return mn::noise(x[0], x[1]); },
                  of([](const all_numbers& x, size_t i) { return double(both(x, i) >> 8) * 0x1p-24; })});
  list.push_back({"modular_power(a, b, m)",
                  "[..], [..], [..] -> [..]",
                  "",
                  "",
                  {any, {{5}, 0, 0x7fffffff, mn::dtype::i32}, {{}, 9999990, 9999999, mn::dtype::i32}},
                  [](const values& x) { return mn::modular_power(x[0], x[1], x[2]); },
                  of([](const all_numbers& x, size_t i) {
                    const auto m = std::int64_t(x[2][0]);
                    std::int64_t result = 1, base = (std::int64_t(x[0][i]) % m + m) % m;
                    for (auto b = std::int64_t(x[1][i % 5]); b > 0; b /= 2, base = base * base % m) {
                      if (b % 2 == 1) result = result * base % m;
                    }
                    return double(result);
                  })});
}

// Of [3, 5] with a scale and a zero point a row.
void add_quantised(std::vector<operation>& list) {
  const operand reals{{3, 5}, -3, 3}, scale{{3}, 0.01, 0.04}, zero{{3}, -50, 50, mn::dtype::i32},
      q{{3, 5}, -128, 128, mn::dtype::i32};
  const char* shapes = "[.., n, ..], [n], [n] -> [.., n, ..]";
  static const auto bounded = [](double steps, double low, double high) {
    return std::fmin(std::fmax(steps, low), high);
  };
  const auto each_of = [](double (*definition)(double x, double scale, double zero)) {
    return [definition](const all_numbers& x) {
      numbers y;
      for (size_t i = 0; i < 15; ++i) y.push_back(definition(x[0][i], x[1][i / 5], x[2][i / 5]));
      return y;
    };
  };
  list.push_back({"quantize<range, axis>(x, scale, zero_point)",
                  shapes,
                  "quantize_per_channel",
                  "QuantizeLinear",
                  {reals, scale, zero},
                  [](const values& v) { return mn::quantize(v[0], v[1], v[2], mn::int8_range, 0); },
                  each_of([](double v, double s, double z) { return bounded(std::nearbyint(v / s) + z, -128, 127); })});
  list.push_back({"dequantize<axis>(q, scale, zero_point)",
                  shapes,
                  "Tensor.dequantize",
                  "DequantizeLinear",
                  {q, scale, zero},
                  [](const values& v) { return mn::dequantize(v[0], v[1], v[2], 0); },
                  each_of([](double v, double s, double z) { return (v - z) * s; })});
  list.push_back({"fake_quantize<range, axis>(x, scale, zero_point)",
                  "[..], [..], [..] -> [..]",
                  "fake_quantize_per_tensor_affine",
                  "",
                  {{{3, 5}, -0.5, 0.5}},
                  [](const values& v) {
                    return mn::fake_quantize(v[0], mn::constant<0.03125f>, mn::constant<12, mn::dtype::i32>,
                                             mn::integer_range{0, 15});
                  },
                  [](const all_numbers& v) {
                    return each(v[0], [](double x) { return (bounded(std::nearbyint(x * 32) + 12, 0, 15) - 12) / 32; });
                  }});
  list.back().followed = [](const all_numbers& v) {
    return each(v[0], [](double x) { return bounded(x, -12.5 / 32, 3.5 / 32); });
  };
}

}  // namespace

void add_statistics(std::vector<operation>& list) {
  add_rows(list);
  add_counters(list);
  add_quantised(list);
}

}  // namespace operations
