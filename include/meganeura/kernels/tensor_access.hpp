// SPDX-License-Identifier: MIT
// Tensors bound to a kernel, and loop nests that read them through affine accesses.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/dispatch.hpp>
#include <meganeura/kernels/scalar_emit.hpp>

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// A tensor behind a storage buffer. Loads widen what is narrow, stores round it back; `width` 4 counts the index in
/// groups of four.
class bound_tensor {
 public:
  /// An operand of f32 read as texels, which a software device loads far quicker; `last`: the last element that is
  /// read.
  bound_tensor(spirv::texel_buffer texels, std::uint32_t last);
  /// An operand, which `how` is read_write for if the result has the same memory.
  bound_tensor(spirv::kernel& owner, dtype type, std::string_view name, spirv::access how = spirv::access::read);
  /// The result, stored `width` at a time; `how` is read_write for one in the memory of an operand.
  bound_tensor(spirv::kernel& owner, dtype type, std::string_view name, int width,
               spirv::access how = spirv::access::write);
  [[nodiscard]] scalar_value load(const spirv::u32& index, int width = 1) const;
  /// Four elements from `index` on, across two texels. What is behind `last`, or before 0, is some number.
  [[nodiscard]] scalar_value load_across(const spirv::u32& index) const;
  [[nodiscard]] bool has_texels() const { return texels_.has_value(); }
  void store(const spirv::u32& index, const scalar_value& value) const;
  [[nodiscard]] dtype type() const { return type_; }
  [[nodiscard]] int width() const { return elements_.type.components; }

 private:
  spirv::kernel* owner_;
  dtype type_;
  spirv::untyped::memory_object elements_;
  mutable std::optional<spirv::untyped::memory_object> groups_;  // declared when first used
  std::optional<spirv::texel_buffer> texels_;
  std::uint32_t last_ = 0;  // texel
};

/// An index into a loop nest: one value an axis. The vector axis holds the first of four consecutive positions.
using coordinates = std::array<spirv::u32, max_rank>;

/// A loop nest in the form kernels are made from: no axes of extent 1, adjacent axes merged where every access allows
/// it.
struct loop_nest {
  int rank = 0;
  int row_axes = 0;  // the last ones
  std::int64_t extents[max_rank]{};
  std::vector<index_map> accesses;
  index_map output;
  std::vector<index_map> further;  // where other results are stored

  [[nodiscard]] int outer_axes() const { return rank - row_axes; }
  [[nodiscard]] std::int64_t count(int first, int last) const;  // positions of axes [first, last)
};

/// Sorts outer and row axes by falling stride of `guide` (an access number, -1 = the first output), then merges.
[[nodiscard]] loop_nest make_loop_nest(const shape& space, int row_axes, std::span<const index_map> accesses,
                                       std::span<const index_map> outputs, int guide);

/// Whether four consecutive positions along `axis` may be read (stored) at once: consecutive and aligned, or all the
/// same.
[[nodiscard]] bool vectorises(const loop_nest& nest, const index_map& each, int axis);
[[nodiscard]] bool is_uniform(const index_map& each, int axis);  // the same at every position along `axis`
/// The last element of its tensor that it reads; -1: none.
[[nodiscard]] std::int64_t last_read(const loop_nest& nest, const index_map& each);

/// Splits a flat position over axes [first, last), in row-major order, into `at`.
void decode(const loop_nest& nest, const spirv::u32& position, int first, int last, coordinates& at);

/// What `each` reads at `at`: one value, or four along `vector_axis` (-1: none) where it depends on it.
[[nodiscard]] scalar_value load(spirv::kernel& owner, const loop_nest& nest, const index_map& each,
                                std::span<const bound_tensor> operands, const coordinates& at, int vector_axis);

/// Stores one value, or four along `vector_axis`, where `to` says.
void store(const loop_nest& nest, const index_map& to, const bound_tensor& result, const scalar_value& value,
           const coordinates& at, int vector_axis);

/// Workgroups over three axes, and which of them this one is.
struct flat_grid {
  std::array<std::uint32_t, 3> groups{1, 1, 1};
  [[nodiscard]] spirv::u32 position(spirv::kernel& owner) const;
};

/// Workgroups of `each` for `count` items. errors: unsupported when the device launches fewer or 32 bits cannot tell
/// the items apart.
[[nodiscard]] flat_grid make_flat_grid(std::int64_t count, std::uint32_t each, const device_profile& on);

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/tensor_access.ipp>
#endif
