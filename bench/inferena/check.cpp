// SPDX-License-Identifier: MIT
// A workload against its float64 figures: outputs, loss and the gradients of all parameters.
#include "check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace inferena {

namespace mn = meganeura;

namespace {

double length(const std::vector<double>& of) {
  double square = 0;
  for (double each : of) square += each * each;
  return std::sqrt(square);
}
std::vector<double> difference(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

const nlohmann::json typical_of_tf32{{"output_rel_l2", 2e-3}, {"grad_worst_rel_l2", 4e-3}};

class comparison {
 public:
  comparison(const nlohmann::json& reference, const mn::program& run, mn::precision precision, compared what,
             const std::vector<float>& exact)
      : reference_(reference), run_(run), what_(what), exact_(exact.begin(), exact.end()) {
    const nlohmann::json& all = reference["deviation"];
    const bool is_fast = precision == mn::precision::fast;
    const nlohmann::json& others = is_fast && !all.contains("tf32") ? typical_of_tf32 : all[is_fast ? "tf32" : "f32"];
    const double output = others["output_rel_l2"], gradient = others["grad_worst_rel_l2"];
    result_.most_output = is_fast ? 1.2 * output : std::max(5e-6, 2 * output);
    result_.most_gradient = is_fast ? gradient : std::max(1e-5, gradient);
  }

  verdict judge() {
    outputs();
    if (what_ >= compared::loss) loss();
    if (what_ >= compared::gradients) gradients();
    result_.passed = result_.problem.empty();
    return result_;
  }

 private:
  template <class... T>
  void expect(bool holds, fmt::format_string<T...> text, T&&... arguments) {
    if (!holds && result_.problem.empty()) result_.problem = fmt::format(text, std::forward<T>(arguments)...);
  }
  [[nodiscard]] std::vector<double> values(const std::string& name) const {
    const std::vector<float> found = run_.output_as<float>(name);
    return {found.begin(), found.end()};
  }

  void outputs() {
    const std::vector<double> found = values("output"), expected = reference_["output"]["strided256"];
    const double limit = result_.most_output;
    std::size_t elements = 1;
    for (const auto& extent : reference_["output_shape"]) elements *= extent.get<std::size_t>();
    expect(found.size() == elements, "the output has {} elements and not {}", found.size(), elements);
    if (found.size() != elements) return;
    std::vector<double> taken;
    for (std::size_t i = 0; i < expected.size(); ++i) taken.push_back(found[i * found.size() / expected.size()]);
    result_.output = length(difference(taken, expected)) / length(expected);
    if (exact_.size() == elements)
      result_.output = std::max(result_.output, length(difference(found, exact_)) / length(exact_));
    expect(result_.output <= limit, "the output is off by {:.2e}; {:.2e} is allowed", result_.output, limit);
    const double whole = reference_["output"]["l2"], all = length(found);
    expect(std::fabs(all - whole) <= limit * whole, "the output's norm is {} and not {}", all, whole);
    const std::vector<double> first = reference_["output"]["first16"];
    const double typical = whole / std::sqrt(static_cast<double>(elements));
    for (std::size_t i = 0; i < std::min(first.size(), elements); ++i) {
      expect(std::fabs(found[i] - first[i]) <= 8 * limit * typical, "element {} of the output is {} and not {}", i,
             found[i], first[i]);
    }
  }

  void loss() {
    const std::vector<double> found = values("loss");
    const double expected = reference_["loss"];
    expect(found.size() == 1, "the loss has {} elements and not 1", found.size());
    if (found.size() != 1) return;
    result_.loss = std::fabs(found[0] - expected) / std::fabs(expected);
    expect(result_.loss <= result_.most_output, "the loss is {} and not {}", found[0], expected);
  }

  void gradients() {
    std::set<std::string> names;
    for (const auto& output : run_.plan().outputs) {
      if (output.name.starts_with("grad:")) names.insert(output.name.substr(5));
    }
    const double least = 1e-4 * reference_["grad_norm"].get<double>();
    for (const auto& [name, norm] : reference_["grad_norms"].items()) {
      expect(names.erase(name) == 1, "\"{}\" has no gradient; the reference has", name);
      if (!result_.problem.empty() && result_.problem.find("has no gradient") != std::string::npos) return;
      const std::vector<double> found = values("grad:" + name);
      const double expected = norm, measure = std::max(expected, least), all = length(found);
      const double error = std::fabs(all - expected) / measure;
      if (error > result_.gradient || !std::isfinite(error)) result_.gradient = error, result_.parameter = name;
      expect(error <= result_.most_gradient, "the gradient of \"{}\" has the norm {} and not {}", name, all, expected);
      const double typical = measure / std::sqrt(static_cast<double>(found.size()));
      const nlohmann::json& first = reference_["grad_first4"][name];
      expect(first.size() <= found.size(), "the gradient of \"{}\" has {} elements and not {} or more", name,
             found.size(), first.size());
      if (first.size() > found.size()) return;
      for (std::size_t i = 0; i < first.size(); ++i) {
        const double other = first[i];
        expect(std::fabs(found[i] - other) <= 8 * result_.most_gradient * std::max(typical, std::fabs(other)),
               "element {} of the gradient of \"{}\" is {} and not {}", i, name, found[i], other);
      }
    }
    if (!names.empty()) expect(false, "\"{}\" has a gradient; the reference has none", *names.begin());
  }

  const nlohmann::json& reference_;
  const mn::program& run_;
  compared what_;
  std::vector<double> exact_;
  verdict result_;
};

}  // namespace

verdict compare(const nlohmann::json& reference, const mn::program& run, mn::precision precision, compared what,
                const std::vector<float>& exact) {
  return comparison(reference, run, precision, what, exact).judge();
}

nlohmann::json to_json(const verdict& of) {
  return {{"passed", of.passed},
          {"problem", of.problem},
          {"output", of.output},
          {"loss", of.loss},
          {"gradient_norm", of.gradient},
          {"worst_parameter", of.parameter},
          {"allowed", {{"output", of.most_output}, {"gradient_norm", of.most_gradient}}}};
}

}  // namespace inferena
