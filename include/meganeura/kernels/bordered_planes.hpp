// SPDX-License-Identifier: MIT
// An operand's planes with borders of zeros that are not in memory: where the other elements are.
#pragma once
#include <meganeura/graph/attribute.hpp>
#include <meganeura/spirv/kernel.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

/// See zero_border. Offsets count elements.
class bordered_planes {
 public:
  struct placed {
    spirv::u32 offset;
    spirv::boolean inside;  // false: in a border, and the offset is none
  };

  explicit bordered_planes(const zero_border& border) : border_(border) {}

  [[nodiscard]] bool have_borders() const { return !border_.is_empty(); }
  /// Of a plane with its border, 0 where there is none, and without.
  [[nodiscard]] std::uint32_t size() const { return number(border_.rows * border_.columns); }
  [[nodiscard]] std::uint32_t size_in_memory() const { return number(border_.height * border_.width); }
  /// Between elements that are whole planes apart.
  [[nodiscard]] std::uint32_t distance_in_memory(std::uint32_t distance) const {
    return have_borders() ? distance / size() * size_in_memory() : distance;
  }
  /// Of the plane that begins there in memory, what is number `at` with its border.
  [[nodiscard]] placed find(const spirv::u32& plane, const spirv::u32& at) const {
    const spirv::u32 y = at / number(border_.columns) - number(border_.low_row);
    const spirv::u32 x = at % number(border_.columns) - number(border_.low_column);
    return {plane + y * number(border_.width) + x, y < number(border_.height) && x < number(border_.width)};
  }

 private:
  [[nodiscard]] static std::uint32_t number(std::int64_t value) { return static_cast<std::uint32_t>(value); }

  zero_border border_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
