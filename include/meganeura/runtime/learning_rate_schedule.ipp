// SPDX-License-Identifier: MIT
// Definitions for runtime/learning_rate_schedule.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/runtime/learning_rate_schedule.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

inline double checked_steps(std::string_view schedule, std::int64_t steps) {
  if (steps >= 1) return static_cast<double>(steps);
  fail(error_category::invalid_argument, "{} over {} steps; there must be at least 1", schedule, steps);
}

inline double checked_factor(std::string_view schedule, std::string_view what, double factor) {
  if (factor >= 0 && std::isfinite(factor)) return factor;
  fail(error_category::invalid_argument, "{}: {} is {}; it must be finite and at least 0", schedule, what, factor);
}

// Along half a cosine, as `at` goes from 0 to 1.
inline double eased(double from, double to, double at) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * at)) / 2;
}

inline std::int64_t steps_after(std::string_view schedule, std::int64_t warm, std::int64_t steps) {
  if (static_cast<double>(steps) > checked_steps(schedule, warm)) return steps - warm;
  fail(error_category::invalid_argument, "{}: {} of {} steps are warm-up; there must be more, which it is part of",
       schedule, warm, steps);
}

}  // namespace detail

MEGANEURA_INLINE double learning_rate_schedule::factor(std::uint32_t done) const try {
  const double factor = factor_ ? factor_(done) : 1;
  if (factor >= 0 && std::isfinite(factor)) return factor;
  fail(error_category::invalid_argument,
       "schedule: the factor of the learning rate is {} after {} steps; it must be finite and at least 0", factor,
       done);
} catch (...) {
  rethrow_as_error("asking a schedule");
}

MEGANEURA_INLINE learning_rate_schedule linear_decay(std::int64_t steps, double last) try {
  const double all = detail::checked_steps("linear_decay", steps);
  detail::checked_factor("linear_decay", "last", last);
  return [=](std::uint32_t done) { return 1 + (last - 1) * std::min(done / all, 1.0); };
} catch (...) {
  rethrow_as_error("making a schedule");
}

MEGANEURA_INLINE learning_rate_schedule cosine_decay(std::int64_t steps, double last) try {
  const double all = detail::checked_steps("cosine_decay", steps);
  detail::checked_factor("cosine_decay", "last", last);
  return [=](std::uint32_t done) { return detail::eased(1, last, std::min(done / all, 1.0)); };
} catch (...) {
  rethrow_as_error("making a schedule");
}

MEGANEURA_INLINE learning_rate_schedule step_decay(std::int64_t every, double factor) try {
  const double length = detail::checked_steps("step_decay", every);
  detail::checked_factor("step_decay", "factor", factor);
  return [=](std::uint32_t done) { return std::pow(factor, std::floor(done / length)); };
} catch (...) {
  rethrow_as_error("making a schedule");
}

MEGANEURA_INLINE learning_rate_schedule exponential_decay(double factor) try {
  detail::checked_factor("exponential_decay", "factor", factor);
  return [=](std::uint32_t done) { return std::pow(factor, done); };
} catch (...) {
  rethrow_as_error("making a schedule");
}

MEGANEURA_INLINE learning_rate_schedule one_cycle(std::int64_t steps, double rise) try {
  const double last = detail::checked_steps("one_cycle", steps) - 1, peak = rise * (last + 1) - 1;
  if (!(peak > 0 && peak < last)) {
    fail(error_category::invalid_argument,
         "one_cycle: {} of {} steps rise; there must be more than 1 step that rises and 1 that falls", rise, steps);
  }
  return [=](std::uint32_t done) {
    if (done <= peak) return detail::eased(1 / 25.0, 1, done / peak);
    return detail::eased(1, 1 / 250000.0, std::min((done - peak) / (last - peak), 1.0));
  };
} catch (...) {
  rethrow_as_error("making a schedule");
}

MEGANEURA_INLINE learning_rate_schedule warmup(std::int64_t steps, learning_rate_schedule then) try {
  const double all = detail::checked_steps("warmup", steps);
  return [all, then = std::move(then)](std::uint32_t done) {
    if (done < all) return (done + 1.0) / all * then.factor(0);
    return then.factor(done - static_cast<std::uint32_t>(all));
  };
} catch (...) {
  rethrow_as_error("making a schedule");
}

MEGANEURA_INLINE learning_rate_schedule warmup_linear(std::int64_t warm, std::int64_t steps, double last) {
  return warmup(warm, linear_decay(detail::steps_after("warmup_linear", warm, steps), last));
}

MEGANEURA_INLINE learning_rate_schedule warmup_cosine(std::int64_t warm, std::int64_t steps, double last) {
  return warmup(warm, cosine_decay(detail::steps_after("warmup_cosine", warm, steps), last));
}

}  // namespace meganeura::inline MEGANEURA_ABI
