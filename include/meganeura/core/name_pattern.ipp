// SPDX-License-Identifier: MIT
// Matching of names.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/name_pattern.hpp>
#include <meganeura/core/quote.hpp>

#include <algorithm>
#include <span>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

MEGANEURA_INLINE std::optional<std::vector<std::string_view>> matched(std::string_view pattern, std::string_view name) {
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

MEGANEURA_INLINE name_patterns::name_patterns(std::initializer_list<std::string_view> all)
    : list_(all.begin(), all.end()) {}

MEGANEURA_INLINE bool name_patterns::match(std::string_view name) const {
  return std::ranges::any_of(list_, [&](const std::string& each) { return detail::matched(each, name).has_value(); });
}

MEGANEURA_INLINE name_map::name_map(const name_rule* begin, const name_rule* end) {
  for (const name_rule& rule : std::span(begin, end)) {
    rules_.push_back({std::string(rule.here), std::string(rule.there)});
    const auto here = std::ranges::count(rule.here, '*'), there = std::ranges::count(rule.there, '*');
    if (here == there) continue;
    fail(error_category::invalid_argument,
         "the rule {{{}, {}}} has {} '*' on one side and {} on the other; give both as many", quote(rule.here),
         quote(rule.there), here, there);
  }
}

MEGANEURA_INLINE bool name_map::says(std::string_view here, std::string_view there) const {
  return std::ranges::any_of(rules_, [&](const copied_rule& rule) {
    return rule.here == here && rule.there == there && here.find('*') == here.npos;
  });
}

MEGANEURA_INLINE std::vector<std::string_view> name_map::exact() const {
  std::vector<std::string_view> all;
  for (const copied_rule& rule : rules_) {
    if (rule.here.find('*') == rule.here.npos) all.emplace_back(rule.here);
  }
  return all;
}

MEGANEURA_INLINE std::vector<std::string> name_map::candidates(std::string_view name) const {
  std::vector<std::string> all;
  for (const copied_rule& rule : rules_) {
    const auto stars = detail::matched(rule.here, name);
    if (!stars) continue;
    all.emplace_back();
    std::size_t next = 0;
    for (const char character : rule.there) {
      if (character != '*') {
        all.back() += character;
      } else {
        all.back() += (*stars)[next++];
      }
    }
  }
  all.emplace_back(name);
  return all;
}

}  // namespace meganeura::inline MEGANEURA_ABI
