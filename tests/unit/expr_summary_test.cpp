// SPDX-License-Identifier: MIT
// Summaries: what a table of a model says, typed with and without bound symbols, and of a graph.
#include <meganeura/expr/lower.hpp>
#include <meganeura/expr/summary.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/models/smollm2.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <support/small_models.hpp>

#include <gtest/gtest.h>

#include <algorithm>

namespace {

using namespace meganeura;

const layer_summary& layer(const model_summary& of, std::string_view path) {
  const auto found = std::ranges::find(of.layers, path, &layer_summary::path);
  EXPECT_NE(found, of.layers.end()) << path << '\n' << to_text(of);
  return found == of.layers.end() ? of.layers.front() : *found;
}

using mlp = support::mlp<8>;

TEST(expr_summary, symbols_that_are_not_bound_stay) {
  EXPECT_EQ(to_text(summary<mlp>()),
            "module   result          parameters  flops\n"
            "(model)  f32[batch, 5]          243  481 batch\n"
            "fc1      f32[batch, 17]         153  289 batch\n"
            "fc2      f32[batch, 5]           90  175 batch\n"
            "total                           243  481 batch\n");
}

TEST(expr_summary, bound_symbols_give_the_numbers_of_the_graph) {
  for (const std::int64_t batch : {1, 32}) {
    const symbol_extent symbols[] = {{"batch", batch}};
    const model_summary dense = summary<mlp>(symbols), conv = summary<support::cnn>(symbols);
    EXPECT_EQ(dense.layers, summary(lower<mlp>(symbols)).layers);
    EXPECT_EQ(conv.layers, summary(lower<support::cnn>(symbols)).layers);
    EXPECT_EQ(dense.parameters, mlp::parameter_count);
    EXPECT_EQ(conv.parameters, support::cnn::parameter_count);
    EXPECT_DOUBLE_EQ(dense.flops.value(), lower<mlp>(symbols).flops());
    EXPECT_DOUBLE_EQ(conv.flops.value(), lower<support::cnn>(symbols).flops());
  }
  EXPECT_EQ(layer(summary<support::cnn>({{"batch", 32}}), "conv").result, "f32[32, 9, 8, 8]");
}

struct position_table {
  static constexpr auto forward(value auto x) { return x + parameter<"table", dims<sym<"seq">, 64>>; }
};

TEST(expr_summary, parameters_may_have_symbols) {
  using learnt = model<position_table, input<"x", dtype::f32, dims<sym<"seq">, 64>>>;
  EXPECT_EQ(to_string(summary<learnt>().parameters), "64 seq");
  EXPECT_EQ(summary<learnt>({{"seq", 128}}).parameters, 128 * 64);
  EXPECT_EQ(summary<learnt>({{"seq", 128}}).layers, summary(lower<learnt>({{"seq", 128}})).layers);
  EXPECT_NE(to_text(summary<learnt>({{"seq", 128}})).find(" 8,192 "), std::string::npos);
}

using smollm2 = model<models::smollm2::language_model<models::smollm2::smollm2_135m>,
                      input<"tokens", dtype::i32, dims<sym<"seq">>>>;

TEST(expr_summary, a_language_model_has_a_line_for_each_module_and_alike_turns_have_one) {
  const model_summary all = summary<smollm2>();
  EXPECT_EQ(all.parameters, 134'515'008);
  EXPECT_EQ(all.layers.front().parameters, 134'515'008);
  EXPECT_EQ(layer(all, "model.layers.29.mlp.up_proj").parameters, 576 * 1536);
  EXPECT_EQ(layer(all, "model.layers.29.mlp").parameters, 3 * 576 * 1536);
  EXPECT_EQ(layer(all, "model.layers.7").result, "f32[seq, 576]");
  EXPECT_EQ(layer(all, "model.embed_tokens").parameters, 49152 * 576);  // and the tied head has none
  EXPECT_EQ(layer(all, "model.layers.7").parameters * 30, layer(all, "model.layers").parameters);
  const std::string text = to_text(all);
  EXPECT_NE(text.find("\nmodel.layers.0..29.mlp.up_proj "), std::string::npos) << text;
  EXPECT_EQ(text.find("model.layers.1."), std::string::npos) << text;
  EXPECT_LT(std::ranges::count(text, '\n'), 25) << text;
  EXPECT_NE(text.find("134,515,008"), std::string::npos) << text;
  EXPECT_NE(layer(all, "model.layers.7.self_attn").flops.terms.count({"seq", "seq"}), 0U);
  EXPECT_THROW((void)all.flops.value(), error);
  const double bound = summary<smollm2>({{"seq", 128}}).flops.value();
  EXPECT_DOUBLE_EQ(bound, smollm2::flops({{"seq", 128}}));
}

TEST(expr_summary, a_training_graph_lists_gradients_last) {
  const symbol_extent symbols[] = {{"batch", 32}};
  const graph g = make_training_graph<mlp, cross_entropy<"label">>(adam{}, symbols);
  const model_summary all = summary(g);
  EXPECT_EQ(all.parameters, mlp::parameter_count);
  EXPECT_DOUBLE_EQ(all.flops.value(), g.flops());
  EXPECT_EQ(layer(all, "loss").result, "f32[]");
  EXPECT_EQ(layer(all, "fc2 backward").parameters, 0);
  EXPECT_GE(layer(all, "fc2 backward").flops.value(), 2 * 2 * 32 * 17 * 5);
  const auto first_backward = std::ranges::find(all.layers, "backward", &layer_summary::path);
  for (auto each = all.layers.begin(); each != all.layers.end(); ++each) {
    EXPECT_EQ(each->path.ends_with("backward"), each >= first_backward) << each->path;
  }
}

TEST(expr_summary, turns_of_a_graph_are_one_line_too) {
  // The first turn makes what the others share: its flops differ where four digits do not show it.
  const std::string text =
      to_text(summary(make_training_graph<smollm2, cross_entropy<"label">>(adam{}, {{"seq", 128}})));
  for (const char* line : {"\nmodel.layers.0..29.mlp.up_proj ", "\nmodel.layers.0..29.mlp.up_proj backward "}) {
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
  EXPECT_LT(std::ranges::count(text, '\n'), 45) << text;
}

TEST(expr_summary, turns_that_differ_keep_their_lines) {
  graph g;
  node_id x = g.input("x", dtype::f32, {4});
  for (int i = 0; i < 4; ++i) {
    const graph::scope in(g, "layers." + std::to_string(i));
    x = g.map(scalar_op::exp, {x});
    if (i == 2) x = g.map(scalar_op::log, {x});
  }
  g.add_output("y", x);
  const std::string text = to_text(summary(g));
  EXPECT_NE(text.find("\nlayers.0..1 "), std::string::npos) << text;
  EXPECT_NE(text.find("\nlayers.2 "), std::string::npos) << text;
  EXPECT_NE(text.find("\nlayers.3 "), std::string::npos) << text;
}

TEST(expr_summary, what_cannot_be_bound_is_said) {
  EXPECT_THROW((void)summary<mlp>({{"bach", 3}}), error);
  EXPECT_THROW((void)summary<mlp>({{"batch", 0}}), error);
  EXPECT_THROW((void)summary<mlp>({{"batch", 1}, {"batch", 2}}), error);
}

}  // namespace
