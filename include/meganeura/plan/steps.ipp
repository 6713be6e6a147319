// SPDX-License-Identifier: MIT
// The planner's last part: dispatches and copies in order, with barriers between what conflicts.
#pragma once
#include <meganeura/plan/draft.hpp>
#include <meganeura/plan/interval_set.hpp>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::plan::detail {

// Writes the steps of a plan of which all places are known.
class step_writer {
 public:
  explicit step_writer(draft& all) : draft_(all), g_(all.g()), places_(all.places) {}

  void run() {
    emit();
    (void)group(draft_.result.folded);
    draft_.result.groups = group(draft_.result.steps);
    outputs();
  }

 private:
  // Kernels, copies and updates by level, of which what is folded has the first ones; see copy for their order within
  // one. What takes longest begins first: the launches of the others pass meanwhile.
  void emit() {
    struct event {
      std::uint32_t level, order;
      double begins;
      node_id node;
      const copy* copied;
    };
    std::vector<event> events;
    for (const copy& each : draft_.copies) events.push_back({each.level, each.order, 0, each.from, &each});
    for (node_id id{0}; id < g_.size(); ++id) {
      if (draft_.is_leaf(id) || g_[id].kind == op::assign || g_[id].kind == op::result) continue;
      const double begins = draft_.options.times.empty() ? 0 : -draft_.options.times[id].alone;
      events.push_back(
          {places_[id].level, draft_.is_effect(id) ? std::uint32_t{copy::update} : 1u, begins, id, nullptr});
    }
    std::stable_sort(events.begin(), events.end(), [](const event& a, const event& b) {
      return std::tuple(a.level, a.order, a.begins) < std::tuple(b.level, b.order, b.begins);
    });
    for (const event& each : events) {
      if (each.copied)
        emit_copy(*each.copied);
      else if (draft_.is_effect(each.node))
        emit_optimizer(each.node);
      else
        emit_kernel(each.node);
    }
  }

  void emit_copy(const copy& made) {
    const range& from =
        made.from_scratch == none ? places_[made.from].where : draft_.scratches[made.from_scratch].where;
    const range& to = made.to_scratch == none ? made.to : draft_.scratches[made.to_scratch].where;
    draft_.result.steps.push_back({step::copy, made.from, 0, {{from, usage::read}, {to, usage::write}}});
  }

  void emit_kernel(node_id id) {
    step s{.kind = step::kernel, .node = id};
    s.bindings.reserve(g_.operands(id).size() + 2);
    for (node_id operand : g_.operands(id)) s.bindings.push_back({places_[operand].where, usage::read});
    std::size_t unnamed = 0;
    for (node_id value : draft_.values_of(id)) {
      const range& where =
          value != no_id ? places_[value].where : draft_.scratches[draft_.unnamed.at(id)[unnamed++]].where;
      s.bindings.push_back({where, usage::write});
    }
    if (g_[id].kind == op::random) s.bindings.push_back({step_values_range(0), usage::read});
    if (const auto sums = draft_.partial_sums.find(id); sums != draft_.partial_sums.end()) {
      s.bindings.push_back({draft_.scratches[sums->second].where, usage::write});
      s.bindings.push_back({arrivals_range(draft_.scratch_of(id).arrivals), usage::read_write});
    }
    (draft_.is_folded[id] ? draft_.result.folded : draft_.result.steps).push_back(std::move(s));
  }

  // Each group of parameters has a set of its own.
  range step_values_range(std::uint32_t group) {
    std::uint64_t& bytes = draft_.result.area_bytes[index_of(area::step_values)];
    bytes = std::max(bytes, (group + 1) * tensor_alignment);
    return {area::step_values, group * tensor_alignment, step_bytes};
  }

  // Each kernel's own: what is zero between kernels stays so.
  range arrivals_range(std::int64_t count) {
    std::uint64_t& bytes = draft_.result.area_bytes[index_of(area::arrivals)];
    const auto needed = static_cast<std::uint64_t>(count) * sizeof(std::uint32_t);
    const std::uint64_t offset = fit_page(bytes, aligned(needed), draft_.result.page_bytes);
    bytes = offset + aligned(needed);
    return {area::arrivals, offset, needed};
  }

  // One dispatch for each run of parameters that lie side by side, as do their gradients: normally one for the whole
  // model.
  void emit_optimizer(node_id id) {
    struct run {
      std::uint64_t parameters, others, bytes;  // offsets in the parameters' area and in those of gradients and moments
    };
    const auto& rule = g_.get<optimizer_attribute>(id);
    const std::size_t moments = rule.moments.size();
    const node_id scale = g_.gradient_scale(id);
    std::vector<run> all;
    for (const update& each : g_.updates(id)) {
      const range& where = places_[each.target].where;
      // With padding: whole vectors.
      all.push_back({where.offset, draft_.updated_offset(each.target), aligned(where.bytes)});
    }
    std::ranges::sort(all, {}, &run::parameters);
    std::vector<run> runs;
    for (const run& r : all) {
      const std::uint64_t length = runs.empty() ? 0 : runs.back().bytes, bytes = length + r.bytes;
      const bool follows =
          !runs.empty() && runs.back().parameters + length == r.parameters && runs.back().others + length == r.others;
      if (follows && in_one_page(runs.back().parameters, bytes, draft_.result.page_bytes) &&
          in_one_page(runs.back().others, bytes, draft_.result.page_bytes))
        runs.back().bytes = bytes;
      else
        runs.push_back(r);
    }
    const std::uint64_t most = std::min(draft_.options.max_binding_bytes, std::uint64_t{1} << 31);
    const std::uint64_t piece = std::max(most / tensor_alignment, std::uint64_t{1}) * tensor_alignment;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (runs[i].bytes <= piece) continue;
      runs.push_back({runs[i].parameters + piece, runs[i].others + piece, runs[i].bytes - piece});
      runs[i].bytes = piece;
    }
    for (const run& r : runs) {
      step s{.kind = step::optimizer, .node = id};
      const auto at = [&](area where) { return range{where, r.others, r.bytes}; };
      s.bindings = {{{area::parameter, r.parameters, r.bytes}, usage::read_write}, {at(area::gradient), usage::read}};
      for (std::size_t i = 0; i < moments; ++i) s.bindings.push_back({at(moment_area(i)), usage::read_write});
      if (scale != no_id) s.bindings.push_back({places_[scale].where, usage::read});
      s.bindings.push_back({step_values_range(rule.group), usage::read});
      draft_.result.steps.push_back(std::move(s));
    }
    auto& bytes = draft_.result.area_bytes;
    bytes.resize(std::max(bytes.size(), index_of(moment_area(moments))));
    bytes[index_of(area::gradient)] = draft_.result.updated.bytes;
    for (std::size_t i = 0; i < moments; ++i) bytes[index_of(moment_area(i))] = draft_.result.updated.bytes;
  }

  // A new group starts where a step touches bytes that the running group writes, or writes bytes it touches. Returns
  // how many there are.
  [[nodiscard]] std::uint32_t group(std::vector<step>& steps) const {
    std::vector<interval_set> read(draft_.result.area_bytes.size()), written(read.size());
    std::uint32_t number = 0;
    for (step& s : steps) {
      const bool conflicts = std::ranges::any_of(s.bindings, [&](const binding& b) {
        const auto where = index_of(b.where.where);
        const std::uint64_t end = b.where.offset + b.where.bytes;
        return written[where].conflict(b.where.offset, end) != 0 ||
               (b.how != usage::read && read[where].conflict(b.where.offset, end) != 0);
      });
      if (conflicts) {
        for (interval_set& each : read) each.clear();
        for (interval_set& each : written) each.clear();
        ++number;
      }
      for (const binding& b : s.bindings) {
        auto& touched = b.how == usage::read ? read : written;
        touched[index_of(b.where.where)].insert(b.where.offset, b.where.offset + b.where.bytes);
      }
      s.group = number;
    }
    return steps.empty() ? 0 : number + 1;
  }

  void outputs() {
    for (const graph_output& output : g_.outputs()) {
      const node& n = g_[output.node];
      range where = places_[output.node].where;
      if (const auto saved = draft_.saved_outputs.find(output.node); saved != draft_.saved_outputs.end())
        where = draft_.scratches[saved->second].where;
      if (const auto copied = draft_.copied_results.find(output.node); copied != draft_.copied_results.end())
        where = copied->second;
      draft_.result.outputs.push_back({output.name, n.type, n.extents, where});
    }
    auto& values = draft_.result.area_bytes[index_of(area::step_values)];
    values = std::max(values, tensor_alignment);  // some, if nothing reads them
    draft_.result.area_bytes[index_of(area::input)] = draft_.result.inputs.bytes;
    draft_.result.area_bytes[index_of(area::training)] = draft_.result.training.bytes;
    draft_.result.area_bytes[index_of(area::parameter)] = draft_.result.parameters.bytes;
  }

  draft& draft_;
  const graph& g_;
  std::vector<placement>& places_;
};

MEGANEURA_INLINE void write_steps(draft& all) { step_writer(all).run(); }

}  // namespace meganeura::inline MEGANEURA_ABI::plan::detail
