// SPDX-License-Identifier: MIT
// Small layers around others: low-rank adaptation, squeeze and excite, bilinear forms, dropout of channels.
#pragma once
#include <meganeura/core/constexpr_math.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/conv.hpp>
#include <meganeura/nn/dropout.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/ops/reduce.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// What is added is alpha / rank times a product of two thin matrices, [out, rank] and [rank, in]: so divided that
/// another rank hardly asks for another learning rate. bias: of the linear layer.
struct lora_options {
  int rank = 8;
  float alpha = 16;
  bool bias = true;
  friend constexpr bool operator==(const lora_options&, const lora_options&) = default;
};

namespace layers {

/// linear's parameters, "lora_A" [rank, in] and "lora_B" [out, rank], which begins as zeros.
struct lora_linear {
  static constexpr auto forward(value auto x, std::int64_t out, lora_options options) {
    const detail::facts in = x.facts();
    const auto down = detail::parameter_of<"lora_A">(x, detail::extents_of(options.rank, in.shape.last()), in.type,
                                                     init::fan_in_uniform);
    const auto up = detail::parameter_of<"lora_B">(x, detail::extents_of(out, options.rank), in.type, init::zeros);
    const auto thin = detail::make<detail::describe_linear>(detail::make<detail::describe_linear>(x, down), up);
    return linear::forward(x, out, linear_options{.bias = options.bias}) +
           thin * (static_cast<double>(options.alpha) / options.rank);
  }
};

/// Parameters "fc1.weight" [squeezed, c, 1, 1], "fc1.bias", "fc2.weight" [c, squeezed, 1, 1] and "fc2.bias".
struct squeeze_excite {
  static constexpr auto forward(value auto x, std::int64_t squeezed) {
    const std::int64_t channels = x.facts().shape[1].coefficient;
    const auto all = unsqueeze(unsqueeze(mean(x, -1, -2), -1), -1);
    const auto few = relu(mixed<"fc1.weight", "fc1.bias">(all, squeezed));
    return x * detail::narrowed(sigmoid::forward(mixed<"fc2.weight", "fc2.bias">(few, channels)), x);
  }

 private:
  template <fixed_string Weight, fixed_string Bias>
  static constexpr auto mixed(value auto x, std::int64_t out) {
    const std::int64_t in = x.facts().shape[1].coefficient;
    const dtype type = x.facts().type;
    const auto weight = detail::parameter_of<Weight>(x, detail::extents_of(out, in, 1, 1), type, init::fan_in_uniform);
    const auto bias =
        detail::parameter_of<Bias>(x, detail::extents_of(out), type, detail::bias_of(init::fan_in_uniform, in));
    return convolution(x, weight, conv_options{.kernel = 1}) + reshape(bias, detail::extents_of(out, 1, 1));
  }
};

/// Parameters "weight" [out, a's width, b's width] and "bias" [out].
struct bilinear {
  static constexpr auto forward(value auto a, value auto b, std::int64_t out, bool with_bias) {
    const std::int64_t rows = a.facts().shape.last().coefficient, columns = b.facts().shape.last().coefficient;
    const initializer begin = detail::bias_of(init::fan_in_uniform, rows);
    const dtype type = a.facts().type;
    const auto weight = detail::parameter_of<"weight">(a, detail::extents_of(out, rows, columns), type, begin);
    const auto flat = reshape(permute(weight, 0, 2, 1), detail::extents_of(out * columns, rows));
    const auto turned = split_heads(detail::make<detail::describe_linear>(a, flat), out);
    const auto product = detail::narrowed(sum(detail::widened(turned) * detail::widened(unsqueeze(b, -2)), -1), a);
    if (!with_bias) return product;
    return product + detail::parameter_of<"bias">(a, detail::extents_of(out), type, begin);
  }
};

/// A stream of random numbers "mask", one for each channel.
struct channel_dropout {
  static constexpr auto forward(value auto x, detail::number p) {
    return detail::dropped(x, p, [&] {
      const symbolic_shape shape = x.facts().shape,
                           channels = detail::followed_by_ones(detail::extents_of(shape[0], shape[1]), shape.rank);
      const auto drawn = detail::random_of<"mask">(x, channels);
      return detail::narrowed(select(less(drawn, p.value), 0.0, detail::widened(x) * (1 / (1 - p.value))), x);
    });
  }
};

/// A stream of random numbers "mask".
struct alpha_dropout {
  static constexpr auto forward(value auto x, detail::number p) {
    return detail::dropped(x, p, [&] {
      constexpr double end = -1.7580993408473766;  // of selu, far to the left
      const double share = p.value, scale = 1 / detail::square_root((end * end * share + 1) * (1 - share));
      const auto drawn = detail::random_of<"mask">(x, x.facts().shape);
      const auto mixed = select(less(drawn, share), end, detail::widened(x));
      return detail::narrowed(mixed * scale - end * scale * share, x);
    });
  }
};

}  // namespace layers

/// linear and what a low rank adds to it: lora_linear<"fc", out>(x). Its weight and bias are linear's, so that files of
/// a linear model load into them; a trainer freezes them by name, {.frozen = {"*.weight", "*.bias"}}.
/// shapes: [.., in] -> [.., out]. source: arXiv 2106.09685; names are loralib's.
template <detail::name_like Name, value A, class Out, class Options = fixed<lora_options{}>>
[[nodiscard]] constexpr auto lora_linear(const Name& name, A x, Out out, Options options = {}) {
  MEGANEURA_EXPECT(detail::has_last_extent(x.facts().shape),
                   "meganeura: lora_linear<name, out>(x): x needs a last extent that is a number, not a symbol", name,
                   x)
  MEGANEURA_EXPECT_FLOATS("lora_linear<name, out>(x)", x, name)
  MEGANEURA_EXPECT((out >= 1 && lora_options(options).rank >= 1 && lora_options(options).alpha >= 0),
                   "meganeura: lora_linear<name, out>(x): out and rank are at least 1, and alpha at least 0", name, x)
  return detail::layer<layers::lora_linear>(name, x, out, options);
}
template <fixed_string Name, std::int64_t Out, lora_options Options = lora_options{}, value A>
[[nodiscard]] constexpr auto lora_linear(A x) {
  return lora_linear(fixed_text<Name>{}, x, c<Out>, c<Options>);
}
MEGANEURA_UNNAMED(lora_linear, "lora_linear<name, out>(x)")

/// x times a share for each channel, which two products make of the channels' means: squeeze_excite<"se", squeezed>(x).
/// torchvision.ops.SqueezeExcitation. shapes: [n, c, h, w], unchanged. source: arXiv 1709.01507.
template <detail::name_like Name, value A, class Squeezed>
[[nodiscard]] constexpr auto squeeze_excite(const Name& name, A x, Squeezed squeezed) {
  MEGANEURA_EXPECT((x.facts().shape.rank == 4 && x.facts().shape[1].is_static() && squeezed >= 1),
                   "meganeura: squeeze_excite<name, squeezed>(x): x must be [n, c, h, w] with c a number, squeezed at "
                   "least 1",
                   name, x)
  MEGANEURA_EXPECT_FLOATS("squeeze_excite<name, squeezed>(x)", x, name)
  return detail::layer<layers::squeeze_excite>(name, x, squeezed);
}
template <fixed_string Name, std::int64_t Squeezed, value A>
[[nodiscard]] constexpr auto squeeze_excite(A x) {
  return squeeze_excite(fixed_text<Name>{}, x, c<Squeezed>);
}
MEGANEURA_UNNAMED(squeeze_excite, "squeeze_excite<name, squeezed>(x)")

/// a^T W b for each of `out` matrices, plus a bias: bilinear<"form", out>(a, b). torch.nn.Bilinear.
/// shapes: a [.., i], b [.., j] -> [.., out].
template <detail::name_like Name, value A, value B, class Out, class WithBias = fixed<true>>
[[nodiscard]] constexpr auto bilinear(const Name& name, A a, B b, Out out, WithBias with_bias = {}) {
  MEGANEURA_EXPECT((detail::has_last_extent(a.facts().shape) && detail::has_last_extent(b.facts().shape) && out >= 1 &&
                    detail::reduced_shape(a.facts().shape, 1u << (a.facts().shape.rank - 1)) ==
                        detail::reduced_shape(b.facts().shape, 1u << (b.facts().shape.rank - 1))),
                   "meganeura: bilinear<name, out>(a, b): a and b must be rows [.., i] and [.., j], as many, i and j "
                   "numbers",
                   name, a, b)
  MEGANEURA_EXPECT(detail::floats_of_one_type(a.facts(), b.facts()),
                   "meganeura: bilinear<name, out>(a, b): both must be floats of one dtype; cast them", name, a, b)
  return detail::layer<layers::bilinear>(name, a, b, out, with_bias);
}
template <fixed_string Name, std::int64_t Out, bool WithBias = true, value A, value B>
[[nodiscard]] constexpr auto bilinear(A a, B b) {
  return bilinear(fixed_text<Name>{}, a, b, c<Out>, c<WithBias>);
}
MEGANEURA_UNNAMED(bilinear, "bilinear<name, out>(a, b)")

/// dropout of whole channels. torch.nn.Dropout1d to 3d. shapes: [n, c, ..], unchanged. source: arXiv 1411.4280.
template <detail::name_like Name, value A, class P>
[[nodiscard]] constexpr auto channel_dropout(const Name& name, A x, P p) {
  MEGANEURA_EXPECT(detail::is_probability(p), "meganeura: channel_dropout<name, p>(x): p must be from 0 to 1", name, x)
  MEGANEURA_EXPECT(x.facts().shape.rank >= 2, "meganeura: channel_dropout<name, p>(x): x must be [n, c, ..]", name, x)
  MEGANEURA_EXPECT_FLOATS("channel_dropout<name, p>(x)", x, name)
  return detail::layer<layers::channel_dropout>(name, x, p);
}
template <fixed_string Name, detail::number P, value A>
[[nodiscard]] constexpr auto channel_dropout(A x) {
  return channel_dropout(fixed_text<Name>{}, x, c<P>);
}
MEGANEURA_UNNAMED(channel_dropout, "channel_dropout<name, p>(x)")

/// dropout beside selu: what is dropped becomes selu's lower end, and mean and variance stay 0 and 1.
/// torch.nn.AlphaDropout. shapes: unchanged. source: arXiv 1706.02515.
template <detail::name_like Name, value A, class P>
[[nodiscard]] constexpr auto alpha_dropout(const Name& name, A x, P p) {
  MEGANEURA_EXPECT(detail::is_probability(p), "meganeura: alpha_dropout<name, p>(x): p must be from 0 to 1", name, x)
  MEGANEURA_EXPECT_FLOATS("alpha_dropout<name, p>(x)", x, name)
  return detail::layer<layers::alpha_dropout>(name, x, p);
}
template <fixed_string Name, detail::number P, value A>
[[nodiscard]] constexpr auto alpha_dropout(A x) {
  return alpha_dropout(fixed_text<Name>{}, x, c<P>);
}
MEGANEURA_UNNAMED(alpha_dropout, "alpha_dropout<name, p>(x)")

}  // namespace meganeura::inline MEGANEURA_ABI
