// SPDX-License-Identifier: MIT
// Recurrent layers over sequences of a known length, and their cells, under PyTorch's names.
#pragma once
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/dropout.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/operands.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// hidden: elements of a state, at least 1. layers: one behind the other, 1 to 10. bias: of both products of a step.
/// bidirectional: beside each layer a second one from the end, whose results follow. dropout: of what a layer gives to
/// the next one, in training; one layer has none.
struct recurrent_options {
  int hidden, layers = 1;
  bool bias = true, bidirectional = false;
  float dropout = 0;
  friend constexpr bool operator==(const recurrent_options&, const recurrent_options&) = default;
};

/// How many steps of each sequence there are; those behind are padding, whatever they hold. shapes: [n], i32. More than
/// there are is all of them, fewer than 0 none; the option `checks` names both.
template <value L>
struct sequence_lengths {
  using operand_tag = void;
  L operand;
  constexpr explicit sequence_lengths(L lengths) : operand(lengths) {}
};

namespace detail {

template <class T>
inline constexpr bool are_lengths = false;
template <class L>
inline constexpr bool are_lengths<sequence_lengths<L>> = true;
template <class T>
concept lengths_operand = are_lengths<T>;

template <fixed_string A, fixed_string B>
consteval auto joined_text() {
  char text[sizeof(A.text) + sizeof(B.text) - 1]{};
  for (std::size_t i = 0; i + 1 < sizeof(A.text); ++i) text[i] = A.text[i];
  for (std::size_t i = 0; i < sizeof(B.text); ++i) text[i + sizeof(A.text) - 1] = B.text[i];
  return fixed_string(text);
}
// "_l0", "_l0_reverse"
template <int Layer, bool Reverse>
consteval auto layer_suffix() {
  constexpr char digit[] = {'_', 'l', static_cast<char>('0' + Layer), '\0'};
  if constexpr (Reverse) {
    return joined_text<fixed_string(digit), "_reverse">();
  } else {
    return fixed_string(digit);
  }
}

// x W^T + b of all gates, or without b.
template <fixed_string Suffix>
struct recurrent_gates {
  static constexpr auto forward(value auto x, std::int64_t gates, std::int64_t hidden, bool bias) {
    const initializer begin = bias_of(init::fan_in_uniform, hidden);
    const symbolic_shape filter = extents_of(gates * hidden, x.facts().shape.last());
    const auto weight = parameter_of<joined_text<"weight_ih", Suffix>()>(x, filter, dtype::f32, begin);
    const auto product = make<describe_linear>(x, weight);
    if (!bias) return product;
    return product + parameter_of<joined_text<"bias_ih", Suffix>()>(x, extents_of(gates * hidden), dtype::f32, begin);
  }
};
// The matrix for a state, and its bias, or zeros.
template <fixed_string Suffix>
struct recurrent_weight {
  static constexpr auto forward(value auto x, std::int64_t gates, std::int64_t hidden) {
    return parameter_of<joined_text<"weight_hh", Suffix>()>(x, extents_of(gates * hidden, hidden), dtype::f32,
                                                            bias_of(init::fan_in_uniform, hidden));
  }
};
template <fixed_string Suffix>
struct recurrent_bias {
  static constexpr auto forward(value auto x, std::int64_t gates, std::int64_t hidden, bool bias) {
    const symbolic_shape shape = extents_of(gates * hidden);
    if (!bias) return expand(number_of(x, 0.0), shape);
    return parameter_of<joined_text<"bias_hh", Suffix>()>(x, shape, dtype::f32, bias_of(init::fan_in_uniform, hidden));
  }
};
struct recurrent_zeros {
  static constexpr auto forward(value auto x, std::int64_t hidden) {
    return expand(number_of(x, 0.0), extents_of(x.facts().shape[0], hidden));
  }
};

// A step of each kind: of its gates [n, gates hidden], the state h [n, hidden], what else it has (a second state, or
// the bias of the gates that h makes) and the matrix [gates hidden, hidden]; h and the second one again.
struct rnn_step {
  static constexpr int gates = 1;
  static constexpr bool has_cell = false;
  template <int Hidden>
  static constexpr auto forward(value auto x, value auto h, value auto bias, value auto weight) {
    return results<"h", "s">(tanh(x + (tied_linear(h, weight) + bias)), bias);
  }
};
struct gru_step {
  static constexpr int gates = 3;
  static constexpr bool has_cell = false;
  template <int Hidden>
  static constexpr auto forward(value auto x, value auto h, value auto bias, value auto weight) {
    auto u = tied_linear(h, weight) + bias;
    auto reset = sigmoid(slice<-1, 0, Hidden>(x) + slice<-1, 0, Hidden>(u));
    auto update = sigmoid(slice<-1, Hidden, Hidden>(x) + slice<-1, Hidden, Hidden>(u));
    auto fresh = tanh(slice<-1, 2 * Hidden, Hidden>(x) + reset * slice<-1, 2 * Hidden, Hidden>(u));
    return results<"h", "s">(fresh + update * (h - fresh), bias);
  }
};
struct lstm_step {
  static constexpr int gates = 4;
  static constexpr bool has_cell = true;
  template <int Hidden>
  static constexpr auto forward(value auto x, value auto h, value auto cell, value auto weight) {
    auto z = x + tied_linear(h, weight);
    auto kept = sigmoid(slice<-1, Hidden, Hidden>(z)) * cell;
    auto next = kept + sigmoid(slice<-1, 0, Hidden>(z)) * tanh(slice<-1, 2 * Hidden, Hidden>(z));
    return results<"h", "s">(sigmoid(slice<-1, 3 * Hidden, Hidden>(z)) * tanh(next), next);
  }
};
// Of gates with a column behind them: 1 within a sequence, and 0 behind its end, where states stay as they are.
template <class Step>
struct padded_step : Step {
  template <int Hidden>
  static constexpr auto forward(value auto x, value auto h, value auto second, value auto weight) {
    constexpr int gates = Step::gates * Hidden;
    auto [now, other] = Step::template forward<Hidden>(slice<-1, 0, gates>(x), h, second, weight);
    auto within = less(constant<0.0f>, slice<-1, gates, 1>(x));
    if constexpr (Step::has_cell) {
      return results<"h", "s">(select(within, now, h), select(within, other, second));
    } else {
      return results<"h", "s">(select(within, now, h), other);
    }
  }
};
// `Count` steps as two halves, so that no body is long: x [n, count, gates hidden] to y [n, count, hidden] and states.
template <class Step, int Hidden, std::int64_t Count>
struct recurrent_steps {
  static constexpr auto forward(value auto x, value auto h, value auto second, value auto weight) {
    if constexpr (Count == 1) {
      auto [now, other] = Step::template forward<Hidden>(flatten<0, 1>(x), h, second, weight);
      return results<"y", "h", "s">(unsqueeze<1>(now), now, other);
    } else {
      constexpr int first = static_cast<int>(Count / 2), rest = static_cast<int>(Count) - first;
      auto [y, a, b] = call<"", recurrent_steps<Step, Hidden, first>>(slice<1, 0, first>(x), h, second, weight);
      auto [z, d, e] = call<"", recurrent_steps<Step, Hidden, rest>>(slice<1, first, rest>(x), a, b, weight);
      return results<"y", "h", "s">(concat<1>(y, z), d, e);
    }
  }
};

// The same of values of run time.
template <class Value>
struct recurrent_state {
  Value y, h, second;
};
template <class Step, int Hidden, class Value>
recurrent_state<Value> run_steps(Value x, Value h, Value second, Value weight, std::int64_t count) {
  if (count == 1) {
    auto [y, now, other] = recurrent_steps<Step, Hidden, 1>::forward(x, h, second, weight);
    return {y, now, other};
  }
  const std::int64_t first = count / 2, rest = count - first;
  const auto a = run_steps<Step, Hidden>(slice(x, 1, 0, first), h, second, weight, first);
  const auto b = run_steps<Step, Hidden>(slice(x, 1, first, rest), a.h, a.second, weight, rest);
  return {concat(1, a.y, b.y), b.h, b.second};
}

constexpr bool can_recur(const facts& x) {
  return x.shape.rank == 3 && x.shape[1].is_static() && x.shape[2].is_static() && x.type == dtype::f32;
}

// All results, over the sequence, and the last states.
template <class Step, recurrent_options O, value X, value H, value S, value W>
constexpr auto recurrent_run(X x, H h, S second, W weight) {
  if constexpr (all_typed<X>::value) {
    return call<"", recurrent_steps<Step, O.hidden, X::facts().shape[1].coefficient>>(x, h, second, weight);
  } else {
    const auto state = run_steps<Step, O.hidden>(x, h, second, weight, x.facts().shape[1].coefficient);
    return results<"y", "h", "s">(state.y, state.h, state.second);
  }
}

// What a kind does with the gates of x: all steps of a sequence, or one.
template <class Step, recurrent_options O, fixed_string Suffix, value A, value H, value C, class Run>
constexpr auto recurrent_by(A x, H h, C cell, const Run& run) {
  constexpr fixed<std::int64_t{Step::gates}> gates{};
  constexpr fixed<std::int64_t{O.hidden}> hidden{};
  const auto own = layer<recurrent_gates<Suffix>>(fixed_text<"">{}, x, gates, hidden, c<O.bias>);
  const auto weight = layer<recurrent_weight<Suffix>>(fixed_text<"">{}, x, gates, hidden);
  const auto bias = layer<recurrent_bias<Suffix>>(fixed_text<"">{}, x, gates, hidden, c<O.bias>);
  if constexpr (Step::has_cell) {
    return run(own + bias, h, cell, weight);
  } else {
    return run(own, h, bias, weight);
  }
}

// States to begin with, by their place among those of layers and directions.
template <recurrent_options O>
struct zero_states {
  static constexpr bool given = false;
  template <int Index>
  static constexpr auto h(value auto x) {
    return layer<recurrent_zeros>(fixed_text<"">{}, x, fixed<std::int64_t{O.hidden}>{});
  }
  template <int Index>
  static constexpr auto cell(value auto x) {
    return h<Index>(x);
  }
};
template <value H, value C>
struct given_states {
  static constexpr bool given = true;
  H all;
  C cells;
  template <int Index>
  constexpr auto h(value auto) const {
    return flatten<0, 1>(slice<0, Index, 1>(all));
  }
  template <int Index>
  constexpr auto cell(value auto) const {
    return flatten<0, 1>(slice<0, Index, 1>(cells));
  }
};

// 1 for each step [n, t, 1] within its sequence, and otherwise 0.
struct steps_within {
  static constexpr auto forward(value auto x, value auto given) {
    const std::int64_t steps = x.facts().shape[1].coefficient;
    const auto lengths = x.added(describe_indices(given.facts(), index_use::step_count, steps + 1), &given, 1);
    const auto sees =
        less(coordinates_of(x, extents_of(steps, 1), 0), reshape(lengths, followed_by_ones(given.facts().shape, 3)));
    return select(sees, number_of(x, 1.0), 0.0);
  }
};
struct steps_kept {
  static constexpr auto forward(value auto x, value auto within) { return select(less(0.0, within), x, 0.0); }
};

// Sequences that end together, and those that do not.
struct whole_sequences {
  template <class Step>
  using step = Step;
  static constexpr auto gates(value auto x, auto) { return x; }
  static constexpr auto kept(value auto x) { return x; }
};
template <value W>
struct padded_sequences {
  W within;
  template <class Step>
  using step = padded_step<Step>;
  template <class Reverse>
  constexpr auto gates(value auto x, Reverse) const {
    if constexpr (Reverse::value) {
      return concat<-1>(x, flip<1>(within));
    } else {
      return concat<-1>(x, within);
    }
  }
  constexpr auto kept(value auto x) const { return layer<steps_kept>(fixed_text<"">{}, x, within); }
};
template <value A>
constexpr whole_sequences sequences_of(A) {
  return {};
}
template <value A, value L>
constexpr auto sequences_of(A x, sequence_lengths<L> lengths) {
  const auto within = layer<steps_within>(fixed_text<"">{}, x, lengths.operand);
  return padded_sequences<std::remove_cv_t<decltype(within)>>{within};
}

// One direction of one layer.
template <class Step, recurrent_options O, int Layer, bool Reverse, value A, class Begin, class Sequences>
constexpr auto recurrent_pass(A x, const Begin& begin, const Sequences& sequences) {
  constexpr int index = O.bidirectional ? 2 * Layer + (Reverse ? 1 : 0) : Layer;
  return recurrent_by<Step, O, layer_suffix<Layer, Reverse>()>(
      x, begin.template h<index>(x), begin.template cell<index>(x), [&](auto gates, auto h, auto second, auto weight) {
        return recurrent_run<typename Sequences::template step<Step>, O>(sequences.gates(gates, c<Reverse>), h, second,
                                                                         weight);
      });
}

// What layer `Layer` gives to the next one.
template <recurrent_options O, int Layer>
constexpr auto handed_on(value auto y) {
  if constexpr (O.dropout == 0 || Layer + 1 == O.layers) {
    return y;
  } else {
    return dropout<joined_text<"dropout", layer_suffix<Layer, false>()>(), number(O.dropout)>(y);
  }
}

template <int Which, class... Ends>
constexpr auto last_states(const Ends&... ends) {
  if constexpr (sizeof...(Ends) == 1) {
    return (unsqueeze<0>(ends.template get<Which>()), ...);
  } else {
    return concat<0>(unsqueeze<0>(ends.template get<Which>())...);
  }
}

template <class Step, recurrent_options O, int Layer = 0, value A, class Begin, class Sequences, class... Ends>
constexpr auto recurrent_layers(A x, const Begin& begin, const Sequences& sequences, const Ends&... ends) {
  if constexpr (Layer == O.layers && !Begin::given) {
    return x;
  } else if constexpr (Layer == O.layers && Step::has_cell) {
    return results<"output", "h_n", "c_n">(x, last_states<1>(ends...), last_states<2>(ends...));
  } else if constexpr (Layer == O.layers) {
    return results<"output", "h_n">(x, last_states<1>(ends...));
  } else {
    const auto there = recurrent_pass<Step, O, Layer, false>(x, begin, sequences);
    const auto y = there.template get<0>();
    if constexpr (O.bidirectional) {
      const auto back = recurrent_pass<Step, O, Layer, true>(flip<1>(x), begin, sequences);
      const auto both = sequences.kept(concat<-1>(y, flip<1>(back.template get<0>())));
      return recurrent_layers<Step, O, Layer + 1>(handed_on<O, Layer>(both), begin, sequences, ends..., there, back);
    } else {
      return recurrent_layers<Step, O, Layer + 1>(handed_on<O, Layer>(sequences.kept(y)), begin, sequences, ends...,
                                                  there);
    }
  }
}

template <recurrent_options O>
constexpr bool are_states(const facts& x, const facts& h) {
  return h.type == dtype::f32 && h.shape == extents_of(O.layers * (O.bidirectional ? 2 : 1), x.shape[0], O.hidden);
}

constexpr bool fit_sequences(const facts&) { return true; }
template <value L>
constexpr bool fit_sequences(const facts& x, const sequence_lengths<L>& lengths) {
  return lengths.operand.facts().type == dtype::i32 && lengths.operand.facts().shape == extents_of(x.shape[0]);
}

template <class Step, recurrent_options O>
struct recurrent {
  static constexpr auto forward(value auto x, lengths_operand auto... lengths) {
    MEGANEURA_EXPECT(can_recur(x.facts()),
                     "meganeura: call<name, lstm<options>>(x): x must be f32 [n, t, width], t and width numbers", x)
    return begun(x, zero_states<O>{}, lengths...);
  }
  static constexpr auto forward(value auto x, value auto h, lengths_operand auto... lengths) requires(!Step::has_cell) {
    return from(x, h, h, lengths...);
  }
  static constexpr auto forward(value auto x, value auto h, value auto cell,
                                lengths_operand auto... lengths) requires(Step::has_cell) {
    return from(x, h, cell, lengths...);
  }

 private:
  template <value X, value H, value C, class... Lengths>
  static constexpr auto from(X x, H h, C cell, Lengths... lengths) {
    MEGANEURA_EXPECT(can_recur(x.facts()),
                     "meganeura: call<name, lstm<options>>(x, h, c): x must be f32 [n, t, width], t and width numbers",
                     x, h, cell)
    MEGANEURA_EXPECT(
        (are_states<O>(x.facts(), h.facts()) && are_states<O>(x.facts(), cell.facts())),
        "meganeura: call<name, lstm<options>>(x, h, c): h and c must be f32 [layers directions, n, hidden]", x, h, cell)
    return begun(x, given_states<H, C>{h, cell}, lengths...);
  }
  template <value X, class Begin, class... Lengths>
  static constexpr auto begun(X x, const Begin& begin, Lengths... lengths) {
    constexpr bool is_sound = O.layers >= 1 && O.layers <= 10 && O.hidden >= 1;
    static_assert(is_sound, "meganeura: rnn, gru or lstm<options>: hidden is at least 1, and layers 1 to 10");
    if constexpr (is_sound) {
      static_assert(sizeof...(lengths) <= 1,
                    "meganeura: call<name, lstm<options>>(x, sequence_lengths(n)): n is given once");
      MEGANEURA_EXPECT(
          fit_sequences(x.facts(), lengths...),
          "meganeura: call<name, lstm<options>>(x, sequence_lengths(n)): n must be i32, one for each sequence", x,
          lengths.operand...)
      MEGANEURA_EXPECT(is_probability(O.dropout), "meganeura: call<name, lstm<options>>(x): dropout is from 0 to 1", x)
      return run(x, begin, sequences_of(x, lengths...));
    } else {
      return x;
    }
  }
  static constexpr auto run(value auto x, const auto& begin, const auto& sequences) {
    return recurrent_layers<Step, O>(sequences.kept(x), begin, sequences);
  }
};

template <class Step, recurrent_options O>
struct recurrent_cell {
  static constexpr auto forward(value auto x, value auto h) requires(!Step::has_cell) {
    return stepped(x, h, h).template get<0>();
  }
  static constexpr auto forward(value auto x, value auto h, value auto cell) requires(Step::has_cell) {
    const auto next = stepped(x, h, cell);
    return results<"h", "c">(next.template get<0>(), next.template get<1>());
  }

 private:
  static constexpr bool fits(const facts& x, const facts& h) {
    return x.shape.rank == 2 && x.shape[1].is_static() && x.type == dtype::f32 && h.type == dtype::f32 &&
           h.shape == extents_of(x.shape[0], O.hidden);
  }
  static constexpr auto stepped(value auto x, value auto h, value auto cell) {
    MEGANEURA_CHECK((fits(x.facts(), h.facts()) && fits(x.facts(), cell.facts())),
                    (holds_of < fits(x.facts(), h.facts()) && fits(x.facts(), cell.facts()) >),
                    "meganeura: call<name, lstm_cell<options>>(x, h, c): x must be f32 [n, width], h and c f32 [n, "
                    "hidden], width a number",
                    x, h, cell)
    return recurrent_by<Step, O, "">(x, h, cell, [](auto gates, auto state, auto second, auto weight) {
      return Step::template forward<O.hidden>(gates, state, second, weight);
    });
  }
};

}  // namespace detail

/// torch.nn.LSTM with batch_first, a module: call<"lstm", lstm<recurrent_options{.hidden = 64}>>(x), from states of
/// zeros on, is PyTorch's `output`; auto [output, h_n, c_n] = call<"lstm", lstm<..>>(x, h_0, c_0) begins with states
/// and gives the last ones. Behind these may stand sequence_lengths(n), as with PyTorch's packed sequences: the output
/// behind a sequence's end is zeros, its last states are those at its end, and the other direction begins there; of a
/// sequence of 0 steps they are the first ones. Parameters "weight_ih_l0" [4 hidden, width], "weight_hh_l0" [4 hidden,
/// hidden], "bias_ih_l0", "bias_hh_l0", those of the other direction end in "_reverse". Steps are written out:
/// sequences are to be short, tens of steps. shapes: [n, t, width] -> [n, t, hidden], twice as wide if bidirectional;
/// states [layers directions, n, hidden]. dtypes: f32. errors: "x must be f32 [n, t, width], t and width numbers", "h
/// and c must be f32 [layers directions, n, hidden]", "n must be i32, one for each sequence", "hidden is at least 1,
/// and layers 1 to 10", "dropout is from 0 to 1".
template <recurrent_options O>
struct lstm : detail::recurrent<detail::lstm_step, O> {};

/// torch.nn.GRU, as lstm, with three gates and one state.
template <recurrent_options O>
struct gru : detail::recurrent<detail::gru_step, O> {};

/// torch.nn.RNN of tanh, as lstm, with one gate and one state.
template <recurrent_options O>
struct rnn : detail::recurrent<detail::rnn_step, O> {};

/// torch.nn.LSTMCell, one step: auto [h, c] = call<"cell", lstm_cell<recurrent_options{.hidden = 64}>>(x, h_0, c_0).
/// Parameters "weight_ih" [4 hidden, width], "weight_hh" [4 hidden, hidden], "bias_ih", "bias_hh". shapes: x [n,
/// width], states [n, hidden]. dtypes: f32. errors: "x must be f32 [n, width], h and c f32 [n, hidden]".
template <recurrent_options O>
struct lstm_cell : detail::recurrent_cell<detail::lstm_step, O> {};

/// torch.nn.GRUCell, as lstm_cell: h = call<"cell", gru_cell<options>>(x, h_0).
template <recurrent_options O>
struct gru_cell : detail::recurrent_cell<detail::gru_step, O> {};

/// torch.nn.RNNCell of tanh, as gru_cell.
template <recurrent_options O>
struct rnn_cell : detail::recurrent_cell<detail::rnn_step, O> {};

}  // namespace meganeura::inline MEGANEURA_ABI
