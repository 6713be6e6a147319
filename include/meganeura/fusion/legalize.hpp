// SPDX-License-Identifier: MIT
// Nodes that read more tensors, or have more loops, than a kernel can, written as nodes that do not.
#pragma once
#include <meganeura/fusion/engine.hpp>

#include <optional>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// A concat along `axis` of nodes that read at most `most` tensors each.
[[nodiscard]] class_id add_concat(engine& e, dtype type, int axis, std::span<const class_id> pieces, std::size_t most);

/// A map whose parts read at most `most` (at least 3) tensors each: values in between are stored.
[[nodiscard]] class_id add_map(engine& e, dtype type, const shape& extents, const map_attribute& map,
                               std::span<const class_id> operands, std::size_t most);

/// A contract. One of more loops than a nest has axes, after those that merge are merged, becomes a product of operands
/// that are stored first with batch, m, n and k in one axis each.
[[nodiscard]] class_id add_contract(engine& e, dtype type, const shape& extents, const contract_attribute& labels,
                                    class_id a, class_id b);

}  // namespace meganeura::inline MEGANEURA_ABI::fusion

#if MEGANEURA_HEADER_ONLY
#include <meganeura/fusion/legalize.ipp>
#endif
