// SPDX-License-Identifier: MIT
// The affine maps of views: the one of a dense tensor, and one after another.
#pragma once
#include <meganeura/core/shape.hpp>
#include <meganeura/graph/attribute.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// The dense row-major strides of a shape, with stride 0 for extent 1 (the canonical form of views and accesses).
[[nodiscard]] view_attribute dense_view(const shape& extents);

/// The map of `outer` after `inner`, when it is affine again: reading outer(inner(x)) directly from x. `middle` is the
/// shape between them. Returns false when the composition is not affine.
[[nodiscard]] bool compose(const view_attribute& outer, const shape& outer_extents, const view_attribute& inner,
                           const shape& middle, view_attribute& result);

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/graph/view_map.ipp>
#endif
