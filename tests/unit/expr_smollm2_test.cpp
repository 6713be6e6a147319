// SPDX-License-Identifier: MIT
// The tiny SmolLM2, composed from primitives and evaluated in double, against float64 figures of PyTorch.
#include <gtest/gtest.h>

#include <meganeura/expr/lower.hpp>
#include <meganeura/models/smollm2.hpp>
#include <meganeura/runtime/loss.hpp>

#include <oracle/interpreter.hpp>

#include <cmath>
#include <string>

namespace mn = meganeura;
namespace oracle = meganeura::oracle;

namespace {

constexpr mn::models::llama_config tiny_config{.layers = 2,
                                               .width = 48,
                                               .heads = 3,
                                               .kv_heads = 1,
                                               .head_dim = 16,
                                               .hidden = 64,
                                               .vocab = 128,
                                               .rope_theta = 1e4f,
                                               .epsilon = 1e-5f};
using tiny =
    mn::model<mn::models::smollm2<tiny_config>, mn::input<"tokens", mn::dtype::i32, mn::dims<1, mn::sym<"seq">>>>;

std::uint32_t mixed(std::uint32_t h) {
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h ^ h >> 16;
}

// Weights by name: uniform in offset +- bound from a hash of the name and the flat index, so that any program can make
// them.
double weight(const std::string& name, const mn::shape& extents, std::uint32_t index) {
  std::uint32_t hash = 2166136261u;
  for (char byte : name) hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619u;
  const double k = mixed(mixed(index) ^ hash) >> 8;
  const double unit = (2 * k + 1 - 0x1p24) / 0x1p24;
  if (extents.rank == 1) return static_cast<float>(1 + 0x1p-4 * unit);
  if (name.find("embed_tokens") != std::string::npos) return static_cast<float>(0x1p-5 * unit);
  const auto bound = static_cast<float>(std::sqrt(3.0 / static_cast<double>(extents.elements() / extents[0])));
  return static_cast<float>(static_cast<double>(bound) * unit);
}

}  // namespace

TEST(expr_smollm2, outputs_and_loss_are_those_of_pytorch_in_float64) {
  mn::graph g;
  const mn::binding bindings[] = {{"seq", 16}};
  const mn::node_id logits = mn::lower_into<tiny>(g, bindings);
  const mn::node_id loss = mn::cross_entropy{"label"}(g, logits);
  oracle::tensors<double> leaves;
  for (mn::node_id id : g.leaves(mn::op::parameter)) {
    const std::string name = g.get<mn::leaf_attribute>(id).name;
    oracle::tensor<double> values(g[id].extents);
    for (std::int64_t i = 0; i < g[id].extents.elements(); ++i) {
      values[i] = weight(name, g[id].extents, static_cast<std::uint32_t>(i));
    }
    leaves[name] = values;
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
