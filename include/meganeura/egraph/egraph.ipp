// SPDX-License-Identifier: MIT
// Definitions for egraph/egraph.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/hash.hpp>
#include <meganeura/egraph/egraph.hpp>

#include <algorithm>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::egraph {

MEGANEURA_INLINE double evaluate(const scalar_program& program, std::span<const double> arguments) {
  small_vector<double, 16> values;
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
  std::uint64_t hash = hash_combine(
      static_cast<std::uint64_t>(key.kind) << 9 | static_cast<std::uint64_t>(key.type) << 1 | std::uint64_t{key.apart},
      static_cast<std::uint64_t>(key.extents) << 32 | key.attribute);
  for (class_id operand : operands) hash = hash_combine(hash, operand);
  return hash;
}

}  // namespace detail

MEGANEURA_INLINE class_id engine::find(class_id id) const {
  while (links_[id] != id) id = links_[id] = links_[links_[id]];  // path halving
  return id;
}

MEGANEURA_INLINE shape_id engine::intern(const shape& extents) {
  std::uint64_t key = static_cast<std::uint64_t>(extents.rank());
  for (std::int64_t extent : extents) key = hash_combine(key, static_cast<std::uint64_t>(extent));
  const shape_id known = shape_ids_.find(key, [&](shape_id id) { return shapes_[id] == extents; });
  if (known != no_id) return known;
  const auto id = static_cast<shape_id>(shapes_.size());
  shapes_.push_back(extents);
  shape_ids_.insert(key, id);
  return id;
}

MEGANEURA_INLINE class_list engine::canonical(std::span<const class_id> operands) const {
  class_list result(operands.begin(), operands.end());
  for (class_id& operand : result) operand = find(operand);
  return result;
}

MEGANEURA_INLINE enode_id engine::find_node(const enode& key, std::span<const class_id> operands,
                                            std::uint64_t hash) const {
  return ids_.find(hash, [&](enode_id id) {
    const enode& known = nodes_[id];
    return !known.dead && known.kind == key.kind && known.type == key.type && known.extents == key.extents &&
           known.attribute == key.attribute && known.apart == key.apart &&
           (!key.apart || find(known.owner) == find(key.owner)) && std::ranges::equal(this->operands(id), operands);
  });
}

MEGANEURA_INLINE enode engine::make_key(op kind, dtype type, shape_id extents, attribute_ref value, rule_mask reasons) {
  int head = head_of(kind);
  if (const auto* map = value.get_if<map_attribute>()) {
    const scalar_op last = map->program.nodes.back().op;
    if (map->program.is_single(last)) head = head_of(last);
  }
  return {.kind = kind,
          .type = type,
          .head = static_cast<std::uint8_t>(head),
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
    node_list& parents = classes_[operand].parents;
    if (parents.empty() || parents.back() != id) parents.push_back(id);
  }
  ids_.insert(hash, id);
  classes_[owner].nodes.push_back(id);
  classes_[owner].heads |= bit_set<head_count>::of(key.head);
  dirty_.push_back(id);
  analyse(id);
  for (class_id operand : deciding_operands(id)) mark_decisive(operand);
  return id;
}

MEGANEURA_INLINE class_id engine::add(op kind, dtype type, const shape& extents, attribute_ref value,
                                      std::span<const class_id> operands, rule_mask reasons) {
  const enode key = make_key(kind, type, intern(extents), value, reasons);
  const class_list children = canonical(operands);
  const std::uint64_t hash = detail::hash_node(key, children);
  const enode_id known = find_node(key, children, hash);
  if (known != no_id) return find(nodes_[known].owner);
  const auto owner = static_cast<class_id>(classes_.size());
  classes_.push_back({.extents = key.extents, .path = path_, .type = type});
  links_.push_back(owner);
  append(key, children, hash, owner);
  return owner;
}

MEGANEURA_INLINE enode_id engine::add_to(class_id target, op kind, attribute_ref value,
                                         std::span<const class_id> operands, rule_mask reasons, bool apart) {
  target = find(target);
  enode key = make_key(kind, classes_[target].type, classes_[target].extents, value, reasons);
  key.owner = target;
  key.apart = apart;
  const class_list children = canonical(operands);
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
  kept.nodes.append(gone.nodes.begin(), gone.nodes.end());
  kept.parents.append(gone.parents.begin(), gone.parents.end());
  kept.heads |= gone.heads;
  if (!kept.constant) kept.constant = gone.constant;
  gone.nodes = {};
  gone.parents = {};
  unions_.push_back(a);
  changed_.push_back(a);
  return true;
}

MEGANEURA_INLINE void engine::retire(enode_id id) {
  nodes_[id].dead = true;
  node_list& members = classes_[find(nodes_[id].owner)].nodes;
  members.erase_from(std::remove(members.begin(), members.end(), id));
}

MEGANEURA_INLINE void engine::repair(class_id id) {
  const node_list parents = std::move(classes_[id].parents);
  node_list kept;
  for (enode_id parent : parents) {
    enode& node = nodes_[parent];
    if (node.dead) continue;
    const class_list children = canonical(operands(parent));
    if (!std::ranges::equal(children, operands(parent))) {
      const std::uint64_t hash = detail::hash_node(node, children);
      const enode_id known = find_node(node, children, hash);
      std::copy(children.begin(), children.end(), operands_.begin() + node.first_operand);
      if (known != no_id && known != parent) {
        node.dead = true;
        thinned_.push_back(node.owner);
        merge(node.owner, nodes_[known].owner);
        continue;
      }
      if (known == no_id) ids_.insert(hash, parent);
    }
    kept.push_back(parent);
  }
  // A merge above may have moved this class.
  node_list& now = classes_[find(id)].parents;
  now.append(kept.begin(), kept.end());
  std::sort(now.begin(), now.end());
  now.erase_from(std::unique(now.begin(), now.end()));
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
  }
  for (class_id id : std::exchange(thinned_, {})) {
    node_list& nodes = classes_[find(id)].nodes;
    nodes.erase_from(std::remove_if(nodes.begin(), nodes.end(), [&](enode_id node) { return nodes_[node].dead; }));
  }
}

MEGANEURA_INLINE bool engine::decides_for(enode_id id, class_id operand) const {
  const class_list found = deciding_operands(id);
  return std::find(found.begin(), found.end(), operand) != found.end();
}

MEGANEURA_INLINE void engine::mark_decisive(class_id id) {
  any_decides_ = true;
  class_list todo = {id};
  while (!todo.empty()) {
    eclass& next = classes_[find(todo.back())];
    todo.pop_back();
    if (next.decides) continue;
    next.decides = true;
    bool state = false;
    for (enode_id node : next.nodes) {
      const auto all = operands(node);
      todo.append(all.begin(), all.end());
      state = state || nodes_[node].kind == op::state;
    }
    for (std::size_t i = 0; state && i < next.parents.size(); ++i) {
      if (nodes_[next.parents[i]].kind != op::assign) continue;
      const class_list carried = deciding_operands(next.parents[i]);
      todo.append(carried.begin(), carried.end());
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
