// SPDX-License-Identifier: MIT
// Learned rows by token.
#pragma once
#include <meganeura/expr/module.hpp>
#include <meganeura/ops/gather.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace modules {
/// Parameter "weight" [Rows, Width].
template <std::int64_t Rows, std::int64_t Width>
struct embedding {
  static constexpr auto forward(value auto tokens) { return gather<0>(parameter<"weight", dims<Rows, Width>>, tokens); }
};
}  // namespace modules

/// shapes: [..] i32 -> [.., Width]. errors: "tokens must be i32". Tokens outside 0 .. Rows-1 give zeros
/// and train nothing; the option `checks` names them.
template <fixed_string Name, std::int64_t Rows, std::int64_t Width, auto A>
[[nodiscard]] constexpr auto embedding(expr<A> tokens) {
  constexpr bool indices = detail::dtypes_agree<A.root().type, dtype::i32>, counted = Rows >= 1 && Width >= 1;
  static_assert(indices, "meganeura: embedding<name, rows, width>(tokens): tokens must be i32");
  static_assert(counted, "meganeura: embedding<name, rows, width>(tokens): rows and width are at least 1");
  if constexpr (indices && counted) {
    return call<Name, modules::embedding<Rows, Width>>(tokens);
  } else {
    return tokens;
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI
