// SPDX-License-Identifier: MIT
// A checkpoint in one .safetensors file or in several with an index, as large models are published.
#pragma once
#include <meganeura/io/safetensors.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::io {

/// The tensors of all files together. An index, "model.safetensors.index.json", says in which file each tensor is
/// ({"weight_map": {"name": "model-00001-of-00002.safetensors", ..}}); every file is checked as safetensors_file does,
/// lies beside the index, and has the tensors that the index says, and no others.
class safetensors_set {
 public:
  /// `path`: a .safetensors file, an index, or a folder with one index or else one such file. errors: those of
  /// safetensors_file::open; `invalid_file` for an index that is none or does not fit its files, and for a folder that
  /// has neither or several.
  [[nodiscard]] static safetensors_set open(const std::string& path);

  /// File by file, in the order of their headers.
  [[nodiscard]] std::span<const safetensors_tensor> tensors() const { return tensors_; }
  /// The tensor of that name, or null.
  [[nodiscard]] const safetensors_tensor* find(std::string_view name) const;
  /// The bytes of a tensor of this set, read now. errors: those of safetensors_file::read.
  [[nodiscard]] std::vector<std::byte> read(const safetensors_tensor& tensor) const;
  void read(const safetensors_tensor& tensor, std::vector<std::byte>& into) const;
  /// Of a single file; of several the index's is no text, and none is kept.
  [[nodiscard]] const safetensors_metadata& metadata() const { return metadata_; }
  /// As it was asked for.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void add(safetensors_file file);
  void open_index(const std::string& index);

  std::string path_;
  std::vector<safetensors_file> files_;
  std::vector<safetensors_tensor> tensors_;
  std::vector<std::uint32_t> file_of_, by_name_;  // of each tensor; indices of tensors_, sorted
  safetensors_metadata metadata_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::io

#if MEGANEURA_HEADER_ONLY
#include <meganeura/io/safetensors_set.ipp>
#endif
