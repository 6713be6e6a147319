// SPDX-License-Identifier: MIT
// The promise a rewrite rule makes about rounding.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::egraph {

/// How far a rule may change the numbers: not at all, by rounding in the same precision, or by a known approximation.
enum class exactness : std::uint8_t { exact, reassociates, approximate };

}  // namespace meganeura::inline MEGANEURA_ABI::egraph
