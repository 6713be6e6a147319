// SPDX-License-Identifier: MIT
// Totals of invocations that share a result: combined by halves in workgroup memory.
#pragma once
#include <meganeura/kernels/scalar_emit.hpp>

#include <bit>
#include <cstdint>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// One invocation among the `lanes` (a power of two) that share a result, and the elements of workgroup memory they
/// use.
struct lane_place {
  spirv::u32 lane;
  std::uint32_t lanes = 1;
  spirv::u32 own;           // this lane's element
  std::uint32_t pitch = 1;  // from one lane's element to the next one's
  spirv::u32 total;         // the element to return afterwards: lane 0's holds the total
};

/// Combines values of all lanes through an array for each type, which later totals of that type use again. Every
/// invocation of the workgroup arrives.
class shared_totals {
 public:
  /// `elements` of each array: one an invocation.
  shared_totals(spirv::kernel& owner, std::uint32_t elements) : owner_(owner), elements_(elements) {}

  [[nodiscard]] scalar_value combined(scalar_op how, const scalar_value& value, const lane_place& place) {
    const spirv::untyped::memory_object memory = array_of(value.type);
    const auto at = [&](const spirv::u32& element) { return spirv::untyped::locate(memory, element); };
    spirv::untyped::store(at(place.own), value);
    owner_.barrier();
    const auto stages = static_cast<std::uint32_t>(std::countr_zero(place.lanes));
    const auto halve = [&](const spirv::u32& stage) {
      const spirv::u32 half = spirv::u32(place.lanes / 2) >> stage;
      owner_.if_(place.lane < half, [&] {
        const scalar_value other = spirv::untyped::load(at(place.own + half * place.pitch));
        spirv::untyped::store(at(place.own), combine(owner_, how, spirv::untyped::load(at(place.own)), other));
      });
      owner_.barrier();
    };
    owner_.for_(0, stages, 1, halve, spirv::unrolling::keep);  // written out, software devices compile it for long
    const scalar_value total = spirv::untyped::load(at(place.total));
    owner_.barrier();  // the memory is used again
    return total;
  }

 private:
  [[nodiscard]] spirv::untyped::memory_object array_of(spirv::data_type type) {
    for (const auto& known : arrays_) {
      if (known.type == type) return known;
    }
    return arrays_.emplace_back(owner_.declare_array(type, spirv::storage_class::workgroup, elements_));
  }

  spirv::kernel& owner_;
  std::uint32_t elements_;
  std::vector<spirv::untyped::memory_object> arrays_;
};

/// Adds up what `slices` (a power of two) parts of a workgroup hold in variables, and needs memory for half of them.
/// Slice s + half calls `give(half)` to leave its values to slice s, which then calls `take()`; afterwards slice 0
/// holds the sums. `in_use`: others may still read the memory. Every invocation of the workgroup arrives.
template <class Give, class Take>
void add_by_halves(spirv::kernel& owner, const spirv::u32& slice, std::uint32_t slices, bool in_use, const Give& give,
                   const Take& take) {
  for (std::uint32_t half = slices / 2; half > 0; half /= 2) {
    if (in_use || half != slices / 2) owner.barrier();
    owner.if_(slice >= half && slice < 2 * half, [&] { give(half); });
    owner.barrier();
    owner.if_(slice < half, take);
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
