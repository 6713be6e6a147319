// SPDX-License-Identifier: MIT
// Running sums, products and places of extrema on the device against the oracle.
#include <support/device_fixture.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

using namespace meganeura;

namespace {

struct scan_case {
  shape extents;
  int axis;
};

const scan_case cases[] = {{{1}, 0}, {{3, 5}, 0}, {{70, 33}, 1}, {{2, 300, 5}, 1}, {{3, 2051}, 1}, {{4099, 3}, 0}};
const scan_case few[] = {{{2, 7, 3}, 1}, {{2, 1030}, 1}};
constexpr reduce_kind kinds[] = {reduce_kind::sum, reduce_kind::product, reduce_kind::arg_max, reduce_kind::arg_min};

graph scans(const scan_case& each, dtype type) {
  graph g;
  const node_id x = g.input("x", type, each.extents);
  for (const reduce_kind kind : kinds) {
    for (const bool reverse : {false, true}) {
      g.add_output(std::string(info(kind).name) + (reverse ? " back" : ""),
                   g.apply(op::cumulative, cumulative_attribute{kind, each.axis, reverse}, {x}));
    }
  }
  return g;
}

void expect_scans(const scan_case& each, dtype type, double low, double high) {
  SCOPED_TRACE(to_string(each.extents));
  const std::int64_t length = each.extents[each.axis];
  support::expect_matches_oracle(
      scans(each, type), {{"x", oracle::random_tensor<double>(each.extents, 1, low, high, type)}}, length, {},
      is_float(type) ? oracle::product_tolerance(length) + oracle::tolerance(type, length) : 0);
}

}  // namespace

TEST(kernels_cumulative, floats_along_any_axis_from_either_end) {
  for (const scan_case& each : cases) expect_scans(each, dtype::f32, 0.99, 1.01);
}

TEST(kernels_cumulative, integers_modulo_their_range_and_their_ties) {
  for (const scan_case& each : few) {
    expect_scans(each, dtype::i32, -4, 5);
    expect_scans(each, dtype::u32, 1, 4294967295.0);
  }
}

TEST(kernels_cumulative, half_precision_is_added_up_in_f32) {
  if (!support::shared_profile().f16) GTEST_SKIP() << "needs f16";
  for (const scan_case& each : few)
    expect_scans(each, dtype::f16, 0.99, 1.01), expect_scans(each, dtype::bf16, 0.9, 1.1);
}

TEST(kernels_cumulative, values_that_are_no_numbers_stay_where_they_belong) {
  constexpr double inf = INFINITY;
  const std::vector<double> row{1, -0.0, 0.0, inf, 2, NAN, 3, -inf, NAN, 1};
  std::vector<double> endless(1100, 1.0);
  endless[300] = inf;
  for (const std::vector<double>& values : {row, endless}) {
    const shape extents{static_cast<std::int64_t>(values.size())};
    support::expect_matches_oracle(scans({extents, 0}, dtype::f32), {{"x", {extents, values, dtype::f32}}});
  }
}

// A total of all terms would be off by some thousand ulp.
TEST(kernels_cumulative, three_million_terms_are_added_up_with_the_error_of_a_few) {
  constexpr std::int64_t count = 3'000'000;
  graph g;
  g.add_output("sums", g.apply(op::cumulative, cumulative_attribute{}, {g.input("x", dtype::f32, {count})}));
  g.add_output("places", g.apply(op::cumulative, cumulative_attribute{reduce_kind::arg_max}, {g.find_leaf("x")}));
  const auto x = oracle::random_tensor<double>({count}, 1, 0, 1, dtype::f32);
  const auto found = support::device_graph(g, support::shared_profile()).run({{"x", x}});
  double sum = 0, worst = 0, most = -1;
  std::int64_t place = 0, wrong = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    sum += x[i];
    worst = std::fmax(worst, std::fabs(found.at("sums")[i] - sum) / sum);
    if (x[i] >= most) most = x[i], place = i;
    wrong += found.at("places")[i] != static_cast<double>(place);
  }
  EXPECT_LT(worst, 8 * 0x1p-24);
  EXPECT_EQ(wrong, 0);
}
