// SPDX-License-Identifier: MIT
// How far two right ways to compute a value may differ: as far as it moves when every stored value moves by its rounding.
#pragma once
#include <meganeura/core/hash.hpp>

#include <oracle/interpreter.hpp>
#include <support/random_graph.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// Of one graph or of many.
struct verdict {
  std::size_t compared = 0, unstable = 0;
  std::string text;  // what went wrong, a line each
  void fail(const std::string& what) {
    if (text.size() < 4000) text += what + "\n";
  }
  [[nodiscard]] bool failed() const { return !text.empty(); }
};

/// Disturbs what a node computes by about its rounding in f32 (constants fold to f32 even where nothing else may change),
/// zeros by their sign; in a graph with f16 values, which may be used before they were rounded unless `exact`, by that of
/// f16. Equal operands are disturbed equally, since every right form gives them equal results, so a value still equals the
/// maximum it was taken from; operations that never round are left alone. A sum of terms so large that ordinary numbers
/// vanish beside them depends on its order: it is disturbed by the rounding of its terms.
class disturbance {
 public:
  disturbance(const graph& g, oracle::interpreter<double>& run, bool exact, std::uint64_t number)
      : graph_(g), run_(run), number_(number) {
    for (std::size_t i = 0; i < g.size(); ++i) halves_ = halves_ || (!exact && g[nth_node(i)].type == dtype::f16);
  }

  void operator()(node_id id, oracle::tensor<double>& value) const {
    if (!is_float(value.type) || !rounds(id)) return;
    const double size = halves_ ? 0x1p-10 : 0x1p-20;
    const bool elementwise = graph_[id].kind == op::map;
    const oracle::tensor<double> terms = elementwise ? oracle::tensor<double>() : huge_terms(id);
    for (std::size_t i = 0; i < value.values.size(); ++i) {
      std::uint64_t key = hash_combine(number_ * 7919 + 1, static_cast<std::uint64_t>(id));
      if (!elementwise) key = hash_combine(key, i);
      for (std::size_t k = 0; elementwise && k < graph_.operands(id).size(); ++k)
        key = hash_combine(key, std::bit_cast<std::uint64_t>(run_.value(graph_.operand(id, k)).values[i]));
      key *= 0x9e3779b97f4a7c15u;
      double& element = value.values[i];
      const double by = static_cast<double>(key >> 11) * 0x1p-52 - 1;
      if (value.type == dtype::f16 && std::fabs(element) < 0x1p-14) element += 0x1p-24 * by;  // its least step
      if (!terms.values.empty() && std::isfinite(terms.values[i]) && terms.values[i] >= huge)
        element += size * by * terms.values[i];
      if (element == 0)
        element = number_ == 1 || (number_ > 2 && key >> 63) ? 0.0 : -0.0;  // each sign in some run
      else
        element *= 1 + size * by;
    }
  }

 private:
  static constexpr double huge = 1e12;

  // What the node would give if every operand and every term were positive; empty where no operand is huge.
  [[nodiscard]] oracle::tensor<double> huge_terms(node_id id) const {
    std::vector<oracle::tensor<double>> operands;
    bool any = false;
    for (node_id operand : graph_.operands(id)) {
      operands.push_back(run_.value(operand));
      if (!is_float(operands.back().type)) continue;
      for (double& element : operands.back().values) {
        element = std::fabs(element);
        any = any || (std::isfinite(element) && element >= huge);
      }
    }
    return any ? oracle::interpreter<double>(graph_).value_from(id, operands) : oracle::tensor<double>();
  }
  [[nodiscard]] bool rounds(node_id id) const {
    switch (graph_[id].kind) {
      case op::map:
        return rounds(graph_.get<map_attribute>(id).program);
      case op::region:
        return rounds(graph_.get<region_attribute>(id).program);
      case op::reduce: {
        const reduce_kind kind = graph_.get<reduce_attribute>(id).kind;
        return kind == reduce_kind::sum || kind == reduce_kind::product;
      }
      case op::window_reduce:
        return graph_.get<window_attribute>(id).kind == reduce_kind::sum;
      case op::contract:
      case op::convolution:
      case op::window_scatter:
      case op::scatter_add:
      case op::matmul:
      case op::convolve:
        return true;
      default:
        return false;
    }
  }
  [[nodiscard]] static bool rounds(const scalar_program& program) {
    return std::any_of(program.nodes.begin(), program.nodes.end(), [](const scalar_node& n) {
      switch (n.op) {
        case scalar_op::reciprocal:
        case scalar_op::sqrt:
        case scalar_op::rsqrt:
        case scalar_op::exp:
        case scalar_op::log:
        case scalar_op::sin:
        case scalar_op::cos:
        case scalar_op::tanh:
        case scalar_op::add:
        case scalar_op::subtract:
        case scalar_op::multiply:
        case scalar_op::divide:
        case scalar_op::power:
        case scalar_op::row_sum:
        case scalar_op::row_product:
          return is_float(n.type);
        default:
          return false;
      }
    });
  }

  const graph& graph_;
  oracle::interpreter<double>& run_;
  bool halves_ = false;
  std::uint64_t number_;
};

inline constexpr std::size_t disturbed_runs = 3;

/// What sums of doubles in another order may differ by where no value passes 1e4, as in graphs of ordinary leaves: x - x is
/// zero however x is disturbed, and not quite where one x is added up again. Nothing among huge values.
inline double order_noise(const oracle::tensors<double>& leaves) {
  for (const auto& [name, leaf] : leaves) {
    for (double value : leaf.values) {
      if (!(std::fabs(value) < 1e4)) return 0;
    }
  }
  return 1e-10;
}

/// `rounding` is what storing alone may change, in parts of the largest element, and `noise` what the order of sums may.
/// `describe` is asked for words only when they differ.
template <class Describe>
void compare(const oracle::tensor<double>& found, const oracle::tensor<double>& expected,
             const std::vector<const oracle::tensor<double>*>& disturbed, verdict& v, Describe&& describe,
             double noise, double rounding = 1e-9) {
  if (found.extents != expected.extents || found.values.size() != expected.values.size())
    return v.fail(to_string(found.extents) + " instead of " + to_string(expected.extents) + " by " + describe());
  double spread = 0, scale = 0;
  bool stable = true;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const double want = expected.values[i];
    if (std::isfinite(want)) scale = std::max(scale, std::fabs(want));
    for (const oracle::tensor<double>* other : disturbed) {
      const double moved = other->values[i];
      if (std::isfinite(want) && std::isfinite(moved))
        spread = std::max(spread, std::fabs(moved - want));
      else
        stable = stable && (moved == want || (std::isnan(moved) && std::isnan(want)));
    }
  }
  if (!stable || spread > 0.03 * scale || (!is_float(expected.type) && spread > 0)) return void(++v.unstable);
  ++v.compared;
  const double allowed = is_float(expected.type) ? 8 * spread + rounding * scale + noise : 0;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const double got = found.values[i], want = expected.values[i];
    if (got == want || (std::isnan(got) && std::isnan(want)) || std::fabs(got - want) <= allowed) continue;
    return v.fail("element " + std::to_string(i) + " is " + std::to_string(got) + " instead of " + std::to_string(want) +
                  " (allowed " + std::to_string(allowed) + ") by " + describe());
  }
}

/// One graph's values with and without disturbance, node by node; the graph may grow.
class stability {
 public:
  stability(const graph& g, const oracle::tensors<double>& leaves, bool exact, const kernels::step_values& step)
      : noise_(order_noise(leaves)) {
    for (std::size_t i = 0; i <= disturbed_runs; ++i) {
      runs_.push_back(std::make_unique<oracle::interpreter<double>>(g, leaves, step));
      if (i > 0) runs_[i]->on_stored = disturbance(g, *runs_[i], exact, i);
    }
  }
  template <class Describe>
  void expect_equal(node_id form, node_id value, verdict& v, Describe&& describe) {
    std::vector<const oracle::tensor<double>*> disturbed;
    for (std::size_t i = 1; i <= disturbed_runs; ++i) disturbed.push_back(&runs_[i]->value(value));
    const oracle::tensor<double>& expected = runs_[0]->value(value);
    compare(runs_[0]->value(form), expected, disturbed, v, describe, noise_);
  }

 private:
  std::vector<std::unique_ptr<oracle::interpreter<double>>> runs_;
  double noise_;
};

/// Outputs and leaves after one step, with and without disturbance.
class stable_run {
 public:
  stable_run(const graph& g, const oracle::tensors<double>& leaves, bool exact, const kernels::step_values& step)
      : noise_(order_noise(leaves)) {
    for (std::size_t i = 0; i <= disturbed_runs; ++i) {
      oracle::interpreter<double> run(g, leaves, step);
      if (i > 0) run.on_stored = disturbance(g, run, exact, i);
      outputs_.push_back(run.run());
      leaves_.push_back(run.leaves);
    }
  }
  [[nodiscard]] const oracle::tensors<double>& outputs() const { return outputs_[0]; }
  [[nodiscard]] const oracle::tensors<double>& leaves() const { return leaves_[0]; }
  void expect_output(const std::string& name, const oracle::tensors<double>& found, verdict& v, double rounding = 1e-9) const {
    expect(outputs_, name, found, v, "output", noise_, rounding);
  }
  void expect_leaf(const std::string& name, const oracle::tensors<double>& found, verdict& v, double rounding = 1e-9) const {
    expect(leaves_, name, found, v, "leaf", noise_, rounding);
  }

 private:
  static void expect(const std::vector<oracle::tensors<double>>& runs, const std::string& name,
                     const oracle::tensors<double>& found, verdict& v, const char* what, double noise,
                     double rounding) {
    std::vector<const oracle::tensor<double>*> disturbed;
    for (std::size_t i = 1; i < runs.size(); ++i) disturbed.push_back(&runs[i].at(name));
    compare(found.at(name), runs[0].at(name), disturbed, v, [&] { return std::string(what) + " \"" + name + "\""; },
            noise, rounding);
  }
  std::vector<oracle::tensors<double>> outputs_, leaves_;
  double noise_;
};

inline bool has_poles(const graph& g) {
  for (std::size_t i = 0; i < g.size(); ++i) {
    const auto* map = std::get_if<map_attribute>(&g.attribute_of(nth_node(i)));
    if (!map) continue;
    for (const scalar_node& n : map->program.nodes) {
      const bool root = n.op == scalar_op::sqrt || n.op == scalar_op::rsqrt || n.op == scalar_op::log;
      if (root || n.op == scalar_op::divide || n.op == scalar_op::reciprocal || n.op == scalar_op::power) return true;
    }
  }
  return false;
}

/// The slopes of a scalar against central differences along one random direction, where it is smooth along it.
inline void compare_directional(const graph& g, node_id loss, const std::vector<node_id>& wrt,
                                const std::vector<node_id>& slopes, const oracle::tensors<double>& leaves, dice& d,
                                verdict& v) {
  oracle::interpreter<double> run(g, leaves);
  oracle::tensors<double> direction;
  double analytic = 0, scale = 0;
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    const oracle::tensor<double> slope = run.value(slopes[i]);
    oracle::tensor<double>& along = direction[g.get<leaf_attribute>(wrt[i]).name] = slope;
    for (std::size_t k = 0; k < slope.values.size(); ++k) {
      along.values[k] = 2 * d.unit() - 1;
      analytic += slope.values[k] * along.values[k];
      scale += std::fabs(slope.values[k] * along.values[k]);
    }
  }
  const auto at = [&](double t) {
    for (const auto& [name, along] : direction) {
      const oracle::tensor<double>& from = leaves.at(name);
      for (std::size_t k = 0; k < from.values.size(); ++k)
        run.leaves[name].values[k] = from.values[k] + t * along.values[k];
    }
    run.clear();
    return run.value(loss)[0];
  };
  constexpr double h = 1e-4;
  const double center = at(0), near_up = at(h / 2), near_down = at(-h / 2), up = at(h), down = at(-h);
  const double wide = (up - down) / (2 * h), narrow = (near_up - near_down) / h, slope = (4 * narrow - wide) / 3;
  const double bend = std::fabs(up + down - 2 * center), near_bend = std::fabs(near_up + near_down - 2 * center);
  scale = std::isfinite(scale) ? std::max(scale, std::fabs(slope)) : std::fabs(slope);
  const double noise = 1e-5 * scale + 1e-9 * (1 + std::fabs(center));
  const bool kink = near_bend > 0.4 * bend && bend / h > noise;  // a smooth bend shrinks to a quarter
  const bool pole = !std::isfinite(analytic) && has_poles(g);  // the root of a zero, though times nothing
  const double close = (at(1e-7) - at(-1e-7)) / 2e-7;  // a staircase looks straight from afar
  const bool staircase = std::fabs(close - slope) > 1e-3 * scale + 1e-7 * std::fabs(center);
  if (!std::isfinite(slope) || pole || staircase || std::fabs(wide - narrow) > 100 * noise || kink) return void(++v.unstable);
  ++v.compared;
  const bool beside_a_kink = std::fabs(analytic - close) <= 1e-5 * scale + 1e-7 * (1 + std::fabs(center));
  if (!(std::fabs(analytic - slope) <= std::max(noise, std::fabs(wide - narrow))) && !beside_a_kink)
    v.fail("the gradient says " + std::to_string(analytic) + ", differences " + std::to_string(slope));
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
