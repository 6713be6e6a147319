// SPDX-License-Identifier: MIT
// Fuzz target: unpacking gzip. Whole and in pieces give the same bytes or are both refused.
#include <meganeura/data/gzip.hpp>

#include "fuzz.hpp"

namespace data = meganeura::data;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  constexpr std::size_t limit = 1 << 16;
  const std::span input(bytes, size);
  std::vector<std::uint8_t> whole, pieces;
  const bool good = fuzz::accepts([&] { whole = data::gunzip(input, "f", limit); });
  fuzz::require(whole.size() <= limit, "no more than the limit comes out");
  const bool good_again = fuzz::accepts([&] {
    data::gzip_reader reader(data::source_of(input), "f");
    std::uint8_t piece[251];
    while (const std::size_t got = reader.read(piece)) {
      pieces.insert(pieces.end(), piece, piece + got);
      if (pieces.size() > limit) meganeura::fail(meganeura::error_category::invalid_file, "f: more than the limit");
    }
  });
  fuzz::require(good == good_again && (!good || whole == pieces), "pieces give what the whole gives");
  return 0;
}
