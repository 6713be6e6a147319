// SPDX-License-Identifier: MIT
// Random graphs for the fuzz tests: a seed and a number of steps give one graph with values for its leaves.
#pragma once
#include <meganeura/graph/graph.hpp>

#include <oracle/tensor.hpp>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// The same numbers on every machine.
class dice {
 public:
  explicit dice(std::uint64_t seed) : engine_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::int64_t below(std::int64_t n) {
    return n < 2 ? 0 : static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n));
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  bool chance(double p) { return unit() < p; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(below(static_cast<std::int64_t>(from.size())))];
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
  }

 private:
  std::mt19937_64 engine_;
};

inline int rank_of(const shape& s) { return static_cast<int>(s.end() - s.begin()); }
inline node_id nth_node(std::size_t i) { return static_cast<node_id>(static_cast<std::uint32_t>(i)); }

/// What the leaves hold: numbers in general position; quarters, which tie and cancel exactly; or quarters among NaN,
/// infinities, both zeros and extremes.
enum class leaf_values { general, quarters, special };

struct random_graph_options {
  int steps = 12;
  leaf_values values = leaf_values::general;
  bool halves = true;    // f16 and bf16 tensors
  bool integers = true;  // i32 and u32 tensors
  bool states = true;
  bool stop_gradients = true;
  bool random_streams = true;
};

/// Built by trial: a step that the graph's builders refuse, or whose value leaves the range of ordinary numbers, is
/// dropped. A graph of n steps is a prefix of the graph of n + 1 steps, which is what shrinks a failure.
class random_graph {
 public:
  random_graph(std::uint64_t seed, const random_graph_options& options);

  [[nodiscard]] graph& nodes() { return graph_; }
  [[nodiscard]] oracle::tensors<double>& leaves() { return leaves_; }
  [[nodiscard]] const std::vector<node_id>& pool() const { return pool_; }
  /// Values that nothing reads.
  [[nodiscard]] std::vector<node_id> ends() const;

 private:
  graph graph_;
  std::vector<node_id> pool_;
  oracle::tensors<double> leaves_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::support
