// SPDX-License-Identifier: MIT
// Functions of a few steps at their special values: in f32, with their gradients there.
#include <support/sentence_of.hpp>
#include <support/special_values.hpp>

namespace {

using namespace mn::support;
using mn::dtype;
using mn::node_value;

const double pi = std::acos(-1.0);

}  // namespace

TEST(elementwise, comparisons_and_bounds_of_special_values) {
  const auto as_number = [](node_value c, node_value like) { return mn::select(c, mn::sign(like) * 0 + 1, 0); };
  evaluated at({{none, inf, -inf, 1}, {none, inf, inf, 2}});
  const node_value p = at.x[0], q = at.x[1];
  expect_near("isnan", at.value(as_number(mn::isnan(p), p)), {1, 0, 0, 0});
  expect_near("isinf", at.value(as_number(mn::isinf(p), p)), {0, 1, 1, 0});
  expect_near("isfinite", at.value(as_number(mn::isfinite(p), p)), {0, 0, 0, 1});
  expect_near("greater", at.value(as_number(mn::greater(q, p), p)), {0, 0, 1, 1});
  expect_near("greater_equal", at.value(as_number(mn::greater_equal(q, p), p)), {0, 1, 1, 1});
  expect_near("not_equal", at.value(as_number(mn::not_equal(p, q), p)), {1, 0, 1, 1});
  expect_all(std::vector<unary_case>{
      UNARY(saturate, {none, -inf, inf, 0, 1, 0.5, -1e-30}, {0, 0, 1, 0, 1, 0.5, 0}, {0, 0, 0, 1, 1, 1, 0}),
      {"clamp",
       [](node_value x) { return mn::clamp(x, -1, 2); },
       {none, -inf, -1, 2, inf},
       {none, -1, -1, 2, 2},
       {1, 0, 1, 1, 0}},
      {"clamp of nothing", [](node_value x) { return mn::clamp(x, 3, 2); }, {0, 2.5, 9}, {2, 2, 2}, {0, 0, 0}},
      UNARY(binary_step, {none, -0.0, 0, -1, inf}, {0, 1, 1, 0, 1}, {}),
      UNARY(bipolar_step, {none, -0.0, 0, -1, inf}, {-1, 1, 1, -1, 1}, {}),
  });
  expect_all(std::vector<binary_case>{
      BINARY(fmax, {none, 1, none, 2, inf}, {1, none, none, 2, -inf}, {1, 1, none, 2, inf}, {0, 1, 0, 0.5, 1},
             {1, 0, 1, 0.5, 0}),
      BINARY(fmin, {none, 1, none, 2, inf}, {1, none, none, 2, -inf}, {1, 1, none, 2, -inf}, {0, 1, 0, 0.5, 0},
             {1, 0, 1, 0.5, 1}),
      BINARY(fdim, {inf, -inf, none, 3, 1}, {inf, inf, 1, 1, 3}, {0, 0, none, 2, 0}, {0, 0, 1, 1, 0},
             {0, 0, -1, -1, 0}),
      BINARY(heaviside, {-0.0, 0, none, -inf, inf}, {5, 6, 7, 8, 9}, {5, 6, 1, 0, 1}, {}, {1, 1, 0, 0, 0}),
      BINARY(step, {0, none, 0, inf}, {0, 0, none, inf}, {1, 0, 0, 1}, {}, {}),
  });
}

TEST(elementwise, remainders_are_exact) {
  const double third = 1.0f / 3;
  const std::vector<std::pair<double, double>> pairs{
      {5, 3},      {-5, 3},    {5, -3},     {-5, -3},           {7.5, 0.1f},      {3e5, third},  {-1e6, 7.1f},
      {0x1p40, 3}, {1e-30, 3}, {6, 1.5},    {0.99999994, 0.1f}, {3.4e38, 3.3e38}, {16777215, 3}, {inf, 1},
      {1, inf},    {-1, inf},  {1, 0},      {none, 1},          {1, none},        {0, 1},        {2.5, 1},
      {3.5, 1},    {-2.5, 1},  {3e38, 2e38}};
  numbers a, b, truncated, floored, nearest;
  for (const auto& [x, y] : pairs) {
    const double p = float(x), q = float(y), rest = std::fmod(p, q);
    a.push_back(p), b.push_back(q), truncated.push_back(rest), nearest.push_back(std::remainder(p, q));
    floored.push_back(rest != 0 && std::signbit(rest) != std::signbit(q) ? float(rest + q) : rest);
  }
  expect_all(std::vector<binary_case>{BINARY(fmod, a, b, truncated, {}, {}), BINARY(modulo, a, b, floored, {}, {}),
                                      BINARY(remainder, a, b, nearest, {}, {})});
  expect_all(std::vector<binary_case>{
      BINARY(fmod, {7, -7, 1, 0}, {2, 2, inf, 2}, {1, -1, 1, 0}, {1, 1, 1, 1}, {-3, 3, 0, 0}),
      BINARY(modulo, {7, -7}, {2, 2}, {1, 1}, {1, 1}, {-3, 4}),
      BINARY(remainder, {7, -7}, {4, 4}, {-1, 1}, {1, 1}, {-2, 2}),
      BINARY(ping_pong, {-1, 5, 7, 11}, {4, 4, 4, 4}, {1, 3, 1, 3}, {-1, -1, -1, 1}, {}),
  });
  evaluated at({{-1e-9, 7, -7, none, 3}});
  expect_near("wrap", at.value(mn::wrap(at.x[0], 0, 3)), {0, 1, 2, none, 0});
}

TEST(elementwise, floats_are_taken_apart_and_put_together) {
  evaluated at({{1, -6.5, 0x1p-130, 0, inf, -inf, none, 0x1p127}});
  const auto [mantissa, exponent] = mn::frexp(at.x[0]);
  expect_near("mantissa", at.value(mantissa), {0.5, -0.8125, 0.5, 0, inf, -inf, none, 0.5});
  expect_near("exponent", at.value(exponent), {1, 3, -129, 0, 0, 0, 0, 128});
  expect_near("together", at.value(mn::ldexp(mantissa, exponent)), {1, -6.5, 0x1p-130, 0, inf, -inf, none, 0x1p127});
  const auto [fraction, whole] = mn::modf(at.x[0]);
  expect_near("fraction", at.value(fraction), {0, -0.5, 0x1p-130, 0, 0, 0, none, 0});
  expect_near("whole", at.value(whole), {1, -6, 0, 0, inf, -inf, none, 0x1p127});
  expect_all(std::vector<binary_case>{
      BINARY(ldexp, {0x1p-100, 0x1p100, 0, inf, 1, 1, none}, {200, -200, 999, -999, 999, -999, 1},
             {0x1p100, 0x1p-100, 0, inf, inf, 0, none}, {}, {}),
      BINARY(nextafter, {1, 1, 0, -0.0, 2, inf, -1, none, 1, 0x1.fffffep127, inf},
             {2, 0, -1, 1, 2, 0, -inf, 1, none, inf, -inf},
             {1.0000001192092896, 0.9999999403953552, -0x1p-149, 0x1p-149, 2, 0x1.fffffep127, -1.0000001192092896, none,
              none, inf, 0x1.fffffep127},
             {}, {}),
  });
}

TEST(elementwise, angles_at_special_values) {
  const double root = std::sqrt(0.5);
  expect_all(std::vector<unary_case>{
      UNARY(sinpi, {0, 0.5, 1, -0.5, 2.25, 1e6, 8388609, inf, none}, {0, 1, 0, -1, root, 0, 0, none, none},
            {pi, 0, -pi, 0, pi * root, pi, -pi, none, none}),
      UNARY(cospi, {0, 0.5, 1, -0.5, 2.25, 1e6, 8388609, inf, none}, {1, 0, -1, 0, root, 1, -1, none, none},
            {0, -pi, 0, pi, -pi * root, 0, 0, none, none}),
      UNARY(tanpi, {0, 0.25, 1, -0.25, 1e6, inf}, {0, 1, 0, -1, 0, none}, {pi, 2 * pi, pi, 2 * pi, pi, none}),
      UNARY(sinc, {0, 1e-20, 1e-3, pi / 2, none, inf}, {1, 1, 0.99999983333334, 2 / pi, none, none},
            {0, -1e-20 / 3, -3.3333330e-4, -4 / pi / pi, none, none}),
      UNARY(asec, {1, -1, inf, 1e30, 0.5, 1.0000001192092896, none},
            {0, pi, pi / 2, pi / 2, none, 4.8828122574e-4, none}, {}),
      UNARY(acsc, {1, -1, inf, -1e30, 0.5}, {pi / 2, -pi / 2, 0, -1e-30, none}, {}),
      UNARY(acot, {0, -0.0, -1e30, 1}, {pi / 2, -pi / 2, -1e-30, pi / 4}, {-1, -1, 0, -0.5}),
      UNARY(sech, {0, 80, -1e30, inf, none}, {1, 3.60970277e-35, 0, 0, none}, {0, -3.60970277e-35, 0, 0, none}),
      UNARY(csch, {1e-20, -1e30, inf}, {1e20, 0, 0}, {-inf, 0, 0}),
      UNARY(coth, {100, -1e30, inf}, {1, -1, 1}, {0, 0, 0}),
      UNARY(asech, {1, 0, 1e-20, -0.5, 2}, {0, inf, 46.744849, none, none}, {}),
      UNARY(acsch, {0, 1e-30, inf}, {inf, 69.770699, 0}, {}),
      UNARY(acoth, {1, -1, inf, 1e30, 0.5, 0}, {inf, -inf, 0, 1e-30, none, none}, {}),
  });
}

TEST(elementwise, powers_at_special_values) {
  expect_all(std::vector<binary_case>{
      BINARY(boxcox, {2, 2, 2, 1, inf, -1}, {0, 1e-6, 1e-20, 3, 1, 2},
             {0.69314718, 0.69314742, 0.69314718, 0, inf, none}, {0.5, 0.5, 0.5, 1, none, none}, {}),
      BINARY(boxcox, {2, 2}, {0, 1e-6}, {0.69314718, 0.69314742}, {}, {0.24022651, 0.24022662}),
      BINARY(inv_boxcox, {1, 1, 1, -2}, {0, 1e-6, 1e-20, 1}, {2.7182818, 2.7182805, 2.7182818, none}, {}, {}),
      BINARY(inv_boxcox, {1, 1}, {0, 1e-6}, {2.7182818, 2.7182805}, {2.7182818, 2.7182777}, {-1.3591409, -1.3591370}),
      BINARY(tukey_transform, {2, 2, 2}, {0, -1, 2}, {0.69314718, -0.5, 4}, {0.5, 0.25, 4}, {}),
      BINARY(softclip, {0, 1e30, inf, -inf, none}, {2, 2, 2, 2, 2}, {0, 2, 2, -2, none}, {1, 0, 0, 0, none}, {}),
  });
  expect_all(std::vector<unary_case>{
      UNARY(srgb_to_linear, {-1, 0, 1, 0.04}, {-1 / 12.92, 0, 1, 0.04 / 12.92},
            {1 / 12.92, 1 / 12.92, 2.4 / 1.055, 1 / 12.92}),
      UNARY(linear_to_srgb, {-1, 0, 1}, {-12.92, 0, 1}, {12.92, 12.92, 1.055 / 2.4}),
  });
}

namespace {

struct comparison_functions {
  static constexpr auto forward(mn::value auto x) {
    constexpr auto two = mn::constant<2.0f>;
    auto c = mn::logical_xor(mn::logical_xor(mn::isnan(x), mn::isinf(x)), mn::isfinite(x));
    auto d = mn::logical_xor(mn::logical_xor(mn::greater(x, two), mn::greater_equal(two, x)), mn::not_equal(x, two));
    auto a = mn::heaviside(x, two) + mn::step(two, x) + mn::binary_step(x) + mn::bipolar_step(x) + mn::saturate(x);
    auto b = mn::fmax(x, two) + mn::fmin(x, two) + mn::fdim(x, a) + mn::clamp(x, two, a);
    return mn::select(mn::logical_xor(c, d), a, b);
  }
};

struct rounding_functions {
  static constexpr auto forward(mn::value auto x) {
    constexpr auto two = mn::constant<2.0f>;
    auto a = mn::fmod(x, two) + mn::modulo(two, x) + mn::remainder(x, two) + mn::wrap(x, two, x) + mn::fract(x);
    auto [mantissa, exponent] = mn::frexp(mn::ping_pong(a, two));
    auto [fraction, whole] = mn::modf(mn::nextafter(x, two));
    return mn::ldexp(mantissa, exponent) + fraction * mn::ldexp(whole, two);
  }
};

struct angle_functions {
  static constexpr auto forward(mn::value auto x) {
    constexpr auto two = mn::constant<2.0f>;
    auto a = mn::sinpi(x) + mn::cospi(x) + mn::tanpi(x) + mn::sinc(x) + mn::deg2rad(x) + mn::rad2deg(x);
    auto b = mn::sec(x) + mn::csc(x) + mn::cot(x) + mn::asec(x) + mn::acsc(x) + mn::acot(x);
    auto c = mn::sech(x) + mn::csch(x) + mn::coth(x) + mn::asech(x) + mn::acsch(x) + mn::acoth(x);
    auto d = mn::square(x) + mn::cube(x) + mn::quartic(x) + mn::quintic(x) + mn::softclip(x, two);
    auto e = mn::gamma_correct(x, two) + mn::inverse_gamma(x, two) + mn::boxcox(x, a) + mn::inv_boxcox(x, two);
    return mn::tukey_transform(b, two) + mn::srgb_to_linear(c) + mn::linear_to_srgb(d) + mn::arcsinh_asinh(e, two, a);
  }
};

}  // namespace

TEST(elementwise, types_and_values_of_run_time_give_one_graph) {
  expect_same_graph<comparison_functions, dtype::f16>();
  expect_same_graph<rounding_functions, dtype::f32>();
  expect_same_graph<angle_functions, dtype::f16>();
}

TEST(elementwise, what_is_no_operand_is_refused) {
  mn::graph g;
  const node_value x(g, g.input("x", dtype::f32, {2})), i(g, g.input("i", dtype::i32, {2})),
      h(g, g.input("h", dtype::f16, {3}));
  const auto sentence = [](const auto& call) { return mn::support::refusal(call); };
  EXPECT_EQ(sentence([&] { (void)mn::sinpi(i); }), "sinpi(x): x must be floats; cast it; found i32 [2]");
  EXPECT_EQ(sentence([&] { (void)mn::frexp(i); }), "frexp(x): x must be floats; cast it; found i32 [2]");
  EXPECT_EQ(sentence([&] { (void)mn::remainder(i, i); }),
            "remainder(a, b): operands must be floats; cast them; found i32 [2], i32 [2]");
  EXPECT_EQ(sentence([&] { (void)mn::clamp(x, h, 1); }),
            "clamp(x, low, high): extents must be equal or 1; found f32 [2], f16 [3]");
  EXPECT_EQ(sentence([&] { (void)mn::fmod(i, 2); }),
            "fmod(a, b): operands must be floats; cast them; found i32 [2], f32 []");
  EXPECT_EQ(sentence([&] { (void)mn::nextafter(h, h); }),
            "nextafter(a, b): operands must be f32; cast them; found f16 [3], f16 [3]");
  EXPECT_EQ(sentence([&] { (void)mn::square(mn::less(x, 0)); }),
            "square(x): a condition is no number; select(condition, a, b); found bool [2]");
  EXPECT_EQ(sentence([&] { (void)mn::logical_xor(x, x); }),
            "logical_xor(a, b): a and b must be conditions; compare with less, less_equal or equal; found f32 [2], "
            "f32 [2]");
}
