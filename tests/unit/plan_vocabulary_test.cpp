// SPDX-License-Identifier: MIT
// Memory of a training step over a large vocabulary: logits and what has the size of parameters, and nothing besides.
#include <meganeura/expr/value.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/operations.hpp>
#include <meganeura/plan/plan.hpp>
#include <meganeura/runtime/training_graph.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace {

using namespace meganeura;

constexpr std::int64_t vocabulary = 49152, width = 64, tokens = 48;

graph step_of(const cross_entropy_options& options, bool tied) {
  graph g;
  const node_value at(g, g.input("tokens", dtype::i32, {tokens})), label(g, g.input("label", dtype::i32, {tokens}));
  const node_value h = rms_norm("norm", embedding("embed", at, vocabulary, width));
  const node_value table(g, g.find_leaf("embed.weight"));
  const node_value logits = tied ? matmul(h, transpose(table)) : linear("head", h, vocabulary);
  const node_id loss = cross_entropy_loss(logits, label, options);
  return make_training_graph(std::move(g), loss, adamw{}, {.clip_norm = 1});
}

TEST(plan_vocabulary, a_step_needs_the_logits_and_no_table_of_classes) {
  const std::uint64_t logits = 4 * tokens * vocabulary, table = 4 * vocabulary * width;
  for (const bool tied : {false, true}) {
    for (const float smoothing : {0.0f, 0.1f}) {
      const graph step = step_of({.label_smoothing = smoothing}, tied);
      const graph chosen = fusion::optimize(step);
      for (node_id id{0}; id < chosen.size(); ++id) {
        for (const tensor_spec& result : chosen.results(id))
          EXPECT_LE(result.extents.bytes(result.type), std::max(logits, table)) << to_text(chosen) << id;
      }
      const plan::execution_plan p = plan::make_plan(chosen, plan::make_layout(step));
      const std::uint64_t parameters = p.parameters.bytes, arena = p.area_bytes[plan::index_of(plan::area::arena)];
      EXPECT_GE(parameters, (tied ? 1 : 2) * table);
      // Logits and their gradient at once, and the two gradients of a tied table before they are added.
      EXPECT_LE(arena, 2 * logits + (tied ? 2 * table : 0) + (1u << 20)) << "tied " << tied << '\n' << to_text(p);
      EXPECT_LE(p.peak_bytes(), 4 * parameters + arena + (1u << 20));  // with gradients and two moments
    }
  }
}

}  // namespace
