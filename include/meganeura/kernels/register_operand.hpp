// SPDX-License-Identifier: MIT
// An operand of a product that invocations read straight from its buffer into registers.
#pragma once
#include <meganeura/kernels/strided_operand.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

// Rows of one operand that an invocation multiplies, read four elements at a time. A software rasteriser turns a
// storage buffer load into one bounds-checked scalar load a lane, a texel fetch into one 16-byte load and a
// transposition.
class register_operand {
 public:
  register_operand(spirv::kernel& k, const matmul_operand& plan, bool texels, std::string_view name, std::uint32_t rows)
      : plan_(plan), rows_(rows) {
    if (texels)
      texels_ = k.texels(name);
    else
      buffer_ = k.storage_buffer<spirv::f32>(name);
    if (!texels && plan.width == 4) fours_ = k.view<spirv::f32x4>(*buffer_);
  }

  /// `group_rows`: of all invocations of a workgroup, which reach past the last row where they do not divide the rows.
  void place(const spirv::u32& batch, const spirv::u32& first_row, std::uint32_t group_rows) {
    const spirv::u32 base = offset_of(plan_.batch, batch) + plan_.offset;
    const std::uint32_t step = reads_rows() ? 4 : 1;
    for (std::uint32_t r = 0; r < rows_; r += step) {
      spirv::u32 row = first_row + r;
      if (plan_.row_count % group_rows != 0) row = min(row, spirv::u32(plan_.row_count - step));
      bases_.push_back(base + offset_of(plan_.rows, row));
    }
  }

  /// result[j][r]: row r at first_k + j, for `count` (1 or 4) values of k.
  [[nodiscard]] std::vector<std::vector<spirv::f32>> read(const spirv::u32& first_k, std::uint32_t count) const {
    std::vector<std::vector<spirv::f32>> result(count);
    if (plan_.width == 4 && plan_.along_k) {
      const spirv::u32 along = offset_of(plan_.k, first_k);
      for (const spirv::u32& base : bases_) {
        const spirv::f32x4 four = load_four(base + along);
        for (std::uint32_t j = 0; j < count; ++j) result[j].push_back(four[j]);
      }
      return result;
    }
    for (std::uint32_t j = 0; j < count; ++j) {
      const spirv::u32 along = offset_of(plan_.k, first_k + j);
      for (const spirv::u32& base : bases_) append(result[j], base + along);
    }
    return result;
  }

 private:
  // Of two texels.
  [[nodiscard]] spirv::f32x4 load_across(const spirv::u32& offset) const {
    using namespace spirv;
    const u32 first = offset >> 2u, last(static_cast<std::uint32_t>((span_of(plan_) - 1) / 4));
    return four_across(texels_->load(first), texels_->load(min(first + 1u, last)), offset);
  }
  [[nodiscard]] bool reads_rows() const { return plan_.width == 4 && !plan_.along_k; }

  void append(std::vector<spirv::f32>& to, const spirv::u32& offset) const {
    if (!reads_rows()) return to.push_back(buffer_->load(offset));
    const spirv::f32x4 four = load_four(offset);
    for (std::uint32_t i = 0; i < 4; ++i) to.push_back(four[i]);
  }

  [[nodiscard]] spirv::f32x4 load_four(const spirv::u32& offset) const {
    if (!plan_.is_aligned) return load_across(offset);
    return texels_ ? texels_->load(offset >> 2u) : fours_->load(offset >> 2u);
  }

  matmul_operand plan_;
  std::uint32_t rows_;
  std::optional<spirv::texel_buffer> texels_;
  std::optional<spirv::memory<spirv::f32>> buffer_;
  std::optional<spirv::memory<spirv::f32x4>> fours_;
  std::vector<spirv::u32> bases_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/matmul.hpp>
#endif
