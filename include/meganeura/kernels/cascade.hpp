// SPDX-License-Identifier: MIT
// Loops that add up many numbers without losing any: sums in blocks, blocks in blocks of blocks.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/kernels/scalar_emit.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// A running total that every pass of a loop adds to. Only sums that round gain by blocks: no integer, no maximum; and
/// of a product every factor rounds the whole.
struct running_sum {
  spirv::untyped::place_reference place;
  scalar_op how = scalar_op::row_sum;
  scalar_value start{};
  [[nodiscard]] bool rounds() const { return start.type.is_float() && how == scalar_op::row_sum; }
};

/// How many terms go into one total. The rounding error of a total grows with its number of terms: with a cascade of
/// totals of at most `block_terms` each it grows with the logarithm of all terms.
struct cascade_lengths {
  std::uint64_t terms = 1;        // that a pass adds to each total
  std::uint64_t straight = 1024;  // up to so many need no cascade, whose totals cost registers
  static constexpr std::uint64_t block_terms = 256;

  /// Terms of each total after a loop of so many passes, or totals of totals where there are more.
  [[nodiscard]] std::uint64_t after(std::uint64_t passes) const {
    std::uint64_t left = passes * terms;
    if (left <= straight) return left;
    while (left > block_terms) left = ceil_div(left, block_terms);
    return left;
  }
};

/// Of matrix products with so many totals in an invocation. Where they fill the registers a second set would cost more
/// than it gains on products of the common length.
[[nodiscard]] constexpr std::uint64_t straight_product(std::size_t totals) { return totals < 64 ? 1024 : 4096; }

namespace detail {

class cascade {
 public:
  cascade(spirv::kernel& owner, std::span<const running_sum> sums, std::uint32_t step, std::uint64_t block)
      : owner_(owner), sums_(sums), step_(step), block_(block) {}

  // Passes [first, last), counted in steps of `step`; `passes` is their literal upper bound.
  template <class Body>
  void run(const spirv::u32& first, const spirv::u32& last, std::uint64_t passes, const Body& body) {
    if (passes == 1) return body(first);  // inside the loop below, which has found first < last
    if (passes <= block_) {
      return owner_.for_(first, last, spirv::u32(step_), body, spirv::unrolling::automatic, passes);
    }
    std::uint64_t part = block_;  // the largest block of blocks that is not all of them
    while (part * cascade_lengths::block_terms < passes) part *= cascade_lengths::block_terms;
    const std::vector<running_sum> totals = open_totals();
    const auto length = static_cast<std::uint32_t>(part * step_);
    const auto piece = [&](const spirv::u32& at) {
      for (const running_sum& sum : sums_) spirv::untyped::store(sum.place, sum.start);
      run(at, at + min(last - at, spirv::u32(length)), part, body);
      add(totals, sums_);
    };
    owner_.for_(first, last, spirv::u32(length), piece, spirv::unrolling::automatic, ceil_div(passes, part));
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      spirv::untyped::store(sums_[i].place, spirv::untyped::load(totals[i].place));
    }
  }

 private:
  [[nodiscard]] std::vector<running_sum> open_totals() {
    std::vector<running_sum> totals(sums_.begin(), sums_.end());
    for (running_sum& total : totals) {
      const scalar_value before = spirv::untyped::load(total.place);
      total.place = owner_.declare_variable(before.type);
      spirv::untyped::store(total.place, before);
    }
    return totals;
  }

  void add(std::span<const running_sum> totals, std::span<const running_sum> sums) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const scalar_value sum = spirv::untyped::load(sums[i].place), total = spirv::untyped::load(totals[i].place);
      spirv::untyped::store(totals[i].place, combine(owner_, sums[i].how, total, sum));
    }
  }

  spirv::kernel& owner_;
  std::span<const running_sum> sums_;
  std::uint32_t step_;
  std::uint64_t block_;
};

}  // namespace detail

/// `for (i = begin; i < end; i += step) body(i)`, where each pass adds to `sums`. A short loop is that loop and nothing
/// more; a long one puts what it adds in blocks. The sums hold their start, or something to add to, beforehand.
template <class Body>
void for_summed(spirv::kernel& owner, const spirv::u32& begin, std::uint32_t end, std::uint32_t step,
                const cascade_lengths& lengths, std::span<const running_sum> sums, const Body& body) {
  const std::uint64_t passes = ceil_div<std::uint64_t>(end, step);
  std::vector<running_sum> rounding;
  std::copy_if(sums.begin(), sums.end(), std::back_inserter(rounding), [](const auto& sum) { return sum.rounds(); });
  if (rounding.empty() || passes <= 1 || passes * lengths.terms <= lengths.straight) {
    return owner.for_(begin, spirv::u32(end), spirv::u32(step), body);
  }
  const std::uint64_t block = std::max<std::uint64_t>(cascade_lengths::block_terms / lengths.terms, 1);
  detail::cascade(owner, rounding, step, block).run(begin, spirv::u32(end), passes, body);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
