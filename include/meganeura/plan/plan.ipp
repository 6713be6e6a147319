// SPDX-License-Identifier: MIT
// Scheduling into levels, lifetimes, the arena allocator and barrier groups.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/plan/plan.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::plan {

MEGANEURA_INLINE const char* to_string(area where) {
  constexpr const char* names[] = {"input",   "parameter", "gradient", "moment1",
                                   "moment2", "state",     "arena",    "step_values"};
  return names[static_cast<int>(where)];
}

MEGANEURA_INLINE const layout::slot* layout::find(std::string_view name) const {
  const auto found = std::find_if(slots.begin(), slots.end(), [&](const slot& s) { return s.name == name; });
  return found == slots.end() ? nullptr : &*found;
}

MEGANEURA_INLINE std::uint64_t execution_plan::peak_bytes() const {
  return std::accumulate(area_bytes.begin(), area_bytes.end(), std::uint64_t{0});
}

namespace detail {

inline std::uint64_t tensor_bytes(const node& n) {
  return static_cast<std::uint64_t>(n.extents.elements()) * static_cast<std::uint64_t>(size_of(n.type));
}

}  // namespace detail

MEGANEURA_INLINE layout make_layout(const graph& g, op leaf_kind) {
  layout result;
  for (node_id id : g.leaves(leaf_kind)) {
    const std::uint64_t bytes = detail::tensor_bytes(g[id]);
    result.slots.push_back({g.get<leaf_attribute>(id).name, g[id].type, g[id].extents, result.bytes, bytes});
    result.bytes += aligned(bytes);
  }
  return result;
}

namespace detail {

inline constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();

// Everything make_plan works out about one node before steps are written.
struct placement {
  std::uint32_t level = 0;     // leaves 0, everything else after its operands
  std::uint32_t last_use = 0;  // level of the last reader; never = outlives the step
  bool in_arena = false;
  bool placed = false;  // `where` is final
  range where;
};

class planner {
 public:
  planner(graph g, const layout& parameters, const plan_options& options) : options_(options) {
    result_.implementation = std::move(g);
    result_.parameters = parameters;
    result_.inputs = make_layout(result_.implementation, op::input);
    result_.states = make_layout(result_.implementation, op::state);
    places_.resize(result_.implementation.size());
  }

  execution_plan run() {
    find_readers();
    levels();
    if (options_.late_scheduling) schedule_late();
    effect_levels();
    place_leaves();
    place_gradients_and_states();
    lifetimes();
    if (options_.in_place) share_in_place();
    allocate_arena();
    emit();
    group();
    outputs();
    return std::move(result_);
  }

 private:
  [[nodiscard]] const graph& g() const { return result_.implementation; }
  [[nodiscard]] bool is_leaf(node_id id) const {
    return info(g()[id].kind).stage == op_stage::leaf && g()[id].kind != op::random;
  }
  [[nodiscard]] bool is_effect(node_id id) const { return info(g()[id].kind).stage == op_stage::effect; }

  void find_readers() {
    readers_.resize(g().size());
    for (node_id id = 0; id < g().size(); ++id) {
      for (node_id operand : g().operands(id)) {
        if (readers_[operand].empty() || readers_[operand].back() != id) readers_[operand].push_back(id);
      }
    }
  }

  void levels() {
    for (node_id id = 0; id < g().size(); ++id) {
      if (g()[id].extents.elements() > 0xffffffffLL) {
        fail(error_category::unsupported, "plan: %{} is {}, {} elements; kernels count elements in 32 bits: split it", id,
             to_string(g()[id].extents), g()[id].extents.elements());
      }
      const op kind = g()[id].kind;
      if (is_leaf(id) && kind != op::constant && kind != op::iota) continue;
      const bool runs = info(kind).stage == op_stage::implementation || is_effect(id) || kind == op::gather ||
                        kind == op::scatter_add || kind == op::random || kind == op::window_reduce ||
                        kind == op::window_scatter;
      if (!runs) {
        fail(error_category::internal, "plan: node %{} is a {}, which no kernel implements; extraction must replace it",
             id, to_string(kind));
      }
      std::uint32_t level = 0;
      for (node_id operand : g().operands(id)) level = std::max(level, places_[operand].level);
      places_[id].level = level + 1;
    }
  }

  // As late as its readers allow, when its result is larger than the operands that would have to wait for it.
  void schedule_late() {
    for (node_id id = static_cast<node_id>(g().size()); id-- > 0;) {
      if (is_leaf(id) || is_effect(id) || readers_[id].empty() || is_output(id) || is_gradient(id)) continue;
      std::uint32_t latest = never;
      for (node_id reader : readers_[id]) latest = std::min(latest, places_[reader].level - 1);
      if (latest <= places_[id].level) continue;
      std::uint64_t kept = 0;
      for (node_id operand : g().operands(id)) {
        const bool waits = !is_leaf(operand) && std::ranges::all_of(readers_[operand], [&](node_id reader) {
          return reader == id || places_[reader].level < latest;
        });
        if (waits) kept += tensor_bytes(g()[operand]);
      }
      if (tensor_bytes(g()[id]) > kept) places_[id].level = latest;
    }
  }

  [[nodiscard]] bool is_gradient(node_id id) const {
    return std::ranges::any_of(readers_[id], [&](node_id reader) { return is_effect(reader); });
  }

  [[nodiscard]] bool is_output(node_id id) const {
    return std::any_of(g().outputs().begin(), g().outputs().end(), [&](const graph_output& o) { return o.node == id; });
  }

  // Effects overwrite a leaf, so they come after every other reader of it.
  void effect_levels() {
    for (node_id effect : g().effects()) {
      for (node_id operand : g().operands(effect)) {
        places_[effect].level = std::max(places_[effect].level, places_[operand].level + 1);
        const op kind = g()[operand].kind;
        if (kind != op::parameter && kind != op::state) continue;
        for (node_id reader : readers_[operand]) {
          if (!is_effect(reader)) places_[effect].level = std::max(places_[effect].level, places_[reader].level + 1);
        }
      }
    }
  }

  void place_leaf(node_id id, area where, const layout& slots) {
    const auto& name = g().get<leaf_attribute>(id).name;
    const layout::slot* slot = slots.find(name);
    if (!slot || slot->extents != g()[id].extents || slot->type != g()[id].type) {
      fail(error_category::invalid_argument, "plan: {} \"{}\" {} {} is {}; build both from one model",
           to_string(g()[id].kind), name, to_string(g()[id].type), to_string(g()[id].extents),
           slot ? "stored as " + std::string(to_string(slot->type)) + to_string(slot->extents)
                : "not among the parameters");
    }
    places_[id] = {
        .level = 0, .last_use = never, .in_arena = false, .placed = true, .where = {where, slot->offset, slot->bytes}};
  }

  void place_leaves() {
    for (node_id id = 0; id < g().size(); ++id) {
      if (g()[id].kind == op::input) place_leaf(id, area::input, result_.inputs);
      if (g()[id].kind == op::parameter) place_leaf(id, area::parameter, result_.parameters);
      if (g()[id].kind == op::state) place_leaf(id, area::state, result_.states);
    }
  }

  // Gradients live at their parameter's offset in an area of their own, so that the optimiser is one flat kernel; a
  // value assigned to a state is computed right into the state when nobody reads the old value any more.
  void place_gradients_and_states() {
    for (node_id effect : g().effects()) {
      const auto operands = g().operands(effect);
      if (g()[effect].kind == op::optimizer_step) {
        for (std::size_t i = 0; i + 1 < operands.size(); i += 2) {
          placement& gradient = places_[operands[i + 1]];
          const range& parameter = places_[operands[i]].where;
          const range target{area::gradient, parameter.offset, parameter.bytes};
          if (gradient.placed)
            copies_.push_back({operands[i + 1], effect, target});
          else
            gradient.placed = true, gradient.where = target;
        }
      } else {
        placement& value = places_[operands[1]];
        const bool late = std::all_of(readers_[operands[0]].begin(), readers_[operands[0]].end(), [&](node_id reader) {
          return reader == effect || places_[reader].level < value.level;
        });
        if (value.placed || !late)
          copies_.push_back({operands[1], effect, places_[operands[0]].where});
        else
          value.placed = true, value.where = places_[operands[0]].where;
      }
    }
  }

  void lifetimes() {
    for (node_id id = 0; id < g().size(); ++id) {
      placement& p = places_[id];
      if (is_leaf(id) || is_effect(id)) continue;
      p.in_arena = !p.placed;
      p.last_use = p.level;
      for (node_id reader : readers_[id]) p.last_use = std::max(p.last_use, places_[reader].level);
    }
    for (const graph_output& output : g().outputs()) places_[output.node].last_use = never;
    for (node_id id = 0; id < g().size(); ++id) {
      if (places_[id].in_arena) result_.unaliased_arena_bytes += aligned(tensor_bytes(g()[id]));
    }
  }

  // An operand that dies here and is read element by element where the result is written can give its memory away.
  void share_in_place() {
    same_memory_.assign(g().size(), no_node);
    for (node_id id = 0; id < g().size(); ++id) {
      if (g()[id].kind != op::region || !places_[id].in_arena) continue;
      const auto& region = g().get<region_attribute>(id);
      if (region.row_axes != 0) continue;
      for (std::size_t k = 0; k < g().operands(id).size(); ++k) {
        if (!dies_in_place(id, region, static_cast<int>(k))) continue;
        same_memory_[id] = g().operand(id, k);
        break;
      }
    }
  }

  [[nodiscard]] bool dies_in_place(node_id id, const region_attribute& region, int source) const {
    const node_id operand = g().operand(id, static_cast<std::size_t>(source));
    const placement& from = places_[operand];
    if (!from.in_arena || from.last_use != places_[id].level || tensor_bytes(g()[operand]) != tensor_bytes(g()[id]))
      return false;
    if (std::count(g().operands(id).begin(), g().operands(id).end(), operand) != 1) return false;
    for (node_id reader : readers_[operand]) {
      if (reader != id && places_[reader].level == places_[id].level) return false;
    }
    return std::all_of(region.accesses.begin(), region.accesses.end(), [&](const index_map& a) {
      return a.source != source || (a.bounded == 0 && a.offset == region.output.offset &&
                                    std::equal(a.strides, a.strides + max_rank, region.output.strides));
    });
  }

  // Chains of in-place results form one block that lives from the first write to the last read.
  struct block {
    std::vector<node_id> nodes;
    std::uint32_t first = never, last = 0;
    std::uint64_t bytes = 0, offset = 0;
  };

  [[nodiscard]] std::vector<block> blocks() const {
    std::vector<block> result;
    std::vector<std::size_t> block_of(g().size(), 0);
    for (node_id id = 0; id < g().size(); ++id) {
      if (!places_[id].in_arena) continue;
      const node_id shared = same_memory_.empty() ? no_node : same_memory_[id];
      if (shared == no_node) result.emplace_back();
      block_of[id] = shared == no_node ? result.size() - 1 : block_of[shared];
      block& b = result[block_of[id]];
      b.nodes.push_back(id);
      b.first = std::min(b.first, places_[id].level);
      b.last = std::max(b.last, places_[id].last_use);
      b.bytes = std::max(b.bytes, aligned(tensor_bytes(g()[id])));
    }
    return result;
  }

  // Largest block first, at the lowest offset free during its whole life (greedy by size; within a few percent of
  // optimal on network graphs, see Pisarchyk and Lee 2020).
  void allocate_arena() {
    std::vector<block> all = blocks();
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return all[a].bytes > all[b].bytes; });
    std::vector<std::size_t> by_offset;  // placed blocks, by offset
    std::uint64_t total = 0;
    for (std::size_t index : order) {
      block& b = all[index];
      std::uint64_t offset = 0;
      if (options_.share_memory) {
        for (std::size_t other : by_offset) {
          const block& o = all[other];
          if (o.last < b.first || b.last < o.first) continue;  // never alive together
          if (offset + b.bytes <= o.offset) break;
          offset = std::max(offset, o.offset + o.bytes);
        }
      } else {
        offset = total;
      }
      b.offset = offset;
      total = std::max(total, offset + b.bytes);
      const auto position = std::upper_bound(by_offset.begin(), by_offset.end(), offset,
                                             [&](std::uint64_t value, std::size_t i) { return value < all[i].offset; });
      by_offset.insert(position, index);
      for (node_id id : b.nodes) places_[id].where = {area::arena, offset, tensor_bytes(g()[id])};
    }
    result_.area_bytes[static_cast<int>(area::arena)] = total;
  }

  void emit() {
    std::vector<node_id> order;
    for (node_id id = 0; id < g().size(); ++id) {
      if (!is_leaf(id)) order.push_back(id);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](node_id a, node_id b) { return places_[a].level < places_[b].level; });
    for (node_id id : order) {
      for (const pending_copy& copy : copies_) {
        if (copy.before == id) {
          result_.steps.push_back(
              {step::copy, copy.from, 0, {{places_[copy.from].where, usage::read}, {copy.to, usage::write}}});
        }
      }
      if (g()[id].kind == op::optimizer_step)
        emit_optimizer(id);
      else if (!is_effect(id))
        emit_kernel(id);
    }
  }

  void emit_kernel(node_id id) {
    step s{.kind = step::kernel, .node = id};
    for (node_id operand : g().operands(id)) s.bindings.push_back({places_[operand].where, usage::read});
    s.bindings.push_back({places_[id].where, usage::write});
    if (g()[id].kind == op::random) s.bindings.push_back({step_values_range(), usage::read});
    result_.steps.push_back(std::move(s));
  }

  range step_values_range() {
    result_.area_bytes[static_cast<int>(area::step_values)] = tensor_alignment;
    return {area::step_values, 0, 64};
  }

  // One dispatch for each run of parameters that lie side by side: normally one for the whole model.
  void emit_optimizer(node_id id) {
    const auto& kind = g().get<optimizer_attribute>(id);
    const auto operands = g().operands(id);
    std::vector<range> ranges;
    for (std::size_t i = 0; i < operands.size(); i += 2) ranges.push_back(places_[operands[i]].where);
    std::sort(ranges.begin(), ranges.end(), [](const range& a, const range& b) { return a.offset < b.offset; });
    std::vector<range> runs;
    for (const range& r : ranges) {
      if (!runs.empty() && aligned(runs.back().offset + runs.back().bytes) == r.offset)
        runs.back().bytes = r.offset + r.bytes - runs.back().offset;
      else
        runs.push_back(r);
    }
    const std::uint64_t piece = options_.max_binding_bytes / tensor_alignment * tensor_alignment;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (runs[i].bytes <= piece) continue;
      runs.push_back({runs[i].where, runs[i].offset + piece, runs[i].bytes - piece});
      runs[i].bytes = piece;
    }
    const bool first = kind.kind != optimizer_kind::sgd || kind.momentum, second = kind.kind != optimizer_kind::sgd;
    for (const range& run : runs) {
      step s{.kind = step::optimizer, .node = id};
      const auto at = [&](area where) { return range{where, run.offset, run.bytes}; };
      s.bindings = {{run, usage::read_write}, {at(area::gradient), usage::read}};
      if (first) s.bindings.push_back({at(area::moment1), usage::read_write});
      if (second) s.bindings.push_back({at(area::moment2), usage::read_write});
      s.bindings.push_back({step_values_range(), usage::read});
      result_.steps.push_back(std::move(s));
    }
    const std::uint64_t bytes = result_.parameters.bytes;
    result_.area_bytes[static_cast<int>(area::gradient)] = bytes;
    result_.area_bytes[static_cast<int>(area::moment1)] = first ? bytes : 0;
    result_.area_bytes[static_cast<int>(area::moment2)] = second ? bytes : 0;
  }

  // A new group starts where a step touches bytes that the running group writes, or writes bytes it touches.
  void group() {
    std::size_t first = 0;
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < result_.steps.size(); ++i) {
      for (std::size_t j = first; j < i; ++j) {
        if (!conflict(result_.steps[i], result_.steps[j])) continue;
        first = i;
        ++number;
        break;
      }
      result_.steps[i].group = number;
    }
    result_.groups = result_.steps.empty() ? 0 : number + 1;
  }

  [[nodiscard]] static bool conflict(const step& a, const step& b) {
    for (const binding& x : a.bindings) {
      for (const binding& y : b.bindings) {
        if ((x.how != usage::read || y.how != usage::read) && x.where.overlaps(y.where)) return true;
      }
    }
    return false;
  }

  void outputs() {
    for (const graph_output& output : g().outputs()) {
      const node& n = g()[output.node];
      result_.outputs.push_back({output.name, n.type, n.extents, places_[output.node].where});
    }
    result_.area_bytes[static_cast<int>(area::input)] = result_.inputs.bytes;
    result_.area_bytes[static_cast<int>(area::parameter)] = result_.parameters.bytes;
    result_.area_bytes[static_cast<int>(area::state)] = result_.states.bytes;
  }

  struct pending_copy {
    node_id from, before;
    range to;
  };

  plan_options options_;
  execution_plan result_;
  std::vector<placement> places_;
  std::vector<std::vector<node_id>> readers_;
  std::vector<node_id> same_memory_;
  std::vector<pending_copy> copies_;
};

}  // namespace detail

MEGANEURA_INLINE execution_plan make_plan(graph g, const layout& parameters, const plan_options& options) {
  return detail::planner(std::move(g), parameters, options).run();
}

MEGANEURA_INLINE void verify(const execution_plan& p) {
  // Replays the plan on byte intervals: what each byte holds is the index of the step that wrote it last.
  struct written {
    range where;
    std::size_t step;
  };
  std::vector<written> contents;
  const auto check = [](bool holds, std::size_t index, const char* rule) {
    if (!holds) fail(error_category::internal, "plan: step {}: {}", index, rule);
  };
  std::uint32_t group = 0;
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const step& s = p.steps[i];
    check(s.group == group || s.group == group + 1, i, "groups must be numbered in order");
    group = s.group;
    for (const binding& b : s.bindings) {
      check(b.where.offset + b.where.bytes <= p.area_bytes[static_cast<std::size_t>(b.where.where)], i,
            "a range leaves its area");
      const bool scratch = b.where.where == area::arena || b.where.where == area::gradient;
      std::uint64_t covered = 0;
      for (const written& w : contents) {
        if (!w.where.overlaps(b.where)) continue;
        check(p.steps[w.step].group != group, i, "a range is written in the same barrier group");
        covered += std::min(w.where.offset + w.where.bytes, b.where.offset + b.where.bytes) -
                   std::max(w.where.offset, b.where.offset);
      }
      const bool padded = s.kind == step::optimizer;  // a run spans the padding between tensors
      check(!scratch || padded || b.how == usage::write || covered == b.where.bytes, i,
            "a range is read that nobody wrote");
      if (b.how == usage::read) continue;
      for (std::size_t j = 0; j < i; ++j) {
        if (p.steps[j].group != group) continue;
        for (const binding& other : p.steps[j].bindings)
          check(!other.where.overlaps(b.where), i, "a range is read in the same barrier group");
      }
      std::vector<written> kept;
      for (const written& w : contents) {  // cut what is overwritten out of older intervals
        if (!w.where.overlaps(b.where)) {
          kept.push_back(w);
          continue;
        }
        const std::uint64_t end = w.where.offset + w.where.bytes, cut = b.where.offset + b.where.bytes;
        if (w.where.offset < b.where.offset)
          kept.push_back({{w.where.where, w.where.offset, b.where.offset - w.where.offset}, w.step});
        if (end > cut) kept.push_back({{w.where.where, cut, end - cut}, w.step});
      }
      kept.push_back({b.where, i});
      contents = std::move(kept);
    }
  }
}

MEGANEURA_INLINE std::string to_text(const execution_plan& p) {
  std::string text;
  std::uint32_t group = ~0u;
  for (const step& s : p.steps) {
    if (s.group != group) text += fmt::format("group {}\n", group = s.group);
    const node& n = p.implementation[s.node];
    constexpr const char* kinds[] = {"", "optimizer ", "copy "};
    text += fmt::format("  {}%{} {} {}{} {}\n   ", kinds[s.kind], s.node, to_string(n.kind), to_string(n.type),
                        to_string(n.extents), to_string(p.implementation.attribute_of(s.node)));
    for (const binding& b : s.bindings) {
      constexpr const char* arrows[] = {"", "=>", "<=>"};
      text += fmt::format(" {}{}[{}+{}]", arrows[static_cast<int>(b.how)], to_string(b.where.where), b.where.offset,
                          b.where.bytes);
    }
    text += '\n';
  }
  for (const named_range& output : p.outputs) {
    text +=
        fmt::format("output \"{}\" {}{} = {}[{}+{}]\n", output.name, to_string(output.type), to_string(output.extents),
                    to_string(output.where.where), output.where.offset, output.where.bytes);
  }
  for (int i = 0; i < area_count; ++i) {
    if (p.area_bytes[static_cast<std::size_t>(i)]) {
      text += fmt::format("{}: {} bytes\n", to_string(static_cast<area>(i)), p.area_bytes[static_cast<std::size_t>(i)]);
    }
  }
  return text + fmt::format("{} dispatches in {} groups, {} bytes; the arena without sharing: {} bytes\n",
                            p.steps.size(), p.groups, p.peak_bytes(), p.unaliased_arena_bytes);
}

}  // namespace meganeura::inline MEGANEURA_ABI::plan
