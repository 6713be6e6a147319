// SPDX-License-Identifier: MIT
// Definitions for kernels/gather.hpp.
#pragma once
#include <meganeura/kernels/cascade.hpp>
#include <meganeura/kernels/gather.hpp>
#include <meganeura/kernels/shared_totals.hpp>
#include <meganeura/kernels/tensor_access.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

/// A tensor around one axis: [outer, axis, inner], counted in elements or, where `width` is 4, in groups of four.
struct axis_split {
  std::uint32_t outer = 1, extent = 1, inner = 1;
  int width = 1;
};

[[nodiscard]] inline axis_split split_at(const shape& extents, int axis, int most = 4) {
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= extents[i];
  for (int i = axis + 1; i < extents.rank(); ++i) inner *= extents[i];
  const int width = inner % most == 0 ? most : 1;
  return {static_cast<std::uint32_t>(outer), static_cast<std::uint32_t>(extents[axis]),
          static_cast<std::uint32_t>(inner / width), width};
}

/// `slices` invocations share an element of the result and add up at the end; each takes its part of every chunk of the
/// index list, which passes through shared memory.
struct scatter_plan {
  std::uint32_t size = 256;    // invocations of a workgroup
  std::uint32_t slices = 1;    // powers of two, as are the others
  std::uint32_t loads = 1;     // indices an invocation brings for a chunk
  std::uint32_t unrolled = 1;  // indices compared in a pass

  [[nodiscard]] std::uint32_t chunk() const { return size * loads; }
  [[nodiscard]] std::uint32_t share() const { return chunk() / slices; }  // indices of a chunk one invocation compares
  [[nodiscard]] std::uint32_t elements() const { return size / slices; }  // of the result, in a workgroup
  /// More sharing, then fewer and fuller passes; false when there is no more to be had.
  [[nodiscard]] bool shorten(const device_profile& on) {
    const std::uint32_t shared_bytes = 4 * 2 * chunk() + 16 * (size / 2) + 16;  // the list, the exchange, a flag
    if (slices < size)
      slices *= 2;
    else if (loads < 16 && shared_bytes <= on.max_shared_bytes)
      loads *= 2;
    else
      return false;
    unrolled = std::min(share(), 4u);
    return true;
  }
};

// Few elements and a long list: all invocations of a workgroup and several workgroups have something to do.
[[nodiscard]] inline scatter_plan plan_scatter(std::int64_t items, std::uint32_t count, const device_profile& on) {
  scatter_plan plan{.size = std::min(256u, on.max_invocations)};
  const std::int64_t wanted = std::int64_t{plan.size} * on.compute_units;
  while (count >= 1024 && plan.slices < plan.size && items * plan.slices * 2 <= wanted) plan.slices *= 2;
  plan.unrolled = std::min(plan.share(), plan.slices == 1 ? 1u : 4u);
  return plan;
}

/// What updates are added into: zeros, another tensor, or that one where it lies.
enum class scatter_base : std::uint8_t { zeros, tensor, in_place };

class scatter_kernel {
 public:
  scatter_kernel(const axis_split& split, std::uint32_t count, dtype type, const scatter_plan& plan, scatter_base base,
                 const device_profile& on)
      : split_(split),
        plan_(plan),
        count_(count),
        type_(type),
        items_(std::int64_t{split.outer} * split.extent * split.inner),
        grid_(make_flat_grid(items_, plan.elements(), on)),
        owner_(fmt::format("{} {} of {}", base == scatter_base::zeros ? "scatter_add" : "index_add",
                           items_ * split.width, count),
               {plan.size, 1, 1}),
        in_place_(base == scatter_base::in_place),
        base_(base == scatter_base::zeros ? std::nullopt : std::optional<bound_tensor>({owner_, type, "x", own()})),
        indices_(owner_, dtype::i32, "indices"),
        updates_(owner_, type, "updates"),
        result_(owner_, type, "result", split.width, in_place_ ? spirv::access::read_write : spirv::access::write) {}

  [[nodiscard]] kernel_dispatch make() {
    const spirv::u32 thread = owner_.local_id(0), last(static_cast<std::uint32_t>(items_ - 1));
    const spirv::u32 group_first = grid_.position(owner_) * plan_.elements();
    const spirv::u32 wanted = group_first + thread % plan_.elements(), position = min(wanted, last);
    slice_ = thread / plan_.elements();
    row_ = position / split_.inner % split_.extent;
    outer_ = position / split_.inner / split_.extent;
    column_ = position % split_.inner;
    // Rows of this workgroup; one that spans two outer positions has wrapped around and takes all.
    const spirv::u32 first_line = min(group_first, last) / split_.inner,
                     last_line = min(group_first + (plan_.elements() - 1), last) / split_.inner;
    const spirv::boolean wraps = first_line / split_.extent != last_line / split_.extent;
    lowest_ = select(wraps, spirv::u32(0), first_line % split_.extent);
    highest_ = select(wraps, spirv::u32(split_.extent - 1), last_line % split_.extent);
    total_ = owner_.declare_variable(value_type(type_, split_.width));
    const scalar_value zero = widened(literal(type_, 0), split_.width);
    spirv::untyped::store(total_, zero);
    // What nothing is added to stays as it is; invocations that share an element would have to ask each other.
    if (in_place_ && plan_.slices == 1) found_any_.emplace(owner_.variable<spirv::u32>());
    const running_sum sum{total_, scalar_op::row_sum, zero};
    const auto list = owner_.shared<spirv::u32>(plan_.chunk());
    const auto found = owner_.shared<spirv::u32>(1);
    for_summed(owner_, spirv::u32(0), count_, plan_.chunk(), {.terms = plan_.share()}, std::span(&sum, 1),
               [&](const spirv::u32& first) {
                 load_chunk(list, found, first);
                 owner_.if_(found[0].load() != 0u, [&] { add_matching(list, first); });
               });
    add_slices();
    const spirv::boolean is_found = found_any_ ? found_any_->load() != 0u : spirv::boolean(true);
    owner_.if_(slice_ == 0u && wanted <= last && is_found, [&] { result_.store(position, with_base(position)); });
    return {owner_.finish(), grid_.groups};
  }

 private:
  [[nodiscard]] spirv::access own() const { return in_place_ ? spirv::access::read_write : spirv::access::read; }
  [[nodiscard]] scalar_value with_base(const spirv::u32& position) {
    const scalar_value total = spirv::untyped::load(total_);
    return base_ ? combine(owner_, scalar_op::row_sum, base_->load(position, split_.width), total) : total;
  }

  // Sets `found` where a row of this workgroup occurs in the chunk; past the end stands no row at all.
  void load_chunk(const spirv::memory<spirv::u32>& list, const spirv::memory<spirv::u32>& found,
                  const spirv::u32& first) {
    const spirv::u32 thread = owner_.local_id(0);
    owner_.barrier();  // the last chunk is no longer read
    owner_.if_(thread == 0u, [&] { found[0] = spirv::u32(0); });
    owner_.barrier();
    for (std::uint32_t load = 0; load < plan_.loads; ++load) {
      const spirv::u32 place = thread + load * plan_.size, at = first + place;
      const spirv::boolean exists = at < spirv::u32(count_);
      const spirv::u32 read = spirv::bitcast<spirv::u32>(spirv::i32(indices_.load(min(at, spirv::u32(count_ - 1)))));
      const spirv::u32 index = select(exists, read, spirv::u32(0xffffffffu));
      list[place] = index;
      owner_.if_(index >= lowest_ && index <= highest_, [&] { found[0].atomic_store(1); });
    }
    owner_.barrier();
  }

  void add_matching(const spirv::memory<spirv::u32>& list, const spirv::u32& first) {
    const spirv::u32 begin = slice_ * plan_.share();
    owner_.for_(spirv::u32(0), spirv::u32(plan_.share()), spirv::u32(plan_.unrolled), [&](const spirv::u32& done) {
      for (std::uint32_t i = 0; i < plan_.unrolled; ++i) {
        const spirv::u32 place = begin + done + i;
        owner_.if_(list[place].load() == row_, [&] {
          const spirv::u32 line = outer_ * count_ + (first + place);
          const scalar_value update = updates_.load(line * split_.inner + column_, split_.width);
          add(update);
          if (found_any_) *found_any_ = spirv::u32(1);
        });
      }
    });
  }

  void add(const scalar_value& update) {
    spirv::untyped::store(total_, combine(owner_, scalar_op::row_sum, spirv::untyped::load(total_), update));
  }

  void add_slices() {
    if (plan_.slices == 1) return;
    const auto shared =
        owner_.declare_array(value_type(type_, split_.width), spirv::storage_class::workgroup, plan_.size / 2);
    const auto at = [&](const spirv::u32& index) { return spirv::untyped::locate(shared, index); };
    const spirv::u32 thread = owner_.local_id(0);
    const auto give = [&](std::uint32_t half) {
      spirv::untyped::store(at(thread - half * plan_.elements()), spirv::untyped::load(total_));
    };
    add_by_halves(owner_, slice_, plan_.slices, false, give, [&] { add(spirv::untyped::load(at(thread))); });
  }

  axis_split split_;
  scatter_plan plan_;
  std::uint32_t count_;
  dtype type_;
  std::int64_t items_;
  flat_grid grid_;
  spirv::kernel owner_;
  bool in_place_;
  std::optional<bound_tensor> base_;
  bound_tensor indices_, updates_, result_;
  std::optional<spirv::var<spirv::u32>> found_any_;
  spirv::u32 slice_, row_, outer_, column_, lowest_, highest_;
  spirv::untyped::place_reference total_;
};

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_gather(const shape& data, const shape& indices, int axis, dtype type,
                                             const device_profile& on) {
  const detail::axis_split split = detail::split_at(data, axis);
  const auto count = static_cast<std::uint32_t>(indices.elements());
  const std::int64_t items = std::int64_t{split.outer} * count * split.inner;
  const std::uint32_t size = std::min(128u, on.max_invocations);
  const flat_grid grid = make_flat_grid(items, size, on);
  spirv::kernel owner(fmt::format("gather {}", items * split.width), {size, 1, 1});
  const bound_tensor from(owner, type, "data");
  const bound_tensor at(owner, dtype::i32, "indices");
  const bound_tensor result(owner, type, "result", split.width);
  const spirv::u32 position = grid.position(owner) * size + owner.local_id(0);
  owner.if_(position < spirv::u32(items), [&] {
    const spirv::u32 row = position / split.inner, column = position % split.inner;
    const spirv::u32 index = spirv::bitcast<spirv::u32>(spirv::i32(at.load(row % count)));
    const auto value = owner.declare_variable(value_type(type, split.width));
    spirv::untyped::store(value, widened(literal(type, 0), split.width));
    owner.if_(index < spirv::u32(split.extent), [&] {  // negative ones are large as u32
      const spirv::u32 source = row / count * split.extent + index;
      spirv::untyped::store(value, from.load(source * split.inner + column, split.width));
    });
    result.store(position, spirv::untyped::load(value));
  });
  return {owner.finish(), grid.groups};
}

MEGANEURA_INLINE kernel_dispatch make_narrow(const shape& data, const shape& result_extents, int axis, dtype type,
                                             const device_profile& on) {
  const detail::axis_split split = detail::split_at(data, axis);
  const auto count = static_cast<std::uint32_t>(result_extents[axis]);
  const std::int64_t items = std::int64_t{split.outer} * count * split.inner;
  const std::uint32_t size = std::min(128u, on.max_invocations);
  const flat_grid grid = make_flat_grid(items, size, on);
  spirv::kernel owner(fmt::format("narrow {}", items * split.width), {size, 1, 1});
  const bound_tensor from(owner, type, "data");
  const bound_tensor at(owner, dtype::i32, "position");
  const bound_tensor result(owner, type, "result", split.width);
  const spirv::u32 position = grid.position(owner) * size + owner.local_id(0);
  owner.if_(position < spirv::u32(items), [&] {
    const spirv::u32 row = position / split.inner, column = position % split.inner;
    const spirv::u32 start = spirv::bitcast<spirv::u32>(spirv::i32(at.load(spirv::u32(0))));
    const spirv::u32 index = start + row % count;  // from -1 on the second row is number 0
    const auto value = owner.declare_variable(value_type(type, split.width));
    spirv::untyped::store(value, widened(literal(type, 0), split.width));
    owner.if_(index < spirv::u32(split.extent), [&] {  // negative ones are large as u32
      const spirv::u32 source = row / count * split.extent + index;
      spirv::untyped::store(value, from.load(source * split.inner + column, split.width));
    });
    result.store(position, spirv::untyped::load(value));
  });
  return {owner.finish(), grid.groups};
}

MEGANEURA_INLINE kernel_dispatch make_update_rows(const shape& x, const shape& rows, int axis, dtype type,
                                                  bool in_place, const device_profile& on) {
  const detail::axis_split split = detail::split_at(x, axis);
  const auto count = static_cast<std::uint32_t>(rows[axis]);
  const std::uint32_t each = in_place ? count : split.extent;  // rows that invocations stand for
  const std::int64_t items = std::int64_t{split.outer} * each * split.inner;
  const std::uint32_t size = std::min(128u, on.max_invocations);
  const flat_grid grid = make_flat_grid(items, size, on);
  const spirv::access own = in_place ? spirv::access::read_write : spirv::access::read;
  spirv::kernel owner(fmt::format("update_rows {} of {}", rows.elements(), x.elements()), {size, 1, 1});
  const bound_tensor old(owner, type, "x", own);
  const bound_tensor from(owner, type, "rows");
  const bound_tensor at(owner, dtype::i32, "position");
  const bound_tensor result(owner, type, "result", split.width,
                            in_place ? spirv::access::read_write : spirv::access::write);
  const spirv::u32 position = grid.position(owner) * size + owner.local_id(0);
  owner.if_(position < spirv::u32(items), [&] {
    const spirv::u32 line = position / split.inner, column = position % split.inner;
    const spirv::u32 outer = line / each, row = line % each;
    const spirv::u32 start = spirv::bitcast<spirv::u32>(spirv::i32(at.load(spirv::u32(0))));
    if (in_place) {
      const spirv::u32 target = start + row;  // from -1 on the second row is number 0
      owner.if_(target < spirv::u32(split.extent), [&] {
        result.store((outer * split.extent + target) * split.inner + column, from.load(position, split.width));
      });
      return;
    }
    const spirv::u32 source = row - start;
    owner.if_(
        source < spirv::u32(count),
        [&] { result.store(position, from.load((outer * count + source) * split.inner + column, split.width)); },
        [&] { result.store(position, old.load(position, split.width)); });
  });
  return {owner.finish(), grid.groups};
}

namespace detail {

[[nodiscard]] inline kernel_dispatch make_scatter(const shape& whole, const shape& indices, int axis, dtype type,
                                                  scatter_base base, const device_profile& on) {
  const axis_split split = split_at(whole, axis);
  const auto count = static_cast<std::uint32_t>(indices.elements());
  const std::int64_t items = std::int64_t{split.outer} * split.extent * split.inner;
  scatter_plan plan = plan_scatter(items, count, on);
  return make_within_loop_limit([&] { return scatter_kernel(split, count, type, plan, base, on).make(); },
                                [&] { return plan.shorten(on); }, on);
}

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_scatter_add(const shape& result, const shape& indices, int axis, dtype type,
                                                  const device_profile& on) {
  return detail::make_scatter(result, indices, axis, type, detail::scatter_base::zeros, on);
}

namespace detail {

// Few updates of a long axis, where the tensor lies: invocations stand for updates instead of rows. The first update of
// a row adds up all of them, the others store nothing.
[[nodiscard]] inline kernel_dispatch make_add_few(const axis_split& split, std::uint32_t count, dtype type,
                                                  const device_profile& on) {
  const std::int64_t items = std::int64_t{split.outer} * count * split.inner;
  const std::uint32_t size = std::min(128u, on.max_invocations);
  const flat_grid grid = make_flat_grid(items, size, on);
  spirv::kernel owner(fmt::format("index_add {} few of {}", items * split.width, split.extent), {size, 1, 1});
  const bound_tensor base(owner, type, "x", spirv::access::read_write);
  const bound_tensor indices(owner, dtype::i32, "indices");
  const bound_tensor updates(owner, type, "updates");
  const bound_tensor result(owner, type, "result", split.width, spirv::access::read_write);
  const spirv::u32 position = grid.position(owner) * size + owner.local_id(0);
  owner.if_(position < spirv::u32(static_cast<std::uint32_t>(items)), [&] {
    const spirv::u32 line = position / split.inner, column = position % split.inner;
    const spirv::u32 outer = line / count, own = line % count;
    const auto row_of = [&](const spirv::u32& update) {
      return spirv::bitcast<spirv::u32>(spirv::i32(indices.load(update)));  // negative ones are large as u32
    };
    const spirv::u32 row = row_of(own);
    owner.if_(row < spirv::u32(split.extent), [&] {
      const scalar_value zero = widened(literal(type, 0), split.width);
      const running_sum total{owner.declare_variable(value_type(type, split.width)), scalar_op::row_sum, zero};
      const auto is_first = owner.variable<spirv::u32>(1);
      spirv::untyped::store(total.place, zero);
      for_summed(owner, spirv::u32(0), count, 1, {}, std::span(&total, 1), [&](const spirv::u32& update) {
        owner.if_(row_of(update) == row, [&] {
          owner.if_(update < own, [&] { is_first = spirv::u32(0); });
          const scalar_value more = updates.load((outer * count + update) * split.inner + column, split.width);
          spirv::untyped::store(total.place, combine(owner, total.how, spirv::untyped::load(total.place), more));
        });
      });
      owner.if_(is_first.load() != 0u, [&] {
        const spirv::u32 place = (outer * split.extent + row) * split.inner + column;
        const scalar_value old = base.load(place, split.width);
        result.store(place, combine(owner, scalar_op::row_sum, old, spirv::untyped::load(total.place)));
      });
    });
  });
  return {owner.finish(), grid.groups};
}

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_index_add(const shape& x, const shape& indices, int axis, dtype type,
                                                bool in_place, const device_profile& on) {
  // Every update looks at all indices, every row only at those of its workgroup's.
  if (in_place && indices.elements() * 64 <= x[axis]) {
    const auto count = static_cast<std::uint32_t>(indices.elements());
    kernel_dispatch few = detail::make_add_few(detail::split_at(x, axis), count, type, on);
    if (within_loop_limit(few.module, on)) return few;
  }
  const auto base = in_place ? detail::scatter_base::in_place : detail::scatter_base::tensor;
  return detail::make_scatter(x, indices, axis, type, base, on);
}

MEGANEURA_INLINE kernel_dispatch make_take_along(const shape& data, const shape& indices, int axis, dtype type,
                                                 const device_profile& on) {
  const detail::axis_split split = detail::split_at(data, axis, 1);
  const auto line = static_cast<std::uint32_t>(indices[axis]) * split.inner;  // of the result, for one outer position
  const std::int64_t items = indices.elements();
  const std::uint32_t size = std::min(128u, on.max_invocations);
  const flat_grid grid = make_flat_grid(items, size, on);
  spirv::kernel owner(fmt::format("take_along {}", items), {size, 1, 1});
  const bound_tensor from(owner, type, "data");
  const bound_tensor at(owner, dtype::i32, "indices");
  const bound_tensor result(owner, type, "result", 1);
  const spirv::u32 position = grid.position(owner) * size + owner.local_id(0);
  owner.if_(position < spirv::u32(static_cast<std::uint32_t>(items)), [&] {
    const spirv::u32 index = spirv::bitcast<spirv::u32>(spirv::i32(at.load(position)));
    const auto value = owner.declare_variable(value_type(type, 1));
    spirv::untyped::store(value, literal(type, 0));
    owner.if_(index < spirv::u32(split.extent), [&] {  // negative ones are large as u32
      const spirv::u32 row = position / line * split.extent + index;
      spirv::untyped::store(value, from.load(row * split.inner + position % split.inner));
    });
    result.store(position, spirv::untyped::load(value));
  });
  return {owner.finish(), grid.groups};
}

namespace detail {

// `slices` (a power of two) invocations share an element of the result.
[[nodiscard]] inline kernel_dispatch make_scatter_along(const axis_split& split, std::uint32_t count, scalar_op how,
                                                        dtype type, std::uint32_t size, std::uint32_t slices,
                                                        const device_profile& on) {
  const std::uint32_t elements = size / slices;
  const std::int64_t items = std::int64_t{split.outer} * split.extent * split.inner;
  const flat_grid grid = make_flat_grid(items, elements, on);
  spirv::kernel owner(fmt::format("scatter_along {} of {}", items, count), {size, 1, 1});
  const bound_tensor at(owner, dtype::i32, "indices");
  const bound_tensor updates(owner, type, "updates");
  const bound_tensor result(owner, type, "result", 1);
  const spirv::u32 thread = owner.local_id(0), slice = thread / elements, last(static_cast<std::uint32_t>(items - 1));
  const spirv::u32 wanted = grid.position(owner) * elements + thread % elements, position = min(wanted, last);
  const spirv::u32 row = position / split.inner % split.extent;
  const spirv::u32 begin = position / split.inner / split.extent * (count * split.inner) + position % split.inner;
  const running_sum total{owner.declare_variable(value_type(type, 1)), how, identity(how, type)};
  spirv::untyped::store(total.place, total.start);
  for_summed(owner, slice, count, slices, {}, std::span(&total, 1), [&](const spirv::u32& each) {
    const spirv::u32 place = begin + each * split.inner;
    owner.if_(spirv::bitcast<spirv::u32>(spirv::i32(at.load(place))) == row, [&] {
      spirv::untyped::store(total.place, combine(owner, how, spirv::untyped::load(total.place), updates.load(place)));
    });
  });
  scalar_value found = spirv::untyped::load(total.place);
  if (slices > 1) {
    const lane_place lanes{slice, slices, thread, elements, thread % elements};
    found = shared_totals(owner, size).combined(how, found, lanes);
  }
  owner.if_(slice == 0u && wanted <= last, [&] { result.store(position, found); });
  return {owner.finish(), grid.groups};
}

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_scatter_along(const shape& result, const shape& indices,
                                                    const scatter_attribute& how, dtype type,
                                                    const device_profile& on) {
  const detail::axis_split split = detail::split_at(result, how.axis, 1);
  const auto count = static_cast<std::uint32_t>(indices[how.axis]);
  const std::uint32_t size = std::min(128u, on.max_invocations);
  const std::int64_t wanted = std::int64_t{size} * on.compute_units;
  std::uint32_t slices = 1;
  while (count >= 1024 && slices < size && result.elements() * slices * 2 <= wanted) slices *= 2;
  return make_within_loop_limit(
      [&] { return detail::make_scatter_along(split, count, info(how.kind).row, type, size, slices, on); },
      [&] { return slices < size && (slices *= 2, true); }, on);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
