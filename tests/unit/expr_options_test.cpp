// SPDX-License-Identifier: MIT
// Options that mean nothing are refused, with a sentence, and those at the edge of what is meant are not.
#include <meganeura/expr/value.hpp>
#include <meganeura/operations.hpp>

#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace mn = meganeura;

namespace {

constexpr float inf = __builtin_inff();

struct operands {
  mn::graph g;
  mn::node_value x{g, g.input("x", mn::dtype::f32, {2, 4, 6})};
  mn::node_value label{g, g.input("label", mn::dtype::i32, {2, 4})};
  mn::node_value heads{g, g.input("heads", mn::dtype::f32, {5, 2, 2})};
};
struct refused {
  std::string sentence;
  std::function<void(operands&)> call;
};

const std::vector<refused>& list() {
  static const std::vector<refused> all{
      {"cross_entropy_loss(logits, labels): label_smoothing must be from 0 to 1",
       [](auto& o) { (void)mn::cross_entropy_loss(o.x, o.label, mn::cross_entropy_options{.label_smoothing = 2}); }},
      {"cross_entropy_loss(logits, labels, weights): label_smoothing must be from 0 to 1",
       [](auto& o) {
         (void)mn::cross_entropy_loss(o.x, o.label, mn::sum(o.x, 0, 1),
                                      mn::cross_entropy_options{.label_smoothing = -0.1f});
       }},
      {"quantile_loss<options>(prediction, target): q must be from 0 to 1",
       [](auto& o) { (void)mn::quantile_loss(o.x, o.x, mn::quantile_options{.q = 3}); }},
      {"huber_loss<options>(prediction, target): delta must be above 0",
       [](auto& o) { (void)mn::huber_loss(o.x, o.x, mn::huber_options{.delta = -2}); }},
      {"smooth_l1_loss<options>(prediction, target): beta must be at least 0",
       [](auto& o) { (void)mn::smooth_l1_loss(o.x, o.x, mn::smooth_l1_options{.beta = -1}); }},
      {"triplet_margin_loss<options>(anchor, positive, negative): p must be above 0",
       [](auto& o) { (void)mn::triplet_margin_loss(o.x, o.x, o.x, mn::triplet_options{.p = 0}); }},
      {"batch_norm<name>(x): epsilon must be at least 0, and momentum from 0 to 1",
       [](auto& o) { (void)mn::batch_norm("n", o.x, mn::batch_norm_options{.epsilon = -1}); }},
      {"batch_norm<name>(x): epsilon must be at least 0, and momentum from 0 to 1",
       [](auto& o) { (void)mn::batch_norm("n", o.x, mn::batch_norm_options{.momentum = 5}); }},
      {"layer_norm<name>(x): epsilon must be at least 0",
       [](auto& o) { (void)mn::layer_norm("n", o.x, mn::norm_options{.epsilon = -1}); }},
      {"rms_norm<name>(x): epsilon must be at least 0",
       [](auto& o) { (void)mn::rms_norm("n", o.x, mn::norm_options{.epsilon = -1}); }},
      {"rms_norm<name>(x): x needs as many last extents as `axes` says, of numbers, not symbols",
       [](auto& o) { (void)mn::rms_norm("n", o.x, mn::norm_options{.axes = 4}); }},
      {"group_norm<name, groups>(x): epsilon must be at least 0",
       [](auto& o) { (void)mn::group_norm("n", o.x, 2, mn::group_norm_options{.epsilon = -1}); }},
      {"instance_norm<name>(x): epsilon must be at least 0",
       [](auto& o) { (void)mn::instance_norm("n", o.x, mn::group_norm_options{.epsilon = -1}); }},
      {"attend<options>(q, k, v): softcap and sliding_window are at least 0, softcap and scale finite",
       [](auto& o) {
         (void)mn::attend(o.heads, o.heads, o.heads, mn::gqa_options{.scale = std::numeric_limits<float>::quiet_NaN()});
       }},
      {"attend<options>(q, k, v): softcap and sliding_window are at least 0, softcap and scale finite",
       [](auto& o) { (void)mn::attend(o.heads, o.heads, o.heads, mn::gqa_options{.softcap = -1}); }},
      {"attend<options>(q, k, v): softcap and sliding_window are at least 0, softcap and scale finite",
       [](auto& o) { (void)mn::attend(o.heads, o.heads, o.heads, mn::gqa_options{.sliding_window = -3}); }},
      {"rope<options>(x): x must be floats [.., positions, heads, width], of at most 2^24 positions, the width that "
       "turns even, and more than 2 with ntk",
       [](auto& o) { (void)mn::rope(o.heads, mn::rope_options{.type = mn::rope_type::ntk, .factor = 2}); }},
      {"embedding<name, rows, width>(tokens): padding_index must be a row, or -1",
       [](auto& o) { (void)mn::embedding("e", o.label, 10, 3, mn::embedding_options{.padding_index = 10}); }},
      {"embedding<name, rows, width>(tokens): padding_index must be a row, or -1",
       [](auto& o) { (void)mn::embedding("e", o.label, 10, 3, mn::embedding_options{.padding_index = -2}); }},
      {"lora_linear<name, out>(x): out and rank are at least 1, and alpha at least 0",
       [](auto& o) { (void)mn::lora_linear("l", o.x, 3, mn::lora_options{.alpha = -1}); }},
      {"rrelu<name, low, high>(x): low must not be above high", [](auto& o) { (void)mn::rrelu("r", o.x, 0.5, 0.25); }},
      {"winsorize<axis>(x, low, high): the shares must lie between 0 and 1, low not above high",
       [](auto& o) { (void)mn::winsorize(o.x, mn::quantile_share{0.9}, mn::quantile_share{0.1}, -1); }},
      {"winsorize<axis>(x, low, high): the shares must lie between 0 and 1, low not above high",
       [](auto& o) { (void)mn::winsorize(o.x, mn::quantile_share{0.1}, mn::quantile_share{1.5}, -1); }},
      {"winsorize<axis>(x, low, high): x must be floats; cast it",
       [](auto& o) { (void)mn::winsorize(o.label, mn::quantile_share{0.1}, mn::quantile_share{0.9}, -1); }},
      {"winsorize<axis>(x, low, high): x has no such axis, or its extent is not known",
       [](auto& o) { (void)mn::winsorize(o.x, mn::quantile_share{0.1}, mn::quantile_share{0.9}, 3); }},
      {"lp_pool1d<options>(x): p must be a number above 0, and the window must fit into [.., w] of known extents",
       [](auto& o) { (void)mn::lp_pool1d(o.x, mn::lp_pool_options{.p = 0}); }},
      {"lp_pool2d<options>(x): p must be a number above 0, and the window must fit into [.., h, w] of known extents",
       [](auto& o) { (void)mn::lp_pool2d(o.x, mn::lp_pool_options{.p = inf}); }},
      {"max_pool2d<options>(x): the window must fit into [.., h, w] of known extents, and padding fill at most half of "
       "it",
       [](auto& o) { (void)mn::max_pool2d(o.x, mn::pool_options{.window = 2, .padding = 4}); }},
      {"max_pool1d<options>(x): the window must fit into [.., w] of known extents, and padding fill at most half of it",
       [](auto& o) { (void)mn::max_pool1d(o.x, mn::pool_options{.window = 2, .padding = 1, .dilation = 7}); }},
      {"avg_pool3d<options>(x): the window must fit into [.., d, h, w] of known extents, without dilation, and padding "
       "fill at most half of it",
       [](auto& o) {
         (void)mn::avg_pool3d(o.x, mn::pool_options{.window = 2, .padding = {0, 0, 2}, .count_include_pad = false});
       }},
      {"adaptive_max_pool1d<out>(x): x must be [.., w] of known extents, and out at least 1; the product of both below "
       "2^31 where out does not divide it",
       [](auto& o) {
         const mn::node_value wide(o.g, o.g.input("wide", mn::dtype::f32, {1, 1000003}));
         (void)mn::adaptive_max_pool1d(wide, mn::spatial(3000));
       }},
  };
  return all;
}

TEST(expr_options, what_means_nothing_is_refused) {
  for (const refused& each : list()) {
    operands o;
    const std::string said = mn::support::refusal([&] { each.call(o); });
    EXPECT_EQ(said.substr(0, said.find("; found")), each.sentence);
  }
}

TEST(expr_options, what_is_at_the_edge_is_not) {
  operands o;
  (void)mn::quantile_loss(o.x, o.x, mn::quantile_options{.q = 1});
  (void)mn::smooth_l1_loss(o.x, o.x, mn::smooth_l1_options{.beta = 0});
  (void)mn::batch_norm("n", o.x, mn::batch_norm_options{.epsilon = 0, .momentum = 1});
  (void)mn::embedding("e", o.label, 10, 3, mn::embedding_options{.padding_index = 9});
  (void)mn::rrelu("r", o.x, 0.25, 0.25);
  (void)mn::winsorize(o.x, mn::quantile_share{0.5}, mn::quantile_share{0.5}, -1);
  (void)mn::rope(o.heads, mn::rope_options{});
  const mn::node_value wide(o.g, o.g.input("wide", mn::dtype::f32, {1, 715827}));
  EXPECT_EQ(mn::adaptive_max_pool1d(wide, mn::spatial(2999)).facts().shape.last(), mn::dim(2999));
  EXPECT_EQ(mn::max_pool1d(o.x, mn::pool_options{.window = 2, .stride = 1, .padding = 1}).facts().shape.last(),
            mn::dim(7));
}

}  // namespace
