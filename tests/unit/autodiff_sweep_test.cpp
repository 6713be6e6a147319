// SPDX-License-Identifier: MIT
// What a whole sweep builds and leaves out, and how it refuses.
#include <meganeura/autodiff/gradient.hpp>

#include <oracle/gradient_check.hpp>
#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::oracle;

constexpr std::int64_t batch = 3, classes = 7;

// Mean cross-entropy of integer labels, from primitives: log-sum-exp minus the logit of the label, picked by comparison
// with the class number (no one-hot tensor is stored).
node_id cross_entropy(graph& g, node_id logits, node_id labels) {
  const shape size = {batch, classes};
  const node_id largest = g.stop_gradient(g.reduce(reduce_kind::max, logits, 2));
  const node_id shifted = g.subtract(logits, g.expand_axes(largest, size, 2));
  const node_id sums = g.map(scalar_op::log, {g.reduce(reduce_kind::sum, g.map(scalar_op::exp, {shifted}), 2)});
  scalar_builder b;
  const scalar_ref hit = b.binary(scalar_op::equal, b.argument(0, dtype::i32), b.argument(1, dtype::i32));
  const scalar_ref chosen = b.select(hit, b.argument(2, dtype::f32), b.constant(0));
  const node_id operands[] = {g.expand_axes(labels, size, 2), g.coordinates(size, 1), shifted};
  const node_id picked = g.reduce(reduce_kind::sum, g.map(b.finish(chosen), operands, dtype::f32), 2);
  const node_id losses = g.subtract(sums, picked);
  return g.multiply(g.reduce(reduce_kind::sum, losses, 1), g.constant(1.0 / batch));
}

TEST(autodiff_sweep, the_gradient_of_cross_entropy_is_softmax_minus_one_hot_over_the_batch) {
  graph g;
  const node_id logits = g.input("logits", dtype::f32, {batch, classes});
  const node_id labels = g.input("labels", dtype::i32, {batch}), wrt[] = {logits};
  const node_id result = gradients(g, cross_entropy(g, logits, labels), wrt)[0];
  const tensor<double> at = random_tensor({batch, classes}, 1, -3, 3);
  interpreter<double> run(g, {{"logits", at}, {"labels", {{batch}, {2, 0, 6}, dtype::i32}}});

  const std::int64_t label[] = {2, 0, 6};
  tensor<double> expected({batch, classes});
  for (std::int64_t row = 0; row < batch; ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i < classes; ++i) sum += std::exp(at[row * classes + i]);
    for (std::int64_t i = 0; i < classes; ++i) {
      const double one_hot = i == label[row] ? 1 : 0;
      // 1 / 3 is an f32 constant of the graph
      expected[row * classes + i] = (std::exp(at[row * classes + i]) / sum - one_hot) * static_cast<float>(1.0 / batch);
    }
  }
  EXPECT_LT(relative_error(run.value(result), expected), tolerance_f64(classes));
}

TEST(autodiff_sweep, nothing_beside_the_path_from_wrt_to_loss_is_built) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {4, 4}), w = g.parameter("w", dtype::f32, {4, 4});
  const node_id v = g.parameter("v", dtype::f32, {4, 4});
  const node_id hidden = g.map(scalar_op::tanh, {g.contract(x, w, "ik", "kj", "ij")});
  const node_id beside = g.map(scalar_op::sin, {g.contract(hidden, v, "ik", "kj", "ij")});  // does not reach the loss
  const node_id output = g.contract(hidden, v, "ik", "kj", "ij");
  const node_id loss = g.reduce(reduce_kind::sum, g.multiply(output, output), 3), wrt[] = {v};
  const auto start = static_cast<node_id>(g.size());
  static_cast<void>(gradients(g, loss, wrt));
  // Only v is asked for: one product with hidden, none with x or w, no tanh backwards.
  int contractions = 0;
  for (node_id id = start; id < g.size(); ++id) {
    contractions += g[id].kind == op::contract;
    for (node_id operand : g.operands(id)) EXPECT_TRUE(operand != x && operand != w && operand != beside);
  }
  EXPECT_EQ(contractions, 1);
}

TEST(autodiff_sweep, every_appended_node_is_used_by_a_gradient) {
  graph g;
  const node_id logits = g.input("logits", dtype::f32, {batch, classes}),
                labels = g.input("labels", dtype::i32, {batch});
  const node_id loss = cross_entropy(g, g.map(scalar_op::tanh, {logits}), labels), wrt[] = {logits};
  const auto start = static_cast<node_id>(g.size());
  const node_id result = gradients(g, loss, wrt)[0];
  std::vector<bool> used(g.size(), false);
  used[result] = true;
  for (auto id = static_cast<node_id>(g.size()); id-- > start;) {
    // Expanded constants melt into the programs that read them; what is left of them costs nothing.
    EXPECT_TRUE(used[id] || g[id].kind == op::constant || g[id].kind == op::view) << to_text(g) << id;
    for (node_id operand : g.operands(id)) used[operand] = true;
  }
}

TEST(autodiff_sweep, no_full_size_constant_is_an_operand) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {8, 8}), wrt[] = {x};
  const node_id loss = g.reduce(reduce_kind::sum, g.multiply(g.map(scalar_op::sin, {x}), g.full({8, 8}, 3)), 3);
  const auto start = static_cast<node_id>(g.size());
  const node_id result = gradients(g, loss, wrt)[0];
  for (node_id id = start; id < g.size(); ++id) {
    if (g[id].kind != op::map) continue;
    for (node_id operand : g.operands(id)) EXPECT_EQ(operand, x) << to_text(g);
  }
  EXPECT_EQ(to_string(g.get<map_attribute>(result).program), "multiply(3, cos(a0))");
}

TEST(autodiff_sweep, what_the_loss_does_not_depend_on_gets_zeros_of_its_shape) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {3}), other = g.parameter("other", dtype::f16, {2, 5});
  const node_id wrt[] = {other, x};
  const auto found = gradients(g, g.reduce(reduce_kind::sum, g.map(scalar_op::floor, {x}), 1), wrt);
  EXPECT_EQ(g[found[0]].extents, (shape{2, 5}));
  EXPECT_EQ(g[found[0]].type, dtype::f16);
  interpreter<double> run(g, {{"x", random_tensor({3}, 1)}, {"other", random_tensor({2, 5}, 2)}});
  EXPECT_EQ(run.value(found[0]).values, std::vector<double>(10, 0));
  EXPECT_EQ(run.value(found[1]).values, std::vector<double>(3, 0));
}

TEST(autodiff_sweep, the_gradient_by_an_intermediate_and_by_the_loss_itself_exist) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2}), y = g.multiply(x, x);
  const node_id loss = g.reduce(reduce_kind::sum, g.multiply(y, y), 1), wrt[] = {x, y, loss};
  const auto found = gradients(g, loss, wrt);
  interpreter<double> run(g, {{"x", {{2}, {2, 3}}}});
  EXPECT_EQ(run.value(found[0]).values, (std::vector<double>{32, 108}));
  EXPECT_EQ(run.value(found[1]).values, (std::vector<double>{8, 18}));
  EXPECT_EQ(run.value(found[2]).values, (std::vector<double>{1}));
}

TEST(autodiff_sweep, several_outputs_add_up_with_their_seeds) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2}), wrt[] = {x};
  const node_id outputs[] = {g.multiply(x, x), g.map(scalar_op::negate, {x}), g.multiply(x, x)};
  const node_id seeds[] = {g.full({2}, 1), g.full({2}, 5), g.full({2}, 2)};
  const node_id result = gradients(g, outputs, seeds, wrt)[0];
  interpreter<double> run(g, {{"x", {{2}, {1, 4}}}});
  EXPECT_EQ(run.value(result).values, (std::vector<double>{1, 19}));
}

std::string refusal(graph& g, node_id loss, node_id wrt) {
  return support::sentence_of([&] { static_cast<void>(gradients(g, loss, std::span(&wrt, 1))); });
}

TEST(autodiff_sweep, impossible_requests_are_refused_with_a_sentence) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2}), i = g.input("i", dtype::i32, {});
  EXPECT_NE(refusal(g, x, x).find("[2]; reduce it"), std::string::npos);
  EXPECT_NE(refusal(g, g.reduce(reduce_kind::sum, x, 1), i).find("floats only"), std::string::npos);
  EXPECT_NE(refusal(g, i, x).find("needs a float seed"), std::string::npos);
  const node_id one[] = {x};
  EXPECT_THROW(static_cast<void>(gradients(g, one, std::span<const node_id>(), one)), error);
}

}  // namespace
