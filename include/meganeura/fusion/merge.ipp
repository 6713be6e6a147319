// SPDX-License-Identifier: MIT
// Definitions for fusion/merge.hpp.
#pragma once
#include <meganeura/fusion/merge.hpp>
#include <meganeura/fusion/structural_rules.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

class region_merger {
 public:
  region_merger(engine& g, const extraction& chosen, const region_limits& limits, const egraph::choice_so_far& choice)
      : g_(g),
        chosen_(chosen),
        limits_(limits),
        choice_(choice),
        levels_(g.class_slots(), -1),
        readers_(g.class_slots()) {
    for (class_id id : chosen.order) {
      levels_[id] = 0;
      const int step = g.node(chosen.chosen[id]).kind == op::result ? 0 : 1;
      for (class_id operand : g.operands(chosen.chosen[id]))
        levels_[id] = std::max(levels_[id], levels_[g.find(operand)] + step);
    }
  }

  void run(const std::function<bool(class_id)>& is_free) {
    for (class_id id : chosen_.order) {
      if (is_free(id)) continue;
      const enode_id chosen = chosen_.chosen[id];
      const bool is_region = g_.node(chosen).kind == op::region && region(chosen).further.empty();
      if ((is_region || is_result_of_region(chosen)) && g_[id].type != dtype::boolean && !joins_another(id) &&
          is_region)
        begin_group(id);
    }
    for (const group& each : groups_) leave_out_unread(each.all);
  }

 private:
  struct member {
    class_id value = no_id;
    enode_id region = no_id;              // one that computes it
    std::optional<region_form> inside{};  // the same without reads of other members
  };
  using members = std::vector<member>;
  using group_list = small_vector<std::size_t, 4>;  // positions in groups_
  struct group {
    members all;
    int first = 0, last = 0;  // levels of the members
    int reads = -1;           // the latest level of what they read
  };

  [[nodiscard]] bool is_result_of_region(enode_id node) const {
    if (g_.node(node).kind != op::result) return false;
    const enode_id several = chosen_.chosen[g_.find(g_.operand(node, 0))];
    return several != no_id && g_.node(several).kind == op::region;
  }
  [[nodiscard]] const region_attribute& region(enode_id form) const { return g_.get<region_attribute>(form); }
  [[nodiscard]] region_view view(const member& of) const {
    if (of.inside) return {of.inside->loops, of.inside->operands};
    return {region(of.region), g_.operands(of.region)};
  }

  void begin_group(class_id id) {
    const int level = levels_[id];
    groups_.push_back({{{id, chosen_.chosen[id]}}, level, level, level - 1});
    note_member(groups_.size() - 1, id, chosen_.chosen[id]);
  }
  // Who reads the member itself may find it inside of the group's kernel.
  void note_member(std::size_t which, class_id id, enode_id form) {
    readers_[id].push_back(which);
    for (class_id operand : g_.operands(form)) {
      group_list& readers = readers_[g_.find(operand)];
      if (readers.empty() || readers.back() != which) readers.push_back(which);
    }
  }

  bool joins_another(class_id id) {
    const node_list forms = g_[id].nodes;
    for (enode_id form : forms) {
      if (g_.node(form).dead || g_.node(form).kind != op::region || g_.node(form).operand_count == 0) continue;
      for (class_id operand : g_.operands(form)) {
        const group_list& readers = readers_[g_.find(operand)];
        const std::size_t first = readers.size() - std::min<std::size_t>(readers.size(), 2);
        for (std::size_t i = readers.size(); i-- > first;) {
          if (join(groups_[readers[i]], readers[i], id, form)) return true;
        }
      }
    }
    return false;
  }

  // Due with the group: what it reads is there before any of them is due, and none is computed long before that, which
  // would only keep its memory.
  bool join(group& others, std::size_t which, class_id id, enode_id form) {
    group joined{{}, std::min(others.first, levels_[id]), std::max(others.last, levels_[id]), others.reads};
    bool reads_member = false;
    for (class_id operand : g_.operands(form)) {
      operand = g_.find(operand);
      if (find(others.all, operand) != others.all.end()) {
        reads_member = true;
        continue;
      }
      if (levels_[operand] < 0) return false;
      joined.reads = std::max(joined.reads, levels_[operand]);
    }
    if (joined.reads >= joined.first || joined.last > joined.reads + 3) return false;
    if (choice_.by_groups && !reads_member) return false;  // what runs beside each other was tried before
    member joining{id, form};
    if (!compute_inside(joining, others.all) || !alike(view(others.all[0]).loops, view(joining).loops)) return false;
    joined.all = others.all;
    joined.all.push_back(std::move(joining));
    const std::optional<class_id> made = add(joined.all);
    if (!made || !choice_.offer(*made)) return false;
    others = std::move(joined);
    note_member(which, id, form);
    return true;
  }
  [[nodiscard]] static members::const_iterator find(const members& among, class_id value) {
    return std::ranges::find(among, value, &member::value);
  }

  // The loops of rows of one length and as many of them, or of single elements.
  [[nodiscard]] static bool alike(const region_attribute& a, const region_attribute& b) {
    const std::int64_t row_a = row_length(a), row_b = row_length(b);
    return a.space.elements() == b.space.elements() && (row_a == row_b || row_a == 1 || row_b == 1);
  }

  // What the new member reads of the others it takes from inside of the kernel, where it is before it is rounded to
  // the dtype it is stored in. False where it cannot.
  [[nodiscard]] bool compute_inside(member& joining, const members& others) const {
    const region_attribute& own = region(joining.region);
    const std::span<const class_id> operands = g_.operands(joining.region);
    const auto source = [&](const index_map& read) {
      return read.source < 0 ? static_cast<class_id>(no_id) : g_.find(operands[static_cast<std::size_t>(read.source)]);
    };
    const auto reads_member = [&](const index_map& read) { return find(others, source(read)) != others.end(); };
    if (std::ranges::none_of(own.accesses, reads_member)) return true;
    small_vector<dtype, 16> types(own.accesses.size(), dtype::f32);
    for (const scalar_node& node : own.program.nodes) {
      if (node.op == scalar_op::argument) types[static_cast<std::size_t>(node.value)] = node.type;
    }
    region_draft draft(limits_);
    draft.loops = to_nest(own);
    draft.loops.accesses = {own.output};
    draft.per_row = own.per_row;
    for (std::size_t i = 0; i < own.accesses.size(); ++i)
      draft.add_read(source(own.accesses[i]), types[i], own.accesses[i]);
    for (std::size_t i = 0; i < own.accesses.size(); ++i) {
      if (!reads_member(own.accesses[i])) continue;
      const member& read = *find(others, source(own.accesses[i]));
      if (is_narrow(g_[read.value].type) || draft.inline_form(i, view(read)) != nullptr) return false;
    }
    region_form form;
    if (draft.finish(own.program, form, true) != nullptr) return false;
    joining.inside = std::move(form);
    return true;
  }

  // What members computed inside of others may have been read by these alone.
  void leave_out_unread(const members& all) {
    members read;
    for (const member& each : all) {
      if (choice_.is_read(each.value)) read.push_back(each);
    }
    if (read.size() < 2 || read.size() == all.size()) return;
    if (const std::optional<class_id> made = add(std::move(read))) (void)choice_.offer(*made);
  }

  // The class of the region with these values as results; nothing where there is no such region.
  std::optional<class_id> add(members values) {
    const auto elements = [&](const member& each) { return g_.extents(each.value).elements(); };
    std::ranges::stable_sort(values, std::ranges::greater(), elements);  // a row's value needs the row
    region_draft draft(limits_);
    flat_loops(draft, {elements(values[0])});
    std::vector<tensor_spec> types;
    rule_mask reasons = bit(structural::merge_regions);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const class_id id = values[i].value;
      const bool whole = elements(values[i]) == elements(values[0]);
      const std::optional<index_map> where = whole ? draft.loops.accesses[0] : draft.row_positions(elements(values[i]));
      if (!where) return {};
      draft.add_read(id, g_[id].type, *where);
      if (draft.inline_form(i, view(values[i])) != nullptr) return {};
      types.push_back({g_[id].type, g_.extents(id)});
      reasons |= g_.node(values[i].region).reasons;
    }
    region_form form;
    std::vector<std::size_t> number;  // of each value among the results
    if (draft.finish_several(types, form, number) != nullptr) return {};
    g_.at(g_.node(values[0].region).path);
    const tensor_spec& first = types[static_cast<std::size_t>(std::ranges::find(number, 0u) - number.begin())];
    const std::size_t before = g_.class_slots();
    const class_id made = g_.add(op::region, first.type, first.extents, form.loops, form.operands, reasons);
    if (g_.class_slots() == before) return made;  // another choice had it
    for (std::size_t i = 0; i < values.size(); ++i)
      g_.add_to(values[i].value, op::result, result_attribute{number[i]}, std::span(&made, 1), reasons,
                skips_rounding(g_.node(values[i].region).reasons));
    return made;
  }

  engine& g_;
  const extraction& chosen_;
  const region_limits& limits_;
  const egraph::choice_so_far& choice_;
  std::vector<int> levels_;  // the steps before what was chosen; -1: it was not
  std::vector<group> groups_;
  std::vector<group_list> readers_;  // of a class: groups that read it or have it
};

}  // namespace detail

MEGANEURA_INLINE void merge_regions(engine& g, const extraction& chosen, const region_limits& limits,
                                    const egraph::choice_so_far& choice, const std::function<bool(class_id)>& is_free) {
  detail::region_merger(g, chosen, limits, choice).run(is_free);
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
