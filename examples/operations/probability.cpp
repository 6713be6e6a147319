// SPDX-License-Identifier: MIT
// Densities and information, and integers modulo another one.
#include "elementwise.hpp"

namespace operations {

void add_probability(std::vector<operation>& list) {
  const operand any = floats(-3, 3), positive = floats(0.2, 2), below = floats(-1.5, -0.5);
  UNARY(logit, "logit", "", 0.05, 0.95, std::log(x / (1 - x)));
  UNARY(entr, "special.entr", "", 0.05, 2, -x * std::log(x));
  BINARY("logaddexp(a, b)", "logaddexp", "", any, any, std::log(std::exp(a) + std::exp(b)), mn::logaddexp(a, b));
  BINARY("logaddexp2(a, b)", "logaddexp2", "", any, any, std::log2(std::exp2(a) + std::exp2(b)), mn::logaddexp2(a, b));
  BINARY("xlogy(x, y)", "xlogy", "", any, positive, a * std::log(b), mn::xlogy(a, b));
  BINARY("rel_entr(x, y)", "", "", positive, positive, a * std::log(a / b), mn::rel_entr(a, b));
  BINARY("kl_divergence(x, y)", "", "", positive, positive, a * std::log(a / b) - a + b, mn::kl_divergence(a, b));
  BINARY("exponential_pdf(x, rate)", "", "", any, positive, a < 0 ? 0 : b * std::exp(-b * a),
         mn::exponential_pdf(a, b));
  BINARY("exponential_cdf(x, rate)", "", "", any, positive, a < 0 ? 0 : 1 - std::exp(-b * a),
         mn::exponential_cdf(a, b));
  TERNARY("normal_pdf(x, mean, deviation)", "", "", any, any, positive,
          std::exp(-(a - b) * (a - b) / (2 * c * c)) / (c * std::sqrt(2 * std::acos(-1.0))), mn::normal_pdf(a, b, c));
  TERNARY("uniform_pdf(x, low, high)", "", "", any, below, positive, a < b || a > c ? 0 : 1 / (c - b),
          mn::uniform_pdf(a, b, c));
  TERNARY("uniform_cdf(x, low, high)", "", "", any, below, positive, std::fmin(std::fmax((a - b) / (c - b), 0), 1),
          mn::uniform_cdf(a, b, c));

  const operand some = integers(-1000, 1000), modulus = integers(1, 99);
#define MODULAR(name, of) \
  TERNARY(#name "(a, b, m)", "", "", some, some, modulus, (of)-std::floor((of) / c) * c, mn::name(a, b, c))
  MODULAR(modular_add, a + b);
  MODULAR(modular_subtract, a - b);
  MODULAR(modular_multiply, a * b);
#undef MODULAR
}

}  // namespace operations
