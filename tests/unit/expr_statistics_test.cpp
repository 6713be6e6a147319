// SPDX-License-Identifier: MIT
// Shares of rows, robust statistics, counters, quantised numbers and masks: of types and of values of run time, at
// special values, and what they refuse.
#include <support/sentence_of.hpp>
#include <support/special_values.hpp>

#include <cstdint>
#include <utility>

namespace {

using namespace mn::support;
using mn::dtype;
using mn::node_value;

struct of_rows {
  static constexpr auto forward(mn::value auto x) {
    auto [mean, variance] = mn::mean_and_variance<-1>(x);
    auto a = mn::softmin<0>(x) + mn::logcumsumexp<1>(x) + mn::linspace_like<-1, -1.0, 2.0>(x);
    auto b =
        mn::z_score_robust<1>(x) + mn::winsorize<1>(x, mn::c<mn::quantile_share{0.1}>, mn::c<mn::quantile_share{0.9}>);
    auto d = mn::mode<1>(x) + mn::median_absolute_deviation<1>(x) + mn::interquartile_range<1>(x) + mean * variance;
    auto e = mn::gumbel_softmax<"soft">(x) + mn::gumbel_softmax<"hard", 0, mn::gumbel_options{0.5, true}>(x);
    return mn::unsqueeze<1>(d + mn::cosine_distance<-1>(a, b)) + e;
  }
};
struct of_numbers {
  static constexpr auto forward(mn::value auto x) {
    auto mask = mn::cast<dtype::i32>(mn::less(x, mn::constant<0.5f>));
    auto h = mn::hash(mask, mn::modular_power(mask, mask, mn::constant<7>));
    auto noise = mn::noise(h) + mn::noise(h, mn::hash(mask));
    return mn::select(mask, x, mn::select(noise, x, noise)) * mn::hinge_loss<mn::hinge_options{}>(x, noise);
  }
};
struct quantised {
  static constexpr auto forward(mn::value auto x) {
    auto scale = mn::constant<0.1f>;
    auto scales = mn::reshape<mn::dims<2>>(mn::slice<1, 0, 1>(x));
    auto q = mn::quantize<mn::uint8_range>(x, scale, mn::constant<3, dtype::i32>);
    auto zeros = mn::reshape<mn::dims<2>>(mn::slice<-1, 1, 1>(q));
    auto r = mn::quantize<mn::int8_range, 0>(x, scales, zeros);
    auto s = mn::dequantize<-2>(r, scales, zeros);
    return s * mn::fake_quantize<mn::int8_range, 0>(s, scales, zeros);
  }
};

}  // namespace

TEST(expr_statistics, every_function_is_one_graph_both_ways) {
  expect_same_graph<of_rows, dtype::f32>();
  expect_same_graph<of_rows, dtype::bf16>();
  expect_same_graph<of_numbers, dtype::f32>();
  expect_same_graph<quantised, dtype::f32>();
}

TEST(expr_statistics, rows_of_special_values) {
  const double e = std::exp(1.0);
  expect_all(std::vector<unary_case>{
      {"logcumsumexp",
       [](node_value x) { return mn::logcumsumexp(x, 0); },
       {-inf, -inf, -500, 0, 300},
       {-inf, -inf, -500, 0, 300},
       {0, 0, 1, 1, 1}},
      {"logcumsumexp", [](node_value x) { return mn::logcumsumexp(x, 0); }, {0, inf, 1}, {0, inf, inf}, {}},
      {"logcumsumexp", [](node_value x) { return mn::logcumsumexp(x, 0); }, {0, none, 1}, {0, none, none}, {}},
      {"logsumexp", [](node_value x) { return mn::logsumexp(x, 0) * 2; }, {-inf, -inf}, {-inf}, {0, 0}},
      {"softmin", [](node_value x) { return mn::softmin(x, 0); }, {inf, 1000, 1001}, {0, e / (1 + e), 1 / (1 + e)}, {}},
      {"mode", [](node_value x) { return mn::mode(x, 0); }, {3, 1, 3, 1, 2}, {1}, {0, 1, 0, 0, 0}},
      {"mode", [](node_value x) { return mn::mode(x, 0); }, {none, 2, none, 1, 2}, {2}, {0, 1, 0, 0, 0}},
      {"mode", [](node_value x) { return mn::mode(x, 0); }, {none, none}, {none}, {}},
      {"mode", [](node_value x) { return mn::mode(x, 0); }, {inf, inf, 1}, {inf}, {}},
      {"mode", [](node_value x) { return mn::mode(x, 0); }, {7}, {7}, {1}},
      {"linspace_like",
       [](node_value x) { return mn::linspace_like(x, 0, -1, 1); },
       {9, 9, 9, 9, 9},
       {-1, -0.5, 0, 0.5, 1},
       {}},
      {"linspace_like", [](node_value x) { return mn::linspace_like(x, 0, 3, 4); }, {9}, {3}, {}},
      {"linspace_like", [](node_value x) { return mn::linspace_like(x, 0, 0, 0.1); }, {9, 9}, {0, 0.1f}, {}},
      {"z_score_robust",
       [](node_value x) { return mn::z_score_robust(x, 0); },
       {1, 2, 3, 4, 100},
       {-2 * 0.67448975, -0.67448975, 0, 0.67448975, 97 * 0.67448975},
       {}},
      {"z_score_robust",
       [](node_value x) { return mn::z_score_robust(x, 0); },
       {2, 2, 2, 5},
       {none, none, none, inf},
       {}},
      {"winsorize",
       [](node_value x) { return mn::winsorize(x, mn::quantile_share{0.25}, mn::quantile_share{0.75}, 0); },
       {0, 10, 20, 30, 90},
       {10, 10, 20, 30, 30},
       {0, 2, 1, 2, 0}},
      {"interquartile_range", [](node_value x) { return mn::interquartile_range(x, 0); }, {5, 1, none}, {none}, {}},
      {"hard choice",
       [](node_value x) {
         return mn::gumbel_softmax("c", x, 0, mn::gumbel_options{1, true});
       },
       {1, 5, 5},
       {0, 1, 0},
       {}}});
}

TEST(expr_statistics, gradients_where_extrema_are_equal) {
  static constexpr mn::pool_options two{.window = 2}, apart{.window = 2, .stride = 1, .dilation = 2};
  expect_all(std::vector<unary_case>{
      {"relu", [](node_value x) { return mn::relu(x); }, {0, -1, 1}, {0, 0, 1}, {0, 0, 1}},
      {"maximum of a number", [](node_value x) { return mn::maximum(x, 2); }, {2}, {2}, {0}},
      {"abs", [](node_value x) { return mn::abs(x); }, {0, -2}, {0, 2}, {0, -1}},
      {"max", [](node_value x) { return mn::max(x, 0); }, {1, 2, 2}, {2}, {0, 1, 0}},
      {"min", [](node_value x) { return mn::min(x, 0); }, {1, 2, 1}, {1}, {1, 0, 0}},
      {"topk", [](node_value x) { return mn::topk(x, 1, 0).get<0>(); }, {1, 2, 2}, {2}, {0, 1, 0}},
      {"max_pool1d",
       [](node_value x) { return mn::max_pool1d(mn::unsqueeze(x, 0), two); },
       {2, 2, 3, 3},
       {2, 3},
       {1, 0, 1, 0}},
      {"dilated",
       [](node_value x) { return mn::max_pool1d(mn::unsqueeze(x, 0), apart); },
       {2, 5, 2},
       {2},
       {0.5, 0, 0.5}},
      {"norm", [](node_value x) { return mn::norm(x, mn::norm_order{inf}, 0); }, {-3, 3}, {3}, {-1, 0}}});
  expect_all(std::vector<binary_case>{BINARY(maximum, {2, 1}, {2, 3}, {2, 3}, {0.5, 0}, {0.5, 1}),
                                      BINARY(minimum, {2, 1}, {2, 3}, {2, 1}, {0.5, 1}, {0.5, 0})});
}

TEST(expr_statistics, moments_of_one_computation) {
  evaluated at({{1, 2, 6}});
  const auto [mean, variance] = mn::mean_and_variance(at.x[0], mn::correction{0});
  expect_near("mean", at.value(mean), {3});
  expect_near("variance", at.value(variance), {14.0 / 3});
}

TEST(expr_statistics, a_choice_has_noise_in_training_alone) {
  mn::graph trains(mn::run_mode::training), evaluates(mn::run_mode::evaluation);
  const auto text = [](mn::graph& g) {
    (void)mn::gumbel_softmax("choice", node_value(g, g.input("x", dtype::f32, {3})), 0, mn::gumbel_options{}).id();
    return mn::to_text(g);
  };
  EXPECT_NE(text(trains).find("noise"), std::string::npos);
  EXPECT_EQ(text(evaluates).find("noise"), std::string::npos);
}

TEST(expr_statistics, powers_and_hashes_of_whole_numbers) {
  struct row {
    std::uint32_t a, b, m;
    double result;
  };
  const row rows[] = {{2, 10, 1000, 24},
                      {0, 0, 5, 1},
                      {0, 3, 5, 0},
                      {7, 0, 1, 0},
                      {4294967295u, 2, 10, 5},
                      {3, 2147483647, 16777215, 14805612},
                      {16777212, 2, 16777213, 1}};
  mn::graph g;
  mn::oracle::tensors<double> leaves;
  numbers a, b, m, expected;
  for (const row& each : rows)
    a.push_back(each.a), b.push_back(each.b), m.push_back(each.m), expected.push_back(each.result);
  const auto input = [&](const char* name, const numbers& list) {
    leaves[name] = {{std::int64_t(list.size())}, list, dtype::u32};
    return node_value(g, g.input(name, dtype::u32, {std::int64_t(list.size())}));
  };
  const auto x = input("a", a);
  EXPECT_EQ(run_rounded(g, mn::modular_power(x, input("b", b), input("m", m)).id(), leaves), expected);
  const numbers hashes = run_rounded(g, mn::hash(x).id(), leaves);
  EXPECT_EQ(hashes[1], hashes[2]);
  EXPECT_NE(hashes[1], 0);
  for (const double each : run_rounded(g, mn::noise(x, x).id(), leaves)) EXPECT_TRUE(each >= 0 && each < 1) << each;
}

TEST(expr_statistics, quantised_numbers_saturate_and_round_to_even) {
  const auto of = [](auto name, double scale, double zero) {
    return [=](node_value x) {
      const node_value s = mn::full_like(mn::slice(x, 0, 0, 1), scale),
                       z = mn::cast(mn::full_like(s, zero), dtype::i32);
      return name(x, s, z);
    };
  };
  const numbers x{0.25, 0.75, 1.25, -0.25, -0.75, 100, -100, inf, -inf, none};
  evaluated at({x});
  const auto quantized =
      of([](auto v, auto s, auto z) { return mn::quantize(v, s, z, mn::int8_range); }, 0.5, 3)(at.x[0]);
  EXPECT_EQ(at.value(quantized), (numbers{3, 5, 5, 3, 1, 127, -128, 127, -128, 0}));
  const auto bytes =
      of([](auto v, auto s, auto z) { return mn::quantize(v, s, z, mn::uint8_range); }, 0.5, 128)(at.x[0]);
  EXPECT_EQ(at.value(bytes), (numbers{128, 130, 130, 128, 126, 255, 0, 255, 0, 0}));
  const auto through =
      of([](auto v, auto s, auto z) { return mn::fake_quantize(v, s, z, mn::int8_range); }, 0.5, 3)(at.x[0]);
  expect_near("fake_quantize", at.value(through), {0, 1, 1, 0, -1, 62, -65.5, 62, -65.5, none});
  expect_near("its slope", at.slope(through), {1, 1, 1, 1, 1, 0, 0, 0, 0, 0});
}

TEST(expr_statistics, masks_of_numbers_choose_and_conditions_are_stored) {
  evaluated at({{0, -0.0, 1, -2, none, inf}, {1, 2, 3, 4, 5, 6}});
  const node_value mask = at.x[0], y = at.x[1];
  expect_near("select by floats", at.value(mn::select(mask, y, -y)), {-1, -2, 3, 4, 5, 6});
  expect_near("select by integers", at.value(mn::select(mn::cast(mask, dtype::u32), y, -y)), {-1, -2, 3, -4, -5, 6});
  const node_value stored = mn::cast(mn::less(y, mn::constant<3.5f>), dtype::i32);
  EXPECT_EQ(stored.facts().type, dtype::i32);
  expect_near("stored", at.value(stored), {1, 1, 1, 0, 0, 0});
  expect_near("and taken", at.slope(mn::select(stored, y * 2, y), 1), {2, 2, 2, 1, 1, 1});
  expect_near("as floats", at.value(mn::cast(mn::logical_not(mn::less(y, 2)), dtype::f32) * y), {0, 2, 3, 4, 5, 6});
}

TEST(expr_statistics, what_does_not_fit_is_refused) {
  mn::graph g;
  const node_value x(g, g.input("x", dtype::f32, {2, 4})), i(g, g.input("i", dtype::i32, {2, 4})),
      row(g, g.input("r", dtype::f32, {4}));
  const mn::integer_range empty{3, 3};
  const auto s = [](const auto& call) { return sentence_of(call); };
  const std::pair<const char*, std::string> cases[] = {
      {"logcumsumexp<axis>(x): x has no such axis, or no room for another; found f32 [2, 4]",
       s([&] { (void)mn::logcumsumexp(x, 2); })},
      {"logcumsumexp<axis>(x): x must be floats; cast it; found i32 [2, 4]", s([&] { (void)mn::logcumsumexp(i, 1); })},
      {"linspace_like<axis, low, high>(x): x must be floats; cast it; found i32 [2, 4]",
       s([&] { (void)mn::linspace_like(i, 1, 0, 1); })},
      {"softmin<axis>(x): x has no such axis; found f32 [2, 4]", s([&] { (void)mn::softmin(x, 2); })},
      {"gumbel_softmax<name, axis>(x): the temperature must be above 0; found f32 [2, 4] in \"c\"",
       s([&] { (void)mn::gumbel_softmax("c", x, 0, mn::gumbel_options{0}); })},
      {"mode<axis>(x): x has no such axis, or no room for another; found f32 [2, 4]",
       s([&] { (void)mn::mode(x, -3); })},
      {"z_score_robust<axis>(x): x must be floats; cast it; found i32 [2, 4]",
       s([&] { (void)mn::z_score_robust(i, 1); })},
      {"hash(x, y): operands must be integers; cast them; found f32 [2, 4]", s([&] { (void)mn::hash(x); })},
      {"noise(x, y): operands must be integers; cast them; found i32 [2, 4], f32 [2, 4]",
       s([&] { (void)mn::noise(i, x); })},
      {"modular_power(a, b, m): operands must be integers; cast them; found f32 [2, 4], f32 [2, 4]",
       s([&] { (void)mn::modular_power(x, x, x); })},
      {"quantize<range, axis>(x, scale, zero_point): scale must be floats and zero_point integers, whose shapes "
       "broadcast to x's, or with an "
       "axis are [n] of it; found f32 [2, 4], f32 [4], i32 [2, 4]",
       s([&] { (void)mn::quantize(x, row, i, mn::int8_range, 0); })},
      {"quantize<range, axis>(x, scale, zero_point): a range lies within 2^24 and is not empty; found f32 [2, 4]",
       s([&] { (void)mn::quantize(x, row, i, empty); })},
      {"dequantize<axis>(q, scale, zero_point): q must be integers; cast it; found f32 [2, 4]",
       s([&] { (void)mn::dequantize<>(x, row, i); })},
      {"select(c, a, b): extents must be equal or 1; found f32 [4], f32 [4], f32 [3]",
       s([&] { (void)mn::select(mn::slice(row, 0, 0, 3), row, row); })}};
  for (const auto& [expected, found] : cases) EXPECT_EQ(found, expected);
}
