// SPDX-License-Identifier: MIT
// A run that can be watched: a line on a terminal, a page with its curves, TensorBoard's events.
#include <meganeura/data/run_log.hpp>
#include <meganeura/meganeura.hpp>

#include <filesystem>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"line", 1>(x); }
};
inline constexpr mn::dim batch = mn::sym<"batch">;
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<batch, 1>>>;

int main() {
  std::vector<float> x, y;
  for (int i = 0; i < 64; ++i) {
    x.push_back(static_cast<float>(i) / 32 - 1);
    y.push_back(3 * x.back() + 1);
  }
  const mn::device gpu;
  mn::trainer<model, mn::mean_squared_error<"y">> fit(gpu, mn::adam{.learning_rate = 0.05f}, {},
                                                      {.schedule = mn::cosine_decay(200)});
  fit.parameters().init({.seed = 1});

  mn::progress line(stdout, 1, 200 * 64);
  mn::data::run_log log;
  while (fit.steps() < 200) {
    log.add("learning rate", fit.steps(), fit.learning_rate());
    const float loss = fit.step(mn::bind<"x">(x), mn::bind<"y">(y)).loss();
    log.add("loss/training", fit.steps(), loss);
    log.add_speed("samples a second", fit.steps(), 64.0 * fit.steps());
    line.update(64 * fit.steps(), loss);
    if (fit.steps() % 50 == 0) log.add("loss/evaluated", fit.steps(), fit.evaluate(mn::bind<"x">(x), mn::bind<"y">(y)));
  }
  line.finish_epoch(static_cast<float>(log.curves()[1].points.back().value));
  log.save_page("run.html", "a line");
  log.save_events("runs/line");  // tensorboard --logdir runs
  return std::filesystem::file_size("run.html") > 10'000 && log.curves()[3].points.size() == 4 ? 0 : 1;
}
