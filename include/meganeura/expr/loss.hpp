// SPDX-License-Identifier: MIT
// Losses are modules: of what a model returns and of named inputs of their own.
#pragma once
#include <meganeura/core/utility.hpp>
#include <meganeura/expr/model.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// An input of a loss, of the dtype and shape of the model's first result: what that is compared with. One that the
/// model has as well (an autoencoder's image) is the model's.
template <fixed_string Name>
struct target {
  static constexpr auto text = Name;
  static constexpr const symbol& name = detail::input_symbol<Name>();
  template <class Model>
  static constexpr detail::tensor_type type_for{Model::body.result(0).type, Model::body.result(0).shape};
};

/// What a trainer minimises: trainer<vae, loss<vae_loss, target<"image">>>. `Module::forward` takes what the model
/// returns, in order, and then the inputs, each a target<name>, labels<name> or input<name, dtype, dims>. It returns
/// one number of f32, or several results of which the first, or the one named "loss", is minimised and the others can
/// be read: `return results<"loss", "kl">(likelihood + kl, kl);`. Parameters are trained with the model's, behind
/// "loss."; the model's own are `shared` by the names that they have in it, shared(parameter<"fc.weight", dims<8, 4>>)
/// or shared(call<"encoder", encoder>(y)), unless the loss has one of that name.
template <class Module, class... Inputs>
struct loss {};

namespace detail {

template <class Module, class... Inputs>
loss<Module, Inputs...> as_loss(const loss<Module, Inputs...>&);
void as_loss(...);

// Of an input of a loss: its own, or after the model's first result.
template <class Model, class Input>
constexpr tensor_type loss_input_type() {
  if constexpr (requires { Input::type; }) {
    return Input::type;
  } else {
    return Input::template type_for<Model>;
  }
}

// A list of names and those of the inputs that it lacks.
template <class Names, class... Inputs>
struct extended_names {
  using type = Names;
};
template <fixed_string... Names, class First, class... Others>
struct extended_names<name_list<Names...>, First, Others...>
    : extended_names<std::conditional_t<(name_list<Names...>::index_of(First::text.text) < 0),
                                        name_list<Names..., First::text>, name_list<Names...>>,
                     Others...> {};

template <class Names>
struct loss_names {
  using type = Names;
};
template <>
struct loss_names<name_list<"output">> {
  using type = name_list<"loss">;
};

// Its arguments are what a compiler shows.
template <class Loss>
inline constexpr bool is_loss = false;
template <class Module, class... Inputs>
inline constexpr bool is_loss<loss<Module, Inputs...>> = true;
template <class Input, bool Agrees>
inline constexpr bool loss_input_agrees = Agrees;
template <dtype Type, symbolic_shape Shape>
inline constexpr bool is_loss_value = Type == dtype::f32&& Shape.rank == 0;

template <class Module, tensor_type... Operands>
struct traced_loss {
  static constexpr const module_body& body = body_of<Module, Operands...>;
  using output_list = typename loss_names<decltype(names_of(returned<Module, Operands...>))>::type;
  static constexpr int minimised = output_list::index_of("loss") < 0 ? 0 : output_list::index_of("loss");
  static_assert(is_loss_value<body.result(minimised).type, *body.result(minimised).shape>,
                "meganeura: loss<module, inputs...>: a trainer minimises one f32 number; reduce the loss to one with "
                "mean(x) or sum(x), and cast it to f32");
};

template <class Model, class Input>
constexpr bool agrees_with_model() {
  constexpr int index = Model::input_index(Input::text.text);
  return index < 0 || Model::input_types[index < 0 ? 0 : index] == loss_input_type<Model, Input>();
}

// A model with its loss, in the words of a model: the inputs of both, the results of the loss, the taps of the model.
template <class Model, class Loss, class Results = std::make_integer_sequence<int, Model::result_count>>
struct trained_model;

// Functions: Clang 14 takes no class of which a static_assert failed.
template <class Model>
constexpr bool expect_model() {
  constexpr bool is_model = requires { Model::result_count; };
  static_assert(is_model,
                "meganeura: trainer<model, loss>: a model comes first, model<module, inputs...>, then a loss, "
                "cross_entropy<\"label\"> for example");
  return is_model;
}
template <class Loss>
constexpr bool expect_loss() {
  static_assert(
      is_loss<Loss>,
      "meganeura: trainer<model, loss>: a loss is cross_entropy<\"label\">, mean_squared_error<\"target\"> or "
      "loss<module, inputs...>");
  return true;
}

struct no_loss {  // what a compiler goes on with
  static constexpr auto forward(value auto...) { return expr<no_body>{}; }
};

template <class Model, class Loss, int... Results>
struct trained_model<Model, Loss, std::integer_sequence<int, Results...>>
    : trained_model<Model, loss<no_loss>, std::integer_sequence<int, Results...>> {
  using refused = std::bool_constant<expect_loss<Loss>()>;
};

template <class Model, class Module, class... Inputs, int... Results>
struct trained_model<Model, loss<Module, Inputs...>, std::integer_sequence<int, Results...>>
    : traced_loss<Module, tensor_type{Model::body.result(Results).type, Model::body.result(Results).shape}...,
                  loss_input_type<Model, Inputs>()...> {
  static_assert(one_input_a_name<name_list<Inputs::text...>>,
                "meganeura: loss<module, inputs...>: two inputs of one name; give each a name of its own");
  static_assert((loss_input_agrees<Inputs, agrees_with_model<Model, Inputs>()> && ...),
                "meganeura: loss<module, inputs...>: the model has an input of that name, of another dtype or shape; "
                "choose another name");
  using model_type = Model;
  using loss_type = loss<Module, Inputs...>;
  using loss_module = Module;
  using own_inputs = name_list<Inputs::text...>;
  using input_list = typename extended_names<typename Model::input_list, Inputs...>::type;
  static constexpr tensor_type own_types[own_inputs::size + 1]{loss_input_type<Model, Inputs>()...};
  static constexpr const auto& leaves = Model::leaves;
  static constexpr scoped_body bodies[2]{{"", &Model::body}, {"loss", &trained_model::body}};

  [[nodiscard]] static constexpr int input_index(const char* name) { return input_list::index_of(name); }
  [[nodiscard]] static constexpr tensor_type input_type(int index) {
    return index < Model::input_count ? Model::input_types[index]
                                      : own_types[own_inputs::index_of(input_list::symbols[index]->text)];
  }
  template <fixed_string Name>
  static constexpr result_facts result = facts_of_result<trained_model, Name>();
};

template <class Model, class Loss, bool = expect_model<Model>()>
struct trained_from {
  using type = trained_model<Model, decltype(as_loss(std::declval<const Loss&>()))>;
};
template <class Model, class Loss>
struct trained_from<Model, Loss, false> {
  using type = trained_model<empty_model<Model>, loss<no_loss>>;
};
template <class Model, class Loss>
using trained = typename trained_from<Model, Loss>::type;

struct left_out {};  // a model or a loss

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI
