// SPDX-License-Identifier: MIT
// Convolutions as products: what they read of an image lies at affine places, in a border of zeros.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/fusion/contract_loops.hpp>
#include <meganeura/fusion/implement.hpp>
#include <meganeura/fusion/matmul_rules.ipp>
#include <meganeura/graph/view_map.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

// Along one axis of an image: for each position and each tap the place position * stride + tap * dilation - low.
struct window_places {
  std::int64_t positions = 1, taps = 1, stride = 1, dilation = 1, low = 0;
  [[nodiscard]] std::int64_t end() const { return (positions - 1) * stride + (taps - 1) * dilation + 1 - low; }
};

// Along one axis of a product: windows of what is read, and the filter's taps that these meet, from `first` by `step`.
// Taps that are phases are no terms of a sum: each has results of its own.
struct product_axis {
  window_places window;
  std::int64_t first = 0, step = 1, phases = 1;
};
using product_axes = std::array<product_axis, max_spatial>;

class convolution_as_product {
 public:
  convolution_as_product(implementation_pass& pass, enode_id id)
      : g_(pass.graph()),
        owner_(g_.find(g_.node(id).owner)),
        first_(g_.operand(id, 0)),
        second_(g_.operand(id, 1)),
        c_(g_.get<convolution_attribute>(id)),
        x_(g_.extents(c_.form == convolution_attribute::input ? owner_ : first_)),
        w_(g_.extents(c_.form == convolution_attribute::filter ? owner_ : second_)),
        y_(g_.extents(c_.form == convolution_attribute::filter  ? second_
                      : c_.form == convolution_attribute::input ? first_
                                                                : owner_)),
        limits_(pass.limits()),
        reads_texels_(pass.device().prefers_texel_buffers),
        reasons_(bit(structural::convolution_to_contract) | g_.node(id).reasons) {}

  // Whether there is one; if not, at most copies were added that nothing reads.
  bool add() {
    if (c_.groups > 1 && out() == 1 && in() == 1) return false;  // of each channel alone: nothing to multiply
    if (2 + (c_.groups > 1) + 2 * c_.spatial > max_rank) return false;
    if (c_.form == convolution_attribute::output) return add_output();
    return c_.form == convolution_attribute::input ? add_image_gradient() : add_filter_gradient();
  }

 private:
  // Axes by letters: n images, g groups (none if there is one), of each group o channels of the output and c of the
  // image; along each axis of the image t taps, p positions, q phases (none if there is one), or x: p and q in turn.
  struct product_letters {
    std::string_view result, left, right;
  };
  struct named_axis {
    char letter = 0;
    std::size_t along = 0;
    friend bool operator==(const named_axis&, const named_axis&) = default;
  };
  using named_axes = small_vector<named_axis, max_rank>;

  // ---- the three forms ----------------------------------------------------------------------------------------------

  bool add_output() {
    product_axes axes = windows_of_image();
    window_places& last = axes[spatial() - 1].window;
    if (last.stride == 1) last.positions = rounded(last.positions);  // what comes of those behind the end is left out
    const product_letters letters{"ngop", channels_last(in(), out(), axes) ? "gcto" : "goct", "gctnp"};
    const pad_attribute border = border_of(x_, axes);
    if (!fits(letters, axes) || !fits(x_, border)) return false;
    const class_id read = windows(bordered(first_, border), border, letters.right, axes);
    const class_id made = contract(letters, axes, taps(letters.left, axes), read);
    const shape extents = g_.extents(made);
    view_attribute how;
    for (int i = 0; i < x_.rank(); ++i) how.strides[i] = extents.stride(i == 0 || c_.groups == 1 ? i : i + 1);
    g_.merge(owner_, view(made, y_, how));
    return true;
  }

  bool add_filter_gradient() {
    const product_axes axes = windows_of_image();
    product_axes output;
    for (std::size_t i = 0; i < spatial(); ++i) output[i].window.positions = axes[i].window.positions;
    product_axes longer = axes;  // with zeros on both sides
    std::int64_t& positions = longer[spatial() - 1].window.positions;
    positions = rounded(positions);
    const product_letters letters{"goct", "ngop", "gctnp"};
    const pad_attribute border = border_of(x_, axes);
    if (!fits(letters, longer) || !fits(x_, border)) return false;
    const class_id read = lengthened(windows(bordered(first_, border), border, letters.right, axes), positions);
    const class_id left = lengthened(windows(second_, {}, letters.left, output), positions);
    g_.merge(owner_, view(contract(letters, longer, left, read), w_, dense_view(w_)));
    return true;
  }

  // Places of an image that are alike by the stride see the same taps, at places of the output that are neighbours: a
  // product of each class of such places, none with more terms than these have taps. Where no place has two, one
  // product has the results of all taps; as also where there are more classes than one kernel reads, and the results of
  // several taps are added up.
  bool add_image_gradient() {
    const auto most = static_cast<std::int64_t>(std::min(limits_.buffers, limits_.accesses - 1));
    std::int64_t count = 1, reached = 1;  // classes, and those that a tap reaches
    for (std::size_t i = 0; i < spatial(); ++i) {
      const std::int64_t along = classes_along(i), common = std::gcd(c_.dilation[i], along);
      count *= along, reached *= std::min(along / common, w_[axis_of(i)]);
      if (reached > most || count > 256) return add_all_taps(most);
    }
    std::vector<std::optional<product_axes>> classes;
    pad_attribute border;
    for (std::int64_t number = 0; number < count; ++number) {
      classes.push_back(taps_of_class(number));
      if (!classes.back()) continue;
      const product_axes& axes = *classes.back();
      if (!fits(letters_of_class(axes), axes)) return false;
      const pad_attribute own = seen_beside(y_, axes);
      for (int i = 0; i < max_rank; ++i) {
        border.low[i] = std::max(border.low[i], own.low[i]);
        border.high[i] = std::max(border.high[i], own.high[i]);
      }
    }
    border = in_texels(y_, border);
    // They have the same positions and phases; the first tap reaches places of one of them.
    const product_axes& any = **std::ranges::find_if(classes, [](const auto& axes) { return axes.has_value(); });
    if (!fits(y_, border) || !fits(places_of_classes(any))) return false;
    const class_id wide = bordered(first_, border);
    class_list results;
    for (const std::optional<product_axes>& axes : classes)
      results.push_back(axes ? result_of_class(*axes, wide, border) : class_id(no_id));
    put_side_by_side(results, any);
    return true;
  }

  // Each tap's results are added up to places, or with dilated taps the gradient is one without strides.
  bool add_all_taps(std::int64_t most) {
    convolution_as_product all = *this;
    all.adds_up_ = true;
    std::int64_t classes = 1, shares = 1;
    for (std::size_t i = 0; i < spatial(); ++i) {
      classes *= all.classes_along(i), shares *= all.shares_along(i);
      if (classes > 1 || shares > most) return add_spread_out();
    }
    return all.add_image_gradient();
  }
  // With zeros between the output's gradient's elements.
  bool add_spread_out() {
    convolution_as_product spread = *this;
    for (int i = 0; i < c_.spatial; ++i) {
      if (!fits(static_cast<double>(spread.y_.elements()) * static_cast<double>(c_.stride[i]))) return false;
      spread.y_.set(i + 2, y_[i + 2] * c_.stride[i]);
      spread.c_.stride[i] = 1;
    }
    for (int i = 0; i < c_.spatial; ++i) {
      if (c_.stride[i] > 1) spread.first_ = spread_out(spread.first_, i + 2, c_.stride[i]);
    }
    return spread.add_image_gradient();
  }
  // With zeros behind each element along an axis, so that so many are one.
  class_id spread_out(class_id of, int axis, std::int64_t together) {
    const shape before = g_.extents(of);
    shape rows{1, 1, 1}, after = before;  // of one element each, of which a border makes longer ones
    for (int i = 0; i < before.rank(); ++i) rows.set(i <= axis ? 0 : 2, rows[i <= axis ? 0 : 2] * before[i]);
    pad_attribute zeros;
    zeros.high[1] = together - 1;
    after.set(axis, before[axis] * together);
    return view(bordered(view(of, rows, dense_view(rows)), zeros), after, dense_view(after));
  }

  // ---- gradients of an image by classes of places -------------------------------------------------------------------

  [[nodiscard]] bool has_disjoint_windows(std::size_t i) const {
    const std::int64_t count = w_[axis_of(i)];
    return c_.stride[i] > 1 && (count == 1 || (c_.dilation[i] == 1 && (count <= c_.stride[i] || adds_up_)));
  }
  // Of the taps: those that a stride passes once more.
  [[nodiscard]] std::int64_t shares_along(std::size_t i) const {
    return has_disjoint_windows(i) ? ceil_div(w_[axis_of(i)], c_.stride[i]) : 1;
  }
  [[nodiscard]] std::int64_t classes_along(std::size_t i) const { return has_disjoint_windows(i) ? 1 : c_.stride[i]; }

  // Places j * stride + number of the image are reached by taps of which number + low - tap * dilation is a multiple of
  // the stride: every (stride / g)-th one, if any, where g is what stride and dilation share, each from dilation / g
  // places of the output further down than the one before.
  [[nodiscard]] std::optional<product_axis> taps_along(std::size_t i, std::int64_t number) const {
    const std::int64_t stride = c_.stride[i], count = w_[axis_of(i)], places = x_[axis_of(i)];
    if (has_disjoint_windows(i)) return product_axis{.window = {.positions = y_[axis_of(i)]}, .phases = count};
    const std::int64_t common = std::gcd(c_.dilation[i], stride), step = stride / common;
    for (std::int64_t tap = 0; tap < std::min(step, count); ++tap) {
      const std::int64_t distance = number + c_.pad_low[i] - tap * c_.dilation[i];
      if (distance % stride != 0) continue;
      window_places window{ceil_div(places, stride), ceil_div(count - tap, step), 1, c_.dilation[i] / common, 0};
      window.low = (window.taps - 1) * window.dilation - distance / stride;
      return product_axis{.window = window, .first = tap + (window.taps - 1) * step, .step = -step};
    }
    return {};
  }
  [[nodiscard]] std::optional<product_axes> taps_of_class(std::int64_t number) const {
    product_axes axes;
    for (std::size_t i = spatial(); i-- > 0; number /= classes_along(i)) {
      const std::optional<product_axis> found = taps_along(i, number % classes_along(i));
      if (!found) return {};
      axes[i] = *found;
    }
    std::int64_t& positions = axes[spatial() - 1].window.positions;
    positions = rounded(positions);
    return axes;
  }
  [[nodiscard]] product_letters letters_of_class(const product_axes& axes) const {
    return {"ngcx", channels_last(out(), in(), axes) ? "gotqc" : "gcqot", "gotnp"};
  }
  class_id result_of_class(const product_axes& axes, class_id wide, const pad_attribute& border) {
    const product_letters letters = letters_of_class(axes);
    const bool needs_none = seen_beside(y_, axes) == pad_attribute();
    const class_id read =
        needs_none ? windows(first_, {}, letters.right, axes) : windows(wide, border, letters.right, axes);
    return contract(letters, axes, taps(letters.left, axes), read);
  }

  // Positions along an axis that reach all places of the image.
  [[nodiscard]] std::int64_t positions_until_end(std::size_t i, const product_axis& axis) const {
    if (!has_disjoint_windows(i)) return axis.window.positions;
    return std::max(axis.window.positions + shares_along(i) - 1,
                    ceil_div(x_[axis_of(i)] + c_.pad_low[i], c_.stride[i]));
  }
  [[nodiscard]] double places_of_classes(const product_axes& axes) const {
    auto places = static_cast<double>(x_[0] * x_[1]);
    for (std::size_t i = 0; i < spatial(); ++i)
      places *= static_cast<double>(positions_until_end(i, axes[i])) * static_cast<double>(c_.stride[i]);
    return places;
  }

  // Their results as the image: behind each axis of positions one of the places that a stride passes, which are those
  // of several classes, or phases and zeros behind them. Of more phases than that what each stride's share of them has
  // is added up.
  void put_side_by_side(std::span<const class_id> classes, const product_axes& axes) {
    std::int64_t count = 1;
    for (std::size_t i = 0; i < spatial(); ++i) count *= shares_along(i);
    int last_of[max_rank]{};  // the innermost axis of what is there of each of the image
    class_list shares;
    for (std::int64_t number = 0; number < count; ++number)
      shares.push_back(side_by_side(classes, axes, number, last_of));
    const class_id made = count == 1 ? shares[0] : added_up(shares);
    const shape whole = g_.extents(made);
    view_attribute how;  // of the image
    for (int i = 0; i < x_.rank(); ++i) how.strides[i] = whole.stride(last_of[i]);
    for (std::size_t i = 0; i < spatial(); ++i)
      how.offset += has_disjoint_windows(i) ? c_.pad_low[i] * how.strides[axis_of(i)] : 0;
    g_.merge(owner_, view(made, x_, how));
  }
  class_id side_by_side(std::span<const class_id> classes, const product_axes& axes, std::int64_t share,
                        int (&last_of)[max_rank]) {
    shape extents;                // of what is there
    view_attribute read, number;  // of a class's result, of the classes' numbers
    pad_attribute zeros;
    const shape result = extents_of("ngcx", axes);
    int next = 0;
    const auto push = [&](std::int64_t extent, bool is_read) {
      read.strides[extents.rank()] = is_read ? result.stride(next++) : 0;
      extents.push_back(extent);
    };
    for (const named_axis& each : named("ngc", axes)) push(extent(each, axes), true);
    last_of[1] = extents.rank() - 1;
    std::int64_t classes_left = static_cast<std::int64_t>(classes.size());
    for (std::size_t i = 0; i < spatial(); ++i) {
      const std::int64_t down = share % shares_along(i), first = down * c_.stride[i];
      share /= shares_along(i);
      zeros.low[extents.rank()] = down;
      zeros.high[extents.rank()] = positions_until_end(i, axes[i]) - axes[i].window.positions - down;
      push(axes[i].window.positions, true);
      classes_left /= classes_along(i);
      if (has_disjoint_windows(i)) {
        const std::int64_t phases = std::min(axes[i].phases - first, c_.stride[i]);
        zeros.high[extents.rank()] = c_.stride[i] - phases;
        if (axes[i].phases > 1) read.offset += first * result.stride(next);
        push(phases, axes[i].phases > 1);
      } else if (c_.stride[i] > 1) {
        number.strides[extents.rank()] = classes_left;
        push(c_.stride[i], false);
      }
      last_of[axis_of(i)] = extents.rank() - 1;
    }
    return bordered(chosen(classes, number, read, extents), zeros);
  }
  class_id added_up(const class_list& all) {
    scalar_builder builder;
    scalar_ref sum = builder.argument(0, dtype::f32);
    for (std::size_t i = 1; i < all.size(); ++i)
      sum = builder.binary(scalar_op::add, sum, builder.argument(static_cast<int>(i), dtype::f32));
    const shape extents = g_.extents(all[0]);
    return g_.add(op::map, dtype::f32, extents, map_attribute{builder.finish(sum)}, all, reasons_);
  }
  // Of each element what the class of that number has, or zero where that is none.
  class_id chosen(std::span<const class_id> classes, const view_attribute& number, const view_attribute& read,
                  const shape& extents) {
    if (classes.size() == 1) return view(classes[0], extents, read);
    const auto count = static_cast<std::int64_t>(classes.size());
    const class_id numbers = g_.add(op::iota, dtype::i32, {count}, no_attribute{}, {}, reasons_);
    class_list operands{view(numbers, extents, number)};
    scalar_builder builder;
    const scalar_ref wanted = builder.argument(0, dtype::i32);
    std::optional<scalar_ref> value;
    for (std::size_t i = classes.size(); i-- > 0;) {
      scalar_ref own = builder.constant(0);
      if (classes[i] != no_id) {
        own = builder.argument(static_cast<int>(operands.size()), dtype::f32);
        operands.push_back(view(classes[i], extents, read));
      }
      const scalar_ref next = builder.constant(static_cast<double>(i + 1), dtype::i32);
      value = value ? builder.select(builder.binary(scalar_op::less, wanted, next), own, *value) : own;
    }
    return g_.add(op::map, dtype::f32, extents, map_attribute{builder.finish(*value)}, operands, reasons_);
  }

  // ---- what they are made of ----------------------------------------------------------------------------------------

  [[nodiscard]] std::size_t spatial() const { return static_cast<std::size_t>(c_.spatial); }
  [[nodiscard]] std::int64_t out() const { return w_[0] / c_.groups; }
  [[nodiscard]] std::int64_t in() const { return w_[1]; }
  // Among the axes of a tensor.
  static int axis_of(std::size_t along) { return static_cast<int>(along) + 2; }
  // As many positions along the last axis as texels have, where that is not many more.
  [[nodiscard]] std::int64_t rounded(std::int64_t positions) const {
    const std::int64_t whole = ceil_div<std::int64_t>(positions, 4) * 4;
    return reads_texels_ && 4 * positions >= 3 * whole ? whole : positions;
  }
  [[nodiscard]] product_axes windows_of_image() const {
    product_axes axes;
    for (std::size_t i = 0; i < spatial(); ++i)
      axes[i].window = {y_[axis_of(i)], w_[axis_of(i)], c_.stride[i], c_.dilation[i], c_.pad_low[i]};
    return axes;
  }
  // Whether the filter's channels of results come last, as what is added up has no fours.
  [[nodiscard]] bool channels_last(std::int64_t added, std::int64_t kept, const product_axes& axes) const {
    for (std::size_t i = 0; i < spatial(); ++i) added *= axes[i].window.taps;
    return added % 4 != 0 && kept % 4 == 0;
  }

  [[nodiscard]] named_axes named(std::string_view letters, const product_axes& axes) const {
    constexpr std::string_view of_image = "tpqx";
    named_axes found;
    for (const char letter : letters) {
      if (letter == 'g' && c_.groups == 1) continue;
      const bool is_spatial = of_image.find(letter) != std::string_view::npos;
      for (std::size_t i = 0; i < (is_spatial ? spatial() : 1); ++i) {
        if (letter != 'q') found.push_back({letter == 'x' ? 'p' : letter, i});
        if ((letter == 'q' || letter == 'x') && axes[i].phases > 1) found.push_back({'q', i});
      }
    }
    return found;
  }
  [[nodiscard]] std::int64_t extent(const named_axis& axis, const product_axes& axes) const {
    const product_axis& own = axes[axis.along];
    switch (axis.letter) {
      case 'n':
        return x_[0];
      case 'g':
        return c_.groups;
      case 'o':
        return out();
      case 'c':
        return in();
      case 't':
        return own.window.taps;
      case 'p':
        return own.window.positions;
      default:
        return own.phases;
    }
  }
  [[nodiscard]] shape extents_of(std::string_view letters, const product_axes& axes) const {
    shape extents;
    for (const named_axis& each : named(letters, axes)) extents.push_back(extent(each, axes));
    return extents;
  }
  // Labels of the result come first, then those of what is added up.
  [[nodiscard]] contract_attribute labels_of(const product_letters& letters, const product_axes& axes) const {
    named_axes all = named(letters.result, axes);
    contract_attribute product{.result_rank = static_cast<int>(all.size())};
    const auto label = [&](std::string_view operand, std::uint8_t* to) {
      for (const named_axis& each : named(operand, axes)) *to++ = static_cast<std::uint8_t>(append_once(all, 0, each));
    };
    label(letters.left, product.a), label(letters.right, product.b);
    return product;
  }

  // Whether a tensor may have so many elements.
  [[nodiscard]] bool fits(double elements) const {
    return 4 * elements <= static_cast<double>(limits_.tensor_bytes) &&
           elements <= static_cast<double>(shape::max_elements);
  }
  // All that a product reads, as copies of views, and its result.
  [[nodiscard]] bool fits(const product_letters& letters, const product_axes& axes) const {
    for (const std::string_view tensor : {letters.result, letters.left, letters.right}) {
      double elements = 1;
      for (const named_axis& each : named(tensor, axes)) elements *= static_cast<double>(extent(each, axes));
      if (!fits(elements)) return false;
    }
    return contract_loops(labels_of(letters, axes), extents_of(letters.result, axes), extents_of(letters.left, axes),
                          extents_of(letters.right, axes))
        .fits;
  }
  [[nodiscard]] bool fits(const shape& extents, const pad_attribute& border) const {
    double elements = 1;
    for (int i = 0; i < extents.rank(); ++i)
      elements *= static_cast<double>(extents[i]) + static_cast<double>(border.low[i] + border.high[i]);
    return fits(elements);
  }

  // What the windows see beside an image.
  [[nodiscard]] pad_attribute seen_beside(const shape& image, const product_axes& axes) const {
    pad_attribute border;
    for (std::size_t i = 0; i < spatial(); ++i) {
      border.low[axis_of(i)] = std::max<std::int64_t>(axes[i].window.low, 0);
      border.high[axis_of(i)] = std::max<std::int64_t>(axes[i].window.end() - image[axis_of(i)], 0);
    }
    return border;
  }
  // If there is any, longer so that a row has whole texels.
  [[nodiscard]] pad_attribute in_texels(const shape& image, pad_attribute border) const {
    const int last = image.rank() - 1;
    if (reads_texels_ && border != pad_attribute())
      border.high[last] += -(border.low[last] + image[last] + border.high[last]) & 3;
    return border;
  }
  [[nodiscard]] pad_attribute border_of(const shape& image, const product_axes& axes) const {
    return in_texels(image, seen_beside(image, axes));
  }
  // With zeros around it.
  class_id bordered(class_id of, const pad_attribute& border) {
    if (border == pad_attribute()) return of;
    shape extents = g_.extents(of);
    for (int i = 0; i < extents.rank(); ++i) extents.set(i, extents[i] + border.low[i] + border.high[i]);
    return g_.add(op::pad, dtype::f32, extents, border, std::span(&of, 1), reasons_);
  }
  class_id lengthened(class_id of, std::int64_t extent) {
    pad_attribute zeros;
    const shape extents = g_.extents(of);
    zeros.high[extents.rank() - 1] = extent - extents.last();
    return bordered(of, zeros);
  }
  class_id view(class_id of, const shape& extents, view_attribute how) {
    for (int i = 0; i < extents.rank(); ++i) how.strides[i] = extents[i] == 1 ? 0 : how.strides[i];
    if (extents == g_.extents(of) && how == dense_view(extents)) return of;
    return g_.add(op::view, g_[g_.find(of)].type, extents, how, std::span(&of, 1), reasons_);
  }
  template <class Stride>
  class_id view_by(const Stride& stride, std::int64_t offset, class_id of, std::string_view letters,
                   const product_axes& axes) {
    view_attribute how{.offset = offset};
    const named_axes all = named(letters, axes);
    for (std::size_t i = 0; i < all.size(); ++i) how.strides[i] = stride(all[i]);
    return view(of, extents_of(letters, axes), how);
  }
  // Of the filter.
  class_id taps(std::string_view letters, const product_axes& axes) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < spatial(); ++i) offset += axes[i].first * w_.stride(axis_of(i));
    const auto stride = [&](const named_axis& axis) {
      const std::int64_t along = w_.stride(axis_of(axis.along));
      return axis.letter == 'g'   ? out() * w_.stride(0)
             : axis.letter == 'o' ? w_.stride(0)
             : axis.letter == 'c' ? w_.stride(1)
             : axis.letter == 't' ? axes[axis.along].step * along
                                  : along;
    };
    return view_by(stride, offset, second_, letters, axes);
  }
  // Of images in that border.
  class_id windows(class_id of, const pad_attribute& border, std::string_view letters, const product_axes& axes) {
    const shape image = g_.extents(of);
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < spatial(); ++i)
      offset += (border.low[axis_of(i)] - axes[i].window.low) * image.stride(axis_of(i));
    const auto stride = [&](const named_axis& axis) {
      const window_places& window = axes[axis.along].window;
      const std::int64_t along = image.stride(axis_of(axis.along));
      return axis.letter == 'n'   ? image.stride(0)
             : axis.letter == 'g' ? image[1] / c_.groups * image.stride(1)
             : axis.letter == 't' ? window.dilation * along
             : axis.letter == 'p' ? window.stride * along
                                  : image.stride(1);
    };
    return view_by(stride, offset, of, letters, axes);
  }
  class_id contract(const product_letters& letters, const product_axes& axes, class_id left, class_id right) {
    const class_id operands[] = {left, right};
    return g_.add(op::contract, dtype::f32, extents_of(letters.result, axes), labels_of(letters, axes), operands,
                  reasons_);
  }

  engine& g_;
  class_id owner_, first_, second_;
  convolution_attribute c_;
  shape x_, w_, y_;
  region_limits limits_;
  bool reads_texels_, adds_up_ = false;
  rule_mask reasons_;
};

// The border of a right operand with these extents, which `pad` made, if the product's windows count in its planes.
[[nodiscard]] inline zero_border border_of_windows(const matmul_attribute& product, const pad_attribute& pad,
                                                   const shape& extents) {
  const int last = extents.rank() - 1;
  const auto size = [&](int axis) { return extents[axis] - pad.low[axis] - pad.high[axis]; };
  const auto is_wider = [&](int axis) { return pad.low[axis] != 0 || pad.high[axis] != 0; };
  for (int axis = 0; axis < last - 1; ++axis) {
    if (is_wider(axis)) return {};
  }
  zero_border found{1, extents[last], 1, size(last), 0, pad.low[last]};
  if (last > 0 && is_wider(last - 1))
    found.rows = extents[last - 1], found.height = size(last - 1), found.low_row = pad.low[last - 1];
  // Channels, images and batches are planes apart, places and taps stay in one, and so may parts of an image's rows,
  // where places are terms.
  const std::int64_t plane = found.rows * found.columns;
  const product_windows windows = extents_of(product).windows;
  std::int64_t furthest = product.b.offset % plane;
  int places = windows.height > 1 ? 2 : 1, taps = 0;
  const bool are_terms = windows.places == place_axes::terms;
  const int of_places = are_terms ? 3 : 2;
  const int last_tap = product.space.rank() - (are_terms ? product.k_axes : 0);
  for (std::int64_t left = windows.taps; left > 1; ++taps) left /= product.space[last_tap - 1 - taps];
  for (int axis = product.space.rank(); axis-- > 0;) {
    const std::int64_t further = (product.space[axis] - 1) * product.b.strides[axis];
    if (further == 0) continue;
    const int group = group_of(product, axis);
    const bool is_place = group == of_places && places > 0, is_tap = axis < last_tap && axis >= last_tap - taps;
    const bool is_part = are_terms && group == 0 && product.b.strides[axis] % plane != 0;
    places -= is_place ? 1 : 0;
    if (is_place || is_tap || is_part)
      furthest += further;
    else if (product.b.strides[axis] % plane != 0)
      return {};
  }
  return furthest < plane ? found : zero_border();
}

MEGANEURA_INLINE void zero_borders::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const auto& product = g.get<matmul_attribute>(id);
  if (product.schedule.places == place_axes::none || !product.border.is_empty()) return;
  const class_id owner = g.find(g.node(id).owner), source = g.find(g.operand(id, 1));
  for (const enode_id node : g[source].nodes) {
    if (g.node(node).kind != op::pad) continue;
    const auto& pad = g.get<pad_attribute>(node);
    const zero_border border = border_of_windows(product, pad, g.extents(source));
    if (border.is_empty() || pad.value != 0 || g[g.find(g.operand(node, 0))].type != dtype::f32) continue;
    matmul_attribute value = product;
    value.border = border;
    class_list operands(g.operands(id).begin(), g.operands(id).end());
    operands[1] = g.find(g.operand(node, 0));
    (void)add_product(pass, owner, value, operands, bit(rule) | g.node(id).reasons);
    return pass.note_applied(rule);
  }
}

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
