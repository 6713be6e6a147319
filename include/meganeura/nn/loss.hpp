// SPDX-License-Identifier: MIT
// Losses: what a trainer minimises, or a model computes by itself.
#pragma once
#include <meganeura/expr/loss.hpp>
#include <meganeura/expr/traced.hpp>
#include <meganeura/nn/softmax.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

struct cross_entropy_options {
  std::int32_t ignore_index = -100;  // a label of this value is left out of the mean
  friend constexpr bool operator==(const cross_entropy_options&, const cross_entropy_options&) = default;
};

namespace detail {

constexpr node_spec describe_class_index(const facts& labels, const facts& logits, cross_entropy_options options) {
  return {.kind = primitive::class_index,
          .type = dtype::i32,
          .shape = labels.shape,
          .count = logits.shape.last().coefficient,
          .value = static_cast<double>(options.ignore_index)};
}

constexpr bool can_label(const facts& logits, const facts& labels) {
  const symbolic_shape& shape = logits.shape;
  return shape.rank >= 1 && labels.type == dtype::i32 && is_float(logits.type) && shape.last().is_static() &&
         labels.shape == reduced_shape(shape, 1u << (shape.rank - 1));
}

template <symbolic_shape Logits>
constexpr tensor_type label_type() {
  return {dtype::i32, interned_shape < Logits.rank == 0 ? Logits : reduced_shape(Logits, 1u << (Logits.rank - 1)) > };
}

}  // namespace detail

namespace layers {

struct cross_entropy {
  static constexpr auto forward(value auto logits, value auto labels, cross_entropy_options options) {
    const std::int64_t classes = logits.facts().shape.last().coefficient;
    const auto label = logits.added(detail::describe_class_index(labels.facts(), logits.facts(), options), &labels, 1);
    const auto wide = detail::widened(logits);
    const auto shifted = detail::shifted_by_max(wide, -1);
    const auto is_label = equal(detail::coordinates_of(logits, detail::extents_of(classes), 0), unsqueeze(label, -1));
    const auto at_label = sum(select(is_label, shifted, 0.0f), -1);  // no one-hot tensor, no gather
    const auto losses = log(sum(exp(shifted), -1)) - at_label;
    // Padded, the number of labels that count is a sum over a length of its own: it is computed once, not inside each
    // reader, and the gradient stays one kernel over the logits.
    const auto padded = counted(pad(unsqueeze(label, -1), -1, 0, 1, -1.0), classes, options);
    const auto one = detail::number_of(logits, 1.0), zero = detail::number_of(logits, 0.0);
    const auto share = reciprocal(maximum(sum(select(padded, one, zero)), one));
    return sum(select(counted(label, classes, options), losses * share, zero));
  }

 private:
  // A class, and not the one that is left out.
  static constexpr auto counted(value auto label, std::int64_t classes, cross_entropy_options options) {
    const auto is_class = logical_and(less_equal(0, label), less(label, classes));
    if (options.ignore_index < 0 || options.ignore_index >= classes) return is_class;
    return logical_and(is_class, logical_not(equal(label, options.ignore_index)));
  }
};

struct mean_squared_error {
  static constexpr auto forward(value auto prediction, value auto target) {
    const auto difference = detail::widened(prediction) - detail::widened(target);
    return mean(difference * difference);
  }
};

}  // namespace layers

/// Mean over the positions that count of log(sum(exp(logits))) - logits[label], in f32, as
/// torch.nn.functional.cross_entropy. A label that is `ignore_index` or no class at all adds nothing, neither to the
/// mean nor to the gradient, and the option `checks` names the latter. If no position counts the loss is 0 (PyTorch's
/// is NaN). shapes: logits [.., classes], labels i32 [..] -> []. errors: "labels must be i32 of the logits' shape less
/// the last axis, which must be a number".
template <value Logits, value Labels, class Options>
[[nodiscard]] constexpr auto cross_entropy_loss(Logits logits, Labels labels, Options options) {
  MEGANEURA_EXPECT(detail::can_label(logits.facts(), labels.facts()),
                   "meganeura: cross_entropy_loss(logits, labels): labels must be i32 of the logits' shape less the "
                   "last axis, which must be a number",
                   logits, labels)
  return detail::layer<layers::cross_entropy>(fixed_text<"">{}, logits, labels, options);
}
template <cross_entropy_options Options = cross_entropy_options{}, value Logits, value Labels>
[[nodiscard]] constexpr auto cross_entropy_loss(Logits logits, Labels labels) {
  return cross_entropy_loss(logits, labels, c<Options>);
}

/// Mean over all elements of (prediction - target)^2, of floats in f32.
template <value A, value B>
[[nodiscard]] constexpr auto mean_squared_error_loss(A prediction, B target) {
  MEGANEURA_EXPECT((detail::are_of_one_type(prediction.facts(), target.facts()) && is_float(target.facts().type)),
                   "meganeura: mean_squared_error_loss(prediction, target): both must be floats of one shape and dtype",
                   prediction, target)
  return detail::layer<layers::mean_squared_error>(fixed_text<"">{}, prediction, target);
}

/// Labels that a loss compares the model's first result with: i32, of its shape less the last axis.
template <fixed_string Name>
struct labels {
  static constexpr auto text = Name;
  static constexpr const symbol& name = detail::input_symbol<Name>();
  template <class Model>
  static constexpr detail::tensor_type type_for = detail::label_type<*Model::body.result(0).shape>();
};

namespace detail {
template <cross_entropy_options Options>
struct cross_entropy_module {
  static constexpr auto forward(value auto logits, value auto label) {
    return cross_entropy_loss<Options>(logits, label);
  }
};
struct mean_squared_error_module {
  static constexpr auto forward(value auto prediction, value auto wanted) {
    return mean_squared_error_loss(prediction, wanted);
  }
};
}  // namespace detail

/// cross_entropy_loss of a model's result, with the labels bound by this name: trainer<mlp, cross_entropy<"label">>.
template <fixed_string Label, cross_entropy_options Options = cross_entropy_options{}>
struct cross_entropy : loss<detail::cross_entropy_module<Options>, labels<Label>> {};

/// mean_squared_error_loss of a model's result, with what is bound by this name.
template <fixed_string Target>
struct mean_squared_error : loss<detail::mean_squared_error_module, target<Target>> {};

}  // namespace meganeura::inline MEGANEURA_ABI
