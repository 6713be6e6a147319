// SPDX-License-Identifier: MIT
// Trains a digit classifier: ./dev demo [--model cnn] [--data DIR] [--epochs N] [--save model.safetensors]
// ctest: --epochs 1 --no-download --plot mnist.html
#include <meganeura/data/download.hpp>
#include <meganeura/data/metrics.hpp>
#include <meganeura/data/mnist.hpp>
#include <meganeura/data/run_log.hpp>
#include <meganeura/meganeura.hpp>

#include <CLI/CLI.hpp>

namespace mn = meganeura;

inline constexpr mn::dim batch = mn::sym<"batch">;

struct mlp {  // [batch, 784] -> [batch, 10]
  static constexpr auto forward(mn::value auto image) {
    return mn::linear<"fc2", 10>(mn::relu(mn::linear<"fc1", 128>(image)));
  }
};

struct cnn {
  static constexpr mn::conv2d_options same{.kernel = 3, .padding = 1};
  static constexpr auto forward(mn::value auto image) {
    auto x = mn::reshape<mn::dims<batch, 1, 28, 28>>(image);
    auto h = mn::max_pool2d<>(mn::relu(mn::conv2d<"conv1", 8, same>(x)));
    auto y = mn::max_pool2d<>(mn::relu(mn::conv2d<"conv2", 16, same>(h)));
    return mn::linear<"fc", 10>(mn::flatten(y));
  }
};

template <class Module>
using classifier = mn::model<Module, mn::input<"image", mn::dtype::f32, mn::dims<batch, 784>>>;
static_assert(classifier<mlp>::output == mn::dims<batch, 10>);
static_assert(classifier<mlp>::parameter_count == 784 * 128 + 128 + 128 * 10 + 10);

struct options {
  std::string model = "mlp", data, device, save, plot;
  std::size_t epochs = 5, batch = 32;
  float rate = 0;  // 0: what suits the model
  std::uint64_t seed = 1;
  bool no_download = false, real = false;
};

template <class Model>
double accuracy(const mn::device& gpu, const mn::parameters& weights, const mn::data::labelled_images& test) {
  mn::session<Model> classify(gpu, weights);
  mn::data::running_mean right;
  for (const auto& each : mn::data::loader(test, 500, {.last = mn::data::keep})) {
    const auto logits = classify.run(mn::bind<"image">(each.images));
    right.add(mn::data::accuracy(logits, each.labels), static_cast<double>(each.labels.size()));
  }
  return right.mean();
}

template <class Model>
void train(const options& o) {
  const auto digits = mn::data::load_mnist(
      {.directory = o.data, .download = o.no_download ? mn::data::downloader() : mn::data::download, .draw = !o.real});
  mn::device gpu({.device = o.device});
  fmt::print("{}\ndevice: {}\n", digits.source, gpu.facts().name);
  const float rate = o.rate > 0 ? o.rate : o.model == "cnn" ? 3e-3f : 1e-3f;
  mn::trainer<Model, mn::cross_entropy<"label">> run(gpu, mn::adam{.learning_rate = rate},
                                                     {{"batch", static_cast<std::int64_t>(o.batch)}},
                                                     {.program = {.checks = mn::checks::all}});
  run.parameters().init({.seed = o.seed});
  fmt::print("{} parameters, {} kernels in {} groups, ready in {:.0f} ms\n", Model::parameter_count,
             run.program().plan().steps.size(), run.program().plan().groups, run.program().times().total());

  mn::data::loader batches(digits.train, o.batch, {.shuffle = true, .seed = o.seed});
  mn::data::run_log log;
  mn::progress line(stdout, o.epochs, batches.per_epoch() * o.batch);
  for (std::size_t epoch = 0; epoch < o.epochs; ++epoch) {
    float sum = 0;
    for (const auto& each : batches) {
      const float loss = run.step(mn::bind<"image">(each.images), mn::bind<"label">(each.labels)).loss();
      line.update(batches.position().batch * o.batch, loss);
      sum += loss;
      log.add("loss", run.steps(), loss);
      log.add("learning rate", run.steps(), run.learning_rate());
      log.add_speed("samples a second", run.steps(), static_cast<double>(run.steps() * o.batch));
    }
    line.finish_epoch(sum / static_cast<float>(batches.per_epoch()));
    if (!o.plot.empty()) log.save_page(o.plot, "mnist, " + o.model);
  }
  if (!o.save.empty()) run.parameters().save(o.save);
  fmt::print("test accuracy: {:.4f}\n", accuracy<Model>(gpu, run.parameters(), digits.test));
}

int main(int argc, char** argv) try {
  options o;
  CLI::App app("Trains a handwritten-digit classifier on any Vulkan device.");
  app.add_option("--model", o.model, "mlp or cnn")->check(CLI::IsMember({"mlp", "cnn"}));
  app.add_option("--data", o.data, "folder with the MNIST files; default: the usual places, see the README");
  app.add_flag("--no-download", o.no_download, "do not ask the network");
  app.add_flag("--real", o.real, "stop where MNIST is not to be had, instead of drawing digits");
  app.add_option("--device", o.device, "index, part of a name, or cpu");
  app.add_option("--epochs", o.epochs)->check(CLI::PositiveNumber);
  app.add_option("--batch", o.batch)->check(CLI::Range(1, 8000));
  app.add_option("--learning-rate", o.rate);
  app.add_option("--seed", o.seed);
  app.add_option("--save", o.save, "write the trained parameters as .safetensors");
  app.add_option("--plot", o.plot, "write the curves of the run as a page, .html, after each epoch");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) != 0;  // --help is 0
  }
  if (!(o.rate >= 0)) throw std::invalid_argument("--learning-rate must be a positive number");
  if (!o.save.empty()) mn::io::check_writable(o.save);  // better now than after the training
  if (!o.plot.empty()) mn::io::check_writable(o.plot);
  o.model == "cnn" ? train<classifier<cnn>>(o) : train<classifier<mlp>>(o);
} catch (const std::exception& e) {
  fmt::print(stderr, "mnist: {}\n", e.what());
  return 1;
}
