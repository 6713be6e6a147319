// SPDX-License-Identifier: MIT
// The promise a rewrite rule makes about numbers.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::egraph {

/// How far a rule may change the numbers. `exact`: not at all, but by the order in which long sums are added up.
/// `reassociates`, what programs allow by default: by rounding in the same precision, and where an intermediate value
/// overflowed or vanished, the result may be what it would be without that: log(exp(100)) is 100 and not infinity,
/// exp(100) / exp(99) is e and not NaN; and which sign a zero has stays open, as that of x + 0. `approximate`: by a
/// known approximation.
enum class exactness : std::uint8_t { exact, reassociates, approximate };

}  // namespace meganeura::inline MEGANEURA_ABI::egraph
