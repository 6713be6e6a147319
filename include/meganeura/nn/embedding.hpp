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
  static_assert(detail::dtypes_agree<A.root().type, dtype::i32>,
                "meganeura: embedding<name, rows, width>(tokens): tokens must be i32");
  return call<Name, modules::embedding<Rows, Width>>(tokens);
}

}  // namespace meganeura::inline MEGANEURA_ABI
