// SPDX-License-Identifier: MIT
// What a model's symbols are worth, from the constructor and from how much is bound to its inputs.
#pragma once
#include <meganeura/core/dim.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/shape.hpp>
#include <meganeura/expr/symbol_extents.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// An input whose shape says what symbols are worth, once it is known how much is bound to it: {"x", dims<batch, 784>}.
struct sized_input {
  std::string name;
  symbolic_shape extents;
};

/// How many elements are bound to an input.
struct bound_elements {
  std::string_view name;
  std::int64_t elements;
};

/// The symbols of a model, some of them fixed, and the inputs that tell the others.
class open_sizes {
 public:
  open_sizes() = default;
  /// errors: invalid_argument for a fixed symbol that is not one of `symbols`, bound twice or to less than 1.
  open_sizes(std::vector<std::string> symbols, std::vector<sized_input> inputs, const symbol_extents& fixed);
  /// Of the symbols that these inputs have: open_sizes({{"x", dims<sym<"batch">, 784>}}).
  explicit open_sizes(std::vector<sized_input> inputs, const symbol_extents& fixed = {});

  /// Whether some symbol is not fixed.
  [[nodiscard]] bool any() const;

  /// What each symbol is worth. An input of which all symbols but one are known says that one; `more` says others.
  /// errors: invalid_argument for a symbol that stays unknown, with what to bind; for an input bound to a number of
  /// elements that no extent gives, or another one than the other inputs say; for `more` that is no symbol, is fixed to
  /// another number, given twice or below 1. `memory`: what the result may take the place of, instead of allocating.
  [[nodiscard]] std::vector<std::int64_t> solved(std::span<const bound_elements> bound, const symbol_extents& more = {},
                                                 std::vector<std::int64_t> memory = {}) const;
  /// The same with their names.
  [[nodiscard]] symbol_extents named(std::span<const std::int64_t> extents) const;
  /// errors: invalid_argument when an input of that name is declared, and not with the extents of `made`.
  void check_made(std::string_view input, const shape& made, std::span<const std::int64_t> extents) const;

 private:
  void set(std::vector<std::int64_t>& extents, const symbol_extents& given) const;
  [[nodiscard]] double elements(const symbolic_shape& of, std::span<const std::int64_t> extents) const;
  [[nodiscard]] std::size_t index_of(std::string_view symbol) const;
  [[nodiscard]] std::size_t only_unknown(const symbolic_shape& of, std::span<const std::int64_t> extents) const;
  void learn(const sized_input& from, std::int64_t elements, std::size_t unknown,
             std::vector<std::int64_t>& extents) const;
  void check(const sized_input& input, std::int64_t elements, std::span<const std::int64_t> extents) const;
  [[noreturn]] void refuse_unknown(std::span<const bound_elements> bound, std::span<const std::int64_t> extents) const;

  std::vector<std::string> symbols_;
  std::vector<sized_input> inputs_;
  std::vector<std::int64_t> fixed_;  // 0: open
};

/// errors: invalid_argument for a binding of what is none of these symbols (the nearest one is suggested), below 1, and
/// for a symbol bound twice.
void check_bindings(std::span<const std::string> symbols, std::span<const symbol_extent> bindings);

namespace detail {
// Adds the symbols of these extents that are not among them.
void add_symbols(const symbolic_shape& extents, std::vector<std::string>& names);
// errors: invalid_argument for less than 1.
[[nodiscard]] std::int64_t checked_extent(const symbol_extent& given);
}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/expr/open_sizes.ipp>
#endif
