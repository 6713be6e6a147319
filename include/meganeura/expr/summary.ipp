// SPDX-License-Identifier: MIT
// Definitions for expr/summary.hpp: a walk over the bodies of a model, every call and every turn once.
#pragma once
#include <meganeura/expr/lower.hpp>
#include <meganeura/expr/summary.hpp>

#include <set>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// What is bound as a number, the rest as symbols.
struct symbolic_extents {
  std::span<const symbol_extent> bindings;

  symbolic_count operator()(const dim& extent) const { return extent.value<symbolic_count>(*this); }
  symbolic_count operator()(const symbol& name) const {
    const std::int64_t bound = extent_of(name);
    return bound != 0 ? symbolic_count(static_cast<double>(bound)) : symbolic_count(1, name.text);
  }
  [[nodiscard]] std::string text(const symbolic_shape& shape) const {
    symbolic_shape left;
    for (int i = 0; i < shape.rank; ++i) left.push_back(rest(shape[i]));
    return shown(left);
  }

 private:
  [[nodiscard]] dim rest(const dim& extent) const {
    const auto part = [&](const symbol& name) {
      const std::int64_t bound = extent_of(name);
      return bound != 0 ? dim(bound).sum() : dim(1, &name).sum();
    };
    return dim(extent.value<extent_sum>(part));
  }
  // 0: not bound
  [[nodiscard]] std::int64_t extent_of(const symbol& name) const {
    const symbol_extent *end = bindings.data() + bindings.size(), *found = find_binding(bindings.data(), end, name);
    return found == end ? 0 : found->extent;
  }
};

class summary_walk {
 public:
  explicit summary_walk(std::span<const symbol_extent> bindings) : count_{{bindings}} {}

  void visit(const module_body& body, path_id path) {
    const needed_nodes needed(body, run_mode::evaluation, false);
    for (int i = 0; i < body.size; ++i) {
      const typed_node& n = body.nodes[i];
      if (n.body) {
        call(n, path);
        continue;
      }
      if (needed[i]) modules_[path].flops += count_.of(body, n);
      if (n.kind != primitive::parameter) continue;
      const std::string module = paths_.text(path);
      if (names_.insert(module + (module.empty() ? "" : ".") + n.name->text).second)
        modules_[path].parameters += elements_of(*n.shape, count_.extent);
    }
  }

  [[nodiscard]] model_summary result(const module_body& body) {
    give(body, path_pool::root);
    return modules_.finished(paths_);
  }

 private:
  void call(const typed_node& n, path_id around) {
    const path_id named = paths_.child(around, n.name->text);
    path_id inner = named;
    for (int turn = 0; turn < n.count; ++turn) {
      if (n.kind == primitive::repeat) inner = paths_.child(named, std::to_string(turn));
      visit(*n.body, inner);
      give(*n.body, inner);
    }
    for (path_id at = named; at != around; at = paths_.parent(at))
      give(*n.body, at);  // a dot in a name makes two modules
  }
  void give(const module_body& body, path_id module) {
    std::string& text = modules_[module].result;
    text.clear();
    for (int i = 0; i < body.result_count; ++i) {
      const typed_node& n = body.result(i);
      text += (i > 0 ? ", " : "") + std::string(to_string(n.type)) + count_.extent.text(*n.shape);
    }
  }

  flop_counter<symbolic_extents> count_;
  path_pool paths_;
  module_table modules_;
  std::set<std::string> names_;  // of parameters that were counted
};

MEGANEURA_INLINE model_summary summarized(const module_body& body, std::span<const tensor_type> inputs,
                                          std::span<const symbol_extent> bindings) {
  const scoped_body all{"", &body};
  check_bindings(symbols_of({&all, 1}, inputs), bindings);
  for (const symbol_extent& each : bindings) {
    const symbol name{each.symbol};
    symbolic_shape alone;
    alone.push_back(dim(1, &name));
    (void)bound(alone, bindings);  // refuses what is no extent
  }
  summary_walk walk(bindings);
  walk.visit(body, path_pool::root);
  return walk.result(body);
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI
