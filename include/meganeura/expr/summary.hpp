// SPDX-License-Identifier: MIT
// A typed model as a table: modules, what each gives, its parameters and operations.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/expr/model.hpp>
#include <meganeura/expr/symbol_extents.hpp>
#include <meganeura/graph/summary.hpp>

#include <span>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {
[[nodiscard]] model_summary summarized(const module_body& body, std::span<const tensor_type> inputs,
                                       std::span<const symbol_extent> bindings);
}

/// Of a model, without a device: each call of a module with its result, its parameters and its flops, and the totals.
/// Symbols that are not bound stay: summary<mlp>() has results such as f32[batch, 10] and flops such as "203.5 k
/// batch". e.g. std::cout << to_text(summary<mlp>({{"batch", 32}})); errors: invalid_argument for a symbol that the
/// model does not have, bound twice, or to less than 1.
template <class Model>
[[nodiscard]] model_summary summary(const symbol_extents& symbols = {}) {
  return detail::summarized(Model::body, Model::input_types, symbols.list());
}

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/expr/summary.ipp>
#endif
