// SPDX-License-Identifier: MIT
// What makes a struct an optimiser.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/shape.hpp>
#include <meganeura/expr/value.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/graph/scalar_expression.hpp>

#include <concepts>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// A number that the user chooses and a checkpoint keeps by its name; finite and at least 0.
template <class Optimizer>
struct optimizer_rate {
  const char* name;
  float Optimizer::*value;
  bool below_one = false;  // of an average: less than 1
};

/// One element of a parameter in a step, as an optimiser's rule reads it; all f32.
struct optimizer_element {
  scalar_expression parameter, gradient;
  std::vector<scalar_expression> moments;  // as the step before left them, zero in the beginning
  std::vector<scalar_expression> numbers;  // of this step
};

/// A tensor of its own that an optimiser keeps of a parameter: a checkpoint's "optimizer.<name>.<parameter>", zero in
/// the beginning.
struct optimizer_state {
  std::string name;
  shape extents;
};

/// A whole parameter in a step, as an optimiser that needs more than elements reads it; all f32.
struct optimizer_tensor {
  node_value parameter, gradient;
  std::vector<node_value> states;   // as the step before left them
  std::vector<node_value> numbers;  // of this step, one each
};

namespace detail {

template <class T>
[[nodiscard]] consteval bool rates_and_numbers_fit() {
  if constexpr (requires(const T& chosen) { std::begin(T::rates), chosen.numbers(1u); }) {
    bool found = false;
    for (const auto& rate : T::rates) found = found || std::string_view(rate.name) == "learning_rate";
    return found && std::tuple_size_v<decltype(std::declval<const T&>().numbers(1u))> <= max_optimizer_numbers;
  } else {
    return false;
  }
}

}  // namespace detail

/// What an optimiser is: a struct of rates, one of them learning_rate, with
///   rates              their names and members
///   name()             of its kernels and checkpoints; another name where other moments are kept
///   moments()          names of what it keeps of each parameter, as checkpoints have them; every device has kernels
///                      for two
///   numbers(step)      the floats that change from step to step (1, 2, ...), computed on the host; at most
///                      max_optimizer_numbers
///   update(element)    the new parameter, then each new moment
/// and, where choices exclude each other,
///   problem()          which ones do, as a sentence; empty if none
/// and, where a step needs norms or means of whole tensors, which no element knows,
///   states(extents)    what it keeps for that of a parameter of these extents
///   direction(tensor)  what update gets as the gradient, of the parameter's extents, then each new state: nodes of the
///                      training graph before it
/// See `adam`, and `lamb`. Whatever has these converts to `optimizer`.
template <class T>
concept optimizer_definition = !std::same_as<T, class optimizer> && std::copyable<T> &&
                               requires(const T& chosen, std::uint32_t step, const optimizer_element& element) {
  { T::rates[0] } -> std::convertible_to<optimizer_rate<T>>;
  { chosen.learning_rate } -> std::convertible_to<float>;
  { chosen.name() } -> std::convertible_to<std::string>;
  { chosen.moments() } -> std::same_as<std::vector<std::string>>;
  { chosen.numbers(step).data() } -> std::convertible_to<const float*>;
  { chosen.update(element) } -> std::same_as<std::vector<scalar_expression>>;
  requires detail::rates_and_numbers_fit<T>();
};

namespace detail {
// Meant as an optimiser, though something is missing.
template <class T>
concept nearly_optimizer = !optimizer_definition<T> && !std::same_as<T, optimizer> && requires(const T& chosen) {
  chosen.learning_rate;
};
}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI
