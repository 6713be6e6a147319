// SPDX-License-Identifier: MIT
// Training of a typed model: its graph and a loss, handed to `training`.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/expr/symbol_extents.hpp>
#include <meganeura/runtime/loss.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/training.hpp>

#include <array>
#include <concepts>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

/// Adds its value, a scalar f32 node, to a graph, given the model's output. cross_entropy and mean_squared_error are
/// losses, and so is any callable of this form, with the functions that models are written with:
/// [](graph& g, node_id y) { return mean(abs(node_value(g, y) - node_value(g, g.find_leaf("x")))); }
template <class T>
concept loss_function = requires(const T& loss, graph& g, node_id output) {
  { loss(g, output) } -> std::convertible_to<node_id>;
};

namespace detail {

template <class Model, loss_function Loss>
[[nodiscard]] graph_with_loss trace(const Loss& loss, const symbol_extents& symbols) try {
  graph g(run_mode::training);
  const node_id output = lower_into<Model>(g, symbols.list());
  const node_id value = [&] {
    const graph::scope in(g, "loss");
    return loss(g, output);
  }();
  return {std::move(g), value};
} catch (...) {
  rethrow_as_error("building a training step");
}

}  // namespace detail

/// The whole training step of a model as a graph, see make_training_graph(graph, node_id, optimizer).
template <class Model, loss_function Loss>
[[nodiscard]] graph make_training_graph(const Loss& loss, const optimizer& chosen, const symbol_extents& symbols,
                                        const training_options& options = {}) {
  graph_with_loss traced = detail::trace<Model>(loss, symbols);
  return make_training_graph(std::move(traced.forward), traced.loss, chosen, options);
}

/// A model being trained: everything that `training` is, for inputs whose names and types the compiler knows. Sizes
/// come from what is bound, as they do in a session: the last, smaller batch is a step like the others.
template <class Model>
class trainer : public training {
 public:
  /// e.g. trainer<mlp> run(gpu, cross_entropy{"label"}, adam{.learning_rate = 1e-3f}); `fixed` has symbols that never
  /// change, {{"batch", 32}}. errors: invalid_argument for symbols, inputs or rates that do not fit; what `program`
  /// throws.
  template <loss_function Loss>
  trainer(const device& on, const Loss& loss, const optimizer& chosen, const symbol_extents& fixed = {},
          const training_options& options = {}, meganeura::parameters weights = {}) try
      : training(on,
                 {detail::sizes_of<Model>(fixed),
                  [loss](const symbol_extents& at) { return detail::trace<Model>(loss, at); }},
                 chosen, options, detail::parameters_of<Model>(on, std::move(weights), fixed)) {
  } catch (...) {
    rethrow_as_error("building a trainer");
  }

  /// Submits one step and returns at once; at most two of the same sizes are in flight. Inputs of the model and of the
  /// loss are bound by name, and symbols that they leave open; an input of the model bound to another element type does
  /// not compile. errors: those of training::step.
  template <class... Bound>
  pending_step step(const Bound&... bound) {
    (check(bound), ...);
    return training::step(detail::bound_inputs(bound...), detail::bound_symbols(bound...));
  }

 private:
  // The names of a loss's inputs are known when it runs.
  template <class Bound>
  static constexpr void check(const Bound& bound) {
    if constexpr (detail::binds_symbol<Bound> || Model::input_index(Bound::name) >= 0) check_bound<Model>(bound);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI
