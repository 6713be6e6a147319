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
#include <span>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

class attribute_hasher {
 public:
  explicit attribute_hasher(std::uint64_t seed) : hash_(seed) {}
  [[nodiscard]] std::uint64_t result() const { return hash_; }

  void operator()(const no_attribute&) {}
  void operator()(const leaf_attribute& a) { text(a.name); }
  void operator()(const constant_attribute& a) { word(a.value); }
  void operator()(const random_attribute& a) { text(a.stream), word(static_cast<std::uint64_t>(a.distribution)); }
  void operator()(const map_attribute& a) { word(a.program.hash()); }
  void operator()(const reduce_attribute& a) { word(a.kind), word(a.axes); }
  void operator()(const contract_attribute& a) { words(a.a), words(a.b), word(a.result_rank); }
  void operator()(const view_attribute& a) { word(a.offset), words(a.strides); }
  void operator()(const pad_attribute& a) { words(a.low), words(a.high), word(a.value); }
  void operator()(const axis_attribute& a) { word(a.axis); }
  void operator()(const convolution_attribute& a) {
    word(a.form), word(a.spatial), words(a.stride), words(a.pad_low), words(a.pad_high), words(a.dilation);
    word(a.groups);
  }
  void operator()(const window_attribute& a) {
    word(a.kind), word(a.spatial), words(a.window), words(a.stride), words(a.pad_low), words(a.pad_high);
  }
  void operator()(const optimizer_attribute& a) {
    text(a.name), word(a.program.hash());
    for (const std::string& moment : a.moments) text(moment);
    for (scalar_ref result : a.results) word(std::size_t{result});
  }
  void operator()(const index_map& a) {
    word(a.source), word(a.offset), words(a.strides), word(a.bounded), word(a.fill);
    if (a.bounded) words(a.low), words(a.high);
  }
  void operator()(const region_attribute& a) {
    space(a.space), word(a.row_axes), word(a.per_row), word(a.program.hash()), accesses(a.accesses), (*this)(a.output);
  }
  void operator()(const epilogue& a) { word(a.program.hash()), accesses(a.accesses); }
  void operator()(const matmul_attribute& a) {
    space(a.space), word(a.batch_axes), word(a.m_axes), word(a.n_axes), word(a.k_axes);
    (*this)(a.a), (*this)(a.b), (*this)(a.output), (*this)(a.finish);
  }
  void operator()(const convolve_attribute& a) {
    (*this)(a.convolution), space(a.space), (*this)(a.output), (*this)(a.finish);
  }

 private:
  void word(double value) { hash_ = hash_combine(hash_, std::bit_cast<std::uint64_t>(value)); }
  template <class Integer>
  void word(Integer value) {
    hash_ = hash_combine(hash_, static_cast<std::uint64_t>(value));
  }
  template <class Integer, std::size_t N>
  void words(const Integer (&values)[N]) {
    for (Integer value : values) word(value);
  }
  void text(const std::string& value) { hash_ = hash_string(value, hash_); }
  void space(const shape& value) {
    for (std::int64_t extent : value) word(extent);
    word(value.rank());
  }
  void accesses(const std::vector<index_map>& values) {
    for (const index_map& value : values) (*this)(value);
    word(values.size());
  }
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
  std::string operator()(const no_attribute&) const { return {}; }
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
  std::string operator()(const contract_attribute& a) const {
    return fmt::format("a={} b={} result_rank={}", list(a.a, max_rank), list(a.b, max_rank), a.result_rank);
  }
  std::string operator()(const view_attribute& a) const {
    return fmt::format("offset={} strides=[{}]", a.offset, list(a.strides, used_rank(a.strides)));
  }
  std::string operator()(const pad_attribute& a) const {
    return fmt::format("low=[{}] high=[{}] value={}", list(a.low, used_rank(a.low)), list(a.high, used_rank(a.high)),
                       a.value);
  }
  std::string operator()(const axis_attribute& a) const { return fmt::format("axis={}", a.axis); }
  std::string operator()(const convolution_attribute& a) const {
    constexpr const char* forms[] = {"output", "input", "filter"};
    return fmt::format("{} stride=[{}] pad=[{}]+[{}] dilation=[{}] groups={}",
                       a.form <= convolution_attribute::filter ? forms[a.form] : "unknown form",
                       list(a.stride, a.spatial), list(a.pad_low, a.spatial), list(a.pad_high, a.spatial),
                       list(a.dilation, a.spatial), a.groups);
  }
  std::string operator()(const window_attribute& a) const {
    return fmt::format("{} window=[{}] stride=[{}] pad=[{}]+[{}]", info(a.kind).name, list(a.window, a.spatial),
                       list(a.stride, a.spatial), list(a.pad_low, a.spatial), list(a.pad_high, a.spatial));
  }
  std::string operator()(const optimizer_attribute& a) const { return a.name; }
  std::string operator()(const region_attribute& a) const {
    return fmt::format("space=[{}] rows={}{} {}", fmt::join(a.space, ","), a.row_axes, a.per_row ? " per_row" : "",
                       to_string(a.program));
  }
  std::string operator()(const matmul_attribute& a) const {
    return fmt::format("space=[{}] b{}m{}n{}k{} {}", fmt::join(a.space, ","), a.batch_axes, a.m_axes, a.n_axes,
                       a.k_axes, to_string(a.finish.program));
  }
  std::string operator()(const convolve_attribute& a) const {
    return fmt::format("{} space=[{}] output={}+[{}] {}", (*this)(a.convolution), fmt::join(a.space, ","),
                       a.output.offset, list(a.output.strides, used_rank(a.output.strides)),
                       to_string(a.finish.program));
  }
};

}  // namespace detail

MEGANEURA_INLINE std::uint64_t hash(const attribute& value) {
  detail::attribute_hasher hasher(value.index());
  std::visit(hasher, value);
  return hasher.result();
}

MEGANEURA_INLINE std::string to_string(const initializer& value) {
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
  return fmt::format("constant({:.6g})", value.centre);
}

MEGANEURA_INLINE std::string to_string(const attribute& value) {
  return std::visit(detail::attribute_printer{}, value);
}

}  // namespace meganeura::inline MEGANEURA_ABI
