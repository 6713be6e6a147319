// SPDX-License-Identifier: MIT
// Pooling and its adjoint on the device against the oracle.
#include <meganeura/kernels/window.hpp>

#include <support/device_fixture.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

using namespace meganeura;

namespace {

struct window_case {
  shape x;
  window_attribute window;
};

const window_case cases[] = {
    {{2, 3, 8, 8}, {.window = {2, 2}, .stride = {2, 2}}},
    {{1, 2, 7, 9}, {.window = {3, 3}, .stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1}}},
    {{2, 5, 6}, {.window = {3, 2}, .stride = {1, 1}, .pad_low = {1, 0}, .pad_high = {0, 1}}},
    {{3, 11}, {.spatial = 1, .window = {4}, .stride = {3}}},
    {{2, 4, 5, 3},
     {.spatial = 3, .window = {2, 3, 2}, .stride = {2, 1, 1}, .pad_low = {0, 1, 0}, .pad_high = {0, 1, 1}}},
    {{1, 2, 7, 7}, {.window = {7, 7}, .stride = {1, 1}}},
    // Each element in one window, or some in none.
    {{3, 9}, {.spatial = 1, .window = {3}, .stride = {3}}},
    {{2, 4, 6, 2}, {.spatial = 3, .window = {2, 3, 2}, .stride = {2, 3, 2}}},
    {{2, 7, 6}, {.window = {2, 2}, .stride = {2, 2}}},
    // Windows longer than the tensor, which begin before it, end behind it, or both.
    {{2, 7}, {.spatial = 1, .window = {20}, .stride = {3}, .pad_low = {17}, .pad_high = {14}}},
    {{2, 3, 5}, {.window = {9, 4}, .stride = {2, 1}, .pad_low = {8, 2}, .pad_high = {5, 3}}},
    // Planes of several tiles, whose windows lie in two of them.
    {{2, 3, 35, 41}, {.window = {3, 3}, .stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1}}},
    {{1, 2, 19, 67}, {.window = {5, 4}, .stride = {1, 3}, .pad_low = {2, 0}, .pad_high = {1, 2}}},
    {{3, 300}, {.spatial = 1, .window = {40}, .stride = {7}, .pad_low = {3}, .pad_high = {11}}},
    {{2, 9, 10, 33},
     {.spatial = 3, .window = {3, 2, 3}, .stride = {1, 2, 1}, .pad_low = {1, 0, 2}, .pad_high = {1, 1, 0}}},
    {{1, 70, 3}, {.window = {4, 3}, .stride = {5, 1}}},
};

oracle::tensor<double> with_ties(const shape& extents, dtype type) {
  oracle::tensor<double> x = oracle::random_tensor<double>(extents, 5, -4, 4, type);
  for (double& value : x.values) value = std::floor(value);
  return x;
}

// Every seventh element of x is one of `specials` in turn.
void expect_window(const window_case& each, reduce_kind kind, dtype type, const std::vector<double>& specials = {}) {
  window_attribute window = each.window;
  window.kind = kind;
  graph g;
  const node_id x = g.input("x", type, each.x);
  const node_id y = g.window_reduce(x, window);
  g.add_output("pooled", y);
  const node_id gradient = g.input("dy", type, g[y].extents);
  const node_id operands[] = {x, gradient};
  const bool is_max = kind == reduce_kind::max;
  std::int64_t taps = 1;
  for (int i = 0; i < window.spatial; ++i) taps *= window.window[i];
  g.add_output("scattered",
               g.window_scatter(is_max ? std::span<const node_id>(operands) : std::span<const node_id>(operands + 1, 1),
                                window, each.x));
  oracle::tensor<double> values = with_ties(each.x, type);
  for (std::size_t i = 0; !specials.empty() && i < values.values.size(); i += 7)
    values.values[i] = specials[i / 7 % specials.size()];
  support::expect_matches_oracle(
      g, {{"x", values}, {"dy", oracle::random_tensor<double>(g[y].extents, 6, -1, 1, type)}}, taps);
}

TEST(kernels_window, maximum_goes_back_to_the_first_of_equals) {
  for (const window_case& each : cases) expect_window(each, reduce_kind::max, dtype::f32);
}

TEST(kernels_window, only_taps_that_can_lie_inside_are_looked_at) {
  constexpr std::int64_t taps = 2147483645;
  for (reduce_kind kind : {reduce_kind::sum, reduce_kind::max}) {
    const window_attribute window{.kind = kind, .spatial = 1, .window = {taps}, .stride = {1}, .pad_low = {taps - 5}};
    graph g;
    const node_id x = g.input("x", dtype::f32, {1, 7});
    g.add_output("y", g.window_reduce(x, window));  // of 5, 6 and 7 elements
    for (const device_profile& on : support::all_targets()) {
      const auto y = support::device_graph(g, on).run({{"x", {{1, 7}, {7, 1, 2, 3, 4, 5, 6}}}}).at("y").values;
      const bool sums = kind == reduce_kind::sum;
      EXPECT_EQ(y, (sums ? std::vector<double>{17, 22, 28} : std::vector<double>{7, 7, 7}));
    }
  }
}

TEST(kernels_window, sums_and_their_adjoint) {
  for (const window_case& each : cases) expect_window(each, reduce_kind::sum, dtype::f32);
}

TEST(kernels_window, a_nan_is_the_maximum_of_its_windows_and_gets_their_gradients) {
  for (const window_case& each : cases) expect_window(each, reduce_kind::max, dtype::f32, {NAN, -INFINITY, INFINITY});
}

TEST(kernels_window, half_precision) {
  if (!support::shared_profile().f16) GTEST_SKIP() << "needs f16";
  expect_window(cases[1], reduce_kind::max, dtype::f16);
  expect_window(cases[1], reduce_kind::sum, dtype::f16);
}

}  // namespace
