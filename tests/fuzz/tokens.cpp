// SPDX-License-Identifier: MIT
// Fuzz target: files of tokens, and text as characters and bytes.
#include <meganeura/data/tokens.hpp>

#include "fuzz.hpp"

namespace data = meganeura::data;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const fuzz::memory_file memory;
  const std::string& path = memory.holding({bytes, size});
  for (const int width : {2, 4}) {
    fuzz::accepts([&] {
      const auto file = data::token_sequence::open(path, width, 0x4000);
      std::vector<std::int32_t> all(file.size());
      file.read(0, all);
      for (const std::int32_t token : all) fuzz::require(token >= 0 && token < 0x4000, "tokens are of the vocabulary");
      data::token_batch batch;
      const auto windows = file.windows(3, 2);
      const std::size_t last = windows.size() - 1;
      windows.fill({{&last, 1}, 1, 0, 0}, batch);
      fuzz::require(batch.tokens[1] == batch.labels[0], "a label is the token behind");
    });
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto plain = data::text_vocabulary::bytes();
  fuzz::require(plain.decode(plain.encode(text)) == text, "bytes come back");
  const bool is_text = fuzz::accepts([&] {
    const auto characters = data::text_vocabulary::characters_of(text);
    fuzz::require(characters.decode(characters.encode(text)) == text, "characters come back");
    const auto again = data::text_vocabulary::characters_of(characters.alphabet());
    fuzz::require(again.encode(text) == characters.encode(text), "the alphabet is the vocabulary");
  });
  fuzz::require(is_text == meganeura::is_utf8(text), "what is UTF-8 has characters");
  return 0;
}
