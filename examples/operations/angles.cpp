// SPDX-License-Identifier: MIT
// Angles and powers, element by element.
#include "elementwise.hpp"

namespace operations {

namespace {

const double pi = std::acos(-1.0);

void add_turns(std::vector<operation>& list) {
  UNARY(sinpi, "", "", -3, 3, std::sin(pi * x));
  UNARY(cospi, "", "", -3, 3, std::cos(pi * x));
  UNARY(tanpi, "", "", -0.4, 0.4, std::tan(pi * x));
  UNARY(sinc, "", "", -3, 3, std::sin(x) / x);
  UNARY(deg2rad, "deg2rad", "", -180, 180, x * pi / 180);
  UNARY(rad2deg, "rad2deg", "", -3, 3, x * 180 / pi);
  UNARY(sec, "", "", -1.3, 1.3, 1 / std::cos(x));
  UNARY(csc, "", "", 0.3, 2.8, 1 / std::sin(x));
  UNARY(cot, "", "", 0.3, 2.8, 1 / std::tan(x));
  UNARY(asec, "", "", -9, -1.2, std::acos(1 / x));
  UNARY(acsc, "", "", -9, -1.2, std::asin(1 / x));
  UNARY(acot, "", "", 0.1, 9, std::atan(1 / x));
  UNARY(sech, "", "", -3, 3, 1 / std::cosh(x));
  UNARY(csch, "", "", -3, -0.4, 1 / std::sinh(x));
  UNARY(coth, "", "", -3, -0.4, 1 / std::tanh(x));
  UNARY(asech, "", "", 0.1, 0.9, std::acosh(1 / x));
  UNARY(acsch, "", "", 0.3, 9, std::asinh(1 / x));
  UNARY(acoth, "", "", -9, -1.2, std::atanh(1 / x));
}

double log_at_0(double x, double lambda) { return lambda == 0 ? std::log(x) : (std::pow(x, lambda) - 1) / lambda; }

void add_powers(std::vector<operation>& list) {
  const operand positive = floats(0.5, 3), any = floats(-2, 2);
  UNARY(square, "square", "", -2, 2, x * x);
  UNARY(cube, "", "", -2, 2, x * x * x);
  UNARY(quartic, "", "", -2, 2, std::pow(x, 4));
  UNARY(quintic, "", "", -2, 2, std::pow(x, 5));
  UNARY(srgb_to_linear, "", "", 0, 1, x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4));
  UNARY(linear_to_srgb, "", "", 0.004, 1, 1.055 * std::pow(x, 1 / 2.4) - 0.055);
  BINARY("gamma_correct(x, gamma)", "", "", positive, positive, std::pow(a, 1 / b), mn::gamma_correct(a, b));
  BINARY("inverse_gamma(x, gamma)", "", "", positive, positive, std::pow(a, b), mn::inverse_gamma(a, b));
  BINARY("boxcox(x, lambda)", "", "", positive, any, log_at_0(a, b), mn::boxcox(a, b));
  BINARY("inv_boxcox(y, lambda)", "", "", positive, positive, std::pow(1 + a * b, 1 / b), mn::inv_boxcox(a, b));
  BINARY("tukey_transform(x, lambda)", "", "", positive, any, std::copysign(std::pow(a, b), b),
         mn::tukey_transform(a, b));
  BINARY("softclip(x, bound)", "", "", any, positive, a / std::sqrt(1 + a / b * (a / b)), mn::softclip(a, b));
  TERNARY("arcsinh_asinh(x, shift, scale)", "", "", any, any, positive, std::sinh((std::asinh(a) + b) / c),
          mn::arcsinh_asinh(a, b, c));
}

}  // namespace

void add_angles(std::vector<operation>& list) {
  add_turns(list);
  add_powers(list);
}

}  // namespace operations
