// SPDX-License-Identifier: MIT
// Which part of a model made a node: paths of module names, as ids of a pool.
#pragma once
#include <meganeura/core/hash_index.hpp>
#include <meganeura/core/id.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

using path_id = strong_id<struct path_kind>;

/// Paths as a tree: "layers.7.mlp" is a child of "layers.7". Each has a second id for what its gradients add,
/// "layers.7.mlp backward"; ids are in order of first use. Passes hand the pool on whole, so that an id means the same
/// from the graph a user builds to the kernels of a plan.
class path_pool {
 public:
  static constexpr path_id root{0};  // "", and the model alone has "backward"

  /// The path with `name` behind it, in the same direction. A dot divides a name in two, an empty one adds nothing.
  path_id child(path_id of, std::string_view name);
  /// What gradients of a node of this path belong to; those of gradients to the same.
  [[nodiscard]] static constexpr path_id backward(path_id of) { return path_id(of | 1u); }
  [[nodiscard]] static constexpr bool is_backward(path_id id) { return (id & 1u) != 0; }

  /// "layers.7.mlp backward"
  [[nodiscard]] std::string text(path_id id) const;
  /// The module around this one, in its direction; the root's is itself.
  [[nodiscard]] path_id parent(path_id id) const { return at(modules_[id / 2].parent, id); }
  /// Whether `inner` is that module or inside of it, and of its direction.
  [[nodiscard]] bool holds(path_id outer, path_id inner) const;
  /// Every id is below it.
  [[nodiscard]] std::size_t size() const { return 2 * modules_.size(); }
  /// Modules called inside of this one, in order of first use, in its direction.
  [[nodiscard]] std::vector<path_id> children(path_id of) const;

 private:
  static constexpr std::uint32_t none = 0;  // the root is nobody's child
  struct entry {
    std::string text{};  // names from the root on
    std::uint32_t parent = 0, first_child = none, last_child = none, next_sibling = none;
  };
  // That module in the direction of `like`.
  [[nodiscard]] static constexpr path_id at(std::uint32_t module, path_id like) {
    return path_id(2 * module + (like & 1u));
  }
  std::vector<entry> modules_{1};
  hash_index<path_id> known_{};  // by their text, forward
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/graph/path.ipp>
#endif
