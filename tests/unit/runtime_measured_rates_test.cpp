// SPDX-License-Identifier: MIT
// Rates of a device: that they are measured, kept in files, never trusted, and decide what runs.
#include <meganeura/frontend.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/runtime/measured_rates.hpp>
#include <meganeura/runtime/program.hpp>

#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace meganeura;

// What a device says, and how often it measured.
struct listener {
  std::mutex mutex;
  std::vector<std::string> warnings;
  int measured = 0;

  [[nodiscard]] vulkan::device_options options(rate_measurement rates, const std::string& cache = {}) {
    vulkan::device_options all;
    all.rates = rates;
    all.disk_cache = !cache.empty();
    all.cache_directory = cache;
    all.log = [this](log_level level, std::string_view text) {
      const std::lock_guard lock(mutex);
      measured += text.find("measured in ") == 0 ? 1 : 0;
      if (level >= log_level::warning) warnings.emplace_back(text);
    };
    return all;
  }
};

std::array<double, 5> positive(const device_rates& r) {
  return {r.bandwidth, r.scalar_flops, r.matmul_flops, r.launch.group, r.launch.dispatch};
}

// Two reductions of one map, which are one kernel where launches cost more than computing it twice.
graph two_sums() {
  graph g;
  const node_id x = g.input("x", dtype::f32, {256, 256}), y = g.map(scalar_op::tanh, {x});
  g.add_output("columns", g.reduce(reduce_kind::sum, y, 1));
  g.add_output("rows", g.reduce(reduce_kind::sum, y, 2));
  return g;
}

struct outcome {
  std::size_t dispatches;
  std::vector<float> columns, rows;
};
outcome run(const device& gpu) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> any(-1, 1);
  std::vector<float> x(256 * 256);
  for (float& each : x) each = any(random);
  const graph g = two_sums();
  parameters none(gpu, g);
  program made(gpu, g, none);
  made.set_input("x", dtype::f32, std::as_bytes(std::span(x)));
  made.wait(made.submit());
  return {made.plan().steps.size(), made.output_as<float>("columns"), made.output_as<float>("rows")};
}

void expect_equal(const outcome& found, const outcome& expected) {
  ASSERT_EQ(found.columns.size(), 256u);
  ASSERT_EQ(found.rows.size(), 256u);
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_NEAR(found.columns[i], expected.columns[i], 1e-4) << i;
    EXPECT_NEAR(found.rows[i], expected.rows[i], 1e-4) << i;
  }
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

vulkan::device_facts card_called(const std::string& name, std::uint32_t vendor) {
  vulkan::device_facts card = vulkan::minimum_facts();
  card.name = name;
  card.vendor_id = vendor;
  card.type = vulkan::device_type::discrete_gpu;
  return card;
}

constexpr device_rates known_rates(const device_profile& p = {}) {
  return {p.bandwidth, p.scalar_flops, p.matmul_flops, p.matrix_flops, p.launch};
}

TEST(runtime_measured_rates, two_measurements_tell_much_the_same_and_leave_nothing_behind) {
  const device& gpu = support::shared_device();
  const std::uint64_t bytes = gpu.allocated_bytes();
  const auto apart = [](const device_rates& a, const device_rates& b) {
    double most = 1;
    const auto compare = [&](double x, double y) { most = std::max({most, x / y, y / x}); };
    compare(a.bandwidth, b.bandwidth), compare(a.scalar_flops, b.scalar_flops);
    compare(a.matmul_flops, b.matmul_flops), compare(a.launch.alone(), b.launch.alone());
    return most;
  };
  for (const bool by_timestamps : {gpu.facts().timestamp_bits != 0, false}) {
    std::vector<device_rates> all;
    double least = 1e9;
    for (int attempt = 0; attempt < 12 && least > 3; ++attempt) {  // the machine has other things to do
      const device_rates now = detail::measure_rates(gpu, by_timestamps);
      for (const double rate : positive(now)) ASSERT_TRUE(std::isfinite(rate) && rate > 0) << rate;
      EXPECT_EQ(now.matrix_flops > 0, make_device_profile(gpu.facts()).matrix_units == matrix_units::cooperative);
      EXPECT_EQ(std::exp2(std::round(4 * std::log2(now.bandwidth)) / 4), now.bandwidth) << "on the grid";
      for (const device_rates& each : all) least = std::min(least, apart(each, now));
      all.push_back(now);
    }
    EXPECT_LE(least, 3) << by_timestamps;
  }
  EXPECT_EQ(gpu.allocated_bytes(), bytes);
}

TEST(runtime_measured_rates, known_devices_are_as_ever_and_others_are_not_known) {
  const device& gpu = support::shared_device();
  EXPECT_EQ(gpu.rate_option(), rate_measurement::automatic);
  device_profile untried = make_device_profile(gpu.facts());
  untried.fragments_by_rows = profile_of(gpu).fragments_by_rows;  // that is tried
  if (detail::has_known_rates(gpu.facts())) {
    EXPECT_EQ(profile_of(gpu), untried);
    listener heard;
    const device same(heard.options(rate_measurement::automatic));
    (void)run(same);
    EXPECT_EQ(heard.measured, 0);
  }
  listener heard;
  EXPECT_EQ(profile_of(device(heard.options(rate_measurement::never))), untried);
  EXPECT_EQ(heard.measured, 0);

  EXPECT_TRUE(detail::has_known_rates(card_called("NVIDIA H100 80GB HBM3", 0x10DE)));
  EXPECT_TRUE(detail::has_known_rates(card_called("NVIDIA H200", 0x10DE)));
  EXPECT_FALSE(detail::has_known_rates(card_called("NVIDIA GeForce RTX 4090", 0x10DE)));
  for (const char* other :
       {"NVIDIA H20", "NVIDIA H100 PCIe", "NVIDIA GH200 480GB", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"})
    EXPECT_FALSE(detail::has_known_rates(card_called(other, 0x10DE))) << other;
  EXPECT_FALSE(detail::has_known_rates(card_called("Radeon H100", 0x1002)));
  EXPECT_FALSE(detail::has_known_rates(card_called("Intel(R) Arc(tm) A770 Graphics", 0x8086)));
  vulkan::device_facts h100 = card_called("NVIDIA H100 80GB HBM3", 0x10DE);
  h100.compute_units = 132;
  EXPECT_EQ(known_rates(make_device_profile(h100)), known_rates());
}

TEST(runtime_measured_rates, a_program_of_a_measured_device_computes_the_same) {
  listener heard;
  const device gpu(heard.options(rate_measurement::always));
  const outcome found = run(gpu);
  expect_equal(found, run(support::shared_device()));
  EXPECT_EQ(heard.measured, 1);
  (void)run(gpu);
  EXPECT_EQ(profile_of(gpu), profile_of(device(gpu)));
  EXPECT_EQ(heard.measured, 1) << "once a device";
  device_profile unmeasured = make_device_profile(gpu.facts());
  unmeasured.fragments_by_rows = profile_of(gpu).fragments_by_rows;
  EXPECT_NE(profile_of(gpu), unmeasured);
  EXPECT_EQ(detail::rates_file(gpu), "");
  EXPECT_EQ(heard.warnings, std::vector<std::string>());
}

TEST(runtime_measured_rates, threads_that_ask_at_once_wait_for_one_measurement) {
  listener heard;
  const device gpu(heard.options(rate_measurement::always));
  std::vector<device_profile> found(3);
  std::vector<std::thread> threads;
  for (device_profile& each : found) threads.emplace_back([&] { each = profile_of(gpu); });
  (void)run(support::shared_device());
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(heard.measured, 1);
  EXPECT_TRUE(found[0] == found[1] && found[1] == found[2]);
}

// What is not measured of it, with what was tried out of its matrix units.
device_profile unmeasured(const device& gpu, const device_profile& tried) {
  device_profile found = make_device_profile(gpu.facts());
  found.fragments_by_rows = tried.fragments_by_rows;
  return found;
}

TEST(runtime_measured_rates, stored_rates_are_read_and_decide_what_runs) {
  const support::temporary_folder folder;
  listener heard;
  std::string path;
  {
    const device gpu(heard.options(rate_measurement::always, folder / "below"));
    path = detail::rates_file(gpu);
    const device_profile first = profile_of(gpu);
    EXPECT_EQ(with_rates(unmeasured(gpu, first), detail::load_rates(path, gpu)), first);
  }
  EXPECT_EQ(heard.measured, 1);
  const auto with_launch = [&](double seconds) {
    const device gpu(heard.options(rate_measurement::always, folder / "below"));
    device_rates other = detail::load_rates(path, gpu);
    other.launch = {seconds / 2, seconds};
    other.bandwidth = 4e9, other.scalar_flops = 1e9, other.matmul_flops = 1.25e10;
    detail::save_rates(other, path, gpu);
    const device_profile read = profile_of(gpu);
    EXPECT_EQ(known_rates(read), (device_rates{4e9, 1e9, 1.25e10, read.matrix_flops, other.launch}));
    return run(gpu);
  };
  const outcome cheap = with_launch(1e-6), dear = with_launch(1e-3);
  EXPECT_EQ(heard.measured, 1);
  expect_equal(cheap, dear);
  if (!make_device_profile(support::shared_device().facts()).parallel) {
    EXPECT_EQ(cheap.dispatches, 2u);
    EXPECT_EQ(dear.dispatches, 1u);
  }
  EXPECT_EQ(heard.warnings, std::vector<std::string>());
}

TEST(runtime_measured_rates, files_that_cannot_be_believed_are_measured_anew_and_replaced) {
  const support::temporary_folder folder;
  const device_rates honest{4e9, 1e9, 1.5e10, 0, {1e-5, 1e-5}};
  listener heard;
  const auto open = [&] { return device(heard.options(rate_measurement::always, folder.path().string())); };
  const std::string path = detail::rates_file(open());
  const auto saved = [&](const device_rates& rates) {
    detail::save_rates(rates, path, open());
    return text_of(path);
  };
  const std::string good = saved(honest);
  const auto replaced = [&](std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  device_rates absurd = honest;
  absurd.bandwidth = -1;
  device_rates infinite = honest;
  infinite.launch.dispatch = std::numeric_limits<double>::infinity();
  const std::string damaged[] = {
      "",
      "{}",
      "not JSON",
      std::string(100, '['),
      good.substr(0, good.size() / 2),
      replaced(good, "4000000000.0", "4000000001.0"),
      replaced(good, "\"device_id\":", "\"device_id\":1"),
      replaced(good, "\"measurement\":", "\"measurement\":9"),
      saved(absurd),
      saved(infinite),
  };
  for (const std::string& text : damaged) {
    support::write(path, text);
    heard.warnings.clear(), heard.measured = 0;
    const device gpu = open();
    (void)profile_of(gpu);
    EXPECT_EQ(heard.measured, 1) << text;
    ASSERT_EQ(heard.warnings.size(), 1u) << text;
    EXPECT_NE(heard.warnings[0].find("measured anew"), std::string::npos) << heard.warnings[0];
    EXPECT_NO_THROW((void)detail::load_rates(path, gpu)) << text;
  }
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);  // neither read nor written
  heard.warnings.clear(), heard.measured = 0;
  const device gpu = open();
  (void)run(gpu);
  EXPECT_EQ(heard.measured, 1);
  EXPECT_EQ(heard.warnings.size(), 2u);
}

TEST(runtime_measured_rates, a_device_that_cannot_be_measured_is_estimated_and_says_so) {
  listener heard;
  vulkan::device_options options = heard.options(rate_measurement::always);
  options.at_most = support::shared_device().facts();
  options.at_most->max_buffer_bytes = 4096;  // no product has room
  const device gpu(options);
  EXPECT_EQ(profile_of(gpu), unmeasured(gpu, profile_of(gpu)));
  EXPECT_EQ(heard.measured, 0);
  ASSERT_EQ(heard.warnings.size(), 1u);
  EXPECT_NE(heard.warnings[0].find("could not be measured"), std::string::npos) << heard.warnings[0];
  (void)profile_of(gpu);
  EXPECT_EQ(heard.warnings.size(), 1u) << "not tried again";
}

TEST(runtime_measured_rates, the_known_rates_are_the_known_profile) {
  const device_profile known;
  EXPECT_EQ(with_rates(known, known_rates()), known);
}

std::size_t kernels_of_a_sum(const device_profile& on) {
  graph g;
  g.add_output("y", g.reduce(reduce_kind::sum, g.input("x", dtype::f32, {1 << 16}), 1));
  fusion::optimize_options options;
  options.device = on;
  const graph made = fusion::optimize(g, options);
  std::size_t count = 0;
  for (node_id id{0}; id < made.size(); ++id) count += info(made[id].kind).runs ? 1 : 0;
  return count;
}

TEST(runtime_measured_rates, dearer_launches_make_fewer_of_them) {
  const device_profile known;
  device_rates dear = known_rates();
  dear.launch = {10 * dear.launch.group, 10 * dear.launch.dispatch};
  EXPECT_EQ(kernels_of_a_sum(known), 2u);
  EXPECT_EQ(kernels_of_a_sum(with_rates(known, dear)), 1u);
}

// By the model, a product on units takes as much longer as was measured, and first terms as much as barriers do.
TEST(runtime_measured_rates, products_on_matrix_units_are_costed_by_the_measured_one) {
  device_profile known;
  known.matrix_units = matrix_units::cooperative, known.max_shared_bytes = 49152;
  device_rates slow = known_rates();
  slow.matrix_flops /= 8;
  const device_profile measured = with_rates(known, slow);
  for (const product_arithmetic arithmetic : {product_arithmetic::rounded, product_arithmetic::split}) {
    for (const std::int64_t side : {2048, 4096}) {
      const fusion::product_extents size{1, side, side, side};
      for (const product_schedule& s : fusion::product_schedules(arithmetic, side, known)) {
        const kernel_time before = fusion::unit_time(s, size, known), now = fusion::unit_time(s, size, measured);
        EXPECT_NEAR(now.busy / before.busy, 8, 1e-9) << to_string(s);
        EXPECT_NEAR(now.alone / before.alone, 8, 0.5) << to_string(s);
      }
    }
  }
  EXPECT_EQ(measured.split.once, known.split.once);
  EXPECT_EQ(measured.product_once, known.product_once);

  device_rates late = known_rates();
  late.launch.group *= 3;
  late.matrix_flops = 0;  // not measured: as estimated
  const device_profile waiting = with_rates(known, late);
  for (const auto once : {&device_profile::product_once, &device_profile::vectors_once, &device_profile::region_once})
    EXPECT_NEAR(waiting.*once / (known.*once), 3, 1e-9);
  EXPECT_NEAR(waiting.split.once / known.split.once, 3, 1e-9);
  EXPECT_EQ(waiting.split.multiply, known.split.multiply);
  EXPECT_EQ(waiting.matrix_flops, known.matrix_flops);

  device_rates small = known_rates();
  small.bandwidth /= 4;
  EXPECT_EQ(with_rates(known, small).full_occupancy, known.full_occupancy / 4);
  small.bandwidth = 1e9;
  EXPECT_EQ(with_rates(known, small).full_occupancy, 132 * 32);
}

}  // namespace
