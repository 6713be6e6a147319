// SPDX-License-Identifier: MIT
// Each optimiser of the library over twenty steps against PyTorch's definition, written out in f64.
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
#include <string>
#include <vector>

using namespace meganeura;

namespace {

// What the definitions below keep of one number: whatever they need, all zero before step 1.
using kept = std::array<double, 4>;
using definition = std::function<double(double p, double g, int step, kept&)>;

double real(float rate) { return static_cast<double>(rate); }

// torch.optim's _single_tensor_sgd.
definition of(const sgd& o) {
  return [o](double p, double g, int step, kept& k) {
    g += real(o.weight_decay) * p;
    if (o.momentum == 0) return p - real(o.learning_rate) * g;
    k[0] = step == 1 ? g : real(o.momentum) * k[0] + (1 - real(o.dampening)) * g;
    return p - real(o.learning_rate) * (o.nesterov ? g + real(o.momentum) * k[0] : k[0]);
  };
}

// _single_tensor_adam, with decoupled decay for adamw.
template <class Adam>
definition of_adam(const Adam& o, bool decoupled) {
  return [=](double p, double g, int step, kept& k) {
    const double rate = real(o.learning_rate), b1 = real(o.beta1), b2 = real(o.beta2);
    if (decoupled)
      p *= 1 - rate * real(o.weight_decay);
    else
      g += real(o.weight_decay) * p;
    k[0] += (g - k[0]) * (1 - b1);
    k[1] = k[1] * b2 + (1 - b2) * g * g;
    k[2] = std::max(k[2], k[1]);
    const double root = std::sqrt(o.amsgrad ? k[2] : k[1]) / std::sqrt(1 - std::pow(b2, step));
    return p - rate / (1 - std::pow(b1, step)) * k[0] / (root + real(o.epsilon));
  };
}
definition of(const adam& o) { return of_adam(o, false); }
definition of(const adamw& o) { return of_adam(o, true); }

// _single_tensor_rmsprop.
definition of(const rmsprop& o) {
  return [o](double p, double g, int, kept& k) {
    const double alpha = real(o.alpha);
    g += real(o.weight_decay) * p;
    k[0] = alpha * k[0] + (1 - alpha) * g * g;
    if (o.centered) k[1] += (g - k[1]) * (1 - alpha);
    const double average = std::sqrt(k[0] - k[1] * k[1]) + real(o.epsilon);
    k[2] = real(o.momentum) * k[2] + g / average;
    return p - real(o.learning_rate) * k[2];
  };
}

// _single_tensor_adagrad.
definition of(const adagrad& o) {
  return [o](double p, double g, int step, kept& k) {
    if (step == 1) k[0] = real(o.initial_accumulator_value);
    g += real(o.weight_decay) * p;
    k[0] += g * g;
    return p - real(o.learning_rate) / (1 + (step - 1) * real(o.learning_rate_decay)) * g /
                   (std::sqrt(k[0]) + real(o.epsilon));
  };
}

// lion_pytorch's update_fn.
definition of(const lion& o) {
  return [o](double p, double g, int, kept& k) {
    const double c = real(o.beta1) * k[0] + (1 - real(o.beta1)) * g;
    k[0] = real(o.beta2) * k[0] + (1 - real(o.beta2)) * g;
    return p * (1 - real(o.learning_rate) * real(o.weight_decay)) - real(o.learning_rate) * ((c > 0) - (c < 0));
  };
}

struct row {
  template <class T>
  row(const T& made, std::string called, std::vector<std::string> keeps)
      : chosen(made), defined(of(made)), name(std::move(called)), moments(std::move(keeps)) {}
  optimizer chosen;
  definition defined;
  std::string name;
  std::vector<std::string> moments;
};

std::vector<row> rows() {
  return {
      {sgd{}, "sgd", {}},
      {sgd{.learning_rate = 0.1f, .weight_decay = 0.2f}, "sgd", {}},
      {sgd{.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.2f}, "sgd with momentum", {"m"}},
      {sgd{.learning_rate = 0.1f, .momentum = 0.9f, .dampening = 0.4f}, "sgd with momentum", {"m"}},
      {sgd{.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.2f, .nesterov = true},
       "sgd with nesterov momentum",
       {"m"}},
      {adam{}, "adam", {"m", "v"}},
      {adam{.learning_rate = 0.1f, .beta2 = 0.5f, .weight_decay = 0.2f}, "adam", {"m", "v"}},
      {adam{.learning_rate = 0.1f, .beta2 = 0.5f, .weight_decay = 0.2f, .amsgrad = true},
       "adam with amsgrad",
       {"m", "v", "v_max"}},
      {adamw{}, "adamw", {"m", "v"}},
      {adamw{.learning_rate = 0.1f, .beta2 = 0.5f, .weight_decay = 0.2f, .amsgrad = true},
       "adamw with amsgrad",
       {"m", "v", "v_max"}},
      {rmsprop{}, "rmsprop", {"v"}},
      {rmsprop{.learning_rate = 0.1f, .alpha = 0.8f, .weight_decay = 0.2f}, "rmsprop", {"v"}},
      {rmsprop{.learning_rate = 0.1f, .alpha = 0.8f, .centered = true}, "centered rmsprop", {"v", "mean"}},
      {rmsprop{.learning_rate = 0.01f, .alpha = 0.8f, .momentum = 0.9f}, "rmsprop with momentum", {"v", "m"}},
      {rmsprop{.learning_rate = 0.01f, .alpha = 0.8f, .weight_decay = 0.2f, .momentum = 0.9f, .centered = true},
       "centered rmsprop with momentum",
       {"v", "mean", "m"}},
      {adagrad{}, "adagrad", {"v"}},
      {adagrad{
           .learning_rate = 0.1f, .learning_rate_decay = 0.3f, .weight_decay = 0.2f, .initial_accumulator_value = 0.5f},
       "adagrad",
       {"v"}},
      {lion{}, "lion", {"m"}},
      {lion{.learning_rate = 0.1f, .beta1 = 0.8f, .weight_decay = 0.2f}, "lion", {"m"}},
  };
}

// sum(p * c), so that the gradient is what is bound.
graph_with_loss linear_in(std::int64_t count) {
  graph g;
  const node_id p = g.parameter("p", dtype::f32, {count}), c = g.input("c", dtype::f32, {count});
  const node_id loss = g.reduce(reduce_kind::sum, g.multiply(p, c), 1);
  return {std::move(g), loss};
}

TEST(runtime_optimizers, each_follows_its_definition) {
  constexpr std::size_t count = 37;
  for (const row& each : rows()) {
    SCOPED_TRACE(each.name);
    EXPECT_EQ(each.chosen.name(), each.name);
    EXPECT_EQ(each.chosen.rule().moments, each.moments);
    graph_with_loss model = linear_in(count);
    training run(support::shared_device(), std::move(model.forward), model.loss, each.chosen);
    const std::vector<float> start = support::uniform(count, 1);
    run.parameters().set("p", start);
    std::vector<double> p(start.begin(), start.end());
    std::vector<kept> state(count, kept{});
    for (int step = 1; step <= 20; ++step) {
      std::vector<float> slopes = support::uniform(count, 100 + static_cast<unsigned>(step));
      if (step == 1) slopes[3] = 0;
      slopes[5] = 0;  // in every step
      run.step({{"c", slopes}}).wait();
      for (std::size_t i = 0; i < count; ++i) p[i] = each.defined(p[i], real(slopes[i]), step, state[i]);
    }
    EXPECT_LE(oracle::relative_error(run.parameters().get("p"), p), oracle::tolerance(dtype::f32, 400));
  }
}

// Its spread is then what rounding leaves of v - mean^2, which may be below 0.
TEST(runtime_optimizers, centered_rmsprop_stays_finite_where_gradients_are_equal) {
  graph_with_loss model = linear_in(8);
  training run(support::shared_device(), std::move(model.forward), model.loss,
               rmsprop{.alpha = 0.5f, .centered = true});
  run.parameters().init();
  const std::vector<float> slopes{0.1f, 0.3f, 0.7f, 1.1f, 1.3f, 1.7f, 1.9f, 2.3f};
  for (int step = 0; step < 100; ++step) run.step({{"c", slopes}}).wait();
  for (const float p : run.parameters().get("p")) EXPECT_TRUE(std::isfinite(p)) << p;
}

TEST(runtime_optimizers, what_none_can_have_is_a_sentence) {
  const std::pair<optimizer, std::string> wrong[] = {
      {sgd{.nesterov = true},
       "sgd with nesterov momentum: momentum is 0 and dampening 0; it needs a momentum above 0 and no dampening"},
      {sgd{.momentum = 0.5f, .dampening = 0.25f, .nesterov = true},
       "sgd with nesterov momentum: momentum is 0.5 and dampening 0.25; it needs a momentum above 0 and no dampening"},
      {sgd{.momentum = 0.5f, .dampening = -1}, "sgd with momentum: dampening is -1; it must be finite and at least 0"},
      {rmsprop{.alpha = 1}, "rmsprop: alpha is 1; it must be at least 0 and less than 1"},
      {adagrad{.initial_accumulator_value = -1},
       "adagrad: initial_accumulator_value is -1; it must be finite and at least 0"},
      {lion{.beta2 = 1.5f}, "lion: beta2 is 1.5; it must be at least 0 and less than 1"},
  };
  for (const auto& [chosen, sentence] : wrong) {
    graph_with_loss model = linear_in(4);
    EXPECT_EQ(support::sentence_of([&, &chosen = chosen] {
                training(support::shared_device(), std::move(model.forward), model.loss, chosen);
              }),
              sentence);
  }
}

}  // namespace
