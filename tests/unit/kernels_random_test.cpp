// SPDX-License-Identifier: MIT
// Philox on the device: the same numbers as the oracle, and numbers that look random.
#include <meganeura/kernels/random.hpp>

#include <support/device_fixture.hpp>
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

using namespace meganeura;

namespace {

graph draws(const shape& extents) {
  graph g;
  g.add_output("uniform", g.random("dropout", distribution::uniform, extents));
  g.add_output("normal", g.random("noise", distribution::normal, extents));
  return g;
}

TEST(kernels_random, agrees_with_the_oracle_for_every_seed_and_step) {
  for (const shape& extents : {shape{1}, shape{3}, shape{4}, shape{1023}, shape{31, 40}}) {
    for (std::uint32_t step : {1u, 77u}) {
      kernels::step_values now;
      now.step = step, now.seed_low = 12345u * step, now.seed_high = 9u;
      support::expect_matches_oracle(draws(extents), {}, 1, now);
    }
  }
}

TEST(kernels_random, moments_are_those_of_the_distribution) {
  const shape extents{100000};
  kernels::step_values now;
  now.step = 1, now.seed_low = 3;
  const graph g = draws(extents);
  const auto drawn = support::device_graph(g, support::shared_profile(), now).run({});
  const auto moments = [&](const char* name) {
    double sum = 0, squares = 0;
    for (double value : drawn.at(name).values) sum += value, squares += value * value;
    const double mean = sum / 1e5;
    return std::pair(mean, squares / 1e5 - mean * mean);
  };
  // Five standard deviations of the estimate.
  const auto [uniform_mean, uniform_variance] = moments("uniform");
  EXPECT_NEAR(uniform_mean, 0.5, 5 * std::sqrt(1.0 / 12 / 1e5));
  EXPECT_NEAR(uniform_variance, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / 1e5));
  const auto [normal_mean, normal_variance] = moments("normal");
  EXPECT_NEAR(normal_mean, 0, 5 * std::sqrt(1.0 / 1e5));
  EXPECT_NEAR(normal_variance, 1, 5 * std::sqrt(2.0 / 1e5));
}

TEST(kernels_random, streams_and_steps_differ) {
  graph g;
  g.add_output("a", g.random("a", distribution::uniform, {64}));
  g.add_output("b", g.random("b", distribution::uniform, {64}));
  kernels::step_values now;
  now.step = 1;
  const auto first = support::device_graph(g, support::shared_profile(), now).run({});
  now.step = 2;
  const auto second = support::device_graph(g, support::shared_profile(), now).run({});
  EXPECT_NE(first.at("a").values, first.at("b").values);
  EXPECT_NE(first.at("a").values, second.at("a").values);
}

TEST(kernels_random, streams_whose_names_have_one_hash_are_refused) {
  graph g;
  const std::string first = "layers.5353.block1.drop.mask", second = "layers.8630.block0.drop.mask";
  g.add_output("a", g.random(first, distribution::uniform, {5}));
  g.add_output("b", g.random(first, distribution::normal, {5}));
  kernels::check_streams(g);
  g.add_output("c", g.random(second, distribution::uniform, {5}));
  EXPECT_EQ(support::sentence_of([&] { kernels::check_streams(g); }),
            "random: the streams \"" + first + "\" and \"" + second +
                "\" would draw the same numbers, their names' 32-bit hashes being equal; rename one");
}

}  // namespace
