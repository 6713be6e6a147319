// SPDX-License-Identifier: MIT
// A workload of the Inferena benchmark: graphs lowered from a typed model, and the values of their inputs.
#pragma once
#include <meganeura/expr/lower.hpp>
#include <meganeura/graph/graph.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace inferena {

enum class size { full, small };  // as published; tiny shapes for a software device

/// Values of an input, dense and row-major.
struct bound_input {
  std::string name;
  meganeura::dtype type;
  std::vector<std::byte> bytes;
};

/// What runs, with the output "output" and, of training, the node of the loss (f32[]); no gradients, no updates.
struct pass {
  meganeura::graph graph;
  std::vector<bound_input> inputs;
  meganeura::node_id loss{};
};

/// Made when asked for: the time it takes is the trace's.
struct workload {
  std::string name;                 // as the reference files have it
  std::function<pass()> forward;    // all inputs
  std::function<pass()> latency{};  // the smallest request; empty where the benchmark has none
  std::function<pass()> training;   // with the loss, as the model is evaluated
  std::function<pass()> step{};     // the same in training, where layers then do something else; empty: as `training`
  std::string frozen{};             // a pattern of parameters that are not trained; empty: none
  std::string reference{};          // whose figures its outputs are checked by; empty: its own
  std::function<pass()>
      unfolded{};  // that one with batch norms, from which weights are folded; empty: they are the same
};

/// fn(step * i), computed in double and rounded once, as f32.
[[nodiscard]] bound_input wave(std::string name, double (*fn)(double), double step, std::size_t count);
/// first, first + 1, .. modulo `below`, as i32.
[[nodiscard]] bound_input counting(std::string name, int first, int below, std::size_t count);

/// The graph of a typed model alone.
template <class Model>
[[nodiscard]] pass forward_pass(std::vector<bound_input> inputs,
                                std::initializer_list<meganeura::symbol_extent> symbols) {
  return {meganeura::lower<Model>(symbols), std::move(inputs)};
}

/// The same with its loss, whose targets are among the inputs.
template <class Model, class Loss>
[[nodiscard]] pass training_pass(std::vector<bound_input> inputs,
                                 std::initializer_list<meganeura::symbol_extent> symbols,
                                 meganeura::run_mode mode = meganeura::run_mode::evaluation) {
  pass result{meganeura::graph(mode), std::move(inputs)};
  const std::span<const meganeura::symbol_extent> bindings(symbols.begin(), symbols.size());
  const auto results = meganeura::lower_into<Model>(result.graph, bindings);
  result.loss = meganeura::lower_loss<Model, Loss>(result.graph, results, bindings)[0];
  result.graph.add_output("output", results[0]);
  return result;
}

// One of each workload, bench/inferena/<name>.cpp.
[[nodiscard]] workload smollm2(size of);
[[nodiscard]] workload smolvla(size of);       // the graph of the Python runners
[[nodiscard]] workload smolvla_mega(size of);  // with biases and a time MLP, cross layers on the raw context
[[nodiscard]] workload whisper(size of);
[[nodiscard]] workload resnet50(size of);
[[nodiscard]] workload resnet50_folded(size of);
[[nodiscard]] workload sd_small(size of);
[[nodiscard]] workload sd15(size of);

/// All of them, in this order.
[[nodiscard]] std::vector<workload> every_workload(size of);

}  // namespace inferena
