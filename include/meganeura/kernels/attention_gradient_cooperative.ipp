// SPDX-License-Identifier: MIT
// Definitions for kernels/attention_gradient_cooperative.hpp.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/fusion/attention_tiles.hpp>
#include <meganeura/kernels/attention_gradient_cooperative.hpp>
#include <meganeura/kernels/attention_units.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

/// Of a row of numbers that become an operand: brings the largest to [2^14, 2^15), whatever it is.
struct operand_scale {
  spirv::i32 exponent;
  explicit operand_scale(const spirv::f32& largest)
      : exponent(max(min(spirv::i32(14 + 127) - spirv::bitcast<spirv::i32>(magnitude(largest) >> 23u), spirv::i32(126)),
                     spirv::i32(-126))) {}
  [[nodiscard]] spirv::f32 factor() const { return power_of_two(exponent); }
  [[nodiscard]] spirv::f32 inverse() const { return power_of_two(-exponent); }
};

/// One kernel. A workgroup has some rows, of queries or of keys, and goes through those of the other kind, a block at a
/// time; each kind of row comes in two tensors: a query and the gradient of its output, a key and its values. A
/// subgroup has 16 rows as operands and computes their pairs with its share of the others, fragment by fragment: scores
/// and gradients of weights become what weighs the others' rows, which are staged with factors of their own that it
/// makes up for. In the end shares of a row meet.
template <template <class> class Rows>
class attention_gradient_on_units : public attention_kernel {
 public:
  attention_gradient_on_units(spirv::kernel& k, const attention_attribute& node, std::span<const dtype> types,
                              const device_profile& device)
      : attention_kernel(k, node),
        s_(node.schedule),
        unit_(device.unit),
        by_keys_(node.form == attention_form::key_gradients),
        rows_(s_.subgroups / s_.parts * unit_.m),
        units_(k, device, s_.subgroups),
        query_(k, plan_operand(scores_of(node), true), "query", rows_of(!by_keys_), s_.terms(), unit_),
        key_(k, plan_operand(scores_of(node), false), "key", rows_of(by_keys_), s_.terms(), unit_),
        values_(k, plan_operand(values_of(node), false), "values", rows_of(by_keys_), s_.terms(), unit_),
        gradient_(k, plan_operand(values_of(node, node.gradient()), true), "gradient", rows_of(!by_keys_), s_.terms(),
                  unit_),
        statistics_(k.storage_buffer<spirv::f32>("statistics")),
        mean_(k.storage_buffer<spirv::f32>("mean")),
        staged_(k.shared<spirv::u32x2>(fusion::staged_elements(s_, node.form, width_, channel_count_, device))),
        factors_(k.shared<spirv::f32>(2 * (rows_ + s_.keys))),
        of_queries_(k.shared<spirv::f32>(by_keys_ ? 3 * s_.keys : 1)),
        notes_(k.shared<spirv::u32>(1)) {
    bind_others(types);
    out_.emplace(k, node, node.output, by_keys_ ? 3 : 1, 4, "out");
    if (by_keys_) out_of_values_.emplace(k, node, node.further[0].output, 3, 2, "out_of_values");
    if (device.subgroup_shuffle) k.require_subgroup_size(device.subgroup_size);
  }

  [[nodiscard]] std::uint64_t groups() const {
    return static_cast<std::uint64_t>(node_.sizes()[0]) * ceil_div(own_count(), rows_);
  }

  void emit(const spirv::u32& linear) {
    using namespace spirv;
    const std::uint32_t down = ceil_div(own_count(), rows_), rows_of_units = s_.subgroups / s_.parts;
    batch_ = linear / down;
    first_own_ = tile_number(linear % down, down, by_keys_) * rows_;
    const u32 subgroup = units_.subgroup();
    index_ = units_.index();
    part_ = subgroup / rows_of_units, row_ = subgroup % rows_of_units * unit_.m;
    place_all();
    k_.if_(index_ == 0u, [&] { notes_[0u] = u32(0); });
    k_.barrier();
    read_own();
    const block_range others = others_of(first_own_, rows_, by_keys_, s_.keys);
    other(0).fetch(others.begin), other(1).fetch(others.begin);
    for_each_block(others, unrolling::keep, [&](const u32& first, const u32& next) {
      stage(other(0), 2 * rows_), stage(other(1), 2 * rows_ + s_.keys);
      if (by_keys_) read_queries(first);
      k_.if_(next < others.end, [&] { other(0).fetch(next), other(1).fetch(next); });
      k_.barrier();
      for (std::uint32_t j = 0; j < fragments_of_others(); j += depth()) add_up(first, j);
      k_.barrier();
    });
    k_.if_(
        notes_.load(0u) != 0u,
        [&] {
          store_one_by_one(*out_, width_, false);
          if (by_keys_) store_one_by_one(*out_of_values_, channel_count_, true);
        },
        [&] {
          store(sums_, *out_, width_);
          if (by_keys_) store(of_values_, *out_of_values_, channel_count_);
        });
  }

 private:
  using units = Rows<spirv::u32x2>;
  using sums = typename units::sums;
  using operand = typename units::operand;
  using row_values = typename units::row_values;
  using fragments = std::vector<operand>;  // of each term

  [[nodiscard]] std::uint32_t rows_of(bool are_own) const { return are_own ? rows_ : s_.keys; }
  [[nodiscard]] f16_rows& own(int which) {
    return by_keys_ ? which == 0 ? key_ : values_ : which == 0 ? query_ : gradient_;
  }
  [[nodiscard]] f16_rows& other(int which) {
    return by_keys_ ? which == 0 ? query_ : gradient_ : which == 0 ? key_ : values_;
  }
  [[nodiscard]] std::uint32_t own_count() const { return by_keys_ ? key_count_ : query_count_; }
  [[nodiscard]] std::uint32_t other_count() const { return by_keys_ ? query_count_ : key_count_; }
  [[nodiscard]] std::uint32_t others_each() const { return s_.keys / s_.parts; }
  [[nodiscard]] std::uint32_t fragments_of_others() const { return others_each() / unit_.n; }
  // Fragments that are weighed at once.
  [[nodiscard]] std::uint32_t depth() const { return units::keeps_operands && fragments_of_others() % 2 == 0 ? 2 : 1; }

  void place_all() {
    for (f16_rows* each : {&query_, &key_, &values_, &gradient_}) each->place(batch_, index_);
    for (const int which : {0, 1}) read_prepared(other(which), static_cast<std::size_t>(which), index_);
    std::uint32_t at = 0;
    for (const int which : {0, 1}) {
      own(which).begin(staged_, at);
      if (!units::keeps_operands) at += own(which).staged_size();
    }
    other(0).begin(staged_, at);
    other(1).begin(staged_, at + other(0).staged_size());
  }
  void stage(const f16_rows& block, std::uint32_t first_factor) {
    stage_by_rows(k_, units_, block, factors_, first_factor, [&] { notes_[0u] = spirv::u32(1); });
  }
  [[nodiscard]] fragments load(const f16_rows& from, const spirv::u32& row, std::uint32_t along, bool along_k,
                               spirv::matrix_use use) const {
    return load_terms(units_, staged_, s_.terms(), from, row, along, along_k, use);
  }

  // Own rows become operands, and what is known of them stays with their lanes.
  void read_own() {
    using namespace spirv;
    own(0).fetch(first_own_), own(1).fetch(first_own_);
    for (const int which : {0, 1}) {
      stage(own(which), static_cast<std::uint32_t>(which) * rows_);
      k_.barrier();
      for (std::uint32_t along = 0; along < own(which).padded(); along += unit_.k)
        operands_[which].push_back(load(own(which), row_, along, true, matrix_use::a));
      k_.barrier();
    }
    const auto values = [&](const auto& of_row) {
      const row_values made = units_.make_values(0);
      units_.each_row([&](const auto& slot, const u32& row) { units_.set(made, slot, of_row(row_ + row)); });
      return made;
    };
    for (const int which : {0, 1})
      inverses_.push_back(
          values([&](const u32& row) { return factors_.load(row + static_cast<std::uint32_t>(which) * rows_); }));
    if (!by_keys_) {
      for (const int which : {0, 1, 2})
        of_own_.push_back(values([&](const u32& row) { return of_query(first_own_ + row, which); }));
    }
    largest_ = units_.make_values(0), factor_ = units_.make_values(0), inverse_ = units_.make_values(0);
    for (std::uint32_t along = 0; along < own(0).padded(); along += unit_.n) sums_.push_back(units_.zero());
    if (!by_keys_) return;
    for (std::uint32_t along = 0; along < own(1).padded(); along += unit_.n) of_values_.push_back(units_.zero());
  }

  // The largest score of a query that is there or is the last one, 1 / the sum of e, the mean.
  [[nodiscard]] spirv::f32 of_query(const spirv::u32& query, int which) const {
    const spirv::u32 at = min(query, spirv::u32(query_count_ - 1));
    if (which == 2) return mean_.load(row_offset(node_.accesses[5], at));
    const spirv::u32 place = row_offset(node_.accesses[4], at);
    return which == 0 ? origin(statistics_.load(place)) : statistics_.load(place + row_count());
  }
  void read_queries(const spirv::u32& first) {
    for_each_below(k_, index_, s_.keys, [&](const spirv::u32& at) {
      for (const int which : {0, 1, 2})
        of_queries_[at + static_cast<std::uint32_t>(which) * s_.keys] = of_query(first + at, which);
    });
  }

  // Products of own rows and of others from `from` on.
  [[nodiscard]] sums products(int which, const spirv::u32& from) {
    const sums found = units_.zero();
    const std::vector<fragments>& own_rows = operands_[which];
    for (std::size_t i = 0; i < own_rows.size(); i += 2) {
      const std::size_t count = std::min<std::size_t>(2, own_rows.size() - i);
      std::vector<fragments> others;
      for (std::size_t each = i; each < i + count; ++each)
        others.push_back(
            load(other(which), from, static_cast<std::uint32_t>(each) * unit_.k, true, spirv::matrix_use::b));
      add_terms(units_, s_.terms(), found, std::span<const fragments>(own_rows).subspan(i, count),
                std::span<const fragments>(others));
    }
    return found;
  }

  // `depth` fragments of others, from number j of the subgroup's share on.
  void add_up(const spirv::u32& first, std::uint32_t j) {
    std::vector<sums> weights, slopes;
    std::vector<spirv::u32> from;
    for (std::uint32_t each = 0; each < depth(); ++each) {
      from.push_back(part_ * others_each() + (j + each) * unit_.n);
      weights.push_back(products(0, from.back()));
      slopes.push_back(products(1, from.back()));
      weigh(weights.back(), slopes.back(), first, from.back());
    }
    add_weighed(sums_, slopes, other(0), from);
    if (by_keys_) add_weighed(of_values_, weights, other(1), from);
  }

  // Of scores and gradients of weights, weights and gradients of scores, as they weigh others' staged rows.
  void weigh(const sums& scores, const sums& changes, const spirv::u32& first, const spirv::u32& from) {
    using namespace spirv;
    const bool ends = other_count() % s_.keys != 0;
    units_.update(
        scores, changes, [&](const auto& slot, const u32& row, const u32& column, const f32& sum, const f32& change) {
          const u32 local = from + column, own = first_own_ + row_ + row, place = first + local;
          const u32 &query = by_keys_ ? place : own, &key = by_keys_ ? own : place;
          const f32 first_inverse = factors_.load(local + 2 * rows_),
                    second_inverse = factors_.load(local + (2 * rows_ + s_.keys));
          const auto of = [&](int which) {
            return by_keys_ ? of_queries_.load(local + static_cast<std::uint32_t>(which) * s_.keys)
                            : units_.at(of_own_[static_cast<std::size_t>(which)], slot);
          };
          const f32 value = score(sum * units_.at(inverses_[0], slot) * first_inverse, query, key);
          const f32 distance = value - of(0);
          const f32 weight = (s_.terms() == 1 ? rounded_exp(distance, 0) : exp_below(distance, 0)) * of(1);
          const f32 of_weight = change * units_.at(inverses_[1], slot) * second_inverse - of(2);
          const f32 slope = slope_of(value, weight * of_weight, query, key);
          const auto counts = [&](const f32& x) { return ends ? select(place < other_count(), x, f32(0)) : x; };
          return std::pair{counts(weight * second_inverse), counts(slope * first_inverse)};
        });
  }

  // Sums of others' rows by these; each row of these has a factor.
  void add_weighed(std::span<const sums> to, std::span<const sums> by, const f16_rows& rows,
                   std::span<const spirv::u32> from) {
    using namespace spirv;
    units_.each_row([&](const auto& slot, const u32&) { units_.set(*largest_, slot, f32(0)); });
    for (const sums& each : by) {
      units_.update(each, [&](const auto& slot, const u32&, const u32&, const f32& x) {
        units_.set(*largest_, slot, max(units_.at(*largest_, slot), bitcast<f32>(magnitude(x))));
        return x;
      });
    }
    units_.over_rows(*largest_, [](const f32& a, const f32& b) { return max(a, b); });
    units_.each_row([&](const auto& slot, const u32&) {
      const operand_scale scale(units_.at(*largest_, slot));
      units_.set(*factor_, slot, scale.factor()), units_.set(*inverse_, slot, scale.inverse());
    });
    std::vector<fragments> weights;
    for (const sums& each : by) {
      units_.update(
          each, [&](const auto& slot, const u32&, const u32&, const f32& x) { return x * units_.at(*factor_, slot); });
      weights.push_back(units_.operands_of(each, s_.terms()));
    }
    for (std::uint32_t c = 0; c < to.size(); ++c) {
      std::vector<fragments> weighed;
      for (const u32& each : from) weighed.push_back(load(rows, each, c * unit_.n, false, matrix_use::b));
      const sums part = units_.zero();
      add_terms(units_, s_.terms(), part, std::span<const fragments>(weights), std::span<const fragments>(weighed));
      units_.add_by_rows(to[c], part, *inverse_);
    }
    units_.release_operands();
  }

  // Shares of a row meet in workgroup memory.
  void store(std::span<const sums> from, const stored_rows& to, std::uint32_t length) {
    using namespace spirv;
    const std::uint32_t line = fusion::exchange_line(length, unit_);
    const u32 own = units_.subgroup() * unit_.m;
    for (std::uint32_t c = 0; c < from.size(); ++c) units_.store(from[c], staged_, own * line + c * unit_.n / 2, line);
    k_.barrier();
    const std::uint32_t fours = ceil_div(length, 4u), count = rows_ * fours;
    k_.for_(0, count, k_.local_size()[0], [&](const u32& begin) {
      const u32 at = begin + index_, row = at / fours, four = at % fours, place = first_own_ + row;
      k_.if_(at < count && place < own_count(), [&] {
        f32x4 total(0.0f);
        for (std::uint32_t part = 0; part < s_.parts; ++part) {
          const u32 start = (row + part * rows_) * line + four * 2u;
          const u32x2 one = staged_.load(start), two = staged_.load(start + 1u);
          total = total + bitcast<f32x4>(vector(one[0], one[1], two[0], two[1]));
        }
        to.store(batch_, place, four * 4u, total);
      });
    });
    k_.barrier();
  }

  // In f32 from the operands themselves, where f16 cannot hold them.
  void store_one_by_one(const stored_rows& to, std::uint32_t length, bool are_values) {
    using namespace spirv;
    const std::uint32_t fours = ceil_div(length, 4u), count = rows_ * fours;
    k_.for_(
        0, count, k_.local_size()[0],
        [&](const u32& begin) {
          const u32 at = begin + index_, own = first_own_ + at / fours, four = at % fours;
          k_.if_(at < count && own < own_count(), [&] {
            const var<f32x4> total = k_.variable<f32x4>();
            total = f32x4(0.0f);
            k_.for_(
                0, other_count(), 1,
                [&](const u32& place) {
                  const auto [weight, slope] = one_by_one(by_keys_ ? place : own, by_keys_ ? own : place);
                  const f16_rows& rows = other(are_values ? 1 : 0);
                  std::vector<f32> of_four;
                  for (std::uint32_t c = 0; c < 4; ++c)
                    of_four.push_back(rows.element(place, min(four * 4u + c, u32(length - 1))));
                  const f32x4 read = vector(of_four[0], of_four[1], of_four[2], of_four[3]);
                  total = fma(f32x4(are_values ? weight : slope), read, total.load());
                },
                unrolling::keep);
            to.store(batch_, own, four * 4u, total.load());
          });
        },
        unrolling::keep);
  }
  // A weight and the gradient of its score.
  [[nodiscard]] std::pair<spirv::f32, spirv::f32> one_by_one(const spirv::u32& query, const spirv::u32& key) {
    using namespace spirv;
    const auto product = [&](const f16_rows& a, const f16_rows& b, std::uint32_t length) {
      const var<f32> sum = k_.variable<f32>();
      sum = f32(0);
      k_.for_(
          0, length, 1,
          [&](const u32& along) { sum = fma(a.element(query, along), b.element(key, along), sum.load()); },
          unrolling::keep);
      return sum.load();
    };
    const f32 value = score(product(query_, key_, width_), query, key);
    const f32 weight = exp_below(value - of_query(query, 0), 0) * of_query(query, 1);
    const f32 of_weight = product(gradient_, values_, channel_count_) - of_query(query, 2);
    return {weight, slope_of(value, weight * of_weight, query, key)};
  }

  const attention_schedule s_;
  const matrix_shape unit_;
  const bool by_keys_;
  const std::uint32_t rows_;
  units units_;
  f16_rows query_, key_, values_, gradient_;
  spirv::memory<spirv::f32> statistics_, mean_;
  spirv::memory<spirv::u32x2> staged_;
  spirv::memory<spirv::f32> factors_;     // the inverses of own rows', then of a block's
  spirv::memory<spirv::f32> of_queries_;  // of a block: the largest scores, 1 / the sums of e, the means
  spirv::memory<spirv::u32> notes_;       // whether a row has no factor
  std::optional<stored_rows> out_, out_of_values_;
  spirv::u32 first_own_, index_, part_, row_;
  std::vector<fragments> operands_[2];
  std::vector<row_values> inverses_, of_own_;
  std::vector<sums> sums_, of_values_;
  std::optional<row_values> largest_, factor_, inverse_;
};

template <template <class> class Rows>
[[nodiscard]] kernel_dispatch make_attention_gradient_on(const attention_attribute& node, std::span<const dtype> types,
                                                         const device_profile& on) {
  const auto [batch, queries, channels, keys, width] = node.sizes();
  spirv::kernel k(fmt::format("attention_{} {}x{}x{}x{}", to_string(node.form), batch, queries, keys, width),
                  {node.schedule.subgroups * on.subgroup_size, 1, 1});
  attention_gradient_on_units<Rows> rows(k, node, types, on);
  const auto groups = spread_groups(rows.groups(), on);
  const spirv::u32 linear = linear_group(k, groups);
  if_inside(k, linear, rows.groups(), std::uint64_t{groups[0]} * groups[1], [&] { rows.emit(linear); });
  return {k.finish(), groups};
}

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_cooperative_attention_gradient(const attention_attribute& node,
                                                                     std::span<const dtype> types,
                                                                     const device_profile& on) {
  detail::expect_fits(node, on);
  if (on.matrix_units == matrix_units::emulated)
    return detail::make_attention_gradient_on<detail::emulated_rows>(node, types, on);
  return detail::make_attention_gradient_on<detail::cooperative_rows>(node, types, on);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
