// SPDX-License-Identifier: MIT
// How attention is cut up for kernels without matrix units, for its cost and for the kernel alike.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/division.hpp>
#include <meganeura/graph/attribute.hpp>

#include <algorithm>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// What there are most of: wider heads leave no room in workgroup memory, and longer rows are added up block by block
/// with ever more rounding.
inline constexpr std::int64_t widest_head = 256, most_keys = 16384;
/// Of the rate of products, what attention reaches on a device that it fills (a fifth to a half of it on an H100), and
/// on a software device, whose workgroup memory is memory (a tenth on lavapipe).
inline constexpr double attention_share = 0.33, attention_share_of_processors = 0.08;

/// A workgroup of `invocations` has `rows` queries of one head and goes through their keys, `keys` at a time.
struct attention_tiles {
  static constexpr std::uint32_t invocations = 128;
  std::uint32_t rows = 0, keys = 0;       // 0: there is none that fits
  std::uint32_t width = 0, channels = 0;  // in groups of four
  std::int64_t count = 0;                 // of workgroups

  /// Of a row of that many groups of four in workgroup memory: odd, so that neighbouring rows lie on other banks.
  [[nodiscard]] static constexpr std::uint32_t pitch(std::uint32_t fours) { return fours | 1u; }
  [[nodiscard]] constexpr std::uint32_t shared_bytes() const {
    return 16 * ((rows + keys) * pitch(width) + keys * pitch(channels)) + 4 * (2 * rows * keys + rows);
  }
};

[[nodiscard]] inline attention_tiles tiles_of_attention(const attention_attribute& node, const device_profile& device) {
  const auto [batch, queries, channels, keys, width] = node.sizes();
  attention_tiles tiles;
  if (std::max(width, channels) > widest_head || keys > most_keys) return tiles;
  tiles.width = static_cast<std::uint32_t>(ceil_div(width, 4));
  tiles.channels = static_cast<std::uint32_t>(ceil_div(channels, 4));
  for (const std::uint32_t rows : {32u, 16u, 8u}) {
    for (const std::uint32_t block : {32u, 16u}) {
      attention_tiles asked = tiles;
      asked.rows = rows, asked.keys = block;
      asked.count = batch * ceil_div(queries, rows);
      if (asked.shared_bytes() > device.max_shared_bytes) continue;
      tiles = asked;
      if (asked.count >= static_cast<std::int64_t>(device.compute_units) || !device.parallel) return tiles;
      break;
    }
  }
  return tiles;
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
