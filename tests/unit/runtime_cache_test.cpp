// SPDX-License-Identifier: MIT
// Key-value caches: a language model run in pieces gives the logits of the whole text.
#include <meganeura/frontend.hpp>
#include <meganeura/models/smollm2.hpp>
#include <meganeura/runtime/session.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/named_weights.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/smollm2_reference.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

inline constexpr dim sequence = sym<"sequence">;
using network = models::smollm2::language_model<support::tiny_smollm2>;
using whole = model<network, input<"tokens", dtype::i32, dims<sequence>>>;
using in_pieces = model<network, input<"tokens", dtype::i32, dims<sequence>>, input<"position", dtype::i32, dims<>>>;
static_assert(whole::leaves.size + 2 == in_pieces::leaves.size);
inline constexpr std::size_t vocab = support::tiny_smollm2.vocab;

void expect_logits(std::span<const float> found, std::span<const float> expected) {
  ASSERT_EQ(found.size(), expected.size());
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  const double off = 8 * oracle::tolerance(dtype::f32, support::tiny_smollm2.hidden) * static_cast<double>(largest);
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], off) << i;
}

TEST(runtime_cache, a_prompt_and_then_tokens_one_by_one_are_the_whole_text) {
  const device& gpu = support::shared_device();
  session<in_pieces> prompt(gpu, {{"sequence", 5}});
  parameters weights = prompt.parameters();
  for (const plan::named_tensor& each : weights.layout().tensors) {
    if (each.kind == op::parameter) weights.set(each.name, support::named_weights(each.name, each.extents));
  }
  session<in_pieces> token(gpu, weights);  // both on one cache; this one is also run with two sizes
  const std::vector<std::int32_t> text{17, 3, 99, 42, 5, 64, 3, 127, 0};
  const std::vector<float> expected = session<whole>(gpu, weights).run(bind<"tokens">(text));
  const auto logits_of = [&](std::size_t first, std::size_t count) {
    return std::span(expected).subspan(first * vocab, count * vocab);
  };
  const auto tokens_of = [&](std::size_t first, std::size_t count) { return std::span(text).subspan(first, count); };
  for (int conversation = 0; conversation < 2; ++conversation) {  // the second one over what the first one left
    const auto run = [&](session<in_pieces>& s, std::size_t first, std::size_t count) {
      const std::array position{static_cast<std::int32_t>(first)};
      return s.run(bind<"tokens">(tokens_of(first, count)), bind<"position">(position));
    };
    expect_logits(run(prompt, 0, 5), logits_of(0, 5));
    expect_logits(run(token, 5, 1), logits_of(5, 1));
    expect_logits(run(token, 6, 2), logits_of(6, 2));
    expect_logits(run(token, 8, 1), logits_of(8, 1));
  }
}

TEST(runtime_cache, texts_of_a_batch_have_a_cache_each) {
  using texts = input<"tokens", dtype::i32, dims<sym<"batch">, sequence>>;
  using batched = model<network, texts, input<"position", dtype::i32, dims<>>>;
  const device& gpu = support::shared_device();
  session<batched> run(gpu, {{"batch", 2}});
  run.parameters().init({.seed = 4});
  const std::vector<std::int32_t> first{17, 3, 99, 42}, second{5, 64, 3, 127};
  session<whole> alone(gpu, run.parameters());
  const std::vector<float> of_first = alone.run(bind<"tokens">(first)), of_second = alone.run(bind<"tokens">(second));
  const auto next = [&](std::size_t at, std::size_t count) {
    std::vector<std::int32_t> tokens;
    for (const auto* text : {&first, &second})
      tokens.insert(tokens.end(), text->begin() + static_cast<std::ptrdiff_t>(at),
                    text->begin() + static_cast<std::ptrdiff_t>(at + count));
    const std::array position{static_cast<std::int32_t>(at)};
    const std::vector<float> logits = run.run(bind<"tokens">(tokens), bind<"position">(position));
    const auto found = std::span(logits);
    expect_logits(found.first(count * vocab), std::span(of_first).subspan(at * vocab, count * vocab));
    expect_logits(found.last(count * vocab), std::span(of_second).subspan(at * vocab, count * vocab));
  };
  next(0, 2);
  next(2, 1);
  next(3, 1);
}

TEST(runtime_cache, files_of_weights_neither_hold_nor_need_a_cache) {
  const device& gpu = support::shared_device();
  const support::temporary_folder folder;
  const std::string from_whole = folder / "whole.safetensors", from_pieces = folder / "pieces.safetensors";
  session<whole> one(gpu);
  one.parameters().init({.seed = 1});
  one.parameters().save(from_whole);
  session<in_pieces> other(gpu);
  other.parameters().load(from_whole);
  other.parameters().save(from_pieces);
  one.parameters().load(from_pieces);
  EXPECT_EQ(other.parameters().count(), one.parameters().count());
}

TEST(runtime_cache, rows_are_written_from_a_position_on_and_what_lies_outside_is_left_out) {
  graph g;
  const node_value x(g, g.input("x", dtype::f32, {2, 4, 1})), rows(g, g.input("rows", dtype::f32, {2, 2, 1}));
  const node_value position(g, g.input("position", dtype::i32, {}));
  g.add_output("y", update_rows<1>(x, rows, position));
  const std::vector<std::vector<double>> expected{{2, 3, 4, 5, 12, 13, 14, 15},   {21, 3, 4, 5, 23, 13, 14, 15},
                                                  {20, 21, 4, 5, 22, 23, 14, 15}, {2, 20, 21, 5, 12, 22, 23, 15},
                                                  {2, 3, 20, 21, 12, 13, 22, 23}, {2, 3, 4, 20, 12, 13, 14, 22},
                                                  {2, 3, 4, 5, 12, 13, 14, 15}};
  for (int at = -2; at <= 4; ++at) {
    oracle::interpreter<double> run(g, {{"x", {{2, 4, 1}, {2, 3, 4, 5, 12, 13, 14, 15}}},
                                        {"rows", {{2, 2, 1}, {20, 21, 22, 23}}},
                                        {"position", {{}, {static_cast<double>(at)}, dtype::i32}}});
    EXPECT_EQ(run.run().at("y").values, expected[static_cast<std::size_t>(at + 2)]) << at;
  }
}

TEST(runtime_cache, what_does_not_fit_a_cache_is_a_sentence) {
  graph g;
  const node_value cache(g, g.state("k", dtype::f32, {8, 2, 4})), k(g, g.input("rows", dtype::f32, {3, 2, 4}));
  const node_value position(g, g.input("position", dtype::i32, {})), real(g, g.input("real", dtype::f32, {}));
  EXPECT_EQ(support::sentence_of([&] { (void)update_rows<1>(cache, k, position); }),
            "update_rows<axis>(x, rows, position): rows must have x's dtype and shape but for the axis, and no "
            "more of them; found f32 [8, 2, 4], f32 [3, 2, 4], i32 []");
  EXPECT_EQ(support::sentence_of([&] { (void)update_rows(cache, k, real); }),
            "update_rows<axis>(x, rows, position): position must be one i32, of shape []; found f32 [8, 2, 4], f32 [3, "
            "2, 4], f32 []");
  EXPECT_EQ(support::sentence_of([&] { (void)attend(k, cache, cache, position); }),
            "attend<options>(q, k, v, position): position must be one i32, of shape [], and attending from there is "
            "causal; found f32 [3, 2, 4], f32 [8, 2, 4], f32 [8, 2, 4], i32 []");
  EXPECT_EQ(support::sentence_of([&] { (void)rope(k, real); }),
            "rope<options>(x, position): position must be one i32, of shape []; found f32 [3, 2, 4], f32 []");
  EXPECT_NO_THROW((void)attend<gqa_options{.causal = true}>(k, cache, cache, position));
}

}  // namespace
