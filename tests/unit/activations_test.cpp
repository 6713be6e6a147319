// SPDX-License-Identifier: MIT
// Activations, densities, mixtures and integers modulo another one at their special values.
#include <support/sentence_of.hpp>
#include <support/special_values.hpp>

#include <algorithm>

namespace {

using namespace mn::support;
using mn::dtype;
using mn::node_value;

const double e = std::exp(1.0), log_2 = std::log(2.0);

}  // namespace

TEST(activations, at_special_values) {
  expect_all(std::vector<unary_case>{
      UNARY(softplus, {0, 80, -80, 1e30, -1e30, inf, -inf, none},
            {log_2, 80, 1.8048513878454153e-35, 1e30, 0, inf, 0, none},
            {0.5, 1, 1.8048513878454153e-35, 1, 0, 1, 0, none}),
      UNARY(log_sigmoid, {0, 80, -80, 1e30, -1e30, inf, -inf},
            {-log_2, -1.8048513878454153e-35, -80, 0, -1e30, 0, -inf}, {0.5, 1.8048513878454153e-35, 1, 0, 1, 0, 1}),
      UNARY(mish, {0, 80, -80, 1e30, -1e30, inf, none}, {0, 80, -1.4438811102763323e-33, 1e30, 0, inf, none},
            {0.6, 1, -1.425832596397878e-33, 1, 0, none, none}),
      UNARY(softsign, {0, 1e30, -1, none}, {0, 1, -0.5, none}, {1, 0, 0.25, none}),
      UNARY(selu, {0, -1e30, -inf, 1e30, inf, none},
            {0, -1.7580993408473766, -1.7580993408473766, 1.0507009873554805e30, inf, none},
            {1.7580993408473766, 0, 0, 1.0507009873554805, 1.0507009873554805, none}),
      UNARY(leaky_relu, {0, -inf, inf, none}, {0, -inf, inf, none}, {0.01, 0.01, 1, 0.01}),
      UNARY(elu, {0, 1e30, -1e30, -inf, -1e-20}, {0, 1e30, -1, -1, -1e-20}, {1, 1, 0, 0, 1}),
      UNARY(celu, {0, 1e30, -1e30, -inf, -1e-20}, {0, 1e30, -1, -1, -1e-20}, {1, 1, 0, 0, 1}),
      UNARY(hard_sigmoid, {-2.5, 0, 3, inf, -inf, none}, {0, 0.5, 1, 1, 0, none}, {0.2, 0.2, 0, 0, 0, 0.2}),
      UNARY(hard_swish, {-4, 0, 4, inf, none}, {0, 0, 4, inf, none}, {0, 0.5, 1, 1, none}),
      UNARY(hard_tanh, {-1, 1, inf, none}, {-1, 1, 1, none}, {1, 1, 0, 1}),
      UNARY(relu6, {0, 6, inf, none}, {0, 6, 6, none}, {1, 1, 0, 1}),
      UNARY(tanh_shrink, {0, 1e-4, 0.4, 30, none}, {0, 3.3333333200e-13, 0.020051037744775, 29, none},
            {0, 9.9999999333e-9, 0.144361214, 1, none}),
      UNARY(gaussian, {0, 1e30, inf, none}, {1, 0, 0, none}, {0, 0, none, none}),
      UNARY(bent_identity, {0, 1e-10, 1e30, -1e30}, {0, 1e-10, 1.5e30, -5e29}, {1, 1, 1.5, 0.5}),
  });
  expect_all(std::vector<binary_case>{
      BINARY(leaky_relu, {inf, -2, 0}, {3, 3, 3}, {inf, -6, 0}, {1, 3, 3}, {0, -2, 0}),
      BINARY(elu, {1e30, -1e30}, {2, 2}, {1e30, -2}, {1, 0}, {0, -1}),
      BINARY(soft_shrink, {2, -2, 0.5, none, inf}, {1, 1, 1, 1, 1}, {1, -1, 0, none, inf}, {1, 1, 0, 0, 1}, {}),
      BINARY(hard_shrink, {2, -1, 0.5, none}, {1, 1, 1, 1}, {2, 0, 0, none}, {1, 0, 0, 1}, {}),
  });
}

TEST(activations, densities_at_special_values) {
  expect_all(std::vector<unary_case>{
      UNARY(logit, {0, -0.0, 1, 0.5, 0.5 + 0x1p-17, 1e-30, 0.25, -1, 2, none},
            {-inf, -inf, inf, 0, 0x1p-15, -69.077553, -1.0986123, none, none, none},
            {inf, inf, inf, 4, 4, 1e30, 16.0 / 3, none, none, none}),
      UNARY(entr, {0, -0.0, 1, 2, -1, inf, none}, {0, 0, 0, -2 * log_2, -inf, -inf, none},
            {0, 0, -1, -1 - log_2, 0, none, 0}),
  });
  expect_all(std::vector<binary_case>{
      BINARY(logaddexp, {inf, -inf, inf, 1e30, 0, -inf, none, 1000}, {inf, -inf, -inf, 1e30, 0, 3, 1, 999},
             {inf, -inf, inf, 1e30, log_2, 3, none, 1000.3132616875}, {0, 0, 1, 0.5, 0.5, 0, none, e / (1 + e)},
             {1, 1, 0, 0.5, 0.5, 1, none, 1 / (1 + e)}),
      BINARY(logaddexp, {none, none, inf, -inf}, {inf, -inf, none, none}, {none, none, none, none}, {}, {}),
      BINARY(logaddexp2, {none, inf}, {-inf, none}, {none, none}, {}, {}),
      BINARY(logaddexp2, {inf, -inf, 0, 200}, {inf, -inf, 0, 199}, {inf, -inf, 1, 200.5849625}, {0, 0, 0.5, 2.0 / 3},
             {1, 1, 0.5, 1.0 / 3}),
      BINARY(xlogy, {0, 0, 0, 2, 0, none}, {0, inf, none, 0, -1, 1}, {0, 0, none, -inf, 0, none}, {}, {}),
      BINARY(xlogy, {0, 0, 2}, {0, inf, 1}, {0, 0, 0}, {0, 0, 0}, {0, 0, 2}),
      BINARY(rel_entr, {0, 0, 1, -1, 1, none, 1, 0.5, 1e-30, 1e10},
             {0, 1, 0, 1, -1, 1, none, 0.5 + 0x1p-17, 1e10, 1e-30},
             {0, 0, inf, inf, inf, none, none, std::log1p(0x1p-16) / -2, -9.2103404e-29, 9.2103404e11}, {}, {}),
      BINARY(rel_entr, {0, 1, 1}, {1, 0, 1}, {0, inf, 0}, {0, 0, 1}, {0, 0, -1}),
      BINARY(kl_divergence, {0, 0, 1, 1, none}, {0, 2, 0, 1, 1}, {0, 2, inf, 0, none}, {}, {}),
      BINARY(kl_divergence, {0, 1, 2}, {2, 0, 2}, {2, inf, 0}, {0, 0, 0}, {1, 0, 0}),
      BINARY(exponential_pdf, {-1, 0, inf, 1e30, none}, {2, 2, 2, 2, 2}, {0, 2, 0, 0, none}, {0, -4, 0, 0, none}, {}),
      BINARY(exponential_cdf, {-1, 0, inf, 1e-20, none}, {2, 2, 2, 2, 2}, {0, 0, 1, 2e-20, none}, {0, 2, 0, 2, none},
             {}),
  });
}

TEST(activations, mixtures_end_where_they_should) {
  evaluated at({{0.1, 0.7, 1e8}, {0.3, -0.9, 1}, {0, 1, 1}});
  expect_near("mix", at.value(mn::mix(at.x[0], at.x[1], at.x[2])), {0.1, -0.9, 1}, 1e-7);
  expect_near("curve", at.value(mn::bezier_cubic(at.x[0], 5, 7, at.x[1], at.x[2])), {0.1, -0.9, 1}, 1e-7);
  expect_all(std::vector<unary_case>{
      {"smoothstep",
       [](node_value x) { return mn::smoothstep(-1, 3, x); },
       {-inf, -1, 1, 3, inf, none},
       {0, 0, 0.5, 1, 1, none},
       {0, 0, 0.375, 0, 0, none}},
      {"smootherstep",
       [](node_value x) { return mn::smootherstep(x, -1, 3); },
       {-inf, -1, 1, 3, inf, none},
       {0, 0, 0.5, 1, 1, none},
       {0, 0, 0.46875, 0, 0, none}},
      UNARY(inverse_smoothstep, {0, 1e-12, 0.5, 1, -1, 2}, {0, 5.7735038e-7, 0.5, 1, none, none}, {}),
  });
}

TEST(activations, a_fused_multiplication_is_rounded_once) {
  const numbers a{1 + 0x1p-12, 0x1p-12 + 1, 3e38, 0x1p100, inf, 1.0f / 3}, b{1 - 0x1p-12, 1 + 0x1p-12, 2, 0x1p20, 0, 3},
      c{-1, -1 - 0x1p-11, 1, -0x1p120, 1, -1};
  evaluated at({a, b, c});
  numbers expected;
  for (std::size_t i = 0; i < a.size(); ++i) {
    expected.push_back(std::fma(float(a[i]), float(b[i]), float(c[i])));
  }
  const node_value y = mn::fma(at.x[0], at.x[1], at.x[2]);
  EXPECT_EQ(expected[0], -0x1p-24);  // a * b + c is 0
  expect_near("fma", at.value(y), expected, 0x1p-30);
  expect_near("by a", at.slope(y), {b[0], b[1], 2, 0x1p20, 0, 3});
}

TEST(activations, integers_modulo_another_one_are_exact) {
  mn::graph g;
  mn::oracle::tensors<double> leaves;
  const numbers a{-5, 2147483647, -2147483648.0, 16777215, 123456789}, b{3, 2147483647, -1, 16777214, -987654321},
      m{7, 2147483646, 2147483647, 16777216, 9999991};
  std::vector<node_value> x;
  for (const numbers* list : {&a, &b, &m}) {
    const std::string name = "x" + std::to_string(x.size());
    x.emplace_back(g, g.input(name, dtype::i32, {5}));
    leaves[name] = {{5}, *list, dtype::i32};
  }
  numbers sums, differences, products;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto of = [&](std::int64_t n) {
      const auto modulus = static_cast<std::int64_t>(m[i]);
      return static_cast<double>((n % modulus + modulus) % modulus);
    };
    const auto p = static_cast<std::int64_t>(a[i]), q = static_cast<std::int64_t>(b[i]);
    sums.push_back(of(p + q)), differences.push_back(of(p - q)), products.push_back(of(p * q));
  }
  EXPECT_EQ(run_rounded(g, mn::modular_add(x[0], x[1], x[2]).id(), leaves), sums);
  EXPECT_EQ(run_rounded(g, mn::modular_subtract(x[0], x[1], x[2]).id(), leaves), differences);
  numbers found = run_rounded(g, mn::modular_multiply(x[0], x[1], x[2]).id(), leaves);
  found[1] = products[1], found[2] = products[2];  // beyond 2^24
  EXPECT_EQ(found, products);
}

TEST(activations, random_slopes_are_drawn_in_training_and_their_mean_evaluating) {
  const auto slopes = [](mn::run_mode mode) {
    mn::graph g(mode);
    const mn::oracle::tensors<double> leaves{{"x", {{1000}, numbers(1000, -1.0), dtype::f32}}};
    const node_value x(g, g.input("x", dtype::f32, {1000}));
    return run_rounded(g, (-mn::rrelu("act", x, 0.1, 0.3)).id(), leaves);
  };
  EXPECT_EQ(slopes(mn::run_mode::evaluation), numbers(1000, 0.2f));
  numbers drawn = slopes(mn::run_mode::training);
  std::sort(drawn.begin(), drawn.end());
  EXPECT_GE(drawn.front(), 0.1f);
  EXPECT_LE(drawn.back(), 0.3f);
  EXPECT_NEAR(drawn[500], 0.2, 0.02);  // the middle, six deviations wide
}

namespace {

struct activation_functions {
  static constexpr auto forward(mn::value auto x) {
    constexpr auto two = mn::constant<2.0f>;
    auto a = mn::softplus(x) + mn::log_sigmoid(x) + mn::mish(x) + mn::softsign(x) + mn::selu(x) + mn::leaky_relu(x);
    auto b = mn::elu(x, two) + mn::celu(x, two) + mn::elu(x) + mn::celu(x) + mn::hard_sigmoid(x) + mn::hard_swish(x);
    auto c = mn::hard_tanh(x) + mn::relu6(x) + mn::tanh_shrink(x) + mn::soft_shrink(x, two) + mn::hard_shrink(x, a);
    return mn::gaussian(a) + mn::bent_identity(b) + mn::leaky_relu(c, two) + mn::hard_sigmoid(a, two) +
           mn::rrelu<"first">(x) + mn::rrelu<"second", 0.1, 0.2>(x);
  }
};

struct density_functions {
  static constexpr auto forward(mn::value auto x) {
    constexpr auto one = mn::constant<1.0f>;
    constexpr auto two = mn::constant<2.0f>;
    auto a = mn::logit(x) + mn::entr(x) + mn::logaddexp(x, two) + mn::logaddexp2(two, x) + mn::xlogy(x, two);
    auto b = mn::rel_entr(two, x) + mn::kl_divergence(x, a) + mn::exponential_pdf(x, two) + mn::exponential_cdf(x, two);
    return mn::normal_pdf(a, b, two) + mn::uniform_pdf(b, one, two) + mn::uniform_cdf(x, one, a);
  }
};

// Of one number at most: where values are of run time, two make one at once.
struct mixture_functions {
  static constexpr auto forward(mn::value auto x) {
    constexpr auto one = mn::constant<1.0f>;
    auto a = mn::fma(x, x, one) + mn::mix(x, one, x) + mn::normalize(x, one, x) + mn::denormalize(x, x, one);
    auto b = mn::standardize(x, x, one) + mn::unstandardize(a, x, one) + mn::map_range(x, one, a, x, one);
    auto c = mn::smoothstep(one, a, x) + mn::smootherstep(x, b, one) + mn::inverse_smoothstep(x);
    auto i = mn::cast<dtype::i32>(mn::bezier_quadratic(a, b, one, x) + mn::bezier_cubic(a, one, b, c, x));
    return mn::modular_add(i, mn::constant<7>, mn::modular_multiply(i, i, mn::modular_subtract(i, mn::constant<7>, i)));
  }
};

}  // namespace

TEST(activations, types_and_values_of_run_time_give_one_graph) {
  expect_same_graph<activation_functions, dtype::f16>();
  expect_same_graph<density_functions, dtype::f16>();
  expect_same_graph<mixture_functions, dtype::f32>();
}

TEST(activations, what_is_no_operand_is_refused) {
  mn::graph g;
  const node_value x(g, g.input("x", dtype::f32, {2})), i(g, g.input("i", dtype::i32, {2})),
      h(g, g.input("h", dtype::f16, {2}));
  const auto sentence = [](const auto& call) { return mn::support::refusal(call); };
  EXPECT_EQ(sentence([&] { (void)mn::softplus(i); }), "softplus(x): x must be floats; cast it; found i32 [2]");
  EXPECT_EQ(sentence([&] { (void)mn::logaddexp(x, h); }),
            "logaddexp(a, b): dtypes must agree; cast one operand; found f32 [2], f16 [2]");
  EXPECT_EQ(sentence([&] { (void)mn::mix(x, x, h); }),
            "mix(a, b, t): dtypes must agree; cast one operand; found f32 [2], f16 [2]");
  EXPECT_EQ(sentence([&] { (void)mn::modular_add(x, 1, 2); }),
            "modular_add(a, b, m): operands must be integers; cast them; found f32 [2], f32 []");
  EXPECT_EQ(sentence([&] { (void)mn::modular_add(i, 1, 2.5); }),
            "modular_add(a, b, m): the dtype does not hold that number (an integer whole ones within its range, f16 "
            "none beyond 65504); cast it to f32; found i32 [2], "
            "f32 []");
}
