// SPDX-License-Identifier: MIT
// The truth: evaluates any graph, primitives and implementations alike, by the definitions in graph/attribute.hpp.
#pragma once
#include <meganeura/graph/graph.hpp>
#include <meganeura/kernels/step_values.hpp>

#include <oracle/scalar_machine.hpp>
#include <oracle/tensor.hpp>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::oracle {

using index_vector = std::array<std::int64_t, max_rank>;

/// Calls visit(index) for every index of `space` in row-major order.
template <class Visit>
void for_each_index(const shape& space, Visit&& visit) {
  if (space.elements() == 0) return;
  index_vector index{};
  for (;;) {
    visit(std::as_const(index));
    int axis = space.rank() - 1;
    while (axis >= 0 && ++index[static_cast<std::size_t>(axis)] == space[axis])
      index[static_cast<std::size_t>(axis--)] = 0;
    if (axis < 0) return;
  }
}

[[nodiscard]] inline std::int64_t flat_index(std::int64_t offset, const std::int64_t (&strides)[max_rank],
                                             const index_vector& index, int rank) {
  for (int i = 0; i < rank; ++i) offset += strides[i] * index[static_cast<std::size_t>(i)];
  return offset;
}

/// Evaluates a graph. `leaves` holds inputs, parameters and states by name; `run` returns the outputs and then applies
/// the effects to the states and parameters in `leaves`. Real = float rounds every stored tensor to f32, double is the
/// reference, prime_field checks rewrites exactly; f16 tensors round to f16 in float and double. Compiled for these
/// three.
template <class Real>
class interpreter {
 public:
  tensors<Real> leaves;
  kernels::step_values step;
  std::vector<kernels::step_values> group_steps;  // of the groups of parameters but the first
  std::vector<tensors<Real>> moments;             // of optimizer_step: the first of each parameter, the second, ...
  /// Called with every value once it is computed and may change it, e.g. to round as memory would.
  std::function<void(node_id, tensor<Real>&)> on_stored;
  /// Called with every operation of a scalar program.
  scalar_hook<Real> on_scalar;

  explicit interpreter(const graph& g, tensors<Real> values = {}, const kernels::step_values& step_values = {});

  /// Any node's value; the reference is good until `clear` or `run`.
  const tensor<Real>& value(node_id id);
  /// One node from operands given instead of computed; everything else is forgotten.
  tensor<Real> value_from(node_id id, const std::vector<tensor<Real>>& given);
  /// The same of a node with several: what it stores, in order.
  std::vector<tensor<Real>> values_from(node_id id, const std::vector<tensor<Real>>& given);
  /// One step: all outputs by name, then the effects.
  tensors<Real> run();
  /// Forgets computed values: call after changing `leaves` or `step`.
  void clear();

 private:
  class definitions;  // of the ops, in interpreter.cpp

  void evaluate(std::span<const node_id> roots);

  const graph& graph_;
  std::deque<tensor<Real>> values_;                       // references handed out survive a growing graph
  std::map<node_id, std::vector<tensor<Real>>> further_;  // values of a node with several, after the first
  std::vector<bool> known_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::oracle
