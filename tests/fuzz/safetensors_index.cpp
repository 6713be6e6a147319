// SPDX-License-Identifier: MIT
// Fuzz target: the index of several .safetensors files, beside one that is whole. What is accepted finds its tensors.
#include <meganeura/io/safetensors_set.hpp>

#include "fuzz.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace io = meganeura::io;

namespace {

struct folder {
  std::string path = std::filesystem::temp_directory_path() / "meganeura-index-XXXXXX";
  folder() {
    if (mkdtemp(path.data()) == nullptr) std::abort();
    const float numbers[] = {1, 2};
    const auto bytes = std::as_bytes(std::span(numbers));
    io::write_safetensors(
        path + "/s.safetensors",
        std::vector<io::safetensors_entry>{{"a", "F32", {1}, bytes.first(4)}, {"b", "F32", {1}, bytes.last(4)}});
  }
  ~folder() { std::filesystem::remove_all(path); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const folder here;
  const std::string index = here.path + "/m.safetensors.index.json";
  std::ofstream(index, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  fuzz::accepts([&] {
    const auto set = io::safetensors_set::open(index);
    fuzz::require(set.tensors().size() == 2, "index and file have the same tensors");
    for (const auto& tensor : set.tensors()) {
      fuzz::require(set.find(tensor.name) == &tensor, "each tensor is found by its name");
      fuzz::require(set.read(tensor).size() == 4, "and read");
    }
  });
  return 0;
}
