// SPDX-License-Identifier: MIT
// What an extraction has to choose from: the nodes of each class that kernels compute, and how long these take.
#pragma once
#include <meganeura/core/kernel_group.hpp>
#include <meganeura/core/kernel_time.hpp>
#include <meganeura/egraph/egraph.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::egraph {

/// Of a node; infinite for what no kernel computes. What is `alone` for no time is not launched, and then `busy` tells
/// equal ways apart.
using node_time = std::function<kernel_time(enode_id)>;

/// Made once for all the choices that are made of an e-graph, which may get more classes from there on. Errors:
/// internal when a root has no kernel.
class choice_table {
 public:
  static constexpr std::uint32_t unranked = ~std::uint32_t{0};
  struct class_choice {
    std::uint32_t rank = unranked;  // operands of usable nodes rank lower: no plan can be cyclic
    node_list candidates;
    class_list readers;  // classes with a candidate reading this one
  };

  /// `order` names the classes, operands before users as far as possible.
  choice_table(const engine& g, std::span<const class_id> order, std::span<const class_id> roots, node_time time,
               const launch_time& launch);

  /// Whether none of its classes has merged with another since.
  [[nodiscard]] bool is_current() const;
  [[nodiscard]] const engine& graph() const { return g_; }
  [[nodiscard]] const launch_time& launch() const { return launch_; }
  [[nodiscard]] std::span<const class_id> order() const { return order_; }
  [[nodiscard]] std::span<const class_id> roots() const { return roots_; }
  [[nodiscard]] bool is_root(class_id id) const { return id < is_root_.size() && is_root_[id]; }
  [[nodiscard]] const class_choice& operator[](class_id id) const { return classes_[id]; }
  [[nodiscard]] bool has(class_id id) const { return id < classes_.size() && classes_[id].rank != unranked; }
  [[nodiscard]] bool is_known(enode_id node) const { return times_[node].alone >= 0; }
  [[nodiscard]] std::size_t class_count() const { return classes_.size(); }
  [[nodiscard]] std::size_t node_count() const { return times_.size(); }
  /// Of a node that can be chosen.
  [[nodiscard]] const kernel_time& time(enode_id node) const { return times_[node]; }
  /// Of a node, canonical and distinct.
  [[nodiscard]] std::span<const class_id> operands(enode_id node) const {
    return {operands_.data() + first_operand_[node], first_operand_[node + 1] - first_operand_[node]};
  }
  [[nodiscard]] bool reads(enode_id node, class_id id) const {
    for (class_id operand : operands(node)) {
      if (operand == id) return true;
    }
    return false;
  }
  [[nodiscard]] bool launches(enode_id node) const {
    const op_stage stage = info(g_.node(node).kind).stage;
    return stage != op_stage::leaf && stage != op_stage::projection && times_[node].alone != 0;
  }

  /// Takes in a class of one node, a region with several results, and the nodes that name these.
  void take_in(class_id several);

 private:
  void list_operands();
  void rank_classes();
  [[nodiscard]] bool usable(enode_id node, std::uint32_t rank) const;
  void note_reader(class_id id, enode_id node);
  void find_time(enode_id node);

  const engine& g_;
  node_time time_of_;
  launch_time launch_;
  std::vector<class_id> order_, roots_, operands_;  // operands: of each node
  std::vector<bool> is_root_;
  std::vector<std::size_t> first_operand_{0};  // and the end of the last one's
  std::vector<class_choice> classes_;
  std::vector<kernel_time> times_;  // less than 0 where none was asked for
};

namespace detail {

// What is chosen of a class, and how many of those that are chosen read it.
struct live_class {
  enode_id node = no_id;
  std::uint32_t uses = 0;
};
// A class that was changed, and what it was.
struct choice_change {
  class_id changed;
  enode_id before;
};

}  // namespace detail
}  // namespace meganeura::inline MEGANEURA_ABI::egraph

#if MEGANEURA_HEADER_ONLY
#include <meganeura/egraph/choice_table.ipp>
#endif
