// SPDX-License-Identifier: MIT
// How the learning rate changes over a run: a factor of it for each step.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

class learning_rate_schedule;

namespace detail {
template <class T>
concept rate_factor =
    std::is_invocable_r_v<double, const T&, std::uint32_t> && !std::same_as<T, learning_rate_schedule>;
}  // namespace detail

/// What the learning rates of a step, those of groups included, are multiplied by: {.schedule = warmup_cosine(100,
/// 5000)}. It knows the number of the step and nothing else, so that a run goes on from a checkpoint as it was.
class learning_rate_schedule {
 public:
  learning_rate_schedule() = default;  // 1 for all
  /// Any function of the number of steps done before, 0 for the first, as torch's LambdaLR:
  /// {.schedule = [](std::uint32_t done) { return done < 1000 ? 1 : 0.1; }}.
  template <detail::rate_factor Factor>
  // NOLINTNEXTLINE(google-explicit-constructor): options are written as what they are
  learning_rate_schedule(Factor factor) try : factor_(std::move(factor)) {
  } catch (...) {
    rethrow_as_error("choosing a schedule");
  }

  /// errors: invalid_argument for one that is negative or not finite.
  [[nodiscard]] double factor(std::uint32_t done) const;

 private:
  std::function<double(std::uint32_t)> factor_;
};

// Counts of steps are at least 1, factors finite and at least 0; errors: invalid_argument.

/// From 1 to `last` in so many steps, then `last`. source: torch's LinearLR.
[[nodiscard]] learning_rate_schedule linear_decay(std::int64_t steps, double last = 0);
/// The same along half a cosine. source: torch's CosineAnnealingLR, which rises again.
[[nodiscard]] learning_rate_schedule cosine_decay(std::int64_t steps, double last = 0);
/// Times `factor` after each so many steps. source: torch's StepLR.
[[nodiscard]] learning_rate_schedule step_decay(std::int64_t every, double factor = 0.1);
/// Times `factor` after each step. source: torch's ExponentialLR.
[[nodiscard]] learning_rate_schedule exponential_decay(double factor);
/// From 1 / 25 to 1 in the first `rise` of all steps, and to 1 / 250,000 in the others, along half cosines; momentum
/// stays as it is. source: torch's OneCycleLR, with its max_lr as the learning rate.
[[nodiscard]] learning_rate_schedule one_cycle(std::int64_t steps, double rise = 0.3);
/// In equal parts to where `then` begins, which is reached with the last of so many steps: a quarter of it, a half, ...
[[nodiscard]] learning_rate_schedule warmup(std::int64_t steps, learning_rate_schedule then = {});
/// A warm-up, and `last` when `steps` are done, which count those of the warm-up.
[[nodiscard]] learning_rate_schedule warmup_linear(std::int64_t warm, std::int64_t steps, double last = 0);
[[nodiscard]] learning_rate_schedule warmup_cosine(std::int64_t warm, std::int64_t steps, double last = 0);

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/learning_rate_schedule.ipp>
#endif
