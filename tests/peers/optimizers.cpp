// SPDX-License-Identifier: MIT
// Twenty steps of each optimiser from the same numbers, as JSON, for torch_optimizers.py to compare.
#include <meganeura/runtime/training.hpp>

#include <fmt/ranges.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace mn = meganeura;

namespace {

constexpr int steps = 20;
constexpr std::size_t sizes[] = {6, 15};  // of "a" and "b"

std::vector<float> numbers(std::size_t count, int seed) {
  std::vector<float> made;
  for (std::size_t i = 0; i < count; ++i)
    made.push_back(static_cast<float>(std::sin(1.7 * static_cast<double>(i) + 0.9 * seed)));
  return made;
}

struct row {
  std::string name;  // torch_optimizers.py has PyTorch's words for it
  mn::optimizer chosen;
  mn::training_options options{};
};

std::vector<row> rows() {
  const mn::sgd plain{.learning_rate = 0.1f};
  return {
      {"sgd", plain},
      {"sgd weight_decay", mn::sgd{.learning_rate = 0.1f, .weight_decay = 0.2f}},
      {"sgd momentum", mn::sgd{.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.2f, .dampening = 0.3f}},
      {"sgd nesterov", mn::sgd{.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.2f, .nesterov = true}},
      {"adam", mn::adam{.learning_rate = 0.1f}},
      {"adam weight_decay", mn::adam{.learning_rate = 0.1f, .beta2 = 0.9f, .weight_decay = 0.2f}},
      {"adam amsgrad", mn::adam{.learning_rate = 0.1f, .beta2 = 0.5f, .amsgrad = true}},
      {"adamw", mn::adamw{.learning_rate = 0.1f, .weight_decay = 0.2f}},
      {"adamw amsgrad", mn::adamw{.learning_rate = 0.1f, .beta2 = 0.5f, .amsgrad = true}},
      {"rmsprop", mn::rmsprop{.learning_rate = 0.1f, .alpha = 0.8f, .weight_decay = 0.2f}},
      {"rmsprop centered momentum",
       mn::rmsprop{.learning_rate = 0.01f, .alpha = 0.8f, .momentum = 0.9f, .centered = true}},
      {"adagrad", mn::adagrad{.learning_rate = 0.1f, .learning_rate_decay = 0.3f, .weight_decay = 0.2f}},
      {"clip_norm", plain, {.clip_norm = 0.5f}},
      {"clip_value", plain, {.clip_value = 0.25f}},
      {"step schedule", plain, {.schedule = mn::step_decay(7, 0.5)}},
      {"cosine schedule", plain, {.schedule = mn::cosine_decay(steps)}},
      {"one-cycle schedule", plain, {.schedule = mn::one_cycle(steps)}},
      {"linear schedule", plain, {.schedule = mn::linear_decay(steps, 0.25)}},
      {"plateau", plain, {.plateau = mn::plateau{.factor = 0.5, .patience = 2, .cooldown = 1}}},
      {"ema", plain, {.ema = 0.8f}},
      {"accumulate", mn::adam{.learning_rate = 0.1f}, {.clip_norm = 0.5f, .accumulate = 4}},
  };
}

}  // namespace

int main() {
  const mn::device gpu;
  std::string runs;
  for (const row& each : rows()) {
    mn::graph g;
    mn::node_id loss = g.constant(0, mn::dtype::f32);
    for (int i = 0; i < 2; ++i) {
      const mn::shape extents{static_cast<std::int64_t>(sizes[i])};
      const mn::node_id product = g.multiply(g.parameter(i == 0 ? "a" : "b", mn::dtype::f32, extents),
                                             g.input(i == 0 ? "of_a" : "of_b", mn::dtype::f32, extents));
      loss = g.add(loss, g.reduce(mn::reduce_kind::sum, product, 1));
    }
    mn::training run(gpu, std::move(g), loss, each.chosen, each.options);
    run.parameters().set("a", numbers(sizes[0], 0));
    run.parameters().set("b", numbers(sizes[1], 1));
    std::string after;
    for (int step = 0; step < steps; ++step) {
      run.step({{"of_a", numbers(sizes[0], 2 + 2 * step)}, {"of_b", numbers(sizes[1], 3 + 2 * step)}}).wait();
      if (each.options.plateau) run.observe(std::abs(step - 3.0));
      const mn::parameters shown = each.options.ema ? run.averages() : run.parameters();
      std::vector<float> all = shown.get("a");
      const std::vector<float> b = shown.get("b");
      all.insert(all.end(), b.begin(), b.end());
      after += fmt::format("{}{}", step == 0 ? "" : ",", all);
    }
    runs += fmt::format("{}\n    \"{}\": [{}]", runs.empty() ? "" : ",", each.name, after);
  }
  std::string batches;
  for (int step = 0; step < steps; ++step) {
    batches += fmt::format("{}[{},{}]", step == 0 ? "" : ",", numbers(sizes[0], 2 + 2 * step),
                           numbers(sizes[1], 3 + 2 * step));
  }
  std::printf("{\n  \"start\": %s,\n  \"gradients\": [%s],\n  \"runs\": {%s}\n}\n",
              fmt::format("[{},{}]", numbers(sizes[0], 0), numbers(sizes[1], 1)).c_str(), batches.c_str(),
              runs.c_str());
  return 0;
}
