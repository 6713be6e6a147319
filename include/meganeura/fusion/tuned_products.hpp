// SPDX-License-Identifier: MIT
// Schedules of products that were measured on a device, for those that the model of costs would choose.
#pragma once
#include <meganeura/core/precision.hpp>
#include <meganeura/fusion/product_tiles.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// A schedule for each size and precision that is known. Which products a plan has stays what the model of costs makes
/// it; a schedule that the device does not offer is ignored. So results differ in rounding at most.
class tuned_products {
 public:
  void set(const product_extents& of, precision wanted, const product_schedule& schedule) {
    schedules_[key_of(of, wanted)] = schedule;
  }
  /// Null where none is known.
  [[nodiscard]] const product_schedule* find(const product_extents& of, precision wanted) const {
    const auto at = schedules_.find(key_of(of, wanted));
    return at == schedules_.end() ? nullptr : &at->second;
  }
  [[nodiscard]] std::size_t size() const { return schedules_.size(); }
  /// f(extents, precision, schedule) of each, in a fixed order.
  template <class Function>
  void each(const Function& f) const {
    for (const auto& [key, schedule] : schedules_)
      f(product_extents{key[1], key[2], key[3], key[4]}, static_cast<precision>(key[0]), schedule);
  }

 private:
  using sized = std::array<std::int64_t, 5>;
  [[nodiscard]] static sized key_of(const product_extents& of, precision wanted) {
    return {static_cast<std::int64_t>(wanted), of.batch, of.m, of.n, of.k};
  }
  std::map<sized, product_schedule> schedules_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
