// SPDX-License-Identifier: MIT
// Operands that are passed by name, key_lengths(n) for example, through calls of modules.
#pragma once
#include <meganeura/expr/module.hpp>
#include <meganeura/ops/search.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

template <class T>
concept named_operand = requires {
  typename T::operand_tag;
};

// What a module takes an operand as again.
struct by_place {
  static constexpr auto of(value auto x) { return x; }
};
template <template <class> class Name>
struct by_name {
  template <value X>
  static constexpr auto of(X x) {
    return Name<X>(x);
  }
};
template <value X>
by_place kind_of(const X&);
template <template <class> class Name, class X>
by_name<Name> kind_of(const Name<X>&);

template <class Module, class... Kinds>
struct with_operands {
  static constexpr auto forward(value auto... x) requires requires { Module::forward(Kinds::of(x)...); }
  { return Module::forward(Kinds::of(x)...); }
};
template <class Module, class... X>
using module_taking = with_operands<Module, decltype(kind_of(std::declval<X>()))...>;

// A condition is none of a node's operands.
template <value X>
constexpr auto stored(X x) {
  if constexpr (!is_expr<X>) {
    return x.facts().type == dtype::boolean ? ones_where(x) : x;
  } else if constexpr (X::facts().type == dtype::boolean) {
    return ones_where(x);
  } else {
    return x;
  }
}
template <value X>
constexpr X passed(X x) {
  return x;
}
template <named_operand X>
constexpr auto passed(X x) {
  return stored(x.operand);
}

}  // namespace detail

/// call and repeat with operands by name: call<"encoder", transformer_encoder_layer<options>>(x, key_lengths(n)). The
/// module takes them as they are written: forward(value auto x, auto... operands).
template <fixed_string Name, class Module, class... X>
  requires(detail::named_operand<X> || ...)
[[nodiscard]] constexpr auto call(X... operands) {
  return call<Name, detail::module_taking<Module, X...>>(detail::passed(operands)...);
}
template <class Module, detail::name_like Name, class... X>
  requires(detail::named_operand<X> || ...)
[[nodiscard]] constexpr auto call(const Name& name, X... operands) {
  return call<detail::module_taking<Module, X...>>(name, detail::passed(operands)...);
}
template <fixed_string Name, int Count, class Module, class... X>
  requires(detail::named_operand<X> || ...)
[[nodiscard]] constexpr auto repeat(X... operands) {
  return repeat<Name, Count, detail::module_taking<Module, X...>>(detail::passed(operands)...);
}

}  // namespace meganeura::inline MEGANEURA_ABI
