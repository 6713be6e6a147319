// SPDX-License-Identifier: MIT
// Mixtures, smooth steps, curves and changes of scale.
#include "elementwise.hpp"

namespace operations {

namespace {

double share(double x, double low, double high) { return std::fmin(std::fmax((x - low) / (high - low), 0), 1); }
double smooth(double t) { return t * t * (3 - 2 * t); }
double smoother(double t) { return t * t * t * (t * (6 * t - 15) + 10); }
double lerp(double a, double b, double t) { return (1 - t) * a + t * b; }
double curve(double a, double b, double c, double t) { return lerp(lerp(a, b, t), lerp(b, c, t), t); }

// Of a [3, 5] and rows [5], that many in all.
operation of_rows(const char* call, std::vector<operand> operands, double (*of)(const double*),
                  mn::node_value (*build)(const values&)) {
  std::string shapes = "[..]";
  for (std::size_t k = 1; k < operands.size(); ++k) shapes += ", [..]";
  for (operand& x : operands) x.extents = {5};
  operands[0].extents = {3, 5};
  const auto definition = [of](const std::vector<numbers>& x) {
    numbers y(x[0].size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      numbers at{x[0][i]};
      for (std::size_t k = 1; k < x.size(); ++k) at.push_back(x[k][i % 5]);
      y[i] = of(at.data());
    }
    return y;
  };
  return {call, shapes + " -> [..]", "", "", operands, build, definition};
}

}  // namespace

void add_interpolation(std::vector<operation>& list) {
  const operand any = floats(-3, 3), low = floats(-2, -1), high = floats(1, 2), part = floats(0, 1);
  TERNARY("fma(a, b, c)", "", "", any, any, any, a * b + c, mn::fma(a, b, c));
  TERNARY("mix(a, b, t)", "lerp", "", any, any, part, lerp(a, b, c), mn::mix(a, b, c));
  TERNARY("normalize(x, low, high)", "", "", any, low, high, (a - b) / (c - b), mn::normalize(a, b, c));
  TERNARY("denormalize(x, low, high)", "", "", any, low, high, lerp(b, c, a), mn::denormalize(a, b, c));
  TERNARY("standardize(x, mean, deviation)", "", "", any, any, high, (a - b) / c, mn::standardize(a, b, c));
  TERNARY("unstandardize(x, mean, deviation)", "", "", any, any, high, a * c + b, mn::unstandardize(a, b, c));
  TERNARY("smoothstep(low, high, x)", "", "", any, low, high, smooth(share(a, b, c)), mn::smoothstep(b, c, a));
  TERNARY("smootherstep(x, low, high)", "", "", any, low, high, smoother(share(a, b, c)), mn::smootherstep(a, b, c));
  UNARY(inverse_smoothstep, "", "", 0.1, 0.9, 0.5 - std::sin(std::asin(1 - 2 * x) / 3));
  list.push_back(of_rows(
      "map_range(x, low, high, new_low, new_high)", {any, low, high, any, any},
      [](const double* x) { return lerp(x[3], x[4], (x[0] - x[1]) / (x[2] - x[1])); },
      [](const values& x) { return mn::map_range(x[0], x[1], x[2], x[3], x[4]); }));
  list.push_back(of_rows(
      "bezier_quadratic(a, b, c, t)", {any, any, any, part},
      [](const double* x) { return curve(x[0], x[1], x[2], x[3]); },
      [](const values& x) { return mn::bezier_quadratic(x[0], x[1], x[2], x[3]); }));
  list.push_back(of_rows(
      "bezier_cubic(a, b, c, d, t)", {any, any, any, any, part},
      [](const double* x) { return lerp(curve(x[0], x[1], x[2], x[4]), curve(x[1], x[2], x[3], x[4]), x[4]); },
      [](const values& x) { return mn::bezier_cubic(x[0], x[1], x[2], x[3], x[4]); }));
}

}  // namespace operations
