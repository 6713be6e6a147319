// SPDX-License-Identifier: MIT
// The vision transformer, which reads an image in patches; parameter names are torchvision's.
#pragma once
#include <meganeura/expr/model.hpp>
#include <meganeura/expr/sequential.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/conv.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/multi_head_attention.hpp>
#include <meganeura/nn/norm.hpp>
#include <meganeura/ops/diagonal.hpp>
#include <meganeura/ops/rearrange.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI::models::vit {

/// side: of the image and of a patch, in pixels.
struct config {
  int layers = 12, width = 768, heads = 12, hidden = 3072;
  int side = 224, patch = 16, classes = 1000;

  [[nodiscard]] constexpr int patches() const { return (side / patch) * (side / patch); }
  friend constexpr bool operator==(const config&, const config&) = default;
};

inline constexpr config vit_b_16{}, vit_b_32{.patch = 32},
    vit_l_16{.layers = 24, .width = 1024, .heads = 16, .hidden = 4096};

inline constexpr norm_options norm{.epsilon = 1e-6f};

template <config C>
struct block {
  static constexpr auto forward(value auto x) {
    auto h = x + multi_head_attention<"self_attention", C.heads>(layer_norm<"ln_1", norm>(x));
    auto hidden = gelu(linear<"mlp.0", C.hidden>(layer_norm<"ln_2", norm>(h)));
    return h + linear<"mlp.3", C.width>(hidden);
  }
};

/// Layers are called "encoder_layer_0" and so on, without a dot.
template <config C, int Layer = 0>
struct layers_from {
  static constexpr auto forward(value auto x) {
    if constexpr (Layer == C.layers) {
      return x;
    } else {
      return layers_from<C, Layer + 1>::forward(call<numbered<"encoder_layer", Layer, '_'>, block<C>>(x));
    }
  }
};

template <config C>
struct encoder {
  static constexpr auto forward(value auto x) {
    auto placed = x + parameter<"pos_embedding", dims<1, C.patches() + 1, C.width>, init::normal(0, 0.02)>;
    return layer_norm<"ln", norm>(call<"layers", layers_from<C>>(placed));
  }
};

/// image [n, 3, side, side] f32, scaled as resnet::classifier's -> logits [n, classes]. Files that torchvision
/// published name layers otherwise: {.rename = {{"*.mlp.0.*", "*.mlp.linear_1.*"}, {"*.mlp.3.*", "*.mlp.linear_2.*"}}}.
/// source: arXiv 2010.11929.
template <config C = vit_b_16>
struct classifier {
  static constexpr auto forward(value auto image) {
    constexpr dim side = C.side;
    MEGANEURA_EXPECT((C.side % C.patch == 0 && image.facts().shape.rank == 4 && image.facts().shape[2] == side &&
                      image.facts().shape[3] == side),
                     "meganeura: vit::classifier: the image must be [n, 3, config.side, config.side], and the side a "
                     "multiple of config.patch",
                     image) {
      constexpr conv2d_options cut{.kernel = C.patch, .stride = C.patch};
      auto patches = transpose(flatten<2, 3>(conv2d<"conv_proj", C.width, cut>(image)));
      auto token = zeros_like(slice<1, 0, 1>(patches)) + parameter<"class_token", dims<1, 1, C.width>, init::zeros>;
      auto y = call<"encoder", encoder<C>>(concat<1>(token, patches));
      return linear<"heads.head", C.classes>(squeeze<1>(slice<1, 0, 1>(y)));
    }
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::models::vit
