// SPDX-License-Identifier: MIT
// A graph made ready to run on one device: optimised, planned, generated, recorded. What sessions and trainers share.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/name_pattern.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/kernels/step_values.hpp>
#include <meganeura/plan/plan.hpp>
#include <meganeura/runtime/build_times.hpp>
#include <meganeura/runtime/checks.hpp>
#include <meganeura/runtime/device.hpp>
#include <meganeura/runtime/moments.hpp>
#include <meganeura/runtime/parameters.hpp>
#include <meganeura/runtime/profile.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// How a graph becomes a program, and what of it can be seen. Defaults are for speed.
struct program_options {
  fusion::optimize_options optimize{};  // which rules may change the graph, and how far the search goes
  plan::plan_options plan{};            // order and memory; its limits are lowered to what the device has, and what
                                        // does not change from step to step is folded unless it or `optimize` says no
  meganeura::precision precision = meganeura::precision::exact;  // of products
  bool device_costs = true;             // weigh kernels by the device; false: by optimize.device as it is
  profiling profile = profiling::none;  // what program::profile tells of; of dispatches where a trace is written
  bool duration = false;                // two timestamps around each step, which cost little
  meganeura::checks checks = meganeura::checks::automatic;  // what inputs are looked at for; on in debug builds
  name_patterns taps{};  // which of the graph's taps can be read, "layers.*.hidden"; each is stored then, the others
                         // cost nothing
};

namespace detail {
// What a span sees.
template <class T>
concept contiguous = requires(const T& range) {
  std::span(range);
};
template <contiguous T>
using element_of = typename decltype(std::span(std::declval<const T&>()))::value_type;
}  // namespace detail

/// One input's values for a step: dense, row-major, in memory that must outlive the call that is given them. dtypes:
/// the input's own; f32 for floats of any width, which are rounded to the nearest of the input's.
struct input_values {
  std::string_view name;
  dtype type{};
  std::span<const std::byte> values;

  input_values() = default;
  input_values(std::string_view of, dtype element, std::span<const std::byte> bytes)
      : name(of), type(element), values(bytes) {}
  /// {"x", pixels}: any contiguous range of float or integers of 32 or 8 bits.
  template <detail::contiguous Range>
  input_values(std::string_view of, const Range& range)
      : input_values(of, detail::dtype_of<detail::element_of<Range>>, std::as_bytes(std::span(range))) {
    static_assert(detail::dtype_of<detail::element_of<Range>> != dtype::boolean,
                  "meganeura: input_values(name, range): elements must be float or integers of 32 or 8 bits; give "
                  "others as their dtype and bytes");
  }
};

class program;

namespace detail {

class program_trace;

/// How a program of that device is optimised: by its costs and limits.
[[nodiscard]] fusion::optimize_options optimization_on(const device& on, const program_options& options);

// The program of a graph, and the graph's parameters and what it keeps where there are none yet. `before`: what making
// the graph took, with which the program's times begin.
[[nodiscard]] program make_program(const device& on, const graph& g, parameters& weights, optimizer_moments& moments,
                                   const program_options& options, const build_times& before);

}  // namespace detail

/// Everything is allocated, compiled and recorded by the constructor. A step then copies its inputs into a mapped slot
/// and submits one recorded command buffer: no allocation, no pipeline, no recording. Two steps may be in flight.
class program {
 public:
  /// `g`: primitives with outputs and effects. `weights` must hold every parameter of `g`, on this device object.
  /// `moments` are those of another program of the same model, for other sizes, or made anew. errors: what the passes
  /// throw; invalid_argument for parameters of another device, for one named like a moment, and for moments of other
  /// parameters; out_of_memory; unsupported.
  program(const device& on, const graph& g, const parameters& weights, const program_options& options = {},
          optimizer_moments moments = {});
  program(program&&) noexcept;  // every call of one that was moved from throws invalid_argument
  program& operator=(program&&) noexcept;
  program(const program&) = delete;  // two copies would write into one set of slots
  program& operator=(const program&) = delete;
  ~program();

  /// Copies one input's values, see input_values, for the next step; the span may go afterwards. A step reuses no older
  /// values: an input not set since the last step is an error of `submit`. An input that no output depends on may be
  /// set and is ignored. errors: invalid_argument for an unknown name, another dtype or another number of elements, and
  /// for what the option `checks` finds.
  void set_input(std::string_view name, dtype type, std::span<const std::byte> values);

  /// Runs one step with these inputs and those set before; returns its number, for `wait` and `scalar_output`. Waits
  /// for the first one, which is timed, and otherwise only when two steps are in flight already. A step that is refused
  /// leaves everything as it was. errors: those of `set_input`; invalid_argument for an input bound twice or not at
  /// all, and for parameters that have no values yet.
  std::uint64_t submit(const kernels::step_values& values = {}, std::span<const input_values> inputs = {}) {
    return submit({&values, 1}, inputs);
  }
  /// The same where groups of parameters have numbers of their own: a set for each, and as many more as there are.
  std::uint64_t submit(std::span<const kernels::step_values> values, std::span<const input_values> inputs);
  /// Returns when that step has ended; 0 is no step and never waited for.
  /// errors: invalid_argument for one that was not submitted yet.
  void wait(std::uint64_t step) const;

  /// Value of a rank-0 f32 output of that step, which is waited for; valid for the two latest steps.
  /// errors: invalid_argument for another step, another output or one that is not rank-0 f32.
  [[nodiscard]] float scalar_output(std::string_view name, std::uint64_t step) const;
  /// A copy of an output of the latest step. errors: invalid_argument before the first step or for an unknown name.
  [[nodiscard]] std::vector<std::byte> output(std::string_view name) const;
  /// The same as numbers: float for floats of any width, std::int32_t, std::uint8_t and so on for integers.
  /// errors: invalid_argument for an output of another type.
  template <class Number>
  [[nodiscard]] std::vector<Number> output_as(std::string_view name) const try {
    const plan::named_range& found = find_output_of(name, detail::dtype_of<Number>);
    std::vector<Number> numbers(static_cast<std::size_t>(found.extents.elements()));
    copy_output(found, std::as_writable_bytes(std::span(numbers)));
    return numbers;
  } catch (...) {
    rethrow_as_error("reading an output");
  }

  [[nodiscard]] const plan::execution_plan& plan() const { return alive().plan_; }
  [[nodiscard]] const fusion::optimize_report& report() const { return alive().report_; }
  /// Where the time until it had run once went; the device's log has it as well, in two lines.
  [[nodiscard]] const build_times& times() const { return alive().times_; }
  /// Those that are made: never `automatic`.
  [[nodiscard]] meganeura::checks checks() const { return alive().checks_; }
  /// What each dispatch of the latest step, or each group of them, took and had to do, by the rates of the device's
  /// profile; waits for it. errors: invalid_argument unless built with `profile`, and before the first step.
  [[nodiscard]] step_profile profile() const;
  /// Device nanoseconds of the latest step, all of it; errors: invalid_argument unless built with `duration`.
  [[nodiscard]] double duration() const;
  /// What the optimiser keeps from step to step.
  [[nodiscard]] const optimizer_moments& moments() const { return alive().moments_; }

 private:
  friend program detail::make_program(const device& on, const graph& g, parameters& weights, optimizer_moments& moments,
                                      const program_options& options, const build_times& before);
  program(const device& on, const graph& g, const parameters& weights, const program_options& options,
          optimizer_moments moments, const build_times& before);

  struct slot {                      // one step in flight
    std::vector<area_memory> areas;  // by plan::index_of; the host's are mapped and its own, the others both slots'
    area_memory inputs;              // where the host writes them: an area, or copied into it by the step
    vulkan::recording commands;
    std::uint64_t timeline = 0, step = 0;
    [[nodiscard]] vulkan::buffer_range at(const plan::range& r) const {
      return areas[plan::index_of(r.where)].at(r.offset, r.bytes);
    }
  };
  [[nodiscard]] const program& alive() const;
  [[nodiscard]] std::uint64_t step_values_bytes() const {
    return plan_.area_bytes[plan::index_of(plan::area::step_values)];
  }
  [[nodiscard]] std::string reason_not_to_fit() const;
  void check_memory() const;
  void allocate();
  struct prepared {             // one step of the plan, ready to be recorded
    vulkan::pipeline pipeline;  // none for a copy
    std::array<std::uint32_t, 3> groups{1, 1, 1};
    std::vector<spirv::binding_kind> kinds;
    std::string label;
  };
  struct generated {  // everything but the pipelines
    std::vector<prepared> steps;
    std::vector<spirv::module> modules;  // without repetition
    std::vector<std::size_t> module_of;  // each step's
  };
  [[nodiscard]] generated generate_kernels() const;
  void check_limits(const generated& kernels) const;
  void create_pipelines(generated& kernels) const;
  void record(slot& s, std::span<const prepared> kernels, const program_options& options) const;
  void record_folded(std::span<const prepared> kernels);
  static void record_steps(vulkan::recorder& commands, const slot& s, std::span<const plan::step> steps,
                           std::span<const prepared> kernels);
  void find_tensors();
  void submit_folded();
  [[nodiscard]] const slot& latest() const { return slots_[(steps_ + slots_.size() - 1) % slots_.size()]; }
  [[nodiscard]] std::string of_step(std::uint32_t step) const;
  [[nodiscard]] const plan::named_tensor* checked_input(const input_values& input, std::uint32_t step) const;
  void find_targets(std::span<const input_values> inputs, std::uint32_t step);
  [[nodiscard]] slot& free_slot();
  void wait_for(const slot& s) const;
  static void store(slot& s, const plan::named_tensor& input, const input_values& given);
  [[nodiscard]] std::size_t index_of(const plan::named_tensor& input) const {
    return static_cast<std::size_t>(&input - plan_.inputs.tensors.data());
  }
  void check_ran(std::string_view output) const;
  [[nodiscard]] const plan::named_range& find_output(std::string_view name) const;
  [[nodiscard]] const plan::named_range& find_output_of(std::string_view name, dtype read_as) const;
  void copy_output(const plan::named_range& output, std::span<std::byte> numbers) const;

  device device_;
  plan::execution_plan plan_;
  fusion::optimize_report report_;
  build_times times_;
  std::array<slot, plan::steps_in_flight> slots_;  // taken in turn
  optimizer_moments moments_;
  parameters weights_;
  std::vector<std::string> parameter_names_;  // of those that a step reads
  bool weights_have_values_ = false;
  std::vector<std::size_t> written_, folded_from_;  // of the parameters' layout: by a step, and for what is folded
  vulkan::recording folded_;
  std::optional<std::uint64_t> folded_at_;  // how often the latter were written when it ran last
  meganeura::checks checks_;
  profiling profiled_ = profiling::none;
  bool timed_ = false;
  std::vector<detail::index_check> index_checks_;
  std::vector<bool> input_set_, input_bound_;       // by slot: before the step, and with it
  std::vector<const plan::named_tensor*> targets_;  // of a step's inputs; kept, so that a step allocates nothing
  std::vector<std::string> input_names_;            // of the graph as given, unused ones included
  std::vector<std::string> tap_names_;              // asked for or not
  std::uint64_t steps_ = 0;
  std::unique_ptr<detail::program_trace> trace_;  // null: none is written; the first to go, as it reads the slots
};

namespace detail {

// "a", "b", or none.
[[nodiscard]] std::string quoted_names(std::span<const plan::named_range> all);

// Of what has such a device: errors: invalid_argument once it was moved from.
void check_alive(const device& of);

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/program.ipp>
#endif
