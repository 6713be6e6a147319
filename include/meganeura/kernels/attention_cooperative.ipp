// SPDX-License-Identifier: MIT
// Definitions for kernels/attention_cooperative.hpp.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/fusion/attention_tiles.hpp>
#include <meganeura/kernels/attention_cooperative.hpp>
#include <meganeura/kernels/attention_units.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

/// One kernel. A subgroup computes scores of its rows and its share of a block's keys, weighs them where they are, and
/// adds up what they weigh. In the end shares of a row meet, each brought to the largest score of all.
template <template <class> class Rows>
class attention_on_units : public attention_kernel {
 public:
  attention_on_units(spirv::kernel& k, const attention_attribute& node, std::span<const dtype> types,
                     const device_profile& device)
      : attention_kernel(k, node),
        s_(node.schedule),
        unit_(device.unit),
        rows_(s_.subgroups / s_.parts * unit_.m),
        units_(k, device, s_.subgroups),
        query_(k, plan_operand(scores_of(node), true), "query", rows_, s_.terms(), unit_),
        key_(k, plan_operand(scores_of(node), false), "key", s_.keys, s_.terms(), unit_),
        values_(k, plan_operand(values_of(node), false), "values", s_.keys, s_.terms(), unit_),
        staged_(k.shared<spirv::u32x2>(fusion::staged_elements(s_, node.form, width_, channel_count_, device))),
        factors_(k.shared<spirv::f32>(rows_ + s_.keys + (s_.prepared ? s_.keys : values_.padded()))),
        totals_(k.shared<spirv::f32>(2 * s_.subgroups * unit_.m)),
        notes_(k.shared<spirv::u32>(values_.padded() + 4)) {
    bind_others(types);
    bind_output();
    if (device.subgroup_shuffle) k.require_subgroup_size(device.subgroup_size);
  }

  [[nodiscard]] std::uint64_t groups() const {
    return static_cast<std::uint64_t>(node_.sizes()[0]) * ceil_div(query_count_, rows_);
  }

  void emit(const spirv::u32& linear) {
    using namespace spirv;
    const std::uint32_t down = ceil_div(query_count_, rows_), rows_of_units = s_.subgroups / s_.parts;
    batch_ = linear / down;
    first_query_ = tile_number(linear % down, down, false) * rows_;
    const u32 subgroup = units_.subgroup();
    index_ = units_.index();
    part_ = subgroup / rows_of_units, row_ = subgroup % rows_of_units * unit_.m;
    query_.place(batch_, index_), key_.place(batch_, index_), values_.place(batch_, index_);
    query_.begin(staged_, 0);
    key_.begin(staged_, Rows<u32x2>::keeps_operands ? 0 : query_.staged_size());
    values_.begin(staged_, (Rows<u32x2>::keeps_operands ? 0 : query_.staged_size()) + key_.staged_size());

    read_prepared(key_, 0, index_), read_prepared(values_, 1, index_);
    keys_ = others_of(first_query_, rows_, false, s_.keys);
    query_.fetch(first_query_), key_.fetch(keys_.begin), values_.fetch(keys_.begin);
    clear_notes();
    k_.barrier();
    stage_by_rows(query_, 0);
    if (s_.prepared) find_unit();
    k_.barrier();
    begin();
    if (s_.prepared) {
      use_unit();
      clear_sums();
      k_.barrier();
      add_up();
    } else {
      add_up_until_all_fits();
    }
    k_.if_(
        notes_.load(values_.padded() + without) != 0u, [&] { store_one_by_one(); }, [&] { finish(); });
  }

 private:
  using units = Rows<spirv::u32x2>;
  using sums = typename units::sums;
  using operand = typename units::operand;
  using row_values = typename units::row_values;
  static constexpr std::uint32_t without = 0, overflow = 1;  // notes, behind those of the channels
  static constexpr std::uint32_t shift = 14;  // weights count 2^-14: small ones are normal numbers of f16

  [[nodiscard]] std::uint32_t keys_each() const { return s_.keys / s_.parts; }
  [[nodiscard]] std::uint32_t fragments_of_keys() const { return keys_each() / unit_.n; }
  [[nodiscard]] std::uint32_t fragments_of_channels() const { return values_.padded() / unit_.n; }
  [[nodiscard]] std::uint32_t first_key_factor() const { return rows_; }
  // Of channels, or of prepared rows of values.
  [[nodiscard]] std::uint32_t first_value_factor() const { return rows_ + s_.keys; }

  void clear_notes() {
    for_each_below(k_, index_, values_.padded() + 4, [&](const spirv::u32& at) { notes_[at] = spirv::u32(0); });
  }
  void note(std::uint32_t what) { static_cast<void>(notes_[spirv::u32(values_.padded() + what)].atomic_max(1u)); }

  void stage_by_rows(const f16_rows& block, std::uint32_t first_factor) {
    detail::stage_by_rows(k_, units_, block, factors_, first_factor, [&] { note(without); });
  }

  void begin() {
    using namespace spirv;
    for (std::uint32_t along = 0; along < query_.padded(); along += unit_.k)
      rows_of_query_.push_back(load(query_, row_, along, true, matrix_use::a));
    query_factors_ = units_.make_values(1);
    units_.each_row(
        [&](const auto& slot, const u32& row) { units_.set(*query_factors_, slot, factors_.load(row_ + row)); });
    largest_ = units_.make_values(0), seen_ = units_.make_values(0), shrinking_ = units_.make_values(0);
    total_ = units_.make_values(0);
    for (std::uint32_t i = 0; i < fragments_of_keys(); ++i) scores_.push_back(units_.zero());
    for (std::uint32_t i = 0; i < fragments_of_channels(); ++i) weighed_.push_back(units_.zero());
  }

  void clear_sums() {
    units_.each_row([&](const auto& slot, const spirv::u32&) {
      units_.set(*largest_, slot, nothing), units_.set(*total_, slot, spirv::f32(0));
    });
    for (const sums& each : weighed_) units_.clear(each);
  }

  // Of all values that come prepared the largest inverse of a row's factor, which weights count, and whether another
  // one is below 2^-14 of it: their weights would lose digits. Nothing helps where it is below 2^-28.
  void find_unit() {
    using namespace spirv;
    const var<u32> largest = k_.variable<u32>(), least = k_.variable<u32>();
    for_each_below(k_, index_, key_count_, [&](const u32& row) {
      const u32 inverse = bitcast<u32>(values_.inverse(row));
      largest = max(largest.load(), inverse);
      k_.if_(inverse != 0u, [&] { least = max(least.load(), ~inverse); });
    });
    static_cast<void>(notes_[0u].atomic_max(largest.load()));
    static_cast<void>(notes_[1u].atomic_max(least.load()));
  }
  void use_unit() {
    using namespace spirv;
    const u32 largest = notes_.load(0u), least = ~notes_.load(1u);
    unit_of_values_ = bitcast<f32>(largest);
    least_in_unit_ = *unit_of_values_ * f32(0x1p-14f);
    is_low_ = bitcast<f32>(least) < *least_in_unit_;
    k_.if_(largest == infinity_bits || bitcast<f32>(least) < *unit_of_values_ * f32(0x1p-28f), [&] { note(without); });
  }

  // With the factors of their channels, or prepared, with those of rows, which weights make up for. Values so far below
  // others of all their channel that digits would be lost have none.
  void stage_values(const spirv::u32& first_key) {
    using namespace spirv;
    if (!s_.prepared) {
      const var<u32x4> largest = k_.variable<u32x4>();  // of what this invocation has of a block
      largest = u32x4(0u);
      values_.each([&](const u32& row, const u32& four, const f32x4& x) {
        const f32x4 scaled = x * *channel_factors_;
        values_.stage(row, four, scaled, true);
        largest = max(largest.load(), magnitudes(scaled));
      });
      const u32x4 found = largest.load();
      for (std::uint32_t c = 0; c < 4; ++c)
        k_.if_(found[c] != 0u && found[c] < (127u - 12) << 23, [&] { note(without); });
      return;
    }
    const f32 per_unit = bitcast<f32>(u32(254u << 23) - bitcast<u32>(*unit_of_values_));
    k_.if_(*is_low_, [&] { values_.lower(first_key, *least_in_unit_); });
    values_.stage_prepared([&](const u32& row, const f32& inverse) {
      factors_[row + first_value_factor()] = max(inverse, *least_in_unit_) * per_unit;
    });
  }

  // Factors of channels by the first block of their values, or by all of them where these do not do.
  void add_up_until_all_fits() {
    using namespace spirv;
    const var<u32> tries = k_.variable<u32>(), whole = k_.variable<u32>();
    k_.while_([&] { return tries.load() < 2u; },
              [&] {
                tries = tries.load() + 1u;
                scale_channels(whole.load() != 0u);
                clear_sums();
                add_up();
                u32 largest = 0;
                for (const sums& each : weighed_) largest = max(largest, units_.largest(each));
                k_.if_(largest >= infinity_bits, [&] { note(overflow); });
                k_.barrier();
                k_.if_(
                    whole.load() == 0u && notes_.load(values_.padded() + overflow) != 0u, [&] { whole = u32(1); },
                    [&] { tries = u32(2); });
              },
              2);
  }

  void scale_channels(const spirv::boolean& whole) {
    using namespace spirv;
    const var<u32x4> found = k_.variable<u32x4>();
    const auto look = [&] {
      values_.each([&](const u32&, const u32&, const f32x4& x) { found = max(found.load(), magnitudes(x)); });
    };
    const u32 four = index_ % values_.lanes();
    found = u32x4(0u);
    k_.if_(whole, [&] {
      k_.for_(
          0, key_count_, s_.keys,
          [&](const u32& first) {
            values_.fetch(first);
            look();
          },
          unrolling::keep);
      key_.fetch(keys_.begin), values_.fetch(keys_.begin);
    });
    look();
    k_.if_(four * 4u < values_.padded(), [&] {
      for (std::uint32_t c = 0; c < 4; ++c) static_cast<void>(notes_[four * 4u + c].atomic_max(found.load()[c]));
    });
    k_.barrier();
    const i32 target = select(whole, i32(14), i32(11));  // of the first block: the others may have 2^4 as much
    std::vector<f32> of_four;
    for (std::uint32_t c = 0; c < 4; ++c) {
      const u32 at = min(four * 4u + c, u32(values_.padded() - 1));
      of_four.push_back(f16_scale(notes_.load(at), target).factor());
    }
    channel_factors_ = vector(of_four[0], of_four[1], of_four[2], of_four[3]);
    for_each_below(k_, index_, values_.padded(), [&](const u32& at) {
      const u32 largest = notes_.load(at);
      factors_[at + first_value_factor()] = f16_scale(largest, target).inverse();
      k_.if_(whole && !f16_scale::exists(largest), [&] { note(without); });
    });
  }

  void add_up() {
    using namespace spirv;
    for_each_block(keys_, unrolling::keep, [&](const u32& first_key, const u32& next) {
      stage_by_rows(key_, first_key_factor());
      stage_values(first_key);
      k_.if_(next < keys_.end, [&] { key_.fetch(next), values_.fetch(next); });
      k_.barrier();
      score_block(first_key);
      weigh();
      add_up_block();
      k_.barrier();
    });
  }

  using fragments = std::vector<operand>;  // of each term
  [[nodiscard]] fragments load(const f16_rows& from, const spirv::u32& row, std::uint32_t along, bool along_k,
                               spirv::matrix_use use) const {
    return load_terms(units_, staged_, s_.terms(), from, row, along, along_k, use);
  }
  void add_products(const sums& total, std::span<const fragments> a, std::span<const fragments> b) const {
    add_terms(units_, s_.terms(), total, a, b);
  }

  void score_block(const spirv::u32& first_key) {
    using namespace spirv;
    const u32 first = part_ * keys_each();
    units_.each_row([&](const auto& slot, const u32&) { units_.set(*seen_, slot, units_.at(*largest_, slot)); });
    for (std::uint32_t j = 0; j < scores_.size(); ++j) {
      units_.clear(scores_[j]);
      for (std::size_t i = 0; i < rows_of_query_.size(); i += 2) {
        const std::size_t count = std::min<std::size_t>(2, rows_of_query_.size() - i);
        std::vector<fragments> of_keys;
        for (std::size_t each = i; each < i + count; ++each)
          of_keys.push_back(
              load(key_, first + j * unit_.n, static_cast<std::uint32_t>(each) * unit_.k, true, matrix_use::b));
        add_products(scores_[j], std::span(rows_of_query_).subspan(i, count), of_keys);
      }
      units_.update(scores_[j], [&](const auto& slot, const u32& row, const u32& column, const f32& sum) {
        const u32 key = first + j * unit_.n + column, place = first_key + key;
        const f32 unscaled = sum * units_.at(*query_factors_, slot) * factors_.load(key + first_key_factor());
        const f32 value = score(unscaled, first_query_ + row_ + row, place);
        if (key_count_ % s_.keys == 0) units_.set(*seen_, slot, max(units_.at(*seen_, slot), value));
        return value;
      });
    }
    if (key_count_ % s_.keys != 0) {
      k_.if_(first_key + s_.keys > key_count_, [&] { hide_ending(first_key + first); });
      for (const sums& each : scores_) {
        units_.update(each, [&](const auto& slot, const u32&, const u32&, const f32& value) {
          units_.set(*seen_, slot, max(units_.at(*seen_, slot), value));
          return value;
        });
      }
    }
    units_.over_rows(*seen_, [](const f32& a, const f32& b) { return max(a, b); });
  }

  // Keys behind the last one count for nothing.
  void hide_ending(const spirv::u32& first_key) {
    for (std::uint32_t j = 0; j < scores_.size(); ++j) {
      units_.update(scores_[j], [&](const auto&, const spirv::u32&, const spirv::u32& column, const spirv::f32& value) {
        return select(first_key + j * unit_.n + column < key_count_, value, nothing);
      });
    }
  }

  void weigh() {
    using namespace spirv;
    units_.each_row([&](const auto& slot, const u32&) {
      const f32 before = units_.at(*largest_, slot), now = units_.at(*seen_, slot);
      const f32 factor = shrinking(before, now);
      units_.set(*shrinking_, slot, factor), units_.set(*largest_, slot, now);
      units_.set(*total_, slot, units_.at(*total_, slot) * factor);
      units_.set(*seen_, slot, origin(now));
    });
    for (const sums& each : weighed_) {
      units_.update(each, [&](const auto& slot, const u32&, const u32&, const f32& sum) {
        return sum * units_.at(*shrinking_, slot);
      });
    }
    for (std::uint32_t j = 0; j < scores_.size(); ++j) {
      units_.update(scores_[j], [&](const auto& slot, const u32&, const u32& column, const f32& value) {
        const f32 from_largest = value - units_.at(*seen_, slot);
        const f32 part = s_.terms() == 1 ? rounded_exp(from_largest, shift) : exp_below(from_largest, shift);
        units_.set(*total_, slot, units_.at(*total_, slot) + part);
        const f32 whole = weight(value, part);
        if (!s_.prepared) return whole;
        return whole * factors_.load(part_ * keys_each() + j * unit_.n + column + first_value_factor());
      });
    }
  }

  void add_up_block() {
    // Of units in registers two fragments of weights at a time.
    const std::size_t depth = units::keeps_operands ? 2 : 1;
    for (std::size_t i = 0; i < scores_.size(); i += depth) {
      std::vector<fragments> weights;
      for (std::size_t each = i; each < std::min(i + depth, scores_.size()); ++each)
        weights.push_back(units_.operands_of(scores_[each], s_.terms()));
      for (std::uint32_t c = 0; c < weighed_.size(); ++c) {
        std::vector<fragments> of_values;
        for (std::size_t each = i; each < i + weights.size(); ++each) {
          const spirv::u32 key = part_ * keys_each() + static_cast<std::uint32_t>(each) * unit_.k;
          of_values.push_back(load(values_, key, c * unit_.n, false, spirv::matrix_use::b));
        }
        add_products(weighed_[c], weights, of_values);
      }
      units_.release_operands();
    }
  }

  // Shares of a row meet in workgroup memory.
  void finish() {
    using namespace spirv;
    const std::uint32_t line = fusion::exchange_line(channel_count_, unit_), all_rows = s_.subgroups * unit_.m;
    const u32 own = units_.subgroup() * unit_.m;
    units_.over_rows(*total_, [](const f32& a, const f32& b) { return a + b; });
    for (std::uint32_t c = 0; c < weighed_.size(); ++c)
      units_.store(weighed_[c], staged_, own * line + c * unit_.n / 2, line);
    units_.store_rows(*largest_, totals_, own);
    units_.store_rows(*total_, totals_, own + all_rows);
    k_.barrier();
    const std::uint32_t fours = ceil_div(channel_count_, 4u), count = rows_ * fours;
    k_.for_(0, count, k_.local_size()[0], [&](const u32& begin) {
      const u32 at = begin + index_, row = at / fours, four = at % fours;
      const u32 query = first_query_ + row;
      k_.if_(at < count && query < query_count_, [&] { store_row(row, four, line, all_rows); });
    });
  }

  void store_row(const spirv::u32& row, const spirv::u32& four, std::uint32_t line, std::uint32_t all_rows) {
    using namespace spirv;
    f32 largest = totals_.load(row);
    for (std::uint32_t part = 1; part < s_.parts; ++part) largest = max(largest, totals_.load(row + part * rows_));
    f32 total(0);
    if (node_.has_sink()) {
      const f32 more = sink(first_query_ + row);
      largest = max(largest, more);
      total = e_of_sink(more, largest, shift);
    }
    f32x4 weighed(0.0f);
    for (std::uint32_t part = 0; part < s_.parts; ++part) {
      const u32 own = row + part * rows_;
      const u32x2 first = staged_.load(own * line + four * 2u), second = staged_.load(own * line + four * 2u + 1u);
      const f32x4 added = bitcast<f32x4>(vector(first[0], first[1], second[0], second[1]));
      const f32 factor = s_.parts == 1 && !node_.has_sink() ? f32(1) : shrinking(totals_.load(own), largest);
      weighed = weighed + added * f32x4(factor);
      total = total + totals_.load(own + all_rows) * factor;
    }
    std::vector<f32> of_four;
    for (std::uint32_t c = 0; c < 4; ++c)
      of_four.push_back(s_.prepared ? *unit_of_values_ : factors_.load(four * 4u + (c + first_value_factor())));
    store(first_query_ + row, four * 4u, weighed, total, vector(of_four[0], of_four[1], of_four[2], of_four[3]));
    k_.if_(four == 0u, [&] {
      constexpr float unshift = 1.0f / static_cast<float>(1u << shift);
      store_statistics(first_query_ + row, largest, total * unshift);
    });
  }

  // In f32 from the operands themselves, where f16 cannot hold them.
  void store_one_by_one() {
    using namespace spirv;
    const std::uint32_t fours = ceil_div(channel_count_, 4u), count = rows_ * fours;
    k_.for_(
        0, count, k_.local_size()[0],
        [&](const u32& begin) {
          const u32 at = begin + index_, query = first_query_ + at / fours, four = at % fours;
          k_.if_(at < count && query < query_count_, [&] {
            const var<f32> largest = k_.variable<f32>(), total = k_.variable<f32>();
            const var<f32x4> weighed = k_.variable<f32x4>();
            largest = nothing, total = f32(0), weighed = f32x4(0.0f);
            if (node_.has_sink()) {
              largest = sink(query);
              total = e_of_sink(largest.load(), largest.load(), 0) * weight_unit();
            }
            k_.for_(
                0, key_count_, 1,
                [&](const u32& key) {
                  const var<f32> sum = k_.variable<f32>();
                  sum = f32(0);
                  k_.for_(
                      0, width_, 1,
                      [&](const u32& along) {
                        sum = fma(query_.element(query, along), key_.element(key, along), sum.load());
                      },
                      unrolling::keep);
                  const f32 value = score(sum.load(), query, key), before = largest.load();
                  const f32 now = max(before, value), factor = shrinking(before, now);
                  const f32 part = exp_below(value - origin(now), 0) * weight_unit();
                  std::vector<f32> of_four;
                  for (std::uint32_t c = 0; c < 4; ++c)
                    of_four.push_back(values_.element(key, min(four * 4u + c, u32(channel_count_ - 1))));
                  const f32x4 read = vector(of_four[0], of_four[1], of_four[2], of_four[3]);
                  largest = now;
                  total = total.load() * factor + part;
                  weighed = fma(f32x4(weight(value, part)), read, weighed.load() * f32x4(factor));
                },
                unrolling::keep);
            store(query, four * 4u, weighed.load(), total.load());
            k_.if_(four == 0u, [&] { store_statistics(query, largest.load(), total.load() / weight_unit()); });
          });
        },
        unrolling::keep);
  }

  const attention_schedule s_;
  const matrix_shape unit_;
  const std::uint32_t rows_;
  units units_;
  f16_rows query_, key_, values_;
  spirv::memory<spirv::u32x2> staged_;
  // The inverses of rows', of a block's keys', of channels' or of a block's prepared values', in their unit.
  spirv::memory<spirv::f32> factors_;
  spirv::memory<spirv::f32> totals_;  // of rows of subgroups: the largest scores, then the totals
  spirv::memory<spirv::u32> notes_;   // channels' magnitudes; then what is noted
  spirv::u32 index_, part_, row_;     // of the invocation; of the subgroup
  block_range keys_;
  std::vector<fragments> rows_of_query_;
  std::vector<sums> scores_, weighed_;
  std::optional<row_values> query_factors_, largest_, seen_, shrinking_, total_;
  std::optional<spirv::f32x4> channel_factors_;
  std::optional<spirv::f32> unit_of_values_, least_in_unit_;  // of those that come prepared
  std::optional<spirv::boolean> is_low_;                      // whether some are below that
};

template <template <class> class Rows>
[[nodiscard]] kernel_dispatch make_attention_on(const attention_attribute& node, std::span<const dtype> types,
                                                const device_profile& on) {
  const auto [batch, queries, channels, keys, width] = node.sizes();
  spirv::kernel k(fmt::format("attention {}x{}x{}x{}", batch, queries, keys, width),
                  {node.schedule.subgroups * on.subgroup_size, 1, 1});
  attention_on_units<Rows> rows(k, node, types, on);
  const auto groups = spread_groups(rows.groups(), on);
  const spirv::u32 linear = linear_group(k, groups);
  if_inside(k, linear, rows.groups(), std::uint64_t{groups[0]} * groups[1], [&] { rows.emit(linear); });
  return {k.finish(), groups};
}

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_cooperative_attention(const attention_attribute& node,
                                                            std::span<const dtype> types, const device_profile& on) {
  detail::expect_fits(node, on);
  if (on.matrix_units == matrix_units::emulated)
    return detail::make_attention_on<detail::emulated_rows>(node, types, on);
  return detail::make_attention_on<detail::cooperative_rows>(node, types, on);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
