// SPDX-License-Identifier: MIT
// Fuzz target: IDX files, plain and gzipped, of one to four dimensions.
#include <meganeura/data/idx.hpp>

#include "fuzz.hpp"

namespace data = meganeura::data;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  constexpr std::uint64_t most = 1 << 16;
  static const fuzz::memory_file memory;
  const std::string& path = memory.holding({bytes, size});
  const std::size_t rank_at = data::is_gzip({bytes, size}) ? 9 : 3;  // 9: the system it was packed on, which is free
  const std::size_t rank = size > rank_at ? 1 + (bytes[rank_at] + 3u) % 4 : 1;
  fuzz::accepts([&] {
    const data::idx_array found = data::read_idx(path, rank, most);
    std::size_t count = 1;
    for (const std::size_t extent : found.shape) count *= extent;
    fuzz::require(found.shape.size() == rank && count == found.values.size() && count <= most,
                  "shape and values agree");
  });
  return 0;
}
