// SPDX-License-Identifier: MIT
// Stable Diffusion 1.5 draws what a text says: ./dev example diffuse "a red apple on a table" --weights FOLDER
// ctest: --tiny --steps 4
#include <meganeura/data/bpe.hpp>
#include <meganeura/data/png.hpp>
#include <meganeura/meganeura.hpp>
#include <meganeura/models/autoencoder_kl.hpp>
#include <meganeura/models/clip_text.hpp>
#include <meganeura/models/stable_diffusion.hpp>

#include <CLI/CLI.hpp>

#include <array>
#include <cmath>
#include <random>

namespace mn = meganeura;
namespace autoencoder_kl = mn::models::autoencoder_kl;
namespace clip_text = mn::models::clip_text;
namespace stable_diffusion = mn::models::stable_diffusion;

struct options {
  std::string text = "a red apple on a table", weights, picture = "diffused.png", device;
  int steps = 20;
  int size = 512;
  std::uint64_t seed = 1;
  float guidance = 7.5f;
  bool tiny = false;
};

// The three networks: one reads the text, one finds the noise in a latent image, one makes a picture of it.
template <int Size>
struct published {
  static constexpr int side = Size / 8;  // a latent image is 8 times smaller than the picture
  static constexpr clip_text::config text{};
  static constexpr stable_diffusion::config denoiser{};
  static constexpr autoencoder_kl::config picture{};
};
struct small {
  static constexpr int side = 8;
  static constexpr clip_text::config text{.layers = 2, .width = 32, .heads = 4, .hidden = 64};
  static constexpr stable_diffusion::config denoiser{
      .widths = {16, 32}, .blocks = 1, .context = 32, .heads = 2, .groups = 8};
  static constexpr autoencoder_kl::config picture{.widths = {16, 16, 8, 8}, .blocks = 1, .groups = 8};
};

// Two latent images go through the denoiser at once, one for the text and one for none.
template <class Networks>
using reader = mn::model<clip_text::encoder<Networks::text>,
                         mn::input<"tokens", mn::dtype::i32, mn::dims<2, Networks::text.positions>>>;
template <class Networks>
using denoiser =
    mn::model<stable_diffusion::unet<Networks::denoiser>,
              mn::input<"latent", mn::dtype::f32, mn::dims<2, 4, Networks::side, Networks::side>>,
              mn::input<"timestep", mn::dtype::f32, mn::dims<2>>,
              mn::input<"context", mn::dtype::f32, mn::dims<2, Networks::text.positions, Networks::denoiser.context>>>;
template <class Networks>
using painter = mn::model<autoencoder_kl::decoder<Networks::picture>,
                          mn::input<"latent", mn::dtype::f32, mn::dims<1, 4, Networks::side, Networks::side>>>;

// An empty text and this one, [2, 77]: <|startoftext|>, the words, and <|endoftext|> to the end.
std::vector<std::int32_t> read_text(const options& o) {
  constexpr std::size_t positions = 77;
  constexpr std::int32_t start = 49406, end = 49407;
  std::vector<std::int32_t> tokens(2 * positions, end);
  tokens[0] = tokens[positions] = start;
  if (o.weights.empty()) {  // and no vocabulary: bytes
    for (std::size_t i = 0; i < std::min(o.text.size(), positions - 2); ++i)
      tokens[positions + 1 + i] = static_cast<unsigned char>(o.text[i]);
    return tokens;
  }
  const std::string folder = o.weights + "/tokenizer/";
  const auto words = mn::data::bpe_tokenizer::read(folder + "vocab.json", folder + "merges.txt", {.clip = true});
  std::vector<std::int32_t> text = words.encode(o.text);
  if (text.size() > positions - 2) {
    fmt::print("The text has {} tokens; the first {} are read.\n", text.size(), positions - 2);
    text.resize(positions - 2);
  }
  std::ranges::copy(text, tokens.begin() + positions + 1);
  return tokens;
}

// Of a session's network: what the folder has, or random ones.
void set_weights(mn::parameters weights, const options& o, const std::string& file, const mn::load_options& how = {}) {
  if (o.weights.empty()) {
    weights.init({.seed = o.seed});
  } else {
    weights.load(o.weights + "/" + file, how);
  }
}

// How much of the image is left at each of a thousand steps of noise, as a share of the variance.
std::vector<double> shares_of_image() {
  constexpr int steps = 1000;
  std::vector<double> result;
  double left = 1;
  for (int i = 0; i < steps; ++i) {
    const double root = std::sqrt(0.00085) + (std::sqrt(0.012) - std::sqrt(0.00085)) * i / (steps - 1);
    result.push_back(left *= 1 - root * root);
  }
  return result;
}

template <class Networks>
void draw(const options& o) {
  const std::vector<std::int32_t> tokens = read_text(o);
  const mn::device gpu({.device = o.device});
  fmt::print("device: {}\n", gpu.facts().name);
  if (o.weights.empty())
    fmt::print("The weights are random: what is drawn means nothing. --weights takes those of a folder.\n");

  std::vector<float> context;
  {
    mn::session<reader<Networks>> reads(gpu);
    set_weights(reads.parameters(), o, "text_encoder/model.safetensors", {.ignore = "*.position_ids"});
    context = reads.run(mn::bind<"tokens">(tokens));
  }

  // Noise, from which the denoiser's is taken step by step. source: Denoising Diffusion Implicit Models, arXiv
  // 2010.02502; of guidance: arXiv 2207.12598.
  const std::size_t count = std::size_t{4} * Networks::side * Networks::side;
  std::vector<float> latent(count), both(2 * count);
  std::mt19937_64 bits(o.seed);
  std::normal_distribution<float> normal;
  for (float& each : latent) each = normal(bits);
  {
    const std::vector<double> share = shares_of_image();
    mn::session<denoiser<Networks>> finds(gpu);
    set_weights(finds.parameters(), o, "unet/diffusion_pytorch_model.safetensors");
    const int stride = 1000 / o.steps;
    for (int step = 1; step <= o.steps; ++step) {
      const int time = (o.steps - step) * stride + 1, next = time - stride;
      std::ranges::copy(latent, both.begin());
      std::ranges::copy(latent, both.begin() + static_cast<std::ptrdiff_t>(count));
      const std::array<float, 2> times{static_cast<float>(time), static_cast<float>(time)};
      const std::vector<float> noise =
          finds.run(mn::bind<"latent">(both), mn::bind<"timestep">(times), mn::bind<"context">(context));
      const double now = share[static_cast<std::size_t>(time)],
                   then = share[static_cast<std::size_t>(std::max(next, 0))];
      for (std::size_t i = 0; i < count; ++i) {
        const double found = noise[i] + o.guidance * (noise[count + i] - noise[i]);
        const double image = (latent[i] - std::sqrt(1 - now) * found) / std::sqrt(now);
        latent[i] = static_cast<float>(std::sqrt(then) * image + std::sqrt(1 - then) * found);
      }
      fmt::print("step {} of {}\n", step, o.steps);
    }
  }

  for (float& each : latent) each /= Networks::picture.scale;
  mn::session<painter<Networks>> paints(gpu);
  set_weights(paints.parameters(), o, "vae/diffusion_pytorch_model.safetensors",
              {.rename = mn::models::autoencoder_kl::published, .ignore = {"encoder.*", "quant_conv.*"}});
  std::vector<float> picture = paints.run(mn::bind<"latent">(latent));
  for (float& each : picture) each = 0.5f + 0.5f * each;
  mn::data::write_png(o.picture, picture, {3, 8 * Networks::side, 8 * Networks::side});
  fmt::print("{}: {}\n", o.picture, o.text);
}

int main(int argc, char** argv) try {
  options o;
  CLI::App app("Draws what a text says.");
  app.add_option("text", o.text, "what is to be seen")->capture_default_str();
  app.add_option("--weights", o.weights, "folder of Stable Diffusion 1.5 as published; default: random ones");
  app.add_flag("--tiny", o.tiny, "small networks with random weights, 64 pixels, to see that it runs");
  app.add_option("--steps", o.steps)->check(CLI::Range(1, 999))->capture_default_str();
  app.add_option("--size", o.size, "of the picture in pixels")->check(CLI::IsMember({256, 512}))->capture_default_str();
  app.add_option("--seed", o.seed, "of the noise")->capture_default_str();
  app.add_option("--guidance", o.guidance, "how much more the text counts than none")->capture_default_str();
  app.add_option("--picture", o.picture, "what is drawn, .png")->capture_default_str();
  app.add_option("--device", o.device, "index, part of a name, or cpu");
  CLI11_PARSE(app, argc, argv);
  if (o.tiny && !o.weights.empty()) throw std::runtime_error("--tiny has random weights: leave --weights out");
  mn::io::check_writable(o.picture);  // better now than after the last step
  if (o.tiny) {
    draw<small>(o);
  } else if (o.size == 256) {
    draw<published<256>>(o);
  } else {
    draw<published<512>>(o);
  }
} catch (const std::exception& e) {
  fmt::print(stderr, "diffuse: {}\n", e.what());
  return 1;
}
