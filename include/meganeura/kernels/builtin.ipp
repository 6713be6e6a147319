// SPDX-License-Identifier: MIT
// Definitions for kernels/builtin.hpp: two generated kernels, and the ones compiled from shaders/.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/embedded/shaders.hpp>
#include <meganeura/kernels/builtin.hpp>
#include <meganeura/kernels/philox.hpp>
#include <meganeura/kernels/tensor_access.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

/// A tensor around one axis: [outer, axis, inner], counted in elements or, where `width` is 4, in groups of four.
struct axis_split {
  std::uint32_t outer = 1, extent = 1, inner = 1;
  int width = 1;
};

[[nodiscard]] inline axis_split split_at(const shape& extents, int axis) {
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= extents[i];
  for (int i = axis + 1; i < extents.rank; ++i) inner *= extents[i];
  const int width = inner % 4 == 0 ? 4 : 1;
  return {static_cast<std::uint32_t>(outer), static_cast<std::uint32_t>(extents[axis]),
          static_cast<std::uint32_t>(inner / width), width};
}

inline constexpr std::uint32_t index_chunk = 256;

// Adds the updates of all indices equal to `row` to `total`. The list of indices passes through shared memory in
// chunks; a chunk that no row of this workgroup occurs in is skipped.
inline void add_matching(spirv::kernel& owner, const bound_tensor& indices, const bound_tensor& updates,
                         std::uint32_t count, const axis_split& split, const spirv::u32& outer, const spirv::u32& row,
                         const spirv::u32& column, const spirv::u32& lowest, const spirv::u32& highest,
                         const spirv::detail::place_reference& total) {
  const auto list = owner.shared<spirv::u32>(index_chunk);
  const auto found = owner.shared<spirv::u32>(1);
  const spirv::u32 thread = owner.local_id(0);
  owner.for_(spirv::u32(0), spirv::u32(count), spirv::u32(index_chunk), [&](const spirv::u32& first) {
    owner.barrier();  // the last chunk is no longer read
    owner.if_(thread == 0u, [&] { found[0] = spirv::u32(0); });
    owner.barrier();
    const spirv::u32 at = first + thread;
    owner.if_(at < spirv::u32(count), [&] {
      const spirv::u32 index = spirv::bitcast<spirv::u32>(spirv::i32(indices.load(at)));
      list[thread] = index;
      owner.if_(index >= lowest && index <= highest, [&] { found[0] = spirv::u32(1); });
    });
    owner.barrier();
    owner.if_(found[0].load() != 0u, [&] {
      owner.for_(min(spirv::u32(count) - first, spirv::u32(index_chunk)), [&](const spirv::u32& i) {
        owner.if_(list[i].load() == row, [&] {
          const scalar_value update = updates.load((outer * count + (first + i)) * split.inner + column, split.width);
          spirv::detail::store(total, combine(owner, scalar_op::row_sum, spirv::detail::load(total), update));
        });
      });
    });
  });
}

/// A kernel of shaders/ that handles four elements an invocation, 256 invocations a workgroup.
[[nodiscard]] inline kernel_dispatch make_flat(const char* name, std::span<const std::uint32_t> words,
                                               std::size_t bindings, std::vector<std::uint32_t> specialization,
                                               std::int64_t count, const target& on) {
  kernel_dispatch made;
  made.module.name = fmt::format("{} {}", name, count);
  made.module.words.assign(words.begin(), words.end());
  made.module.bindings.assign(bindings, spirv::binding_kind::storage_buffer);
  made.module.local_size = {256, 1, 1};
  made.module.specialization = std::move(specialization);
  made.groups = make_flat_grid((count + 1023) / 1024, on).groups;
  if (made.groups[2] != 1)
    fail(error_category::unsupported, "{} of {} elements: more than the device's grid holds", name, count);
  return made;
}

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_gather(const shape& data, const shape& indices, int axis, dtype type,
                                             const target& on) {
  const detail::axis_split split = detail::split_at(data, axis);
  const auto count = static_cast<std::uint32_t>(indices.elements());
  const std::int64_t items = std::int64_t{split.outer} * count * split.inner;
  const std::uint32_t size = std::min(128u, on.max_invocations);
  const flat_grid grid = make_flat_grid((items + size - 1) / size, on);
  spirv::kernel owner(fmt::format("gather {}", items * split.width), {size, 1, 1});
  const bound_tensor from(owner, type, "data");
  const bound_tensor at(owner, dtype::i32, "indices");
  const bound_tensor result(owner, type, "result", split.width);
  const spirv::u32 position = grid.position(owner) * size + owner.local_id(0);
  owner.if_(position < spirv::u32(items), [&] {
    const spirv::u32 row = position / split.inner, column = position % split.inner;
    const spirv::u32 index = spirv::bitcast<spirv::u32>(spirv::i32(at.load(row % count)));
    const spirv::u32 source = row / count * split.extent + min(index, spirv::u32(split.extent - 1));
    result.store(position, from.load(source * split.inner + column, split.width));
  });
  return {owner.finish(), grid.groups};
}

MEGANEURA_INLINE kernel_dispatch make_scatter_add(const shape& result_extents, const shape& indices, int axis,
                                                  dtype type, const target& on) {
  const detail::axis_split split = detail::split_at(result_extents, axis);
  const auto count = static_cast<std::uint32_t>(indices.elements());
  const std::int64_t items = std::int64_t{split.outer} * split.extent * split.inner;
  const std::uint32_t size = detail::index_chunk;
  const flat_grid grid = make_flat_grid((items + size - 1) / size, on);
  spirv::kernel owner(fmt::format("scatter_add {} of {}", items * split.width, count), {size, 1, 1});
  const bound_tensor at(owner, dtype::i32, "indices");
  const bound_tensor updates(owner, type, "updates");
  const bound_tensor result(owner, type, "result", split.width);
  const spirv::u32 group_first = grid.position(owner) * size, last(items - 1);
  const spirv::u32 wanted = group_first + owner.local_id(0), position = min(wanted, last);
  const spirv::u32 line = position / split.inner, outer = line / split.extent, row = line % split.extent;
  // Rows of this workgroup; one that spans two outer positions has wrapped around and takes all.
  const spirv::u32 first_line = min(group_first, last) / split.inner,
                   last_line = min(group_first + (size - 1), last) / split.inner;
  const spirv::boolean wraps = first_line / split.extent != last_line / split.extent;
  const spirv::u32 lowest = select(wraps, spirv::u32(0), first_line % split.extent);
  const spirv::u32 highest = select(wraps, spirv::u32(split.extent - 1), last_line % split.extent);
  const auto total = owner.declare_variable(value_type(type, split.width));
  spirv::detail::store(total, widened(literal(type, 0), split.width));
  detail::add_matching(owner, at, updates, count, split, outer, row, position % split.inner, lowest, highest, total);
  owner.if_(wanted <= last, [&] { result.store(position, spirv::detail::load(total)); });
  return {owner.finish(), grid.groups};
}

MEGANEURA_INLINE kernel_dispatch make_random(const random_attribute& stream, std::int64_t count, const target& on) {
  return detail::make_flat(
      "random", embedded::random, 2,
      {static_cast<std::uint32_t>(count), stream_hash(stream.stream), static_cast<std::uint32_t>(stream.distribution)},
      count, on);
}

MEGANEURA_INLINE kernel_dispatch make_optimizer(const optimizer_attribute& kind, std::int64_t count, const target& on) {
  const auto elements = static_cast<std::uint32_t>(count);
  if (kind.kind != optimizer_kind::sgd) {
    const bool decoupled = kind.kind == optimizer_kind::adamw;
    return detail::make_flat(decoupled ? "adamw" : "adam", embedded::adam, 5, {elements, decoupled ? 1u : 0u}, count,
                             on);
  }
  if (kind.momentum) return detail::make_flat("sgd_momentum", embedded::sgd_momentum, 4, {elements}, count, on);
  return detail::make_flat("sgd", embedded::sgd, 3, {elements}, count, on);
}

MEGANEURA_INLINE kernel_dispatch make_fill(std::uint32_t word, std::int64_t count, const target& on) {
  return detail::make_flat("fill", embedded::fill, 1, {static_cast<std::uint32_t>(count), word}, count, on);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
