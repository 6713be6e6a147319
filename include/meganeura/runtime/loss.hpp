// SPDX-License-Identifier: MIT
// Losses a trainer appends to a model's output: each adds its own input, or takes the model's of that name, dtype and
// shape, and returns a scalar.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/graph/graph.hpp>

#include <cstdint>
#include <string>

namespace meganeura::inline MEGANEURA_ABI {

/// cross_entropy_loss of the output, with an i32 input named `label` of the logits' shape less the last axis.
/// errors: invalid_argument unless logits are floats of rank 1 or more.
struct cross_entropy {
  std::string label;
  std::int32_t ignore_index = -100;
  node_id operator()(graph& g, node_id logits) const;
};

/// mean_squared_error_loss of the output, with an input named `target` of the prediction's dtype and shape.
/// errors: invalid_argument unless the prediction is floats.
struct mean_squared_error {
  std::string target;
  node_id operator()(graph& g, node_id prediction) const;
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/loss.ipp>
#endif
