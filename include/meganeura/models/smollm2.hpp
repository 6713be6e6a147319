// SPDX-License-Identifier: MIT
// SmolLM2, a family of Llama-shaped language models; parameter names are the checkpoints'.
#pragma once
#include <meganeura/models/llama.hpp>

namespace meganeura::inline MEGANEURA_ABI::models::smollm2 {

/// HuggingFaceTB/SmolLM2-135M, -360M and -1.7B, trained for texts of up to 8192 tokens: a larger `context` keeps more.
inline constexpr llama::config smollm2_135m{.layers = 30,
                                            .width = 576,
                                            .heads = 9,
                                            .kv_heads = 3,
                                            .head_dim = 64,
                                            .hidden = 1536,
                                            .vocab = 49152,
                                            .context = 2048,
                                            .rope_theta = 1e5f,
                                            .epsilon = 1e-5f};
inline constexpr llama::config smollm2_360m{.layers = 32,
                                            .width = 960,
                                            .heads = 15,
                                            .kv_heads = 5,
                                            .head_dim = 64,
                                            .hidden = 2560,
                                            .vocab = 49152,
                                            .context = 2048,
                                            .rope_theta = 1e5f,
                                            .epsilon = 1e-5f};
inline constexpr llama::config smollm2_1_7b{.layers = 24,
                                            .width = 2048,
                                            .heads = 32,
                                            .kv_heads = 32,
                                            .head_dim = 64,
                                            .hidden = 8192,
                                            .vocab = 49152,
                                            .context = 2048,
                                            .rope_theta = 1.3e5f,
                                            .epsilon = 1e-5f};

/// As llama::tied_language_model. source: arXiv 2502.02737.
template <llama::config C>
struct language_model : llama::tied_language_model<C> {};

}  // namespace meganeura::inline MEGANEURA_ABI::models::smollm2
