// SPDX-License-Identifier: MIT
// Definitions for fusion/implement.hpp: which operands a region computes itself, and the forms of it that come of that.
#pragma once
#include <meganeura/fusion/implement.hpp>
#include <meganeura/fusion/kernel_family.hpp>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI::fusion {

MEGANEURA_INLINE implementation_pass::class_forms& implementation_pass::forms(class_id id) {
  return forms_[g_.find(id)];
}
MEGANEURA_INLINE const implementation_pass::class_forms& implementation_pass::forms(class_id id) const {
  return forms_[g_.find(id)];
}

MEGANEURA_INLINE region_view implementation_pass::form_of(enode_id id) const {
  return {g_.get<region_attribute>(id), g_.operands(id)};
}

MEGANEURA_INLINE enode_id implementation_pass::copy_form(class_id id) const {
  const enode_id form = forms(id).conservative;
  return form != no_id && detail::is_copy(g_.get<region_attribute>(form)) ? form : no_id;
}

MEGANEURA_INLINE enode_id implementation_pass::copy_form(class_id id, dtype source) const {
  const enode_id usual = copy_form(id);
  if (usual == no_id || source_type(usual) == source) return usual;
  for (const enode_id node : g_[g_.find(id)].nodes) {
    const bool copies = g_.node(node).kind == op::region && detail::is_copy(g_.get<region_attribute>(node));
    if (copies && source_type(node) == source) return node;
  }
  return usual;
}

MEGANEURA_INLINE void implementation_pass::note_kernel(class_id id, std::span<const enode_id> nodes) {
  for (enode_id node : nodes) {
    const op kind = g_.node(node).kind;
    kernel_[g_.find(id)] = kernel_[g_.find(id)] || (info(kind).runs && kind != op::region);
  }
}

// ---- decisions ------------------------------------------------------------------------------------------------------

MEGANEURA_INLINE stability implementation_pass::trace(enode_id region) const {
  const auto& loops = g_.get<region_attribute>(region);
  program_flags unstable;
  for (const index_map& read : loops.accesses) {
    const class_id source = read.source < 0 ? no_id : g_.operand(region, static_cast<std::size_t>(read.source));
    // What every reader takes from memory is one and the same, unless it is spelled in two ways.
    const bool stored =
        source == no_id || (!respelled_[source] && (has_kernel(source) ? uses_[source] : deciding_uses_[source]) > 1);
    unstable.push_back(!stored && unstable_[source]);
  }
  return trace_unstable(loops.program, unstable);
}

MEGANEURA_INLINE void implementation_pass::find_respelled() {
  respelled_.assign(g_.class_slots(), false);
  for (const class_id id : order_) {
    for (const enode_id node : g_[id].nodes) {
      for (const structural rule : {structural::convolution_to_contract, structural::split_sum,
                                    structural::split_filter, structural::split_reduce})
        respelled_[id] = respelled_[id] || has(g_.node(node).reasons, rule);
    }
  }
}

MEGANEURA_INLINE void implementation_pass::note_unstable(class_id id) {
  for (enode_id node : g_[id].nodes) {
    const bool region = g_.node(node).kind == op::region;
    if (detail::epilogue_of(g_, node) || (region && trace(node).result)) unstable_[id] = true;
  }
}

// A decision by a sum is made in one kernel; a sum that decides several things is read from one place by all of them.
// Readers that decide nothing may add it up again.
MEGANEURA_INLINE bool implementation_pass::must_be_stored(class_id id, enode_id form, bool deciding) const {
  if (form == no_id || uses_[id] <= 1) return false;
  const stability found = trace(form);
  return found.decision || (found.result && deciding && deciding_uses_[id] > 1);
}

MEGANEURA_INLINE bool implementation_pass::decides_by_product(enode_id product) const {
  const scalar_program& program = detail::epilogue_of(g_, product)->program;
  const bool unstable[] = {true, true};
  return g_[g_.find(g_.node(product).owner)].decides ||
         trace_unstable(program, std::span(unstable).first(detail::sums_of(g_, product))).decision;
}

// ---- choices --------------------------------------------------------------------------------------------------------

MEGANEURA_INLINE bool implementation_pass::worth_inlining(class_id id, enode_id form, const region_draft& base) const {
  const auto& region = g_.get<region_attribute>(form);
  if (region.space.elements() >= base.loops.space.elements()) return true;
  // Repeated for each element of a larger space: fine for cheap programs only.
  return region.row_axes == 0 && program_cost(region.program, options_.device) <= 4 && g_.extents(id).elements() > 0;
}

// A map that makes a narrow dtype of something else: a cast of a number, or arithmetic that reads none of that dtype.
MEGANEURA_INLINE bool implementation_pass::narrows(enode_id node) const {
  if (g_.node(node).kind != op::map) return false;
  const dtype type = g_.node(node).type;
  const std::span<const scalar_node> program = g_.get<map_attribute>(node).program.nodes;
  if (program.back().op == scalar_op::convert) return program[program.back().operands[0]].type != dtype::boolean;
  return std::ranges::none_of(g_.operands(node), [&](class_id id) { return g_[g_.find(id)].type == type; });
}

// Inlining skips the rounding of what would have been stored, which integers need. Arithmetic on f16 may keep more
// digits unless exactness was asked for or something depends on the very bits; a cast asks for the rounding itself, but
// not that of widen_product.
MEGANEURA_INLINE bool implementation_pass::rounds(class_id id) const {
  const dtype type = g_[id].type;
  if (!is_narrow(type)) return false;
  const enode_id copy = copy_form(id);
  if (copy != no_id && source_type(copy) == type) return false;
  if (is_integer(type) || !enabled(structural::skip_rounding) || g_[id].decides) return true;
  const bool is_cast = std::ranges::any_of(g_[id].nodes, [&](enode_id node) { return narrows(node); });
  return is_cast && !has_node(id, op::contract);
}

MEGANEURA_INLINE bool implementation_pass::has_node(class_id id, op kind) const {
  return std::ranges::any_of(g_[id].nodes, [&](enode_id node) { return g_.node(node).kind == kind; });
}

namespace detail {
inline constexpr double long_program = 16;  // operations, as costs count them
}

MEGANEURA_INLINE implementation_pass::producer implementation_pass::consider(class_id id, const region_draft& base,
                                                                             bool deciding) const {
  producer result{.id = id};
  if (id == no_id) return result;
  const class_forms& f = forms(id);
  if (f.conservative == no_id || rounds(id)) return result;
  if (is_narrow(g_[id].type) && has_node(id, op::matmul)) return result;  // whose region would be widen_product's
  const auto& region = g_.get<region_attribute>(f.conservative);
  const bool reads_memory = g_.node(f.conservative).operand_count > 0;
  if (!reads_memory && region.row_axes == 0) {  // a function of the index alone, e.g. an iota
    result.conservative = result.greedy = result.other = choice::conservative;
    // What takes long is worth a table, which all that reads it may share: before it is repeated, if it is.
    const bool repeats = f.greedy != no_id && detail::is_copy(g_.get<region_attribute>(f.greedy));
    if (repeats)
      result.greedy = choice::greedy;
    else if (uses_[id] > 1 && program_cost(region.program, options_.device) > detail::long_program)
      result.greedy = choice::leaf;
    return result;
  }
  const bool is_other_sum = respelled_[id] && deciding && deciding_uses_[id] > 1;  // of which others decide
  if (detail::is_copy(region) && !is_other_sum) {  // reading through a view is free; what it reads may be fused as well
    result.conservative = result.other = choice::conservative;
    // A product reads through views, but only what is stored in its dtype.
    if (source_type(f.conservative) != g_[id].type) result.other = choice::leaf;
    const bool more = f.greedy != no_id && f.greedy != f.conservative && worth_inlining(id, f.greedy, base);
    result.greedy = more ? choice::greedy : choice::conservative;
    return result;
  }
  const bool cheap = worth_inlining(id, f.conservative, base);
  const bool alone = uses_[id] <= 1;
  if (must_be_stored(id, f.conservative, deciding) || must_be_stored(id, f.greedy, deciding)) return result;
  result.other = choice::conservative;
  if (alone && cheap && enabled(structural::fuse_pointwise)) {
    result.conservative = choice::conservative;
    result.greedy = choice::greedy;
    if (has_kernel(id)) result.other = choice::leaf;
  } else if (!enabled(structural::recompute)) {
    result.other = choice::leaf;
  } else if (!has_kernel(id) && !hard_[id] && f.greedy != no_id && worth_inlining(id, f.greedy, base)) {
    result.greedy = choice::greedy;
  }
  return result;
}

MEGANEURA_INLINE void implementation_pass::add_operand(region_draft& draft, class_id operand, const index_map& how) {
  operand = g_.find(operand);
  if (g_[operand].constant) {
    draft.add_constant(*g_[operand].constant, g_[operand].type);
  } else {
    draft.add_read(operand, g_[operand].type, how);
  }
}

// A kernel that adds up a value for one argument and reads it for another could find it unequal to itself.
MEGANEURA_INLINE bool implementation_pass::read_everywhere(std::span<const producer> producers,
                                                           std::span<choice> choices, std::size_t which) {
  bool first = true;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (producers[i].id != producers[which].id) continue;
    first = first && (i >= which || choices[i] == choice::leaf);
    choices[i] = choice::leaf;
  }
  return first;
}

MEGANEURA_INLINE enode_id implementation_pass::form_by(class_id id, choice how) const {
  const class_forms& f = forms(id);
  return how == choice::greedy && f.greedy != no_id ? f.greedy : f.conservative;
}

MEGANEURA_INLINE structural implementation_pass::inlining(class_id id, const region_attribute& form) const {
  return detail::is_copy(form) ? structural::fuse_view
         : uses_[id] > 1       ? structural::recompute
         : form.row_axes > 0   ? structural::fuse_rows
                               : structural::fuse_pointwise;
}

MEGANEURA_INLINE bool implementation_pass::inline_producers(class_id owner, std::span<const producer> producers,
                                                            std::span<choice> choices) {
  for (std::size_t i = 0; i < producers.size(); ++i) {
    if (choices[i] == choice::leaf) continue;
    const class_id id = producers[i].id;
    const region_view view = form_of(form_by(id, choices[i]));
    const structural rule = inlining(id, view.loops);
    const char* problem = enabled(rule) ? nullptr : "the rule is disabled";
    if (view.loops.row_axes > 0 && !enabled(structural::fuse_rows)) problem = "the rule is disabled";
    for (class_id operand : view.operands) {
      if (g_.find(operand) == owner || g_.find(operand) == id) problem = "it would read itself";
    }
    // Whole rows of which other readers see other axes were not quicker computed twice (a U-Net's training: 1.43 ms for
    // 1.39 where groups of channels are normalised once).
    if (!problem) problem = draft_.inline_form(i, view, uses_[id] <= 1);
    if (!problem) continue;
    note_missed({owner, id, rule, problem});
    if (!read_everywhere(producers, choices, i)) return false;
  }
  return true;
}

MEGANEURA_INLINE bool implementation_pass::put_together(class_id owner, const region_draft& base,
                                                        const scalar_program& root, structural rule,
                                                        std::span<const producer> producers,
                                                        std::span<choice> choices) {
  for (;;) {
    draft_ = base;
    if (!inline_producers(owner, producers, choices)) continue;
    const bool fused = std::any_of(choices.begin(), choices.end(), [](choice c) { return c != choice::leaf; });
    const char* problem = draft_.finish(root, form_, fused);
    if (!problem) return true;
    // Too large: give up the last fusion that is more than a view, and try again.
    std::size_t last = choices.size();
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (choices[i] != choice::leaf && (last == choices.size() || copy_form(producers[i].id) == no_id)) last = i;
    }
    if (last == choices.size()) {
      note_missed({owner, no_id, rule, problem});
      return false;
    }
    note_missed({owner, producers[last].id, structural::fuse_pointwise, problem});
    (void)read_everywhere(producers, choices, last);
  }
}

MEGANEURA_INLINE rule_mask implementation_pass::reasons_of(structural rule, std::span<const producer> producers,
                                                           std::span<const choice> choices) {
  rule_mask reasons = bit(rule) | reasons_;
  note_applied(rule);
  for (std::size_t i = 0; i < producers.size(); ++i) {
    if (choices[i] == choice::leaf) continue;
    const class_id id = producers[i].id;
    const enode_id form = form_by(id, choices[i]);
    const auto& loops = g_.get<region_attribute>(form);
    const structural how = inlining(id, loops);
    note_applied(how);
    reasons |= bit(how) | g_.node(form).reasons;
    const dtype type = g_[g_.find(id)].type;
    if (is_narrow(type) && !(detail::is_copy(loops) && source_type(form) == type))
      reasons |= bit(structural::skip_rounding);
    if (loops.row_axes > 0) reasons |= bit(structural::fuse_rows);
  }
  return reasons;
}

// Layers are alike: what is put together of equal drafts and forms, that read one another's operands in the same way,
// is put together once.
MEGANEURA_INLINE enode_id implementation_pass::emit_choice(class_id owner, const region_draft& base, word_id draft,
                                                           const scalar_program& root, structural rule,
                                                           std::span<const producer> producers, choice_list choices) {
  words_.assign(1, draft);
  classes_ = draft_classes_;
  for (std::size_t i = 0; i < producers.size(); ++i) {
    if (choices[i] == choice::leaf) {
      words_.push_back(0);
      continue;
    }
    const enode_id form = form_by(producers[i].id, choices[i]);
    const bool is_copy = copy_form(producers[i].id) != no_id, is_shared = uses_[producers[i].id] > 1;
    words_.push_back(std::uint64_t{g_.node(form).attribute + 1} << 2 | std::uint64_t{is_copy} << 1 | is_shared);
    for (class_id operand : g_.operands(form)) words_.push_back(detail::append_once(classes_, 0, operand));
  }
  const bool is_current = std::ranges::all_of(classes_, [&](class_id id) { return g_.find(id) == id; });
  const word_id key = is_current ? choices_known_.intern(words_) : no_id;
  if (is_current && key < together_.size() && together_[key].is_known) {
    const region_together& known = together_[key];
    for (const auto& [argument, how, guard] : known.missed)
      note_missed(
          {owner, argument < 0 ? class_id(no_id) : producers[static_cast<std::size_t>(argument)].id, how, guard});
    if (known.node == no_id) return no_id;
    for (std::size_t i = 0; i < choices.size(); ++i) choices[i] = known.is_read[i] ? choice::leaf : choices[i];
    class_list operands;
    for (std::uint8_t place : known.operands) operands.push_back(classes_[place]);
    const rule_mask reasons = reasons_of(rule, producers, choices);
    return emit_region(owner, g_.get<region_attribute>(known.node), operands, reasons);
  }
  const std::size_t missed = missed_.size();
  const bool is_made = put_together(owner, base, root, rule, producers, choices);
  const enode_id node = !is_made
                            ? enode_id(no_id)
                            : emit_region(owner, form_.loops, form_.operands, reasons_of(rule, producers, choices));
  if (!is_current || (is_made && node == no_id)) return node;
  if (together_.size() <= key) together_.resize(key + 1);
  region_together& made = together_[key];
  made.is_known = true, made.node = node;
  for (choice each : choices) made.is_read.push_back(each == choice::leaf);
  for (const missed_fusion& each : std::span(missed_).subspan(missed)) {
    const auto at = std::ranges::find(producers, each.producer, &producer::id);
    made.missed.push_back(
        {each.producer == no_id ? -1 : static_cast<int>(at - producers.begin()), each.rule, each.guard});
  }
  if (!is_made) return node;
  for (class_id operand : form_.operands)
    made.operands.push_back(static_cast<std::uint8_t>(detail::append_once(classes_, 0, operand)));
  return node;
}

MEGANEURA_INLINE word_id implementation_pass::identify(class_id owner, const region_draft& base,
                                                       const scalar_program& root, structural rule) {
  words_.assign(1, static_cast<std::uint64_t>(rule));
  draft_classes_ = {owner};
  base.identify(words_, draft_classes_);
  for (const scalar_node& node : root.nodes) {
    words_.push_back(meganeura::detail::packed(static_cast<int>(node.op) << 8 | static_cast<int>(node.type),
                                               node.operands[0], node.operands[1], node.operands[2]));
    words_.push_back(meganeura::detail::bits_of(node.value));
  }
  return drafts_.intern(words_);
}

MEGANEURA_INLINE void implementation_pass::emit_regions(class_id owner, const region_draft& base,
                                                        const scalar_program& root, structural rule) {
  small_vector<producer, 16> producers;
  choice_list conservative, greedy;
  program_flags deciding = deciding_arguments(root);
  deciding.resize(base.arguments(), false);
  for (std::size_t i = 0; i < base.arguments(); ++i) {
    producers.push_back(consider(base.source(i), base, deciding[i] || g_[g_.find(owner)].decides));
    conservative.push_back(producers.back().conservative);
    greedy.push_back(producers.back().greedy);
  }
  const word_id draft = identify(owner, base, root, rule);
  const auto emit = [&](const choice_list& choices) {
    return emit_choice(owner, base, draft, root, rule, producers, choices);
  };
  keep(owner, emit(conservative), true);
  if (greedy != conservative) keep(owner, emit(greedy), false);
  std::size_t made = 2;
  for (std::size_t i = 0; i < producers.size() && made < options_.forms; ++i) {
    const auto same = [&](const producer& other) { return other.id == producers[i].id; };
    if (producers[i].other == producers[i].conservative) continue;
    if (std::any_of(producers.begin(), producers.begin() + i, same)) continue;
    choice_list toggled = conservative;
    for (std::size_t k = i; k < producers.size(); ++k) {
      if (same(producers[k])) toggled[k] = producers[k].other;
    }
    emit(toggled);
    ++made;
  }
}

MEGANEURA_INLINE void implementation_pass::keep(class_id owner, enode_id node, bool conservative) {
  if (node == no_id || g_.node(node).kind != op::region) return;
  owner = g_.find(owner);
  const double cost = node_time(g_, node, options_.device).alone;
  class_forms& f = forms(owner);
  if (!conservative) {
    f.greedy = node;
  } else if (f.conservative == no_id || cost < f.conservative_cost) {
    if (f.greedy == f.conservative) f.greedy = node;
    f.conservative = node;
    f.conservative_cost = cost;
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
