// SPDX-License-Identifier: MIT
// What one side calls otherwise than the other: a row of tables that models have at hand.
#pragma once
#include <meganeura/config.hpp>

#include <string_view>

namespace meganeura::inline MEGANEURA_ABI {

/// What a model calls "layers.3.weight" another one calls "blocks.3.w": {"layers.*.weight", "blocks.*.w"}. Both texts
/// have as many '*'. A view of them; a name_map has copies.
struct name_rule {
  std::string_view here, there;
};

}  // namespace meganeura::inline MEGANEURA_ABI
