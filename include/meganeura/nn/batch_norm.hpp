// SPDX-License-Identifier: MIT
// Normalisation over the batch, with running statistics.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/custom_gradient.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/state.hpp>
#include <meganeura/ops/view.hpp>
#include <meganeura/ops/when_training.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// Names and defaults are torch.nn.BatchNorm2d's.
struct batch_norm_options {
  float epsilon = 1e-5f;  // added to the variance
  float momentum = 0.1f;  // the share that a step's statistics have in the running ones
  bool affine = true;     // times "weight" and plus "bias"
  friend constexpr bool operator==(const batch_norm_options&, const batch_norm_options&) = default;
};

namespace detail {
constexpr bool is_sound(const batch_norm_options& options) {
  return options.epsilon >= 0 && options.momentum >= 0 && options.momentum <= 1;
}
constexpr bool has_channels(const symbolic_shape& x) { return x.rank >= 2 && x[1].is_static(); }
}  // namespace detail

namespace layers {

/// Parameters "weight" and "bias", if affine, states "running_mean" and "running_var", all [c].
struct batch_norm {
  static constexpr auto forward(value auto x, batch_norm_options options) {
    const symbolic_shape channels = detail::extents_of(x.facts().shape[1]);
    const dtype type = x.facts().type;
    const auto wide = detail::widened(x);
    const auto mean = detail::state_of<"running_mean">(x, channels, dtype::f32, init::zeros);
    const auto variance = detail::state_of<"running_var">(x, channels, dtype::f32, init::ones);
    const auto y = when_training(
        x, [&] { return trained(wide, mean, variance, options); },
        [&] { return standardised(wide - along(mean, wide), variance, options); });
    if (!options.affine) return detail::narrowed(y, x);
    const auto weight = detail::widened(detail::parameter_of<"weight">(x, channels, type, init::ones));
    const auto bias = detail::widened(detail::parameter_of<"bias">(x, channels, type, init::zeros));
    return detail::narrowed(y * along(weight, wide) + along(bias, wide), x);
  }

 private:
  // By the batch's statistics, which the running ones follow. The gradient is written out: both of its sums are of what
  // is there, where that by variance and then by mean would be one after the other.
  static constexpr auto trained(value auto x, value auto running_mean, value auto running_variance,
                                batch_norm_options options) {
    const auto share = x.added(detail::describe_share_of(x.facts(), others(x)), &x, 1);  // 1 / n
    const auto mean = sum_of_others(x) * share;
    const auto centred = x - along(mean, x);
    const auto variance = sum_of_others(centred * centred) * share;
    const auto unbiased = variance / maximum(1.0f - share, 1e-30f);  // n / (n - 1); 0 if there is one value
    const double momentum = static_cast<double>(options.momentum);
    const auto moved = [&](auto running, auto now) { return running * (1 - momentum) + now * momentum; };
    const auto scale = along(rsqrt(variance + options.epsilon), x);
    const auto mean_of = [&](value auto each) { return along(sum_of_others(each) * share, x); };
    return custom_gradient(
               [&](value auto) { return centred * scale; },
               [&](value auto g, value auto y, value auto) { return (g - mean_of(g) - y * mean_of(g * y)) * scale; },
               x) |
           assign(running_mean, moved(running_mean, mean)) |
           assign(running_variance, moved(running_variance, unbiased));
  }

  static constexpr auto standardised(value auto centred, value auto variance, batch_norm_options options) {
    return centred * along(rsqrt(variance + options.epsilon), centred);
  }

  static constexpr auto along(value auto channels, value auto x) { return detail::beside_axis(channels, x, 1); }

  // All axes but that of the channels, as bits.
  static constexpr int others(value auto x) { return ((1 << x.facts().shape.rank) - 1) & ~2; }
  static constexpr auto sum_of_others(value auto x) {
    return x.added(detail::describe_reduce_of(x.facts(), reduce_kind::sum, others(x)), &x, 1);
  }
};

}  // namespace layers

/// As torch.nn.BatchNorm: (x - mean) / sqrt(variance + epsilon) weight + bias, each channel by itself. Training, mean
/// and (biased) variance are the batch's, and the running ones move towards it by the momentum, the variance being
/// unbiased there (of one value a channel, which PyTorch refuses, it is 0); evaluating, the running ones are used.
/// batch_norm<"bn">(x), or batch_norm("bn", x) at run time. shapes: [n, c, ..], unchanged. dtypes: floats, computed in
/// f32; the running ones are f32. gradient: through the batch's mean and variance. source: arXiv 1502.03167. Other
/// programs' files may hold "num_batches_tracked" besides: tell load to ignore "*.num_batches_tracked". errors: "x must
/// be [n, c, ..] with c a number", "x must be floats", "epsilon must be at least 0".
template <detail::name_like Name, value A, class Options = fixed<batch_norm_options{}>>
[[nodiscard]] constexpr auto batch_norm(const Name& name, A x, Options options = {}) {
  MEGANEURA_EXPECT(detail::has_channels(x.facts().shape),
                   "meganeura: batch_norm<name>(x): x must be [n, c, ..] with c a number, not a symbol", name, x)
  MEGANEURA_EXPECT_FLOATS("batch_norm<name>(x)", x, name)
  MEGANEURA_EXPECT(detail::is_sound(options),
                   "meganeura: batch_norm<name>(x): epsilon must be at least 0, and momentum from 0 to 1", name, x)
  return detail::layer<layers::batch_norm>(name, x, options);
}
template <fixed_string Name, batch_norm_options Options = batch_norm_options{}, value A>
[[nodiscard]] constexpr auto batch_norm(A x) {
  return batch_norm(fixed_text<Name>{}, x, c<Options>);
}
MEGANEURA_UNNAMED(batch_norm, "batch_norm<name>(x)")

}  // namespace meganeura::inline MEGANEURA_ABI
