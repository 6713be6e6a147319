// SPDX-License-Identifier: MIT
// How far scalar functions on a device are from f64, in units in the last place of f32: the worst of many arguments.
#include <meganeura/meganeura.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <limits>
#include <vector>

namespace mn = meganeura;

namespace {

struct function {
  const char* name;
  float low, high;
  long double (*truth)(long double);
  mn::node_value (*build)(mn::node_value);
  bool near_one = false;  // the error is beside 1 where the result is smaller: it crosses zero at no float
};

#define FUNCTION(name, low, high, truth)                                                                               \
  {                                                                                                                    \
#name, low, high, [](long double x) -> long double { return truth; }, [](mn::node_value x) { return mn::name(x); } \
  }
#define NEAR_ONE(name, low, high, truth)                                                                       \
  {                                                                                                            \
#name, low, high,                                                                                          \
        [](long double x) -> long double { return truth; }, [](mn::node_value x) { return mn::name(x); }, true \
  }

const function functions[] = {
    FUNCTION(reciprocal, 1e-30f, 1e30f, 1 / x),
    FUNCTION(sqrt, 1e-30f, 1e30f, std::sqrt(x)),
    FUNCTION(rsqrt, 1e-30f, 1e30f, 1 / std::sqrt(x)),
    FUNCTION(cbrt, 1e-30f, 1e30f, std::cbrt(x)),
    FUNCTION(exp, -10, 10, std::exp(x)),
    FUNCTION(exp, -87, 88, std::exp(x)),
    FUNCTION(exp2, -126, 127, std::exp2(x)),
    FUNCTION(expm1, -20, 88, std::expm1(x)),
    FUNCTION(log, 1e-30f, 1e30f, std::log(x)),
    FUNCTION(log2, 1e-30f, 1e30f, std::log2(x)),
    FUNCTION(log10, 1e-30f, 1e30f, std::log10(x)),
    FUNCTION(log1p, -0.999f, 1e30f, std::log1p(x)),
    FUNCTION(sin, -3.1415f, 3.1415f, std::sin(x)),
    NEAR_ONE(sin, -1e6f, 1e6f, std::sin(x)),
    FUNCTION(cos, -1.57f, 1.57f, std::cos(x)),
    NEAR_ONE(cos, -1e6f, 1e6f, std::cos(x)),
    FUNCTION(tan, -1.57f, 1.57f, std::tan(x)),
    FUNCTION(asin, -1, 1, std::asin(x)),
    FUNCTION(acos, -1, 1, std::acos(x)),
    FUNCTION(atan, -1e30f, 1e30f, std::atan(x)),
    FUNCTION(sinh, -88, 88, std::sinh(x)),
    FUNCTION(cosh, -88, 88, std::cosh(x)),
    FUNCTION(tanh, -20, 20, std::tanh(x)),
    FUNCTION(asinh, -1e30f, 1e30f, std::asinh(x)),
    FUNCTION(acosh, 1, 1e30f, std::acosh(x)),
    FUNCTION(atanh, -1, 1, std::atanh(x)),
    FUNCTION(erf, -5, 5, std::erf(x)),
    FUNCTION(erfc, -5, 9, std::erfc(x)),
    FUNCTION(tgamma, 0.01f, 34, std::tgamma(x)),
    NEAR_ONE(lgamma, 0.01f, 1e10f, std::lgamma(x)),
    FUNCTION(sigmoid, -80, 80, 1 / (1 + std::exp(-x))),
    FUNCTION(silu, -80, 80, x / (1 + std::exp(-x))),
    FUNCTION(gelu, -5, 10, x / 2 * std::erfc(-x / std::sqrt(2.0L))),
};

// Floats in order: neighbours differ by 1.
std::int64_t place(float x) {
  const auto bits = std::bit_cast<std::int32_t>(x);
  return bits < 0 ? -std::int64_t{bits & 0x7fffffff} : bits;
}
float at(std::int64_t place) {
  return std::bit_cast<float>(place < 0 ? static_cast<std::int32_t>(-place) | INT32_MIN
                                        : static_cast<std::int32_t>(place));
}

// Half of them evenly over the floats of the range, half over its numbers.
std::vector<float> arguments(const function& of, std::int64_t count) {
  std::vector<float> list;
  const std::int64_t first = place(of.low), last = place(of.high);
  for (std::int64_t i = 0; i < count / 2; ++i) {
    list.push_back(at(first + (last - first) * i / (count / 2)));
    list.push_back(std::clamp(of.low + (of.high - of.low) * (static_cast<float>(i) / static_cast<float>(count / 2)),
                              of.low, of.high));
  }
  return list;
}

double ulps(const function& of, float found, long double expected) {
  if (std::isnan(found)) return std::isnan(expected) ? 0 : INFINITY;
  long double size = std::fabs(expected);
  if (of.near_one) size = std::max(size, 1.0L);
  if (size > static_cast<long double>(std::numeric_limits<float>::max())) return std::isinf(found) ? 0 : INFINITY;
  if (size < 0x1p-126L)
    return static_cast<double>(std::fabs(found - expected) <= 0x1p-126L ? 0 : INFINITY);  // denormal
  return static_cast<double>(std::fabs(found - expected) / std::ldexp(1.0L, std::ilogb(size) - 23));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Accuracy of scalar functions on a device."};
  std::int64_t count = 1 << 20;
  std::string json;
  app.add_option("--count", count, "arguments of each function")->check(CLI::Range(2, 1 << 24));
  app.add_option("--json", json, "write the results there; - is standard output");
  CLI11_PARSE(app, argc, argv);
  const mn::device gpu;
  auto results = nlohmann::json::array();
  fmt::print(stderr, "{}\n{:<12} {:>24} {:>10} {:>16}\n", gpu.facts().name, "function", "from .. to", "worst ulp",
             "at");
  for (const function& each : functions) {
    const std::vector<float> x = arguments(each, count);
    mn::graph g;
    const mn::node_value in(g, g.input("x", mn::dtype::f32, {static_cast<std::int64_t>(x.size())}));
    g.add_output("y", each.build(in));
    mn::inference net(gpu, g, {.program = {.checks = mn::checks::none}});
    const std::vector<float> y = net.run({{"x", x}});
    double worst = 0;
    float where = each.low;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::fabs(x[i]) < std::numeric_limits<float>::min()) continue;  // may count as 0
      const double error = ulps(each, y[i], each.truth(x[i]));
      if (error > worst) worst = error, where = x[i];
    }
    fmt::print(stderr, "{:<12} {:>24} {:>10.2f} {:>16g}\n", each.name, fmt::format("{} .. {}", each.low, each.high),
               worst, where);
    results.push_back({{"function", each.name}, {"low", each.low}, {"high", each.high}, {"ulp", worst}, {"at", where}});
  }
  if (json == "-") {
    std::cout << results.dump() << '\n';
  } else if (!json.empty()) {
    std::ofstream(json) << results.dump() << '\n';
  }
}
