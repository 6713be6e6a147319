// SPDX-License-Identifier: MIT
// Losses a trainer appends to a model's output: each adds its own input, or takes the model's of that name, dtype and
// shape, and returns a scalar.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/graph/graph.hpp>

#include <cstdint>
#include <string>

namespace meganeura::inline MEGANEURA_ABI {

/// Mean over the positions that count of log(sum(exp(z))) - z[label], in f32, as torch.nn.functional.cross_entropy.
/// Adds an i32 input named `label` with the logits' shape less the last axis. A label that is `ignore_index` or no
/// class at all adds nothing, neither to the mean nor to the gradient, and the option `checks` names the latter. If no
/// position counts the loss is 0 (PyTorch's is NaN). The picked logit is a sum over select(index == label, z, 0):
/// neither a one-hot tensor nor a gather. errors: invalid_argument unless logits are floats of rank 1 or more.
struct cross_entropy {
  std::string label;
  std::int32_t ignore_index = -100;
  node_id operator()(graph& g, node_id logits) const;
};

/// Mean over all elements of (prediction - target)^2, in f32. Adds an input named `target` of the prediction's dtype
/// and shape. errors: invalid_argument unless the prediction is floats.
struct mean_squared_error {
  std::string target;
  node_id operator()(graph& g, node_id prediction) const;
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/loss.ipp>
#endif
