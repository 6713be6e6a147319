// SPDX-License-Identifier: MIT
// Batch norms as a part of the convolutions before them: the weights of a model without norms from those of one with.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/name_pattern.hpp>
#include <meganeura/runtime/parameters.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// norms: what the batch norm behind a layer with a weight [out, ..], or of a transposed convolution, is called,
/// {{"*.conv", "*.norm"}}; unless said, as torchvision's networks call them. epsilon: that of the norms.
struct fold_options {
  name_map norms{{"*conv*", "*bn*"}, {"*downsample.0", "*downsample.1"}};
  float epsilon = 1e-5f;
};

/// Sets the floats of `into`, a model without norms, so that it computes what the model of `from` does in evaluation: a
/// layer's weight is scaled by the norm's weight / sqrt(running_var + epsilon), its bias is what the norm adds. In
/// double, rounded once. What no norm follows is copied; states that only `into` has stay.
/// errors: invalid_argument for a tensor of `into` that `from` lacks without a norm to make it of, for a norm of `from`
/// that by `norms` is behind no layer and that `into` lacks, another shape, and tensors without values or not of
/// floats; nothing is changed then.
void fold_batch_norms(const parameters& from, parameters into, const fold_options& options = {});

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/fold_batch_norms.ipp>
#endif
