// SPDX-License-Identifier: MIT
// Fuzz target: CIFAR-10's binary files.
#include <meganeura/data/cifar.hpp>

#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const fuzz::memory_file memory;
  const std::string& path = memory.holding({bytes, size});
  fuzz::accepts([&] {
    const auto images = meganeura::data::read_cifar10({path, path});
    fuzz::require(images.pixels.size() == images.size() * 3072 && images.size() == size / 3073 * 2, "whole images");
    for (const auto label : images.labels) fuzz::require(label < 10, "labels below 10");
  });
  return 0;
}
