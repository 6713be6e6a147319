// SPDX-License-Identifier: MIT
// What kernels of attention on matrix units share: rows as scaled f16 terms, and products of fragments of these.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/fusion/attention_tiles.hpp>
#include <meganeura/kernels/attention_operands.hpp>
#include <meganeura/kernels/matrix_rows.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

/// f16 has f32's precision in two terms, not its range: what is staged is multiplied by a power of two that brings the
/// largest of a row to [2^target, 2^(target + 1)). Such exponents end at 62, so that those of two operands meet in one
/// f32; rows with anything larger than fits then have none, as have those whose largest would keep too few bits, and
/// those with infinities and NaN.
struct f16_scale {
  static constexpr int most = 62;
  static constexpr std::uint32_t too_large = (127u + 14 + most) << 23, too_small = (127u - most - 8) << 23;
  spirv::i32 exponent;
  f16_scale(const spirv::u32& magnitude, const spirv::i32& target)
      : exponent(max(min(target + 127 - spirv::bitcast<spirv::i32>(magnitude >> 23u), spirv::i32(most)),
                     spirv::i32(-most))) {}
  [[nodiscard]] spirv::f32 factor() const { return power_of_two(exponent); }
  [[nodiscard]] spirv::f32 inverse() const { return power_of_two(-exponent); }
  /// Whether a row with that largest magnitude has one.
  [[nodiscard]] static spirv::boolean exists(const spirv::u32& magnitude) {
    return magnitude == 0u || (magnitude >= too_small && magnitude < too_large);
  }
};

/// Rows of one operand as f16 terms in workgroup memory.
class f16_rows : public row_block {
 public:
  f16_rows(spirv::kernel& k, const matmul_operand& plan, std::string_view name, std::uint32_t rows, std::uint32_t terms,
           const matrix_shape& unit)
      : row_block(k, plan, name, rows, fusion::lanes_of_row(plan.k_count, unit)),
        fours_(fusion::padded(plan.k_count, unit) / 4),
        line_(fusion::staged_line(plan.k_count, unit)),
        rows_(rows),
        terms_(terms) {}

  void begin(const spirv::memory<spirv::u32x2>& staged, std::uint32_t at) { staged_ = staged, at_ = at; }
  /// `with_small`: see half_terms_of.
  void stage(const spirv::u32& row, const spirv::u32& four, const spirv::f32x4& x, bool with_small) const {
    using namespace spirv;
    const auto write = [&](std::uint32_t term, const f32x4& v) {
      (*staged_)[row * line_ + four + (at_ + term * rows_ * line_)] =
          vector(pack_half(vector(v[0], v[1])), pack_half(vector(v[2], v[3])));
    };
    // A row has a power of two of lanes, of which some are behind its end.
    owner().if_(fours_ == lanes() ? boolean(true) : four < fours_, [&] {
      if (terms_ == 1) return write(0, x);
      const half_terms of[] = {half_terms_of(x[0], with_small), half_terms_of(x[1], with_small),
                               half_terms_of(x[2], with_small), half_terms_of(x[3], with_small)};
      write(0, vector(of[0].high, of[1].high, of[2].high, of[3].high));
      write(1, vector(of[0].low, of[1].low, of[2].low, of[3].low));
    });
  }
  /// Where the fragment that begins there is staged.
  [[nodiscard]] staged_place fragment(std::uint32_t term, const spirv::u32& row, std::uint32_t along,
                                      bool along_k) const {
    return {row * line_ + (at_ + term * rows_ * line_ + along / 4), line_, along_k};
  }
  [[nodiscard]] std::uint32_t staged_size() const { return terms_ * rows_ * line_; }
  [[nodiscard]] std::uint32_t padded() const { return fours_ * 4; }

 private:
  std::uint32_t fours_, line_, rows_, terms_;
  std::uint32_t at_ = 0;
  std::optional<spirv::memory<spirv::u32x2>> staged_;
};

/// Each row brought to f16's range; the inverse of its factor is kept. missing(): where a row has none.
template <class Units, class Missing>
void stage_by_rows(spirv::kernel& k, const Units& units, const f16_rows& block,
                   const spirv::memory<spirv::f32>& factors, std::uint32_t first_factor, const Missing& missing) {
  using namespace spirv;
  block.each([&](const u32& row, const u32& four, const f32x4& x) {
    const u32x4 of_four = magnitudes(x);
    const u32 here = max(max(of_four[0], of_four[1]), max(of_four[2], of_four[3]));
    const u32 largest = units.largest_of_lanes(here, block.lanes());
    const f16_scale scale(largest, 14);
    block.stage(row, four, x * f32x4(scale.factor()), false);
    k.if_(four == 0u, [&] {
      factors[row + first_factor] = scale.inverse();
      k.if_(!f16_scale::exists(largest), missing);
    });
  });
}

/// A fragment in each of its terms.
template <class Units, class Staged>
[[nodiscard]] std::vector<typename Units::operand> load_terms(const Units& units, const spirv::memory<Staged>& staged,
                                                              std::uint32_t terms, const f16_rows& from,
                                                              const spirv::u32& row, std::uint32_t along, bool along_k,
                                                              spirv::matrix_use use) {
  std::vector<typename Units::operand> found;
  for (std::uint32_t term = 0; term < terms; ++term)
    found.push_back(units.load(staged, from.fragment(term, row, along, along_k), use));
  return found;
}

/// total += the products of a[i] and b[i]; of split ones outside of the unit, which truncates.
template <class Units, class Fragments>
void add_terms(const Units& units, std::uint32_t terms, const typename Units::sums& total, std::span<const Fragments> a,
               std::span<const Fragments> b) {
  if (terms == 1) {
    for (std::size_t i = 0; i < a.size(); ++i) units.multiply_add(total, a[i][0], b[i][0]);
    return;
  }
  const typename Units::sums part = units.zero();
  for (std::size_t i = 0; i < a.size(); ++i) {
    units.multiply_add(part, a[i][0], b[i][1]);
    units.multiply_add(part, a[i][1], b[i][0]);
  }
  units.scale(part, 1.0f / 2048.0f);
  for (std::size_t i = 0; i < a.size(); ++i) units.multiply_add(part, a[i][0], b[i][0]);
  units.add(total, part);
}

/// errors: unsupported where the device has no such units, or no room.
inline void expect_fits(const attention_attribute& node, const device_profile& on) {
  if (fusion::fits(node.schedule, node, on)) return;
  fail(error_category::unsupported,
       "attention schedule '{}' was asked for heads {} and {} wide; it needs f16 matrix units whose results lie in "
       "rows, "
       "{} bytes of workgroup memory, {} invocations and heads up to {} wide; the device has {} bytes and {} "
       "invocations",
       to_string(node.schedule), node.sizes()[4], node.sizes()[2], fusion::shared_bytes_of(node.schedule, node, on),
       node.schedule.subgroups * on.subgroup_size, fusion::widest_head_on_units, on.max_shared_bytes,
       on.max_invocations);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
