// SPDX-License-Identifier: MIT
// SmolLM2 with other numbers of layers, the tiny one of the reference values, and weights made from names alone,
// bit-exact on every machine.
#pragma once
#include <meganeura/core/shape.hpp>
#include <meganeura/expr/model.hpp>
#include <meganeura/models/smollm2.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// SmolLM2-135M with so many layers.
template <int Layers>
inline constexpr models::llama::config deep_config = [] {
  models::llama::config config = models::smollm2_135m;
  config.layers = Layers;
  return config;
}();
template <int Layers>
using deep_smollm2 = model<models::smollm2<deep_config<Layers>>, input<"tokens", dtype::i32, dims<sym<"seq">>>>;

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

namespace detail {
inline std::uint32_t mixed(std::uint32_t h) {  // the finaliser of MurmurHash3
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h ^ h >> 16;
}
}  // namespace detail

/// offset + bound * u with u = (2k + 1 - 2^24) / 2^24 in (-1, 1), k the upper 24 bits of a hash of the name and the
/// flat index: integers and one rounding. Vectors (norms): 1 +- 1/16; embeddings: 0 +- 1/32; matrices: 0 +- sqrt(3 /
/// fan_in).
inline std::vector<float> smollm2_weights(const std::string& name, const shape& extents) {
  std::uint32_t fnv = 2166136261u;  // FNV-1a
  for (char character : name) fnv = (fnv ^ static_cast<unsigned char>(character)) * 16777619u;
  const bool vector = extents.rank() == 1, embedding = name.find("embed_tokens") != std::string::npos;
  const double fan_in = static_cast<double>(extents.elements()) / static_cast<double>(extents[0]);
  const float bound = vector ? 0x1p-4f : embedding ? 0x1p-5f : static_cast<float>(std::sqrt(3 / fan_in));
  std::vector<float> values(static_cast<std::size_t>(extents.elements()));
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    const std::uint32_t k = detail::mixed(detail::mixed(i) ^ fnv) >> 8;
    const float unit = static_cast<float>(2 * static_cast<double>(k) + 1 - 0x1p24) / 0x1p24f;
    values[i] = (vector ? 1.0f : 0.0f) + bound * unit;
  }
  return values;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
