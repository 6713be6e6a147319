// SPDX-License-Identifier: MIT
// Arithmetic on affine loop nests: splitting, merging and composing accesses, so that views cost no rules.
#pragma once
#include <meganeura/core/small_vector.hpp>
#include <meganeura/graph/attribute.hpp>

#include <cstddef>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// A loop nest under construction. accesses[0] is where the result is stored, the others are reads. Axes of one `group`
/// (rows of a region; batch, m, n, k of a product) may be split and merged freely, axes of different groups may not
/// mix. Only flat positions matter: the shapes of tensors never appear here, which is why a reshape is no obstacle to
/// anything.
struct nest {
  shape space{};
  std::uint8_t group[max_rank]{};
  small_vector<index_map, 8> accesses{};

  [[nodiscard]] int count(std::uint8_t wanted) const;
};

/// target index j = start[j] + sum over k of step[j][k] * reader index k.
struct axis_map {
  std::int64_t start[max_rank]{};
  std::int64_t step[max_rank][max_rank]{};
};

/// Splits `axis` into (extent / inner, inner). False when a bounded access or max_rank forbids it.
[[nodiscard]] bool split_axis(nest& loops, int axis, std::int64_t inner);

/// Adds a last axis that no access depends on.
[[nodiscard]] bool append_axis(nest& loops, std::int64_t extent, std::uint8_t group);

/// The canonical form: no axes of extent 1, axes sorted by group and then by strides, and merged where every access
/// allows.
void normalise(nest& loops);

/// Solves layout(target index) = accesses[which](reader index) for the target index, over the first `axes` axes of
/// `target`. The reader's axes are split where the target's axes demand it (unless `may_split` is false). For a bounded
/// access only indices inside its box count. False when the solution is not affine.
[[nodiscard]] bool solve_index(nest& reader, std::size_t which, const shape& target, int axes, const index_map& layout,
                               bool may_split, axis_map& result);

/// Reads `inner` (over the target axes) at the index `map` gives; the box of `outer` still holds. False when the bounds
/// are not a box of the reader's axes.
[[nodiscard]] bool compose_access(const index_map& inner, int target_rank, const axis_map& map, const index_map& outer,
                                  const shape& reader, index_map& result);

}  // namespace meganeura::inline MEGANEURA_ABI::fusion

#if MEGANEURA_HEADER_ONLY
#include <meganeura/fusion/affine.ipp>
#endif
