// SPDX-License-Identifier: MIT
// Sequences of 64-bit words, each kept once.
#pragma once
#include <meganeura/core/hash.hpp>
#include <meganeura/core/hash_index.hpp>
#include <meganeura/core/id.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

inline std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }
/// Up to four numbers below 2^16 in one word.
template <class... Small>
std::uint64_t packed(Small... values) {
  static_assert(sizeof...(values) <= 4);
  std::uint64_t word = 0;
  ((word = word << 16 | static_cast<std::uint64_t>(values)), ...);
  return word;
}

}  // namespace detail

using word_id = strong_id<struct word_kind>;

/// Equal sequences get equal ids; ids are dense and in order of first use.
class word_pool {
 public:
  word_id intern(std::span<const std::uint64_t> words) {
    std::uint64_t hash = words.size();
    for (std::uint64_t word : words) hash = hash_combine(hash, word);
    const word_id known = ids_.find(hash, [&](word_id id) {
      return std::ranges::equal(words, std::span(words_).subspan(first_[id], first_[id + 1] - first_[id]));
    });
    if (known != no_id) return known;
    const word_id id(static_cast<std::uint32_t>(size()));
    words_.insert(words_.end(), words.begin(), words.end());
    first_.push_back(words_.size());
    ids_.insert(hash, id);
    return id;
  }
  [[nodiscard]] std::size_t size() const { return first_.size() - 1; }

 private:
  std::vector<std::uint64_t> words_;
  std::vector<std::size_t> first_{0};  // of each sequence, and the end of the last one's
  hash_index<word_id> ids_;
};

}  // namespace meganeura::inline MEGANEURA_ABI
