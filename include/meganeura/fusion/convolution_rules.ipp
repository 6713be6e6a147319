// SPDX-License-Identifier: MIT
// Convolutions as products: what they read of an image lies at affine places, in a border of zeros.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/fusion/implement.hpp>
#include <meganeura/graph/view_map.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

// Along one axis of an image: for each position and each tap the place position * stride + tap * dilation - low.
struct window_axis {
  std::int64_t positions = 1, taps = 1, stride = 1, dilation = 1, low = 0;
  [[nodiscard]] std::int64_t end() const { return (positions - 1) * stride + (taps - 1) * dilation + 1 - low; }
};

class convolution_as_product {
 public:
  convolution_as_product(implementation_pass& pass, enode_id id)
      : g_(pass.graph()),
        owner_(g_.find(g_.node(id).owner)),
        first_(g_.operand(id, 0)),
        second_(g_.operand(id, 1)),
        c_(g_.get<convolution_attribute>(id)),
        most_bytes_(pass.limits().tensor_bytes),
        reads_texels_(pass.device().prefers_texel_buffers),
        reasons_(bit(structural::convolution_to_contract) | g_.node(id).reasons) {}

  // Whether there is one.
  bool add() {
    const bool by_input = c_.form == convolution_attribute::input, by_filter = c_.form == convolution_attribute::filter;
    const shape x = g_.extents(by_input ? owner_ : first_), w = g_.extents(by_filter ? owner_ : second_),
                y = g_.extents(by_filter  ? second_
                               : by_input ? first_
                                          : owner_);
    const std::int64_t out = w[0] / c_.groups, in = w[1];
    if (c_.groups > 1 && out == 1 && in == 1) return false;  // of each channel alone: nothing to multiply
    std::array<window_axis, max_spatial> axes;
    for (std::size_t i = 0; i < spatial(); ++i) {
      const int axis = static_cast<int>(i) + 2;
      axes[i] = {y[axis], w[axis], c_.stride[i], c_.dilation[i], c_.pad_low[i]};
      if (by_input) axes[i] = {x[axis], w[axis], 1, c_.dilation[i], (w[axis] - 1) * c_.dilation[i] - c_.pad_low[i]};
    }
    // Labels: of the result (images or filters first), then of what is added up.
    const int per_axis = c_.groups > 1 ? 1 : 0, rank = 2 + per_axis + c_.spatial;
    if (rank + c_.spatial > max_rank) return false;
    const std::optional<class_id> spread = by_input ? spread_out(first_) : first_;
    if (!spread) return false;
    // What comes of positions behind the last ones is left out, or they have zeros on both sides.
    window_axis& last = axes[spatial() - 1];
    const std::int64_t positions = last.stride == 1 || by_filter ? rounded(last.positions) : last.positions;
    if (!by_filter) last.positions = positions;
    std::optional<class_id> read = windows(*spread, by_input ? out : in, {axes.data(), spatial()});
    if (!read) return false;
    if (by_filter) read = lengthened(*read, positions), last.positions = positions;
    std::array<label, 4 + 2 * max_spatial> number{};  // of image, group, channel of the filter's rows, of its columns
    enum : std::size_t { image, group, row, column, tap };
    const std::size_t position = tap + spatial();
    label next = 0;
    shape extents;
    const auto name = [&](std::size_t which, std::int64_t extent) {
      if (next < rank) extents.push_back(extent);
      number[which] = next++;
    };
    const auto name_all = [&](std::size_t from, bool are_taps) {
      for (std::size_t i = 0; i < spatial(); ++i) name(from + i, are_taps ? axes[i].taps : axes[i].positions);
    };
    if (!by_filter) name(image, x[0]);
    if (c_.groups > 1) name(group, c_.groups);
    name(by_input ? column : row, by_input ? in : out);
    if (by_filter) name(column, in);
    name_all(by_filter ? tap : position, by_filter);
    if (by_filter) name(image, x[0]);
    if (!by_filter) name(by_input ? row : column, 0);
    name_all(by_filter ? position : tap, !by_filter);

    contract_attribute product{.result_rank = rank};
    const auto label_operand = [&](label* to, std::initializer_list<std::size_t> axes_of) {
      for (const std::size_t each : axes_of) {
        if (each != tap && each != position) {
          if (each != group || c_.groups > 1) *to++ = number[each];
          continue;
        }
        for (std::size_t i = 0; i < spatial(); ++i) *to++ = number[each + i];
      }
    };
    class_id other = no_id;
    if (by_filter) {
      other = lengthened(with_groups(second_, 1, out), positions);
      label_operand(product.a, {image, group, row, position});
      label_operand(product.b, {group, column, tap, image, position});
    } else {
      // Results' channels come last where what is added up has no fours.
      const std::size_t kept = by_input ? column : row, added = by_input ? row : column;
      std::int64_t taps = 1;
      for (std::size_t i = 0; i < spatial(); ++i) taps *= axes[i].taps;
      const bool is_last = !is_in_fours((by_input ? out : in) * taps) && is_in_fours(by_input ? in : out);
      other = filter(second_, by_input, is_last);
      if (is_last) label_operand(product.a, {group, added, tap, kept});
      if (!is_last) label_operand(product.a, {group, kept, added, tap});
      label_operand(product.b, {group, added, tap, image, position});
    }
    const class_id operands[] = {other, *read};
    // The result of these.
    const shape& whole = g_.extents(owner_);
    view_attribute how = dense_view(extents);
    if (c_.groups > 1) {  // both axes of channels as one
      const int axis = by_filter ? 0 : 1;
      std::copy(how.strides + axis + 2, how.strides + extents.rank(), how.strides + axis + 1);
      how.strides[axis] = extents.stride(axis + 1);
      how.strides[extents.rank() - 1] = 0;
    }
    for (int i = 0; i < whole.rank(); ++i) how.strides[i] = whole[i] == 1 ? 0 : how.strides[i];
    if (extents == whole) {
      g_.add_to(owner_, op::contract, product, operands, reasons_);
    } else {
      const class_id made = g_.add(op::contract, dtype::f32, extents, product, operands, reasons_);
      g_.add_to(owner_, op::view, how, std::span(&made, 1), reasons_);
    }
    return true;
  }

 private:
  using label = std::uint8_t;

  [[nodiscard]] std::size_t spatial() const { return static_cast<std::size_t>(c_.spatial); }
  static bool is_in_fours(std::int64_t count) { return count % 4 == 0; }
  // As many positions along the last axis as texels have, where that is not many more.
  [[nodiscard]] std::int64_t rounded(std::int64_t positions) const {
    const std::int64_t whole = ceil_div<std::int64_t>(positions, 4) * 4;
    return reads_texels_ && 4 * positions >= 3 * whole ? whole : positions;
  }
  // With zeros behind the last axis.
  class_id lengthened(class_id of, std::int64_t extent) {
    shape extents = g_.extents(of);
    const int last = extents.rank() - 1;
    if (extents[last] == extent) return of;
    pad_attribute zeros;
    zeros.high[last] = extent - extents[last];
    extents.set(last, extent);
    return g_.add(op::pad, dtype::f32, extents, zeros, std::span(&of, 1), reasons_);
  }
  class_id view(class_id of, const shape& extents, view_attribute how) {
    for (int i = 0; i < extents.rank(); ++i) how.strides[i] = extents[i] == 1 ? 0 : how.strides[i];
    if (extents == g_.extents(of) && how == dense_view(extents)) return of;
    return g_.add(op::view, dtype::f32, extents, how, std::span(&of, 1), reasons_);
  }
  // The axis that counts groups times `each` as two.
  class_id with_groups(class_id of, int axis, std::int64_t each) {
    if (c_.groups == 1) return of;
    shape extents;
    const shape before = g_.extents(of);
    for (int i = 0; i < before.rank(); ++i) {
      if (i == axis) extents.push_back(c_.groups);
      extents.push_back(i == axis ? each : before[i]);
    }
    return view(of, extents, dense_view(extents));
  }
  // [groups if there are several, rows, columns, taps...] of a filter, or for a gradient of an image columns before
  // rows and the taps backwards; the first of both may come last.
  class_id filter(class_id of, bool by_input, bool is_last) {
    const shape before = g_.extents(of);
    shape extents;
    view_attribute how;
    const auto push = [&](std::int64_t extent, std::int64_t stride) {
      how.strides[extents.rank()] = stride;
      extents.push_back(extent);
    };
    const std::int64_t rows = before[0] / c_.groups;
    const auto push_channels = [&](bool are_rows) {
      push(are_rows ? rows : before[1], before.stride(are_rows ? 0 : 1));
    };
    if (c_.groups > 1) push(c_.groups, rows * before.stride(0));
    if (!is_last) push_channels(!by_input);
    push_channels(by_input);
    for (int i = 2; i < before.rank(); ++i) {
      how.offset += by_input ? (before[i] - 1) * before.stride(i) : 0;
      push(before[i], by_input ? -before.stride(i) : before.stride(i));
    }
    if (is_last) push_channels(!by_input);
    return view(of, extents, how);
  }
  // With zeros behind each element, so many that a stride is one step. None if that would be larger than a tensor may
  // be.
  std::optional<class_id> spread_out(class_id of) {
    for (int i = 0; i < c_.spatial; ++i) {
      if (c_.stride[i] == 1) continue;
      const int axis = i + 2;
      const shape extents = g_.extents(of);
      const double bytes = static_cast<double>(extents.bytes(dtype::f32)) * static_cast<double>(c_.stride[i]);
      if (bytes > static_cast<double>(most_bytes_)) return {};
      // As rows of one element each, of which a border makes longer ones.
      shape rows{1, 1, 1}, apart = extents;
      for (int k = 0; k < extents.rank(); ++k) rows.set(k <= axis ? 0 : 2, rows[k <= axis ? 0 : 2] * extents[k]);
      const class_id single = view(of, rows, dense_view(rows));
      pad_attribute zeros;
      zeros.high[1] = c_.stride[i] - 1;
      rows.set(1, c_.stride[i]);
      const class_id longer = g_.add(op::pad, dtype::f32, rows, zeros, std::span(&single, 1), reasons_);
      apart.set(axis, extents[axis] * c_.stride[i]);
      of = view(longer, apart, dense_view(apart));
    }
    return of;
  }
  // [groups if there are several, channels, taps..., images, positions...] of [images, channels, extents...], with
  // zeros around it. None if that would be larger than a tensor may be.
  std::optional<class_id> windows(class_id of, std::int64_t channels, std::span<const window_axis> axes) {
    shape image = g_.extents(of);
    auto elements = static_cast<double>(image[0] * image[1]);
    pad_attribute border;
    bool has_border = false;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const int axis = static_cast<int>(i) + 2;
      border.low[axis] = std::max<std::int64_t>(axes[i].low, 0);
      border.high[axis] = std::max<std::int64_t>(axes[i].end() - image[axis], 0);
      has_border = has_border || border.low[axis] != 0 || border.high[axis] != 0;
      image.set(axis, image[axis] + border.low[axis] + border.high[axis]);
      elements *= static_cast<double>(axes[i].taps * axes[i].positions);
    }
    if (4 * elements > static_cast<double>(most_bytes_) || elements > static_cast<double>(shape::max_elements))
      return {};
    if (has_border) {
      const int last = image.rank() - 1;
      const std::int64_t more = reads_texels_ ? -image[last] & 3 : 0;  // then a row has whole texels
      border.high[last] += more;
      image.set(last, image[last] + more);
      if (image.bytes(dtype::f32) > most_bytes_) return {};
      of = g_.add(op::pad, dtype::f32, image, border, std::span(&of, 1), reasons_);
    }
    shape extents;
    view_attribute how;
    const auto push = [&](std::int64_t extent, std::int64_t stride) {
      how.strides[extents.rank()] = stride;
      extents.push_back(extent);
    };
    if (c_.groups > 1) push(c_.groups, channels * image.stride(1));
    push(channels, image.stride(1));
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const std::int64_t step = image.stride(static_cast<int>(i) + 2);
      how.offset += (std::max<std::int64_t>(axes[i].low, 0) - axes[i].low) * step;
      push(axes[i].taps, axes[i].dilation * step);
    }
    push(image[0], image.stride(0));
    for (std::size_t i = 0; i < axes.size(); ++i)
      push(axes[i].positions, axes[i].stride * image.stride(static_cast<int>(i) + 2));
    return view(of, extents, how);
  }

  engine& g_;
  const class_id owner_, first_, second_;
  const convolution_attribute c_;
  const std::int64_t most_bytes_;
  const bool reads_texels_;
  const rule_mask reasons_;
};

MEGANEURA_INLINE void convolution_to_contract::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  if (g.get<convolution_attribute>(id).per_image) return;
  for (const class_id each : {owner, g.operand(id, 0), g.operand(id, 1)}) {
    if (g[each].type != dtype::f32) return;
  }
  if (convolution_as_product(pass, id).add()) pass.note_applied(rule);
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
