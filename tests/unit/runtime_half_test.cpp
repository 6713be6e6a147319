// SPDX-License-Identifier: MIT
// Composites of f16 on the device: computed in f32 and rounded once, fused or not, forward and backward.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/program.hpp>

#include <oracle/tolerance.hpp>
#include <support/activation_modules.hpp>
#include <support/device_fixture.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;
using support::gelus, support::tanh_gelus, support::sigmoids, support::silus;

struct result {
  std::vector<double> y, slope;
};

/// The output of a model of x, f16, and the gradient of the sum of `seeds` * output by x.
result on_device(graph g, const std::vector<double>& at, bool fusion, const std::vector<double>& seeds,
                 const std::vector<std::pair<const char*, std::vector<float>>>& values = {}) {
  const node_id y = g.outputs()[0].node, x = g.leaves(op::input)[0];
  const node_id seed = g.input("seed", dtype::f16, shape(g[y].extents));
  const shape extents = g[x].extents, whole = g[y].extents;
  g.add_output("slope", gradients(g, std::span(&y, 1), std::span(&seed, 1), std::span(&x, 1))[0]);
  const device& gpu = support::shared_device();
  parameters weights(gpu, g);
  for (const auto& [name, value] : values) weights.set(name, value);
  program_options options{.checks = checks::none};
  if (!fusion) options.optimize.disabled = {"fusion", "products"};
  program run(gpu, g, weights, options);
  run.set_input("x", dtype::f16, support::stored_bytes({extents, at, dtype::f16}));
  run.set_input("seed", dtype::f16, support::stored_bytes({whole, seeds, dtype::f16}));
  run.submit({});
  return {support::loaded(run.output("output"), dtype::f16, whole).values,
          support::loaded(run.output("slope"), dtype::f16, extents).values};
}

template <class Module, symbolic_shape Shape>
graph lowered() {
  return lower<model<Module, input<"x", dtype::f16, Shape>>>();
}

/// One rounding to f16, of what f32 gives beside terms of 1.
void expect_rounded(double found, double expected, const char* what, double x, bool fusion) {
  const double near = std::fabs(expected) * oracle::tolerance(dtype::f16) + oracle::tolerance(dtype::f32);
  EXPECT_LE(std::fabs(found - expected), near) << what << " at " << x << (fusion ? "" : ", unfused");
}

struct tanhs {
  static constexpr auto forward(value auto x) { return tanh(x); }
};
struct gates {
  static constexpr auto forward(value auto x) { return swiglu(x, constant<1.0f>); }
};

// Every finite number of f16.
TEST(runtime_half, activations_and_their_slopes_are_right_over_all_of_f16) {
  constexpr int count = 2 * 31 * 1024;
  std::vector<double> xs;
  for (int i = 0; i < count; ++i) xs.push_back(oracle::half_value(static_cast<std::uint16_t>(i % 2 << 15 | i / 2)));
  const std::vector<double> ones(xs.size(), 1);
  for (const bool fusion : {true, false}) {
    const auto curve = [&]<class Module>(Module) {
      return on_device(lowered<Module, dims<count>>(), xs, fusion, ones);
    };
    const result s = curve(sigmoids{}), silu = curve(silus{}), gelu = curve(gelus{}), gelu_tanh = curve(tanh_gelus{}),
                 tanh = curve(tanhs{}), gate = curve(gates{});
    int failures = 0;
    for (std::size_t i = 0; i < xs.size() && failures < 10; ++i) {
      const double x = xs[i], y = support::exact_sigmoid(x), slope = y * support::exact_sigmoid(-x), t = std::tanh(x);
      expect_rounded(s.y[i], y, "sigmoid", x, fusion);
      expect_rounded(s.slope[i], slope, "slope of sigmoid", x, fusion);
      expect_rounded(silu.y[i], x * y, "silu", x, fusion);
      expect_rounded(silu.slope[i], y + x * slope, "slope of silu", x, fusion);
      expect_rounded(gate.y[i], x * y, "swiglu", x, fusion);
      expect_rounded(gate.slope[i], y + x * slope, "slope of swiglu", x, fusion);
      const double c = std::sqrt(2 / std::acos(-1.0)), bounded = std::clamp(x, -12.0, 12.0);
      const double u = std::tanh(c * (bounded + 0.044715 * bounded * bounded * bounded));
      const double inner = (1 - u * u) * c * (1 + 3 * 0.044715 * bounded * bounded);
      expect_rounded(gelu_tanh.y[i], x * ((1 + u) / 2), "gelu_tanh", x, fusion);
      expect_rounded(gelu_tanh.slope[i], (1 + u) / 2 + bounded / 2 * inner, "slope of gelu_tanh", x, fusion);
      expect_rounded(gelu.y[i], support::exact_gelu(x), "gelu", x, fusion);
      expect_rounded(gelu.slope[i], support::exact_gelu_slope(x), "slope of gelu", x, fusion);
      expect_rounded(tanh.y[i], t, "tanh", x, fusion);
      // From tanh itself, which is stored in f16 unless fused: off by its rounding, against 1.
      EXPECT_LE(std::fabs(tanh.slope[i] - (1 - t * t)), oracle::tolerance(dtype::f16)) << "slope of tanh at " << x;
      failures += testing::Test::HasFailure();
    }
  }
}

struct means {
  static constexpr auto forward(value auto x) { return mean<-1>(x); }
};
struct rms_norms {
  static constexpr auto forward(value auto x) { return rms_norm<"n">(x); }
};
struct layer_norms {
  static constexpr auto forward(value auto x) { return layer_norm<"n">(x); }
};
struct softmaxes {
  static constexpr auto forward(value auto x) { return softmax<-1>(x); }
};
struct log_softmaxes {
  static constexpr auto forward(value auto x) { return log_softmax<-1>(x); }
};

// 1 / n of f16 is off by up to 1 in 2048, or 0; the sum is more than f16 holds.
TEST(runtime_half, a_mean_is_rounded_once) {
  constexpr int n = 100'003;
  for (const bool fusion : {true, false}) {
    const result found = on_device(lowered<means, dims<2, n>>(), std::vector<double>(2 * n, 3), fusion, {1, 60000});
    EXPECT_EQ(found.y, (std::vector<double>{3, 3}));
    EXPECT_NEAR(found.slope[n], 60000.0 / n, 60000.0 / n * oracle::tolerance(dtype::f16));
  }
}

// The sum of squares of a row of 300 is more than f16 holds.
TEST(runtime_half, norms_are_the_same_whatever_is_fused) {
  constexpr int width = 576;
  std::vector<double> xs(2 * width), seeds(2 * width);
  for (int i = 0; i < 2 * width; ++i) {
    xs[static_cast<std::size_t>(i)] = (i % 2 ? 1 : -1) * (i < width ? 12 : 300);
    seeds[static_cast<std::size_t>(i)] = i % 3;
  }
  for (const bool fusion : {true, false}) {
    const auto weighted = [&](graph g, bool bias) {
      std::vector<std::pair<const char*, std::vector<float>>> values{{"n.weight", std::vector<float>(width, 2)}};
      if (bias) values.emplace_back("n.bias", std::vector<float>(width, 0));
      return on_device(std::move(g), xs, fusion, seeds, values);
    };
    for (const result& found : {weighted(lowered<rms_norms, dims<2, width>>(), false),
                                weighted(lowered<layer_norms, dims<2, width>>(), true)})
      for (std::size_t i = 0; i < xs.size(); ++i) {
        expect_rounded(found.y[i], i % 2 ? 2 : -2, "norm", xs[i], fusion);
        EXPECT_TRUE(std::isfinite(found.slope[i]));
      }
    // x / |x|, of which x has no share: what the seed has along x is taken off, 0 here but for epsilon
    const result rms = weighted(lowered<rms_norms, dims<2, width>>(), false);
    for (std::size_t i = 0; i < xs.size(); ++i)
      expect_rounded(rms.slope[i], 2 * seeds[i] / std::fabs(xs[i]), "slope of rms_norm", xs[i], fusion);
  }
}

// As many ones as are more than f16 holds.
TEST(runtime_half, long_rows_have_a_softmax) {
  constexpr int n = 80'000;
  const std::vector<double> xs(n, 5), ones(n, 1);
  for (const bool fusion : {true, false}) {
    const result soft = on_device(lowered<softmaxes, dims<n>>(), xs, fusion, ones);
    const result logs = on_device(lowered<log_softmaxes, dims<n>>(), xs, fusion, ones);
    for (std::size_t i = 0; i < xs.size(); i += 777) {
      expect_rounded(soft.y[i], 1.0 / n, "softmax", xs[i], fusion);
      expect_rounded(logs.y[i], -std::log(n), "log_softmax", xs[i], fusion);
      EXPECT_LE(std::fabs(soft.slope[i]), oracle::tolerance(dtype::f16));
      EXPECT_LE(std::fabs(logs.slope[i]), oracle::tolerance(dtype::f16));
    }
  }
}

struct cross_entropies {
  static constexpr auto forward(value auto x) {
    return cast<dtype::f16>(cross_entropy_loss(x, coordinates<dims<1>, 0>));
  }
};
struct squared_errors {
  static constexpr auto forward(value auto x) { return cast<dtype::f16>(sqrt(mean_squared_error_loss(x, -x))); }
};

// Of as many classes as are more than f16 holds, and of squares that are.
TEST(runtime_half, losses_are_computed_in_f32) {
  constexpr int n = 80'000;
  for (const bool fusion : {true, false}) {
    const result entropy = on_device(lowered<cross_entropies, dims<1, n>>(), std::vector<double>(n, 5), fusion, {1});
    expect_rounded(entropy.y[0], std::log(n), "cross entropy", 5, fusion);
    expect_rounded(entropy.slope[0], 1.0 / n - 1, "slope of cross entropy", 5, fusion);
    const result error = on_device(lowered<squared_errors, dims<n>>(), std::vector<double>(n, 500), fusion, {1});
    expect_rounded(error.y[0], 1000, "squared error", 500, fusion);
  }
}

}  // namespace
