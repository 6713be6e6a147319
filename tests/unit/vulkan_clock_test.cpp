// SPDX-License-Identifier: MIT
// Ticks of a device as lengths and as times of the host.
#include <meganeura/vulkan/device_clock.hpp>

#include <gtest/gtest.h>

#include <optional>

namespace {

using namespace meganeura;
using vulkan::detail::clock_moment;
using vulkan::detail::device_clock;
using vulkan::detail::tick_length;

constexpr std::optional<clock_moment> unknown;

TEST(vulkan_clock, ticks_go_on_behind_their_last_one) {
  EXPECT_EQ(tick_length(2, 64).nanoseconds(100, 150), 100);
  EXPECT_EQ(tick_length(2, 64).nanoseconds(150, 100), -100);
  EXPECT_EQ(tick_length(0.5, 36).nanoseconds((std::uint64_t{1} << 36) - 4, 6), 5);
  EXPECT_EQ(tick_length(0.5, 36).nanoseconds(6, (std::uint64_t{1} << 36) - 4), -5);
  EXPECT_EQ(tick_length(1, 64).nanoseconds(~std::uint64_t{0}, 1), 2);
  EXPECT_EQ(tick_length(1, 0).nanoseconds(1, 2), 0) << "no timestamps";
}

TEST(vulkan_clock, a_sample_of_both_clocks_says_when_ticks_were) {
  device_clock clock;
  const tick_length unit(10, 36);
  const std::uint64_t last = (std::uint64_t{1} << 36) - 1;
  EXPECT_EQ(clock.begin_on_host(unit, {last - 99, last}, {0, 0}, clock_moment{50, 1'000'000}), 1'000'000 - 1500);
  EXPECT_EQ(clock.begin_on_host(unit, {100, 200}, {0, 0}, clock_moment{50, 1'000'000}), 1'000'500);
}

TEST(vulkan_clock, the_first_interval_ends_where_the_host_saw_it) {
  device_clock clock;
  EXPECT_EQ(clock.begin_on_host({1, 64}, {700, 900}, {10'000, 10'500}, unknown), 10'300);
}

TEST(vulkan_clock, later_ones_follow_it_as_far_as_the_host_permits) {
  device_clock clock;
  const tick_length unit(1, 64);
  (void)clock.begin_on_host(unit, {700, 900}, {10'000, 10'500}, unknown);
  EXPECT_EQ(clock.begin_on_host(unit, {1000, 1100}, {10'400, 20'000}, unknown), 10'600) << "waited for late";
  EXPECT_EQ(clock.begin_on_host(unit, {1200, 1300}, {10'900, 20'000}, unknown), 10'900)
      << "not before it was submitted";
  EXPECT_EQ(clock.begin_on_host(unit, {1400, 1500}, {10'950, 11'180}, unknown), 11'080)
      << "not after it was seen to end";
}

TEST(vulkan_clock, nothing_begins_before_what_ran_before_has_ended) {
  device_clock clock;
  const tick_length unit(1, 64);
  EXPECT_EQ(clock.begin_on_host(unit, {100, 200}, {0, 0}, clock_moment{200, 1000}), 900);
  EXPECT_EQ(clock.begin_on_host(unit, {201, 300}, {0, 0}, clock_moment{300, 1090}), 1000) << "a sample is not exact";
  EXPECT_EQ(clock.begin_on_host(unit, {50, 90}, {0, 0}, clock_moment{200, 1000}), 850) << "asked for late";
}

// Where ticks begin again more than once between two steps, the host's clock says which is the later one.
TEST(vulkan_clock, a_long_pause_is_not_mistaken_for_the_past) {
  device_clock clock;
  const tick_length unit(1, 8);
  EXPECT_EQ(clock.begin_on_host(unit, {0, 10}, {1000, 1010}, unknown), 1000);
  EXPECT_EQ(clock.begin_on_host(unit, {200, 210}, {5000, 5040}, unknown), 5000);
  EXPECT_EQ(clock.begin_on_host(unit, {215, 225}, {5000, 5040}, unknown), 5015);
}

}  // namespace
