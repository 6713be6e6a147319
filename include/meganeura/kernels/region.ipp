// SPDX-License-Identifier: MIT
// Definitions for kernels/region.hpp: pointwise kernels, and the passes over a row.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/kernels/cascade.hpp>
#include <meganeura/kernels/region.hpp>
#include <meganeura/kernels/row_mapping.hpp>
#include <meganeura/kernels/shared_totals.hpp>
#include <meganeura/kernels/tensor_access.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

// Of an operand that a software device had better read as texels, which are four neighbours along `vector_axis` in all
// accesses to it: the last element that is read.
[[nodiscard]] inline std::optional<std::uint32_t> last_of_texels(const loop_nest& nest, std::size_t operand,
                                                                 int vector_axis, const device_profile& on) {
  std::int64_t last = -1;
  for (const index_map& each : nest.accesses) {
    if (each.source != static_cast<int>(operand)) continue;
    if (vector_axis < 0 || each.strides[vector_axis] != 1) return {};
    last = std::max(last, last_read(nest, each));
  }
  if (!on.prefers_texel_buffers || last < 0 || last / 4 >= static_cast<std::int64_t>(on.max_texel_elements)) return {};
  return static_cast<std::uint32_t>(last);
}

// Mesa makes a texel's conversion to f16 part of the fetch, where it cuts off what should be rounded.
[[nodiscard]] inline bool makes_f16(const scalar_program& program, std::span<const dtype> result_types) {
  const auto is_f16 = [](dtype type) { return type == dtype::f16; };
  return std::ranges::any_of(result_types, is_f16) || std::ranges::any_of(program.nodes, is_f16, &scalar_node::type);
}

[[nodiscard]] inline std::vector<bound_tensor> bind_operands(spirv::kernel& owner, const loop_nest& nest,
                                                             int vector_axis, std::span<const dtype> types,
                                                             operand_of_result overwritten, bool as_texels,
                                                             const device_profile& on) {
  std::vector<bound_tensor> operands;
  operands.reserve(types.size());
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string name = fmt::format("operand{}", i);
    const bool is_overwritten = std::ranges::find(overwritten, std::optional(i)) != overwritten.end();
    const auto last = as_texels && types[i] == dtype::f32 && !is_overwritten ? last_of_texels(nest, i, vector_axis, on)
                                                                             : std::optional<std::uint32_t>();
    if (last)
      operands.emplace_back(owner.texels(name), *last);
    else
      operands.emplace_back(owner, types[i], name, is_overwritten ? spirv::access::read_write : spirv::access::read);
  }
  return operands;
}

[[nodiscard]] inline int store_width(const loop_nest& nest, const index_map& output, int axis) {
  return axis >= 0 && output.strides[axis] == 1 && vectorises(nest, output, axis) ? 4 : 1;
}

/// One of a region's results: node `value` of its program.
struct region_result {
  scalar_ref value{0};
  bool per_row = false;
  index_map output;
};

[[nodiscard]] inline std::vector<region_result> results_of(const region_attribute& region) {
  const auto last = static_cast<scalar_ref>(region.program.nodes.size() - 1);
  std::vector<region_result> all = {{last, region.per_row, region.output}};
  for (const further_result& each : region.further) all.push_back({each.value, each.per_row, each.output});
  return all;
}

// The loops of a region, in the order that is best for reading rows where only values of rows are stored, and else for
// storing the first of the other results; `results` find their outputs in them.
[[nodiscard]] inline loop_nest loops_of(const region_attribute& region, std::vector<region_result>& results,
                                        int& guide) {
  const auto leader = std::ranges::find(results, false, &region_result::per_row);
  guide = leader == results.end() ? reading_guide(region) : -1;
  const auto first = leader == results.end() ? results.begin() : leader;
  std::vector<index_map> outputs = {first->output};
  for (auto each = results.begin(); each != results.end(); ++each) {
    if (each != first) outputs.push_back(each->output);
  }
  loop_nest nest = make_loop_nest(region.space, region.row_axes, region.accesses, outputs, guide);
  auto further = nest.further.begin();
  for (auto each = results.begin(); each != results.end(); ++each)
    each->output = each == first ? nest.output : *further++;
  return nest;
}

[[nodiscard]] inline std::vector<bound_tensor> bind_results(spirv::kernel& owner, const loop_nest& nest,
                                                            std::span<const region_result> results,
                                                            std::span<const dtype> types, int vector_axis,
                                                            operand_of_result overwritten) {
  std::vector<bound_tensor> bound;
  bound.reserve(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool shares = i < overwritten.size() && overwritten[i];
    bound.emplace_back(owner, types[i], i == 0 ? "result" : fmt::format("result{}", i),
                       store_width(nest, results[i].output, vector_axis),
                       shares ? spirv::access::read_write : spirv::access::write);
  }
  return bound;
}

// Enough workgroups to fill the device before they grow.
[[nodiscard]] inline std::uint32_t pointwise_group(std::int64_t items, const device_profile& on) {
  const std::uint32_t wanted = on.prefers_texel_buffers || items >= 256 * 4 * std::int64_t{on.compute_units} ? 256 : 64;
  return std::min(wanted, on.max_invocations);
}

// Everything is read before anything is stored: results may lie where operands do.
inline void emit_point(spirv::kernel& owner, const loop_nest& nest, const scalar_program& program,
                       std::span<const region_result> results, std::span<const bound_tensor> operands,
                       std::span<const bound_tensor> stored, const coordinates& at, int vector_axis) {
  const std::vector<scalar_value> values = emit_nodes(owner, program, [&](int k) {
    return load(owner, nest, nest.accesses[static_cast<std::size_t>(k)], operands, at, vector_axis);
  });
  for (std::size_t i = 0; i < results.size(); ++i)
    store(nest, results[i].output, stored[i], values[results[i].value], at, vector_axis);
}

/// Four elements an invocation where the result allows it, else one. A flat nest whose length is no multiple of four is
/// cut into whole groups and up to three single elements, which one more invocation does.
[[nodiscard]] inline kernel_dispatch make_pointwise(const region_attribute& region, std::span<const dtype> types,
                                                    std::span<const dtype> result_types, const device_profile& on,
                                                    operand_of_result overwritten) {
  std::vector<region_result> results = results_of(region);
  int guide = -1;
  const loop_nest nest = loops_of(region, results, guide);
  const int last = nest.rank - 1;
  loop_nest groups = nest;
  const std::int64_t tail = nest.rank == 1 && nest.extents[0] >= 1024 ? nest.extents[0] % 4 : 0;
  if (tail != 0) groups.extents[0] -= tail;
  const int axis = store_width(groups, groups.output, last) == 4 ? last : -1;
  if (axis >= 0) groups.extents[last] /= 4;
  const std::int64_t items = groups.count(0, nest.rank);
  const std::int64_t invocations = items + (axis >= 0 && tail != 0 ? 1 : 0);
  const std::uint32_t size = pointwise_group(items, on);
  const flat_grid grid = make_flat_grid(invocations, size, on);
  spirv::kernel owner(fmt::format("pointwise {}", nest.count(0, nest.rank)), {size, 1, 1});
  const std::vector<bound_tensor> operands =
      bind_operands(owner, nest, axis, types, overwritten, !makes_f16(region.program, result_types), on);
  const std::vector<bound_tensor> stored =
      bind_results(owner, nest, results, result_types, tail == 0 ? axis : -1, overwritten);

  const spirv::u32 position = grid.position(owner) * size + owner.local_id(0);
  const auto whole = [&] {
    coordinates at;
    decode(groups, position, 0, nest.rank, at);
    loop_nest aligned = groups;
    if (axis >= 0) {
      at[static_cast<std::size_t>(last)] = at[static_cast<std::size_t>(last)] * 4u;
      aligned.extents[last] *= 4;
    }
    emit_point(owner, aligned, region.program, results, operands, stored, at, axis);
  };
  const auto single = [&] {
    for (std::int64_t i = 0; i < tail; ++i) {
      const coordinates at{spirv::u32(nest.extents[0] - tail + i)};
      emit_point(owner, nest, region.program, results, operands, stored, at, -1);
    }
  };
  const std::int64_t launched = std::int64_t{grid.groups[0]} * grid.groups[1] * grid.groups[2] * size;
  const spirv::boolean in_range = launched == items ? spirv::boolean(true) : position < spirv::u32(items);
  owner.if_(in_range, whole, [&] {
    if (axis >= 0 && tail != 0) owner.if_(position == spirv::u32(items), single);
  });
  return {owner.finish(), grid.groups};
}

/// Writes the body of a rows kernel. Reductions that do not depend on each other share a pass; a value that is the same
/// all along the row is computed once, between passes. A short row is written out without a loop: the kernel language
/// reuses equal computations, so its elements stay in registers from pass to pass.
class row_emitter {
 public:
  row_emitter(spirv::kernel& owner, const loop_nest& nest, const row_mapping& map, const scalar_program& program,
              std::span<const region_result> results, std::span<const bound_tensor> operands,
              std::span<const bound_tensor> stored, const device_profile& on, operand_of_result overwritten)
      : owner_(owner),
        nest_(nest),
        map_(map),
        program_(program),
        results_(results),
        operands_(operands),
        stored_(stored),
        on_(on),
        overwritten_(overwritten),
        totals_(owner, map.lanes * map.rows) {
    analyse();
  }

  void run(const flat_grid& grid) {
    place(grid);
    for (int level = 1; level <= levels_; ++level) {
      emit_uniform(level - 1);
      reduce(level);
    }
    emit_uniform(levels_);
    const bool any_per_row = std::ranges::find(results_, true, &region_result::per_row) != results_.end();
    const bool all_per_row = std::ranges::find(results_, false, &region_result::per_row) == results_.end();
    if (any_per_row) store_rows();
    if (!all_per_row) store_elements();
  }

 private:
  using memo = std::vector<std::optional<scalar_value>>;
  struct node_facts {
    int level = 0;             // how many reductions, one after the other, stand below
    bool uniform = false;      // the same all along the row
    bool overwritten = false;  // computed from what the result is written over
  };

  void analyse() {
    for (const scalar_node& node : program_.nodes) {
      node_facts facts{0, true};
      if (node.op == scalar_op::argument) {
        const index_map& access = nest_.accesses[static_cast<std::size_t>(node.value)];
        facts.uniform = !varies_along_row(nest_, access);
        facts.overwritten = overwrites(access);
      }
      for (int i = 0; i < info(node.op).arity; ++i) {
        facts.level = std::max(facts.level, facts_[node.operands[i]].level);
        facts.uniform = facts.uniform && facts_[node.operands[i]].uniform;
        facts.overwritten = facts.overwritten || facts_[node.operands[i]].overwritten;
      }
      if (is_row_reduction(node.op)) {
        all_lanes_read_ = all_lanes_read_ || facts.overwritten;
        facts = {facts.level + 1, true};
      }
      levels_ = std::max(levels_, facts.level);
      facts_.push_back(facts);
    }
    for (const region_result& each : results_)
      all_lanes_read_ = all_lanes_read_ || (!each.per_row && facts_[each.value].overwritten);
    row_values_.resize(program_.nodes.size());
  }

  [[nodiscard]] bool overwrites(const index_map& access) const {
    return std::ranges::any_of(overwritten_, [&](std::optional<std::size_t> operand) {
      return operand && access.source == static_cast<int>(*operand);
    });
  }

  // Which row this invocation works on and which lane of it it is.
  void place(const flat_grid& grid) {
    spirv::u32 row;
    if (map_.style == row_mapping::workgroup) {
      lane_ = owner_.local_id(0);
      row = grid.position(owner_);
    } else if (map_.style == row_mapping::columns) {
      // One axis only: a software device fills its subgroups along x alone.
      const spirv::u32 index = uses_subgroups(map_, on_) ? owner_.subgroup_lane() : owner_.local_id(0);
      lane_ = index / map_.rows;
      column_ = index % map_.rows;
      row = grid.position(owner_) * map_.rows + column_;
    } else {
      const bool alone = map_.lanes == 1;
      const spirv::u32 index = alone ? owner_.local_id(0) : owner_.index_by_subgroups(on_.subgroup_size);
      lane_ = index % map_.lanes;
      row = grid.position(owner_) * map_.rows + index / map_.lanes;
    }
    const std::int64_t launched = std::int64_t{grid.groups[0]} * grid.groups[1] * grid.groups[2] * map_.rows;
    row_exists_ = launched == map_.outer_items ? spirv::boolean(true) : row < spirv::u32(map_.outer_items);
    if (launched != map_.outer_items)
      row = min(row, spirv::u32(map_.outer_items - 1));  // all stay for the subgroup's sake
    loop_nest outer = nest_;
    const int last = nest_.outer_axes() - 1;
    const bool grouped_rows = map_.vector_axis >= 0 && map_.vector_axis == last;
    if (grouped_rows) outer.extents[last] /= 4;
    decode(outer, row, 0, nest_.outer_axes(), row_at_);
    if (grouped_rows) row_at_[static_cast<std::size_t>(last)] = row_at_[static_cast<std::size_t>(last)] * 4u;
  }

  [[nodiscard]] bool along_row() const { return map_.vector_axis >= nest_.outer_axes(); }

  [[nodiscard]] coordinates element_at(const spirv::u32& item) const {
    coordinates at = row_at_;
    loop_nest row = nest_;
    const auto last = static_cast<std::size_t>(nest_.rank - 1);
    if (along_row()) row.extents[last] /= 4;
    decode(row, item, nest_.outer_axes(), nest_.rank, at);
    if (along_row()) at[last] = at[last] * 4u;
    return at;
  }

  // What the result is written over is read by the lane that stores it alone, or by all lanes of the row where a
  // reduction needs it: store_row then waits for them. What other invocations have instead of it goes nowhere.
  [[nodiscard]] scalar_value load_argument(const index_map& access, const coordinates& at) {
    const auto loaded = [&] { return load(owner_, nest_, access, operands_, at, map_.vector_axis); };
    if (!overwrites(access)) return loaded();
    const spirv::boolean reads = all_lanes_read_ ? row_exists_ : stores_row();
    if (reads.is_literal()) return loaded();
    spirv::untyped::place_reference kept;
    owner_.if_(reads, [&] {
      const scalar_value value = loaded();
      kept = owner_.declare_variable(value.type);
      spirv::untyped::store(kept, value);
    });
    return spirv::untyped::load(kept);
  }

  [[nodiscard]] scalar_value evaluate_node(scalar_ref ref, const coordinates& at, memo& known) {
    if (row_values_[ref]) return *row_values_[ref];
    if (known[ref]) return *known[ref];
    const scalar_node& node = program_.nodes[ref];
    scalar_value value;
    if (node.op == scalar_op::argument) {
      value = load_argument(nest_.accesses[static_cast<std::size_t>(node.value)], at);
    } else if (node.op == scalar_op::constant) {
      value = literal(node.type, node.value);
    } else {
      scalar_value operands[3];
      const int arity = info(node.op).arity;
      for (int i = 0; i < arity; ++i) operands[i] = evaluate_node(node.operands[i], at, known);
      value = emit(owner_, node, {operands, static_cast<std::size_t>(arity)});
    }
    known[ref] = value;
    return value;
  }

  void emit_uniform(int level) {
    memo known(program_.nodes.size());
    for (std::size_t ref = 0; ref < program_.nodes.size(); ++ref) {
      if (!facts_[ref].uniform || facts_[ref].level > level || row_values_[ref]) continue;
      row_values_[ref] = evaluate_node(static_cast<scalar_ref>(ref), row_at_, known);
    }
  }

  // Calls body(items) for this lane's items: all written out if few, else a loop and a written-out rest. A pass adds
  // one number to each of `sums`.
  struct row_item {
    spirv::u32 position;
    spirv::boolean exists{true};
  };
  template <class Body>
  void for_items(std::span<const running_sum> sums, Body&& body) {
    const std::int64_t steps = ceil_div(map_.row_items, map_.lanes);
    const std::int64_t at_once = map_.unrolled;
    const std::int64_t rounds = steps <= at_once ? 0 : map_.row_items / (map_.lanes * at_once);
    const auto stride = static_cast<std::uint32_t>(map_.lanes * at_once);
    std::vector<row_item> items;
    for_summed(owner_, spirv::u32(0), static_cast<std::uint32_t>(rounds), 1, {}, sums, [&](const spirv::u32& round) {
      items.clear();
      for (std::uint32_t i = 0; i < at_once; ++i) items.push_back({round * stride + (lane_ + i * map_.lanes)});
      body(items);
    });
    items.clear();
    for (std::int64_t first = rounds * stride; first < map_.row_items; first += map_.lanes) {
      const spirv::u32 item = lane_ + spirv::u32(first);
      const bool all = first + map_.lanes <= map_.row_items;
      const spirv::u32 last(map_.row_items - 1);
      items.push_back({all ? item : min(item, last), all ? spirv::boolean(true) : item <= last});
    }
    if (!items.empty()) body(items);
  }

  struct accumulator {
    scalar_ref ref{0};
    spirv::untyped::place_reference place{};
    scalar_value start{};
    std::optional<scalar_value> value{};  // while no loop is open
  };

  void reduce(int level) {
    const std::int64_t steps = ceil_div(map_.row_items, map_.lanes);
    const bool loops = steps > map_.unrolled;
    const int width = map_.vector_axis >= 0 ? 4 : 1;
    std::vector<accumulator> sums;
    std::vector<running_sum> running;
    for (std::size_t ref = 0; ref < program_.nodes.size(); ++ref) {
      const scalar_node& node = program_.nodes[ref];
      if (!is_row_reduction(node.op) || facts_[ref].level != level) continue;
      accumulator sum{.ref = static_cast<scalar_ref>(ref), .start = widened(identity(node.op, node.type), width)};
      if (loops) {
        sum.place = owner_.declare_variable(value_type(node.type, width));
        spirv::untyped::store(sum.place, sum.start);
        running.push_back({sum.place, node.op, sum.start});
      }
      sums.push_back(sum);
    }
    for_items(running, [&](std::span<const row_item> items) { add_items(sums, items, loops); });
    for (accumulator& sum : sums) {
      if (loops) sum.value = spirv::untyped::load(sum.place);
      if (along_row()) sum.value = folded(program_.nodes[sum.ref].op, *sum.value);
    }
    share(sums);
    for (const accumulator& sum : sums) row_values_[sum.ref] = *sum.value;
  }

  // The items' terms are added to each other before they meet the total: one rounding of it a pass, and no chain.
  void add_items(std::vector<accumulator>& sums, std::span<const row_item> items, bool loops) {
    const int width = map_.vector_axis >= 0 ? 4 : 1;
    std::vector<std::vector<scalar_value>> terms(sums.size());
    for (const row_item& item : items) {
      const coordinates at = element_at(item.position);
      memo known(program_.nodes.size());
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const scalar_node& node = program_.nodes[sums[i].ref];
        const scalar_value term = widened(evaluate_node(node.operands[0], at, known), width);
        const scalar_value choice[] = {item.exists, term, sums[i].start};
        terms[i].push_back(emit(owner_, {.op = scalar_op::select, .type = node.type}, choice));
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const scalar_op how = program_.nodes[sums[i].ref].op;
      const scalar_value term = pairwise(how, terms[i]);
      if (!loops)
        sums[i].value = term;
      else
        spirv::untyped::store(sums[i].place, combine(owner_, how, spirv::untyped::load(sums[i].place), term));
    }
  }

  [[nodiscard]] scalar_value pairwise(scalar_op how, std::vector<scalar_value> terms) {
    while (terms.size() > 1) {
      std::vector<scalar_value> half;
      for (std::size_t i = 0; i + 1 < terms.size(); i += 2)
        half.push_back(combine(owner_, how, terms[i], terms[i + 1]));
      if (terms.size() % 2 != 0) half.push_back(terms.back());
      terms = std::move(half);
    }
    return terms[0];
  }

  [[nodiscard]] scalar_value folded(scalar_op how, const scalar_value& four) {
    return combine(owner_, how, combine(owner_, how, component(four, 0), component(four, 1)),
                   combine(owner_, how, component(four, 2), component(four, 3)));
  }

  // Afterwards every lane holds the result of the whole row.
  void share(std::vector<accumulator>& sums) {
    if (map_.lanes == 1) return;
    if (!uses_subgroups(map_, on_)) return share_by_tree(sums);
    if (map_.style == row_mapping::workgroup) return share_between_subgroups(sums);
    for (accumulator& sum : sums) *sum.value = shuffled(program_.nodes[sum.ref].op, *sum.value);
  }

  [[nodiscard]] scalar_value shuffled(scalar_op how, scalar_value value) {
    const bool whole = map_.style == row_mapping::cluster && map_.lanes == on_.subgroup_size;
    if (whole && on_.subgroup_arithmetic && !on_.prefers_texel_buffers) return subgroup_total(how, value);
    const std::uint32_t step = map_.style == row_mapping::columns ? map_.rows : 1;
    for (std::uint32_t mask = map_.lanes / 2; mask > 0; mask /= 2) {
      std::array<scalar_value, 4> parts;
      for (int i = 0; i < value.type.components; ++i) {
        parts[static_cast<std::size_t>(i)] = owner_.subgroup_move(spirv::op::group_non_uniform_shuffle_xor,
                                                                  component(value, i), spirv::u32(mask * step));
      }
      value = combine(owner_, how, value, value.type.components == 1 ? parts[0] : grouped(owner_, parts));
    }
    return value;
  }

  [[nodiscard]] scalar_value subgroup_total(scalar_op how, const scalar_value& value) {
    constexpr std::pair<scalar_op, spirv::reduction> known[] = {{scalar_op::row_sum, spirv::reduction::add},
                                                                {scalar_op::row_max, spirv::reduction::maximum},
                                                                {scalar_op::row_min, spirv::reduction::minimum},
                                                                {scalar_op::row_product, spirv::reduction::multiply}};
    const auto found = std::ranges::find(known, how, &std::pair<scalar_op, spirv::reduction>::first);
    if (found == std::end(known)) fail(error_category::internal, "{} has no subgroup operation", to_string(how));
    return owner_.subgroup_arithmetic(found->second, value);
  }

  // Each reduction has its own few words of shared memory, so one barrier is enough.
  void share_between_subgroups(std::vector<accumulator>& sums) {
    const std::uint32_t partials = map_.lanes / on_.subgroup_size;
    for (accumulator& sum : sums) *sum.value = subgroup_total(program_.nodes[sum.ref].op, *sum.value);
    if (partials == 1) return;
    std::vector<spirv::untyped::memory_object> slots;
    for (const accumulator& sum : sums) {
      slots.push_back(owner_.declare_array(sum.value->type, spirv::storage_class::workgroup, partials));
    }
    owner_.if_(owner_.subgroup_lane() == 0u, [&] {
      for (std::size_t i = 0; i < sums.size(); ++i) {
        spirv::untyped::store(spirv::untyped::locate(slots[i], owner_.subgroup_id()), *sums[i].value);
      }
    });
    owner_.barrier();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i].value.reset();
      for (std::uint32_t part = 0; part < partials; ++part) {
        const scalar_value term = spirv::untyped::load(spirv::untyped::locate(slots[i], spirv::u32(part)));
        sums[i].value = sums[i].value ? combine(owner_, program_.nodes[sums[i].ref].op, *sums[i].value, term) : term;
      }
    }
  }

  void share_by_tree(std::vector<accumulator>& sums) {
    const lane_place place{lane_, map_.lanes, lane_ * map_.rows + column_, map_.rows, column_};
    for (accumulator& sum : sums) sum.value = totals_.combined(program_.nodes[sum.ref].op, *sum.value, place);
  }

  [[nodiscard]] spirv::boolean stores_row() const {
    return map_.lanes == 1 ? row_exists_ : (row_exists_ && lane_ == 0u);
  }

  // The results that are of rows, or that are not, at one place.
  struct stored_value {
    const region_result* result;
    const bound_tensor* to;
    scalar_value value;
  };
  [[nodiscard]] std::vector<stored_value> evaluate_results(bool per_row, const coordinates& at) {
    memo known(program_.nodes.size());
    std::vector<stored_value> values;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (results_[i].per_row != per_row) continue;
      values.push_back({&results_[i], &stored_[i], evaluate_node(results_[i].value, at, known)});
    }
    return values;
  }
  void store_at(std::span<const stored_value> values, const coordinates& at) {
    for (const stored_value& each : values)
      store(nest_, each.result->output, *each.to, each.value, at, map_.vector_axis);
  }

  void store_rows() {
    const std::vector<stored_value> values = evaluate_results(true, row_at_);
    if (all_lanes_read_ && map_.lanes > 1) owner_.barrier(true);
    owner_.if_(stores_row(), [&] { store_at(values, row_at_); });
  }

  void store_elements() {
    for_items({}, [&](std::span<const row_item> items) {
      for (const row_item& item : items) {
        const coordinates at = element_at(item.position);
        const std::vector<stored_value> values = evaluate_results(false, at);
        owner_.if_(item.exists && row_exists_, [&] { store_at(values, at); });
      }
    });
  }

  spirv::kernel& owner_;
  const loop_nest& nest_;
  const row_mapping& map_;
  const scalar_program& program_;
  std::span<const region_result> results_;
  std::span<const bound_tensor> operands_, stored_;
  const device_profile& on_;
  operand_of_result overwritten_;
  std::vector<node_facts> facts_;
  int levels_ = 0;
  bool all_lanes_read_ = false;  // what the result is written over
  memo row_values_;
  spirv::u32 lane_, column_;
  spirv::boolean row_exists_{true};
  coordinates row_at_;
  shared_totals totals_;
};

[[nodiscard]] inline kernel_dispatch emit_rows(const region_attribute& region, std::span<const dtype> types,
                                               std::span<const dtype> result_types,
                                               std::span<const region_result> results, const loop_nest& nest,
                                               const row_mapping& map, const device_profile& on,
                                               operand_of_result overwritten) {
  const flat_grid grid = make_flat_grid(map.outer_items, map.rows, on);
  if (map.row_items > max_count) {
    fail(error_category::unsupported,
         "a reduction over rows of {} elements was asked for; kernels count {} at most: reduce in two steps",
         nest.count(nest.outer_axes(), nest.rank), max_count);
  }
  spirv::kernel owner(
      fmt::format("rows {}x{}", nest.count(0, nest.outer_axes()), nest.count(nest.outer_axes(), nest.rank)),
      {map.lanes * map.rows, 1, 1});
  if (uses_subgroups(map, on)) owner.require_subgroup_size(on.subgroup_size);
  const std::vector<bound_tensor> operands =
      bind_operands(owner, nest, map.vector_axis, types, overwritten, !makes_f16(region.program, result_types), on);
  const std::vector<bound_tensor> stored =
      bind_results(owner, nest, results, result_types, map.vector_axis, overwritten);
  row_emitter(owner, nest, map, region.program, results, operands, stored, on, overwritten).run(grid);
  return {owner.finish(), grid.groups};
}

[[nodiscard]] inline kernel_dispatch make_rows(const region_attribute& region, std::span<const dtype> types,
                                               std::span<const dtype> result_types, const device_profile& on,
                                               operand_of_result overwritten) {
  std::vector<region_result> results = results_of(region);
  int guide = -1;
  const loop_nest nest = loops_of(region, results, guide);
  row_mapping map = make_row_mapping(nest, guide, on);
  return make_within_loop_limit(
      [&] { return emit_rows(region, types, result_types, results, nest, map, on, overwritten); },
      [&] { return share_rows_wider(map, on); }, on);
}

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_region(const region_attribute& region, std::span<const dtype> operands,
                                             std::span<const dtype> results, const device_profile& on,
                                             operand_of_result overwritten) {
  const bool rows = region.per_row || region.program.has_rows() ||
                    std::ranges::find(region.further, true, &further_result::per_row) != region.further.end();
  return rows ? detail::make_rows(region, operands, results, on, overwritten)
              : detail::make_pointwise(region, operands, results, on, overwritten);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
