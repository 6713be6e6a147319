// SPDX-License-Identifier: MIT
// Definitions for runtime/trainer.hpp.
#pragma once
#include <meganeura/nn/loss.hpp>
#include <meganeura/runtime/trainer.hpp>

namespace meganeura::inline MEGANEURA_ABI::detail {

MEGANEURA_INLINE node_value labels_that_count(const node_value& scores, const node_value& label,
                                              const cross_entropy_options& options) {
  return class_labels(scores, label, options).counted();
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
