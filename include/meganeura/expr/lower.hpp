// SPDX-License-Identifier: MIT
// From type to run time: one linear pass over the flat array of a model, calls and repeats expanded with joined names.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/expr/model.hpp>
#include <meganeura/expr/open_sizes.hpp>
#include <meganeura/expr/value.hpp>
#include <meganeura/graph/graph.hpp>

#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// Bound shape. errors: invalid_argument when a symbol has no binding, one below 1, or one that makes a tensor too
/// large to count, naming symbol, value and limit.
[[nodiscard]] shape bound(const symbolic_shape& symbols, std::span<const binding> bindings);

/// Each symbol of a model's inputs and nodes once, in that order.
[[nodiscard]] std::vector<std::string> symbols_of(const module_body& body, std::span<const detail::tensor_type> inputs);

/// One body after its operands are nodes; returns its result. The scopes of the graph that live stand before every
/// parameter name. errors: invalid_argument when two layers come to one parameter name and neither is `shared`.
node_id lower_body(graph& g, const module_body& body, std::span<const node_id> operands,
                   std::span<const binding> bindings);

/// A model's parameters and states alone, whose shapes may not depend on a symbol without a binding: all sizes share
/// them.
/// errors: invalid_argument for such a symbol.
void lower_leaves(graph& g, const module_body& body, std::span<const binding> bindings);

/// Adds a model to a graph: its inputs, parameters and nodes; returns the result, which is not yet an output. A trainer
/// appends the loss to it.
/// errors: invalid_argument for a symbol without binding, with two or unknown, and for anything the graph's own checks
/// refuse.
template <class Model>
node_id lower_into(graph& g, std::span<const binding> bindings) {
  check_bindings(symbols_of(Model::body, Model::input_types), bindings);
  std::vector<node_id> operands;
  for (int i = 0; i < Model::input_count; ++i) {
    operands.push_back(g.input(Model::input_names[i]->text, Model::input_types[i].type,
                               bound(*Model::input_types[i].shape, bindings)));
  }
  return lower_body(g, Model::body, operands, bindings);
}

/// The graph of a model alone in one of its modes, its result named "output". Both modes have all parameters and
/// states.
template <class Model>
[[nodiscard]] graph lower(std::span<const binding> bindings, run_mode mode = run_mode::evaluation) {
  graph g(mode);
  g.add_output("output", lower_into<Model>(g, bindings));
  return g;
}

template <class Model>
[[nodiscard]] graph lower(std::initializer_list<binding> bindings = {}, run_mode mode = run_mode::evaluation) {
  return lower<Model>(std::span<const binding>(bindings.begin(), bindings.size()), mode);
}

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/expr/lower.ipp>
#endif
