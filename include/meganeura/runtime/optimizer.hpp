// SPDX-License-Identifier: MIT
// Optimisers as users name them, with PyTorch's definitions and defaults, and what makes a struct an optimiser.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/nearest.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/graph/scalar_expression.hpp>
#include <meganeura/kernels/step_values.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// A number that the user chooses and a checkpoint keeps by its name; finite and at least 0.
template <class Optimizer>
struct optimizer_rate {
  const char* name;
  float Optimizer::*value;
  bool below_one = false;  // of an average: less than 1
};

/// One element of a parameter in a step, as an optimiser's rule reads it; all f32.
struct optimizer_element {
  scalar_expression parameter, gradient;
  std::vector<scalar_expression> moments;  // as the step before left them, zero in the beginning
  std::vector<scalar_expression> numbers;  // of this step
};

namespace detail {

template <class T>
[[nodiscard]] consteval bool rates_and_numbers_fit() {
  if constexpr (requires(const T& chosen) { std::begin(T::rates), chosen.numbers(1u); }) {
    bool found = false;
    for (const auto& rate : T::rates) found = found || std::string_view(rate.name) == "learning_rate";
    return found && std::tuple_size_v<decltype(std::declval<const T&>().numbers(1u))> <= max_optimizer_numbers;
  } else {
    return false;
  }
}

}  // namespace detail

/// What an optimiser is: a struct of rates, one of them learning_rate, with
///   rates              their names and members
///   name()             of its kernels and checkpoints; another name where other moments are kept
///   moments()          names of what it keeps of each parameter, as checkpoints have them; every device has kernels
///                      for two
///   numbers(step)      the floats that change from step to step (1, 2, ...), computed on the host; at most
///                      max_optimizer_numbers
///   update(element)    the new parameter, then each new moment
/// and, where choices exclude each other,
///   problem()          which ones do, as a sentence; empty if none
/// See `adam`. Whatever has these converts to `optimizer`.
template <class T>
concept optimizer_definition = !std::same_as<T, class optimizer> && std::copyable<T> &&
                               requires(const T& chosen, std::uint32_t step, const optimizer_element& element) {
  { T::rates[0] } -> std::convertible_to<optimizer_rate<T>>;
  { chosen.learning_rate } -> std::convertible_to<float>;
  { chosen.name() } -> std::convertible_to<std::string>;
  { chosen.moments() } -> std::same_as<std::vector<std::string>>;
  { chosen.numbers(step).data() } -> std::convertible_to<const float*>;
  { chosen.update(element) } -> std::same_as<std::vector<scalar_expression>>;
  requires detail::rates_and_numbers_fit<T>();
};

namespace detail {
// Meant as an optimiser, though something is missing.
template <class T>
concept nearly_optimizer = !optimizer_definition<T> && !std::same_as<T, optimizer> && requires(const T& chosen) {
  chosen.learning_rate;
};
}  // namespace detail

/// p -= learning_rate * v with v = momentum * v + (1 - dampening) * g (v = g in the first step) and g += weight_decay *
/// p before; Nesterov's moves by g + momentum * v, and needs a momentum and no dampening. source: torch.optim.SGD.
struct sgd {
  float learning_rate = 1e-2f;
  float momentum = 0;
  float weight_decay = 0;
  float dampening = 0;
  bool nesterov = false;

  static constexpr optimizer_rate<sgd> rates[] = {{"learning_rate", &sgd::learning_rate},
                                                  {"weight_decay", &sgd::weight_decay},
                                                  {"momentum", &sgd::momentum},
                                                  {"dampening", &sgd::dampening}};
  [[nodiscard]] std::string name() const {
    return nesterov ? "sgd with nesterov momentum" : momentum != 0 ? "sgd with momentum" : "sgd";
  }
  [[nodiscard]] std::string problem() const {
    if (!nesterov || (momentum != 0 && dampening == 0)) return {};
    return fmt::format("{}: momentum is {} and dampening {}; it needs a momentum above 0 and no dampening", name(),
                       momentum, dampening);
  }
  [[nodiscard]] std::vector<std::string> moments() const {
    return nesterov || momentum != 0 ? std::vector<std::string>{"m"} : std::vector<std::string>();
  }
  [[nodiscard]] std::array<float, 4> numbers(std::uint32_t step) const {
    return {learning_rate, weight_decay, momentum, step == 1 ? 1 : 1 - dampening};
  }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const {
    const auto &p = e.parameter, &rate = e.numbers[0], &decay = e.numbers[1], &kept = e.numbers[2];
    const auto slope = e.gradient + decay * p;
    if (e.moments.empty()) return {p - rate * slope};
    const auto velocity = kept * e.moments[0] + e.numbers[3] * slope;
    return {p - rate * (nesterov ? slope + kept * velocity : velocity), velocity};
  }
};

/// Weight decay is added to the gradient. With amsgrad it is the largest mean of squares so far that divides. source:
/// Kingma and Ba 2015, Reddi et al. 2018, torch.optim.Adam.
struct adam {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f, beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0;
  bool amsgrad = false;

  static constexpr optimizer_rate<adam> rates[] = {{"learning_rate", &adam::learning_rate},
                                                   {"weight_decay", &adam::weight_decay},
                                                   {"beta1", &adam::beta1, true},
                                                   {"beta2", &adam::beta2, true},
                                                   {"epsilon", &adam::epsilon}};
  [[nodiscard]] std::string name() const { return amsgrad ? "adam with amsgrad" : "adam"; }
  [[nodiscard]] std::vector<std::string> moments() const {
    return amsgrad ? std::vector<std::string>{"m", "v", "v_max"} : std::vector<std::string>{"m", "v"};
  }
  /// Decay, step size, root of the second correction, beta1, 1 - beta1, beta2, 1 - beta2, epsilon: corrections in
  /// double, because 1 - beta2^1 loses half of f32's digits.
  [[nodiscard]] std::array<float, 8> numbers(std::uint32_t step) const {
    const auto correction = [&](float beta) { return 1 - std::pow(static_cast<double>(beta), step); };
    return {weight_decay,
            static_cast<float>(learning_rate / correction(beta1)),
            static_cast<float>(std::sqrt(correction(beta2))),
            beta1,
            1 - beta1,
            beta2,
            1 - beta2,
            epsilon};
  }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const {
    return moved(e, e.parameter, e.gradient + e.numbers[0] * e.parameter);
  }
  /// `p` moved by running means of gradients `g` and of their squares, corrected for having begun as zeros; by the
  /// largest of the latter where there is a third moment.
  [[nodiscard]] static std::vector<scalar_expression> moved(const optimizer_element& e, const scalar_expression& p,
                                                            const scalar_expression& g) {
    const auto& now = e.numbers;
    const auto m = now[3] * e.moments[0] + now[4] * g;
    const auto v = now[5] * e.moments[1] + now[6] * g * g;
    const auto step = [&](const scalar_expression& squares) {
      return now[1] * (m / (apply(scalar_op::sqrt, squares) / now[2] + now[7]));
    };
    if (e.moments.size() == 2) return {p - step(v), m, v};
    const auto largest = apply(scalar_op::maximum, e.moments[2], v);
    return {p - step(largest), m, v, largest};
  }
};

/// Weight decay shrinks the parameter directly; the rest is adam. source: Loshchilov and Hutter 2019,
/// torch.optim.AdamW.
struct adamw {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f, beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 1e-2f;
  bool amsgrad = false;

  static constexpr optimizer_rate<adamw> rates[] = {{"learning_rate", &adamw::learning_rate},
                                                    {"weight_decay", &adamw::weight_decay},
                                                    {"beta1", &adamw::beta1, true},
                                                    {"beta2", &adamw::beta2, true},
                                                    {"epsilon", &adamw::epsilon}};
  [[nodiscard]] std::string name() const { return amsgrad ? "adamw with amsgrad" : "adamw"; }
  [[nodiscard]] std::vector<std::string> moments() const { return adam{.amsgrad = amsgrad}.moments(); }
  /// As adam's, but first what a step leaves of the parameter.
  [[nodiscard]] std::array<float, 8> numbers(std::uint32_t step) const {
    auto all = adam{learning_rate, beta1, beta2, epsilon}.numbers(step);
    all[0] = static_cast<float>(1 - static_cast<double>(learning_rate) * static_cast<double>(weight_decay));
    return all;
  }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const {
    return adam::moved(e, e.numbers[0] * e.parameter, e.gradient);
  }
};

/// p -= learning_rate * g / (sqrt(v) + epsilon) with v = alpha * v + (1 - alpha) * g^2 and g += weight_decay * p
/// before; centered: of v less the square of the running mean of g; with momentum p moves by m = momentum * m + that
/// quotient. source: Hinton 2012, Graves 2013, torch.optim.RMSprop.
struct rmsprop {
  float learning_rate = 1e-2f;
  float alpha = 0.99f;
  float epsilon = 1e-8f;
  float weight_decay = 0;
  float momentum = 0;
  bool centered = false;

  static constexpr optimizer_rate<rmsprop> rates[] = {{"learning_rate", &rmsprop::learning_rate},
                                                      {"weight_decay", &rmsprop::weight_decay},
                                                      {"alpha", &rmsprop::alpha, true},
                                                      {"epsilon", &rmsprop::epsilon},
                                                      {"momentum", &rmsprop::momentum}};
  [[nodiscard]] std::string name() const {
    return std::string(centered ? "centered rmsprop" : "rmsprop") + (momentum != 0 ? " with momentum" : "");
  }
  [[nodiscard]] std::vector<std::string> moments() const {
    std::vector<std::string> all{"v"};
    if (centered) all.emplace_back("mean");
    if (momentum != 0) all.emplace_back("m");
    return all;
  }
  [[nodiscard]] std::array<float, 6> numbers(std::uint32_t) const {
    return {learning_rate, weight_decay, alpha, 1 - alpha, epsilon, momentum};
  }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const {
    const auto& now = e.numbers;
    const auto slope = e.gradient + now[1] * e.parameter;
    const auto v = now[2] * e.moments[0] + now[3] * slope * slope;
    std::vector<scalar_expression> all{e.parameter, v};
    auto spread = v;
    if (centered) {
      const auto mean = now[2] * e.moments[1] + now[3] * slope;
      spread = apply(scalar_op::maximum, v - mean * mean, v.number(0));  // of equal gradients no more than rounding
      all.push_back(mean);
    }
    auto step = slope / (apply(scalar_op::sqrt, spread) + now[4]);
    if (momentum != 0) all.push_back(step = now[5] * e.moments.back() + step);
    all[0] = e.parameter - now[0] * step;
    return all;
  }
};

/// p -= rate * g / (sqrt(v) + epsilon) with v += g^2, g += weight_decay * p before and a rate of learning_rate / (1 +
/// learning_rate_decay * (step - 1)). source: Duchi et al. 2011, torch.optim.Adagrad.
struct adagrad {
  float learning_rate = 1e-2f;
  float learning_rate_decay = 0;
  float weight_decay = 0;
  float initial_accumulator_value = 0;  // of v, whose moment is the sum without it
  float epsilon = 1e-10f;

  static constexpr optimizer_rate<adagrad> rates[] = {
      {"learning_rate", &adagrad::learning_rate},
      {"learning_rate_decay", &adagrad::learning_rate_decay},
      {"weight_decay", &adagrad::weight_decay},
      {"initial_accumulator_value", &adagrad::initial_accumulator_value},
      {"epsilon", &adagrad::epsilon}};
  [[nodiscard]] std::string name() const { return "adagrad"; }
  [[nodiscard]] std::vector<std::string> moments() const { return {"v"}; }
  [[nodiscard]] std::array<float, 4> numbers(std::uint32_t step) const {
    const double slower = 1 + static_cast<double>(learning_rate_decay) * (step - 1.0);
    return {static_cast<float>(learning_rate / slower), weight_decay, initial_accumulator_value, epsilon};
  }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const {
    const auto& now = e.numbers;
    const auto slope = e.gradient + now[1] * e.parameter;
    const auto v = e.moments[0] + slope * slope;
    return {e.parameter - now[0] * (slope / (apply(scalar_op::sqrt, now[2] + v) + now[3])), v};
  }
};

/// p -= learning_rate * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * p), then m = beta2 * m + (1 - beta2) * g;
/// the sign of 0 is 0. source: Chen et al. 2023, algorithm 2.
struct lion {
  float learning_rate = 1e-4f;
  float beta1 = 0.9f, beta2 = 0.99f;
  float weight_decay = 0;

  static constexpr optimizer_rate<lion> rates[] = {{"learning_rate", &lion::learning_rate},
                                                   {"weight_decay", &lion::weight_decay},
                                                   {"beta1", &lion::beta1, true},
                                                   {"beta2", &lion::beta2, true}};
  [[nodiscard]] std::string name() const { return "lion"; }
  [[nodiscard]] std::vector<std::string> moments() const { return {"m"}; }
  [[nodiscard]] std::array<float, 6> numbers(std::uint32_t) const {
    return {learning_rate, weight_decay, beta1, 1 - beta1, beta2, 1 - beta2};
  }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const {
    const auto &p = e.parameter, &g = e.gradient, &m = e.moments[0];
    const auto direction = apply(scalar_op::sign, e.numbers[2] * m + e.numbers[3] * g);
    return {p - e.numbers[0] * (direction + e.numbers[1] * p), e.numbers[4] * m + e.numbers[5] * g};
  }
};

/// Any optimiser as a value: whatever optimizer_definition describes converts to it.
class optimizer {
 public:
  template <optimizer_definition T>
  optimizer(const T& chosen) try  // NOLINT(google-explicit-constructor): optimizers are written as what they are
      : definition_(std::make_shared<const defined_by<T>>(chosen)) {
  } catch (...) {
    rethrow_as_error("choosing an optimizer");
  }

  template <detail::nearly_optimizer T>
  optimizer(const T&) {  // NOLINT(google-explicit-constructor): to say what is missing
    static_assert(optimizer_definition<T>,
                  "meganeura: optimizer: a struct with the rates (learning_rate among them), name(), moments(), "
                  "numbers(step) and update(element) of optimizer_definition is one; docs/extending.md writes one");
  }

  [[nodiscard]] std::string name() const { return definition_->name(); }
  /// Calls visit(name, value) for every rate.
  template <class Visit>
  void each_rate(Visit&& visit) const {
    for (std::size_t i = 0; i < definition_->rate_count(); ++i)
      visit(definition_->rate_at(i).name, definition_->rate_at(i).value);
  }
  /// The same optimiser with one rate changed. errors: invalid_argument for one that it does not have.
  [[nodiscard]] optimizer with_rate(std::string_view name, float value) const try {
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
  /// Which rate no optimiser can have, as a sentence: one that is negative, not finite, or an average's of 1 or more,
  /// as torch.optim has it; or what it says itself. Empty if all are fine.
  [[nodiscard]] std::string wrong_rate() const {
    for (std::size_t i = 0; i < definition_->rate_count(); ++i) {
      const rate_view rate = definition_->rate_at(i);
      const bool finite = rate.value >= 0 && rate.value <= std::numeric_limits<float>::max();
      if (finite && (!rate.below_one || rate.value < 1)) continue;
      return fmt::format("{}: {} is {}; it must be {}", name(), rate.name, rate.value,
                         rate.below_one ? "at least 0 and less than 1" : "finite and at least 0");
    }
    return definition_->problem();
  }
  /// The same optimiser, which also keeps a running mean of each parameter, as the moment "ema": that of the first step
  /// is the parameter, then mean += (1 - decay) * (parameter - mean). The decay is a rate, "ema". errors:
  /// invalid_argument for an optimiser that has max_optimizer_numbers of its own. source: torch's get_ema_multi_avg_fn.
  [[nodiscard]] optimizer with_ema(float decay) const try {
    if (definition_->number_count() < max_optimizer_numbers)
      return optimizer(std::make_shared<const averaged>(definition_, decay));
    fail(error_category::invalid_argument, "{} has {} numbers of a step and none is left for a running mean; use fewer",
         name(), max_optimizer_numbers);
  } catch (...) {
    rethrow_as_error("averaging parameters");
  }
  /// What a graph's optimizer_step holds.
  [[nodiscard]] optimizer_attribute rule() const;
  [[nodiscard]] float learning_rate() const { return definition_->learning_rate(); }
  /// Everything that changes from step to step; `step` counts 1, 2, ... The learning rate is multiplied by `factor`.
  [[nodiscard]] kernels::step_values step_values(std::uint32_t step, std::uint64_t seed, double factor = 1) const {
    kernels::step_values values = kernels::step_values_of(step, seed);
    definition_->write_numbers(step, factor, values.numbers);
    return values;
  }

 private:
  struct rate_view {
    std::string_view name;
    float value;
    bool below_one;
  };
  struct interface {
    virtual ~interface() = default;
    [[nodiscard]] virtual std::string name() const = 0;
    [[nodiscard]] virtual std::string problem() const = 0;
    [[nodiscard]] virtual std::size_t rate_count() const = 0;
    [[nodiscard]] virtual rate_view rate_at(std::size_t i) const = 0;
    [[nodiscard]] virtual std::shared_ptr<const interface> with_rate(std::size_t i, float value) const = 0;
    [[nodiscard]] virtual std::vector<std::string> moments() const = 0;
    [[nodiscard]] virtual std::size_t number_count() const = 0;
    [[nodiscard]] virtual std::vector<scalar_expression> update(const optimizer_element& e) const = 0;
    [[nodiscard]] virtual float learning_rate() const = 0;
    virtual void write_numbers(std::uint32_t step, double factor, float* numbers) const = 0;
  };
  template <class T>
  struct defined_by final : interface {
    explicit defined_by(const T& chosen) : self(chosen) {}
    [[nodiscard]] std::string name() const override { return self.name(); }
    [[nodiscard]] std::string problem() const override {
      if constexpr (requires { self.problem(); }) return self.problem();
      return {};
    }
    [[nodiscard]] std::size_t rate_count() const override { return std::size(T::rates); }
    [[nodiscard]] rate_view rate_at(std::size_t i) const override {
      return {T::rates[i].name, self.*T::rates[i].value, T::rates[i].below_one};
    }
    [[nodiscard]] std::shared_ptr<const interface> with_rate(std::size_t i, float value) const override {
      T changed = self;
      changed.*T::rates[i].value = value;
      return std::make_shared<const defined_by>(changed);
    }
    [[nodiscard]] std::vector<std::string> moments() const override { return self.moments(); }
    [[nodiscard]] std::size_t number_count() const override { return self.numbers(1).size(); }
    [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const override {
      return self.update(e);
    }
    [[nodiscard]] float learning_rate() const override { return self.learning_rate; }
    void write_numbers(std::uint32_t step, double factor, float* numbers) const override {
      T scaled = self;
      scaled.learning_rate = static_cast<float>(static_cast<double>(self.learning_rate) * factor);
      std::ranges::copy(scaled.numbers(step), numbers);
    }
    T self;
  };
  struct averaged final : interface {
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
    [[nodiscard]] float learning_rate() const override { return of->learning_rate(); }
    void write_numbers(std::uint32_t step, double factor, float* numbers) const override {
      of->write_numbers(step, factor, numbers);
      numbers[of->number_count()] = step == 1 ? 1 : static_cast<float>(1 - static_cast<double>(decay));
    }
    std::shared_ptr<const interface> of;
    float decay;
  };
  explicit optimizer(std::shared_ptr<const interface> made) : definition_(std::move(made)) {}
  std::shared_ptr<const interface> definition_;
};

inline optimizer_attribute optimizer::rule() const try {
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
  for (const scalar_expression& result : definition_->update(element)) rule.results.push_back(result.place());
  rule.program = program.finish(rule.results);
  return rule;
} catch (...) {
  rethrow_as_error("writing an optimizer's program");
}

}  // namespace meganeura::inline MEGANEURA_ABI
