// SPDX-License-Identifier: MIT
// Where the time goes between a model and the end of its first step.
#pragma once
#include <meganeura/config.hpp>

#include <string>

namespace meganeura::inline MEGANEURA_ABI {

/// Milliseconds of each part of a build, in its order; 0 for what was done elsewhere, as where a program is given a
/// graph.
struct build_times {
  double trace = 0;          // the model and the loss as a graph
  double differentiate = 0;  // gradients and update added
  double saturate = 0;       // what the graph could be instead
  double implement = 0;      // kernels for it, with everything fused that can be
  double extract = 0;        // the cheapest of them
  double plan = 0;           // order, memory, barriers
  double generate = 0;       // the kernels' code
  double allocate = 0;       // device memory
  double pipelines = 0;      // the driver's compiler
  double record = 0;         // command buffers
  double first_step = 0;     // what drivers and memory do when first used, and the step; 0 before it

  [[nodiscard]] double total() const;
};

struct build_phase {
  const char* name;
  double build_times::*milliseconds;
};

/// The parts by name.
inline constexpr build_phase build_phases[] = {
    {"trace", &build_times::trace},           {"differentiate", &build_times::differentiate},
    {"saturate", &build_times::saturate},     {"implement", &build_times::implement},
    {"extract", &build_times::extract},       {"plan", &build_times::plan},
    {"generate", &build_times::generate},     {"allocate", &build_times::allocate},
    {"pipelines", &build_times::pipelines},   {"record", &build_times::record},
    {"first step", &build_times::first_step},
};

/// A line for each part, with its share of the total, which comes last.
[[nodiscard]] std::string to_text(const build_times& times);
/// "812.4 ms: trace 2.1, differentiate 3.9, ...".
[[nodiscard]] std::string to_line(const build_times& times);

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/build_times.ipp>
#endif
