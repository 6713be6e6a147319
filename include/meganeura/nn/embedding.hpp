// SPDX-License-Identifier: MIT
// Learned rows by token.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/gather.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace layers {
/// Parameter "weight" [rows, width].
struct embedding {
  static constexpr auto forward(value auto tokens, std::int64_t rows, std::int64_t width) {
    return gather(detail::parameter_of<"weight">(tokens, detail::extents_of(rows, width), dtype::f32), tokens, 0);
  }
};
}  // namespace layers

/// A learned row for each token: embedding<"embed", rows, width>(tokens), or embedding("embed", tokens, rows, width) at
/// run time. shapes: [..] i32 -> [.., width]. errors: "tokens must be i32". Tokens outside 0 .. rows-1 give zeros
/// and train nothing; the option `checks` names them.
template <detail::name_like Name, value A, class Rows, class Width>
[[nodiscard]] constexpr auto embedding(const Name& name, A tokens, Rows rows, Width width) {
  MEGANEURA_EXPECT(tokens.facts().type == dtype::i32,
                   "meganeura: embedding<name, rows, width>(tokens): tokens must be i32", tokens)
  MEGANEURA_EXPECT((rows >= 1 && width >= 1),
                   "meganeura: embedding<name, rows, width>(tokens): rows and width are at least 1", tokens)
  return detail::layer<layers::embedding>(name, tokens, rows, width);
}
template <fixed_string Name, std::int64_t Rows, std::int64_t Width, value A>
[[nodiscard]] constexpr auto embedding(A tokens) {
  return embedding(fixed_text<Name>{}, tokens, c<Rows>, c<Width>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
