// SPDX-License-Identifier: MIT
// Squeezes digits through a few numbers and draws what comes out: ./dev example autoencoder --picture digits.png
// ctest: --no-download --steps 40 --picture digits.png --plot autoencoder.html
#include <meganeura/data/download.hpp>
#include <meganeura/data/mnist.hpp>
#include <meganeura/data/png.hpp>
#include <meganeura/data/run_log.hpp>
#include <meganeura/meganeura.hpp>

#include <CLI/CLI.hpp>

namespace mn = meganeura;

inline constexpr mn::dim batch = mn::sym<"batch">;

struct encoder {  // [batch, 784] -> [batch, 16]
  static constexpr auto forward(mn::value auto image) {
    return mn::linear<"code", 16>(mn::relu(mn::linear<"hidden", 128>(image)));
  }
};

struct decoder {
  static constexpr auto forward(mn::value auto code) {
    return mn::sigmoid(mn::linear<"image", 784>(mn::relu(mn::linear<"hidden", 128>(code))));
  }
};

struct autoencoder {
  static constexpr auto forward(mn::value auto image) {
    return mn::call<"decoder", decoder>(mn::call<"encoder", encoder>(image));
  }
};
using model = mn::model<autoencoder, mn::input<"image", mn::dtype::f32, mn::dims<batch, 784>>>;

int main(int argc, char** argv) try {
  std::string data, device, picture = "digits.png", plot;
  std::uint32_t steps = 2000;
  bool no_download = false;
  CLI::App app("Trains an autoencoder of digits and draws ten of them above their reconstructions.");
  app.add_option("--data", data, "folder with the MNIST files; default: the usual places, see the README");
  app.add_flag("--no-download", no_download, "do not ask the network");
  app.add_option("--device", device, "index, part of a name, or cpu");
  app.add_option("--steps", steps)->check(CLI::PositiveNumber);
  app.add_option("--picture", picture, "what is drawn, .png");
  app.add_option("--plot", plot, "write the curves of the run as a page, .html");
  CLI11_PARSE(app, argc, argv);
  mn::io::check_writable(picture);  // better now than after the training

  const auto digits = mn::data::load_mnist(
      {.directory = data, .download = no_download ? mn::data::downloader() : mn::data::download, .draw = true});
  const mn::device gpu({.device = device});
  fmt::print("{}\ndevice: {}\n", digits.source, gpu.facts().name);

  // The target is the model's own input.
  mn::trainer<model, mn::mean_squared_error<"image">> fit(gpu, mn::adam{.learning_rate = 2e-3f}, {{"batch", 64}},
                                                          {.schedule = mn::cosine_decay(steps, 0.1)});
  fit.parameters().init({.seed = 1});
  mn::data::loader batches(digits.train, 64, {.shuffle = true, .seed = 1});
  mn::progress line(stdout, 1, std::size_t{64} * steps);
  mn::data::run_log log;
  float loss = 0;
  for (const auto& each : batches.take(steps)) {
    log.add("learning rate", fit.steps(), fit.learning_rate());
    loss = fit.step(mn::bind<"image">(each.images)).loss();
    log.add("loss", fit.steps(), loss);
    log.add_speed("samples a second", fit.steps(), 64.0 * fit.steps());
    line.update(std::size_t{64} * fit.steps(), loss);
  }
  line.finish_epoch(loss);
  if (!plot.empty()) log.save_page(plot, "autoencoder");

  mn::session<model> redraw(gpu, fit.parameters());
  mn::data::loader some(digits.test, 10);
  std::vector<float> images = some.next()->images;
  const std::vector<float> redrawn = redraw.run(mn::bind<"image">(images));
  images.insert(images.end(), redrawn.begin(), redrawn.end());
  mn::data::write_png(picture, images, {1, 28, 28}, 10);
  fmt::print("{}: ten digits of the test set, and below what 16 numbers say of each\n", picture);
} catch (const std::exception& e) {
  fmt::print(stderr, "autoencoder: {}\n", e.what());
  return 1;
}
