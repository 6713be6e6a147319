// SPDX-License-Identifier: MIT
// Fuzz target: NumPy's .npz archives, directory and arrays.
#include <meganeura/data/npy.hpp>

#include "fuzz.hpp"

namespace data = meganeura::data;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const fuzz::memory_file memory;
  const std::string& path = memory.holding({bytes, size});
  fuzz::accepts([&] {
    const data::npz_file file = data::npz_file::open(path);
    for (const std::string& name : file.names()) {
      fuzz::accepts([&] {
        const data::npy_array found = file.read(name);
        fuzz::require(found.floats().size() == found.size(), "an array that was read can be used");
      });
    }
    fuzz::accepts([&] { (void)file.read("weights"); });
  });
  return 0;
}
