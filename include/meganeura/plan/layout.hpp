// SPDX-License-Identifier: MIT
// Where the named tensors of a graph lie in their area: offsets one after the other, in pages.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/graph/graph.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::plan {

/// Every tensor starts at a multiple of this many bytes: the largest alignment Vulkan lets a device ask for.
inline constexpr std::uint64_t tensor_alignment = 256;
[[nodiscard]] constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return ceil_div(bytes, tensor_alignment) * tensor_alignment;
}

/// A named tensor in an area.
struct named_tensor {
  std::string name;
  dtype type{};
  shape extents;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  op kind = op::parameter;  // or state, input
  initializer begin{};      // of a parameter or a state
  bool spreads = false;     // the filter of a transposed convolution, [c, out / groups, ..]
};

/// Slots in order, with an index by name.
class named_tensors {
 public:
  named_tensors() = default;
  explicit named_tensors(std::vector<named_tensor> tensors);
  /// Null for a name that no tensor has. cost: the logarithm of their number.
  [[nodiscard]] const named_tensor* find(std::string_view name) const;
  [[nodiscard]] const named_tensor& operator[](std::size_t i) const { return tensors_[i]; }
  [[nodiscard]] const named_tensor* data() const { return tensors_.data(); }
  [[nodiscard]] std::size_t size() const { return tensors_.size(); }
  [[nodiscard]] auto begin() const { return tensors_.begin(); }
  [[nodiscard]] auto end() const { return tensors_.end(); }

 private:
  std::vector<named_tensor> tensors_;
  std::vector<std::size_t> by_name_;  // indices, in the order of their names
};

/// Named tensors one after the other in one area.
struct layout {
  named_tensors tensors;
  std::uint64_t bytes = 0;
  [[nodiscard]] const named_tensor* find(std::string_view name) const { return tensors.find(name); }
};

inline constexpr std::uint64_t unlimited_page = std::uint64_t{1} << 62;

/// The same tensors in the same order, none of them across a multiple of `page_bytes`. errors: unsupported, naming a
/// tensor that is longer.
[[nodiscard]] layout paged(const layout& whole, std::uint64_t page_bytes);

/// What all programs of a model share: its parameters, then its states, each in order of creation.
[[nodiscard]] layout make_layout(const graph& g);
/// States that belong to a training and not to its model: those that begin as init::each_run and are called
/// "optimizer.KIND.PARAMETER", as moments are.
[[nodiscard]] layout make_training_layout(const graph& g);

namespace detail {
[[nodiscard]] inline std::uint64_t tensor_bytes(const node& n) {
  return static_cast<std::uint64_t>(n.extents.bytes(n.type));
}

[[nodiscard]] inline bool in_one_page(std::uint64_t offset, std::uint64_t bytes, std::uint64_t page_bytes) {
  return bytes == 0 || offset / page_bytes == (offset + bytes - 1) / page_bytes;
}

// The first offset from this one on at which `bytes` lie in one page.
[[nodiscard]] inline std::uint64_t fit_page(std::uint64_t offset, std::uint64_t bytes, std::uint64_t page_bytes) {
  return in_one_page(offset, bytes, page_bytes) ? offset : (offset / page_bytes + 1) * page_bytes;
}

/// Every leaf of these kinds, kind by kind in order of creation; of states those of a training, or the others.
[[nodiscard]] layout layout_of(const graph& g, std::initializer_list<op> leaf_kinds, bool of_training = false);
}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::plan

#if MEGANEURA_HEADER_ONLY
#include <meganeura/plan/layout.ipp>
#endif
