// SPDX-License-Identifier: MIT
// The registers tier of matmul.hpp: operands read straight from their buffers, best as texels.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/kernels/matmul.hpp>

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
  [[nodiscard]] bool reads_rows() const { return plan_.width == 4 && !plan_.along_k; }

  void append(std::vector<spirv::f32>& to, const spirv::u32& offset) const {
    if (!reads_rows()) return to.push_back(buffer_->load(offset));
    const spirv::f32x4 four = load_four(offset);
    for (std::uint32_t i = 0; i < 4; ++i) to.push_back(four[i]);
  }

  [[nodiscard]] spirv::f32x4 load_four(const spirv::u32& offset) const {
    return texels_ ? texels_->load(offset >> 2u) : fours_->load(offset >> 2u);
  }

  matmul_operand plan_;
  std::uint32_t rows_;
  std::optional<spirv::texel_buffer> texels_;
  std::optional<spirv::memory<spirv::f32>> buffer_;
  std::optional<spirv::memory<spirv::f32x4>> fours_;
  std::vector<spirv::u32> bases_;
};

inline void multiply_step(const register_operand& left, const register_operand& right, const spirv::u32& first_k,
                          std::uint32_t count, const matmul_schedule& s, std::vector<spirv::f32>& total) {
  const auto a = left.read(first_k, count);
  const auto b = right.read(first_k, count);
  for (std::uint32_t kk = 0; kk < count; ++kk) {
    for (std::uint32_t i = 0; i < s.thread_m; ++i) {
      for (std::uint32_t j = 0; j < s.thread_n; ++j) {
        spirv::f32& sum = total[i * s.thread_n + j];
        sum = fma(a[kk][i], b[kk][j], sum);
      }
    }
  }
}

inline void accumulate_rows(spirv::kernel& k, const register_operand& left, const register_operand& right,
                            const matmul_schedule& s, std::uint32_t k_count, const spirv::u32& slice,
                            const std::vector<spirv::var<spirv::f32>>& sums) {
  const auto step = [&](const spirv::u32& first_k, std::uint32_t count) {
    std::vector<spirv::f32> total;
    for (const auto& sum : sums) total.push_back(sum.load());
    multiply_step(left, right, first_k, count, s, total);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i].store(total[i]);
  };
  const std::uint32_t whole = k_count / 4 * 4;
  const cascade_lengths lengths{.terms = 4, .straight = straight_product(sums.size())};
  for_summed(k, slice * 4u, whole, 4 * s.slices, lengths, running_sums(sums), [&](const spirv::u32& i) { step(i, 4); });
  if (whole == k_count) return;
  k.if_(s.slices == 1 ? spirv::boolean(true) : slice == 0u, [&] {
    for (std::uint32_t rest = whole; rest < k_count; ++rest) step(rest, 1);  // only where neither operand reads along k
  });
}

MEGANEURA_INLINE kernel_dispatch make_register_matmul(const matmul_problem& problem, const matmul_schedule& s,
                                                      const device_profile& device) {
  using namespace spirv;
  const matmul_operand a_plan = plan_operand(problem, true);
  const matmul_operand b_plan = plan_operand(problem, false);
  const matmul_result out_plan = plan_result(problem);
  if (s.texels && (a_plan.width != 4 || b_plan.width != 4)) {
    fail(error_category::invalid_argument,
         "matmul schedule '{}' needs operands readable as aligned groups of four; use texels = false", s.label());
  }
  if (s.thread_m == 0 || s.thread_n == 0 || s.thread_m % 4 != 0 || s.thread_n % 4 != 0) {
    fail(error_category::invalid_argument, "matmul schedule '{}': thread sizes are multiples of 4", s.label());
  }
  const std::uint32_t m_count = a_plan.row_count;
  const std::uint32_t n_count = b_plan.row_count;
  // The eight invocations lie along n, unless n is too short for that.
  const std::uint32_t lanes = s.invocations() / s.slices;
  std::uint32_t lanes_n = 1;
  while (lanes_n < lanes && lanes_n * s.thread_n < n_count) lanes_n *= 2;
  const std::uint32_t lanes_m = lanes / lanes_n;

  kernel k(describe(problem), {s.invocations(), 1, 1});
  register_operand left(k, a_plan, s.texels, "a", s.thread_m);
  register_operand right(k, b_plan, s.texels, "b", s.thread_n);
  const matmul_epilogue epilogue = bind_epilogue(problem, k);
  const auto out = k.storage_buffer<f32>("out", access::write);

  const std::uint32_t tiles_m = ceil_div(m_count, lanes_m * s.thread_m);
  const std::uint32_t tiles_n = ceil_div(n_count, lanes_n * s.thread_n);
  const std::uint64_t tiles = extent_of(problem.batch) * tiles_m * tiles_n;
  const auto groups = spread_groups(tiles, device);
  const u32 linear = linear_group(k, groups);
  if_inside(k, linear, tiles, std::uint64_t{groups[0]} * groups[1], [&] {
    const u32 batch = linear / (tiles_m * tiles_n);
    const u32 lane = s.slices == 1 ? k.local_index() : k.local_index() % lanes;
    const u32 slice = s.slices == 1 ? u32(0) : k.local_index() / lanes;
    const u32 first_m = (linear / tiles_n % tiles_m * lanes_m + lane / lanes_n) * s.thread_m;
    const u32 first_n = (linear % tiles_n * lanes_n + lane % lanes_n) * s.thread_n;
    left.place(batch, first_m, lanes_m * s.thread_m);
    right.place(batch, first_n, lanes_n * s.thread_n);
    std::vector<var<f32>> sums;
    for (std::uint32_t i = 0; i < s.thread_m * s.thread_n; ++i) sums.push_back(k.variable<f32>(0.0f));
    accumulate_rows(k, left, right, s, a_plan.k_count, slice, sums);
    add_slices(k, s, slice, sums);
    const auto write_all = [&] {
      const u32 base = offset_of(out_plan.batch, batch) + problem.offset_out;
      const bool exact = m_count % (lanes_m * s.thread_m) == 0 && n_count % (lanes_n * s.thread_n) == 0;
      for (std::uint32_t i = 0; i < s.thread_m * s.thread_n; ++i) {
        const u32 m = first_m + i / s.thread_n;
        const u32 n = first_n + i % s.thread_n;
        const auto write = [&] {
          const u32 offset = base + offset_of(out_plan.m, m) + offset_of(out_plan.n, n);
          out[offset] = epilogue(sums[i].load(), {batch, m, n, offset});
        };
        if (exact)
          write();
        else
          k.if_(m < m_count && n < n_count, write);
      }
    };
    k.if_(s.slices == 1 ? spirv::boolean(true) : slice == 0u, write_all);
  });
  return {k.finish(), groups};
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
