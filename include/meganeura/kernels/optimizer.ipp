// SPDX-License-Identifier: MIT
// Definitions for kernels/optimizer.hpp.
#pragma once
#include <meganeura/kernels/optimizer.hpp>
#include <meganeura/kernels/scalar_emit.hpp>
#include <meganeura/kernels/step_values.hpp>
#include <meganeura/kernels/tensor_access.hpp>
#include <meganeura/spirv/kernel.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

using tensor_memory = std::span<const spirv::untyped::memory_object>;

// One element of each tensor, or one group of four: everything is read before anything is written.
inline void emit_update(spirv::kernel& owner, const optimizer_attribute& rule, tensor_memory tensors,
                        const spirv::untyped::memory_object* scale, const spirv::untyped::memory_object& now,
                        const spirv::u32& at) {
  const auto argument = [&](int index) {
    const auto place = static_cast<std::size_t>(index);
    if (place < tensors.size()) {
      const scalar_value value = spirv::untyped::load(spirv::untyped::locate(tensors[place], at));
      if (index != 1 || !scale) return value;
      const scalar_value parts[] = {value, spirv::untyped::load(spirv::untyped::locate(*scale, spirv::u32(0)))};
      return emit(owner, {.op = scalar_op::multiply}, parts);
    }
    const auto word =
        static_cast<std::uint32_t>(offsetof(step_values, numbers) / sizeof(float) + place - tensors.size());
    return component(spirv::untyped::load(spirv::untyped::locate(now, spirv::u32(word / 4))),
                     static_cast<int>(word % 4));
  };
  const std::vector<scalar_value> values = emit_nodes(owner, rule.program, argument);
  for (std::size_t i = 0; i < rule.results.size(); ++i) {
    const spirv::untyped::memory_object& target = tensors[i == 0 ? 0 : i + 1];  // between them is the gradient
    spirv::untyped::store(spirv::untyped::locate(target, at), widened(values[rule.results[i]], target.type.components));
  }
}

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_optimizer(const optimizer_attribute& rule, std::int64_t count,
                                                const device_profile& on, bool scaled) {
  const std::int64_t groups = count / 4, tail = count % 4;
  const std::uint32_t size = std::min(256u, on.max_invocations);
  const flat_grid grid = make_flat_grid(groups + (tail != 0 ? 1 : 0), size, on);
  spirv::kernel owner(fmt::format("{} {}", rule.name, count), {size, 1, 1});
  std::vector<spirv::untyped::memory_object> fours, ones;  // the same bindings
  const auto bind = [&](std::string_view name, spirv::access how) {
    fours.push_back(owner.declare_buffer(value_type(dtype::f32, 4), name, how, {}));
    if (tail != 0) ones.push_back(owner.declare_view(value_type(dtype::f32), fours.back()));
  };
  bind("parameter", spirv::access::read_write);
  bind("gradient", spirv::access::read);
  for (const std::string& moment : rule.moments) bind(moment, spirv::access::read_write);
  // Of storage buffers devices promise four, which two moments take.
  std::optional<spirv::untyped::memory_object> scale;
  if (scaled) scale = owner.declare_uniform_buffer(value_type(dtype::f32), 1, "scale");
  const auto now = owner.declare_uniform_buffer(value_type(dtype::f32, 4), sizeof(step_values) / 16, "now");
  const auto update = [&](detail::tensor_memory tensors, const spirv::u32& at) {
    detail::emit_update(owner, rule, tensors, scale ? &*scale : nullptr, now, at);
  };
  const spirv::u32 position = grid.position(owner) * size + owner.local_id(0), end(groups);
  owner.if_(
      position < end, [&] { update(fours, position); },
      [&] {
        if (tail == 0) return;
        owner.if_(position == end, [&] {
          for (std::int64_t i = 4 * groups; i < count; ++i) update(ones, spirv::u32(i));
        });
      });
  return {owner.finish(), grid.groups};
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
