// SPDX-License-Identifier: MIT
// The order of rows on the device against the oracle, in workgroup memory and in the result's.
#include <support/device_fixture.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <string_view>

using namespace meganeura;

namespace {

struct order_case {
  shape extents;
  int axis;
};

void expect_orders(const order_case& each, const oracle::tensor<double>& x) {
  SCOPED_TRACE(to_string(each.extents) + " of " + to_string(x.type));
  graph g;
  const node_id from = g.input("x", x.type, each.extents);
  g.add_output("rising", g.apply(op::argsort, argsort_attribute{each.axis, false}, {from}));
  g.add_output("falling", g.apply(op::argsort, argsort_attribute{each.axis, true}, {from}));
  support::expect_matches_oracle(g, {{"x", x}});
}
void expect_orders(const order_case& each, dtype type, double low, double high) {
  expect_orders(each, oracle::random_tensor<double>(each.extents, 1, low, high, type));
}

}  // namespace

TEST(kernels_argsort, rows_of_any_length_along_any_axis) {
  const order_case cases[] = {{{1}, 0},         {{2}, 0},       {{3, 5}, 0},       {{70, 33}, 1},
                              {{2, 300, 5}, 1}, {{2, 2049}, 1}, {{2, 4097, 2}, 1}, {{9000}, 0}};
  for (const order_case& each : cases) expect_orders(each, dtype::f32, -9, 9);
}

TEST(kernels_argsort, equal_elements_stay_in_their_order) {
  for (const order_case& each : {order_case{{3, 100}, 1}, order_case{{5000}, 0}}) {
    expect_orders(each, dtype::i32, -3, 3);
    expect_orders(each, dtype::u32, 4294967290.0, 4294967295.0);
  }
  expect_orders({{40}, 0}, dtype::i32, -2147483648.0, 2147483647.0);
}

TEST(kernels_argsort, half_precision) {
  if (!support::shared_profile().f16) GTEST_SKIP() << "needs f16";
  expect_orders({{100, 2}, 0}, dtype::f16, -9, 9);
  expect_orders({{100, 2}, 0}, dtype::bf16, -9, 9);
}

TEST(kernels_argsort, nan_is_the_largest_and_the_zeros_are_equal) {
  constexpr double inf = INFINITY;
  expect_orders({{10}, 0}, {{10}, {1, NAN, -0.0, inf, 0.0, -inf, NAN, -0.0, 1e-30, -1}, dtype::f32});
}

TEST(kernels_argsort, a_row_that_the_driver_would_not_let_end_is_refused) {
  device_profile on;
  on.max_invocations = 1024;
  on.max_loop_iterations = 65535;
  graph g;
  const node_id half = g.apply(op::argsort, argsort_attribute{}, {g.input("x", dtype::f32, {1 << 19})});
  const node_id whole = g.apply(op::argsort, argsort_attribute{}, {g.input("y", dtype::f32, {(1 << 19) + 1})});
  EXPECT_LE(kernels::generate(g, half, on).module.loop_iterations, on.max_loop_iterations);
  try {
    (void)kernels::generate(g, whole, on);
    FAIL() << "it should have been refused";
  } catch (const error& refused) {
    EXPECT_NE(std::string_view(refused.what()).find("this device's driver stops after 65535"), std::string_view::npos)
        << refused.what();
  }
}
