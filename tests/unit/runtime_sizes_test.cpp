// SPDX-License-Identifier: MIT
// Sizes that change: what is bound says what symbols are worth; programs by sizes share weights, moments and counters.
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/inference.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>
#include <meganeura/vulkan/device_state.hpp>

#include <support/sentence_of.hpp>
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
  const program* prepared = &any.prepare({{"batch", 9}});
  EXPECT_EQ(&any.program(), one);
  EXPECT_EQ(run(9), prepared);
}

struct row_sums {
  static constexpr auto forward(value auto x, value auto z) { return sum<-1>(x) + z; }
};
using summed = model<row_sums, input<"x", dtype::f32, dims<batch, 2>>, input<"z", dtype::f32, dims<batch>>>;

TEST(runtime_sizes, a_read_is_of_the_run_that_happened_last_whatever_was_refused_or_prepared_since) {
  const device& gpu = support::shared_device();
  const auto ones = [](std::size_t n) { return std::vector<float>(n, 1); };
  for (const std::size_t most : {1u, 2u, 8u}) {
    session<summed> any(gpu, {}, {.most_sizes = most});
    EXPECT_NE(support::sentence_of([&] { any.run(bind<"x">(ones(2))); }), "no error");
    EXPECT_NE(support::sentence_of([&] { (void)any.read("output"); }).find("before the first run"), std::string::npos);
    any.run(bind<"x">(ones(4)), bind<"z">(ones(2)));
    const auto latest = any.run(bind<"x">(ones(6)), bind<"z">(ones(3)));
    EXPECT_EQ(latest, std::vector<float>(3, 3));
    const program* there = &any.program();
    for (const std::size_t rows : {2u, 4u, 5u, 3u, 6u}) {  // met and never met
      EXPECT_EQ(support::sentence_of([&] { any.start(bind<"x">(ones(rows * 2))); }),
                "input \"z\" was not bound; every step binds it anew: bind<\"z\">(values), or {\"z\", values} where "
                "names are not known before");
      EXPECT_EQ(any.read("output"), latest) << rows;
    }
    for (const std::int64_t rows : {2, 7, 9, 1}) {
      EXPECT_EQ(any.prepare({{"batch", rows}}).plan().outputs[0].extents, shape{rows});
      EXPECT_EQ(any.read("output"), latest) << rows;
    }
    EXPECT_EQ(&any.program(), there);
    EXPECT_EQ(any.run(bind<"x">(ones(2)), bind<"z">(ones(1))), std::vector<float>{3});
    EXPECT_EQ(any.read("output"), std::vector<float>{3});
  }
}

TEST(runtime_sizes, a_refused_run_of_new_sizes_takes_no_place_of_one_that_ran) {
  const device& gpu = support::shared_device();
  int made = 0;
  inference any(gpu,
                {open_sizes({{"x", dims<batch>}, {"z", dims<batch>}}),
                 [&](const symbol_extents& at) {
                   ++made;
                   graph g;
                   const node_id x = g.input("x", dtype::f32, {at["batch"]}),
                                 z = g.input("z", dtype::f32, {at["batch"]});
                   g.add_output("y", g.add(x, z));
                   return g;
                 }},
                {.most_sizes = 2});
  const auto run = [&](std::size_t n) { any.run({{"x", std::vector<float>(n)}, {"z", std::vector<float>(n)}}); };
  run(1), run(2);
  for (const std::size_t n : {3u, 4u, 5u})
    EXPECT_NE(support::sentence_of([&] { any.start({{"x", std::vector<float>(n)}}); }), "no error");
  EXPECT_EQ(made, 5);
  run(5);  // built already; 1 leaves for it
  EXPECT_EQ(made, 5);
  run(2), run(5);
  EXPECT_EQ(made, 5);
  run(1);
  EXPECT_EQ(made, 6);
}

TEST(runtime_sizes, what_was_evaluated_and_stepped_last_stays_readable_after_a_refusal) {
  const device& gpu = support::shared_device();
  trainer<classifier, cross_entropy<"label">> fit(gpu, sgd{});
  fit.parameters().init();
  const auto on = [&](std::size_t n, const auto& call) {
    const auto x = support::uniform(n * 5, static_cast<unsigned>(n));
    return call(bind<"x">(x), bind<"label">(labels(n)));
  };
  for (const std::size_t n : {2u, 3u}) {
    on(n, [&](auto x, auto label) { return fit.evaluate(x, label); });
    on(n, [&](auto x, auto label) { return fit.step(x, label).loss(); });
  }
  const auto evaluated = fit.evaluated(), loss = fit.read("loss");
  EXPECT_EQ(evaluated.size(), 9u);
  for (const std::size_t n : {2u, 4u}) {
    EXPECT_NE(support::sentence_of([&] { on(n, [&](auto x, auto) { return fit.evaluate(x); }); }), "no error");
    EXPECT_NE(support::sentence_of([&] { on(n, [&](auto x, auto) { return fit.step(x).loss(); }); }), "no error");
    EXPECT_EQ(fit.evaluated(), evaluated);
    EXPECT_EQ(fit.read("loss"), loss);
  }
  EXPECT_EQ(fit.steps(), 2u);
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
    for (const auto& tensor : step.parameters().layout().tensors)
      EXPECT_EQ(whole.parameters().get(tensor.name), step.parameters().get(tensor.name)) << tensor.name;
    for (const auto& moment : step.moments().list())
      EXPECT_EQ(whole.moments().read(moment), step.moments().read(moment)) << moment.name;
  }
}

TEST(runtime_sizes, a_checkpoint_is_loaded_before_sizes_are_known) {
  const device& gpu = support::shared_device();
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  const auto x = support::uniform(6 * 5, 3);
  const auto step = [&](auto& run) { return run.step(bind<"x">(x), bind<"label">(labels(6))).loss(); };
  using run = trainer<classifier, cross_entropy<"label">>;
  run whole(gpu, adam{.learning_rate = 0.05f});
  whole.parameters().init({.seed = 2});
  step(whole), step(whole);
  whole.save_checkpoint(path);

  run resumed(gpu, adam{}), frozen(gpu, adam{}, {}, {.frozen = "in.*"});
  resumed.load_checkpoint(path);
  EXPECT_EQ(resumed.steps(), 2u);
  frozen.load_checkpoint(path);
  EXPECT_EQ(support::sentence_of([&] { step(frozen); }),
            path +
                " is of a training with other frozen, no_decay or groups and was loaded; \"in.bias\": expected frozen, "
                "found the rates of all; \"in.weight\": expected frozen, found the rates of all; give this one the "
                "same, or restart: the weights stay");
  EXPECT_EQ(frozen.steps(), 2u);
  run slow(gpu, adam{}, {}, {.groups = {{.names = "in.weight", .rate = 0.5f}}});
  slow.load_checkpoint(path);
  for (int i = 0; i < 2; ++i) {
    EXPECT_NE(support::sentence_of([&] {
                step(slow);
              }).find("\"in.weight\": expected learning_rate * 0.5, found the rates of all"),
              std::string::npos);
  }
  frozen.restart();
  const float third = step(whole);
  EXPECT_EQ(step(resumed), third);
  EXPECT_EQ(step(frozen), third);  // before its update
  for (const auto& moment : whole.moments().list())
    EXPECT_EQ(resumed.moments().read(moment), whole.moments().read(moment)) << moment.name;

  run other(gpu, sgd{});
  EXPECT_NE(support::sentence_of([&] { other.load_checkpoint(path); }).find("the optimizer: expected sgd"),
            std::string::npos);
  EXPECT_NE(support::sentence_of([&] { other.save_checkpoint(path); }), "");
  frozen.save_checkpoint(path);  // of fewer parameters
  run lacking(gpu, adam{}), alike(gpu, adam{}, {}, {.frozen = "in.*"});
  lacking.load_checkpoint(path);
  EXPECT_NE(support::sentence_of([&] { step(lacking); }).find("\"in.bias\": expected the rates of all, found frozen"),
            std::string::npos);
  alike.load_checkpoint(path);
  EXPECT_EQ(step(alike), step(frozen));
}

// Groups alike, and another loss: what it updates is known when the first program is built.
struct whole_loss {
  static constexpr auto forward(value auto logits, value auto label) {
    return cross_entropy_loss(logits + parameter<"late", dims<3>>, label);
  }
};
struct late_loss {
  static constexpr auto forward(value auto logits, value auto label) {
    return cross_entropy_loss(stop_gradient(logits) + parameter<"late", dims<3>>, label);
  }
};

TEST(runtime_sizes, a_checkpoint_of_other_updates_is_refused_by_the_first_program) {
  const device& gpu = support::shared_device();
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  const auto x = support::uniform(6 * 5, 3);
  const auto step = [&](auto& run) { return run.step(bind<"x">(x), bind<"label">(labels(6))).loss(); };
  trainer<classifier, loss<whole_loss, meganeura::labels<"label">>> all(gpu, adam{});
  trainer<classifier, loss<late_loss, meganeura::labels<"label">>> few(gpu, adam{});
  all.parameters().init(), few.parameters().init();
  step(all);
  all.save_checkpoint(path);
  few.load_checkpoint(path);
  EXPECT_EQ(support::sentence_of([&] { step(few); }),
            "the checkpoint that was loaded has a moment \"optimizer.m.in.weight\", which the parameters that are "
            "updated do not have; load one of a training built alike, or restart");
  few.restart();
  step(few);
  few.save_checkpoint(path);
  trainer<classifier, loss<whole_loss, meganeura::labels<"label">>> lacking(gpu, adam{});
  lacking.load_checkpoint(path);
  EXPECT_EQ(support::sentence_of([&] { step(lacking); }),
            "the checkpoint that was loaded has no moment \"optimizer.m.in.weight\", which the parameters that are "
            "updated have; load one of a training built alike, or restart");
}

// What a program needs is simulated by the number of its allocations.
TEST(runtime_sizes, programs_unused_longest_make_room_where_memory_is_short) {
  vulkan::device_options options;
  options.disk_cache = false;
  int built = 0;
  options.log = [&](log_level, std::string_view text) { built += text.find("are ready after") != text.npos ? 1 : 0; };
  std::uint32_t before = 0, most = 0;
  const auto run = [](session<classifier>& any, std::size_t n) {
    EXPECT_EQ(any.run(bind<"x">(support::uniform(n * 5, 1))).size(), n * 3);
  };
  {
    const support::checked_device counting(options);
    session<classifier> any(counting);
    any.parameters().init();
    before = counting.state()->live_allocations;
    run(any, 1), run(any, 2), run(any, 3), run(any, 4);
    most = counting.state()->live_allocations;
    options.at_most = counting.facts();
  }
  options.at_most->max_allocations = most;  // four programs
  const support::checked_device small(options);
  session<classifier> any(small);
  any.parameters().init();
  built = 0;
  run(any, 1), run(any, 2), run(any, 3), run(any, 4);
  run(any, 5);  // in the place of 1 and 2
  EXPECT_EQ(built, 5);
  run(any, 3), run(any, 4), run(any, 5);
  EXPECT_EQ(built, 5);
  run(any, 1);
  EXPECT_EQ(built, 6);

  options.at_most->max_allocations = before + 2;  // not even one
  const support::checked_device tiny(options);
  session<classifier> none(tiny);
  EXPECT_NE(support::sentence_of([&] {
              none.prepare({{"batch", 1}});
            }).find("the program does not fit"),
            std::string::npos);
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
  EXPECT_EQ(support::sentence_of([&] { any.run(bind<"x">(ragged)); }),
            "input \"x\" is [batch, 5] and was given 12 elements, which no extent of \"batch\" makes");
  EXPECT_EQ(support::sentence_of([&] { any.run(); }),
            "what \"batch\" is worth is not known: input \"x\" [batch, 5] was not bound; bind \"x\", which says it, "
            "or \"batch\" by its name, bind<\"batch\">(n) or {\"batch\", n}");
  EXPECT_EQ(support::sentence_of([&] {
              static_cast<inference&>(any).run({{"X", ragged}});
            }),
            "what \"batch\" is worth is not known: input \"x\" [batch, 5] was not bound, but \"X\" was; bind \"x\", "
            "which says it, or \"batch\" by its name, bind<\"batch\">(n) or {\"batch\", n}");
  EXPECT_EQ(support::sentence_of([&] { any.run(bind<"x">(std::vector<float>())); }),
            "input \"x\" is [batch, 5] and was given 0 elements, which no extent of \"batch\" makes");
  EXPECT_EQ(support::sentence_of([&] { (void)any.program(); }),
            "no program is built, because its sizes are not known yet or memory was short; run once, or prepare sizes "
            "first");
  EXPECT_EQ(support::sentence_of([&] {
              session<classifier>(gpu, {{"bach", 3}});
            }),
            "\"bach\" is bound to 3, but no symbol of the model: it has \"batch\"; did you mean \"batch\"?");
  EXPECT_EQ(support::sentence_of([&] {
              any.prepare({{"batch", 0}});
            }),
            "the symbol \"batch\" is bound to 0; an extent is at least 1");
  session<classifier> fixed(gpu, {{"batch", 2}});
  EXPECT_EQ(support::sentence_of([&] { fixed.run(bind<"x">(ragged)); }),
            "input \"x\" is f32[2, 5], 40 bytes; it was given 48 bytes of f32");
  EXPECT_EQ(support::sentence_of([&] { fixed.run(bind<"x">(ragged), bind<"batch">(3)); }),
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
  EXPECT_EQ(support::sentence_of([&] { any.run(bind<"x">(x), bind<"y">(std::vector<float>(4))); }),
            "input \"x\" is [batch, sequence] and was given 6 elements, which no extent of \"sequence\" makes");
  EXPECT_EQ(
      support::sentence_of([&] { any.run(bind<"x">(x)); }),
      "what \"batch\" and \"sequence\" are worth is not known: input \"x\" [batch, sequence] was given 6 elements, "
      "input \"y\" [batch] was not bound; bind \"y\", which says it, or \"sequence\" by its name, "
      "bind<\"sequence\">(n) or {\"sequence\", n}");
  EXPECT_EQ(support::sentence_of([&] { any.run(bind<"x">(x), bind<"y">(y), bind<"sequence">(2)); }),
            "input \"y\" is [batch] and was given 2 elements; with batch = 3 it has 3");

  session<square> rows(gpu);
  rows.parameters().init();
  EXPECT_EQ(rows.run(bind<"x">(support::uniform(3 * 3 * 5, 1))).size(), 27u);
  EXPECT_NE(support::sentence_of([&] {
              rows.run(bind<"x">(support::uniform(5 * 5, 1)));
            }).find("no extent of \"batch\" makes"),
            std::string::npos);
}

// What the model's input leaves open a loss's own says.
struct weighted {
  static constexpr auto forward(value auto y, value auto weight) { return mean(y * weight); }
};
using two_open = model<network, input<"x", dtype::f32, dims<batch, sequence, 5>>>;

TEST(runtime_sizes, inputs_of_a_loss_say_symbols_too) {
  trainer<two_open, loss<weighted, input<"weight", dtype::f32, dims<sequence, 1>>>> run(support::shared_device(),
                                                                                        sgd{});
  run.parameters().init();
  const auto x = support::uniform(6 * 5, 3);
  run.step(bind<"x">(x), bind<"weight">(std::vector<float>(3, 1))).wait();
  EXPECT_EQ(run.program().plan().inputs.find("x")->extents, (shape{2, 3, 5}));
  EXPECT_EQ(run.evaluate(bind<"x">(x), bind<"weight">(std::vector<float>(2, 0))), 0);
  EXPECT_EQ(run.evaluation().program().plan().inputs.find("x")->extents, (shape{3, 2, 5}));
}

struct positions {
  static constexpr auto forward(value auto x) { return x + parameter<"table", dims<sequence, 4>>; }
};
using positioned = model<positions, input<"x", dtype::f32, dims<batch, sequence, 4>>>;

TEST(runtime_sizes, two_open_symbols_of_one_input_need_a_binding_and_a_parameter_a_fixed_one) {
  const device& gpu = support::shared_device();
  EXPECT_EQ(support::sentence_of([&] { session<positioned>{gpu}; }),
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
  EXPECT_NE(support::sentence_of([&] { run.parameters().init(); }).find("these parameters are an empty handle"),
            std::string::npos);
  EXPECT_NE(support::sentence_of([&] { (void)run.moments().list(); }).find("there are no moments before"),
            std::string::npos);
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
  EXPECT_NE(support::sentence_of([&] {
              (void)symbol_extents({{"batch", 1}})["bach"];
            }).find("did you mean \"batch\"?"),
            std::string::npos);
}

TEST(runtime_sizes, a_graph_that_is_made_with_other_extents_than_declared_is_refused) {
  const device& gpu = support::shared_device();
  const open_sizes sizes({{"x", dims<sym<"b">, sym<"t">>}});
  inference run(gpu, {sizes, [](const symbol_extents& at) {
                        graph g;
                        const node_value x(g, g.input("x", dtype::f32, {at["t"], at["b"]}));
                        g.add_output("y", sum(x, 0));
                        return g;
                      }});
  const std::vector<float> x(6, 1);
  EXPECT_EQ(support::sentence_of([&] {
              (void)run.run({{"x", x}}, {{"b", 2}});
            }),
            "input \"x\" is declared [b, t], which is [2, 3], and the graph that was made for these sizes has it as "
            "[3, 2]; make them alike");
}

TEST(runtime_sizes, a_checkpoint_for_a_graph_without_parameters_yet_says_what_to_do) {
  const device& gpu = support::shared_device();
  training run(gpu,
               {open_sizes({{"x", dims<sym<"b">, 4>}}),
                [](const symbol_extents& at, run_mode mode) {
                  graph g(mode);
                  const node_value x(g, g.input("x", dtype::f32, {at["b"], 4}));
                  const node_id loss = mean(linear("fc", x, 1));
                  return graph_with_loss{std::move(g), loss};
                }},
               adam{});
  EXPECT_NE(support::sentence_of([&] {
              run.load_checkpoint("run.safetensors");
            }).find("this graph's parameters are known with its first program; prepare some sizes"),
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
  EXPECT_NE(support::sentence_of([&] {
              run.prepare({{"batch", 3}});
            }).find("update other parameters"),
            std::string::npos);
}

TEST(runtime_sizes, a_first_build_that_fails_leaves_no_parameters) {
  bool first = true;
  inference run(support::shared_device(),
                {open_sizes({{"x", dims<batch, 4>}}), [&](const symbol_extents& at) {
                   graph g;
                   const std::int64_t rows = at["batch"];
                   const node_value x(g, g.input("x", dtype::f32, {rows, 4}));
                   const node_value w(g, g.parameter("w", dtype::f32, first ? shape{rows, 4} : shape{4}));
                   const node_value y = x * w;
                   g.add_output("y", y);
                   if (first) {  // no device has the memory
                     g.add_output("large", g.scatter_add(g.iota(1), g.reshape(y, {1, rows * 4}), 0,
                                                         {std::int64_t{1} << 36, rows * 4}));
                   }
                   return g;
                 }});
  EXPECT_NE(support::sentence_of([&] { run.prepare({{"batch", 2}}); }), "no error");
  EXPECT_FALSE(run.parameters());
  first = false;
  EXPECT_EQ(support::sentence_of([&] { run.prepare({{"batch", 3}}); }), "no error");
}

TEST(runtime_sizes, a_training_without_a_program_restarts) {
  training run(support::shared_device(),
               {open_sizes({{"x", dims<batch>}}),
                [](const symbol_extents& at) {
                  graph g;
                  const node_value x(g, g.input("x", dtype::f32, {at["batch"]}));
                  const node_id loss = mean(x * node_value(g, g.parameter("w", dtype::f32, {1})));
                  return graph_with_loss{std::move(g), loss};
                }},
               sgd{});
  EXPECT_EQ(support::sentence_of([&] { run.restart(); }), "no error");
}

}  // namespace
