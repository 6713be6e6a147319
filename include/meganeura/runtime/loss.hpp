// SPDX-License-Identifier: MIT
// Losses a trainer appends to a model's output: each adds its own input, or takes the model's of that name, dtype and
// shape, and returns a scalar.
#pragma once
#include <meganeura/graph/graph.hpp>

#include <string>

namespace meganeura::inline MEGANEURA_ABI {

/// Mean over all positions of log(sum(exp(z))) - z[label], as torch.nn.functional.cross_entropy. Adds an i32 input
/// named `label` with the logits' shape less the last axis. The picked logit is a sum over select(index == label, z,
/// 0): neither a one-hot tensor nor a gather. Labels outside 0 .. classes-1 give a wrong loss, not an error: check data
/// when it is loaded.
/// errors: invalid_argument unless logits are floats of rank 1 or more.
struct cross_entropy {
  std::string label;
  node_id operator()(graph& g, node_id logits) const;
};

/// Mean over all elements of (prediction - target)^2. Adds an input named `target` of the prediction's dtype and shape.
struct mean_squared_error {
  std::string target;
  node_id operator()(graph& g, node_id prediction) const;
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/loss.ipp>
#endif
