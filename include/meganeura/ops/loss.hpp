// SPDX-License-Identifier: MIT
// Losses for models that compute their own; a trainer's `cross_entropy{"label"}` is the same on the run-time graph.
#pragma once
#include <meganeura/expr/module.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace modules {
struct cross_entropy {
  static constexpr auto forward(value auto logits, value auto labels) {
    constexpr symbolic_shape shape = decltype(logits)::shape;
    auto shifted = logits - unsqueeze<-1>(stop_gradient(max<-1>(logits)));
    auto is_label = equal(coordinates<dims<shape.last()>, 0>, unsqueeze<-1>(labels));
    auto at_label = sum<-1>(select(is_label, shifted, constant<0.0f>));  // no one-hot tensor, no gather
    return mean_of_all(log(sum<-1>(exp(shifted))) - at_label);
  }
};
}  // namespace modules

/// Mean over all positions of log(sum(exp(logits))) - logits[label].
/// shapes: logits [.., classes], labels i32 [..] -> []. errors: "labels must be i32 of the logits' shape less the last
/// axis".
template <auto Logits, auto Labels>
[[nodiscard]] constexpr auto cross_entropy_loss(expr<Logits> logits, expr<Labels> labels) {
  constexpr const symbolic_shape& shape = *Logits.root().shape;
  constexpr bool fits = shape.rank >= 1 && Labels.root().type == dtype::i32 && is_float(Logits.root().type) &&
                        *Labels.root().shape == detail::reduced_shape(shape, 1 << (shape.rank - 1));
  static_assert(
      fits,
      "meganeura: cross_entropy_loss(logits, labels): labels must be i32 of the logits' shape less the last axis");
  if constexpr (fits) {
    return call<"", modules::cross_entropy>(logits, labels);
  } else {
    return logits;
  }
}

/// Mean over all elements of (prediction - target)^2.
template <auto A, auto B>
[[nodiscard]] constexpr auto mean_squared_error_loss(expr<A> prediction, expr<B> target) {
  static_assert(*A.root().shape == *B.root().shape && A.root().type == B.root().type,
                "meganeura: mean_squared_error_loss(prediction, target): both must have one shape and dtype");
  auto difference = prediction - target;
  return mean_of_all(difference * difference);
}

}  // namespace meganeura::inline MEGANEURA_ABI
