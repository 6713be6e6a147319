// SPDX-License-Identifier: MIT
// Rows of a table by the hash of what they hold: open addressing, one block of memory.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/id.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// The table itself is elsewhere and says what is equal. Nothing is taken out: a row that changed stays under its old
/// hash, where `same` refuses it.
template <class Id>
class hash_index {
 public:
  /// The first row put in under this hash that `same(id)` is true of; no_id if there is none.
  template <class Same>
  [[nodiscard]] Id find(std::uint64_t hash, const Same& same) const {
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    if (slots_.empty()) return no_id;
    for (std::size_t at = first(tag); slots_[at].id != Id(no_id); at = next(at)) {
      if (slots_[at].tag == tag && same(slots_[at].id)) return slots_[at].id;
    }
    return no_id;
  }
  void insert(std::uint64_t hash, Id id) {
    if (2 * ++used_ > slots_.size()) grow();
    place({id, static_cast<std::uint32_t>(hash >> 32)});
  }

 private:
  struct slot {
    Id id = no_id;
    std::uint32_t tag = 0;
  };
  [[nodiscard]] std::size_t first(std::uint32_t tag) const { return tag & (slots_.size() - 1); }
  [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & (slots_.size() - 1); }
  void place(const slot& added) {
    std::size_t at = first(added.tag);
    while (slots_[at].id != Id(no_id)) at = next(at);
    slots_[at] = added;
  }
  void grow() {
    std::vector<slot> before(slots_.empty() ? 16 : 2 * slots_.size());
    slots_.swap(before);
    std::size_t empty = 0;  // rows of one hash stand in a run between empty slots and keep their order
    while (empty < before.size() && before[empty].id != Id(no_id)) ++empty;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const slot& each = before[(empty + i) & (before.size() - 1)];
      if (each.id != Id(no_id)) place(each);
    }
  }

  std::vector<slot> slots_;  // as many as a power of two, half of them empty
  std::size_t used_ = 0;
};

}  // namespace meganeura::inline MEGANEURA_ABI
