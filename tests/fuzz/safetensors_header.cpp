// SPDX-License-Identifier: MIT
// Fuzz target: the JSON header of a .safetensors file alone, for a file of which the last two bytes say the length.
#include <meganeura/io/safetensors.hpp>

#include "fuzz.hpp"

namespace io = meganeura::io;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size - 2);
  const std::size_t data_bytes = data[size - 2] + 256u * data[size - 1];
  const std::string path = "f";
  fuzz::accepts([&] {
    io::detail::safetensors_header header(path, text, 8 + text.size() + data_bytes);
    header.parse();
    std::size_t covered = 0;
    for (const auto& tensor : header.tensors) {
      fuzz::require(meganeura::is_utf8(tensor.name), "names are UTF-8");
      covered += tensor.size;
    }
    fuzz::require(covered == data_bytes, "the tensors cover the data");
    fuzz::require(header.by_name.size() == header.tensors.size(), "each tensor has a place in the order of names");
  });
  return 0;
}
