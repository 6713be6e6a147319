// SPDX-License-Identifier: MIT
// A character GPT on Shakespeare's plays, or any text: shakespeare [--text FILE] [--steps N], --resume, --write 500
// ctest: --text @CMAKE_CURRENT_SOURCE_DIR@/shakespeare.cpp --layers 1 --width 16 --context 16 --steps 20 --length 40
#include <meganeura/data/metrics.hpp>
#include <meganeura/data/random.hpp>
#include <meganeura/data/run_log.hpp>
#include <meganeura/data/tokens.hpp>
#include <meganeura/io/file.hpp>
#include <meganeura/io/user_folder.hpp>
#include <meganeura/meganeura.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>

namespace mn = meganeura;

struct options {
  std::int64_t layers = 0, width = 0, heads = 0, context = 0, batch = 0;  // 0: what suits the device
  double dropout = -1;
  std::uint32_t steps = 0, report = 250;
  float rate = 0;
  std::uint64_t seed = 1;
  std::string text, device, checkpoint = "shakespeare.safetensors", best = "shakespeare.best.safetensors",
                            prompt = "\n", plot;
  std::size_t length = 300;
  float temperature = 0.8f;
  bool resume = false, write = false;
};

// Sizes are known when the program runs, so the model is a graph of run time: functions of models, with arguments.
inline constexpr mn::initializer small = mn::init::normal(0, 0.1);  // beside what the layers add

mn::node_value dropped(const char* name, mn::node_value x, const options& o) {
  return o.dropout > 0 ? mn::dropout(name, x, o.dropout) : x;
}

mn::node_value block(const std::string& name, mn::node_value x, const options& o) {
  const mn::multi_head_options causal{.causal = true, .dropout = static_cast<float>(o.dropout)};
  const mn::graph::scope inside(x.owner(), name);
  const auto h = x + dropped("drop1", mn::multi_head_attention("attn", mn::layer_norm("norm1", x), o.heads, causal), o);
  const auto wide = mn::gelu(mn::linear("expand", mn::layer_norm("norm2", h), 4 * o.width));
  return h + dropped("drop2", mn::linear("shrink", wide, o.width), o);
}

// [batch, context] -> [batch, context, vocabulary]
mn::node_value gpt(mn::graph& g, std::int64_t batch, std::int64_t vocabulary, const options& o) {
  const mn::node_value tokens(g, g.input("tokens", mn::dtype::i32, {batch, o.context}));
  const mn::node_value place(g, g.parameter("place.weight", mn::dtype::f32, {o.context, o.width}, small));
  const auto begun =
      mn::embedding("embed", tokens, vocabulary, o.width, mn::embedding_options{.weight = small}) + place;
  auto x = dropped("drop", begun, o);
  for (std::int64_t i = 0; i < o.layers; ++i) x = block("layers." + std::to_string(i), x, o);
  return mn::linear("head", mn::layer_norm("norm", x), vocabulary);
}

std::int32_t drawn(std::span<const float> logits, float temperature, mn::data::random_numbers& random) {
  const float most = *std::ranges::max_element(logits);
  std::vector<double> up_to;  // this one, of what is not yet divided by the sum
  for (const float logit : logits)
    up_to.push_back((up_to.empty() ? 0 : up_to.back()) + std::exp(double{(logit - most) / temperature}));
  const auto chosen = std::ranges::upper_bound(up_to, random.between(0, up_to.back()));
  return static_cast<std::int32_t>(std::min(chosen - up_to.begin(), std::ssize(up_to) - 1));
}

std::string written(mn::inference& model, const mn::data::text_vocabulary& characters, const options& o,
                    std::uint64_t seed) {
  mn::data::random_numbers random(seed);
  std::vector<std::int32_t> tokens = characters.encode(o.prompt);
  for (std::size_t i = 0; i < o.length; ++i) {
    const auto known = std::min(std::ssize(tokens), static_cast<std::ptrdiff_t>(o.context));
    std::vector<std::int32_t> seen(tokens.end() - known, tokens.end());
    seen.resize(static_cast<std::size_t>(o.context));  // no position sees what stands behind it
    const std::vector<float> logits = model.run({{"tokens", seen}});
    const std::size_t last = static_cast<std::size_t>(known - 1) * characters.size();
    tokens.push_back(drawn(std::span(logits).subspan(last, characters.size()), o.temperature, random));
  }
  return characters.decode(tokens);
}

double validation_loss(mn::training& fit, const mn::data::token_sequence& text, const options& o) {
  mn::data::loader batches(text.windows(static_cast<std::size_t>(o.context)), static_cast<std::size_t>(o.batch),
                           {.shuffle = true});  // the same each time
  mn::data::running_mean mean;
  for (const auto& each : batches) {
    mean.add(fit.evaluate({{"tokens", each.tokens}, {"label", each.labels}}));
    if (mean.count() == 20) break;
  }
  return mean.mean();
}

volatile std::sig_atomic_t interrupted = 0;

// `least`: the validation loss of the best weights so far. A text this short is learned by heart in the end.
void train(mn::training& fit, mn::inference& writer, const mn::data::text_vocabulary& characters,
           const mn::data::token_sequence& training, const mn::data::token_sequence& validation, double least,
           const options& o) {
  mn::data::loader batches(training.windows(static_cast<std::size_t>(o.context), 1), static_cast<std::size_t>(o.batch),
                           {.shuffle = true, .seed = o.seed});
  batches.skip(fit.batches());
  const std::size_t before = fit.steps(), each_step = static_cast<std::size_t>(o.batch * o.context);
  mn::progress line(stdout, 1, (std::max<std::size_t>(o.steps, before + 1) - before) * each_step);
  mn::data::run_log log;
  mn::data::running_mean mean;
  auto begun = std::chrono::steady_clock::now();
  for (const auto& batch : batches.take(o.steps - std::min<std::size_t>(o.steps, before))) {
    if (interrupted != 0) break;
    const double rate = fit.learning_rate();
    const float loss = fit.step({{"tokens", batch.tokens}, {"label", batch.labels}}).loss();
    line.update((fit.steps() - before) * each_step, loss);
    log.add("loss/training", fit.steps(), loss);
    log.add("learning rate", fit.steps(), rate);
    log.add_speed("characters a second", fit.steps(), static_cast<double>(fit.steps() * each_step));
    mean.add(loss);
    if (fit.steps() % o.report != 0 && fit.steps() != o.steps) continue;
    const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - begun;
    const double checked = validation_loss(fit, validation, o);
    log.add("loss/validation", fit.steps(), checked);
    const bool is_best = checked < least;
    if (is_best) fit.parameters().save(o.best);
    least = std::min(least, checked);
    line.clear();
    fmt::print("step {}: loss {:.4f}, validation {:.4f}{}, {:.1f} ms a step\n{}\n", fit.steps(), mean.mean(), checked,
               is_best ? ", the best so far" : "", passed.count() / mean.count(),
               written(writer, characters, o, fit.steps()));
    std::fflush(stdout);
    fit.save_checkpoint(o.checkpoint);
    if (!o.plot.empty()) log.save_page(o.plot, "shakespeare");
    mean.clear();
    begun = std::chrono::steady_clock::now();
  }
  line.clear();
  fit.save_checkpoint(o.checkpoint);
  if (std::isfinite(least)) fmt::print("least validation loss: {:.4f}; its weights are in {}\n", least, o.best);
  if (interrupted != 0) fmt::print("stopped after step {}; --resume goes on\n", fit.steps());
}

// What was not asked for suits the device.
void complete(options& o, bool gpu) {
  const auto choose = [&](auto member, auto on_gpu, auto on_cpu) {
    if (o.*member == options().*member) o.*member = gpu ? on_gpu : on_cpu;
  };
  choose(&options::layers, 6, 2);
  choose(&options::width, 384, 64);
  choose(&options::heads, 6, 2);
  choose(&options::context, 256, 32);
  choose(&options::batch, 64, 16);
  choose(&options::steps, 5000u, 1000u);
  choose(&options::rate, 1e-3f, 8e-3f);
  choose(&options::dropout, 0.2, 0.0);
}

void run(options o) {
  const auto bytes = mn::io::read_file(o.text);
  const std::string text(bytes.begin(), bytes.end());
  const auto characters = mn::data::text_vocabulary::characters_of(text);
  const mn::device gpu({.device = o.device});
  complete(o, gpu.facts().type != mn::vulkan::device_type::cpu);
  const auto vocabulary = static_cast<std::int64_t>(characters.size());

  const auto step = [&](const mn::symbol_extents&, mn::run_mode mode) -> mn::graph_with_loss {
    mn::graph g(mode);
    const mn::node_value logits = gpt(g, o.batch, vocabulary, o);
    const mn::node_value label(g, g.input("label", mn::dtype::i32, {o.batch, o.context}));
    const mn::node_id loss = mn::cross_entropy_loss(logits, label);
    return {std::move(g), loss};
  };
  mn::training fit(gpu, {mn::open_sizes(), step},
                   mn::adamw{.learning_rate = o.rate, .beta2 = 0.99f, .weight_decay = 0.1f},
                   {.seed = o.seed,
                    .clip_norm = 1,
                    .no_decay = {"*bias", "*norm*"},
                    .schedule = mn::warmup_cosine(100, std::max(o.steps, 101u), 0.1)});
  fit.prepare({});
  fit.parameters().init({.seed = o.seed});
  const std::vector<std::int32_t> tokens = characters.encode(text);
  const auto most = static_cast<std::ptrdiff_t>(tokens.size() / 10 * 9);
  const mn::data::token_sequence training({tokens.begin(), tokens.begin() + most});
  const mn::data::token_sequence validation({tokens.begin() + most, tokens.end()});
  double least = std::numeric_limits<double>::infinity();
  if (o.write || (o.resume && std::filesystem::exists(o.best))) fit.parameters().load(o.best);
  if (o.resume && std::filesystem::exists(o.best)) least = validation_loss(fit, validation, o);
  if (o.resume) fit.load_checkpoint(o.checkpoint);
  fmt::print("device: {}\n{} characters, {} different ones; {} parameters\n", gpu.facts().name, text.size(),
             characters.size(), fit.parameters().count());

  mn::graph one;
  one.add_output("logits", gpt(one, 1, vocabulary, o));
  mn::inference writer(gpu, one, {}, fit.parameters());
  if (!o.write) return train(fit, writer, characters, training, validation, least, o);
  fmt::print("{}\n", written(writer, characters, o, o.seed));
}

int main(int argc, char** argv) try {
  options o;
  if (const std::string folder = mn::io::environment("MEGANEURA_DATA"); !folder.empty())
    o.text = folder + "/tinyshakespeare.txt";
  CLI::App app("Trains a character GPT on a text and writes more of it.");
  app.add_option("--text", o.text, "any UTF-8 text; default: $MEGANEURA_DATA/tinyshakespeare.txt")
      ->required(o.text.empty());
  app.add_option("--device", o.device, "index, part of a name, or cpu");
  app.add_option("--layers", o.layers, "this and what else has no default here: what suits the device");
  app.add_option("--width", o.width);
  app.add_option("--heads", o.heads);
  app.add_option("--context", o.context, "characters that the model sees");
  app.add_option("--batch", o.batch);
  app.add_option("--dropout", o.dropout);
  app.add_option("--steps", o.steps)->check(CLI::PositiveNumber);
  app.add_option("--report", o.report, "steps from one line and sample to the next")->check(CLI::PositiveNumber);
  app.add_option("--learning-rate", o.rate);
  app.add_option("--seed", o.seed);
  app.add_option("--checkpoint", o.checkpoint, "written at each report, at the end and when Ctrl-C ends the run");
  app.add_option("--best", o.best, "the weights of the least validation loss, which --write reads");
  app.add_option("--plot", o.plot, "write the curves of the run as a page, .html, at each report");
  app.add_flag("--resume", o.resume, "go on from the checkpoint as if nothing had happened");
  app.add_flag("--write", o.write, "train nothing: write what the best weights write");
  app.add_option("--prompt", o.prompt);
  app.add_option("--length", o.length, "characters of a sample");
  app.add_option("--temperature", o.temperature)->check(CLI::Range(0.01, 100.0));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) != 0;  // --help is 0
  }
  for (const std::string& path : {o.checkpoint, o.best, o.plot})  // better now than after the training
    if (!o.write && !path.empty()) mn::io::check_writable(path);
  std::signal(SIGINT, [](int) {
    interrupted = 1;
    std::signal(SIGINT, SIG_DFL);  // a second one ends at once
  });
  run(o);
} catch (const std::exception& e) {
  fmt::print(stderr, "shakespeare: {}\n", e.what());
  return 1;
}
