// SPDX-License-Identifier: MIT
// Internal: the taps that program_options asks for.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/name_pattern.hpp>
#include <meganeura/expr/node.hpp>
#include <meganeura/graph/graph.hpp>

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::detail {

// With the taps that are asked for as outputs. errors: invalid_argument for a pattern that neither has a tap here nor,
// where that is known, `elsewhere`, and for a tap that is asked for and named like an output.
[[nodiscard]] graph with_taps(graph g, const name_patterns& asked,
                              const std::function<std::vector<graph_output>()>& elsewhere = {});

// What types know before a graph is made: the taps of both modes. errors: invalid_argument for a pattern without any.
void check_taps(const name_patterns& asked, std::span<const scoped_body> bodies);

}  // namespace meganeura::inline MEGANEURA_ABI::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/taps.ipp>
#endif
