// SPDX-License-Identifier: MIT
// One operand of a product on its way to matrix units: factors of its rows, f16 terms in workgroup memory.
#pragma once
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/matmul.hpp>
#include <meganeura/kernels/matrix_unit.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

[[nodiscard]] inline bool strides_allow(const matmul_operand& plan, std::uint32_t unit) {
  const strided_axes& along = plan.along_k ? plan.k : plan.rows;
  if (along.back().stride != 1 || along.back().extent % unit != 0 || plan.offset % unit != 0) return false;
  for (const strided_axes* group : {&plan.batch, &plan.rows, &plan.k}) {
    for (const strided_axis& axis : *group) {
      if (&axis != &along.back() && axis.stride % unit != 0) return false;
    }
  }
  return true;
}

struct staged_shape {
  std::uint32_t rows = 0, units = 0, stride = 0;  // rows of `units` groups, `stride` groups apart
  [[nodiscard]] std::uint32_t groups() const { return rows * stride; }
};
[[nodiscard]] inline staged_shape stage_shape(const matmul_operand& plan, std::uint32_t tile_rows, std::uint32_t tile_k,
                                              std::uint32_t unit) {
  const std::uint32_t rows = plan.along_k ? tile_rows : tile_k;
  const std::uint32_t units = (plan.along_k ? tile_k : tile_rows) / unit;
  return {rows, units, units + 8 / unit};  // 16 bytes of padding
}

/// f16 has f32's precision in two terms, not its range. The rows of an operand in a workgroup's tile are therefore
/// multiplied by a power of two while they are staged, and the sums by the inverse of both. At first all rows of the
/// tile have one, told by a few elements: it brings the largest of these to [2^4, 2^5). What an invocation stages of a
/// row at once, in one step, is added up without signs; where the largest such sum, of a row that neighbouring lanes
/// share of theirs, or scattered ones (has_scattered_rows) of all, is not below 2^15, or not 0 and its elements are
/// below 2^-12 on average, the workgroup begins again with a power for each row, which brings the largest sum of all
/// invocations to [2^14, 2^15). So what two terms lose of an element is at most 2^-24 of the largest of its row, and
/// mostly below 2^-38, and one term keeps 11 bits down to 2^-2 of it, mostly to 2^-16. Powers of rows end at 2^126,
/// with which what is below 2^-110 fits; rows with infinities or NaN have none. Of rows that come prepared
/// (prepare_attribute) the powers are known, each from the first pass on.
class row_scales {
 public:
  row_scales(spirv::kernel& k, std::uint32_t rows) : k_(k), largest_(k.shared<spirv::u32>(rows + 4)), rows_(rows) {}

  /// Rows from `from` on, to those of the next one, have the power that this sample tells: the largest magnitude of a
  /// few elements. Zeros tell of numbers near 1.
  void guess(std::uint32_t from, const spirv::u32& sample) {
    guesses_.push_back({from, exponent(select(sample == 0u, spirv::u32(0x3f800000), sample), 4)});
    if (!zero_) zero_ = sample >> 31u;
  }
  /// Those that this one does for: 2^8, with which they are below 128 and 2^-20 on average, or all 0.
  void guess_parameters(std::uint32_t from) { guesses_.push_back({from, spirv::i32(8)}); }
  /// Those from this one on are known instead, each by the inverse of its power as f32 (infinity: it has none), behind
  /// a barrier; once more behind clear().
  void know(std::uint32_t from) { known_.push_back(from); }
  void tell(const spirv::u32& row, const spirv::u32& inverse) { largest_[row] = inverse + as_magnitude; }
  [[nodiscard]] spirv::boolean has_none(const spirv::u32& row) const { return largest_.load(row) >= 0x7f800000u; }
  /// 0, which no compiler knows: the sign of a magnitude that came through lanes.
  [[nodiscard]] spirv::u32 zero() const { return zero_.value(); }
  /// Of rows from `from` on.
  [[nodiscard]] spirv::f32 guessed(std::uint32_t from) const { return power_of_two(guess_at(from)); }
  /// Whether that power does, of rows from `from` on: by the sums of an invocation's elements of each at once, as bits.
  [[nodiscard]] spirv::boolean fits(std::uint32_t from, const std::vector<spirv::var<spirv::u32>>& sums,
                                    std::uint32_t elements) const {
    const auto bits = [](float number) { return std::bit_cast<std::uint32_t>(number); };
    spirv::u32 least = 0xffffffffu, most = 0;
    for (const auto& each : sums) {
      const spirv::u32 sum = spirv::bitcast<spirv::u32>(spirv::bitcast<spirv::f32>(each.load()) * guessed(from));
      least = min(least, select(each.load() == 0u, spirv::u32(0xffffffffu), sum)), most = max(most, sum);
    }
    return least >= bits(static_cast<float>(elements) / 4096.0f) && most < bits(32768.0f);
  }
  /// Nothing is noted: every invocation, a barrier before anything is.
  void begin() {
    k_.if_(k_.local_index() == 0u, [&] { largest_[spirv::u32(rows_ + misfit)] = spirv::u32(0); });
  }
  void note_misfit() { raise(rows_ + misfit, 1); }
  /// The same for all invocations, behind a barrier.
  [[nodiscard]] spirv::boolean fit() const { return largest_.load(rows_ + misfit) == 0u; }

  /// Nothing is known of any row: every invocation, behind a barrier behind fit() and before another one.
  void clear() { forget(0, rows_ + 4); }
  /// Whether rows have powers of their own from here on.
  void use_rows(const spirv::boolean& by_row) { by_row_ = by_row; }
  [[nodiscard]] const spirv::boolean& are_by_row() const { return by_row_; }
  /// Nothing is known of so many rows from `from` on: every invocation.
  void forget(std::uint32_t from, std::uint32_t rows) const {
    for_each_below(k_, k_.local_index(), rows, [&](const spirv::u32& row) { largest_[row + from] = spirv::u32(0); });
  }
  /// What is known of a row: nothing behind clear(), then the largest that it was raised to.
  [[nodiscard]] spirv::u32 seen(const spirv::u32& row) const { return largest_.load(row); }
  /// So many rows from `from` on, of each of which an invocation stages so many elements at once, by what they were
  /// raised to: every invocation, behind a barrier behind that.
  void judge(std::uint32_t from, std::uint32_t rows, std::uint32_t elements) {
    for_each_below(k_, k_.local_index(), rows, [&](const spirv::u32& row) {
      const spirv::var<spirv::u32> largest = k_.variable<spirv::u32>();
      largest = seen(row + from);
      k_.if_(!fits(from, {largest}, elements), [&] { note_misfit(); });
    });
  }
  /// A sum of a part of a row.
  void raise(const spirv::u32& row, const spirv::u32& magnitude) {
    static_cast<void>(largest_[row].atomic_max(magnitude));
  }
  /// Behind a barrier behind these, for what comes behind another one.
  void look_for_rows_without() {
    for_each_below(k_, k_.local_index(), rows_,
                   [&](const spirv::u32& row) { k_.if_(has_none(row), [&] { raise(rows_ + without, 1); }); });
  }
  [[nodiscard]] spirv::f32 factor(const spirv::u32& row) const { return power_of_two(exponent_of(row)); }
  /// The same for all invocations, behind a barrier behind that one.
  [[nodiscard]] spirv::boolean has_rows_without() const { return largest_.load(rows_ + without) != 0u; }

  /// The number itself, which no compiler knows.
  [[nodiscard]] spirv::u32 unknown(std::uint32_t number) const { return (largest_.load(rows_) >> 31u) + number; }

  /// Sums of products of a row's elements and those of `others`, one or four neighbours of those from `from` on,
  /// without their factors: half of both exponents at a time, so that nothing overflows or vanishes on the way that
  /// does not do so in the end.
  template <class Sums>
  [[nodiscard]] Sums unscaled(const Sums& sums, const spirv::u32& row, const spirv::u32& others,
                              std::uint32_t from) const {
    const spirv::var<Sums> found = k_.variable<Sums>();
    const auto one_by_one = [&](const spirv::i32& own) {
      if constexpr (Sums::components == 1) {
        found = divided(sums, own + exponent_of(others));
      } else {
        const auto of = [&](std::uint32_t i) { return divided(sums[i], own + exponent_of(others + i)); };
        found = vector(of(0), of(1), of(2), of(3));
      }
    };
    const bool are_known = std::ranges::find(known_, from) != known_.end();
    k_.if_(
        by_row_, [&] { one_by_one(exponent_of(row)); },
        [&] {
          if (!are_known)
            found = divided(sums, guess_at(0) + guess_at(from));
          else  // whose exponents end at 62
            found = sums * inverses<Sums>(others) * Sums(power_of_two(-guess_at(0)));
        });
    return found.load();
  }

 private:
  static constexpr std::uint32_t misfit = 0, without = 1;
  // From the inverse of a power to the magnitude that has this power.
  static constexpr std::uint32_t as_magnitude = 14u << 23;
  struct guessed_rows {
    std::uint32_t from = 0;
    spirv::i32 exponent;
  };
  // Of the factor of a row with this largest magnitude, in [-126, 126].
  [[nodiscard]] static spirv::i32 exponent(const spirv::u32& magnitude, int target) {
    const spirv::i32 largest = spirv::bitcast<spirv::i32>(magnitude >> 23u);
    return max(min(spirv::i32(target + 127) - largest, spirv::i32(126)), spirv::i32(-126));
  }
  [[nodiscard]] spirv::i32 exponent_of(const spirv::u32& row) const { return exponent(largest_.load(row), 14); }
  // Of rows that are known, this one and its neighbours.
  template <class Sums>
  [[nodiscard]] Sums inverses(const spirv::u32& row) const {
    const auto of = [&](std::uint32_t i) { return spirv::bitcast<spirv::f32>(largest_.load(row + i) - as_magnitude); };
    if constexpr (Sums::components == 1)
      return of(0);
    else
      return vector(of(0), of(1), of(2), of(3));
  }
  [[nodiscard]] const spirv::i32& guess_at(std::uint32_t from) const {
    return std::ranges::find(guesses_, from, &guessed_rows::from)->exponent;
  }
  template <class Sums>
  [[nodiscard]] static Sums divided(const Sums& sums, const spirv::i32& exponent) {
    const spirv::i32 inverse = -exponent, half = inverse >> spirv::i32(1);
    return sums * Sums(power_of_two(half)) * Sums(power_of_two(inverse - half));
  }

  spirv::kernel& k_;
  spirv::memory<spirv::u32> largest_;  // magnitudes' bits; behind them what is noted
  std::uint32_t rows_;
  spirv::boolean by_row_{false};
  std::vector<guessed_rows> guesses_;
  std::vector<std::uint32_t> known_;
  std::optional<spirv::u32> zero_;
};

/// Four elements as one f16 term, or two, the second `distance` behind the first, to workgroup memory. `zero`: 0, which
/// no compiler knows; of one term there need be none.
inline void stage_terms(const spirv::memory<spirv::u32x2>& to, const spirv::u32& slot, const spirv::f32x4& x,
                        std::uint32_t terms, std::uint32_t distance, const std::optional<spirv::u32>& zero) {
  using namespace spirv;
  const auto pack = [&](const f32x4& v) {
    return vector(pack_half(vector(v[0], v[1])), pack_half(vector(v[2], v[3])));
  };
  if (terms == 1) return static_cast<void>(to[slot] = pack(x));
  // NVIDIA's driver 580 takes a conversion there and back for none, unless something unknown happens in between.
  const u32x2 high = pack(x), seen = high ^ u32x2(*zero);
  const f32x2 first = unpack_half(seen[0]), second = unpack_half(seen[1]);
  to[slot] = high;
  const f32x4 rest = x - vector(first[0], first[1], second[0], second[1]);
  to[slot + distance] = pack(rest * f32x4(2048.0f));
}

/// Rows of f16 terms that lie one behind the other, each of so many, those of a batch behind those of the one before.
[[nodiscard]] inline matmul_operand prepared_plan(const matmul_operand& of, std::uint32_t length) {
  std::uint32_t batches = 1;
  for (const strided_axis& axis : of.batch) batches *= axis.extent;
  matmul_operand plan{
      .batch = {{batches, of.row_count * length}}, .rows = {{of.row_count, length}}, .k = {{length, 1}}};
  plan.row_count = of.row_count, plan.k_count = of.k_count;
  plan.along_k = true, plan.width = 4;
  return plan;
}

/// Element is what workgroup memory is made of: u32x4 (f16 operands) or u32x2 (f32 operands). A group of `unit`
/// elements is one load and one store there.
template <spirv::kernel_value Element>
class cooperative_operand {
 public:
  static constexpr std::uint32_t unit = Element::components * 2;
  static constexpr bool from_half = Element::components == 4;

  /// `prepared`: see matmul_problem.
  cooperative_operand(spirv::kernel& k, const matmul_operand& source, std::string_view name, std::uint32_t tile_rows,
                      const product_schedule& s, const device_profile& device, bool is_parameter,
                      std::uint32_t prepared = 0)
      : k_(k),
        source_(source),
        plan_(prepared != 0 ? prepared_plan(source, prepared) : source),
        prepared_length_(prepared),
        tile_rows_(tile_rows),
        tile_k_(s.tile_k),
        depth_(s.depth),
        shape_(stage_shape(plan_, tile_rows, tile_k_, unit)),
        terms_(s.terms()),
        is_parameter_(is_parameter),
        subgroup_size_(device.subgroup_size),
        shuffles_(device.subgroup_shuffle && device.subgroup_arithmetic),
        index_(shuffles_ ? k.index_by_subgroups(device.subgroup_size) : k.local_index()),
        lanes_(std::min(shape_.units & -shape_.units, subgroup_size_)),
        by_rows_(plan_.along_k && shuffles_ && tile_rows * lanes_ % k.local_size()[0] == 0),
        grouped_(strides_allow(plan_, unit)) {
    if constexpr (from_half)
      wide_half_ = k.storage_buffer<spirv::u32x4>(name);
    else
      single_ = k.storage_buffer<spirv::f32>(name);
    if (!from_half && grouped_) wide_ = k.view<spirv::f32x4>(*single_);
    if (grouped_) {
      batch_ = in_groups(plan_.batch, false);
      rows_ = in_groups(plan_.rows, !plan_.along_k);
      k_groups_ = in_groups(plan_.k, plan_.along_k);
    }
  }

  /// Multiplied is what this makes of the elements, which lie in groups.
  void start_with(const matmul_prologue& start) { start_ = &start; }

  /// Its elements are what this gives of row and term.
  void read_with(std::function<spirv::f32(const spirv::u32& row, const spirv::u32& at)> element) {
    read_ = std::move(element), grouped_ = false;
  }

  /// Its rows lie there, where they are prepared.
  void read_prepared(const spirv::memory<spirv::u32>& from) {
    prepared_ = from;
    prepared_pairs_ = k_.view<spirv::u32x2>(from);
  }

  /// Elements of workgroup memory.
  [[nodiscard]] std::uint32_t staged_size() const { return terms_ * shape_.groups(); }
  /// Where in it, and which rows.
  void begin(const spirv::memory<Element>& staged, std::uint32_t at, const spirv::u32& batch,
             const spirv::u32& first_row) {
    staged_ = staged, staged_at_ = at, batch_index_ = batch, first_row_ = first_row;
    base_ = offset_of(source_.batch, batch) + source_.offset;
    if (grouped_) group_base_ = offset_of(batch_, batch) + plan_.offset / unit;
  }

  void place() {
    if (by_rows_)
      place_by_rows();
    else
      place_by_index();
    for (std::size_t i = 0; i < pieces_.size() * depth_; ++i) {
      if (is_prepared())
        pairs_.push_back(k_.variable<spirv::u32x2>());
      else if constexpr (from_half)
        words_.push_back(k_.variable<spirv::u32x4>());
      else
        floats_.push_back(k_.variable<spirv::f32x4>());
    }
    for (std::size_t at = 0; at < pieces_.size(); ++at) {
      piece& each = pieces_[at];
      const piece* above = piece_above(at);
      for (std::size_t i = 0; i < reads(); ++i) {
        each.shares.push_back(above && !start_->by_row[i]);
        each.reads_base.push_back(start_->base(i, batch_index_, start_row(each)));
        for (std::uint32_t step = 0; step < depth_; ++step)
          each.reads.push_back(each.shares[i] ? above->reads[i * depth_ + step] : k_.variable<spirv::f32x4>());
      }
      if (start_ && start_->statistic) each.statistic = k_.variable<spirv::f32>();
    }
  }

  /// Sends for a few elements of so many terms from first_k on, which tell of all. Parameters are taken for what they
  /// mostly are.
  void fetch_sample(const spirv::u32& first_k, std::uint32_t terms) {
    fetch_sample([&](const spirv::u32& lane, std::uint32_t lanes) { return sampled(lane, lanes, first_k, terms); });
  }
  /// The same of four elements each of so many lanes.
  template <class Sampled>
    requires std::invocable<const Sampled&, spirv::u32, std::uint32_t>
  void fetch_sample(const Sampled& sample) {
    if (is_parameter_ || is_prepared()) return;
    const std::uint32_t lanes = shuffles_ ? subgroup_size_ : 16;
    for (std::uint32_t at = 0; at < lanes; at += shuffles_ ? lanes : 2) {
      sample_.push_back(k_.variable<spirv::f32x4>());
      sample_.back().store(sample(shuffles_ ? index_ % subgroup_size_ : spirv::u32(at), lanes));
    }
  }
  /// Tells `scales` of them, which has its rows from `at` on; for all invocations the same.
  void guess(row_scales& scales, std::uint32_t at) {
    scales_ = &scales, scales_at_ = at;
    if (is_prepared()) {
      scales.know(at);
      return tell_rows();
    }
    for (std::size_t i = 0; i < row_groups() * rows_a_group(); ++i) {
      sums_.push_back(k_.variable<spirv::f32>()), seen_.push_back(k_.variable<spirv::u32>());
      factors_.push_back(k_.variable<spirv::f32>());
    }
    if (is_parameter_) return scales.guess_parameters(at);
    spirv::u32x4 four(0u);
    for (const auto& each : sample_) {
      const spirv::u32x4 all = magnitudes(each.load());
      four = max(four, select(all < spirv::u32x4(0x7f800000u), all, spirv::u32x4(0u)));
    }
    const spirv::u32 largest = max(max(four[0], four[1]), max(four[2], four[3]));
    scales.guess(at, shuffles_ ? k_.subgroup_max(largest) : largest);
  }

  /// What is staged from now on is multiplied by the rows' factors.
  void take_factors() {
    if (is_prepared()) return;
    zero_ = scales_->zero();
    k_.if_(
        scales_->are_by_row(),
        [&] {
          for (std::size_t i = 0; i < factors_.size(); ++i) factors_[i].store(scales_->factor(row_of(i)));
        },
        [&] {
          for (const auto& each : factors_) each.store(scales_->guessed(scales_at_));
        });
  }
  /// Of rows that lie in no groups of four many invocations have elements, some of them next to none: what one saw of a
  /// sparse row tells nothing.
  [[nodiscard]] bool has_scattered_rows() const { return !is_prepared() && !by_rows_ && !grouped_; }
  /// Where they are: nothing was seen of them, a barrier before look_at_rows().
  void forget_rows() const { scales_->forget(scales_at_, tile_rows_); }
  /// And behind a barrier behind that.
  void judge_rows() const { scales_->judge(scales_at_, tile_rows_, elements_of_row()); }

  /// Behind all that is staged; behind a barrier behind this, and of scattered rows behind judge_rows(), all know
  /// whether factors do that were guessed.
  void look_at_rows() const {
    if (has_scattered_rows()) return tell_rows();
    if (is_prepared()) {
      return for_each_below(k_, k_.local_index(), tile_rows_, [&](const spirv::u32& row) {
        k_.if_(scales_->has_none(row + scales_at_), [&] { scales_->note_misfit(); });
      });
    }
    // A row is as large as what any of the lanes that share it saw: of sparse ones some saw next to nothing.
    for (std::uint32_t mask = 1; by_rows_ && mask < lanes_; mask *= 2) {
      for (const auto& each : seen_)
        each.store(max(each.load(), k_.subgroup_shuffle_xor(each.load(), spirv::u32(mask))));
    }
    k_.if_(!scales_->fits(scales_at_, seen_, elements_of_row()), [&] { scales_->note_misfit(); });
  }
  /// Tells of each row what was seen.
  void tell_rows() const {
    if (is_prepared()) {
      const std::uint32_t factors = plan_.batch[0].extent * plan_.row_count * (prepared_length_ / 2);
      const spirv::u32 first = batch_index_ * plan_.row_count + factors;
      return for_each_below(k_, k_.local_index(), tile_rows_, [&](const spirv::u32& row) {
        const spirv::u32 own = min(first_row_ + row, spirv::u32(plan_.row_count - 1));
        scales_->tell(row + scales_at_, prepared_->load(own + first));
      });
    }
    for (std::size_t i = 0; i < seen_.size(); ++i) scales_->raise(row_of(i), seen_[i].load() & 0x7fffffffu);
  }

  /// Sends for tile_k terms from first_k on, as step `step` of those on their way. `ends`: that may be beyond k, where
  /// the last ones come again: to look at what comes would be to wait for it.
  void fetch(std::uint32_t step, const spirv::u32& first_k, bool ends) {
    const spirv::u32 first = plan_.along_k ? first_k / unit : first_k;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const piece& p = pieces_[i];
      const std::size_t to = step * pieces_.size() + i;
      if_needed(p, [&] {
        const spirv::u32 at = first + p.k;
        const spirv::u32 last = ends ? min(at, spirv::u32(k_end() - 1)) : at;
        if (is_prepared()) {
          pairs_[to].store(prepared_pairs_->load(p.base + offset_of(k_groups_, last) + p.distance));
        } else if constexpr (from_half) {
          words_[to].store(wide_half_->load(p.base + offset_of(k_groups_, last) + p.distance));
        } else if (grouped_) {
          floats_[to].store(wide_->load(p.base + offset_of(k_groups_, last) + p.distance));
          fetch_reads(p, step, first_k, ends);
        } else {
          floats_[to].store(singles(p.row, at));
        }
      });
    }
  }

  /// Of the terms from first_k on; zeros behind the end of k.
  void stage(std::uint32_t step, const spirv::u32& first_k, bool ends) {
    if (is_watched()) {
      for (const auto& each : sums_) each.store(spirv::f32(0));
    }
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if_needed(pieces_[i], [&] {
        stage_piece(i, step, first_k, ends);
        if (pieces_[i].statistic) add_statistic(i, step, first_k, ends);
      });
    }
    if (!is_watched()) return;
    for (std::size_t i = 0; i < sums_.size(); ++i)
      seen_[i].store(max(seen_[i].load(), spirv::bitcast<spirv::u32>(sums_[i].load())));
  }

  /// The statistics of what is staged from now on. Operands that have them lie along k.
  void begin_statistics() {
    for (piece& each : pieces_) *each.statistic = spirv::f32(0);
  }
  /// Where nothing is staged any longer; behind a barrier behind this all know them.
  void finish_statistics(const spirv::memory<spirv::f32>& to) {
    if constexpr (!from_half) {
      if (by_rows_) {
        for (std::size_t i = 0; i < pieces_.size(); i += pieces_a_row()) {
          spirv::f32 sum = pieces_[i].statistic->load();
          for (std::size_t j = 1; j < pieces_a_row(); ++j) sum = sum + pieces_[i + j].statistic->load();
          for (std::uint32_t mask = 1; mask < lanes_; mask *= 2)
            sum = sum + k_.subgroup_shuffle_xor(sum, spirv::u32(mask));
          k_.if_(index_ % lanes_ == 0u, [&] { to[tile_row(pieces_[i])] = sum; });
        }
        return;
      }
      for (piece& each : pieces_) {
        if_needed(each,
                  [&] { staged_->component(each.slot, 0).store(spirv::bitcast<spirv::u32>(each.statistic->load())); });
      }
      k_.barrier();
      for_each_below(k_, k_.local_index(), tile_rows_, [&](const spirv::u32& row) {
        spirv::f32 sum = 0;
        for (std::uint32_t i = 0; i < shape_.units; ++i)
          sum = sum + spirv::bitcast<spirv::f32>(staged_->component(row * shape_.stride + (staged_at_ + i), 0).load());
        to[row] = sum;
      });
    }
  }

  /// Where the fragment at (row, kk) of the tile is staged.
  [[nodiscard]] staged_place fragment(std::uint32_t term, const spirv::u32& row, const spirv::u32& kk) const {
    const std::uint32_t at = staged_at_ + term * shape_.groups();
    const spirv::u32 offset = plan_.along_k ? row * shape_.stride + kk / unit : kk * shape_.stride + row / unit;
    return {offset + at, shape_.stride, plan_.along_k};
  }

  /// Where the operand's f32 are, and the first of the batch's.
  [[nodiscard]] const spirv::memory<spirv::f32>& numbers() const { return *single_; }
  [[nodiscard]] const spirv::u32& base() const { return base_; }

  /// One element, where f32 is in memory.
  [[nodiscard]] spirv::f32 element(const spirv::u32& row, const spirv::u32& at) const {
    if (read_) return read_(row, at);
    const spirv::f32 found = single_->load(base_ + offset_of(source_.rows, row) + offset_of(source_.k, at));
    if (!start_) return found;
    std::vector<scalar_value> reads;
    for (std::size_t i = 0; i < start_->reads; ++i)
      reads.push_back(start_->read_one(i, start_->base(i, batch_index_, row) + start_->along(i, at)));
    return spirv::f32(start_->value(found, reads));
  }

 private:
  struct piece {
    spirv::u32 row, k = 0;  // of the tile; where neighbours lie along k, that counts groups
    spirv::u32 slot = 0, index = 0;
    bool partial = false;
    spirv::u32 base = 0;            // in groups: of what does not depend on k
    std::uint32_t distance = 0;     // and of the lines that it stands below
    std::uint32_t lines_below = 0;  // if these are rows
    // Where a prologue is: the lines that it stands below, of rows or of terms of k, are added to row and k.
    std::uint32_t lines = 0;
    std::vector<spirv::u32> reads_base{};
    std::vector<bool> shares{};                     // what the piece above reads
    std::vector<spirv::var<spirv::f32x4>> reads{};  // of each, the steps that are on their way
    std::optional<spirv::var<spirv::f32>> statistic{};
  };

  [[nodiscard]] std::size_t reads() const { return start_ ? start_->reads : 0; }
  // One of the same terms and of other rows, if this is not the first of them.
  [[nodiscard]] const piece* piece_above(std::size_t at) const {
    if (!plan_.along_k || pieces_[at].partial) return nullptr;
    const std::size_t apart = by_rows_ ? pieces_a_row() : 1;
    return at >= apart && (by_rows_ || pieces_are_below()) ? &pieces_[at - apart] : nullptr;
  }
  // Of the operand, of the piece's first element.
  [[nodiscard]] spirv::u32 start_row(const piece& p) const {
    const spirv::u32 row = first_row_ + p.row + (plan_.along_k ? p.lines : 0u);
    return min(row, spirv::u32(plan_.row_count - (plan_.along_k ? 1 : unit)));
  }
  // In terms, the last group's behind the end.
  [[nodiscard]] spirv::u32 start_k(const piece& p, const spirv::u32& first_k, bool ends) const {
    const spirv::u32 k = plan_.along_k ? first_k + p.k * unit : first_k + (p.k + p.lines);
    return ends ? min(k, spirv::u32(plan_.k_count - (plan_.along_k ? unit : 1))) : k;
  }
  void fetch_reads(const piece& p, std::uint32_t step, const spirv::u32& first_k, bool ends) {
    for (std::size_t i = 0; i < reads(); ++i) {
      if (p.shares[i]) continue;
      const spirv::u32 offset = p.reads_base[i] + start_->along(i, start_k(p, first_k, ends));
      p.reads[i * depth_ + step].store(start_->read_four(i, offset, plan_.along_k));
    }
  }
  [[nodiscard]] std::vector<scalar_value> reads_of(const piece& p, std::uint32_t step) const {
    std::vector<scalar_value> found;
    for (std::size_t i = 0; i < reads(); ++i) found.push_back(p.reads[i * depth_ + step].load());
    return found;
  }
  // What of a piece is multiplied, as it is on its way.
  [[nodiscard]] spirv::f32x4 multiplied(std::size_t i, std::uint32_t step) const {
    const spirv::f32x4 found = floats_[step * pieces_.size() + i].load();
    if (!start_) return found;
    return spirv::f32x4(start_->value(found, reads_of(pieces_[i], step)));
  }
  void add_statistic(std::size_t i, std::uint32_t step, const spirv::u32& first_k, bool ends) {
    if constexpr (!from_half) {
      const piece& p = pieces_[i];
      const spirv::f32x4 found = floats_[step * pieces_.size() + i].load();
      const spirv::f32x4 four(start_->statistic(found, reads_of(p, step)));
      const spirv::f32 sum = (four[0] + four[1]) + (four[2] + four[3]);
      const spirv::boolean inside = ends ? first_k / unit + p.k < k_end() : spirv::boolean(true);
      *p.statistic = p.statistic->load() + (ends ? select(inside, sum, spirv::f32(0)) : sum);
    }
  }

  // A row's groups are shared out to so many neighbouring lanes.
  [[nodiscard]] std::uint32_t pieces_a_row() const { return shape_.units / lanes_; }
  void place_by_rows() {
    const std::uint32_t rows_at_once = k_.local_size()[0] / lanes_;
    const spirv::u32 outer = index_ / lanes_, inner = index_ % lanes_;
    const bool is_linear = grouped_ && rows_.size() == 1 && plan_.row_count % tile_rows_ == 0;
    for (std::uint32_t lines = 0; lines < tile_rows_; lines += rows_at_once) {
      piece made{.row = is_linear ? outer : outer + lines,
                 .distance = is_linear ? lines * rows_[0].stride : 0,
                 .lines_below = is_linear ? lines : 0,
                 .lines = is_linear ? lines : 0};
      made.base = row_base(made.row);
      for (std::uint32_t at = 0; at < shape_.units; at += lanes_) {
        made.k = inner + at;
        made.slot = outer * shape_.stride + inner + (staged_at_ + lines * shape_.stride + at);
        pieces_.push_back(made);
      }
    }
  }

  void place_by_index() {
    const std::uint32_t threads = k_.local_size()[0];
    piece_count_ = shape_.rows * shape_.units;
    const bool below = pieces_are_below();
    for (std::uint32_t done = 0; done < piece_count_; done += threads) {
      const spirv::u32 index = index_ + done;
      const std::uint32_t lines = below ? done / shape_.units : 0;
      const spirv::u32 outer = below ? index_ / shape_.units : index / shape_.units;
      const spirv::u32 inner = (below ? index_ : index) % shape_.units;
      piece made{.row = plan_.along_k ? outer : inner * unit,
                 .k = plan_.along_k ? inner : outer,
                 .slot = outer * shape_.stride + inner + (staged_at_ + lines * shape_.stride),
                 .index = index,
                 .partial = done + threads > piece_count_};
      const strided_axes& axes = plan_.along_k ? rows_ : k_groups_;
      const bool is_linear =
          grouped_ && axes.size() == 1 && (plan_.along_k ? plan_.row_count % tile_rows_ == 0 : !ragged());
      if (is_linear)
        made.distance = lines * axes[0].stride;
      else if (plan_.along_k)
        made.row = made.row + lines;
      else
        made.k = made.k + lines;
      made.base = row_base(made.row);
      made.lines_below = is_linear && plan_.along_k ? lines : 0;
      made.lines = is_linear ? lines : 0;
      pieces_.push_back(made);
    }
  }

  // Where threads are a multiple of a line's groups, all pieces of one stand below each other: they have one address,
  // and distances that are literals.
  [[nodiscard]] bool pieces_are_below() const { return k_.local_size()[0] % shape_.units == 0; }

  template <class Body>
  void if_needed(const piece& p, Body&& body) {
    if (!p.partial) return static_cast<void>(body());
    k_.if_(p.index < piece_count_, std::forward<Body>(body));
  }

  // An invocation's pieces are of so many groups of rows, equally many of each in turn: of one row, or of four where
  // neighbours are rows.
  [[nodiscard]] std::size_t row_groups() const {
    if (by_rows_) return pieces_.size() / pieces_a_row();
    return !plan_.along_k && pieces_are_below() ? 1 : pieces_.size();
  }
  [[nodiscard]] std::size_t rows_a_group() const { return plan_.along_k ? 1 : unit; }
  // That an invocation stages at once.
  [[nodiscard]] std::uint32_t elements_of_row() const {
    return static_cast<std::uint32_t>(pieces_.size() / row_groups() * (plan_.along_k ? unit : 1));
  }
  // Where number `i` of all these rows is among those that have factors.
  [[nodiscard]] spirv::u32 row_of(std::size_t i) const {
    const std::size_t group = i / rows_a_group();
    return tile_row(pieces_[group * pieces_.size() / row_groups()]) +
           (scales_at_ + static_cast<std::uint32_t>(i % rows_a_group()));
  }
  [[nodiscard]] bool is_prepared() const { return prepared_length_ != 0; }
  [[nodiscard]] bool is_watched() const {
    if (is_prepared()) return false;
    const spirv::boolean* by_row = scales_ == nullptr ? nullptr : &scales_->are_by_row();
    return by_row != nullptr && !(by_row->is_literal() && by_row->bits != 0);
  }

  // Four elements, of another line for each four of so many lanes: rows of the tile, terms from all over (images have
  // borders, and sparse gradients corners, that tell of nothing else).
  [[nodiscard]] spirv::f32x4 sampled(const spirv::u32& lane, std::uint32_t lanes, const spirv::u32& first_k,
                                     std::uint32_t terms) const {
    const std::uint32_t lines = plan_.along_k ? tile_rows_ : terms;
    const std::uint32_t groups = std::max((plan_.along_k ? terms : tile_rows_) / unit, 1u);
    const std::uint32_t across = std::min(4u, groups), down = std::min(lanes / across, lines);
    const spirv::u32 line = lane / across % down * (lines / down);
    const spirv::u32 group = lane % across * (groups / across);
    const piece p{.row = plan_.along_k ? line : group * unit, .k = plan_.along_k ? group : line};
    const spirv::u32 at = (plan_.along_k ? first_k / unit : first_k) + p.k;
    if (!grouped_) return singles(p.row, at);
    const spirv::f32x4 found = wide_->load(row_base(p.row) + offset_of(k_groups_, min(at, spirv::u32(k_end() - 1))));
    if (!start_) return found;
    std::vector<scalar_value> read;
    for (std::size_t i = 0; i < reads(); ++i) {
      const spirv::u32 base = start_->base(i, batch_index_, start_row(p));
      read.push_back(start_->read_four(i, base + start_->along(i, start_k(p, first_k, true)), plan_.along_k));
    }
    return spirv::f32x4(start_->value(found, read));
  }

  // The piece's first row of the tile; that of another one where the piece is not needed.
  [[nodiscard]] spirv::u32 tile_row(const piece& p) const {
    const spirv::u32 row = p.row + p.lines_below;
    return p.partial ? min(row, spirv::u32(tile_rows_ - (plan_.along_k ? 1 : unit))) : row;
  }
  // Axes whose offsets count groups, also backwards; of the axis along which groups lie its index does, too.
  [[nodiscard]] static strided_axes in_groups(strided_axes axes, bool along) {
    for (strided_axis& axis : axes) {
      if (along && &axis == &axes.back())
        axis.extent /= unit;
      else
        axis.stride = static_cast<std::uint32_t>(static_cast<std::int32_t>(axis.stride) / std::int32_t{unit});
    }
    return axes;
  }

  // In groups, of a row of the tile; behind the last one the last again.
  [[nodiscard]] spirv::u32 row_base(const spirv::u32& row) const {
    if (!grouped_) return 0;
    const bool ends = plan_.row_count % tile_rows_ != 0;
    const std::uint32_t of = plan_.along_k ? 1 : unit;
    const spirv::u32 at = (first_row_ + row) / of;
    return group_base_ + offset_of(rows_, ends ? min(at, spirv::u32(plan_.row_count / of - 1)) : at);
  }
  [[nodiscard]] bool ragged() const { return plan_.k_count % tile_k_ != 0; }
  // Groups or terms of k, as pieces count them.
  [[nodiscard]] std::uint32_t k_end() const { return plan_.along_k ? ceil_div(plan_.k_count, unit) : plan_.k_count; }

  // Separate loads for operands without aligned groups; behind the end of k the last one again.
  [[nodiscard]] spirv::f32x4 singles(const spirv::u32& row, const spirv::u32& at) const {
    std::vector<spirv::f32> four;
    for (std::uint32_t j = 0; j < 4; ++j) {
      const spirv::u32 own = min(first_row_ + row + (plan_.along_k ? 0 : j), spirv::u32(plan_.row_count - 1));
      const spirv::u32 k = plan_.along_k ? at * unit + j : at, last = min(k, spirv::u32(plan_.k_count - 1));
      four.push_back(element(own, last));
    }
    return vector(four[0], four[1], four[2], four[3]);
  }
  [[nodiscard]] static spirv::value<spirv::scalar_kind::boolean, 4> vector_of(const spirv::boolean& all) {
    return vector(all, all, all, all);
  }

  // Whether each of a piece's elements is one of the operand's.
  [[nodiscard]] spirv::value<spirv::scalar_kind::boolean, 4> inside(const piece& p, const spirv::u32& first_k) const {
    const spirv::u32 at = (plan_.along_k ? first_k / unit : first_k) + p.k;
    if (grouped_ || !plan_.along_k) return vector_of(at < k_end());
    const auto is_below = [&](std::uint32_t j) { return at * unit + j < plan_.k_count; };
    return vector(is_below(0), is_below(1), is_below(2), is_below(3));
  }

  [[nodiscard]] spirv::u32x2 inside_of_pairs(const piece& p, const spirv::u32& first_k,
                                             const spirv::u32x2& pairs) const {
    const spirv::boolean is_inside = first_k / unit + p.k < k_end();
    return vector(select(is_inside, pairs[0], spirv::u32(0)), select(is_inside, pairs[1], spirv::u32(0)));
  }

  // And watched.
  [[nodiscard]] spirv::f32x4 scaled(std::size_t i, const spirv::f32x4& x) const {
    const std::size_t first = i * row_groups() / pieces_.size() * rows_a_group();
    const auto of_row = [&](std::size_t j) { return factors_[first + (plan_.along_k ? 0 : j)].load(); };
    if (is_watched()) {
      const spirv::f32x4 size = abs(x);
      if (plan_.along_k) {
        sums_[first].store(sums_[first].load() + ((size[0] + size[1]) + (size[2] + size[3])));
      } else {
        for (std::uint32_t j = 0; j < unit; ++j) sums_[first + j].store(sums_[first + j].load() + size[j]);
      }
    }
    return x * vector(of_row(0), of_row(1), of_row(2), of_row(3));
  }

  void stage_piece(std::size_t i, std::uint32_t step, const spirv::u32& first_k, bool ends) {
    using namespace spirv;
    const piece& p = pieces_[i];
    if constexpr (from_half) {
      const u32x4 words = words_[step * pieces_.size() + i].load();
      (*staged_)[p.slot] = ends ? select(inside(p, first_k), words, u32x4(0u)) : words;
    } else if (is_prepared()) {
      const u32x2 pairs = pairs_[step * pieces_.size() + i].load();
      (*staged_)[p.slot] = ends ? inside_of_pairs(p, first_k, pairs) : pairs;
    } else {
      f32x4 x = multiplied(i, step);
      // What a prologue makes of the last element again is finite if that is, and meets zeros of the other operand.
      if (ends && !start_) x = select(inside(p, first_k), x, f32x4(0.0f));
      if (scales_) x = scaled(i, x);
      stage_terms(*staged_, p.slot, x, terms_, shape_.groups(), zero_);
    }
  }

  spirv::kernel& k_;
  matmul_operand source_, plan_;  // f32 in memory, and what is staged
  std::uint32_t prepared_length_;
  std::uint32_t tile_rows_, tile_k_, depth_;
  staged_shape shape_;
  std::uint32_t terms_;
  bool is_parameter_;
  std::uint32_t subgroup_size_;
  bool shuffles_;
  spirv::u32 index_;  // of the invocation
  std::uint32_t lanes_;
  bool by_rows_, grouped_;
  std::uint32_t piece_count_ = 0, staged_at_ = 0, scales_at_ = 0;
  row_scales* scales_ = nullptr;
  const matmul_prologue* start_ = nullptr;
  std::function<spirv::f32(const spirv::u32& row, const spirv::u32& at)> read_;  // instead, where there is one
  std::optional<spirv::u32> zero_;
  strided_axes batch_, rows_, k_groups_;  // in groups
  spirv::u32 batch_index_, first_row_, base_, group_base_;
  std::optional<spirv::memory<spirv::u32x4>> wide_half_;
  std::optional<spirv::memory<spirv::f32>> single_;
  std::optional<spirv::memory<spirv::f32x4>> wide_;
  std::optional<spirv::memory<spirv::u32>> prepared_;
  std::optional<spirv::memory<spirv::u32x2>> prepared_pairs_;
  std::optional<spirv::memory<Element>> staged_;
  std::vector<piece> pieces_;
  std::vector<spirv::var<spirv::u32x4>> words_;
  std::vector<spirv::var<spirv::u32x2>> pairs_;
  std::vector<spirv::var<spirv::f32x4>> floats_;
  std::vector<spirv::var<spirv::f32x4>> sample_;
  // Of each row of which the invocation has pieces: what is multiplied by, what it stages of it at once, added up, and
  // the largest of these sums as bits.
  std::vector<spirv::var<spirv::f32>> factors_, sums_;
  std::vector<spirv::var<spirv::u32>> seen_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
