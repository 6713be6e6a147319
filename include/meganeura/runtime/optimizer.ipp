// SPDX-License-Identifier: MIT
// Definitions for runtime/optimizer.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/nearest.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/runtime/optimizer.hpp>
#include <meganeura/runtime/step_numbers.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

struct optimizer::averaged final : interface {
  averaged(std::shared_ptr<const interface> chosen, float keeps) : of(std::move(chosen)), decay(keeps) {}
  [[nodiscard]] std::string name() const override { return of->name() + " with ema"; }
  [[nodiscard]] std::string problem() const override { return of->problem(); }
  [[nodiscard]] std::size_t rate_count() const override { return of->rate_count() + 1; }
  [[nodiscard]] rate_view rate_at(std::size_t i) const override {
    return i < of->rate_count() ? of->rate_at(i) : rate_view{"ema", decay, true};
  }
  [[nodiscard]] std::shared_ptr<const interface> with_rate(std::size_t i, float value) const override {
    return i < of->rate_count() ? std::make_shared<const averaged>(of->with_rate(i, value), decay)
                                : std::make_shared<const averaged>(of, value);
  }
  [[nodiscard]] std::vector<std::string> moments() const override {
    std::vector<std::string> all = of->moments();
    all.emplace_back("ema");
    return all;
  }
  [[nodiscard]] std::size_t number_count() const override { return of->number_count() + 1; }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const override {
    const scalar_expression mean = e.moments.back(), share = e.numbers.back();
    optimizer_element own = e;
    own.moments.pop_back();
    own.numbers.pop_back();
    std::vector<scalar_expression> all = of->update(own);
    if (!all.empty()) all.push_back(mean + share * (all[0] - mean));
    return all;
  }
  [[nodiscard]] bool has_direction() const override { return of->has_direction(); }
  [[nodiscard]] std::vector<optimizer_state> states(const shape& extents) const override { return of->states(extents); }
  [[nodiscard]] std::vector<node_value> direction(const optimizer_tensor& t) const override { return of->direction(t); }
  [[nodiscard]] float learning_rate() const override { return of->learning_rate(); }
  void write_numbers(std::uint32_t step, double factor, float* numbers) const override {
    of->write_numbers(step, factor, numbers);
    numbers[of->number_count()] = step == 1 ? 1 : static_cast<float>(1 - static_cast<double>(decay));
  }
  std::shared_ptr<const interface> of;
  float decay;
};

MEGANEURA_INLINE optimizer optimizer::with_rate(std::string_view name, float value) const try {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < definition_->rate_count(); ++i) {
    names.emplace_back(definition_->rate_at(i).name);
    if (names.back() == name) return optimizer(definition_->with_rate(i, value));
  }
  fail(error_category::invalid_argument, "{} has no rate {}; it has {}{}", this->name(), quote(name),
       fmt::join(names, ", "), detail::did_you_mean(detail::nearest(name, names)));
} catch (...) {
  rethrow_as_error("changing a rate");
}

MEGANEURA_INLINE std::string optimizer::wrong_rate() const {
  for (std::size_t i = 0; i < definition_->rate_count(); ++i) {
    const rate_view rate = definition_->rate_at(i);
    const bool finite = rate.value >= 0 && rate.value <= std::numeric_limits<float>::max();
    if (finite && (!rate.below_one || rate.value < 1)) continue;
    return fmt::format("{}: {} is {}; it must be {}", name(), rate.name, rate.value,
                       rate.below_one ? "at least 0 and less than 1" : "finite and at least 0");
  }
  return definition_->problem();
}

MEGANEURA_INLINE optimizer optimizer::with_ema(float decay) const try {
  const std::vector<std::string> moments = definition_->moments();
  if (std::ranges::find(moments, "ema") != moments.end()) {
    fail(error_category::invalid_argument,
         "{} keeps a moment \"ema\" already, and another running mean was asked for; ask for one", name());
  }
  if (definition_->number_count() < max_optimizer_numbers)
    return optimizer(std::make_shared<const averaged>(definition_, decay));
  fail(error_category::invalid_argument, "{} has {} numbers of a step and none is left for a running mean; use fewer",
       name(), max_optimizer_numbers);
} catch (...) {
  rethrow_as_error("averaging parameters");
}

MEGANEURA_INLINE optimizer_attribute optimizer::rule(bool waits) const try {
  scalar_builder program;
  int arguments = 0;
  const auto argument = [&] { return scalar_expression(program, program.argument(arguments++, dtype::f32)); };
  const auto all = [&](std::size_t count) {
    std::vector<scalar_expression> made;
    while (made.size() < count) made.push_back(argument());
    return made;
  };
  optimizer_attribute rule;
  rule.name = name();
  rule.moments = definition_->moments();
  const scalar_expression parameter = argument(), gradient = argument();
  const std::vector<scalar_expression> moments = all(rule.moments.size());
  const optimizer_element element{parameter, gradient, moments, all(definition_->number_count())};
  std::vector<scalar_expression> updated = definition_->update(element);
  if (waits) {
    if (definition_->number_count() > detail::step_numbers::updates) {
      fail(error_category::invalid_argument,
           "{} has {} numbers of a step and none is left to say whether it waits for further gradients; use fewer",
           name(), max_optimizer_numbers);
    }
    arguments = static_cast<int>(2 + rule.moments.size() + detail::step_numbers::updates);
    const scalar_expression acts = argument(), none = acts.number(0);
    const auto held = [&](const scalar_expression& fresh, const scalar_expression& old) {
      return apply(scalar_op::select, apply(scalar_op::equal, acts, none), old, fresh);
    };
    for (std::size_t i = 0; i < updated.size(); ++i)
      updated[i] = held(updated[i], i == 0 ? parameter : moments.at(i - 1));
  }
  for (const scalar_expression& result : updated) rule.results.push_back(result.place());
  rule.program = program.finish(rule.results);
  return rule;
} catch (...) {
  rethrow_as_error("writing an optimizer's program");
}

}  // namespace meganeura::inline MEGANEURA_ABI
