// SPDX-License-Identifier: MIT
// Whisper writes what is said in a WAV file: ./dev example transcribe speech.wav --weights model.safetensors
// ctest: --tokens 8
#include <meganeura/data/bpe.hpp>
#include <meganeura/data/spectrogram.hpp>
#include <meganeura/data/wav.hpp>
#include <meganeura/meganeura.hpp>
#include <meganeura/models/whisper.hpp>

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <array>
#include <cmath>

namespace mn = meganeura;
namespace whisper = mn::models::whisper;

// One model listens to 30 seconds and keeps what it heard as state; the other writes, a few tokens at a time.
inline constexpr whisper::config network = whisper::tiny;
using listener = mn::model<whisper::listener<network>,
                           mn::input<"spectrogram", mn::dtype::f32, mn::dims<1, network.mels, network.frames>>>;
using writer =
    mn::model<whisper::writer<network>, mn::input<"tokens", mn::dtype::i32, mn::dims<mn::sym<"t", network.context>>>,
              mn::input<"position", mn::dtype::i32, mn::dims<>>>;

// Tokens of the published multilingual models. Below the first one is text; above are languages, tasks and times.
inline constexpr std::int32_t end_of_text = 50257, space = 220;
// <|startoftranscript|><|en|><|transcribe|><|notimestamps|>
inline constexpr std::array<std::int32_t, 4> prompt{50258, 50259, 50359, 50363};

// The likeliest token behind the last one. A text does not begin with its end.
std::int32_t likeliest(const std::vector<float>& logits, bool first) {
  const std::size_t begin = logits.size() - network.vocab;
  std::int32_t best = first ? 0 : end_of_text;
  for (std::int32_t token = 0; token < end_of_text; ++token) {
    const auto of = [&](std::int32_t each) { return logits[begin + static_cast<std::size_t>(each)]; };
    if (of(token) > of(best) && !(first && token == space)) best = token;
  }
  return best;
}

int main(int argc, char** argv) try {
  std::string file, weights_file, vocabulary, device;
  std::size_t most = 224;
  CLI::App app("Writes what is said in English in a WAV file.");
  app.add_option("sound", file, "speech, .wav; default: a tone that rises");
  app.add_option("--weights", weights_file, "model.safetensors of openai/whisper-tiny; default: random ones");
  app.add_option("--vocab", vocabulary, "its vocab.json; default: numbers of tokens are printed");
  app.add_option("--tokens", most, "at most, of 30 seconds")->check(CLI::Range(1, network.context - 4));
  app.add_option("--device", device, "index, part of a name, or cpu");
  CLI11_PARSE(app, argc, argv);

  mn::data::sound sound{mn::data::log_mel_rate, {}};
  if (file.empty()) {
    for (int i = 0; i < 32000; ++i)
      sound.samples.push_back(std::sin(1e-5f * static_cast<float>(i) * static_cast<float>(i)));
  } else {
    sound = mn::data::read_wav(file);
  }
  const std::vector<float> samples = mn::data::resample(sound.samples, sound.rate, mn::data::log_mel_rate);
  std::optional<mn::data::bpe_tokenizer> words;
  if (!vocabulary.empty()) words = mn::data::bpe_tokenizer::read(vocabulary);

  const mn::device gpu({.device = device});
  fmt::print("device: {}\n{:.1f} s of sound\n", gpu.facts().name,
             static_cast<double>(samples.size()) / mn::data::log_mel_rate);
  // Both models share the weights, and the states between them.
  mn::graph both;
  const mn::symbol_extent any[] = {{"t", 1}};
  mn::lower_into<listener>(both, {});
  mn::lower_into<writer>(both, any);
  mn::parameters weights(gpu, both);
  if (weights_file.empty()) {
    weights.init({.seed = 1});
    fmt::print("The weights are random: what follows means nothing. --weights takes those of a file.\n");
  } else {
    weights.load(weights_file);
  }
  mn::session<listener> listens(gpu, weights);
  mn::session<writer> writes(gpu, weights);

  constexpr std::size_t window = std::size_t{network.frames} * mn::data::log_mel_hop;  // 30 s
  for (std::size_t begin = 0; begin < samples.size(); begin += window) {
    const auto part = std::span(samples).subspan(begin, std::min(window, samples.size() - begin));
    listens.start(mn::bind<"spectrogram">(mn::data::log_mel_spectrogram(part, {.mels = network.mels})));
    std::vector<std::int32_t> text;
    std::vector<float> logits = writes.run(mn::bind<"tokens">(prompt), mn::bind<"position">(std::array{0}));
    while (text.size() < most) {
      const std::int32_t token = likeliest(logits, text.empty());
      if (token == end_of_text) break;
      text.push_back(token);
      const auto position = static_cast<std::int32_t>(prompt.size() + text.size() - 1);
      logits = writes.run(mn::bind<"tokens">(std::array{token}), mn::bind<"position">(std::array{position}));
    }
    fmt::print("[{:.0f} s] {}\n", static_cast<double>(begin) / mn::data::log_mel_rate,
               words ? words->decode(text) : fmt::format("{}", fmt::join(text, " ")));
  }
} catch (const std::exception& e) {
  fmt::print(stderr, "transcribe: {}\n", e.what());
  return 1;
}
