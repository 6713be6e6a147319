// SPDX-License-Identifier: MIT
// Fuzz target: NumPy's .npy files. What is accepted has the numbers that its shape says.
#include <meganeura/data/npy.hpp>

#include "fuzz.hpp"

namespace data = meganeura::data;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  fuzz::accepts([&] {
    const data::npy_array found = data::parse_npy(data::source_of({bytes, size}), size, "fuzz.npy");
    std::size_t count = 1;
    for (const std::size_t extent : found.shape) count *= extent;
    fuzz::require(found.size() == count && found.bytes.size() < size, "shape and bytes agree");
    fuzz::require(found.floats().size() == count, "every type converts");
    fuzz::accepts([&] { fuzz::require(found.integers().size() == count, "and integers to i32"); });
  });
  return 0;
}
