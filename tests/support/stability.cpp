// SPDX-License-Identifier: MIT
// What a device may make of a graph, and how two values are compared in its light.
#include <meganeura/core/hash.hpp>

#include <oracle/precision.hpp>
#include <oracle/tolerance.hpp>
#include <support/stability.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

namespace {

// Makes an interpreter compute like some device: every operation is off by up to `errors` times what Vulkan permits
// (oracle/precision.hpp), in a direction that hangs on `number`, and sums in proportion to the magnitude of their
// terms; one that cancels is taken in another order. What is nothing but rounding is zero at times; zeros of a sum or
// of an extremum of zeros have either sign, and so has a NaN that was computed; both may have another one at each use
// of a sum. A result beyond f32 is infinite, a denormal one may be zero, and so may be what a product passes through; a
// tap of a convolution outside of its input may count as zero times an infinite factor. Equal operands give equal
// results, since every right form gives them such, so a value still equals the maximum it was taken from; what needs
// not be rounded is left alone. Results of additions are off in proportion to their operands if sums may be taken in
// another order, that is, unless `exact`. Even numbers round to f32, so that what is equal there alone is found, odd
// ones do not, so that no rounding hides an error.
class disturbance {
 public:
  disturbance(const graph& g, oracle::interpreter<double>& run, bool exact, std::uint64_t number, double errors,
              precision products)
      : graph_(g), run_(run), exact_(exact), number_(number), errors_(errors), products_(products) {}

  void operator()(const scalar_node& n, double a, double b, double& result) const {
    if (!is_float(n.type)) return;
    const std::uint64_t key =
        draw(static_cast<std::uint64_t>(n.op), std::bit_cast<std::uint64_t>(a), std::bit_cast<std::uint64_t>(b));
    if (std::isnan(result) && !oracle::keeps_sign_of_nan(n.op) && (key & 1)) result = -result;
    const bool sum = n.op == scalar_op::add || n.op == scalar_op::subtract || n.op == scalar_op::row_sum;
    const bool extremum = n.op == scalar_op::minimum || n.op == scalar_op::maximum || n.op == scalar_op::row_min ||
                          n.op == scalar_op::row_max;
    if (sum) {
      move_sum(result, n.type, std::max(std::fabs(a), std::fabs(b)), exact_, key);
      return round(n.type, result);
    }
    if (n.op == scalar_op::multiply && n.type == dtype::f32 && is_f32(result)) return;
    if (extremum ? result == 0 && a == 0 && b == 0 && std::signbit(a) != std::signbit(b) : result == 0 && rounds(n))
      result = any_zero(key);
    move(result, errors_ * oracle::permitted_error(n.op, n.type, a, b, result), key);
    round(n.type, result);
  }

  void operator()(node_id id, oracle::tensor<double>& value) const {
    if (graph_[id].kind == op::map) draw_signs_anew(id, value);
    if (!is_float(value.type)) return;
    const node& n = graph_[id];
    const bool scan = n.kind == op::cumulative;
    const bool product = (n.kind == op::reduce && graph_.get<reduce_attribute>(id).kind == reduce_kind::product) ||
                         (scan && graph_.get<cumulative_attribute>(id).kind == reduce_kind::product);
    if (adds(id)) {
      const auto magnitudes = terms(id, [](double x, auto...) { return std::fabs(x); });
      const std::vector<bool> open = open_taps(id);
      std::optional<std::vector<double>> reordered;
      for (std::size_t i = 0; i < value.values.size(); ++i) {
        double& element = value.values[i];
        const double magnitude = magnitudes.values[i];
        const std::uint64_t key = draw(static_cast<std::uint64_t>(id), i, 0);
        if (cancels(element, magnitude) && (element == 0 || (key >> 8 & 1))) {
          if (!reordered) reordered = in_another_order(id);
          element = (*reordered)[i];
          if (element == 0) element = any_zero(key);
        } else {
          move_sum(element, value.type, magnitude, false, key);
        }
        const bool multiplies = n.kind == op::contract || n.kind == op::convolution;  // on units, if that is quicker
        const double off = multiplies ? oracle::unit_error(products_) * magnitude : 0;
        if (off > 0 && std::isfinite(off)) move(element, off, key >> 7);
        if (!open.empty() && open[i] && (key >> 5 & 1)) element = NAN;
      }
    } else if (n.kind == op::reduce || n.kind == op::window_reduce || scan) {
      const auto& from = run_.value(graph_.operand(id, 0)).values;
      const auto zero = [&](bool negative) {
        return std::any_of(from.begin(), from.end(), [&](double x) { return x == 0 && std::signbit(x) == negative; });
      };
      const bool any_sign = product || (zero(false) && zero(true));
      const double factors = scan      ? static_cast<double>(value.extents[graph_.get<cumulative_attribute>(id).axis])
                             : product ? static_cast<double>(from.size()) / static_cast<double>(value.values.size())
                                       : 0;
      const auto is_large = [](double x) { return std::isfinite(x) && std::fabs(x) >= 1; };
      oracle::tensor<double> large, others;
      if (product) {
        large = terms(id, [&](double x, auto...) { return is_large(x) ? x : 1; });
        others = terms(id, [&](double x, auto...) { return is_large(x) ? 1 : x; });
      }
      for (std::size_t i = 0; i < value.values.size(); ++i) {
        double& element = value.values[i];
        const std::uint64_t key = draw(static_cast<std::uint64_t>(id), i, 0);
        if (product) element = in_another_order(element, large.values[i], others.values[i], key);
        if (element == 0 && any_sign) element = any_zero(key);
        if (product && std::isfinite(element) && element != 0)
          move(element, errors_ * factors * oracle::ulp(element, dtype::f32), key);
      }
    } else if (n.kind == op::random && graph_.get<random_attribute>(id).distribution == distribution::normal) {
      for (std::size_t i = 0; i < value.values.size(); ++i)  // sqrt(-2 log u) times a sine
        move(value.values[i], 0x1p-20 * (1 + std::fabs(value.values[i])), draw(static_cast<std::uint64_t>(id), i, 0));
    }
    if (is_narrow(value.type) && (adds(id) || product || n.kind == op::map)) move_narrow(id, value);
    const bool computes = adds(id) || n.kind == op::reduce || n.kind == op::window_reduce || scan;
    for (std::size_t i = 0; i < value.values.size(); ++i) {
      double& element = value.values[i];
      if (computes && std::isnan(element)) element = any_sign(element, draw(static_cast<std::uint64_t>(id), i, 1));
      round(value.type, element);
    }
  }

 private:
  [[nodiscard]] std::uint64_t draw(std::uint64_t a, std::uint64_t b, std::uint64_t c) const {
    std::uint64_t key = hash_combine(hash_combine(hash_combine(number_ * 7919 + 1, a), b), c) * 0x9e3779b97f4a7c15u;
    key = (key ^ key >> 32) * 0xd6e8feb86659fd93u;
    return key ^ key >> 32;
  }
  // One number in four gives all the same sign, which chance does not: sums of infinities of one sign are no NaN.
  [[nodiscard]] double any_sign(double x, std::uint64_t key) const {
    return std::copysign(x, (number_ % 4 == 3 ? number_ >> 2 : key) & 1 ? 1 : -1);
  }
  [[nodiscard]] double any_zero(std::uint64_t key) const { return any_sign(0, key); }

  void round(dtype type, double& element) const {
    if (type == dtype::f32 && number_ % 2 == 0) element = as_f32(element);
  }

  // Half of the errors are the largest that there are, a quarter lie between, a quarter are none.
  void move(double& element, double error, std::uint64_t key) const {
    if (!std::isfinite(element)) return;
    if (element == 0 && error == 0) return;
    const double part = key & 2 ? 1 : key & 64 ? static_cast<double>(key >> 11) * 0x1p-53 : 0;
    element += (key & 4 ? part : -part) * error;
    if (!wide()) element = oracle::in_range_of_f32(element);
    if (std::fabs(element) < 0x1p-126 && (key & 8)) element = std::copysign(0.0, element);
  }
  // One in four keeps what is beyond f32 and leaves out taps, as the interpreter does: no infinity hides an error
  // there.
  [[nodiscard]] bool wide() const { return number_ % 4 == 1; }
  [[nodiscard]] static double as_f32(double x) { return static_cast<double>(static_cast<float>(x)); }
  [[nodiscard]] static bool is_f32(double x) { return as_f32(x) == x; }

  // A sum whose terms have this magnitude; in their order, if that is `ordered`. One that fits beside them is exact.
  void move_sum(double& sum, dtype type, double magnitude, bool ordered, std::uint64_t key) const {
    if (!std::isfinite(sum)) return;
    // What huge terms left of small ones before they cancelled depends on the order.
    const bool swallows = sum == 0 && !ordered && magnitude >= 0x1p24;
    if (sum == 0 && !swallows) {
      sum = any_zero(key);
      return;
    }
    const double step = std::isfinite(magnitude) ? oracle::ulp(magnitude, dtype::f32) : 0;
    if (type == dtype::f32 && step > 0 && std::fmod(sum, step) == 0 && !swallows) return;
    const double of_result = errors_ * oracle::permitted_error(scalar_op::add, type, 0, 0, sum);
    if (std::fabs(sum) <= errors_ * step && (key >> 4 & 3) == 0)
      sum = any_zero(key);
    else
      move(sum, ordered ? of_result : std::max(of_result, errors_ * step), key);
  }

  // By an ulp of the dtype; what needs not be rounded is not. Values may be used before they were rounded unless
  // `exact`. The cast of an integer is rounded at once.
  void move_narrow(node_id id, oracle::tensor<double>& value) const {
    const bool cast = graph_[id].kind == op::map && graph_.get<map_attribute>(id).program.is_single(scalar_op::convert);
    if (cast && !is_float(graph_[graph_.operand(id, 0)].type)) return;
    const bool chosen = graph_[id].kind == op::map && !rounds(graph_.get<map_attribute>(id).program);
    const auto is_operand = [&](std::size_t i) {
      return std::any_of(graph_.operands(id).begin(), graph_.operands(id).end(), [&](node_id operand) {
        return std::fabs(run_.value(operand).values[i]) == std::fabs(value.values[i]);
      });
    };
    for (std::size_t i = 0; i < value.values.size(); ++i) {
      double& element = value.values[i];
      if (!std::isfinite(element) || (chosen && is_operand(i))) continue;
      move(element, oracle::ulp(element, value.type), draw(std::bit_cast<std::uint64_t>(element), 0, 0));
      if (exact_) element = oracle::stored(element, value.type);
    }
  }
  [[nodiscard]] static bool rounds(const scalar_node& n) {
    return is_float(n.type) && n.op != scalar_op::convert && oracle::permitted_error(n.op, n.type, 1, 1, 1) > 0;
  }
  [[nodiscard]] static bool rounds(const scalar_program& program) {
    return std::any_of(program.nodes.begin(), program.nodes.end(), [](const scalar_node& n) { return rounds(n); });
  }

  [[nodiscard]] bool adds(node_id id) const {
    switch (graph_[id].kind) {
      case op::reduce:
        return graph_.get<reduce_attribute>(id).kind == reduce_kind::sum;
      case op::window_reduce:
        return graph_.get<window_attribute>(id).kind == reduce_kind::sum;
      case op::cumulative:
        return graph_.get<cumulative_attribute>(id).kind == reduce_kind::sum;
      case op::contract:
      case op::convolution:
      case op::window_scatter:
      case op::scatter_add:
      case op::index_add:
      case op::scatter_along:
        return true;
      default:
        return false;
    }
  }

  // The node by itself on operands changed by `change(element, operand, index)`, stored as `type`.
  template <class Change>
  [[nodiscard]] oracle::tensor<double> anew(node_id id, dtype type, Change&& change,
                                            const oracle::scalar_hook<double>& on_scalar = {}) const {
    graph alone;
    oracle::tensors<double> given;
    std::vector<node_id> operands;
    for (std::size_t k = 0; k < graph_.operands(id).size(); ++k) {
      const std::string name = std::to_string(k);
      oracle::tensor<double>& operand = given[name] = run_.value(graph_.operand(id, k));
      operands.push_back(alone.input(name, operand.type, operand.extents));
      if (!is_float(operand.type)) continue;
      for (std::size_t i = 0; i < operand.values.size(); ++i) operand.values[i] = change(operand.values[i], k, i);
    }
    const node_id copy = alone.add_node(graph_[id].kind, type, graph_[id].extents, graph_.attribute_of(id), operands);
    oracle::interpreter<double> run(alone, std::move(given), run_.step);
    run.on_scalar = on_scalar;
    return run.value(copy);
  }

  // A sum or a product of changed terms, in f64. Those of window_scatter's first operand, if it has two, choose where
  // terms go.
  template <class Change>
  [[nodiscard]] oracle::tensor<double> terms(node_id id, Change&& change) const {
    const bool chooses = graph_[id].kind == op::window_scatter && graph_.operands(id).size() > 1;
    return anew(id, dtype::f32, [&](double x, std::size_t operand, std::size_t i) {
      return chooses && operand == 0 ? x : change(x, operand, i);
    });
  }

  // Whether so little is left of terms of this magnitude, or so much passed through, that the order in which f32 adds
  // them decides what.
  [[nodiscard]] bool cancels(double sum, double magnitude) const {
    if (!std::isfinite(sum) || magnitude == 0) return false;
    const bool overflows = !wide() && std::isinf(oracle::in_range_of_f32(magnitude));
    return overflows || std::fabs(sum) <= errors_ * oracle::ulp(magnitude, dtype::f32);
  }

  // Sums of a few parts of the terms, each as f32, or the interpreter, holds it.
  [[nodiscard]] std::vector<double> in_another_order(node_id id) const {
    constexpr std::uint64_t parts = 8;
    const auto held = [&](double x) { return wide() ? x : as_f32(x); };
    const bool products = graph_[id].kind == op::contract || graph_[id].kind == op::convolution;
    std::vector<double> sums(static_cast<std::size_t>(graph_[id].extents.elements()), -0.0);
    for (std::uint64_t part = 0; part < parts; ++part) {
      const auto added = terms(id, [&](double x, std::size_t operand, std::size_t i) {
        const bool factor = products && operand != (number_ >> 1 & 1);
        return factor || draw(static_cast<std::uint64_t>(id), operand, i + 2) % parts == part ? x : 0;
      });
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = held(sums[i] + held(added.values[i]));
    }
    return sums;
  }

  // Of a product that leaves the range of f32 on its way from large factors to others, or from others to large ones.
  [[nodiscard]] static double in_another_order(double product, double large, double others, std::uint64_t key) {
    const double most = oracle::in_range_of_f32(large), least = std::fabs(others) < 0x1p-126 ? 0 * others : others;
    if ((!std::isinf(most) && least != 0) || (key >> 6 & 1)) return product;
    return least == 0 && (key >> 7 & 1) ? least : most * least;
  }

  // A sum may be computed anew wherever it is used, and with it the sign of a zero or a NaN.
  void draw_signs_anew(node_id id, oracle::tensor<double>& value) const {
    const auto is_open = [](double x) { return x == 0 || std::isnan(x); };
    std::vector<bool> open;
    for (node_id operand : graph_.operands(id)) {
      node_id from = operand;
      while (graph_[from].kind == op::view || graph_[from].kind == op::stop_gradient) from = graph_.operand(from, 0);
      const auto& values = run_.value(operand).values;
      open.push_back(is_float(graph_[from].type) && adds(from) && std::any_of(values.begin(), values.end(), is_open));
    }
    if (std::none_of(open.begin(), open.end(), [](bool each) { return each; })) return;
    const auto change = [&](double x, std::size_t k, std::size_t i) {
      return open[k] && is_open(x) ? any_sign(x, draw(static_cast<std::uint64_t>(id), k, i)) : x;
    };
    value = anew(id, value.type, change, run_.on_scalar);
  }

  // Elements of a convolution that miss taps while a factor of the filter (or of y, which the gradient of the filter
  // reads as one) is not finite.
  [[nodiscard]] std::vector<bool> open_taps(node_id id) const {
    if (graph_[id].kind != op::convolution || wide()) return {};
    using form = convolution_attribute;
    const form& c = graph_.get<form>(id);
    const auto& factors = run_.value(graph_.operand(id, 1)).values;
    if (std::all_of(factors.begin(), factors.end(), [](double x) { return std::isfinite(x); })) return {};
    const shape &first = graph_[graph_.operand(id, 0)].extents, &second = graph_[graph_.operand(id, 1)].extents;
    double all = c.form == form::output ? static_cast<double>(second[1]) : static_cast<double>(second[0] / c.groups);
    if (c.form == form::filter) all = static_cast<double>(first[0]);
    for (int i = 2; i < second.rank(); ++i) all *= static_cast<double>(second[i]);
    std::vector<bool> result;
    for (double taps : terms(id, [](double, auto...) { return 1.0; }).values) result.push_back(taps < all);
    return result;
  }

  const graph& graph_;
  oracle::interpreter<double>& run_;
  bool exact_;
  std::uint64_t number_;
  double errors_;
  precision products_;
};

// Every value is disturbed a few times; one that differs from what was found until it is shown to hang on a rounding.
constexpr std::size_t disturbed_runs = 4, most_disturbed_runs = 48;

// Errors of a disturbed run in parts of those permitted: rewritten forms have other, and more, operations.
double disturbed_errors(bool exact) { return exact ? 2 : 4; }

// What sums of doubles in another order may differ by where no value passes 1e4, as in graphs of ordinary leaves: x -
// x is zero however x is disturbed, and not quite where one x is added up again. Nothing among huge values.
double order_noise(const oracle::tensors<double>& leaves) {
  for (const auto& [name, leaf] : leaves) {
    for (double value : leaf.values) {
      if (!(std::fabs(value) < 1e4)) return 0;
    }
  }
  return 1e-10;
}

// `disturbed(i)` is the value in the i-th disturbed run, from 0. `rounding` is what storing alone may change, in parts
// of the largest element, and `noise` what the order of sums may. `describe` is asked for words only when they differ.
void compare(const oracle::tensor<double>& found, const oracle::tensor<double>& expected,
             const std::function<const oracle::tensor<double>&(std::size_t)>& disturbed, verdict& v,
             const std::function<std::string()>& describe, double noise, double rounding = 1e-9) {
  if (found.extents != expected.extents || found.values.size() != expected.values.size())
    return v.fail(to_string(found.extents) + " instead of " + to_string(expected.extents) + " by " + describe());
  double spread = 0, scale = 0;
  for (double want : expected.values) {
    if (std::isfinite(want)) scale = std::max(scale, std::fabs(want));
  }
  std::string wrong;
  for (std::size_t run = 0; run < most_disturbed_runs; ++run) {
    const oracle::tensor<double>& other = disturbed(run);
    bool stable = true;
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      const double want = expected.values[i], moved = other.values[i];
      if (std::isfinite(want) && std::isfinite(moved))
        spread = std::max(spread, std::fabs(moved - want));
      else
        stable = stable && (moved == want || (std::isnan(moved) && std::isnan(want)));
    }
    if (!stable || spread > 0.03 * scale || (!is_float(expected.type) && spread > 0)) return void(++v.unstable);
    if (run + 1 < disturbed_runs) continue;
    const double allowed = is_float(expected.type) ? 8 * spread + rounding * scale + noise : 0;
    wrong.clear();
    for (std::size_t i = 0; i < expected.values.size() && wrong.empty(); ++i) {
      const double got = found.values[i], want = expected.values[i];
      if (got == want || (std::isnan(got) && std::isnan(want)) || std::fabs(got - want) <= allowed) continue;
      wrong = fmt::format("element {} is {:.9g} instead of {:.9g} (allowed {:.3g}) by ", i, got, want, allowed);
    }
    if (wrong.empty()) return void(++v.compared);
  }
  ++v.compared;
  v.fail(wrong + describe());
}

bool has_poles(const graph& g) {
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

bool has_infinities(const graph& g, oracle::interpreter<double>& run) {
  const std::vector<bool> pullbacks = g.pullbacks();
  for (node_id id{0}; id < g.size(); ++id) {
    if (info(g[id].kind).stage == op_stage::effect || !is_float(g[id].type) || pullbacks[id]) continue;
    if (!std::ranges::all_of(run.value(id).values, [](double x) { return std::isfinite(x); })) return true;
  }
  return false;
}

}  // namespace

void disturb(const graph& g, oracle::interpreter<double>& run, bool exact, std::uint64_t number, double errors,
             precision products) {
  const auto how = std::make_shared<const disturbance>(g, run, exact, number, errors, products);
  run.on_scalar = [how](const scalar_node& n, dtype, double a, double b, double& result) { (*how)(n, a, b, result); };
  run.on_stored = [how](node_id id, oracle::tensor<double>& value) { (*how)(id, value); };
}

stability::stability(const graph& g, const oracle::tensors<double>& leaves, bool exact,
                     const kernels::step_values& step)
    : graph_(g), leaves_(leaves), exact_(exact), step_(step), noise_(order_noise(leaves)), truth_(g, leaves, step) {}

void stability::expect_equal(node_id form, node_id value, verdict& v, const std::function<std::string()>& describe) {
  const auto moved = [&](std::size_t i) -> auto& { return disturbed(i).value(value); };
  compare(truth_.value(form), truth_.value(value), moved, v, describe, noise_);
}

oracle::interpreter<double>& stability::disturbed(std::size_t i) {
  while (runs_.size() <= i) {
    runs_.push_back(std::make_unique<oracle::interpreter<double>>(graph_, leaves_, step_));
    disturb(graph_, *runs_.back(), exact_, runs_.size(), disturbed_errors(exact_));
  }
  return *runs_[i];
}

stable_run::stable_run(const graph& g, const oracle::tensors<double>& leaves, bool exact,
                       const kernels::step_values& step, precision products)
    : graph_(g), given_(leaves), exact_(exact), step_(step), products_(products), noise_(order_noise(leaves)) {
  oracle::interpreter<double> run(g, leaves, step);
  truth_.outputs = run.run();
  truth_.leaves = std::move(run.leaves);
}

void stable_run::expect_output(const std::string& name, const oracle::tensors<double>& found, verdict& v,
                               double rounding) const {
  expect(&results::outputs, name, found, v, "output", rounding);
}

void stable_run::expect_leaf(const std::string& name, const oracle::tensors<double>& found, verdict& v,
                             double rounding) const {
  expect(&results::leaves, name, found, v, "leaf", rounding);
}

void stable_run::expect(oracle::tensors<double> results::*which, const std::string& name,
                        const oracle::tensors<double>& found, verdict& v, const char* what, double rounding) const {
  compare(
      found.at(name), (truth_.*which).at(name), [&](std::size_t i) -> auto& { return (disturbed(i).*which).at(name); },
      v, [&] { return std::string(what) + " \"" + name + "\""; }, noise_, rounding);
}

const stable_run::results& stable_run::disturbed(std::size_t i) const {
  while (runs_.size() <= i) {
    oracle::interpreter<double> run(graph_, given_, step_);
    disturb(graph_, run, exact_, runs_.size() + 1, disturbed_errors(exact_), products_);
    results& made = runs_.emplace_back();
    made.outputs = run.run();
    made.leaves = std::move(run.leaves);
  }
  return runs_[i];
}

void compare_directional(const graph& g, node_id loss, const std::vector<node_id>& wrt,
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
  // The root of a zero, or what overflows where it is not selected: times nothing, that is NaN.
  const bool pole = !std::isfinite(analytic) && (has_poles(g) || has_infinities(g, run));
  const double close = (at(1e-7) - at(-1e-7)) / 2e-7;  // a staircase looks straight from afar
  const bool staircase = std::fabs(close - slope) > 1e-3 * scale + 1e-7 * std::fabs(center);
  if (!std::isfinite(slope) || pole || staircase || std::fabs(wide - narrow) > 100 * noise || kink)
    return void(++v.unstable);
  const double trust = 0.01 * std::max(std::fabs(close), std::fabs(slope)) + 1e-6 * (1 + std::fabs(center));
  const bool erratic = !(std::fabs(close - slope) <= trust);
  const bool beside_a_kink = std::fabs(analytic - close) <= 1e-5 * scale + 1e-7 * (1 + std::fabs(center));
  const bool agrees = std::fabs(analytic - slope) <= std::max(noise, std::fabs(wide - narrow)) || beside_a_kink;
  if (!agrees && erratic) return void(++v.unstable);  // so steep that differences see nothing
  ++v.compared;
  if (!agrees) v.fail("the gradient says " + std::to_string(analytic) + ", differences " + std::to_string(slope));
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
