// SPDX-License-Identifier: MIT
// Learned rows for the places of a text's tokens.
#pragma once
#include <meganeura/expr/model.hpp>
#include <meganeura/ops/diagonal.hpp>
#include <meganeura/ops/narrow.hpp>
#include <meganeura/ops/reduce.hpp>

namespace meganeura::inline MEGANEURA_ABI::models {

/// Parameter `Name` [Count, Width]: a row for each of the tokens [.., seq] i32, the first ones of the table or, given a
/// position [] i32, those that begin there -> [seq, Width]. A text of more tokens than there are rows is an error while
/// compiling, or when its program is built for that length.
template <fixed_string Name, int Count, int Width, initializer Begin = init::normal()>
constexpr auto places(value auto tokens, value auto... position) {
  MEGANEURA_EXPECT((!tokens.facts().shape.last().is_static() || tokens.facts().shape.last().coefficient <= Count),
                   "meganeura: a text must not have more tokens than its model has places (context, positions)",
                   tokens) {
    auto table = parameter<Name, dims<Count, Width>, Begin>;
    auto start = (sum(zeros_like(tokens)) + ... + position);
    if constexpr (detail::all_typed<decltype(tokens)>::value) {
      return narrow<0, tokens.facts().shape.last()>(table, start);
    } else {
      return narrow(table, start, 0, tokens.facts().shape.last());
    }
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI::models
