// SPDX-License-Identifier: MIT
// Gradients of a model's result with respect to its inputs, as a session.
#pragma once
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/runtime/session.hpp>

#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// The result that is differentiated, and the inputs by which.
template <fixed_string Result>
struct of {};
template <fixed_string... Inputs>
struct wrt {};

namespace detail {

template <class Model, fixed_string Of, fixed_string... Wrt>
constexpr bool are_floats() {
  if constexpr (is_one_of<Of, typename Model::output_list> && (is_one_of<Wrt, typename Model::input_list> && ...)) {
    return is_float(Model::template result<Of>.type) &&
           (is_float(Model::input_type(Model::input_index(Wrt.text)).type) && ...);
  } else {
    return true;  // that is said already
  }
}

// In the words of a model: a result for each input of the list, called like it.
template <class Model, class Of, class Wrt>
struct gradient_model;

template <class Model, fixed_string Of, fixed_string... Wrt>
struct gradient_model<Model, of<Of>, wrt<Wrt...>> {
  static_assert(
      is_known<spelling<Of>, spellings<typename Model::output_list>, is_one_of<Of, typename Model::output_list>>,
      "meganeura: gradient<model, of<name>, wrt<names...>>: the model has no result of that name");
  static_assert(
      (is_known<spelling<Wrt>, spellings<typename Model::input_list>, is_one_of<Wrt, typename Model::input_list>> &&
       ...),
      "meganeura: gradient<model, of<name>, wrt<names...>>: the model has no input of that name");
  static_assert(name_list<Wrt...>::differ(),
                "meganeura: gradient<model, of<name>, wrt<names...>>: an input is named twice; name each once");
  static_assert(
      are_floats<Model, Of, Wrt...>(),
      "meganeura: gradient<model, of<name>, wrt<names...>>: integers have no gradient; a model whose input is "
      "the embedded tokens has one");

  using differentiated = Model;
  using input_list = typename Model::input_list;
  using output_list = name_list<Wrt...>;
  static constexpr int of_result = Model::output_list::index_of(Of.text);
  static constexpr const auto& bodies = Model::bodies;
  static constexpr const auto& leaves = Model::leaves;

  [[nodiscard]] static constexpr int input_index(const char* name) { return Model::input_index(name); }
  [[nodiscard]] static constexpr tensor_type input_type(int index) { return Model::input_type(index); }
  template <fixed_string Name>
  static constexpr result_facts result = [] {
    constexpr int input = output_list::index_of(Name.text) < 0 ? -1 : input_index(Name.text);
    if constexpr (input >= 0) {
      return result_facts{input_type(input).type, *input_type(input).shape};
    } else {
      return Model::template result<Name>;
    }
  }();
};

}  // namespace detail

/// The gradient's nodes, in the order of the inputs in the list. States stay as they are.
template <class Gradient>
  requires requires { typename Gradient::differentiated; }
std::vector<node_id> lower_into(graph& g, std::span<const symbol_extent> bindings) {
  const node_id of = lower_into<typename Gradient::differentiated>(g, bindings)[Gradient::of_result];
  g.drop_effects();
  std::vector<node_id> inputs;
  for (int i = 0; i < Gradient::output_list::size; ++i)
    inputs.push_back(g.find_leaf(Gradient::output_list::symbols[i]->text));
  const node_id ones = g.full(g[of].extents, 1, g[of].type);
  return gradients(g, {&of, 1}, {&ones, 1}, inputs);
}

/// A session whose results are d sum(result) / d input, of the dtype and shape of each input and called like it:
/// gradient<classifier, of<"logits">, wrt<"image">> slope(gpu, weights); slope.run(bind<"image">(images)). A result
/// without a name is "output". Of one class, or weighted: a model that returns its sum. Any graph: `gradients` of
/// autodiff/gradient.hpp. No state is assigned: a run changes nothing that others see. errors: static_asserts for names
/// that the model does not have, and integers.
template <class Model, class Of, class Wrt>
using gradient = session<detail::gradient_model<Model, Of, Wrt>>;

}  // namespace meganeura::inline MEGANEURA_ABI
