// SPDX-License-Identifier: MIT
// Sequences of words are kept once, whatever their lengths and however many there are.
#include <meganeura/core/word_pool.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace {

using namespace meganeura;

TEST(core_word_pool, equal_sequences_have_one_number_in_order_of_first_use) {
  word_pool pool;
  std::map<std::vector<std::uint64_t>, std::uint32_t> known;
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    std::vector<std::uint64_t> words(random() % 4);
    for (std::uint64_t& word : words) word = random() % 8;
    const auto [at, is_new] = known.try_emplace(words, static_cast<std::uint32_t>(known.size()));
    EXPECT_EQ(pool.intern(words), word_id(at->second));
    EXPECT_EQ(pool.size(), known.size());
  }
  EXPECT_GT(known.size(), 400u);
}

TEST(core_word_pool, numbers_and_bits_are_packed_apart) {
  EXPECT_EQ(detail::packed(1, 2, 3, 4), 0x0001000200030004u);
  EXPECT_EQ(detail::packed(true, 0xffff), 0x1ffffu);
  EXPECT_NE(detail::bits_of(0.0), detail::bits_of(-0.0));
}

}  // namespace
