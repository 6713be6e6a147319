// SPDX-License-Identifier: MIT
// Definitions for egraph/extract.hpp.
#pragma once
#include <meganeura/egraph/extract.hpp>
#include <meganeura/egraph/step_groups.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

namespace meganeura::inline MEGANEURA_ABI::egraph {

namespace detail {

class extractor {
 public:
  explicit extractor(const choice_table& from, const node_penalty& more = {})
      : table_(from), more_(more), live_(from.class_count()) {
    find_costs();
    choose_first();
  }

  /// Takes in a class of one node, a region with several results, and the nodes that name these, new or left from
  /// another choice. Whether it is chosen now.
  bool offer(class_id several) {
    several = table_.graph().find(several);
    const bool is_new = !table_.has(several);
    if (is_new) take_in(several);
    if (by_groups_)
      improve_values(several);
    else if (is_new)
      improve_shared(several);
    return live_[several].uses > 0;
  }

  /// Chooses what was chosen before, with what had been offered then.
  void take(const extraction& plan) {
    for (class_id id : plan.order) {
      if (!table_.has(id)) take_in(id);
    }
    for (class_id id : plan.order) live_[id].node = plan.chosen[id];
    for (class_id root : table_.roots()) (void)acquire(root);
    by_groups_ = true;
    groups_.find();
  }

  [[nodiscard]] std::vector<alternative> alternatives() {
    std::vector<alternative> found;
    for (class_id id : table_.order()) {
      if (live_[id].uses == 0) continue;
      const enode_id chosen = live_[id].node;
      for (enode_id node : table_[id].candidates) {
        if (node == chosen) continue;
        turned_.clear();
        (void)change(id, node);
        const choice_change made{id, chosen};
        const double seconds = groups_.seconds_more(std::span(&made, 1));
        (void)change(id, chosen);
        if (std::isfinite(seconds)) found.push_back({id, node, seconds});
      }
    }
    return found;
  }

  [[nodiscard]] bool is_read(class_id id) const { return live_[table_.graph().find(id)].uses > 0; }

  void repair(int max_passes, int& passes) {
    for (class_id root : table_.roots()) total_ += acquire(root);
    for (passes = 0; passes < max_passes; ++passes) {
      const double before = total_;
      for (std::size_t i = table_.order().size(); i-- > 0;) improve(table_.order()[i]);
      for (std::size_t i = table_.order().size(); i-- > 0;) improve_shared(table_.order()[i]);
      if (total_ >= before * (1 - 1e-12)) break;
    }
  }

  /// The same with what groups take, which no sum over kernels tells.
  void repair_groups(int max_passes) {
    if (!by_groups_) {
      by_groups_ = true;
      find_costs();
    }
    groups_.find();
    for (int pass = 0; pass < max_passes; ++pass) {
      const std::size_t before = groups_.moved();
      for (std::size_t i = table_.order().size(); i-- > 0;) improve_group(table_.order()[i]);
      for (std::size_t i = table_.order().size(); i-- > 0;) improve_readers(table_.order()[i]);
      if (groups_.moved() == before) break;
      if (pass + 1 < max_passes) groups_.find();
    }
  }

  [[nodiscard]] extraction result() const {
    extraction made;
    made.seconds = by_groups_ ? groups_.seconds() : total_, made.groups = groups_.depth(), made.moved = groups_.moved();
    made.chosen.assign(table_.graph().class_slots(), no_id);
    std::vector<class_id> live;
    for (class_id id : table_.order()) {
      if (live_[id].uses == 0) continue;
      made.chosen[id] = live_[id].node;
      live.push_back(id);
    }
    std::stable_sort(live.begin(), live.end(), [&](class_id x, class_id y) { return table_[x].rank < table_[y].rank; });
    std::vector<bool> listed(table_.graph().class_slots());
    std::vector<class_id> waiting;
    for (class_id id : live) list(id, waiting, listed, made.order);
    return made;
  }

 private:
  void take_in(class_id several) {
    table_.take_in(several);
    live_.resize(table_.class_count());
    live_[several].node = table_[several].candidates[0];
    cost_.resize(table_.node_count());
    find_cost(live_[several].node);
    for (enode_id node : table_.graph()[several].parents) {
      if (table_.is_known(node)) find_cost(node);
    }
    if (by_groups_) groups_.take_in(several);
  }

  void find_costs() {
    cost_.resize(table_.node_count());
    for (enode_id node{0}; node < cost_.size(); ++node) {
      if (table_.is_known(node)) find_cost(node);
    }
  }
  void find_cost(enode_id node) {
    const launch_time& launch = table_.launch();
    cost_[node] = table_.time(node).alone;
    cost_[node] += !table_.launches(node) ? table_.time(node).busy : by_groups_ ? launch.dispatch : launch.alone();
    if (more_ && !by_groups_) cost_[node] += more_(node);
  }

  // After what it reads: what has several results may read values of a higher rank than those it computes.
  void list(class_id id, std::vector<class_id>& waiting, std::vector<bool>& listed,
            std::vector<class_id>& order) const {
    for (waiting.push_back(id); !waiting.empty();) {
      const class_id next = waiting.back();
      const std::size_t before = waiting.size();
      for (class_id operand : table_.operands(live_[next].node)) {
        if (!listed[next] && !listed[operand]) waiting.push_back(operand);
      }
      if (waiting.size() > before) continue;
      if (!listed[next]) order.push_back(next);
      listed[next] = true;
      waiting.pop_back();
    }
  }

  // The first choice. A value's cost is shared out among the classes that may read it: added up whole for every path to
  // it, costs would double with each layer of a residual model and soon mean nothing.
  void choose_first() {
    std::vector<class_id> by_rank;
    for (class_id id : table_.order()) {
      if (table_.has(id)) by_rank.push_back(id);
    }
    std::sort(by_rank.begin(), by_rank.end(), [&](class_id x, class_id y) { return table_[x].rank < table_[y].rank; });
    std::vector<double> share(table_.graph().class_slots());
    for (class_id id : by_rank) {
      double least = std::numeric_limits<double>::infinity();
      for (enode_id node : table_[id].candidates) {
        double cost = cost_[node];
        for (class_id operand : table_.operands(node)) cost += share[operand];
        if (cost >= least) continue;
        least = cost;
        live_[id].node = node;
      }
      share[id] = least / static_cast<double>(std::max<std::size_t>(1, table_[id].readers.size()));
    }
  }

  using change_list = small_vector<choice_change, 16>;  // in their order

  void improve_group(class_id id) {
    if (live_[id].uses == 0 || table_[id].candidates.size() < 2) return;
    for (enode_id node : table_[id].candidates) {
      const choice_change change_of{id, live_[id].node};
      if (node == change_of.before) continue;
      turned_.clear();
      const std::uint32_t level = groups_.level_by(node);
      const double delta = change(id, node);
      const bool may_gain = level == groups_.level_of(id) ||
                            (level != step_groups::cyclic && delta + group_cost(id, level) < -step_groups::tolerance);
      if (!may_gain || !groups_.is_quicker(std::span(&change_of, 1))) change(id, change_of.before);
    }
  }
  // Those of a shared value's readers that cannot wait for it may each do without it in the time that one of them
  // takes: all are moved together, where that could make the longest way shorter.
  void improve_readers(class_id id) {
    if (live_[id].uses < 2 || !table_.has(id)) return;
    const std::uint32_t level = groups_.level_of(id);
    if (level == 0 || level >= step_groups::cyclic || table_.is_root(id) || groups_.slack_of(id) > 0) return;
    const auto does_without = [&](enode_id node) { return !table_.reads(node, id) && groups_.level_by(node) <= level; };
    change_list readers;
    for (class_id reader : table_[id].readers) {
      if (live_[reader].uses == 0 || !table_.reads(live_[reader].node, id)) continue;
      if (groups_.slack_of(reader) > 0) continue;
      if (std::ranges::none_of(table_[reader].candidates, does_without)) return;
      readers.push_back({reader, live_[reader].node});
    }
    if (readers.empty()) return;
    turned_.clear();
    double delta = 0;
    for (const choice_change& each : readers) {  // one may have been read by another alone
      if (live_[each.changed].uses > 0) delta += change_to_best(each.changed, does_without);
    }
    judge(readers, delta, cost_[live_[id].node]);
  }

  // All that is chosen of a kernel's results is taken from there, where that makes the whole quicker.
  void improve_values(class_id several) {
    change_list values;
    turned_.clear();
    double delta = 0;
    for (const enode_id node : table_.graph()[several].parents) {
      const class_id value = table_.graph().find(table_.graph().node(node).owner);
      if (table_.graph().node(node).dead || live_[value].uses == 0 || live_[value].node == node) continue;
      values.push_back({value, live_[value].node});
      delta += change(value, node);
    }
    if (values.empty()) return;
    judge(values, delta, cost_[table_.graph()[several].nodes.front()]);
  }

  // Keeps what was changed or takes it back. What was of no use in one layer is not tried in all others like it, which
  // such seconds tell.
  void judge(const change_list& changes, double delta, double cost) {
    const auto beside = static_cast<float>(groups_.seconds_at(groups_.level_of(changes[0].changed)));
    int& failures = failures_[{static_cast<float>(delta), static_cast<float>(cost), beside}];
    if (failures < most_failures && groups_.is_quicker(changes)) return;
    ++failures;
    take_back(changes);
  }

  // What the groups cost that the longest way has more where a class moves to that level.
  [[nodiscard]] double group_cost(class_id id, std::uint32_t level) const {
    const std::uint32_t now = groups_.level_of(id), slack = groups_.slack_of(id);
    const double more = level > now + slack ? level - now - slack : 0;
    return table_.launch().group * (level < now && slack == 0 ? -static_cast<double>(now - level) : more);
  }

  // Adds one use of a class; what becomes live with it costs.
  double acquire(class_id id) {
    if (live_[id].uses++ != 0) return 0;
    double cost = turn(id);
    while (!pending_.empty()) {
      const class_id next = pending_.back();
      pending_.pop_back();
      if (live_[next].uses++ == 0) cost += turn(next);
    }
    return cost;
  }
  double release(class_id id) {
    if (--live_[id].uses != 0) return 0;
    double cost = turn(id);
    while (!pending_.empty()) {
      const class_id next = pending_.back();
      pending_.pop_back();
      if (--live_[next].uses == 0) cost += turn(next);
    }
    return cost;
  }
  double turn(class_id id) {
    const enode_id node = live_[id].node;
    for (class_id operand : table_.operands(node)) pending_.push_back(operand);  // few: quicker than insert
    if (by_groups_) turned_.push_back(id);
    return cost_[node];
  }

  // Switches a live class to another node and returns the change. New operands first: shared ones then never cascade.
  double change(class_id id, enode_id node) {
    double delta = cost_[node] - cost_[live_[id].node];
    for (class_id operand : table_.operands(node)) delta += acquire(operand);
    for (class_id operand : table_.operands(live_[id].node)) delta -= release(operand);
    live_[id].node = node;
    return delta;
  }

  template <class Allowed>
  double change_to_best(class_id id, Allowed allowed) {
    const enode_id before = live_[id].node;
    enode_id best = allowed(before) ? before : no_id;
    double best_delta = 0, delta = 0;
    for (enode_id node : table_[id].candidates) {
      if (node == live_[id].node || !allowed(node)) continue;
      delta += change(id, node);
      if (best != no_id && delta >= best_delta - step_groups::tolerance) continue;
      best = node;
      best_delta = delta;
    }
    if (best == no_id) best = before;
    if (live_[id].node != best) change(id, best);
    return best == before ? 0 : best_delta;
  }

  void improve(class_id id) {
    if (live_[id].uses == 0 || table_[id].candidates.size() < 2) return;
    total_ += change_to_best(id, [](enode_id) { return true; });
  }

  // One class alone rarely gains by starting to read a value that nobody else reads yet (or by being the first to
  // stop): all readers of a shared value are moved together, and kept only if the sum falls.
  void improve_shared(class_id id) {
    const choice_table::class_choice& shared = table_[id];
    if (shared.readers.size() < 2 || !table_.has(id)) return;
    const bool was_live = live_[id].uses > 0;
    change_list undo;
    double delta = was_live ? 0 : acquire(id);  // held while the readers decide
    for (class_id reader : shared.readers) {
      if (live_[reader].uses == 0 || table_[reader].candidates.size() < 2) continue;
      undo.push_back({reader, live_[reader].node});
      delta += change_to_best(reader, [&](enode_id node) { return table_.reads(node, id) != was_live; });
      if (live_[reader].node == undo.back().before) undo.pop_back();
    }
    if (!was_live) delta -= release(id);
    if (delta < -step_groups::tolerance) {
      total_ += delta;
      return;
    }
    take_back(undo);
  }

  void take_back(const change_list& changes) {
    for (std::size_t i = changes.size(); i-- > 0;) {
      const auto [id, node] = changes[i];
      if (live_[id].uses > 0) {
        change(id, node);
      } else {
        live_[id].node = node;
      }
    }
  }

  static constexpr int most_failures = 2;
  choice_table table_;
  node_penalty more_;
  std::vector<live_class> live_;
  std::vector<double> cost_;  // of a kernel that is a group of its own; while groups are counted, without the group
  bool by_groups_ = false;    // they are
  std::vector<class_id> pending_;  // classes an acquire or release still has to visit: graphs are deeper than stacks
  std::vector<class_id> turned_;   // by the changes looked at: became live or no longer are
  double total_ = 0;               // of what is live, each kernel for itself
  step_groups groups_{table_, live_, turned_};
  // By what a change costs more, what it is of costs, and the group where it is.
  std::map<std::array<float, 3>, int> failures_;
};

}  // namespace detail

MEGANEURA_INLINE extraction extract(const choice_table& from, const growth& grow, int max_passes,
                                    const node_penalty& more) {
  detail::extractor work(from, more);
  int passes = 0;
  work.repair(max_passes, passes);
  std::size_t offered = 0, merged = 0;
  const auto offer = [&](class_id several) {
    ++offered;
    const bool taken = work.offer(several);
    merged += taken;
    return taken;
  };
  choice_so_far choice{offer, [&](class_id id) { return work.is_read(id); }};
  if (grow) grow(work.result(), choice);
  work.repair_groups(max_passes);
  if (grow && max_passes > 0) {
    choice.by_groups = true;
    grow(work.result(), choice);
    work.repair_groups(max_passes);
  }
  extraction result = work.result();
  result.offered = offered;
  result.merged = merged;
  result.passes = passes;
  return result;
}

MEGANEURA_INLINE std::vector<alternative> compare(const choice_table& from, const extraction& plan) {
  detail::extractor work(from);
  work.take(plan);
  return work.alternatives();
}

}  // namespace meganeura::inline MEGANEURA_ABI::egraph
