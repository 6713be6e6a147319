// SPDX-License-Identifier: MIT
// The pass from types to the run-time graph: names, shapes and nodes as written.
#include <support/sentence_of.hpp>
#include <support/smollm2_reference.hpp>

#include <gtest/gtest.h>

#include <meganeura/core/error.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/models/smollm2.hpp>
#include <meganeura/operations.hpp>

#include <oracle/interpreter.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace mn = meganeura;

namespace {

inline constexpr mn::dim batch = mn::sym<"batch">, seq = mn::sym<"seq">;

struct classifier {
  static constexpr auto forward(mn::value auto image) {
    return mn::linear<"fc2", 10>(mn::relu(mn::linear<"fc1", 128>(image)));
  }
};
using mlp = mn::model<classifier, mn::input<"image", mn::dtype::f32, mn::dims<batch, 784>>>;

using tiny = mn::model<mn::models::smollm2::language_model<mn::support::tiny_smollm2>,
                       mn::input<"tokens", mn::dtype::i32, mn::dims<batch, seq>>>;
using full = mn::model<mn::models::smollm2::language_model<mn::models::smollm2::smollm2_135m>,
                       mn::input<"tokens", mn::dtype::i32, mn::dims<seq>>>;

std::int64_t parameter_elements(const mn::graph& g) {
  std::int64_t total = 0;
  for (mn::node_id id : g.leaves(mn::op::parameter)) total += g[id].extents.elements();
  return total;
}

template <class Module>
using of_matrix = mn::model<Module, mn::input<"x", mn::dtype::f32, mn::dims<2, 4>>>;

struct conditional {
  static constexpr auto forward(mn::value auto x) {
    auto small = mn::less(x, mn::constant<1.0f>);
    auto positive = mn::less(mn::constant<0.0f>, x);
    return mn::select(mn::logical_and(small, positive), x, -x);
  }
};

template <int Levels>
constexpr auto nested(mn::value auto condition) {
  if constexpr (Levels == 0) {
    return condition;
  } else {
    return nested<Levels - 1>(mn::logical_or(mn::logical_and(condition, condition), mn::logical_not(condition)));
  }
}
struct nested_conditions {
  static constexpr auto forward(mn::value auto x) {
    return mn::select(nested<20>(mn::less(x, mn::constant<0.0f>)), x, mn::constant<1.0f>);
  }
};

// f16 is no arithmetic, and a condition is written into each map that asks for it.
struct casts_and_masks {
  static constexpr auto forward(mn::value auto x) {
    auto below = mn::less_equal(mn::coordinates<mn::dims<4>, 0>, mn::constant<2>);
    auto half = mn::cast<mn::dtype::f16>(mn::select(below, x, mn::constant<0.0f>));
    return mn::cast<mn::dtype::f32>(mn::coordinates<mn::dims<4>, 0>) * mn::cast<mn::dtype::f32>(half);
  }
};

struct views {
  static constexpr auto forward(mn::value auto x) {
    auto both = mn::concat<1>(mn::flip<1>(x), mn::transpose(mn::slice<0, 0, 4>(mn::transpose(x))));
    return mn::pad<1, 1, 2, 7.0f>(both);
  }
};

struct convolutional {
  static constexpr auto forward(mn::value auto image) {
    auto x = mn::conv2d<"conv", 8, mn::conv2d_options{.padding = 1}>(image);
    return mn::linear<"head", 10>(mn::flatten(mn::max_pool2d(mn::relu(x))));
  }
};
using cnn = mn::model<convolutional, mn::input<"image", mn::dtype::f32, mn::dims<batch, 1, 28, 28>>>;

template <int Width>
struct residual {
  static constexpr auto forward(mn::value auto x) { return x + mn::linear<"fc", Width>(x); }
};
template <bool Shared>
struct clashing_turns {
  static constexpr auto forward(mn::value auto x) {
    auto y = mn::repeat<"layers", 3, residual<4>>(x);
    if constexpr (Shared) {
      return mn::shared(mn::call<"layers.1", residual<4>>(y));
    } else {
      return mn::call<"layers.1", residual<4>>(y);
    }
  }
};

struct two_zeros {
  static constexpr auto forward(mn::value auto x) {
    return mn::concat<0>(x * mn::constant<0.0f>, x * mn::constant<-0.0f>);
  }
};

struct reduced_to_one {
  static constexpr auto forward(mn::value auto x) {
    return mn::sum(x) + mn::mean(x) + mn::max(x) + mn::min(x) + mn::product(x);
  }
};

struct with_loss {
  static constexpr auto forward(mn::value auto logits, mn::value auto label) {
    return mn::cross_entropy_loss(logits, label);
  }
};

template <mn::fixed_string Name>
struct head {
  static constexpr auto forward(mn::value auto x) { return mn::linear<Name, 4>(x); }
};
struct mean_of_head {
  static constexpr auto forward(mn::value auto y) { return mn::mean(mn::linear<"fc", 4>(y)); }
};
// A penalty of the model's weight, and its layer once more.
struct penalised {
  static constexpr auto forward(mn::value auto y) {
    const auto weight = mn::shared(mn::parameter<"fc.weight", mn::dims<4, 4>>);
    return mn::mean(mn::shared(mn::linear<"fc", 4>(y))) + mn::sum(weight * weight);
  }
};
struct penalised_twice {
  static constexpr auto forward(mn::value auto y) {
    return mn::mean(mn::linear<"fc", 4>(y)) + mn::sum(mn::shared(mn::parameter<"fc.weight", mn::dims<4, 4>>));
  }
};
struct misspelt {
  static constexpr auto forward(mn::value auto y) {
    return mn::mean(y) + mn::sum(mn::shared(mn::parameter<"fc.wait", mn::dims<4, 4>>));
  }
};

template <class Model, class Loss>
mn::graph trained() {
  mn::graph g(mn::run_mode::training);
  const auto results = mn::lower_into<Model>(g, {});
  g.add_output("loss", mn::lower_loss<Model, mn::loss<Loss>>(g, results, {})[0]);
  return g;
}
std::vector<std::string> parameter_names(const mn::graph& g) {
  std::vector<std::string> names;
  for (mn::node_id id : g.leaves(mn::op::parameter)) names.push_back(g.get<mn::leaf_attribute>(id).name);
  return names;
}

// What one mode leaves out has the names of this.
struct noisy {
  static constexpr auto forward(mn::value auto x) { return mn::tap<"noisy">(x + mn::random<"noise", mn::dims<2, 4>>); }
};
template <bool SharedInTraining>
struct shared_by_mode {
  static constexpr auto forward(mn::value auto x) {
    const auto twice = x * mn::constant<2.0f>;
    if constexpr (SharedInTraining) {
      return mn::when_training(
          x, [&] { return mn::shared(mn::call<"a", noisy>(twice)); }, [&] { return mn::call<"a", noisy>(x); });
    } else {
      return mn::when_training(
          x, [&] { return mn::call<"a", noisy>(x); }, [&] { return mn::shared(mn::call<"a", noisy>(twice)); });
    }
  }
};

}  // namespace

TEST(expr_lower, mlp_is_the_graph_one_would_write) {
  const std::string expected = R"(%0 = input f32[32, 784] () "image"
%1 = parameter f32[128, 784] () "fc1.weight" @ fc1
%2 = contract f32[32, 128] (%0, %1) a=0,2,0,0,0,0,0,0 b=1,2,0,0,0,0,0,0 result_rank=2 @ fc1
%3 = parameter f32[128] () "fc1.bias" @ fc1
%4 = view f32[32, 128] (%3) offset=0 strides=[0,1] @ fc1
%5 = map f32[32, 128] (%2, %4) add(a0, a1) @ fc1
%6 = constant f32[] () 0
%7 = view f32[32, 128] (%6) offset=0 strides=[]
%8 = map f32[32, 128] (%5, %7) maximum(a0, a1)
%9 = parameter f32[10, 128] () "fc2.weight" @ fc2
%10 = contract f32[32, 10] (%8, %9) a=0,2,0,0,0,0,0,0 b=1,2,0,0,0,0,0,0 result_rank=2 @ fc2
%11 = parameter f32[10] () "fc2.bias" @ fc2
%12 = view f32[32, 10] (%11) offset=0 strides=[0,1] @ fc2
%13 = map f32[32, 10] (%10, %12) add(a0, a1) @ fc2
output "output" = %13
)";
  EXPECT_EQ(mn::to_text(mn::lower<mlp>({{"batch", 32}})), expected);
}

TEST(expr_lower, flops_of_the_type_are_those_of_the_graph) {
  EXPECT_DOUBLE_EQ(mlp::flops({{"batch", 32}}), mn::lower<mlp>({{"batch", 32}}).flops());
  EXPECT_DOUBLE_EQ(cnn::flops({{"batch", 3}}), mn::lower<cnn>({{"batch", 3}}).flops());
  EXPECT_DOUBLE_EQ(of_matrix<casts_and_masks>::flops(), 8 + 4 + 8);
  EXPECT_DOUBLE_EQ(mn::lower<of_matrix<casts_and_masks>>().flops(), 8 + 4 + 8);
}

TEST(expr_lower, a_condition_is_written_into_the_map_that_uses_it) {
  const mn::graph g = mn::lower<of_matrix<conditional>>();
  const mn::node_id output = g.find_output("output");
  ASSERT_EQ(g[output].kind, mn::op::map);
  EXPECT_EQ(mn::to_string(g.get<mn::map_attribute>(output).program),
            "select(logical_and(less(a0, a1), less(a2, a0)), a0, a3)");
}

// Written out as a tree the innermost comparison would stand there 3^20 times.
TEST(expr_lower, a_condition_of_conditions_is_written_once_each) {
  const mn::graph g = mn::lower<of_matrix<nested_conditions>>();
  const mn::node_id output = g.find_output("output");
  ASSERT_EQ(g[output].kind, mn::op::map);
  EXPECT_EQ(g.operands(output).size(), 3u);  // x, 0 and 1
  EXPECT_EQ(g.get<mn::map_attribute>(output).program.nodes.size(), 3u + 1 + 3 * 20 + 1);
}

TEST(expr_lower, views_have_the_shapes_of_the_type) {
  const mn::graph g = mn::lower<of_matrix<views>>();
  EXPECT_EQ(g[g.find_output("output")].extents, (mn::shape{2, 11}));
}

TEST(expr_lower, unbound_and_empty_symbols_are_refused_by_name) {
  try {
    static_cast<void>(mn::lower<mlp>({{"seq", 4}}));
    FAIL() << "lowered without the symbol";
  } catch (const mn::error& refused) {
    EXPECT_EQ(refused.category(), mn::error_category::invalid_argument);
    EXPECT_NE(std::string(refused.what()).find("\"batch\""), std::string::npos);
  }
  EXPECT_THROW(static_cast<void>(mn::lower<mlp>({{"batch", 0}})), mn::error);
}

TEST(expr_lower, unknown_and_doubled_symbols_are_refused_with_the_nearest_name) {
  EXPECT_EQ(mn::support::sentence_of([] {
              static_cast<void>(mn::lower<mlp>({{"batch", 32}, {"bacth", 3}}));
            }),
            "\"bacth\" is bound to 3, but no symbol of the model: it has \"batch\"; did you mean \"batch\"?");
  EXPECT_EQ(mn::support::sentence_of([] {
              static_cast<void>(mn::lower<mlp>({{"batch", 32}, {"batch", 3}}));
            }),
            "the symbol \"batch\" is bound twice, to 32 and to 3; bind it once");
  EXPECT_EQ(mn::support::sentence_of([] {
              static_cast<void>(mn::lower<mlp>({{nullptr, 32}}));
            }),
            "32 is bound to a symbol without a name");
}

TEST(expr_lower, an_extent_too_large_is_refused_by_symbol_value_and_limit) {
  for (const char* number : {"1152921504606846977", "9223372036854775807", "367719580002095"}) {
    EXPECT_EQ(mn::support::sentence_of([&] {
                static_cast<void>(mn::lower<mlp>({{"batch", std::stoll(number)}}));
              }),
              "a tensor [(batch = " + std::string(number) +
                  "), 784] was asked for, and one has at most 2^58 = 288230376151711744 elements; bind its symbols to "
                  "less");
  }
  EXPECT_EQ(mn::bound(mn::dims<mn::sym<"batch">, 784>, std::array{mn::symbol_extent{"batch", 367640784632285}})[1],
            784);
  EXPECT_EQ(mn::support::sentence_of([] {
              static_cast<void>(mn::lower<mlp>({{"batch", 0}}));
            }),
            "the symbol \"batch\" is bound to 0; an extent is at least 1");
  EXPECT_EQ(mn::support::sentence_of([] { static_cast<void>(mn::lower<mlp>()); }),
            "the model has a symbol \"batch\" without an extent; bind {\"batch\", n}");
}

TEST(expr_lower, a_layer_named_like_a_turn_of_a_repeat_is_refused_unless_shared) {
  EXPECT_NE(mn::support::sentence_of([] {
              static_cast<void>(mn::lower<of_matrix<clashing_turns<false>>>());
            }).find("two layers are called \"layers.1.fc.weight\""),
            std::string::npos);
  const mn::graph g = mn::lower<of_matrix<clashing_turns<true>>>();
  EXPECT_EQ(g.leaves(mn::op::parameter).size(), 6u);
}

TEST(expr_lower, zeros_of_two_signs_are_two_numbers) {
  EXPECT_EQ(mn::lower<of_matrix<two_zeros>>().leaves(mn::op::constant).size(), 2u);
}

TEST(expr_lower, a_loss_has_its_own_names_and_shares_its_models) {
  EXPECT_EQ(mn::support::sentence_of([] { (void)trained<of_matrix<head<"loss.fc">>, mean_of_head>(); }),
            "two layers are called \"loss.fc.weight\" and would be one; rename one of them, or share it on purpose: "
            "shared(layer)");
  const std::vector<std::string> own{"fc.weight", "fc.bias", "loss.fc.weight", "loss.fc.bias"}, models{own[0], own[1]};
  EXPECT_EQ(parameter_names(trained<of_matrix<head<"fc">>, mean_of_head>()), own);
  EXPECT_EQ(parameter_names(trained<of_matrix<head<"fc">>, penalised>()), models);
  const mn::graph g = trained<of_matrix<head<"fc">>, penalised_twice>();
  EXPECT_EQ(parameter_names(g), own);
  mn::graph leaves;
  mn::lower_leaves(leaves, mn::detail::trained<of_matrix<head<"fc">>, mn::loss<penalised>>::bodies, {});
  EXPECT_EQ(parameter_names(leaves), models);
  EXPECT_EQ(mn::support::sentence_of([] { (void)trained<of_matrix<head<"fc">>, misspelt>(); }),
            "shared(...) refers to \"loss.fc.wait\", which the model does not have; did you mean \"fc.weight\"?");
}

TEST(expr_lower, what_a_mode_leaves_out_has_its_names) {
  const auto expect_whole = [](const mn::graph& g, bool twice) {
    ASSERT_EQ(g.taps().size(), 1u);
    EXPECT_EQ(g.taps()[0].name, "a.noisy");
    EXPECT_EQ(g.leaves(mn::op::constant).size(), twice ? 1u : 0u);
    const auto streams = g.leaves(mn::op::random);
    ASSERT_EQ(streams.size(), 1u);
    EXPECT_EQ(g.get<mn::random_attribute>(streams[0]).stream, "a.noise");
  };
  for (const mn::run_mode mode : {mn::run_mode::training, mn::run_mode::evaluation}) {
    const bool training = mode == mn::run_mode::training;
    expect_whole(mn::lower<of_matrix<shared_by_mode<true>>>({}, mode), training);
    expect_whole(mn::lower<of_matrix<shared_by_mode<false>>>({}, mode), !training);
  }
}

TEST(expr_lower, reductions_without_axes_take_all_elements) {
  const mn::graph g = mn::lower<of_matrix<reduced_to_one>>();
  mn::oracle::interpreter<double> truth(g, {{"x", {{2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}}}});
  EXPECT_DOUBLE_EQ(truth.run()["output"].values[0], 36 + 4.5 + 8 + 1 + 40320);
}

struct squared {
  static constexpr auto forward(mn::value auto x) { return x * x; }
};

TEST(expr_lower, an_input_is_declared_once_and_a_loss_may_take_the_models_own) {
  mn::graph g;
  g.input("x", mn::dtype::f32, {2, 4});
  EXPECT_NE(mn::support::sentence_of([&] {
              g.input("x", mn::dtype::f32, {2, 4});
            }).find("there is an input of that name"),
            std::string::npos);
  using autoencoder = mn::model<squared, mn::input<"x", mn::dtype::f32, mn::dims<2, 4>>>;
  mn::graph own;
  mn::lower_loss<autoencoder, mn::mean_squared_error<"x">>(own, mn::lower_into<autoencoder>(own, {}), {});
  EXPECT_EQ(own.leaves(mn::op::input).size(), 1u);
  mn::lower_loss<autoencoder, mn::mean_squared_error<"y">>(own, std::vector{own.find_leaf("x")}, {});
  EXPECT_EQ(own.leaves(mn::op::input).size(), 2u);
}

TEST(expr_lower, typed_and_run_time_cross_entropy_are_one_graph) {
  using typed = mn::model<with_loss, mn::input<"logits", mn::dtype::f32, mn::dims<batch, seq, 7>>,
                          mn::input<"label", mn::dtype::i32, mn::dims<batch, seq>>>;
  mn::graph g = mn::lower<typed>({{"batch", 2}, {"seq", 3}});
  EXPECT_EQ(g[g.find_output("output")].extents.rank(), 0);
  const mn::node_value logits(g, g.find_leaf("logits")), label(g, g.find_leaf("label"));
  EXPECT_EQ(mn::cross_entropy_loss(logits, label).id(), g.find_output("output")) << mn::to_text(g);
  EXPECT_EQ(g.index_ranges().size(), 1u);
}

TEST(expr_lower, convolutional_model_has_pytorch_names_and_shapes) {
  const mn::graph g = mn::lower<cnn>({{"batch", 2}});
  EXPECT_EQ(g[g.find_leaf("conv.weight")].extents, (mn::shape{8, 1, 3, 3}));
  EXPECT_EQ(g[g.find_leaf("conv.bias")].extents, (mn::shape{8}));
  EXPECT_EQ(g[g.find_leaf("head.weight")].extents, (mn::shape{10, 8 * 14 * 14}));
  EXPECT_EQ(g[g.find_output("output")].extents, (mn::shape{2, 10}));
}

TEST(expr_lower, tiny_smollm2_has_the_tensors_of_the_reference) {
  const mn::graph g = mn::lower<tiny>({{"batch", 1}, {"seq", 16}});
  EXPECT_EQ(g.leaves(mn::op::parameter).size(), 20u);
  EXPECT_EQ(parameter_elements(g), 37104);
  EXPECT_EQ(tiny::parameter_count, 37104);
  EXPECT_EQ(g[g.find_output("output")].extents, (mn::shape{1, 16, 128}));
  for (const char* name :
       {"model.embed_tokens.weight", "model.layers.0.input_layernorm.weight", "model.layers.1.self_attn.q_proj.weight",
        "model.layers.0.self_attn.k_proj.weight", "model.layers.1.self_attn.v_proj.weight",
        "model.layers.0.self_attn.o_proj.weight", "model.layers.1.post_attention_layernorm.weight",
        "model.layers.0.mlp.gate_proj.weight", "model.layers.1.mlp.up_proj.weight",
        "model.layers.0.mlp.down_proj.weight", "model.norm.weight"}) {
    EXPECT_NE(g.find_leaf(name), mn::no_id) << name;
  }
  EXPECT_EQ(g.find_leaf("lm_head.weight"), mn::no_id) << "the head is tied";
}

TEST(expr_lower, smollm2_135m_has_272_tensors) {
  const auto start = std::chrono::steady_clock::now();
  const mn::graph g = mn::lower<full>({{"seq", 128}});
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  std::printf("smollm2_135m: %zu nodes lowered in %.2f ms\n", g.size(), taken.count());
  EXPECT_EQ(g.leaves(mn::op::parameter).size(), 272u);
  EXPECT_EQ(parameter_elements(g), 134515008);
  EXPECT_EQ(g[g.find_leaf("model.layers.29.self_attn.k_proj.weight")].extents, (mn::shape{192, 576}));
}
