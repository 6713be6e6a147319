// SPDX-License-Identifier: MIT
// Rows that are made f16 terms once: those that several workgroups of an attention go through, and weights.
#pragma once
#include <meganeura/fusion/attention_rules.ipp>

#include <cstddef>
#include <functional>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

// From an attention on matrix units that makes such terms of its rows in each workgroup.
class preparation_draft {
 public:
  preparation_draft(implementation_pass& pass, enode_id id)
      : pass_(pass), g_(pass.graph()), id_(id), value_(g_.get<attention_attribute>(id)) {}

  // Why there is none, or null when the node was added.
  const char* add() {
    class_list operands(g_.operands(id_).begin(), g_.operands(id_).end());
    if (operands.size() + 2 > pass_.limits().buffers) return "too many operands";
    if (const char* problem = choose_schedule()) return problem;
    const bool by_keys = value_.form == attention_form::key_gradients;
    const std::size_t of_rows = by_keys ? queries : keys;
    prepared_rows both[] = {rows_of(by_keys ? 0 : 1, of_rows, width), rows_of(by_keys ? 3 : 2, of_rows, channels)};
    for (const prepared_rows& each : both) {
      if (4 * each.how.words() > pass_.limits().tensor_bytes)
        return "prepared rows would be longer than a tensor may be";
    }
    const class_id owner = g_.find(g_.node(id_).owner);
    const rule_mask why = bit(prepare_rows::rule) | g_.node(id_).reasons;
    for (prepared_rows& each : both) {
      const class_id from = g_.operand(id_, each.access);
      const class_id made = g_.add(op::prepare_rows, dtype::u32, {each.how.words()}, each.how, {&from, 1}, why);
      pass_.introduce(made, owner);
      each.numbers.source = static_cast<int>(operands.size());
      value_.accesses.push_back(each.numbers);
      operands.push_back(made);
    }
    g_.add_to(owner, op::attention, value_, operands, why);
    if (pass_.forced_schedule()) retire_others(owner);
    return nullptr;
  }

 private:
  // What computes the same without prepared rows, and of several results each.
  void retire_others(class_id owner) {
    class_list classes{owner};
    for (const enode_id reader : g_[owner].parents) {
      if (!g_.node(reader).dead && g_.node(reader).kind == op::result)
        classes.push_back(g_.find(g_.node(reader).owner));
    }
    for (const class_id each : classes) {
      const node_list nodes = g_[each].nodes;
      for (const enode_id other : nodes) {
        if (g_.node(other).kind == op::matmul || other == id_) g_.retire(other);
      }
    }
  }

  static constexpr std::size_t queries = 1, channels = 2, keys = 3, width = 4;  // groups of axes

  // The quickest, if it saves anything; or where one is asked for, that one, if its number is odd.
  const char* choose_schedule() {
    const device_profile& device = pass_.device();
    const product_arithmetic arithmetic = value_.schedule.arithmetic;
    if (const auto forced = pass_.forced_schedule()) {
      value_.schedule.prepared = *forced % 2 == 1;
      return value_.schedule.prepared && fits(value_.schedule, value_, device) ? nullptr : "another one is asked for";
    }
    const std::int64_t rows = value_.schedule.subgroups / value_.schedule.parts * device.unit.m;
    if (value_.sizes()[value_.form == attention_form::key_gradients ? 3 : 1] < 2 * rows)
      return "few workgroups read the same rows";
    const double before = time_of(value_, device).alone;
    value_.schedule.prepared = true;
    const attention_choice best = pass_.best(value_, arithmetic);
    value_.schedule = best.schedule;
    return best.seconds < before ? nullptr : "it would save nothing";
  }

  // How rows of an access are prepared, and their numbers over the attention's loops: what they do not depend on they
  // have once.
  struct prepared_rows {
    std::size_t access;
    prepare_attribute how;
    index_map numbers;
  };
  [[nodiscard]] prepared_rows rows_of(std::size_t number, std::size_t group_of_rows, std::size_t along) const {
    const index_map& access = value_.accesses[number];
    prepare_attribute made;
    made.terms = value_.schedule.terms();
    made.padded = padded(static_cast<std::uint32_t>(value_.sizes()[along]), pass_.device().unit);
    small_vector<int, max_rank> from;
    const auto counts = value_.axes();
    const auto collect = [&](std::size_t wanted, bool once) {
      int axis = 0;
      for (std::size_t group = 0; group < counts.size(); ++group) {
        for (int i = 0; i < counts[group]; ++i, ++axis) {
          if (group == wanted && (!once || access.strides[axis] != 0)) from.push_back(axis);
        }
      }
    };
    collect(0, true), collect(group_of_rows, false);
    made.row_axes = static_cast<int>(from.size());
    index_map numbers;
    std::int64_t stride = 1;
    for (std::size_t i = from.size(); i-- > 0; stride *= value_.space[from[i]]) numbers.strides[from[i]] = stride;
    collect(along, false);
    made.access.source = 0, made.access.offset = access.offset;
    for (const int axis : from) {
      made.access.strides[made.space.rank()] = access.strides[axis];
      made.space.push_back(value_.space[axis]);
    }
    made.by_columns = number == 2;  // values are added up column by column
    return {number, made, numbers};
  }

  implementation_pass& pass_;
  engine& g_;
  enode_id id_;
  attention_attribute value_;
};

MEGANEURA_INLINE void prepare_rows::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const attention_schedule& schedule = g.get<attention_attribute>(id).schedule;
  if (!schedule.is_on_units() || schedule.prepared) return;
  if (const char* problem = preparation_draft(pass, id).add()) {
    pass.note_missed({g.find(g.node(id).owner), g.find(g.operand(id, 1)), rule, problem});
  } else {
    pass.note_applied(rule);
  }
}

// Of a product that rounds right operands of parameters alone, one that reads these as f16, which is made when they
// change.
class weights_draft {
 public:
  weights_draft(implementation_pass& pass, enode_id id)
      : pass_(pass), g_(pass.graph()), id_(id), value_(g_.get<matmul_attribute>(id)) {}

  // Why there is none, or null when the node was added.
  const char* add() {
    class_list operands(g_.operands(id_).begin(), g_.operands(id_).end());
    const std::size_t sums = value_.sums();
    if (!can_be_prepared(value_.schedule)) return "so large a tile is quicker without";
    // Beside the first result: sums of parts and their arrivals as well.
    const std::size_t behind = value_.further.size() + (value_.schedule.parts > 1 ? 2 : 0);
    if (operands.size() + sums + behind > pass_.limits().buffers) return "too many operands";
    small_vector<const index_map*, 2> reads{&value_.b};
    if (sums == 2) reads.push_back(&value_.finish.accesses[0]);
    for (const index_map* read : reads) {
      for (int axis = 0; axis < value_.batch_axes; ++axis) {
        if (read->strides[axis] == 0) return "a batch shares the weights";
      }
      const prepare_attribute how = rows_of(*read);
      if (!can_prepare(how.padded, pass_.device())) return "a workgroup has too few invocations for a row";
      if (4 * how.words() > pass_.limits().tensor_bytes) return "prepared rows would be longer than a tensor may be";
    }
    const class_id owner = g_.find(g_.node(id_).owner);
    const rule_mask why = bit(structural::prepare_weights) | g_.node(id_).reasons;
    for (std::size_t side = 0; side < sums; ++side) {
      const prepare_attribute how = rows_of(*reads[side]);
      const class_id from = g_.operand(id_, 1 + side);
      const class_id made = g_.add(op::prepare_rows, dtype::u32, {how.words()}, how, {&from, 1}, why);
      pass_.introduce(made, owner);
      operands.push_back(made);
    }
    value_.prepared = true;
    g_.add_to(owner, op::matmul, value_, operands, why);
    return nullptr;
  }

 private:
  // Columns of results are rows here, along the terms.
  [[nodiscard]] prepare_attribute rows_of(const index_map& access) const {
    prepare_attribute made;
    made.padded = prepared_length(extents_of(value_).k);
    made.row_axes = value_.batch_axes + value_.n_axes;
    made.access.source = 0, made.access.offset = access.offset;
    for (int axis = 0; axis < value_.space.rank(); ++axis) {
      if (axis >= value_.batch_axes && axis < value_.batch_axes + value_.m_axes) continue;
      made.access.strides[made.space.rank()] = access.strides[axis];
      made.space.push_back(value_.space[axis]);
    }
    return made;
  }

  implementation_pass& pass_;
  engine& g_;
  enode_id id_;
  matmul_attribute value_;
};

MEGANEURA_INLINE void prepare_weights::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const auto& product = g.get<matmul_attribute>(id);
  if (product.schedule.arithmetic != product_arithmetic::rounded || product.prepared ||
      product.schedule.places != place_axes::none)
    return;
  const auto is_folded = [&](class_id each) { return pass.is_folded(each); };
  const auto rights = g.operands(id).subspan(1, product.sums());
  if (!std::ranges::all_of(rights, is_folded) || is_folded(g.operand(id, 0))) return;
  const class_id owner = g.find(g.node(id).owner), weights = g.find(rights[0]);
  if (const char* problem = weights_draft(pass, id).add())
    pass.note_missed({owner, weights, rule, problem});
  else
    pass.note_applied(rule);
}

// Beside memory's time invocations wait for each other's magnitudes: 1.2 us, as found on an H100.
MEGANEURA_INLINE kernel_time kernel_family<op::prepare_rows>::time(const engine& g, enode_id id,
                                                                   const device_profile& device) {
  kernel_time found = streaming_time(bytes_of(g, g.find(g.node(id).owner)) + bytes_of_operands(g, id), device);
  found.alone += 0.5 * device.rounded.once;
  return found;
}

}  // namespace detail

MEGANEURA_INLINE bool implementation_pass::prepare_weights(std::function<bool(class_id)> is_folded) {
  is_folded_ = std::move(is_folded);
  const std::size_t known = g_.node_count();
  rewrite<detail::prepare_weights>();
  order_introduced();
  return g_.node_count() != known;
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
