// SPDX-License-Identifier: MIT
// Functions with a derivative of their own.
#pragma once
#include <meganeura/ops/elementwise.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

constexpr node_spec describe_adjoint(const facts& y) { return node_of(op::adjoint, y.type, y.shape, no_attribute{}); }
constexpr node_spec describe_custom_gradient(const facts& y, const facts&, const facts&, const facts&) {
  return node_of(op::custom_gradient, y.type, y.shape, no_attribute{});
}

// What backward returns: a value, or several.
template <class T>
inline constexpr std::size_t gradient_count = value<T> ? 1 : 0;
template <class Names, class... X>
inline constexpr std::size_t gradient_count<result_list<Names, X...>> = sizeof...(X);
template <std::size_t Operands, std::size_t Gradients>
inline constexpr bool one_gradient_each = Operands == Gradients;

template <std::size_t Index, value Gradient>
constexpr auto gradient_at(Gradient only) {
  return only;
}
template <std::size_t Index, class Names, class... X>
constexpr auto gradient_at(const result_list<Names, X...>& several) {
  return several.template get<Index>();
}

template <value Gradient, value X>
constexpr bool have_types(Gradient only, X x) {
  return are_of_one_type(only.facts(), x.facts());
}
template <class Names, class... Gradients, value... X>
constexpr bool have_types(const result_list<Names, Gradients...>& several, X... x) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return (are_of_one_type(several.template get<I>().facts(), x.facts()) && ...);
  }
  (std::index_sequence_for<X...>{});
}

// y, whose adjoint g reaches each x as its gradient says.
template <std::size_t Index, value Y, value G, class Gradients, value X, value... Others>
constexpr auto with_gradients(Y y, G g, Gradients gradients, X x, Others... others) {
  const auto next = make<describe_custom_gradient>(y, x, gradient_at<Index>(gradients), g);
  if constexpr (sizeof...(Others) > 0) {
    return with_gradients<Index + 1>(next, g, gradients, others...);
  } else {
    return next;
  }
}

}  // namespace detail

/// forward(x...), of which reverse mode takes what backward(g, y, x...) returns for the gradient by each x, g being the
/// gradient by the result y: a straight-through estimator is
///   custom_gradient([](value auto x) { return round(x); }, [](auto g, auto y, auto x) { return g; }, x)
/// Both are functions of values; several gradients are results<"x", "y">(gx, gy), in the order of the operands. What
/// the functions capture takes part, but no gradient flows to it through this call. Where nothing is differentiated
/// backward costs nothing; gradients of gradients are those of backward as it is written. TensorFlow's custom_gradient,
/// JAX's custom_vjp, a torch.autograd.Function.
/// shapes, dtypes: what forward returns; a gradient has its operand's. errors: "operands must be floats", "forward must
/// return one value", "one gradient for each operand", "must have its shape and dtype".
template <class Forward, class Backward, value... X>
[[nodiscard]] constexpr auto custom_gradient(Forward forward, Backward backward, X... x) {
  if constexpr (sizeof...(X) == 0) {
    static_assert(sizeof...(X) >= 1, "meganeura: custom_gradient(forward, backward, x...): there is no operand x");
    return forward();
  } else {
    MEGANEURA_CHECK((is_float(x.facts().type) && ...), (is_float(X::facts().type) && ...),
                    "meganeura: custom_gradient(forward, backward, x...): operands must be floats; capture what has no "
                    "gradient: [=](value auto x) { return gather<0>(x, indices); }",
                    x...)
    const auto y = forward(x...);
    if constexpr (!value<std::remove_cvref_t<decltype(y)>>) {
      static_assert(value<std::remove_cvref_t<decltype(y)>>,
                    "meganeura: custom_gradient(forward, backward, x...): forward must return one value");
      return detail::first_of(x...);
    } else {
      MEGANEURA_EXPECT(is_float(y.facts().type),
                       "meganeura: custom_gradient(forward, backward, x...): forward must return floats", y) {
        const auto g = detail::make<detail::describe_adjoint>(y);
        const auto gradients = backward(g, y, x...);
        constexpr std::size_t count = detail::gradient_count<std::remove_cvref_t<decltype(gradients)>>;
        static_assert(
            detail::one_gradient_each<sizeof...(X), count>,
            "meganeura: custom_gradient(forward, backward, x...): backward(g, y, x...) must return one gradient for "
            "each operand x, several as results<names...>(gradients...)");
        if constexpr (sizeof...(X) != count) {
          return y;
        } else {
          MEGANEURA_EXPECT(
              detail::have_types(gradients, x...),
              "meganeura: custom_gradient(forward, backward, x...): what backward returns for an operand must "
              "have its shape and dtype; sum over what was broadcast, expand a number",
              x...)
          return detail::with_gradients<0>(stop_gradient(y), g, gradients, x...);
        }
      }
    }
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI
