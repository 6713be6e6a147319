// SPDX-License-Identifier: MIT
// Definitions for egraph/egraph.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/hash.hpp>
#include <meganeura/egraph/egraph.hpp>

#include <algorithm>
#include <cmath>

namespace meganeura::inline MEGANEURA_ABI::egraph {

MEGANEURA_INLINE double evaluate(const scalar_program& program, std::span<const double> arguments) {
  std::vector<double> values;
  for (const scalar_node& node : program.nodes) {
    double value = node.value;
    if (node.op == scalar_op::argument) {
      value = arguments[static_cast<std::size_t>(node.value)];
    } else if (node.op != scalar_op::constant) {
      value = meganeura::evaluate(node.op, values[node.operands[0]], values[node.operands[1]], values[node.operands[2]],
                                  node.type, program.nodes[node.operands[0]].type);
      value = rounded_to(value, node.type);
    }
    values.push_back(value);
  }
  return values.back();
}

namespace detail {

inline std::uint64_t hash_node(const enode& key, std::span<const class_id> operands) {
  std::uint64_t hash = hash_combine(static_cast<std::uint64_t>(key.kind) << 8 | static_cast<std::uint64_t>(key.type),
                                    static_cast<std::uint64_t>(key.extents) << 32 | key.attribute);
  for (class_id operand : operands) hash = hash_combine(hash, operand);
  return hash;
}

}  // namespace detail

MEGANEURA_INLINE engine::engine() : table_(1024) {}

MEGANEURA_INLINE class_id engine::find(class_id id) const {
  while (links_[id] != id) id = links_[id] = links_[links_[id]];  // path halving
  return id;
}

MEGANEURA_INLINE std::uint32_t engine::intern(const shape& extents) {
  std::uint64_t key = static_cast<std::uint64_t>(extents.rank());
  for (std::int64_t extent : extents) key = hash_combine(key, static_cast<std::uint64_t>(extent));
  const auto [begin, end] = shape_ids_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    if (shapes_[it->second] == extents) return it->second;
  }
  const auto id = static_cast<std::uint32_t>(shapes_.size());
  shapes_.push_back(extents);
  shape_ids_.emplace(key, id);
  return id;
}

MEGANEURA_INLINE std::vector<class_id> engine::canonical(std::span<const class_id> operands) const {
  std::vector<class_id> result(operands.begin(), operands.end());
  for (class_id& operand : result) operand = find(operand);
  return result;
}

MEGANEURA_INLINE enode_id engine::find_node(const enode& key, std::span<const class_id> operands,
                                            std::uint64_t hash) const {
  const std::size_t mask = table_.size() - 1;
  for (std::size_t at = hash & mask; table_[at].node != no_id; at = (at + 1) & mask) {
    if (table_[at].tag != static_cast<std::uint32_t>(hash >> 32)) continue;
    const enode_id id = table_[at].node;
    const enode& known = nodes_[id];
    if (!known.dead && known.kind == key.kind && known.type == key.type && known.extents == key.extents &&
        known.attribute == key.attribute && std::ranges::equal(this->operands(id), operands)) {
      return id;
    }
  }
  return no_id;
}

MEGANEURA_INLINE void engine::insert_slot(enode_id id, std::uint64_t hash) {
  const auto place = [&](enode_id node, std::uint64_t key) {
    const std::size_t mask = table_.size() - 1;
    std::size_t at = key & mask;
    while (table_[at].node != no_id) at = (at + 1) & mask;
    table_[at] = {node, static_cast<std::uint32_t>(key >> 32)};
  };
  if (++used_slots_ * 2 > table_.size()) {
    table_.assign(table_.size() * 2, {});
    used_slots_ = 1;
    for (enode_id known{0}; known < nodes_.size(); ++known) {
      if (known == id || nodes_[known].dead) continue;
      place(known, detail::hash_node(nodes_[known], operands(known)));
      ++used_slots_;
    }
  }
  place(id, hash);
}

MEGANEURA_INLINE enode engine::make_key(op kind, dtype type, std::uint32_t extents, const attribute& value,
                                        rule_mask reasons) {
  int symbol = symbol_of(kind);
  if (const auto* map = std::get_if<map_attribute>(&value)) {
    const scalar_op last = map->program.nodes.back().op;
    if (map->program.is_single(last)) symbol = symbol_of(last);
  }
  return {.kind = kind,
          .type = type,
          .symbol = static_cast<std::uint8_t>(symbol),
          .extents = extents,
          .attribute = attributes_.intern(value),
          .path = path_,
          .reasons = reasons};
}

MEGANEURA_INLINE enode_id engine::append(enode key, std::span<const class_id> operands, std::uint64_t hash,
                                         class_id owner) {
  const auto id = static_cast<enode_id>(nodes_.size());
  key.owner = owner;
  key.first_operand = static_cast<std::uint32_t>(operands_.size());
  key.operand_count = static_cast<std::uint32_t>(operands.size());
  nodes_.push_back(key);
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  for (class_id operand : operands) {
    std::vector<enode_id>& parents = classes_[operand].parents;
    if (parents.empty() || parents.back() != id) parents.push_back(id);
  }
  insert_slot(id, hash);
  classes_[owner].nodes.push_back(id);
  classes_[owner].symbols |= bit_set<symbol_count>::of(key.symbol);
  dirty_.push_back(id);
  analyse(id);
  for (class_id operand : deciding_operands(id)) mark_decisive(operand);
  return id;
}

MEGANEURA_INLINE class_id engine::add(op kind, dtype type, const shape& extents, const attribute& value,
                                      std::span<const class_id> operands, rule_mask reasons) {
  const enode key = make_key(kind, type, intern(extents), value, reasons);
  const std::vector<class_id> children = canonical(operands);
  const std::uint64_t hash = detail::hash_node(key, children);
  const enode_id known = find_node(key, children, hash);
  if (known != no_id) return find(nodes_[known].owner);
  const auto owner = static_cast<class_id>(classes_.size());
  classes_.push_back({.extents = key.extents, .path = path_, .type = type});
  links_.push_back(owner);
  append(key, children, hash, owner);
  return owner;
}

MEGANEURA_INLINE enode_id engine::add_to(class_id target, op kind, const attribute& value,
                                         std::span<const class_id> operands, rule_mask reasons) {
  target = find(target);
  const enode key = make_key(kind, classes_[target].type, classes_[target].extents, value, reasons);
  const std::vector<class_id> children = canonical(operands);
  const std::uint64_t hash = detail::hash_node(key, children);
  const enode_id known = find_node(key, children, hash);
  if (known != no_id) {
    merge(target, nodes_[known].owner);
    return known;
  }
  changed_.push_back(target);
  return append(key, children, hash, target);
}

MEGANEURA_INLINE bool engine::merge(class_id a, class_id b) {
  a = find(a);
  b = find(b);
  if (a == b) return false;
  if (classes_[a].extents != classes_[b].extents || classes_[a].type != classes_[b].type) {
    fail(error_category::internal, "e-graph: a rule equated {} {} with {} {}", to_string(classes_[a].type),
         to_string(extents(a)), to_string(classes_[b].type), to_string(extents(b)));
  }
  if (classes_[a].decides != classes_[b].decides) mark_decisive(classes_[a].decides ? b : a);
  if (b < a) std::swap(a, b);  // the older class stays: independent of sizes, so insertion order alone decides
  eclass &kept = classes_[a], &gone = classes_[b];
  links_[b] = a;
  kept.nodes.insert(kept.nodes.end(), gone.nodes.begin(), gone.nodes.end());
  kept.parents.insert(kept.parents.end(), gone.parents.begin(), gone.parents.end());
  kept.symbols |= gone.symbols;
  if (!kept.constant) kept.constant = gone.constant;
  gone.nodes = {};
  gone.parents = {};
  unions_.push_back(a);
  changed_.push_back(a);
  return true;
}

MEGANEURA_INLINE void engine::retire(enode_id id) {
  nodes_[id].dead = true;
  std::erase(classes_[find(nodes_[id].owner)].nodes, id);
}

MEGANEURA_INLINE void engine::repair(class_id id) {
  const std::vector<enode_id> parents = std::move(classes_[id].parents);
  classes_[id].parents.clear();
  std::vector<enode_id> kept;
  for (enode_id parent : parents) {
    enode& node = nodes_[parent];
    if (node.dead) continue;
    const std::vector<class_id> children = canonical(operands(parent));
    if (!std::ranges::equal(children, operands(parent))) {
      const std::uint64_t hash = detail::hash_node(node, children);
      const enode_id known = find_node(node, children, hash);
      std::copy(children.begin(), children.end(), operands_.begin() + node.first_operand);
      if (known != no_id && known != parent) {
        node.dead = true;
        merge(node.owner, nodes_[known].owner);
        continue;
      }
      if (known == no_id) insert_slot(parent, hash);
    }
    kept.push_back(parent);
  }
  // A merge above may have moved this class.
  std::vector<enode_id>& now = classes_[find(id)].parents;
  now.insert(now.end(), kept.begin(), kept.end());
  std::sort(now.begin(), now.end());
  now.erase(std::unique(now.begin(), now.end()), now.end());
  for (enode_id parent : kept) analyse(parent);
}

MEGANEURA_INLINE void engine::rebuild() {
  while (!unions_.empty()) {
    std::vector<class_id> todo = std::move(unions_);
    unions_.clear();
    for (class_id& id : todo) id = find(id);
    std::sort(todo.begin(), todo.end());
    todo.erase(std::unique(todo.begin(), todo.end()), todo.end());
    for (class_id id : todo) repair(find(id));
    for (class_id id : todo) {
      std::vector<enode_id>& nodes = classes_[find(id)].nodes;
      std::erase_if(nodes, [&](enode_id node) { return nodes_[node].dead; });
    }
  }
}

MEGANEURA_INLINE bool engine::decides_for(enode_id id, class_id operand) const {
  const std::vector<class_id> found = deciding_operands(id);
  return std::find(found.begin(), found.end(), operand) != found.end();
}

MEGANEURA_INLINE void engine::mark_decisive(class_id id) {
  any_decides_ = true;
  std::vector<class_id> todo = {id};
  while (!todo.empty()) {
    eclass& next = classes_[find(todo.back())];
    todo.pop_back();
    if (next.decides) continue;
    next.decides = true;
    bool state = false;
    for (enode_id node : next.nodes) {
      const auto all = operands(node);
      todo.insert(todo.end(), all.begin(), all.end());
      state = state || nodes_[node].kind == op::state;
    }
    for (std::size_t i = 0; state && i < next.parents.size(); ++i) {
      const std::vector<class_id> carried =
          nodes_[next.parents[i]].kind == op::assign ? deciding_operands(next.parents[i]) : std::vector<class_id>{};
      todo.insert(todo.end(), carried.begin(), carried.end());
    }
  }
}

MEGANEURA_INLINE std::vector<enode_id> engine::take_dirty(int depth) {
  std::vector<enode_id> result = std::move(dirty_);
  dirty_.clear();
  std::vector<class_id> level = std::move(changed_);
  changed_.clear();
  for (class_id& id : level) {
    id = find(id);
    result.insert(result.end(), classes_[id].nodes.begin(), classes_[id].nodes.end());
  }
  for (int d = 0; d < depth; ++d) {
    std::sort(level.begin(), level.end());
    level.erase(std::unique(level.begin(), level.end()), level.end());
    std::vector<class_id> next;
    for (class_id id : level) {
      for (enode_id parent : classes_[id].parents) {
        if (nodes_[parent].dead) continue;
        result.push_back(parent);
        next.push_back(find(nodes_[parent].owner));
      }
    }
    level = std::move(next);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  std::erase_if(result, [&](enode_id node) { return nodes_[node].dead; });
  return result;
}

}  // namespace meganeura::inline MEGANEURA_ABI::egraph

#include <meganeura/egraph/node_analysis.hpp>
