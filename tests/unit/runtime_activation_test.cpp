// SPDX-License-Identifier: MIT
// Activations and their gradients on the device, from small to the ends of f32.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/program.hpp>

#include <support/activation_modules.hpp>
#include <support/device_fixture.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

namespace {

using namespace meganeura;
using support::gelus, support::tanh_gelus, support::sigmoids, support::silus;

const std::vector<double> xs = {0,   -0.0, 1,     -1,   3,    -3,     20,    -20,    50,    -50,    -79,     -81,
                                -86, -88,  -89.5, -200, 1000, -10000, 1e15f, -1e15f, 1e30f, -1e30f, 3.4e38f, -3.4e38f};

struct relus {
  static constexpr auto forward(value auto x) { return relu(x); }
};

struct curve {
  std::vector<double> y, slope;
};

template <class Model>
curve on_device(const std::vector<double>& at) {
  std::vector<double> padded = at;
  padded.resize(28, 0);
  graph g = lower<model<Model, input<"x", dtype::f32, dims<28>>>>();
  const node_id y = g.outputs()[0].node, x = g.leaves(op::input)[0], seed = g.expand(g.constant(1), {28});
  g.add_output("slope", gradients(g, std::span(&y, 1), std::span(&seed, 1), std::span(&x, 1))[0]);
  const device& gpu = support::shared_device();
  parameters weights(gpu, g);
  program run(gpu, g, weights, {.checks = checks::none});  // NaN on purpose
  run.set_input("x", dtype::f32, support::stored_bytes({{28}, padded}));
  run.submit({});
  const auto read = [&](const char* name) {
    std::vector<double> values = support::loaded(run.output(name), dtype::f32, {28}).values;
    values.resize(at.size());
    return values;
  };
  return {read("output"), read("slope")};
}

// Absolute where values are small; nothing is left of them far out.
void expect_near(double found, double expected, const char* what, double x) {
  const double small = std::fabs(x) < 100 ? 4e-7 : 1e-38;
  EXPECT_LE(std::fabs(found - expected), 1e-5 * std::fabs(expected) + small) << what << " at " << x;
}

TEST(runtime_activation, curves_and_slopes_are_right_from_small_to_the_largest_number) {
  const curve s = on_device<sigmoids>(xs), silu = on_device<silus>(xs), gelu = on_device<gelus>(xs),
              gelu_tanh = on_device<tanh_gelus>(xs), relu = on_device<relus>(xs);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double x = xs[i], y = support::exact_sigmoid(x), slope = y * support::exact_sigmoid(-x);
    expect_near(s.y[i], y, "sigmoid", x);
    expect_near(s.slope[i], slope, "slope of sigmoid", x);
    expect_near(silu.y[i], x * y, "silu", x);
    expect_near(silu.slope[i], y + (slope == 0 ? 0 : x * slope), "slope of silu", x);
    const double c = std::sqrt(2 / std::acos(-1.0)), bounded = std::clamp(x, -12.0, 12.0);
    const double t = std::tanh(c * (bounded + 0.044715 * bounded * bounded * bounded));
    const double inner = (1 - t * t) * c * (1 + 3 * 0.044715 * bounded * bounded);
    expect_near(gelu.y[i], support::exact_gelu(x), "gelu", x);
    expect_near(gelu.slope[i], support::exact_gelu_slope(x), "slope of gelu", x);
    expect_near(gelu_tanh.y[i], x * ((1 + t) / 2), "gelu_tanh", x);
    expect_near(gelu_tanh.slope[i], (1 + t) / 2 + bounded / 2 * inner, "slope of gelu_tanh", x);
    expect_near(relu.y[i], std::max(x, 0.0), "relu", x);
    expect_near(relu.slope[i], x > 0, "slope of relu", x);
  }
}

TEST(runtime_activation, infinities_give_the_limit_or_nan_and_nan_stays) {
  const std::vector<double> ends = {INFINITY, -INFINITY, NAN};
  const curve s = on_device<sigmoids>(ends), silu = on_device<silus>(ends), relu = on_device<relus>(ends);
  EXPECT_TRUE(s.y[0] == 1 && s.y[1] == 0 && std::isnan(s.y[2]));
  EXPECT_TRUE(s.slope[0] == 0 && s.slope[1] == 0 && std::isnan(s.slope[2]));
  EXPECT_TRUE(silu.y[0] == INFINITY && std::isnan(silu.y[1]) && std::isnan(silu.y[2]));
  EXPECT_TRUE(relu.y[0] == INFINITY && relu.y[1] == 0 && std::isnan(relu.y[2]));
  EXPECT_TRUE(relu.slope[0] == 1 && relu.slope[1] == 0 && relu.slope[2] == 1);
  EXPECT_TRUE(std::isnan(silu.slope[2]));
  for (const curve& gelu : {on_device<gelus>(ends), on_device<tanh_gelus>(ends)}) {
    EXPECT_TRUE(gelu.y[0] == INFINITY && std::isnan(gelu.y[1]) && std::isnan(gelu.y[2]));
    EXPECT_TRUE(std::isnan(gelu.slope[2]));
  }
}

}  // namespace
