// SPDX-License-Identifier: MIT
// Names of the types that headers pass by reference, for code that only mentions them.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

enum class dtype : std::uint8_t;
struct shape;
struct dim;
struct symbolic_shape;
struct binding;

template <auto Graph>
struct expr;
template <class Module, class... Inputs>
struct model;

class error;
class graph;

}  // namespace meganeura::inline MEGANEURA_ABI
