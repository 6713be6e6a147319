// SPDX-License-Identifier: MIT
// Operands that a function does not take: it says so itself, before anything that it is made of does.
#include <meganeura/expr/symbol_extents.hpp>
#include <meganeura/expr/value.hpp>
#include <meganeura/operations.hpp>

#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace mn = meganeura;

namespace {

struct operands {
  mn::graph g;
  mn::node_value x{g, g.input("x", mn::dtype::f32, {2, 4, 6})}, half{g, g.input("half", mn::dtype::f16, {2, 4, 6})};
  mn::node_value row{g, g.input("row", mn::dtype::f32, {6})}, other_row{g, g.input("other row", mn::dtype::f32, {5})};
  mn::node_value whole{g, g.input("whole", mn::dtype::i32, {2, 4})}, number = mn::sum(x);
  mn::node_value full{g, g.input("full", mn::dtype::f32, {1, 1, 1, 1, 1, 1, 1, 1})};
  mn::node_value heads{g, g.input("heads", mn::dtype::f32, {5, 3, 2})};
};
struct refused {
  std::string sentence;
  std::function<void(operands&)> call;
};

const std::vector<refused>& layers() {
  const std::string no_scores =
      "attend<options>(q, k, v): q, k, v must be [.., positions, heads, width] of known heads "
      "and width, the heads of q a multiple of those of k and v";
  const std::string no_self =
      "multi_head_attention<name, heads>(x): x must be floats [b?, positions, width], the width "
      "a multiple of heads; dropout is from 0 to 1";
  static const std::vector<refused> all{
      {no_scores, [](auto& o) { (void)mn::attend(o.heads, mn::slice(o.heads, 1, 0, 2), o.heads, mn::gqa_options{}); }},
      {"attend<options>(q, k, v): q, k and v must be floats of one type; cast them",
       [](auto& o) { (void)mn::attend(o.heads, mn::cast(o.heads, mn::dtype::f16), o.heads, mn::gqa_options{}); }},
      {no_self, [](auto& o) { (void)mn::multi_head_attention("a", o.x, 4); }},
      {no_self, [](auto& o) { (void)mn::multi_head_attention("a", o.whole, 1); }},
      {"weight_norm(v, g): g must hold one number for each row of v, of known extents",
       [](auto& o) { (void)mn::weight_norm(o.x, o.row); }},
      {"weight_norm_linear<name, out>(x): out is at least 1",
       [](auto& o) { (void)mn::weight_norm_linear("l", o.x, 0); }},
      {"linear<name, out>(x): out is at least 1", [](auto& o) { (void)mn::linear("l", o.x, 0); }},
      {"tied_linear(x, weight): the weight must be [out, in] of x's dtype, in the last extent of x",
       [](auto& o) { (void)mn::tied_linear(o.row, mn::unsqueeze(o.other_row, 0)); }},
      {"tied_linear(x, weight): the weight must be [out, in] of x's dtype, in the last extent of x",
       [](auto& o) { (void)mn::tied_linear(o.half, mn::unsqueeze(o.row, 0)); }},
      {"embedding<name, rows, width>(tokens): tokens must be i32",
       [](auto& o) { (void)mn::embedding("e", o.x, 3, 4); }},
      {"embedding<name, rows, width>(tokens): rows and width are at least 1",
       [](auto& o) { (void)mn::embedding("e", o.whole, 0, 4); }},
      {"binary_cross_entropy_with_logits_loss<options>(logits, target, pos_weight): pos_weight must broadcast over the "
       "logits and have their dtype",
       [](auto& o) { (void)mn::binary_cross_entropy_with_logits_loss(o.x, o.x, o.other_row, mn::loss_options{}); }},
      {"binary_cross_entropy_with_logits_loss<options>(logits, target, pos_weight): pos_weight must broadcast over the "
       "logits and have their dtype",
       [](auto& o) { (void)mn::binary_cross_entropy_with_logits_loss(o.x, o.x, o.half, mn::loss_options{}); }},
      {"triplet_margin_loss<options>(anchor, positive, negative): all must be rows [.., width] of one shape and dtype",
       [](auto& o) { (void)mn::triplet_margin_loss(o.row, o.row, o.other_row, mn::triplet_options{}); }},
      {"gaussian_nll_loss<options>(prediction, target, variance): the variance must broadcast over the prediction and "
       "have its dtype",
       [](auto& o) { (void)mn::gaussian_nll_loss(o.x, o.x, o.half, mn::gaussian_nll_options{}); }},
      {"gaussian_nll_loss<options>(prediction, target, variance): the variance must broadcast over the prediction and "
       "have its dtype",
       [](auto& o) { (void)mn::gaussian_nll_loss(o.row, o.row, o.x, mn::gaussian_nll_options{}); }},
  };
  return all;
}

const std::vector<refused>& functions() {
  static const std::vector<refused> all{
      {"bitwise_not(x): x must be integers; cast it", [](auto& o) { (void)mn::bitwise_not(o.x); }},
      {"matmul(a, b): operands must be floats of one type; cast one of them",
       [](auto& o) { (void)mn::matmul(o.half, mn::transpose(o.x)); }},
      {"tensordot<axes>(a, b): operands must be floats of one type; cast one of them",
       [](auto& o) { (void)mn::tensordot(o.half, o.x, 3); }},
      {"outer(a, b): operands need an axis and room for another", [](auto& o) { (void)mn::outer(o.row, o.number); }},
      {"outer(a, b): operands need an axis and room for another", [](auto& o) { (void)mn::outer(o.full, o.row); }},
      {"kronecker(a, b): operands must be matrices of one dtype with room for two axes more and batch extents that are "
       "equal or 1",
       [](auto& o) { (void)mn::kronecker(o.x, mn::slice(mn::concat(0, o.x, o.x), 0, 0, 3)); }},
      {"meshgrid(a, ...): operands must have one axis each, and be at most as many as a tensor has axes",
       [](auto& o) { (void)mn::meshgrid(o.row, o.x); }},
      {"tril<offset>(x): x needs two axes", [](auto& o) { (void)mn::tril(o.row, 0); }},
      {"triu<offset>(x): x needs two axes", [](auto& o) { (void)mn::triu(o.row, 0); }},
      {"eye_like(x): x needs two axes", [](auto& o) { (void)mn::eye_like(o.row); }},
      {"diag_embed<offset>(x): x needs one axis and room for another",
       [](auto& o) { (void)mn::diag_embed(o.number, 0); }},
      {"diag_embed<offset>(x): x needs one axis and room for another",
       [](auto& o) { (void)mn::diag_embed(o.full, 0); }},
      {"rot90<turns>(x): x needs two axes", [](auto& o) { (void)mn::rot90(o.row, 1); }},
      {"transpose(x): x needs two axes", [](auto& o) { (void)mn::transpose(o.row); }},
      {"logical_not(a): a must be a condition; compare with less, less_equal or equal",
       [](auto& o) { (void)mn::logical_not(o.x); }},
      {"cast<type>(x): bool tensors do not exist; compare instead",
       [](auto& o) { (void)mn::cast(o.x, mn::dtype::boolean); }},
      {"gather<axis>(data, indices): indices must be i32", [](auto& o) { (void)mn::gather(o.x, o.row, 0); }},
      {"gather<axis>(data, indices): no such axis", [](auto& o) { (void)mn::gather(o.x, o.whole, 3); }},
      {"stack<axis>(a, b, ...): all must have one shape and dtype, and the result such an axis",
       [](auto& o) { (void)mn::stack(0, o.row, o.other_row); }},
      {"stack<axis>(a, b, ...): all must have one shape and dtype, and the result such an axis",
       [](auto& o) { (void)mn::stack(2, o.row, o.row); }},
      {"resize<axis, size, mode, place>(x): x must be floats unless the nearest is taken; cast it",
       [](auto& o) { (void)mn::resize(o.whole, -1, 8, mn::resize_mode::linear); }},
      {"embedding_bag<mode>(table, indices): the table must be floats for a mean; cast it",
       [](auto& o) { (void)mn::embedding_bag(o.whole, o.whole, mn::bag_mode::mean); }},
      {"unsqueeze<axis>(x): the result has no such axis", [](auto& o) { (void)mn::unsqueeze(o.row, 2); }},
      {"concat<axis>(a, b): a has no such axis", [](auto& o) { (void)mn::concat(1, o.row, o.row); }},
      {"split_heads<heads>(x): the last extent must be a multiple of heads",
       [](auto& o) { (void)mn::split_heads(o.x, 4); }},
      {"there is no symbol \"rows\"; did you mean \"row\"?",
       [](auto&) {
         (void)mn::symbol_extents{{"row", 3}}["rows"];
       }},
  };
  return all;
}

TEST(expr_refusals, a_function_names_itself_and_what_it_takes) {
  for (const auto* list : {&layers(), &functions()}) {
    for (const refused& each : *list) {
      operands o;
      const std::string said = mn::support::refusal([&] { each.call(o); });
      EXPECT_EQ(said.substr(0, said.find("; found")), each.sentence);
    }
  }
}

}  // namespace
