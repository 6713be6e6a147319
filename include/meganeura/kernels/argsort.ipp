// SPDX-License-Identifier: MIT
// Definitions for kernels/argsort.hpp.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/kernels/argsort.hpp>
#include <meganeura/kernels/order_key.hpp>
#include <meganeura/kernels/row_mapping.hpp>
#include <meganeura/kernels/tensor_access.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

/// `lanes` (a power of two) invocations share a row, and `rows` rows a workgroup.
struct argsort_plan {
  std::uint32_t lanes = 1, rows = 1;
  bool in_shared = true;
  /// Twice the lanes; false when the workgroup is full.
  [[nodiscard]] bool share_wider(const device_profile& on) {
    if (2 * lanes > most_threads(on)) return false;
    lanes *= 2;
    rows = std::max(1u, rows / 2);
    return true;
  }
};

class argsort_kernel {
 public:
  argsort_kernel(const shape& extents, dtype type, const argsort_attribute& how, const argsort_plan& plan,
                 const device_profile& on)
      : descending_(how.descending),
        plan_(plan),
        length_(static_cast<std::uint32_t>(extents[how.axis])),
        padded_(ceil_power(length_)),
        inner_(static_cast<std::uint32_t>(extents.stride(how.axis))),
        rows_(static_cast<std::uint32_t>(extents.elements() / length_)),
        grid_(make_flat_grid(rows_, plan.rows, on)),
        owner_(fmt::format("argsort {} of {}", rows_, length_), {plan.lanes * plan.rows, 1, 1}),
        x_(owner_, type, "x"),
        result_(owner_, dtype::i32, "result", 1, plan.in_shared ? spirv::access::write : spirv::access::exchange) {}

  [[nodiscard]] kernel_dispatch make() {
    const spirv::u32 thread = owner_.local_id(0), in_group = thread / plan_.lanes;
    const spirv::u32 wanted = grid_.position(owner_) * plan_.rows + in_group;
    const spirv::u32 row = min(wanted, spirv::u32(rows_ - 1));
    lane_ = thread % plan_.lanes;
    exists_ = wanted < spirv::u32(rows_);
    begin_ = row / inner_ * (inner_ * length_) + row % inner_;
    if (plan_.in_shared) {
      keys_.emplace(owner_.shared<spirv::u32>(padded_ * plan_.rows));
      places_.emplace(owner_.shared<spirv::u32>(padded_ * plan_.rows));
      first_ = in_group * padded_;
    }
    each(length_, [&](const spirv::u32& i) { put(i, {plan_.in_shared ? key_of(i) : spirv::u32(0), i}); });
    owner_.barrier(!plan_.in_shared);
    sort();
    if (plan_.in_shared) {
      each(length_, [&](const spirv::u32& i) { owner_.if_(exists_, [&] { store(i, places_->load(first_ + i)); }); });
    }
    return {owner_.finish(), grid_.groups};
  }

 private:
  struct entry {
    spirv::u32 key, place;
  };

  // Numbers below `count` that are this lane's.
  template <class Body>
  void each(std::uint32_t count, const Body& body) {
    owner_.for_(lane_, spirv::u32(count), spirv::u32(plan_.lanes), body, spirv::unrolling::automatic,
                ceil_div(count, plan_.lanes));
  }

  [[nodiscard]] spirv::u32 key_of(const spirv::u32& place) const {
    const spirv::u32 key = order_key(x_.load(begin_ + place * inner_));
    return descending_ ? ~key : key;
  }
  [[nodiscard]] entry at(const spirv::u32& i) const {
    if (plan_.in_shared) return {keys_->load(first_ + i), places_->load(first_ + i)};
    const spirv::u32 place = spirv::bitcast<spirv::u32>(spirv::i32(result_.load(begin_ + i * inner_)));
    return {key_of(place), place};
  }
  void put(const spirv::u32& i, const entry& what) {
    if (plan_.in_shared) {
      keys_->store(first_ + i, what.key);
      places_->store(first_ + i, what.place);
    } else {
      owner_.if_(exists_, [&] { store(i, what.place); });
    }
  }
  void store(const spirv::u32& i, const spirv::u32& place) const {
    result_.store(begin_ + i * inner_, spirv::bitcast<spirv::i32>(place));
  }

  // Sorted blocks are merged two by two: mirrored first, so that every pair puts its smaller element in front and what
  // would stand behind the end, larger than all, stays there.
  void sort() {
    const auto doublings = static_cast<std::uint32_t>(std::bit_width(padded_) - 1);
    const auto level = owner_.variable<spirv::u32>(0), shift = owner_.variable<spirv::u32>(0);
    owner_.for_(spirv::u32(doublings * (doublings + 1) / 2), [&](const spirv::u32&) {
      const spirv::u32 height = level, distance = shift;
      each(std::max(padded_ / 2, 1u), [&](const spirv::u32& pair) {
        const spirv::u32 apart = spirv::u32(1) << distance, within = pair & (apart - 1);
        const spirv::u32 block = (pair >> distance) << (distance + 1);
        const spirv::u32 mirrored = block + (apart + apart - 1) - within, straight = block + within + apart;
        exchange(block + within, select(distance == height, mirrored, straight));
      });
      owner_.barrier(!plan_.in_shared);
      const spirv::boolean done = distance == spirv::u32(0);
      level = height + select(done, spirv::u32(1), spirv::u32(0));
      shift = select(done, height + 1, distance - 1);
    });
  }

  void exchange(const spirv::u32& low, const spirv::u32& high) {
    owner_.if_(high < spirv::u32(length_), [&] {
      const entry front = at(low), back = at(high);
      const spirv::boolean before = back.key < front.key || (back.key == front.key && back.place < front.place);
      owner_.if_(before, [&] {
        put(low, back);
        put(high, front);
      });
    });
  }

  bool descending_;
  argsort_plan plan_;
  std::uint32_t length_, padded_, inner_, rows_;
  flat_grid grid_;
  spirv::kernel owner_;
  bound_tensor x_, result_;
  spirv::u32 lane_, begin_, first_;
  spirv::boolean exists_;
  std::optional<spirv::memory<spirv::u32>> keys_, places_;
};

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_argsort(const shape& extents, dtype type, const argsort_attribute& how,
                                              const device_profile& on) {
  if (extents.elements() > max_count) {
    fail(error_category::unsupported, "argsort of {}: kernels count {} elements; take parts of it", to_string(extents),
         max_count);
  }
  const std::uint32_t padded = detail::ceil_power(extents[how.axis]), fitting = on.max_shared_bytes / 8;
  detail::argsort_plan plan;
  plan.in_shared = padded <= fitting;
  const std::uint32_t most = std::min(plan.in_shared ? 256u : 1024u, detail::most_threads(on));
  plan.lanes = std::min(most, std::max(padded / 2, 1u));
  if (plan.in_shared) {
    plan.rows = std::min({most / plan.lanes, std::bit_floor(fitting / padded),
                          detail::ceil_power(extents.elements() / extents[how.axis])});
  }
  return make_within_loop_limit([&] { return detail::argsort_kernel(extents, type, how, plan, on).make(); },
                                [&] { return plan.share_wider(on); }, on);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
