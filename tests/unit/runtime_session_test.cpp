// SPDX-License-Identifier: MIT
// Sessions: random numbers, what may be read when, and checks of what is bound.
#include <meganeura/core/error.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>
#include <vector>

namespace {

using namespace meganeura;

inline constexpr dim batch = sym<"batch">;

struct noisy_module {
  static constexpr auto forward(value auto x) { return x + meganeura::random<"noise", dims<batch, 4>>; }
};
using noisy = model<noisy_module, input<"x", dtype::f32, dims<batch, 4>>>;

struct two_layers {
  static constexpr auto forward(value auto x) { return linear<"two", 2>(relu(linear<"one", 3>(x))); }
};
using network = model<two_layers, input<"x", dtype::f32, dims<batch, 4>>>;

template <class Numbers>
std::vector<float> copy(const Numbers& numbers) {
  return {numbers.begin(), numbers.end()};
}

TEST(runtime_session, every_run_draws_new_numbers_and_a_seed_repeats_them) {
  const device& gpu = support::shared_device();
  session<noisy> one(gpu, {{"batch", 3}}, {.seed = 5}), same(gpu, {{"batch", 3}}, {.seed = 5}),
      other(gpu, {{"batch", 3}}, {.seed = 6});
  const std::vector<float> x(12), wrong(3);
  const auto first = copy(one.run(bind<"x">(x)));
  EXPECT_THROW(one.run(bind<"x">(wrong)), error);  // draws nothing
  const auto second = copy(one.run(bind<"x">(x)));
  EXPECT_NE(first, second);
  EXPECT_EQ(copy(same.run(bind<"x">(x))), first);
  EXPECT_EQ(copy(same.run(bind<"x">(x))), second);
  EXPECT_NE(copy(other.run(bind<"x">(x))), first);
}

TEST(runtime_session, results_of_two_runs_do_not_share_memory) {
  session<noisy> run(support::shared_device(), {{"batch", 3}});
  const std::vector<float> x(12);
  const auto a = run.run(bind<"x">(x)), b = run.run(bind<"x">(x));
  EXPECT_FALSE(std::ranges::equal(a, b));
}

TEST(runtime_session, threads_have_sessions_of_their_own_over_the_same_weights) {
  const device& gpu = support::shared_device();
  session<network> alone(gpu);
  alone.prepare({{"batch", 1}});
  alone.parameters().init({.seed = 3});
  const auto input = [](std::size_t rows) { return std::vector<float>(4 * rows, 0.125f * static_cast<float>(rows)); };
  std::vector<std::vector<float>> expected;
  for (std::size_t rows = 1; rows <= 4; ++rows) expected.push_back(alone.run(bind<"x">(input(rows))));
  std::vector<std::vector<float>> found(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      session<network> own(gpu, alone.parameters());  // built beside the others
      for (int k = 0; k < 20; ++k) found[i] = own.run(bind<"x">(input(i + 1)));
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(found, expected);
}

TEST(runtime_session, an_empty_handle_of_parameters_says_so) {
  parameters none;
  for (const auto& call : std::vector<std::function<void()>>{[&] { none.init(); }, [&] { none.save("never"); },
                                                             [&] { (void)none.count(); }, [&] { (void)none.get("w"); },
                                                             [&] { none.set("w", {}); }}) {
    EXPECT_EQ(support::sentence_of(call),
              "these parameters are an empty handle, or were moved from; take those of a session or a trainer, "
              "of a graph of open sizes after prepare; for a "
              "run-time graph g make them: parameters(gpu, g)");
  }
}

TEST(runtime_session, outputs_cannot_be_read_before_a_run) {
  const device& gpu = support::shared_device();
  session<noisy> never(gpu, {{"batch", 3}});
  EXPECT_EQ(support::sentence_of([&] { (void)never.read("output"); }),
            "output \"output\" was read before the first run; run the model first");
  trainer<network, cross_entropy<"label">> train(gpu, sgd{}, {{"batch", 3}});
  EXPECT_NE(support::sentence_of([&] { (void)train.program().scalar_output("loss", 0); }).find("before the first run"),
            std::string::npos);
  graph g;
  const node_id total = g.state("total", dtype::f32, {5});
  g.assign(total, g.add(total, g.input("x", dtype::f32, {5})));
  g.add_output("total", total);
  const program counter(gpu, g, parameters(gpu, g));
  EXPECT_NE(support::sentence_of([&] { (void)counter.output("total"); }).find("before the first run"),
            std::string::npos);
}

TEST(runtime_session, parameters_that_nobody_gave_values_are_not_zeros) {
  const device& gpu = support::shared_device();
  const support::temporary_folder folder;
  session<network> run(gpu, {{"batch", 1}});
  const std::vector<float> x(4), bias(3), more(4 * 3);
  const std::vector<std::int32_t> label(1);
  auto weights = run.parameters();
  EXPECT_EQ(
      support::sentence_of([&] { (void)run.run(bind<"x">(x)); }),
      "run: 4 parameters have no values: \"one.weight\", \"one.bias\", \"two.weight\", ...; init, load or set them "
      "first");
  EXPECT_NE(support::sentence_of([&] { (void)weights.get("one.bias"); }).find("\"one.bias\" has no values"),
            std::string::npos);
  EXPECT_NE(support::sentence_of([&] { weights.save(folder / "nothing.safetensors"); }).find("have no values"),
            std::string::npos);
  weights.set("one.bias", bias);
  weights.set("one.weight", more);
  EXPECT_EQ(weights.get("one.bias"), bias);
  trainer<network, cross_entropy<"label">> train(gpu, sgd{}, {{"batch", 1}}, {}, weights);
  EXPECT_EQ(support::sentence_of([&] { train.step(bind<"x">(x), bind<"label">(label)); }),
            "step: 2 parameters have no values: \"two.weight\", \"two.bias\"; init, load or set them first");
  EXPECT_EQ(train.steps(), 0u);
  weights.init();
  EXPECT_NO_THROW(train.step(bind<"x">(x), bind<"label">(label)).wait());
  session<network> fresh(gpu, weights, {{"batch", 1}});
  EXPECT_EQ(fresh.run(bind<"x">(x)).size(), 2u);
}

struct next_token {  // logits of all places but the last
  static constexpr auto forward(value auto tokens) {
    return linear<"head", 6>(embedding<"embed", 6, 4>(slice<1, 0, 3>(tokens)));
  }
};
using language_model = model<next_token, input<"tokens", dtype::i32, dims<batch, 4>>>;

TEST(runtime_session, checks_name_the_index_that_is_out_of_range) {
  const device& gpu = support::shared_device();
  const auto options = [](checks chosen) { return training_options{.program = {.checks = chosen}}; };
  trainer<language_model, cross_entropy<"label">> run(gpu, sgd{}, {{"batch", 2}}, options(checks::indices));
  run.parameters().init();
  std::vector<std::int32_t> tokens{0, 1, 2, 99, 3, 4, 5, 99}, label{0, 1, 2, 3, 4, -100};  // the last ones are not read
  const auto step = [&] { return run.step(bind<"tokens">(tokens), bind<"label">(label)).loss(); };
  EXPECT_EQ(support::sentence_of(step), "no error");
  tokens[6] = 6;
  EXPECT_EQ(support::sentence_of(step),
            "step 2: tokens[1, 2] = 6: gather from \"embed.weight\" [6, 4] has 6 rows; it must be 0 to 5");
  tokens[6] = 5;
  label[4] = 12;
  EXPECT_EQ(support::sentence_of(step),
            "step 2: label[1, 1] = 12: cross_entropy has 6 classes; it must be 0 to 5, or -100 to be left out");
  EXPECT_EQ(run.steps(), 1u);
  trainer<language_model, cross_entropy<"label">> quiet(gpu, sgd{}, {{"batch", 2}}, options(checks::none));
  quiet.parameters().init();
  EXPECT_TRUE(std::isfinite(quiet.step(bind<"tokens">(tokens), bind<"label">(label)).loss()));
}

// The default is one value wherever it is written; the library's own build says what it stands for.
TEST(runtime_session, checks_are_chosen_by_the_build_of_the_library) {
  EXPECT_EQ(program_options{}.checks, checks::automatic);
  session<network> run(support::shared_device(), {{"batch", 2}});
  const checks found = run.program().checks();
  EXPECT_TRUE(found == checks::all || found == checks::none);
  EXPECT_EQ(detail::resolved(checks::indices), checks::indices);
}

TEST(runtime_session, checks_name_what_is_not_finite) {
  trainer<network, cross_entropy<"label">> run(support::shared_device(), sgd{.learning_rate = 1e30f}, {{"batch", 2}},
                                               {.program = {.checks = checks::finite | checks::indices}});
  run.parameters().init();
  std::vector<float> x(8, 1.0f);
  const std::vector<std::int32_t> label(2);
  const auto step = [&] { return run.step(bind<"x">(x), bind<"label">(label)).loss(); };
  x[6] = NAN;
  EXPECT_EQ(support::sentence_of(step),
            "step 1: x[1, 2] = NaN: inputs must be finite; mend the data, or leave out checks::finite");
  x[6] = -INFINITY;
  EXPECT_NE(support::sentence_of(step).find("x[1, 2] = -infinity"), std::string::npos);
  x[6] = 1;
  EXPECT_EQ(support::sentence_of(step), "no error");
  std::string sentence;
  for (int i = 0; i < 3 && sentence.find("loss") == std::string::npos; ++i) sentence = support::sentence_of(step);
  EXPECT_NE(sentence.find("the loss of step "), std::string::npos) << sentence;
}

TEST(runtime_session, what_was_moved_from_says_so_in_every_call) {
  support::checked_device first{{.disk_cache = false}};
  session<network> run(first, {{"batch", 1}});
  run.parameters().init();
  const std::vector<float> x(4);
  session<network> taken(std::move(run));
  const std::string moved = "this session, trainer or program was moved from; use what it was moved into";
  EXPECT_EQ(support::sentence_of([&] { (void)run.run(bind<"x">(x)); }), moved);
  EXPECT_EQ(support::sentence_of([&] { (void)run.start(bind<"x">(x)); }), moved);
  EXPECT_EQ(support::sentence_of([&] { (void)run.read("output"); }), moved);
  EXPECT_EQ(support::sentence_of([&] { (void)run.program().plan(); }), moved);
  EXPECT_EQ(support::sentence_of([&] { run.prepare({{"batch", 1}}); }), moved);
  trainer<network, mean_squared_error<"y">> fit(first, adam{}, {{"batch", 1}}, {.ema = 0.9f});
  fit.parameters().init();
  const std::vector<float> y(2);
  trainer<network, mean_squared_error<"y">> gone_on(std::move(fit));
  const std::function<void()> of_trainer[] = {
      [&] { fit.step(bind<"x">(x), bind<"y">(y)); },
      [&] { (void)fit.evaluate(bind<"x">(x), bind<"y">(y)); },
      [&] { (void)fit.evaluate_averages(bind<"x">(x), bind<"y">(y)); },
      [&] { (void)fit.first_not_finite(bind<"x">(x), bind<"y">(y)); },
      [&] {
        fit.prepare({{"batch", 1}});
      },
      [&] { (void)fit.averages(); },
      [&] { (void)fit.evaluation(); },
      [&] { fit.set_learning_rate(1); },
      [&] { (void)fit.learning_rate(); },
      [&] { fit.observe(1); },
      [&] { fit.restart(); },
      [&] { fit.save_checkpoint("/nowhere/c"); },
      [&] { fit.load_checkpoint("/nowhere/c"); },
      [&] { (void)fit.program(); },
  };
  for (const auto& call : of_trainer) EXPECT_EQ(support::sentence_of(call), moved);
  gone_on.step(bind<"x">(x), bind<"y">(y));
  optimizer chosen = adam{};
  const optimizer same = std::move(chosen);
  EXPECT_EQ(chosen.name(), same.name()) << "an optimizer is copied where it could be moved";
  const graph g = lower<network>({{"batch", 1}});
  program empty(first, g, parameters(first, g));
  const program full = std::move(empty);
  const std::function<void()> calls[] = {
      [&] { empty.set_input("x", dtype::f32, std::as_bytes(std::span(x))); },
      [&] { (void)empty.submit(); },
      [&] { empty.wait(1); },
      [&] { (void)empty.scalar_output("output", 1); },
      [&] { (void)empty.output("output"); },
      [&] { (void)empty.output_as<float>("output"); },
      [&] { (void)empty.plan(); },
      [&] { (void)empty.report(); },
      [&] { (void)empty.times(); },
      [&] { (void)empty.checks(); },
      [&] { (void)empty.profile(); },
      [&] { (void)empty.moments(); },
  };
  for (const auto& call : calls) EXPECT_EQ(support::sentence_of(call), moved);
  parameters weights = taken.parameters(), others = std::move(weights);
  for (const std::function<void()>& call : std::initializer_list<std::function<void()>>{
           [&] { weights.init(); }, [&] { (void)weights.get("one.bias"); }, [&] { weights.set("one.bias", x); },
           [&] { (void)weights.count(); }, [&] { weights.save("/nowhere/w"); }, [&] { (void)weights.on(); },
           [&] {
             session<network>(first, weights, {{"batch", 1}}).run(bind<"x">(x));
           },
           [&] { (void)run.parameters().get("one.bias"); }}) {
    const std::string said = support::sentence_of(call);
    EXPECT_TRUE(said.starts_with("these parameters are an empty handle, or were moved from;") ||
                said.starts_with("run: 4 parameters have no values"))  // given none, a session makes its own
        << said;
  }
  EXPECT_EQ(taken.run(bind<"x">(x)).size(), 2u);
}

TEST(runtime_session, a_device_that_was_moved_from_says_so_in_every_call) {
  device taken_from{{.disk_cache = false}};
  const vulkan::buffer memory = taken_from.allocate(16, vulkan::memory_kind::mapped);
  const device taken = std::move(taken_from);
  const std::vector<std::byte> bytes(16);
  const std::function<void()> calls[] = {
      [&] { (void)taken_from.facts(); },
      [&] { (void)taken_from.allocate(16); },
      [&] { taken_from.upload(memory, 0, bytes); },
      [&] { (void)taken_from.read_back(memory); },
      [&] { (void)taken_from.create_pipelines({}); },
      [&] { vulkan::recorder commands(taken_from); },
      [&] { taken_from.wait(0); },
      [&] { (void)taken_from.is_done(0); },
      [&] { taken_from.wait_idle(); },
      [&] { taken_from.save_pipeline_cache(); },
      [&] { (void)taken_from.cache_origin(); },
      [&] { (void)taken_from.cache_file(); },
      [&] { (void)taken_from.counters(); },
      [&] { (void)taken_from.validation_messages(); },
      [&] { (void)taken_from.submit(vulkan::recorder(taken).finish()); },
      [&] {
        session<network> made(taken_from, {{"batch", 1}});
      },
  };
  for (const auto& call : calls) {
    EXPECT_TRUE(support::sentence_of(call).starts_with("this device was moved from;")) << support::sentence_of(call);
  }
  EXPECT_EQ(taken.validation_messages(), 0u);
}

TEST(runtime_session, parameters_of_another_device_are_refused_by_both_names) {
  const device& gpu = support::shared_device();
  const support::checked_device other{{.disk_cache = false}};
  const session<network> run(gpu, {{"batch", 1}});
  const std::string name = gpu.facts().name;
  EXPECT_EQ(support::sentence_of([&] {
              session<network> made(other, run.parameters(), {{"batch", 1}});
            }),
            "the parameters are on \"" + name + "\" and the program is to run on \"" + name +
                "\", opened a second time; build both on one device object or a copy of it, or save the parameters and "
                "load them on the other");
  EXPECT_NO_THROW(session<network> made(device(gpu), run.parameters(), {{"batch", 1}}));
}

TEST(runtime_session, plausible_mistakes_are_answered_by_what_to_do) {
  const device& gpu = support::shared_device();
  using network_trainer = trainer<network, cross_entropy<"label">>;
  network_trainer run(gpu, adam{}, {{"batch", 1}});
  run.parameters().init();
  const std::vector<float> x(4);
  const std::vector<std::int32_t> label(1);
  const auto built_by = [&](const optimizer& chosen) {
    return support::sentence_of([&] { network_trainer made(gpu, chosen, {{"batch", 1}}); });
  };
  EXPECT_EQ(built_by(adam{.learning_rate = -1}), "adam: learning_rate is -1; it must be finite and at least 0");
  EXPECT_EQ(built_by(sgd{.weight_decay = INFINITY}), "sgd: weight_decay is inf; it must be finite and at least 0");
  EXPECT_EQ(built_by(adamw{.epsilon = NAN}), "adamw: epsilon is nan; it must be finite and at least 0");
  EXPECT_EQ(built_by(adamw{.beta2 = 1}), "adamw: beta2 is 1; it must be at least 0 and less than 1");
  EXPECT_EQ(built_by(adam{.learning_rate = 0, .beta1 = 0}), "no error");
  EXPECT_EQ(support::sentence_of([&] { run.set_learning_rate(NAN); }),
            "adam: learning_rate is nan; it must be finite and at least 0");
  EXPECT_EQ(support::sentence_of([&] {
              run.training::step({{"x", x}, {"labels", label}});
            }),
            "there is no input \"labels\"; the model has \"x\", \"label\"; did you mean \"label\"?");
  EXPECT_EQ(support::sentence_of([&] { run.step(bind<"x">(x)); }),
            "input \"label\" was not bound; every step binds it anew: bind<\"label\">(values), or {\"label\", values} "
            "where names are not known before");
  EXPECT_EQ(support::sentence_of([&] { (void)run.parameters().get("one"); }),
            "there is no parameter \"one\"; did you mean \"one.weight\"?");
  EXPECT_EQ(support::sentence_of([&] { run.parameters().load(""); }), "\"\": names no file to read");
  run.step(bind<"x">(x), bind<"label">(label)).wait();
}

TEST(runtime_session, each_way_to_misread_a_program_has_a_sentence_of_its_own) {
  const device& gpu = support::shared_device();
  graph g;
  const node_id x = g.input("x", dtype::f32, {3});
  g.add_output("total", g.reduce(reduce_kind::sum, x, 1));
  g.add_output("doubled", g.add(x, x));
  program sums(gpu, g, parameters(gpu, g));
  const std::vector<float> values{1, 2, 4};
  const auto step = [&] {
    sums.set_input("x", dtype::f32, std::as_bytes(std::span(values)));
    return sums.submit();
  };
  const auto said = [&](std::string_view name, std::uint64_t number) {
    return support::sentence_of([&] { (void)sums.scalar_output(name, number); });
  };
  EXPECT_EQ(said("total", 1), "output \"total\" was read before the first run; run the model first");
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(sums.scalar_output("total", 3), 7);
  EXPECT_EQ(said("totl", 3), "there is no output \"totl\"; there is \"total\", \"doubled\"; did you mean \"total\"?");
  EXPECT_EQ(said("doubled", 3),
            "scalar_output: output \"doubled\" is f32[3], and only f32[] is one number; read it by program.output");
  for (const std::uint64_t number : {0u, 1u, 4u}) {
    EXPECT_EQ(said("total", number), "scalar output \"total\" of step " + std::to_string(number) +
                                         " is not kept; those of the two latest steps are, and the latest is 3");
  }
  EXPECT_EQ(support::sentence_of([&] { (void)sums.profile(); }),
            "profile was asked of a program without timestamps; build it with program_options{.profile = "
            "profiling::dispatches}");
  EXPECT_EQ(support::sentence_of([&] { sums.wait(4); }),
            "wait for step 4: the latest step submitted is 3; submit it first");
  for (std::uint64_t number = 0; number < 4; ++number) EXPECT_NO_THROW(sums.wait(number));
}

TEST(runtime_session, a_state_of_a_graph_is_written_while_it_trains) {
  graph g;
  const node_value x(g, g.input("x", dtype::f32, {1, 4})), y(g, g.input("y", dtype::f32, {1, 2}));
  const node_id seen = g.state("seen", dtype::f32, {});
  g.assign(seen, g.add(seen, g.constant(1)));
  const node_id loss = mean_squared_error_loss(linear<"fc", 2>(x) + node_value(g, seen), y);
  training run(support::shared_device(), std::move(g), loss, sgd{.learning_rate = 0});
  run.parameters().set("fc.weight", std::vector<float>(8));
  run.parameters().set("fc.bias", std::vector<float>(2));
  const std::vector<float> ones(4), zeros(2);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(run.step({{"x", ones}, {"y", zeros}}).loss(), static_cast<float>(i * i));
}

}  // namespace
