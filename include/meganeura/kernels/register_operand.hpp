// SPDX-License-Identifier: MIT
// An operand of a product that invocations read straight from its buffer into registers.
#pragma once
#include <meganeura/kernels/strided_operand.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

// How its elements are loaded. A software rasteriser turns a storage buffer load into one bounds-checked scalar load a
// lane, a texel fetch into one 16-byte load and a transposition.
class element_loads {
 public:
  element_loads(spirv::kernel& k, const matmul_operand& plan, bool texels, std::string_view name) : plan_(plan) {
    if (texels)
      texels_ = k.texels(name);
    else
      buffer_ = k.storage_buffer<spirv::f32>(name);
    if (!texels && plan.width == 4) fours_ = k.view<spirv::f32x4>(*buffer_);
  }

  [[nodiscard]] const matmul_operand& plan() const { return plan_; }
  [[nodiscard]] bool reads_rows() const { return plan_.width == 4 && !plan_.along_k; }
  [[nodiscard]] spirv::f32 one(const spirv::u32& offset) const { return buffer_->load(offset); }
  [[nodiscard]] spirv::f32x4 four(const spirv::u32& offset) const {
    using namespace spirv;
    if (plan_.is_aligned) return texels_ ? texels_->load(offset >> 2u) : fours_->load(offset >> 2u);
    const u32 first = offset >> 2u, last(static_cast<std::uint32_t>((span_of(plan_) - 1) / 4));
    return four_across(texels_->load(first), texels_->load(min(first + 1u, last)), offset);
  }

 private:
  matmul_operand plan_;
  std::optional<spirv::texel_buffer> texels_;
  std::optional<spirv::memory<spirv::f32>> buffer_;
  std::optional<spirv::memory<spirv::f32x4>> fours_;
};

// [j][r]: row r at the j-th of some neighbouring values of k.
using operand_values = std::vector<std::vector<spirv::f32>>;

// Rows of one operand that an invocation multiplies, read four elements at a time.
class register_operand {
 public:
  register_operand(element_loads from, std::uint32_t rows) : from_(std::move(from)), rows_(rows) {}

  /// `group_rows`: of all invocations of a workgroup, which reach past the last row where they do not divide the rows.
  void place(const spirv::u32& batch, const spirv::u32& first_row, std::uint32_t group_rows) {
    const matmul_operand& plan = from_.plan();
    const spirv::u32 base = offset_of(plan.batch, batch) + plan.offset;
    const std::uint32_t step = from_.reads_rows() ? 4 : 1;
    for (std::uint32_t r = 0; r < rows_; r += step) {
      spirv::u32 row = first_row + r;
      if (plan.row_count % group_rows != 0) row = min(row, spirv::u32(plan.row_count - step));
      bases_.push_back(base + offset_of(plan.rows, row));
    }
  }

  /// Of `count` (1 or 4) values of k.
  [[nodiscard]] operand_values read(const spirv::u32& first_k, std::uint32_t count) const {
    const matmul_operand& plan = from_.plan();
    operand_values result(count);
    if (plan.width == 4 && plan.along_k) {
      const spirv::u32 along = offset_of(plan.k, first_k);
      for (const spirv::u32& base : bases_) {
        const spirv::f32x4 four = from_.four(base + along);
        for (std::uint32_t j = 0; j < count; ++j) result[j].push_back(four[j]);
      }
      return result;
    }
    for (std::uint32_t j = 0; j < count; ++j) {
      const spirv::u32 along = offset_of(plan.k, first_k + j);
      for (const spirv::u32& base : bases_) append(result[j], base + along);
    }
    return result;
  }

 private:
  void append(std::vector<spirv::f32>& to, const spirv::u32& offset) const {
    if (!from_.reads_rows()) return to.push_back(from_.one(offset));
    const spirv::f32x4 four = from_.four(offset);
    for (std::uint32_t i = 0; i < 4; ++i) to.push_back(four[i]);
  }

  element_loads from_;
  std::uint32_t rows_;
  std::vector<spirv::u32> bases_;
};

// Rows of one operand that all lanes of a subgroup multiply: each lane loads its share, and the others have it from
// there. A load is one of every lane anyway, and would be eight times the same one.
class shared_operand {
 public:
  shared_operand(spirv::kernel& k, element_loads from, std::uint32_t rows, const spirv::u32& lane, std::uint32_t lanes)
      : k_(k), from_(std::move(from)), rows_(rows), lane_(lane), lanes_(lanes) {}

  void place(const spirv::u32& batch, const spirv::u32& first_row, std::uint32_t group_rows) {
    const matmul_operand& plan = from_.plan();
    const spirv::u32 base = offset_of(plan.batch, batch) + plan.offset;
    const std::uint32_t step = from_.reads_rows() ? 4 : 1;  // rows of a load
    const std::uint32_t once = std::min(lanes_, rows_ / step);
    for (std::uint32_t r = 0; r < rows_; r += once * step) {
      spirv::u32 row = first_row + r + lane_ % once * step;
      if (plan.row_count % group_rows != 0) row = min(row, spirv::u32(plan.row_count - step));
      bases_.push_back(base + offset_of(plan.rows, row));
    }
  }

  [[nodiscard]] operand_values read(const spirv::u32& first_k, std::uint32_t count) const {
    const matmul_operand& plan = from_.plan();
    operand_values result(count);
    if (from_.reads_rows()) {  // lanes have fours of rows, and behind these further values of k
      const std::uint32_t fours = rows_ / 4, once = std::min(count, std::max(1u, lanes_ / fours));
      for (std::uint32_t first = 0; first < count; first += once) {
        const spirv::u32 along = offset_of(plan.k, first_k + first + lane_ / fours % once);
        for (const spirv::u32& base : bases_) {
          const spirv::f32x4 four = from_.four(base + along);
          for (std::uint32_t j = 0; j < once; ++j) {
            for (std::uint32_t r = 0; r < std::min(rows_, 4 * lanes_); ++r)
              result[first + j].push_back(of_lane(four[r % 4], j * fours + r / 4));
          }
        }
      }
      return result;
    }
    for (const spirv::u32& base : bases_) {
      std::optional<spirv::f32x4> four;
      if (plan.width == 4) four = from_.four(base + offset_of(plan.k, first_k));
      for (std::uint32_t j = 0; j < count; ++j) {
        const spirv::f32 mine = four ? (*four)[j] : from_.one(base + offset_of(plan.k, first_k + j));
        for (std::uint32_t r = 0; r < std::min(rows_, lanes_); ++r) result[j].push_back(of_lane(mine, r));
      }
    }
    return result;
  }

 private:
  // Mesa 22.3.6 makes this one move; a broadcast it makes a search for the first active lane.
  [[nodiscard]] spirv::f32 of_lane(const spirv::f32& x, std::uint32_t lane) const {
    return k_.subgroup_shuffle(x, spirv::u32(lane));
  }

  spirv::kernel& k_;
  element_loads from_;
  std::uint32_t rows_;
  spirv::u32 lane_;
  std::uint32_t lanes_;
  std::vector<spirv::u32> bases_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/matmul.hpp>
#endif
