// SPDX-License-Identifier: MIT
// Definitions for graph/attribute_pool.hpp.
#pragma once
#include <meganeura/graph/attribute_pool.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE attribute_pool::attribute_pool(const attribute_pool&) = default;
MEGANEURA_INLINE attribute_pool::attribute_pool(attribute_pool&&) noexcept = default;
MEGANEURA_INLINE attribute_pool& attribute_pool::operator=(const attribute_pool&) = default;
MEGANEURA_INLINE attribute_pool& attribute_pool::operator=(attribute_pool&&) noexcept = default;
MEGANEURA_INLINE attribute_pool::~attribute_pool() = default;
MEGANEURA_INLINE attribute_pool::attribute_pool() { intern(no_attribute{}); }

MEGANEURA_INLINE attribute_id attribute_pool::intern(attribute_ref value) {
  const std::less<const void*> before;
  if (!values_.empty() && !before(value.address(), &values_.front()) && !before(&values_.back() + 1, value.address())) {
    const auto at = static_cast<std::size_t>(static_cast<const std::byte*>(value.address()) -
                                             reinterpret_cast<const std::byte*>(values_.data())) /
                    sizeof(attribute);
    if (at < values_.size() && value.refers_to(values_[at])) return static_cast<attribute_id>(at);
  }
  const std::uint64_t key = value.hash();
  const attribute_id known = ids_.find(key, [&](attribute_id id) { return value.equals(values_[id]); });
  if (known != no_id) return known;
  const auto id = static_cast<attribute_id>(values_.size());
  values_.push_back(value.copy());
  ids_.insert(key, id);
  return id;
}

}  // namespace meganeura::inline MEGANEURA_ABI
