// SPDX-License-Identifier: MIT
// The adjoint of a view: sums over broadcasts, then puts every element back where it was read.
#pragma once
#include <meganeura/graph/graph.hpp>

namespace meganeura::inline MEGANEURA_ABI::detail {

/// The tensor of shape `source` in which each element is the sum of the elements of `gradient` that `map` read from
/// there. errors: invalid_argument when the map reads elements twice other than by a broadcast (stride 0).
[[nodiscard]] node_id view_adjoint(graph& g, node_id gradient, const view_attribute& map, const shape& source);

}  // namespace meganeura::inline MEGANEURA_ABI::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/autodiff/view_adjoint.ipp>
#endif
