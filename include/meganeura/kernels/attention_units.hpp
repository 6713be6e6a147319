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

/// write(term, pairs) of four numbers in one or two terms; `with_small`: see half_terms_of.
template <class Write>
void each_term(const spirv::f32x4& x, std::uint32_t terms, bool with_small, const Write& write) {
  using namespace spirv;
  const auto pairs = [](const f32& a, const f32& b, const f32& c, const f32& d) {
    return u32x2(vector(pack_half(vector(a, b)), pack_half(vector(c, d))));
  };
  if (terms == 1) return write(0u, pairs(x[0], x[1], x[2], x[3]));
  const half_terms of[] = {half_terms_of(x[0], with_small), half_terms_of(x[1], with_small),
                           half_terms_of(x[2], with_small), half_terms_of(x[3], with_small)};
  write(0u, pairs(of[0].high, of[1].high, of[2].high, of[3].high));
  write(1u, pairs(of[0].low, of[1].low, of[2].low, of[3].low));
}

/// What stands for the inverse of a factor that there is none of: infinity.
inline constexpr std::uint32_t infinity_bits = 0x7f800000;

/// Rows of one operand as f16 terms in workgroup memory: made of f32 as they come, or as op::prepare_rows has made
/// them.
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
    owner().if_(is_inside(four), [&] {
      each_term(x, terms_, with_small, [&](std::uint32_t term, const spirv::u32x2& pairs) {
        (*staged_)[row * line_ + four + (at_ + term * rows_ * line_)] = pairs;
      });
    });
  }

  /// From now on rows are read there, `count` of all in all, those of this batch from number `first` on. Those of a
  /// block lie one behind the other: invocation `index` has each sixteen bytes of them.
  void read_prepared(const spirv::memory<spirv::u32>& from, std::uint32_t count, const spirv::u32& first,
                     const spirv::u32& index) {
    using namespace spirv;
    prepared_ = from, prepared_parts_ = owner().view<u32x4>(from);
    prepared_count_ = count, first_prepared_ = first;
    const std::uint32_t threads = owner().local_size()[0], parts = rows_ * parts_of_row();
    for (std::uint32_t done = 0; done < parts; done += threads) {
      const u32 at = index + done;
      parts_.push_back({at / parts_of_row(), at % parts_of_row(), done + threads > parts ? at < parts : boolean(true)});
      moved_.push_back(owner().variable<u32x4>());
    }
    for (std::uint32_t done = 0; done < rows_; done += threads) {
      factors_.push_back({index + done, 0u, done + threads > rows_ ? index + done < rows_ : boolean(true)});
      inverses_.push_back(owner().variable<f32>());
    }
  }
  [[nodiscard]] bool is_prepared() const { return prepared_.has_value(); }
  /// The inverse of a row's factor, of rows that are prepared.
  [[nodiscard]] spirv::f32 inverse(const spirv::u32& row) const {
    return spirv::bitcast<spirv::f32>(prepared_->load(first_prepared_ + row + prepared_count_ * (terms_ * fours_ * 2)));
  }
  /// Rows behind the last one are the last one, where they are prepared.
  void fetch(const spirv::u32& first_row) {
    if (!is_prepared()) return row_block::fetch(first_row);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      owner().if_(parts_[i].needed, [&] {
        const spirv::u32 row = first_prepared_ + inside(first_row + parts_[i].row);
        moved_[i] = prepared_parts_->load(row * parts_of_row() + parts_[i].four);
      });
    }
    for (std::size_t i = 0; i < factors_.size(); ++i)
      owner().if_(factors_[i].needed, [&] { inverses_[i] = inverse(inside(first_row + factors_[i].row)); });
  }
  /// Those that were fetched, which are prepared: stage(row, inverse) once a row.
  template <class Stage>
  void stage_prepared(const Stage& stage) const {
    using namespace spirv;
    const std::uint32_t second = terms_ == 1 ? 1 : rows_ * line_;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      owner().if_(parts_[i].needed, [&] {
        const u32 to = parts_[i].row * line_ + parts_[i].four * (terms_ == 1 ? 2u : 1u);
        const u32x4 part = moved_[i].load();
        (*staged_)[to + at_] = vector(part[0], part[1]);
        (*staged_)[to + (at_ + second)] = vector(part[2], part[3]);
      });
    }
    for (std::size_t i = 0; i < factors_.size(); ++i)
      owner().if_(factors_[i].needed, [&] { stage(factors_[i].row, inverses_[i].load()); });
  }
  /// Of those that were fetched from `first_row` on, rows whose inverse is below `least` become that much smaller.
  void lower(const spirv::u32& first_row, const spirv::f32& least) const {
    using namespace spirv;
    const auto numbers = [](const u32& a, const u32& b) {
      const f32x2 first = unpack_half(a), second = unpack_half(b);
      return f32x4(vector(first[0], first[1], second[0], second[1]));
    };
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const f32 own = inverse(inside(first_row + parts_[i].row));
      owner().if_(parts_[i].needed && own < least, [&] {
        const u32x4 part = moved_[i].load();
        const f32x4 first = numbers(part[0], part[1]), second = numbers(part[2], part[3]), by(own / least);
        std::vector<u32x2> pairs;
        const auto collect = [&](std::uint32_t, const u32x2& each) { pairs.push_back(each); };
        if (terms_ == 1) each_term(first * by, 1, true, collect), each_term(second * by, 1, true, collect);
        if (terms_ == 2) each_term((first + second * f32x4(1.0f / 2048.0f)) * by, 2, true, collect);
        moved_[i] = vector(pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1]);
      });
    }
  }
  /// Where the fragment that begins there is staged.
  [[nodiscard]] staged_place fragment(std::uint32_t term, const spirv::u32& row, std::uint32_t along,
                                      bool along_k) const {
    return {row * line_ + (at_ + term * rows_ * line_ + along / 4), line_, along_k};
  }
  [[nodiscard]] std::uint32_t staged_size() const { return terms_ * rows_ * line_; }
  [[nodiscard]] std::uint32_t padded() const { return fours_ * 4; }

 private:
  // A row has a power of two of lanes, of which some are behind its end.
  [[nodiscard]] spirv::boolean is_inside(const spirv::u32& four) const {
    return fours_ == lanes() ? spirv::boolean(true) : four < fours_;
  }
  // Of sixteen bytes: four numbers in two terms, or eight in one.
  [[nodiscard]] std::uint32_t parts_of_row() const { return terms_ * fours_ / 2; }

  std::uint32_t fours_, line_, rows_, terms_;
  std::uint32_t at_ = 0;
  std::optional<spirv::memory<spirv::u32x2>> staged_;
  std::optional<spirv::memory<spirv::u32>> prepared_;
  std::optional<spirv::memory<spirv::u32x4>> prepared_parts_;
  std::uint32_t prepared_count_ = 0;
  spirv::u32 first_prepared_;
  std::vector<piece> parts_, factors_;  // what this invocation moves of rows, and the rows whose factors it does
  std::vector<spirv::var<spirv::u32x4>> moved_;
  std::vector<spirv::var<spirv::f32>> inverses_;
};

/// Each row as it is prepared, or brought to f16's range; the inverse of its factor is kept. missing(): where a row has
/// none.
template <class Units, class Missing>
void stage_by_rows(spirv::kernel& k, const Units& units, const f16_rows& block,
                   const spirv::memory<spirv::f32>& factors, std::uint32_t first_factor, const Missing& missing) {
  using namespace spirv;
  if (block.is_prepared()) {
    return block.stage_prepared([&](const u32& row, const f32& inverse) {
      factors[row + first_factor] = inverse;
      k.if_(bitcast<u32>(inverse) == infinity_bits, missing);
    });
  }
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
