// SPDX-License-Identifier: MIT
// An LSTM learns how a noisy series goes on, and is asked to go on by itself: ./dev example forecast
// ctest: --steps 60 --plot forecast.html
#include <meganeura/data/metrics.hpp>
#include <meganeura/data/random.hpp>
#include <meganeura/data/run_log.hpp>
#include <meganeura/meganeura.hpp>

#include <CLI/CLI.hpp>

#include <cmath>
#include <numbers>

namespace mn = meganeura;

inline constexpr mn::dim batch = mn::sym<"batch">;
inline constexpr std::size_t window = 12;

struct network {  // [batch, window, 1] -> [batch, 1]: the number behind the window
  static constexpr auto forward(mn::value auto series) {
    auto h = mn::call<"lstm", mn::lstm<mn::recurrent_options{.hidden = 16}>>(series);
    return mn::linear<"next", 1>(mn::flatten<1, 2>(mn::slice<1, window - 1, 1>(h)));
  }
};
using model = mn::model<network, mn::input<"series", mn::dtype::f32, mn::dims<batch, window, 1>>>;

// Two waves and some noise.
std::vector<float> series(std::size_t length) {
  mn::data::random_numbers random(1);
  std::vector<float> result;
  for (std::size_t i = 0; i < length; ++i) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(i);
    const double waves = std::sin(turn / 20) + 0.5 * std::sin(turn / 13);
    result.push_back(static_cast<float>(waves + random.between(-0.1, 0.1)));
  }
  return result;
}

struct windows {
  std::vector<float> series, next;
};

int main(int argc, char** argv) try {
  std::string device, plot;
  std::uint32_t steps = 2000;
  CLI::App app("Trains an LSTM on a synthetic series.");
  app.add_option("--device", device, "index, part of a name, or cpu");
  app.add_option("--steps", steps)->check(CLI::PositiveNumber);
  app.add_option("--plot", plot, "write the curves of the run as a page, .html");
  CLI11_PARSE(app, argc, argv);

  const std::vector<float> all = series(2100);
  const std::size_t first_test = 2000;
  const auto fill = [&](const mn::data::chosen_samples& chosen, windows& into) {
    into = {};
    for (const std::size_t i : chosen.indices) {
      into.series.insert(into.series.end(), &all[i], &all[i + window]);
      into.next.push_back(all[i + window]);
    }
  };
  const mn::device gpu({.device = device});
  mn::trainer<model, mn::mean_squared_error<"next">> fit(gpu, mn::adam{.learning_rate = 5e-3f}, {},
                                                         {.clip_norm = 1, .schedule = mn::cosine_decay(steps, 0.1)});
  fit.parameters().init({.seed = 1});
  mn::data::loader batches(first_test - window, 32, fill, {.shuffle = true, .seed = 1});
  mn::progress line(stdout, 1, std::size_t{32} * steps);
  mn::data::run_log log;
  float loss = 0;
  for (const windows& each : batches.take(steps)) {
    log.add("learning rate", fit.steps(), fit.learning_rate());
    loss = fit.step(mn::bind<"series">(each.series), mn::bind<"next">(each.next)).loss();
    log.add("loss", fit.steps(), loss);
    log.add_speed("samples a second", fit.steps(), 32.0 * fit.steps());
    line.update(std::size_t{32} * fit.steps(), loss);
  }
  line.finish_epoch(loss);
  if (!plot.empty()) log.save_page(plot, "forecast");

  // One step ahead, beside saying that nothing changes, and then on its own: each forecast is taken for what came.
  mn::session<model> predict(gpu, fit.parameters());
  const auto test = std::span(all).subspan(first_test);
  std::vector<float> ahead, alone(test.begin(), test.begin() + window);
  for (std::size_t i = 0; i + window < test.size(); ++i) {
    ahead.push_back(predict.run(mn::bind<"series">(test.subspan(i, window)))[0]);
    alone.push_back(predict.run(mn::bind<"series">(std::span(alone).last(window)))[0]);
  }
  const auto came = test.subspan(window), before = test.subspan(window - 1, came.size());
  fmt::print("error one step ahead: {:.4f}, of the number before: {:.4f}\n",
             std::sqrt(mn::data::mean_squared_error(ahead, came)),
             std::sqrt(mn::data::mean_squared_error(before, came)));
  const auto drawn = [](std::span<const float> of) {
    return mn::data::sparkline(std::vector<double>(of.begin(), of.begin() + 60), 60);
  };
  fmt::print("came      {}\nforecast  {}\n", drawn(came), drawn(std::span(alone).subspan(window)));
} catch (const std::exception& e) {
  fmt::print(stderr, "forecast: {}\n", e.what());
  return 1;
}
