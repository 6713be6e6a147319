// SPDX-License-Identifier: MIT
// Sizes that change: what is bound says what symbols are worth; programs by sizes share weights, moments and counters.
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/inference.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <support/shared_device.hpp>
#include <support/small_models.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using namespace meganeura;

constexpr dim batch = sym<"batch">, sequence = sym<"sequence">;

struct network {
  static constexpr auto forward(value auto x) { return linear<"out", 3>(tanh(linear<"in", 7>(x))); }
};
using classifier = model<network, input<"x", dtype::f32, dims<batch, 5>>>;

std::vector<std::int32_t> labels(std::size_t count) {
  std::vector<std::int32_t> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<std::int32_t>(i % 3);
  return made;
}

template <class Call>
std::string said(const Call& call) {
  return support::sentence_of(call);
}

TEST(runtime_sizes, a_session_takes_any_batch_and_gives_what_one_of_that_batch_gives) {
  const device& gpu = support::shared_device();
  session<classifier> any(gpu);
  any.parameters().init({.seed = 4});
  for (const std::size_t n : {7u, 1u, 32u, 7u}) {
    const auto x = support::uniform(n * 5, 3);
    session<classifier> one(gpu, any.parameters(), {{"batch", static_cast<std::int64_t>(n)}});
    EXPECT_EQ(any.run(bind<"x">(x)), one.run(bind<"x">(x)));
    EXPECT_EQ(any.program().plan().outputs[0].extents, (shape{static_cast<std::int64_t>(n), 3}));
  }
}

TEST(runtime_sizes, a_known_size_builds_nothing_and_the_one_unused_longest_goes) {
  const device& gpu = support::shared_device();
  session<classifier> any(gpu, {}, {.most_sizes = 2});
  any.parameters().init();
  const auto run = [&](std::size_t n) {
    any.run(bind<"x">(support::uniform(n * 5, 1)));
    return &any.program();
  };
  const program *one = run(1), *two = run(2);
  EXPECT_EQ(run(1), one);
  EXPECT_EQ(run(2), two);
  EXPECT_EQ(run(1), one);
  run(3);  // in the place of 2
  EXPECT_EQ(run(1), one);
  const double before = any.program().times().total();
  EXPECT_EQ(any.program().times().total(), before);
  any.prepare({{"batch", 9}});
  const program* prepared = &any.program();
  EXPECT_EQ(run(9), prepared);
}

TEST(runtime_sizes, batches_of_different_sizes_train_like_programs_of_their_own) {
  const device& gpu = support::shared_device();
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  trainer<classifier, cross_entropy<"label">> whole(gpu, adam{.learning_rate = 0.05f}, {}, {.seed = 5});
  whole.parameters().init({.seed = 2});
  for (const std::size_t n : {8u, 8u, 3u, 8u}) {
    // One step of fixed size from where the whole run is: a checkpoint has all of it.
    const auto x = support::uniform(n * 5, 3);
    if (whole.steps() == 0) whole.prepare({{"batch", 8}});
    whole.save_checkpoint(path);
    trainer<classifier, cross_entropy<"label">> step(gpu, adam{}, {{"batch", static_cast<std::int64_t>(n)}});
    step.load_checkpoint(path);
    const float expected = step.step(bind<"x">(x), bind<"label">(labels(n))).loss();
    EXPECT_EQ(whole.step(bind<"x">(x), bind<"label">(labels(n))).loss(), expected);
    EXPECT_EQ(whole.steps(), step.steps());
    for (const auto& slot : step.parameters().slots().slots)
      EXPECT_EQ(whole.parameters().get(slot.name), step.parameters().get(slot.name)) << slot.name;
    for (const auto& moment : step.moments().list())
      EXPECT_EQ(whole.moments().read(moment), step.moments().read(moment)) << moment.name;
  }
}

TEST(runtime_sizes, a_pending_step_outlives_its_program) {
  const device& gpu = support::shared_device();
  trainer<classifier, cross_entropy<"label">> run(gpu, sgd{}, {}, {.most_sizes = 1});
  run.parameters().init();
  const auto step = [&](std::size_t n) {
    return run.step(bind<"x">(support::uniform(n * 5, 1)), bind<"label">(labels(n)));
  };
  const pending_step first = step(4);
  const float second = step(5).loss();
  EXPECT_GT(first.loss(), 0);
  EXPECT_NE(first.loss(), second);
}

TEST(runtime_sizes, sizes_that_do_not_fit_are_refused_and_nothing_has_happened) {
  const device& gpu = support::shared_device();
  session<classifier> any(gpu);
  any.parameters().init();
  const std::vector<float> ragged(12);
  EXPECT_EQ(said([&] { any.run(bind<"x">(ragged)); }),
            "input \"x\" is [batch, 5] and was given 12 elements, which no extent of \"batch\" makes");
  EXPECT_EQ(said([&] { any.run(); }),
            "what \"batch\" is worth is not known: input \"x\" [batch, 5] was not bound; bind one of them by its name, "
            "bind<\"batch\">(n) or {\"batch\", n}");
  EXPECT_EQ(said([&] { any.run(bind<"x">(std::vector<float>())); }),
            "input \"x\" is [batch, 5] and was given 0 elements, which no extent of \"batch\" makes");
  EXPECT_EQ(said([&] { (void)any.program(); }),
            "no program is built yet, because its sizes are not known; run once, or prepare sizes first");
  EXPECT_EQ(said([&] {
              session<classifier>(gpu, {{"bach", 3}});
            }),
            "\"bach\" is bound to 3, but no symbol of the model: it has \"batch\"; did you mean \"batch\"?");
  EXPECT_EQ(said([&] { any.prepare({{"batch", 0}}); }), "the symbol \"batch\" is bound to 0; an extent is at least 1");
  session<classifier> fixed(gpu, {{"batch", 2}});
  EXPECT_EQ(said([&] { fixed.run(bind<"x">(ragged)); }),
            "input \"x\" is f32[2, 5], 40 bytes; it was given 48 bytes of f32");
  EXPECT_EQ(said([&] { fixed.run(bind<"x">(ragged), bind<"batch">(3)); }),
            "the symbol \"batch\" is bound to 3, and the constructor fixed it to 2; leave it open there");
}

struct sums {
  static constexpr auto forward(value auto x, value auto y) { return sum<-1>(x) * y; }
};
using pair_of_inputs = model<sums, input<"x", dtype::f32, dims<batch, sequence>>, input<"y", dtype::f32, dims<batch>>>;
using square = model<network, input<"x", dtype::f32, dims<batch, batch, 5>>>;

TEST(runtime_sizes, inputs_say_each_others_symbols_and_what_stays_open_is_bound_by_name) {
  const device& gpu = support::shared_device();
  session<pair_of_inputs> any(gpu);
  const std::vector<float> x{1, 2, 3, 4, 5, 6}, y{10, 100};
  EXPECT_EQ(any.run(bind<"x">(x), bind<"y">(y)), (std::vector<float>{60, 1500}));
  EXPECT_EQ(said([&] { any.run(bind<"x">(x), bind<"y">(std::vector<float>(4))); }),
            "input \"x\" is [batch, sequence] and was given 6 elements, which no extent of \"sequence\" makes");
  EXPECT_EQ(
      said([&] { any.run(bind<"x">(x)); }),
      "what \"batch\" and \"sequence\" are worth is not known: input \"x\" [batch, sequence] was given 6 elements, "
      "input \"y\" [batch] was not bound; bind one of them by its name, bind<\"sequence\">(n) or {\"sequence\", n}");
  EXPECT_EQ(said([&] { any.run(bind<"x">(x), bind<"y">(y), bind<"sequence">(2)); }),
            "input \"y\" is [batch] and was given 2 elements; with batch = 3 it has 3");

  session<square> rows(gpu);
  rows.parameters().init();
  EXPECT_EQ(rows.run(bind<"x">(support::uniform(3 * 3 * 5, 1))).size(), 27u);
  EXPECT_NE(said([&] { rows.run(bind<"x">(support::uniform(5 * 5, 1))); }).find("no extent of \"batch\" makes"),
            std::string::npos);
}

struct positions {
  static constexpr auto forward(value auto x) { return x + parameter<"table", dims<sequence, 4>>; }
};
using positioned = model<positions, input<"x", dtype::f32, dims<batch, sequence, 4>>>;

TEST(runtime_sizes, two_open_symbols_of_one_input_need_a_binding_and_a_parameter_a_fixed_one) {
  const device& gpu = support::shared_device();
  EXPECT_EQ(said([&] { session<positioned>{gpu}; }),
            "the model has a symbol \"sequence\" without an extent; bind {\"sequence\", n}");
  session<positioned> fixed(gpu, {{"sequence", 3}});
  fixed.parameters().set("table", std::vector<float>(12, 1));
  EXPECT_EQ(fixed.run(bind<"x">(std::vector<float>(24, 2))), std::vector<float>(24, 3));
}

TEST(runtime_sizes, graphs_of_run_time_are_made_anew_for_sizes) {
  const device& gpu = support::shared_device();
  int made = 0;
  const auto forward = [&](graph& g, std::int64_t rows) {
    ++made;
    const node_value x(g, g.input("x", dtype::f32, {rows, 4}));
    return linear("fc", x, 3);
  };
  const open_sizes sizes({{"x", dims<batch, 4>}});
  training run(gpu,
               sized<graph_with_loss>{sizes,
                                      [&](const symbol_extents& at) {
                                        graph g;
                                        const node_value y(g, forward(g, at["batch"])),
                                            label(g, g.input("label", dtype::i32, {at["batch"]}));
                                        const node_id loss = cross_entropy_loss(y, label);
                                        return graph_with_loss{std::move(g), loss};
                                      }},
               adam{});
  EXPECT_NE(said([&] { run.parameters().init(); }).find("these parameters are an empty handle"), std::string::npos);
  EXPECT_NE(said([&] { (void)run.moments().list(); }).find("there are no moments before"), std::string::npos);
  run.prepare({{"batch", 6}});
  run.parameters().init();
  const auto step = [&](std::size_t n) {
    return run.step({{"x", support::uniform(n * 4, 3)}, {"label", labels(n)}}).loss();
  };
  EXPECT_GT(step(6), 0);
  EXPECT_GT(step(2), 0);
  EXPECT_GT(step(6), 0);
  EXPECT_EQ(run.steps(), 3u);
  EXPECT_EQ(made, 2);

  inference classify(gpu,
                     {sizes,
                      [&](const symbol_extents& at) {
                        graph g;
                        g.add_output("y", forward(g, at["batch"]));
                        return g;
                      }},
                     {}, run.parameters());
  EXPECT_EQ(classify.run({{"x", support::uniform(12, 1)}}).size(), 9u);
  EXPECT_EQ(classify.run({{"x", support::uniform(40, 1)}}).size(), 30u);
  EXPECT_NE(said([&] {
              (void)symbol_extents({{"batch", 1}})["bach"];
            }).find("did you mean \"batch\"?"),
            std::string::npos);
}

TEST(runtime_sizes, sizes_that_update_other_parameters_are_refused) {
  const device& gpu = support::shared_device();
  training run(gpu,
               sized<graph_with_loss>{open_sizes({{"x", dims<batch>}}),
                                      [](const symbol_extents& at) {
                                        graph g;
                                        const node_value x(g, g.input("x", dtype::f32, {at["batch"]}));
                                        const node_value a(g, g.parameter("a", dtype::f32, {1})),
                                            b(g, g.parameter("b", dtype::f32, {1}));
                                        const node_id loss = sum(at["batch"] > 2 ? x * a + b : x * a);
                                        return graph_with_loss{std::move(g), loss};
                                      }},
               adam{});
  run.prepare({{"batch", 2}});
  EXPECT_NE(said([&] { run.prepare({{"batch", 3}}); }).find("update other parameters"), std::string::npos);
}

}  // namespace
