// SPDX-License-Identifier: MIT
// Schedules of products, measured on this device and kept in a file.
#include <meganeura/meganeura.hpp>
#include <meganeura/runtime/tune.hpp>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace mn = meganeura;

struct layers {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"down", 64>(mn::relu(mn::linear<"up", 256>(x))); }
};
using net = mn::model<layers, mn::input<"x", mn::dtype::f32, mn::dims<mn::sym<"batch">, 64>>>;

int main() {
  const std::string path = (std::filesystem::temp_directory_path() / "meganeura_guide_tuned.json").string();
  const mn::device gpu;
  auto products = mn::load_tuned(path, gpu);  // null: none yet, or of another device, driver or version
  if (!products) {
    const mn::tuning_result found = mn::tune(gpu, mn::lower<net>({{"batch", 32}}));
    std::printf("a step takes %.3f ms, %.3f tuned\n", found.before, found.after);
    mn::save_tuned(*found.products, path, gpu);
    products = found.products;
  }
  mn::session<net> tuned(gpu, {}, {.program = {.optimize = {.tuned = products}}});
  tuned.parameters().init({.seed = 1});
  const std::vector<float> y = tuned.run(mn::bind<"x">(std::vector<float>(32 * 64, 0.5f)));
  std::filesystem::remove(path);
  return y.size() == 32 * 64 ? 0 : 1;
}
