// SPDX-License-Identifier: MIT
// From an implementation graph to dispatches with memory, barrier groups and lifetimes: data, printable.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/kernel_time.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/plan/layout.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::plan {

/// Memory areas, each of one device; ranges of different areas never overlap. An area may be more than one buffer, see
/// execution_plan::page_bytes. `parameter` holds states as well, `step_values` 64 bytes at each multiple of
/// tensor_alignment, `results` what the host reads of every step, `arrivals` numbers that are zero between kernels, of
/// those that count their workgroups, `training` what make_training_layout has; as many as an optimiser keeps moments
/// follow.
enum class area : std::uint32_t {
  input,
  parameter,
  gradient,
  arena,
  step_values,
  results,
  arrivals,
  training,
  moments
};
/// Steps of a program that may be under way at one time.
inline constexpr std::size_t steps_in_flight = 2;
/// Whether the host writes or reads it with every step: each step in flight has one of its own.
[[nodiscard]] constexpr bool is_hosts(area where) {
  return where == area::input || where == area::step_values || where == area::results;
}
/// The area of each parameter's moment number i.
[[nodiscard]] constexpr area moment_area(std::size_t i) {
  return static_cast<area>(static_cast<std::size_t>(area::moments) + i);
}
/// The place of an area in area_bytes.
[[nodiscard]] constexpr std::size_t index_of(area where) { return static_cast<std::size_t>(where); }
[[nodiscard]] std::string to_string(area where);

/// Bytes of one area.
struct range {
  area where = area::arena;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  [[nodiscard]] bool overlaps(const range& other) const {
    return where == other.where && offset < other.offset + other.bytes && other.offset < offset + bytes;
  }
};

enum class usage : std::uint8_t { read, write, read_write };

struct binding {
  range where;
  usage how = usage::read;
};

/// One dispatch (or one copy) with what it touches, in the kernel's binding order: operands, results, and what it needs
/// besides: a random one the step's values, a product of several parts their sums and arrivals.
struct step {
  enum step_kind : std::uint8_t { kernel, optimizer, copy };
  step_kind kind = kernel;
  node_id node = no_id;     // of the implementation graph
  std::uint32_t group = 0;  // a barrier separates consecutive groups; inside a group order does not matter
  std::vector<binding> bindings{};
};

/// The operand of a kernel whose memory each of its results overwrites, if there is one; empty if none does.
[[nodiscard]] std::vector<std::optional<std::size_t>> overwritten_operands(const step& s);

struct named_range {
  std::string name;
  dtype type{};
  shape extents;
  range where;
};

struct execution_plan {
  graph implementation;
  std::vector<step> steps;
  std::uint32_t groups = 0;
  std::vector<step> folded;      // run before a step if a parameter changed since they ran, see plan_options::fold
  double predicted_seconds = 0;  // of a step, group by group; 0 where plan_options::times are not known
  layout inputs, parameters;     // states are among the parameters
  layout training;               // states of the training alone
  layout updated;  // parameters that an optimizer updates, as gradients and moments lie in each of their areas
  std::vector<named_range> outputs;  // rank-0 f32 ones lie in the area `results`
  std::vector<std::uint64_t> area_bytes = std::vector<std::uint64_t>(index_of(area::moments));  // by index_of
  std::uint64_t page_bytes = unlimited_page;  // of one buffer, see paged: no range crosses a multiple of it
  std::uint64_t unaliased_arena_bytes = 0;    // what the arena would be without sharing
  /// Those that are folded, and behind them those of each step.
  [[nodiscard]] std::vector<const step*> all_steps() const;
  /// Dispatches of what was computed in this step before, see plan_options::memory_budget.
  [[nodiscard]] std::size_t computed_again() const;
  /// Bytes of a program on the device, known before any allocation: parameters, optimiser state and what each of the
  /// steps in flight has of its own are included.
  [[nodiscard]] std::uint64_t peak_bytes() const;
};

/// How a plan is made; results do not depend on it.
struct plan_options {
  bool share_memory = true;                      // lifetimes may overlap in the arena; off for debugging
  bool late_scheduling = true;                   // run a node as late as its readers allow when that shortens lifetimes
  std::uint64_t max_tensor_bytes = 0xffffffff;   // a longer tensor is refused
  std::uint64_t max_binding_bytes = 0xffffffff;  // a longer run of parameters is updated in pieces
  bool in_place = true;                          // a pointwise kernel may overwrite an operand it is the last to read
  std::optional<bool> fold{};  // compute what depends on parameters and constants alone when these change, not in each
                               // step; not where it is not said, but a program does
  bool balance = true;         // run a node where the step gets quickest by `times`, in about as much memory
  std::vector<kernel_time> times{};  // of each node of the graph, see optimize_report; empty if not known
  launch_time launch{};              // beside these
  /// Bytes that execution_plan::peak_bytes() is to stay within; 0: whatever is needed. What is not read for long is
  /// computed again then instead of being kept, about as much of it as has to be and the cheapest first. Nodes of the
  /// plan then have other numbers than those of optimize_report::explain. Needs share_memory.
  std::uint64_t memory_budget = 0;
};

/// A state and a parameter are read as they were before the step, whoever reads them and whatever overwrites them:
/// kernels, other assignments (`assign(a, b)` with `assign(b, a)` swaps) and outputs. What is overwritten too early is
/// copied first. `g` holds implementation nodes and leaves only; `parameters` is the layout shared by all sessions of a
/// model (every parameter and state of `g` must be in it), `paged` for buffers of `page_bytes` as the rest will be.
/// Errors: internal, naming the node, when `g` holds a primitive that nothing implements; invalid_argument for a
/// parameter that is missing or has another shape; out_of_memory, with what is needed at least, for a memory_budget
/// that is too small.
[[nodiscard]] execution_plan make_plan(graph g, const layout& parameters, const plan_options& options = {},
                                       std::uint64_t page_bytes = unlimited_page);

/// Throws error(internal) if two steps of one group conflict, a range is outside its area, or, replaying the steps on
/// byte intervals, an operand, a copy, an output, a state or a parameter does not hold the value the graph gives it.
/// For tests: it shares no code with the planner.
void verify(const execution_plan& p);

/// "matmul 128x1536x576": what it is and its size: batch, m, n and k of a product, the loops of a region or a
/// convolution, the floats an update goes over (gaps between tensors are among them), the bytes of a copy, and else the
/// result.
[[nodiscard]] std::string description(const execution_plan& p, const step& s);
/// "layers.7.mlp: matmul 128x1536x576": the same behind the path of the module it belongs to. Reports and debuggers
/// know a dispatch by it.
[[nodiscard]] std::string label(const execution_plan& p, const step& s);

/// Groups, dispatches, ranges and a memory summary as text.
[[nodiscard]] std::string to_text(const execution_plan& p);

}  // namespace meganeura::inline MEGANEURA_ABI::plan

#if MEGANEURA_HEADER_ONLY
#include <meganeura/plan/draft.hpp>
#include <meganeura/plan/text.ipp>
#include <meganeura/plan/verify.ipp>
#endif
