// SPDX-License-Identifier: MIT
// Time of group, batch, layer and RMS norms, some with an activation behind, and of their gradients, on a device.
#include "layer_bench.hpp"

#include <cmath>
#include <memory>
#include <vector>

namespace {

namespace mn = meganeura;
using layer_bench::pass;

enum class kind { group, batch, layer, rms };

// x [batch, channels, positions], of layer and RMS norms [batch, positions, channels]; groups: of channels.
struct norm_shape {
  std::string name;
  kind of;
  std::int64_t batch, positions, channels, groups = 1;
  bool silu = false;

  [[nodiscard]] bool has_images() const { return of == kind::group || of == kind::batch; }
};

// Those of Stable Diffusion 1.5 and a small U-Net, of ResNet-50 x4, of the encoder of Whisper and of SmolLM2.
const std::vector<norm_shape> known{{"group norm, SiLU 320x64x64", kind::group, 1, 4096, 320, 32, true},
                                    {"group norm, SiLU 640x32x32", kind::group, 1, 1024, 640, 32, true},
                                    {"group norm, SiLU 1280x8x8", kind::group, 1, 64, 1280, 32, true},
                                    {"group norm, SiLU 2x64x32x32", kind::group, 2, 1024, 64, 8, true},
                                    {"batch norm 4x64x56x56", kind::batch, 4, 3136, 64},
                                    {"batch norm 4x256x56x56", kind::batch, 4, 3136, 256},
                                    {"batch norm 4x512x7x7", kind::batch, 4, 49, 512},
                                    {"layer norm 1500x384", kind::layer, 1, 1500, 384},
                                    {"layer norm 4096x320", kind::layer, 1, 4096, 320},
                                    {"RMS norm 128x576", kind::rms, 1, 128, 576},
                                    {"RMS norm 2048x4096", kind::rms, 1, 2048, 4096},
                                    {"small", kind::group, 2, 15, 12, 3, true}};

constexpr double epsilon = 1e-5;

// In float64: what is normalised together has a mean (0 for RMS) and a factor, and for gradients two means more.
class reference {
 public:
  reference(const norm_shape& of, const layer_bench::tensors& values) : of_(of), values_(values) {
    const std::int64_t count = of.of == kind::group   ? of.batch * of.groups
                               : of.of == kind::batch ? of.channels
                                                      : of.batch * of.positions;
    sets_.resize(static_cast<std::size_t>(count));
    const std::size_t all = values.at("x").size();
    for (std::size_t i = 0; i < all; ++i) set(i).count += 1, set(i).mean += value("x", i);
    for (set_sums& each : sets_) each.mean = of.of == kind::rms ? 0 : each.mean / each.count;
    for (std::size_t i = 0; i < all; ++i) set(i).factor += std::pow(value("x", i) - set(i).mean, 2);
    for (set_sums& each : sets_) each.factor = 1 / std::sqrt(each.factor / each.count + epsilon);
    for (std::size_t i = 0; i < all; ++i) {
      const double g = of_standard(i);
      set(i).gradient += g / set(i).count, set(i).along += g * standard(i) / set(i).count;
    }
  }
  [[nodiscard]] double y(std::size_t i) const {
    const double z = affine(i);
    return of_.silu ? z / (1 + std::exp(-z)) : z;
  }
  [[nodiscard]] double dx(std::size_t i) const {
    const set_sums& all = set(i);
    const double shift = of_.of == kind::rms ? 0 : all.gradient;
    return all.factor * (of_standard(i) - shift - standard(i) * all.along);
  }

 private:
  struct set_sums {
    double count = 0, mean = 0, factor = 0, gradient = 0, along = 0;
  };
  [[nodiscard]] std::int64_t channel_of(std::int64_t at) const {
    return (of_.has_images() ? at / of_.positions : at) % of_.channels;
  }
  [[nodiscard]] std::size_t set_of(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t c = channel_of(at), row = at / of_.channels;
    return static_cast<std::size_t>(of_.of == kind::group ? at / of_.channels / of_.positions * of_.groups +
                                                                c / (of_.channels / of_.groups)
                                    : of_.of == kind::batch ? c
                                                            : row);
  }
  set_sums& set(std::size_t i) { return sets_[set_of(i)]; }
  [[nodiscard]] const set_sums& set(std::size_t i) const { return sets_[set_of(i)]; }
  [[nodiscard]] double value(const char* name, std::size_t i) const { return values_.at(name)[i]; }
  [[nodiscard]] double of_channel(const char* name, std::size_t i) const {
    return value(name, static_cast<std::size_t>(channel_of(static_cast<std::int64_t>(i))));
  }
  [[nodiscard]] double standard(std::size_t i) const { return (value("x", i) - set(i).mean) * set(i).factor; }
  [[nodiscard]] double affine(std::size_t i) const {
    return standard(i) * of_channel("norm.weight", i) + (of_.of == kind::rms ? 0 : of_channel("norm.bias", i));
  }
  [[nodiscard]] double of_affine(std::size_t i) const {
    const double z = affine(i), s = 1 / (1 + std::exp(-z));
    return value("dy", i) * (of_.silu ? s * (1 + z * (1 - s)) : 1);
  }
  [[nodiscard]] double of_standard(std::size_t i) const { return of_affine(i) * of_channel("norm.weight", i); }

  norm_shape of_;
  const layer_bench::tensors values_;
  std::vector<set_sums> sets_;
};

mn::node_value normalised(const norm_shape& of, mn::node_value x) {
  const float small = static_cast<float>(epsilon);
  switch (of.of) {
    case kind::group:
      return mn::group_norm("norm", x, of.groups, mn::group_norm_options{.epsilon = small});
    case kind::batch:
      return mn::batch_norm("norm", x, mn::batch_norm_options{.epsilon = small});
    case kind::layer:
      return mn::layer_norm("norm", x, mn::norm_options{.epsilon = small});
    default:
      return mn::rms_norm("norm", x, mn::norm_options{.epsilon = small});
  }
}

std::vector<pass> passes_of(const norm_shape& of) {
  const std::int64_t count = of.batch * of.positions * of.channels;
  const layer_bench::tensors values{{"x", layer_bench::normal(count, 1)},
                                    {"dy", layer_bench::normal(count, 2)},
                                    {"norm.weight", layer_bench::normal(of.channels, 3)},
                                    {"norm.bias", layer_bench::normal(of.channels, 4)}};
  const auto exact = std::make_shared<reference>(of, values);
  std::vector<pass> made;
  for (const bool backward : {false, true}) {
    pass one{.name = backward ? "gradients" : "forward",
             .graph = mn::graph(mn::run_mode::training),
             .values = values,
             .expected = {}};
    mn::graph& g = one.graph;
    const auto leaf = [&](const char* name) {
      const mn::shape extents = of.has_images() ? mn::shape{of.batch, of.channels, of.positions}
                                                : mn::shape{of.batch, of.positions, of.channels};
      return mn::node_value(g, g.parameter(name, mn::dtype::f32, extents));
    };
    const mn::node_value x = leaf("x");
    mn::node_value y = normalised(of, x);
    if (of.silu) y = mn::silu(y);
    g.drop_effects();  // what follows the batch's statistics
    if (!backward) {
      g.add_output("y", y);
      one.expected = [exact](std::size_t i) { return exact->y(i); };
    } else {
      const mn::node_value loss = mn::sum(y * leaf("dy"));
      std::vector<mn::node_id> wrt{x, g.find_leaf("norm.weight")};
      if (of.of != kind::rms) wrt.push_back(g.find_leaf("norm.bias"));
      const std::vector<mn::node_id> found = mn::gradients(g, loss, wrt);
      g.add_output("y", found[0]);
      for (std::size_t i = 1; i < found.size(); ++i) g.add_output(std::to_string(i), found[i]);
      one.expected = [exact](std::size_t i) { return exact->dx(i); };
    }
    made.push_back(std::move(one));
  }
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<layer_bench::shape> shapes;
  for (const norm_shape& each : known) shapes.push_back({each.name, [&each] { return passes_of(each); }});
  return layer_bench::run(argc, argv, "Norms and their gradients", shapes);
}
