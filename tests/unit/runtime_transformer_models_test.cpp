// SPDX-License-Identifier: MIT
// Tiny transformers of the zoo against float64 references, and texts that are run in pieces.
#include <meganeura/expr/lower.hpp>
#include <meganeura/models/bert.hpp>
#include <meganeura/models/gpt2.hpp>
#include <meganeura/models/vit.hpp>
#include <meganeura/models/whisper.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/runtime/session.hpp>

#include <support/inferena_reference.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace meganeura;
using support::bound;
using support::wave;

// What a bias of keys adds to all scores of a query changes nothing: its gradient is what rounding leaves of zero.
constexpr support::reference_tolerance within{.output = 5e-6, .gradient = 1e-5, .least = 1e-3};
constexpr std::int64_t batch = 2, length = 10;

std::vector<std::int32_t> tokens() {
  std::vector<std::int32_t> result;
  for (int i = 0; i < batch * length; ++i) result.push_back(i * 7 % 50);
  return result;
}

template <class Model>
void expect_reference(const std::string& workload, const std::string& output,
                      std::vector<support::bound_values> inputs) {
  const symbol_extent symbols[] = {{"batch", batch}};
  graph g(run_mode::evaluation);
  const auto results = lower_into<Model>(g, symbols);
  node_id y = results[0];
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (Model::output_list::symbols[i]->text == output) y = results[i];
  }
  const node_value made(g, y);
  const node_value target(g, g.input("target", dtype::f32, g[y].extents));
  const node_id loss = mean((made - target) * (made - target)).id();
  inputs.push_back(bound("target", wave(std::cos, 0.007, static_cast<std::size_t>(g[y].extents.elements()))));
  support::expect_reference("transformers", workload, std::move(g), y, loss, inputs, within);
}

constexpr models::gpt2::config tiny_gpt2{.layers = 2, .width = 32, .heads = 4, .vocab = 50, .context = 16};
constexpr models::bert::config tiny_bert{
    .layers = 2, .width = 32, .heads = 4, .hidden = 64, .vocab = 50, .positions = 16};
constexpr models::vit::config tiny_vit{
    .layers = 2, .width = 32, .heads = 4, .hidden = 64, .side = 16, .patch = 4, .classes = 7};

TEST(runtime_transformer_models, gpt2_reproduces_float64_outputs_and_gradients) {
  using net = model<models::gpt2::language_model<tiny_gpt2>, input<"tokens", dtype::i32, dims<sym<"batch">, length>>>;
  expect_reference<net>("gpt2", "output", {bound("tokens", tokens())});
}

TEST(runtime_transformer_models, a_text_that_is_longer_than_the_context_is_refused) {
  using net = model<models::gpt2::language_model<tiny_gpt2>, input<"tokens", dtype::i32, dims<sym<"length">>>>;
  session<net> run(support::shared_device());
  run.parameters().init();
  EXPECT_EQ(run.run(bind<"tokens">(std::vector<std::int32_t>(16, 1))).size(), 16u * 50);
  EXPECT_NE(support::sentence_of([&] {
              (void)run.run(bind<"tokens">(std::vector<std::int32_t>(17, 1)));
            }).find("narrow of [16, 32] along axis 0 by rows [17, 32]"),
            std::string::npos);
}

TEST(runtime_transformer_models, bert_reproduces_float64_outputs_and_gradients) {
  using net = model<models::bert::encoder<tiny_bert>, input<"tokens", dtype::i32, dims<sym<"batch">, length>>,
                    input<"token_types", dtype::i32, dims<sym<"batch">, length>>,
                    input<"mask", dtype::i32, dims<sym<"batch">, length>>>;
  std::vector<std::int32_t> types, mask;
  for (int i = 0; i < batch * length; ++i) types.push_back(i >= 5);
  for (int i = 0; i < batch * length; ++i) mask.push_back(i < length + 6);
  expect_reference<net>("bert", "pooler_output",
                        {bound("tokens", tokens()), bound("token_types", types), bound("mask", mask)});
}

constexpr models::whisper::config tiny_whisper{
    .mels = 8, .frames = 40, .layers = 2, .width = 32, .heads = 4, .hidden = 64, .vocab = 50, .context = 16};

TEST(runtime_transformer_models, whisper_reproduces_float64_outputs_and_gradients) {
  using net =
      model<models::whisper::transcriber<tiny_whisper>, input<"spectrogram", dtype::f32, dims<sym<"batch">, 8, 40>>,
            input<"tokens", dtype::i32, dims<sym<"batch">, length>>>;
  expect_reference<net>("whisper", "output",
                        {bound("spectrogram", wave(std::sin, 0.01, batch * 8 * 40)), bound("tokens", tokens())});
}

TEST(runtime_transformer_models, whisper_token_by_token_writes_what_it_writes_at_once) {
  using whole = model<models::whisper::transcriber<tiny_whisper>, input<"spectrogram", dtype::f32, dims<1, 8, 40>>,
                      input<"tokens", dtype::i32, dims<1, length>>>;
  using ear = model<models::whisper::listener<tiny_whisper>, input<"spectrogram", dtype::f32, dims<1, 8, 40>>>;
  using hand = model<models::whisper::writer<tiny_whisper>, input<"tokens", dtype::i32, dims<sym<"t", 16>>>,
                     input<"position", dtype::i32, dims<>>>;
  const auto& gpu = support::shared_device();
  graph both;
  const symbol_extent any[] = {{"t", 1}};
  lower_into<ear>(both, {});
  lower_into<hand>(both, any);
  parameters weights(gpu, both);
  weights.init({.seed = 5});
  session<whole> at_once(gpu, weights);
  session<ear> listens(gpu, weights);
  session<hand> writes(gpu, weights);
  std::vector<std::int32_t> text = tokens();
  text.resize(length);
  for (const double pitch : {0.05, 0.11}) {  // a second recording leaves nothing of the first
    const std::vector<float> sound = wave(std::sin, pitch, 8 * 40);
    const std::vector<float> expected = at_once.run(bind<"spectrogram">(sound), bind<"tokens">(text));
    (void)listens.run(bind<"spectrogram">(sound));
    for (std::int32_t begin = 0; begin < length; begin += begin == 0 ? 4 : 1) {
      const std::int32_t count = begin == 0 ? 4 : 1;
      const std::vector<std::int32_t> part(text.begin() + begin, text.begin() + begin + count), position{begin};
      const std::vector<float> found = writes.run(bind<"tokens">(part), bind<"position">(position));
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[static_cast<std::size_t>(begin) * 50 + i], 1e-5) << begin << ' ' << i;
    }
  }
}

TEST(runtime_transformer_models, the_vision_transformer_reproduces_float64_outputs_and_gradients) {
  using net = model<models::vit::classifier<tiny_vit>, input<"image", dtype::f32, dims<sym<"batch">, 3, 16, 16>>>;
  expect_reference<net>("vit", "output", {bound("image", wave(std::sin, 0.001, batch * 3 * 16 * 16))});
}

TEST(runtime_transformer_models, gpt2_in_pieces_gives_what_it_gives_at_once) {
  using whole = model<models::gpt2::language_model<tiny_gpt2>, input<"tokens", dtype::i32, dims<sym<"seq", 16>>>>;
  using pieces = model<models::gpt2::language_model<tiny_gpt2>, input<"tokens", dtype::i32, dims<sym<"seq", 16>>>,
                       input<"position", dtype::i32, dims<>>>;
  const auto& gpu = support::shared_device();
  session<pieces> by_piece(gpu, {{"seq", 4}});
  by_piece.parameters().init({.seed = 3});
  session<whole> at_once(gpu, by_piece.parameters());
  std::vector<std::int32_t> text(12);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::int32_t>(i * 11 % 50);
  const std::vector<float> expected = at_once.run(bind<"tokens">(text));
  for (int begin = 0; begin < 12; begin += 4) {
    const std::vector<std::int32_t> part(text.begin() + begin, text.begin() + begin + 4), position{begin};
    const std::vector<float> found = by_piece.run(bind<"tokens">(part), bind<"position">(position));
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[static_cast<std::size_t>(begin) * 50 + i], 1e-5) << begin << ' ' << i;
  }
}

}  // namespace
