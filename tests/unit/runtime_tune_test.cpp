// SPDX-License-Identifier: MIT
// Measured schedules of products: that they are found, taken up, kept in files, and never trusted.
#include <meganeura/frontend.hpp>
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/runtime/measured_rates.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>
#include <meganeura/runtime/tune.hpp>
#include <meganeura/runtime/tuned_step.hpp>

#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/small_models.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using fusion::tuned_products;

struct one_layer {
  static constexpr auto forward(value auto x) { return relu(linear<"up", 32>(x)); }
};
using net = model<one_layer, input<"x", dtype::f32, dims<32, 48>>>;
constexpr fusion::product_extents size{1, 32, 32, 48};
constexpr product_schedule on_units{product_arithmetic::split, 32, 32, 64, 16, 16, 4};

program_options with(const tuned_products& products) {
  program_options options;
  options.optimize.tuned = std::make_shared<const tuned_products>(products);
  return options;
}

struct outcome {
  std::string schedule;
  std::vector<float> numbers;
};
outcome run(const device& gpu, const program_options& options) {
  const graph g = lower<net>();
  parameters weights(gpu, g);
  weights.init({.seed = 3});
  program made(gpu, g, weights, options);
  const std::vector<float> x = support::uniform(32 * 48, 1);
  made.set_input("x", dtype::f32, std::as_bytes(std::span(x)));
  made.wait(made.submit());
  outcome found{"", made.output_as<float>(made.plan().outputs[0].name)};
  for (const plan::step& s : made.plan().steps) {
    if (const auto* product = std::get_if<matmul_attribute>(&made.plan().implementation.attribute_of(s.node)))
      found.schedule = to_string(product->schedule);
  }
  return found;
}

TEST(runtime_tune, a_measured_schedule_is_taken_where_the_device_offers_it) {
  const device& gpu = support::shared_unit_device();
  const outcome plain = run(gpu, {});
  tuned_products products;
  products.set(size, precision::exact, on_units);
  const outcome tuned = run(gpu, with(products));
  EXPECT_EQ(tuned.schedule, to_string(on_units));
  ASSERT_EQ(tuned.numbers.size(), plain.numbers.size());
  for (std::size_t i = 0; i < plain.numbers.size(); ++i) EXPECT_NEAR(tuned.numbers[i], plain.numbers[i], 1e-5);

  program_options fast = with(products);
  fast.precision = precision::fast;
  EXPECT_NE(run(gpu, fast).schedule, to_string(on_units)) << "of another precision";
  program_options none = with(products);
  none.optimize.matrix_units = false;
  EXPECT_EQ(run(gpu, none).schedule, "fma");
  const bool has_units = profile_of(support::shared_device()).matrix_units != matrix_units::none;
  EXPECT_EQ(run(support::shared_device(), with(products)).schedule, has_units ? to_string(on_units) : "fma");
}

// What no table of ours has: nothing is made of it.
TEST(runtime_tune, a_schedule_that_is_not_on_offer_is_ignored) {
  const device& gpu = support::shared_unit_device();
  const std::string model = run(gpu, {}).schedule;
  for (const product_schedule& wrong : {product_schedule{product_arithmetic::split, 8, 8, 8, 8, 8, 1},
                                        product_schedule{product_arithmetic::split, 0, 0, 0, 0, 0, 0, 0},
                                        product_schedule{product_arithmetic::rounded, 32, 32, 64, 16, 16, 4},
                                        product_schedule{product_arithmetic::split, 4096, 4096, 4096, 16, 16, 1}}) {
    tuned_products products;
    products.set(size, precision::exact, wrong);
    EXPECT_EQ(run(gpu, with(products)).schedule, model) << to_string(wrong);
  }
}

// Products of NaN take other ways: what is measured is what a model has.
TEST(runtime_tune, steps_of_a_training_graph_stay_numbers) {
  const symbol_extent symbols[] = {{"batch", 16}};
  const graph g = make_training_graph<support::mlp<8>, cross_entropy<"label">>(adam{}, symbols);
  detail::tuned_step step(support::shared_device(), g, {});
  for (int i = 0; i < 5; ++i) {
    step.step();
    const program& run = step.get();
    EXPECT_TRUE(std::isfinite(run.output_as<float>(run.plan().outputs[0].name)[0])) << i;
  }
}

// Whatever the table says, the products are the same: a schedule is no reason to sum otherwise.
TEST(runtime_tune, a_table_changes_schedules_alone) {
  device_profile on;
  on.max_shared_bytes = 49152, on.max_invocations = 1024;
  on.matrix_units = matrix_units::cooperative;
  for (const fusion::product_extents& p : {fusion::product_extents{1, 16, 32, 1024}, {1, 128, 576, 1536}}) {
    graph g;
    const node_id a = g.input("a", dtype::f32, {p.m, p.k}), b = g.parameter("b", dtype::f32, {p.k, p.n});
    g.add_output("y", g.contract(a, b, "ik", "kj", "ij"));
    const auto sizes = [&](const std::shared_ptr<const tuned_products>& tuned) {
      std::vector<std::vector<std::int64_t>> found;
      const graph chosen = fusion::optimize(g, {.tuned = tuned, .device = on});
      for (node_id id{0}; id < chosen.size(); ++id) {
        if (const auto* product = std::get_if<matmul_attribute>(&chosen.attribute_of(id)))
          found.emplace_back(product->space.begin(), product->space.end());
      }
      return found;
    };
    for (const product_schedule& each : fusion::product_schedules(product_arithmetic::split, p.k, on)) {
      auto tuned = std::make_shared<tuned_products>();
      tuned->set(p, precision::exact, each);
      EXPECT_EQ(sizes(tuned), sizes(nullptr)) << to_string(each);
    }
  }
}

// Of a sum so long that this driver would end some of the kernels there are.
TEST(runtime_tune, what_a_device_cannot_run_is_not_measured) {
  graph g;
  const node_id a = g.input("a", dtype::f32, {16, 1200}), b = g.parameter("b", dtype::f32, {1200, 16});
  g.add_output("y", g.contract(a, b, "ik", "kj", "ij"));
  const tuning_result found = tune(support::shared_unit_device(), g, {}, {.candidates = 1000, .rounds = 1});
  EXPECT_NE(found.products, nullptr);
}

TEST(runtime_tune, nothing_to_measure_is_refused) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {16});
  g.add_output("y", g.multiply(x, x));
  const auto refused = [&](const tuning_options& how) {
    return support::refusal([&] { (void)tune(support::shared_device(), g, {}, how); });
  };
  EXPECT_NE(refused({.candidates = -1}).find("-1 candidates"), std::string::npos);
  EXPECT_NE(refused({.rounds = 0}).find("0 rounds"), std::string::npos);
  EXPECT_NE(refused({.rounds = 2'000'000'000}).find("1 to 1000"), std::string::npos);
}

TEST(runtime_tune, tuning_measures_and_is_never_worse) {
  const device& gpu = support::shared_unit_device();
  const symbol_extent symbols[] = {{"batch", 16}};
  const graph g = make_training_graph<support::mlp<8>, cross_entropy<"label">>(adam{}, symbols);
  const tuning_result found = tune(gpu, g, {}, {.candidates = 1, .rounds = 1});
  ASSERT_NE(found.products, nullptr);
  EXPECT_GT(found.before, 0);
  EXPECT_GT(found.after, 0);
  EXPECT_EQ(found.after < found.before, found.products->size() != 0);
}

tuned_products some() {
  tuned_products products;
  products.set(size, precision::exact, on_units);
  products.set({2, 64, 576, 1536}, precision::fast, {product_arithmetic::rounded, 64, 32, 64, 16, 32, 4, 3});
  products.set({1, 5, 7, 9}, precision::exact, {});
  products.set({.m = 5, .n = 7, .k = 9, .single_right = true}, precision::exact, on_units);
  fusion::product_extents windows{1,     64,    12544, 576,
                                  false, false, true,  {4, 56, 56, 58, 9, 3, 118, place_axes::columns}};
  product_schedule shared{product_arithmetic::split, 64, 128, 16, 32, 32};
  shared.taps = 3, shared.reach = 118, shared.places = place_axes::columns;
  products.set(windows, precision::exact, shared);
  windows = {28, 64, 576, 448, false, false, true, {4, 2, 56, 58, 9, 3, 118, place_axes::terms}};
  shared = {product_arithmetic::rounded, 32, 288, 128, 32, 32};
  shared.taps = 9, shared.reach = 118, shared.places = place_axes::terms;
  products.set(windows, precision::fast, shared);
  return products;
}

std::vector<std::string> rows_of(const tuned_products& products) {
  std::vector<std::string> rows;
  products.each([&](const fusion::product_extents& p, precision wanted, const product_schedule& s) {
    const fusion::product_windows& w = p.windows;
    rows.push_back(fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(wanted), p.batch,
                               p.m, p.n, p.k, p.single_left, p.single_right, w.images, w.height, w.width, w.pitch,
                               w.taps, w.last_taps, w.reach, w.places == place_axes::terms, to_string(s), s.reach));
  });
  return rows;
}

TEST(runtime_tune, a_file_gives_what_was_saved) {
  const device& gpu = support::shared_device();
  const support::temporary_folder folder;
  const std::string path = folder.path() / "tuned.json";
  EXPECT_EQ(load_tuned(path, gpu), nullptr) << "no file yet";
  save_tuned(some(), path, gpu);
  const auto found = load_tuned(path, gpu);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(rows_of(*found), rows_of(some()));
  EXPECT_EQ(found->size(), 6u);
}

TEST(runtime_tune, a_file_of_another_device_is_left_alone_and_a_damaged_one_refused) {
  const device& gpu = support::shared_device();
  const support::temporary_folder folder;
  const std::string path = folder.path() / "tuned.json";
  save_tuned(some(), path, gpu);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const auto write = [&](std::string changed, const std::string& from, const std::string& to) {
    const std::size_t at = changed.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    std::ofstream(path) << changed;
  };
  write(text.str(), R"("device":")", R"("device":"another )");
  EXPECT_EQ(load_tuned(path, gpu), nullptr);
  write(text.str(), "576", "577");
  EXPECT_NE(support::sentence_of([&] { (void)load_tuned(path, gpu); }).find("checksum"), std::string::npos);
  for (const char* damaged : {"", "[]", "{}", "{\"origin\":1}", "null", "[[[[[[[[[[[[[[[[[[[[[", "{\"crc32\":1e999}"}) {
    std::ofstream(path) << damaged;
    EXPECT_NE(support::sentence_of([&] { (void)load_tuned(path, gpu); }), "no error") << damaged;
  }
}

}  // namespace
