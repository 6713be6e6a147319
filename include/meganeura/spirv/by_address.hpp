// SPDX-License-Identifier: MIT
// Storage buffers of a finished module that are reached by their address, for tensors no descriptor covers.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/spirv/module.hpp>

#include <cstdint>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::spirv {

/// Elements of such a buffer that a kernel tells apart: an access chain takes its index for a signed number.
inline constexpr std::int64_t max_elements_by_address = std::int64_t{1} << 31;

/// The same kernel with the storage buffers among `which`, one answer for each of its bindings, as
/// binding_kind::address (SPV_KHR_physical_storage_buffer). Done to the words, so that generators declare all of
/// their bindings in one way, and kernels compiled from shaders/ have it too. What a buffer's variable said of aliases
/// goes: pointers may alias. errors: internal for a buffer that is used outside of "main".
[[nodiscard]] module reach_by_address(module kernel, const std::vector<bool>& which);

}  // namespace meganeura::inline MEGANEURA_ABI::spirv

#if MEGANEURA_HEADER_ONLY
#include <meganeura/spirv/by_address.ipp>
#endif
