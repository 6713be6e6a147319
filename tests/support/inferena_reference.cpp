// SPDX-License-Identifier: MIT
#include <support/inferena_reference.hpp>

#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/runtime/program.hpp>

#include <support/device_fixture.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::support {

namespace {

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::vector<double> values_of(const program& from, const std::string& name) {
  const auto bytes = from.output(name);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return {values.begin(), values.end()};
}

double length(const std::vector<double>& of) {
  double square = 0;
  for (double each : of) square += each * each;
  return std::sqrt(square);
}

double distance(std::vector<double> from, const std::vector<double>& to) {
  for (std::size_t i = 0; i < from.size(); ++i) from[i] -= to[i];
  return length(from);
}

// How far from float64 gradients are that are computed node by node in f32: what cancellation left of larger numbers is
// no closer on a device that does everything right.
class f32_errors {
 public:
  f32_errors(const graph& g, const parameters& values, std::span<const bound_values> inputs)
      : graph_(g), values_(values), inputs_(inputs) {}

  double operator()(const std::string& output) {
    if (truth_.empty()) {
      load_leaves();
      truth_ = evaluated<double>(), rounded_ = evaluated<float>();
    }
    return distance(rounded_.at(output).values, truth_.at(output).values);
  }

 private:
  void load_leaves() {
    for (const op kind : {op::parameter, op::state}) {
      for (node_id each : graph_.leaves(kind)) {
        const std::string& name = graph_.get<leaf_attribute>(each).name;
        leaves_[name] = loaded(values_.get_bytes(name), graph_[each].type, graph_[each].extents);
      }
    }
    for (node_id each : graph_.leaves(op::input)) {
      const std::string& name = graph_.get<leaf_attribute>(each).name;
      const auto given = std::ranges::find(inputs_, name, &bound_values::name);
      if (given != inputs_.end()) leaves_[name] = loaded(given->bytes, given->type, graph_[each].extents);
    }
  }
  template <class Real>
  [[nodiscard]] oracle::tensors<double> evaluated() const {
    oracle::tensors<Real> leaves;
    for (const auto& [name, value] : leaves_) leaves[name] = oracle::converted<Real>(value);
    oracle::tensors<double> found;
    for (const auto& [name, value] : oracle::interpreter<Real>(graph_, std::move(leaves)).run())
      found[name] = oracle::converted<double>(value);
    return found;
  }

  const graph& graph_;
  const parameters& values_;
  std::span<const bound_values> inputs_;
  oracle::tensors<double> leaves_, truth_, rounded_;  // made when asked for
};

}  // namespace

std::vector<float> wave(double (*fn)(double), double step, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(fn(static_cast<double>(i) * step));
  return values;
}

bound_values bound(std::string name, const std::vector<float>& values) {
  return {std::move(name), dtype::f32, bytes_of(values)};
}
bound_values bound(std::string name, const std::vector<std::int32_t>& values) {
  return {std::move(name), dtype::i32, bytes_of(values)};
}

void expect_reference(const std::string& file, const std::string& workload, graph g, node_id output, node_id loss,
                      std::span<const bound_values> inputs, reference_tolerance within) {
  std::ifstream text(std::string(MEGANEURA_SOURCE_DIR) + "/tests/reference/" + file + ".json");
  const nlohmann::json reference = nlohmann::json::parse(text)[workload];
  g.add_output("output", output);
  g.add_output("loss", loss);
  const auto weights = g.leaves(op::parameter);
  const auto slopes = gradients(g, loss, weights);
  for (std::size_t i = 0; i < weights.size(); ++i)
    g.add_output("grad:" + g.get<leaf_attribute>(weights[i]).name, slopes[i]);
  ASSERT_EQ(weights.size(), reference["parameter_tensors"].get<std::size_t>());

  const checked_device gpu;
  parameters values(gpu, g);
  for (node_id each : weights) {
    const std::string& name = g.get<leaf_attribute>(each).name;
    values.set(name, named_weights(name, g[each].extents));
  }
  program run(gpu, g, values);
  for (const bound_values& each : inputs) run.set_input(each.name, each.type, each.bytes);
  run.wait(run.submit());

  const auto all = values_of(run, "output");
  const std::vector<double> expected = reference["output"]["strided256"];
  std::vector<double> found;
  for (std::size_t i = 0; i < expected.size(); ++i) found.push_back(all[i * all.size() / expected.size()]);
  EXPECT_LT(distance(found, expected), within.output * length(expected));
  const double expected_loss = reference["loss"];
  EXPECT_NEAR(values_of(run, "loss")[0], expected_loss, within.output * expected_loss);
  const double least = within.least * reference["grad_norm"].get<double>();
  f32_errors f32_error(g, values, inputs);
  for (const auto& [name, norm] : reference["grad_norms"].items()) {
    const auto gradient = values_of(run, "grad:" + name);
    const double expected_length = norm, measure = std::max(expected_length, least);
    double error = within.gradient * measure;
    if (std::fabs(length(gradient) - expected_length) > error) error = std::max(error, 4 * f32_error("grad:" + name));
    EXPECT_NEAR(length(gradient), expected_length, error) << name;
    const double typical = error / std::sqrt(static_cast<double>(gradient.size()));  // of an element
    if (!reference.contains("grad_first4")) continue;
    for (std::size_t i = 0; i < std::min<std::size_t>(4, gradient.size()); ++i) {
      EXPECT_NEAR(gradient[i], reference["grad_first4"][name][i].get<double>(), 8 * typical) << name << ' ' << i;
    }
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
