// SPDX-License-Identifier: MIT
// Losses for models that compute their own; a trainer's `cross_entropy{"label"}` is the same on the run-time graph.
#pragma once
#include <meganeura/expr/module.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

struct cross_entropy_options {
  int ignore_index = -100;  // a label of this value is left out of the mean
  friend constexpr bool operator==(const cross_entropy_options&, const cross_entropy_options&) = default;
};

namespace modules {
template <cross_entropy_options Options>
struct cross_entropy {
  static constexpr auto forward(value auto logits, value auto labels) {
    constexpr symbolic_shape shape = decltype(logits)::shape;
    auto label = checked(labels, logits);
    auto wide = detail::widened(logits);
    auto shifted = wide - unsqueeze<-1>(stop_gradient(max<-1>(wide)));
    auto is_label = equal(coordinates<dims<shape.last()>, 0>, unsqueeze<-1>(label));
    auto at_label = sum<-1>(select(is_label, shifted, constant<0.0f>));  // no one-hot tensor, no gather
    auto losses = log(sum<-1>(exp(shifted))) - at_label;
    // Padded, the number of labels that count is a sum over a length of its own: it is computed once, not inside each
    // reader, and the gradient stays one kernel over the logits.
    auto padded = counted<shape.last().coefficient>(pad<-1, 0, 1, -1.0f>(unsqueeze<-1>(label)));
    auto share = reciprocal(maximum(sum(select(padded, constant<1.0f>, constant<0.0f>)), constant<1.0f>));
    return sum(select(counted<shape.last().coefficient>(label), losses * share, constant<0.0f>));
  }

 private:
  template <auto Labels, auto Logits>
  static constexpr auto checked(expr<Labels>, expr<Logits>) {
    constexpr typed_node node = [] {
      typed_node made = detail::make_node(primitive::class_index, dtype::i32, Labels.root().shape,
                                          static_cast<int>(Logits.root().shape->last().coefficient));
      made.value = Options.ignore_index;
      return made;
    }();
    return detail::apply<node, Labels>();
  }

  // A class, and not the one that is left out.
  template <std::int64_t Classes>
  static constexpr auto counted(value auto label) {
    auto is_class = logical_and(less_equal(constant<0>, label), less(label, constant<static_cast<double>(Classes)>));
    if constexpr (Options.ignore_index >= 0 && Options.ignore_index < Classes) {
      return logical_and(is_class, logical_not(equal(label, constant<Options.ignore_index>)));
    } else {
      return is_class;
    }
  }
};
}  // namespace modules

/// Mean over the positions that count of log(sum(exp(logits))) - logits[label], in f32. A label that is
/// `Options.ignore_index` or no class at all adds nothing, neither to the mean nor to the gradient, and the option
/// `checks` names the latter. If no position counts the loss is 0 (PyTorch's is NaN).
/// shapes: logits [.., classes], labels i32 [..] -> []. errors: "labels must be i32 of the logits' shape less the last
/// axis, which must be a number".
template <cross_entropy_options Options = cross_entropy_options{}, auto Logits, auto Labels>
[[nodiscard]] constexpr auto cross_entropy_loss(expr<Logits> logits, expr<Labels> labels) {
  constexpr const symbolic_shape& shape = *Logits.root().shape;
  constexpr bool fits = shape.rank >= 1 && Labels.root().type == dtype::i32 && is_float(Logits.root().type) &&
                        shape.last().is_static() &&
                        *Labels.root().shape == detail::reduced_shape(shape, 1 << (shape.rank - 1));
  static_assert(fits,
                "meganeura: cross_entropy_loss(logits, labels): labels must be i32 of the logits' shape less the last "
                "axis, which must be a number");
  if constexpr (fits) {
    return call<"", modules::cross_entropy<Options>>(logits, labels);
  } else {
    return logits;
  }
}

/// Mean over all elements of (prediction - target)^2, of floats in f32.
template <auto A, auto B>
[[nodiscard]] constexpr auto mean_squared_error_loss(expr<A> prediction, expr<B> target) {
  static_assert(*A.root().shape == *B.root().shape && A.root().type == B.root().type,
                "meganeura: mean_squared_error_loss(prediction, target): both must have one shape and dtype");
  auto difference = detail::widened(prediction) - detail::widened(target);
  return mean_of_all(difference * difference);
}

}  // namespace meganeura::inline MEGANEURA_ABI
