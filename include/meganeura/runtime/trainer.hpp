// SPDX-License-Identifier: MIT
// Training of a typed model: its graph and that of a loss, handed to `training`.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/data/metrics.hpp>
#include <meganeura/expr/loss.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/expr/symbol_extents.hpp>
#include <meganeura/nn/loss.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/training.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// Whether a loss of the library's is a mean over the labels that count, its first input: how many they are is what a
// batch weighs among others.
template <class Module>
concept is_mean_of_labels = Module::takes_labels && Module::options.reduction == loss_reduction::mean;
// How many do, as a value of the graph; compiled once, not in each program.
[[nodiscard]] node_value labels_that_count(const node_value& scores, const node_value& label,
                                           const cross_entropy_options& options);
// Whether the loss of all batches is the sum of theirs.
template <class Module>
constexpr bool adds_up() {
  if constexpr (requires { Module::options.reduction; }) {
    return Module::options.reduction == decltype(Module::options.reduction)::sum;
  } else {
    return false;
  }
}

template <class Model, class Loss>
[[nodiscard]] graph_with_loss trace(const symbol_extents& symbols, run_mode mode) try {
  using both = trained<Model, Loss>;
  using model = typename both::model_type;
  graph g(mode);
  check_bindings(symbols_of<both>(), symbols.list());
  const std::vector<node_id> predicted = lower_into<model>(g, symbols.list());
  const std::vector<node_id> results = lower_loss<model, typename both::loss_type>(g, predicted, symbols.list());
  const bool evaluates = mode == run_mode::evaluation;
  for (int i = 0; i < both::body.result_count; ++i) {
    const std::string name = both::output_list::symbols[i]->text;
    if (name != "loss") g.add_output(evaluates ? "loss." + name : name, results[static_cast<std::size_t>(i)]);
  }
  if constexpr (is_mean_of_labels<typename both::loss_module>) {
    if (evaluates) {
      const graph::scope in(g, "loss");
      const node_value label(g, g.find_leaf(both::own_inputs::symbols[0]->text));
      g.add_output("loss.weight", labels_that_count(node_value(g, predicted[0]), label, both::loss_module::options));
    }
  }
  for (int i = 0; evaluates && i < model::result_count; ++i)  // a step need not keep them
    g.add_output(model::output_list::symbols[i]->text, predicted[static_cast<std::size_t>(i)]);
  return {std::move(g), results[static_cast<std::size_t>(both::minimised)]};
} catch (...) {
  rethrow_as_error("building a training step");
}

struct visits_nothing {};

}  // namespace detail

/// The whole training step of a model as a graph, see make_training_graph(graph, node_id, optimizer).
template <class Model, class Loss>
[[nodiscard]] graph make_training_graph(const optimizer& chosen, const symbol_extents& symbols,
                                        const training_options& options = {}) {
  graph_with_loss traced = detail::trace<Model, Loss>(symbols, run_mode::training);
  return make_training_graph(std::move(traced.forward), traced.loss, chosen, options);
}

/// A model being trained: everything that `training` is, for inputs whose names and types the compiler knows. Sizes
/// come from what is bound, as they do in a session: the last, smaller batch is a step like the others. `Loss` is
/// cross_entropy<"label">, mean_squared_error<"target"> or a loss<module, inputs...>.
template <class Model = detail::left_out, class Loss = detail::left_out>
class trainer : public training {
  using trained = detail::trained<Model, Loss>;

 public:
  /// One step under way.
  class pending : public pending_step {
   public:
    explicit pending(const pending_step& from) : pending_step(from) {}
    /// Another number that the loss gives: value<"kl">(). A name that the loss does not have does not compile.
    template <fixed_string Name>
    [[nodiscard]] float value() const {
      constexpr result_facts result = trained::template result<Name>;
      static_assert(detail::is_loss_value<result.type, result.shape>,
                    "meganeura: step.value<name>(): the result is not one f32 number; read it from the trainer: "
                    "read<name>()");
      return pending_step::value(Name.text);
    }
    using pending_step::value;
  };

  /// e.g. trainer<mlp, cross_entropy<"label">> run(gpu, adam{.learning_rate = 1e-3f}); `fixed` has symbols that never
  /// change, {{"batch", 32}}. errors: invalid_argument for symbols, inputs or rates that do not fit; what `program`
  /// throws.
  explicit trainer(const device& on, const optimizer& chosen, const symbol_extents& fixed = {},
                   const training_options& options = {}, meganeura::parameters weights = {}) try
      : training(on,
                 {detail::sizes_of<trained>(fixed),
                  [](const symbol_extents& at, run_mode mode) { return detail::trace<Model, Loss>(at, mode); }},
                 chosen, detail::checked_taps<trained>(options),
                 detail::parameters_of<trained>(on, std::move(weights), fixed)) {
  } catch (...) {
    rethrow_as_error("building a trainer");
  }
  template <class... Weights>
  trainer(const device& on, const optimizer& chosen, const training_options& options, const Weights&...)
      : trainer(on, chosen, symbol_extents{}, options) {
    static_assert(sizeof...(Weights) == std::size_t(-1) || std::same_as<Model, detail::left_out>,
                  "meganeura: trainer(gpu, optimizer, sizes, options): options come fourth, behind the sizes; write "
                  "(gpu, optimizer, {}, options)");
  }

  /// Submits one step and returns; see training::step for what it waits for. Inputs of the model and of the
  /// loss are bound by name, and symbols that they leave open; a name that neither has, one bound twice, or another
  /// element type, does not compile. errors: those of training::step.
  template <class... Bound>
  pending step(const Bound&... bound) {
    const auto values = detail::checked_values<trained>(bound...);
    return pending(training::step(values.inputs(), values.symbols()));
  }
  template <class Values = detail::unbound_values>
  pending step(const detail::unbound_values&, const symbol_extents& = {}) {
    (void)detail::expect_bindings<Values>();
    return step();
  }

  /// The loss of what is bound, as the model is evaluated: see training::evaluate. The results of the latest one are
  /// read by evaluated(), as session::run gives them: auto [logits, hidden] = fit.evaluated(); those of the loss are
  /// outputs behind "loss.": fit.evaluation().read("loss.kl"). errors: "the model has a result \"loss\""; those of
  /// training::evaluate.
  template <class... Bound>
  float evaluate(const Bound&... bound) {
    expect_no_loss();
    const auto values = detail::checked_values<trained>(bound...);
    return training::evaluate(values.inputs(), values.symbols());
  }
  template <class Values = detail::unbound_values>
  float evaluate(const detail::unbound_values&, const symbol_extents& = {}) {
    (void)detail::expect_bindings<Values>();
    return evaluate();
  }
  /// The loss over a whole set, that of all its batches as one. Losses that are sums (loss_reduction::sum) are added
  /// up. Others are averaged: those of cross_entropy and nll weighted by the labels that count, others by the elements
  /// of the model's first result, so that a smaller last batch counts for less. A loss of your own that leaves
  /// something out, or weighs it, says what it is a mean of as a result "weight": return results<"loss",
  /// "weight">(mean, count). If nothing counts it is 0. `batches` is any range, a loader's epoch for example, and
  /// `bind` gives what is bound of one as a tuple: fit.evaluate_all(test, [](const rows& each) { return
  /// std::tuple(bind<"x">(each.x), bind<"label">(each.label)); }). `visit`, if given, gets each batch and the model's
  /// results of it: [&](const rows& each, const std::vector<float>& logits) { confusion.add(logits, each.label); }; see
  /// data/metrics.hpp. errors: those of evaluate; invalid_argument for a range without a batch.
  template <class Batches, class Bind, class Visit = detail::visits_nothing>
  double evaluate_all(Batches&& batches, const Bind& bind, Visit visit = {}) {
    return evaluate_all_of<false>(batches, bind, visit);
  }
  /// The same of running means of the weights, with the option `ema`: see training::evaluate_averages.
  template <class... Bound>
  float evaluate_averages(const Bound&... bound) {
    expect_no_loss();
    const auto values = detail::checked_values<trained>(bound...);
    return training::evaluate_averages(values.inputs(), values.symbols());
  }
  template <class Values = detail::unbound_values>
  float evaluate_averages(const detail::unbound_values&, const symbol_extents& = {}) {
    (void)detail::expect_bindings<Values>();
    return evaluate_averages();
  }
  /// Over a whole set, as evaluate_all.
  template <class Batches, class Bind, class Visit = detail::visits_nothing>
  double evaluate_all_averages(Batches&& batches, const Bind& bind, Visit visit = {}) {
    return evaluate_all_of<true>(batches, bind, visit);
  }
  /// Where a NaN or an infinity comes from: see training::first_not_finite.
  template <class... Bound>
  [[nodiscard]] std::string first_not_finite(const Bound&... bound) {
    const auto values = detail::checked_values<trained>(bound...);
    return training::first_not_finite(values.inputs(), values.symbols());
  }
  [[nodiscard]] auto evaluated() const {
    return detail::read_results<Model>(evaluation(), typename Model::output_list{});
  }

  /// A copy of a result of the loss, of the latest step, or of a tap of the model: read<"hidden">().
  template <fixed_string Name>
  [[nodiscard]] auto read() const {
    return training::read<detail::host_number<trained::template result<Name>.type>>(Name.text);
  }
  using training::read;

 private:
  static constexpr void expect_no_loss() {
    static_assert(Model::output_list::index_of("loss") < 0,
                  "meganeura: trainer.evaluate(..): the model has a result \"loss\", which is what an evaluation calls "
                  "the number that is minimised; give it another name");
  }
  template <bool Averages, class Batches, class Bind, class Visit>
  double evaluate_all_of(Batches& batches, const Bind& bind, Visit& visit) {
    using module = typename trained::loss_module;
    constexpr int weight = trained::output_list::index_of("weight");
    static_assert(weight < 0 || detail::is_loss_value<trained::body.result(weight < 0 ? 0 : weight).type,
                                                      *trained::body.result(weight < 0 ? 0 : weight).shape>,
                  "meganeura: trainer.evaluate_all(..): the loss's result \"weight\" says what a batch counts for and "
                  "must be one f32 number; cast it, or give it another name");
    data::running_mean mean;
    double sum = 0;
    bool is_empty = true;
    for (auto&& each : batches) {
      const auto all = bind(each);
      const auto one = [&](const auto&... b) {
        return Averages ? this->evaluate_averages(b...) : this->evaluate(b...);
      };
      const auto own = static_cast<double>(std::apply(one, all));
      if constexpr (weight >= 0 || detail::is_mean_of_labels<module>) {
        mean.add(own, static_cast<double>(evaluation().read("loss.weight")[0]));
      } else if constexpr (detail::adds_up<module>()) {
        sum += own;
      } else {
        const auto& outputs = evaluation().program().plan().outputs;
        const char* first = Model::output_list::symbols[0]->text;
        const auto found = std::ranges::find(outputs, std::string_view(first), &plan::named_range::name);
        mean.add(own, static_cast<double>(found->extents.elements()));
      }
      is_empty = false;
      if constexpr (!std::same_as<Visit, detail::visits_nothing>) visit(each, evaluated());
    }
    if (is_empty)
      fail(error_category::invalid_argument, "evaluate_all: there is no batch; give it a range that has one");
    return mean.count() > 0 ? mean.mean() : sum;
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/trainer.ipp>
#endif
