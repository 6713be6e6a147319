// SPDX-License-Identifier: MIT
// Checkpoints: going on is not having stopped, bit for bit; a file of another run changes nothing.
#include <meganeura/core/error.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/io/file.hpp>
#include <meganeura/io/safetensors.hpp>
#include <meganeura/runtime/checkpoint.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <support/program_values.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

namespace {

using namespace meganeura;

inline constexpr dim batch = sym<"batch">;

template <int Hidden>
struct noisy_layers {  // dropout, as it would be written
  static constexpr auto forward(value auto x) {
    auto h = relu(linear<"one", Hidden>(x));
    auto kept = less(meganeura::random<"drop", dims<batch, Hidden>>, constant<0.7f>);
    return linear<"two", 3>(select(kept, h, constant<0.0f>));
  }
};
template <int Hidden>
using network = model<noisy_layers<Hidden>, input<"x", dtype::f32, dims<batch, 4>>>;

struct half_frozen_layers {
  static constexpr auto forward(value auto x) {
    auto h = relu(linear<"two", 5>(stop_gradient(linear<"one", 6>(x))));
    return linear<"four", 3>(stop_gradient(linear<"three", 6>(h)) + linear<"five", 6>(h));
  }
};
using half_frozen = model<half_frozen_layers, input<"x", dtype::f32, dims<batch, 4>>>;

// A running statistic enters the loss, so that losing it would show.
template <class Model = network<6>>
node_id remembering_loss(graph& g) {
  const symbol_extent symbols[] = {{"batch", 5}};
  const node_id loss = lower_loss<Model, cross_entropy<"label">>(g, lower_into<Model>(g, symbols), symbols)[0];
  const node_id seen = g.state("seen", dtype::f32, {});
  g.assign(seen, g.add(seen, loss));
  return g.multiply(loss, g.add(g.constant(1), g.multiply(seen, g.constant(0.125))));
}
template <class Model = network<6>>
training remembering(const optimizer& chosen, const training_options& options = {}) {
  graph g;
  const node_id loss = remembering_loss<Model>(g);
  return {support::shared_device(), std::move(g), loss, chosen, options};
}

std::uint32_t train(training& run, int steps) {
  float loss = 0;
  for (int i = 0; i < steps; ++i) {
    std::vector<float> x(20);
    std::vector<std::int32_t> label(5);
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>((k * 7 + run.steps() * 3) % 11) / 11;
    for (std::size_t k = 0; k < label.size(); ++k) label[k] = static_cast<std::int32_t>((k + run.steps()) % 3);
    loss = run.step({{"x", x}, {"label", label}}).loss();
  }
  return std::bit_cast<std::uint32_t>(loss);
}

// `others`: the same kind of optimiser with other rates, which the file corrects.
template <class Model = network<6>>
void goes_on(const optimizer& chosen, const optimizer& others) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  training whole = remembering<Model>(chosen, {.seed = 11});
  whole.parameters().init({.seed = 2});
  train(whole, 2);
  whole.set_learning_rate(0.037f);
  train(whole, 1);
  whole.save_checkpoint(path);
  training resumed = remembering<Model>(others, {.seed = 99});
  resumed.load_checkpoint(path);
  EXPECT_EQ(resumed.steps(), 3u);
  EXPECT_EQ(support::everything(resumed), support::everything(whole));
  EXPECT_EQ(train(resumed, 3), train(whole, 3));
  EXPECT_EQ(support::everything(resumed), support::everything(whole));
}

TEST(runtime_checkpoint, gradient_descent_goes_on_bit_for_bit) { goes_on(sgd{.weight_decay = 0.1f}, sgd{}); }
TEST(runtime_checkpoint, momentum_goes_on_bit_for_bit) { goes_on(sgd{.momentum = 0.8f}, sgd{.momentum = 0.9f}); }
TEST(runtime_checkpoint, adam_goes_on_bit_for_bit) { goes_on(adam{.beta1 = 0.8f}, adam{.learning_rate = 1}); }
TEST(runtime_checkpoint, adamw_goes_on_bit_for_bit) { goes_on(adamw{.epsilon = 1e-5f}, adamw{.weight_decay = 0}); }

TEST(runtime_checkpoint, frozen_layers_have_no_moments_and_go_on) {
  goes_on<half_frozen>(adam{.beta1 = 0.8f}, adam{.learning_rate = 1});
  training run = remembering<half_frozen>(adam{});
  const auto is_frozen = [](const plan::named_range& kept) {
    return kept.name.find(".one.") != std::string::npos || kept.name.find(".three.") != std::string::npos;
  };
  EXPECT_TRUE(std::ranges::none_of(run.moments().list(), is_frozen));
  EXPECT_EQ(run.moments().list().size(), 2u * 6);
  const auto& bytes = run.program().plan().area_bytes;
  const std::uint64_t updated = 6 * plan::tensor_alignment;  // weights and biases of three layers, all of them small
  for (const plan::area each : {plan::area::gradient, plan::moment_area(0), plan::moment_area(1)})
    EXPECT_EQ(bytes[plan::index_of(each)], updated);
}

TEST(runtime_checkpoint, a_file_of_another_run_is_refused_and_changes_nothing) {
  const device& gpu = support::shared_device();
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors", weights = folder / "weights.safetensors";
  training run = remembering(adam{});
  EXPECT_NE(support::sentence_of([&] { run.save_checkpoint(path); }).find("have no values"), std::string::npos);
  run.parameters().init();
  train(run, 1);
  run.save_checkpoint(path);
  run.parameters().save(weights);

  trainer<network<7>, cross_entropy<"label">> other(gpu, sgd{}, {{"batch", 5}});
  other.parameters().init();
  train(other, 2);
  const auto before = support::everything(other);
  EXPECT_EQ(support::sentence_of([&] { other.load_checkpoint(path); }),
            path +
                " is of another training run and nothing was loaded; the optimizer: expected sgd, found \"adam\"; "
                "\"one.weight\": expected F32 [7, 4], found F32 [6, 4]; \"one.bias\": expected F32 [7], found F32 [6]; "
                "\"two.weight\": expected F32 [3, 7], found F32 [3, 6]; \"seen\" is not in the model");
  EXPECT_NE(support::sentence_of([&] { other.load_checkpoint(weights); }).find("is no checkpoint of a training run"),
            std::string::npos);
  EXPECT_EQ(support::sentence_of([&] { run.parameters().load(path); }),
            path +
                " is a checkpoint of a training run; load it by trainer.load_checkpoint, or its weights alone with "
                "{.strict = false}");
  EXPECT_NO_THROW(run.parameters().load(path, {.strict = false}));
  EXPECT_EQ(support::everything(other), before);
  EXPECT_EQ(other.steps(), 2u);
  EXPECT_EQ(other.parameters().load(path, {.strict = false}).mis_shaped.size(), 3u);  // but the bias of two fits
  run.parameters().load(weights);  // and plain weights stay plain weights
}

// The same file with other metadata, and what is called `from` called `to`.
void rewrite(const std::string& path, const std::function<void(io::safetensors_metadata&)>& change,
             std::string_view from = {}, const std::string& to = {}) {
  const auto file = io::safetensors_file::open(path);
  io::safetensors_metadata metadata = file.metadata();
  change(metadata);
  std::vector<std::vector<std::byte>> values;
  std::vector<io::safetensors_entry> entries;
  for (const auto& tensor : file.tensors()) {
    values.push_back(file.read(tensor));
    entries.push_back({tensor.name == from ? to : tensor.name, tensor.dtype, tensor.shape, values.back()});
  }
  io::write_safetensors(path, entries, metadata);
}

std::string& text_of(io::safetensors_metadata& metadata, std::string_view key) {
  return std::ranges::find(metadata, key, &io::safetensors_metadata::value_type::first)->second;
}

// As another program might write it.
void write_rate(const std::string& path, std::string_view name, std::string_view rate) {
  rewrite(path, [&](io::safetensors_metadata& metadata) { text_of(metadata, name) = rate; });
}

TEST(runtime_checkpoint, rates_of_a_file_are_those_an_optimizer_can_have) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  training run = remembering(adam{});
  run.parameters().init();
  train(run, 1);
  run.save_checkpoint(path);
  const auto written = io::read_file(path);
  train(run, 1);
  const auto before = support::everything(run);
  const auto restore = [&] {
    const auto bytes = std::as_bytes(std::span(written));
    io::write_file(path, {&bytes, 1});
  };
  const auto refused = [&](std::string_view name, std::string_view rate, const std::string& why) {
    restore();
    write_rate(path, name, rate);
    EXPECT_EQ(support::sentence_of([&] { run.load_checkpoint(path); }),
              path + ": " + why + "; nothing was loaded, take another copy");
    EXPECT_EQ(support::everything(run), before);
    EXPECT_EQ(run.steps(), 2u);
  };
  refused("learning_rate", "nan", "adam: learning_rate is nan; it must be finite and at least 0");
  refused("weight_decay", "inf", "adam: weight_decay is inf; it must be finite and at least 0");
  refused("epsilon", "-1", "adam: epsilon is -1; it must be finite and at least 0");
  refused("beta2", "1", "adam: beta2 is 1; it must be at least 0 and less than 1");
  restore();
  write_rate(path, "beta2", "0.5");
  run.load_checkpoint(path);
  EXPECT_EQ(run.steps(), 1u);
}

TEST(runtime_checkpoint, a_momentum_without_moments_is_refused) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  training run = remembering(sgd{});
  run.parameters().init();
  run.save_checkpoint(path);
  write_rate(path, "momentum", "0.5");
  EXPECT_EQ(support::sentence_of([&] { run.load_checkpoint(path); }),
            path +
                ": the optimizer is said to be sgd and its rates are those of sgd with momentum; nothing was loaded, "
                "take another copy");
}

TEST(runtime_checkpoint, ranges_that_a_program_does_not_keep_are_refused) {
  const training run = remembering(adam{});
  optimizer_moments running = run.moments();
  const plan::named_range kept = running.list().at(0);
  std::vector<plan::named_range> others(4, kept);
  others[0].where.offset = std::uint64_t{1} << 40;
  others[1].where.where = static_cast<plan::area>(60);
  others[2].where.bytes = std::uint64_t{1} << 20;
  others[3].name = "another";
  for (const plan::named_range& other : others) {
    const std::vector<std::byte> values(other.where.bytes);
    EXPECT_NE(support::sentence_of([&] { (void)running.read(other); }).find("no moment has that name and place"),
              std::string::npos);
    EXPECT_NE(support::sentence_of([&] { running.write(other, values); }).find("no moment has that name and place"),
              std::string::npos);
  }
  EXPECT_NO_THROW(running.write(kept, running.read(kept)));
}

TEST(runtime_checkpoint, a_step_after_which_none_is_counted_is_refused) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  training run = remembering(sgd{});
  run.parameters().init();
  constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  save_checkpoint(path, run.parameters(), run.moments(), {sgd{}, most, 1});
  EXPECT_NE(support::sentence_of([&] { run.load_checkpoint(path); }).find("after which no step is counted"),
            std::string::npos);
  EXPECT_EQ(run.steps(), 0u);
  save_checkpoint(path, run.parameters(), run.moments(), {sgd{}, most - 1, 1});
  run.load_checkpoint(path);
  train(run, 1);
  EXPECT_EQ(run.steps(), most);
  EXPECT_NE(support::sentence_of([&] { train(run, 1); }).find("no further one is counted"), std::string::npos);
  EXPECT_EQ(run.steps(), most);
}

TEST(runtime_checkpoint, a_later_format_is_refused) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  training run = remembering(sgd{});
  run.parameters().init();
  run.save_checkpoint(path);
  rewrite(path, [](io::safetensors_metadata& metadata) { text_of(metadata, "meganeura.checkpoint") = "5"; });
  EXPECT_EQ(
      support::sentence_of([&] { run.load_checkpoint(path); }),
      path +
          " is a checkpoint of format \"5\", written by a newer meganeura; this one reads formats up to \"4\": load it "
          "by the newer one");
}

// It lacks the rates that optimizers got later: those of the trainer are taken.
TEST(runtime_checkpoint, the_third_format_is_read) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors", again = folder / "again.safetensors";
  training run = remembering(sgd{.momentum = 0.5f}), other = remembering(sgd{.momentum = 0.9f, .dampening = 0.25f});
  run.parameters().init();
  run.save_checkpoint(path);
  const auto without = [](io::safetensors_metadata& metadata) {
    std::erase_if(metadata, [](const auto& each) { return each.first == "dampening"; });
  };
  rewrite(path, without);
  EXPECT_NE(support::sentence_of([&] { other.load_checkpoint(path); }).find("\"dampening\" must be a number"),
            std::string::npos);
  rewrite(path, [](io::safetensors_metadata& metadata) { text_of(metadata, "meganeura.checkpoint") = "3"; });
  other.load_checkpoint(path);
  other.save_checkpoint(again);
  io::safetensors_metadata found = io::safetensors_file::open(again).metadata();
  EXPECT_EQ(text_of(found, "dampening"), "0.25");
  EXPECT_EQ(text_of(found, "momentum"), "0.5");
}

// It does not say what groups were.
TEST(runtime_checkpoint, the_second_format_is_read) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  training run = remembering(sgd{}, {.frozen = "one.bias"}), other = remembering(sgd{});
  run.parameters().init();
  run.save_checkpoint(path);
  EXPECT_NE(support::sentence_of([&] { other.load_checkpoint(path); }), "no error");
  rewrite(path, [](io::safetensors_metadata& metadata) { text_of(metadata, "meganeura.checkpoint") = "2"; });
  EXPECT_EQ(support::sentence_of([&] { other.load_checkpoint(path); }), "no error");
}

TEST(runtime_checkpoint, the_first_format_is_read) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  training run = remembering(adam{});
  run.parameters().init();
  train(run, 2);
  run.save_checkpoint(path);
  const auto saved = support::everything(run);
  rewrite(
      path, [](io::safetensors_metadata& metadata) { text_of(metadata, "meganeura.checkpoint") = "1"; }, "seen",
      "state.seen");
  train(run, 1);
  EXPECT_NE(support::everything(run), saved);
  run.load_checkpoint(path);
  EXPECT_EQ(support::everything(run), saved);
}

struct confusing_names {
  static constexpr auto forward(value auto x) {
    return x * parameter<"p", dims<4>> * parameter<"optimizer.m.p", dims<4>>;
  }
};

TEST(runtime_checkpoint, a_parameter_named_like_a_moment_is_refused_before_anything_is_trained) {
  using confusing = model<confusing_names, input<"x", dtype::f32, dims<4>>>;
  const device& gpu = support::shared_device();
  EXPECT_EQ(support::sentence_of([&] { trainer<confusing, mean_squared_error<"y">>(gpu, adam{}, {}); }),
            "parameter \"optimizer.m.p\" has the name of what a checkpoint keeps of the optimizer; give one of them "
            "another name");
  EXPECT_NO_THROW((trainer<confusing, mean_squared_error<"y">>(gpu, sgd{})));
}

// Every bit of the header and some of the data: refused as damaged, but for what changes the header's length or place.
TEST(runtime_checkpoint, a_flipped_bit_is_refused) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors", damaged = folder / "damaged.safetensors";
  training run = remembering(adam{}, {.seed = 11});
  run.parameters().init({.seed = 2});
  train(run, 2);
  run.save_checkpoint(path);
  const auto whole = support::everything(run);
  const std::vector<std::uint8_t> bytes = io::read_file(path);
  const std::size_t header = 8 + bytes[0] + 256u * bytes[1];
  int flips = 0, damages = 0;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += bit < 8 * header ? 5 : 205, ++flips) {
    std::vector<std::uint8_t> changed = bytes;
    changed[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    support::write(damaged, changed);
    const std::string sentence = support::sentence_of([&] { run.load_checkpoint(damaged); });
    EXPECT_NE(sentence, "no error") << bit;
    damages += sentence.ends_with(": the file was damaged or changed since; take another copy");
  }
  EXPECT_EQ(run.steps(), 2u);
  EXPECT_EQ(support::everything(run), whole);
  EXPECT_GE(damages, flips - 64 - 8 * 17);    // the 64 bits of the header's length, the checksum's own key
  std::vector<std::uint8_t> changed = bytes;  // the key of a checksum, and what it guarded
  const std::string key = "\"crc32.one.weight";
  *(std::ranges::search(changed, key).begin() + 1) ^= 1;
  changed[header] ^= 0x40;
  support::write(damaged, changed);
  EXPECT_NE(support::sentence_of([&] { run.load_checkpoint(damaged); }), "no error");
  EXPECT_EQ(support::everything(run), whole);
}

}  // namespace
