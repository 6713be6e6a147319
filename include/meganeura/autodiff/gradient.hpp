// SPDX-License-Identifier: MIT
// Reverse-mode differentiation: appends the gradients of some nodes to the graph that holds them.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/graph/graph.hpp>

#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// d loss / d wrt[i] for each i, in the dtype and shape of wrt[i], as nodes of the same graph: forward and backward are
/// one graph afterwards. Only what lies on a path from a wrt to the loss is built; a wrt the loss does not depend on
/// gets zeros (a rank-0 constant, expanded).
///
/// Where a derivative is not unique: maximum and minimum share the gradient evenly among ties (as PyTorch's), reduce
/// max and min give it to the first extremum along the row (PyTorch's max with a dim; by index, never by comparing
/// values), against a constant bound (relu) it is 0 at the bound and of clamp 1, max windows give it to the first
/// maximum. A NaN passes the gradient on (PyTorch's relu and maximum): both operands of a maximum that is NaN get all
/// of it, a bound does not stop it, and a max window gives it to its first NaN. abs at 0 and the steps (sign, floor,
/// ceil, round) give 0. Integer indices, comparisons, casts to integers, random and stop_gradient pass nothing on.
///
/// What is added for a node has its path with "backward" behind it.
///
/// Second order: call it again on the result. Closed for every primitive except max pooling, which is refused with a
/// sentence; reduce product is exact to second order away from zeros. A backward that a custom_gradient was given is
/// differentiated as it is written.
///
/// errors, which name the node's module: invalid_argument when the loss has more than one element, a wrt or the loss is
/// no node of the graph or not a float, or a view that must be differentiated reads overlapping windows; unsupported
/// for nodes that have no rule.
[[nodiscard]] std::vector<node_id> gradients(graph& g, node_id loss, std::span<const node_id> wrt);

/// The same, with no_id for a wrt that no gradient reaches: what training leaves alone.
[[nodiscard]] std::vector<node_id> reached_gradients(graph& g, node_id loss, std::span<const node_id> wrt);

/// What stands between a loss and parameters that no gradient reaches: the first node back from the loss that passes
/// none to an operand which depends on one of `wrt`, and of integers what makes them of floats; no_id if there is none.
/// errors: invalid_argument for what is no node of the graph.
[[nodiscard]] node_id gradient_stop(const graph& g, node_id loss, std::span<const node_id> wrt);

/// The same for several outputs of any shape, each weighted by a seed of its dtype and shape: the product of the seeds
/// with the Jacobian.
[[nodiscard]] std::vector<node_id> gradients(graph& g, std::span<const node_id> outputs, std::span<const node_id> seeds,
                                             std::span<const node_id> wrt);

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/autodiff/gradient.ipp>
#endif
