// SPDX-License-Identifier: MIT
// MNIST from wherever it is to be had, or digits drawn by a program where those will do; it says which.
#pragma once
#include <meganeura/data/fetch.hpp>
#include <meganeura/data/labelled_images.hpp>

#include <cstdint>
#include <string>

namespace meganeura::inline MEGANEURA_ABI::data {

/// Where the digits come from.
struct mnist_options {
  std::string directory{};  // where the IDX files lie; empty: look in the usual places
  downloader download{};    // how the network may be asked, e.g. data::download (data/download.hpp); empty: it is not
  bool draw = false;        // whether digits drawn by a program will do where no files are to be had
  std::uint64_t seed = 1;   // of the drawn digits
  // Where the files are downloaded from, whose bytes are compared with the published ones.
  std::string mirror = "https://storage.googleapis.com/cvdf-datasets/mnist/";
};

struct mnist_data {
  labelled_images train, test;
  std::string source;  // a sentence: which source this is, how many images, and how they were split
};

/// Looks in `directory` alone; or, when that is empty, in `$MEGANEURA_DATA/mnist` alone; or, where neither is named, in
/// the user's cache (`$XDG_CACHE_HOME/meganeura/mnist`, by default `~/.cache`), then downloads into that cache, then
/// draws digits if it may. Several programs may start at once: one downloads, the others wait for it. Files are named
/// as published (`train-images-idx3-ubyte` and so on), with or without `.gz`. Where only the 10,000-image pair is
/// found, every fifth of its images becomes the test set: 8,000 and 2,000, alike in difficulty, which its two halves
/// are not. errors: `io` for a folder that cannot be read, and when there are no files, saying where they were looked
/// for, why they were not downloaded and how to get them; `invalid_file` for a file that is missing in a folder named,
/// or damaged; `out_of_memory`.
[[nodiscard]] mnist_data load_mnist(const mnist_options& options = {});

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/mnist.ipp>
#endif
