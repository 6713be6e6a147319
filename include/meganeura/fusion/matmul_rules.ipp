// SPDX-License-Identifier: MIT
// Products: contracts to matmuls or, where a side is missing, to regions; how long they take and what they end with.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/fusion/access_checks.hpp>
#include <meganeura/fusion/contract_loops.hpp>
#include <meganeura/fusion/cost_terms.hpp>
#include <meganeura/fusion/epilogue_draft.hpp>
#include <meganeura/fusion/implement.hpp>
#include <meganeura/fusion/kernel_family.hpp>
#include <meganeura/fusion/product_schedules.hpp>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

MEGANEURA_INLINE void widen_product::apply(implementation_pass& pass, enode_id id) {
  engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner), a = g.operand(id, 0), b = g.operand(id, 1);
  const dtype type = g[owner].type;
  const contract_loops product = loops_of(g, id);
  // Rows of few products read as quickly in 16 bits.
  if (!product.fits || !is_float(type) || !is_narrow(type) || has_few_rows(extents_by_group(product.loops))) return;
  for (const class_id each : {owner, a, b}) {
    if (g.extents(each).bytes(dtype::f32) > pass.limits().tensor_bytes) return;
  }
  const rule_mask reasons = bit(rule) | g.node(id).reasons;
  const auto converted = [&](class_id operand) {
    return g.add(op::map, dtype::f32, g.extents(operand), map_attribute{cast_program(type, dtype::f32)},
                 std::span(&operand, 1), reasons);
  };
  // Before a view, through which the product can read, and in the order in which it lies.
  const auto wide = [&](class_id operand) {
    for (const enode_id node : g[operand].nodes) {
      if (g.node(node).kind != op::view) continue;
      const class_id source = g.operand(node, 0);
      if (g.extents(source).elements() > g.extents(operand).elements()) continue;
      const auto view = g.get<view_attribute>(node);
      const class_id values = converted(source);
      return g.add(op::view, dtype::f32, g.extents(operand), view, std::span(&values, 1), reasons);
    }
    return converted(operand);
  };
  const class_id operands[] = {wide(a), wide(b)};
  const auto labels = g.get<contract_attribute>(id);
  const class_id sums = g.add(op::contract, dtype::f32, g.extents(owner), labels, operands, reasons);
  g.add_to(owner, op::map, map_attribute{cast_program(dtype::f32, type)}, std::span(&sums, 1), reasons);
  pass.note_applied(rule);
}

MEGANEURA_INLINE void contract_to_region::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  const contract_loops product = loops_of(g, id);
  const bool sums = product.loops.count(3) > 0;
  if (!product.fits) return;
  const dtype type = g[owner].type;
  // A region has no tiles: no product with two sides is one, if it has another way.
  const auto is_tiled = [&](enode_id node) {
    return g.node(node).kind == op::matmul || has(g.node(node).reasons, structural::widen_product);
  };
  const bool has_tiles = type == dtype::f32 || std::ranges::any_of(g[owner].nodes, is_tiled);
  if (sums && has_tiles && product.loops.count(1) > 0 && product.loops.count(2) > 0) return;
  region_draft draft = pass.draft();
  draft.loops.space = product.loops.space;
  for (int i = 0; i < max_rank; ++i) draft.loops.group[i] = product.loops.group[i] == 3 ? region_draft::row : 0;
  draft.per_row = sums;
  draft.loops.accesses = {product.loops.accesses[0]};
  scalar_builder builder;
  for (std::size_t side = 0; side < 2; ++side) {
    pass.add_operand(draft, g.operand(id, side), product.loops.accesses[side + 1]);
  }
  scalar_ref value = builder.binary(scalar_op::multiply, builder.argument(0, type), builder.argument(1, type));
  if (sums) value = builder.unary(scalar_op::row_sum, value);
  pass.emit_regions(owner, draft, builder.finish(value), rule);
}

// Along terms a product of windows that share elements reads its left operand backwards as well.
[[nodiscard]] inline bool is_forward_beside_terms(const nest& loops, index_map read) {
  for (int axis = 0; axis < loops.space.rank(); ++axis) {
    if (loops.group[axis] == 3) read.strides[axis] = 0;
  }
  return is_forward(read);
}

// Replaces the operand by what its view reads, if that is stored in `type`.
// `forward`: not backwards along terms either.
inline const char* read_through(const engine& g, enode_id copy, dtype type, nest& loops, std::size_t which,
                                class_id& source, bool forward) {
  const auto& region = g.get<region_attribute>(copy);
  const index_map& read = region.accesses[0];
  if (read.bounded) return "the operand has a border";
  if (g[g.operand(copy, 0)].type != type) return "the operand is stored in another dtype";
  const nest before = loops;
  axis_map map;
  index_map composed;
  if (!solve_index(loops, which, region.space, region.space.rank(), region.output, true, map) ||
      !compose_access(read, region.space.rank(), map, loops.accesses[which], loops.space, composed)) {
    loops = before;
    return "the operand's view is not affine in the product's loops";
  }
  if (forward ? !is_forward(composed) : !is_forward_beside_terms(loops, composed)) {
    loops = before;
    return "the operand would be read backwards";
  }
  loops.accesses[which] = composed;
  source = g.operand(copy, 0);
  return nullptr;
}

// Whether neighbours along some axis of `groups` lie in aligned groups of so many.
[[nodiscard]] inline bool lies_in_groups(std::int64_t size, const nest& loops, const index_map& read,
                                         std::initializer_list<int> groups) {
  const auto is_multiple = [&](std::int64_t number) { return number % size == 0; };
  for (int along = loops.space.rank(); along-- > 0;) {
    const bool is_asked = std::ranges::find(groups, loops.group[along]) != groups.end();
    if (!is_asked || read.strides[along] != 1 || !is_multiple(loops.space[along])) continue;
    bool fits = is_multiple(read.offset);
    for (int axis = 0; axis < loops.space.rank(); ++axis)
      fits = fits && (axis == along || loops.space[axis] == 1 || is_multiple(read.strides[axis]));
    // The last one of its group, as kernels see it.
    for (int axis = along + 1; axis < loops.space.rank(); ++axis)
      fits = fits && (loops.group[axis] != loops.group[along] || loops.space[axis] == 1);
    if (fits) return true;
  }
  return false;
}

// Whether matrix units can read f16 operands where they lie.
[[nodiscard]] inline bool is_read_in_eights(const nest& loops) {
  return lies_in_groups(8, loops, loops.accesses[1], {1, 3}) && lies_in_groups(8, loops, loops.accesses[2], {2, 3});
}

inline product_start start_of(const matmul_attribute& product, const device_profile& device) {
  const prologue& start = product.start;
  if (start.is_empty()) return {};
  double operations = program_cost(start.program, device) + 2 * static_cast<double>(start.accesses.size());
  const bool statistics = !start.statistic.nodes.empty();
  if (statistics) operations += program_cost(start.statistic, device) + 1;
  return {operations, statistics};
}

// Why there is no kernel of a product with this prologue.
inline const char* prologue_problem(const matmul_attribute& product, const nest& loops) {
  if (!product.schedule.is_scaled()) return "products with a prologue are computed on matrix units alone";
  const bool lies_well = product.start.statistic.nodes.empty() ? lies_in_groups(4, loops, product.a, {1, 3})
                                                               : lies_in_groups(4, loops, product.a, {3});
  if (!lies_well) return "the operand does not lie in groups of four";
  return nullptr;
}

// A product being written.
struct product_draft {
  nest loops;  // of which the accesses are the result, both operands, what the epilogue reads, and the prologue
  class_list operands{};  // those that are multiplied, and what these read
  scalar_program finish{};
  bool paired = false;
  std::vector<further_result> further{};  // whose outputs are the result's
  scalar_ref half{0};
  std::int64_t half_distance = 0;
  prologue start{};  // without its accesses
  std::size_t start_accesses = 0;
  rule_mask reasons{};
};

// The draft's program of these arguments; further results and halves are of the same values.
inline void replace_arguments(product_draft& draft, scalar_builder& builder, std::span<const scalar_ref> arguments) {
  small_vector<scalar_ref, 4> values;
  const auto add = [&](scalar_ref value) { values.push_back(builder.inlined(part(draft.finish, value), arguments)); };
  for (const further_result& each : draft.further) add(each.value);
  if (draft.half_distance != 0) add(draft.half);
  values.push_back(builder.inlined(draft.finish, arguments));
  draft.finish = builder.finish(std::span(values.begin(), values.end()));  // the last one's node is the last
  for (std::size_t i = 0; i < draft.further.size(); ++i) draft.further[i].value = values[i];
  if (draft.half_distance != 0) draft.half = values[draft.further.size()];
}

// The draft as `value`; or why there is no kernel of it.
inline const char* make_product(implementation_pass& pass, product_draft& draft, matmul_attribute& value) {
  const engine& g = pass.graph();
  nest& loops = draft.loops;
  // Threads of a product run along n: the group with the result's unit stride takes that place.
  bool unit_in_m = false;
  for (int k = 0; k < loops.space.rank(); ++k) unit_in_m |= loops.group[k] == 1 && loops.accesses[0].strides[k] == 1;
  if (unit_in_m) {
    if (!draft.start.is_empty() || draft.paired) return "the result lies along the rows";
    swap_sides(loops);
    std::swap(draft.operands[0], draft.operands[1]);
  }
  normalise(loops);
  const bool is_backward = !is_forward(loops.accesses[1]);
  if (!is_forward(loops.accesses[2])) return "the right operand would be read backwards";
  if (!std::all_of(loops.accesses.begin(), loops.accesses.end(), [&](const index_map& each) {
        return is_plain(each) || (is_backward && &each == &loops.accesses[1]);
      })) {
    fail(error_category::internal, "fusion: a product of {} would read or write with a border or backwards",
         to_string(g.extents(g.find(draft.operands[0]))));
  }
  value.space = loops.space;
  value.batch_axes = loops.count(0);
  value.m_axes = loops.count(1);
  value.n_axes = loops.count(2);
  value.k_axes = loops.count(3);
  value.output = loops.accesses[0];
  value.a = loops.accesses[1];
  value.b = loops.accesses[2];
  value.a.source = 0;
  value.b.source = 1;
  value.output.source = 0;
  const auto prologue_begin = loops.accesses.end() - static_cast<std::ptrdiff_t>(draft.start_accesses);
  value.finish.program = std::move(draft.finish);
  value.finish.accesses.assign(loops.accesses.begin() + 3, prologue_begin);
  value.start = std::move(draft.start);
  value.start.accesses.assign(prologue_begin, loops.accesses.end());
  value.paired = draft.paired;
  for (further_result& each : draft.further) {
    each.output = value.output;
    value.further.push_back(std::move(each));
  }
  value.half = draft.half, value.half_distance = draft.half_distance;
  const dtype stored = g[g.find(draft.operands[0])].type;
  value.schedule = pass.best(extents_of(value), stored, start_of(value, pass.device())).schedule;
  if (!value.start.is_empty()) {
    if (const char* problem = prologue_problem(value, loops)) return problem;
  }
  if (is_backward && value.schedule.places != place_axes::columns) return "the left operand would be read backwards";
  const bool on_units_alone = value.paired || !value.further.empty() || stored == dtype::f16;
  if (on_units_alone && !value.schedule.is_on_units()) return "only matrix units compute this, which others outrun";
  const bool second_in_eights = !value.paired || loops.accesses[3].offset % 8 == 0;
  if (stored == dtype::f16 && !(is_read_in_eights(loops) && second_in_eights))
    return "f16 operands would be read otherwise than they lie";
  return nullptr;
}

// Adds it to the owner, unless it reads that; of an attribute or of one that is known.
template <class Attribute>
enode_id add_product(implementation_pass& pass, class_id owner, const Attribute& value,
                     std::span<const class_id> operands, const rule_mask& reasons) {
  engine& g = pass.graph();
  for (class_id operand : operands) {
    if (g.find(operand) == g.find(owner)) return no_id;
  }
  return g.add_to(owner, op::matmul, value, operands, reasons | pass.reasons(), skips_rounding(reasons));
}

// Null where the draft became a node of the owner, if that is of any use; else why there is no kernel of it.
inline const char* emit_matmul(implementation_pass& pass, class_id owner, product_draft draft) {
  matmul_attribute value;
  if (const char* problem = make_product(pass, draft, value)) return problem;
  (void)add_product(pass, owner, value, draft.operands, draft.reasons);
  return nullptr;
}

// The same of a product and of the region that it reads, or that reads it as its `operand`. Of attributes and operands
// that are the same in the same places the same comes by a rule: make(draft) is asked once for all of them.
template <class Make>
const char* emit_joined(implementation_pass& pass, structural rule, enode_id product, enode_id region,
                        std::size_t operand, const Make& make) {
  const engine& g = pass.graph();
  const bool is_before = rule == structural::matmul_prologue;
  const class_id owner = g.find(g.node(is_before ? product : region).owner);
  const rule_mask reasons = bit(rule) | (is_before ? g.node(product).reasons | g.node(region).reasons
                                                   : reasons_of_ending(g, region, product));
  class_list classes{owner};
  small_vector<std::uint64_t, 24> words{
      static_cast<std::uint64_t>(rule) << 16 | operand << 8 | static_cast<std::uint64_t>(g[owner].type),
      g.node(product).attribute, g.node(region).attribute};
  for (const enode_id node : {product, region}) {
    for (class_id each : g.operands(node)) {
      const std::size_t place = append_once(classes, 0, g.find(each));
      words.push_back(place << 8 | static_cast<std::size_t>(g[g.find(each)].type));
    }
  }
  implementation_pass::product_together& known = pass.product_like({words.data(), words.size()});
  if (known.is_known) {
    if (known.node == no_id) return known.problem;
    class_list operands;
    for (std::uint8_t place : known.operands) operands.push_back(classes[place]);
    (void)add_product(pass, owner, attribute_ref(g.attribute_of(known.node)), operands, reasons);
    return nullptr;
  }
  product_draft draft;
  matmul_attribute value;
  known.is_known = true;
  known.problem = make(draft);
  if (!known.problem) known.problem = make_product(pass, draft, value);
  if (known.problem) return known.problem;
  for (class_id each : draft.operands)
    known.operands.push_back(static_cast<std::uint8_t>(append_once(classes, 0, g.find(each))));
  known.node = add_product(pass, owner, value, draft.operands, reasons);
  return nullptr;
}

// A contract's operands as they are stored, behind views and, where `stored` is not their dtype, conversions.
struct read_product {
  nest loops;
  class_id sources[2];
  rule_mask reasons{};  // for reading them there
  bool strided = false;
  bool fits = true;  // both are stored in the dtype asked for
};
inline read_product read_views(implementation_pass& pass, enode_id id, const nest& loops, dtype stored,
                               bool forward = true) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  read_product found{loops, {g.operand(id, 0), g.operand(id, 1)}};
  for (std::size_t side = 0; side < 2; ++side) {
    class_id& source = found.sources[side];
    const enode_id copy = pass.enabled(structural::matmul_view) ? pass.copy_form(source, stored) : no_id;
    if (copy != no_id) {
      const char* problem = read_through(g, copy, stored, found.loops, side + 1, source, forward);
      if (!problem) {
        pass.note_applied(structural::matmul_view);
        found.reasons |= bit(structural::matmul_view);
        if (skips_rounding(g.node(copy).reasons)) found.reasons |= bit(structural::skip_rounding);
        found.strided |= !has_unit_stride(found.loops.accesses[side + 1], loops.space);
      } else if (g[source].type == stored) {
        pass.note_missed({owner, source, structural::matmul_view, problem});
      }
    }
    found.fits &= g[source].type == stored;
  }
  return found;
}

MEGANEURA_INLINE void kernel_family<op::matmul>::make(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  const contract_loops product = loops_of(g, id);
  const dtype type = g[owner].type;
  if (!product.fits || (type != dtype::f32 && type != dtype::f16)) return;
  const scalar_program finish = identity_program(type);
  const rule_mask made = bit(making(op::matmul));
  const auto add = [&](const read_product& read) {
    return emit_matmul(pass, owner,
                       {.loops = read.loops,
                        .operands = {read.sources[0], read.sources[1]},
                        .finish = finish,
                        .reasons = made | read.reasons});
  };
  const auto emit = [&](dtype stored) {
    read_product read = read_views(pass, id, product.loops, stored, false);
    const bool is_backward = !is_forward(read.loops.accesses[1]) || !is_forward(read.loops.accesses[2]);
    if (is_backward) {  // for windows that share elements alone: else that operand is copied
      if (read.fits) (void)add(read);
      read = read_views(pass, id, product.loops, stored);
    }
    if (!read.fits) return;
    const char* problem = add(read);
    pass.note_applied(making(op::matmul));
    // Reading through a view that leaves no unit stride, or no texels, competes with copying the operand first.
    const bool leaves_texels = pass.device().prefers_texel_buffers && has(read.reasons, structural::matmul_view) &&
                               four_reads_of(read.loops) < four_reads_of(product.loops);
    if (stored == type && (read.strided || problem || leaves_texels))
      (void)add({product.loops, {g.operand(id, 0), g.operand(id, 1)}});
  };
  emit(type);
  // Units cut off sums of f16 products on the way, which in f32 is no longer exact.
  if (type == dtype::f32 && pass.wanted_precision() == precision::fast) emit(dtype::f16);
}

// Products over few terms cost less again than they do in memory.
MEGANEURA_INLINE bool kernel_family<op::matmul>::is_short(const engine& g, enode_id id) {
  const auto& product = g.get<matmul_attribute>(id);
  std::int64_t terms = 1;
  for (int k = product.space.rank() - product.k_axes; k < product.space.rank(); ++k) terms *= product.space[k];
  return terms <= 16;
}

MEGANEURA_INLINE const char* kernel_family<op::matmul>::fuse(implementation_pass& pass, enode_id region,
                                                             std::size_t operand, enode_id product) {
  const engine& g = pass.graph();
  const auto& inner = g.get<matmul_attribute>(product);
  const dtype type = g[g.find(g.node(region).owner)].type;
  if (!inner.schedule.is_half() && type != dtype::f32) return "products of f32 store f32 only";
  if (inner.half_distance != 0) return "the product is stored in halves";
  const auto make = [&](product_draft& draft) -> const char* {
    draft.loops = to_nest(inner);
    nest& loops = draft.loops;
    epilogue_draft made(g, region, operand, product, pass.limits());
    if (const char* problem = made.combine(loops, true, inner.finish)) return problem;
    small_vector<index_map, 8> all{made.output, loops.accesses[1], loops.accesses[2]};
    all.append(made.finish.accesses.begin(), made.finish.accesses.end());
    draft.start_accesses = inner.start.accesses.size();
    all.append(loops.accesses.end() - static_cast<std::ptrdiff_t>(draft.start_accesses), loops.accesses.end());
    loops.accesses = all;
    draft.operands = {g.operand(product, 0), g.operand(product, 1)};
    draft.operands.append(made.others.begin(), made.others.end());
    draft.finish = made.finish.program;
    draft.paired = inner.paired;
    draft.start = {inner.start.program, inner.start.statistic, {}};
    return nullptr;
  };
  return emit_joined(pass, ending(op::matmul), product, region, operand, make);
}

inline kernel_time product_time(const matmul_attribute& product, const device_profile& device) {
  const product_extents p = extents_of(product);
  return product.schedule.is_on_units() ? unit_time(product.schedule, p, device) : multiply_add_time(p, device);
}

// What a prologue adds; adds what its operands read to `bytes`.
inline kernel_time prologue_time(const engine& g, enode_id id, const device_profile& device, double& bytes) {
  const auto& product = g.get<matmul_attribute>(id);
  if (product.start.is_empty()) return {};
  for (const index_map& read : product.start.accesses) {
    const class_id source = g.operand(id, static_cast<std::size_t>(read.source));
    const double elements = std::min(touched(read, product.space), static_cast<double>(g.extents(source).elements()));
    bytes += bytes_of(g[source].type, elements) * (has_unit_stride(read, product.space) ? 1 : device.strided_read);
  }
  return start_time(start_of(product, device), product.schedule, extents_of(product), device);
}

MEGANEURA_INLINE kernel_time kernel_family<op::matmul>::time(const engine& g, enode_id id,
                                                             const device_profile& device) {
  const auto& product = g.get<matmul_attribute>(id);
  double bytes = bytes_of(g, g.find(g.node(id).owner)) * static_cast<double>(1 + product.further.size());
  for (const index_map* read : {&product.a, &product.b}) {
    const class_id source = g.operand(id, static_cast<std::size_t>(read->source));
    const auto whole = static_cast<double>(g.extents(source).elements());
    const double all = touched(*read, product.space), elements = std::min(all, whole);
    if (product.prepared && read == &product.b) continue;  // nothing of that is read
    bytes += bytes_of(g[source].type, elements) * (has_unit_stride(*read, product.space) ? 1 : device.strided_read);
  }
  const auto operands = g.operands(id);
  if (product.prepared) {
    for (const class_id rows : operands.last(product.sums())) bytes += bytes_of(g, g.find(rows));
  }
  std::optional<epilogue> finish;
  if (product.prepared && product.paired) {
    finish = product.finish;
    finish->accesses[0].source = index_map::index_source;  // nor of that
  }
  const double extra =
      epilogue_cost(g, id, finish ? *finish : product.finish, product.space, product.k_axes, device, bytes);
  kernel_time sums = product_time(product, device);
  // Of operands that are no texels each invocation loads every number by itself: 1.7 GFLOP/s for 13.7 on lavapipe; of
  // rows that are shared each loads a few.
  constexpr double without_texels = 8, across_texels = 1.5, of_shared_rows = 1.5;
  if (device.prefers_texel_buffers) {
    const four_reads left = fusion::four_reads_of(product, false), right = fusion::four_reads_of(product, true);
    const bool shares = left == four_reads::none && shares_rows(extents_of(product).n, 4, device);
    const auto longer_of = [&](four_reads read) {
      return read == four_reads::none ? without_texels : read == four_reads::across ? across_texels : 1.0;
    };
    const double longer =
        shares && right != four_reads::none ? of_shared_rows * longer_of(right) : longer_of(std::min(left, right));
    sums.alone *= longer, sums.busy *= longer;
  }
  // Of such operands half is read and nothing looked at or rounded: 128x576x1536 took 9.7 us for 10.8, 128x1536x576
  // with a prologue, of a pair, 12.4 for 13.0, 1500x384x384 10.0 for 10.9 on an H200.
  constexpr double of_prepared = 0.93;
  if (product.prepared) sums.alone *= of_prepared, sums.busy *= of_prepared;
  const kernel_time start = prologue_time(g, id, device, bytes);
  kernel_time all = finished_time({sums.alone + start.alone, sums.busy + start.busy, sums.room}, bytes, extra, device);
  // The end of a workgroup on units waits for few invocations' programs, one operation after the other.
  constexpr double one_by_one = 25e-9;  // seconds, about that of four neighbours on an H100
  if (product.schedule.is_on_units()) {
    const product_schedule& s = product.schedule;
    const std::int64_t fours = s.tile_m * s.tile_n / static_cast<std::uint32_t>(4 * product.sums());
    const auto turns = static_cast<double>(ceil_div<std::int64_t>(fours, s.subgroups() * device.subgroup_size));
    all.alone += program_cost(product.finish.program, device) * std::min(turns, 4.0) * one_by_one;
    // Rounded columns that lie in pairs took 7.4 us instead of 5.0 (128x576x576), in subgroups with both of a pair.
    const bool is_rounded = s.arithmetic != product_arithmetic::split;
    if (product.half_distance != 0 && is_rounded && has_both_sums(s, device.unit)) all.alone += 2.4e-6;
  }
  return all;
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
