// SPDX-License-Identifier: MIT
// Weights that PyTorch saved under other names.
#include <meganeura/meganeura.hpp>

#include <filesystem>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"fc2", 1>(mn::relu(mn::linear<"fc1", 2>(x))); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<1, 2>>>;

// What torch.save_file(module.state_dict()) writes of a Sequential(Linear, ReLU, Linear) called `net`.
void write_sequential(const std::string& path) {
  const std::vector<float> numbers{1, 2, 3, 4};
  const auto first = [&](std::size_t count) { return std::as_bytes(std::span(numbers).first(count)); };
  mn::io::write_safetensors(path,
                            std::vector<mn::io::safetensors_entry>{{"net.0.weight", "F32", {2, 2}, first(4)},
                                                                   {"net.0.bias", "F32", {2}, first(2)},
                                                                   {"net.2.weight", "F32", {1, 2}, first(2)},
                                                                   {"net.2.bias", "F32", {1}, first(1)},
                                                                   {"net.1.num_batches_tracked", "F32", {1}, first(1)},
                                                                   {"head.weight", "F32", {1}, first(1)}});
}

// The same of a compiled module with layers fc1 and fc2, the latter without a bias.
void write_compiled(const std::string& path) {
  const std::vector<float> numbers{5, 6, 7, 8};
  const auto first = [&](std::size_t count) { return std::as_bytes(std::span(numbers).first(count)); };
  mn::io::write_safetensors(path,
                            std::vector<mn::io::safetensors_entry>{{"_orig_mod.fc1.weight", "F32", {2, 2}, first(4)},
                                                                   {"_orig_mod.fc1.bias", "F32", {2}, first(2)},
                                                                   {"_orig_mod.fc2.weight", "F32", {1, 2}, first(2)}});
}

int main() {
  const mn::device gpu;
  const std::string path = (std::filesystem::temp_directory_path() / "meganeura_guide_torch.safetensors").string();
  write_sequential(path);
  mn::session<model> s(gpu);
  mn::parameters weights = s.parameters();
  const mn::load_report report = weights.load(
      path,
      {.strict = false, .rename = {{"fc1.*", "net.0.*"}, {"fc2.*", "net.2.*"}}, .ignore = "*.num_batches_tracked"});
  const std::vector<float> y = s.run(mn::bind<"x">(std::vector<float>{1, 1}));  // relu(4, 9) . (1, 2) + 1
  if (!report.missing.empty() || report.unexpected != std::vector<std::string>{"head.weight"} || y[0] != 23) return 1;

  write_compiled(path);
  const mn::load_report compiled = weights.load(path, {.strict = false, .rename = mn::from_torch});
  std::filesystem::remove(path);
  const std::vector<float> z = s.run(mn::bind<"x">(std::vector<float>{1, 1}));  // (16, 21) . (5, 6) + 1, as it was
  return compiled.missing == std::vector<std::string>{"fc2.bias"} && compiled.unexpected.empty() && z[0] == 207 ? 0 : 1;
}
