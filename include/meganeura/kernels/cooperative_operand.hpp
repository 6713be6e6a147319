// SPDX-License-Identifier: MIT
// One operand of a product on its way to matrix units: the largest of each row, scaling, f16 terms in workgroup memory.
#pragma once
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/matmul.hpp>
#include <meganeura/kernels/matrix_unit.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>
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

/// f16 has f32's precision in two terms, not its range. Each row of an operand in a workgroup's tile is therefore
/// multiplied by a power of two while it is staged, and the sums by the inverse of both. It brings the largest of the
/// row to [2^14, 2^15): what two terms lose of smaller elements is below 2^-39 of it. Where only a sample was looked at
/// it brings the largest of that to [2, 4): the loss is below 2^-26, and what is up to 2^14 times as large fits (one
/// term loses more anyway: [2^-8, 2^-7) leaves it more room). Where an overflow shows in the sums, and where a sample
/// is next to nothing, whole rows are looked at. Rows whose largest is not in [2^-60, 2^60), infinities and NaN among
/// them, have no such number.
class row_scales {
 public:
  row_scales(spirv::kernel& k, std::uint32_t rows, product_arithmetic arithmetic)
      : k_(k),
        sampled_target_(arithmetic == product_arithmetic::split ? 1 : -8),
        bits_(k.shared<spirv::u32>((rows + 3) / 4 * 4)),
        notes_(k.shared<spirv::u32>(4)),
        rows_(rows) {}

  /// Every invocation's first, before a barrier.
  void clear(bool rows) {
    if (rows) each([&](const spirv::u32& row) { bits_[row] = spirv::u32(0); });
    for (std::uint32_t i = 0; i < 4; ++i) notes_[i] = spirv::u32(0);
  }
  void raise(const spirv::u32& row, const spirv::u32& magnitude) {
    static_cast<void>(bits_[row].atomic_max(magnitude));
  }
  /// From the largest element of a row, of `all` of it or of a sample, to the inverse of its factor.
  void decide(const spirv::u32& row, const spirv::u32& largest, const spirv::boolean& all) {
    const spirv::u32 exponent = largest >> 23u;
    const spirv::boolean fits = exponent >= 67u && exponent < 187u;
    const spirv::boolean says_nothing = largest == 0u || (!all && exponent < 67u);
    k_.if_(!fits, [&] { notes_[select(says_nothing, spirv::u32(nothing), spirv::u32(without))] = spirv::u32(1); });
    const spirv::u32 target = select(all, spirv::u32(14), spirv::u32(static_cast<std::uint32_t>(sampled_target_)));
    bits_[row] = select(fits, (exponent - target) << 23u, spirv::u32(127u << 23));
  }
  /// Of the rows from `first` to `end`, by what was raised.
  void decide_all(std::uint32_t first, std::uint32_t end, const spirv::boolean& all) {
    each([&](const spirv::u32& row) { k_.if_(row >= first && row < end, [&] { decide(row, bits_.load(row), all); }); });
  }
  void note_overflow() { notes_[overflow] = spirv::u32(1); }

  /// Each is the same for all invocations, behind a barrier.
  [[nodiscard]] spirv::boolean says_nothing() const { return notes_.load(nothing) != 0u; }
  [[nodiscard]] spirv::boolean has_rows_without() const { return notes_.load(without) != 0u; }
  [[nodiscard]] spirv::boolean overflowed() const { return notes_.load(overflow) != 0u; }

  [[nodiscard]] spirv::f32 inverse(const spirv::u32& row) const { return spirv::bitcast<spirv::f32>(bits_.load(row)); }
  /// Both are powers of two: their exponents add up to that of 1, twice.
  [[nodiscard]] spirv::f32 factor(const spirv::u32& row) const {
    return spirv::bitcast<spirv::f32>(spirv::u32(254u << 23) - bits_.load(row));
  }

 private:
  static constexpr std::uint32_t nothing = 0, without = 1, overflow = 2;
  template <class Body>
  void each(const Body& body) {
    const std::uint32_t threads = k_.local_size()[0];
    for (std::uint32_t done = 0; done < rows_; done += threads) {
      const spirv::u32 row = k_.local_index() + done;
      if (done + threads <= rows_)
        body(row);
      else
        k_.if_(row < rows_, [&] { body(row); });
    }
  }

  spirv::kernel& k_;
  int sampled_target_;
  spirv::memory<spirv::u32> bits_, notes_;
  std::uint32_t rows_;
};

/// Element is what workgroup memory is made of: u32x4 (f16 operands) or u32x2 (f32 operands). A group of `unit`
/// elements is one load and one store there.
template <spirv::kernel_value Element>
class cooperative_operand {
 public:
  static constexpr std::uint32_t unit = Element::components * 2;
  static constexpr bool from_half = Element::components == 4;

  cooperative_operand(spirv::kernel& k, const matmul_operand& plan, std::string_view name, std::uint32_t tile_rows,
                      const product_schedule& s, const device_profile& device)
      : k_(k),
        plan_(plan),
        tile_rows_(tile_rows),
        tile_k_(s.tile_k),
        shape_(stage_shape(plan, tile_rows, tile_k_, unit)),
        terms_(s.terms()),
        subgroup_size_(device.subgroup_size),
        shuffles_(device.subgroup_shuffle && device.subgroup_arithmetic),
        grouped_(strides_allow(plan, unit)) {
    if constexpr (from_half)
      wide_half_ = k.storage_buffer<spirv::u32x4>(name);
    else
      single_ = k.storage_buffer<spirv::f32>(name);
    if (!from_half && grouped_) wide_ = k.view<spirv::f32x4>(*single_);
    if (grouped_) {
      batch_ = in_groups(plan.batch, false);
      rows_ = in_groups(plan.rows, !plan.along_k);
      k_groups_ = in_groups(plan.k, plan.along_k);
    }
  }

  /// Elements of workgroup memory.
  [[nodiscard]] std::uint32_t staged_size() const { return terms_ * shape_.groups(); }
  /// Where in it, and which rows.
  void begin(const spirv::memory<Element>& staged, std::uint32_t at, const spirv::u32& batch,
             const spirv::u32& first_row) {
    staged_ = staged, staged_at_ = at, first_row_ = first_row;
    base_ = offset_of(plan_.batch, batch) + plan_.offset;
    if (grouped_) group_base_ = offset_of(batch_, batch) + plan_.offset / unit;
  }

  /// Whether a sample holds every element.
  [[nodiscard]] bool sample_is_all() const {
    const sampling how = sampled();
    return plan_.along_k ? groups_of_k() <= how.lanes : plan_.k_count <= how.at_once * sampled_terms;
  }

  /// Whether rows are shared among invocations by atomics, in memory that is cleared before.
  [[nodiscard]] bool raises() const { return !plan_.along_k || !shuffles_; }
  /// Looks for the largest element of each row, or of a sample of it, for the row `row + at` of `scales`. Every
  /// invocation arrives. Where it raises, the rows are decided behind a barrier, otherwise here.
  void find_largest(row_scales& scales, std::uint32_t at, const spirv::boolean& all) {
    if constexpr (!from_half) {
      const sampling how = sampled();
      const spirv::u32 lane = k_.local_index() % how.lanes, line = k_.local_index() / how.lanes;
      if (plan_.along_k)
        find_along_k(scales, at, all, how, lane, line);
      else
        find_along_rows(scales, at, all, how, lane, line);
    }
  }

  void place() {
    const std::uint32_t threads = k_.local_size()[0];
    const std::uint32_t count = shape_.rows * shape_.units;
    const bool below = pieces_are_below();
    for (std::uint32_t done = 0; done < count; done += threads) {
      const spirv::u32 index = k_.local_index() + done;
      const std::uint32_t lines = below ? done / shape_.units : 0;
      const spirv::u32 outer = below ? k_.local_index() / shape_.units : index / shape_.units;
      const spirv::u32 inner = (below ? k_.local_index() : index) % shape_.units;
      piece made{.row = plan_.along_k ? outer : inner * unit,
                 .k = plan_.along_k ? inner : outer,
                 .slot = outer * shape_.stride + inner + (staged_at_ + lines * shape_.stride),
                 .index = index,
                 .partial = done + threads > count};
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
      pieces_.push_back(made);
      if constexpr (from_half)
        words_.push_back(k_.variable<spirv::u32x4>());
      else
        floats_.push_back(k_.variable<spirv::f32x4>());
    }
    piece_count_ = count;
  }

  /// What is staged from now on is multiplied by the rows' factors.
  void scale_by(row_scales& scales, std::uint32_t at) {
    scales_ = &scales, scales_at_ = at;
    const bool same_rows = !plan_.along_k && pieces_are_below();
    for (piece& each : pieces_)
      each.factors = same_rows && &each != &pieces_[0] ? pieces_[0].factors : factors(tile_row(each));
  }

  void fetch(const spirv::u32& first_k) {
    const spirv::u32 first = plan_.along_k ? first_k / unit : first_k;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const piece& p = pieces_[i];
      if_needed(p, [&] {
        const spirv::u32 at = first + p.k;
        const spirv::boolean inside = ragged() ? at < k_end() : spirv::boolean(true);
        const spirv::u32 last = ragged() ? min(at, spirv::u32(k_end() - 1)) : at;
        if constexpr (from_half) {
          const spirv::u32x4 words = wide_half_->load(p.base + offset_of(k_groups_, last) + p.distance);
          words_[i].store(ragged() ? select(vector_of(inside), words, spirv::u32x4(0u)) : words);
        } else if (grouped_) {
          const spirv::f32x4 values = wide_->load(p.base + offset_of(k_groups_, last) + p.distance);
          floats_[i].store(ragged() ? select(vector_of(inside), values, spirv::f32x4(0.0f)) : values);
        } else {
          floats_[i].store(singles(p.row, at, ragged()));
        }
      });
    }
  }

  void stage() {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if_needed(pieces_[i], [&] { stage_piece(i); });
    }
  }

  /// Where the 16x16 fragment at (row, kk) of the tile is staged.
  [[nodiscard]] staged_place fragment(std::uint32_t term, const spirv::u32& row, const spirv::u32& kk) const {
    const std::uint32_t at = staged_at_ + term * shape_.groups();
    const spirv::u32 offset = plan_.along_k ? row * shape_.stride + kk / unit : kk * shape_.stride + row / unit;
    return {offset + at, shape_.stride, plan_.along_k};
  }

  /// One element, where f32 is in memory.
  [[nodiscard]] spirv::f32 element(const spirv::u32& row, const spirv::u32& at) const {
    return single_->load(base_ + offset_of(plan_.rows, row) + offset_of(plan_.k, at));
  }

 private:
  struct piece {
    spirv::u32 row, k;  // of the tile; where neighbours lie along k, that counts groups
    spirv::u32 slot, index;
    bool partial = false;
    spirv::u32 base = 0;            // in groups: of what does not depend on k
    std::uint32_t distance = 0;     // and of the lines that it stands below
    std::uint32_t lines_below = 0;  // if these are rows
    std::optional<spirv::f32x4> factors{};
  };

  // Where threads are a multiple of a line's groups, all pieces of one stand below each other: they have one address,
  // and distances that are literals.
  [[nodiscard]] bool pieces_are_below() const { return k_.local_size()[0] % shape_.units == 0; }

  template <class Body>
  void if_needed(const piece& p, Body&& body) {
    if (!p.partial) return static_cast<void>(body());
    k_.if_(p.index < piece_count_, std::forward<Body>(body));
  }

  // Neighbouring invocations, `lanes` of them, read along k or along rows; `at_once` rows or terms are read at once.
  struct sampling {
    std::uint32_t lanes, at_once;
  };
  static constexpr std::uint32_t sampled_terms = 4;  // of each at once, where a row's samples are not neighbours
  [[nodiscard]] sampling sampled() const {
    const std::uint32_t lanes =
        plan_.along_k ? std::min(std::bit_ceil(groups_of_k()), subgroup_size_) : std::bit_ceil(tile_rows_ / unit);
    return {lanes, std::max(k_.local_size()[0] / lanes, 1u)};
  }
  [[nodiscard]] std::uint32_t groups_of_k() const { return ceil_div(plan_.k_count, unit); }

  void find_along_k(row_scales& scales, std::uint32_t at, const spirv::boolean& all, const sampling& how,
                    const spirv::u32& lane, const spirv::u32& line) {
    const std::uint32_t rows = ceil_div(tile_rows_, how.at_once);
    std::vector<spirv::u32> row, base;
    std::vector<spirv::var<spirv::u32>> largest;
    for (std::uint32_t r = 0; r < rows; ++r) {
      row.push_back(min(line + r * how.at_once, spirv::u32(tile_rows_ - 1)));
      base.push_back(row_base(row.back()));
      largest.push_back(k_.variable<spirv::u32>());
    }
    const std::uint32_t count = ceil_div(groups_of_k(), how.lanes);  // groups of a lane
    // The middle is less often zeros than either end.
    const spirv::u32 middle = count > 2 ? select(all, spirv::u32(0), spirv::u32(count / 2 * how.lanes)) : spirv::u32(0);
    passes(all, 1, count, [&](const spirv::u32& pass) {
      const spirv::u32 first = pass * how.lanes + lane + middle;
      for (std::uint32_t r = 0; r < rows; ++r) {
        const spirv::u32x4 bits = magnitudes(some(row[r], base[r], first));
        largest[r] = max(largest[r].load(), max(max(bits[0], bits[1]), max(bits[2], bits[3])));
      }
    });
    if (raises()) {
      for (std::uint32_t r = 0; r < rows; ++r) scales.raise(row[r] + at, largest[r].load());
      return;
    }
    // A lane decides for each row, all at once.
    for (std::uint32_t first = 0; first < rows; first += how.lanes) {
      const std::uint32_t together = std::min(rows - first, how.lanes);
      spirv::u32 own_row = 0, own = 0;
      for (std::uint32_t i = 0; i < together; ++i) {
        spirv::u32 found = largest[first + i].load();
        if (how.lanes == subgroup_size_) {
          found = k_.subgroup_max(found);
        } else {
          for (std::uint32_t mask = 1; mask < how.lanes; mask *= 2)
            found = max(found, k_.subgroup_shuffle_xor(found, spirv::u32(mask)));
        }
        own = i == 0 ? found : select(lane == i, found, own);
        own_row = i == 0 ? row[first] : select(lane == i, row[first + i], own_row);
      }
      k_.if_(lane < together, [&] { scales.decide(own_row + at, own, all || sample_is_all()); });
    }
  }

  void find_along_rows(row_scales& scales, std::uint32_t at, const spirv::boolean& all, const sampling& how,
                       const spirv::u32& lane, const spirv::u32& line) {
    const spirv::u32 row = min(lane * unit, spirv::u32(tile_rows_ - unit));
    const spirv::u32 base = row_base(row);
    const spirv::var<spirv::u32x4> largest = k_.variable<spirv::u32x4>();
    const std::uint32_t count = ceil_div(plan_.k_count, how.at_once);  // terms of a line
    const std::uint32_t taken = std::min(count, sampled_terms);
    const spirv::u32 stride = select(all, spirv::u32(how.at_once), spirv::u32(count / taken * how.at_once));
    passes(all, taken, count, [&](const spirv::u32& pass) {
      const spirv::u32 term = pass * stride + min(line, spirv::u32(how.at_once - 1));
      largest = max(largest.load(), magnitudes(some(row, base, term)));
    });
    for (std::uint32_t j = 0; j < unit; ++j) scales.raise(row + (at + j), largest.load()[j]);
  }

  // body(0), ..., body(few - 1), and on to body(count - 1) for all.
  template <class Body>
  void passes(const spirv::boolean& all, std::uint32_t few, std::uint32_t count, const Body& body) {
    for (std::uint32_t i = 0; i < few; ++i) body(spirv::u32(i));
    if (few == count) return;
    const spirv::u32 end = select(all, spirv::u32(count), spirv::u32(few));
    k_.for_(few, end, 1, body, spirv::unrolling::keep, count);
  }

  [[nodiscard]] static spirv::u32x4 magnitudes(const spirv::f32x4& x) {
    return spirv::bitcast<spirv::u32x4>(x) & spirv::u32x4(0x7fffffffu);
  }
  // The piece's first row of the tile; that of another one where the piece is not needed.
  [[nodiscard]] spirv::u32 tile_row(const piece& p) const {
    const spirv::u32 row = p.row + p.lines_below;
    return p.partial ? min(row, spirv::u32(tile_rows_ - (plan_.along_k ? 1 : unit))) : row;
  }
  // Those of its four elements.
  [[nodiscard]] spirv::f32x4 factors(const spirv::u32& row) const {
    if (plan_.along_k) return spirv::f32x4(scales_->factor(row + scales_at_));
    const auto of = [&](std::uint32_t j) { return scales_->factor(row + (scales_at_ + j)); };
    return vector(of(0), of(1), of(2), of(3));
  }

  // Axes whose offsets count groups; of the axis along which groups lie its index does, too.
  [[nodiscard]] static strided_axes in_groups(strided_axes axes, bool along) {
    for (strided_axis& axis : axes) {
      if (along && &axis == &axes.back())
        axis.extent /= unit;
      else
        axis.stride /= unit;
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
  [[nodiscard]] std::uint32_t k_end() const { return plan_.along_k ? groups_of_k() : plan_.k_count; }

  // Four elements from the tile's row and `at`, which counts as pieces do; behind the end of k the last ones again.
  [[nodiscard]] spirv::f32x4 some(const spirv::u32& row, const spirv::u32& base, const spirv::u32& at) const {
    const spirv::u32 last = min(at, spirv::u32(k_end() - 1));
    return grouped_ ? wide_->load(base + offset_of(k_groups_, last)) : singles(row, last, false);
  }

  // Separate loads for operands without aligned groups; behind the end of k zeros, or the last one again.
  [[nodiscard]] spirv::f32x4 singles(const spirv::u32& row, const spirv::u32& at, bool with_zeros) const {
    std::vector<spirv::f32> four;
    for (std::uint32_t j = 0; j < 4; ++j) {
      const spirv::u32 own = min(first_row_ + row + (plan_.along_k ? 0 : j), spirv::u32(plan_.row_count - 1));
      const spirv::u32 k = plan_.along_k ? at * unit + j : at, last = min(k, spirv::u32(plan_.k_count - 1));
      const spirv::f32 value = element(own, last);
      four.push_back(with_zeros ? select(k < plan_.k_count, value, spirv::f32(0)) : value);
    }
    return vector(four[0], four[1], four[2], four[3]);
  }
  [[nodiscard]] static spirv::value<spirv::scalar_kind::boolean, 4> vector_of(const spirv::boolean& all) {
    return vector(all, all, all, all);
  }

  void stage_piece(std::size_t i) {
    using namespace spirv;
    const piece& p = pieces_[i];
    if constexpr (from_half) {
      (*staged_)[p.slot] = words_[i].load();
    } else {
      f32x4 x = floats_[i].load();
      if (p.factors) x = x * *p.factors;
      const auto pack = [&](const f32x4& v) {
        return vector(pack_half(vector(v[0], v[1])), pack_half(vector(v[2], v[3])));
      };
      if (terms_ == 1) return static_cast<void>((*staged_)[p.slot] = pack(x));
      // The high term is rounded by its bits: of a conversion there and back NVIDIA's driver 580 takes the difference
      // for zero.
      const f32x4 high = bitcast<f32x4>((bitcast<u32x4>(x) + u32x4(0x1000u)) & u32x4(0xFFFFE000u));
      (*staged_)[p.slot] = pack(high);
      (*staged_)[p.slot + shape_.groups()] = pack((x - high) * f32x4(2048.0f));
    }
  }

  spirv::kernel& k_;
  matmul_operand plan_;
  std::uint32_t tile_rows_, tile_k_;
  staged_shape shape_;
  std::uint32_t terms_, subgroup_size_;
  bool shuffles_, grouped_;
  std::uint32_t piece_count_ = 0, staged_at_ = 0, scales_at_ = 0;
  row_scales* scales_ = nullptr;
  strided_axes batch_, rows_, k_groups_;  // in groups
  spirv::u32 first_row_, base_, group_base_;
  std::optional<spirv::memory<spirv::u32x4>> wide_half_;
  std::optional<spirv::memory<spirv::f32>> single_;
  std::optional<spirv::memory<spirv::f32x4>> wide_;
  std::optional<spirv::memory<Element>> staged_;
  std::vector<piece> pieces_;
  std::vector<spirv::var<spirv::u32x4>> words_;
  std::vector<spirv::var<spirv::f32x4>> floats_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
