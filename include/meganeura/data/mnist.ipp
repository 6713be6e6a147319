// SPDX-License-Identifier: MIT
// Bodies of data/mnist.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/data/digits.hpp>
#include <meganeura/data/idx.hpp>
#include <meganeura/data/mnist.hpp>
#include <meganeura/io/file.hpp>
#include <meganeura/io/user_folder.hpp>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {
namespace detail {

/// A file under the name it has unpacked, with the size and the SHA-256 of its .gz.
struct mnist_file {
  const char *name, *sha256;
  std::uint64_t bytes;
};
inline constexpr mnist_file train_images{"train-images-idx3-ubyte",
                                         "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9912422};
inline constexpr mnist_file train_labels{"train-labels-idx1-ubyte",
                                         "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28881};
inline constexpr mnist_file test_images{"t10k-images-idx3-ubyte",
                                        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1648877};
inline constexpr mnist_file test_labels{"t10k-labels-idx1-ubyte",
                                        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4542};

/// Bytes of pixels of the largest of them; a file that says it unpacks to more is not MNIST.
inline constexpr std::uint64_t largest_mnist = 60'000 * 784;

/// The path of a file, plain or .gz; empty when the folder has neither.
inline std::string find_file(const std::filesystem::path& folder, const mnist_file& file) {
  for (const char* ending : {"", ".gz"}) {
    const auto path = folder / (std::string(file.name) + ending);
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path.string();
  }
  return {};
}

/// What half a pair is: an error in a folder that somebody named, and as good as nothing in a cache.
enum class pairs : std::uint8_t { are_whole, may_be_half };

inline std::optional<labelled_images> read_pair(const std::filesystem::path& folder, const mnist_file& images,
                                                const mnist_file& labels, pairs expected) {
  const std::string image_path = find_file(folder, images), label_path = find_file(folder, labels);
  if (image_path.empty() && label_path.empty()) return std::nullopt;
  if (image_path.empty() || label_path.empty()) {
    if (expected == pairs::may_be_half) return std::nullopt;
    const char* missing = image_path.empty() ? images.name : labels.name;
    fail(error_category::invalid_file, "{}: expected {} or {}.gz beside {}, found neither", shown_path(folder.string()),
         missing, missing, shown_path(image_path.empty() ? label_path : image_path));
  }
  labelled_images found = read_idx_pair(image_path, label_path, 10, largest_mnist);
  if (found.rows != 28 || found.columns != 28) {
    io::bad_file(image_path, 8, "images of 28x28 pixels", fmt::format("{}x{}", found.rows, found.columns));
  }
  return found;
}

/// What a folder holds; nothing when it holds no images of the test pair.
inline std::optional<mnist_data> load_folder(const std::filesystem::path& folder, const std::string& label,
                                             pairs expected) {
  std::error_code problem;
  std::filesystem::directory_iterator(folder, problem);
  if (problem)
    fail(error_category::io, "{}: the data folder cannot be read: {}", shown_path(folder.string()), problem.message());
  auto test = read_pair(folder, test_images, test_labels, expected);
  if (!test) return std::nullopt;
  mnist_data result;
  if (auto train = read_pair(folder, train_images, train_labels, expected)) {
    result.train = std::move(*train);
    result.test = std::move(*test);
    result.source = fmt::format("MNIST from {} ({}): {} images to train on, {} to test", folder.string(), label,
                                result.train.size(), result.test.size());
    return result;
  }
  for (std::size_t i = 0; i < test->size(); ++i) (i % 5 == 4 ? result.test : result.train).append(*test, i);
  result.source =
      fmt::format("MNIST from {} ({}), only the {}-image pair is there: split into {} to train on, {} to test",
                  folder.string(), label, test->size(), result.train.size(), result.test.size());
  return result;
}

/// Whether a folder has both files of the test pair. Of a cache that is the question: a download may have ended early.
inline bool has_test_pair(const std::filesystem::path& folder) {
  return !find_file(folder, test_images).empty() && !find_file(folder, test_labels).empty();
}

/// What the cache holds, once nobody is filling it any more; an empty path is no cache, not the current folder.
/// Half a pair there is what a download left that ended early.
inline std::optional<mnist_data> load_cache(const std::filesystem::path& cache, const std::string& label) {
  if (cache.empty()) return std::nullopt;
  const folder_lock lock(cache.string(), folder_lock::use::read);
  if (!has_test_pair(cache)) return std::nullopt;
  return load_folder(cache, label, pairs::may_be_half);
}

/// Brings what the cache lacks, the 10,000-image pair first: where the network drops out after it, there is still
/// something to train on. Returns why not all of it came, or nothing.
inline std::string fill_cache(const mnist_options& options, const std::filesystem::path& cache) {
  if (cache.empty()) return "neither XDG_CACHE_HOME nor HOME names a place for a download";
  if (!options.download) return "no download was allowed";
  std::error_code problem;
  std::filesystem::create_directories(cache, problem);
  if (problem) return fmt::format("{}: cannot be made: {}", cache.string(), problem.message());
  const folder_lock lock(cache.string(), folder_lock::use::fill);
  try {
    for (const mnist_file& file : {test_labels, test_images, train_labels, train_images}) {
      if (!find_file(cache, file).empty()) continue;  // another program was faster
      fetch_file(options.download, options.mirror, cache.string(),
                 {std::string(file.name) + ".gz", file.sha256, file.bytes});
    }
  } catch (const error& failure) {
    return failure.what();
  }
  return {};
}

inline mnist_data load_named(const std::filesystem::path& folder, const std::string& label) {
  if (auto found = load_folder(folder, label, pairs::are_whole)) return std::move(*found);
  fail(error_category::invalid_file, "{}: expected {} or {}.gz, found neither", shown_path(folder.string()),
       test_images.name, test_images.name);
}

}  // namespace detail

MEGANEURA_INLINE mnist_data load_mnist(const mnist_options& options) try {
  io::check_path(options.directory);
  if (!options.directory.empty()) return detail::load_named(options.directory, "the folder asked for");
  if (const auto data = io::environment("MEGANEURA_DATA"); !data.empty()) {
    return detail::load_named(std::filesystem::path(data) / "mnist", "MEGANEURA_DATA");
  }
  auto cache = io::user_cache_folder();
  if (!cache.empty()) cache /= "mnist";
  if (auto found = detail::load_cache(cache, "the user's cache")) return std::move(*found);
  const std::string why = detail::fill_cache(options, cache);
  if (auto found = detail::load_cache(cache, "downloaded just now")) {
    if (!why.empty()) found->source += "; the rest did not come: " + why;
    return std::move(*found);
  }
  if (!options.draw) {
    fail(error_category::io,
         "no MNIST: {} has no files of it, and {}; get {}.gz and its like from {}, and name their "
         "folder, or let digits be drawn",
         cache.empty() ? std::string("the cache") : shown_path(cache.string()), why, detail::test_images.name,
         options.mirror);
  }
  return {
      make_digits(8000, options.seed), make_digits(2000, options.seed + 0x5eed),
      fmt::format("digits drawn by a program, not MNIST (no files, and {}): 8000 to train on, 2000 to test; --data DIR "
                  "or MEGANEURA_DATA names a folder with real ones",
                  why)};
} catch (...) {
  rethrow_as_error("loading MNIST");
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
