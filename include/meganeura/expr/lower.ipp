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
  if (found->extent < 1) {
    fail(error_category::invalid_argument, "the symbol {} is bound to {}; an extent is at least 1", quote(name.text),
         found->extent);
  }
  return found->extent;
}

// Of extents that a shape cannot hold, with every symbol's value: "[batch = 9007199254740993, 784]".
[[noreturn]] inline void refuse_bound(const symbolic_shape& symbols, std::span<const binding> bindings) {
  std::vector<std::string> extents;
  for (int i = 0; i < symbols.rank; ++i) {
    const dim& each = symbols[i];
    const std::string factor = each.coefficient == 1 ? "" : fmt::format("{} ", each.coefficient);
    extents.push_back(each.name
                          ? fmt::format("{}({} = {})", factor, each.name->text, bound_symbol(*each.name, bindings))
                          : std::to_string(each.coefficient));
  }
  fail(error_category::invalid_argument,
       "a tensor [{}] was asked for, and one has at most 2^58 = {} elements; bind its symbols to less",
       fmt::join(extents, ", "), shape::max_elements);
}

}  // namespace detail

MEGANEURA_INLINE shape bound(const symbolic_shape& symbols, std::span<const binding> bindings) {
  shape result;
  for (int i = 0; i < symbols.rank; ++i) {
    const dim& each = symbols[i];
    const std::int64_t extent = each.name ? detail::bound_symbol(*each.name, bindings) : 1;
    const std::int64_t room = shape::max_elements / result.elements();
    if (!symbols.is_static() && each.coefficient >= 1 && extent > room / each.coefficient) {
      detail::refuse_bound(symbols, bindings);
    }
    result.push_back(checked_int(each.coefficient) * extent);
  }
  return result;
}

namespace detail {

inline void add_symbols(const symbolic_shape& extents, std::vector<std::string>& names) {
  for (int i = 0; i < extents.rank; ++i) {
    if (!extents[i].name || std::ranges::find(names, extents[i].name->text) != names.end()) continue;
    names.emplace_back(extents[i].name->text);
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
  body_lowering(graph& g, const module_body& body, const std::string& prefix, std::span<const node_id> operands,
                std::span<const binding> bindings, used_names& names, bool shared = false)
      : graph_(g),
        body_(body),
        prefix_(prefix),
        arguments_(operands),
        bindings_(bindings),
        names_(names),
        shared_(shared) {}

  node_id run() {
    ids_.assign(static_cast<std::size_t>(body_.size), no_id);
    for (int i = 0; i < body_.size; ++i) {
      // A condition is never stored: the map that consumes it holds it in its scalar program.
      if (body_.nodes[i].type != dtype::boolean) ids_[static_cast<std::size_t>(i)] = lower(body_.nodes[i]);
    }
    if (ids_.back() == no_id) {
      fail(error_category::invalid_argument, "a module returns a condition; return select(condition, a, b)");
    }
    return ids_.back();
  }

 private:
  node_id lower(const typed_node& n) {
    switch (n.kind) {
      case primitive::argument:
        return arguments_[static_cast<std::size_t>(n.count)];
      case primitive::parameter:
        return graph_.parameter(full_name(n), n.type, extents(n));
      case primitive::state:
        return graph_.state(full_name(n), n.type, extents(n));
      case primitive::constant:
        return graph_.constant(n.value, n.type);
      case primitive::iota:
        return graph_.coordinates(extents(n), n.count);
      case primitive::random:
        return graph_.random(full_name(n), static_cast<distribution>(n.function), extents(n));
      case primitive::reciprocal_count:
        return reciprocal_count(n);
      case primitive::map:
        return map(n);
      case primitive::cast:
        return graph_.cast(operand(n, 0), n.type);
      case primitive::reduce:
        return graph_.reduce(static_cast<reduce_kind>(n.function), operand(n, 0), static_cast<std::uint32_t>(n.count));
      case primitive::contract:
        return contract(n);
      case primitive::gather:
        return graph_.gather(operand(n, 0), operand(n, 1), n.count);
      case primitive::scatter_add:
        return graph_.scatter_add(operand(n, 0), operand(n, 1), n.count, extents(n));
      case primitive::convolution:
        return convolution(n);
      case primitive::window_reduce:
        return window_reduce(n);
      case primitive::stop_gradient:
        return graph_.stop_gradient(operand(n, 0));
      case primitive::class_index:
        graph_.expect_indices({operand(n, 0), n.count, static_cast<std::int64_t>(n.value),
                               fmt::format("cross_entropy has {} classes", n.count)});
        return operand(n, 0);
      case primitive::call:
      case primitive::repeat:
        return call(n);
      case primitive::reshape:
        return graph_.reshape(operand(n, 0), extents(n));
      case primitive::expand:
        return graph_.expand(operand(n, 0), extents(n));
      case primitive::permute:
        return graph_.permute(operand(n, 0), std::vector<int>(n.list->values, n.list->values + n.shape->rank));
      case primitive::slice: {
        const natural* list = n.list->values;
        return graph_.slice(operand(n, 0), list[0], list[1], list[2], list[3]);
      }
      case primitive::flip:
        return graph_.flip(operand(n, 0), n.count);
      case primitive::pad:
        return pad(n);
      case primitive::concat: {
        const node_id operands[] = {operand(n, 0), operand(n, 1)};
        return graph_.concat(operands, n.count);
      }
    }
    fail(error_category::internal, "lower: unknown primitive {}", static_cast<int>(n.kind));
  }

  node_id pad(const typed_node& n) {
    const natural* list = n.list->values;
    const std::vector<std::int64_t> low(list, list + n.shape->rank);
    const std::vector<std::int64_t> high(list + max_rank, list + max_rank + n.shape->rank);
    return graph_.pad(operand(n, 0), low, high, n.value);
  }

  node_id reciprocal_count(const typed_node& n) {
    const shape whole = bound(*body_.nodes[n.operand(0)].shape, bindings_);
    double count = 1;
    for (int i = 0; i < whole.rank(); ++i) count *= n.count >> i & 1 ? static_cast<double>(whole[i]) : 1.0;
    return graph_.constant(1.0 / count, n.type);
  }

  node_id map(const typed_node& n) {
    const shape whole = extents(n);
    bool conditional = false;
    for (int k = 0; k < n.operand_count; ++k) conditional |= body_.nodes[n.operand(k)].type == dtype::boolean;
    map_program program{whole, conditional};
    const scalar_ref result = scalar(program, n);
    return graph_.map(program.builder.finish(result), program.operands, n.type);
  }

  // What a map's program has so far: its operands, each once if there are conditions to read them as well, and the
  // conditions that are written into it, by their places in the body.
  struct map_program {
    const shape& whole;
    bool reuses;
    scalar_builder builder{};
    std::vector<node_id> operands{};
    std::map<int, scalar_ref> conditions{};
  };

  // Conditions among the operands are written into the program, each once; everything else becomes an operand.
  scalar_ref scalar(map_program& program, const typed_node& n) {
    scalar_ref refs[3]{};
    for (std::size_t k = 0; k < n.operand_count; ++k) {
      const int at = n.operand(static_cast<int>(k));
      const typed_node& each = body_.nodes[at];
      if (each.type == dtype::boolean) {
        const auto known = program.conditions.find(at);
        refs[k] = known != program.conditions.end() ? known->second : scalar(program, each);
        program.conditions.emplace(at, refs[k]);
        continue;
      }
      const node_id id = graph_.expand(operand(n, static_cast<int>(k)), program.whole);
      auto place = program.reuses ? std::ranges::find(program.operands, id) : program.operands.end();
      if (place == program.operands.end()) place = program.operands.insert(place, id);
      refs[k] = program.builder.argument(static_cast<int>(place - program.operands.begin()), each.type);
    }
    return program.builder.apply(static_cast<scalar_op>(n.function), {refs, n.operand_count});
  }

  node_id contract(const typed_node& n) {
    contract_attribute labels;
    for (int i = 0; i < max_rank; ++i) {
      labels.a[i] = static_cast<std::uint8_t>(n.list->values[i]);
      labels.b[i] = static_cast<std::uint8_t>(n.list->values[max_rank + i]);
    }
    labels.result_rank = n.list->values[2 * max_rank];
    return graph_.contract(operand(n, 0), operand(n, 1), labels);
  }

  node_id convolution(const typed_node& n) {
    const natural* list = n.list->values;
    convolution_attribute geometry{.spatial = list[0]};
    for (int i = 0; i < max_spatial; ++i) {
      geometry.stride[i] = list[1 + i];
      geometry.pad_low[i] = list[4 + i];
      geometry.pad_high[i] = list[7 + i];
      geometry.dilation[i] = list[10 + i];
    }
    geometry.groups = list[13];
    return graph_.convolution(operand(n, 0), operand(n, 1), geometry, extents(n));
  }

  node_id window_reduce(const typed_node& n) {
    const natural* list = n.list->values;
    window_attribute geometry{.kind = static_cast<reduce_kind>(n.function), .spatial = list[0]};
    for (int i = 0; i < max_spatial; ++i) {
      geometry.window[i] = list[1 + i];
      geometry.stride[i] = list[4 + i];
      geometry.pad_low[i] = list[7 + i];
      geometry.pad_high[i] = list[10 + i];
    }
    return graph_.window_reduce(operand(n, 0), geometry);
  }

  node_id call(const typed_node& n) {
    std::vector<node_id> operands;
    for (int k = 0; k < n.operand_count; ++k) operands.push_back(operand(n, k));
    const std::string name = joined(prefix_, n.name->text);
    const graph::scope in(graph_, n.name->text);
    for (int turn = 0; turn < n.count; ++turn) {
      const std::string number = n.kind == primitive::repeat ? std::to_string(turn) : "", prefix = joined(name, number);
      const graph::scope in_turn(graph_, number);
      operands[0] = body_lowering(graph_, *n.body, prefix, operands, bindings_, names_, shared_ || is_shared(n)).run();
    }
    return operands[0];
  }

  [[nodiscard]] static std::string joined(const std::string& prefix, const std::string& name) {
    return prefix.empty() || name.empty() ? prefix + name : prefix + '.' + name;
  }
  [[nodiscard]] std::string full_name(const typed_node& n) const {
    const std::string name = joined(prefix_, n.name->text);
    names_.use(n.kind == primitive::random ? "random " + name : name, shared_ || is_shared(n));
    return name;
  }
  [[nodiscard]] shape extents(const typed_node& n) const { return bound(*n.shape, bindings_); }
  [[nodiscard]] node_id operand(const typed_node& n, int index) const {
    const node_id id = ids_[static_cast<std::size_t>(n.operand(index))];
    if (id == no_id) {
      fail(error_category::invalid_argument,
           "a condition is used by something other than select; select values first, then reshape or reduce");
    }
    return id;
  }

  graph& graph_;
  const module_body& body_;
  const std::string& prefix_;
  std::span<const node_id> arguments_;
  std::span<const binding> bindings_;
  used_names& names_;
  bool shared_;
  std::vector<node_id> ids_;
};

}  // namespace detail

MEGANEURA_INLINE node_id lower_body(graph& g, const module_body& body, const std::string& prefix,
                                    std::span<const node_id> operands, std::span<const binding> bindings) {
  detail::used_names names;
  const node_id result = detail::body_lowering(g, body, prefix, operands, bindings, names).run();
  names.check();
  return result;
}

MEGANEURA_INLINE void check_bindings(const module_body& body, std::span<const detail::tensor_type> inputs,
                                     std::span<const binding> bindings) {
  std::vector<std::string> names;
  for (const detail::tensor_type& input : inputs) detail::add_symbols(*input.shape, names);
  detail::add_symbols(body, names);
  for (const binding& each : bindings) {
    if (!each.symbol) fail(error_category::invalid_argument, "{} is bound to a symbol without a name", each.extent);
    if (std::ranges::find(names, each.symbol) == names.end()) {
      fail(error_category::invalid_argument, "\"{}\" is bound to {}, but no symbol of the model: {}{}", each.symbol,
           each.extent, names.empty() ? "it has none" : fmt::format("it has \"{}\"", fmt::join(names, "\", \"")),
           detail::did_you_mean(detail::nearest(each.symbol, names)));
    }
    for (const binding& other : bindings) {
      if (&other == &each || std::string_view(other.symbol) != each.symbol) continue;
      fail(error_category::invalid_argument, "the symbol \"{}\" is bound twice, to {} and to {}; bind it once",
           each.symbol, each.extent, other.extent);
    }
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI
