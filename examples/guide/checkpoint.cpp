// SPDX-License-Identifier: MIT
// A run that is interrupted: what a second trainer loads goes on bit for bit as the first one would have.
#include <meganeura/meganeura.hpp>

#include <filesystem>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
    return mn::linear<"out", 1>(mn::dropout<"drop", 0.1>(mn::tanh(mn::linear<"hidden", 8>(x))));
  }
};
inline constexpr mn::dim batch = mn::sym<"batch">;
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<batch, 2>>>;
using trainer = mn::trainer<model, mn::mean_squared_error<"y">>;

int main() {
  const std::string file = (std::filesystem::temp_directory_path() / "meganeura_guide_run.safetensors").string();
  const std::vector<float> x{0, 0, 0, 1, 1, 0, 1, 1}, y{0, 1, 1, 0};
  const auto steps = [&](trainer& fit, int count) {
    float loss = 0;
    for (int step = 0; step < count; ++step) loss = fit.step(mn::bind<"x">(x), mn::bind<"y">(y)).loss();
    return loss;
  };
  const mn::device gpu;
  trainer first(gpu, mn::adam{.learning_rate = 0.01f}, {}, {.seed = 7});
  first.parameters().init({.seed = 1});
  steps(first, 20);
  first.save_checkpoint(file);
  const float uninterrupted = steps(first, 20);

  trainer second(gpu, mn::adam{}, {}, {.seed = 7});
  second.load_checkpoint(file);  // rates, seed and step come from the file
  const float resumed = steps(second, 20);
  std::filesystem::remove(file);
  return resumed == uninterrupted && second.steps() == 40 ? 0 : 1;
}
