// SPDX-License-Identifier: MIT
// Building and running a recorded program.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/float_conversion.hpp>
#include <meganeura/core/hash.hpp>
#include <meganeura/core/nearest.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/core/stopwatch.hpp>
#include <meganeura/io/user_folder.hpp>
#include <meganeura/kernels/generate.hpp>
#include <meganeura/kernels/random.hpp>
#include <meganeura/runtime/measured_rates.hpp>
#include <meganeura/runtime/program.hpp>
#include <meganeura/runtime/program_trace.hpp>
#include <meganeura/runtime/taps.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <sstream>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// Kernels of equal words become one pipeline.
inline std::uint64_t module_hash(const spirv::module& module) {
  std::uint64_t hash = module.words.size();
  for (std::uint32_t word : module.words) hash = hash_combine(hash, word);
  for (std::uint32_t word : module.specialization) hash = hash_combine(hash, word);
  return hash;
}

inline bool same_kernel(const spirv::module& a, const spirv::module& b) {
  return a.words == b.words && a.specialization == b.specialization;
}

// Devices are compared as objects: two that were opened on one GPU share no memory.
inline void check_same_device(const device& on, const device& of_weights) {
  if (on.state() == of_weights.state()) return;
  const bool alike = on.facts().name == of_weights.facts().name;
  fail(
      error_category::invalid_argument,
      "the parameters are on {} and the program is to run on {}{}; build both on one device object or a copy of it, or "
      "save the parameters and load them on the other",
      quote(of_weights.facts().name), quote(on.facts().name), alike ? ", opened a second time" : "");
}

// What one execution is called.
inline const char* turn_of(const plan::execution_plan& of) { return of.updated.tensors.size() == 0 ? "run" : "step"; }

// Schedules of products are made for what the device has, whatever else costs are weighed by.
inline void limit_schedules(device_profile& costs, const device_profile& actual) {
  costs.matrix_units = actual.matrix_units;
  costs.unit = actual.unit;
  costs.fragments_by_rows = actual.fragments_by_rows;
  costs.device_scope = actual.device_scope;
  costs.subgroup_size = actual.subgroup_size;
  costs.max_shared_bytes = actual.max_shared_bytes;
  costs.max_invocations = actual.max_invocations;
  costs.max_loop_iterations = actual.max_loop_iterations;
}

MEGANEURA_INLINE fusion::optimize_options optimization_on(const device& on, const program_options& options) {
  fusion::optimize_options optimization = options.optimize;
  optimization.precision = options.precision;
  optimization.fold = options.plan.fold.value_or(true) && options.optimize.fold.value_or(true);
  std::istringstream disabled(io::environment("MEGANEURA_DISABLE"));
  for (std::string name; std::getline(disabled, name, ',');) {
    if (!name.empty()) optimization.disabled.push_back(name);
  }
  const device_profile actual = profile_of(on);
  if (options.device_costs) optimization.device = actual;
  limit_schedules(optimization.device, actual);
  return optimization;
}

}  // namespace detail

MEGANEURA_INLINE std::string detail::quoted_names(std::span<const plan::named_range> all) {
  std::string names;
  for (const plan::named_range& each : all) names += (names.empty() ? "" : ", ") + quote(each.name);
  return names.empty() ? "none" : names;
}

MEGANEURA_INLINE void detail::check_alive(const device& of) {
  if (of) return;
  fail(error_category::invalid_argument, "this session, trainer or program was moved from; use what it was moved into");
}

MEGANEURA_INLINE const program& program::alive() const try {
  detail::check_alive(device_);
  return *this;
} catch (...) {
  rethrow_as_error("using a program");
}

MEGANEURA_INLINE program::program(program&&) noexcept = default;
MEGANEURA_INLINE program& program::operator=(program&&) noexcept = default;
MEGANEURA_INLINE program::~program() = default;

MEGANEURA_INLINE program::program(const device& on, const graph& g, const parameters& weights,
                                  const program_options& options, optimizer_moments moments)
    : program(on, g, weights, options, std::move(moments), {}) {}

MEGANEURA_INLINE program::program(const device& on, const graph& g, const parameters& weights,
                                  const program_options& options, optimizer_moments moments,
                                  const build_times& before) try
    : device_(on),
      times_(before),
      moments_(std::move(moments)),
      weights_(weights),
      checks_(detail::resolved(options.checks)),
      profiled_(detail::has_trace(on) && on.facts().timestamp_bits != 0 ? profiling::dispatches : options.profile),
      timed_(options.duration) {
  detail::check_same_device(on, weights.on());
  g.layers().check();
  fusion::optimize_options optimization = detail::optimization_on(on, options);  // which may measure first
  const std::int64_t begin = detail::has_trace(on) ? io::monotonic_now() : 0;
  detail::stopwatch watch;
  plan::plan_options planning = options.plan;
  planning.fold = optimization.fold;
  const std::uint64_t range = on.facts().max_storage_range;
  // Pieces behind descriptors are quicker than a flat update by address: Adam's of 160 MB on lavapipe by a fifth.
  planning.max_binding_bytes = std::min(planning.max_binding_bytes, range);
  if (!on.facts().has_device_address) planning.max_tensor_bytes = std::min(planning.max_tensor_bytes, range);
  const std::uint64_t page_bytes = page_bytes_of(on.facts());  // as the parameters are paged
  optimization.region = make_region_limits(on.facts(), optimization.region);
  optimization.region.tensor_bytes = static_cast<std::int64_t>(std::min(planning.max_tensor_bytes, page_bytes));
  const auto optimized = [&](const graph& of) { return fusion::optimize(of, optimization, &report_); };
  const bool has_taps = options.taps.begin() != options.taps.end();
  planning.launch = optimization.device.launch;
  const auto make_plan = [&] {
    graph implementation = has_taps ? optimized(detail::with_taps(g, options.taps)) : optimized(g);
    times_.saturate += report_.saturate_ms;
    times_.implement += report_.implement_ms;
    times_.extract += watch.lap() - report_.saturate_ms - report_.implement_ms;
    planning.times = report_.times;
    plan_ = plan::make_plan(std::move(implementation), weights.layout(), planning, page_bytes);
    times_.plan += watch.lap();
  };
  const auto make_plan_unfolded = [&] {
    planning.fold = optimization.fold = false;
    make_plan();
  };
  try {
    make_plan();
    if (!plan_.folded.empty() && !reason_not_to_fit().empty()) make_plan_unfolded();  // it is kept for good
  } catch (const error& refused) {
    const bool is_budget = refused.category() == error_category::out_of_memory && planning.memory_budget != 0;
    if (!is_budget || !planning.fold.value_or(false)) throw;
    make_plan_unfolded();
  }
  if (const std::size_t again = plan_.computed_again(); again != 0 && !report_.explain.empty()) {
    report_.explain += fmt::format(
        "\nA memory budget of {} bytes is not among this: {} dispatches more compute again what is not kept, so that a "
        "step takes {:.4g} us and nodes of the plan have other numbers.\n",
        planning.memory_budget, again, 1e6 * plan_.predicted_seconds);
  }
  // Whatever the device cannot do is known before anything is allocated or compiled.
  generated kernels = generate_kernels();
  check_limits(kernels);
  times_.generate = watch.lap();
  if (moments_) moments_.check_fits(plan_);
  check_memory();
  allocate();
  times_.allocate = watch.lap();
  create_pipelines(kernels);
  times_.pipelines = watch.lap();
  record_folded(kernels.steps);
  for (slot& s : slots_) record(s, std::span<const prepared>(kernels.steps).subspan(plan_.folded.size()), options);
  times_.record = watch.lap();
  for (const graph_output& tap : g.taps()) tap_names_.push_back(tap.name);
  for (node_id id : g.leaves(op::input)) input_names_.push_back(g.get<leaf_attribute>(id).name);
  for (node_id id : plan_.implementation.leaves(op::parameter)) {
    parameter_names_.push_back(plan_.implementation.get<leaf_attribute>(id).name);
  }
  input_set_.assign(plan_.inputs.tensors.size(), false);
  find_tensors();
  if (includes(checks_, meganeura::checks::indices)) index_checks_ = detail::index_checks(g);
  if (begin != 0) {
    trace_ = std::make_unique<detail::program_trace>(on, profiled_ == profiling::dispatches
                                                             ? detail::dispatches_of(plan_, profile_of(on))
                                                             : std::vector<profiled_dispatch>());
    trace_->built(begin, times_);
  }
  write_log(
      on.log(), log_level::info, "{} dispatches are ready after {}{}", plan_.steps.size(), to_line(times_),
      plan_.folded.empty() ? std::string() : fmt::format("; {} more run when parameters change", plan_.folded.size()));
} catch (...) {
  rethrow_as_error("building a program");
}

// Every buffer that `allocate` makes, the parameters' being there already, and moments if others have them too.
MEGANEURA_INLINE std::string program::reason_not_to_fit() const {
  std::vector<std::uint64_t> buffers;
  for (std::size_t i = 0; i < plan_.area_bytes.size(); ++i) {
    const auto where = static_cast<plan::area>(i);
    if (where == plan::area::parameter || (moments_ && where >= plan::area::training)) continue;
    std::size_t copies = plan::is_hosts(where) ? slots_.size() : 1;
    if (where == plan::area::input && !device_.facts().has_mapped_device_memory) ++copies;  // on the device
    for (; copies > 0; --copies) {
      const std::vector<std::uint64_t> more = buffers_of(device_.facts(), plan_.area_bytes[i]);
      buffers.insert(buffers.end(), more.begin(), more.end());
    }
  }
  return device_.reason_to_refuse(buffers);
}

MEGANEURA_INLINE void program::check_memory() const {
  const std::string reason = reason_not_to_fit();
  if (reason.empty()) return;
  fail(error_category::out_of_memory,
       "the program does not fit: {}; it takes {} bytes in all, and with a plan.memory_budget below that, values are "
       "computed again instead of being kept",
       reason, plan_.peak_bytes());
}

MEGANEURA_INLINE void program::allocate() {
  if (!moments_) moments_ = moments_.made_for(device_, plan_);
  for (std::size_t i = 0; i < plan_.area_bytes.size(); ++i) {
    const auto where = static_cast<plan::area>(i);
    if (plan::is_hosts(where)) {
      for (slot& s : slots_) s.areas.emplace_back(device_, plan_.area_bytes[i], vulkan::memory_kind::mapped);
      continue;
    }
    const area_memory shared = where == plan::area::parameter  ? weights_.memory()
                               : where >= plan::area::training ? moments_.memory(where)
                                                               : area_memory(device_, plan_.area_bytes[i]);
    for (slot& s : slots_) s.areas.push_back(shared);
  }
  constexpr std::size_t inputs = plan::index_of(plan::area::input);
  const auto is_near = [](const vulkan::buffer& page) { return page.is_device_local(); };
  area_memory copied;
  for (slot& s : slots_) {
    s.inputs = s.areas[inputs];
    if (std::ranges::all_of(s.inputs.pages(), is_near)) continue;
    // Kernels would read them across the bus, as often as they need them.
    if (copied.pages().empty()) copied = area_memory(device_, plan_.area_bytes[inputs]);
    s.areas[inputs] = copied;
  }
  vulkan::recorder zero(device_);  // gaps between gradients are read as well
  for (const plan::area each : {plan::area::gradient, plan::area::arrivals})
    slots_[0].areas[plan::index_of(each)].fill_with_zeros(zero);
  device_.submit(zero.finish());
}

MEGANEURA_INLINE program::generated program::generate_kernels() const {
  kernels::check_streams(plan_.implementation);
  kernels::kernel_set made = kernels::generate(plan_, profile_of(device_), device_.threads());
  generated result;
  std::multimap<std::uint64_t, std::size_t> known;
  std::vector<std::size_t> module_of;  // each kernel's
  for (kernels::kernel_dispatch& kernel : made.kernels) {
    const std::uint64_t key = detail::module_hash(kernel.module);
    const auto [begin, end] = known.equal_range(key);
    const auto found = std::find_if(begin, end, [&](const auto& entry) {
      return detail::same_kernel(result.modules[entry.second], kernel.module);
    });
    module_of.push_back(found != end ? found->second : result.modules.size());
    if (found != end) continue;
    known.emplace(key, result.modules.size());
    result.modules.push_back(std::move(kernel.module));
  }
  const std::vector<const plan::step*> steps = plan_.all_steps();
  result.steps.resize(steps.size());
  result.module_of.resize(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i]->kind == plan::step::copy) continue;
    const std::size_t kernel = made.of_step[i];
    result.module_of[i] = module_of[kernel];
    result.steps[i].groups = made.kernels[kernel].groups;
    result.steps[i].kinds = result.modules[module_of[kernel]].bindings;
    result.steps[i].label = plan::label(plan_, *steps[i]);
  }
  return result;
}

MEGANEURA_INLINE void program::check_limits(const generated& kernels) const {
  const vulkan::device_facts& facts = device_.facts();
  for (const spirv::module& module : kernels.modules) {
    const std::string reason = vulkan::reason_to_refuse(facts, module);
    if (reason.empty()) continue;
    fail(error_category::unsupported, "kernel \"{}\" cannot run on {}: {}", module.name, facts.name, reason);
  }
  const std::vector<const plan::step*> steps = plan_.all_steps();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const plan::step& s = *steps[i];
    if (s.kind == plan::step::copy) continue;
    std::string reason = vulkan::reason_to_refuse(facts, kernels.steps[i].groups);
    for (std::size_t k = 0; reason.empty() && k < s.bindings.size(); ++k) {
      reason = vulkan::reason_to_refuse(facts, kernels.steps[i].kinds[k], s.bindings[k].where.bytes);
      if (!reason.empty()) reason = fmt::format("of binding {}, {}", k, reason);
    }
    if (reason.empty()) continue;
    fail(error_category::unsupported, "kernel \"{}\" of %{} cannot run: {}; use a smaller batch, or split the tensor",
         kernels.modules[kernels.module_of[i]].name, s.node, reason);
  }
}

MEGANEURA_INLINE void program::create_pipelines(generated& kernels) const {
  const vulkan::device_facts& facts = device_.facts();
  const bool known = device_.cache_origin() == vulkan::pipeline_cache_origin::loaded;
  write_log(device_.log(), log_level::info, "compiling {} kernels for {}{}{}", kernels.modules.size(), facts.name,
            facts.type == vulkan::device_type::cpu
                ? ", a software device, which does that on the processor and takes its time"
                : "",
            known                          ? "; those that were compiled before come from " + device_.cache_file()
            : device_.cache_file().empty() ? "; they are kept nowhere, as the cache on disk is off"
                                           : "; the next process reads them from " + device_.cache_file());
  const std::vector<vulkan::pipeline> created = device_.create_pipelines(kernels.modules);
  const std::vector<const plan::step*> steps = plan_.all_steps();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i]->kind != plan::step::copy) kernels.steps[i].pipeline = created[kernels.module_of[i]];
  }
}

MEGANEURA_INLINE void program::record(slot& s, std::span<const prepared> kernels,
                                      const program_options& options) const {
  vulkan::recorder commands(device_, {.timestamps = profiled_ == profiling::dispatches,
                                      .group_timestamps = profiled_ == profiling::groups,
                                      .duration = options.duration});
  const area_memory& inputs = s.areas[plan::index_of(plan::area::input)];
  for (std::size_t page = 0; page < inputs.pages().size(); ++page) {
    const vulkan::buffer &from = s.inputs.pages()[page], &to = inputs.pages()[page];
    if (from != to) commands.copy({from, 0, 0}, {to, 0, 0});
  }
  commands.barrier();  // none where nothing was copied
  record_steps(commands, s, plan_.steps, kernels);
  s.commands = commands.finish();
}

// What is folded reads and writes what both slots share.
MEGANEURA_INLINE void program::record_folded(std::span<const prepared> kernels) {
  if (plan_.folded.empty()) return;
  vulkan::recorder commands(device_);
  record_steps(commands, slots_[0], plan_.folded, kernels);
  folded_ = commands.finish();
}

MEGANEURA_INLINE void program::record_steps(vulkan::recorder& commands, const slot& s,
                                            std::span<const plan::step> steps, std::span<const prepared> kernels) {
  std::uint32_t group = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const plan::step& step = steps[i];
    if (step.group != group) commands.barrier();
    group = step.group;
    std::vector<vulkan::buffer_range> bindings;
    for (const plan::binding& b : step.bindings) bindings.push_back(s.at(b.where));
    if (step.kind == plan::step::copy) {
      commands.copy(bindings[0], bindings[1]);
      continue;
    }
    for (std::size_t k = 0; k < bindings.size(); ++k) {  // whole RGBA32F texels; tensors are padded to far more
      if (kernels[i].kinds[k] == spirv::binding_kind::uniform_texel_buffer)
        bindings[k].size = (bindings[k].size + 15) / 16 * 16;
    }
    commands.dispatch(kernels[i].pipeline, bindings, kernels[i].groups, kernels[i].label);
  }
}

// The parameters and states that a step writes, and those that are read by what is folded.
MEGANEURA_INLINE void program::find_tensors() {
  const graph& g = plan_.implementation;
  const auto add = [&](std::vector<std::size_t>& to, node_id leaf) {
    const plan::named_tensor* found = weights_.layout().find(g.get<leaf_attribute>(leaf).name);
    if (found) to.push_back(weights_.number_of(*found));  // else a training's own
  };
  for (node_id effect : g.effects()) {
    for (const update& each : g.updates(effect)) add(written_, each.target);
  }
  std::vector<bool> is_read(g.size(), false);
  for (const plan::step& each : plan_.folded) {
    for (node_id operand : g.operands(each.node)) is_read[operand] = true;
  }
  for (node_id id{0}; id < g.size(); ++id) {
    if (is_read[id] && (g[id].kind == op::parameter || g[id].kind == op::state)) add(folded_from_, id);
  }
}

// Before a step.
MEGANEURA_INLINE void program::submit_folded() {
  if (plan_.folded.empty()) return;
  const std::uint64_t changes = weights_.changes(folded_from_);
  if (folded_at_ == changes) return;
  (void)device_.submit(folded_);
  folded_at_ = changes;
}

MEGANEURA_INLINE std::string program::of_step(std::uint32_t step) const {
  return step == 0 ? std::string() : fmt::format("{} {}: ", detail::turn_of(plan_), step);
}

// Null for an input that the graph has and no output needs. `step`: 0 where that is not known.
MEGANEURA_INLINE const plan::named_tensor* program::checked_input(const input_values& input, std::uint32_t step) const {
  const plan::named_tensor* found = plan_.inputs.find(input.name);
  if (!found) {
    if (std::ranges::find(input_names_, input.name) != input_names_.end()) return nullptr;
    fail(error_category::invalid_argument, "there is no input \"{}\"; the model has \"{}\"{}", input.name,
         fmt::join(input_names_, "\", \""), detail::did_you_mean(detail::nearest(input.name, input_names_)));
  }
  const bool rounded = input.type != found->type && input.type == detail::host_type(found->type);
  const dtype expected = rounded ? input.type : found->type;
  const std::int64_t bytes = storage_bytes(expected, found->extents.elements());
  if (expected != input.type || static_cast<std::uint64_t>(bytes) != input.values.size()) {
    fail(error_category::invalid_argument, "input \"{}\" is {}{}, {} bytes{}; it was given {} bytes of {}{}",
         input.name, to_string(found->type), to_string(found->extents), bytes,
         rounded ? fmt::format(" as {}", to_string(expected)) : "", input.values.size(), to_string(input.type),
         is_float(found->type) && is_narrow(found->type) && !is_float(input.type)
             ? fmt::format("; give it f32, or {} as its bytes", to_string(found->type))
             : "");
  }
  if (includes(checks_, meganeura::checks::finite))
    detail::check_finite(of_step(step), input.name, found->type, found->extents, input.type, input.values);
  for (const detail::index_check& check : index_checks_) {
    if (check.input == input.name && check.counts.empty())
      detail::check_indices(of_step(step), check, found->extents, input.values, {});
  }
  return found;
}

// What targets_ is for the inputs of a step, each of them bound once.
MEGANEURA_INLINE void program::find_targets(std::span<const input_values> inputs, std::uint32_t step) {
  targets_.clear();
  input_bound_.assign(input_set_.size(), false);
  for (const input_values& input : inputs) {
    const plan::named_tensor* target = checked_input(input, step);
    targets_.push_back(target);
    const bool again =
        target ? input_bound_[index_of(*target)] : std::ranges::count(inputs, input.name, &input_values::name) > 1;
    if (again) fail(error_category::invalid_argument, "input \"{}\" is bound twice; bind it once", input.name);
    if (target) input_bound_[index_of(*target)] = true;
  }
  for (const detail::index_check& check : index_checks_) {  // of two inputs, where both are bound by this step
    const auto indices = std::ranges::find(inputs, check.input, &input_values::name),
               counts = std::ranges::find(inputs, check.counts, &input_values::name);
    if (indices == inputs.end() || counts == inputs.end()) continue;
    const plan::named_tensor* target = plan_.inputs.find(check.input);
    if (target) detail::check_indices(of_step(step), check, target->extents, indices->values, counts->values);
  }
  for (std::size_t i = 0; i < input_set_.size(); ++i) {
    if (input_set_[i] || input_bound_[i]) continue;
    fail(error_category::invalid_argument,
         "input \"{0}\" was not bound; every step binds it anew: bind<\"{0}\">(values), or {{\"{0}\", values}} "
         "where names are not known before",
         plan_.inputs.tensors[i].name);
  }
}

MEGANEURA_INLINE void program::wait_for(const slot& s) const {
  const std::int64_t begin = trace_ ? io::monotonic_now() : 0;
  device_.wait(s.timeline);
  if (trace_) trace_->waited(s.step, begin);
}

// That of the next step, whose memory no step reads any more.
MEGANEURA_INLINE program::slot& program::free_slot() {
  slot& s = slots_[steps_ % slots_.size()];
  if (s.timeline) wait_for(s);
  s.timeline = 0;  // waited for once, however many inputs are set
  return s;
}

MEGANEURA_INLINE void program::store(slot& s, const plan::named_tensor& input, const input_values& given) {
  std::byte* target = s.inputs.mapped(input.offset, input.bytes).data();
  detail::convert_floats(given.values, given.type, target, input.type);
}

MEGANEURA_INLINE void program::set_input(std::string_view name, dtype type, std::span<const std::byte> values) try {
  (void)alive();
  const input_values given(name, type, values);
  const plan::named_tensor* input = checked_input(given, 0);
  if (!input) return;
  store(free_slot(), *input, given);
  input_set_[index_of(*input)] = true;
} catch (...) {
  rethrow_as_error("setting an input");
}

MEGANEURA_INLINE std::uint64_t program::submit(std::span<const kernels::step_values> values,
                                               std::span<const input_values> inputs) try {
  (void)alive();
  const std::uint64_t groups = step_values_bytes() / plan::tensor_alignment;
  if (values.size() < groups) {
    fail(error_category::invalid_argument, "a step was given {} sets of numbers and has {} groups of parameters",
         values.size(), groups);
  }
  find_targets(inputs, values[0].step);
  if (!weights_have_values_) weights_.check_values(detail::turn_of(plan_), parameter_names_);
  weights_have_values_ = true;
  detail::stopwatch watch;
  slot& s = free_slot();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (targets_[i]) store(s, *targets_[i], inputs[i]);
  }
  const area_memory& numbers = s.areas[plan::index_of(plan::area::step_values)];
  for (std::size_t i = 0; i < groups; ++i)
    std::memcpy(numbers.mapped(i * plan::tensor_alignment, sizeof(values[i])).data(), &values[i], sizeof(values[i]));
  const std::int64_t submitted = trace_ ? io::monotonic_now() : 0;
  std::unique_lock<std::mutex> order;
  if (!plan_.folded.empty() || !written_.empty()) order = weights_.in_order();
  submit_folded();
  s.timeline = device_.submit(s.commands);
  if (!plan_.implementation.effects().empty()) weights_.changed(written_);
  if (order) order.unlock();
  input_set_.assign(input_set_.size(), false);  // only now: a refused step keeps what was set
  s.step = ++steps_;
  if (trace_) trace_->submitted(s.commands, s.step, submitted);
  if (steps_ == 1) {
    wait_for(s);
    times_.first_step = watch.lap();
    write_log(device_.log(), log_level::info, "the first step took {:.1f} ms", times_.first_step);
  }
  return s.step;
} catch (...) {
  rethrow_as_error("a step");
}

MEGANEURA_INLINE void program::wait(std::uint64_t step) const try {
  if (step > alive().steps_) {
    fail(error_category::invalid_argument, "wait for step {}: the latest step submitted is {}; submit it first", step,
         steps_);
  }
  for (const slot& s : slots_) {  // an older step has ended
    if (s.step == step && s.timeline) wait_for(s);
  }
} catch (...) {
  rethrow_as_error("waiting for a step");
}

MEGANEURA_INLINE void program::check_ran(std::string_view output) const {
  if (alive().steps_ != 0) return;
  fail(error_category::invalid_argument, "output \"{}\" was read before the first run; run the model first", output);
}

MEGANEURA_INLINE float program::scalar_output(std::string_view name, std::uint64_t step) const try {
  const plan::named_range& found = find_output(name);
  if (found.where.where != plan::area::results) {
    fail(error_category::invalid_argument,
         "scalar_output: output {} is {}{}, and only f32[] is one number; read it by program.output", quote(name),
         to_string(found.type), to_string(found.extents));
  }
  check_ran(name);
  const auto s = std::ranges::find(slots_, step, &slot::step);
  if (step == 0 || s == slots_.end()) {  // a slot that no step used yet has the number 0
    fail(error_category::invalid_argument,
         "scalar output {} of step {} is not kept; those of the two latest steps are, and the latest is {}",
         quote(name), step, steps_);
  }
  wait_for(*s);
  float value = 0;
  const area_memory& results = s->areas[plan::index_of(plan::area::results)];
  std::memcpy(&value, results.mapped(found.where.offset, sizeof(value)).data(), sizeof(value));
  return value;
} catch (...) {
  rethrow_as_error("reading an output");
}

MEGANEURA_INLINE const plan::named_range& program::find_output(std::string_view name) const {
  (void)alive();
  const auto found = std::ranges::find(plan_.outputs, name, &plan::named_range::name);
  if (found == plan_.outputs.end()) {
    if (std::ranges::find(tap_names_, name) != tap_names_.end()) {
      fail(error_category::invalid_argument,
           "{0} is a tap, which is stored where it is asked for alone: give the session or trainer the option "
           "{{.program = {{.taps = {0}}}}}",
           quote(name));
    }
    fail(error_category::invalid_argument, "there is no output {}; there is {}{}", quote(name),
         detail::quoted_names(plan_.outputs), detail::did_you_mean(detail::nearest_of(name, plan_.outputs)));
  }
  return *found;
}

MEGANEURA_INLINE std::vector<std::byte> program::output(std::string_view name) const try {
  const plan::range& from = find_output(name).where;
  check_ran(name);
  if (trace_) wait_for(latest());
  return latest().areas[plan::index_of(from.where)].read(device_, from.offset, from.bytes);
} catch (...) {
  rethrow_as_error("reading an output");
}

MEGANEURA_INLINE const plan::named_range& program::find_output_of(std::string_view name, dtype read_as) const try {
  const plan::named_range& found = find_output(name);
  if (detail::host_type(found.type) != read_as) {
    fail(error_category::invalid_argument, "output {} is {}{} and was read as {}; read it as {}, or by program.output",
         quote(name), to_string(found.type), to_string(found.extents), to_string(read_as),
         to_string(detail::host_type(found.type)));
  }
  check_ran(name);
  return found;
} catch (...) {
  rethrow_as_error("reading an output");
}

// To where the user has them, in one copy.
MEGANEURA_INLINE void program::copy_output(const plan::named_range& output, std::span<std::byte> numbers) const try {
  const plan::range& from = output.where;
  if (trace_) wait_for(latest());
  const area_memory& area = latest().areas[plan::index_of(from.where)];
  const vulkan::read_back_ticket copied = area.read_back(device_, from.offset, from.bytes);
  detail::convert_floats(copied.data(), output.type, numbers.data(), detail::host_type(output.type));
} catch (...) {
  rethrow_as_error("reading an output");
}

MEGANEURA_INLINE step_profile program::profile() const try {
  if (alive().profiled_ == profiling::none) {
    fail(error_category::invalid_argument,
         "profile was asked of a program without timestamps; build it with program_options{{.profile = "
         "profiling::dispatches}}");
  }
  if (steps_ == 0) fail(error_category::invalid_argument, "profile was read before the first run; run the model first");
  std::vector<profiled_dispatch> all = detail::dispatches_of(plan_, profile_of(device_));
  if (profiled_ == profiling::groups)
    return step_profile(detail::groups_of(plan_, all, latest().commands.group_times()));
  if (!all.empty()) detail::set_times(all, latest().commands.timings());
  return step_profile(std::move(all));
} catch (...) {
  rethrow_as_error("reading a profile");
}

MEGANEURA_INLINE double program::duration() const try {
  if (!alive().timed_) {
    fail(error_category::invalid_argument,
         "the duration was asked of a program without timestamps; build it with program_options{{.duration = true}}");
  }
  if (steps_ == 0)
    fail(error_category::invalid_argument, "the duration was read before the first run; run the model first");
  return latest().commands.duration();
} catch (...) {
  rethrow_as_error("reading a duration");
}

}  // namespace meganeura::inline MEGANEURA_ABI
