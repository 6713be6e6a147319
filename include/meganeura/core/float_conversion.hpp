// SPDX-License-Identifier: MIT
// Tensors of floats of one dtype as those of another.
#pragma once
#include <meganeura/core/float_format.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::detail {

// use.operator()<type>() for a float dtype: loops over its elements know its digits while they compile.
template <std::size_t I = 0, class Use>
void with_float(dtype type, const Use& use) {
  if constexpr (I < dtype_count) {
    constexpr auto candidate = static_cast<dtype>(I);
    if constexpr (is_float(candidate)) {
      if (type == candidate) return use.template operator()<candidate>();
    }
    with_float<I + 1>(type, use);
  }
}

template <dtype Type>
using word_of = std::conditional_t<storage_bytes(Type, 1) == 4, std::uint32_t, std::uint16_t>;

// Values of one dtype at `target` as those of another, both floats or both the same. The target may be where the values
// are, unless they grow.
inline void convert_floats(std::span<const std::byte> values, dtype from, std::byte* target, dtype to) {
  if (from == to) return (void)std::memmove(target, values.data(), values.size());
  const auto convert = [&]<dtype From, dtype To>() {
    constexpr float_format old(From), wanted(To);
    constexpr std::size_t old_size = sizeof(word_of<From>), size = sizeof(word_of<To>), most = 64;
    const std::size_t count = values.size() / old_size;
    word_of<From> words[most]{};
    word_of<To> results[most];
    for (std::size_t begin = 0; begin < count; begin += most) {
      const std::size_t some = std::min(most, count - begin);
      std::memcpy(words, values.data() + begin * old_size, some * old_size);
      for (std::size_t i = 0; i < most; ++i)  // always as many: compilers make vectors of it
        results[i] = static_cast<word_of<To>>(wanted.encode(old.decode(words[i])));
      std::memcpy(target + begin * size, results, some * size);
    }
  };
  with_float(from, [&]<dtype From>() { with_float(to, [&]<dtype To>() { convert.template operator()<From, To>(); }); });
}

// f(value, place) of each.
template <class Function>
void each_float(std::span<const std::byte> values, dtype type, const Function& f) {
  with_float(type, [&]<dtype Type>() {
    constexpr float_format format(Type);
    for (std::size_t i = 0; i < values.size() / sizeof(word_of<Type>); ++i) {
      word_of<Type> word{};
      std::memcpy(&word, values.data() + i * sizeof word, sizeof word);
      f(format.decode(word), i);
    }
  });
}

// A whole tensor. What does not grow is converted where it lies, so that at no time there is more than twice the
// tensor.
inline std::vector<std::byte> converted_floats(std::vector<std::byte> bytes, dtype from, dtype to) {
  if (from == to) return bytes;
  const auto count = static_cast<std::int64_t>(bytes.size()) / storage_bytes(from, 1);
  const auto size = static_cast<std::size_t>(storage_bytes(to, count));
  std::vector<std::byte> wide(size > bytes.size() ? size : 0);
  convert_floats(bytes, from, wide.empty() ? bytes.data() : wide.data(), to);
  if (!wide.empty()) return wide;
  bytes.resize(size);
  return bytes;
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
