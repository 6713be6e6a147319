// SPDX-License-Identifier: MIT
// Weights of the benchmark, made in parallel from their names.
#pragma once
#include <meganeura/runtime/parameters.hpp>

namespace inferena {

struct fill_times {
  double generate_ms = 0, upload_ms = 0;
};

/// Sets every parameter; states stay as they begin.
fill_times fill(meganeura::parameters& weights);

/// A fixed number of hashes, made on every processor.
void hash();

}  // namespace inferena
