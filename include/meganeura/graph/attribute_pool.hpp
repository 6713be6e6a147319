// SPDX-License-Identifier: MIT
// Attributes of a graph's nodes, each kept once.
#pragma once
#include <meganeura/core/hash_index.hpp>
#include <meganeura/core/id.hpp>
#include <meganeura/graph/attribute.hpp>

#include <cstddef>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

using attribute_id = strong_id<struct attribute_kind>;

/// Equal attributes get equal ids; ids are dense and in order of first use.
class attribute_pool {
 public:
  attribute_pool();
  // In the body, so that nobody else compiles what copies and destroys a variant of all attributes.
  attribute_pool(const attribute_pool&);
  attribute_pool(attribute_pool&&) noexcept;
  attribute_pool& operator=(const attribute_pool&);
  attribute_pool& operator=(attribute_pool&&) noexcept;
  ~attribute_pool();

  /// What refers into the pool is there already.
  attribute_id intern(attribute_ref value);
  [[nodiscard]] const attribute& operator[](attribute_id id) const { return values_[id]; }
  [[nodiscard]] std::size_t size() const { return values_.size(); }

 private:
  std::vector<attribute> values_;
  hash_index<attribute_id> ids_;
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/graph/attribute_pool.ipp>
#endif
