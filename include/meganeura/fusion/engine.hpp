// SPDX-License-Identifier: MIT
// The e-graph's names, as everything here is written with them.
#pragma once
#include <meganeura/egraph/continuity.hpp>
#include <meganeura/egraph/egraph.hpp>
#include <meganeura/egraph/exactness.hpp>
#include <meganeura/egraph/extract.hpp>

namespace meganeura::inline MEGANEURA_ABI::fusion {

using egraph::class_id;
using egraph::class_list;
using egraph::eclass;
using egraph::engine;
using egraph::enode;
using egraph::enode_id;
using egraph::exactness;
using egraph::extraction;
using egraph::node_list;
using egraph::rule_mask;

using egraph::asks_far_below;
using egraph::deciding_arguments;
using egraph::stability;
using egraph::trace_unstable;

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
