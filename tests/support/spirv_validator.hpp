// SPDX-License-Identifier: MIT
// spirv-val over modules of the kernel language.
#pragma once
#include <meganeura/spirv/module.hpp>

#include <string>

namespace meganeura::inline MEGANEURA_ABI::support {

/// Whether there is a spirv-val that knows what the module uses: that of Debian 12 knows neither cooperative matrices
/// nor bf16. MEGANEURA_SPIRV_VAL names another program.
bool can_validate(const spirv::module& kernel);

/// What spirv-val says of the module, for the oldest Vulkan that it is made for and, if it is of these years, for 1.4;
/// empty if it is valid, or cannot be validated here. Equal modules are checked once.
std::string validation_of(const spirv::module& kernel);

}  // namespace meganeura::inline MEGANEURA_ABI::support
