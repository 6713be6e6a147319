// SPDX-License-Identifier: MIT
// Layers composed from primitives, evaluated in double, against their formulas written out.
#include <gtest/gtest.h>

#include <meganeura/expr/lower.hpp>
#include <meganeura/operations.hpp>

#include <oracle/interpreter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace mn = meganeura;
namespace oracle = meganeura::oracle;

namespace {

using values = oracle::tensor<double>;

// Model's output with its inputs and parameters drawn by name; `leaves` then holds them.
template <class Model>
values evaluated(oracle::tensors<double>& leaves) {
  const mn::graph g = mn::lower<Model>();
  std::uint64_t seed = 1;
  for (mn::op kind : {mn::op::input, mn::op::parameter}) {
    for (mn::node_id id : g.leaves(kind)) {
      leaves[g.get<mn::leaf_attribute>(id).name] = oracle::random_tensor<double>(g[id].extents, seed++);
    }
  }
  return oracle::interpreter<double>(g, leaves).run().at("output");
}

constexpr double tolerance = 1e-6;  // constants of a graph are f32

template <mn::symbolic_shape Shape>
using x_input = mn::input<"x", mn::dtype::f32, Shape>;

struct activations {
  static constexpr auto forward(mn::value auto x) {
    return mn::concat<0>(mn::sigmoid(x), mn::silu(x), mn::gelu_tanh(x), mn::relu(x), mn::gelu(x));
  }
};
struct softmaxes {
  static constexpr auto forward(mn::value auto x) { return mn::concat<0>(mn::softmax(x), mn::log_softmax(x)); }
};
struct norms {
  static constexpr auto forward(mn::value auto x) {
    return mn::concat<0>(mn::rms_norm<"r">(x), mn::layer_norm<"l">(x));
  }
};
struct rotated {
  static constexpr auto forward(mn::value auto x) { return mn::rope<mn::rope_options{.theta = 100.0f}>(x); }
};
struct attended {
  static constexpr auto forward(mn::value auto q, mn::value auto k, mn::value auto v) {
    return mn::attend<mn::gqa_options{.causal = true}>(q, k, v);
  }
};

}  // namespace

TEST(expr_layers, activations_are_their_formulas) {
  oracle::tensors<double> leaves;
  const values y = evaluated<mn::model<activations, x_input<mn::dims<8>>>>(leaves);
  for (std::int64_t i = 0; i < 8; ++i) {
    const double x = leaves["x"][i], sigmoid = 1 / (1 + std::exp(-x));
    const double inner = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    EXPECT_NEAR(y[i], sigmoid, tolerance);
    EXPECT_NEAR(y[8 + i], x * sigmoid, tolerance);
    EXPECT_NEAR(y[16 + i], x / 2 * (1 + std::tanh(inner)), tolerance);
    EXPECT_NEAR(y[24 + i], std::max(x, 0.0), tolerance);
    EXPECT_NEAR(y[32 + i], x / 2 * (1 + std::erf(x * std::sqrt(0.5))), tolerance);
  }
}

TEST(expr_layers, softmax_rows_are_exponentials_over_their_sum) {
  oracle::tensors<double> leaves;
  const values y = evaluated<mn::model<softmaxes, x_input<mn::dims<3, 5>>>>(leaves);
  for (std::int64_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i < 5; ++i) sum += std::exp(leaves["x"][row * 5 + i]);
    for (std::int64_t i = 0; i < 5; ++i) {
      const double x = leaves["x"][row * 5 + i];
      EXPECT_NEAR(y[row * 5 + i], std::exp(x) / sum, tolerance);
      EXPECT_NEAR(y[15 + row * 5 + i], x - std::log(sum), tolerance);
    }
  }
}

TEST(expr_layers, norms_scale_rows_by_their_moments) {
  oracle::tensors<double> leaves;
  const values y = evaluated<mn::model<norms, x_input<mn::dims<2, 6>>>>(leaves);
  for (std::int64_t row = 0; row < 2; ++row) {
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < 6; ++i) {
      sum += leaves["x"][row * 6 + i];
      squares += leaves["x"][row * 6 + i] * leaves["x"][row * 6 + i];
    }
    const double mean = sum / 6, variance = squares / 6 - mean * mean;
    for (std::int64_t i = 0; i < 6; ++i) {
      const double x = leaves["x"][row * 6 + i];
      EXPECT_NEAR(y[row * 6 + i], x / std::sqrt(squares / 6 + 1e-5) * leaves["r.weight"][i], tolerance);
      EXPECT_NEAR(y[12 + row * 6 + i],
                  (x - mean) / std::sqrt(variance + 1e-5) * leaves["l.weight"][i] + leaves["l.bias"][i], tolerance);
    }
  }
}

TEST(expr_layers, rope_turns_pairs_half_a_head_apart) {
  oracle::tensors<double> leaves;
  const values y = evaluated<mn::model<rotated, x_input<mn::dims<2, 5, 3, 8>>>>(leaves);
  for (std::int64_t row = 0; row < 2 * 5 * 3; ++row) {
    const auto position = static_cast<double>(row / 3 % 5);
    for (std::int64_t i = 0; i < 4; ++i) {
      const double angle = position * std::pow(100.0, -2.0 * static_cast<double>(i) / 8);
      const double a = leaves["x"][row * 8 + i], b = leaves["x"][row * 8 + 4 + i];
      EXPECT_NEAR(y[row * 8 + i], a * std::cos(angle) - b * std::sin(angle), tolerance);
      EXPECT_NEAR(y[row * 8 + 4 + i], b * std::cos(angle) + a * std::sin(angle), tolerance);
    }
  }
}

TEST(expr_layers, attention_is_a_causal_average_of_values_of_the_groups_head) {
  constexpr std::int64_t batch = 2, positions = 4, heads = 4, groups = 2, width = 3;
  using query = mn::input<"q", mn::dtype::f32, mn::dims<batch, positions, heads, width>>;
  constexpr mn::symbolic_shape keys = mn::dims<batch, positions, heads / groups, width>;
  oracle::tensors<double> leaves;
  const values y =
      evaluated<mn::model<attended, query, mn::input<"k", mn::dtype::f32, keys>, mn::input<"v", mn::dtype::f32, keys>>>(
          leaves);
  const auto q_at = [&](std::int64_t b, std::int64_t t, std::int64_t h) {
    return ((b * positions + t) * heads + h) * width;
  };
  const auto k_at = [&](std::int64_t b, std::int64_t s, std::int64_t h) {
    return ((b * positions + s) * (heads / groups) + h / groups) * width;
  };
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t t = 0; t < positions; ++t) {
      for (std::int64_t h = 0; h < heads; ++h) {
        std::vector<double> weights;
        double sum = 0, mixed[width]{};
        for (std::int64_t s = 0; s <= t; ++s) {
          double dot = 0;
          for (std::int64_t d = 0; d < width; ++d)
            dot += leaves["q"][q_at(b, t, h) + d] * leaves["k"][k_at(b, s, h) + d];
          weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(width))));
          sum += weights.back();
        }
        for (std::int64_t s = 0; s <= t; ++s) {
          const double weight = weights[static_cast<std::size_t>(s)] / sum;
          for (std::int64_t d = 0; d < width; ++d) mixed[d] += weight * leaves["v"][k_at(b, s, h) + d];
        }
        for (std::int64_t d = 0; d < width; ++d) EXPECT_NEAR(y[q_at(b, t, h) + d], mixed[d], tolerance);
      }
    }
  }
}
