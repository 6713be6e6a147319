// SPDX-License-Identifier: MIT
// Bodies of data/mnist.hpp.
#pragma once
#include <meganeura/data/digits.hpp>
#include <meganeura/data/idx.hpp>
#include <meganeura/data/mnist.hpp>
#include <meganeura/io/file.hpp>
#include <meganeura/io/sha256.hpp>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {
namespace detail {

/// A published file, and the SHA-256 of its .gz.
struct mnist_file {
  const char *name, *sha256;
};
inline constexpr mnist_file train_images{"train-images-idx3-ubyte",
                                         "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"};
inline constexpr mnist_file train_labels{"train-labels-idx1-ubyte",
                                         "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"};
inline constexpr mnist_file test_images{"t10k-images-idx3-ubyte",
                                        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"};
inline constexpr mnist_file test_labels{"t10k-labels-idx1-ubyte",
                                        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"};

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

inline std::optional<labelled_images> read_pair(const std::filesystem::path& folder, const mnist_file& images,
                                                const mnist_file& labels) {
  const std::string image_path = find_file(folder, images), label_path = find_file(folder, labels);
  if (image_path.empty() && label_path.empty()) return std::nullopt;
  if (image_path.empty() || label_path.empty()) {
    const char* missing = image_path.empty() ? images.name : labels.name;
    fail(error_category::invalid_file, "{}: expected {} or {}.gz beside {}, found neither", folder.string(), missing,
         missing, image_path.empty() ? label_path : image_path);
  }
  labelled_images found = read_idx_pair(image_path, label_path, 10, largest_mnist);
  if (found.rows != 28 || found.columns != 28) {
    io::bad_file(image_path, 8, "images of 28x28 pixels", fmt::format("{}x{}", found.rows, found.columns));
  }
  return found;
}

/// What a folder holds; nothing when it holds no images of the test pair.
inline std::optional<mnist_data> load_folder(const std::filesystem::path& folder, const std::string& label) {
  std::error_code problem;
  std::filesystem::directory_iterator(folder, problem);
  if (problem) fail(error_category::io, "{}: the data folder cannot be read: {}", folder.string(), problem.message());
  auto test = read_pair(folder, test_images, test_labels);
  if (!test) return std::nullopt;
  mnist_data result;
  if (auto train = read_pair(folder, train_images, train_labels)) {
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

inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// Empty when there is neither XDG_CACHE_HOME nor HOME.
inline std::filesystem::path cache_folder() {
  if (const auto cache = environment("XDG_CACHE_HOME"); !cache.empty()) {
    return std::filesystem::path(cache) / "meganeura" / "mnist";
  }
  const auto home = environment("HOME");
  return home.empty() ? std::filesystem::path() : std::filesystem::path(home) / ".cache" / "meganeura" / "mnist";
}

/// Runs a program found on PATH, its output thrown away; true when it ran and returned 0.
inline bool run_quietly(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));  // posix_spawn does not write
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const bool started = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), ::environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  int status = 1;
  return started && ::waitpid(child, &status, 0) == child && status == 0;
}

/// Downloads one file beside its place, and moves it there only when its checksum is right.
inline bool download_file(const std::string& mirror, const std::filesystem::path& folder, const mnist_file& file) {
  const auto target = (folder / (std::string(file.name) + ".gz")).string(), part = target + ".part";
  const auto url = mirror + file.name + ".gz";
  std::error_code ignored;
  bool good = run_quietly({"curl", "--fail", "--silent", "--location", "--connect-timeout", "3", "--max-time", "60",
                           "--output", part, url});
  good = good && io::sha256(io::read_file(part)) == file.sha256;
  if (good) std::filesystem::rename(part, target, ignored);
  std::filesystem::remove(part, ignored);
  return good && !ignored;
}

/// The 10,000-image pair first: where the network drops out after it, there is still something to train on.
inline bool download(const std::string& mirror, const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem || !download_file(mirror, folder, test_labels) || !download_file(mirror, folder, test_images))
    return false;
  if (download_file(mirror, folder, train_labels) && !download_file(mirror, folder, train_images)) {
    std::filesystem::remove(folder / (std::string(train_labels.name) + ".gz"),
                            problem);  // half a pair is an error later
  }
  return true;
}

}  // namespace detail

MEGANEURA_INLINE mnist_data load_mnist(const mnist_options& options) {
  std::error_code ignored;
  if (!options.directory.empty()) {
    if (auto found = detail::load_folder(options.directory, "the folder asked for")) return std::move(*found);
    fail(error_category::invalid_file, "{}: expected {} or {}.gz, found neither", options.directory,
         detail::test_images.name, detail::test_images.name);
  }
  if (const auto data = detail::environment("MEGANEURA_DATA"); !data.empty()) {
    const auto folder = std::filesystem::path(data) / "mnist";
    if (auto found = detail::load_folder(folder, "MEGANEURA_DATA")) return std::move(*found);
  }
  const auto cache = detail::cache_folder();
  if (std::filesystem::is_directory(cache, ignored)) {
    if (auto found = detail::load_folder(cache, "the user's cache")) return std::move(*found);
  }
  if (options.download && !cache.empty() && detail::download(options.mirror, cache)) {
    if (auto found = detail::load_folder(cache, "downloaded just now")) return std::move(*found);
  }
  return {make_digits(8000, options.seed), make_digits(2000, options.seed + 0x5eed),
          fmt::format("digits drawn by a program, as no MNIST files were found{}: 8000 to train on, 2000 to test; "
                      "--data DIR or MEGANEURA_DATA names a folder with real ones",
                      options.download ? " or could be downloaded" : "")};
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
