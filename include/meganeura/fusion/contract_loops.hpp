// SPDX-License-Identifier: MIT
// The loops of a contract by what becomes of its labels: batch, m, n, k.
#pragma once
#include <meganeura/fusion/affine.hpp>
#include <meganeura/fusion/product_tiles.hpp>
#include <meganeura/fusion/structural_rules.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::fusion::detail {

// The loops of a product (the result, a, b, ...) as those of b times a: m and n change places.
inline void swap_sides(nest& loops) {
  for (int axis = 0; axis < loops.space.rank(); ++axis) {
    if (loops.group[axis] == 1 || loops.group[axis] == 2)
      loops.group[axis] = static_cast<std::uint8_t>(3 - loops.group[axis]);
  }
  std::swap(loops.accesses[1], loops.accesses[2]);
}

struct contract_loops {
  static constexpr int max_labels = 2 * max_rank;
  nest loops;               // accesses: result, a, b; groups are batch, m, n, k
  bool fits = true;         // else there are more loops than axes of a nest, after those that merge are merged
  int group[max_labels]{};  // of each label; -1: in no operand
  std::int64_t extents[max_labels]{};  // of each label

  contract_loops(const contract_attribute& labels, const shape& result, const shape& a, const shape& b) {
    const shape* operands[2] = {&a, &b};
    index_map reads[2];
    std::int64_t strides[2][max_labels]{};
    bool in[2][max_labels]{};
    for (std::size_t side = 0; side < 2; ++side) {
      reads[side] = dense_access(*operands[side]);
      for (int i = 0; i < operands[side]->rank(); ++i) {
        const int label = (side == 0 ? labels.a : labels.b)[i];
        extents[label] = (*operands[side])[i];
        strides[side][label] = reads[side].strides[i];
        in[side][label] = true;
      }
    }
    for (int label = 0; label < max_labels; ++label) {
      const bool present = in[0][label] || in[1][label], both = in[0][label] && in[1][label];
      group[label] = !present ? -1 : label >= labels.result_rank ? 3 : both ? 0 : in[0][label] ? 1 : 2;
    }
    const index_map stored = dense_access(result);
    loops.accesses.resize(3);
    for (int wanted = 0; wanted < 4; ++wanted) {
      for (int label = 0; label < max_labels; ++label) {
        if (group[label] != wanted || extents[label] == 1) continue;
        if (loops.space.rank() == max_rank) normalise(loops);  // merges what it can
        if (loops.space.rank() == max_rank) {
          fits = false;
          return;
        }
        const int axis = loops.space.rank();
        loops.group[axis] = static_cast<std::uint8_t>(wanted);
        loops.accesses[0].strides[axis] = wanted == 3 ? 0 : stored.strides[label];
        loops.accesses[1].strides[axis] = strides[0][label];
        loops.accesses[2].strides[axis] = strides[1][label];
        loops.space.push_back(extents[label]);
      }
    }
  }
};

inline contract_loops loops_of(const engine& g, enode_id id) {
  const auto of = [&](class_id id_of) -> const shape& { return g.extents(g.find(id_of)); };
  return {g.get<contract_attribute>(id), of(g.node(id).owner), of(g.operand(id, 0)), of(g.operand(id, 1))};
}

// Of operand `side` of a product's nest, 1 or 2.
[[nodiscard]] inline four_reads four_reads_of(const nest& loops, std::size_t side) {
  return fusion::four_reads_of(loops.space, loops.accesses[side], static_cast<int>(side),
                               [&](int axis) { return loops.group[axis]; });
}
// Of both.
[[nodiscard]] inline four_reads four_reads_of(const nest& loops) {
  return std::min(four_reads_of(loops, 1), four_reads_of(loops, 2));
}

// Of the nest of a product.
inline product_extents extents_by_group(const nest& loops) {
  std::int64_t of_group[4] = {1, 1, 1, 1};
  for (int i = 0; i < loops.space.rank(); ++i) of_group[loops.group[i]] *= loops.space[i];
  product_extents found{of_group[0], of_group[1], of_group[2], of_group[3]};
  found.single_left = four_reads_of(loops, 1) != four_reads::aligned;
  found.single_right = four_reads_of(loops, 2) != four_reads::aligned;
  found.windows = windows_of(loops.space, loops.accesses[2], [&](int axis) { return loops.group[axis]; });
  return found;
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion::detail
