// SPDX-License-Identifier: MIT
// The planner's second thoughts: what is not needed for long is computed again instead of being kept.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/plan/draft.hpp>
#include <meganeura/plan/level_bytes.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::plan::detail {

// Of a draft whose values have their places: which of them to run once more, one level before what then reads their
// values, so that no level has more bytes of values than asked for. The fullest level is looked at first, and there the
// kernels whose time is the least for the bytes that it gets rid of. What a kernel reads and that is gone by then is
// computed again as well, unless it is small.
class recomputation {
 public:
  explicit recomputation(const draft& all)
      : draft_(all),
        g_(all.g()),
        made_(g_.size()),
        read_(g_.size()),
        is_kept_(g_.size(), false),
        is_in_place_(g_.size(), false),
        levels_(std::ranges::max_element(all.places, {}, &placement::level)->level + 1),
        live_(levels_) {
    for (node_id id{0}; id < g_.size(); ++id) {
      if (!is_kernel(id)) continue;
      made_[id] = {level_of(id)};
      for (node_id operand : g_.operands(id)) add(read_[operand], level_of(id));
    }
    for (node_id id{0}; id < g_.size(); ++id) {
      is_kept_[id] = all.is_output[id] || all.read_by_effect[id] || all.is_folded[id];
      const auto lies_there = [&](node_id operand) {
        return all.places[operand].in_arena && all.places[operand].where.overlaps(all.places[id].where);
      };
      is_in_place_[id] = all.places[id].in_arena && std::ranges::any_of(g_.operands(all.producer(id)), lies_there);
    }
    for (node_id id{0}; id < g_.size(); ++id) count(id, 1);
  }

  // Bytes of the fullest level.
  [[nodiscard]] std::int64_t most() const { return live_.most(); }

  void reduce_to(std::int64_t bytes) {
    while (most() > bytes && relieve(live_.fullest(), bytes)) {
    }
  }

  // The draft of a graph that does so, in which a kernel's further turns are nodes of their own, with its levels.
  [[nodiscard]] draft rewritten() const;

 private:
  using level_list = std::vector<std::uint32_t>;
  struct turn_of {
    std::uint32_t level = 0, turn = 0;
    node_id kernel = no_id;
  };
  // Kernels that would run again, the level of each, those that are read last first.
  struct attempt {
    std::map<node_id, std::uint32_t, std::greater<>> again;
    double seconds = 0;
    std::int64_t freed = 0;  // at the level that is looked at
    [[nodiscard]] double price() const { return seconds / static_cast<double>(freed); }
  };
  static constexpr std::size_t most_together = 64;  // kernels that run again for the sake of one
  static constexpr std::int64_t small_part = 16;    // of what is freed: is kept rather than computed again
  static constexpr std::size_t most_turns = 8;      // of a kernel

  [[nodiscard]] bool is_kernel(node_id id) const {
    return !draft_.is_leaf(id) && !draft_.is_effect(id) && g_[id].kind != op::result;
  }
  [[nodiscard]] bool is_value(node_id id) const {
    return !draft_.is_leaf(id) && !draft_.is_effect(id) && !g_.has_several_results(id);
  }
  [[nodiscard]] std::uint32_t level_of(node_id id) const { return draft_.places[id].level; }
  [[nodiscard]] std::int64_t bytes_of(node_id value) const {
    return static_cast<std::int64_t>(aligned(tensor_bytes(g_[value])));
  }
  static void add(level_list& levels, std::uint32_t level) {
    levels.insert(std::ranges::upper_bound(levels, level), level);
  }

  // ---- lives. Whoever reads a value reads what was computed last before; one that is kept has one life, to the end.

  template <class Function>
  void for_each_life(node_id value, const Function& f) const {
    const level_list& made = made_[draft_.producer(value)];
    if (is_kept_[value]) return f(made[0], levels_ - 1);
    const level_list& read = read_[value];
    for (std::size_t turn = 0; turn < made.size(); ++turn) {
      const auto end = turn + 1 < made.size() ? std::ranges::upper_bound(read, made[turn + 1]) : read.end();
      f(made[turn], end == read.begin() ? made[turn] : std::max(made[turn], *std::prev(end)));
    }
  }
  void count(node_id value, std::int64_t sign) {
    if (!is_value(value) || !draft_.places[value].in_arena) return;
    for_each_life(value, [&](std::uint32_t first, std::uint32_t last) {
      if (is_in_place_[value]) ++first;  // before, these are an operand's bytes
      live_.add(first, last, sign * bytes_of(value));
    });
  }
  // Who reads a value next that only waits at this level; 0 if it does not.
  [[nodiscard]] std::uint32_t next_read(node_id value, std::uint32_t level) const {
    const level_list& read = read_[value];
    const auto next = std::ranges::lower_bound(read, level);
    if (is_kept_[value] || !draft_.places[value].in_arena || next == read.end() || *next == level) return 0;
    std::uint32_t found = 0;
    for_each_life(value, [&](std::uint32_t first, std::uint32_t last) {
      if (first < level && level < last) found = *next;
    });
    return found;
  }
  [[nodiscard]] bool lives_at(node_id value, std::uint32_t level) const {
    bool found = false;
    for_each_life(value, [&](std::uint32_t first, std::uint32_t last) { found |= first <= level && level <= last; });
    return found;
  }

  // ---- choice

  [[nodiscard]] double seconds_of(node_id kernel) const {
    if (!draft_.options.times.empty()) return draft_.options.times[kernel].busy + draft_.options.launch.dispatch;
    std::int64_t bytes = 0;
    for (node_id value : draft_.values_of(kernel)) bytes += value == no_id ? 0 : bytes_of(value);
    for (node_id operand : g_.operands(kernel)) bytes += bytes_of(operand);
    return 1e-6 + 1e-12 * static_cast<double>(bytes) + 1e-13 * g_.flops(kernel);
  }

  // What it takes that no value of this kernel waits at `level`, if anything does.
  [[nodiscard]] std::optional<attempt> without(node_id kernel, std::uint32_t level) const {
    attempt found;
    std::uint32_t next = never;
    for (node_id value : draft_.values_of(kernel)) {
      const std::uint32_t reader = value == no_id ? 0 : next_read(value, level);
      if (reader != 0) next = std::min(next, reader);
    }
    if (next == never || next < level + 2 || made_[kernel].size() == most_turns) return std::nullopt;
    found.again.emplace(kernel, next - 1);
    for (auto at = found.again.begin(); at != found.again.end(); ++at) {
      const node_id each = at->first;
      const std::uint32_t runs = at->second;
      found.seconds += seconds_of(each);
      for (node_id value : draft_.values_of(each)) {
        if (value != no_id && next_read(value, level) > runs) found.freed += bytes_of(value);
      }
      for (node_id operand : g_.operands(each)) {
        if (draft_.is_leaf(operand) || is_kept_[operand]) continue;
        const node_id made_by = draft_.producer(operand);
        const auto known = found.again.find(made_by);
        if (known != found.again.end() && known->second < runs) continue;
        const bool is_there = std::ranges::any_of(made_[made_by], [&](std::uint32_t made) {
          return made > level && made < runs;  // where there is room again
        });
        if (is_there || (known == found.again.end() && lives_at(operand, level))) continue;
        const bool can_run = runs - 1 > level && made_[made_by].size() < most_turns;
        if (known == found.again.end() && (!can_run || bytes_of(operand) * small_part <= found.freed))
          found.freed -= bytes_of(operand);
        else if (!can_run || found.again.size() == most_together)
          return std::nullopt;
        else
          found.again[made_by] = runs - 1;
      }
    }
    return found.freed > 0 ? std::optional(std::move(found)) : std::nullopt;
  }

  void change(const attempt& what, bool apply) {
    std::vector<node_id> touched;
    for (const auto& [kernel, level] : what.again) {
      for (node_id value : draft_.values_of(kernel)) {
        if (value != no_id) touched.push_back(value);
      }
      touched.insert(touched.end(), g_.operands(kernel).begin(), g_.operands(kernel).end());
    }
    std::ranges::sort(touched);
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (node_id value : touched) count(value, -1);
    const auto set = [&](level_list& levels, std::uint32_t level) {
      if (apply)
        add(levels, level);
      else
        levels.erase(std::ranges::lower_bound(levels, level));
    };
    for (const auto& [kernel, level] : what.again) {
      set(made_[kernel], level);
      for (node_id operand : g_.operands(kernel)) set(read_[operand], level);
    }
    for (node_id value : touched) count(value, 1);
  }
  // If less waits at `level` then and no level is fuller than the fullest was.
  [[nodiscard]] bool try_out(const attempt& what, std::uint32_t level) {
    const std::int64_t before = live_[level], most_before = most();
    change(what, true);
    if (live_[level] < before && most() <= most_before) return true;
    change(what, false);
    return false;
  }

  // Of one level, until it has at most so many bytes. Whether anything was done.
  [[nodiscard]] bool relieve(std::uint32_t level, std::int64_t bytes) {
    using priced = std::pair<double, node_id>;
    std::priority_queue<priced, std::vector<priced>, std::greater<>> all;
    for (node_id id{0}; id < g_.size(); ++id) {
      if (!is_kernel(id) || level_of(id) >= level) continue;
      if (const auto found = without(id, level)) all.emplace(found->price(), id);
    }
    bool is_less = false;
    while (!all.empty() && live_[level] > bytes) {
      const node_id kernel = all.top().second;
      all.pop();
      const std::optional<attempt> found = without(kernel, level);  // since then others may have changed it
      if (!found) continue;
      if (!all.empty() && found->price() > all.top().first)
        all.emplace(found->price(), kernel);
      else
        is_less |= try_out(*found, level);
    }
    return is_less;
  }

  // ---- the new graph

  using turns_read = std::vector<std::vector<bool>>;  // of each value, by turn
  [[nodiscard]] std::vector<turn_of> needed_turns(turns_read& read) const;
  [[nodiscard]] std::size_t turn_read(node_id value, std::uint32_t level) const {
    if (is_kept_[value]) return 0;
    const level_list& made = made_[draft_.producer(value)];
    return static_cast<std::size_t>(std::ranges::lower_bound(made, level) - made.begin()) - 1;
  }

  const draft& draft_;
  const graph& g_;
  std::vector<level_list> made_;   // of each kernel: the levels at which it runs, in order
  std::vector<level_list> read_;   // of each value: those at which kernels read it, in order
  std::vector<bool> is_kept_;      // to the end of the step, as is what was there when it began
  std::vector<bool> is_in_place_;  // takes the place of an operand
  std::uint32_t levels_;
  level_bytes live_;
};

// All turns that are needed, in order; where everybody reads a later one, the first is for nothing.
inline std::vector<recomputation::turn_of> recomputation::needed_turns(turns_read& read) const {
  std::vector<turn_of> turns;
  for (node_id id{0}; id < g_.size(); ++id) {
    for (std::uint32_t turn = 0; turn < made_[id].size(); ++turn) turns.push_back({made_[id][turn], turn, id});
  }
  std::ranges::sort(turns, {}, [](const turn_of& each) { return std::tuple(each.level, each.kernel); });
  read.resize(g_.size());
  for (node_id id{0}; id < g_.size(); ++id) {
    if (is_value(id)) read[id].resize(made_[draft_.producer(id)].size(), false);
    if (is_value(id) && is_kept_[id]) read[id][0] = true;
  }
  std::vector<turn_of> needed;
  for (auto each = turns.rbegin(); each != turns.rend(); ++each) {
    if (std::ranges::none_of(draft_.values_of(each->kernel),
                             [&](node_id value) { return value != no_id && read[value][each->turn]; }))
      continue;
    needed.push_back(*each);
    for (node_id operand : g_.operands(each->kernel)) {
      if (!draft_.is_leaf(operand)) read[operand][turn_read(operand, each->level)] = true;
    }
  }
  std::ranges::reverse(needed);
  return needed;
}

inline draft recomputation::rewritten() const {
  graph result(g_.paths());
  plan_options options = draft_.options;
  options.times.clear();
  std::vector<std::uint32_t> levels;
  std::vector<std::vector<node_id>> copies(g_.size());  // by turn
  const auto add = [&](node_id id, std::uint32_t level, std::uint32_t turn, std::uint32_t computed_before) {
    small_vector<node_id, 8> operands;
    for (node_id operand : g_.operands(id)) {
      const bool is_part = g_[id].kind == op::result;
      operands.push_back(copies[operand][draft_.is_leaf(operand) ? 0 : is_part ? turn : turn_read(operand, level)]);
    }
    const node& n = g_[id];
    const graph::scope in(result, n.path);
    const node_id made = result.add_node(n.kind, n.type, n.extents, g_.attribute_of(id), operands, computed_before);
    copies[id].resize(std::max<std::size_t>(copies[id].size(), turn + 1), no_id);
    copies[id][turn] = made;
    levels.resize(result.size()), levels[made] = level;
    if (draft_.options.times.empty()) return;
    options.times.resize(result.size()), options.times[made] = draft_.options.times[id];
  };
  for (node_id id{0}; id < g_.size(); ++id) {
    if (draft_.is_leaf(id)) add(id, 0, 0, 0);
  }
  turns_read read;
  std::vector<std::uint32_t> computed(g_.size(), 0);
  for (const turn_of& each : needed_turns(read)) {
    add(each.kernel, each.level, each.turn, computed[each.kernel]++);
    if (!g_.has_several_results(each.kernel)) continue;
    for (node_id value : draft_.values_of(each.kernel)) {
      if (value != no_id && read[value][each.turn]) add(value, each.level, each.turn, 0);
    }
  }
  for (node_id effect : g_.effects()) add(effect, level_of(effect), 0, 0);
  for (const graph_output& output : g_.outputs()) result.add_output(output.name, copies[output.node][0]);
  draft made(std::move(result), draft_.result.parameters, options, draft_.result.page_bytes);
  for (node_id id{0}; id < made.g().size(); ++id) made.places[id].level = levels[id];
  made.first_level = draft_.first_level;
  return made;
}

MEGANEURA_INLINE execution_plan plan_within(draft all, const execution_plan& whole) {
  const std::uint64_t budget = all.options.memory_budget;
  const std::uint64_t arena = whole.area_bytes[index_of(area::arena)], others = whole.peak_bytes() - arena;
  place_values(all);
  const recomputation as_it_is(all);
  // What a plan takes is known when it is made, and is not far from this; where no plan of those fits, all count.
  const double wanted = static_cast<double>(as_it_is.most()) *
                        static_cast<double>(budget > others ? budget - others : 0) /
                        std::max(1.0, static_cast<double>(arena));
  constexpr double a_step = 0.97, near = 1.05;
  std::uint64_t least = whole.peak_bytes();
  for (const double most : {near * wanted, std::numeric_limits<double>::infinity()}) {
    recomputation less = as_it_is;
    for (bool goes_on = true; goes_on;) {
      const auto next = static_cast<std::int64_t>(a_step * static_cast<double>(less.most()));
      less.reduce_to(next);
      goes_on = less.most() <= next && next > 0;
      if (static_cast<double>(less.most()) > most && goes_on) continue;
      execution_plan found = planned(less.rewritten());
      if (found.peak_bytes() <= budget) return found;
      least = std::min(least, found.peak_bytes());
    }
  }
  const bool trains = whole.updated.tensors.size() != 0;
  fail(error_category::out_of_memory,
       "plan_options::memory_budget is {} bytes; {} are needed, of which {} are {}, and the rest values of the step, "
       "however many of them are computed again: {}",
       budget, least, others,
       trains ? "parameters, gradients, the optimiser's state, inputs and results" : "parameters, inputs and results",
       others > budget ? "these alone are more than the budget"
       : trains ? "use a smaller batch; training_options::accumulate adds up the gradients of several, for as much "
                  "memory as gradients take"
                : "use a smaller batch");
}

}  // namespace meganeura::inline MEGANEURA_ABI::plan::detail
