// SPDX-License-Identifier: MIT
// The e-graph: hash-consed nodes over equivalence classes, deferred congruence repair, class analyses, one arena.
#pragma once
#include <meganeura/core/bit_set.hpp>
#include <meganeura/core/hash_index.hpp>
#include <meganeura/core/small_vector.hpp>
#include <meganeura/graph/graph.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::egraph {

using class_id = strong_id<struct class_kind>;
using enode_id = strong_id<struct enode_kind>;
using shape_id = strong_id<struct shape_kind>;
using class_list = small_vector<class_id, 8>;
using node_list = small_vector<enode_id, 6>;
using rule_mask = bit_set<128>;  // rule i had a part in making the node; optimize.ipp checks that there is room for all

/// What a node is dispatched by: its op, or for a map of one scalar operation that operation.
inline constexpr int head_count = op_count + scalar_op_count;
static_assert(head_count <= 256, "a node keeps its head in a byte");
[[nodiscard]] constexpr int head_of(op kind) { return static_cast<int>(kind); }
[[nodiscard]] constexpr int head_of(scalar_op kind) { return op_count + static_cast<int>(kind); }

struct enode {
  op kind{};
  dtype type = dtype::f32;
  std::uint8_t head = 0;
  bool dead = false;    // found equal to another node while repairing congruence
  bool apart = false;   // says nothing of other classes; part of its identity, with the class
  shape_id extents{0};  // interned: part of a node's identity, as a view's attribute lacks it
  attribute_id attribute{0};
  std::uint32_t first_operand = 0;
  std::uint32_t operand_count = 0;
  class_id owner = no_id;
  path_id path;  // no part of its identity
  rule_mask reasons;
};

struct eclass {
  node_list nodes{};
  node_list parents{};          // nodes with this class as an operand, dead ones among them
  bit_set<head_count> heads{};  // of its nodes
  shape_id extents{0};
  path_id path;  // of the first node that came in
  dtype type = dtype::f32;
  bool decides = false;              // a comparison, a rounding or a choice somewhere depends on it: see continuity.hpp
  std::optional<double> constant{};  // every element has this value
};

/// Ids are given in order of insertion and every table is walked in that order, so equal inputs give equal graphs.
class engine {
 public:
  [[nodiscard]] class_id find(class_id id) const;
  /// Nodes added from now on are of this path.
  void at(path_id path) { path_ = path; }
  /// The class of this node, made if there is none. Operands need not be canonical.
  class_id add(op kind, dtype type, const shape& extents, attribute_ref value, std::span<const class_id> operands,
               rule_mask reasons = {});
  /// The same, but as a member of `target`; merges when the node exists elsewhere. The node, new or known. `apart`: it
  /// may stand for the class, with digits that the class's own value was rounded off, but what else is computed that
  /// way is another value: it is a node of its own in each class.
  enode_id add_to(class_id target, op kind, attribute_ref value, std::span<const class_id> operands,
                  rule_mask reasons = {}, bool apart = false);
  /// States that two classes have equal values. Errors: internal when dtype or shape differ (an unsound rule).
  bool merge(class_id a, class_id b);
  /// Forgets a node that another member of its class is better than in every respect.
  void retire(enode_id id);
  /// Restores congruence: equal operations on equal operands are in one class again.
  void rebuild();

  [[nodiscard]] const enode& node(enode_id id) const { return nodes_[id]; }
  [[nodiscard]] std::span<const class_id> operands(enode_id id) const {
    return {operands_.data() + nodes_[id].first_operand, nodes_[id].operand_count};
  }
  [[nodiscard]] class_id operand(enode_id id, std::size_t index) const { return find(operands(id)[index]); }
  /// Of a canonical id.
  [[nodiscard]] const eclass& operator[](class_id id) const { return classes_[id]; }
  [[nodiscard]] const shape& extents(class_id id) const { return shapes_[classes_[id].extents]; }
  /// The reference lives until the next node is added.
  template <class Attribute>
  [[nodiscard]] const Attribute& get(enode_id id) const {
    return std::get<Attribute>(attributes_[nodes_[id].attribute]);
  }
  [[nodiscard]] const attribute& attribute_of(enode_id id) const { return attributes_[nodes_[id].attribute]; }
  [[nodiscard]] std::size_t node_count() const { return nodes_.size(); }
  [[nodiscard]] std::size_t class_slots() const { return classes_.size(); }
  /// Whether something decided depends on what node `id` reads from this class.
  [[nodiscard]] bool decides_for(enode_id id, class_id operand) const;
  /// Whether any class decides something.
  [[nodiscard]] bool any_decides() const { return any_decides_; }

  /// Nodes whose surroundings changed up to `depth` levels below them since the last call, in order, each once.
  [[nodiscard]] std::vector<enode_id> take_dirty(int depth);

 private:
  shape_id intern(const shape& extents);
  enode_id find_node(const enode& key, std::span<const class_id> operands, std::uint64_t hash) const;
  enode_id append(enode key, std::span<const class_id> operands, std::uint64_t hash, class_id owner);
  enode make_key(op kind, dtype type, shape_id extents, attribute_ref value, rule_mask reasons);
  void analyse(enode_id id);
  [[nodiscard]] class_list deciding_operands(enode_id id) const;
  void mark_decisive(class_id id);
  void repair(class_id id);
  class_list canonical(std::span<const class_id> operands) const;

  std::vector<enode> nodes_;
  std::vector<class_id> operands_;
  std::vector<eclass> classes_;
  mutable std::vector<class_id> links_;
  hash_index<enode_id> ids_;
  std::vector<shape> shapes_;
  hash_index<shape_id> shape_ids_;
  attribute_pool attributes_;
  std::vector<class_id> unions_;   // classes to repair
  std::vector<class_id> thinned_;  // classes of nodes that are dead since
  std::vector<enode_id> dirty_;
  std::vector<class_id> changed_;
  bool any_decides_ = false;
  path_id path_ = path_pool::root;
};

/// The value of a program whose arguments are constants.
[[nodiscard]] double evaluate(const scalar_program& program, std::span<const double> arguments);

}  // namespace meganeura::inline MEGANEURA_ABI::egraph

#if MEGANEURA_HEADER_ONLY
#include <meganeura/egraph/egraph.ipp>
#endif
