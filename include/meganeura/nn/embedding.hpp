// SPDX-License-Identifier: MIT
// Learned rows by token.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/gather.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// weight: how rows begin. padding_index: a token whose row is zeros and is not trained; -1: none.
struct embedding_options {
  initializer weight = init::normal();
  std::int64_t padding_index = -1;
  friend constexpr bool operator==(const embedding_options&, const embedding_options&) = default;
};

namespace layers {
/// Parameter "weight" [rows, width].
struct embedding {
  static constexpr auto forward(value auto tokens, std::int64_t rows, std::int64_t width, embedding_options options) {
    const symbolic_shape table = detail::extents_of(rows, width);
    options.weight.zero_row = options.padding_index;
    const auto row = gather(detail::parameter_of<"weight">(tokens, table, dtype::f32, options.weight), tokens, 0);
    if (options.padding_index < 0) return row;
    return select(equal(unsqueeze(tokens, -1), options.padding_index), 0.0f, row);
  }
};
}  // namespace layers

/// A learned row for each token: embedding<"embed", rows, width>(tokens), or embedding("embed", tokens, rows, width) at
/// run time; rows begin normal of deviation 1, as torch.nn.Embedding's. shapes: [..] i32 -> [.., width]. errors:
/// "tokens must be i32", "padding_index must be a row, or -1". Tokens outside 0 .. rows-1 give zeros and train nothing;
/// the option `checks` names them.
template <detail::name_like Name, value A, class Rows, class Width, class Options = fixed<embedding_options{}>>
[[nodiscard]] constexpr auto embedding(const Name& name, A tokens, Rows rows, Width width, Options options = {}) {
  MEGANEURA_EXPECT(tokens.facts().type == dtype::i32,
                   "meganeura: embedding<name, rows, width>(tokens): tokens must be i32", name, tokens)
  MEGANEURA_EXPECT((rows >= 1 && width >= 1),
                   "meganeura: embedding<name, rows, width>(tokens): rows and width are at least 1", name, tokens)
  MEGANEURA_EXPECT((embedding_options(options).padding_index >= -1 && embedding_options(options).padding_index < rows),
                   "meganeura: embedding<name, rows, width>(tokens): padding_index must be a row, or -1", name, tokens)
  return detail::layer<layers::embedding>(name, tokens, rows, width, options);
}
template <fixed_string Name, std::int64_t Rows, std::int64_t Width, embedding_options Options = embedding_options{},
          value A>
[[nodiscard]] constexpr auto embedding(A tokens) {
  return embedding(fixed_text<Name>{}, tokens, c<Rows>, c<Width>, c<Options>);
}
MEGANEURA_UNNAMED(embedding, "embedding<name, rows, width>(tokens)")

}  // namespace meganeura::inline MEGANEURA_ABI
