// SPDX-License-Identifier: MIT
// Several values with names: what a forward function returns, and what a run gives.
#pragma once
#include <meganeura/core/fixed_string.hpp>
#include <meganeura/core/utility.hpp>

#include <cstddef>
#include <type_traits>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

/// Names in an order; a compiler's message lists them.
template <fixed_string... Names>
struct name_list {
  static constexpr int size = sizeof...(Names);
  static constexpr const symbol* symbols[size + 1]{&symbol_of<Names>...};

  /// -1 for a name that is none of them.
  [[nodiscard]] static constexpr int index_of(const char* name) {
    for (int i = 0; i < size; ++i) {
      if (texts_equal(symbols[i]->text, name)) return i;
    }
    return -1;
  }
  [[nodiscard]] static constexpr bool differ() {
    for (int i = 0; i < size; ++i) {
      if (index_of(symbols[i]->text) != i) return false;
    }
    return true;
  }
};

template <fixed_string Name, class Names>
inline constexpr bool is_one_of = Names::index_of(Name.text) >= 0;

// Names as both compilers show them in a message: Clang 14 prints a fixed_string as numbers.
template <char... Text>
struct spelled {};
template <fixed_string Text, std::size_t... I>
spelled<Text.text[I]...> spell(std::index_sequence<I...>);
template <fixed_string Text>
using spelling = decltype(spell<Text>(std::make_index_sequence<sizeof(Text.text) - 1>{}));
template <class... Spelled>
struct spelled_list {};
template <fixed_string... Names>
spelled_list<spelling<Names>...> spell_all(name_list<Names...>);
template <class Names>
using spellings = decltype(spell_all(Names{}));

// For a static_assert: the message shows what was asked for and what there is.
template <class Asked, class Existing, bool Found>
inline constexpr bool is_known = Found;

template <std::size_t Index, class T>
struct result_holder {
  T value;
};
template <std::size_t Index, class T>
constexpr const T& held(const result_holder<Index, T>& holder) {
  return holder.value;
}
template <std::size_t Index, class T>
constexpr T& held(result_holder<Index, T>& holder) {
  return holder.value;
}

template <class Indices, class... T>
struct result_holders;
template <std::size_t... Indices, class... T>
struct result_holders<std::index_sequence<Indices...>, T...> : result_holder<Indices, T>... {};

}  // namespace detail

/// Values by position and by name: `auto [logits, hidden] = r;` and `r.get<"logits">()`. `Names` is a list of names.
template <class Names, class... T>
class result_list {
 public:
  constexpr result_list() = default;
  constexpr explicit result_list(T... values) : held_{{std::move(values)}...} {}

  template <std::size_t Index>
  [[nodiscard]] constexpr const auto& get() const& {
    return detail::held<Index>(held_);
  }
  template <std::size_t Index>
  [[nodiscard]] constexpr auto& get() & {
    return detail::held<Index>(held_);
  }
  template <std::size_t Index>
  [[nodiscard]] constexpr auto get() && {
    return std::move(detail::held<Index>(held_));
  }
  /// errors: "there is no result of that name".
  template <fixed_string Name>
  [[nodiscard]] constexpr const auto& get() const& {
    return get<place<Name>()>();
  }
  template <fixed_string Name>
  [[nodiscard]] constexpr auto get() && {
    return std::move(*this).template get<place<Name>()>();
  }

 private:
  template <fixed_string Name>
  static constexpr std::size_t place() {
    static_assert(detail::is_known<detail::spelling<Name>, detail::spellings<Names>, detail::is_one_of<Name, Names>>,
                  "meganeura: get<name>(): there is no result of that name; the compiler lists those there are");
    return detail::is_one_of<Name, Names> ? static_cast<std::size_t>(Names::index_of(Name.text)) : 0;
  }

  detail::result_holders<std::make_index_sequence<sizeof...(T)>, T...> held_;
};

}  // namespace meganeura::inline MEGANEURA_ABI

template <class Names, class... T>
struct std::tuple_size<meganeura::result_list<Names, T...>> : std::integral_constant<std::size_t, sizeof...(T)> {};
template <std::size_t Index, class Names, class... T>
struct std::tuple_element<Index, meganeura::result_list<Names, T...>> {
  using type =
      std::remove_cvref_t<decltype(std::declval<const meganeura::result_list<Names, T...>&>().template get<Index>())>;
};
