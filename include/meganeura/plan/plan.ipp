// SPDX-License-Identifier: MIT
// The planner: scheduling into levels, lifetimes, the arena allocator and barrier groups; plans as text.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/small_vector.hpp>
#include <meganeura/plan/plan.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::plan {

MEGANEURA_INLINE std::string to_string(area where) {
  constexpr const char* names[] = {"input", "parameter", "gradient", "arena", "step_values"};
  if (where < area::moments) return names[index_of(where)];
  return fmt::format("moment{}", index_of(where) - index_of(area::moments));
}

MEGANEURA_INLINE named_tensors::named_tensors(std::vector<named_tensor> tensors)
    : tensors_(std::move(tensors)), by_name_(tensors_.size()) {
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::ranges::stable_sort(by_name_, {}, [&](std::size_t i) -> std::string_view { return tensors_[i].name; });
}

MEGANEURA_INLINE const named_tensor* named_tensors::find(std::string_view name) const {
  const auto name_of = [&](std::size_t i) -> std::string_view { return tensors_[i].name; };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  return found == by_name_.end() || name_of(*found) != name ? nullptr : &tensors_[*found];
}

MEGANEURA_INLINE std::uint64_t execution_plan::peak_bytes() const {
  return std::accumulate(area_bytes.begin(), area_bytes.end(), std::uint64_t{0});
}

MEGANEURA_INLINE std::vector<std::optional<std::size_t>> overwritten_operands(const step& s) {
  std::vector<std::optional<std::size_t>> found;
  if (s.kind != step::kernel) return found;
  const auto first = std::ranges::find(s.bindings, usage::write, &binding::how);
  for (auto result = first; result != s.bindings.end() && result->how == usage::write; ++result) {
    const auto operand =
        std::find_if(s.bindings.begin(), first, [&](const binding& b) { return b.where.overlaps(result->where); });
    if (operand == first) continue;
    found.resize(static_cast<std::size_t>(result - first) + 1);
    found.back() = static_cast<std::size_t>(operand - s.bindings.begin());
  }
  return found;
}

namespace detail {

inline std::uint64_t tensor_bytes(const node& n) { return static_cast<std::uint64_t>(n.extents.bytes(n.type)); }

[[nodiscard]] inline bool in_one_page(std::uint64_t offset, std::uint64_t bytes, std::uint64_t page_bytes) {
  return bytes == 0 || offset / page_bytes == (offset + bytes - 1) / page_bytes;
}

// The first offset from this one on at which `bytes` lie in one page.
[[nodiscard]] inline std::uint64_t fit_page(std::uint64_t offset, std::uint64_t bytes, std::uint64_t page_bytes) {
  return in_one_page(offset, bytes, page_bytes) ? offset : (offset / page_bytes + 1) * page_bytes;
}

}  // namespace detail

MEGANEURA_INLINE layout paged(const layout& whole, std::uint64_t page_bytes) {
  std::vector<named_tensor> tensors(whole.tensors.begin(), whole.tensors.end());
  std::uint64_t end = 0;
  for (named_tensor& s : tensors) {
    if (s.bytes > page_bytes) {
      fail(error_category::unsupported,
           "\"{}\" {}{} has {} bytes and one buffer of the device holds {}: use a smaller batch, or split it", s.name,
           to_string(s.type), to_string(s.extents), s.bytes, page_bytes);
    }
    s.offset = detail::fit_page(end, aligned(s.bytes), page_bytes);
    end = s.offset + aligned(s.bytes);
  }
  return {named_tensors(std::move(tensors)), end};
}

namespace detail {
inline layout layout_of(const graph& g, std::initializer_list<op> leaf_kinds) {
  std::vector<named_tensor> tensors;
  std::uint64_t end = 0;
  for (const op kind : leaf_kinds) {
    const initializer unsaid = kind == op::parameter ? init::fan_in_uniform : init::zeros;
    for (node_id id : g.leaves(kind)) {
      const std::uint64_t bytes = tensor_bytes(g[id]);
      const auto& [name, begin] = g.get<leaf_attribute>(id);
      tensors.push_back({name, g[id].type, g[id].extents, end, bytes, kind, begin.value_or(unsaid)});
      end += aligned(bytes);
    }
  }
  return {named_tensors(std::move(tensors)), end};
}
}  // namespace detail

MEGANEURA_INLINE layout make_layout(const graph& g) { return detail::layout_of(g, {op::parameter, op::state}); }

namespace detail {

inline constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();

/// Bytes of one area as disjoint intervals that do not touch, in order: flat, because searches are many and sets small.
class interval_set {
 public:
  void insert(std::uint64_t begin, std::uint64_t end) {
    const auto first = std::partition_point(parts_.begin(), parts_.end(), [&](const auto& p) { return p.end < begin; });
    auto last = first;
    for (; last != parts_.end() && last->begin <= end; ++last) {
      begin = std::min(begin, last->begin);
      end = std::max(end, last->end);
    }
    if (first == last) {
      parts_.insert(first, {begin, end});
    } else {
      *first = {begin, end};
      parts_.erase(first + 1, last);
    }
  }
  /// The end of an interval that shares bytes with begin .. end; 0 if none does.
  [[nodiscard]] std::uint64_t conflict(std::uint64_t begin, std::uint64_t end) const {
    const auto at = std::partition_point(parts_.begin(), parts_.end(), [&](const auto& p) { return p.begin < end; });
    return at != parts_.begin() && std::prev(at)->end > begin ? std::prev(at)->end : 0;
  }
  [[nodiscard]] bool covers(std::uint64_t begin, std::uint64_t end) const {
    const auto at = std::partition_point(parts_.begin(), parts_.end(), [&](const auto& p) { return p.begin <= begin; });
    return at != parts_.begin() && std::prev(at)->end >= end;
  }
  void clear() { parts_.clear(); }
  [[nodiscard]] bool empty() const { return parts_.empty(); }

 private:
  struct interval {
    std::uint64_t begin, end;
  };
  std::vector<interval> parts_;
};

/// Which bytes of the arena are taken at which levels: a segment tree over levels, so that a search looks at a few
/// merged sets and not at every block.
class occupied_bytes {
 public:
  occupied_bytes(std::uint32_t levels, std::uint64_t page_bytes)
      : page_bytes_(page_bytes), leaves_(std::bit_ceil(levels)), whole_(2 * leaves_), any_(2 * leaves_) {}

  void insert(std::uint32_t first, std::uint32_t last, std::uint64_t begin, std::uint64_t end) {
    for_parts(first, last, [&](std::size_t part) {
      whole_[part].insert(begin, end);
      for (; part > 0 && !any_[part].covers(begin, end); part /= 2) any_[part].insert(begin, end);
    });
  }
  /// The lowest offset at which `bytes` of one page are free during all these levels.
  [[nodiscard]] std::uint64_t lowest_free(std::uint32_t first, std::uint32_t last, std::uint64_t bytes) const {
    small_vector<const interval_set*, 128> taken;  // four for each level of the tree
    const auto look_at = [&](const interval_set& each) {
      if (!each.empty()) taken.push_back(&each);
    };
    for_parts(first, last, [&](std::size_t part) { look_at(any_[part]); });
    for (std::size_t left = leaves_ + first, right = leaves_ + last; left > 0; left /= 2, right /= 2) {
      look_at(whole_[left]);
      if (right != left) look_at(whole_[right]);
    }
    std::uint64_t offset = 0;
    for (bool moved = true; moved;) {
      offset = fit_page(offset, bytes, page_bytes_);
      moved = false;
      for (const interval_set* each : taken) {
        const std::uint64_t end = each->conflict(offset, offset + bytes);
        if (end == 0) continue;
        offset = end;
        moved = true;
      }
    }
    return offset;
  }

 private:
  // The few tree nodes that make up first .. last.
  template <class Visit>
  void for_parts(std::size_t first, std::size_t last, Visit&& visit) const {
    std::size_t end = last + leaves_ + 1;
    for (first += leaves_; first < end; first /= 2, end /= 2) {
      if (first & 1) visit(first++);
      if (end & 1) visit(--end);
    }
  }
  std::uint64_t page_bytes_;
  std::size_t leaves_;
  std::vector<interval_set> whole_, any_;  // taken at all levels of the node, and at any of them
};

// Everything make_plan works out about one node before steps are written.
struct placement {
  std::uint32_t level = 0;     // leaves 0, everything else after its operands
  std::uint32_t last_use = 0;  // level of the last reader; never = outlives the step
  bool in_arena = false;
  bool placed = false;  // `where` is final
  range where;
};

class planner {
  using node_list = small_vector<node_id, 4>;

 public:
  planner(graph g, const layout& parameters, const plan_options& options) : options_(options) {
    result_.implementation = std::move(g);
    result_.parameters = parameters;
    result_.inputs = paged(layout_of(result_.implementation, {op::input}), options.page_bytes);
    result_.page_bytes = options.page_bytes;
    places_.resize(result_.implementation.size());
    writer_.resize(result_.implementation.size(), no_id);
    is_output_.resize(result_.implementation.size(), false);
    for (const graph_output& output : result_.implementation.outputs()) is_output_[output.node] = true;
  }

  execution_plan run() {
    find_readers();
    levels();
    if (options_.late_scheduling) schedule_late();
    place_leaves();
    result_.updated = updated_parameters();
    place_effects();
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
  [[nodiscard]] bool is_leaf(node_id id) const { return info(g()[id].kind).stage == op_stage::leaf; }
  [[nodiscard]] bool is_effect(node_id id) const { return info(g()[id].kind).stage == op_stage::effect; }
  /// The node whose step stores this value.
  [[nodiscard]] node_id producer(node_id id) const { return g()[id].kind == op::result ? g().operand(id, 0) : id; }
  /// The values that a node's step stores, by number; no_id where nothing names one.
  [[nodiscard]] node_list values_of(node_id id) const {
    if (!g().has_several_results(id)) return {id};
    node_list values(g().results(id).size(), no_id);
    for (node_id reader : readers_[id]) values[g().get<result_attribute>(reader).index] = reader;
    return values;
  }
  /// Whether a node's memory is its own: what has several results leaves it to them.
  [[nodiscard]] bool is_value(node_id id) const {
    return !is_leaf(id) && !is_effect(id) && !g().has_several_results(id);
  }

  void find_readers() {
    readers_.resize(g().size());
    read_by_effect_.resize(g().size(), false);
    for (node_id id{0}; id < g().size(); ++id) {
      for (node_id operand : g().operands(id)) {
        if (is_effect(id)) read_by_effect_[operand] = true;
        if (!is_effect(id) && (readers_[operand].empty() || readers_[operand].back() != id))
          readers_[operand].push_back(id);
      }
    }
    for (node_id effect : g().effects()) {
      for (std::size_t i = 0; i < g().operands(effect).size(); i += 2) writer_[g().operand(effect, i)] = effect;
    }
  }

  void levels() {
    for (node_id id{0}; id < g().size(); ++id) {
      const std::uint64_t most = std::min(options_.max_binding_bytes, options_.page_bytes);
      if (tensor_bytes(g()[id]) > most) {
        fail(error_category::unsupported,
             "%{} is {}{}, {} bytes, and the device binds {} of one tensor at most: use a smaller batch, or split it",
             id, to_string(g()[id].type), to_string(g()[id].extents), tensor_bytes(g()[id]), most);
      }
      const op kind = g()[id].kind;
      if (is_leaf(id)) continue;
      if (kind == op::result) {
        places_[id].level = places_[producer(id)].level;
        continue;
      }
      if (!info(kind).runs && !is_effect(id)) {
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
      if (is_leaf(id) || is_effect(id) || g()[id].kind == op::result) continue;
      std::uint32_t latest = never;
      std::uint64_t bytes = 0;
      for (node_id value : values_of(id)) latest = std::min(latest, latest_level(value, bytes));
      if (latest == never || latest <= places_[id].level || bytes <= kept_for(id, latest)) continue;
      for (node_id value : values_of(id)) places_[value].level = latest;
      places_[id].level = latest;
    }
  }

  // That the readers of a value allow: 0 for one that is needed otherwise. Adds its bytes.
  [[nodiscard]] std::uint32_t latest_level(node_id value, std::uint64_t& bytes) const {
    if (value == no_id || readers_[value].empty() || is_output_[value] || read_by_effect_[value]) return 0;
    std::uint32_t latest = never;
    for (node_id reader : readers_[value]) latest = std::min(latest, places_[reader].level - 1);
    bytes += tensor_bytes(g()[value]);
    return latest;
  }

  // Bytes of operands that live longer if a node runs at a later level.
  [[nodiscard]] std::uint64_t kept_for(node_id id, std::uint32_t level) const {
    std::uint64_t kept = 0;
    for (node_id operand : g().operands(id)) {
      const auto& others = readers_[operand];  // the last of them are the likeliest to need it as long
      const auto last = std::make_reverse_iterator(others.end()), end = std::make_reverse_iterator(others.begin());
      const bool waits = !is_leaf(operand) && std::all_of(last, end, [&](node_id reader) {
        return reader == id || places_[reader].level < level;
      });
      if (waits) kept += tensor_bytes(g()[operand]);
    }
    return kept;
  }

  void place_leaf(node_id id, area where, const layout& tensors) {
    const auto& name = g().get<leaf_attribute>(id).name;
    const named_tensor* found = tensors.find(name);
    if (!found || found->kind != g()[id].kind || found->extents != g()[id].extents || found->type != g()[id].type) {
      fail(error_category::invalid_argument, "{} \"{}\" {} {} is {}; build both from one model",
           to_string(g()[id].kind), name, to_string(g()[id].type), to_string(g()[id].extents),
           found ? fmt::format("stored as a {} {}{}", to_string(found->kind), to_string(found->type),
                               to_string(found->extents))
                 : "not among the parameters");
    }
    places_[id] = {.level = 0,
                   .last_use = never,
                   .in_arena = false,
                   .placed = true,
                   .where = {where, found->offset, found->bytes}};
  }

  void place_leaves() {
    for (node_id id{0}; id < g().size(); ++id) {
      if (g()[id].kind == op::input) place_leaf(id, area::input, result_.inputs);
      if (g()[id].kind == op::parameter || g()[id].kind == op::state)
        place_leaf(id, area::parameter, result_.parameters);
    }
  }

  // ---- effects: whoever reads a state or a parameter reads what it held before the step

  // A copy of the plan. Within a level, saves come before kernels and these before whatever overwrites a leaf.
  struct copy {
    enum order_kind : std::uint8_t { save, update = 2 };
    order_kind order = update;
    std::uint32_t level = 0;
    node_id from = no_id;
    std::size_t from_scratch = none, to_scratch = none;  // instead of the node's place and of `to`
    range to;
  };
  static constexpr std::size_t none = ~std::size_t{0};

  // Bytes of the arena that no node owns: the old value of a leaf.
  struct scratch {
    std::uint32_t first = never, last = 0;
    std::uint64_t bytes = 0;
    range where;
  };

  [[nodiscard]] bool is_written(node_id id) const { return is_leaf(id) && writer_[id] != no_id; }
  [[nodiscard]] bool assigns_itself(node_id effect) const { return g().operand(effect, 0) == g().operand(effect, 1); }

  // Gradients and moments lie as their parameters do, without those that no optimizer updates, so that the optimiser is
  // one flat kernel for each run of parameters.
  [[nodiscard]] layout updated_parameters() const {
    std::unordered_set<std::string_view> names;
    for (node_id id : g().leaves(op::parameter)) {
      if (writer_[id] != no_id && g()[writer_[id]].kind == op::optimizer_step)
        names.insert(g().get<leaf_attribute>(id).name);
    }
    std::vector<named_tensor> found;
    for (const named_tensor& each : result_.parameters.tensors) {
      if (names.contains(each.name)) found.push_back(each);
    }
    return paged({named_tensors(std::move(found)), 0}, options_.page_bytes);
  }
  [[nodiscard]] std::uint64_t updated_offset(node_id parameter) const {
    return result_.updated.find(g().get<leaf_attribute>(parameter).name)->offset;
  }

  // A value assigned to a state is computed right into it where nobody reads the old value any more and the host does
  // not read the new one, and copied otherwise.
  void place_effects() {
    copied_by_.resize(g().size());
    for (node_id effect : g().effects()) {
      if (g()[effect].kind == op::optimizer_step)
        place_gradients(effect);
      else if (is_written(g().operand(effect, 1)) && !assigns_itself(effect))
        copied_by_[g().operand(effect, 1)].push_back(effect);
    }
    for (node_id effect : g().effects()) {
      if (g()[effect].kind == op::assign) place_state(effect);
    }
    order_effects();
    save_outputs();
  }

  void place_gradients(node_id effect) {
    const auto operands = g().operands(effect);
    for (std::size_t i = 0; i + 1 < operands.size(); i += 2) {
      placement& gradient = places_[operands[i + 1]];
      const range target{area::gradient, updated_offset(operands[i]), places_[operands[i]].where.bytes};
      if (gradient.placed) {
        copies_.push_back({.order = copy::save, .level = gradient.level + 1, .from = operands[i + 1], .to = target});
      } else {
        gradient.placed = true;
        gradient.where = target;
      }
      if (is_written(operands[i + 1])) saved_.insert(operands[i + 1]);
    }
  }

  void place_state(node_id effect) {
    const node_id state = g().operand(effect, 0), source = g().operand(effect, 1), made_by = producer(source);
    placement& value = places_[source];
    const bool kept = is_output_[state] || !copied_by_[state].empty() || saved_.contains(state);
    if (value.placed || kept || is_output_[source]) return;
    std::uint32_t level = value.level;  // after all other kernels that read the old value
    for (node_id reader : readers_[state]) {
      if (reader != made_by) level = std::max(level, places_[reader].level + 1);
    }
    if (level != value.level && !can_wait(source, state, level)) return;
    const auto operands = g().operands(made_by);
    const auto itself = std::ranges::find(operands, state);
    if (itself != operands.end() && !writes_where_it_reads(source, static_cast<std::size_t>(itself - operands.begin())))
      return;
    value.level = level;
    computed_in_place_.insert(effect);
    value.placed = true;
    value.where = places_[state].where;
  }

  // Whether a value that is assigned to a state can run at a later level: nobody waits for it, it reads no other leaf
  // that is overwritten, and its operands are not kept at a greater price than the copy that waiting saves.
  [[nodiscard]] bool can_wait(node_id value, node_id state, std::uint32_t level) const {
    const auto reads_written = [&](node_id operand) { return operand != state && is_written(operand); };
    if (producer(value) != value) return false;  // its step stores others, too
    return readers_[value].empty() && !is_output_[value] && std::ranges::none_of(g().operands(value), reads_written) &&
           kept_for(value, level) <= tensor_bytes(g()[value]);
  }

  // An effect follows every kernel and every copy that reads what it overwrites. Where copies wait for each other (a
  // swap), the old value of one state is saved first.
  void order_effects() {
    std::unordered_map<node_id, std::size_t> waits;  // copies that have to come before an effect
    for (node_id id{0}; id < g().size(); ++id) {
      if (!copied_by_[id].empty()) waits[writer_[id]] += copied_by_[id].size();
    }
    std::vector<node_id> ready;
    for (node_id effect : g().effects()) {
      if (waits[effect] == 0) ready.push_back(effect);
    }
    std::size_t done = 0;
    for (node_id left : g().effects()) {
      for (; done < ready.size(); ++done) {
        const node_id effect = ready[done];
        order_effect(effect);
        if (g()[effect].kind != op::assign || saves_of_.contains(g().operand(effect, 1))) continue;
        const node_id source = g().operand(effect, 1);
        if (is_written(source) && !assigns_itself(effect) && --waits[writer_[source]] == 0)
          ready.push_back(writer_[source]);
      }
      if (ordered_.contains(left)) continue;  // else it waits in a circle of assigns: nobody waits for an optimizer
      save_for_copies(g().operand(left, 0));
      ready.push_back(left);
    }
    for (; done < ready.size(); ++done) order_effect(ready[done]);
  }

  void order_effect(node_id effect) {
    std::uint32_t level = 1;
    const auto operands = g().operands(effect);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      level = std::max(level, places_[operands[i]].level + 1);
      if (i % 2 == 1) continue;
      for (node_id reader : readers_[operands[i]]) level = std::max(level, places_[reader].level + 1);
      for (node_id copied : copied_by_[operands[i]]) {  // one that is not ordered yet will read what was saved
        if (ordered_.contains(copied)) level = std::max(level, places_[copied].level + 1);
      }
    }
    places_[effect].level = level;
    ordered_.insert(effect);
    if (g()[effect].kind != op::assign || computed_in_place_.contains(effect) || assigns_itself(effect)) return;
    copy made{.order = copy::update, .level = level, .from = operands[1], .to = places_[operands[0]].where};
    if (const auto saved = saves_of_.find(operands[1]); saved != saves_of_.end()) {
      made.from_scratch = saved->second;
      scratch_[saved->second].last = std::max(scratch_[saved->second].last, level);
    }
    copies_.push_back(made);
  }

  std::size_t save(node_id leaf, std::uint32_t level, std::uint32_t last) {
    scratch_.push_back({.first = level, .last = last, .bytes = tensor_bytes(g()[leaf]), .where = {}});
    copies_.push_back({.order = copy::save, .level = level, .from = leaf, .to_scratch = scratch_.size() - 1, .to = {}});
    return scratch_.size() - 1;
  }

  void save_for_copies(node_id state) { saves_of_[state] = save(state, 1, 1); }

  // The host reads an output after the step, when this or another program may have written parameters and states: what
  // they were in the step is kept for it.
  void save_outputs() {
    for (node_id id{0}; id < g().size(); ++id) {
      if (!is_output_[id] || (g()[id].kind != op::parameter && g()[id].kind != op::state)) continue;
      saved_outputs_[id] = save(id, is_written(id) ? places_[writer_[id]].level : 1, never);
    }
  }

  void lifetimes() {
    for (node_id id{0}; id < g().size(); ++id) {
      placement& p = places_[id];
      if (!is_value(id)) continue;
      p.in_arena = !p.placed;
      p.last_use = is_output_[id] ? never : p.level;
      for (node_id reader : readers_[id]) p.last_use = std::max(p.last_use, places_[reader].level);
    }
    for (node_id id{0}; id < g().size(); ++id) {
      if (g().has_several_results(id)) find_unnamed_results(id);
    }
    for (const copy& each : copies_) places_[each.from].last_use = std::max(places_[each.from].last_use, each.level);
    for (node_id id{0}; id < g().size(); ++id) {
      if (places_[id].in_arena) result_.unaliased_arena_bytes += aligned(tensor_bytes(g()[id]));
    }
    for (const scratch& each : scratch_) result_.unaliased_arena_bytes += aligned(each.bytes);
  }

  // A kernel stores all of its results: what nobody names has bytes for as long as it runs.
  void find_unnamed_results(node_id id) {
    const node_list values = values_of(id);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != no_id) continue;
      const tensor_type unnamed = g().results(id)[i];
      const auto bytes = static_cast<std::uint64_t>(unnamed.extents.bytes(unnamed.type));
      unnamed_[id].push_back(scratch_.size());
      scratch_.push_back({.first = places_[id].level, .last = places_[id].level, .bytes = bytes, .where = {}});
    }
  }

  // An operand that dies here and is read element by element where the result is written can give its memory away.
  void share_in_place() {
    same_memory_.assign(g().size(), no_id);
    for (node_id id{0}; id < g().size(); ++id) {
      const node_id made_by = producer(id);
      if (!places_[id].in_arena) continue;
      for (std::size_t k = 0; k < g().operands(made_by).size(); ++k) {
        const node_id operand = g().operand(made_by, k);
        const auto has_it = [&](node_id other) { return other != no_id && same_memory_[other] == operand; };
        if (!dies_at(operand, made_by) || !writes_where_it_reads(id, k)) continue;
        if (made_by != id && std::ranges::any_of(values_of(made_by), has_it)) continue;
        same_memory_[id] = operand;
        break;
      }
    }
  }

  [[nodiscard]] bool dies_at(node_id operand, node_id id) const {
    const placement& from = places_[operand];
    if (!from.in_arena || from.last_use != places_[id].level) return false;
    if (read_by_effect_[operand]) return false;  // a copy of this level may come later
    return std::ranges::all_of(
        readers_[operand], [&](node_id reader) { return reader == id || places_[reader].level != places_[id].level; });
  }

  // Whether a kernel reads each element of an operand only for the element of the result at the same place, so that
  // both may be the same memory. A row that is reduced to one value is stored by one invocation after all have read.
  [[nodiscard]] bool writes_where_it_reads(node_id id, std::size_t which) const {
    const node_id made_by = producer(id);
    const auto operands = g().operands(made_by);
    if (info(g()[made_by].kind).updates) return which == 0 && std::ranges::count(operands, operands[0]) == 1;
    if (g()[made_by].kind != op::region) return false;
    const auto& region = g().get<region_attribute>(made_by);
    const std::size_t number = made_by == id ? 0 : g().get<result_attribute>(id).index;
    const index_map& output = number == 0 ? region.output : region.further[number - 1].output;
    if (region.row_axes != 0 && !(number == 0 ? region.per_row : region.further[number - 1].per_row)) return false;
    const node &from = g()[operands[which]], &to = g()[id];
    if (!same_storage(from.type, to.type) || tensor_bytes(from) != tensor_bytes(to)) return false;
    if (std::ranges::count(operands, operands[which]) != 1) return false;
    return std::ranges::all_of(region.accesses, [&](const index_map& a) {
      return a.source != static_cast<int>(which) ||
             (a.bounded == 0 && a.offset == output.offset && std::ranges::equal(a.strides, output.strides));
    });
  }

  // Bytes of the arena with one lifetime.
  struct block {
    std::size_t index = 0;
    std::uint32_t first = never, last = 0;
    std::uint64_t bytes = 0;
  };

  // Chains of in-place results form one block that lives from the first write to the last read; scratches come last.
  [[nodiscard]] std::vector<block> blocks() {
    std::vector<block> result;
    block_of_.assign(g().size(), none);
    for (node_id id{0}; id < g().size(); ++id) {
      if (!places_[id].in_arena) continue;
      const node_id shared = same_memory_.empty() ? no_id : same_memory_[id];
      if (shared == no_id) result.push_back({.index = result.size()});
      block_of_[id] = shared == no_id ? result.size() - 1 : block_of_[shared];
      block& b = result[block_of_[id]];
      b.first = std::min(b.first, places_[id].level);
      b.last = std::max(b.last, places_[id].last_use);
      b.bytes = std::max(b.bytes, aligned(tensor_bytes(g()[id])));
    }
    for (const scratch& each : scratch_) result.push_back({result.size(), each.first, each.last, aligned(each.bytes)});
    return result;
  }

  // Largest block first, at the lowest offset free during its whole life (greedy by size; within a few percent of
  // optimal on network graphs, see Pisarchyk and Lee 2020).
  void allocate_arena() {
    std::vector<block> all = blocks();
    std::stable_sort(all.begin(), all.end(), [](const block& a, const block& b) { return a.bytes > b.bytes; });
    std::uint32_t levels = 1;
    for (const placement& p : places_) levels = std::max(levels, p.level + 1);
    occupied_bytes taken(levels, options_.page_bytes);
    std::uint64_t total = 0;
    std::vector<std::uint64_t> offsets(all.size());
    for (const block& b : all) {
      const std::uint32_t last = std::min(b.last, levels - 1);
      const std::uint64_t offset = options_.share_memory ? taken.lowest_free(b.first, last, b.bytes)
                                                         : fit_page(total, b.bytes, options_.page_bytes);
      if (options_.share_memory) taken.insert(b.first, last, offset, offset + b.bytes);
      total = std::max(total, offset + b.bytes);
      offsets[b.index] = offset;
    }
    for (node_id id{0}; id < g().size(); ++id) {
      if (block_of_[id] != none) places_[id].where = {area::arena, offsets[block_of_[id]], tensor_bytes(g()[id])};
    }
    const std::size_t first_scratch = all.size() - scratch_.size();
    for (std::size_t i = 0; i < scratch_.size(); ++i)
      scratch_[i].where = {area::arena, offsets[first_scratch + i], scratch_[i].bytes};
    result_.area_bytes[index_of(area::arena)] = total;
  }

  // Kernels, copies and updates by level; see copy for their order within one.
  void emit() {
    struct event {
      std::uint32_t level, order;
      node_id node;
      const copy* copied;
    };
    std::vector<event> events;
    for (const copy& each : copies_) events.push_back({each.level, each.order, each.from, &each});
    for (node_id id{0}; id < g().size(); ++id) {
      if (is_leaf(id) || g()[id].kind == op::assign || g()[id].kind == op::result) continue;
      events.push_back({places_[id].level, is_effect(id) ? std::uint32_t{copy::update} : 1u, id, nullptr});
    }
    std::stable_sort(events.begin(), events.end(), [](const event& a, const event& b) {
      return std::pair(a.level, a.order) < std::pair(b.level, b.order);
    });
    for (const event& each : events) {
      if (each.copied)
        emit_copy(*each.copied);
      else if (is_effect(each.node))
        emit_optimizer(each.node);
      else
        emit_kernel(each.node);
    }
  }

  void emit_copy(const copy& made) {
    const range& from = made.from_scratch == none ? places_[made.from].where : scratch_[made.from_scratch].where;
    const range& to = made.to_scratch == none ? made.to : scratch_[made.to_scratch].where;
    result_.steps.push_back({step::copy, made.from, 0, {{from, usage::read}, {to, usage::write}}});
  }

  void emit_kernel(node_id id) {
    step s{.kind = step::kernel, .node = id};
    s.bindings.reserve(g().operands(id).size() + 2);
    for (node_id operand : g().operands(id)) s.bindings.push_back({places_[operand].where, usage::read});
    std::size_t unnamed = 0;
    for (node_id value : values_of(id)) {
      const range& where = value != no_id ? places_[value].where : scratch_[unnamed_.at(id)[unnamed++]].where;
      s.bindings.push_back({where, usage::write});
    }
    if (g()[id].kind == op::random) s.bindings.push_back({step_values_range(0), usage::read});
    result_.steps.push_back(std::move(s));
  }

  // Each group of parameters has a set of its own.
  range step_values_range(std::uint32_t group) {
    std::uint64_t& bytes = result_.area_bytes[index_of(area::step_values)];
    bytes = std::max(bytes, (group + 1) * tensor_alignment);
    return {area::step_values, group * tensor_alignment, 64};
  }

  // One dispatch for each run of parameters that lie side by side, as do their gradients: normally one for the whole
  // model.
  void emit_optimizer(node_id id) {
    struct run {
      std::uint64_t parameters, others, bytes;  // offsets in the parameters' area and in those of gradients and moments
    };
    const auto& rule = g().get<optimizer_attribute>(id);
    const std::size_t moments = rule.moments.size();
    const auto operands = g().operands(id);
    std::vector<run> all;
    for (std::size_t i = 0; i < operands.size(); i += 2) {
      const range& where = places_[operands[i]].where;
      all.push_back({where.offset, updated_offset(operands[i]), aligned(where.bytes)});  // with padding: whole vectors
    }
    std::ranges::sort(all, {}, &run::parameters);
    std::vector<run> runs;
    for (const run& r : all) {
      const std::uint64_t length = runs.empty() ? 0 : runs.back().bytes, bytes = length + r.bytes;
      const bool follows =
          !runs.empty() && runs.back().parameters + length == r.parameters && runs.back().others + length == r.others;
      if (follows && in_one_page(runs.back().parameters, bytes, options_.page_bytes) &&
          in_one_page(runs.back().others, bytes, options_.page_bytes))
        runs.back().bytes = bytes;
      else
        runs.push_back(r);
    }
    const std::uint64_t most = std::min(options_.max_binding_bytes, std::uint64_t{1} << 31);
    const std::uint64_t piece = most / tensor_alignment * tensor_alignment;
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
      s.bindings.push_back({step_values_range(rule.group), usage::read});
      result_.steps.push_back(std::move(s));
    }
    auto& bytes = result_.area_bytes;
    bytes.resize(std::max(bytes.size(), index_of(moment_area(moments))));
    bytes[index_of(area::gradient)] = result_.updated.bytes;
    for (std::size_t i = 0; i < moments; ++i) bytes[index_of(moment_area(i))] = result_.updated.bytes;
  }

  // A new group starts where a step touches bytes that the running group writes, or writes bytes it touches.
  void group() {
    std::vector<interval_set> read(result_.area_bytes.size()), written(read.size());
    std::uint32_t number = 0;
    for (step& s : result_.steps) {
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
    result_.groups = result_.steps.empty() ? 0 : number + 1;
  }

  void outputs() {
    for (const graph_output& output : g().outputs()) {
      const node& n = g()[output.node];
      const auto saved = saved_outputs_.find(output.node);
      const range& where = saved == saved_outputs_.end() ? places_[output.node].where : scratch_[saved->second].where;
      result_.outputs.push_back({output.name, n.type, n.extents, where});
    }
    result_.area_bytes[index_of(area::input)] = result_.inputs.bytes;
    result_.area_bytes[index_of(area::parameter)] = result_.parameters.bytes;
  }

  plan_options options_;
  execution_plan result_;
  std::vector<placement> places_;
  std::vector<node_list> readers_;
  std::vector<node_id> same_memory_;
  std::vector<std::size_t> block_of_;  // of nodes in the arena
  std::vector<bool> is_output_, read_by_effect_;
  std::vector<node_id> writer_;  // of a leaf: the effect that overwrites it
  std::vector<copy> copies_;
  std::vector<scratch> scratch_;
  std::vector<std::vector<node_id>> copied_by_;    // assigns whose value is this leaf, which is overwritten too
  std::unordered_set<node_id> ordered_;            // effects whose level is final
  std::unordered_set<node_id> saved_;              // leaves copied into a gradient
  std::unordered_set<node_id> computed_in_place_;  // assigns that need no copy
  std::unordered_map<node_id, std::size_t> saves_of_, saved_outputs_;  // scratch holding a leaf's old value
  std::unordered_map<node_id, std::vector<std::size_t>> unnamed_;      // scratch of results without a name
};

}  // namespace detail

MEGANEURA_INLINE execution_plan make_plan(graph g, const layout& parameters, const plan_options& options) {
  return detail::planner(std::move(g), parameters, options).run();
}

namespace detail {

// The batch, where there is one, m, n and k: the axes lie in that order.
inline std::vector<std::int64_t> product_sizes(const matmul_attribute& product) {
  std::vector<std::int64_t> sizes;
  int axis = 0;
  for (const int count : {product.batch_axes, product.m_axes, product.n_axes, product.k_axes}) {
    sizes.push_back(1);
    for (const int end = axis + count; axis < end; ++axis) sizes.back() *= product.space[axis];
  }
  if (sizes[0] == 1) sizes.erase(sizes.begin());
  return sizes;
}

inline std::vector<std::int64_t> sizes_of(const execution_plan& p, const step& s) {
  const std::uint64_t bytes = s.bindings[0].where.bytes;
  if (s.kind == step::copy) return {static_cast<std::int64_t>(bytes)};
  if (s.kind == step::optimizer) return {static_cast<std::int64_t>(bytes / sizeof(float))};
  const attribute& what = p.implementation.attribute_of(s.node);
  if (const auto* product = std::get_if<matmul_attribute>(&what)) return product_sizes(*product);
  const shape& loops = std::visit(
      [&](const auto& each) -> const shape& {
        if constexpr (requires { each.space; }) return each.space;
        return p.implementation[s.node].extents;
      },
      what);
  return {loops.begin(), loops.end()};
}

}  // namespace detail

MEGANEURA_INLINE std::string label(const execution_plan& p, const step& s) {
  const std::string path = p.implementation.path_of(s.node);
  const char* what = s.kind == step::copy ? "copy" : to_string(p.implementation[s.node].kind);
  const std::vector<std::int64_t> sizes = detail::sizes_of(p, s);
  return fmt::format("{}{}{}{}{}", path, path.empty() ? "" : ": ", what, sizes.empty() ? "" : " ",
                     fmt::join(sizes, "x"));
}

MEGANEURA_INLINE std::string to_text(const execution_plan& p) {
  std::string text;
  std::uint32_t group = ~0u;
  for (const step& s : p.steps) {
    if (s.group != group) text += fmt::format("group {}\n", group = s.group);
    const node& n = p.implementation[s.node];
    text += fmt::format("  {} = %{} {}{} {}\n   ", label(p, s), s.node, to_string(n.type), to_string(n.extents),
                        to_string(p.implementation.attribute_of(s.node)));
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
  for (std::size_t i = 0; i < p.area_bytes.size(); ++i) {
    if (p.area_bytes[i]) text += fmt::format("{}: {} bytes\n", to_string(static_cast<area>(i)), p.area_bytes[i]);
  }
  return text + fmt::format("{} dispatches in {} groups, {} bytes; the arena without sharing: {} bytes\n",
                            p.steps.size(), p.groups, p.peak_bytes(), p.unaliased_arena_bytes);
}

}  // namespace meganeura::inline MEGANEURA_ABI::plan
