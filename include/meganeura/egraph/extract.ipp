// SPDX-License-Identifier: MIT
// Definitions for egraph/extract.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/egraph/extract.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::egraph {

namespace detail {

class extractor {
 public:
  extractor(const engine& g, std::span<const class_id> order, std::span<const class_id> roots, const node_time& time,
            const launch_time& launch, const node_penalty& more = {})
      : g_(g),
        time_of_(time),
        more_(more),
        launch_(launch),
        classes_(g.class_slots()),
        time_(g.node_count()),
        cost_(g.node_count(), -1),
        live_(g.class_slots()) {
    std::vector<bool> listed(g.class_slots(), false);
    for (class_id id : order) {  // classes may have merged since they were ordered: each is chosen and paid for once
      if (!listed[g.find(id)]) order_.push_back(g.find(id));
      listed[g.find(id)] = true;
    }
    for (class_id id : roots) roots_.push_back(g.find(id));
    list_operands();
    rank_classes();
    choose_first();
  }

  /// Takes in a class of one node, a region with several results, and the nodes that name these, new or left from
  /// another choice. Whether it is chosen now.
  bool offer(class_id several) {
    several = g_.find(several);
    const bool is_new = several >= classes_.size() || classes_[several].rank == unranked;
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
      if (classes_[id].rank == unranked) take_in(id);
    }
    for (class_id id : plan.order) live_[id].node = plan.chosen[id];
    for (class_id root : roots_) (void)acquire(root);
    total_ = step_seconds();
  }

  [[nodiscard]] std::vector<alternative> alternatives() {
    std::vector<alternative> found;
    for (class_id id : order_) {
      if (live_[id].uses == 0) continue;
      const enode_id chosen = live_[id].node;
      for (enode_id node : classes_[id].candidates) {
        if (node == chosen) continue;
        (void)change(id, node);
        const double seconds = step_seconds() - total_;
        (void)change(id, chosen);
        if (std::isfinite(seconds)) found.push_back({id, node, seconds});
      }
    }
    return found;
  }

  [[nodiscard]] bool is_read(class_id id) const { return live_[g_.find(id)].uses > 0; }

  void repair(int max_passes, int& passes) {
    for (class_id root : roots_) total_ += acquire(root);
    for (passes = 0; passes < max_passes; ++passes) {
      const double before = total_;
      for (std::size_t i = order_.size(); i-- > 0;) improve(order_[i]);
      for (std::size_t i = order_.size(); i-- > 0;) improve_shared(order_[i]);
      if (total_ >= before * (1 - 1e-12)) break;
    }
  }

  /// The same with what groups take, which no sum over kernels tells.
  void repair_groups(int max_passes) {
    if (!by_groups_) {
      by_groups_ = true;
      for (enode_id node{0}; node < cost_.size(); ++node) {
        if (cost_[node] > 0 && std::isfinite(cost_[node])) find_cost(node);
      }
    }
    find_groups();
    for (int pass = 0; pass < max_passes; ++pass) {
      const std::size_t before = moved_;
      for (std::size_t i = order_.size(); i-- > 0;) improve_group(order_[i]);
      for (std::size_t i = order_.size(); i-- > 0;) improve_readers(order_[i]);
      if (moved_ == before) break;
      if (pass + 1 < max_passes) find_groups();
    }
  }

  [[nodiscard]] extraction result() const {
    extraction made;
    made.seconds = total_, made.groups = depth_, made.moved = moved_;
    made.chosen.assign(g_.class_slots(), no_id);
    std::vector<class_id> live;
    for (class_id id : order_) {
      if (live_[id].uses == 0) continue;
      made.chosen[id] = live_[id].node;
      live.push_back(id);
    }
    std::stable_sort(live.begin(), live.end(),
                     [&](class_id x, class_id y) { return classes_[x].rank < classes_[y].rank; });
    std::vector<bool> listed(g_.class_slots());
    std::vector<class_id> waiting;
    for (class_id id : live) list(id, waiting, listed, made.order);
    return made;
  }

 private:
  void take_in(class_id several) {
    cost_.resize(g_.node_count(), 0);
    time_.resize(g_.node_count());
    live_.resize(g_.class_slots());
    classes_.resize(g_.class_slots());
    list_operands();
    order_.push_back(several);
    const enode_id region = g_[several].nodes.front();
    find_cost(region);
    live_[several].node = region;
    classes_[several].candidates = {region};
    classes_[several].rank = 0;
    note_reader(several, region);
    for (const enode_id node : g_[several].parents) {
      if (g_.node(node).dead) continue;
      find_cost(node);
      const class_id value = g_.find(g_.node(node).owner);
      classes_[value].candidates.push_back(node);
      note_reader(value, node);
    }
    if (!by_groups_) return;
    const std::size_t slots = g_.class_slots();
    levels_.resize(slots, unknown), known_.resize(slots, unknown), before_.resize(slots, unknown), after_.resize(slots);
    known_[several] = level_by(region);
  }

  // After what it reads: what has several results may read values of a higher rank than those it computes.
  void list(class_id id, std::vector<class_id>& waiting, std::vector<bool>& listed,
            std::vector<class_id>& order) const {
    for (waiting.push_back(id); !waiting.empty();) {
      const class_id next = waiting.back();
      const std::size_t before = waiting.size();
      for (class_id operand : distinct_operands(live_[next].node)) {
        if (!listed[next] && !listed[operand]) waiting.push_back(operand);
      }
      if (waiting.size() > before) continue;
      if (!listed[next]) order.push_back(next);
      listed[next] = true;
      waiting.pop_back();
    }
  }

  // The operands of nodes that are new.
  void list_operands() {
    for (auto node = static_cast<enode_id>(first_operand_.size() - 1); node < g_.node_count(); ++node) {
      for (class_id operand : g_.operands(node)) {
        operand = g_.find(operand);
        const auto begin = operands_.begin() + static_cast<std::ptrdiff_t>(first_operand_.back());
        if (std::find(begin, operands_.end(), operand) == operands_.end()) operands_.push_back(operand);
      }
      first_operand_.push_back(operands_.size());
    }
  }

  static constexpr std::uint32_t unranked = ~std::uint32_t{0};
  struct class_choice {
    std::uint32_t rank = unranked;  // operands of usable nodes rank lower: no plan can be cyclic
    node_list candidates;
    class_list readers;  // classes with a candidate reading this one
  };
  struct live_class {
    enode_id node = no_id;
    std::uint32_t uses = 0;
  };

  // A class ranks when it has a node whose operands all rank; nodes reading a class of higher rank are left out.
  void rank_classes() {
    std::uint32_t next = 0;
    std::vector<class_id> waiting = order_;
    for (std::size_t before = waiting.size() + 1; !waiting.empty() && waiting.size() < before;) {
      before = waiting.size();
      std::erase_if(waiting, [&](class_id id) {
        for (enode_id node : g_[id].nodes) {
          if (g_.node(node).dead || !usable(node, next)) continue;
          if (cost_[node] < 0) find_cost(node);
          if (std::isinf(cost_[node])) continue;
          classes_[id].candidates.push_back(node);
        }
        if (classes_[id].candidates.empty()) return false;
        classes_[id].rank = next++;
        for (enode_id node : classes_[id].candidates) note_reader(id, node);
        return true;
      });
    }
    for (class_id root : roots_) {
      if (classes_[root].rank != unranked) continue;
      const enode& node = g_.node(g_[root].nodes.front());
      fail(error_category::internal, "extract: no kernel computes {} {}{}; a rule family it needs is disabled",
           to_string(node.kind), to_string(node.type), to_string(g_.extents(root)));
    }
  }

  [[nodiscard]] bool usable(enode_id node, std::uint32_t rank) const {
    for (class_id operand : g_.operands(node)) {
      if (classes_[g_.find(operand)].rank >= rank) return false;
    }
    return true;
  }

  void note_reader(class_id id, enode_id node) {
    for (class_id operand : g_.operands(node)) {
      class_list& readers = classes_[g_.find(operand)].readers;
      if (readers.empty() || readers.back() != id) readers.push_back(id);
    }
  }

  [[nodiscard]] std::span<const class_id> distinct_operands(enode_id node) const {
    return {operands_.data() + first_operand_[node], first_operand_[node + 1] - first_operand_[node]};
  }

  // The first choice. A value's cost is shared out among the classes that may read it: added up whole for every path to
  // it, costs would double with each layer of a residual model and soon mean nothing.
  void choose_first() {
    std::vector<class_id> by_rank;
    for (class_id id : order_) {
      if (classes_[id].rank != unranked) by_rank.push_back(id);
    }
    std::sort(by_rank.begin(), by_rank.end(),
              [&](class_id x, class_id y) { return classes_[x].rank < classes_[y].rank; });
    std::vector<double> share(g_.class_slots());
    for (class_id id : by_rank) {
      double least = std::numeric_limits<double>::infinity();
      for (enode_id node : classes_[id].candidates) {
        double cost = cost_[node];
        for (class_id operand : distinct_operands(node)) cost += share[operand];
        if (cost >= least) continue;
        least = cost;
        live_[id].node = node;
      }
      share[id] = least / static_cast<double>(std::max<std::size_t>(1, classes_[id].readers.size()));
    }
  }

  void find_cost(enode_id node) {
    time_[node] = time_of_(node);
    time_[node].room = 0;  // is found by whoever places the kernels: those that nobody waits for stand elsewhere then
    cost_[node] = time_[node].alone + (launches(node) ? launch_.alone() : 0);
    if (by_groups_) cost_[node] -= launches(node) ? launch_.group : 0;
    if (more_ && !by_groups_) cost_[node] += more_(node);
    if (!std::isfinite(cost_[node] + time_[node].busy)) cost_[node] = std::numeric_limits<double>::infinity();
  }
  [[nodiscard]] bool launches(enode_id node) const {
    const op_stage stage = info(g_.node(node).kind).stage;
    return stage != op_stage::leaf && stage != op_stage::projection;
  }

  // ---- groups

  // How many kernels are on the longest way to a value as it is chosen now; `cyclic` where one would wait for itself,
  // which those with several results can. Of classes `from` on and what they need; `finished_` has them, operands
  // before users.
  static constexpr std::uint32_t unknown = ~std::uint32_t{0}, open = unknown - 1, cyclic = unknown - 2;
  void find_levels(std::span<const class_id> from) {
    for (class_id id : from) {
      if (classes_[id].rank != unranked) pending_.push_back(id);
      while (!pending_.empty()) {
        const class_id next = pending_.back();
        if (levels_[next] <= cyclic) {
          pending_.pop_back();
          continue;
        }
        levels_[next] = open;
        std::uint32_t level = 0;
        for (class_id operand : distinct_operands(live_[next].node)) {
          if (levels_[operand] == unknown) pending_.push_back(operand);
          level = std::max(level, levels_[operand] == open ? cyclic : levels_[operand]);
        }
        if (level == unknown) continue;
        levels_[next] = level == cyclic ? cyclic : level + launches(live_[next].node);
        finished_.push_back(next);
      }
    }
  }
  void forget_levels() {
    levels_.assign(g_.class_slots(), unknown);
    finished_.clear();
  }

  // Of one step as it is chosen now; infinite where a kernel would wait for itself.
  [[nodiscard]] double step_seconds() {
    forget_levels();
    find_levels(roots_);
    groups_.assign(1, {});
    for (class_id id : finished_) {
      if (levels_[id] == cyclic) return std::numeric_limits<double>::infinity();
      if (groups_.size() <= levels_[id]) groups_.resize(levels_[id] + 1);
      if (launches(live_[id].node)) groups_[levels_[id]].add(time_[live_[id].node]);
    }
    double seconds = 0;
    for (const kernel_group& each : groups_) seconds += each.seconds(launch_);
    return seconds;
  }

  // What is known before a change: levels of all classes, and how many kernels are on the longest way from each live
  // one to the end.
  void find_groups() { note_groups(step_seconds()); }
  // The same behind step_seconds().
  void note_groups(double seconds) {
    total_ = seconds;
    depth_ = static_cast<std::uint32_t>(groups_.size()) - 1;
    after_.assign(g_.class_slots(), 0);
    for (std::size_t i = finished_.size(); i-- > 0;) {  // users before operands
      const enode_id node = live_[finished_[i]].node;
      const std::uint32_t after = after_[finished_[i]] + launches(node);
      for (class_id operand : distinct_operands(node)) after_[operand] = std::max(after_[operand], after);
    }
    known_groups_.swap(groups_);
    find_levels(order_);
    known_ = levels_;
    before_.assign(g_.class_slots(), unknown);
    moves_.clear();
  }
  [[nodiscard]] std::uint32_t level_by(enode_id node) const {
    std::uint32_t level = 0;
    for (class_id operand : distinct_operands(node)) level = std::max(level, known_[operand]);
    return level >= cyclic ? cyclic : level + launches(node);
  }

  // Changes of classes in their order, and what these were before.
  struct step {
    class_id changed;
    enode_id before;
  };
  using step_list = small_vector<step, 16>;

  void improve_group(class_id id) {
    if (live_[id].uses == 0 || classes_[id].candidates.size() < 2) return;
    for (enode_id node : classes_[id].candidates) {
      const step change_of{id, live_[id].node};
      if (node == change_of.before) continue;
      turned_.clear();
      const std::uint32_t level = level_by(node);
      const double delta = change(id, node);
      const bool may_gain = level == known_[id] || (level != cyclic && delta + group_cost(id, level) < -tolerance);
      if (!may_gain || !is_quicker(std::span(&change_of, 1))) change(id, change_of.before);
    }
  }
  // Those of a shared value's readers that cannot wait for it may each do without it in the time that one of them
  // takes: all are moved together, where that could make the longest way shorter.
  void improve_readers(class_id id) {
    if (live_[id].uses < 2 || classes_[id].rank == unranked || known_[id] >= cyclic || known_[id] == 0 ||
        known_[id] + after_[id] < depth_ || std::ranges::find(roots_, id) != roots_.end())
      return;
    const auto does_without = [&](enode_id node) { return !reads(node, id) && level_by(node) <= known_[id]; };
    step_list readers;
    for (class_id reader : classes_[id].readers) {
      if (live_[reader].uses == 0 || !reads(live_[reader].node, id)) continue;
      if (known_[reader] + after_[reader] < depth_) continue;
      if (std::ranges::none_of(classes_[reader].candidates, does_without)) return;
      readers.push_back({reader, live_[reader].node});
    }
    turned_.clear();
    double delta = 0;
    for (const step& each : readers) {  // one may have been read by another alone
      if (live_[each.changed].uses > 0) delta += change_to_best(each.changed, does_without);
    }
    judge(readers, delta, cost_[live_[id].node]);
  }

  // All that is chosen of a kernel's results is taken from there, where that makes the whole quicker.
  void improve_values(class_id several) {
    step_list values;
    turned_.clear();
    double delta = 0;
    for (const enode_id node : g_[several].parents) {
      const class_id value = g_.find(g_.node(node).owner);
      if (g_.node(node).dead || live_[value].uses == 0 || live_[value].node == node) continue;
      values.push_back({value, live_[value].node});
      delta += change(value, node);
    }
    if (values.empty()) return;
    judge(values, delta, cost_[g_[several].nodes.front()]);
  }

  // Keeps what was changed or takes it back. What was of no use in one layer is not tried in all others like it, which
  // such seconds tell.
  void judge(const step_list& steps, double delta, double cost) {
    int& failures = failures_[{static_cast<float>(delta), static_cast<float>(cost)}];
    if (failures < most_failures && is_quicker(steps)) return;
    ++failures;
    take_back(steps);
  }

  // What the groups cost that the longest way has more where a class moves to that level.
  [[nodiscard]] double group_cost(class_id id, std::uint32_t level) const {
    const std::uint32_t now = known_[id], slack = depth_ - now - after_[id];
    const double more = level > now + slack ? level - now - slack : 0;
    return launch_.group * (level < now && slack == 0 ? -static_cast<double>(now - level) : more);
  }

  // Keeps what was changed if the whole gets quicker: the groups that change are those of what has become live or no
  // longer is, of the classes that were changed, and of what waits for these.
  bool is_quicker(std::span<const step> steps) {
    keep_odd(turned_);
    for (const auto [id, before] : steps) {
      const std::uint32_t level = level_by(live_[id].node);
      if (live_[id].uses > 0 && (level == known_[id] || (level != cyclic && follow(id, level)))) continue;
      forget_moves();
      return is_quicker();
    }
    differences_.clear();
    const auto is_changed = [&](class_id id) { return std::ranges::find(steps, id, &step::changed) != steps.end(); };
    for (const auto [id, before] : steps) {
      note(before_[id] == unknown ? known_[id] : before_[id], before, false);
      note(known_[id], live_[id].node, true);
    }
    bool is_cyclic = false;
    for (class_id each : turned_) {
      const bool is_new = live_[each].uses > 0;
      const std::uint32_t at = is_new || before_[each] == unknown ? known_[each] : before_[each];
      is_cyclic = is_cyclic || at >= cyclic;
      note(at, live_[each].node, is_new);
    }
    for (class_id each : moves_) {
      if (is_changed(each) || live_[each].uses == 0 || std::ranges::find(turned_, each) != turned_.end()) continue;
      note(before_[each], live_[each].node, false);
      note(known_[each], live_[each].node, true);
    }
    if (is_cyclic || !regroup()) {
      forget_moves();
      return false;
    }
    ++moved_;
    find_ways(steps);
    for (class_id each : moves_) before_[each] = unknown;
    moves_.clear();
    return true;
  }
  // Of classes that were turned several times, those that are now what they were not.
  static void keep_odd(std::vector<class_id>& turned) {
    std::ranges::sort(turned);
    std::size_t kept = 0;
    for (std::size_t i = 0, end = 0; i < turned.size(); i = end) {
      for (end = i; end < turned.size() && turned[end] == turned[i];) ++end;
      if ((end - i) % 2 != 0) turned[kept++] = turned[i];
    }
    turned.resize(kept);
  }
  // The same by all groups.
  bool is_quicker() {
    const double seconds = step_seconds();
    if (seconds >= total_ - tolerance) return false;
    ++moved_;
    note_groups(seconds);
    return true;
  }

  // Finds the levels of all that waits for a class, which is at `level` now. False where there is no end to it, as
  // where a kernel would wait for itself.
  bool follow(class_id id, std::uint32_t level) {
    waiting_.clear();
    move(id, level);
    for (std::size_t next = 0; next < waiting_.size(); ++next) {
      if (next > most_followed) return false;
      const class_id each = waiting_[next];
      const std::uint32_t found = level_by(live_[each].node);
      if (found == known_[each]) continue;
      if (found == cyclic && live_[each].uses > 0) return false;
      move(each, found);
    }
    return true;
  }
  void move(class_id id, std::uint32_t level) {
    if (before_[id] == unknown) before_[id] = known_[id], moves_.push_back(id);
    known_[id] = level;
    for_readers(id, [&](class_id reader) { waiting_.push_back(reader); });
  }
  void forget_moves() {
    for (class_id each : moves_) known_[each] = std::exchange(before_[each], unknown);
    moves_.clear();
  }
  // Those that read a class as they are chosen now, live or not.
  template <class Visit>
  void for_readers(class_id id, const Visit& visit) const {
    for (class_id reader : classes_[id].readers) {
      if (live_[reader].node != no_id && reads(live_[reader].node, id)) visit(reader);
    }
  }

  struct difference {
    std::uint32_t level;
    enode_id node;
    bool is_new;
  };
  void note(std::uint32_t level, enode_id node, bool is_new) {
    if (launches(node)) differences_.push_back({level, node, is_new});
  }
  // Applies the differences to the groups if these get quicker.
  bool regroup() {
    struct known_time {
      std::uint32_t level;
      double seconds, busy;
    };
    small_vector<known_time, 8> times;
    std::ranges::stable_sort(differences_, {}, &difference::level);
    for (const difference& each : differences_) {
      if (known_groups_.size() <= each.level) known_groups_.resize(each.level + 1);
      const kernel_group& known = known_groups_[each.level];
      if (times.empty() || times.back().level != each.level)
        times.push_back({each.level, known.seconds(launch_), known.busy});
    }
    const auto apply = [&](bool forward) {
      for (const difference& each : differences_) {
        kernel_group& changed = known_groups_[each.level];
        each.is_new == forward ? changed.add(time_[each.node]) : changed.remove(time_[each.node]);
      }
    };
    apply(true);
    double seconds = 0;
    for (const known_time& each : times) seconds += known_groups_[each.level].seconds(launch_) - each.seconds;
    const bool is_kept = seconds < -tolerance;
    if (is_kept) {
      total_ += seconds;
    } else {
      apply(false);
      for (const known_time& each : times) known_groups_[each.level].busy = each.busy;
    }
    while (known_groups_.size() > 1 && known_groups_.back().empty()) known_groups_.pop_back();
    depth_ = static_cast<std::uint32_t>(known_groups_.size()) - 1;
    return is_kept;
  }

  // The longest ways to the end from what classes read before and read now, and from what that needs, if near; the
  // next pass finds them all.
  void find_ways(std::span<const step> steps) {
    waiting_.clear();
    const auto add = [&](enode_id node) {
      const std::span<const class_id> operands = distinct_operands(node);
      waiting_.insert(waiting_.end(), operands.begin(), operands.end());
    };
    for (const auto [id, before] : steps) add(before), add(live_[id].node);
    for (class_id each : turned_) add(live_[each].node);
    for (std::size_t next = 0; next < waiting_.size() && next <= most_followed; ++next) {
      const class_id each = waiting_[next];
      std::uint32_t most = 0;
      for_readers(each, [&](class_id reader) {
        if (live_[reader].uses > 0) most = std::max(most, after_[reader] + launches(live_[reader].node));
      });
      if (most == after_[each]) continue;
      after_[each] = most;
      if (live_[each].node != no_id) add(live_[each].node);
    }
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
    for (class_id operand : distinct_operands(node)) pending_.push_back(operand);  // few: quicker than insert
    if (by_groups_) turned_.push_back(id);
    return cost_[node];
  }

  // Switches a live class to another node and returns the change. New operands first: shared ones then never cascade.
  double change(class_id id, enode_id node) {
    double delta = cost_[node] - cost_[live_[id].node];
    for (class_id operand : distinct_operands(node)) delta += acquire(operand);
    for (class_id operand : distinct_operands(live_[id].node)) delta -= release(operand);
    live_[id].node = node;
    return delta;
  }

  template <class Allowed>
  double change_to_best(class_id id, Allowed allowed) {
    const enode_id before = live_[id].node;
    enode_id best = allowed(before) ? before : no_id;
    double best_delta = 0, delta = 0;
    for (enode_id node : classes_[id].candidates) {
      if (node == live_[id].node || !allowed(node)) continue;
      delta += change(id, node);
      if (best != no_id && delta >= best_delta - tolerance) continue;
      best = node;
      best_delta = delta;
    }
    if (best == no_id) best = before;
    if (live_[id].node != best) change(id, best);
    return best == before ? 0 : best_delta;
  }

  void improve(class_id id) {
    if (live_[id].uses == 0 || classes_[id].candidates.size() < 2) return;
    total_ += change_to_best(id, [](enode_id) { return true; });
  }

  // One class alone rarely gains by starting to read a value that nobody else reads yet (or by being the first to
  // stop): all readers of a shared value are moved together, and kept only if the sum falls.
  void improve_shared(class_id id) {
    const class_choice& shared = classes_[id];
    if (shared.readers.size() < 2 || shared.rank == unranked) return;
    const bool was_live = live_[id].uses > 0;
    step_list undo;
    double delta = was_live ? 0 : acquire(id);  // held while the readers decide
    for (class_id reader : shared.readers) {
      if (live_[reader].uses == 0 || classes_[reader].candidates.size() < 2) continue;
      undo.push_back({reader, live_[reader].node});
      delta += change_to_best(reader, [&](enode_id node) { return reads(node, id) != was_live; });
      if (live_[reader].node == undo.back().before) undo.pop_back();
    }
    if (!was_live) delta -= release(id);
    if (delta < -tolerance) {
      total_ += delta;
      return;
    }
    take_back(undo);
  }

  void take_back(const step_list& steps) {
    for (std::size_t i = steps.size(); i-- > 0;) {
      const auto [id, node] = steps[i];
      if (live_[id].uses > 0) {
        change(id, node);
      } else {
        live_[id].node = node;
      }
    }
  }

  [[nodiscard]] bool reads(enode_id node, class_id id) const {
    const std::span<const class_id> operands = distinct_operands(node);
    return std::find(operands.begin(), operands.end(), id) != operands.end();
  }

  static constexpr std::size_t most_followed = 256;
  static constexpr int most_failures = 2;
  static constexpr double tolerance = 1e-13;  // seconds: below what any prediction means
  const engine& g_;
  const node_time& time_of_;
  node_penalty more_;
  launch_time launch_;
  std::vector<class_id> order_, roots_, operands_;  // operands: of each node, canonical and distinct
  std::vector<std::size_t> first_operand_{0};       // and the end of the last one's
  std::vector<class_choice> classes_;
  std::vector<kernel_time> time_;
  std::vector<double> cost_;  // of a kernel that is a group of its own; while groups are counted, without the group
  bool by_groups_ = false;    // they are
  std::vector<live_class> live_;
  std::vector<class_id> pending_;  // classes an acquire or release still has to visit: graphs are deeper than stacks
  double total_ = 0;               // of what is live, first each kernel for itself, then group by group
  std::vector<std::uint32_t> levels_, known_, after_;  // of classes; known: before the change that is looked at
  std::uint32_t depth_ = 0;
  std::vector<class_id> finished_;
  std::vector<kernel_group> groups_, known_groups_;  // by level
  std::vector<class_id> turned_;                     // by the changes looked at: became live or no longer are
  std::vector<class_id> moves_, waiting_;            // classes at other levels by it, and those to look at for that
  std::vector<std::uint32_t> before_;                // levels of these before it; unknown of all others
  std::vector<difference> differences_;              // of groups
  std::map<std::pair<float, float>, int> failures_;  // by what a change costs more and what it is of costs
  std::size_t moved_ = 0;
};

}  // namespace detail

MEGANEURA_INLINE extraction extract(const engine& g, std::span<const class_id> order, std::span<const class_id> roots,
                                    const node_time& time, const launch_time& launch, const growth& grow,
                                    int max_passes, const node_penalty& more) {
  detail::extractor work(g, order, roots, time, launch, more);
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

MEGANEURA_INLINE std::vector<alternative> compare(const engine& g, std::span<const class_id> order,
                                                  std::span<const class_id> roots, const extraction& plan,
                                                  const node_time& time, const launch_time& launch) {
  detail::extractor work(g, order, roots, time, launch);
  work.take(plan);
  return work.alternatives();
}

}  // namespace meganeura::inline MEGANEURA_ABI::egraph
