// SPDX-License-Identifier: MIT
// Generators of matrix products on matrix units: of f16 operands, or of f32 ones made of scaled f16 terms.
#pragma once
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/matmul.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// As make_matmul, strides and offsets counted in elements of the operands. Any size, any strides and any values of
/// f32 operands: each row is brought into f16's range by a power of two of its own, and where that cannot be (NaN and
/// infinities) the workgroup's results are summed in f32. f16 operands need aligned
/// groups of eight along k or along m (n for b). Staging is in one buffer of workgroup memory with a prefetch into
/// registers: occupancy and few steps of k, not double buffering, decide on the hardware measured. Of windows that
/// share elements each is staged once (shared_windows.hpp, shared_places.hpp); a sum may be in parts that meet in the
/// last workgroup (product_schedule), the right operand a pair, or rows that are prepared (prepare_attribute). errors:
/// invalid_argument for a schedule that does not fit; unsupported beyond the device's limits.
[[nodiscard]] kernel_dispatch make_cooperative_matmul(const matmul_problem& problem, const product_schedule& schedule,
                                                      const device_profile& device);

/// Whether a schedule for matrix units can run this problem on this device.
[[nodiscard]] bool cooperative_fits(const matmul_problem& problem, const product_schedule& schedule,
                                    const device_profile& device);

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/matmul_cooperative.ipp>
#endif
