// SPDX-License-Identifier: MIT
// Operands of a product whose terms are places of windows, as a filter's gradient has them, on their way to matrix
// units: each element is staged once for all taps.
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

/// Of each image, step by step, a run of places of the tile's rows and of its channels, both as lines of
/// workgroup memory, a place each: what a tap of the windows sees lies so many lines below as it lies elements behind
/// the first. Between the rows of an image there are places without windows, whose elements of the left operand are
/// zeros. All have the powers of two that were guessed (row_scales); what does not fit is noted and computed otherwise.
class shared_places {
 public:
  static constexpr std::uint32_t unit = 4;

  shared_places(spirv::kernel& k, const matmul_problem& problem, const fusion::product_windows& windows,
                const product_schedule& s, const device_profile& device)
      : k_(k),
        windows_(windows),
        s_(s),
        planes_(problem.border),
        lanes_(device.subgroup_shuffle && device.subgroup_arithmetic ? device.subgroup_size : 1),
        index_(lanes_ > 1 ? k.index_by_subgroups(lanes_) : k.local_index()),
        channels_(s.tile_n / s.taps),
        left_plan_(plan_operand(problem, true)) {
    std::vector<matmul_axis> terms, columns;
    for (const matmul_axis& axis : problem.k) {
      if (axis.extent != 1) terms.push_back(axis);
    }
    for (const matmul_axis& axis : problem.n) {
      if (axis.extent != 1) columns.push_back(axis);
    }
    along_ = terms.back(), terms.pop_back();
    if (windows.height > 1) down_ = terms.back(), terms.pop_back();
    for (const matmul_axis& axis : terms) {
      left_images_.push_back({axis.extent, axis.stride_a}), right_images_.push_back({axis.extent, axis.stride_b});
    }
    channel_ = planes_.distance_in_memory(columns.front().stride_b);
    for (std::size_t i = 1; i < columns.size(); ++i) taps_.push_back({columns[i].extent, columns[i].stride_b});
  }

  /// Elements of workgroup memory.
  [[nodiscard]] std::uint32_t staged_size() const {
    return (s_.tile_k * stride(s_.tile_m) + right_lines() * stride(channels_)) * s_.terms();
  }
  [[nodiscard]] std::uint32_t steps() const { return images() * steps_an_image(); }

  [[nodiscard]] std::uint32_t step_terms() const { return s_.tile_k; }

  /// Where each begins in memory, of the tile's first row and channel.
  void begin(const spirv::memory<spirv::u32x2>& staged, const spirv::memory<spirv::f32>& left,
             const spirv::memory<spirv::f32>& right, const spirv::u32& left_base, const spirv::u32& right_base,
             const spirv::u32& first_row, const spirv::u32& first_column) {
    staged_ = staged, left_ = left, right_ = right;
    left_base_ = left_base, right_base_ = right_base, first_row_ = first_row;
    first_channel_ = first_column / static_cast<std::uint32_t>(windows_.taps);
    place(left_side_, s_.tile_k, s_.tile_m, 0);
    place(right_side_, right_lines(), channels_, right_at());
  }

  /// Nothing was seen; everything is multiplied by these from now on.
  void use(const spirv::f32& left_factor, const spirv::f32& right_factor, const spirv::u32& zero) {
    left_factor_ = left_factor, right_factor_ = right_factor, zero_ = zero;
  }

  /// Of the right operand, where it would lie with its border.
  [[nodiscard]] spirv::f32 element(const spirv::u32& offset) const {
    const bordered_planes::placed found = find(offset, true);
    return select(found.inside, right_->load(select(found.inside, found.offset, spirv::u32(0))), spirv::f32(0));
  }

  void fetch(const spirv::u32& step) {
    const spirv::u32 image = images() > 1 ? step / steps_an_image() : spirv::u32(0);
    const spirv::u32 first = (images() > 1 ? step % steps_an_image() : step) * s_.tile_k;
    const auto length = static_cast<std::uint32_t>(windows_.length()), reach = s_.reach,
               width = static_cast<std::uint32_t>(windows_.width), pitch = static_cast<std::uint32_t>(windows_.pitch);
    const spirv::u32 left_image = left_base_ + offset_of(left_images_, image);
    for (const item& each : left_side_.items) {
      const spirv::u32 place = first + each.line, x = place % pitch, y = place / pitch;
      load(each, place < length && x < width, *left_, left_image + (y * down_.stride_a + x * along_.stride_a),
           left_side_.first, true);
    }
    const spirv::u32 right_image = right_base_ + offset_of(right_images_, image);
    for (const item& each : right_side_.items) {
      const spirv::u32 place = first + each.line;
      const bordered_planes::placed found = find(right_image + place, place < length + reach);
      load(each, found.inside, *right_, found.offset + first_channel_ * channel_, right_side_.first, false);
    }
  }
  void stage() {
    stage(left_side_, left_factor_, s_.tile_k * stride(s_.tile_m));
    stage(right_side_, right_factor_, right_lines() * stride(channels_));
  }
  /// Behind all that is staged and a barrier; behind a barrier behind this all know whether the powers do, of each row
  /// by its largest element.
  void look(row_scales& scales, std::uint32_t right_from) const {
    scales.clear();
    k_.barrier();
    tell(left_side_, scales, 0);
    tell(right_side_, scales, right_from);
    k_.barrier();
    scales.judge(0, s_.tile_m, 1);
    scales.judge(right_from, channels_, 1);
  }

  /// Where the fragments at (row, kk) and (column, kk) of the tile are staged, the columns being channels of the first
  /// tap, of the second, ...
  [[nodiscard]] staged_place left_fragment(std::uint32_t term, const spirv::u32& row, const spirv::u32& kk) const {
    const std::uint32_t lines = stride(s_.tile_m);
    return {kk * lines + row / unit + term * s_.tile_k * lines, lines, false};
  }
  [[nodiscard]] staged_place right_fragment(std::uint32_t term, const spirv::u32& column, const spirv::u32& kk) const {
    const std::uint32_t lines = stride(channels_);
    return {(kk + offset_of(taps_, column / channels_)) * lines + column % channels_ / unit +
                (right_at() + term * right_lines() * lines),
            lines, false};
  }

 private:
  struct item {
    spirv::u32 line = 0, slot = 0;  // a place of a step, and where its elements go
    spirv::boolean exists = true;
    std::vector<spirv::var<spirv::f32x4>> pieces{};
  };
  struct side {
    spirv::u32 first = 0;  // element of a place
    spirv::boolean exists = true;
    std::vector<item> items{};
    std::vector<spirv::var<spirv::u32x4>> seen{};  // the largest magnitudes of each
  };
  [[nodiscard]] static std::uint32_t stride(std::uint32_t elements) { return elements / unit + 2; }  // and 16 bytes
  [[nodiscard]] std::uint32_t right_lines() const { return s_.tile_k + s_.reach; }
  [[nodiscard]] std::uint32_t right_at() const { return s_.tile_k * stride(s_.tile_m) * s_.terms(); }
  [[nodiscard]] std::uint32_t images() const { return static_cast<std::uint32_t>(windows_.images); }
  [[nodiscard]] std::uint32_t steps_an_image() const {
    return static_cast<std::uint32_t>(ceil_div<std::int64_t>(windows_.length(), s_.tile_k));
  }
  // What would lie there with a border.
  [[nodiscard]] bordered_planes::placed find(const spirv::u32& offset, const spirv::boolean& exists) const {
    if (!planes_.have_borders()) return {offset, exists};
    const auto [place, inside] =
        planes_.find(offset / planes_.size() * planes_.size_in_memory(), offset % planes_.size());
    return {place, exists && inside};
  }

  // Neighbouring lanes have neighbouring places. An invocation has the same elements of all of its own, so that it need
  // not remember of more than these what it saw: with more, registers were short of it.
  void place(side& to, std::uint32_t lines, std::uint32_t elements, std::uint32_t at) const {
    const std::uint32_t threads = k_.local_size()[0], groups = elements / unit;
    std::uint32_t shares = 1;
    while (groups % (2 * shares) == 0 && 2 * shares * lanes_ <= threads) shares *= 2;
    const std::uint32_t width = threads / lanes_ / shares * lanes_, own = groups / shares;
    const spirv::u32 first = index_ / width * own, line = index_ % width;
    to.first = first * unit;
    if (width * shares < threads) to.exists = index_ < width * shares;
    for (std::uint32_t done = 0; done < lines; done += width) {
      item made{.line = line + done, .slot = (line + done) * stride(elements) + first + at, .exists = to.exists};
      if (done + width > lines) made.exists = made.exists && made.line < lines;
      for (std::uint32_t i = 0; i < own; ++i) made.pieces.push_back(k_.variable<spirv::f32x4>());
      to.items.push_back(std::move(made));
    }
    for (std::uint32_t i = 0; i < own; ++i) to.seen.push_back(k_.variable<spirv::u32x4>());
  }

  // Elements of a place, which lie so far apart; zeros where there is none.
  void load(const item& of, const spirv::boolean& inside, const spirv::memory<spirv::f32>& from,
            const spirv::u32& place, const spirv::u32& first_element, bool left) const {
    const strided_axes& rows = left_plan_.rows;
    const bool is_plain = !left || (rows.size() == 1 && left_plan_.row_count % s_.tile_m == 0);
    const std::uint32_t apart = left ? rows.back().stride : channel_;
    k_.if_(
        inside && of.exists,
        [&] {
          const spirv::u32 first = left ? first_row_ + first_element : first_element;
          const spirv::u32 base = is_plain ? place + first * apart : place;
          for (std::uint32_t i = 0; i < of.pieces.size(); ++i) {
            const auto element = [&](std::uint32_t j) {
              const std::uint32_t number = unit * i + j;
              if (is_plain) return from.load(base + number * apart);
              const spirv::u32 row = min(first + number, spirv::u32(left_plan_.row_count - 1));  // the last comes again
              return from.load(base + offset_of(rows, row));
            };
            of.pieces[i].store(vector(element(0), element(1), element(2), element(3)));
          }
        },
        [&] {
          for (const auto& piece : of.pieces) piece.store(spirv::f32x4(0.0f));
        });
  }
  void stage(const side& of, const spirv::f32& factor, std::uint32_t distance) const {
    for (const item& each : of.items) {
      k_.if_(each.exists, [&] {
        for (std::uint32_t i = 0; i < each.pieces.size(); ++i) {
          const spirv::f32x4 found = each.pieces[i].load();
          of.seen[i].store(max(of.seen[i].load(), magnitudes(found)));
          stage_terms(*staged_, each.slot + i, found * spirv::f32x4(factor), s_.terms(), distance, zero_);
        }
      });
    }
  }
  // The largest of each row or channel: of all lanes of a subgroup, then of all subgroups.
  void tell(const side& of, row_scales& scales, std::uint32_t from) const {
    std::vector<spirv::u32> largest;
    for (const auto& four : of.seen) {
      for (std::uint32_t j = 0; j < unit; ++j) {
        const spirv::u32 own = four.load()[j];
        largest.push_back(lanes_ > 1 ? k_.subgroup_max(own) : own);
      }
    }
    k_.if_(lanes_ > 1 ? of.exists && index_ % lanes_ == 0u : of.exists, [&] {
      for (std::uint32_t i = 0; i < largest.size(); ++i) scales.raise(of.first + (from + i), largest[i]);
    });
  }

  spirv::kernel& k_;
  const fusion::product_windows windows_;
  const product_schedule s_;
  const bordered_planes planes_;
  const std::uint32_t lanes_;  // that tell of elements together
  const spirv::u32 index_;     // of the invocation
  const std::uint32_t channels_;
  const matmul_operand left_plan_;
  matmul_axis along_, down_;  // of places
  strided_axes left_images_, right_images_, taps_;
  std::uint32_t channel_ = 0;  // from one to the next
  std::optional<spirv::memory<spirv::u32x2>> staged_;
  std::optional<spirv::memory<spirv::f32>> left_, right_;
  spirv::f32 left_factor_, right_factor_;
  spirv::u32 zero_, left_base_, right_base_, first_row_, first_channel_;
  side left_side_, right_side_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
