// SPDX-License-Identifier: MIT
// Names by pattern: which ones are meant, and what they are called elsewhere.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/name_rule.hpp>

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// What each '*' of the pattern stands for in the name, as little as it can; nothing where the name is another.
// cost: at most the product of both lengths.
std::optional<std::vector<std::string_view>> matched(std::string_view pattern, std::string_view name);

}  // namespace detail

/// Names: "embed.weight", or {"*.bias", "*norm*"}, where each '*' stands for any text, dots and nothing among it.
class name_patterns {
 public:
  name_patterns() = default;
  name_patterns(const char* one) : list_{one} {}  // NOLINT(google-explicit-constructor): written as what it is
  name_patterns(std::string one) : list_{std::move(one)} {}  // NOLINT(google-explicit-constructor)
  name_patterns(std::initializer_list<std::string_view> all);

  [[nodiscard]] bool match(std::string_view name) const;
  [[nodiscard]] auto begin() const { return list_.begin(); }
  [[nodiscard]] auto end() const { return list_.end(); }

 private:
  std::vector<std::string> list_;
};

/// Rules in the order in which they are tried; a name as it is comes last, or where a rule {"*", "*"} stands.
class name_map {
 public:
  name_map() = default;
  /// errors: invalid_argument for a rule whose texts have not as many '*'.
  name_map(std::initializer_list<name_rule> rules) : name_map(rules.begin(), rules.end()) {}
  template <std::size_t N>
  name_map(const name_rule (&rules)[N]) : name_map(rules, rules + N) {}  // NOLINT(google-explicit-constructor)

  /// What `name` may be called there: as each rule has it, and at last as it is.
  [[nodiscard]] std::vector<std::string> candidates(std::string_view name) const;
  /// Whether a rule without '*' says so.
  [[nodiscard]] bool says(std::string_view here, std::string_view there) const;
  /// What rules without '*' are for.
  [[nodiscard]] std::vector<std::string_view> exact() const;

 private:
  name_map(const name_rule* begin, const name_rule* end);
  struct copied_rule {
    std::string here, there;
  };
  std::vector<copied_rule> rules_;
};

/// Layers here have the names that torch.nn's have, and are looked for by these first; around them it puts the names of
/// its wrappers, norms of old checkpoints have other ones, and a file may have both.
inline constexpr name_rule from_torch[] = {{"*", "*"},
                                           {"*", "module.*"},
                                           {"*", "_orig_mod.*"},
                                           {"*", "_orig_mod.module.*"},
                                           {"*", "module._orig_mod.*"},
                                           {"*weight", "*gamma"},
                                           {"*bias", "*beta"},
                                           {"*weight", "module.*gamma"},
                                           {"*bias", "module.*beta"},
                                           {"*weight", "_orig_mod.*gamma"},
                                           {"*bias", "_orig_mod.*beta"},
                                           {"*weight", "_orig_mod.module.*gamma"},
                                           {"*bias", "_orig_mod.module.*beta"},
                                           {"*weight", "module._orig_mod.*gamma"},
                                           {"*bias", "module._orig_mod.*beta"}};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/core/name_pattern.ipp>
#endif
