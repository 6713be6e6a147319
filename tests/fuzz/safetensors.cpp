// SPDX-License-Identifier: MIT
// Fuzz target: a whole .safetensors file. What is accepted keeps every promise of safetensors_file and can be written
// again with the same content.
#include <meganeura/io/safetensors.hpp>

#include "fuzz.hpp"

namespace io = meganeura::io;

namespace {

void check(const io::safetensors_file& file, std::size_t size) {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<io::safetensors_entry> entries;
  std::size_t covered = 0;
  for (const auto& tensor : file.tensors()) {
    fuzz::require(file.find(tensor.name) == &tensor, "each tensor is found by its name");
    fuzz::require(meganeura::is_utf8(tensor.name), "names are UTF-8");
    fuzz::require(tensor.begin + tensor.size <= size, "each tensor lies in the file");
    covered += tensor.size;
    bytes.push_back(file.read(tensor));
  }
  fuzz::require(covered < size, "the tensors and the header fill the file");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto& tensor = file.tensors()[i];
    entries.push_back({tensor.name, tensor.dtype, tensor.shape, bytes[i]});
  }
  static const fuzz::memory_file again;
  const std::string& path = again.holding({});
  io::write_safetensors(path, entries, file.metadata());
  const auto second = io::safetensors_file::open(path);
  fuzz::require(second.metadata() == file.metadata(), "metadata survive writing");
  fuzz::require(second.tensors().size() == entries.size(), "tensors survive writing");
  for (const auto& entry : entries) {
    const auto* tensor = second.find(entry.name);
    fuzz::require(tensor != nullptr && tensor->dtype == entry.dtype && tensor->shape == entry.shape, "entries survive");
    fuzz::require(std::ranges::equal(second.read(*tensor), entry.bytes), "bytes survive");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::memory_file memory;
  const std::string& path = memory.holding({data, size});
  fuzz::accepts([&] { check(io::safetensors_file::open(path), size); });
  return 0;
}
