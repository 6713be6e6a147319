// SPDX-License-Identifier: MIT
// A plan in the making, and the parts of the planner, each of which adds to what those before it found.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/small_vector.hpp>
#include <meganeura/fusion/product_tiles.hpp>
#include <meganeura/plan/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <variant>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::plan::detail {

inline constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();
inline constexpr std::size_t none = ~std::size_t{0};

/// When a node runs and where its value lies.
struct placement {
  std::uint32_t level = 0;     // leaves 0, everything else after its operands
  std::uint32_t last_use = 0;  // level of the last reader; never = outlives the step
  bool in_arena = false;
  bool placed = false;  // `where` is final
  range where;
};

/// A copy of the plan. Within a level, saves come before kernels and these before whatever overwrites a leaf.
struct copy {
  enum order_kind : std::uint8_t { save, update = 2 };
  order_kind order = update;
  std::uint32_t level = 0;
  node_id from = no_id;
  std::size_t from_scratch = none, to_scratch = none;  // instead of the node's place and of `to`
  range to;
};

/// Bytes of the arena that no node owns: the old value of a leaf, a result that nobody names, or what a kernel keeps
/// while it runs.
struct scratch {
  std::uint32_t first = never, last = 0;
  std::uint64_t bytes = 0;
  range where;
};

struct draft {
  using node_list = small_vector<node_id, 4>;

  /// Finds who reads and who overwrites each node. errors: unsupported for an input that is longer than a page.
  draft(graph g, const layout& parameters, const plan_options& planning, std::uint64_t page_bytes);

  [[nodiscard]] const graph& g() const { return result.implementation; }
  [[nodiscard]] bool is_leaf(node_id id) const { return info(g()[id].kind).stage == op_stage::leaf; }
  [[nodiscard]] bool is_effect(node_id id) const { return info(g()[id].kind).stage == op_stage::effect; }
  [[nodiscard]] bool is_written(node_id id) const { return is_leaf(id) && writer[id] != no_id; }
  /// Whether its value is there when a step begins.
  [[nodiscard]] bool is_there(node_id id) const { return is_leaf(id) || is_folded[id]; }
  /// Whether it is a number that the host reads of every step.
  [[nodiscard]] bool is_result(node_id id) const {
    return is_output[id] && g()[id].type == dtype::f32 && g()[id].extents.rank() == 0;
  }
  /// The node whose step stores this value.
  [[nodiscard]] node_id producer(node_id id) const { return g()[id].kind == op::result ? g().operand(id, 0) : id; }
  /// The values that a node's step stores, by number; no_id where nothing names one.
  [[nodiscard]] node_list values_of(node_id id) const;
  /// What its kernel needs besides.
  [[nodiscard]] fusion::product_scratch scratch_of(node_id id) const {
    const auto* product = std::get_if<matmul_attribute>(&g().attribute_of(id));
    return product ? fusion::scratch_of(product->schedule, fusion::extents_of(*product)) : fusion::product_scratch();
  }
  void find_folded();
  /// Bytes of operands that live longer if a node runs at a later level.
  [[nodiscard]] std::uint64_t kept_for(node_id id, std::uint32_t level) const;
  /// Whether a kernel reads each element of an operand only for the element of the result at the same place, so that
  /// both may be the same memory. A row that is reduced to one value is stored by one invocation after all have read.
  [[nodiscard]] bool writes_where_it_reads(node_id id, std::size_t which) const;
  /// The offset of a parameter's gradient, and of its moments, in each of their areas.
  [[nodiscard]] std::uint64_t updated_offset(node_id parameter) const {
    return result.updated.find(g().get<leaf_attribute>(parameter).name)->offset;
  }

  plan_options options;
  execution_plan result;
  std::vector<placement> places;
  std::vector<node_list> readers;  // effects are none
  std::vector<bool> is_output, read_by_effect;
  std::vector<bool> is_folded;    // computed when parameters change
  std::uint32_t first_level = 1;  // of a step: what is folded has those before
  std::vector<node_id> writer;    // of a leaf: the effect that overwrites it
  std::vector<copy> copies;
  std::vector<scratch> scratches;
  std::unordered_map<node_id, std::size_t> saved_outputs;         // scratch that holds a leaf's old value
  std::unordered_map<node_id, range> copied_results;              // of nodes that lie elsewhere
  std::unordered_map<node_id, std::vector<std::size_t>> unnamed;  // scratch of results without a name
  std::unordered_map<node_id, std::size_t> partial_sums;          // scratch of products whose parts meet
};

/// The level of each kernel: after its operands, and as late as its readers allow where that saves memory. errors:
/// those of make_plan for a node.
void schedule(draft& all);
/// Of kernels whose times are known: another level where the step gets quicker by that, with as much memory and as many
/// levels. Returns the seconds that were foretold before.
double balance(draft& all);
/// errors: invalid_argument for a parameter or a state that is missing or has another shape.
void place_leaves(draft& all);
/// Levels of effects, places of what they read, and the copies they need: whoever reads a state or a parameter reads
/// what it held before the step.
void place_effects(draft& all);
/// Numbers that are outputs: where the host reads them, computed there or copied.
void place_results(draft& all);
/// Lifetimes, operands overwritten in place, and the bytes of the arena.
void place_in_arena(draft& all);
/// These four, of a draft whose kernels have their levels.
void place_values(draft& all);
/// Kernels, copies and updates in order and in barrier groups, and the outputs.
void write_steps(draft& all);

/// The plan of a draft whose kernels have their levels: what is left of the planner.
[[nodiscard]] execution_plan planned(draft all);
/// One in which so much is computed again that it takes no more than the draft's memory_budget; `whole`, its plan,
/// takes more. errors: out_of_memory.
[[nodiscard]] execution_plan plan_within(draft all, const execution_plan& whole);

}  // namespace meganeura::inline MEGANEURA_ABI::plan::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/plan/arena.ipp>
#include <meganeura/plan/balance.ipp>
#include <meganeura/plan/draft.ipp>
#include <meganeura/plan/effects.ipp>
#include <meganeura/plan/plan.ipp>
#include <meganeura/plan/recompute.ipp>
#include <meganeura/plan/results.ipp>
#include <meganeura/plan/schedule.ipp>
#include <meganeura/plan/steps.ipp>
#endif
