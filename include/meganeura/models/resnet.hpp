// SPDX-License-Identifier: MIT
// Residual networks for images; parameter names are torchvision's, strides those of its version 1.5.
#pragma once
#include <meganeura/expr/model.hpp>
#include <meganeura/expr/sequential.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/batch_norm.hpp>
#include <meganeura/nn/conv.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/pooling.hpp>
#include <meganeura/ops/reduce.hpp>

namespace meganeura::inline MEGANEURA_ABI::models::resnet {

/// bottleneck: blocks are 1x1, 3x3 and 1x1 of four times as many channels, otherwise 3x3 twice. depths: blocks of each
/// stage. width: channels of the first one, doubled by each that follows. folded: norms are a part of the convolutions
/// before them, which have biases.
struct config {
  bool bottleneck = true;
  int depths[4] = {3, 4, 6, 3};
  int width = 64;
  int classes = 1000;
  bool folded = false;

  [[nodiscard]] constexpr int inner(int stage) const { return width << stage; }
  [[nodiscard]] constexpr int outer(int stage) const { return inner(stage) * (bottleneck ? 4 : 1); }
  friend constexpr bool operator==(const config&, const config&) = default;
};

inline constexpr config resnet18{.bottleneck = false, .depths = {2, 2, 2, 2}};
inline constexpr config resnet34{.bottleneck = false, .depths = {3, 4, 6, 3}};
inline constexpr config resnet50{.depths = {3, 4, 6, 3}};
inline constexpr config resnet101{.depths = {3, 4, 23, 3}};

/// The same with its norms folded: classifier<folded(resnet50)>, whose weights runtime/fold_batch_norms.hpp makes of
/// plain ones.
[[nodiscard]] constexpr config folded(config of) {
  of.folded = true;
  return of;
}

/// A square convolution and its norm.
template <config C, fixed_string Conv, fixed_string Norm, int Out, int Kernel, int Stride = 1>
constexpr auto convolved(value auto x) {
  constexpr conv2d_options options{.kernel = Kernel,
                                   .stride = Stride,
                                   .padding = Kernel / 2,
                                   .bias = C.folded,
                                   .weight = {initial_draw::normal, initial_fan::out, 0, 2}};
  if constexpr (C.folded) {
    return conv2d<Conv, Out, options>(x);
  } else {
    return batch_norm<Norm>(conv2d<Conv, Out, options>(x));
  }
}

/// The first block of a stage halves the image, but for the first stage's, and changes the channels.
template <config C, int Stage, bool First>
struct block {
  static constexpr int stride = First && Stage > 0 ? 2 : 1;

  static constexpr auto forward(value auto x) { return relu(residual(x) + shortcut(x)); }

 private:
  static constexpr auto residual(value auto x) {
    constexpr int inner = C.inner(Stage);
    if constexpr (C.bottleneck) {
      auto a = relu(convolved<C, "conv1", "bn1", inner, 1>(x));
      auto b = relu(convolved<C, "conv2", "bn2", inner, 3, stride>(a));
      return convolved<C, "conv3", "bn3", 4 * inner, 1>(b);
    } else {
      auto a = relu(convolved<C, "conv1", "bn1", inner, 3, stride>(x));
      return convolved<C, "conv2", "bn2", inner, 3>(a);
    }
  }
  static constexpr auto shortcut(value auto x) {
    if constexpr (First && (Stage > 0 || C.bottleneck)) {
      return convolved<C, "downsample.0", "downsample.1", C.outer(Stage), 1, stride>(x);
    } else {
      return x;
    }
  }
};

template <config C, int Stage>
struct stage {
  template <int I>
  using block_at = block<C, Stage, I == 0>;

  static constexpr auto forward(value auto x) { return indexed<"", C.depths[Stage], block_at>(x); }
};

/// image [n, 3, height, width] f32, height and width numbers -> logits [n, classes]. Images of ImageNet are 224 by 224,
/// from 0 to 1, less (0.485, 0.456, 0.406) and divided by (0.229, 0.224, 0.225). Files of torchvision hold
/// "num_batches_tracked" besides: load(path, {.ignore = "*.num_batches_tracked"}). source: arXiv 1512.03385.
template <config C>
struct classifier {
  static constexpr auto forward(value auto image) {
    MEGANEURA_EXPECT((image.facts().shape.rank == 4 && image.facts().shape[1] == 3),
                     "meganeura: resnet::classifier: the image must be [n, 3, height, width]", image) {
      auto stem = relu(convolved<C, "conv1", "bn1", C.width, 7, 2>(image));
      auto x = max_pool2d<pool2d_options{.window = 3, .stride = 2, .padding = 1}>(stem);
      auto y = call<"layer2", stage<C, 1>>(call<"layer1", stage<C, 0>>(x));
      auto z = call<"layer4", stage<C, 3>>(call<"layer3", stage<C, 2>>(y));
      return linear<"fc", C.classes>(mean<-2, -1>(z));
    }
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::models::resnet
