// SPDX-License-Identifier: MIT
// BERT as types: parameters and shapes.
#include <meganeura/models/bert.hpp>

namespace {

using namespace meganeura;
using namespace meganeura::models::bert;

inline constexpr dim batch = sym<"batch">, tokens = sym<"tokens", 512>;
template <config C>
using text_model =
    model<encoder<C>, input<"tokens", dtype::i32, dims<batch, tokens>>,
          input<"token_types", dtype::i32, dims<batch, tokens>>, input<"mask", dtype::i32, dims<batch, tokens>>>;

static_assert(text_model<bert_base_uncased>::parameter_count == 109'482'240);
static_assert(text_model<bert_large_uncased>::parameter_count == 335'141'888);

}  // namespace
