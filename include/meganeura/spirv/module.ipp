// SPDX-License-Identifier: MIT
// Definitions for spirv/module.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/spirv/module.hpp>
#include <meganeura/spirv/opcodes.hpp>

#include <string_view>

namespace meganeura::inline MEGANEURA_ABI::spirv {

MEGANEURA_INLINE module preserve_special_values(module kernel) {
  const std::vector<std::uint32_t> before = std::move(kernel.words);
  const auto code = [&](std::size_t at) { return static_cast<op>(before[at] & 0xffff); };
  std::size_t capabilities = 5, modes = 5;  // where each section ends
  std::uint32_t main = 0;
  for (std::size_t at = 5; at < before.size() && before[at] >> 16 != 0; at += before[at] >> 16) {
    const std::size_t next = at + (before[at] >> 16);
    if (code(at) == op::capability) capabilities = next;
    if (code(at) == op::entry_point) main = before[at + 2];
    if (code(at) == op::entry_point || code(at) == op::execution_mode) modes = next;
  }
  if (main == 0) fail(error_category::internal, "kernel \"{}\" has no entry point", kernel.name);
  const auto copy = [&](std::size_t begin, std::size_t end) {
    kernel.words.insert(kernel.words.end(), before.begin() + static_cast<std::ptrdiff_t>(begin),
                        before.begin() + static_cast<std::ptrdiff_t>(end));
  };
  const auto instruction = [](op what, std::uint32_t count) { return count << 16 | static_cast<std::uint32_t>(what); };
  kernel.words.clear();
  copy(0, capabilities);
  const auto preserve = static_cast<std::uint32_t>(capability::signed_zero_inf_nan_preserve);
  kernel.words.insert(kernel.words.end(), {instruction(op::capability, 2), preserve});
  if (before[1] < 0x00010400u) {  // "SPV_KHR_float_controls", part of the language from 1.4 on
    kernel.words.insert(kernel.words.end(), {instruction(op::extension, 7), 0x5f565053u, 0x5f52484bu, 0x616f6c66u,
                                             0x6f635f74u, 0x6f72746eu, 0x0000736cu});
  }
  copy(capabilities, modes);
  kernel.words.insert(kernel.words.end(), {instruction(op::execution_mode, 4), main, 4461, 32});
  copy(modes, before.size());
  kernel.needs_special_values = true;
  return kernel;
}

}  // namespace meganeura::inline MEGANEURA_ABI::spirv
