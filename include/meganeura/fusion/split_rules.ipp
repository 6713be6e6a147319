// SPDX-License-Identifier: MIT
// The rules that split a long sum over more workgroups than its results would occupy.
#pragma once
#include <meganeura/core/small_vector.hpp>
#include <meganeura/fusion/contract_loops.hpp>
#include <meganeura/fusion/implement.hpp>
#include <meganeura/fusion/product_tiles.hpp>
#include <meganeura/graph/view_map.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

// A sum's axis in so many parts.
struct axis_parts {
  int label = -1;
  std::int64_t parts = 1;
};

[[nodiscard]] inline int first_of_sum(const contract_loops& product) {
  int label = 0;
  while (product.group[label] != 3 || product.extents[label] == 1) ++label;
  return label;
}

// A view that the right operand of a product is, of windows whose places may be terms.
class viewed_windows {
 public:
  // None, unless they are.
  static std::optional<viewed_windows> find(const engine& g, enode_id id, const contract_loops& product) {
    for (const enode_id node : g[g.operand(id, 1)].nodes) {
      if (g.node(node).kind != op::view) continue;
      const viewed_windows found(g, id, product, g.get<view_attribute>(node));
      if (found.in_parts({}).places == place_axes::terms) return found;
    }
    return {};
  }

  // Those of one of so many parts of the sum.
  [[nodiscard]] product_windows in_parts(const axis_parts& parts) const {
    small_vector<strided_extent, max_rank> axes[2];
    for (const axis& each : axes_) {
      const std::int64_t extent = each.label == parts.label ? each.extent / parts.parts : each.extent;
      axes[each.is_term ? 1 : 0].push_back({extent, each.stride});
    }
    return windows_of(axes[0], axes[1]);
  }

 private:
  viewed_windows(const engine& g, enode_id id, const contract_loops& product, const view_attribute& view) {
    const auto& labels = g.get<contract_attribute>(id);
    const shape operand = g.extents(g.operand(id, 1));
    for (int label = 0; label < contract_loops::max_labels; ++label) {
      for (int i = 0; product.group[label] >= 2 && i < operand.rank(); ++i) {
        if (labels.b[i] == label) axes_.push_back({label, product.group[label] == 3, operand[i], view.strides[i]});
      }
    }
  }

  struct axis {
    int label;
    bool is_term;
    std::int64_t extent, stride;
  };
  small_vector<axis, max_rank> axes_;
};

// A product's schedule where its sum is in so many parts, and the time with storing and reading these.
inline product_choice best_in_parts(implementation_pass& pass, product_extents product, std::int64_t parts) {
  const auto results = static_cast<double>(product.batch * product.m * product.n);
  const double bytes = parts == 1 ? 0 : 2 * 4 * results * static_cast<double>(parts);
  product.batch *= parts, product.k /= parts;
  product_choice found = pass.best(product);
  found.seconds += bytes / pass.device().bandwidth;
  return found;
}

// How many parts are the quickest; each holds at least device_profile::split_terms, their number divides the sum's
// axis `longest`, into whole groups of terms that are read together.
inline std::int64_t best_parts(implementation_pass& pass, const contract_loops& product, int longest,
                               std::int64_t group) {
  const device_profile& device = pass.device();
  const product_extents whole = extents_by_group(product.loops);
  std::int64_t best = 1;
  double least = best_in_parts(pass, whole, 1).seconds;
  const std::int64_t most = std::min(whole.k / device.split_terms, std::int64_t{4} * device.compute_units);
  for (std::int64_t parts = 2; parts <= most; ++parts) {
    if (product.extents[longest] % (parts * group) != 0) continue;
    const double seconds = best_in_parts(pass, whole, parts).seconds;
    if (seconds < least) least = seconds, best = parts;
  }
  return best;
}

// The same of windows whose places are terms: parts of the images or of their rows, where kernels that share elements
// are quicker with them than any in those of `otherwise`.
inline axis_parts best_parts_of_places(implementation_pass& pass, const contract_loops& product,
                                       const viewed_windows& windows, axis_parts otherwise) {
  const device_profile& device = pass.device();
  product_extents whole = extents_by_group(product.loops);
  whole.single_right = true;
  const auto in_parts = [&](int label, std::int64_t parts) {
    whole.windows = windows.in_parts({label, parts});
    return best_in_parts(pass, whole, parts);
  };
  axis_parts best = otherwise;
  double least = in_parts(best.label, best.parts).seconds;
  const std::int64_t most = std::min(4 * whole.k / device.split_terms, std::int64_t{4} * device.compute_units);
  for (const int label : {first_of_sum(product), otherwise.label}) {
    for (std::int64_t parts = 1; parts <= most; ++parts) {
      if (product.extents[label] % parts != 0) continue;
      const product_choice found = in_parts(label, parts);
      if (found.schedule.places == place_axes::terms && found.seconds < least)
        best = {label, parts}, least = found.seconds;
    }
  }
  return best;
}

// The same for sums that one workgroup each would add up, at most `extent`; a number of parts that are equally long,
// if there is one near. A workgroup has its share of the bandwidth, and one more kernel adds up the parts: 32
// rows of 4,096 in two parts took 6.3 us on an H200, twice in a norm, which takes 5.2 in one kernel.
inline std::int64_t parts_of_rows(std::int64_t rows, std::int64_t length, std::int64_t extent,
                                  const device_profile& device) {
  const auto parallel = static_cast<double>(rows * std::min<std::int64_t>(length, 1024));
  if (parallel >= device.full_occupancy) return 1;
  const std::int64_t wanted =
      std::min({2 * std::int64_t{device.compute_units} / rows, length / (4 * device.split_terms), extent});
  if (wanted <= 1) return 1;
  const double of_row = 4 * static_cast<double>(length) * device.compute_units / device.bandwidth;
  const double saved = of_row - of_row / static_cast<double>(wanted);
  if (saved < device.launch.alone() + device.region_once) return 1;
  for (std::int64_t parts = wanted; parts > wanted / 2; --parts) {
    if (extent % parts == 0) return parts;
  }
  return wanted;
}

// An operand with the axis of `label` as two, (parts, rest), and its labels: label 0 is the part, the others move up.
inline class_id split_operand(engine& g, class_id operand, std::uint8_t (&labels)[max_rank], int label,
                              std::int64_t parts, rule_mask reasons) {
  const shape before = g.extents(operand);
  shape extents;
  std::uint8_t moved[max_rank]{};
  for (int i = 0; i < before.rank(); ++i) {
    if (labels[i] == label) {
      moved[extents.rank()] = 0;
      extents.push_back(parts);
    }
    moved[extents.rank()] = static_cast<std::uint8_t>(labels[i] + 1);
    extents.push_back(labels[i] == label ? before[i] / parts : before[i]);
  }
  std::ranges::copy(moved, labels);
  return g.add(op::view, g[operand].type, extents, dense_view(extents), std::span(&operand, 1), reasons);
}

inline void add_split(implementation_pass& pass, enode_id id, int label, std::int64_t parts) {
  engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  shape extents{parts};
  for (const std::int64_t extent : g.extents(owner)) extents.push_back(extent);
  if (extents.bytes(g[owner].type) > pass.limits().tensor_bytes) return;
  const rule_mask reasons = bit(structural::split_sum) | g.node(id).reasons;
  contract_attribute labels = g.get<contract_attribute>(id);
  const class_id a = split_operand(g, g.operand(id, 0), labels.a, label, parts, reasons);
  const class_id b = split_operand(g, g.operand(id, 1), labels.b, label, parts, reasons);
  ++labels.result_rank;
  const class_id operands[] = {a, b};
  const class_id sums = g.add(op::contract, g[owner].type, extents, labels, operands, reasons);
  g.add_to(owner, op::reduce, reduce_attribute{reduce_kind::sum, 1}, std::span(&sums, 1), reasons);
  pass.note_applied(structural::split_sum);
}

MEGANEURA_INLINE void split_sum::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  if (!pass.device().parallel || g[owner].type != dtype::f32 || g[owner].decides) return;
  const contract_loops product = loops_of(g, id);
  const nest& loops = product.loops;
  if (!product.fits) return;
  int longest = -1;
  for (int label = 0; label < contract_loops::max_labels; ++label) {
    if (product.group[label] != 3) continue;
    if (longest < 0 || product.extents[label] > product.extents[longest]) longest = label;
  }
  const int most =
      std::max({g.extents(owner).rank(), g.extents(g.operand(id, 0)).rank(), g.extents(g.operand(id, 1)).rank()});
  if (longest < 0 || most == max_rank) return;
  const std::int64_t extent = product.extents[longest];
  axis_parts best{longest};
  if (loops.count(1) != 0 && loops.count(2) != 0) {
    const auto& labels = g.get<contract_attribute>(id);
    const bool is_last = labels.a[g.extents(g.operand(id, 0)).rank() - 1] == longest ||
                         labels.b[g.extents(g.operand(id, 1)).rank() - 1] == longest;
    best.parts = best_parts(pass, product, longest, is_last && extent % 4 == 0 ? 4 : 1);
    if (const auto windows = viewed_windows::find(g, id, product))
      best = best_parts_of_places(pass, product, *windows, best);
  } else {  // a dot product, or several
    std::int64_t length = 1;
    for (int i = 0; i < loops.space.rank(); ++i) length *= loops.group[i] == 3 ? loops.space[i] : 1;
    best.parts = parts_of_rows(g.extents(owner).elements(), length, extent, pass.device());
    while (extent % best.parts != 0) --best.parts;
  }
  if (best.parts > 1) add_split(pass, id, best.label, best.parts);
}

MEGANEURA_INLINE void split_filter::apply(implementation_pass& pass, enode_id id) {
  engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  const device_profile& device = pass.device();
  convolution_attribute geometry = g.get<convolution_attribute>(id);
  if (!device.parallel || g[owner].type != dtype::f32 || g[owner].decides) return;
  if (geometry.form != convolution_attribute::filter) return;
  const shape x = g.extents(g.operand(id, 0)), y = g.extents(g.operand(id, 1)), w = g.extents(owner);
  const std::int64_t images = x[0];
  if (geometry.per_image || images == 1 || w.rank() == max_rank) return;
  shape filters = w, parts{images};
  filters.set(0, images * w[0]);
  for (const std::int64_t extent : w) parts.push_back(extent);
  const product_extents whole = product_of(geometry, x, w, y);
  geometry.per_image = true;
  const product_extents each = product_of(geometry, x, filters, y);
  if (each.k < device.split_terms || parts.bytes(dtype::f32) > pass.limits().tensor_bytes) return;
  const auto seconds = [&](const product_extents& p) {
    const double flops = 2 * static_cast<double>(w.elements()) * static_cast<double>(whole.k);
    return flops / (device.matmul_flops * product_share(p, device.compute_units));
  };
  const double stored = 2 * static_cast<double>(parts.bytes(dtype::f32)) / device.bandwidth;
  if (seconds(each) + stored + device.launch.alone() >= seconds(whole)) return;
  const rule_mask reasons = bit(structural::split_filter) | g.node(id).reasons;
  const class_id operands[] = {g.operand(id, 0), g.operand(id, 1)};
  const class_id made = g.add(op::convolution, dtype::f32, filters, geometry, operands, reasons);
  const class_id apart = g.add(op::view, dtype::f32, parts, dense_view(parts), std::span(&made, 1), reasons);
  g.add_to(owner, op::reduce, reduce_attribute{reduce_kind::sum, 1}, std::span(&apart, 1), reasons);
  pass.note_applied(structural::split_filter);
}

struct axis_run {  // neighbouring axes
  int first = 0, last = 0;
  std::int64_t extent = 1;
};

// The longest run of axes that disappear.
inline axis_run longest_run(const shape& extents, std::uint32_t axes) {
  axis_run best, now;
  for (int i = 0; i < extents.rank(); ++i) {
    now = (axes >> i & 1) == 0 ? axis_run{i + 1, i + 1} : axis_run{now.first, i, now.extent * extents[i]};
    if (now.extent > best.extent) best = now;
  }
  return best;
}

// The operand with the run of axes as two, (outer, inner), beginning at `start`; and the axes of `reduce` there, the
// outer one not among them.
inline class_id add_run_view(engine& g, class_id operand, reduce_attribute& reduce, const axis_run& run,
                             std::int64_t start, std::int64_t outer, std::int64_t inner, rule_mask reasons) {
  const shape before = g.extents(operand);
  const view_attribute dense = dense_view(before);
  view_attribute view;
  shape extents;
  std::uint32_t axes = 0;
  const auto push = [&](std::int64_t extent, std::int64_t stride, bool reduced) {
    view.strides[extents.rank()] = extent == 1 ? 0 : stride;
    axes |= std::uint32_t{reduced} << extents.rank();
    extents.push_back(extent);
  };
  std::int64_t step = 1;
  for (int i = run.last + 1; i < before.rank(); ++i) step *= before[i];
  for (int i = 0; i < before.rank(); ++i) {
    if (i < run.first || i > run.last) push(before[i], dense.strides[i], (reduce.axes >> i & 1) != 0);
    if (i != run.first) continue;
    push(outer, inner * step, false);
    push(inner, step, true);
  }
  view.offset = start * step;
  reduce.axes = axes;
  return g.add(op::view, g[operand].type, extents, view, std::span(&operand, 1), reasons);
}

MEGANEURA_INLINE void split_reduce::apply(implementation_pass& pass, enode_id id) {
  engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner), operand = g.operand(id, 0);
  const auto whole = g.get<reduce_attribute>(id);
  const dtype type = g[owner].type;
  const bool rounds = is_float(type) && (whole.kind == reduce_kind::sum || whole.kind == reduce_kind::product);
  if (!pass.device().parallel || is_arg(whole.kind) || type == dtype::boolean) return;
  if (rounds && (type != dtype::f32 || g[owner].decides)) return;
  const shape before = g.extents(operand), result = g.extents(owner);
  const axis_run run = longest_run(before, whole.axes);
  const std::int64_t parts =
      parts_of_rows(result.elements(), before.elements() / result.elements(), run.extent, pass.device());
  if (parts == 1 || before.rank() + 1 + run.first - run.last > max_rank) return;
  const rule_mask reasons = bit(structural::split_reduce) | g.node(id).reasons;
  const std::int64_t length = run.extent / parts, rest = run.extent % parts;
  const std::uint32_t outer = 1u << run.first;
  const auto reduced = [&](class_id of, std::uint32_t axes) {
    shape extents;
    for (int i = 0; i < g.extents(of).rank(); ++i) {
      if ((axes >> i & 1) == 0) extents.push_back(g.extents(of)[i]);
    }
    return g.add(op::reduce, type, extents, reduce_attribute{whole.kind, axes}, std::span(&of, 1), reasons);
  };
  reduce_attribute inside = whole;
  const class_id rows = add_run_view(g, operand, inside, run, 0, parts, length, reasons);
  const class_id sums = reduced(rows, inside.axes);
  const int part = run.first - std::popcount(whole.axes & (outer - 1));
  if (rest == 0) {
    g.add_to(owner, op::reduce, reduce_attribute{whole.kind, 1u << part}, std::span(&sums, 1), reasons);
  } else {
    reduce_attribute last = whole;
    const class_id tail = add_run_view(g, operand, last, run, parts * length, 1, rest, reasons);
    const class_id both[] = {reduced(sums, 1u << part), reduced(tail, last.axes | outer)};
    scalar_builder builder;
    const scalar_ref joined =
        builder.binary(info(info(whole.kind).row).step, builder.argument(0, type), builder.argument(1, type));
    g.add_to(owner, op::map, map_attribute{builder.finish(joined)}, both, reasons);
  }
  pass.note_applied(structural::split_reduce);
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
