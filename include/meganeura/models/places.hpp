// SPDX-License-Identifier: MIT
// Learned rows for the places of a text's tokens.
#pragma once
#include <meganeura/expr/model.hpp>
#include <meganeura/ops/diagonal.hpp>
#include <meganeura/ops/narrow.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI::models {

/// Whether tokens [.., seq] have that many places; of a symbol that is known when a program is built for its length.
template <int Count>
constexpr bool have_places(value auto tokens) {
  return !tokens.facts().shape.last().is_static() || tokens.facts().shape.last().coefficient <= Count;
}
#define MEGANEURA_EXPECT_PLACES(call, count, tokens)                  \
  MEGANEURA_EXPECT((::meganeura::models::have_places<count>(tokens)), \
                   "meganeura: " call ": a text must not have more tokens than there are places for", tokens)

/// Whether the type of tokens [.., seq] says how many there are.
template <value A>
inline constexpr bool knows_length = false;
template <value A>
  requires(detail::all_typed<A>::value)
inline constexpr bool knows_length<A> = A::facts().shape.last().is_static();

/// Parameter `Name` [Count, Width]: a row for each of the tokens [.., seq] i32, the first ones of the table or, given a
/// position [] i32, those that begin there -> [seq, Width].
template <fixed_string Name, int Count, int Width, initializer Begin = init::normal()>
constexpr auto places(value auto tokens, value auto... position) {
  auto table = parameter<Name, dims<Count, Width>, Begin>;
  if constexpr (knows_length<decltype(tokens)> && sizeof...(position) == 0) {
    return slice<0, 0, tokens.facts().shape.last()>(table);
  } else {
    auto start = (sum(zeros_like(tokens)) + ... + position);
    if constexpr (detail::all_typed<decltype(tokens)>::value) {
      return narrow<0, tokens.facts().shape.last()>(table, start);
    } else {
      return narrow(table, start, 0, tokens.facts().shape.last());
    }
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI::models
