// SPDX-License-Identifier: MIT
// Definitions for runtime/build_times.hpp.
#pragma once
#include <meganeura/runtime/build_times.hpp>

#include <fmt/format.h>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE double build_times::total() const {
  double sum = 0;
  for (const build_phase& each : build_phases) sum += this->*each.milliseconds;
  return sum;
}

MEGANEURA_INLINE std::string to_text(const build_times& times) {
  const double total = times.total();
  std::string text;
  const auto line = [&](const char* name, double milliseconds) {
    const double share = total > 0 ? 100 * milliseconds / total : 0;
    text += fmt::format("{:<13} {:9.2f} ms {:5.1f} %\n", name, milliseconds, share);
  };
  for (const build_phase& each : build_phases) line(each.name, times.*each.milliseconds);
  line("total", total);
  return text;
}

MEGANEURA_INLINE std::string to_line(const build_times& times) {
  std::string text = fmt::format("{:.1f} ms:", times.total());
  for (const build_phase& each : build_phases) {
    text += fmt::format("{} {} {:.1f}", text.ends_with(':') ? "" : ",", each.name, times.*each.milliseconds);
  }
  return text;
}

}  // namespace meganeura::inline MEGANEURA_ABI
