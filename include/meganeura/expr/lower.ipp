// SPDX-License-Identifier: MIT
// The pass from typed nodes to run-time nodes.
#pragma once
#include <meganeura/core/checked.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/nearest.hpp>
#include <meganeura/expr/lower.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// What a symbol is worth, at least 1.
inline std::int64_t bound_symbol(const symbol& name, std::span<const binding> bindings) {
  const binding* found = nullptr;
  for (const binding& each : bindings) {
    if (texts_equal(each.symbol, name.text)) found = &each;
  }
  if (!found) {
    fail(error_category::invalid_argument, "the model has a symbol {0} without an extent; bind {{{0}, n}}",
         quote(name.text));
  }
  const std::int64_t extent = checked_extent(*found);
  if (name.most == 0 || extent <= name.most) return extent;
  fail(error_category::invalid_argument, "the symbol {} is bound to {}, and the model takes at most {}",
       quote(name.text), extent, name.most);
}

// Of extents that a shape cannot hold, with every symbol's value: "[batch = 9007199254740993, 784]".
[[noreturn]] inline void refuse_bound(const symbolic_shape& symbols, std::span<const binding> bindings, bool beyond) {
  const auto valued = [&](const symbol& name) {
    return fmt::format("({} = {})", name.text, bound_symbol(name, bindings));
  };
  fail(error_category::invalid_argument, "a tensor {} was asked for, and {}", shown(symbols, valued),
       beyond ? fmt::format("one has at most 2^58 = {} elements; bind its symbols to less", shape::max_elements)
              : "an extent is at least 1; bind its symbols to more");
}

}  // namespace detail

MEGANEURA_INLINE shape bound(const symbolic_shape& symbols, std::span<const binding> bindings) {
  const auto number = [&](const symbol& name) { return detail::bound_symbol(name, bindings); };
  const auto about = [&](const symbol& name) { return static_cast<double>(number(name)); };
  shape result;
  for (int i = 0; i < symbols.rank; ++i) {
    const double size = symbols[i].value<double>(about);  // may be what no integer holds
    const auto room = static_cast<double>(shape::max_elements / result.elements());
    if (!symbols.is_static() && (size < 1 || size > room)) detail::refuse_bound(symbols, bindings, size > room);
    result.push_back(symbols[i].value<std::int64_t>(number));
  }
  return result;
}

namespace detail {

inline void add_symbols(const symbolic_shape& extents, std::vector<std::string>& names) {
  for (int i = 0; i < extents.rank; ++i) {
    for (const symbol* name : extents[i].names) {
      if (name && std::ranges::find(names, name->text) == names.end()) names.emplace_back(name->text);
    }
  }
}

inline void add_symbols(const module_body& body, std::vector<std::string>& names) {
  for (int i = 0; i < body.size; ++i) {
    add_symbols(*body.nodes[i].shape, names);
    if (body.nodes[i].body) add_symbols(*body.nodes[i].body, names);
  }
}

// Full names of one model. While compiling, "layers.*" stands for every turn of a repeat; here the numbers are known,
// so that a layer called "layers.0" beside it is found as well.
class used_names {
 public:
  void use(const std::string& name, bool shared) {
    if (shared) {
      shared_.insert(name);
    } else if (!declared_.insert(name).second) {
      fail(error_category::invalid_argument,
           "two layers are called \"{}\" and would be one; rename one of them, or share it on purpose: "
           "shared(layer)",
           name);
    }
  }
  void check() const {
    for (const std::string& name : shared_) {
      if (declared_.contains(name)) continue;
      fail(error_category::invalid_argument, "shared(...) refers to \"{}\", which the model does not have{}", name,
           did_you_mean(nearest(name, {declared_.begin(), declared_.end()})));
    }
  }

 private:
  std::set<std::string> declared_, shared_;
};

// Lowers one body; a call makes another one over the same graph.
class body_lowering {
 public:
  body_lowering(graph& g, const module_body& body, std::span<const node_value> operands,
                std::span<const binding> bindings, used_names& names, bool shared = false, bool is_needed = true)
      : graph_(g),
        body_(body),
        arguments_(operands),
        bindings_(bindings),
        names_(names),
        shared_(shared),
        is_needed_(is_needed),
        needed_(body, g.mode()) {}

  // What the graph's mode leaves out has no node, but for parameters and states: they are the same in both modes.
  std::vector<node_value> run() {
    for (int i = 0; i < body_.size; ++i) {
      const typed_node& n = body_.nodes[i];
      const bool needed = is_needed_ && needed_[i];
      if (n.body) {
        calls_[i] = call(n, needed);
        values_.push_back(calls_[i][0]);
      } else {
        values_.push_back(needed || is_leaf(n) ? lower(n) : node_value());
      }
    }
    std::vector<node_value> results;
    for (int i = 0; i < body_.result_count; ++i) results.push_back(values_[static_cast<std::size_t>(body_.place(i))]);
    return results;
  }

 private:
  node_value lower(const typed_node& n) {
    if (n.kind == primitive::argument) return arguments_[static_cast<std::size_t>(n.count)];
    if (n.kind == primitive::result) return calls_.at(n.operand(0))[static_cast<std::size_t>(n.count)];
    const bool shared = shared_ || is_shared(n);
    if (is_named(n)) {
      const std::string kind = n.kind == primitive::random ? "random " : n.kind == primitive::tap ? "tap " : "";
      names_.use(kind + full_name(graph_, *n.name), shared);
    }
    const std::vector<node_value> operands = operands_of(n);
    if (n.kind == primitive::tap && shared) return operands[0];  // the other one has the name
    node_spec spec = spec_of(n);
    spec.shape = bound(*n.shape, bindings_);
    return run_time_node(graph_, spec, operands);
  }

  [[nodiscard]] std::vector<node_value> operands_of(const typed_node& n) const {
    std::vector<node_value> operands;
    for (int k = 0; k < n.operand_count; ++k) operands.push_back(values_[static_cast<std::size_t>(n.operand(k))]);
    return operands;
  }

  std::vector<node_value> call(const typed_node& n, bool needed) {
    std::vector<node_value> operands = operands_of(n), results;
    const graph::scope in(graph_, n.name->text);
    for (int turn = 0; turn < n.count; ++turn) {
      const graph::scope in_turn(graph_, n.kind == primitive::repeat ? std::to_string(turn) : "");
      results = body_lowering(graph_, *n.body, operands, bindings_, names_, shared_ || is_shared(n), needed).run();
      if (n.kind == primitive::repeat) std::ranges::copy(results, operands.begin());
    }
    return results;
  }

  graph& graph_;
  const module_body& body_;
  std::span<const node_value> arguments_;
  std::span<const binding> bindings_;
  used_names& names_;
  bool shared_, is_needed_;
  needed_nodes needed_;
  std::vector<node_value> values_;
  std::map<int, std::vector<node_value>> calls_;  // by place: their results
};

MEGANEURA_INLINE node_value lowered_leaf(graph& g, const module_body& body) {
  used_names names;
  return body_lowering(g, body, {}, {}, names).run()[0];
}

}  // namespace detail

MEGANEURA_INLINE std::vector<node_id> lower_body(graph& g, const module_body& body, std::span<const node_id> operands,
                                                 std::span<const binding> bindings) {
  detail::used_names names;
  std::vector<node_value> arguments;
  for (node_id id : operands) arguments.emplace_back(g, id);
  const std::vector<node_value> results = detail::body_lowering(g, body, arguments, bindings, names).run();
  names.check();
  for (const node_value& each : results) {
    if (each.facts().type != dtype::boolean) continue;
    fail(error_category::invalid_argument, "a module returns a condition; return select(condition, a, b)");
  }
  return {results.begin(), results.end()};
}

namespace detail {
inline void lower_leaves(graph& g, const module_body& body, std::span<const binding> bindings) {
  for (int i = 0; i < body.size; ++i) {
    const typed_node& n = body.nodes[i];
    if (is_leaf(n)) {
      node_spec spec = spec_of(n);
      spec.shape = bound(*n.shape, bindings);
      run_time_node(g, spec, {});
    }
    if (!n.body) continue;
    const graph::scope in(g, n.name->text);
    for (int turn = 0; turn < n.count; ++turn) {
      const graph::scope in_turn(g, n.kind == primitive::repeat ? std::to_string(turn) : "");
      lower_leaves(g, *n.body, bindings);
    }
  }
}
}  // namespace detail

MEGANEURA_INLINE void lower_leaves(graph& g, std::span<const scoped_body> bodies, std::span<const binding> bindings) {
  for (const scoped_body& each : bodies) {
    const graph::scope in(g, each.scope);
    detail::lower_leaves(g, *each.body, bindings);
  }
}

MEGANEURA_INLINE std::vector<std::string> symbols_of(std::span<const scoped_body> bodies,
                                                     std::span<const detail::tensor_type> inputs) {
  std::vector<std::string> names;
  for (const detail::tensor_type& input : inputs) detail::add_symbols(*input.shape, names);
  for (const scoped_body& each : bodies) detail::add_symbols(*each.body, names);
  return names;
}

}  // namespace meganeura::inline MEGANEURA_ABI
