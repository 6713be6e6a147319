// SPDX-License-Identifier: MIT
// One model for training and evaluation: what it computes in each.
#pragma once
#include <meganeura/expr/map.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

constexpr node_spec describe_by_mode(const facts& training, const facts&) {
  return {.kind = primitive::by_mode, .type = training.type, .shape = training.shape};
}

// Whether a carrier's graph is being built for one of the modes; types are the same for both.
template <class Carrier>
concept has_mode = requires(const Carrier& x) {
  x.trains();
};

}  // namespace detail

/// f() in a trainer's steps and g() when evaluating: in sessions and in trainer.evaluate. A graph of run time is built
/// for one of the two, see graph(run_mode). `x`, any value of the model, tells which graph that is:
/// when_training(x, [&] { return x * mask; }, [&] { return x; }). errors: "f() and g() must have one shape and dtype".
template <value X, class Training, class Evaluation>
[[nodiscard]] constexpr auto when_training(X x, const Training& f, const Evaluation& g) {
  if constexpr (detail::has_mode<X>) {
    return x.trains() ? x.lifted(f()) : x.lifted(g());
  } else {
    const auto training = f();
    const auto evaluation = g();
    MEGANEURA_EXPECT(detail::are_of_one_type(training.facts(), evaluation.facts()),
                     "meganeura: when_training(x, f, g): f() and g() must have one shape and dtype", training,
                     evaluation)
    return detail::make<detail::describe_by_mode>(training, evaluation);
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI
