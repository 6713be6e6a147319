// SPDX-License-Identifier: MIT
// Operands of a product of windows that share elements, on their way to matrix units: each element is staged once.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/fusion/product_tiles.hpp>
#include <meganeura/kernels/bordered_planes.hpp>
#include <meganeura/kernels/cooperative_operand.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

/// That the right operand are, empty where they are none: see fusion::product_windows.
[[nodiscard]] inline fusion::product_windows windows_of(const matmul_problem& problem) {
  std::vector<fusion::strided_extent> columns, terms;
  for (const matmul_axis& axis : problem.n) columns.push_back({axis.extent, axis.stride_b});
  for (const matmul_axis& axis : problem.k) terms.push_back({axis.extent, axis.stride_b});
  return fusion::windows_of(columns, terms);
}

/// The same sums with all places of an image as columns, also those between its rows, of which nobody wants results;
/// images are the innermost axes of the batch.
[[nodiscard]] inline matmul_problem as_places(const matmul_problem& problem, const fusion::product_windows& windows) {
  matmul_problem found = problem;
  found.n = {{static_cast<std::uint32_t>(windows.length()), 0, 1, 0}};
  int inside = windows.height > 1 ? 2 : 1;  // an image's axes
  std::size_t images = problem.n.size();
  while (inside > 0) inside -= problem.n[--images].extent != 1;
  found.batch.insert(found.batch.end(), problem.n.begin(), problem.n.begin() + static_cast<std::ptrdiff_t>(images));
  return found;
}

/// Of each channel of a step a run of places of the right operand, whose rows in workgroup memory are places: the
/// windows' tap t lies shift(t) rows below. Of the left operand so many taps at a time. All have the powers of two that
/// were guessed (row_scales); what does not fit is noted and computed otherwise.
class shared_windows {
 public:
  shared_windows(spirv::kernel& k, const matmul_problem& problem, const fusion::product_windows& windows,
                 const product_schedule& s)
      : k_(k),
        windows_(windows),
        s_(s),
        left_plan_(plan_operand(problem, true)),
        planes_(problem.border),
        first_in_plane_(planes_.have_borders() ? problem.offset_b % planes_.size() : 0),
        groups_(s.tile_k / unit),
        stride_(groups_ + 2),  // 16 bytes of padding
        left_rows_(s.taps * s.tile_m),
        right_rows_(s.tile_n + s.reach) {
    bool has_channels = false;
    for (const matmul_axis& axis : problem.k) {
      if (axis.extent == 1) continue;
      if (!has_channels)
        left_channel_ = axis.stride_a, right_channel_ = axis.stride_b;
      else
        left_taps_.push_back({axis.extent, axis.stride_a}), right_taps_.push_back({axis.extent, axis.stride_b});
      has_channels = true;
    }
    reads_runs_ = lies_in_runs();
    channel_in_memory_ = planes_.distance_in_memory(right_channel_);
  }

  static constexpr std::uint32_t unit = 4;

  /// Elements of workgroup memory.
  [[nodiscard]] std::uint32_t staged_size() const { return (left_rows_ + right_rows_) * stride_ * s_.terms(); }
  /// Times so many taps at once.
  [[nodiscard]] std::uint32_t turns() const { return static_cast<std::uint32_t>(windows_.taps) / s_.taps; }

  /// Which rows and places of the operands; where each begins in memory.
  void begin(const spirv::memory<spirv::u32x2>& staged, const spirv::memory<spirv::f32>& left,
             const spirv::memory<spirv::f32>& right, const spirv::u32& left_base, const spirv::u32& right_base,
             const spirv::u32& first_row, const spirv::u32& first_place) {
    staged_ = staged, left_ = left, right_ = right;
    first_of_right_ = right_base, first_place_ = first_place;
    const std::uint32_t threads = k_.local_size()[0];
    while (groups_ % (2 * parts_) == 0 && 2 * right_rows_ * parts_ <= threads) parts_ *= 2;
    const std::uint32_t items = right_rows_ * parts_;
    for (std::uint32_t done = 0; done < items; done += threads) {
      item made = item_at(done, items);
      const spirv::u32 row = made.index % right_rows_, part = made.index / right_rows_;
      const bordered_planes::placed found = find(min(first_place + row, spirv::u32(last_place())));
      made.base = found.offset + part * (groups_ / parts_ * unit * channel_in_memory_);
      made.inside = found.inside;
      made.slot = row * stride_ + part * (groups_ / parts_) + right_at();
      add(right_items_, made, groups_ / parts_);
    }
    const auto last_row = static_cast<std::uint32_t>(left_plan_.row_count - 1);
    const std::uint32_t taps = reads_runs_ ? 1 : s_.taps;
    const bool channels_outside = left_channel_ > left_plan_.rows.back().stride;
    const std::uint32_t pieces = taps * s_.tile_m * groups_;
    if (reads_runs_) left_runs_ = k_.view<spirv::f32x4>(left);
    for (std::uint32_t done = 0; done < pieces; done += threads) {
      item made = item_at(done, pieces);
      const spirv::u32 tap = made.index % taps, rest = made.index / taps;
      const spirv::u32 group = channels_outside ? rest / s_.tile_m : rest % groups_;
      const spirv::u32 row = channels_outside ? rest % s_.tile_m : rest / groups_;
      made.base = left_base + offset_of(left_plan_.rows, min(first_row + row, spirv::u32(last_row))) +
                  group * (unit * left_channel_);
      if (reads_runs_)
        made.base = made.base / unit;
      else
        made.base = made.base + offset_of(taps_at_once(), tap);
      made.slot = (tap * s_.tile_m + row) * stride_ + group;
      add(left_items_, made, reads_runs_ ? static_cast<std::uint32_t>(windows_.taps) : 1);
    }
  }

  /// Four elements of the right operand, of another one of `channels` from `first` on for each of so many lanes.
  [[nodiscard]] spirv::f32x4 sampled(const spirv::u32& lane, std::uint32_t lanes, const spirv::u32& first,
                                     std::uint32_t channels) const {
    const spirv::u32 channel = first + lane * channels / lanes;
    const auto of = [&](std::uint32_t i) {
      const spirv::u32 place = first_place_ + (lane + i * (s_.tile_n / 4) + s_.reach / 2);
      return element_of(channel, min(place, spirv::u32(last_place())));
    };
    return vector(of(0), of(1), of(2), of(3));
  }

  /// Nothing was seen; everything is multiplied by these from now on.
  void use(const spirv::f32& left_factor, const spirv::f32& right_factor, const spirv::u32& zero) {
    left_factor_ = left_factor, right_factor_ = right_factor, zero_ = zero;
  }

  /// Of the right operand, term `at` of the window that begins at a place of the image; 0 in a border.
  [[nodiscard]] spirv::f32 element(const spirv::u32& place, const spirv::u32& at) const {
    const auto taps = static_cast<std::uint32_t>(windows_.taps);
    return element_of(at / taps, place + offset_of(right_taps_, at % taps));
  }

  void fetch_right(const spirv::u32& channel) {
    fetch(right_items_, *right_, channel * channel_in_memory_, channel_in_memory_);
  }
  void fetch_left(const spirv::u32& channel, std::uint32_t turn) {
    if (reads_runs_) {  // all taps at once
      if (turn == 0) fetch_runs(channel * left_channel_ / unit);
      return;
    }
    fetch(left_items_, *left_, channel * left_channel_ + offset(left_taps_, turn * s_.taps), left_channel_);
  }
  void stage_right() { stage(right_items_, right_factor_, right_rows_ * stride_); }
  void stage_left(std::uint32_t turn) {
    if (reads_runs_)
      stage_runs(turn * s_.taps);
    else
      stage(left_items_, left_factor_, left_rows_ * stride_);
  }
  /// Behind a barrier behind all that is staged, which is lost; behind a barrier behind this all know whether the
  /// powers do. Elements of the right operand count as those of a whole window.
  void look(row_scales& scales, std::uint32_t right_from) const {
    const auto note = [&](std::uint32_t from, const std::vector<spirv::var<spirv::u32>>& seen, std::uint32_t elements) {
      k_.if_(!scales.fits(from, seen, elements), [&] { scales.note_misfit(); });
    };
    note(0, seen_of(left_items_), (reads_runs_ ? s_.taps : 1) * unit);
    for (const item& each : right_items_) {
      if_needed(each, [&] { staged_->component(each.index, 0).store(each.seen.load()); });
    }
    note(right_from, seen_of(right_items_), 0);  // none that is too large
    k_.barrier();
    for_each_below(k_, k_.local_index(), s_.tile_n, [&](const spirv::u32& place) {
      const spirv::var<spirv::u32> largest = k_.variable<spirv::u32>();
      for (std::uint32_t part = 0; part < parts_; ++part) {
        for (std::uint32_t tap = 0; tap < windows_.taps; ++tap) {
          const spirv::u32 at = place + (offset(right_taps_, tap) + part * right_rows_);
          largest = max(largest.load(), staged_->component(at, 0).load());
        }
      }
      note(right_from, {largest}, groups_ / parts_ * unit);
    });
  }

  /// Where the fragments at (row, kk) of a tap are staged, of those at once or of all.
  [[nodiscard]] staged_place left_fragment(std::uint32_t term, std::uint32_t tap, const spirv::u32& row,
                                           const spirv::u32& kk) const {
    return {(row + tap * s_.tile_m) * stride_ + kk / unit + term * left_rows_ * stride_, stride_, true};
  }
  [[nodiscard]] staged_place right_fragment(std::uint32_t term, std::uint32_t tap, const spirv::u32& place,
                                            const spirv::u32& kk) const {
    return {(place + offset(right_taps_, tap)) * stride_ + kk / unit + (right_at() + term * right_rows_ * stride_),
            stride_, true};
  }

 private:
  struct item {
    spirv::u32 index = 0, base = 0, slot = 0;
    spirv::boolean inside = true;  // false: in a border, where nothing is loaded
    std::uint32_t count = 0;       // of all, where there may be none of this index
    bool partial = false;
    std::vector<spirv::var<spirv::f32x4>> pieces{};
    spirv::var<spirv::u32> seen;
  };

  // Of an image that is read.
  [[nodiscard]] std::uint32_t last_place() const {
    return static_cast<std::uint32_t>(windows_.length() + windows_.reach - 1);
  }
  // Where a place of the first channel lies, if it does.
  [[nodiscard]] bordered_planes::placed find(const spirv::u32& place) const {
    if (!planes_.have_borders()) return {first_of_right_ + place, true};
    return planes_.find(first_of_right_ / planes_.size() * planes_.size_in_memory(), place + first_in_plane_);
  }
  [[nodiscard]] spirv::f32 element_of(const spirv::u32& channel, const spirv::u32& place) const {
    const bordered_planes::placed found = find(place);
    const spirv::u32 offset = found.offset + channel * channel_in_memory_;
    if (!planes_.have_borders()) return right_->load(offset);
    return select(found.inside, right_->load(select(found.inside, offset, spirv::u32(0))), spirv::f32(0));
  }
  [[nodiscard]] std::uint32_t right_at() const { return left_rows_ * stride_ * s_.terms(); }
  [[nodiscard]] item item_at(std::uint32_t done, std::uint32_t count) const {
    return {.index = k_.local_index() + done,
            .count = count,
            .partial = done + k_.local_size()[0] > count,
            .seen = k_.variable<spirv::u32>()};
  }
  void add(std::vector<item>& to, item made, std::uint32_t pieces) {
    for (std::uint32_t i = 0; i < pieces; ++i) made.pieces.push_back(k_.variable<spirv::f32x4>());
    to.push_back(std::move(made));
  }
  [[nodiscard]] static std::vector<spirv::var<spirv::u32>> seen_of(const std::vector<item>& items) {
    std::vector<spirv::var<spirv::u32>> seen;
    for (const item& each : items) seen.push_back(each.seen);
    return seen;
  }
  template <class Body>
  void if_needed(const item& each, const Body& body) const {
    if (!each.partial) return body();
    k_.if_(each.index < each.count, body);
  }

  // Of tap number `tap`.
  [[nodiscard]] static std::uint32_t offset(const strided_axes& taps, std::uint32_t tap) {
    std::uint32_t found = 0;
    for (std::size_t i = taps.size(); i-- > 0; tap /= taps[i].extent) found += tap % taps[i].extent * taps[i].stride;
    return found;
  }
  [[nodiscard]] strided_axes taps_at_once() const {
    if (s_.taps == windows_.taps) return left_taps_;
    return {left_taps_.back()};
  }

  void fetch(const std::vector<item>& items, const spirv::memory<spirv::f32>& from, const spirv::u32& first,
             std::uint32_t apart) const {
    for (const item& each : items) {
      k_.if_(each.partial ? each.inside && each.index < each.count : each.inside, [&] {
        const spirv::u32 base = each.base + first;
        for (std::uint32_t i = 0; i < each.pieces.size(); ++i) {
          const auto of = [&](std::uint32_t j) { return from.load(base + (unit * i + j) * apart); };
          each.pieces[i].store(vector(of(0), of(1), of(2), of(3)));
        }
      });
    }
  }
  // Whether four channels' taps lie one behind the other, and begin an aligned group.
  [[nodiscard]] bool lies_in_runs() const {
    std::uint32_t run = 1;
    for (std::size_t i = left_taps_.size(); i-- > 0; run *= left_taps_[i].extent) {
      if (left_taps_[i].stride != run) return false;
    }
    bool is_aligned = left_channel_ == run && left_plan_.offset % unit == 0;
    for (const strided_axes* axes : {&left_plan_.batch, &left_plan_.rows}) {
      for (const strided_axis& axis : *axes) is_aligned = is_aligned && axis.stride % unit == 0;
    }
    return is_aligned;
  }
  void fetch_runs(const spirv::u32& first) const {
    for (const item& each : left_items_) {
      if_needed(each, [&] {
        const spirv::u32 base = each.base + first;
        for (std::uint32_t i = 0; i < each.pieces.size(); ++i) each.pieces[i].store(left_runs_->load(base + i));
      });
    }
  }
  // The taps from `first` on.
  void stage_runs(std::uint32_t first) const {
    const auto taps = static_cast<std::uint32_t>(windows_.taps);
    for (const item& each : left_items_) {
      if_needed(each, [&] {
        spirv::f32 sum = 0;
        for (std::uint32_t tap = 0; tap < s_.taps; ++tap) {
          const auto of = [&](std::uint32_t channel) {
            const std::uint32_t at = channel * taps + first + tap;
            return each.pieces[at / unit].load()[at % unit];
          };
          stage_piece(each, tap * s_.tile_m * stride_, vector(of(0), of(1), of(2), of(3)), left_factor_,
                      left_rows_ * stride_, sum);
        }
        each.seen.store(max(each.seen.load(), spirv::bitcast<spirv::u32>(sum)));
      });
    }
  }
  void stage_piece(const item& of, std::uint32_t at, const spirv::f32x4& found, const spirv::f32& factor,
                   std::uint32_t distance, spirv::f32& sum) const {
    const spirv::f32x4 size = abs(found);
    sum = sum + ((size[0] + size[1]) + (size[2] + size[3]));
    stage_terms(*staged_, of.slot + at, found * spirv::f32x4(factor), s_.terms(), distance, zero_);
  }
  // f16 terms of them, the second ones so far behind.
  void stage(const std::vector<item>& items, const spirv::f32& factor, std::uint32_t distance) const {
    for (const item& each : items) {
      if_needed(each, [&] {
        spirv::f32 sum = 0;
        for (std::uint32_t i = 0; i < each.pieces.size(); ++i)
          stage_piece(each, i, each.pieces[i].load(), factor, distance, sum);
        each.seen.store(max(each.seen.load(), spirv::bitcast<spirv::u32>(sum)));
      });
    }
  }

  spirv::kernel& k_;
  const fusion::product_windows windows_;
  const product_schedule s_;
  const matmul_operand left_plan_;
  const bordered_planes planes_;
  const std::uint32_t first_in_plane_;    // of the operand's first place
  std::uint32_t groups_, stride_;         // of a row: fours, and how many of them the next one is away
  std::uint32_t left_rows_, right_rows_;  // in workgroup memory
  std::uint32_t parts_ = 1;               // of a place's channels, each of another invocation
  std::uint32_t left_channel_ = 0, right_channel_ = 0, channel_in_memory_ = 0;
  strided_axes left_taps_, right_taps_;
  std::optional<spirv::memory<spirv::u32x2>> staged_;
  std::optional<spirv::memory<spirv::f32>> left_, right_;
  std::optional<spirv::memory<spirv::f32x4>> left_runs_;
  bool reads_runs_ = false;  // of the left operand all taps of four channels are read together
  spirv::f32 left_factor_, right_factor_;
  spirv::u32 zero_, first_of_right_, first_place_;
  std::vector<item> left_items_, right_items_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
