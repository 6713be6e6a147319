// SPDX-License-Identifier: MIT
// Weights made from their names alone, bit-exact on every machine: what the Inferena references were computed with.
#pragma once
#include <meganeura/core/shape.hpp>

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// Element i is offset + bound * u with u = (2k + 1 - 2^24) / 2^24 in (-1, 1), k the upper 24 bits of a hash of the
/// name and i: integers and one rounding. Vectors called bias: 0 +- 1/32; others (norms): 1 +- 1/16; embeddings: 0 +-
/// 1/32; matrices and filters: 0 +- sqrt(3 / fan_in).
class weight_formula {
 public:
  weight_formula(std::string_view name, const shape& extents) {
    for (char character : name) key_ = (key_ ^ static_cast<unsigned char>(character)) * 16777619u;
    const bool vector = extents.rank() <= 1, bias = vector && name.ends_with("bias");
    const bool embedding = name.find("embed_tokens") != name.npos || name.find("embed_positions") != name.npos;
    const double fan_in = vector ? 1 : static_cast<double>(extents.elements()) / static_cast<double>(extents[0]);
    offset_ = vector && !bias ? 1.0f : 0.0f;
    bound_ = vector && !bias ? 0x1p-4f : bias || embedding ? 0x1p-5f : static_cast<float>(std::sqrt(3 / fan_in));
  }

  /// Elements first, first + 1, .. of the tensor.
  void fill(std::uint32_t first, std::span<float> values) const {
    for (std::size_t n = 0; n < values.size(); ++n) {
      const std::uint32_t k = mixed(mixed(first + static_cast<std::uint32_t>(n)) ^ key_) >> 8;
      const std::int32_t odd = static_cast<std::int32_t>(2 * k + 1) - (1 << 24);
      values[n] = offset_ + bound_ * (static_cast<float>(odd) * 0x1p-24f);
    }
  }

 private:
  static std::uint32_t mixed(std::uint32_t h) {  // the finaliser of MurmurHash3
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
  }

  std::uint32_t key_ = 2166136261u;  // FNV-1a of the name
  float offset_ = 0, bound_ = 0;
};

[[nodiscard]] inline std::vector<float> named_weights(std::string_view name, const shape& extents) {
  std::vector<float> values(static_cast<std::size_t>(extents.elements()));
  weight_formula(name, extents).fill(0, values);
  return values;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
