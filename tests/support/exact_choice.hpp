// SPDX-License-Identifier: MIT
// The quickest choice that an e-graph has, proven by branch and bound: what extraction is measured by.
#pragma once
#include <meganeura/core/bit_set.hpp>
#include <meganeura/egraph/extract.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// Choices of a node for each class that the roots need. What groups of kernels take is told again here, by its
/// definition.
class exact_choice {
 public:
  static constexpr std::size_t most_classes = 512;
  struct answer {
    double seconds;       // of the quickest choice that was found, or what was known before
    bool is_proven;       // that nothing is quicker
    std::size_t visited;  // partial choices
  };

  /// If the roots may need more than `most_classes`, `is_small` is false and nothing else may be asked.
  exact_choice(const egraph::engine& e, std::span<const egraph::class_id> roots, const egraph::node_time& time,
               const launch_time& launch)
      : launch_(launch), number_(e.class_slots(), none) {
    read(e, roots, time);
    if (is_small()) forget_dominated(), simplify();
  }

  [[nodiscard]] bool is_small() const { return classes_.size() <= most_classes; }

  /// Whether a choice may have the node.
  [[nodiscard]] bool has(egraph::enode_id node) const {
    const auto is_it = [&](const kernel& each) { return each.node == node; };
    return std::ranges::any_of(classes_, [&](const eclass& own) { return std::ranges::any_of(own.all, is_it); });
  }

  /// Of what was extracted; infinite where a kernel waits for itself.
  [[nodiscard]] double seconds(const egraph::extraction& taken) const {
    choice picked(classes_.size(), nullptr);
    for (const egraph::class_id id : taken.order) {
      for (const kernel& each : classes_[number_[id]].all) {
        if (each.node == taken.chosen[id]) picked[number_[id]] = &each;
      }
    }
    return seconds(picked);
  }

  /// Of the quickest, if that is less than `known`. Looks at no more than `most` partial choices.
  answer quickest(double known, std::size_t most) {
    best_ = known, left_ = most;
    leave_out_slow();
    picked_.assign(classes_.size(), nullptr);
    if (least_seconds(needed_) < wanted()) search(needed_);
    return {best_, left_ > 0, most - left_};
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  using class_set = bit_set<most_classes>;

  struct kernel {
    egraph::enode_id node;
    kernel_time time;
    bool launches;
    std::vector<std::size_t> operands;  // classes, each once
    class_set needs{};                  // what every choice with this kernel has for its operands
  };
  using choice = std::vector<const kernel*>;
  /// Kernels that wait for one another: how many, and seconds of them.
  struct chain {
    std::size_t level;
    double alone;
  };
  /// What a class waits for at least, and the last level that it may have.
  struct span_of_levels {
    chain least;
    std::size_t last;
  };
  struct eclass {
    std::vector<kernel> all{};
    std::vector<std::size_t> open{};  // those of which a choice may be quicker than what is known
    class_set needs{};                // itself, and what each of the open ones needs
    chain least{};                    // up to it
    double work = 0;                  // at least, with the dispatch
    bool launches = true;             // all do
  };

  // Classes that the roots may need, operands before users where no circle is, and the nodes that can be computed.
  void read(const egraph::engine& e, std::span<const egraph::class_id> roots, const egraph::node_time& time) {
    std::vector<egraph::class_id> reached;
    std::vector<bool> seen(e.class_slots());
    std::map<egraph::enode_id, kernel_time> times;
    const auto reach = [&](egraph::class_id id) {
      if (!seen[e.find(id)]) reached.push_back(e.find(id));
      seen[e.find(id)] = true;
    };
    std::ranges::for_each(roots, reach);
    for (std::size_t i = 0; i < reached.size(); ++i) {
      for (const egraph::enode_id node : e[reached[i]].nodes) {
        if (e.node(node).dead) continue;
        const kernel_time taken = time(node);
        if (!std::isfinite(taken.alone + taken.busy)) continue;
        times[node] = taken;
        std::ranges::for_each(e.operands(node), reach);
      }
    }
    const auto can_compute = [&](egraph::enode_id node) {
      const auto is_known = [&](egraph::class_id operand) { return number_[e.find(operand)] != none; };
      return times.contains(node) && std::ranges::all_of(e.operands(node), is_known);
    };
    std::vector<egraph::class_id> order;
    for (std::size_t before = none; before != order.size();) {
      before = order.size();
      for (std::size_t i = reached.size(); i-- > 0;) {
        if (number_[reached[i]] != none || std::ranges::none_of(e[reached[i]].nodes, can_compute)) continue;
        number_[reached[i]] = order.size();
        order.push_back(reached[i]);
      }
    }
    for (const egraph::class_id id : order) {
      eclass& own = classes_.emplace_back();
      for (const egraph::enode_id node : e[id].nodes) {
        if (!can_compute(node)) continue;
        const op_stage stage = info(e.node(node).kind).stage;
        kernel made{node, times[node], stage != op_stage::leaf && stage != op_stage::projection, {}};
        for (const egraph::class_id operand : e.operands(node)) made.operands.push_back(number_[e.find(operand)]);
        std::ranges::sort(made.operands);
        made.operands.erase(std::ranges::unique(made.operands).begin(), made.operands.end());
        own.open.push_back(own.all.size());
        own.all.push_back(std::move(made));
      }
    }
    for (const egraph::class_id root : roots) roots_.push_back(number_[e.find(root)]);
  }

  // ---- a choice

  [[nodiscard]] double seconds(const choice& picked) const {
    std::vector<std::size_t> levels(classes_.size(), none);
    std::vector<bool> is_open(classes_.size());
    bool is_circular = false;
    const auto level = [&](const auto& self, std::size_t id) -> std::size_t {
      if (levels[id] != none) return levels[id];
      if (is_open[id]) return is_circular = true, 0;
      is_open[id] = true;
      std::size_t last = 0;
      for (const std::size_t operand : picked[id]->operands) last = std::max(last, self(self, operand));
      return levels[id] = last + picked[id]->launches;
    };
    std::map<std::size_t, std::vector<kernel_time>> groups;
    for (std::size_t id = 0; id < picked.size(); ++id) {
      if (picked[id] == nullptr) continue;
      const std::size_t group = level(level, id);
      if (picked[id]->launches) groups[group].push_back(picked[id]->time);
    }
    if (is_circular) return infinity;
    double total = 0;
    for (auto& [unused, kernels] : groups) {
      double longest = 0, busy = 0, idle = infinity;
      std::ranges::sort(kernels, std::greater<>(), &kernel_time::alone);
      for (std::size_t i = 0; i < kernels.size(); ++i) {  // each begins half a launch behind the one before
        longest = std::max(longest, kernels[i].alone + static_cast<double>(i) * launch_.group / 2);
        busy += kernels[i].busy, idle = std::min(idle, kernels[i].alone - kernels[i].busy);
      }
      total += launch_.group + static_cast<double>(kernels.size()) * launch_.dispatch + std::max(longest, busy + idle);
    }
    return total;
  }

  // ---- what is known of all choices

  // Of nodes that read the same, one that takes no less than another in any respect is in no quicker choice.
  void forget_dominated() {
    for (eclass& own : classes_) {
      std::vector<std::size_t> kept;
      const auto is_no_better = [&](std::size_t i, std::size_t than) {
        const kernel &a = own.all[i], &b = own.all[than];
        return a.operands == b.operands && a.launches == b.launches && a.time.alone >= b.time.alone &&
               a.time.busy >= b.time.busy && a.time.alone - a.time.busy >= b.time.alone - b.time.busy;
      };
      for (const std::size_t i : own.open) {
        if (std::ranges::any_of(kept, [&](std::size_t j) { return is_no_better(i, j); })) continue;
        std::erase_if(kept, [&](std::size_t j) { return is_no_better(j, i); });
        kept.push_back(i);
      }
      own.open = std::move(kept);
    }
  }

  // Finds what is needed and how much anything takes at least, by the kernels that are open. What would wait for
  // itself, or for what has no kernel, is not.
  void simplify() {
    for (bool changed = true; changed;) {
      find_needs();
      find_chains();
      changed = false;
      for (std::size_t id = 0; id < classes_.size(); ++id) {
        const auto is_lost = [&](std::size_t operand) { return std::isinf(classes_[operand].least.alone); };
        changed |= std::erase_if(classes_[id].open, [&](std::size_t i) {
                     const kernel& each = classes_[id].all[i];
                     return each.needs[id] || std::ranges::any_of(each.operands, is_lost);
                   }) > 0;
      }
    }
    std::vector<double> shortest, idle;
    for (eclass& own : classes_) {
      own.work = infinity, own.launches = true;
      double alone = infinity, wait = infinity;
      for (const std::size_t i : own.open) {
        const kernel& each = own.all[i];
        own.work = std::min(own.work, work_of(each)), own.launches = own.launches && each.launches;
        if (!each.launches) continue;
        alone = std::min(alone, each.time.alone), wait = std::min(wait, each.time.alone - each.time.busy);
      }
      if (!std::isinf(alone)) shortest.push_back(alone), idle.push_back(wait);
    }
    shortest_ = sums_of_smallest(std::move(shortest)), idle_ = sums_of_smallest(std::move(idle));
    needed_ = {};
    for (const std::size_t root : roots_) needed_ |= classes_[root].needs;
  }
  static std::vector<double> sums_of_smallest(std::vector<double> numbers) {
    std::ranges::sort(numbers);
    std::vector<double> sums{0};
    for (const double number : numbers) sums.push_back(sums.back() + number);
    return sums;
  }
  [[nodiscard]] double work_of(const kernel& each) const {
    return each.launches ? each.time.busy + launch_.dispatch : 0;
  }

  // The largest sets that agree with one another: what is not in them some choice does without.
  void find_needs() {
    for (eclass& own : classes_) own.needs = class_set::all();
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t id = 0; id < classes_.size(); ++id) {
        eclass& own = classes_[id];
        class_set needs = class_set::all();
        for (const std::size_t i : own.open) {
          own.all[i].needs = {};
          for (const std::size_t operand : own.all[i].operands) own.all[i].needs |= classes_[operand].needs;
          needs &= own.all[i].needs;
        }
        needs |= class_set::of(id);
        changed = changed || !(needs == own.needs);
        own.needs = needs;
      }
    }
  }
  void find_chains() {
    for (eclass& own : classes_) own.least = {none, infinity};
    for (bool changed = true; changed;) {
      changed = false;
      for (eclass& own : classes_) {
        const chain before = std::exchange(
            own.least, least_chain(own, nullptr, [&](std::size_t operand) { return classes_[operand].least; }));
        changed = changed || before.level != own.least.level || before.alone != own.least.alone;
      }
    }
  }
  template <class Of>
  static chain least_chain(const eclass& own, const kernel* picked, const Of& of) {
    chain least{none, infinity};
    const auto look_at = [&](const kernel& each) {
      chain end{0, 0};
      for (const std::size_t operand : each.operands) {
        const chain before = of(operand);
        end.level = std::max(end.level, before.level), end.alone = std::max(end.alone, before.alone);
      }
      if (std::isinf(end.alone)) return;
      least.level = std::min(least.level, end.level + each.launches);
      least.alone = std::min(least.alone, end.alone + (each.launches ? each.time.alone : 0));
    };
    if (picked != nullptr) look_at(*picked);
    for (std::size_t i = 0; i < own.open.size() && picked == nullptr; ++i) look_at(own.all[own.open[i]]);
    return least;
  }

  // ---- branch and bound

  [[nodiscard]] double wanted() const { return best_ * (1 - 1e-9); }

  // No choice with what is picked takes less. Groups are as many as kernels wait for one another, kernels as many as
  // classes are needed; a group takes its launch and dispatches and, beside these, no less than its work with the least
  // wait, than its shortest kernel behind half a launch for each of the others, and than those of its kernels that run
  // at this level in any choice, or one of a chain, which has a kernel for each of its levels. Of sums of what all
  // groups have, only the smallest may be counted.
  [[nodiscard]] double least_seconds(const class_set& needed) {
    std::size_t groups = 0, kernels = 0;
    double work = 0, longest = 0;
    spans_.resize(classes_.size());
    for (std::vector<double>& level : settled_) level.clear();
    for (std::size_t id = 0; id < classes_.size(); ++id) {
      const eclass& own = classes_[id];
      const auto operand = [&](std::size_t each) { return each < id ? spans_[each].least : classes_[each].least; };
      const chain least = least_chain(own, picked_[id], operand);
      if (std::isinf(least.alone) && needed[id]) return infinity;  // nothing is left
      std::size_t last = 0;
      double alone = infinity;
      for_open(id, [&](const kernel& each) {
        last = std::max(last, last_level(id, each)), alone = std::min(alone, each.time.alone);
      });
      spans_[id] = {least, last};
      if (!needed[id]) continue;
      groups = std::max(groups, least.level), longest = std::max(longest, least.alone);
      work += picked_[id] != nullptr ? work_of(*picked_[id]) : own.work;
      if (!(picked_[id] != nullptr ? picked_[id]->launches : own.launches)) continue;
      ++kernels;
      if (least.level != last) continue;
      if (settled_.size() <= last) settled_.resize(last + 1);
      settled_[last].push_back(alone);
    }
    if (groups == 0) return work;
    if (groups >= shortest_.size()) return infinity;  // one for each is too few
    kernels = std::max(kernels, groups);
    longest = std::max(longest, settled_seconds() + least_further(needed));
    const auto count = [](std::size_t number) { return static_cast<double>(number); };
    const double begun = shortest_[groups] + count(kernels - groups) * launch_.group / 2;
    return count(groups) * launch_.group +
           std::max(work + idle_[groups], count(kernels) * launch_.dispatch + std::max(longest, begun));
  }
  template <class Visit>
  void for_open(std::size_t id, const Visit& visit) const {
    if (picked_[id] != nullptr) return visit(*picked_[id]);
    for (const std::size_t i : classes_[id].open) visit(classes_[id].all[i]);
  }
  // At which it may run; `none` where it reads what may wait for it.
  [[nodiscard]] std::size_t last_level(std::size_t id, const kernel& each) const {
    std::size_t last = 0;
    for (const std::size_t operand : each.operands) last = std::max(last, operand < id ? spans_[operand].last : none);
    return last == none ? none : last + each.launches;
  }

  // Of kernels whose level is settled; `in_level_` has those of each level.
  [[nodiscard]] double settled_seconds() {
    double total = 0;
    in_level_.assign(settled_.size(), 0);
    for (std::size_t level = 0; level < settled_.size(); ++level) {
      std::ranges::sort(settled_[level], std::greater<>());
      for (std::size_t i = 0; i < settled_[level].size(); ++i)
        in_level_[level] = std::max(in_level_[level], settled_[level][i] + static_cast<double>(i) * launch_.group / 2);
      total += in_level_[level];
    }
    return total;
  }
  // How much longer groups are for the kernels of one chain, at whatever levels they may run.
  [[nodiscard]] double least_further(const class_set& needed) {
    double most = 0;
    further_.assign(classes_.size(), 0);
    for (std::size_t id = 0; id < classes_.size(); ++id) {
      if (classes_[id].open.empty()) continue;
      double least = infinity;
      for_open(id, [&](const kernel& each) {
        double before = 0, known = 0;
        for (const std::size_t operand : each.operands) before = std::max(before, operand < id ? further_[operand] : 0);
        if (each.launches && each.time.alone > 0) {
          const std::size_t last = last_level(id, each);
          for (std::size_t level = spans_[id].least.level; level <= last && level < in_level_.size(); ++level)
            known = std::max(known, in_level_[level]);
          before += std::max(0.0, each.time.alone - known);
        }
        least = std::min(least, before);
      });
      further_[id] = least;
      if (needed[id]) most = std::max(most, least);
    }
    return most;
  }

  // Kernels with which no choice is quicker than what is known are no longer open, and more is known without them.
  void leave_out_slow() {
    picked_.assign(classes_.size(), nullptr);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t id = 0; id < classes_.size(); ++id) {
        eclass& own = classes_[id];
        changed |= std::erase_if(own.open, [&](std::size_t i) {
                     picked_[id] = &own.all[i];
                     return least_seconds(needed_ | own.needs | own.all[i].needs) >= wanted();
                   }) > 0;
        picked_[id] = nullptr;
      }
      if (changed) simplify();
    }
  }

  void search(const class_set& needed) {
    if (left_ == 0) return;
    --left_;
    std::size_t next = classes_.size();
    while (next > 0 && !(needed[next - 1] && picked_[next - 1] == nullptr && classes_[next - 1].open.size() > 1))
      --next;
    if (next-- == 0) {
      choice all(classes_.size(), nullptr);
      for (std::size_t id = 0; id < classes_.size(); ++id) {
        if (needed[id]) all[id] = picked_[id] != nullptr ? picked_[id] : &classes_[id].all[classes_[id].open[0]];
      }
      best_ = std::min(best_, seconds(all));
      return;
    }
    std::vector<std::pair<double, const kernel*>> found;
    for (const std::size_t i : classes_[next].open) {
      const kernel& each = classes_[next].all[i];
      picked_[next] = &each;
      found.emplace_back(least_seconds(needed | each.needs), &each);
    }
    std::ranges::stable_sort(found, {}, &std::pair<double, const kernel*>::first);
    for (const auto& [least, each] : found) {
      if (least >= wanted()) break;
      picked_[next] = each;
      search(needed | each->needs);
    }
    picked_[next] = nullptr;
  }

  launch_time launch_;
  std::vector<std::size_t> number_;  // of a canonical class; `none` of what cannot be computed or is not needed
  std::vector<eclass> classes_;
  std::vector<std::size_t> roots_;
  class_set needed_;                     // in every choice
  std::vector<double> shortest_, idle_;  // sums of as many kernels' times and waits, the smallest of all classes
  choice picked_;
  std::vector<span_of_levels> spans_;         // with what is picked; so are these:
  std::vector<std::vector<double>> settled_;  // by level, kernels that run there
  std::vector<double> in_level_, further_;
  double best_ = 0;
  std::size_t left_ = 0;
};

}  // namespace meganeura::inline MEGANEURA_ABI::support
