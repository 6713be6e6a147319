// SPDX-License-Identifier: MIT
// What a picture shows, by a network trained on ImageNet: ./dev example classify cat.jpg --weights resnet18.safetensors
// ctest: --model resnet18
#define STBI_NO_SIMD  // which needs an optimising compiler
#define STB_IMAGE_IMPLEMENTATION
#include <meganeura/data/image_folder.hpp>
#include <meganeura/meganeura.hpp>
#include <meganeura/models/resnet.hpp>
#include <meganeura/models/vit.hpp>

#include <CLI/CLI.hpp>

#include <cmath>
#include <fstream>
#include <map>
#include <numeric>

namespace mn = meganeura;
namespace resnet = mn::models::resnet;

inline constexpr std::size_t side = 224, classes = 1000;

struct options {
  std::string image, model = "resnet50", weights, labels, device;
};

// Three channels from 0 to 1, less the mean of ImageNet's and divided by their deviation: [3, side, side].
std::vector<float> read_picture(const std::string& path) {
  constexpr float mean[] = {0.485f, 0.456f, 0.406f}, deviation[] = {0.229f, 0.224f, 0.225f};
  std::vector<float> image(3 * side * side, 0.5f);
  if (!path.empty()) image = mn::data::read_centre(path, {3, side, side}, 256);
  for (std::size_t i = 0; i < image.size(); ++i) {
    const std::size_t channel = i / (side * side);
    image[i] = (image[i] - mean[channel]) / deviation[channel];
  }
  return image;
}

template <class Network>
std::vector<float> logits(const mn::device& gpu, const options& o, const std::vector<float>& image) {
  using model = mn::model<Network, mn::input<"image", mn::dtype::f32, mn::dims<1, 3, int{side}, int{side}>>>;
  mn::session<model> classify(gpu);
  if (o.weights.empty()) {
    classify.parameters().init({.seed = 1});
  } else if (o.model == "vit") {
    classify.parameters().load(o.weights);
  } else {
    classify.parameters().load(o.weights, {.ignore = "*.num_batches_tracked"});
  }
  return classify.run(mn::bind<"image">(image));
}

std::vector<std::string> read_labels(const std::string& path) {
  std::vector<std::string> labels;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) labels.push_back(line);
  if (labels.size() != classes) {
    throw std::runtime_error(fmt::format("{}: has {} lines, and there are {} classes", path, labels.size(), classes));
  }
  return labels;
}

int main(int argc, char** argv) try {
  const std::map<std::string, std::vector<float> (*)(const mn::device&, const options&, const std::vector<float>&)>
      networks{{"resnet18", logits<resnet::classifier<resnet::resnet18>>},
               {"resnet34", logits<resnet::classifier<resnet::resnet34>>},
               {"resnet50", logits<resnet::classifier<resnet::resnet50>>},
               {"resnet101", logits<resnet::classifier<resnet::resnet101>>},
               {"vit", logits<mn::models::vit::classifier<>>}};
  options o;
  CLI::App app("Names the five classes of ImageNet that a picture shows most likely.");
  app.add_option("image", o.image, "a picture, .png or .jpg; default: plain grey");
  app.add_option("--model", o.model)->check(CLI::IsMember(networks))->capture_default_str();
  app.add_option("--weights", o.weights, "its torchvision weights as .safetensors; default: random ones");
  app.add_option("--labels", o.labels, "names of the classes, one a line; default: their numbers");
  app.add_option("--device", o.device, "index, part of a name, or cpu");
  CLI11_PARSE(app, argc, argv);

  const std::vector<float> image = read_picture(o.image);
  const std::vector<std::string> labels = o.labels.empty() ? std::vector<std::string>() : read_labels(o.labels);
  const mn::device gpu({.device = o.device});
  fmt::print("device: {}\n", gpu.facts().name);
  if (o.weights.empty())
    fmt::print("The weights are random: what follows means nothing. --weights takes those of a file.\n");

  std::vector<float> chances = networks.at(o.model)(gpu, o, image);
  const float most = *std::ranges::max_element(chances);
  for (float& each : chances) each = std::exp(each - most);
  const float sum = std::accumulate(chances.begin(), chances.end(), 0.0f);
  std::vector<std::size_t> order(classes);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::partial_sort(order, order.begin() + 5, {}, [&](std::size_t i) { return -chances[i]; });
  for (const std::size_t i : std::span(order).first(5))
    fmt::print("{:6.2f} %  {}\n", 100 * chances[i] / sum, labels.empty() ? fmt::format("class {}", i) : labels[i]);
} catch (const std::exception& e) {
  fmt::print(stderr, "classify: {}\n", e.what());
  return 1;
}
