// SPDX-License-Identifier: MIT
// Tensors of floats of one dtype as those of another.
#pragma once
#include <meganeura/core/float_format.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
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

// Floats of one dtype as those of another. What does not grow is converted where it lies, so that at no time there is
// more than twice the tensor.
inline std::vector<std::byte> converted_floats(std::vector<std::byte> bytes, dtype from, dtype to) {
  if (from == to) return bytes;
  const auto convert = [&]<dtype From, dtype To>() {
    constexpr float_format old(From), wanted(To);
    constexpr std::size_t old_size = sizeof(word_of<From>), size = sizeof(word_of<To>);
    const std::size_t count = bytes.size() / old_size;
    std::vector<std::byte> wide(size > old_size ? count * size : 0);
    std::byte* target = wide.empty() ? bytes.data() : wide.data();
    for (std::size_t i = 0; i < count; ++i) {
      word_of<From> word{};
      std::memcpy(&word, bytes.data() + i * old_size, old_size);
      const auto result = static_cast<word_of<To>>(wanted.encode(old.decode(word)));
      std::memcpy(target + i * size, &result, size);
    }
    if (wide.empty())
      bytes.resize(count * size);
    else
      bytes = std::move(wide);
  };
  with_float(from, [&]<dtype From>() { with_float(to, [&]<dtype To>() { convert.template operator()<From, To>(); }); });
  return bytes;
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
