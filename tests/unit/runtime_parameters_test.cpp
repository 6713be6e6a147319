// SPDX-License-Identifier: MIT
// Weights by name: types, conversions, files that do not fit; and what a program hands out of a step.
#include <meganeura/core/error.hpp>
#include <meganeura/io/safetensors.hpp>
#include <meganeura/runtime/parameters.hpp>
#include <meganeura/runtime/program.hpp>

#include <oracle/tensor.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/temporary_folder.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;

template <class Number>
std::vector<std::byte> bytes_of(const std::vector<Number>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

graph with_parameters(std::initializer_list<std::pair<const char*, dtype>> all, std::int64_t size) {
  graph g;
  for (const auto& [name, type] : all) g.parameter(name, type, {size});
  return g;
}

parameters made(const graph& g) { return {support::shared_device(), g}; }

TEST(runtime_parameters, halves_are_initialised_set_read_saved_and_loaded) {
  const support::temporary_folder folder;
  const std::string path = folder / "m.safetensors";
  graph g;
  g.parameter("q", dtype::f16, {4, 16});
  g.parameter("r", dtype::f32, {4, 16});
  parameters weights = made(g), others = made(g);
  weights.init({.seed = 3});
  for (const float value : weights.get("q")) {
    EXPECT_LE(std::fabs(value), 0.25f);
    EXPECT_EQ(value, static_cast<float>(oracle::round_to_half(static_cast<double>(value))));
  }
  std::vector<float> values(64, 1.5f);
  const std::array<float, 11> sharp{1 + 0x1p-11f,
                                    1 + 3 * 0x1p-11f,
                                    65519,
                                    std::numeric_limits<float>::infinity(),
                                    -65519,
                                    0x1p-25f,
                                    0x1.8p-25f,
                                    -0x1p-24f,
                                    -0.0f,
                                    0x1p-14f,
                                    std::nextafter(0x1p-14f, 0.0f)};
  std::copy(sharp.begin(), sharp.end(), values.begin());
  std::mt19937 random(1);
  for (std::size_t i = 12; i < values.size(); ++i)
    values[i] = std::ldexp(static_cast<float>(random()), -50 + int(i) / 2);
  weights.set("q", values);
  const auto read = weights.get("q");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto expected = static_cast<float>(oracle::round_to_half(static_cast<double>(values[i])));
    EXPECT_EQ(read[i], expected) << values[i];
    EXPECT_EQ(std::signbit(read[i]), std::signbit(expected)) << values[i];
  }
  weights.save(path);
  EXPECT_EQ(io::safetensors_file::open(path).find("q")->dtype, "F16");
  others.load(path);
  EXPECT_EQ(others.get_bytes("q"), weights.get_bytes("q"));
  EXPECT_EQ(others.get("r"), weights.get("r"));
  // From F32 in the file into halves, and from F16 and BF16 into floats.
  io::write_safetensors(path,
                        std::vector<io::safetensors_entry>{{"q", "F32", {4, 16}, std::as_bytes(std::span(values))},
                                                           {"r", "F16", {4, 16}, weights.get_bytes("q")}});
  others.load(path);
  EXPECT_EQ(others.get("q"), read);
  EXPECT_EQ(others.get("r"), read);
}

struct moments {
  double least, largest, mean, deviation;
};
moments moments_of(const std::vector<float>& values) {
  moments found{1e9, -1e9, 0, 0};
  const auto count = static_cast<double>(values.size());
  for (const float value : values) {
    found.least = std::min(found.least, static_cast<double>(value));
    found.largest = std::max(found.largest, static_cast<double>(value));
    found.mean += static_cast<double>(value) / count;
  }
  for (const float value : values) found.deviation += std::pow(static_cast<double>(value) - found.mean, 2) / count;
  found.deviation = std::sqrt(found.deviation);
  return found;
}

// The bounds and deviations of torch.nn.init, whose formulas these are; a share of draws off by 5 deviations or more
// has a chance of 6e-7.
TEST(runtime_parameters, tensors_begin_as_their_initializers_say) {
  struct wanted {
    initializer begin;
    double mean, deviation, bound;  // 0: none
  };
  const double in = 48 * 9, out = 96 * 9;
  const std::vector<wanted> all{
      {init::zeros, 0, 0, 0},
      {init::ones, 1, 0, 0},
      {init::constant(-2.5), -2.5, 0, 0},
      {init::uniform(-1, 3), 1, 4 / std::sqrt(12), 2},
      {init::normal(0.5, 0.02), 0.5, 0.02, 0},
      {init::fan_in_uniform, 0, 1 / std::sqrt(3 * in), 1 / std::sqrt(in)},
      {init::kaiming_uniform(), 0, std::sqrt(2 / in), std::sqrt(6 / in)},
      {init::kaiming_uniform(std::sqrt(5)), 0, 1 / std::sqrt(3 * in), 1 / std::sqrt(in)},
      {init::kaiming_normal(1), 0, std::sqrt(1 / in), 0},
      {init::xavier_uniform(2), 0, 2 * std::sqrt(2 / (in + out)), 2 * std::sqrt(6 / (in + out))},
      {init::xavier_normal(), 0, std::sqrt(2 / (in + out)), 0}};
  graph g;
  for (std::size_t i = 0; i < all.size(); ++i) g.parameter(std::to_string(i), dtype::f32, {96, 48, 3, 3}, all[i].begin);
  parameters weights = made(g);
  weights.init({.seed = 4});
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(to_string(all[i].begin));
    const std::vector<float> values = weights.get(std::to_string(i));
    const auto [least, largest, mean, deviation] = moments_of(values);
    const double off = 1e-9 + 5 * all[i].deviation / std::sqrt(static_cast<double>(values.size()));
    EXPECT_NEAR(mean, all[i].mean, off);
    EXPECT_NEAR(deviation, all[i].deviation, off);
    if (all[i].bound == 0) continue;
    const double bound = all[i].bound * (1 + 1e-6);
    EXPECT_GE(least, all[i].mean - bound);
    EXPECT_LE(largest, all[i].mean + bound);
    EXPECT_GT(largest - least, 2 * all[i].bound * 0.999);
  }
}

TEST(runtime_parameters, a_row_begins_as_zeros_where_its_initializer_says_so) {
  graph g;
  g.parameter("w", dtype::f32, {3, 2, 2}, initializer{.draw = initial_draw::normal, .square = 1, .zero_row = 1});
  parameters weights = made(g);
  weights.init({.seed = 4});
  const std::vector<float> values = weights.get("w");
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i] == 0, i / 4 == 1) << i;
}

TEST(runtime_parameters, orthogonal_rows_or_columns_are_orthonormal_times_the_gain) {
  graph g;
  g.parameter("wide", dtype::f32, {5, 3, 4}, init::orthogonal(2));
  g.parameter("tall", dtype::f32, {12, 5}, init::orthogonal());
  parameters weights = made(g);
  weights.init();
  const auto expect_orthonormal = [](const std::vector<float>& values, std::size_t step, std::size_t next,
                                     double square) {
    for (std::size_t a = 0; a < 5; ++a) {
      for (std::size_t b = 0; b <= a; ++b) {
        double product = 0;
        for (std::size_t i = 0; i < 12; ++i)
          product +=
              static_cast<double>(values[a * step + i * next]) * static_cast<double>(values[b * step + i * next]);
        EXPECT_NEAR(product, a == b ? square : 0, 1e-6);
      }
    }
  };
  expect_orthonormal(weights.get("wide"), 12, 1, 4);
  expect_orthonormal(weights.get("tall"), 1, 5, 1);
}

TEST(runtime_parameters, draws_depend_on_seed_and_name_alone) {
  graph few, many;
  few.parameter("w", dtype::f32, {4, 4});
  many.parameter("first", dtype::f32, {2, 9}, init::normal());
  many.parameter("w", dtype::f32, {4, 4});
  many.parameter("v", dtype::f32, {4, 4});
  parameters a = made(few), b = made(many);
  a.init({.seed = 1});
  b.init({.seed = 1});
  EXPECT_EQ(a.get("w"), b.get("w"));
  EXPECT_NE(b.get("v"), b.get("w"));
  b.init({.seed = 2});
  EXPECT_NE(a.get("w"), b.get("w"));
  b.init({.seed = 0});  // 'v' is 'w' xor 1
  EXPECT_NE(a.get("w"), b.get("v"));
}

TEST(runtime_parameters, integers_begin_as_constants) {
  graph g;
  g.parameter("n", dtype::i32, {3}, init::constant(-7));
  g.parameter("m", dtype::u32, {2}, init::constant(4e9));
  parameters weights = made(g);
  weights.init();
  EXPECT_EQ(weights.get_bytes("n"), bytes_of<std::int32_t>({-7, -7, -7}));
  EXPECT_EQ(weights.get_bytes("m"), bytes_of<std::uint32_t>({4000000000, 4000000000}));
}

TEST(runtime_parameters, states_begin_as_constants_and_are_reset_to_them) {
  graph g;
  g.state("var", dtype::f16, {2}, init::ones);
  g.state("count", dtype::i32, {}, init::constant(-3));
  g.state("mean", dtype::f32, {2});
  parameters weights = made(g);
  weights.set("mean", std::vector<float>{4, 5});
  weights.reset_states();
  EXPECT_EQ(weights.get("var"), (std::vector<float>{1, 1}));
  EXPECT_EQ(weights.get_bytes("count"), bytes_of<std::int32_t>({-3}));
  EXPECT_EQ(weights.get("mean"), (std::vector<float>{0, 0}));
}

// To the nearest of the parameter's dtype, whatever the file holds; one dtype on both sides stays bit for bit.
TEST(runtime_parameters, floats_of_every_dtype_are_loaded_into_every_other) {
  const support::temporary_folder folder;
  const std::string path = folder / "m.safetensors";
  const std::vector<dtype> types{dtype::f32, dtype::f16, dtype::bf16};
  const std::vector<float> values{0,       -0.0f,    1.5f,     257,   259,   1 + 0x1p-11f,
                                  65519.f, -70000.f, 0x1p-20f, 1e30f, 3e38f, -std::numeric_limits<float>::infinity()};
  const auto count = static_cast<std::int64_t>(values.size());
  for (const dtype from : types) {
    parameters source = made(with_parameters({{"w", from}}, count));
    std::vector<float> held = values;
    for (float& value : held) value = holds(from, value) ? value : 2;
    source.set("w", held);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(static_cast<double>(source.get("w")[i]), oracle::nearest(static_cast<double>(held[i]), from));
    source.save(path);
    EXPECT_EQ(io::safetensors_file::open(path).find("w")->dtype, info(from).safetensors);
    for (const dtype to : types) {
      parameters target = made(with_parameters({{"w", to}}, count));
      const std::vector<float> there = source.get("w");
      if (!std::ranges::all_of(there, [&](float value) { return holds(to, value); })) {
        EXPECT_NE(support::sentence_of([&] { target.load(path); }).find("cannot hold"), std::string::npos);
        continue;
      }
      target.load(path);
      const std::vector<float> found = target.get("w");
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_EQ(static_cast<double>(found[i]), oracle::nearest(static_cast<double>(there[i]), to)) << to_string(to);
      if (from != to) continue;
      EXPECT_EQ(target.get_bytes("w"), source.get_bytes("w"));
    }
  }
}

TEST(runtime_parameters, loading_renames_ignores_and_reports) {
  const support::temporary_folder folder;
  const std::string path = folder / "torch.safetensors";
  const std::vector<float> values{1, 2, 3, 4};
  const auto entry = [&](const char* name, std::vector<std::int64_t> extents, std::size_t count) {
    return io::safetensors_entry{
        name, "F32", {extents.begin(), extents.end()}, std::as_bytes(std::span(values).first(count))};
  };
  io::write_safetensors(
      path, std::vector<io::safetensors_entry>{entry("module.fc.weight", {2, 2}, 4), entry("module.fc.bias", {1, 2}, 2),
                                               entry("norm.gamma", {2}, 2), entry("bn.num_batches_tracked", {1}, 1),
                                               entry("head.weight", {3}, 3)});
  graph g;
  g.parameter("fc.weight", dtype::f32, {2, 2});
  g.parameter("fc.bias", dtype::f32, {2});
  g.parameter("norm.weight", dtype::f32, {2});
  parameters weights = made(g);
  const auto refusal = [&](const load_options& options) {
    return support::sentence_of([&] { weights.load(path, options); });
  };
  const std::string start = path + " does not fit the model and nothing was loaded; ";
  EXPECT_EQ(
      refusal({.rename = from_torch, .ignore = "*.num_batches_tracked"}),
      start +
          "\"module.fc.bias\": expected [2], found [1, 2]; \"head.weight\" is not in the model; give .rename "
          "where the file has other names, .ignore for what one side lacks, or .strict = false to load what fits");
  const load_options forgiving{.strict = false, .rename = from_torch, .ignore = {"*.num_batches_tracked"}};
  const load_report report = weights.load(path, forgiving);
  EXPECT_TRUE(report.missing.empty());
  EXPECT_EQ(report.unexpected, (std::vector<std::string>{"head.weight"}));
  EXPECT_EQ(report.reshaped, (std::vector<std::string>{"fc.bias"}));
  EXPECT_EQ(weights.get("fc.weight"), values);
  EXPECT_EQ(weights.get("fc.bias"), (std::vector<float>{1, 2}));
  EXPECT_EQ(weights.get("norm.weight"), (std::vector<float>{1, 2}));
  // What is ignored keeps its values, by the model's name or the file's, and what no name leads to is reported.
  weights.set("fc.bias", std::vector<float>{8, 9});
  const load_report half =
      weights.load(path, {.strict = false, .rename = {{"fc.*", "module.fc.*"}}, .ignore = {"fc.bias", "head.*"}});
  EXPECT_EQ(half.missing, (std::vector<std::string>{"norm.weight"}));
  EXPECT_EQ(half.unexpected, (std::vector<std::string>{"norm.gamma", "bn.num_batches_tracked"}));
  EXPECT_EQ(weights.get("fc.bias"), (std::vector<float>{8, 9}));
  const load_report theirs = weights.load(
      path, {.rename = from_torch, .ignore = {"module.fc.bias", "head.*", "*.num_batches_tracked", "norm.gamma"}});
  EXPECT_TRUE(theirs.missing.empty());
  EXPECT_TRUE(theirs.unexpected.empty());
  EXPECT_EQ(weights.get("fc.bias"), (std::vector<float>{8, 9}));
  EXPECT_EQ(refusal({.strict = false}), path +
                                            " has nothing of the model and nothing was loaded: \"fc.weight\" is "
                                            "missing (nearest: \"head.weight\"); give .rename = from_torch");
}

TEST(runtime_parameters, what_has_another_shape_is_refused_or_reported) {
  const support::temporary_folder folder;
  const std::string path = folder / "m.safetensors";
  graph theirs, ours, others;
  for (graph* each : {&theirs, &ours}) each->parameter("trunk.weight", dtype::f32, {2});
  theirs.parameter("fc.weight", dtype::f32, {3, 2});
  for (graph* each : {&ours, &others}) each->parameter("fc.weight", dtype::f32, {5, 2});
  parameters saved = made(theirs), weights = made(ours), head = made(others);
  saved.init({.seed = 1});
  saved.save(path);
  weights.init({.seed = 2});
  head.init();
  const std::vector<float> before = weights.get("fc.weight");
  const auto refusal = [&](parameters& into, bool strict) {
    return support::sentence_of([&] { into.load(path, {.strict = strict, .ignore = "trunk.*"}); });
  };
  EXPECT_EQ(refusal(weights, true),
            path +
                " does not fit the model and nothing was loaded; \"fc.weight\": expected [5, 2], "
                "found [3, 2]; give .ignore for what is meant to differ, or .strict = false to "
                "load what fits");
  EXPECT_EQ(weights.load(path, {.strict = false}).mis_shaped, (std::vector<std::string>{"fc.weight"}));
  EXPECT_EQ(weights.get("trunk.weight"), saved.get("trunk.weight"));
  EXPECT_EQ(weights.get("fc.weight"), before);
  EXPECT_EQ(refusal(head, false),
            path + " fits the model nowhere and nothing was loaded: \"fc.weight\" has other extents in it");
}

TEST(runtime_parameters, a_file_of_other_names_is_answered_briefly) {
  const support::temporary_folder folder;
  const std::string path = folder / "m.safetensors";
  graph theirs, ours;
  for (int i = 0; i < 9; ++i) {
    theirs.parameter(fmt::format("module.layers.{}.weight", i), dtype::f32, {2});
    ours.parameter(fmt::format("layers.{}.weight", i), dtype::f32, {2});
  }
  parameters saved = made(theirs), weights = made(ours);
  saved.init();
  saved.save(path);
  EXPECT_EQ(support::sentence_of([&] { weights.load(path); }),
            path +
                " does not fit the model and nothing was loaded; \"layers.0.weight\" is missing (nearest: "
                "\"module.layers.0.weight\"); \"layers.1.weight\" is missing (nearest: \"module.layers.1.weight\"); "
                "\"layers.2.weight\" is missing (nearest: \"module.layers.2.weight\"); \"layers.3.weight\" is missing "
                "(nearest: \"module.layers.3.weight\"); \"layers.4.weight\" is missing (nearest: "
                "\"module.layers.4.weight\"); and 13 more; give .rename = from_torch where the file has other names, "
                ".ignore for what one side lacks, or .strict = false to load what fits");
  EXPECT_EQ(support::sentence_of([&] { weights.load(path, {.rename = from_torch}); }), "no error");
}

TEST(runtime_parameters, a_norm_without_statistics_is_told_of_none_that_another_tensor_is) {
  const support::temporary_folder folder;
  const std::string path = folder / "m.safetensors";
  const std::vector<float> one{1};
  const auto entry = [&](const char* name) {
    return io::safetensors_entry{name, "F32", {1}, std::as_bytes(std::span(one))};
  };
  io::write_safetensors(path,
                        std::vector<io::safetensors_entry>{entry("bn.running_var"), entry("bn.num_batches_tracked")});
  parameters weights = made(with_parameters({{"bn.running_mean", dtype::f32}, {"bn.running_var", dtype::f32}}, 1));
  EXPECT_EQ(
      support::sentence_of([&] { weights.load(path); }),
      path +
          " does not fit the model and nothing was loaded; \"bn.running_mean\" is missing; "
          "\"bn.num_batches_tracked\" is not in the model; give .rename where the file has other names, .ignore = "
          "\"*.num_batches_tracked\" for what one side lacks, or .strict = false to load what fits");
}

TEST(runtime_parameters, a_tensor_of_a_file_is_read_once_unless_a_rule_says_otherwise) {
  const support::temporary_folder folder;
  using row = std::vector<float>;
  const auto file_of = [&](const std::string& name, const std::vector<std::pair<std::string, row>>& tensors) {
    std::vector<io::safetensors_entry> entries;
    for (const auto& [tensor, values] : tensors)
      entries.push_back({tensor, "F32", {std::ssize(values)}, std::as_bytes(std::span(values))});
    io::write_safetensors(folder / name, entries);
    return folder / name;
  };
  graph g;
  g.parameter("n.weight", dtype::f32, {2});
  g.parameter("n.gamma", dtype::f32, {2});
  parameters w = made(g);
  const auto begin = [&] { w.set("n.weight", row{1, 2}), w.set("n.gamma", row{3, 4}); };
  const auto values = [&] { return std::pair(w.get("n.weight"), w.get("n.gamma")); };
  const auto refusal = [&](const std::string& path, const load_options& options) {
    return support::sentence_of([&] { w.load(path, options); });
  };

  begin();
  const std::string own = folder / "own.safetensors";
  w.save(own);
  for (const bool strict : {true, false}) {
    w.set("n.weight", row(2)), w.set("n.gamma", row(2));
    EXPECT_TRUE(w.load(own, {.strict = strict, .rename = from_torch}).missing.empty());
    EXPECT_EQ(values(), std::pair(row({1, 2}), row({3, 4})));
  }

  const std::string half = file_of("half.safetensors", {{"n.gamma", {7, 8}}});
  EXPECT_EQ(refusal(half, {.rename = from_torch}),
            half +
                " does not fit the model and nothing was loaded; \"n.gamma\" comes to both \"n.weight\" and "
                "\"n.gamma\", which a rule without '*' may say");
  EXPECT_EQ(values(), std::pair(row({1, 2}), row({3, 4})));
  const load_report forgiving = w.load(half, {.strict = false, .rename = from_torch});
  EXPECT_EQ(forgiving.missing, std::vector<std::string>{"n.weight"});
  EXPECT_EQ(values(), std::pair(row({1, 2}), row({7, 8})));
  w.load(half, {.rename = {{"n.weight", "n.gamma"}}});  // tied in the file
  EXPECT_EQ(values(), std::pair(row({7, 8}), row({7, 8})));

  // Rules of the reader's own come before the names as they are: values kept beside others, and two that change places.
  const std::string beside =
      file_of("beside.safetensors",
              {{"n.weight", {1, 1}}, {"n.gamma", {2, 2}}, {"mean.n.weight", {3, 3}}, {"mean.n.gamma", {4, 4}}});
  const load_report mean = w.load(beside, {.strict = false, .rename = {{"*", "mean.*"}}});
  EXPECT_EQ(mean.unexpected, (std::vector<std::string>{"n.weight", "n.gamma"}));
  EXPECT_EQ(values(), std::pair(row({3, 3}), row({4, 4})));
  w.load(own, {.rename = {{"*.weight", "*.gamma"}, {"*.gamma", "*.weight"}}});
  EXPECT_EQ(values(), std::pair(row({3, 4}), row({1, 2})));
}

TEST(runtime_parameters, a_name_without_a_star_that_nothing_has_is_said_and_a_pattern_may_match_nothing) {
  const support::temporary_folder folder;
  const std::string path = folder / "m.safetensors";
  parameters weights = made(with_parameters({{"head.weight", dtype::f32}, {"embed.weight", dtype::f32}}, 1));
  weights.init();
  weights.save(path);
  const auto refusal = [&](const load_options& options) {
    return support::sentence_of([&] { weights.load(path, options); });
  };
  const std::string start = path + " does not fit the model and nothing was loaded; ";
  EXPECT_EQ(refusal({.ignore = {"*.num_batches_tracked", "haed.weight"}}),
            start + "\"haed.weight\" of .ignore is neither in the model nor in the file (nearest: \"head.weight\")");
  EXPECT_EQ(refusal({.rename = {{"haed.weight", "embed.weight"}, {"norm.*", "ln.*"}}}),
            start + "\"haed.weight\" of .rename is not in the model (nearest: \"head.weight\")");
  EXPECT_EQ(refusal({.rename = {{"head.weight", "lm_head.weight"}}, .ignore = "*.num_batches_tracked"}), "no error");
  EXPECT_EQ(refusal({.strict = false, .rename = {{"haed.weight", "x"}}, .ignore = "haed.weight"}), "no error");
}

// A line of /proc/self/status, in bytes.
std::uint64_t status(const std::string& key) {
  std::ifstream lines("/proc/self/status");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key + ":")) return std::stoull(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}

TEST(runtime_parameters, loading_holds_no_more_than_twice_a_tensor) {
  const support::temporary_folder folder;
  constexpr std::int64_t count = 16 << 20;
  const auto expect_at_most = [&](double tensors, dtype type, const std::string& stored_type) {
    SCOPED_TRACE(stored_type + " as " + to_string(type));
    const std::string path = folder / stored_type;
    const auto bytes = static_cast<std::size_t>(storage_bytes(type, count));
    {
      const std::vector<std::byte> zeros(count * io::safetensors_element_bits(stored_type) / 8);
      io::write_safetensors(path, std::vector<io::safetensors_entry>{{"w", stored_type, {count}, zeros}});
    }
    parameters weights = made(with_parameters({{"w", type}}, count));
    weights.set_bytes("w", std::vector<std::byte>(bytes));  // the device's memory is there from now on
    if (!(std::ofstream("/proc/self/clear_refs") << 5).flush()) GTEST_SKIP() << "no peak of memory to be had here";
    const std::uint64_t before = status("VmHWM");
    weights.load(path);
    const auto grown = static_cast<double>(status("VmHWM") - before);
    EXPECT_LT(grown, (tensors + 0.25) * static_cast<double>(bytes));
  };
  expect_at_most(2, dtype::f16, "F32");
  expect_at_most(1, dtype::f16, "BF16");
  expect_at_most(1.5, dtype::f32, "F16");
  expect_at_most(1, dtype::f32, "F32");
}

TEST(runtime_parameters, a_dtype_that_does_not_fit_is_found_before_anything_is_changed) {
  const support::temporary_folder folder;
  const std::string path = folder / "m.safetensors";
  const graph g = with_parameters({{"a", dtype::f32}, {"q", dtype::i32}}, 4);
  parameters weights = made(g);
  const std::vector<float> old(4, 1.0f), other(4, 2.0f);
  const std::vector<std::int32_t> numbers{1, 2, 3, 4};
  weights.set("a", old);
  weights.set_bytes("q", bytes_of(numbers));
  io::write_safetensors(path, std::vector<io::safetensors_entry>{{"a", "F32", {4}, std::as_bytes(std::span(other))},
                                                                 {"q", "F32", {4}, std::as_bytes(std::span(other))}});
  EXPECT_EQ(support::sentence_of([&] { weights.load(path); }),
            path + " does not fit the model and nothing was loaded; \"q\": expected I32 or I64, found F32");
  EXPECT_EQ(weights.get("a"), old);
  EXPECT_NE(support::sentence_of([&] { weights.init(); }).find("\"q\" is i32"), std::string::npos);
  EXPECT_EQ(weights.get("a"), old);
  weights.save(path);
  parameters loaded = made(g);
  loaded.load(path);
  EXPECT_EQ(loaded.get_bytes("q"), bytes_of(numbers));
}

TEST(runtime_parameters, doubles_and_wide_integers_are_narrowed) {
  const support::temporary_folder folder;
  const std::string path = folder / "m.safetensors";
  parameters weights = made(with_parameters({{"a", dtype::f32}, {"h", dtype::f16}, {"q", dtype::i32}}, 2));
  std::vector<double> doubles{1.0 / 3, -2.5};
  std::vector<std::int64_t> wide{-7, 2147483647};
  const auto write = [&] {
    io::write_safetensors(path, std::vector<io::safetensors_entry>{{"a", "F64", {2}, std::as_bytes(std::span(doubles))},
                                                                   {"h", "F64", {2}, std::as_bytes(std::span(doubles))},
                                                                   {"q", "I64", {2}, std::as_bytes(std::span(wide))}});
  };
  write();
  weights.load(path);
  EXPECT_EQ(weights.get("a"), (std::vector<float>{1.0f / 3, -2.5f}));
  EXPECT_EQ(weights.get("h"), (std::vector<float>{0.333251953125f, -2.5f}));
  EXPECT_EQ(weights.get_bytes("q"), bytes_of(std::vector<std::int32_t>{-7, 2147483647}));
  // Just above the middle of two halves, which as floats they are; just below what rounds to infinity; beyond.
  for (const auto& [found, half] : {std::pair{1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-10f},
                                    {-1 - 0x1p-11 + 0x1p-40, -1.0f},
                                    {65520 - 0x1p-30, 65504.0f},
                                    {0x1p-25 + 0x1p-70, 0x1p-24f},
                                    {-INFINITY, -std::numeric_limits<float>::infinity()}}) {
    doubles[0] = found;
    write();
    weights.load(path);
    EXPECT_EQ(weights.get("h")[0], half) << found;
  }
  wide[1] += 1;
  doubles[0] = 17;
  write();
  const std::vector<float> before = weights.get("a");
  EXPECT_EQ(support::sentence_of([&] { weights.load(path); }),
            path + ": \"q\" has 2147483648 at element 1, which the model's i32 cannot hold");
  EXPECT_EQ(weights.get("a"), before) << "nothing was loaded";
}

TEST(runtime_parameters, a_number_that_would_become_infinite_is_refused) {
  const support::temporary_folder folder;
  const std::string path = folder / "m.safetensors";
  parameters weights = made(with_parameters({{"h", dtype::f16}, {"b", dtype::bf16}}, 2));
  weights.init();
  const std::vector<float> before = weights.get("h");
  std::vector<float> wide{65519, 3.3e38f};
  std::vector<double> doubles{1, -3.4e38};
  const auto write = [&](const char* wide_one, const char* double_one) {
    io::write_safetensors(
        path, std::vector<io::safetensors_entry>{{wide_one, "F32", {2}, std::as_bytes(std::span(wide))},
                                                 {double_one, "F64", {2}, std::as_bytes(std::span(doubles))}});
  };
  write("b", "h");
  EXPECT_EQ(support::sentence_of([&] { weights.load(path); }),
            path + ": \"h\" has -3.4e+38 at element 1, which the model's f16 cannot hold");
  EXPECT_EQ(weights.get("h"), before);
  write("h", "b");
  EXPECT_EQ(support::sentence_of([&] { weights.load(path); }),
            path + ": \"h\" has 3.299999965482712e+38 at element 1, which the model's f16 cannot hold");
  wide[1] = INFINITY, doubles[1] = -3e38;
  write("h", "b");
  weights.load(path);
  EXPECT_EQ(weights.get("h"), (std::vector<float>{65504, INFINITY}));
  EXPECT_EQ(support::sentence_of([&] {
              weights.set("h", std::vector<float>{1, -65520});
            }),
            "parameter \"h\" is f16, which cannot hold -65520, at element 1");
  weights.set("h", std::vector<float>{65519, -INFINITY});
  EXPECT_EQ(weights.get("h"), (std::vector<float>{65504, -INFINITY}));
}

TEST(runtime_parameters, a_scalar_is_of_a_step_that_ran_and_of_its_own_type) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {4}), n = g.input("n", dtype::i32, {4});
  g.add_output("sum", g.reduce(reduce_kind::sum, x, 1));
  g.add_output("count", g.reduce(reduce_kind::sum, n, 1));
  program run(support::shared_device(), g, made(g));
  const std::vector<float> values{1, 2, 3, 4};
  const std::vector<std::int32_t> counts{1, 1, 1, 1};
  run.set_input("x", dtype::f32, std::as_bytes(std::span(values)));
  run.set_input("n", dtype::i32, std::as_bytes(std::span(counts)));
  const std::uint64_t step = run.submit();
  EXPECT_EQ(run.scalar_output("sum", step), 10.0f);
  EXPECT_NE(support::sentence_of([&] { (void)run.scalar_output("sum", 0); }).find("the latest is 1"),
            std::string::npos);
  EXPECT_NE(support::sentence_of([&] { (void)run.scalar_output("sum", 2); }).find("the latest is 1"),
            std::string::npos);
  EXPECT_NE(support::sentence_of([&] { (void)run.scalar_output("count", step); }).find("is i32[]"), std::string::npos);
}

}  // namespace
