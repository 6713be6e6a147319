// SPDX-License-Identifier: MIT
// Definitions for kernels/cumulative.hpp.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/kernels/cumulative.hpp>
#include <meganeura/kernels/order_key.hpp>
#include <meganeura/kernels/row_mapping.hpp>
#include <meganeura/kernels/tensor_access.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

/// `lanes` (a power of two) invocations share a row, and `rows` rows a workgroup.
struct cumulative_plan {
  static constexpr std::uint32_t items = 4;  // of a row, that an invocation takes in a turn
  std::uint32_t lanes = 1, rows = 1;
  [[nodiscard]] std::uint32_t turn() const { return lanes * items; }
  /// Twice the lanes; false when the workgroup is full.
  [[nodiscard]] bool share_wider(const device_profile& on) {
    if (2 * lanes > most_threads(on)) return false;
    lanes *= 2;
    rows = std::max(1u, rows / 2);
    return true;
  }
};

class cumulative_kernel {
 public:
  cumulative_kernel(const shape& extents, dtype type, const cumulative_attribute& how, const cumulative_plan& plan,
                    const device_profile& on)
      : how_(how),
        plan_(plan),
        type_(type),
        length_(static_cast<std::uint32_t>(extents[how.axis])),
        inner_(static_cast<std::uint32_t>(extents.stride(how.axis))),
        rows_(static_cast<std::uint32_t>(extents.elements() / length_)),
        grid_(make_flat_grid(rows_, plan.rows, on)),
        owner_(fmt::format("cumulative {} along {}", rows_, length_), {plan.lanes * plan.rows, 1, 1}),
        x_(owner_, type, "x"),
        result_(owner_, is_arg(how.kind) ? dtype::i32 : type, "result", 1) {}

  [[nodiscard]] kernel_dispatch make() {
    const spirv::u32 thread = owner_.local_id(0);
    const bool across = inner_ > 1;  // neighbours hold neighbouring rows
    lane_ = across ? thread / plan_.rows : thread % plan_.lanes;
    pitch_ = across ? plan_.rows : 1;
    const spirv::u32 wanted =
        grid_.position(owner_) * plan_.rows + (across ? thread % plan_.rows : thread / plan_.lanes);
    exists_ = wanted < spirv::u32(rows_);
    const spirv::u32 row = min(wanted, spirv::u32(rows_ - 1));
    begin_ = row / inner_ * (inner_ * length_) + row % inner_;
    start_ = start();
    if (plan_.lanes > 1) {
      for (const scalar_value& part : start_) {
        shared_.push_back(owner_.declare_array(part.type, spirv::storage_class::workgroup, plan_.lanes * plan_.rows));
      }
    }
    if (length_ > plan_.turn()) {
      for (const scalar_value& part : start_) carried_.push_back(variable(part));
      if (rounds()) carried_.push_back(variable(start_[0]));  // what the first one lost
    }
    owner_.for_(spirv::u32(0), spirv::u32(length_), spirv::u32(plan_.turn()),
                [&](const spirv::u32& first) { turn(first); });
    return {owner_.finish(), grid_.groups};
  }

 private:
  // A total so far: a number, or of extrema the key of a number and its place.
  using total = std::vector<scalar_value>;

  [[nodiscard]] bool rounds() const { return how_.kind == reduce_kind::sum && is_float(type_); }
  [[nodiscard]] total start() const {
    if (is_arg(how_.kind)) return {spirv::u32(0), spirv::u32(0)};
    return {identity(info(how_.kind).row, type_)};
  }
  [[nodiscard]] spirv::untyped::place_reference variable(const scalar_value& from) {
    const auto place = owner_.declare_variable(from.type);
    spirv::untyped::store(place, from);
    return place;
  }

  [[nodiscard]] total combined(const total& before, const total& behind) {
    if (!is_arg(how_.kind)) return {combine(owner_, info(how_.kind).row, before[0], behind[0])};
    return chosen(spirv::u32(behind[0]) >= spirv::u32(before[0]), behind, before);
  }
  [[nodiscard]] static total chosen(const spirv::boolean& condition, const total& yes, const total& no) {
    total result;
    for (std::size_t i = 0; i < yes.size(); ++i) result.push_back(spirv::untyped::select(condition, yes[i], no[i]));
    return result;
  }

  [[nodiscard]] total element(const spirv::u32& at, const spirv::u32& place) const {
    const scalar_value number = x_.load(at);
    if (!is_arg(how_.kind)) return {number};
    return {how_.kind == reduce_kind::arg_max ? order_key(number) : opposite_key(number), place};
  }

  void turn(const spirv::u32& first) {
    const spirv::u32 last(length_ - 1);
    std::vector<total> local;
    std::vector<spirv::u32> places;
    std::vector<spirv::boolean> inside;
    for (std::uint32_t i = 0; i < plan_.items; ++i) {
      const spirv::u32 wanted = first + lane_ * plan_.items + i, along = min(wanted, last);
      const spirv::u32 place = how_.reverse ? last - along : along;
      inside.push_back(wanted <= last);
      places.push_back(begin_ + place * inner_);
      const total own = chosen(inside[i], element(places[i], place), start_);
      local.push_back(i == 0 ? own : combined(local[i - 1], own));
    }
    const auto [before, all] = shared(local.back());
    for (std::uint32_t i = 0; i < plan_.items; ++i) {
      const total found = behind_carried(combined(before, local[i]));
      owner_.if_(exists_ && inside[i], [&] { store(places[i], found); });
    }
    carry(all);
  }

  void store(const spirv::u32& at, const total& found) {
    result_.store(at, is_arg(how_.kind) ? spirv::bitcast<spirv::i32>(spirv::u32(found[1])) : found[0]);
  }

  struct shares {
    total before, all;  // of the lanes before this one, and of all
  };
  [[nodiscard]] shares shared(const total& own) {
    if (plan_.lanes == 1) return {start_, own};
    const spirv::u32 thread = owner_.local_id(0);
    std::vector<spirv::untyped::place_reference> so_far;
    for (const scalar_value& part : own) so_far.push_back(variable(part));
    put(own);
    const auto stages = static_cast<std::uint32_t>(std::countr_zero(plan_.lanes));
    const auto join = [&](const spirv::u32& stage) {
      const spirv::u32 distance = spirv::u32(1) << stage;
      const spirv::boolean has = lane_ >= distance;
      const total other = at(select(has, thread - distance * pitch_, thread)), mine = loaded(so_far);
      const total joined = chosen(has, combined(other, mine), mine);
      for (std::size_t i = 0; i < joined.size(); ++i) spirv::untyped::store(so_far[i], joined[i]);
      owner_.barrier();  // all have read
      put(joined);
    };
    owner_.for_(0, stages, 1, join, spirv::unrolling::keep);  // written out, software devices compile it for long
    const spirv::boolean first = lane_ == spirv::u32(0);
    const total before = chosen(first, start_, at(select(first, thread, thread - pitch_)));
    const total all = at(thread + (spirv::u32(plan_.lanes - 1) - lane_) * pitch_);
    owner_.barrier();  // the memory is used again
    return {before, all};
  }
  void put(const total& own) {
    for (std::size_t i = 0; i < own.size(); ++i) {
      spirv::untyped::store(spirv::untyped::locate(shared_[i], owner_.local_id(0)), own[i]);
    }
    owner_.barrier();
  }
  [[nodiscard]] total at(const spirv::u32& place) const {
    total found;
    for (const auto& each : shared_) found.push_back(spirv::untyped::load(spirv::untyped::locate(each, place)));
    return found;
  }

  [[nodiscard]] static total loaded(const std::vector<spirv::untyped::place_reference>& from) {
    total found;
    for (const auto& each : from) found.push_back(spirv::untyped::load(each));
    return found;
  }
  [[nodiscard]] total behind_carried(const total& found) {
    if (carried_.empty()) return found;
    const total before = loaded(carried_);
    if (!rounds()) return combined(before, found);
    return combined({before[0]}, combined({before[1]}, found));
  }
  void carry(const total& all) {
    if (carried_.empty()) return;
    const total before = loaded(carried_);
    if (rounds()) return carry_exactly(spirv::f32(before[0]), spirv::f32(before[1]), spirv::f32(all[0]));
    const total now = combined(before, all);
    for (std::size_t i = 0; i < now.size(); ++i) spirv::untyped::store(carried_[i], now[i]);
  }
  // The error of a sum is a number of its type (Knuth, TAOCP 2, 4.2.2); of an infinity there is none.
  void carry_exactly(const spirv::f32& before, const spirv::f32& lost, const spirv::f32& all) {
    owner_.precise([&] {
      const spirv::f32 sum = before + all, added = sum - before;
      const spirv::f32 error = (before - (sum - added)) + (all - added);
      spirv::untyped::store(carried_[0], sum);
      spirv::untyped::store(carried_[1], lost + select(is_nan(error), spirv::f32(0), error));
    });
  }

  cumulative_attribute how_;
  cumulative_plan plan_;
  dtype type_;
  std::uint32_t length_, inner_, rows_;
  flat_grid grid_;
  spirv::kernel owner_;
  bound_tensor x_, result_;
  spirv::u32 lane_, begin_;
  std::uint32_t pitch_ = 1;
  spirv::boolean exists_;
  total start_;
  std::vector<spirv::untyped::memory_object> shared_;
  std::vector<spirv::untyped::place_reference> carried_;
};

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_cumulative(const shape& extents, dtype type, const cumulative_attribute& how,
                                                 const device_profile& on) {
  if (extents.elements() > max_count) {
    fail(error_category::unsupported, "cumulative of {}: kernels count {} elements; take parts of it",
         to_string(extents), max_count);
  }
  const std::uint32_t most = std::min(256u, detail::most_threads(on));
  detail::cumulative_plan plan;
  plan.lanes = std::min(most, detail::ceil_power(ceil_div(extents[how.axis], std::int64_t{plan.items})));
  plan.rows = std::min(most / plan.lanes, detail::ceil_power(extents.elements() / extents[how.axis]));
  return make_within_loop_limit([&] { return detail::cumulative_kernel(extents, type, how, plan, on).make(); },
                                [&] { return plan.share_wider(on); }, on);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
