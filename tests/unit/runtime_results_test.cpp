// SPDX-License-Identifier: MIT
// Several results, taps, losses with several results and gradients of inputs, on a device.
#include <meganeura/core/float_format.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/gradient.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/small_models.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;

inline constexpr dim batch = sym<"batch">;
template <fixed_string Name>
using rows = input<Name, dtype::f32, dims<batch, 4>>;

struct typed_results {
  static constexpr auto forward(value auto x) {
    return results<"half", "whole", "index", "count">(cast<dtype::f16>(x), x * constant<2.0f>, cast<dtype::i32>(x),
                                                      cast<dtype::u32>(abs(x)));
  }
};

TEST(runtime_results, results_come_in_the_type_of_their_elements) {
  session<model<typed_results, rows<"x">>> run(support::shared_device());
  const std::vector<float> x{1.5f, -2, 3, 0.25f};
  const auto [half, whole, index, count] = run.run(bind<"x">(x));
  static_assert(std::is_same_v<decltype(half), const std::vector<float>>);
  static_assert(std::is_same_v<decltype(count), const std::vector<std::uint32_t>>);
  EXPECT_EQ(half, x);
  EXPECT_EQ(whole, (std::vector<float>{3, -4, 6, 0.5f}));
  EXPECT_EQ(index, (std::vector<std::int32_t>{1, -2, 3, 0}));
  EXPECT_EQ(count, (std::vector<std::uint32_t>{1, 2, 3, 0}));
  EXPECT_EQ(run.read<"index">(), index);
  EXPECT_EQ(run.read<std::int32_t>("index"), index);
  EXPECT_EQ(support::sentence_of([&] { (void)run.read("index"); }),
            "output \"index\" is i32[1, 4] and was read as f32; read it as i32, or by program.output");
}

struct layer {
  static constexpr auto forward(value auto x) { return tap<"hidden">(relu(linear<"fc", 4>(x))); }
};
struct plain_layer {
  static constexpr auto forward(value auto x) { return relu(linear<"fc", 4>(x)); }
};
template <class Layer>
struct stacked {
  static constexpr auto forward(value auto x) { return repeat<"layers", 3, Layer>(x) * constant<2.0f>; }
};
using tapped = model<stacked<layer>, rows<"x">>;
using plain = model<stacked<plain_layer>, rows<"x">>;

struct doubled {
  static constexpr auto forward(value auto x) { return x + x; }
};
template <dtype Type>
using doubled_of = model<doubled, input<"x", Type, dims<batch, 2>>>;

TEST(runtime_results, floats_are_bound_to_inputs_of_any_width_and_rounded) {
  const device& gpu = support::shared_device();
  const std::vector<float> x{1 + 0x1p-11f, 1 + 3 * 0x1p-11f, 0.1f, -65519};
  const auto twice = [&](dtype type) {
    std::vector<float> expected;
    const float_format format(type);
    for (const float each : x) expected.push_back(2 * format.decode(format.encode(each)));
    return expected;
  };
  std::vector<float> small = x;
  small[3] = -3;
  session<doubled_of<dtype::bf16>> brief(gpu);
  EXPECT_EQ(brief.run(bind<"x">(x)), twice(dtype::bf16));
  session<doubled_of<dtype::f16>> half(gpu, {}, {.program = {.checks = checks::finite}});
  const auto of_small = half.run(bind<"x">(small));
  EXPECT_EQ(of_small, (std::vector<float>{2, 2 + 0x1p-8f, 2 * 0.0999755859375f, -6}));

  graph g;
  const node_value in(g, g.input("x", dtype::f16, {2, 2}));
  g.add_output("y", in + in);
  inference any(gpu, g);
  EXPECT_EQ(any.run({{"x", small}}), of_small);
  const std::vector<std::uint16_t> bits{0x3c00, 0x3c02, 0x2e66, 0xc200};
  EXPECT_EQ(any.run({{"x", dtype::f16, std::as_bytes(std::span(bits))}}), of_small);
  EXPECT_EQ(support::sentence_of([&] {
              (void)any.run({{"x", std::vector<float>(3)}});
            }),
            "input \"x\" is f16[2, 2], 16 bytes as f32; it was given 12 bytes of f32");
  small[3] = 65520;
  EXPECT_EQ(support::sentence_of([&] { (void)half.run(bind<"x">(small)); }),
            "run 2: x[1, 1] = 65520: inputs must be finite, and in f16 this is infinity; mend the data, or leave out "
            "checks::finite");
}

TEST(runtime_results, a_tap_is_stored_where_it_is_asked_for_and_costs_nothing_elsewhere) {
  const device& gpu = support::shared_device();
  session<tapped> asked(gpu, {{"batch", 2}}, {.program = {.taps = "layers.*.hidden"}});
  asked.parameters().init({.seed = 2});
  session<tapped> quiet(gpu, asked.parameters(), {{"batch", 2}});
  const session<plain> without(gpu, asked.parameters(), {{"batch", 2}});
  const auto x = support::uniform(8, 1);
  const auto y = asked.run(bind<"x">(x));
  EXPECT_EQ(quiet.run(bind<"x">(x)), y);
  std::vector<float> doubled = asked.read<"layers.2.hidden">();
  for (float& each : doubled) each *= 2;
  EXPECT_EQ(doubled, y);
  EXPECT_NE(asked.read("layers.0.hidden"), asked.read("layers.1.hidden"));
  EXPECT_EQ(to_text(quiet.program().plan()), to_text(without.program().plan()));
  EXPECT_EQ(
      support::sentence_of([&] { (void)quiet.read<"layers.0.hidden">(); }),
      "\"layers.0.hidden\" is a tap, which is stored where it is asked for alone: give the session or trainer the "
      "option {.program = {.taps = \"layers.0.hidden\"}}");
  EXPECT_EQ(support::sentence_of([&] {
              session<tapped>(gpu, {{"batch", 2}}, {.program = {.taps = "layers.*.hiden"}});
            }),
            "taps: no value is tapped as \"layers.*.hiden\"; there is \"layers.0.hidden\", \"layers.1.hidden\", "
            "\"layers.2.hidden\"; did you mean \"layers.0.hidden\"?");
}

struct tapped_as_a_result {
  static constexpr auto forward(value auto x) {
    return results<"hidden">(tap<"hidden">(x * constant<2.0f>) + constant<1.0f>);
  }
};

TEST(runtime_results, a_tap_asked_for_is_looked_for_before_sizes_are_known_and_named_like_no_result) {
  const device& gpu = support::shared_device();
  EXPECT_EQ(support::sentence_of([&] { session<tapped>(gpu, {}, {.program = {.taps = "layers.*.hiden"}}); }),
            "taps: no value is tapped as \"layers.*.hiden\"; there is \"layers.0.hidden\", \"layers.1.hidden\", "
            "\"layers.2.hidden\"; did you mean \"layers.0.hidden\"?");
  const std::vector<float> x{1, 2, 3, 4};
  session<model<tapped_as_a_result, rows<"x">>> two(gpu, {}, {.program = {.taps = "hidden"}});
  EXPECT_EQ(support::sentence_of([&] { two.run(bind<"x">(x)); }),
            "taps: \"hidden\" names a tap and a result, which are two values; give one of them another name");
}

TEST(runtime_results, two_values_of_a_graph_have_two_taps) {
  graph g;
  const node_value x(g, g.input("x", dtype::f32, {3}));
  (void)tap<"a">(tap<"a">(x));
  EXPECT_EQ(support::sentence_of([&] { (void)tap<"a">(x + x); }),
            "tap \"a\" of %1: %0 is tapped by that name; give it another one");
}

struct tapped_by_mode {
  static constexpr auto forward(value auto x) {
    auto h = tap<"both">(x * parameter<"w", dims<4>>);
    return when_training(
        x, [&] { return tap<"noisy">(h * constant<2.0f>); }, [&] { return tap<"quiet">(h * constant<3.0f>); });
  }
};

TEST(runtime_results, a_tap_of_one_mode_is_read_there_and_one_of_neither_is_refused) {
  const device& gpu = support::shared_device();
  using tapping = trainer<model<tapped_by_mode, rows<"x">>, mean_squared_error<"y">>;
  const std::vector<float> x{1, 2, 3, 4}, y(4);
  const auto made = [&](const name_patterns& taps) {
    tapping run(gpu, sgd{.learning_rate = 0}, {}, {.program = {.taps = taps}});
    run.parameters().set("w", std::vector<float>{1, 1, 1, 1});
    return run;
  };
  tapping run = made({"noisy", "quiet", "b*"});
  run.step(bind<"x">(x), bind<"y">(y));
  EXPECT_EQ(run.read<"noisy">(), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(run.read<"both">(), x);
  run.evaluate(bind<"x">(x), bind<"y">(y));
  EXPECT_EQ(run.evaluation().read("quiet"), (std::vector<float>{3, 6, 9, 12}));
  EXPECT_EQ(run.evaluation().read("both"), x);
  EXPECT_EQ(support::sentence_of([&] { (void)run.read<"quiet">(); }),
            "there is no output \"quiet\"; there is \"loss\", \"both\", \"noisy\"");
  EXPECT_EQ(support::sentence_of([&] {
              made({"both", "noise"});
            }),
            "taps: no value is tapped as \"noise\"; there is \"both\", \"noisy\", \"quiet\"; did you mean \"noisy\"?");
  const auto graphs = [](const symbol_extents&, run_mode mode) {
    graph g(mode);
    const node_value h(g, g.input("x", dtype::f32, {4}));
    const node_value w(g, g.parameter("w", dtype::f32, {4}));
    const node_id loss = mean(tap<"both">(h * w));
    return graph_with_loss{std::move(g), loss};
  };
  const open_sizes fixed;
  EXPECT_EQ(support::sentence_of([&] {
              training(gpu, {fixed, graphs}, sgd{}, {.program = {.taps = "bot"}});
            }),
            "taps: no value is tapped as \"bot\"; there is \"both\"; did you mean \"both\"?");
}

struct two_heads {
  static constexpr auto forward(value auto x) {
    auto h = tap<"trunk">(relu(linear<"trunk", 8>(x)));
    return results<"distance", "label">(linear<"distance", 1>(h), linear<"label", 3>(h));
  }
};
struct both {
  static constexpr auto forward(value auto distance, value auto logits, value auto far, value auto label) {
    auto a = mean_squared_error_loss(distance, far);
    auto b = cross_entropy_loss(logits, label);
    return results<"total", "distance", "label">(a + b, a, b);
  }
};
using heads = model<two_heads, rows<"x">>;
using both_losses = loss<both, target<"far">, input<"which", dtype::i32, dims<batch>>>;

TEST(runtime_results, the_first_result_of_a_loss_is_minimised_and_the_others_are_read) {
  trainer<heads, both_losses> run(support::shared_device(), adam{.learning_rate = 0.05f}, {},
                                  {.program = {.taps = "trunk"}});
  run.parameters().init({.seed = 1});
  const auto x = support::uniform(3 * 4, 1);
  const std::vector<float> far{1, -1, 0};
  const std::vector<std::int32_t> which{2, 0, 1};
  const auto step = [&] { return run.step(bind<"x">(x), bind<"far">(far), bind<"which">(which)); };
  const auto first = step();
  EXPECT_EQ(first.value<"total">(), first.loss());
  EXPECT_FLOAT_EQ(first.value<"distance">() + first.value("label"), first.loss());
  const float before = first.value<"distance">(), sum = first.loss();
  for (int i = 0; i < 50; ++i) step();
  const auto last = step();
  EXPECT_LT(last.value<"distance">(), before / 2);
  EXPECT_LT(last.loss(), sum / 2);
  EXPECT_EQ(run.read<"trunk">().size(), 3u * 8);
  // Results of one name are told apart.
  const float loss = run.evaluate(bind<"x">(x), bind<"far">(far), bind<"which">(which));
  const inference& evaluation = run.evaluation();
  EXPECT_EQ(evaluation.read("loss.total"), std::vector<float>{loss});
  EXPECT_FLOAT_EQ(evaluation.read("loss.distance")[0] + evaluation.read("loss.label")[0], loss);
  session<heads> s(support::shared_device(), run.parameters());
  const auto [distance, label] = s.run(bind<"x">(x));
  EXPECT_EQ(run.evaluated().get<"distance">(), distance);
  EXPECT_EQ(run.evaluated().get<"label">(), label);
  EXPECT_EQ(evaluation.read("distance"), distance);
}

struct products {
  static constexpr auto forward(value auto x, value auto y) {
    return results<"z", "unused">(x * x * y * parameter<"scale", dims<4>>, x);
  }
};
using product = model<products, rows<"x">, rows<"y">>;

TEST(runtime_results, gradients_of_inputs_are_those_of_the_sum_of_a_result) {
  const device& gpu = support::shared_device();
  session<product> values(gpu);
  values.parameters().set("scale", std::vector<float>{1, 2, 3, 4});
  gradient<product, of<"z">, wrt<"y", "x">> slopes(gpu, values.parameters());
  const std::vector<float> x{1, 2, -1, 3}, y{2, 1, 0.5f, -1};
  const auto [of_y, of_x] = slopes.run(bind<"x">(x), bind<"y">(y));
  EXPECT_EQ(of_y, (std::vector<float>{1, 8, 3, 36}));
  EXPECT_EQ(of_x, (std::vector<float>{4, 8, -3, -24}));
  gradient<product, of<"z">, wrt<"x">> one(gpu, values.parameters(), {{"batch", 1}});
  EXPECT_EQ(one.run(bind<"x">(x), bind<"y">(y)), of_x);
}

}  // namespace
