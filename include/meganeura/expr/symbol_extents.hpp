// SPDX-License-Identifier: MIT
// What a model's symbols are worth, from whatever lists them.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/dim.hpp>
#include <meganeura/core/error.hpp>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

template <class T>
concept symbol_pair = requires(const T& pair) {
  { std::get<0>(pair) } -> std::convertible_to<std::string_view>;
  requires std::integral<std::remove_cvref_t<decltype(std::get<1>(pair))>>;
};

template <class T>
concept symbol_list = requires(const T& list) {
  requires std::same_as<std::iter_value_t<decltype(std::begin(list))>, symbol_extent> ||
      symbol_pair<std::iter_value_t<decltype(std::begin(list))>>;
};

}  // namespace detail

/// Names with extents: {{"batch", 32}}, bindings, or any range of pairs (a std::map, a vector read from a file). Names
/// are copied. What is wrong with a binding is said by the graph that it binds. errors: invalid_argument for a name
/// with a zero byte, which no symbol has.
class symbol_extents {
 public:
  symbol_extents(
      std::initializer_list<symbol_extent> pairs)  // NOLINT(google-explicit-constructor): written as what it is
      : symbol_extents(std::span(pairs.begin(), pairs.size())) {}
  template <detail::symbol_list Pairs>
  symbol_extents(const Pairs& pairs) try {  // NOLINT(google-explicit-constructor)
    for (const auto& each : pairs) {
      if constexpr (std::same_as<std::remove_cvref_t<decltype(each)>, symbol_extent>)
        add(each.symbol, each.extent);
      else
        add(std::get<0>(each), static_cast<std::int64_t>(std::get<1>(each)));
    }
  } catch (...) {
    rethrow_as_error("binding symbols");
  }

  [[nodiscard]] std::span<const symbol_extent> list() const { return list_; }
  /// errors: invalid_argument for a symbol that is not among them.
  [[nodiscard]] std::int64_t operator[](std::string_view name) const;

 private:
  void add(std::string_view name, std::int64_t extent);
  std::vector<std::shared_ptr<const std::string>> names_;  // shared by copies, so that no name moves
  std::vector<symbol_extent> list_;
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/expr/symbol_extents.ipp>
#endif
