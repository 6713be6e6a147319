// SPDX-License-Identifier: MIT
// Products of Jacobians with tangents, made of two products of reverse mode, against differences: forward and backward
// rules are adjoint to each other.
#include <meganeura/expr/value.hpp>
#include <meganeura/operations.hpp>

#include <oracle/gradient_check.hpp>
#include <support/egraph_sample_graphs.hpp>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;
using oracle::forward_error, oracle::gradient_tolerance, oracle::random_tensor, oracle::tensor, oracle::tensors;

struct function {
  const char* name;
  node_value (*of)(const node_value& x, const node_value& w);  // [3, 4], [4, 5]
};

const std::vector<function> functions{
    {"linear and gelu", [](const node_value& x, const node_value& w) { return gelu(matmul(x, w)); }},
    {"softmax", [](const node_value& x, const node_value& w) { return softmax(matmul(x, w), -1); }},
    {"products of rows", [](const node_value& x, const node_value& w) { return product(matmul(x, w), 1); }},
    {"the largest", [](const node_value& x, const node_value& w) { return max(matmul(x, w), 0) * min(x * x); }},
    {"a scan", [](const node_value& x, const node_value&) { return cumsum(exp(x), 1) / cumprod(cosh(x), 0); }},
    {"sorted", [](const node_value& x, const node_value& w) { return sort(matmul(x, w), 1); }},
    {"moved", [](const node_value& x,
                 const node_value& w) { return concat(1, flip(matmul(x, w), 0), pad_by(x, 1, 1, 0, pad_mode::wrap)); }},
    {"a norm",
     [](const node_value& x, const node_value& w) {
       const node_value h = matmul(x, w);
       return (h - unsqueeze(mean(h, 1), 1)) * unsqueeze(rsqrt(variance(h, 1) + 1e-3f), 1);
     }},
    {"one value twice",
     [](const node_value& x, const node_value& w) { return matmul(matmul(x, w), transpose(w)) * x; }},
};

TEST(autodiff_forward, products_with_tangents_agree_with_differences) {
  for (const function& each : functions) {
    graph g;
    const node_value x(g, g.input("x", dtype::f32, {3, 4})), w(g, g.input("w", dtype::f32, {4, 5}));
    const node_id y = each.of(x, w);
    const tensors<double> at{{"x", random_tensor({3, 4}, 1, 0.2, 1.5)}, {"w", random_tensor({4, 5}, 2)}};
    EXPECT_LT(forward_error(g, y, {x, w}, at), gradient_tolerance) << each.name;
  }
}

TEST(autodiff_forward, of_a_transformer_and_of_a_convolution) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {1, 4, 8});
  const node_id y = samples::transformer(g, x, 1, 2, 16);
  tensors<double> leaves{{"x", random_tensor({1, 4, 8}, 1)}};
  std::vector<node_id> wrt{x};
  for (node_id leaf : g.leaves(op::parameter)) {
    leaves[g.get<leaf_attribute>(leaf).name] = random_tensor(shape(g[leaf].extents), leaf + 5, -0.5, 0.5);
    wrt.push_back(leaf);
  }
  EXPECT_LT(forward_error(g, y, wrt, leaves), gradient_tolerance);

  graph images;
  const node_value image(images, images.input("image", dtype::f32, {1, 2, 6, 5}));
  const node_id z = avg_pool2d(tanh(conv2d("conv", image, 3, conv_options{.kernel = 3, .padding = 1})));
  const node_id filter = images.find_leaf("conv.weight");
  const tensors<double> points{{"image", random_tensor({1, 2, 6, 5}, 1)},
                               {"conv.weight", random_tensor({3, 2, 3, 3}, 2)},
                               {"conv.bias", random_tensor({3}, 3)}};
  EXPECT_LT(forward_error(images, z, {image, filter}, points), gradient_tolerance);
}

}  // namespace
