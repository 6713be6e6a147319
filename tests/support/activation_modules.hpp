// SPDX-License-Identifier: MIT
// Activations as modules: one input, the same shape.
#pragma once
#include <meganeura/frontend.hpp>

namespace meganeura::inline MEGANEURA_ABI::support {

struct sigmoids {
  static constexpr auto forward(value auto x) { return sigmoid(x); }
};
struct silus {
  static constexpr auto forward(value auto x) { return silu(x); }
};
struct gelus {
  static constexpr auto forward(value auto x) { return gelu(x); }
};

}  // namespace meganeura::inline MEGANEURA_ABI::support
