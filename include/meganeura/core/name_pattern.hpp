// SPDX-License-Identifier: MIT
// Names by pattern: which ones are meant, and what they are called elsewhere.
#pragma once
#include <meganeura/config.hpp>

#include <algorithm>
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
inline std::optional<std::vector<std::string_view>> matched(std::string_view pattern, std::string_view name) {
  std::vector<std::string_view> stars;
  std::size_t p = 0, n = 0, after_star = 0;
  while (p < pattern.size() || n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      stars.push_back(name.substr(n, 0));
      after_star = ++p;
    } else if (p < pattern.size() && n < name.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else {  // the last star takes one more
      if (stars.empty()) return {};
      const auto begin = static_cast<std::size_t>(stars.back().data() - name.data());
      n = begin + stars.back().size() + 1;
      if (n > name.size()) return {};
      stars.back() = name.substr(begin, n - begin);
      p = after_star;
    }
  }
  return stars;
}

}  // namespace detail

/// Names: "embed.weight", or {"*.bias", "*norm*"}, where each '*' stands for any text, dots and nothing among it.
class name_patterns {
 public:
  name_patterns() = default;
  name_patterns(const char* one) : list_{one} {}  // NOLINT(google-explicit-constructor): written as what it is
  name_patterns(std::string one) : list_{std::move(one)} {}  // NOLINT(google-explicit-constructor)
  name_patterns(std::initializer_list<std::string_view> all) : list_(all.begin(), all.end()) {}

  [[nodiscard]] bool match(std::string_view name) const {
    return std::ranges::any_of(list_, [&](const std::string& each) { return detail::matched(each, name).has_value(); });
  }
  [[nodiscard]] auto begin() const { return list_.begin(); }
  [[nodiscard]] auto end() const { return list_.end(); }

 private:
  std::vector<std::string> list_;
};

/// What a model calls "layers.3.weight" another one calls "blocks.3.w": {"layers.*.weight", "blocks.*.w"}. Both texts
/// have as many '*'. They are not copied.
struct name_rule {
  std::string_view here, there;
};

/// Rules in the order in which they are tried.
class name_map {
 public:
  name_map() = default;
  name_map(std::initializer_list<name_rule> rules) : rules_(rules) {}
  template <std::size_t N>
  name_map(const name_rule (&rules)[N]) : rules_(rules, rules + N) {}  // NOLINT(google-explicit-constructor)

  /// What `name` may be called there: as each rule has it, and at last as it is.
  [[nodiscard]] std::vector<std::string> candidates(std::string_view name) const {
    std::vector<std::string> all;
    for (const name_rule& rule : rules_) {
      const auto stars = detail::matched(rule.here, name);
      if (!stars) continue;
      all.emplace_back();
      std::size_t next = 0;
      for (const char character : rule.there) {
        if (character != '*') {
          all.back() += character;
        } else if (next < stars->size()) {
          all.back() += (*stars)[next++];
        }
      }
    }
    all.emplace_back(name);
    return all;
  }

 private:
  std::vector<name_rule> rules_;
};

/// Layers here have the names that torch.nn's have; around them it puts the names of its wrappers, and norms of old
/// checkpoints have other ones.
inline constexpr name_rule from_torch[] = {{"*", "module.*"},           {"*", "_orig_mod.*"},
                                           {"*", "_orig_mod.module.*"}, {"*", "module._orig_mod.*"},
                                           {"*weight", "*gamma"},       {"*bias", "*beta"}};

}  // namespace meganeura::inline MEGANEURA_ABI
