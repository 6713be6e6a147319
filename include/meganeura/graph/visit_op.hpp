// SPDX-License-Identifier: MIT
// From a kind of node that is known at run time to a template over kinds: how the traits of operations are asked.
#pragma once
#include <meganeura/core/utility.hpp>
#include <meganeura/graph/op.hpp>

#include <cstddef>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

template <class Function, class Kinds = std::make_index_sequence<op_count>>
struct op_calls;
template <class Function, std::size_t... I>
struct op_calls<Function, std::index_sequence<I...>> {
  using result = decltype(std::declval<Function&>().template operator()<op{}>());
  template <op Kind>
  static constexpr result call(Function& f) {
    return f.template operator()<Kind>();
  }
  static constexpr result (*of[sizeof...(I)])(Function&) = {&call<static_cast<op>(I)>...};
};

}  // namespace detail

/// f.operator()<kind>(). What a folder knows of each kind of node stands in a class template over `op` there, whose
/// primary template is what holds of a kind that nothing is said about.
template <class Function>
constexpr decltype(auto) visit_op(op kind, Function f) {
  return detail::op_calls<Function>::of[static_cast<std::size_t>(kind)](f);
}

}  // namespace meganeura::inline MEGANEURA_ABI
