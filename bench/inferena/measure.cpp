// SPDX-License-Identifier: MIT
// Programs of a workload's tasks, and their times on the host and on the device.
#include "measure.hpp"

#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/core/name_pattern.hpp>
#include <meganeura/core/stopwatch.hpp>
#include <meganeura/runtime/elementwise_optimizers.hpp>
#include <meganeura/runtime/training_graph.hpp>

#include <algorithm>
#include <ctime>
#include <utility>

namespace inferena {

namespace mn = meganeura;

namespace {

mn::optimizer optimizer_of(task which) {
  if (which == task::sgd) return mn::sgd{.learning_rate = 0};
  return mn::adamw{.learning_rate = 0};
}

// The loss as an output, and the gradient of each parameter that is trained, "grad:NAME".
void add_gradients(pass& of, const std::string& frozen) {
  mn::graph& g = of.graph;
  const mn::name_patterns kept = frozen.empty() ? mn::name_patterns() : mn::name_patterns(frozen);
  std::vector<mn::node_id> trained;
  for (mn::node_id leaf : g.leaves(mn::op::parameter)) {
    if (!kept.match(g.get<mn::leaf_attribute>(leaf).name)) trained.push_back(leaf);
  }
  g.add_output("loss", of.loss);
  const auto slopes = mn::gradients(g, of.loss, trained);
  for (std::size_t i = 0; i < trained.size(); ++i)
    g.add_output("grad:" + g.get<mn::leaf_attribute>(trained[i]).name, slopes[i]);
}

series series_of(std::vector<double> milliseconds) {
  if (milliseconds.empty()) return {};
  std::ranges::sort(milliseconds);
  return {milliseconds[milliseconds.size() / 2], milliseconds.front(), milliseconds.back(),
          static_cast<int>(milliseconds.size())};
}

double processor_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

}  // namespace

const char* to_string(task of) {
  constexpr const char* names[] = {"inference", "latency", "forward + backward", "step with SGD", "step with AdamW"};
  return names[static_cast<int>(of)];
}

bool has(const workload& of, task which) { return which != task::latency || of.latency; }

prepared prepare(const workload& of, task which) {
  mn::detail::stopwatch watch;
  prepared result;
  const bool updates = which == task::sgd || which == task::adamw;
  const auto& make = which == task::inference ? of.forward
                     : which == task::latency ? of.latency
                     : updates && of.step     ? of.step
                                              : of.training;
  result.made = make();
  result.times.trace = watch.lap();
  if (which == task::forward_backward) add_gradients(result.made, of.frozen);
  if (updates) {
    const mn::optimizer chosen = optimizer_of(which);
    mn::training_options options;
    if (!of.frozen.empty()) options.frozen = of.frozen;
    result.made.graph = mn::make_training_graph(std::move(result.made.graph), result.made.loss, chosen, options);
    result.numbers = chosen.step_values(1, 0);
  }
  result.times.differentiate = watch.lap();
  return result;
}

void bind(mn::program& run, const pass& of) {
  for (const bound_input& each : of.inputs) run.set_input(each.name, each.type, each.bytes);
}

measurement measure(mn::program& run, const prepared& from, const measure_options& options) {
  measurement result;
  mn::detail::stopwatch watch;
  const auto step = [&] {
    bind(run, from.made);
    (void)watch.lap();
    run.wait(run.submit(from.numbers));
    return watch.lap();
  };
  const double first = step();
  result.built = run.times();
  result.built.trace = from.times.trace;
  result.built.differentiate = from.times.differentiate;
  const auto& plan = run.plan();
  result.dispatches = plan.steps.size();
  result.groups = plan.groups;
  result.predicted_bytes = plan.peak_bytes();
  if (options.rounds == 0) return result;
  double one = first;
  const auto affordable = [&](int wanted) {
    return std::clamp(static_cast<int>(1000 * options.most_seconds / std::max(one, 1e-3)), std::min(wanted, 5), wanted);
  };
  for (int i = affordable(options.warm_ups); i > 0; --i) one = step();
  const auto several = [&](int count) {
    std::uint64_t last = 0;
    for (int i = 0; i < count; ++i) {
      bind(run, from.made);
      last = run.submit(from.numbers);
    }
    run.wait(last);
    return watch.lap();
  };
  if (options.warm_ups > 0 && one < 1000 * options.busy_seconds) {
    for (double left = 1000 * options.busy_seconds; left > 0;) left -= several(3);
  }
  std::vector<double> wall, device, processor;
  for (int i = affordable(options.rounds); i > 0; --i) {
    const double before = processor_ms();
    wall.push_back(step());
    processor.push_back(processor_ms() - before);
    if (options.has_timestamps) device.push_back(run.duration() * 1e-6);
  }
  result.wall = series_of(std::move(wall));
  result.device = series_of(std::move(device));
  result.processor = series_of(std::move(processor));
  const int together = std::max(3, result.wall.rounds / 3);
  (void)watch.lap();
  result.back_to_back = several(together) / together;
  return result;
}

std::vector<mn::profile_row> slowest_rows(const mn::program& run, std::size_t count) {
  std::vector<mn::profile_row> all = run.profile().by_kernel();
  all.resize(std::min(all.size(), count));
  return all;
}

}  // namespace inferena
