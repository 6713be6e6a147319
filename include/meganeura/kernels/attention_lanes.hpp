// SPDX-License-Identifier: MIT
// What kernels of attention on multiply-add share: rows in workgroup memory, products of them, and sums of weighed
// rows.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/fusion/attention_tiles.hpp>
#include <meganeura/kernels/attention_operands.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

/// Rows of one operand as they are, in workgroup memory.
class f32_rows : public row_block {
 public:
  f32_rows(spirv::kernel& k, const matmul_operand& plan, std::string_view name, std::uint32_t rows)
      : row_block(k, plan, name, rows, ceil_div(plan.k_count, 4u)),
        pitch_(fusion::attention_tiles::pitch(lanes())),
        staged_(k.shared<spirv::f32x4>(rows * pitch_)) {}
  void stage() const {
    each([&](const spirv::u32& row, const spirv::u32& four, const spirv::f32x4& values) {
      staged_[row * pitch_ + four] = values;
    });
  }
  [[nodiscard]] spirv::f32x4 read(const spirv::u32& row, const spirv::u32& four) const {
    return staged_[row * pitch_ + four].load();
  }
  [[nodiscard]] std::uint32_t fours() const { return lanes(); }

 private:
  std::uint32_t pitch_;
  spirv::memory<spirv::f32x4> staged_;
};

/// Of the pairs of `rows` own rows and `others` others an invocation has neighbouring rows, and others that lie apart.
struct pairs_of_rows {
  std::uint32_t rows, others, invocations;

  [[nodiscard]] std::uint32_t each() const { return rows * others / invocations; }
  [[nodiscard]] std::uint32_t rows_each() const { return each() >= 4 ? 2 : 1; }
  [[nodiscard]] std::uint32_t others_each() const { return each() / rows_each(); }
  [[nodiscard]] std::uint32_t apart() const { return others / others_each(); }
  /// The i-th pair.
  [[nodiscard]] spirv::u32 row(const spirv::u32& index, std::uint32_t i) const {
    return index / apart() * rows_each() + i / others_each();
  }
  [[nodiscard]] spirv::u32 other(const spirv::u32& index, std::uint32_t i) const {
    return index % apart() + i % others_each() * apart();
  }

  /// The products of all pairs of the invocation.
  [[nodiscard]] std::vector<spirv::f32> products(spirv::kernel& k, const f32_rows& own, const f32_rows& other) const {
    using namespace spirv;
    const u32 index = k.local_index(), first_row = index / apart() * rows_each(), first_other = index % apart();
    std::vector<var<f32>> sums;
    for (std::uint32_t i = 0; i < each(); ++i) sums.push_back(k.variable<f32>(0.0f));
    const std::uint32_t fours = own.fours(), once = fours % 4 == 0 ? 4 : fours % 2 == 0 ? 2 : 1;
    k.for_(0, fours, once, [&](const u32& first) {
      std::vector<f32> total;
      for (const auto& sum : sums) total.push_back(sum.load());
      for (std::uint32_t step = 0; step < once; ++step) {
        std::vector<f32x4> left, right;
        for (std::uint32_t i = 0; i < rows_each(); ++i) left.push_back(own.read(first_row + i, first + step));
        for (std::uint32_t j = 0; j < others_each(); ++j)
          right.push_back(other.read(first_other + j * apart(), first + step));
        for (std::uint32_t i = 0; i < each(); ++i) {
          for (std::uint32_t c = 0; c < 4; ++c)
            total[i] = fma(left[i / others_each()][c], right[i % others_each()][c], total[i]);
        }
      }
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i].store(total[i]);
    });
    std::vector<f32> found;
    for (const auto& sum : sums) found.push_back(sum.load());
    return found;
  }
};

/// Sums of weighed rows: of so many, each `fours` groups of four long, an invocation has one group of several
/// neighbouring ones; some invocations have none.
class sums_of_rows {
 public:
  sums_of_rows(spirv::kernel& k, std::uint32_t rows, std::uint32_t fours, std::uint32_t invocations)
      : k_(k), rows_(rows), fours_(fours), invocations_(invocations), down_(rows) {
    while (down_ > 1 && down_ * fours_ > invocations_) down_ /= 2;
  }
  void begin() {
    for (std::uint32_t i = 0; i < each(); ++i) sums_.push_back(k_.variable<spirv::f32x4>());
  }
  /// Each by the number of its row.
  void multiply_by(const spirv::memory<spirv::f32>& factors) {
    if_any([&] {
      for (std::uint32_t i = 0; i < each(); ++i) sums_[i].store(sums_[i].load() * factors.load(first_row() + i));
    });
  }
  /// Adds `others` rows, a multiple of 8, whose weights are [other][row].
  void add(const spirv::memory<spirv::f32x4>& weights, const f32_rows& from, std::uint32_t others) {
    using namespace spirv;
    if_any([&] {
      const u32 row = first_row(), four = this->four();
      k_.for_(0, others, 8, [&](const u32& first) {
        std::vector<f32x4> total;
        for (const auto& sum : sums_) total.push_back(sum.load());
        for (std::uint32_t j = 0; j < 8; ++j) {
          const f32x4 value = from.read(first + j, four);
          const std::vector<f32> weight = weights_at(weights, (first + j) * rows_ + row);
          for (std::uint32_t i = 0; i < each(); ++i) total[i] = fma(f32x4(widened(weight[i], 4)), value, total[i]);
        }
        for (std::uint32_t i = 0; i < each(); ++i) sums_[i].store(total[i]);
      });
    });
  }
  /// body(row, four, sums)
  template <class Body>
  void each_sum(const Body& body) {
    if_any([&] {
      for (std::uint32_t i = 0; i < each(); ++i) body(first_row() + i, four(), sums_[i].load());
    });
  }

 private:
  [[nodiscard]] std::uint32_t each() const { return rows_ / down_; }
  [[nodiscard]] spirv::u32 first_row() const { return k_.local_index() / fours_ * each(); }
  [[nodiscard]] spirv::u32 four() const { return k_.local_index() % fours_; }
  template <class Body>
  void if_any(Body&& body) {
    const std::uint32_t count = down_ * fours_;
    k_.if_(count == invocations_ ? spirv::boolean(true) : k_.local_index() < count, std::forward<Body>(body));
  }
  // Of all rows of the invocation.
  [[nodiscard]] std::vector<spirv::f32> weights_at(const spirv::memory<spirv::f32x4>& weights,
                                                   const spirv::u32& place) const {
    std::vector<spirv::f32> result;
    for (std::uint32_t i = 0; i < each(); i += each() % 4 == 0 ? 4 : 1) {
      const spirv::u32 at = place + i;
      if (each() % 4 == 0) {
        const spirv::f32x4 four = weights[at >> 2u].load();
        for (std::uint32_t c = 0; c < 4; ++c) result.push_back(four[c]);
      } else {
        result.push_back(weights.component(at >> 2u, at & 3u).load());
      }
    }
    return result;
  }

  spirv::kernel& k_;
  std::uint32_t rows_, fours_, invocations_, down_;
  std::vector<spirv::var<spirv::f32x4>> sums_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
