// SPDX-License-Identifier: MIT
// Bodies of io/safetensors_set.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/io/bounded_json.hpp>
#include <meganeura/io/safetensors_set.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::io {

namespace detail {

inline constexpr std::string_view index_ending = ".safetensors.index.json", tensors_ending = ".safetensors";
inline constexpr std::uint64_t longest_index = 16'000'000;  // of 100,000 tensors
inline constexpr std::size_t most_files = 10'000;

/// The one file of a folder that is meant: its index, or else its .safetensors, or else weights in another format,
/// which are told apart when they are opened.
inline std::string file_of_folder(const std::string& folder) {
  constexpr std::string_view others[] = {".bin", ".pt", ".pth", ".ckpt", ".gguf", ".onnx", ".h5"};
  std::vector<std::string> indices, files, foreign;
  std::error_code problem;
  for (std::filesystem::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(index_ending)) indices.push_back(at->path().string());
    if (name.ends_with(tensors_ending)) files.push_back(at->path().string());
    if (std::ranges::any_of(others, [&](std::string_view each) { return name.ends_with(each); }))
      foreign.push_back(at->path().string());
  }
  if (problem) fail(error_category::io, "{} cannot be read: {}", shown_path(folder), problem.message());
  if (indices.size() == 1) return indices.front();
  if (indices.empty() && files.size() == 1) return files.front();
  if (indices.empty() && files.empty() && foreign.size() == 1) return foreign.front();
  fail(error_category::invalid_file,
       "{} is a folder with {} indices (*{}) and {} files *{}; name one of them, or a folder with one",
       shown_path(folder), indices.size(), index_ending, files.size(), tensors_ending);
}

/// Tensors by the file that they are in.
inline std::map<std::string, std::vector<std::string>> files_of_index(const std::string& path) {
  const std::vector<std::uint8_t> bytes = read_file(path, longest_index);
  const nlohmann::json index = parse_bounded_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path,
                                                  "an index of .safetensors files");
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object() || map->empty()) {
    bad_file(path, 0, "an index of .safetensors files, {\"weight_map\": {\"name\": \"file\", ..}}",
             "JSON without such a map");
  }
  std::map<std::string, std::vector<std::string>> result;
  for (const auto& [name, file] : map->items()) {
    const std::string text = file.is_string() ? file.get<std::string>() : std::string();
    const bool is_beside =
        !text.empty() && text.find_first_of(std::string_view("/\\\0", 3)) == text.npos && text != "." && text != "..";
    if (!is_beside)
      bad_file(path, 0, fmt::format("a file beside the index for tensor {}", quote(name)), quote(file.dump(), 60));
    result[text].push_back(name);
    if (result.size() > most_files) bad_file(path, 0, fmt::format("at most {} files", most_files), "more");
  }
  return result;
}

}  // namespace detail

MEGANEURA_INLINE safetensors_set safetensors_set::open(const std::string& path) try {
  check_path(path);
  safetensors_set result;
  result.path_ = path;
  std::error_code unknown;
  const bool is_folder = std::filesystem::is_directory(path, unknown);
  const std::string file = is_folder ? detail::file_of_folder(path) : path;
  if (file.ends_with(detail::index_ending)) {
    result.open_index(file);
  } else {
    result.add(safetensors_file::open(file));
    result.metadata_ = result.files_.front().metadata();
  }
  result.by_name_.resize(result.tensors_.size());
  std::iota(result.by_name_.begin(), result.by_name_.end(), 0u);
  std::ranges::sort(result.by_name_, {}, [&](std::uint32_t i) -> std::string_view { return result.tensors_[i].name; });
  return result;
} catch (...) {
  rethrow_as_error("opening a checkpoint");
}

MEGANEURA_INLINE void safetensors_set::add(safetensors_file file) {
  for (const safetensors_tensor& each : file.tensors()) {
    tensors_.push_back(each);
    file_of_.push_back(static_cast<std::uint32_t>(files_.size()));
  }
  files_.push_back(std::move(file));
}

MEGANEURA_INLINE void safetensors_set::open_index(const std::string& index) {
  const std::filesystem::path folder = std::filesystem::path(index).parent_path();
  for (const auto& part : detail::files_of_index(index)) {
    const std::string& name = part.first;
    const std::vector<std::string>& expected = part.second;
    safetensors_file file = safetensors_file::open((folder / name).string());
    for (const std::string& tensor : expected) {
      if (file.find(tensor)) continue;
      bad_file(index, 0, fmt::format("tensor {} in {}", quote(tensor), quote(name)),
               fmt::format("{} tensors of other names there; index and file belong to different models",
                           file.tensors().size()));
    }
    if (file.tensors().size() != expected.size()) {
      const std::set<std::string_view> known(expected.begin(), expected.end());
      const auto stray = std::ranges::find_if(
          file.tensors(), [&](const safetensors_tensor& each) { return !known.contains(each.name); });
      bad_file(index, 0, fmt::format("all {} tensors of {} in the index", file.tensors().size(), quote(name)),
               fmt::format("{}, without {}", expected.size(), quote(stray->name)));
    }
    add(std::move(file));
  }
}

MEGANEURA_INLINE const safetensors_tensor* safetensors_set::find(std::string_view name) const {
  return detail::find_tensor(tensors_, by_name_, name);
}

MEGANEURA_INLINE std::vector<std::byte> safetensors_set::read(const safetensors_tensor& tensor) const {
  std::vector<std::byte> bytes;
  read(tensor, bytes);
  return bytes;
}

MEGANEURA_INLINE void safetensors_set::read(const safetensors_tensor& tensor, std::vector<std::byte>& into) const {
  const safetensors_tensor* known = find(tensor.name);
  if (known == nullptr) {
    fail(error_category::invalid_argument, "{} has no tensor {}; read what find(name) or tensors() gave",
         shown_path(path_), quote(tensor.name));
  }
  files_[file_of_[static_cast<std::size_t>(known - tensors_.data())]].read(*known, into);
}

}  // namespace meganeura::inline MEGANEURA_ABI::io
