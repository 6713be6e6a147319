// SPDX-License-Identifier: MIT
// The pass from typed nodes to run-time nodes.
#pragma once
#include <meganeura/core/checked.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/expr/lower.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// What a symbol is worth, at least 1.
inline std::int64_t extent_of(const symbol& name, std::span<const symbol_extent> bindings) {
  const symbol_extent *end = bindings.data() + bindings.size(), *found = find_binding(bindings.data(), end, name);
  if (found == end) {
    fail(error_category::invalid_argument, "the model has a symbol {0} without an extent; bind {{{0}, n}}",
         quote(name.text));
  }
  const std::int64_t extent = checked_extent(*found);
  if (name.most == 0 || extent <= name.most) return extent;
  fail(error_category::invalid_argument, "the symbol {} is bound to {}, and the model takes at most {}",
       quote(name.text), extent, name.most);
}

// Of extents that a shape cannot hold, with every symbol's value: "[batch = 9007199254740993, 784]".
[[noreturn]] inline void refuse_bound(const symbolic_shape& symbols, std::span<const symbol_extent> bindings,
                                      bool beyond) {
  const auto valued = [&](const symbol& name) {
    return fmt::format("({} = {})", name.text, extent_of(name, bindings));
  };
  fail(error_category::invalid_argument, "a tensor {} was asked for, and {}", shown(symbols, valued),
       beyond ? fmt::format("one has at most 2^58 = {} elements; bind its symbols to less", shape::max_elements)
              : "an extent is at least 1; bind its symbols to more");
}

}  // namespace detail

MEGANEURA_INLINE shape bound(const symbolic_shape& symbols, std::span<const symbol_extent> bindings) {
  const auto number = [&](const symbol& name) { return detail::extent_of(name, bindings); };
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

inline void add_symbols(const module_body& body, std::vector<std::string>& names) {
  for (int i = 0; i < body.size; ++i) {
    add_symbols(*body.nodes[i].shape, names);
    if (body.nodes[i].body) add_symbols(*body.nodes[i].body, names);
  }
}

// What is done for each turn of a call or a repeat, in its scope.
template <class Do>
void for_each_turn(graph& g, const typed_node& call, const Do& act) {
  const graph::scope in(g, call.name->text);
  for (int turn = 0; turn < call.count; ++turn) {
    const graph::scope in_turn(g, call.kind == primitive::repeat ? std::to_string(turn) : "");
    act();
  }
}

// visit(node, is shared, is needed in the graph's mode) for the nodes of a body and of what it calls, in their scopes.
template <class Visit>
void for_each_node(graph& g, const module_body& body, const Visit& visit, bool shared = false, bool is_needed = true) {
  const needed_nodes needed(body, g.mode());
  for (int i = 0; i < body.size; ++i) {
    const typed_node& n = body.nodes[i];
    const bool both_shared = shared || is_shared(n), both_needed = is_needed && needed[i];
    visit(n, both_shared, both_needed);
    if (n.body) for_each_turn(g, n, [&] { for_each_node(g, *n.body, visit, both_shared, both_needed); });
  }
}

// Full names of a model, or of a model with its loss. While compiling, "layers.*" stands for every turn of a repeat;
// here the numbers are known, so that a layer called "layers.0" beside it is found as well.
class used_names {
 public:
  // Those of a body where the graph is.
  void add(graph& g, const module_body& body) {
    scopes_.push_back(full_name(g, symbol{""}));
    for_each_node(g, body, [&](const typed_node& n, bool shared, bool needed) {
      if (!is_named(n)) return;
      const std::string name = name_in(g, n.kind, *n.name);
      if (shared) {
        shared_.insert(name);
      } else if (!declared_.emplace(name, needed).second) {
        refuse_two_layers(name);
      }
    });
  }

  void check() const {
    for (const std::string& name : shared_) {
      if (declared_.contains(owner_of(name))) continue;
      std::vector<std::string> names;
      for (const auto& [each, needed] : declared_) names.push_back(each);
      refuse_shared(name, names);
    }
  }

  // A named node where the graph is; a shared one of a loss is the model's where the loss has none of that name.
  node_value node(graph& g, node_spec spec, std::span<const node_value> operands, bool shared) {
    if (!shared) return run_time_node(g, spec, operands);
    const std::string name = name_in(g, spec.kind, *spec.name), owner = owner_of(name);
    if (spec.kind == primitive::tap) {
      const auto other = declared_.find(owner);
      if (other == declared_.end() || std::exchange(other->second, true)) return operands[0];  // the other has the name
    }
    if (owner == name) return run_time_node(g, spec, operands);
    const graph::scope outermost(g, path_pool::root);
    const symbol full{owner.c_str() + kind_before(spec.kind).size()};
    spec.name = &full;
    return run_time_node(g, spec, operands);
  }

 private:
  // The declared name that is meant by a shared one: in the last scope, or else in one before.
  [[nodiscard]] std::string owner_of(const std::string& name) const {
    const std::string& last = scopes_.back();
    const std::size_t kind = name.find(last);
    for (std::size_t i = scopes_.size() - 1; !declared_.contains(name) && kind != std::string::npos && i-- > 0;) {
      std::string other = std::string(name).replace(kind, last.size(), scopes_[i]);
      if (declared_.contains(other)) return other;
    }
    return name;
  }

  std::vector<std::string> scopes_;       // of the bodies, with the dot behind them
  std::map<std::string, bool> declared_;  // whether the mode computes what it names
  std::set<std::string> shared_;
};

// The values of a body's results: node(i, operands) is that of node i where it is no argument, call or result of one,
// called(i, operands) are those of the body that node i calls, each turn. Arguments that are not given are Value().
template <class Value, class Node, class Called>
std::vector<Value> results_of(graph& g, const module_body& body, std::span<const Value> arguments, const Node& node,
                              const Called& called) {
  std::vector<Value> values;
  values.reserve(static_cast<std::size_t>(body.size));
  std::map<int, std::vector<Value>> calls;  // by place: their results
  for (int i = 0; i < body.size; ++i) {
    const typed_node& n = body.nodes[i];
    std::array<Value, max_operands> all;
    for (int k = 0; k < n.operand_count; ++k)
      all[static_cast<std::size_t>(k)] = values[static_cast<std::size_t>(n.operand(k))];
    const std::span operands = std::span(all).first(n.operand_count);
    const auto number = static_cast<std::size_t>(n.count);
    if (n.body) {
      std::vector<Value>& results = calls[i];
      for_each_turn(g, n, [&] {
        results = called(i, operands);
        if (n.kind == primitive::repeat) std::ranges::copy(results, operands.begin());
      });
      values.push_back(results[0]);
    } else if (n.kind == primitive::argument) {
      values.push_back(number < arguments.size() ? arguments[number] : Value());
    } else if (n.kind == primitive::result) {
      values.push_back(calls.at(n.operand(0))[number]);
    } else {
      values.push_back(node(i, operands));
    }
  }
  std::vector<Value> results;
  for (int i = 0; i < body.result_count; ++i) results.push_back(values[static_cast<std::size_t>(body.place(i))]);
  return results;
}

// Lowers bodies over one graph. What the graph's mode leaves out has no node, but for parameters and states: they are
// the same in both modes.
class body_lowering {
 public:
  body_lowering(graph& g, std::span<const symbol_extent> bindings, used_names& names)
      : graph_(g), bindings_(bindings), names_(names) {}

  std::vector<node_value> run(const module_body& body, std::span<const node_value> arguments, bool shared = false,
                              bool is_needed = true) {
    const needed_nodes needed(body, graph_.mode());
    return results_of(
        graph_, body, arguments,
        [&](int i, std::span<const node_value> operands) {
          const typed_node& n = body.nodes[i];
          return (is_needed && needed[i]) || is_leaf(n) ? lower(n, operands, shared) : node_value();
        },
        [&](int i, std::span<const node_value> operands) {
          const typed_node& n = body.nodes[i];
          return run(*n.body, operands, shared || is_shared(n), is_needed && needed[i]);
        });
  }

 private:
  node_value lower(const typed_node& n, std::span<const node_value> operands, bool shared) {
    node_spec spec = spec_of(n);
    spec.shape = bound(*n.shape, bindings_);
    return is_named(n) ? names_.node(graph_, spec, operands, shared || is_shared(n))
                       : run_time_node(graph_, spec, operands);
  }

  graph& graph_;
  std::span<const symbol_extent> bindings_;
  used_names& names_;
};

MEGANEURA_INLINE node_value lowered_leaf(graph& g, const module_body& body) {
  used_names names;
  names.add(g, body);
  for_each_node(g, body, [&](const typed_node& n, bool shared, bool) {
    if (is_named(n)) g.layers().ask(name_in(g, n.kind, *n.name), shared);
  });
  return body_lowering(g, {}, names).run(body, {})[0];
}

inline used_names names_of(graph& g, std::span<const scoped_body> bodies) {
  used_names names;
  for (const scoped_body& each : bodies) {
    const graph::scope in(g, each.scope);
    names.add(g, *each.body);
  }
  names.check();
  return names;
}

}  // namespace detail

MEGANEURA_INLINE std::vector<node_id> lower_last(graph& g, std::span<const scoped_body> bodies,
                                                 std::span<const node_id> operands,
                                                 std::span<const symbol_extent> bindings) {
  detail::used_names names = detail::names_of(g, bodies);
  std::vector<node_value> arguments;
  for (node_id id : operands) arguments.emplace_back(g, id);
  const graph::scope in(g, bodies.back().scope);
  const std::vector<node_value> results = detail::body_lowering(g, bindings, names).run(*bodies.back().body, arguments);
  for (const node_value& each : results) {
    if (each.facts().type != dtype::boolean) continue;
    fail(error_category::invalid_argument, "a module returns a condition; return select(condition, a, b)");
  }
  return {results.begin(), results.end()};
}

namespace detail {

// Leaves without what is computed of them, as the sizes of that are open; but a transposed convolution that has one as
// its filter, or what is made of one element by element, is there, of a single place: layouts say of a leaf whether it
// is such a filter.
class leaf_lowering {
 public:
  using leaves = std::set<node_id>;  // that a value is made of element by element

  leaf_lowering(graph& g, std::span<const symbol_extent> bindings, used_names& names)
      : graph_(g), bindings_(bindings), names_(names) {}

  std::vector<leaves> run(const module_body& body, std::span<const leaves> arguments, bool shared = false) {
    return results_of(
        graph_, body, arguments,
        [&](int i, std::span<const leaves> operands) { return made(body.nodes[i], operands, shared); },
        [&](int i, std::span<const leaves> operands) {
          return run(*body.nodes[i].body, operands, shared || is_shared(body.nodes[i]));
        });
  }

 private:
  leaves made(const typed_node& n, std::span<const leaves> operands, bool shared) {
    using enum primitive;
    constexpr primitive by_element[] = {map, cast, reshape, permute, slice, expand, flip, by_mode, tap};
    leaves all;
    if (is_leaf(n)) {
      node_spec spec = spec_of(n);
      spec.shape = bound(*n.shape, bindings_);
      all.insert(names_.node(graph_, spec, {}, shared || is_shared(n)));
    } else if (n.kind == node && static_cast<op>(n.function) == op::convolution) {
      convolve(n, operands[1]);
    } else if (std::ranges::find(by_element, n.kind) != std::end(by_element)) {
      for (const leaves& each : operands) all.insert(each.begin(), each.end());
    }
    return all;
  }

  // The first one decides what a filter is.
  void convolve(const typed_node& n, const leaves& filters) {
    const auto how = unpacked<convolution_attribute>(spec_of(n).list);
    for (const node_id each : filters) {
      const shape filter = graph_[each].extents;
      if (!decided_.insert(each).second || how.form != convolution_attribute::input) continue;
      if (filter.rank() != how.spatial + 2) continue;
      shape place{1, filter[0]}, spread{1, filter[1]};
      for (int axis = 2; axis < filter.rank(); ++axis) place.push_back(1), spread.push_back(filter[axis]);
      (void)graph_.convolution(graph_.full(place, 1, graph_[each].type), each,
                               {.form = convolution_attribute::input, .spatial = how.spatial}, spread);
    }
  }

  graph& graph_;
  std::span<const symbol_extent> bindings_;
  used_names& names_;
  std::set<node_id> decided_;
};

}  // namespace detail

MEGANEURA_INLINE void lower_leaves(graph& g, std::span<const scoped_body> bodies,
                                   std::span<const symbol_extent> bindings) {
  detail::used_names names = detail::names_of(g, bodies);
  detail::leaf_lowering leaves(g, bindings, names);
  for (const scoped_body& each : bodies) {
    const graph::scope in(g, each.scope);
    (void)leaves.run(*each.body, {});
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
