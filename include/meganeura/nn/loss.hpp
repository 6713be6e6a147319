// SPDX-License-Identifier: MIT
// Losses: what a trainer minimises, or a model computes by itself.
#pragma once
#include <meganeura/expr/loss.hpp>
#include <meganeura/expr/traced.hpp>
#include <meganeura/nn/softmax.hpp>
#include <meganeura/ops/gather.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// What becomes of the losses of all elements: themselves, their mean, their sum, or their sum for each of the first
/// axis.
enum class loss_reduction : std::uint8_t { none, mean, sum, batch_mean };

/// Names and defaults are torch.nn.functional.cross_entropy's.
struct cross_entropy_options {
  std::int32_t ignore_index = -100;  // a label of this value is left out of the mean
  int axis = -1;                     // of the classes: 1 of PyTorch's [n, classes, ..]
  float label_smoothing = 0;         // the share of the target that all classes have alike, from 0 to 1
  loss_reduction reduction = loss_reduction::mean;
  friend constexpr bool operator==(const cross_entropy_options&, const cross_entropy_options&) = default;
};

struct loss_options {
  loss_reduction reduction = loss_reduction::mean;
  friend constexpr bool operator==(const loss_options&, const loss_options&) = default;
};

namespace detail {

constexpr bool is_sound(const cross_entropy_options& options) {
  return options.label_smoothing >= 0 && options.label_smoothing <= 1;
}

constexpr auto reduced_loss(value auto losses, loss_reduction how) {
  if (how == loss_reduction::none) return losses;
  if (how == loss_reduction::mean) return mean(losses);
  if (how == loss_reduction::sum || losses.facts().shape.rank == 0) return sum(losses);
  return sum(losses) * losses.added(describe_share_of(losses.facts(), 1), &losses, 1);
}

// The shape of labels; rank 0 where there is no such axis.
constexpr symbolic_shape label_shape(const symbolic_shape& logits, int axis) {
  axis = normal_axis(axis, logits.rank);
  return axis < 0 ? symbolic_shape{} : reduced_shape(logits, 1u << axis);
}

constexpr bool can_label(const facts& logits, const facts& labels, int axis) {
  const int at = normal_axis(axis, logits.shape.rank);
  return at >= 0 && labels.type == dtype::i32 && is_float(logits.type) && logits.shape[at].is_static() &&
         labels.shape == label_shape(logits.shape, axis);
}
constexpr bool can_match(const facts& logits, const facts& target, int axis) {
  const int at = normal_axis(axis, logits.shape.rank);
  return can_label(logits, target, axis) ||
         (at >= 0 && logits.shape[at].is_static() && is_float(logits.type) && are_of_one_type(logits, target));
}
constexpr bool can_weigh(const facts& logits, const facts& weights, int axis) {
  return is_float(weights.type) && weights.shape.rank == 1 &&
         weights.shape[0] == logits.shape[normal_axis(axis, logits.shape.rank)];
}

// A layer of `Rule::each(prediction, target, options)`, in f32 and reduced.
template <class Rule>
struct pairwise_loss {
  static constexpr bool is_sound(const auto&) { return true; }
  static constexpr auto forward(value auto prediction, value auto target, auto options) {
    return reduced_loss(Rule::each(widened(prediction), widened(target), options), options.reduction);
  }
};

// The same as a trainer's loss.
template <class Layer, auto Options>
struct pairwise_module {
  static constexpr auto options = Options;
  static constexpr auto forward(value auto prediction, value auto target) {
    MEGANEURA_EXPECT(is_float(prediction.facts().type),
                     "meganeura: trainer<model, loss>: the model's result must be floats; cast it", prediction)
    static_assert(Layer::is_sound(Options),
                  "meganeura: trainer<model, loss>: an option of the loss is outside of its range");
    return layer<Layer>(fixed_text<"">{}, prediction, target, c<Options>);
  }
};

template <symbolic_shape Logits, int Axis>
constexpr tensor_type label_type() {
  return {dtype::i32, interned_shape<label_shape(Logits, Axis)>};
}

// Labels beside scores of classes along an axis.
template <value Value>
struct class_labels {
  int axis;
  std::int64_t classes;
  std::int32_t ignored;
  Value label;

  constexpr class_labels(Value scores, Value labels, const cross_entropy_options& options)
      : axis(normal_axis(options.axis, scores.facts().shape.rank)),
        classes(scores.facts().shape[axis].coefficient),
        ignored(options.ignore_index),
        label(scores.added(describe_indices(labels.facts(), index_use::class_label, classes, ignored), &labels, 1)) {}

  // No one-hot tensor, no gather.
  [[nodiscard]] constexpr Value picked_of(Value scores) const {
    const Value index = beside_axis(coordinates_of(scores, extents_of(classes), 0), scores, axis);
    return sum(select(equal(index, unsqueeze(label, axis)), scores, 0.0f), axis);
  }

  // A class, and not the one that is left out.
  [[nodiscard]] constexpr Value counts(Value of) const {
    const Value is_class = logical_and(less_equal(0, of), less(of, classes));
    if (ignored < 0 || ignored >= classes) return is_class;
    return logical_and(is_class, logical_not(equal(of, ignored)));
  }

  // How many of all labels do. Padded, they are summed over a length of their own: computed once, not inside each
  // reader, so that the gradient stays one kernel over the logits.
  [[nodiscard]] constexpr Value counted() const {
    const Value zero = number_of(label, 0.0), one = number_of(label, 1.0);
    return sum(select(counts(pad(unsqueeze(label, -1), -1, 0, 1, -1.0)), one, zero));
  }

  [[nodiscard]] constexpr Value reduced(Value losses, loss_reduction how) const {
    const Value zero = number_of(label, 0.0), one = number_of(label, 1.0);
    if (how != loss_reduction::mean) return reduced_loss(select(counts(label), losses, zero), how);
    return sum(select(counts(label), losses * reciprocal(maximum(counted(), one)), zero));
  }

  // Each position's weight is that of its label; what does not count has none, as nothing is gathered from -1.
  [[nodiscard]] constexpr Value weights_of(Value weights) const {
    return gather(weights, select(counts(label), label, -1), 0);
  }
  [[nodiscard]] constexpr Value reduced(Value losses, Value weights, loss_reduction how) const {
    const Value counted = select(counts(label), losses, 0.0f);
    if (how != loss_reduction::mean) return reduced_loss(counted, how);
    const Value total = sum(weights_of(weights));
    return sum(counted) / select(equal(total, 0.0f), 1.0f, total);
  }
};
template <value A, value B>
class_labels(A, B, const cross_entropy_options&) -> class_labels<A>;

}  // namespace detail

namespace layers {

struct cross_entropy {
  static constexpr auto forward(value auto logits, value auto target, cross_entropy_options options) {
    const int axis = detail::normal_axis(options.axis, logits.facts().shape.rank);
    const auto shifted = detail::shifted_by_max(detail::widened(logits), axis);
    if (is_float(target.facts().type)) return of_shares(shifted, shares(target, axis, options), axis, options);
    const double smooth = static_cast<double>(options.label_smoothing);
    const detail::class_labels labels(logits, target, options);
    const auto at_label = labels.picked_of(shifted);
    const auto total = log(sum(exp(shifted), axis));
    if (smooth == 0) return labels.reduced(total - at_label, options.reduction);
    return labels.reduced(total - at_label * (1 - smooth) - mean(shifted, axis) * smooth, options.reduction);
  }

  static constexpr auto forward(value auto logits, value auto target, value auto weights,
                                cross_entropy_options options) {
    const int axis = detail::normal_axis(options.axis, logits.facts().shape.rank);
    const auto shifted = detail::shifted_by_max(detail::widened(logits), axis);
    const auto each = detail::widened(weights);
    const auto along = detail::beside_axis(each, logits, axis);
    if (is_float(target.facts().type)) return of_shares(shifted, shares(target, axis, options) * along, axis, options);
    const detail::class_labels labels(logits, target, options);
    const double smooth = static_cast<double>(options.label_smoothing);
    const auto total = log(sum(exp(shifted), axis));
    const auto losses = (total - labels.picked_of(shifted)) * labels.weights_of(each);
    if (smooth == 0) return labels.reduced(losses, each, options.reduction);
    const auto spread = total * sum(each) - sum(shifted * along, axis);
    return labels.reduced(losses * (1 - smooth) + spread * (smooth / static_cast<double>(labels.classes)), each,
                          options.reduction);
  }

 private:
  static constexpr auto shares(value auto target, int axis, const cross_entropy_options& options) {
    const auto given = detail::widened(target);
    const double smooth = static_cast<double>(options.label_smoothing);
    if (smooth == 0) return given;
    return given * (1 - smooth) + smooth / static_cast<double>(target.facts().shape[axis].coefficient);
  }
  static constexpr auto of_shares(value auto shifted, value auto shares, int axis,
                                  const cross_entropy_options& options) {
    const auto log_chances = shifted - unsqueeze(log(sum(exp(shifted), axis)), axis);
    return detail::reduced_loss(-sum(log_chances * shares, axis), options.reduction);
  }
};

struct squared_error : detail::pairwise_loss<squared_error> {
  static constexpr auto each(value auto x, value auto y, loss_options) { return (x - y) * (x - y); }
};

}  // namespace layers

/// Mean over the positions that count of log(sum(exp(logits))) - logits[label], in f32, as
/// torch.nn.functional.cross_entropy. A label that is `ignore_index` or no class at all adds nothing, neither to the
/// mean nor to the gradient, and the option `checks` names the latter. If no position counts the loss is 0 (PyTorch's
/// is NaN). Floats of the logits' shape are shares of the classes instead of labels. `weights`, one for each class,
/// weigh the losses, and labels in the mean. shapes: logits [.., classes], labels i32 [..] -> []; the option `axis`
/// tells where else the classes are. errors: "labels must be i32 of the logits' shape less the axis of the classes,
/// which must be a number, or shares of its shape and dtype", "weights must be floats, one for each class".
template <value Logits, value Labels, class Options>
  requires(!value<Options>)
[[nodiscard]] constexpr auto cross_entropy_loss(Logits logits, Labels labels, Options options) {
  MEGANEURA_EXPECT(
      detail::can_match(logits.facts(), labels.facts(), static_cast<cross_entropy_options>(options).axis),
      "meganeura: cross_entropy_loss(logits, labels): labels must be i32 of the logits' shape less the axis of the "
      "classes (the last one, or .axis = 1 of [n, classes, ..]), which must be a number, or shares of its shape and "
      "dtype",
      logits, labels)
  MEGANEURA_EXPECT(detail::is_sound(options),
                   "meganeura: cross_entropy_loss(logits, labels): label_smoothing must be from 0 to 1", logits, labels)
  return detail::layer<layers::cross_entropy>(fixed_text<"">{}, logits, labels, options);
}
template <value Logits, value Labels, value Weights, class Options>
[[nodiscard]] constexpr auto cross_entropy_loss(Logits logits, Labels labels, Weights weights, Options options) {
  MEGANEURA_EXPECT(
      detail::can_match(logits.facts(), labels.facts(), static_cast<cross_entropy_options>(options).axis),
      "meganeura: cross_entropy_loss(logits, labels, weights): labels must be i32 of the logits' shape less the axis "
      "of the classes (the last one, or .axis = 1 of [n, classes, ..]), which must be a number, or shares of its shape "
      "and dtype",
      logits, labels, weights)
  MEGANEURA_EXPECT(detail::can_weigh(logits.facts(), weights.facts(), static_cast<cross_entropy_options>(options).axis),
                   "meganeura: cross_entropy_loss(logits, labels, weights): weights must be floats, one for each class",
                   logits, labels, weights)
  MEGANEURA_EXPECT(detail::is_sound(options),
                   "meganeura: cross_entropy_loss(logits, labels, weights): label_smoothing must be from 0 to 1",
                   logits, labels, weights)
  return detail::layer<layers::cross_entropy>(fixed_text<"">{}, logits, labels, weights, options);
}
template <cross_entropy_options Options = cross_entropy_options{}, value Logits, value Labels, value... Weights>
[[nodiscard]] constexpr auto cross_entropy_loss(Logits logits, Labels labels, Weights... weights) {
  return cross_entropy_loss(logits, labels, weights..., c<Options>);
}

/// (prediction - target)^2 of floats, in f32; mean_squared_error_loss(prediction, target, loss_options{..}) at run
/// time. errors: "both must be floats of one shape and dtype".
template <value A, value B, class Options>
[[nodiscard]] constexpr auto mean_squared_error_loss(A prediction, B target, Options options) {
  MEGANEURA_EXPECT_ALIKE("mean_squared_error_loss<options>(prediction, target)", prediction, target)
  return detail::layer<layers::squared_error>(fixed_text<"">{}, prediction, target, options);
}
template <loss_options Options = loss_options{}, value A, value B>
[[nodiscard]] constexpr auto mean_squared_error_loss(A prediction, B target) {
  return mean_squared_error_loss(prediction, target, c<Options>);
}

/// Labels that a loss compares the model's first result with: i32, of its shape less the axis of the classes.
template <fixed_string Name, int Axis = -1>
struct labels {
  static constexpr auto text = Name;
  static constexpr const symbol& name = detail::input_symbol<Name>();
  template <class Model>
  static constexpr detail::tensor_type type_for = detail::label_type<*Model::body.result(0).shape, Axis>();
};

namespace detail {
template <cross_entropy_options Options>
struct dense_cross_entropy_module {
  static constexpr cross_entropy_options options = Options;
  static constexpr auto forward(value auto logits, value auto label) {
    return cross_entropy_loss<Options>(logits, label);
  }
};
template <cross_entropy_options Options>
struct cross_entropy_module : dense_cross_entropy_module<Options> {
  static constexpr bool takes_labels = true;
};
}  // namespace detail

/// cross_entropy_loss of a model's result, with the labels bound by this name: trainer<mlp, cross_entropy<"label">>.
template <fixed_string Label, cross_entropy_options Options = cross_entropy_options{}>
struct cross_entropy : loss<detail::cross_entropy_module<Options>, labels<Label, Options.axis>> {};

/// mean_squared_error_loss of a model's result, with what is bound by this name.
template <fixed_string Target, loss_options Options = loss_options{}>
struct mean_squared_error : loss<detail::pairwise_module<layers::squared_error, Options>, target<Target>> {};

}  // namespace meganeura::inline MEGANEURA_ABI
