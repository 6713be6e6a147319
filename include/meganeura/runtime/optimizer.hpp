// SPDX-License-Identifier: MIT
// Any optimiser as a value, and those of the library.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/graph/scalar_expression.hpp>
#include <meganeura/kernels/step_values.hpp>
#include <meganeura/runtime/elementwise_optimizers.hpp>
#include <meganeura/runtime/optimizer_definition.hpp>
#include <meganeura/runtime/tensor_optimizers.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

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

  // Copied where it could be moved, so that there is none without a definition.
  optimizer(const optimizer&) = default;
  optimizer& operator=(const optimizer&) = default;
  ~optimizer() = default;

  [[nodiscard]] std::string name() const { return definition_->name(); }
  /// Calls visit(name, value) for every rate.
  template <class Visit>
  void each_rate(Visit&& visit) const {
    for (std::size_t i = 0; i < definition_->rate_count(); ++i)
      visit(definition_->rate_at(i).name, definition_->rate_at(i).value);
  }
  /// The same optimiser with one rate changed. errors: invalid_argument for one that it does not have.
  [[nodiscard]] optimizer with_rate(std::string_view name, float value) const;
  /// Which rate no optimiser can have, as a sentence: one that is negative, not finite, or an average's of 1 or more,
  /// as torch.optim has it; or what it says itself. Empty if all are fine.
  [[nodiscard]] std::string wrong_rate() const;
  /// The same optimiser, which also keeps a running mean of each parameter, as the moment "ema": that of the first step
  /// is the parameter, then mean += (1 - decay) * (parameter - mean). The decay is a rate, "ema". errors:
  /// invalid_argument for an optimiser that has max_optimizer_numbers of its own. source: torch's get_ema_multi_avg_fn.
  [[nodiscard]] optimizer with_ema(float decay) const;
  /// What a graph's optimizer_step holds. A rule that `waits` changes nothing in steps whose number
  /// detail::step_numbers::updates is 0. errors: invalid_argument for one that waits of an optimiser whose own numbers
  /// reach that far.
  [[nodiscard]] optimizer_attribute rule(bool waits = false) const;
  /// Whether gradients pass through direction first: see optimizer_definition.
  [[nodiscard]] bool has_direction() const { return definition_->has_direction(); }
  [[nodiscard]] std::vector<optimizer_state> states(const shape& of) const { return definition_->states(of); }
  [[nodiscard]] std::vector<node_value> direction(const optimizer_tensor& t) const { return definition_->direction(t); }
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
    [[nodiscard]] virtual bool has_direction() const = 0;
    [[nodiscard]] virtual std::vector<optimizer_state> states(const shape& of) const = 0;
    [[nodiscard]] virtual std::vector<node_value> direction(const optimizer_tensor& t) const = 0;
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
    static constexpr bool directs = requires(const T& chosen, const optimizer_tensor& t) {
      { chosen.states(shape()) } -> std::same_as<std::vector<optimizer_state>>;
      { chosen.direction(t) } -> std::same_as<std::vector<node_value>>;
    };
    [[nodiscard]] bool has_direction() const override { return directs; }
    [[nodiscard]] std::vector<optimizer_state> states([[maybe_unused]] const shape& of) const override {
      if constexpr (directs) return self.states(of);
      return {};
    }
    [[nodiscard]] std::vector<node_value> direction(const optimizer_tensor& t) const override {
      if constexpr (directs) return self.direction(t);
      return {t.gradient};
    }
    [[nodiscard]] float learning_rate() const override { return self.learning_rate; }
    void write_numbers(std::uint32_t step, double factor, float* numbers) const override {
      T scaled = self;
      scaled.learning_rate = static_cast<float>(static_cast<double>(self.learning_rate) * factor);
      std::ranges::copy(scaled.numbers(step), numbers);
    }
    T self;
  };
  struct averaged;  // with a running mean of each parameter
  explicit optimizer(std::shared_ptr<const interface> made) : definition_(std::move(made)) {}
  std::shared_ptr<const interface> definition_;
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/optimizer.ipp>
#endif
