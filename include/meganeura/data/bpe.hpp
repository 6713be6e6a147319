// SPDX-License-Identifier: MIT
// Text as the tokens of published language models: byte pair encoding from vocab.json and merges.txt.
#pragma once
#include <meganeura/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

/// clip: CLIP's variant. Text is in lower case, spaces are no part of words, digits stand alone, and the last token of
/// a word ends in </w>. Otherwise GPT-2's, which Whisper has too: a space is the beginning of the word behind it.
struct bpe_options {
  bool clip = false;
};

/// A text is cut into words, a word into its bytes, and of neighbours that a merge names those of the earliest merge
/// become one, again and again.
class bpe_tokenizer {
 public:
  /// The content of vocab.json, an object of numbers by token, and of merges.txt, two tokens a line. A first line that
  /// begins with "#version" is passed over. `name` is for messages.
  /// errors: `invalid_file`, with the place, for what is not that, a number that is none or taken, and merges whose
  /// tokens the vocabulary does not have; out_of_memory.
  [[nodiscard]] static bpe_tokenizer parse(std::string_view vocabulary, std::string_view merges,
                                           const std::string& name, const bpe_options& options = {});
  /// Without merges, an empty path, tokens can be decoded and text is cut into bytes.
  /// errors: as parse; `io`, also for files of more than 64 MiB.
  [[nodiscard]] static bpe_tokenizer read(const std::string& vocabulary, const std::string& merges = {},
                                          const bpe_options& options = {});

  [[nodiscard]] std::size_t size() const { return tokens_.size(); }  // of the vocabulary
  /// The number of a token as vocab.json writes it: "<|endoftext|>".
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view token) const;
  /// Text that looks like a special token is text. errors: invalid_argument for text that is not UTF-8, and for a byte
  /// that no token has.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;
  /// Special tokens appear as they are written. Of a text that encode has cut, all of it comes back, but what CLIP
  /// leaves out; a part of one may end inside a character. errors: invalid_argument for a number that no token has.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;

 private:
  struct merge {
    std::uint32_t rank;
    std::int32_t token;
  };
  void parse_vocabulary(std::string_view text, const std::string& name);
  void parse_merges(std::string_view text, const std::string& name);
  void encode_word(std::string_view word, std::vector<std::int32_t>& into) const;

  bpe_options options_;
  std::unordered_map<std::int32_t, std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::unordered_map<std::uint64_t, merge> merges_;  // by left << 32 | right
};

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/bpe.ipp>
#endif
