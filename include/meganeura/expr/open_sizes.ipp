// SPDX-License-Identifier: MIT
// Solving for symbols.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/nearest.hpp>
#include <meganeura/core/shape.hpp>
#include <meganeura/expr/open_sizes.hpp>
#include <meganeura/expr/value.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

MEGANEURA_INLINE void add_symbols(const symbolic_shape& extents, std::vector<std::string>& names) {
  for (int i = 0; i < extents.rank; ++i) {
    for (const symbol* name : extents[i].names) {
      if (name && std::ranges::find(names, name->text) == names.end()) names.emplace_back(name->text);
    }
  }
}

inline std::vector<std::string> input_symbols(std::span<const sized_input> inputs) {
  std::vector<std::string> names;
  for (const sized_input& input : inputs) add_symbols(input.extents, names);
  return names;
}

MEGANEURA_INLINE std::int64_t checked_extent(const symbol_extent& given) {
  if (given.extent >= 1) return given.extent;
  fail(error_category::invalid_argument, "the symbol {} is bound to {}; an extent is at least 1", quote(given.symbol),
       given.extent);
}

inline const bound_elements* find(std::span<const bound_elements> bound, std::string_view name) {
  const auto found = std::ranges::find(bound, name, &bound_elements::name);
  return found == bound.end() ? nullptr : &*found;
}

}  // namespace detail

MEGANEURA_INLINE void check_bindings(std::span<const std::string> symbols, std::span<const symbol_extent> bindings) {
  for (const symbol_extent& each : bindings) {
    if (!each.symbol) fail(error_category::invalid_argument, "{} is bound to a symbol without a name", each.extent);
    if (std::ranges::find(symbols, each.symbol) == symbols.end()) {
      fail(error_category::invalid_argument, "\"{}\" is bound to {}, but no symbol of the model: {}{}", each.symbol,
           each.extent, symbols.empty() ? "it has none" : fmt::format("it has \"{}\"", fmt::join(symbols, "\", \"")),
           detail::did_you_mean(detail::nearest(each.symbol, {symbols.begin(), symbols.end()})));
    }
    for (const symbol_extent& other : bindings) {
      if (&other == &each || std::string_view(other.symbol) != each.symbol) continue;
      fail(error_category::invalid_argument, "the symbol \"{}\" is bound twice, to {} and to {}; bind it once",
           each.symbol, each.extent, other.extent);
    }
    (void)detail::checked_extent(each);
  }
}

MEGANEURA_INLINE open_sizes::open_sizes(std::vector<std::string> symbols, std::vector<sized_input> inputs,
                                        const symbol_extents& fixed) try
    : symbols_(std::move(symbols)), inputs_(std::move(inputs)), fixed_(symbols_.size()) {
  set(fixed_, fixed);
} catch (...) {
  rethrow_as_error("fixing symbols");
}

MEGANEURA_INLINE open_sizes::open_sizes(std::vector<sized_input> inputs, const symbol_extents& fixed)
    : open_sizes(detail::input_symbols(inputs), inputs, fixed) {}

MEGANEURA_INLINE bool open_sizes::any() const { return std::ranges::count(fixed_, 0) > 0; }

MEGANEURA_INLINE std::size_t open_sizes::index_of(std::string_view symbol) const {
  return static_cast<std::size_t>(std::ranges::find(symbols_, symbol) - symbols_.begin());
}

MEGANEURA_INLINE void open_sizes::set(std::vector<std::int64_t>& extents, const symbol_extents& given) const {
  check_bindings(symbols_, given.list());
  for (const symbol_extent& each : given.list()) {
    std::int64_t& extent = extents[index_of(each.symbol)];
    if (extent != 0 && extent != each.extent) {
      fail(error_category::invalid_argument,
           "the symbol \"{}\" is bound to {}, and the constructor fixed it to {}; leave it open there", each.symbol,
           each.extent, extent);
    }
    extent = each.extent;
  }
}

// Exact for as many as can be bound; none where an extent is below 1.
MEGANEURA_INLINE double open_sizes::elements(const symbolic_shape& of, std::span<const std::int64_t> extents) const {
  double product = 1;
  for (int i = 0; i < of.rank; ++i) {
    product *= std::max(
        of[i].value<double>([&](const symbol& name) { return static_cast<double>(extents[index_of(name.text)]); }),
        0.0);
  }
  return product;
}

// symbols_.size() unless there is exactly one.
MEGANEURA_INLINE std::size_t open_sizes::only_unknown(const symbolic_shape& of,
                                                      std::span<const std::int64_t> extents) const {
  std::size_t found = symbols_.size();
  for (int i = 0; i < of.rank; ++i) {
    for (const symbol* name : of[i].names) {
      const std::size_t index = name ? index_of(name->text) : found;
      if (index == found || extents[index] != 0) continue;
      if (found != symbols_.size()) return symbols_.size();
      found = index;
    }
  }
  return found;
}

// The number of elements grows with the extent: its first guess is that of a proportion, which it mostly is.
MEGANEURA_INLINE void open_sizes::learn(const sized_input& from, std::int64_t wanted, std::size_t unknown,
                                        std::vector<std::int64_t>& extents) const {
  std::int64_t& extent = extents[unknown];
  const auto goal = static_cast<double>(wanted);
  const auto with = [&](std::int64_t candidate) {
    extent = candidate;
    return elements(from.extents, extents);
  };
  const double most = static_cast<double>(shape::max_elements), guess = goal / std::max(with(1), 1.0);
  if (with(static_cast<std::int64_t>(std::clamp(guess, 1.0, most))) == goal) return;
  std::int64_t low = 1, high = 1;
  while (high < shape::max_elements && with(high) < goal) high *= 2;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (with(middle) < goal)
      low = middle + 1;
    else
      high = middle;
  }
  if (with(low) == goal) return;
  fail(error_category::invalid_argument, "input {} is {} and was given {} elements, which no extent of \"{}\" makes",
       quote(from.name), detail::shown(from.extents), wanted, symbols_[unknown]);
}

MEGANEURA_INLINE void open_sizes::check(const sized_input& input, std::int64_t given,
                                        std::span<const std::int64_t> extents) const {
  const double wanted = elements(input.extents, extents);
  if (wanted == static_cast<double>(given)) return;
  std::vector<std::string> known;
  for (const std::string& symbol : detail::input_symbols({&input, 1}))
    known.push_back(fmt::format("{} = {}", symbol, extents[index_of(symbol)]));
  fail(error_category::invalid_argument, "input {} is {} and was given {} elements; {}it has {}", quote(input.name),
       detail::shown(input.extents), given, known.empty() ? "" : fmt::format("with {} ", fmt::join(known, " and ")),
       wanted);
}

MEGANEURA_INLINE void open_sizes::check_made(std::string_view input, const shape& made,
                                             std::span<const std::int64_t> extents) const {
  const auto declared = std::ranges::find(inputs_, input, &sized_input::name);
  if (declared == inputs_.end()) return;
  const auto worth = [&](const symbol& name) { return extents[index_of(name.text)]; };
  shape expected;
  for (int i = 0; i < declared->extents.rank; ++i) {
    expected.push_back(declared->extents[i].value<std::int64_t>(worth));
  }
  if (made == expected) return;
  fail(
      error_category::invalid_argument,
      "input {} is declared {}, which is {}, and the graph that was made for these sizes has it as {}; make them alike",
      quote(input), detail::shown(declared->extents), to_string(expected), to_string(made));
}

MEGANEURA_INLINE void open_sizes::refuse_unknown(std::span<const bound_elements> bound,
                                                 std::span<const std::int64_t> extents) const {
  std::vector<std::string> unknown, inputs, absent, strange;
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    if (extents[i] == 0) unknown.push_back('"' + symbols_[i] + '"');
  }
  for (const sized_input& input : inputs_) {
    if (std::ranges::none_of(detail::input_symbols({&input, 1}),
                             [&](const auto& s) { return extents[index_of(s)] == 0; }))
      continue;
    const bound_elements* given = detail::find(bound, input.name);
    inputs.push_back(fmt::format("input {} {} was {}", quote(input.name), detail::shown(input.extents),
                                 given ? fmt::format("given {} elements", given->elements) : "not bound"));
    if (!given) absent.push_back(quote(input.name));
  }
  for (const bound_elements& each : bound) {
    if (std::ranges::find(inputs_, each.name, &sized_input::name) == inputs_.end()) strange.push_back(quote(each.name));
  }
  const std::string first = absent.empty() ? "" : absent.front() + ", which says it, or ";
  fail(error_category::invalid_argument,
       "what {} {} worth is not known: {}{}; bind {}{} by its name, bind<{}>(n) or {{{}, n}}",
       fmt::join(unknown, " and "), unknown.size() == 1 ? "is" : "are",
       inputs.empty() ? "no input has it in its shape" : fmt::to_string(fmt::join(inputs, ", ")),
       strange.empty() || absent.empty() ? "" : fmt::format(", but {} was", fmt::join(strange, ", ")), first,
       !first.empty()       ? unknown.back()
       : unknown.size() > 2 ? "all but one of them"
                            : "one of them",
       unknown.back(), unknown.back());
}

MEGANEURA_INLINE std::vector<std::int64_t> open_sizes::solved(std::span<const bound_elements> bound,
                                                              const symbol_extents& more,
                                                              std::vector<std::int64_t> memory) const try {
  std::vector<std::int64_t> extents = std::move(memory);
  extents = fixed_;
  set(extents, more);
  if (!any()) return extents;  // whatever is bound has one size, which the program knows
  for (bool learnt = any(); learnt;) {
    learnt = false;
    for (const sized_input& input : inputs_) {
      const bound_elements* given = detail::find(bound, input.name);
      const std::size_t unknown = given ? only_unknown(input.extents, extents) : symbols_.size();
      if (unknown == symbols_.size()) continue;
      learn(input, given->elements, unknown, extents);
      learnt = true;
    }
  }
  if (std::ranges::count(extents, 0) > 0) refuse_unknown(bound, extents);
  for (const sized_input& input : inputs_) {
    const bound_elements* given = detail::find(bound, input.name);
    if (given) check(input, given->elements, extents);
  }
  return extents;
} catch (...) {
  rethrow_as_error("finding out sizes");
}

MEGANEURA_INLINE symbol_extents open_sizes::named(std::span<const std::int64_t> extents) const {
  std::vector<symbol_extent> list;
  for (std::size_t i = 0; i < symbols_.size(); ++i) list.push_back({symbols_[i].c_str(), extents[i]});
  return list;
}

}  // namespace meganeura::inline MEGANEURA_ABI
