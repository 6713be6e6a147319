// SPDX-License-Identifier: MIT
// Definitions for egraph/step_groups.hpp.
#pragma once
#include <meganeura/egraph/step_groups.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::egraph::detail {

MEGANEURA_INLINE void group_order::assign(std::uint32_t count) {
  at_.resize(count);
  std::iota(at_.begin(), at_.end(), std::uint32_t{0});
  sequence_ = position_ = at_;
  dropped_.assign(count, false);
}

MEGANEURA_INLINE std::uint32_t group_order::insert(std::uint32_t position) {
  const std::uint32_t made = all();
  sequence_.insert(position == count() ? sequence_.end() : std::ranges::find(sequence_, at_[position]), made);
  position_.push_back(0), dropped_.push_back(false);
  number();
  return made;
}

MEGANEURA_INLINE void group_order::take_back(std::uint32_t all_before) {
  std::erase_if(sequence_, [&](std::uint32_t group) { return group >= all_before; });
  position_.resize(all_before), dropped_.resize(all_before);
  number();
}

MEGANEURA_INLINE void group_order::number() {
  at_.clear();
  for (std::uint32_t group : sequence_) {
    position_[group] = count();
    if (!dropped_[group]) at_.push_back(group);
  }
}

MEGANEURA_INLINE void step_groups::find_levels(std::span<const class_id> from) {
  for (class_id id : from) {
    if (table_.has(id)) pending_.push_back(id);
    while (!pending_.empty()) {
      const class_id next = pending_.back();
      if (levels_[next] <= cyclic) {
        pending_.pop_back();
        continue;
      }
      levels_[next] = open;
      std::uint32_t level = 0;
      for (class_id operand : table_.operands(live_[next].node)) {
        if (levels_[operand] == unknown) pending_.push_back(operand);
        level = std::max(level, levels_[operand] == open ? cyclic : levels_[operand]);
      }
      if (level == unknown) continue;
      levels_[next] = level == cyclic ? cyclic : level + table_.launches(live_[next].node);
      finished_.push_back(next);
    }
  }
}

MEGANEURA_INLINE double step_groups::seconds_now() {
  levels_.assign(table_.class_count(), unknown);
  finished_.clear();
  find_levels(table_.roots());
  groups_.assign(1, {});
  for (class_id id : finished_) {
    if (levels_[id] == cyclic) return std::numeric_limits<double>::infinity();
    if (groups_.size() <= levels_[id]) groups_.resize(levels_[id] + 1);
    if (table_.launches(live_[id].node)) groups_[levels_[id]].add(table_.time(live_[id].node));
  }
  double seconds = 0;
  for (const kernel_group& each : groups_) seconds += each.seconds(table_.launch());
  return seconds;
}

MEGANEURA_INLINE void step_groups::note_groups(double seconds) {
  total_ = seconds;
  depth_ = static_cast<std::uint32_t>(groups_.size()) - 1;
  latest_.assign(table_.class_count(), depth_);
  for (std::size_t i = finished_.size(); i-- > 0;) {  // users before operands
    const enode_id node = live_[finished_[i]].node;
    const std::uint32_t before = latest_[finished_[i]] - table_.launches(node);
    for (class_id operand : table_.operands(node)) latest_[operand] = std::min(latest_[operand], before);
  }
  for (std::vector<class_list>* lists : {&members_, &not_after_}) {
    for (class_list& each : *lists) each.clear();
    lists->resize(groups_.size());
  }
  for (class_id each : finished_) members_[levels_[each]].push_back(each), set_latest(each, latest_[each]);
  kernels_.swap(groups_);
  find_levels(table_.order());
  std::uint32_t most = depth_;
  for (class_id each : finished_) most = std::max(most, levels_[each] >= cyclic ? 0 : levels_[each]);
  order_.assign(most + 1);
  kernels_.resize(most + 1), members_.resize(most + 1), not_after_.resize(most + 1);
  known_ = levels_;
  before_.assign(table_.class_count(), unknown);
  moves_.clear();
}

MEGANEURA_INLINE std::uint32_t step_groups::level_by(enode_id node) const {
  std::uint32_t level = 0;
  for (class_id operand : table_.operands(node)) level = std::max(level, level_of(operand));
  return level >= cyclic ? cyclic : level + table_.launches(node);
}

MEGANEURA_INLINE std::uint32_t step_groups::slack_of(class_id id) const {
  const std::uint32_t now = level_of(id), latest = order_.position(latest_[id]);
  return latest > now ? latest - now : 0;
}

MEGANEURA_INLINE std::uint32_t step_groups::group_at(std::uint32_t level) {
  if (level >= cyclic) return level;
  while (order_.count() <= level) add_group(order_.count());
  return order_.at(level);
}

MEGANEURA_INLINE std::uint32_t step_groups::add_group(std::uint32_t level) {
  kernels_.emplace_back(), members_.emplace_back(), not_after_.emplace_back();
  return order_.insert(level);
}

MEGANEURA_INLINE double step_groups::look_at(std::span<const choice_change> changes) {
  keep_odd();
  groups_before_ = order_.all();
  differences_.clear();
  is_whole_ = false;
  if (!follow(changes)) {
    forget();
    if (!shift(changes)) {
      forget();
      is_whole_ = true;
      return seconds_now() - total_;
    }
  }
  const auto is_changed = [&](class_id id) {
    return std::ranges::find(changes, id, &choice_change::changed) != changes.end();
  };
  for (const auto [id, before] : changes) {
    note(before_[id] == unknown ? known_[id] : before_[id], before, false);
    note(known_[id], live_[id].node, true);
  }
  for (class_id each : turned_) {
    const bool is_new = live_[each].uses > 0;
    const std::uint32_t at = is_new || before_[each] == unknown ? known_[each] : before_[each];
    if (at >= cyclic) return std::numeric_limits<double>::infinity();
    note(at, live_[each].node, is_new);
  }
  for (class_id each : moves_) {
    if (is_changed(each) || live_[each].uses == 0 || std::ranges::find(turned_, each) != turned_.end()) continue;
    note(before_[each], live_[each].node, false);
    note(known_[each], live_[each].node, true);
  }
  return regrouped_seconds();
}

MEGANEURA_INLINE double step_groups::seconds_more(std::span<const choice_change> changes) {
  const double seconds = look_at(changes);
  forget();
  return seconds;
}

MEGANEURA_INLINE bool step_groups::is_quicker(std::span<const choice_change> changes) {
  const double seconds = look_at(changes);
  if (!(seconds < -tolerance)) {
    forget();
    return false;
  }
  ++moved_;
  if (is_whole_) {
    note_groups(total_ + seconds);
    return true;
  }
  total_ += seconds;
  keep(changes);
  return true;
}

MEGANEURA_INLINE void step_groups::keep_odd() {
  std::ranges::sort(turned_);
  std::size_t kept = 0;
  for (std::size_t i = 0, end = 0; i < turned_.size(); i = end) {
    for (end = i; end < turned_.size() && turned_[end] == turned_[i];) ++end;
    if ((end - i) % 2 != 0) turned_[kept++] = turned_[i];
  }
  turned_.resize(kept);
}

MEGANEURA_INLINE bool step_groups::follow(std::span<const choice_change> changes) {
  for (class_id each : turned_) {
    if (live_[each].uses > 0 && level_by(live_[each].node) != level_of(each)) return false;
  }
  for (const auto [id, before] : changes) {
    const std::uint32_t level = level_by(live_[id].node);
    if (live_[id].uses > 0 && level != level_of(id) && (level == cyclic || !follow(id, level))) return false;
  }
  return true;
}

MEGANEURA_INLINE bool step_groups::follow(class_id id, std::uint32_t level) {
  waiting_.clear();
  const auto to = [&](class_id each, std::uint32_t found) {
    move(each, group_at(found));
    for_readers(each, [&](class_id reader) { waiting_.push_back(reader); });
  };
  to(id, level);
  for (std::size_t next = 0; next < waiting_.size(); ++next) {
    if (next > most_followed) return false;
    const class_id each = waiting_[next];
    const std::uint32_t found = level_by(live_[each].node);
    if (found == level_of(each)) continue;
    if (found == cyclic && live_[each].uses > 0) return false;
    to(each, found);
  }
  return true;
}

MEGANEURA_INLINE void step_groups::move(class_id id, std::uint32_t group) {
  if (before_[id] == unknown) before_[id] = known_[id], moves_.push_back(id);
  known_[id] = group;
}

MEGANEURA_INLINE void step_groups::forget() {
  for (class_id each : moves_) known_[each] = std::exchange(before_[each], unknown);
  moves_.clear();
  if (order_.all() == groups_before_) return;
  order_.take_back(groups_before_);
  kernels_.resize(groups_before_), members_.resize(groups_before_), not_after_.resize(groups_before_);
}

MEGANEURA_INLINE bool step_groups::shift(std::span<const choice_change> changes) {
  small_vector<class_id, 16> placed;
  for (class_id each : turned_) {
    if (live_[each].uses > 0) placed.push_back(each);
  }
  std::ranges::stable_sort(placed, {}, [&](class_id id) { return level_of(id); });
  for (const auto [id, before] : changes) {
    if (live_[id].uses > 0 && std::ranges::find(placed, id) == placed.end()) placed.push_back(id);
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (!place(placed[i], std::span<const class_id>(placed.data(), i))) return false;
  }
  closed_.clear();
  const auto close_after = [&](std::uint32_t first, std::uint32_t last) {  // the last one first
    for (std::uint32_t level = last; level > first; --level) {
      if (std::ranges::none_of(placed, [&](class_id id) { return level_of(id) == level; })) close(level);
    }
  };
  for (const auto [id, before] : changes) {
    if (before_[id] < cyclic) close_after(level_of(id), order_.position(before_[id]));
  }
  for (class_id each : turned_) {
    if (live_[each].uses == 0 && known_[each] < cyclic) close_after(level_of(each) - 1, level_of(each));
  }
  return true;
}

MEGANEURA_INLINE bool step_groups::place(class_id id, std::span<const class_id> before) {
  const std::uint32_t level = level_by(live_[id].node);
  if (level >= cyclic) return false;
  const std::uint32_t next = level == 0 ? unknown : next_reader(id);  // nothing waits for what is there
  if (level < next) {
    if (level != level_of(id)) move_along(id, group_at(level));
    return true;
  }
  while (!table_.launches(live_[id].node)) id = table_.operands(live_[id].node)[0];  // which is at the same level
  const std::uint32_t readers = level + 1;  // what waits for it; groups come in between for it and what it waits for
  for (std::uint32_t i = next; i < readers; ++i) add_group(next);
  move_along(id, group_at(level));
  for (class_id each : before) {
    if (level_of(each) >= readers) move_along(each, group_at(level_by(live_[each].node)));
  }
  pull(next, readers);
  const std::uint32_t found = level_by(live_[id].node);
  if (found < level) move_along(id, group_at(found));
  return found <= level;
}

MEGANEURA_INLINE void step_groups::pull(std::uint32_t first, std::uint32_t last) {
  const auto& members = members_[order_.at(last)];
  waiting_.assign(members.begin(), members.end());
  for (std::size_t next = 0; next < waiting_.size() && next < most_followed; ++next) {
    const class_id each = waiting_[next];
    if (live_[each].uses == 0 || level_of(each) <= first) continue;
    const std::uint32_t found = level_by(live_[each].node);
    if (found >= level_of(each)) continue;
    move(each, order_.at(found));
    for_readers(each, [&](class_id reader) { waiting_.push_back(reader); });
  }
}

MEGANEURA_INLINE std::uint32_t step_groups::next_reader(class_id id) const {
  std::uint32_t next = unknown;
  for_readers(id, [&](class_id reader) {
    if (live_[reader].uses == 0) return;
    next = std::min(next, table_.launches(live_[reader].node) ? level_of(reader) : next_reader(reader));
  });
  return next;
}

MEGANEURA_INLINE void step_groups::move_along(class_id id, std::uint32_t group) {
  move(id, group);
  for_readers(id, [&](class_id reader) {
    if (!table_.launches(live_[reader].node)) move_along(reader, group);
  });
}

MEGANEURA_INLINE void step_groups::close(std::uint32_t level) {
  if (level == 0 || level >= depth_ || std::ranges::find(closed_, level) != closed_.end()) return;
  const std::uint32_t group = order_.at(level);
  delayed_.clear();
  for (class_id each : members_[group]) {
    if (known_[each] != group || live_[each].uses == 0) continue;
    if (delayed_.size() == most_delayed) return;
    delayed_.push_back({each, behind(level)});
  }
  for (std::size_t next = 0; next < delayed_.size(); ++next) {
    const delayed now = delayed_[next];
    bool can_wait = true;
    for_readers(now.id, [&](class_id reader) {
      const std::uint32_t least = table_.launches(live_[reader].node) ? behind(now.level) : now.level;
      can_wait = can_wait && (level_of(reader) > now.level || delay(reader, least));
    });
    if (!can_wait) return;
  }
  for (const delayed each : delayed_) move(each.id, order_.at(each.level));
  closed_.push_back(level);
}

MEGANEURA_INLINE std::uint32_t step_groups::behind(std::uint32_t level) const {
  do ++level;
  while (std::ranges::find(closed_, level) != closed_.end());
  return level;
}

MEGANEURA_INLINE bool step_groups::delay(class_id id, std::uint32_t level) {
  if (live_[id].uses == 0) return true;
  if (delayed_.size() == most_delayed || level > depth_ || order_.position(latest_[id]) < level) return false;
  delayed_.push_back({id, level});
  return true;
}

MEGANEURA_INLINE void step_groups::note(std::uint32_t group, enode_id node, bool is_new) {
  if (!table_.launches(node)) return;
  const auto at = std::ranges::upper_bound(differences_, group, {}, &difference::group);
  differences_.insert(at, {group, node, is_new});
}

MEGANEURA_INLINE void step_groups::find_depth() {
  depth_ = order_.count() - 1;
  while (depth_ > 0 && kernels_[order_.at(depth_)].empty()) --depth_;
}

MEGANEURA_INLINE void step_groups::apply_differences(bool forward) {
  for (const difference& each : differences_) {
    kernel_group& changed = kernels_[each.group];
    each.is_new == forward ? changed.add(table_.time(each.node)) : changed.remove(table_.time(each.node));
  }
}

MEGANEURA_INLINE double step_groups::regrouped_seconds() {
  times_.clear();
  for (const difference& each : differences_) {
    const kernel_group& known = kernels_[each.group];
    if (times_.empty() || times_.back().group != each.group)
      times_.push_back({each.group, known.seconds(table_.launch()), known.busy});
  }
  apply_differences(true);
  double seconds = 0;
  for (const known_time& each : times_) seconds += kernels_[each.group].seconds(table_.launch()) - each.seconds;
  apply_differences(false);
  for (const known_time& each : times_) kernels_[each.group].busy = each.busy;
  return seconds;
}

MEGANEURA_INLINE void step_groups::keep(std::span<const choice_change> changes) {
  apply_differences(true);
  const auto note_member = [&](class_id id) {
    if (live_[id].uses > 0 && known_[id] < cyclic) members_[known_[id]].push_back(id);
  };
  for (class_id each : turned_) note_member(each);
  for (const auto [id, before] : changes) note_member(id);
  for (class_id each : moves_) note_member(each), before_[each] = unknown;
  moves_.clear();
  find_depth();
  waiting_.clear();
  for (const difference& each : differences_) {
    if (!kernels_[each.group].empty() || order_.is_dropped(each.group) || order_.position(each.group) >= depth_)
      continue;
    order_.drop(each.group);
    waiting_.insert(waiting_.end(), not_after_[each.group].begin(), not_after_[each.group].end());
  }
  find_depth();
  find_ways(changes);
}

MEGANEURA_INLINE void step_groups::set_latest(class_id id, std::uint32_t group) {
  latest_[id] = group;
  not_after_[group].push_back(id);
}

MEGANEURA_INLINE void step_groups::find_ways(std::span<const choice_change> changes) {
  const auto add = [&](enode_id node) {
    const std::span<const class_id> operands = table_.operands(node);
    waiting_.insert(waiting_.end(), operands.begin(), operands.end());
  };
  for (const auto [id, before] : changes) add(before), add(live_[id].node);
  for (class_id each : turned_) add(live_[each].node);
  for (std::size_t next = 0; next < waiting_.size() && next <= most_followed; ++next) {
    const class_id each = waiting_[next];
    std::uint32_t latest = depth_;
    for_readers(each, [&](class_id reader) {
      const std::uint32_t at = order_.position(latest_[reader]), launched = table_.launches(live_[reader].node);
      if (live_[reader].uses > 0) latest = std::min(latest, at < launched ? 0 : at - launched);
    });
    if (order_.at(latest) == latest_[each]) continue;
    set_latest(each, order_.at(latest));
    if (live_[each].node != no_id) add(live_[each].node);
  }
}

MEGANEURA_INLINE void step_groups::take_in(class_id several) {
  const std::size_t slots = table_.class_count();
  levels_.resize(slots, unknown), known_.resize(slots, unknown), before_.resize(slots, unknown);
  latest_.resize(slots, order_.at(depth_));
  known_[several] = group_at(level_by(live_[several].node));
}

}  // namespace meganeura::inline MEGANEURA_ABI::egraph::detail
