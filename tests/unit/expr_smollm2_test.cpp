// SPDX-License-Identifier: MIT
// The tiny SmolLM2, composed from primitives and evaluated in double, against float64 figures of PyTorch.
#include <support/named_weights.hpp>
#include <support/smollm2_reference.hpp>

#include <gtest/gtest.h>

#include <meganeura/expr/lower.hpp>
#include <meganeura/models/smollm2.hpp>
#include <meganeura/nn/loss.hpp>

#include <oracle/interpreter.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace mn = meganeura;
namespace oracle = meganeura::oracle;

namespace {

using tiny = mn::model<mn::models::smollm2::language_model<mn::support::tiny_smollm2>,
                       mn::input<"tokens", mn::dtype::i32, mn::dims<1, mn::sym<"seq">>>>;

}  // namespace

TEST(expr_smollm2, outputs_and_loss_are_those_of_pytorch_in_float64) {
  mn::graph g;
  const mn::symbol_extent bindings[] = {{"seq", 16}};
  const auto results = mn::lower_into<tiny>(g, bindings);
  const mn::node_id logits = results[0];
  const mn::node_id loss = mn::lower_loss<tiny, mn::cross_entropy<"label">>(g, results, bindings)[0];
  oracle::tensors<double> leaves;
  for (mn::node_id id : g.leaves(mn::op::parameter)) {
    const std::string name = g.get<mn::leaf_attribute>(id).name;
    const std::vector<float> values = mn::support::named_weights(name, g[id].extents);
    leaves[name] = oracle::tensor<double>(g[id].extents, std::vector<double>(values.begin(), values.end()));
  }
  oracle::tensor<double> tokens(mn::shape{1, 16}, mn::dtype::i32), labels(mn::shape{1, 16}, mn::dtype::i32);
  for (int i = 0; i < 16; ++i) tokens[i] = i, labels[i] = i + 1;
  leaves["tokens"] = tokens;
  leaves["label"] = labels;
  oracle::interpreter<double> run(g, leaves);
  // Constants of the graph (epsilon, the rate of the angles) are f32, the reference's are double: a few 1e-7 relative.
  const double expected[] = {-0.10757111702021553, -0.17015325688270455, 0.03276176699729446, 0.17039989904746577};
  double squares = 0;
  for (double each : run.value(logits).values) squares += each * each;
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(run.value(logits)[i], expected[i], 1e-6);
  EXPECT_NEAR(std::sqrt(squares), 5.626266847383335, 1e-5);
  EXPECT_NEAR(run.value(loss)[0], 4.84814811534794, 1e-6);
}
