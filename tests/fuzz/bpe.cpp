// SPDX-License-Identifier: MIT
// Fuzz target: vocabularies and merges, parted by the first zero byte. Text that is cut comes back.
#include <meganeura/data/bpe.hpp>

#include "fuzz.hpp"

#include <algorithm>

namespace data = meganeura::data;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(bytes), size);
  const std::size_t end = std::min(all.find('\0'), size);
  const std::string_view text = all.substr(end);
  for (const bool clip : {false, true}) {
    fuzz::accepts([&] {
      const auto found =
          data::bpe_tokenizer::parse(all.substr(0, end), text.substr(text.empty() ? 0 : 1), "fuzz", {clip});
      for (const std::string_view each : {text, std::string_view("low, lower 12")}) {
        fuzz::accepts([&] {
          const auto tokens = found.encode(each);
          const std::string again = found.decode(tokens);
          fuzz::require(clip || again == each, "text comes back");
        });
      }
    });
  }
  return 0;
}
