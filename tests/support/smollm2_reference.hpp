// SPDX-License-Identifier: MIT
// SmolLM2 with other numbers of layers, and the tiny one of the reference values.
#pragma once
#include <meganeura/expr/model.hpp>
#include <meganeura/models/smollm2.hpp>

namespace meganeura::inline MEGANEURA_ABI::support {

/// SmolLM2-135M with so many layers.
template <int Layers>
inline constexpr models::llama::config deep_config = [] {
  models::llama::config config = models::smollm2::smollm2_135m;
  config.layers = Layers;
  return config;
}();
template <int Layers>
using deep_smollm2 =
    model<models::smollm2::language_model<deep_config<Layers>>, input<"tokens", dtype::i32, dims<sym<"seq">>>>;

inline constexpr models::llama::config tiny_smollm2{.layers = 2,
                                                    .width = 48,
                                                    .heads = 3,
                                                    .kv_heads = 1,
                                                    .head_dim = 16,
                                                    .hidden = 64,
                                                    .vocab = 128,
                                                    .context = 32,
                                                    .rope_theta = 1e4f,
                                                    .epsilon = 1e-5f};

}  // namespace meganeura::inline MEGANEURA_ABI::support
