// SPDX-License-Identifier: MIT
// Checks of bound values.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/float_conversion.hpp>
#include <meganeura/core/float_format.hpp>
#include <meganeura/runtime/checks.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <numeric>

namespace meganeura::inline MEGANEURA_ABI::detail {

MEGANEURA_INLINE std::string place_of(std::string_view name, const shape& extents, std::size_t element) {
  if (extents.rank() == 0) return std::string(name);
  std::vector<std::int64_t> index;
  for (int i = 0; i < extents.rank(); ++i) {
    index.push_back(static_cast<std::int64_t>(element) / extents.stride(i) % extents[i]);
  }
  return fmt::format("{}[{}]", name, fmt::join(index, ", "));
}

// Where the elements of a node are read from, through views: an input and a place in it each; no_id if it is computed.
struct input_places {
  node_id input = no_id;
  std::vector<std::int64_t> places{};

  input_places(const graph& g, node_id id) : places(static_cast<std::size_t>(g[id].extents.elements())) {
    std::iota(places.begin(), places.end(), std::int64_t{0});
    for (; g[id].kind == op::view || g[id].kind == op::stop_gradient; id = g.operand(id, 0)) {
      if (g[id].kind == op::view) look_through(g.get<view_attribute>(id), g[id].extents);
    }
    if (g[id].kind == op::input) input = id;
  }

 private:
  void look_through(const view_attribute& view, const shape& extents) {
    for (std::int64_t& place : places) {
      std::int64_t at = view.offset;
      for (int i = 0; i < extents.rank(); ++i) at += view.strides[i] * (place / extents.stride(i) % extents[i]);
      place = at;
    }
  }
};

// Decided once for the whole program, before main. A function or variable that read NDEBUG itself would be another one
// in each translation unit, which the one-definition rule forbids; the note below is each unit's own.
inline std::atomic<bool> any_unit_checks{false};
#ifndef NDEBUG
namespace {
[[maybe_unused]] const bool this_unit_checks = any_unit_checks = true;
}
#endif

MEGANEURA_INLINE checks resolved(checks chosen) {
  if (chosen != checks::automatic) return chosen;
  return any_unit_checks ? checks::all : checks::none;
}

MEGANEURA_INLINE std::vector<index_check> index_checks(const graph& g) {
  std::vector<index_check> result;
  for (const index_range& range : g.index_ranges()) {
    const input_places from(g, range.indices);
    if (from.input == no_id) continue;
    const auto elements = static_cast<std::size_t>(g[from.input].extents.elements());
    index_check check{g.get<leaf_attribute>(from.input).name, range.count, range.ignored, range.rule,
                      std::vector<bool>(elements)};
    for (const std::int64_t place : from.places) check.read[static_cast<std::size_t>(place)] = true;
    if (range.counts != no_id) {
      const input_places rows(g, range.counts);
      if (rows.input == no_id) continue;  // nobody knows which are read
      check.counts = g.get<leaf_attribute>(rows.input).name;
      check.conditions.resize(elements);
      const std::size_t width = from.places.size() / rows.places.size();
      for (std::size_t i = 0; i < from.places.size(); ++i) {
        check.conditions[static_cast<std::size_t>(from.places[i])] = {rows.places[i / width],
                                                                      static_cast<std::int64_t>(i % width)};
      }
    }
    result.push_back(std::move(check));
  }
  return result;
}

inline std::int32_t number_at(std::span<const std::byte> values, std::size_t element) {
  std::int32_t value = 0;
  std::memcpy(&value, values.data() + element * sizeof(value), sizeof(value));
  return value;
}

MEGANEURA_INLINE void check_indices(std::string_view step, const index_check& check, const shape& extents,
                                    std::span<const std::byte> values, std::span<const std::byte> counts) {
  const auto is_read = [&](std::size_t i) {
    if (check.conditions.empty() || !check.read[i]) return bool{check.read[i]};
    const auto& [element, above] = check.conditions[i];
    return number_at(counts, static_cast<std::size_t>(element)) > above;
  };
  for (std::size_t i = 0; i < check.read.size(); ++i) {
    const std::int32_t value = number_at(values, i);
    const bool fits = (value >= 0 && value < check.count) || (check.ignored && value == *check.ignored);
    if (fits || !is_read(i)) continue;
    const bool leaves_out = check.ignored && (*check.ignored < 0 || *check.ignored >= check.count);
    fail(error_category::invalid_argument, "{}{} = {}: {}; it must be 0 to {}{}", step,
         place_of(check.input, extents, i), value, check.rule, check.count - 1,
         leaves_out ? fmt::format(", or {} to be left out", *check.ignored) : "");
  }
}

// The first of the words that is not below `limit` under the mask; their number if all are. By blocks, whose greatest
// a compiler finds with vectors.
template <class Word>
std::size_t first_at_least(std::span<const std::byte> values, Word mask, Word limit) {
  constexpr std::size_t block = 256;
  const std::size_t count = values.size() / sizeof(Word);
  const auto word = [&](std::size_t i) {
    Word bits{};
    std::memcpy(&bits, values.data() + i * sizeof(Word), sizeof(Word));
    return static_cast<Word>(bits & mask);
  };
  std::size_t at = 0;
  for (; at + block <= count; at += block) {
    Word greatest = 0;
    for (std::size_t i = 0; i < block; ++i) greatest = std::max(greatest, word(at + i));
    if (greatest >= limit) break;
  }
  while (at < count && word(at) < limit) ++at;
  return at;
}

// By bits, not std::isfinite: that holds for everything under -ffast-math.
MEGANEURA_INLINE void check_finite(std::string_view step, std::string_view input, dtype stored, const shape& extents,
                                   dtype given, std::span<const std::byte> values) {
  if (!is_float(stored)) return;
  const float_format format(given);
  const std::uint32_t limit = format.encode(static_cast<float>(overflow(stored)));  // what is stored as an infinity
  with_float(given, [&]<dtype Given>() {
    using word = word_of<Given>;
    const std::size_t at =
        first_at_least<word>(values, static_cast<word>(format.magnitude(~0u)), static_cast<word>(limit));
    if (at == values.size() / sizeof(word)) return;
    word bits{};
    std::memcpy(&bits, values.data() + at * sizeof(word), sizeof(word));
    const bool is_number = format.magnitude(bits) < format.infinity();
    fail(error_category::invalid_argument,
         "{}{} = {}: inputs must be finite{}; mend the data, or leave out checks::finite", step,
         place_of(input, extents, at),
         is_number                                     ? fmt::format("{}", format.decode(bits))
         : format.magnitude(bits) != format.infinity() ? "NaN"
         : format.decode(bits) < 0                     ? "-infinity"
                                                       : "infinity",
         is_number ? fmt::format(", and in {} this is infinity", to_string(stored)) : "");
  });
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
