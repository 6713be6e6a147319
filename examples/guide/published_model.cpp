// SPDX-License-Identifier: MIT
// A ResNet with the weights of a file, and the same with its norms folded into convolutions.
#include <meganeura/meganeura.hpp>
#include <meganeura/models/resnet.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace mn = meganeura;
namespace resnet = mn::models::resnet;

// resnet::resnet50 is {.depths = {3, 4, 6, 3}} for 1000 classes.
inline constexpr resnet::config tiny{.depths = {1, 1, 1, 1}, .width = 4, .classes = 3};
inline constexpr mn::dim batch = mn::sym<"batch">;
template <resnet::config C>
using model = mn::model<resnet::classifier<C>, mn::input<"image", mn::dtype::f32, mn::dims<batch, 3, 32, 32>>>;

int main() {
  const mn::device gpu;
  const std::string path = (std::filesystem::temp_directory_path() / "meganeura_guide_resnet.safetensors").string();
  {
    mn::session<model<tiny>> some(gpu);
    some.parameters().init({.seed = 1});
    some.parameters().save(path);
  }
  mn::session<model<tiny>> plain(gpu);
  plain.parameters().load(path, {.ignore = "*.num_batches_tracked"});
  mn::session<model<resnet::folded(tiny)>> folded(gpu);
  mn::fold_batch_norms(plain.parameters(), folded.parameters());
  std::filesystem::remove(path);

  std::vector<float> image(2 * 3 * 32 * 32);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = std::sin(0.1f * static_cast<float>(i));
  const std::vector<float> a = plain.run(mn::bind<"image">(image)), b = folded.run(mn::bind<"image">(image));
  const auto near = [](float x, float y) { return std::fabs(x - y) < 1e-4f * (1 + std::fabs(x)); };
  return a.size() == 2 * 3 && std::equal(a.begin(), a.end(), b.begin(), near) ? 0 : 1;
}
