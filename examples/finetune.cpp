// SPDX-License-Identifier: MIT
// A classifier of digits learns from a hundred images to tell odd from even: ./dev example finetune
// ctest: --no-download --steps 20 --save finetune.safetensors --plot finetune.html
#include <meganeura/data/download.hpp>
#include <meganeura/data/metrics.hpp>
#include <meganeura/data/mnist.hpp>
#include <meganeura/data/run_log.hpp>
#include <meganeura/meganeura.hpp>

#include <CLI/CLI.hpp>

namespace mn = meganeura;

inline constexpr mn::dim batch = mn::sym<"batch">;

template <int Classes>
struct network {  // [batch, 784] -> [batch, classes]
  static constexpr auto forward(mn::value auto image) {
    auto h = mn::relu(mn::linear<"fc1", 128>(image));
    return mn::linear<"head", Classes>(mn::relu(mn::linear<"fc2", 64>(h)));
  }
};

template <int Classes>
struct adapted {  // the same, and to each layer what a product of two thin matrices adds
  static constexpr mn::lora_options thin{.rank = 4, .alpha = 8};
  static constexpr auto forward(mn::value auto image) {
    auto h = mn::relu(mn::lora_linear<"fc1", 128, thin>(image));
    return mn::linear<"head", Classes>(mn::relu(mn::lora_linear<"fc2", 64, thin>(h)));
  }
};

template <class Module>
using classifier = mn::model<Module, mn::input<"image", mn::dtype::f32, mn::dims<batch, 784>>>;

struct options {
  std::string data, device, save = "digits.safetensors", plot;
  std::uint32_t steps = 600;
  bool no_download = false;
};

// The first `most` images: 0 is even, 1 is odd.
mn::data::labelled_images parity(const mn::data::labelled_images& digits, std::size_t most) {
  mn::data::labelled_images result;
  for (std::size_t i = 0; i < std::min(most, digits.size()); ++i) {
    result.append(digits, i);
    result.labels.back() %= 2;
  }
  return result;
}

// Trains what `how` does not freeze, from the weights of a file unless that is empty, and says how good it becomes.
template <class Module>
mn::parameters train(const mn::device& gpu, const options& o, const std::string& name, const std::string& file,
                     const mn::data::labelled_images& images, const mn::data::labelled_images& test,
                     mn::data::run_log& log, const mn::training_options& how = {}) {
  using model = classifier<Module>;
  mn::trainer<model, mn::cross_entropy<"label">> fit(gpu, mn::adam{.learning_rate = 2e-3f}, {}, how);
  mn::parameters weights = fit.parameters();
  weights.init({.seed = 1});
  // The head is of other classes and begins anew, as does what the file does not have: LoRA's matrices.
  if (!file.empty()) weights.load(file, {.strict = false, .ignore = "head.*"});
  mn::data::loader batches(images, 32, {.shuffle = true, .seed = 1});
  while (fit.steps() < o.steps) {
    for (const auto& each : batches) {
      const float loss = fit.step(mn::bind<"image">(each.images), mn::bind<"label">(each.labels)).loss();
      log.add("loss/" + name, fit.steps(), loss);
      log.add("learning rate/" + name, fit.steps(), fit.learning_rate());
      log.add_speed("samples a second/" + name, fit.steps(), 32.0 * fit.steps());
      if (fit.steps() == o.steps) break;
    }
  }
  mn::session<model> classify(gpu, weights);
  mn::data::loader all(test, test.size());
  const auto* each = all.next();
  const std::vector<float> logits = classify.run(mn::bind<"image">(each->images));
  fmt::print("{:28} {:5} images, test accuracy {:.4f}\n", name, images.size(),
             mn::data::accuracy(logits, each->labels));
  return weights;
}

int main(int argc, char** argv) try {
  options o;
  CLI::App app("Fine-tunes a digit classifier to another question, with few images.");
  app.add_option("--data", o.data, "folder with the MNIST files; default: the usual places, see the README");
  app.add_flag("--no-download", o.no_download, "do not ask the network");
  app.add_option("--device", o.device, "index, part of a name, or cpu");
  app.add_option("--steps", o.steps, "of each training")->check(CLI::PositiveNumber);
  app.add_option("--save", o.save, "the classifier of ten digits, .safetensors");
  app.add_option("--plot", o.plot, "write the curves of the runs as a page, .html");
  CLI11_PARSE(app, argc, argv);

  const auto digits = mn::data::load_mnist(
      {.directory = o.data, .download = o.no_download ? mn::data::downloader() : mn::data::download, .draw = true});
  const mn::device gpu({.device = o.device});
  fmt::print("{}\ndevice: {}\n", digits.source, gpu.facts().name);
  mn::data::run_log log;
  train<network<10>>(gpu, o, "ten digits", "", digits.train, digits.test, log).save(o.save);

  const auto few = parity(digits.train, 100), test = parity(digits.test, digits.test.size());
  train<network<2>>(gpu, o, "odd or even, from nothing", "", few, test, log);
  train<network<2>>(gpu, o, "odd or even, head alone", o.save, few, test, log, {.frozen = "fc*"});
  train<network<2>>(gpu, o, "odd or even, everything", o.save, few, test, log);
  train<adapted<2>>(gpu, o, "odd or even, head and LoRA", o.save, few, test, log,
                    {.frozen = {"fc*.weight", "fc*.bias"}});
  if (!o.plot.empty()) log.save_page(o.plot, "fine-tuning");
} catch (const std::exception& e) {
  fmt::print(stderr, "finetune: {}\n", e.what());
  return 1;
}
