// SPDX-License-Identifier: MIT
// The tiny SmolLM2 against float64 references: outputs, loss, every parameter's gradient.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/models/smollm2.hpp>
#include <meganeura/runtime/program.hpp>

#include <oracle/tolerance.hpp>
#include <support/shared_device.hpp>
#include <support/smollm2_reference.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>

namespace {

using namespace meganeura;

using model_type = model<models::smollm2<support::tiny_smollm2>, input<"tokens", dtype::i32, dims<sym<"seq">>>>;

std::vector<float> floats(const program& from, const std::string& name) {
  const auto bytes = from.output(name);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// |found - expected| / |expected|, as vectors.
double relative(const std::vector<double>& found, const std::vector<double>& expected) {
  double difference = 0, length = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    length += expected[i] * expected[i];
  }
  return std::sqrt(difference / length);
}

TEST(runtime_smollm2, the_tiny_model_reproduces_float64_outputs_loss_and_gradients) {
  std::ifstream file(std::string(MEGANEURA_SOURCE_DIR) + "/tests/reference/smollm2_small.json");
  const nlohmann::json reference = nlohmann::json::parse(file);
  const std::int64_t seq = reference["config"]["seq"];
  const symbol_extent symbols[] = {{"seq", seq}};
  graph g;
  const auto logits = lower_into<model_type>(g, symbols);
  const node_id loss = lower_loss<model_type, cross_entropy<"label">>(g, logits, symbols)[0];
  g.add_output("output", logits[0]);
  g.add_output("loss", loss);
  const auto weights = g.leaves(op::parameter);
  const auto slopes = gradients(g, loss, weights);
  for (std::size_t i = 0; i < weights.size(); ++i)
    g.add_output("grad:" + g.get<leaf_attribute>(weights[i]).name, slopes[i]);
  ASSERT_EQ(weights.size(), reference["parameter_tensors"].get<std::size_t>());

  const support::checked_device gpu;
  parameters values(gpu, g);
  for (const auto& tensor : values.layout().tensors)
    values.set(tensor.name, support::smollm2_weights(tensor.name, tensor.extents));
  program run(gpu, g, values);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(seq)), labels(tokens.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = static_cast<std::int32_t>((i + 1) % support::tiny_smollm2.vocab);
  run.set_input("tokens", dtype::i32, std::as_bytes(std::span(tokens)));
  run.set_input("label", dtype::i32, std::as_bytes(std::span(labels)));
  run.wait(run.submit());

  // The deepest chain sums over vocabulary, width and depth; its length stands for the growth of rounding errors.
  const double tolerance = oracle::tolerance(dtype::f32, support::tiny_smollm2.vocab * support::tiny_smollm2.layers);
  const auto output = floats(run, "output");
  std::vector<double> found;
  for (std::size_t i = 0; i < 256; ++i) found.push_back(output[i * output.size() / 256]);
  EXPECT_LT(relative(found, reference["output"]["strided256"]), tolerance);
  EXPECT_NEAR(floats(run, "loss")[0], reference["loss"].get<double>(), tolerance * reference["loss"].get<double>());
  for (const auto& [name, norm] : reference["grad_norms"].items()) {
    const auto gradient = floats(run, "grad:" + name);
    double square = 0;
    for (float value : gradient) square += static_cast<double>(value) * static_cast<double>(value);
    EXPECT_NEAR(std::sqrt(square), norm.get<double>(), tolerance * norm.get<double>()) << name;
    const double scale =
        norm.get<double>() / std::sqrt(static_cast<double>(gradient.size()));  // of one typical element
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(gradient[i], reference["grad_first4"][name][i].get<double>(), 4 * tolerance * scale)
          << name << ' ' << i;
    }
  }
}

}  // namespace
