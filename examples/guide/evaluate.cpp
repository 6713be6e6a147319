// SPDX-License-Identifier: MIT
// One model, two modes: dropout in training, none in evaluation, over one set of weights.
#include <meganeura/data/metrics.hpp>
#include <meganeura/meganeura.hpp>

#include <cmath>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
    auto h = mn::dropout<"drop", 0.2>(mn::relu(mn::linear<"hidden", 32>(x)));
    return mn::linear<"logits", 2>(h);
  }
};
inline constexpr mn::dim batch = mn::sym<"batch">;
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<batch, 2>>>;

int main() {
  std::vector<float> x;  // inside of a circle, or outside
  std::vector<std::int32_t> label;
  for (int i = 0; i < 256; ++i) {
    x.insert(x.end(), {std::sin(static_cast<float>(i) * 1.7f), std::cos(static_cast<float>(i) * 2.9f)});
    label.push_back(std::hypot(x[x.size() - 2], x.back()) < 0.8f ? 1 : 0);
  }
  const auto train_x = std::span(x).first(2 * 192), test_x = std::span(x).subspan(2 * 192);
  const auto train_label = std::span(label).first(192), test_label = std::span(label).subspan(192);

  const mn::device gpu;
  mn::trainer<model, mn::cross_entropy<"label">> fit(gpu, mn::adam{.learning_rate = 0.01f});
  fit.parameters().init({.seed = 1});
  const float before = fit.evaluate(mn::bind<"x">(test_x), mn::bind<"label">(test_label));
  for (int epoch = 0; epoch < 200; ++epoch) fit.step(mn::bind<"x">(train_x), mn::bind<"label">(train_label));
  const float after = fit.evaluate(mn::bind<"x">(test_x), mn::bind<"label">(test_label));

  struct rows {
    std::span<const float> x;
    std::span<const std::int32_t> label;
  };
  const rows tests[] = {{test_x.first(2 * 40), test_label.first(40)}, {test_x.subspan(2 * 40), test_label.subspan(40)}};
  mn::data::confusion_matrix confusion(2);
  const double loss = fit.evaluate_all(
      tests, [](const rows& each) { return std::tuple(mn::bind<"x">(each.x), mn::bind<"label">(each.label)); },
      [&](const rows& each, const std::vector<float>& logits) { confusion.add(logits, each.label); });
  const double perplexity = mn::data::perplexity(loss);
  return after < before / 2 && confusion.accuracy() > 0.84 && perplexity < std::exp(1.01 * after) ? 0 : 1;
}
