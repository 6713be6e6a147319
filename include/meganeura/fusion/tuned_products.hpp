// SPDX-License-Identifier: MIT
// Schedules of products that were measured on a device, for those that the model of costs would choose.
#pragma once
#include <meganeura/core/precision.hpp>
#include <meganeura/fusion/product_tiles.hpp>

#include <cstddef>
#include <map>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// A schedule for each size and precision that is known. Which products a plan has stays what the model of costs makes
/// it; a schedule that the device does not offer is ignored. So results differ in rounding at most.
class tuned_products {
 public:
  void set(const product_extents& of, precision wanted, const product_schedule& schedule) {
    schedules_[{wanted, of}] = schedule;
  }
  /// Null where none is known.
  [[nodiscard]] const product_schedule* find(const product_extents& of, precision wanted) const {
    const auto at = schedules_.find({wanted, of});
    return at == schedules_.end() ? nullptr : &at->second;
  }
  [[nodiscard]] std::size_t size() const { return schedules_.size(); }
  /// f(extents, precision, schedule) of each, in a fixed order.
  template <class Function>
  void each(const Function& f) const {
    for (const auto& [of, schedule] : schedules_) f(of.second, of.first, schedule);
  }

 private:
  std::map<std::pair<precision, product_extents>, product_schedule> schedules_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
