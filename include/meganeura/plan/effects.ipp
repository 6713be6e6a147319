// SPDX-License-Identifier: MIT
// The planner's effects: whoever reads a state or a parameter reads what it held before the step.
#pragma once
#include <meganeura/plan/draft.hpp>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::plan::detail {

// Orders effects and finds out which of them need copies.
class effect_placer {
 public:
  explicit effect_placer(draft& all) : draft_(all), g_(all.g()), places_(all.places) {}

  void run() {
    draft_.result.updated = updated_parameters();
    copied_by_.resize(g_.size());
    for (node_id effect : g_.effects()) {
      if (g_[effect].kind == op::optimizer_step)
        place_gradients(effect);
      else if (draft_.is_written(g_.operand(effect, 1)) && !assigns_itself(effect))
        copied_by_[g_.operand(effect, 1)].push_back(effect);
    }
    for (node_id effect : g_.effects()) {
      if (g_[effect].kind == op::assign) place_state(effect);
    }
    order_effects();
    save_outputs();
  }

 private:
  [[nodiscard]] bool assigns_itself(node_id effect) const { return g_.operand(effect, 0) == g_.operand(effect, 1); }

  // Gradients and moments lie as their parameters do, without those that no optimizer updates, so that the optimiser is
  // one flat kernel for each run of parameters.
  [[nodiscard]] layout updated_parameters() const {
    std::unordered_set<std::string_view> names;
    for (node_id id : g_.leaves(op::parameter)) {
      if (draft_.writer[id] != no_id && g_[draft_.writer[id]].kind == op::optimizer_step)
        names.insert(g_.get<leaf_attribute>(id).name);
    }
    std::vector<named_tensor> found;
    for (const named_tensor& each : draft_.result.parameters.tensors) {
      if (names.contains(each.name)) found.push_back(each);
    }
    return paged({named_tensors(std::move(found)), 0}, draft_.result.page_bytes);
  }

  void place_gradients(node_id effect) {
    for (const auto& [parameter, value] : g_.updates(effect)) {
      placement& gradient = places_[value];
      const range target{area::gradient, draft_.updated_offset(parameter), places_[parameter].where.bytes};
      if (gradient.placed) {
        draft_.copies.push_back({.order = copy::save, .level = gradient.level + 1, .from = value, .to = target});
      } else {
        gradient.placed = true;
        gradient.where = target;
      }
      if (draft_.is_written(value)) saved_.insert(value);
    }
  }

  // A value assigned to a state is computed right into it where nobody reads the old value any more and the host does
  // not read the new one, and copied otherwise.
  void place_state(node_id effect) {
    const node_id state = g_.operand(effect, 0), source = g_.operand(effect, 1), made_by = draft_.producer(source);
    placement& value = places_[source];
    const bool kept = draft_.is_output[state] || !copied_by_[state].empty() || saved_.contains(state);
    if (value.placed || kept || draft_.is_output[source]) return;
    std::uint32_t level = value.level;  // after all other kernels that read the old value
    for (node_id reader : draft_.readers[state]) {
      if (reader != made_by) level = std::max(level, places_[reader].level + 1);
    }
    if (level != value.level && !can_wait(source, state, level)) return;
    const auto operands = g_.operands(made_by);
    const auto itself = std::ranges::find(operands, state);
    if (itself != operands.end() &&
        !draft_.writes_where_it_reads(source, static_cast<std::size_t>(itself - operands.begin())))
      return;
    value.level = level;
    computed_in_place_.insert(effect);
    value.placed = true;
    value.where = places_[state].where;
  }

  // Whether a value that is assigned to a state can run at a later level: nobody waits for it, it reads no other leaf
  // that is overwritten, and its operands are not kept at a greater price than the copy that waiting saves.
  [[nodiscard]] bool can_wait(node_id value, node_id state, std::uint32_t level) const {
    const auto reads_written = [&](node_id operand) { return operand != state && draft_.is_written(operand); };
    if (draft_.producer(value) != value) return false;  // its step stores others, too
    return draft_.readers[value].empty() && !draft_.is_output[value] &&
           std::ranges::none_of(g_.operands(value), reads_written) &&
           draft_.kept_for(value, level) <= tensor_bytes(g_[value]);
  }

  // An effect follows every kernel and every copy that reads what it overwrites. Where copies wait for each other (a
  // swap), the old value of one state is saved first.
  void order_effects() {
    std::unordered_map<node_id, std::size_t> waits;  // copies that have to come before an effect
    for (node_id id{0}; id < g_.size(); ++id) {
      if (!copied_by_[id].empty()) waits[draft_.writer[id]] += copied_by_[id].size();
    }
    std::vector<node_id> ready;
    for (node_id effect : g_.effects()) {
      if (waits[effect] == 0) ready.push_back(effect);
    }
    std::size_t done = 0;
    for (node_id left : g_.effects()) {
      for (; done < ready.size(); ++done) {
        const node_id effect = ready[done];
        order_effect(effect);
        if (g_[effect].kind != op::assign || saves_of_.contains(g_.operand(effect, 1))) continue;
        const node_id source = g_.operand(effect, 1);
        if (draft_.is_written(source) && !assigns_itself(effect) && --waits[draft_.writer[source]] == 0)
          ready.push_back(draft_.writer[source]);
      }
      if (ordered_.contains(left)) continue;  // else it waits in a circle of assigns: nobody waits for an optimizer
      save_for_copies(g_.operand(left, 0));
      ready.push_back(left);
    }
    for (; done < ready.size(); ++done) order_effect(ready[done]);
  }

  void order_effect(node_id effect) {
    std::uint32_t level = draft_.first_level;
    const auto operands = g_.operands(effect);
    for (node_id operand : operands) level = std::max(level, places_[operand].level + 1);
    for (const update& each : g_.updates(effect)) {
      for (node_id reader : draft_.readers[each.target]) level = std::max(level, places_[reader].level + 1);
      for (node_id copied : copied_by_[each.target]) {  // one that is not ordered yet will read what was saved
        if (ordered_.contains(copied)) level = std::max(level, places_[copied].level + 1);
      }
    }
    places_[effect].level = level;
    ordered_.insert(effect);
    if (g_[effect].kind != op::assign || computed_in_place_.contains(effect) || assigns_itself(effect)) return;
    copy made{.order = copy::update, .level = level, .from = operands[1], .to = places_[operands[0]].where};
    if (const auto saved = saves_of_.find(operands[1]); saved != saves_of_.end()) {
      made.from_scratch = saved->second;
      draft_.scratches[saved->second].last = std::max(draft_.scratches[saved->second].last, level);
    }
    draft_.copies.push_back(made);
  }

  std::size_t save(node_id leaf, std::uint32_t level, std::uint32_t last) {
    draft_.scratches.push_back({.first = level, .last = last, .bytes = tensor_bytes(g_[leaf]), .where = {}});
    draft_.copies.push_back(
        {.order = copy::save, .level = level, .from = leaf, .to_scratch = draft_.scratches.size() - 1, .to = {}});
    return draft_.scratches.size() - 1;
  }

  void save_for_copies(node_id state) { saves_of_[state] = save(state, draft_.first_level, draft_.first_level); }

  // The host reads an output after the step, when this or another program may have written parameters and states: what
  // they were in the step is kept for it.
  void save_outputs() {
    for (node_id id{0}; id < g_.size(); ++id) {
      if (!draft_.is_output[id] || draft_.is_result(id)) continue;
      if (g_[id].kind != op::parameter && g_[id].kind != op::state) continue;
      draft_.saved_outputs[id] =
          save(id, draft_.is_written(id) ? places_[draft_.writer[id]].level : draft_.first_level, never);
    }
  }

  std::vector<std::vector<node_id>> copied_by_;        // assigns whose value is this leaf, which is overwritten too
  std::unordered_set<node_id> ordered_;                // effects whose level is final
  std::unordered_set<node_id> saved_;                  // leaves copied into a gradient
  std::unordered_set<node_id> computed_in_place_;      // assigns that need no copy
  std::unordered_map<node_id, std::size_t> saves_of_;  // scratch holding a leaf's old value
  draft& draft_;
  const graph& g_;
  std::vector<placement>& places_;
};

MEGANEURA_INLINE void place_effects(draft& all) { effect_placer(all).run(); }

}  // namespace meganeura::inline MEGANEURA_ABI::plan::detail
