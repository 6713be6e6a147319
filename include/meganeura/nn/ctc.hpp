// SPDX-License-Identifier: MIT
// Connectionist temporal classification: the chance that labels are read from frames, whatever their places.
#pragma once
#include <meganeura/nn/loss.hpp>
#include <meganeura/ops/along.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// As torch.nn.functional.ctc_loss's. blank: the class that is no label. mean: of each loss over its number of labels.
/// zero_infinity: a target that its frames cannot hold has a loss of 0, not infinity.
struct ctc_options {
  std::int64_t blank = 0;
  loss_reduction reduction = loss_reduction::mean;
  bool zero_infinity = false;
  friend constexpr bool operator==(const ctc_options&, const ctc_options&) = default;
};

namespace detail {

inline constexpr double ctc_never = -1e30;  // the logarithm of a chance of 0, with room for sums of it

// [n, 2 l + 1] of targets [n, l]: between labels, before the first and behind the last there may be blanks.
constexpr auto ctc_labels(value auto targets, std::int64_t blank) {
  const auto blanks = targets * 0 + static_cast<double>(blank);
  const auto pairs = concat(-1, unsqueeze(blanks, -1), unsqueeze(targets, -1));
  return concat(-1, flatten(pairs, -2, -1), slice(blanks, -1, 0, 1));
}

constexpr bool can_ctc(const facts& scores, const facts& targets, const facts& frames, const facts& labels,
                       std::int64_t blank) {
  const symbolic_shape& x = scores.shape;
  const symbolic_shape &y = targets.shape, sequences = extents_of(x[0]);
  return x.rank == 3 && x[1].is_static() && x[2].is_static() && blank >= 0 && blank < x[2].coefficient && y.rank == 2 &&
         y[0] == x[0] && y[1].is_static() && frames.shape == sequences && labels.shape == sequences &&
         is_float(scores.type) && targets.type == dtype::i32 && frames.type == dtype::i32 && labels.type == dtype::i32;
}

}  // namespace detail

namespace layers {

/// Logarithms of the chances of all states in each frame, [n, t, 2 l + 1].
struct ctc_emissions {
  static constexpr auto forward(value auto scores, value auto given, value auto labels_of, std::int64_t blank) {
    const symbolic_shape shape = scores.facts().shape;
    const std::int64_t most = given.facts().shape[1].coefficient, classes = shape[2].coefficient;
    const auto count =
        scores.added(detail::describe_indices(labels_of.facts(), index_use::ctc_labels, most + 1), &labels_of, 1);
    const decltype(count) counted[]{given, count};
    const auto targets =
        scores.added(detail::describe_indices(given.facts(), index_use::ctc_label, classes), counted, 2);
    const dim states = targets.facts().shape[1] * 2 + 1;
    const auto labels = unsqueeze(detail::ctc_labels(targets, blank), 1);
    const auto taken = detail::make<detail::describe_take_along>(
        detail::widened(scores), expand(labels, detail::extents_of(shape[0], shape[1], states)), -1);
    const auto place = detail::coordinates_of(scores, detail::extents_of(1, 1, states), 2);
    const auto counts = less_equal(place, reshape(count, detail::extents_of(shape[0], 1, 1)) * 2);
    const auto is_class = logical_and(less_equal(0, labels), less(labels, classes));
    return select(logical_and(counts, is_class), maximum(taken, detail::ctc_never), detail::ctc_never);
  }
};

/// The frames that there are, [n].
struct ctc_lengths {
  static constexpr auto forward(value auto frames, std::int64_t most) {
    const auto known =
        frames.added(detail::describe_indices(frames.facts(), index_use::ctc_frames, most + 1), &frames, 1);
    return maximum(known, -1);
  }
};

/// What it costs to leave out the blank before a state, [n, 2 l + 1]: nothing before a label that differs from the one
/// before.
struct ctc_skips {
  static constexpr auto forward(value auto targets, std::int64_t blank) {
    const auto labels = detail::ctc_labels(targets, blank);
    const std::int64_t states = labels.facts().shape[1].coefficient;
    const auto before = pad(slice(labels, -1, 0, states - 2), -1, 2, 0, detail::number(-1.0));
    return select(equal(labels, before), detail::ctc_never, detail::number_of(targets, 0.0));
  }
};

/// Before the first frame: the first state for sure.
struct ctc_begin {
  static constexpr auto forward(value auto skips) {
    return select(equal(detail::coordinates_of(skips, skips.facts().shape, 1), 0), detail::number_of(skips, 0.0),
                  detail::ctc_never);
  }
};

/// A frame [n, 1, states], if there are frames left.
struct ctc_step {
  static constexpr auto forward(value auto frame, value auto chances, value auto skips, value auto left) {
    const std::int64_t states = skips.facts().shape[1].coefficient;
    const auto from = [&](std::int64_t back) {
      return pad(slice(chances, -1, 0, states - back), -1, back, 0, detail::number(detail::ctc_never));
    };
    const auto next = from(1), skipped = from(2) + skips;
    const auto most = stop_gradient(maximum(maximum(chances, next), skipped));
    const auto total = exp(chances - most) + exp(next - most) + exp(skipped - most);
    return select(less(0, unsqueeze(left, -1)), log(total) + most + flatten(frame, 0, 1), chances);
  }
};

/// Of the last state and of the label before it.
struct ctc_end {
  static constexpr auto forward(value auto chances, value auto count, ctc_options options) {
    const auto behind = unsqueeze(count, -1) * 2 - detail::coordinates_of(chances, chances.facts().shape, 1);  // 0 or 1
    const auto last = select(logical_or(equal(behind, 0), equal(behind, 1)), chances, detail::ctc_never);
    const auto most = stop_gradient(max(last, -1));
    const auto loss = -(log(sum(exp(last - unsqueeze(most, -1)), -1)) + most);
    const auto losses = select(less(-detail::ctc_never / 2, loss),
                               options.zero_infinity ? 0.0 : static_cast<double>(__builtin_inff()), loss);
    if (options.reduction != loss_reduction::mean) return detail::reduced_loss(losses, options.reduction);
    return mean(losses / cast<dtype::f32>(maximum(count, 1)));
  }
};

}  // namespace layers

namespace detail {

// `Count` frames as two halves, so that no body is long.
template <std::int64_t Count>
struct ctc_frames {
  static constexpr auto forward(value auto frames, value auto chances, value auto skips, value auto left) {
    if constexpr (Count == 1) {
      return layer<layers::ctc_step>(fixed_text<"">{}, frames, chances, skips, left);
    } else {
      constexpr int first = static_cast<int>(Count / 2), rest = static_cast<int>(Count) - first;
      auto now = call<"", ctc_frames<first>>(slice<1, 0, first>(frames), chances, skips, left);
      return call<"", ctc_frames<rest>>(slice<1, first, rest>(frames), now, skips, left - constant<first, dtype::i32>);
    }
  }
};
template <class Value>
Value run_ctc_frames(Value frames, Value chances, Value skips, Value left, std::int64_t count) {
  if (count == 1) return layers::ctc_step::forward(frames, chances, skips, left);
  const std::int64_t first = count / 2, rest = count - first;
  const Value now = run_ctc_frames<Value>(slice(frames, 1, 0, first), chances, skips, left, first);
  return run_ctc_frames<Value>(slice(frames, 1, first, rest), now, skips, left - static_cast<double>(first), rest);
}

template <value E, value K, value L>
constexpr auto ctc_chances(E frames, K skips, L left) {
  const auto begin = layer<layers::ctc_begin>(fixed_text<"">{}, skips);
  if constexpr (all_typed<E>::value) {
    return call<"", ctc_frames<E::facts().shape[1].coefficient>>(frames, begin, skips, left);
  } else {
    return run_ctc_frames<E>(frames, begin, skips, left, frames.facts().shape[1].coefficient);
  }
}

template <class Options>
constexpr auto blank_of(Options options) {
  if constexpr (is_fixed<Options>) {
    return c<Options::value.blank>;
  } else {
    return options.blank;
  }
}

template <value Scores>
constexpr auto frames_of(Scores scores) {
  if constexpr (all_typed<Scores>::value) {
    return c<Scores::facts().shape[1].coefficient>;
  } else {
    return scores.facts().shape[1].coefficient;
  }
}

template <value Scores, value Targets, value Frames, value Labels, class Options>
constexpr auto ctc_of(Scores scores, Targets targets, Frames frames, Labels labels, Options options) {
  const auto states = layer<layers::ctc_emissions>(fixed_text<"">{}, scores, targets, labels, blank_of(options));
  const auto skips = layer<layers::ctc_skips>(fixed_text<"">{}, targets, blank_of(options));
  const auto left = layer<layers::ctc_lengths>(fixed_text<"">{}, frames, frames_of(scores));
  return layer<layers::ctc_end>(fixed_text<"">{}, ctc_chances(states, skips, left), labels, options);
}

}  // namespace detail

/// -log of the chance that frames read as the targets, all ways to place these added up: labels in order, each once or
/// more, blanks between them if there are any, which there must be between equal ones. scores are logarithms of
/// chances, log_softmax(x). torch.nn.functional.ctc_loss, but for the order of its axes. Steps are written out, one a
/// frame: tens of frames. shapes: scores [n, t, classes], targets [n, l], of which `labels` [n] count, frames [n] of
/// the t -> [], or [n] unreduced. A target that has more labels than l, or one that is no class, cannot be read: its
/// loss is infinity, or 0 with zero_infinity; more frames than t are t, fewer than 0 none. The option `checks` names
/// them; labels behind those that count may be anything. dtypes: floats, computed in f32; i32. gradient: of a target
/// that its frames cannot hold zeros, where PyTorch's is NaN; by scores alone PyTorch's has the chances of all classes
/// in it, which log_softmax takes off. source: Graves et al. 2006. errors: "scores must be floats [n, t, classes],
/// targets i32 [n, l], frames and labels i32 [n]".
template <value Scores, value Targets, value Frames, value Labels, class Options>
[[nodiscard]] constexpr auto ctc_loss(Scores scores, Targets targets, Frames frames, Labels labels, Options options) {
  MEGANEURA_EXPECT(
      detail::can_ctc(scores.facts(), targets.facts(), frames.facts(), labels.facts(),
                      static_cast<ctc_options>(options).blank),
      "meganeura: ctc_loss<options>(scores, targets, frames, labels): scores must be floats [n, t, "
      "classes], targets i32 [n, l], frames and labels i32 [n], t, l and classes numbers; blank is a class",
      scores, targets, frames, labels)
  return detail::ctc_of(scores, targets, frames, labels, options);
}
template <ctc_options Options = ctc_options{}, value Scores, value Targets, value Frames, value Labels>
[[nodiscard]] constexpr auto ctc_loss(Scores scores, Targets targets, Frames frames, Labels labels) {
  return ctc_loss(scores, targets, frames, labels, c<Options>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
