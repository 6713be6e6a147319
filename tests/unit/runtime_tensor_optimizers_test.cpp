// SPDX-License-Identifier: MIT
// Optimisers that need norms of whole tensors over twenty steps against their definitions, written out in f64.
#include <meganeura/runtime/training.hpp>

#include <oracle/tolerance.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/small_models.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

using namespace meganeura;

namespace {

using numbers = std::vector<double>;
// Of one tensor; what it keeps is empty before step 1.
using definition =
    std::function<void(numbers& p, const numbers& g, const shape& extents, int step, std::array<numbers, 2>& kept)>;

double real(float rate) { return static_cast<double>(rate); }

double rms(const numbers& x) {
  double sum = 0;
  for (const double each : x) sum += each * each;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

// Algorithm 2 of the paper, with phi(z) = z.
definition of(const lamb& o) {
  return [o](numbers& p, const numbers& g, const shape&, int step, std::array<numbers, 2>& kept) {
    numbers u(p.size());
    for (numbers& each : kept) each.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      kept[0][i] = real(o.beta1) * kept[0][i] + (1 - real(o.beta1)) * g[i];
      kept[1][i] = real(o.beta2) * kept[1][i] + (1 - real(o.beta2)) * g[i] * g[i];
      const double m = kept[0][i] / (1 - std::pow(real(o.beta1), step));
      const double v = kept[1][i] / (1 - std::pow(real(o.beta2), step));
      u[i] = m / (std::sqrt(v) + real(o.epsilon)) + real(o.weight_decay) * p[i];
    }
    const double ratio = rms(p) == 0 || rms(u) == 0 ? 1 : rms(p) / rms(u);
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= real(o.learning_rate) * ratio * u[i];
  };
}

// torch.optim's _single_tensor_adafactor.
definition of(const adafactor& o) {
  return [o](numbers& p, const numbers& g, const shape& extents, int step, std::array<numbers, 2>& kept) {
    const double fresh = std::pow(step, -real(o.decay_power)),
                 rho = std::min(real(o.learning_rate), 1 / std::sqrt(step));
    const double alpha = std::max(real(o.epsilon2), rms(p)) * rho;
    const auto lerp = [&](double& mean, double to) { mean += fresh * (to - mean); };
    numbers v(p.size());
    if (extents.rank() < 2) {
      kept[0].resize(p.size());
      for (std::size_t i = 0; i < p.size(); ++i) {
        lerp(kept[0][i], g[i] * g[i]);
        v[i] = kept[0][i];
      }
    } else {
      const auto columns = static_cast<std::size_t>(extents.last()), rows = static_cast<std::size_t>(extents.last(1));
      const std::size_t matrices = p.size() / rows / columns;
      kept[0].resize(matrices * rows);
      kept[1].resize(matrices * columns);
      for (std::size_t k = 0; k < matrices; ++k) {
        const double* matrix = g.data() + k * rows * columns;
        double mean_row = 0;
        for (std::size_t i = 0; i < rows; ++i) {
          double sum = 0;
          for (std::size_t j = 0; j < columns; ++j) sum += matrix[i * columns + j] * matrix[i * columns + j];
          lerp(kept[0][k * rows + i], sum / static_cast<double>(columns));
          mean_row += kept[0][k * rows + i] / static_cast<double>(rows);
        }
        for (std::size_t j = 0; j < columns; ++j) {
          double sum = 0;
          for (std::size_t i = 0; i < rows; ++i) sum += matrix[i * columns + j] * matrix[i * columns + j];
          lerp(kept[1][k * columns + j], sum / static_cast<double>(rows));
        }
        for (std::size_t i = 0; i < rows * columns; ++i) {
          v[k * rows * columns + i] = kept[0][k * rows + i / columns] * kept[1][k * columns + i % columns] /
                                      std::max(mean_row, real(o.epsilon1));
        }
      }
    }
    numbers u(p.size());
    for (std::size_t i = 0; i < p.size(); ++i)
      u[i] = g[i] / std::sqrt(std::max(v[i], real(o.epsilon1) * real(o.epsilon1)));
    const double most = std::max(1.0, rms(u) / real(o.clip));
    for (std::size_t i = 0; i < p.size(); ++i)
      p[i] = p[i] * (1 - real(o.learning_rate) * real(o.weight_decay)) - alpha / most * u[i];
  };
}

const std::vector<std::pair<std::string, shape>> tensors{
    {"number", {}}, {"vector", {37}}, {"matrix", {5, 7}}, {"kernel", {2, 3, 4, 5}}, {"zero", {6}}};

// The sum of p * c for each, so that gradients are what is bound.
training linear_in_all(const optimizer& chosen, const training_options& options = {}) {
  graph g;
  node_id loss = g.constant(0, dtype::f32);
  for (const auto& [name, extents] : tensors) {
    node_id product = g.multiply(g.parameter(name, dtype::f32, extents), g.input("of_" + name, dtype::f32, extents));
    if (extents.rank() > 0) product = g.reduce(reduce_kind::sum, product, (1u << extents.rank()) - 1);
    loss = g.add(loss, product);
  }
  training run(support::shared_device(), std::move(g), loss, chosen, options);
  plan::verify(run.program().plan());
  return run;
}

template <class T>
void expect_steps(const T& chosen) {
  SCOPED_TRACE(optimizer(chosen).name());
  const definition defined = of(chosen);
  training run = linear_in_all(chosen);
  std::map<std::string, numbers> p;
  std::map<std::string, std::array<numbers, 2>> kept;
  for (const auto& [name, extents] : tensors) {
    std::vector<float> start = support::uniform(static_cast<std::size_t>(extents.elements()), 1);
    if (name == "zero") start.assign(start.size(), 0);
    run.parameters().set(name, start);
    p[name].assign(start.begin(), start.end());
  }
  for (int step = 1; step <= 20; ++step) {
    std::map<std::string, std::vector<float>> slopes;
    for (const auto& [name, extents] : tensors) {
      auto& own = slopes["of_" + name];
      own = support::uniform(static_cast<std::size_t>(extents.elements()), 100 + static_cast<unsigned>(step));
      if (name == "zero" && step < 3) own.assign(own.size(), 0);
      defined(p[name], numbers(own.begin(), own.end()), extents, step, kept[name]);
    }
    std::vector<input_values> bound;
    for (const auto& [name, values] : slopes) bound.emplace_back(name, values);
    run.step(bound).wait();
  }
  for (const auto& [name, extents] : tensors)
    EXPECT_LE(oracle::relative_error(run.parameters().get(name), p[name]), oracle::tolerance(dtype::f32, 4000)) << name;
}

TEST(runtime_tensor_optimizers, lamb_follows_its_definition) {
  expect_steps(lamb{});
  expect_steps(lamb{.learning_rate = 0.1f, .beta2 = 0.9f, .weight_decay = 0.2f});
}

TEST(runtime_tensor_optimizers, adafactor_follows_its_definition) {
  expect_steps(adafactor{});
  expect_steps(adafactor{.learning_rate = 0.3f, .decay_power = 0.5f, .clip = 0.5f, .weight_decay = 0.2f});
}

TEST(runtime_tensor_optimizers, adafactor_keeps_rows_and_columns) {
  const training run = linear_in_all(adafactor{});
  std::map<std::string, shape> kept;
  for (const plan::named_range& each : run.moments().list()) kept[each.name] = each.extents;
  EXPECT_EQ(kept, (std::map<std::string, shape>{{"optimizer.columns.kernel", {2, 3, 1, 5}},
                                                {"optimizer.columns.matrix", {1, 7}},
                                                {"optimizer.rows.kernel", {2, 3, 4, 1}},
                                                {"optimizer.rows.matrix", {5, 1}},
                                                {"optimizer.v.number", {}},
                                                {"optimizer.v.vector", {37}},
                                                {"optimizer.v.zero", {6}}}));
  for (const plan::named_tensor& each : run.parameters().layout().tensors)
    EXPECT_FALSE(each.name.starts_with("optimizer.")) << each.name;
}

// Each group has numbers of its own.
TEST(runtime_tensor_optimizers, a_group_has_its_rates) {
  training run = linear_in_all(lamb{}, {.frozen = "number", .groups = {{.names = "vector", .rate = 0}}});
  std::vector<input_values> bound;
  std::map<std::string, std::vector<float>> slopes;
  for (const auto& [name, extents] : tensors)
    slopes["of_" + name] = support::uniform(static_cast<std::size_t>(extents.elements()), 7);
  for (const auto& [name, values] : slopes) bound.emplace_back(name, values);
  run.parameters().init();
  const auto before = run.parameters().get("vector"), matrix = run.parameters().get("matrix");
  run.step(bound).wait();
  EXPECT_EQ(run.parameters().get("vector"), before);
  EXPECT_NE(run.parameters().get("matrix"), matrix);
}

struct forgetful {
  float learning_rate = 1;
  static constexpr optimizer_rate<forgetful> rates[] = {{"learning_rate", &forgetful::learning_rate}};
  [[nodiscard]] std::string name() const { return "forgetful"; }
  [[nodiscard]] std::vector<std::string> moments() const { return {}; }
  [[nodiscard]] std::vector<optimizer_state> states(const shape& of) const { return {{"m", of}}; }
  [[nodiscard]] std::array<float, 1> numbers(std::uint32_t) const { return {learning_rate}; }
  [[nodiscard]] std::vector<node_value> direction(const optimizer_tensor& t) const { return {t.gradient}; }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const { return {e.parameter}; }
};

TEST(runtime_tensor_optimizers, what_cannot_be_is_a_sentence) {
  EXPECT_EQ(support::sentence_of([] { (void)linear_in_all(adafactor{.clip = 0}); }),
            "adafactor: clip is 0; it must be above 0");
  EXPECT_EQ(
      support::sentence_of([] { (void)linear_in_all(forgetful{}); }),
      "forgetful keeps 1 states and its direction gives 1 values; it has to give what update gets as the gradient "
      "and each new state");
}

}  // namespace
