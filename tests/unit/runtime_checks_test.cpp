// SPDX-License-Identifier: MIT
// What the option `checks` says of labels and lengths that are bound, and what it lets pass.
#include <meganeura/expr/value.hpp>
#include <meganeura/operations.hpp>
#include <meganeura/runtime/inference.hpp>

#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

using integers = std::vector<std::int32_t>;

node_value integer_input(graph& g, const char* name, const shape& extents) {
  return {g, g.input(name, dtype::i32, extents)};
}

// What a run that binds these says, and what it gives.
struct outcome {
  std::string sentence;
  std::vector<float> result{};
};
outcome run_of(const std::function<node_value(graph&)>& make,
               const std::vector<std::pair<const char*, integers>>& bound) {
  graph g;
  g.add_output("y", make(g).id());
  inference net(support::shared_device(), std::move(g), {.program = {.checks = checks::all}});
  net.parameters().init({.seed = 1});
  std::vector<input_values> inputs;
  for (const auto& [name, values] : bound) inputs.emplace_back(name, values);
  outcome found;
  found.sentence = support::sentence_of([&] { found.result = net.run(inputs); });
  return found;
}

// Three rows of scores, four classes, of which the weights are 1, 2, 3 and 4.
template <bool LogChances>
node_value weighted(graph& g) {
  const node_value x(g, g.parameter("x", dtype::f32, {3, 4})), y = integer_input(g, "y", {3});
  const node_value w = cast(node_value(g, g.coordinates({4}, 0)), dtype::f32) + 1.0;
  const cross_entropy_options options{.reduction = loss_reduction::none};
  return LogChances ? nll_loss(x, y, w, options) : cross_entropy_loss(x, y, w, options);
}

TEST(runtime_checks, a_label_that_is_left_out_of_a_weighted_loss_is_none_of_its_weights) {
  for (const auto& make : {&weighted<false>, &weighted<true>}) {
    const outcome fits = run_of(make, {{"y", {1, -100, 3}}});
    EXPECT_EQ(fits.sentence, "no error");
    ASSERT_EQ(fits.result.size(), 3u);
    EXPECT_EQ(fits.result[1], 0);
    EXPECT_NE(fits.result[2], 0);
    EXPECT_EQ(run_of(make, {{"y", {1, 7, 3}}}).sentence,
              "run 1: y[1] = 7: cross_entropy has 4 classes; it must be 0 to 3, or -100 to be left out");
  }
}

// Two targets of three places, four frames of five classes.
node_value ctc(graph& g) {
  const node_value x(g, g.parameter("x", dtype::f32, {2, 4, 5}));
  return ctc_loss(log_softmax(x, -1), integer_input(g, "t", {2, 3}), integer_input(g, "f", {2}),
                  integer_input(g, "n", {2}), ctc_options{.reduction = loss_reduction::none});
}

TEST(runtime_checks, ctc_names_labels_that_count_and_lengths) {
  struct {
    integers targets, frames, labels;
    const char* sentence;
  } const cases[] = {
      {{1, 2, 99, 4, -1, -1}, {4, 0}, {2, 1}, "no error"},
      {{1, 2, 99, 4, 5, -1}, {4, 4}, {2, 2}, "run 1: t[1, 1] = 5: ctc_loss has 5 classes; it must be 0 to 4"},
      {{1, 2, 3, 4, 4, 4}, {4, 9}, {2, 1}, "run 1: f[1] = 9: ctc_loss has 4 frames; it must be 0 to 4"},
      {{1, 2, 3, 4, 4, 4}, {4, 4}, {-1, 4}, "run 1: n[0] = -1: ctc_loss has targets of 3 labels; it must be 0 to 3"},
  };
  for (const auto& [targets, frames, labels, sentence] : cases)
    EXPECT_EQ(run_of(&ctc, {{"t", targets}, {"f", frames}, {"n", labels}}).sentence, sentence);
}

TEST(runtime_checks, attend_names_lengths_beyond_its_keys) {
  const auto make = [](graph& g) {
    const node_value x(g, g.parameter("x", dtype::f32, {2, 3, 1, 4}));
    return attend(x, x, x, key_lengths(integer_input(g, "n", {2})), gqa_options{});
  };
  EXPECT_EQ(run_of(make, {{"n", {0, 3}}}).sentence, "no error");
  EXPECT_EQ(run_of(make, {{"n", {2, 4}}}).sentence, "run 1: n[1] = 4: attend has 3 keys; it must be 0 to 3");
}

TEST(runtime_checks, layers_name_lengths_beyond_their_sequences) {
  const auto heads = [](graph& g) {
    const node_value x(g, g.parameter("x", dtype::f32, {2, 3, 4}));
    return multi_head_attention("a", x, key_lengths(integer_input(g, "n", {2})), 2);
  };
  const auto steps = [](graph& g) {
    const node_value x(g, g.parameter("x", dtype::f32, {2, 3, 4}));
    return call<rnn<recurrent_options{.hidden = 2}>>("r", x, sequence_lengths(integer_input(g, "n", {2})));
  };
  EXPECT_EQ(run_of(heads, {{"n", {0, 3}}}).sentence, "no error");
  EXPECT_EQ(run_of(heads, {{"n", {2, 4}}}).sentence, "run 1: n[1] = 4: attend has 3 keys; it must be 0 to 3");
  EXPECT_EQ(run_of(steps, {{"n", {0, 3}}}).sentence, "no error");
  EXPECT_EQ(run_of(steps, {{"n", {-1, 4}}}).sentence, "run 1: n[0] = -1: a sequence has 3 steps; it must be 0 to 3");
}

}  // namespace
