// SPDX-License-Identifier: MIT
// Definitions for fusion/implement.hpp: the pass over all classes, and adding what the rules make.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/fusion/implement.hpp>
#include <meganeura/fusion/kernel_family.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::fusion {

MEGANEURA_INLINE std::string to_string(structural rule) {
  if (static_cast<int>(rule) < detail::rules_by_name) return structural_rules[static_cast<int>(rule)].name;
  std::string name;
  detail::for_each_implementation([&]<op Kind> {
    if (rule == making(Kind)) name = fmt::format("{}_to_{}", to_string(info(Kind).implements), to_string(Kind));
    if (rule == ending(Kind)) name = fmt::format("{}_epilogue", to_string(Kind));
  });
  return name;
}

// ---- products -------------------------------------------------------------------------------------------------------

MEGANEURA_INLINE const product_choice& implementation_pass::best(const product_extents& product, dtype operands,
                                                                 const product_start& start) {
  const auto [at, is_new] = products_.try_emplace({product, operands, start});
  if (!is_new) return at->second;
  const bool half = operands == dtype::f16;
  const product_arithmetic arithmetic = half ? product_arithmetic::half : arithmetic_of(options_.precision);
  auto forced = options_.schedule ? product_schedules(arithmetic, product, device()) : std::vector<product_schedule>();
  if (!start.is_empty()) std::erase_if(forced, [](const auto& s) { return s.places != place_axes::none; });
  if (product.paired || start.statistics)
    std::erase_if(forced, [&](const auto& s) {
      return s.parts > 1 || !fits_beside(s, start.statistics, product.paired, device());
    });
  if (!forced.empty()) {
    product_schedule& asked = at->second.schedule = forced[*options_.schedule % forced.size()];
    const std::uint32_t least = asked.parts;
    if (!start.statistics) asked.parts += static_cast<std::uint32_t>(*options_.schedule / forced.size() % 4);
    if (!shares_terms(asked, product, device())) asked.parts = least;
  } else if (half) {
    at->second = best_half_product(product, device());
  } else if (product.paired || !start.is_empty()) {
    at->second = best_product_on_units(product, start, options_.precision, device());
  } else {
    at->second = best_product(product, options_.precision, device());
  }
  return at->second;
}

MEGANEURA_INLINE implementation_pass::product_together& implementation_pass::product_like(
    std::span<const std::uint64_t> words) {
  const word_id id = products_known_.intern(words);
  if (id >= products_together_.size()) products_together_.resize(id + 1);
  return products_together_[id];
}

// ---- traversal ------------------------------------------------------------------------------------------------------

MEGANEURA_INLINE void implementation_pass::visit(class_id root) {
  // Depth first without recursion: models are deeper than stacks.
  struct frame {
    class_id id;
    std::size_t node, operand;
  };
  std::vector<frame> stack;
  const auto open = [&](class_id id) {
    if (state_[id] != 0) return;
    state_[id] = 1;
    stack.push_back({id, 0, 0});
  };
  open(g_.find(root));
  while (!stack.empty()) {
    frame& top = stack.back();
    const node_list& nodes = g_[top.id].nodes;
    if (top.node == nodes.size()) {
      state_[top.id] = 2;
      order_.push_back(top.id);
      stack.pop_back();
    } else if (top.operand == g_.node(nodes[top.node]).operand_count) {
      ++top.node;
      top.operand = 0;
    } else {
      open(g_.operand(nodes[top.node], top.operand++));
    }
  }
}

MEGANEURA_INLINE void implementation_pass::count_uses(std::span<const class_id> roots) {
  uses_.assign(g_.class_slots(), 0);
  deciding_uses_.assign(g_.class_slots(), 0);
  hard_.assign(g_.class_slots(), false);
  for (class_id root : roots) {
    ++uses_[g_.find(root)];
    hard_[g_.find(root)] = true;
  }
  std::vector<class_id> counted_for(g_.class_slots(), no_id), decided_for(g_.class_slots(), no_id);
  for (std::size_t i = order_.size(); i-- > 0;) {  // users before operands
    const class_id id = order_[i];
    for (enode_id parent : g_[id].parents) {
      const class_id user = g_.find(g_.node(parent).owner);
      if (g_.node(parent).dead || state_[user] != 2 || user == id) continue;
      const op kind = g_.node(parent).kind;
      if (decided_for[user] != id && (kind == op::view || g_.decides_for(parent, id))) {
        decided_for[user] = id;
        deciding_uses_[id] += kind == op::view ? deciding_uses_[user] : 1;
      }
      if (counted_for[user] == id) continue;
      counted_for[user] = id;
      if (kind == op::view) {
        uses_[id] += uses_[user];
        hard_[id] = hard_[id] || hard_[user];
      } else {
        ++uses_[id];
        if (kind != op::map && kind != op::reduce && kind != op::pad && kind != op::concat) hard_[id] = true;
      }
    }
  }
}

MEGANEURA_INLINE void implementation_pass::find_depths() {
  depth_.assign(g_.class_slots(), 0);
  for (const class_id id : order_) {
    for (const enode_id node : g_[id].nodes) {
      for (const class_id operand : g_.operands(node)) depth_[id] = std::max(depth_[id], depth_[g_.find(operand)] + 1);
    }
  }
}

MEGANEURA_INLINE void implementation_pass::find_outlets(std::span<const class_id> roots) {
  outlets_.assign(g_.class_slots(), {});
  std::vector<bool> known(g_.class_slots());
  is_root_.assign(g_.class_slots(), false);
  for (class_id root : roots) is_root_[g_.find(root)] = true;
  const auto steps = [&](class_id id) { return id == no_id ? 0 : outlets_[id].steps; };
  for (std::size_t i = order_.size(); i-- > 0;) {  // users before operands
    const class_id id = order_[i];
    class_id common = no_id;
    bool any = false, several = is_root_[id];
    for (enode_id parent : g_[id].parents) {
      class_id user = g_.find(g_.node(parent).owner);
      if (several || g_.node(parent).dead || state_[user] != 2 || user == id) continue;
      several = !known[user];  // in a circle of equal forms
      if (!any) common = user;
      any = true;
      while (!several && common != user) {
        class_id& farther = steps(common) >= steps(user) ? common : user;
        several = farther == no_id || outlets_[farther].id == no_id;
        farther = several ? no_id : outlets_[farther].id;
      }
    }
    if (!several && any) outlets_[id] = {common, steps(common) + 1};
    known[id] = true;
  }
}

MEGANEURA_INLINE bool implementation_pass::serves_only(class_id value, enode_id region) const {
  const class_id reader = g_.find(g_.node(region).owner);
  class_id at = outlets_[g_.find(value)].id;
  while (at != no_id && g_.find(at) != reader) at = outlets_[at].id;
  return at != no_id && goes_into(value, std::span(&region, 1), g_.class_slots());
}

MEGANEURA_INLINE bool implementation_pass::decides_only_in(class_id value, enode_id region) const {
  constexpr std::size_t long_way = 24;
  return !g_[g_.find(value)].decides || goes_into(value, std::span(&region, 1), long_way, true);
}

MEGANEURA_INLINE bool implementation_pass::serves_only(class_id value, std::span<const enode_id> regions) const {
  constexpr std::size_t long_way = 24;
  return regions.size() == 1 ? uses(value) == 1 || serves_only(value, regions[0]) : goes_into(value, regions, long_way);
}

// Whether all of at most so many values on their way from one to the regions end there, unread by these; or all that
// decide something.
MEGANEURA_INLINE bool implementation_pass::goes_into(class_id value, std::span<const enode_id> regions,
                                                     std::size_t most, bool deciding) const {
  const auto is_result = [&](class_id id) {
    return std::ranges::any_of(regions, [&](enode_id region) { return g_.find(g_.node(region).owner) == id; });
  };
  const auto is_read = [&](class_id id) {
    return std::ranges::any_of(regions, [&](enode_id region) {
      return std::ranges::any_of(g_.operands(region), [&](class_id operand) { return g_.find(operand) == id; });
    });
  };
  class_list made = {g_.find(value)};
  for (std::size_t i = 0; i < made.size(); ++i) {
    bool ends = true;
    if (is_root_[made[i]]) return false;
    for (enode_id parent : g_[made[i]].parents) {
      const class_id user = g_.find(g_.node(parent).owner);
      const bool is_made = info(g_.node(parent).kind).stage == op_stage::implementation;  // others say the same
      if (is_made || g_.node(parent).dead || state_[user] != 2 || user == made[i]) continue;
      if (deciding && !g_.decides_for(parent, made[i])) continue;
      ends = false;
      if (is_result(user) || std::ranges::find(made, user) != made.end()) continue;
      if (is_read(user) || made.size() == most) return false;
      made.push_back(user);
    }
    if (ends && !deciding) return false;
  }
  return true;
}

MEGANEURA_INLINE void implementation_pass::run(std::span<const class_id> roots) {
  state_.assign(g_.class_slots(), 0);
  forms_.assign(g_.class_slots(), {});
  kernel_.assign(g_.class_slots(), false);
  unstable_.assign(g_.class_slots(), false);
  for (class_id root : roots) visit(root);
  find_respelled();
  count_uses(roots);
  find_depths();
  find_outlets(roots);
  for (class_id id : order_) implement(id);
  rewrite<detail::attention_gradients>();
  rewrite<detail::prepare_rows>();
  rewrite<detail::exchange_sums>();
  rewrite<detail::zero_borders>();
  g_.rebuild();
  order_introduced();
}

MEGANEURA_INLINE void implementation_pass::introduce(class_id made, class_id reader) {
  introduced_.push_back({made, reader});
  const std::size_t slots = g_.class_slots();
  state_.resize(slots), uses_.resize(slots), deciding_uses_.resize(slots), hard_.resize(slots, true);
  is_root_.resize(slots), depth_.resize(slots), outlets_.resize(slots), unstable_.resize(slots, true),
      kernel_.resize(slots, true), forms_.resize(slots), respelled_.resize(slots);
}

// Each before the first of its readers, in the order in which they came, and behind what it reads.
MEGANEURA_INLINE void implementation_pass::order_introduced() {
  if (introduced_.empty()) return;
  std::vector<bool> listed(g_.class_slots()), seen(g_.class_slots()), is_introduced(g_.class_slots());
  std::vector<std::vector<class_id>> before(g_.class_slots());
  for (const introduction& each : introduced_) {
    before[g_.find(each.reader)].push_back(g_.find(each.made));
    is_introduced[g_.find(each.made)] = true;
  }
  std::vector<class_id> all, waiting;
  const auto wait_for_operands = [&](class_id id) {
    for (const enode_id node : g_[id].nodes) {
      if (!is_introduced[id] && info(g_.node(node).kind).stage != op_stage::primitive) continue;
      for (const class_id operand : g_.operands(node)) {
        if (!listed[g_.find(operand)] && !seen[g_.find(operand)]) waiting.push_back(g_.find(operand));
      }
    }
  };
  for (class_id id : order_) {
    id = g_.find(id);
    for (waiting.push_back(id); !waiting.empty();) {
      const class_id next = waiting.back();
      const std::size_t now = waiting.size();
      if (!seen[next]) {
        seen[next] = true;
        waiting.insert(waiting.end(), before[next].rbegin(), before[next].rend());
        if (next != id) wait_for_operands(next);
      }
      if (waiting.size() > now) continue;
      waiting.pop_back();
      if (!listed[next]) all.push_back(next);
      listed[next] = true;
    }
  }
  order_ = std::move(all);
}

MEGANEURA_INLINE void implementation_pass::implement(class_id id) {
  id = g_.find(id);
  g_.at(g_[id].path);
  if (g_[id].constant && enabled(structural::constant_to_region)) {
    region_draft constant = draft();
    detail::flat_loops(constant, g_.extents(id));
    constant.add_constant(*g_[id].constant, g_[id].type);
    emit_regions(id, constant, detail::identity_program(g_[id].type), structural::constant_to_region);
    return;
  }
  const node_list primitives = g_[id].nodes;
  for (enode_id node : primitives) {
    if (g_.node(node).dead) continue;
    reasons_ = g_.node(node).reasons;
    detail::for_each_implementation([&]<op Kind> {
      if (g_.node(node).kind == info(Kind).implements && enabled(making(Kind))) {
        detail::kernel_family<Kind>::make(*this, node);
      }
    });
    detail::to_region::apply(*this, node);
  }
  reasons_ = {};
  node_list made = g_[g_.find(id)].nodes;
  note_kernel(id, made);
  for (std::size_t i = 0; i < made.size(); ++i) {  // and of what they make
    const enode_id node = made[i];
    const std::size_t before = g_[g_.find(id)].nodes.size();
    detail::between_implementations::apply(*this, node);
    const node_list& all = g_[g_.find(id)].nodes;
    made.append(all.begin() + static_cast<std::ptrdiff_t>(before), all.end());
    // An epilogue of another form repeats the product, so the value may still be better off computed from its operands:
    // unless that is a sum, which is the product or its parts.
    const enode_id usual = forms(id).conservative;
    const bool adds_up = usual != no_id && (g_.get<region_attribute>(usual).row_axes > 0 ||
                                            has(g_.node(usual).reasons, structural::sum_parts));
    if (node == usual || adds_up) note_kernel(id, std::span(g_[g_.find(id)].nodes).subspan(before));
  }
  note_unstable(g_.find(id));
}

// ---- adding nodes ---------------------------------------------------------------------------------------------------

MEGANEURA_INLINE enode_id implementation_pass::emit_region(class_id owner, const region_attribute& loops,
                                                           std::span<const class_id> operands, rule_mask reasons) {
  owner = g_.find(owner);
  const bool skips = skips_rounding(reasons);
  if (detail::is_copy(loops) && !skips) {
    const class_id source = g_.find(operands[0]);
    const index_map& read = loops.accesses[0];
    const bool same = !read.bounded && read.offset == 0 && g_[source].extents == g_[owner].extents &&
                      g_[source].type == g_[owner].type &&
                      std::equal(read.strides, read.strides + max_rank, loops.output.strides);
    if (same && loops.space.elements() == g_.extents(source).elements()) {
      g_.merge(owner, source);  // a copy of a value is the value
      return no_id;
    }
  }
  for (class_id operand : operands) {
    if (g_.find(operand) == owner) return no_id;
  }
  return g_.add_to(owner, op::region, loops, operands, reasons, skips);
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
