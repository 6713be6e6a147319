// SPDX-License-Identifier: MIT
// The vectors tier of matmul.hpp: few rows, and a matrix that is read once for all of them.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/fusion/product_tiles.hpp>
#include <meganeura/kernels/matmul.hpp>
#include <meganeura/kernels/register_operand.hpp>

#include <algorithm>
#include <bit>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

MEGANEURA_INLINE std::uint32_t terms_at_once(const matmul_operand& a, const matmul_operand& b) {
  const auto fours = [](const matmul_operand& plan) { return plan.width == 4 && plan.along_k; };
  return fours(a) || fours(b) ? 4 : 1;
}

/// One kernel. Neighbouring invocations lie along k where the matrix does, else along its columns.
class vector_product {
 public:
  vector_product(spirv::kernel& k, const matmul_problem& problem, const matmul_schedule& s,
                 const device_profile& device)
      : k_(k),
        problem_(problem),
        s_(s),
        device_(device),
        a_plan_(plan_operand(problem, true)),
        b_plan_(plan_operand(problem, false)),
        out_plan_(plan_result(problem)),
        terms_(terms_at_once(a_plan_, b_plan_)),
        a_({k, a_plan_, false, "a"}, rows_are_a() ? s.thread_m : s.thread_n),
        b_({k, b_plan_, false, "b"}, rows_are_a() ? s.thread_n : s.thread_m),
        epilogue_(bind_epilogue(problem, k)),
        out_(k.storage_buffer<spirv::f32>("out", spirv::access::write)),
        parts_(k.shared<spirv::f32>(s.shared_bytes() / 4)) {
    check();
    if (s.together > 1) k.require_subgroup_size(device.subgroup_size);
  }

  [[nodiscard]] std::uint32_t tiles() const { return ceil_div(columns(), s_.tile_n); }

  void emit(const spirv::u32& batch, const spirv::u32& first_column) {
    batch_ = batch, first_column_ = first_column;
    index_ = s_.together > 1 ? k_.index_by_subgroups(device_.subgroup_size) : k_.local_index();
    const std::uint32_t across = s_.tile_n / s_.thread_n;
    const bool along_k = matrix_plan().along_k;
    slice_ = along_k ? index_ % s_.slices : index_ / across;
    column_ = (along_k ? index_ / s_.slices : index_ % across) * s_.thread_n;
    rows().place(batch, 0, s_.tile_m);
    matrix().place(batch, first_column + column_, s_.tile_n);
    for (std::uint32_t i = 0; i < s_.thread_m * s_.thread_n; ++i) sums_.push_back(k_.variable<spirv::f32>(0.0f));
    add_up();
    meet();
    finish();
  }

 private:
  [[nodiscard]] bool rows_are_a() const { return a_plan_.row_count <= b_plan_.row_count; }
  [[nodiscard]] register_operand& rows() { return rows_are_a() ? a_ : b_; }
  [[nodiscard]] register_operand& matrix() { return rows_are_a() ? b_ : a_; }
  [[nodiscard]] const matmul_operand& matrix_plan() const { return rows_are_a() ? b_plan_ : a_plan_; }
  [[nodiscard]] std::uint32_t columns() const { return matrix_plan().row_count; }
  [[nodiscard]] std::uint32_t results() const { return s_.tile_m * s_.tile_n; }

  void check() const {
    const bool fours = matrix_plan().width == 4 && !matrix_plan().along_k;
    const bool whole = s_.tile_m == std::min(a_plan_.row_count, b_plan_.row_count) && s_.thread_m == s_.tile_m &&
                       s_.tile_m <= fusion::most_vector_rows && s_.tile_n % s_.thread_n == 0 &&
                       (!fours || s_.thread_n % 4 == 0) && s_.tile_k > 0 && s_.tile_k % terms_ == 0;
    const bool meet = std::has_single_bit(s_.slices) && std::has_single_bit(s_.together) && s_.together <= s_.slices;
    if (whole && meet) return;
    fail(error_category::invalid_argument,
         "matmul schedule '{}': rows are those of the product, up to {}, columns of a matrix that is read along them "
         "multiples of 4, terms multiples of {} here, slices and those that meet in a subgroup powers of two",
         s_.label(), fusion::most_vector_rows, terms_);
  }

  // `count` times the terms that are taken at once: all of the matrix is on its way before any of it is used. Behind
  // the last term others are read instead and what they give is left out: one of them may be an infinity.
  void add_terms(const spirv::u32& first_k, std::uint32_t count, bool may_end) {
    std::vector<spirv::f32> total;
    for (const auto& sum : sums_) total.push_back(sum.load());
    const std::uint32_t last = a_plan_.k_count - terms_;
    std::vector<spirv::u32> at, from;
    std::vector<std::vector<std::vector<spirv::f32>>> read;
    for (std::uint32_t i = 0; i < count; ++i) {
      at.push_back(first_k + (i * s_.slices + slice_) * terms_);
      from.push_back(may_end && i + 1 == count ? min(at[i], spirv::u32(last)) : at[i]);
      read.push_back(matrix().read(from[i], terms_));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto few = rows().read(from[i], terms_);
      std::vector<spirv::f32> next = total;
      for (std::uint32_t j = 0; j < terms_; ++j) {
        for (std::uint32_t r = 0; r < s_.thread_m; ++r) {
          for (std::uint32_t c = 0; c < s_.thread_n; ++c) {
            spirv::f32& sum = next[r * s_.thread_n + c];
            sum = fma(few[j][r], read[i][j][c], sum);
          }
        }
      }
      const bool ends = may_end && i + 1 == count;
      for (std::size_t each = 0; each < next.size(); ++each)
        total[each] = ends ? select(at[i] <= last, next[each], total[each]) : next[each];
    }
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i].store(total[i]);
  }

  void add_up() {
    const std::uint32_t once = s_.slices * terms_, times = s_.tile_k / terms_, step = once * times;
    const std::uint32_t whole = a_plan_.k_count / step * step, rest = a_plan_.k_count - whole;
    const cascade_lengths lengths{.terms = s_.tile_k, .straight = straight_product(sums_.size())};
    for_summed(k_, 0, whole, step, lengths, running_sums(sums_),
               [&](const spirv::u32& first_k) { add_terms(first_k, times, false); });
    if (rest > 0) add_terms(whole, ceil_div(rest, once), rest % once != 0);
  }

  // Slices of a subgroup exchange halves of their sums, so that each is left with a part of them, and so on down to one
  // sum, which those that hold the same then add up. Every invocation arrives.
  void meet_in_subgroup() {
    const std::uint32_t apart = matrix_plan().along_k ? 1 : s_.tile_n / s_.thread_n;
    const spirv::u32 place = slice_ % s_.together;
    totals_.resize(std::bit_ceil(totals_.size()), spirv::f32(0));
    std::uint32_t alike = 0;
    for (std::uint32_t i = s_.together / 2; i > 0; i /= 2) {
      const auto half = static_cast<std::uint32_t>(totals_.size() / 2);
      if (half == 0) {
        totals_[0] = totals_[0] + k_.subgroup_shuffle_xor(totals_[0], i * apart);
        alike += i;
        continue;
      }
      const spirv::boolean upper = (place & i) != 0u;
      for (std::uint32_t j = 0; j < half; ++j) {
        const spirv::f32 given = select(upper, totals_[j], totals_[half + j]);
        totals_[j] = select(upper, totals_[half + j], totals_[j]) + k_.subgroup_shuffle_xor(given, i * apart);
      }
      totals_.resize(half);
      first_ = first_ + select(upper, spirv::u32(half), spirv::u32(0));
    }
    if (alike > 0) gives_ = (place & alike) == 0u;
  }

  void meet() {
    for (const auto& sum : sums_) totals_.push_back(sum.load());
    if (s_.together > 1) meet_in_subgroup();
    const spirv::u32 start = slice_ / s_.together * results() + column_;
    const auto count = static_cast<std::uint32_t>(sums_.size());
    k_.if_(gives_, [&] {
      for (std::uint32_t i = 0; i < totals_.size(); ++i) {
        const spirv::u32 each = first_ + i;
        const auto give = [&] { parts_[start + each / s_.thread_n * s_.tile_n + each % s_.thread_n] = totals_[i]; };
        k_.if_(std::has_single_bit(count) || s_.together == 1 ? spirv::boolean(true) : each < count, give);
      }
    });
    k_.barrier();
  }

  void finish() {
    const std::uint32_t threads = s_.invocations();
    if (results() > threads)
      k_.for_(index_, results(), threads, [&](const spirv::u32& each) { store(each); });
    else
      k_.if_(results() == threads ? spirv::boolean(true) : index_ < results(), [&] { store(index_); });
  }

  void store(const spirv::u32& each) {
    const std::uint32_t count = s_.slices / s_.together;
    const auto sum = k_.variable<spirv::f32>(parts_.load(each));
    k_.for_(1, count, 1, [&](const spirv::u32& part) { sum += parts_.load(part * results() + each); });
    const spirv::u32 row = each / s_.tile_n, column = first_column_ + each % s_.tile_n;
    const spirv::u32 m = rows_are_a() ? row : column, n = rows_are_a() ? column : row;
    const auto write = [&] {
      const spirv::u32 offset = offset_of(out_plan_.batch, batch_) + offset_of(out_plan_.m, m) +
                                offset_of(out_plan_.n, n) + problem_.offset_out;
      out_[offset] = epilogue_(sum.load(), {batch_, m, n, offset});
    };
    k_.if_(columns() % s_.tile_n == 0 ? spirv::boolean(true) : column < columns(), write);
  }

  spirv::kernel& k_;
  const matmul_problem& problem_;
  const matmul_schedule s_;
  const device_profile& device_;
  matmul_operand a_plan_, b_plan_;
  matmul_result out_plan_;
  std::uint32_t terms_;
  register_operand a_, b_;
  matmul_epilogue epilogue_;
  spirv::memory<spirv::f32> out_, parts_;
  spirv::u32 batch_, first_column_, index_, slice_, column_;  // column_: the invocation's first, inside the tile
  std::vector<spirv::var<spirv::f32>> sums_;                  // [row][column]
  std::vector<spirv::f32> totals_;  // of them, from number first_ on, if the invocation gives_
  spirv::u32 first_ = 0;
  spirv::boolean gives_ = true;
};

MEGANEURA_INLINE kernel_dispatch make_vector_matmul(const matmul_problem& problem, const matmul_schedule& s,
                                                    const device_profile& device) {
  spirv::kernel k(describe(problem), {s.invocations(), 1, 1});
  vector_product product(k, problem, s, device);
  const std::uint64_t count = extent_of(problem.batch) * product.tiles();
  const auto groups = spread_groups(count, device);
  const spirv::u32 linear = linear_group(k, groups);
  if_inside(k, linear, count, std::uint64_t{groups[0]} * groups[1],
            [&] { product.emit(linear / product.tiles(), linear % product.tiles() * s.tile_n); });
  return {k.finish(), groups};
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
