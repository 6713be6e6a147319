// SPDX-License-Identifier: MIT
// The model of product schedules against what an H100 took, and the constants it decides by.
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/fusion/product_schedules.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;

device_profile h100() {
  device_profile on;
  on.max_shared_bytes = 49152, on.max_invocations = 1024;
  on.matrix_units = matrix_units::cooperative;
  return on;
}

// Microseconds of a dispatch with its barrier, sizes in turn so that nothing is in reach (`bench/matmul --in-turn
// --cold 268435456`, 25 November 2026, driver 580.159.04; 2.2 that timestamps take are left out): of the schedule that
// the model takes, and of the quickest.
struct measured {
  fusion::product_extents extents;
  std::string schedule;
  double microseconds, least;
  double within = 1.3;  // of the least; more where the model is known to be off
};
const std::vector<measured>& shapes() {
  static const std::vector<measured> all{
      {{1, 128, 576, 576}, "split 32x32x64 16x16 slices 4", 8.8, 8.8},
      {{1, 128, 1536, 576}, "split 64x32x64 16x32 slices 4", 10.9, 10.9},
      {{1, 128, 192, 576}, "split 32x32x64 16x16 slices 4", 9.3, 8.8},
      {{1, 128, 576, 1536}, "split 32x32x128 16x16 slices 4", 16.6, 16.2},
      {{1, 128, 576, 512}, "split 32x32x128 16x16 slices 4", 8.7, 8.7},
      {{1, 1536, 576, 128}, "split 64x64x32 32x32", 11.0, 11.0},
      {{1, 576, 576, 128}, "split 32x32x32 16x16 slices 2", 7.8, 6.9},
      {{1, 192, 576, 128}, "split 32x32x64 16x16 slices 4", 6.4, 5.4},
      {{1, 128, 576, 192}, "split 32x32x64 16x16 slices 4", 6.2, 4.8},
      {{1, 1500, 384, 384}, "split 128x64x32 32x32", 18.3, 17.4},
      {{1, 1500, 1536, 384}, "split 128x96x32 32x32", 43.1, 39.6},
      {{1, 1500, 384, 512}, "split 128x64x32 32x32", 21.8, 21.1},
      {{1, 384, 384, 750}, "split 64x32x64 16x32 slices 4", 21.0, 17.6},
      {{1, 50, 2048, 720}, "split 32x32x128 16x16 slices 4", 14.6, 11.1, 1.32},
      {{1, 50, 720, 960}, "split 32x32x64 16x16 slices 4", 12.9, 12.0},
      {{1, 2048, 720, 50}, "split 128x96x32 32x32", 12.0, 10.7},
      {{1, 1024, 1024, 1024}, "split 128x64x32 32x32", 35.6, 35.6},
      {{1, 2048, 2048, 2048}, "split 128x128x32 64x32", 224.3, 207.4},
      {{1, 4096, 4096, 4096}, "split 64x128x32 32x64", 1496.4, 1496.4},
      {{1, 128, 49152, 576}, "split 64x128x32 32x64", 100.6, 100.6},
      {{1, 49152, 576, 128}, "split 128x64x32 64x32", 130.6, 130.6},
      {{1, 576, 1536, 128}, "split 64x64x32 32x32", 13.1, 12.2},
      {{1, 384, 1536, 1500}, "split 128x64x32 32x32", 74.3, 55.0, 1.36},
      // The first two and those of 512 and 960 terms: measured with as many steps on their way as there are, for which
      // kernels that watch what they stage have no registers.
      {{1, 128, 576, 576}, "rounded 32x32x288 16x16 slices 3", 5.7, 5.7},
      {{1, 128, 1536, 576}, "rounded 64x32x192 16x32 slices 4", 8.1, 8.1},
      {{1, 128, 192, 576}, "rounded 32x32x288 16x16 slices 3", 5.8, 5.8},
      {{1, 128, 576, 1536}, "rounded 32x32x256 16x16 slices 4", 10.7, 10.0},
      {{1, 128, 576, 512}, "rounded 32x32x256 16x16 slices 4", 5.7, 5.5},
      {{1, 1536, 576, 128}, "rounded 128x64x64 32x32", 9.9, 9.6},
      {{1, 576, 576, 128}, "rounded 32x32x64 16x16 slices 2", 6.2, 5.4},
      {{1, 192, 576, 128}, "rounded 32x32x128 16x16 slices 2", 5.0, 4.6},
      {{1, 128, 576, 192}, "rounded 32x32x192 16x16 slices 2", 4.7, 3.8},
      {{1, 1500, 384, 384}, "rounded 128x64x64 32x32", 14.1, 12.4},
      {{1, 1500, 1536, 384}, "rounded 128x256x32 64x64", 22.7, 22.7},
      {{1, 1500, 384, 512}, "rounded 128x64x64 32x32", 16.0, 15.1},
      {{1, 384, 384, 750}, "rounded 64x32x192 16x32 slices 4", 12.9, 12.5},
      {{1, 50, 2048, 720}, "rounded 32x32x240 16x16 slices 3", 10.4, 8.2},
      {{1, 50, 720, 960}, "rounded 32x32x192 16x16 slices 4", 7.9, 7.9},
      {{1, 2048, 720, 50}, "rounded 64x64x64 32x32", 8.8, 8.4},
      {{1, 1024, 1024, 1024}, "rounded 128x64x64 32x32", 21.9, 21.9},
      {{1, 2048, 2048, 2048}, "rounded 128x256x32 64x64", 79.5, 79.5},
      {{1, 4096, 4096, 4096}, "rounded 128x256x32 64x64", 539.8, 539.8},
      {{1, 128, 49152, 576}, "rounded 128x128x64 64x32", 70.1, 68.2},
      {{1, 49152, 576, 128}, "rounded 128x64x32 32x32", 96.0, 86.5},
      {{1, 576, 1536, 128}, "rounded 128x64x64 32x32", 9.9, 9.9},
      {{1, 576, 128, 49152}, "rounded 32x32x256 16x16 slices 4", 208.0, 183.8},
      {{1, 384, 1536, 1500}, "rounded 64x64x64 32x32 slices 2", 33.7, 33.6},
      {{1, 128, 576, 576}, "half 32x32x288 16x16 slices 3 depth 2", 4.1, 3.8},
      {{1, 128, 1536, 576}, "half 64x32x192 16x32 slices 2 depth 3", 4.7, 4.7},
      {{1, 128, 192, 576}, "half 16x32x128 16x32 slices 8 depth 5", 3.8, 3.3},
      {{1, 128, 576, 1536}, "half 32x32x256 16x16 slices 4 depth 3", 6.5, 6.1},
      {{1, 128, 576, 512}, "half 32x32x256 16x16 slices 2 depth 2", 3.8, 3.6},
      {{1, 1536, 576, 128}, "half 128x64x64 32x32 depth 2", 5.1, 4.6},
      {{1, 576, 576, 128}, "half 64x64x128 32x32", 4.3, 3.9},
      {{1, 192, 576, 128}, "half 32x32x128 16x16 slices 2", 3.1, 2.9},
      {{1, 128, 576, 192}, "half 32x32x192 16x16 slices 2", 3.1, 3.0},
      {{1, 1500, 384, 384}, "half 64x64x128 32x32", 6.8, 6.8},
      {{1, 1500, 1536, 384}, "half 64x64x64 32x32", 14.2, 14.2},
      {{1, 1500, 384, 512}, "half 64x64x128 32x32", 8.2, 8.2},
      {{1, 50, 2048, 720}, "half 32x32x240 16x16 slices 3 depth 3", 5.6, 5.3},
      {{1, 50, 720, 960}, "half 16x32x256 16x32 slices 8 depth 4", 4.7, 4.5},
      {{1, 2048, 720, 50}, "half 64x64x64 32x32", 4.9, 4.8},
      {{1, 1024, 1024, 1024}, "half 64x64x128 32x32", 14.0, 13.7},
      {{1, 2048, 2048, 2048}, "half 128x128x64 64x64", 58.0, 58.0},
      {{1, 4096, 4096, 4096}, "half 128x128x64 64x64", 424.7, 424.7},
      {{1, 128, 49152, 576}, "half 128x128x64 64x32 depth 3", 46.3, 41.5},
      {{1, 49152, 576, 128}, "half 128x128x64 64x64", 61.4, 59.1},
      {{1, 576, 1536, 128}, "half 128x64x64 32x32 depth 2", 5.3, 4.8},
      {{1, 576, 128, 49152}, "half 16x32x384 16x32 slices 8", 149.2, 133.6},
      {{1, 384, 1536, 1500}, "half 64x64x160 32x32 slices 2", 21.8, 21.6},
  };
  return all;
}

TEST(fusion_product_schedules, the_model_is_near_what_was_measured) {
  const device_profile on = h100();
  for (const measured& each : shapes()) {
    const auto arithmetic = each.schedule.starts_with("split")  ? product_arithmetic::split
                            : each.schedule.starts_with("half") ? product_arithmetic::half
                                                                : product_arithmetic::rounded;
    const auto seconds = [&](const product_schedule& s) { return fusion::unit_time(s, each.extents, on).alone; };
    const std::vector<product_schedule> all = fusion::product_schedules(arithmetic, each.extents.k, on);
    const product_schedule taken = *std::ranges::min_element(all, {}, seconds);
    EXPECT_EQ(to_string(taken), each.schedule) << each.extents.m << "x" << each.extents.n << "x" << each.extents.k;
    const double modelled = 1e6 * (seconds(taken) + on.launch.alone());
    EXPECT_LT(modelled, each.microseconds * 1.5) << each.schedule;
    EXPECT_GT(modelled, each.microseconds / 1.5) << each.schedule;
    EXPECT_LE(each.microseconds, each.least * each.within) << each.schedule;
    const fusion::product_extents& p = each.extents;
    const double least = 2e6 * static_cast<double>(p.batch * p.m * p.n * p.k) / fusion::product_flops(arithmetic, on);
    EXPECT_LT(least, each.least) << each.schedule << " is quicker than the floor";
  }
}

// Those that are in question beside units: of few tiles, each of which has a multiprocessor. Microseconds in profiles
// of steps (SmolLM2, the MNIST network; the same day and driver).
TEST(fusion_product_schedules, the_model_is_near_what_was_measured_of_small_f32_products) {
  const std::pair<fusion::product_extents, double> all[] = {
      {{1, 128, 192, 576}, 10.4}, {{3, 384, 64, 128}, 6.5},   {{3, 128, 64, 384}, 8.4},   {{1, 192, 576, 128}, 6.1},
      {{1, 32, 128, 784}, 9.2},   {{1, 128, 576, 576}, 13.0}, {{1, 128, 576, 1536}, 28.6}};
  const device_profile on = h100();
  for (const auto& [extents, microseconds] : all) {
    const double modelled = 1e6 * (fusion::multiply_add_time(extents, on).alone + on.launch.alone());
    EXPECT_NEAR(modelled, microseconds, microseconds / 7) << extents.m << "x" << extents.n << "x" << extents.k;
  }
}

// Rounding is for what it saves: attention of a hundred tokens stays in f32, that of a thousand does not.
TEST(fusion_product_schedules, small_products_of_a_batch_are_not_rounded) {
  const device_profile on = h100();
  const auto rounds = [&](const fusion::product_extents& p) {
    return fusion::arithmetic_of(precision::fast, p, on) == product_arithmetic::rounded;
  };
  EXPECT_FALSE(rounds({3, 384, 128, 64}));
  EXPECT_FALSE(rounds({3, 384, 64, 128}));
  EXPECT_TRUE(rounds({6, 1500, 1500, 64}));
  EXPECT_TRUE(rounds({3, 128, 576, 512})) << "parts of a long sum";
  EXPECT_TRUE(rounds({1, 384, 128, 64}));
  EXPECT_EQ(fusion::arithmetic_of(precision::exact, {6, 1500, 1500, 64}, on), product_arithmetic::split);
}

TEST(fusion_product_schedules, every_schedule_fits_the_device_it_is_for) {
  device_profile on = h100();
  for (const std::uint32_t shared : {16384u, 32768u, 49152u}) {
    for (const std::uint32_t invocations : {128u, 256u, 1024u}) {
      on.max_shared_bytes = shared, on.max_invocations = invocations;
      for (const auto arithmetic : {product_arithmetic::split, product_arithmetic::rounded}) {
        for (const std::int64_t k : {1, 16, 50, 576, 1536, 16384}) {
          for (const product_schedule& s : fusion::product_schedules(arithmetic, k, on)) {
            EXPECT_TRUE(fusion::fits(s, on)) << to_string(s);
            EXPECT_EQ(s.tile_k % (16 * s.slices), 0u) << to_string(s);
            EXPECT_TRUE(s.depth == 1 || (s.depth - 1) * s.tile_k < k) << to_string(s) << " of " << k;
          }
        }
      }
    }
  }
}

TEST(fusion_product_schedules, those_of_other_units_are_multiples_of_them) {
  device_profile on = h100();
  const auto all_of = [&](const matrix_shape& unit, std::uint32_t lanes, product_arithmetic arithmetic,
                          std::int64_t k) {
    on.unit = unit, on.subgroup_size = lanes;
    return fusion::product_schedules(arithmetic, k, on);
  };
  for (const auto arithmetic : {product_arithmetic::split, product_arithmetic::rounded, product_arithmetic::half}) {
    for (const std::uint32_t lanes : {8u, 16u, 32u, 64u}) {
      for (const std::uint32_t m : {8u, 16u, 32u}) {
        for (const std::uint32_t n : {8u, 16u, 32u}) {
          for (const std::uint32_t k : {8u, 16u, 32u}) {
            for (const product_schedule& s : all_of({m, n, k}, lanes, arithmetic, 200)) {
              EXPECT_TRUE(fusion::fits(s, on)) << to_string(s);
              EXPECT_TRUE(s.subgroup_m % m == 0 && s.subgroup_n % n == 0) << to_string(s) << " " << m << "x" << n;
              EXPECT_EQ(s.tile_k % (k * s.slices), 0u) << to_string(s) << " " << k;
            }
          }
        }
      }
    }
    // Parts of subgroups that other units make up have their schedules too.
    for (const matrix_shape& unit : {matrix_shape{8, 16, 16}, {16, 8, 16}, {8, 8, 16}})
      EXPECT_EQ(all_of(unit, 32, arithmetic, 200).size(), all_of({}, 32, arithmetic, 200).size());
    EXPECT_FALSE(all_of({16, 16, 8}, 32, arithmetic, 200).empty());
    EXPECT_TRUE(all_of({16, 16, 16}, 48, arithmetic, 200).empty()) << "lanes with unlike numbers of results";
    EXPECT_TRUE(all_of({64, 16, 16}, 32, arithmetic, 200).empty());
  }
  // A total is rounded once for so many terms as a unit is deep.
  for (const std::uint32_t k : {8u, 16u, 32u}) {
    for (const auto arithmetic : {product_arithmetic::split, product_arithmetic::rounded}) {
      const std::int64_t most = std::int64_t{k} * (arithmetic == product_arithmetic::split ? 1024 : 4096);
      EXPECT_FALSE(all_of({16, 16, k}, 32, arithmetic, most).empty());
      EXPECT_TRUE(all_of({16, 16, k}, 32, arithmetic, most + 1).empty());
    }
  }
}

TEST(fusion_product_schedules, more_units_for_the_same_product_cost_more) {
  device_profile on = h100();
  const product_schedule s{product_arithmetic::split, 32, 32, 64, 16, 16, 4};
  const fusion::product_extents p{1, 128, 576, 576};
  const double usual = fusion::unit_time(s, p, on).alone;
  for (const matrix_shape& unit : {matrix_shape{8, 16, 16}, {16, 8, 16}, {16, 16, 8}}) {
    on.unit = unit;
    EXPECT_GT(fusion::unit_time(s, p, on).alone, usual);
  }
}

// What runs, as text: kinds and attributes of all nodes that were chosen.
std::string plan_of(const graph& g, const device_profile& on) {
  const graph chosen = fusion::optimize(g, {.device = on});
  std::string text;
  for (node_id id{0}; id < chosen.size(); ++id)
    text += std::string(to_string(chosen[id].kind)) + " " + to_string(chosen.attribute_of(id)) + "\n";
  return text;
}

// With matrix units beside; a region over one row, and parts of the sum, are what else there is.
TEST(fusion_product_schedules, few_rows_are_one_product_of_multiply_adds) {
  using sizes = std::array<std::int64_t, 3>;
  for (const auto& [m, n, k] :
       {sizes{1, 576, 576}, sizes{1, 192, 576}, sizes{1, 576, 1536}, sizes{1, 49152, 576}, sizes{8, 4096, 4096},
        sizes{4096, 8, 4096}, sizes{1, 576, 49152}, sizes{8, 576, 49152}}) {
    EXPECT_TRUE(fusion::takes_vectors({1, m, n, k}, h100()));
    for (const bool along_k : {true, false}) {
      graph g;
      const node_id a = g.input("a", dtype::f32, {m, k});
      const node_id b = g.parameter("b", dtype::f32, along_k ? shape{n, k} : shape{k, n});
      g.add_output("y", g.contract(a, b, "ik", along_k ? "jk" : "kj", "ij"));
      const graph chosen = fusion::optimize(g, {.device = h100()});
      ASSERT_EQ(chosen.size(), 3u) << to_text(chosen);
      // One row may be rows of a region, which are as quick and take in more of what is around.
      if (m == 1 || n == 1) continue;
      ASSERT_EQ(chosen[node_id{2}].kind, op::matmul) << to_text(chosen);
      EXPECT_EQ(chosen.get<matmul_attribute>(node_id{2}).schedule, product_schedule{}) << to_text(chosen);
    }
  }
  EXPECT_FALSE(fusion::takes_vectors({1, 9, 576, 576}, h100()));
  device_profile cpu = h100();
  cpu.parallel = false;
  EXPECT_FALSE(fusion::takes_vectors({1, 1, 576, 576}, cpu));
}

// Each of the constants changes what is chosen, somewhere between a hundredth and a hundred times its worth.
TEST(fusion_product_schedules, costs_decide) {
  graph g;
  const auto product = [&](const char* name, std::int64_t m, std::int64_t n, std::int64_t k) {
    const node_id a = g.input(std::string(name) + ".a", dtype::f32, {m, k});
    const node_id b = g.parameter(std::string(name) + ".b", dtype::f32, {k, n});
    g.add_output(name, g.contract(a, b, "ik", "kj", "ij"));
  };
  product("small", 64, 64, 64);
  product("thin", 128, 192, 576);
  product("wide", 128, 1536, 576);
  product("deep", 128, 576, 8192);
  product("large", 1024, 1024, 1024);
  product("row", 1, 64, 4096);
  product("rows", 4, 64, 4096);
  const std::string before = plan_of(g, h100());
  const auto is_changed = [&](auto&& scaled) {
    std::set<std::string> plans{before};
    for (const double factor : {0.01, 0.1, 10.0, 100.0}) {
      device_profile on = h100();
      scaled(on) *= factor;
      plans.insert(plan_of(g, on));
    }
    return plans.size() > 1;
  };
  EXPECT_TRUE(is_changed([](device_profile& on) -> double& { return on.launch.group; }));
  EXPECT_TRUE(is_changed([](device_profile& on) -> double& { return on.bandwidth; }));
  EXPECT_TRUE(is_changed([](device_profile& on) -> double& { return on.matmul_flops; }));
  EXPECT_TRUE(is_changed([](device_profile& on) -> double& { return on.product_once; }));
  EXPECT_TRUE(is_changed([](device_profile& on) -> double& { return on.vectors_once; }));
  EXPECT_TRUE(is_changed([](device_profile& on) -> double& { return on.region_once; }));
  EXPECT_TRUE(is_changed([](device_profile& on) -> double& { return on.split.once; }));
  EXPECT_TRUE(is_changed([](device_profile& on) -> double& { return on.split.wait; }));
  EXPECT_TRUE(is_changed([](device_profile& on) -> double& { return on.split.multiply; }));
  EXPECT_TRUE(is_changed([](device_profile& on) -> double& { return on.split.load; }));
  EXPECT_TRUE(is_changed([](device_profile& on) -> double& { return on.split.stage; }));
  EXPECT_TRUE(is_changed([](device_profile& on) -> double& { return on.split.registers; }));
  EXPECT_TRUE(is_changed([](device_profile& on) -> double& { return on.split.few; }));
  EXPECT_TRUE(is_changed([](device_profile& on) -> double& { return on.split.exchange; }));
  EXPECT_TRUE(is_changed([](device_profile& on) -> double& { return on.split.code; }));
}

// How four numbers of an operand over [rows, terms] are read, from the strides and the offset.
fusion::four_reads reads(const shape& space, std::initializer_list<int> groups, std::initializer_list<int> strides,
                         int offset = 0) {
  index_map read;
  read.offset = offset;
  std::ranges::copy(strides, read.strides);
  return fusion::four_reads_of(space, read, 1, [&](int axis) { return groups.begin()[axis]; });
}

TEST(fusion_product_schedules, numbers_lie_in_fours_or_across_or_alone) {
  using enum fusion::four_reads;
  EXPECT_EQ(reads({6, 8}, {1, 3}, {8, 1}), aligned);
  EXPECT_EQ(reads({8, 6}, {1, 3}, {1, 8}), aligned);            // along rows
  EXPECT_EQ(reads({6, 3, 4}, {1, 3, 3}, {12, 4, 1}), aligned);  // merged terms
  EXPECT_EQ(reads({4, 3, 4}, {1, 1, 3}, {12, 4, 1}), aligned);
  EXPECT_EQ(reads({6, 1, 8, 1}, {1, 1, 3, 3}, {8, 3, 1, 5}), aligned);  // what axes of one place say does not matter
  EXPECT_EQ(reads({6, 8}, {1, 3}, {8, 1}, 2), across);
  EXPECT_EQ(reads({6, 8}, {1, 3}, {9, 1}), across);
  EXPECT_EQ(reads({2, 2, 3, 3}, {1, 1, 3, 3}, {4, 1, 4, 1}), none);  // windows of a small image
  EXPECT_EQ(reads({4, 8, 3, 3}, {1, 1, 3, 3}, {10, 1, 10, 1}), across);
  EXPECT_EQ(reads({6, 8}, {1, 3}, {16, 2}), none);
  EXPECT_EQ(reads({1, 1}, {1, 3}, {0, 0}), none);
}

// Windows of an image are loaded one by one, the more dearly the fewer neighbours a tile has: 4 x 128 x 28 x 28 with
// 3x3 filters took 49.8 us in 32x32x64 by 16x16 with two slices, which the model chose before, and 26.2 in four parts
// of 128x96x32 (H200, 29 November 2026).
TEST(fusion_product_schedules, single_loads_take_wider_tiles) {
  const device_profile on = h100();
  const fusion::product_extents whole{1, 128, 3136, 1152};
  fusion::product_extents windows = whole;
  windows.single_right = true;
  const auto plain = fusion::best_product(whole, precision::exact, on),
             best = fusion::best_product(windows, precision::exact, on);
  EXPECT_LT(plain.seconds, best.seconds);
  EXPECT_GE(best.schedule.tile_n, 64u) << to_string(best.schedule);
  const auto longer = [&](std::uint32_t side) {
    const product_schedule s{product_arithmetic::rounded, side, side, 32, side / 2, side / 2, 1};
    return fusion::unit_time(s, windows, on).alone / fusion::unit_time(s, whole, on).alone;
  };
  EXPECT_GT(longer(32), 1.1 * longer(128));
  EXPECT_GT(longer(128), 1);
}

// One total of so many terms would round too often.
TEST(fusion_product_schedules, sums_that_are_too_long_for_one_total_have_parts) {
  device_profile on = h100();
  const fusion::product_extents sums{1, 1280, 256, 23040};
  EXPECT_TRUE(fusion::product_schedules(product_arithmetic::split, sums.k, on).empty());
  for (const product_schedule& each : fusion::product_schedules(product_arithmetic::split, sums, on)) {
    EXPECT_EQ(each.parts, 2u) << to_string(each);
    EXPECT_TRUE(fusion::shares_terms(each, sums, on)) << to_string(each);
  }
  EXPECT_GE(fusion::best_product(sums, precision::exact, on).schedule.parts, 2u);
  on.device_scope = false;
  EXPECT_EQ(fusion::best_product(sums, precision::exact, on).schedule, product_schedule{});
}

}  // namespace
