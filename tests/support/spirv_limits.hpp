// SPDX-License-Identifier: MIT
// What a module asks of a device, read from its words alone: what the generators say of themselves is not believed.
#pragma once
#include <meganeura/spirv/module.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

struct spirv_demands {
  std::set<std::uint32_t> capabilities;
  std::vector<std::uint32_t> local_size;
  std::uint64_t shared_bytes = 0;
  std::set<std::uint32_t> storage_bindings, uniform_bindings, texel_bindings;
  std::set<std::uint32_t> unwritten_bindings, alone_bindings;  // NonWritable; not Aliased: no other binding's memory
};

/// Instruction numbers are those of the SPIR-V specification, section 3.
inline spirv_demands demands_of(const spirv::module& kernel) {
  spirv_demands found;
  std::map<std::uint32_t, std::uint64_t> bytes, constants;  // sizes of types, values of constants
  std::map<std::uint32_t, std::uint32_t> pointee, binding, specialised;
  std::map<std::uint32_t, std::set<std::uint32_t>> decorations;
  std::map<std::uint32_t, std::vector<std::uint32_t>> composites;
  std::uint32_t size_constant = 0;
  const std::vector<std::uint32_t>& w = kernel.words;
  for (std::size_t i = 5; i < w.size(); i += w[i] >> 16) {
    const std::uint32_t code = w[i] & 0xffff, count = w[i] >> 16;
    if (code == 17) found.capabilities.insert(w[i + 1]);
    if (code == 16 && w[i + 2] == 17) found.local_size = {w[i + 3], w[i + 4], w[i + 5]};
    if (code == 71) decorations[w[i + 1]].insert(w[i + 2]);
    if (code == 71 && w[i + 2] == 33) binding[w[i + 1]] = w[i + 3];
    if (code == 71 && w[i + 2] == 1) specialised[w[i + 1]] = w[i + 3];
    if (code == 71 && w[i + 2] == 11 && w[i + 3] == 25) size_constant = w[i + 1];  // BuiltIn WorkgroupSize
    if (code == 21 || code == 22) bytes[w[i + 1]] = w[i + 2] / 8;
    if (code == 23) bytes[w[i + 1]] = bytes[w[i + 2]] * w[i + 3];
    if (code == 28) bytes[w[i + 1]] = bytes[w[i + 2]] * constants[w[i + 3]];
    if (code == 32) pointee[w[i + 1]] = w[i + 3];
    if (code == 43) constants[w[i + 2]] = w[i + 3];
    if (code == 50) {
      const std::uint32_t id = w[i + 2];
      const bool given = specialised.contains(id) && specialised[id] < kernel.specialization.size();
      constants[id] = given ? kernel.specialization[specialised[id]] : w[i + 3];
    }
    if (code == 44 || code == 51) composites[w[i + 2]] = {&w[i + 3], &w[i] + count};
    if (code != 59) continue;
    const std::uint32_t id = w[i + 2], storage = w[i + 3];
    if (storage == 4) found.shared_bytes += bytes[pointee[w[i + 1]]];
    if (storage == 12) {
      found.storage_bindings.insert(binding[id]);
      if (decorations[id].contains(24)) found.unwritten_bindings.insert(binding[id]);
      if (decorations[id].contains(19) || !decorations[id].contains(20)) found.alone_bindings.insert(binding[id]);
    }
    if (storage == 2) found.uniform_bindings.insert(binding[id]);
    if (storage == 0) found.texel_bindings.insert(binding[id]);
  }
  if (size_constant != 0) {  // it goes before the execution mode
    found.local_size.clear();
    for (const std::uint32_t part : composites[size_constant])
      found.local_size.push_back(static_cast<std::uint32_t>(constants[part]));
  }
  return found;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
