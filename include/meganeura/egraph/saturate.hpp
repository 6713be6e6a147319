// SPDX-License-Identifier: MIT
// Applies a rule set to fixpoint, looking only where something changed, within limits that are reported.
#pragma once
#include <meganeura/egraph/pattern.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::egraph {

/// Counts alone, never a clock: equal graphs get equal plans on every machine. 0 means in proportion to the graph.
struct saturation_limits {
  std::size_t nodes = 0;    // of the e-graph; 0: eight for each it starts with
  std::size_t matches = 0;  // of one rule in one iteration, then it rests 1, 2, 4, ... iterations; 0: four a node
  int iterations = 8;
  std::size_t steps = 0;  // nodes looked at and matches found; 0: 64 for each node it starts with
};

struct saturation_report {
  int iterations = 0;
  std::vector<std::size_t> matches, applied;  // by rule
  std::vector<std::string> limits;
};

namespace detail {

template <class Set>
class saturation {
 public:
  saturation(engine& g, const Set& set, const typename Set::subset& enabled, std::size_t first_reason,
             const saturation_limits& limits)
      : g_(g), set_(set), enabled_(enabled), first_reason_(first_reason), limits_(limits) {
    report_.matches.resize(Set::count);
    report_.applied.resize(Set::count);
    const std::size_t start = std::max<std::size_t>(g.node_count(), 1'000);  // room for a small graph to grow
    if (limits_.nodes == 0) limits_.nodes = 8 * start;
    if (limits_.matches == 0) limits_.matches = 4 * start;
    if (limits_.steps == 0) limits_.steps = 64 * start;
  }

  // Exact rules first, until nothing changes: classes that decide something are then complete, and the second round,
  // with all rules, leaves them as they are.
  saturation_report run() {
    const typename Set::subset all = enabled_, exact = all & exact_rules();
    if (g_.any_decides() && exact != all) {
      enabled_ = exact;
      iterate();
      enabled_ = all;
      sealed_ = true;
      begin_again();
    }
    iterate();
    return std::move(report_);
  }

 private:
  [[nodiscard]] typename Set::subset exact_rules() const {
    typename Set::subset exact;
    set_.for_each(Set::subset::all(), [&](std::size_t i, const auto& rule) {
      if (rule.kind == exactness::exact) exact |= Set::subset::of(i);
    });
    return exact;
  }

  void begin_again() {
    (void)g_.take_dirty(0);
    for (std::vector<enode_id>& waiting : waiting_) waiting.clear();
    rests_until_ = {};
    for (enode_id node{0}; node < g_.node_count(); ++node) first_.push_back(node);
  }

  void iterate() {
    for (int i = 0; i < limits_.iterations; ++i) {
      std::vector<enode_id> dirty = g_.take_dirty(Set::depth - 1);
      dirty.insert(dirty.end(), first_.begin(), first_.end());
      first_.clear();
      for (std::vector<enode_id>& waiting : waiting_) {
        if (rests_until_[static_cast<std::size_t>(&waiting - waiting_.data())] > i) continue;
        dirty.insert(dirty.end(), waiting.begin(), waiting.end());
        waiting.clear();
      }
      if (dirty.empty()) return;
      ++report_.iterations;
      if (!step(dirty, i)) return;
    }
    if (!g_.take_dirty(0).empty()) limit("iterations", static_cast<std::size_t>(limits_.iterations));
  }

  void limit(const char* what, std::size_t value) {
    report_.limits.push_back(
        fmt::format("saturation stopped at the limit of {} {}; what was found until then is used", value, what));
  }

  // Collects first and applies afterwards: matching walks vectors that applying grows.
  bool step(const std::vector<enode_id>& dirty, int iteration) {
    std::array<std::vector<captures>, Set::count> found;
    steps_ += dirty.size();
    for (enode_id node : dirty) {
      if (g_.node(node).dead || g_.node(node).type != dtype::f32) continue;
      set_.for_each(Set::at[g_.node(node).head] & enabled_, [&](std::size_t i, const auto& rule) {
        if (rests_until_[i] > iteration || found[i].size() >= limits_.matches) {
          waiting_[i].push_back(node);
          return;
        }
        rule.match(g_, node, [&](const captures& b) { found[i].push_back(b); });
      });
    }
    for (std::size_t i = 0; i < Set::count; ++i) {
      report_.matches[i] += found[i].size();
      steps_ += found[i].size();
      if (found[i].size() < limits_.matches || rests_until_[i] > iteration) continue;
      rests_until_[i] = iteration + 1 + (1 << bans_[i]++);
      report_.limits.push_back(fmt::format("a rule reached {} matches in one iteration and rests for {}",
                                           limits_.matches, rests_until_[i] - iteration - 1));
    }
    bool within = true;
    set_.for_each(enabled_, [&](std::size_t i, const auto& rule) {
      for (const captures& b : found[i]) {
        if (!within) return;
        report_.applied[i] += rule.apply(g_, b, rule_mask::of(first_reason_ + i), sealed_);
        if (g_.node_count() > limits_.nodes) {
          limit("nodes", limits_.nodes);
          within = false;
        }
      }
    });
    g_.rebuild();
    if (within && steps_ > limits_.steps) {
      limit("steps", limits_.steps);
      within = false;
    }
    return within;
  }

  engine& g_;
  const Set& set_;
  typename Set::subset enabled_;
  std::size_t first_reason_;
  saturation_limits limits_;
  saturation_report report_;
  std::array<std::vector<enode_id>, Set::count> waiting_;
  std::array<int, Set::count> rests_until_{};
  std::array<int, Set::count> bans_{};
  std::size_t steps_ = 0;
  bool sealed_ = false;          // classes that decide something take no more nodes
  std::vector<enode_id> first_;  // looked at in the next iteration whether changed or not
};

}  // namespace detail

/// The `enabled` rules run until nothing changes or a limit is hit. Nodes rule i makes carry `first_reason` + i as
/// their reason.
template <class Set>
saturation_report run_rules(engine& g, const Set& set, const typename Set::subset& enabled = Set::subset::all(),
                            std::size_t first_reason = 0, const saturation_limits& limits = {}) {
  return detail::saturation<Set>(g, set, enabled, first_reason, limits).run();
}

}  // namespace meganeura::inline MEGANEURA_ABI::egraph
