// SPDX-License-Identifier: MIT
// Hashing and printing of attributes.
#pragma once
#include <meganeura/core/hash.hpp>
#include <meganeura/graph/attribute.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <ranges>
#include <string>
#include <type_traits>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE std::string to_string(product_arithmetic value) {
  constexpr const char* names[] = {"fma", "split", "rounded", "half"};
  return names[static_cast<int>(value)];
}

MEGANEURA_INLINE std::string to_string(const attention_schedule& value) {
  const std::string name = to_string(value.arithmetic);
  if (!value.is_on_units()) return name;
  return fmt::format("{} {} subgroups parts {} keys {}{}", name, value.subgroups, value.parts, value.keys,
                     value.prepared ? " prepared" : "");
}

MEGANEURA_INLINE std::string to_string(attention_form value) {
  constexpr const char* names[] = {"output", "query_gradient", "key_gradients"};
  return value <= attention_form::key_gradients ? names[static_cast<std::size_t>(value)] : "unknown form";
}

MEGANEURA_INLINE std::span<const further_result> further_results(const attribute& value) {
  if (const auto* region = std::get_if<region_attribute>(&value)) return region->further;
  if (const auto* product = std::get_if<matmul_attribute>(&value)) return product->further;
  if (const auto* rows = std::get_if<attention_attribute>(&value)) return rows->further;
  return {};
}

MEGANEURA_INLINE std::string to_string(const product_schedule& value) {
  const std::string name = to_string(value.arithmetic);
  if (!value.is_on_units() || value.tile_m == 0) return name;
  const auto more = [](const char* what, std::uint32_t count) {
    return count > 1 ? fmt::format(" {} {}", what, count) : std::string();
  };
  return fmt::format("{} {}x{}x{} {}x{}{}{}{}{}", name, value.tile_m, value.tile_n, value.tile_k, value.subgroup_m,
                     value.subgroup_n, more("slices", value.slices), more("depth", value.depth),
                     more("parts", value.parts),
                     more(value.places == place_axes::terms ? "for taps" : "taps", value.taps));
}

namespace detail {

class attribute_hasher {
 public:
  explicit attribute_hasher(std::uint64_t seed) : hash_(seed) {}
  [[nodiscard]] std::uint64_t result() const { return hash_; }

  template <class Value>
  void add(const Value& value) {
    if constexpr (requires { Value::each(value, [](const char*, const auto&) {}); }) {
      Value::each(value, [this](const char*, const auto& member) { this->add(member); });
    } else if constexpr (requires { value.hash(); }) {
      word(value.hash());
    } else if constexpr (std::is_same_v<Value, std::string>) {
      hash_ = hash_string(value, hash_);
    } else if constexpr (std::is_same_v<Value, double>) {
      word(std::bit_cast<std::uint64_t>(value));
    } else if constexpr (std::is_array_v<Value>) {
      std::size_t count = std::size(value);  // strides and the like end in zeros
      while (count > 0 && value[count - 1] == 0) --count;
      for (std::size_t i = 0; i < count; ++i) add(value[i]);
      word(count);
    } else if constexpr (std::ranges::range<Value>) {
      std::uint64_t count = 0;
      for (const auto& element : value) add(element), ++count;
      word(count);
    } else {
      word(static_cast<std::uint64_t>(value));
    }
  }

 private:
  void word(std::uint64_t value) { hash_ = hash_combine(hash_, value); }
  std::uint64_t hash_;
};

// The first `count` values: what is refused is printed too, whatever its count says.
template <class Integer, std::size_t N>
std::string list(const Integer (&values)[N], int count) {
  return fmt::format("{}", fmt::join(values, values + std::clamp(count, 0, static_cast<int>(N)), ","));
}

inline int used_rank(const std::int64_t (&values)[max_rank]) {
  int rank = max_rank;
  while (rank > 0 && values[rank - 1] == 0) --rank;
  return rank;
}

struct attribute_printer {
  // Of which nothing else is said: "axis=1", with lists as they are.
  template <class Attribute>
  std::string operator()(const Attribute& a) const {
    std::string text;
    Attribute::each(a, [&](const char* name, const auto& member) {
      using type = std::remove_cvref_t<decltype(member)>;
      text += fmt::format("{}{}=", text.empty() ? "" : " ", name);
      if constexpr (std::is_array_v<type>) {
        text += list(member, static_cast<int>(std::size(member)));
      } else if constexpr (requires { to_string(member); }) {
        text += to_string(member);
      } else if constexpr (requires { type::each(member, [](const char*, const auto&) {}); }) {
        text += '(' + (*this)(member) + ')';
      } else if constexpr (std::is_enum_v<type>) {
        text += fmt::format("{}", static_cast<int>(member));
      } else {
        text += fmt::format("{}", member);
      }
    });
    return text;
  }
  std::string operator()(const epilogue& a) const { return to_string(a.program); }
  std::string operator()(const leaf_attribute& a) const { return fmt::format("\"{}\"", a.name); }
  std::string operator()(const constant_attribute& a) const { return fmt::format("{}", a.value); }
  std::string operator()(const random_attribute& a) const {
    return fmt::format("\"{}\" {}", a.stream, to_string(a.distribution));
  }
  std::string operator()(const map_attribute& a) const { return to_string(a.program); }
  std::string operator()(const reduce_attribute& a) const {
    std::string axes;
    for (int i = 0; i < max_rank; ++i) {
      if (a.axes >> i & 1) axes += fmt::format("{}{}", axes.empty() ? "" : ",", i);
    }
    return fmt::format("{} axes={{{}}}", info(a.kind).name, axes);
  }
  std::string operator()(const view_attribute& a) const {
    return fmt::format("offset={} strides=[{}]", a.offset, list(a.strides, used_rank(a.strides)));
  }
  std::string operator()(const pad_attribute& a) const {
    return fmt::format("low=[{}] high=[{}] value={}", list(a.low, used_rank(a.low)), list(a.high, used_rank(a.high)),
                       a.value);
  }
  std::string operator()(const scatter_attribute& a) const {
    return fmt::format("{} axis={}", info(a.kind).name, a.axis);
  }
  std::string operator()(const convolution_attribute& a) const {
    constexpr const char* forms[] = {"output", "input", "filter"};
    return fmt::format("{} stride=[{}] pad=[{}]+[{}] dilation=[{}] groups={}{}",
                       a.form <= convolution_attribute::filter ? forms[a.form] : "unknown form",
                       list(a.stride, a.spatial), list(a.pad_low, a.spatial), list(a.pad_high, a.spatial),
                       list(a.dilation, a.spatial), a.groups, a.per_image ? " per_image" : "");
  }
  std::string operator()(const window_attribute& a) const {
    return fmt::format("{} window=[{}] stride=[{}] pad=[{}]+[{}]", info(a.kind).name, list(a.window, a.spatial),
                       list(a.stride, a.spatial), list(a.pad_low, a.spatial), list(a.pad_high, a.spatial));
  }
  std::string operator()(const optimizer_attribute& a) const { return a.name; }
  static std::vector<scalar_ref> halves(const matmul_attribute& a) {
    return a.half_distance == 0 ? std::vector<scalar_ref>() : std::vector{a.half};
  }
  // results: behind the last node's.
  static std::string program_text(const scalar_program& program, std::span<const further_result> further,
                                  std::vector<scalar_ref> results = {}) {
    for (const further_result& each : further) results.push_back(each.value);
    if (!program.nodes.empty()) results.insert(results.begin(), static_cast<scalar_ref>(program.nodes.size() - 1));
    return to_string(program, results);
  }
  std::string operator()(const region_attribute& a) const {
    return fmt::format("space=[{}] rows={}{} {}", fmt::join(a.space, ","), a.row_axes, a.per_row ? " per_row" : "",
                       program_text(a.program, a.further));
  }
  std::string operator()(const matmul_attribute& a) const {
    const std::string schedule = a.schedule.is_on_units() ? " " + meganeura::to_string(a.schedule) : std::string();
    std::string start;
    if (!a.start.program.nodes.empty()) start += " of " + to_string(a.start.program);
    if (!a.start.statistic.nodes.empty()) start += " beside " + to_string(a.start.statistic);
    return fmt::format("{}space=[{}] b{}m{}n{}k{} {}{}{}{}{}", a.paired ? "pair " : "", fmt::join(a.space, ","),
                       a.batch_axes, a.m_axes, a.n_axes, a.k_axes, program_text(a.finish.program, a.further, halves(a)),
                       start, schedule, a.prepared ? " prepared" : "", a.border.is_empty() ? "" : " in a border");
  }
  std::string operator()(const attention_attribute& a) const {
    const std::string schedule = a.schedule.is_on_units() ? " " + meganeura::to_string(a.schedule) : std::string();
    const std::string form = a.form == attention_form::output ? std::string() : meganeura::to_string(a.form) + " ";
    const std::string sink = a.has_sink() ? " sink " + to_string(a.sink) : std::string();
    const std::string slope = a.slope.nodes.empty() ? std::string() : " slope " + to_string(a.slope);
    return fmt::format("{}space=[{}] b{}q{}c{}k{}w{} score {} weight {}{}{}{}{}", form, fmt::join(a.space, ","),
                       a.batch_axes, a.query_axes, a.channel_axes, a.key_axes, a.width_axes, to_string(a.score),
                       to_string(a.weight), sink, slope,
                       a.form == attention_form::output && !a.further.empty() ? " statistics" : "", schedule);
  }
  std::string operator()(const prepare_attribute& a) const {
    return fmt::format("space=[{}] rows={} terms {} of {}{}", fmt::join(a.space, ","), a.row_axes, a.terms, a.padded,
                       a.by_columns ? " by columns" : "");
  }
  template <class Attribute>
  std::string operator()(const implementation_of<Attribute>& a) const {
    return fmt::format("{} space=[{}] output={}+[{}] {}", (*this)(a.primitive), fmt::join(a.space, ","),
                       a.output.offset, list(a.output.strides, used_rank(a.output.strides)),
                       to_string(a.finish.program));
  }
};

}  // namespace detail

namespace detail {
// f(value) as the alternative `index` of the variant.
template <class Function, class... Kinds>
void visit_kind(const std::variant<Kinds...>*, std::size_t index, const void* value, const Function& f) {
  std::size_t at = 0;
  ((at++ == index ? f(*static_cast<const Kinds*>(value)) : void()), ...);
}
}  // namespace detail

template <class Function>
void attribute_ref::visit(Function&& f) const {
  detail::visit_kind(static_cast<const attribute*>(nullptr), index_, value_, f);
}

MEGANEURA_INLINE attribute_ref::attribute_ref(const attribute& value)
    : index_(value.index()),
      value_(std::visit([](const auto& kind) { return static_cast<const void*>(&kind); }, value)) {}

MEGANEURA_INLINE std::uint64_t attribute_ref::hash() const {
  detail::attribute_hasher hasher(index_);
  visit([&](const auto& kind) { hasher.add(kind); });
  return hasher.result();
}

MEGANEURA_INLINE attribute attribute_ref::copy() const {
  attribute made;
  visit([&](const auto& kind) { made = kind; });
  return made;
}

MEGANEURA_INLINE bool attribute_ref::equals(const attribute& other) const {
  bool equal = false;
  visit([&](const auto& kind) {
    const auto* same = std::get_if<std::remove_cvref_t<decltype(kind)>>(&other);
    equal = same && *same == kind;
  });
  return equal;
}

MEGANEURA_INLINE bool attribute_ref::refers_to(const attribute& other) const {
  return other.index() == index_ && std::visit([](const auto& kind) -> const void* { return &kind; }, other) == value_;
}

MEGANEURA_INLINE std::string to_string(const initializer& value) {
  if (value.zero_row >= 0) {
    initializer others = value;
    others.zero_row = -1;
    return fmt::format("{}, row {} zeros", to_string(others), value.zero_row);
  }
  constexpr const char* fans[] = {"", "fan_in", "fan_out", "mean fan"};
  const double wide = std::sqrt(value.square);
  const std::string fan = fans[static_cast<int>(value.fan)];
  switch (value.draw) {
    case initial_draw::none:
      break;
    case initial_draw::uniform:
      if (!fan.empty()) return fmt::format("uniform within sqrt({:.6g} / {})", value.square, fan);
      return fmt::format("uniform({:.6g}, {:.6g})", value.centre - wide, value.centre + wide);
    case initial_draw::normal:
      if (!fan.empty()) return fmt::format("normal of variance {:.6g} / {}", value.square, fan);
      return fmt::format("normal({:.6g}, {:.6g})", value.centre, wide);
    case initial_draw::orthogonal:
      return fmt::format("orthogonal({:.6g})", wide);
  }
  return fmt::format("constant({:.6g}){}", value.centre, value.saved ? "" : " of each run");
}

MEGANEURA_INLINE std::string to_string(const attribute& value) {
  return std::visit(detail::attribute_printer{}, value);
}

}  // namespace meganeura::inline MEGANEURA_ABI
