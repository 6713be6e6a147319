// SPDX-License-Identifier: MIT
// CIFAR-10's binary version: records of a label and 3 x 32 x 32 bytes, red before green before blue.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/data/labelled_images.hpp>

#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

/// The images of the files, one behind the other: "data_batch_1.bin" to 5, or "test_batch.bin".
/// errors: `io`; `invalid_file` for a size that is not that of whole records, and a label above 9; `out_of_memory`.
[[nodiscard]] labelled_images read_cifar10(const std::vector<std::string>& paths);

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/cifar.ipp>
#endif
