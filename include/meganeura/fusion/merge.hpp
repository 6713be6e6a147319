// SPDX-License-Identifier: MIT
// Regions side by side: values that are computed from the same operands, as results of one kernel.
#pragma once
#include <meganeura/fusion/engine.hpp>
#include <meganeura/fusion/region.hpp>

#include <functional>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// For chosen regions that read the same and may run at the same time, adds a class for the region that has all of
/// their values as results, and to the class of each value the node that names it there; what the choice refuses is not
/// built upon. A value that its only readers take from inside of such a region is then left out of its results. What
/// such a region reads is computed in earlier steps than any of its values is chosen to be, so that no choice is a
/// circle. Not of classes that `is_free`, whose kernels take no time.
void merge_regions(engine& g, const extraction& chosen, const region_limits& limits,
                   const egraph::choice_so_far& choice, const std::function<bool(class_id)>& is_free);

}  // namespace meganeura::inline MEGANEURA_ABI::fusion

#if MEGANEURA_HEADER_ONLY
#include <meganeura/fusion/merge.ipp>
#endif
