// SPDX-License-Identifier: MIT
// From type to run time: one linear pass over the flat array of a model, calls and repeats expanded with joined names.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/expr/loss.hpp>
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
[[nodiscard]] shape bound(const symbolic_shape& symbols, std::span<const symbol_extent> bindings);

/// Each symbol of a model's inputs and nodes once, in that order; of a model with its loss as well.
[[nodiscard]] std::vector<std::string> symbols_of(std::span<const scoped_body> bodies,
                                                  std::span<const detail::tensor_type> inputs);
template <class Model>
[[nodiscard]] std::vector<std::string> symbols_of() {
  std::vector<detail::tensor_type> inputs;
  for (int i = 0; i < Model::input_list::size; ++i) inputs.push_back(Model::input_type(i));
  return symbols_of(Model::bodies, inputs);
}

/// The last of these bodies, in its scope, after its operands are nodes; returns its results. The others are in the
/// graph already: what is `shared` and has no namesake in the last one is theirs. The scopes of the graph that live
/// stand before every parameter name.
/// errors: invalid_argument when two layers come to one parameter name and neither is `shared`, and for what is shared
/// and nowhere else.
std::vector<node_id> lower_last(graph& g, std::span<const scoped_body> bodies, std::span<const node_id> operands,
                                std::span<const symbol_extent> bindings);

/// Parameters and states, whose shapes may not depend on a symbol without a binding: all sizes share them. Of what is
/// computed there are only transposed convolutions, so that plan::make_layout knows their filters.
/// errors: invalid_argument for such a symbol.
void lower_leaves(graph& g, std::span<const scoped_body> bodies, std::span<const symbol_extent> bindings);

/// Adds a model to a graph: its inputs, parameters and nodes; returns the results, which are not yet outputs.
/// errors: invalid_argument for a symbol without binding, and for anything the graph's own checks refuse.
template <class Model>
std::vector<node_id> lower_into(graph& g, std::span<const symbol_extent> bindings) {
  std::vector<node_id> operands;
  for (int i = 0; i < Model::input_count; ++i) {
    operands.push_back(g.input(Model::input_names[i]->text, Model::input_types[i].type,
                               bound(*Model::input_types[i].shape, bindings)));
  }
  return lower_last(g, Model::bodies, operands, bindings);
}

/// Adds a loss to the graph of a model: its inputs and its nodes, in the scope "loss"; returns its results. `results`
/// are the model's. errors: as lower_last, of the names of both.
template <class Model, class Loss>
std::vector<node_id> lower_loss(graph& g, std::span<const node_id> results, std::span<const symbol_extent> bindings) {
  using both = detail::trained<Model, Loss>;
  std::vector<node_id> operands(results.begin(), results.end());
  for (int i = 0; i < both::own_inputs::size; ++i) {
    const char* name = both::own_inputs::symbols[i]->text;
    const bool is_models = Model::input_index(name) >= 0;
    const graph::scope in(g, both::bodies[1].scope);
    operands.push_back(is_models ? g.find_leaf(name)
                                 : g.input(name, both::own_types[i].type, bound(*both::own_types[i].shape, bindings)));
  }
  return lower_last(g, both::bodies, operands, bindings);
}

/// The graph of a model alone in one of its modes, its results named as it names them, a single one without a name
/// "output". Both modes have all parameters and states. errors: invalid_argument for a symbol with two bindings or
/// unknown, and those of lower_into.
template <class Model>
[[nodiscard]] graph lower(std::span<const symbol_extent> bindings, run_mode mode = run_mode::evaluation) {
  check_bindings(symbols_of<Model>(), bindings);
  graph g(mode);
  const std::vector<node_id> results = lower_into<Model>(g, bindings);
  for (std::size_t i = 0; i < results.size(); ++i) g.add_output(Model::output_list::symbols[i]->text, results[i]);
  return g;
}

template <class Model>
[[nodiscard]] graph lower(std::initializer_list<symbol_extent> bindings = {}, run_mode mode = run_mode::evaluation) {
  return lower<Model>(std::span<const symbol_extent>(bindings.begin(), bindings.size()), mode);
}

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/expr/lower.ipp>
#endif
