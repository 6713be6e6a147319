// SPDX-License-Identifier: MIT
// Definitions for kernels/tensor_access.hpp.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/insertion_sort.hpp>
#include <meganeura/kernels/strided_operand.hpp>
#include <meganeura/kernels/tensor_access.hpp>

#include <algorithm>
#include <numeric>

namespace meganeura::inline MEGANEURA_ABI::kernels {

MEGANEURA_INLINE bound_tensor::bound_tensor(spirv::kernel& owner, dtype type, std::string_view name, spirv::access how)
    : owner_(&owner), type_(type), elements_(owner.declare_buffer(stored_type(type), name, how, {})) {}

MEGANEURA_INLINE bound_tensor::bound_tensor(spirv::kernel& owner, dtype type, std::string_view name, int width,
                                            spirv::access how)
    : owner_(&owner), type_(type), elements_(owner.declare_buffer(stored_type(type, width), name, how, {})) {}

MEGANEURA_INLINE bound_tensor::bound_tensor(spirv::texel_buffer texels, std::uint32_t last)
    : owner_(texels.object().owner), type_(dtype::f32), elements_(texels.object()), texels_(texels), last_(last / 4) {}

MEGANEURA_INLINE scalar_value bound_tensor::load_across(const spirv::u32& index) const {
  using namespace spirv;
  const i32 first = bitcast<i32>(index) >> 2, last(static_cast<std::int32_t>(last_));
  const auto texel = [&](const i32& at) { return texels_->load(bitcast<u32>(min(max(at, 0), last))); };
  return detail::four_across(texel(first), texel(first + 1), index);
}

MEGANEURA_INLINE scalar_value bound_tensor::load(const spirv::u32& index, int width) const {
  if (texels_ && width == 4) return texels_->load(index);
  if (texels_) {
    const spirv::f32x4 four = texels_->load(index >> 2u);
    const spirv::boolean odd = (index & 1u) != 0u;
    return select((index & 2u) != 0u, select(odd, four[3], four[2]), select(odd, four[1], four[0]));
  }
  if (width == 4 && !groups_) groups_ = owner_->declare_view(stored_type(type_, 4), elements_);
  const spirv::untyped::memory_object& memory = width == 4 ? *groups_ : elements_;
  return loaded(spirv::untyped::load(spirv::untyped::locate(memory, index)), type_);
}

MEGANEURA_INLINE void bound_tensor::store(const spirv::u32& index, const scalar_value& value) const {
  const scalar_value wide = widened(value, elements_.type.components);
  spirv::untyped::store(spirv::untyped::locate(elements_, index), stored(wide, type_));
}

MEGANEURA_INLINE std::int64_t loop_nest::count(int first, int last) const {
  return std::accumulate(extents + first, extents + last, std::int64_t{1}, std::multiplies<>());
}

namespace detail {

inline bool always_outside(const index_map& each, int axis) {
  return (each.bounded >> axis & 1) != 0 && (each.low[axis] > 0 || each.high[axis] < 1);
}

// Axis `from` of one access becomes axis `to` of the other.
inline void move_axis(const index_map& from, int source_axis, index_map& to, int axis) {
  to.strides[axis] = from.strides[source_axis];
  to.low[axis] = from.low[source_axis];
  to.high[axis] = from.high[source_axis];
  to.bounded |= (from.bounded >> source_axis & 1) << axis;
}

inline bool mergeable(const index_map& each, int inner, std::int64_t inner_extent) {
  return (each.bounded >> inner & 1) == 0 && each.strides[inner - 1] == each.strides[inner] * inner_extent;
}

inline void merge_axis(index_map& each, int inner, std::int64_t inner_extent, int rank) {
  index_map merged = each;
  merged.bounded = each.bounded & ((1u << inner) - 1);
  merged.strides[inner - 1] = each.strides[inner];
  merged.low[inner - 1] *= inner_extent;
  merged.high[inner - 1] *= inner_extent;
  for (int axis = inner + 1; axis < rank; ++axis) move_axis(each, axis, merged, axis - 1);
  each = merged;
}

inline void merge_axes(loop_nest& nest) {
  for (int inner = nest.rank - 1; inner > 0; --inner) {
    if (inner == nest.outer_axes()) continue;  // outer and row axes stay apart
    const std::int64_t extent = nest.extents[inner];
    const auto fits = [&](const index_map& each) { return mergeable(each, inner, extent); };
    if (!fits(nest.output) || !std::ranges::all_of(nest.further, fits) || !std::ranges::all_of(nest.accesses, fits))
      continue;
    merge_axis(nest.output, inner, extent, nest.rank);
    for (index_map& each : nest.further) merge_axis(each, inner, extent, nest.rank);
    for (index_map& each : nest.accesses) merge_axis(each, inner, extent, nest.rank);
    nest.extents[inner - 1] *= extent;
    std::copy(nest.extents + inner + 1, nest.extents + nest.rank, nest.extents + inner);
    if (inner > nest.outer_axes()) --nest.row_axes;
    --nest.rank;
  }
}

inline index_map permuted(const index_map& from, std::span<const int> axes) {
  index_map result;
  result.source = from.source;
  result.offset = from.offset;
  result.fill = from.fill;
  for (std::size_t i = 0; i < axes.size(); ++i) move_axis(from, axes[i], result, static_cast<int>(i));
  return result;
}

}  // namespace detail

MEGANEURA_INLINE loop_nest make_loop_nest(const shape& space, int row_axes, std::span<const index_map> accesses,
                                          std::span<const index_map> outputs, int guide) {
  const int outer = space.rank() - row_axes;
  const index_map& leader = guide < 0 ? outputs.front() : accesses[static_cast<std::size_t>(guide)];
  std::vector<int> axes;
  for (int axis = 0; axis < space.rank(); ++axis) {
    const bool kept = std::any_of(accesses.begin(), accesses.end(),
                                  [&](const index_map& a) { return detail::always_outside(a, axis); });
    if (space[axis] != 1 || kept) axes.push_back(axis);
  }
  insertion_sort(axes.begin(), axes.end(), [&](int a, int b) {
    if ((a < outer) != (b < outer)) return a < outer;
    return std::abs(leader.strides[a]) > std::abs(leader.strides[b]);
  });
  loop_nest nest;
  nest.rank = static_cast<int>(axes.size());
  nest.row_axes = static_cast<int>(std::count_if(axes.begin(), axes.end(), [&](int axis) { return axis >= outer; }));
  for (std::size_t i = 0; i < axes.size(); ++i) nest.extents[i] = space[axes[i]];
  for (const index_map& each : accesses) nest.accesses.push_back(detail::permuted(each, axes));
  nest.output = detail::permuted(outputs.front(), axes);
  for (const index_map& each : outputs.subspan(1)) nest.further.push_back(detail::permuted(each, axes));
  detail::merge_axes(nest);
  return nest;
}

MEGANEURA_INLINE bool is_uniform(const index_map& each, int axis) {
  return each.strides[axis] == 0 && (each.bounded >> axis & 1) == 0;
}

MEGANEURA_INLINE bool vectorises(const loop_nest& nest, const index_map& each, int axis) {
  if (is_uniform(each, axis)) return true;
  if (each.strides[axis] != 1 || nest.extents[axis] % 4 != 0 || each.offset % 4 != 0) return false;
  if ((each.bounded >> axis & 1) != 0) {
    const bool low_fits = each.low[axis] <= 0 || each.low[axis] % 4 == 0;
    const bool high_fits = each.high[axis] >= nest.extents[axis] || each.high[axis] % 4 == 0;
    if (!low_fits || !high_fits) return false;
  }
  for (int i = 0; i < nest.rank; ++i) {
    if (i != axis && each.strides[i] % 4 != 0) return false;
  }
  return true;
}

MEGANEURA_INLINE void decode(const loop_nest& nest, const spirv::u32& position, int first, int last, coordinates& at) {
  spirv::u32 rest = position;
  for (int axis = last - 1; axis > first; --axis) {
    const auto extent = static_cast<std::uint32_t>(nest.extents[axis]);
    at[static_cast<std::size_t>(axis)] = rest % extent;
    rest = rest / extent;
  }
  if (last > first) at[static_cast<std::size_t>(first)] = rest;
}

namespace detail {

// Modulo 2^32 throughout: negative strides wrap and the sum comes out right.
inline spirv::u32 flat_address(const loop_nest& nest, const index_map& each, const coordinates& at) {
  spirv::u32 address(static_cast<std::uint32_t>(each.offset));
  for (int axis = 0; axis < nest.rank; ++axis) {
    if (each.strides[axis] == 0) continue;
    address = address + at[static_cast<std::size_t>(axis)] * spirv::u32(static_cast<std::uint32_t>(each.strides[axis]));
  }
  return address;
}

inline spirv::boolean inside(const loop_nest& nest, const index_map& each, const coordinates& at) {
  spirv::boolean valid(true);
  for (int axis = 0; axis < nest.rank; ++axis) {
    if ((each.bounded >> axis & 1) == 0) continue;
    const spirv::u32& index = at[static_cast<std::size_t>(axis)];
    const std::int64_t low = std::max<std::int64_t>(each.low[axis], 0);
    if (low >= nest.extents[axis] || each.high[axis] <= low) return spirv::boolean(false);
    if (low > 0) valid = valid && index >= spirv::u32(low);
    if (each.high[axis] < nest.extents[axis]) valid = valid && index < spirv::u32(each.high[axis]);
  }
  return valid;
}

inline coordinates shifted(const coordinates& at, int axis, std::uint32_t by) {
  coordinates result = at;
  result[static_cast<std::size_t>(axis)] = at[static_cast<std::size_t>(axis)] + by;
  return result;
}

inline scalar_value load_one(const loop_nest& nest, const index_map& each, std::span<const bound_tensor> operands,
                             const coordinates& at, int width) {
  const spirv::boolean valid = inside(nest, each, at);
  const bool is_index = each.source == index_map::index_source;
  const dtype type = is_index ? dtype::i32 : operands[static_cast<std::size_t>(each.source)].type();
  const scalar_value fill = widened(literal(type, each.fill), width);
  if (literal_value(valid) == 0.0) return fill;
  spirv::u32 address = flat_address(nest, each, at);
  if (is_index) return spirv::untyped::select(valid, spirv::bitcast<spirv::i32>(address), fill);
  address = select(valid, address, spirv::u32(0));  // any element that is there
  if (width == 4) address = address / 4u;
  const scalar_value loaded = operands[static_cast<std::size_t>(each.source)].load(address, width);
  return spirv::untyped::select(widened(valid, width), loaded, fill);
}

// Of consecutive positions, each of which may be outside.
inline scalar_value load_across(spirv::kernel& owner, const loop_nest& nest, const index_map& each,
                                std::span<const bound_tensor> operands, const coordinates& at, int vector_axis) {
  const scalar_value four = operands[static_cast<std::size_t>(each.source)].load_across(flat_address(nest, each, at));
  const scalar_value fill = literal(dtype::f32, each.fill);
  std::array<scalar_value, 4> parts;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const spirv::boolean valid = inside(nest, each, shifted(at, vector_axis, i));
    parts[i] = spirv::untyped::select(valid, component(four, static_cast<int>(i)), fill);
  }
  return grouped(owner, parts);
}

}  // namespace detail

MEGANEURA_INLINE std::int64_t last_read(const loop_nest& nest, const index_map& each) {
  std::int64_t last = each.offset;
  for (int axis = 0; axis < nest.rank; ++axis) {
    const bool is_bounded = (each.bounded >> axis & 1) != 0;
    const std::int64_t low = is_bounded ? std::max<std::int64_t>(each.low[axis], 0) : 0;
    const std::int64_t end = is_bounded ? std::min(each.high[axis], nest.extents[axis]) : nest.extents[axis];
    if (end <= low) return -1;
    last += each.strides[axis] * (each.strides[axis] > 0 ? end - 1 : low);
  }
  return last;
}

MEGANEURA_INLINE scalar_value load(spirv::kernel& owner, const loop_nest& nest, const index_map& each,
                                   std::span<const bound_tensor> operands, const coordinates& at, int vector_axis) {
  if (vector_axis < 0 || is_uniform(each, vector_axis)) return detail::load_one(nest, each, operands, at, 1);
  if (each.source != index_map::index_source && vectorises(nest, each, vector_axis)) {
    return detail::load_one(nest, each, operands, at, 4);
  }
  if (each.source != index_map::index_source && operands[static_cast<std::size_t>(each.source)].has_texels())
    return detail::load_across(owner, nest, each, operands, at, vector_axis);
  std::array<scalar_value, 4> parts;
  for (std::uint32_t i = 0; i < 4; ++i) {
    parts[i] = detail::load_one(nest, each, operands, detail::shifted(at, vector_axis, i), 1);
  }
  return grouped(owner, parts);
}

MEGANEURA_INLINE void store(const loop_nest& nest, const index_map& to, const bound_tensor& result,
                            const scalar_value& value, const coordinates& at, int vector_axis) {
  const spirv::u32 address = detail::flat_address(nest, to, at);
  if (vector_axis < 0 || is_uniform(to, vector_axis)) return result.store(address, component(value, 0));
  if (result.width() == 4) return result.store(address / 4u, value);
  const scalar_value wide = widened(value, 4);
  for (std::uint32_t i = 0; i < 4; ++i) {
    result.store(detail::flat_address(nest, to, detail::shifted(at, vector_axis, i)),
                 component(wide, static_cast<int>(i)));
  }
}

MEGANEURA_INLINE spirv::u32 flat_grid::position(spirv::kernel& owner) const {
  spirv::u32 position = owner.workgroup_id(0);
  if (groups[1] > 1) position = position + owner.workgroup_id(1) * groups[0];
  if (groups[2] > 1) position = position + owner.workgroup_id(2) * (groups[0] * groups[1]);
  return position;
}

MEGANEURA_INLINE flat_grid make_flat_grid(std::int64_t count, std::uint32_t each, const device_profile& on) {
  flat_grid grid;
  std::int64_t left = std::max<std::int64_t>(ceil_div<std::int64_t>(count, each), 1);
  for (std::size_t axis = 0; axis < 3 && left > 1; ++axis) {
    // Spread evenly over the rows that are needed, so that few workgroups have nothing to do.
    const std::int64_t limit = on.max_groups[axis];
    const std::int64_t rows = ceil_div(left, limit);
    grid.groups[axis] = static_cast<std::uint32_t>(ceil_div(left, rows));
    left = rows;
  }
  // Rounded up over the axes, the last workgroups stand past the end: even their positions have to be below 2^32.
  const std::uint64_t launched = std::uint64_t{grid.groups[0]} * grid.groups[1] * grid.groups[2] * each;
  if (left > 1 || count > max_count || launched > std::uint64_t{1} << 32) {
    fail(error_category::unsupported,
         "a kernel over {} items was asked for; kernels count in 32 bits, {} at most, in up to {} x {} x {} workgroups "
         "of {}: split the computation",
         count, max_count, on.max_groups[0], on.max_groups[1], on.max_groups[2], each);
  }
  return grid;
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
