// SPDX-License-Identifier: MIT
// The tiny SmolLM2 against float64 references: outputs, loss, every parameter's gradient.
#include <meganeura/expr/lower.hpp>
#include <meganeura/models/smollm2.hpp>
#include <meganeura/nn/loss.hpp>

#include <support/inferena_reference.hpp>
#include <support/smollm2_reference.hpp>

#include <gtest/gtest.h>

#include <numeric>

namespace {

using namespace meganeura;

using net =
    model<models::smollm2::language_model<support::tiny_smollm2>, input<"tokens", dtype::i32, dims<sym<"seq">>>>;

TEST(runtime_smollm2, the_tiny_model_reproduces_float64_outputs_loss_and_gradients) {
  const symbol_extent symbols[] = {{"seq", 16}};
  graph g;
  const auto logits = lower_into<net>(g, symbols);
  const node_id loss = lower_loss<net, cross_entropy<"label">>(g, logits, symbols)[0];
  std::vector<std::int32_t> tokens(16), labels(16);
  std::iota(tokens.begin(), tokens.end(), 0);
  std::iota(labels.begin(), labels.end(), 1);
  const support::bound_values inputs[] = {support::bound("tokens", tokens), support::bound("label", labels)};
  support::expect_reference("inferena_small", "smollm2", std::move(g), logits[0], loss, inputs,
                            {.output = 5e-6, .gradient = 1e-5});
}

}  // namespace
