// SPDX-License-Identifier: MIT
// "Did you mean": the nearest name, found soon even among the names of a hostile file.
#include <meganeura/core/nearest.hpp>

#include <gtest/gtest.h>

#include <chrono>

namespace mn = meganeura;

TEST(core_nearest, the_name_with_the_fewest_changes_is_suggested) {
  EXPECT_EQ(mn::detail::nearest("fc1.wieght", {"fc2.weight", "fc1.weight", "fc1.bias"}), "fc1.weight");
  EXPECT_EQ(mn::detail::nearest("x", {"yz", "abc"}), "");
  EXPECT_EQ(mn::detail::nearest("nonsense", {"log_exp", "attention"}), "");
  EXPECT_EQ(mn::detail::nearest("fc.w", {"head.bias", "fc.weight"}), "fc.weight");
  EXPECT_EQ(mn::detail::nearest("fc1", {"fc2.weight", "fc11.weight", "fc1.weight", "fc1.bias"}), "fc1.weight");
  EXPECT_EQ(mn::detail::did_you_mean("a\x1b"), "; did you mean \"a\\u{1b}\"?");
}

TEST(core_nearest, long_and_many_names_end_the_search) {
  const std::vector<std::string> names(100'000, std::string(180, 'n')), huge(20, std::string(100'000, 'h'));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(mn::detail::nearest(std::string(170, 'x'), names), "");
  EXPECT_EQ(mn::detail::nearest(std::string(100'000, 'h'), huge), "");
  EXPECT_EQ(mn::detail::nearest("weight", huge), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}
