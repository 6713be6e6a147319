// SPDX-License-Identifier: MIT
// Text as numbers: vocabularies of characters and bytes, files of tokens, and windows of them that a language model
// trains on.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/data/loader.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

/// Units of text by number.
class text_vocabulary {
 public:
  /// The distinct characters (Unicode code points) of a text, in their order. errors: invalid_argument for a text that
  /// is not UTF-8, saying where: take bytes().
  [[nodiscard]] static text_vocabulary characters_of(std::string_view text);
  /// All 256 bytes.
  [[nodiscard]] static text_vocabulary bytes();

  [[nodiscard]] std::size_t size() const { return units_.size(); }
  /// errors: invalid_argument for what is not in it, saying where.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;
  /// errors: invalid_argument for a number that no unit has.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;
  /// All units in their order: characters_of(alphabet()) is the same vocabulary.
  [[nodiscard]] std::string alphabet() const;

 private:
  std::vector<std::string> units_;  // sorted
  bool characters_ = false;
};

/// Windows as a model takes them: label i is the token behind token i.
struct token_batch {
  std::vector<std::int32_t> tokens, labels;  // [batch, length]
};

class token_windows;

/// Tokens one after another, in memory or in a file of which only what is asked for is read; copies share them.
class token_sequence {
 public:
  explicit token_sequence(std::vector<std::int32_t> tokens);
  /// A file of unsigned little-endian numbers of `bytes` bytes each, 2 or 4, all below `vocabulary`.
  /// errors: `io`; `invalid_file` where the last one is cut; invalid_argument for other `bytes`.
  [[nodiscard]] static token_sequence open(const std::string& path, int bytes, std::int32_t vocabulary);

  [[nodiscard]] std::uint64_t size() const;

  /// Those from `first` on. errors: invalid_argument for more than there are; `io`; `invalid_file`, with its place, for
  /// a token that is not below the vocabulary.
  void read(std::uint64_t first, std::span<std::int32_t> into) const;

  /// A set of a loader: loader batches(corpus.windows(256), 64, {.shuffle = true}). One begins every `stride` tokens,
  /// or, for 0, where the one before ends; what is behind the last whole window is left out.
  /// errors: invalid_argument for a length of 0, and where there are not length + 1 tokens.
  [[nodiscard]] token_windows windows(std::size_t length, std::size_t stride = 0) const;

 private:
  struct source;
  std::shared_ptr<const source> source_;
};

class token_windows {
 public:
  using batch = token_batch;

  [[nodiscard]] std::size_t size() const { return size_; }
  void fill(const chosen_samples& chosen, token_batch& into) const;

 private:
  friend class token_sequence;
  token_windows(token_sequence of, std::size_t length, std::size_t stride, std::size_t size)
      : of_(std::move(of)), length_(length), stride_(stride), size_(size) {}

  token_sequence of_;
  std::size_t length_, stride_, size_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/tokens.ipp>
#endif
