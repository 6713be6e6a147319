// SPDX-License-Identifier: MIT
// Shapes, dtypes and peepholes of typed values, all while compiling.
#include <meganeura/operations.hpp>

namespace mn = meganeura;
using mn::dims;

inline constexpr mn::dim batch = mn::sym<"batch">, seq = mn::sym<"seq">;

// Any leaf stands for a value of that shape.
template <mn::symbolic_shape Shape, mn::dtype Type = mn::dtype::f32>
inline constexpr auto x = mn::state<"x", Shape, Type>;
template <mn::symbolic_shape Shape, mn::dtype Type = mn::dtype::f32>
inline constexpr auto y = mn::state<"y", Shape, Type>;

template <class T>
inline constexpr mn::symbolic_shape shape = std::remove_cvref_t<T>::shape;
template <class A, class B>
inline constexpr bool same = std::is_same_v<std::remove_cvref_t<A>, std::remove_cvref_t<B>>;
template <class T>
inline constexpr int nodes = std::remove_cvref_t<T>::graph.size;

inline constexpr mn::dim past = mn::sym<"past">, fresh = mn::sym<"fresh">, table = mn::sym<"rows", 16>;

// dims are sums of products of symbols in normal form
static_assert(batch * seq == seq * batch && batch * seq != batch * batch && 2 * batch * 3 == batch * 6);
static_assert(past + fresh == fresh + past && past + fresh - past == fresh && batch - batch == mn::dim{});
static_assert(batch * (past + fresh) == past * batch + batch * fresh && 2 * (past + 3) == past + 6 + past);
static_assert((past + fresh) * 4 != past + fresh && (past + fresh) * 4 - past * 4 == 4 * fresh);
static_assert((past - 1) * (past + 1) == past * past - 1 && (past - 1) - past == mn::dim{-1});
static_assert((past + 2 * fresh + 1).same_symbols(3 * past + 6 * fresh + 3) && !past.same_symbols(past + 1));
static_assert((batch * batch * seq * seq).coefficient == 1 && (batch * batch * seq * seq * seq).coefficient == 0);
static_assert((past + fresh + batch).coefficient == 1 && (past + fresh + batch + seq).coefficient == 0);
static_assert((40000 * past + fresh).coefficient == 0);  // a factor has 16 bits
static_assert(table.sum().most() == 16 && table.sum().least() == 1 && (20 - table).sum().least() == 4);
static_assert((past - table).sum().least() == -15 && past.sum().most() == mn::extent_sum::unbounded);
static_assert((2 * past + 3).value<std::int64_t>([](const mn::symbol&) { return 5; }) == 13);
static_assert(dims<batch, 2, seq>.elements() == dims<seq * batch, 2>.elements());

// dims: symbols equal themselves only and take factors
static_assert(batch == mn::sym<"batch"> && batch != seq && batch * 4 != batch);
static_assert(dims<batch, 4>.rank == 2 && !dims<batch, 4>.is_static() && dims<3, 4>.coefficient() == 12);

// broadcasting is NumPy's
static_assert(shape<decltype(x<dims<batch, 4>> + y<dims<4>>)> == dims<batch, 4>);
static_assert(shape<decltype(x<dims<batch, 1, 4>> * y<dims<seq, 1>>)> == dims<batch, seq, 4>);
static_assert(shape<decltype(mn::maximum(x<dims<1>>, y<dims<2, 3>>))> == dims<2, 3>);
static_assert(shape<decltype(mn::select(mn::less(x<dims<4>>, y<dims<4>>), x<dims<3, 1>>, y<dims<1>>))> == dims<3, 4>);

// reductions, contractions
static_assert(shape<decltype(mn::sum<-1>(x<dims<batch, 4>>))> == dims<batch>);
static_assert(shape<decltype(mn::max<0, 2>(x<dims<2, 3, 4>>))> == dims<3>);
static_assert(shape<decltype(mn::mean(x<dims<batch, seq>>))> == dims<>);
static_assert(shape<decltype(mn::sum(x<dims<batch, seq>>))> == dims<> &&
              shape<decltype(mn::mean(x<dims<3>>))> == dims<>);
static_assert(shape<decltype(mn::max(x<dims<2, 3>>))> == dims<> && shape<decltype(mn::min(x<dims<2, 3>>))> == dims<>);
static_assert(shape<decltype(mn::product(x<dims<2, 3>>))> == dims<> && shape<decltype(mn::sum(x<dims<>>))> == dims<>);
static_assert(shape<decltype(mn::matmul(x<dims<batch, seq, 8>>, y<dims<8, 5>>))> == dims<batch, seq, 5>);
static_assert(shape<decltype(mn::matmul(x<dims<batch, 2, 8>>, y<dims<batch, 8, 5>>))> == dims<batch, 2, 5>);
static_assert(shape<decltype(mn::einsum<"thd,shd->hts">(x<dims<seq, 2, 8>>, y<dims<9, 2, 8>>))> == dims<2, seq, 9>);

// views
static_assert(shape<decltype(mn::reshape<dims<4, batch>>(x<dims<batch, 4>>))> == dims<4, batch>);
static_assert(shape<decltype(mn::flatten(x<dims<batch, 2, 3, 4>>))> == dims<batch, 24>);
static_assert(shape<decltype(mn::flatten<0, 1>(x<dims<batch, 2, 3>>))> == dims<batch * 2, 3>);
static_assert(shape<decltype(mn::flatten<0, 1>(x<dims<batch, seq, 3>>))> == dims<batch * seq, 3>);
static_assert(shape<decltype(mn::flatten<0, 1>(x<dims<batch, past + fresh, 3>>))> ==
              dims<batch * past + batch * fresh, 3>);
static_assert(shape<decltype(mn::reshape<dims<batch, seq, 3>>(x<dims<seq * batch, 3>>))> == dims<batch, seq, 3>);
static_assert(shape<decltype(mn::reshape<dims<2, 2 * batch>>(x<dims<4, batch>>))> == dims<2, 2 * batch>);
static_assert(shape<decltype(mn::permute<2, 0, 1>(x<dims<2, 3, 4>>))> == dims<4, 2, 3>);
static_assert(shape<decltype(mn::transpose(x<dims<batch, 3, 4>>))> == dims<batch, 4, 3>);
static_assert(shape<decltype(mn::slice<-1, 1, 3, 2>(x<dims<batch, 8>>))> == dims<batch, 3>);
static_assert(shape<decltype(mn::pad<0, 1, 2>(x<dims<3, 4>>))> == dims<6, 4>);
static_assert(shape<decltype(mn::concat<1>(x<dims<2, 3>>, y<dims<2, 4>>, x<dims<2, 1>>))> == dims<2, 8>);
static_assert(shape<decltype(mn::concat<0>(x<dims<past, 3>>, y<dims<fresh, 3>>))> == dims<past + fresh, 3>);
static_assert(shape<decltype(mn::concat<0>(x<dims<past, 3>>, y<dims<past, 3>>, y<dims<1, 3>>))> ==
              dims<2 * past + 1, 3>);
static_assert(shape<decltype(mn::pad<0, 1, 0>(x<dims<seq, 3>>))> == dims<seq + 1, 3>);
static_assert(shape<decltype(mn::slice<1, -1, 1>(x<dims<batch, seq, 3>>))> == dims<batch, 1, 3>);
static_assert(shape<decltype(mn::slice<0, 0, table>(x<dims<16, 3>>))> == dims<table, 3>);
static_assert(shape<decltype(x<dims<past + fresh, 3>> + y<dims<fresh + past, 1>>)> == dims<past + fresh, 3>);
static_assert(shape<decltype(mn::split_heads<3>(x<dims<seq, 48>>))> == dims<seq, 3, 16>);
static_assert(shape<decltype(mn::merge_heads(x<dims<seq, 3, 16>>))> == dims<seq, 48>);
static_assert(shape<decltype(mn::unsqueeze<-1>(x<dims<seq>>))> == dims<seq, 1>);
static_assert(shape<decltype(mn::expand<dims<batch, 3>>(x<dims<3>>))> == dims<batch, 3>);

// gather, convolution, pools
static_assert(shape<decltype(mn::gather<0>(x<dims<10, 4>>, y<dims<batch, seq>, mn::dtype::i32>))> ==
              dims<batch, seq, 4>);
static_assert(shape<decltype(mn::scatter_add<0, dims<10, 4>>(y<dims<3>, mn::dtype::i32>, x<dims<3, 4>>))> ==
              dims<10, 4>);
static_assert(
    shape<decltype(mn::index_add<-2>(x<dims<batch, 10, 4>>, y<dims<3>, mn::dtype::i32>, x<dims<batch, 3, 4>>))> ==
    dims<batch, 10, 4>);
static_assert(shape<decltype(mn::conv2d<"c", 8>(x<dims<batch, 1, 28, 28>>))> == dims<batch, 8, 26, 26>);
static_assert(shape<decltype(mn::conv2d<"c", 8, mn::conv2d_options{.kernel = 5, .stride = 2, .padding = 2}>(
                  x<dims<batch, 3, 28, 28>>))> == dims<batch, 8, 14, 14>);
static_assert(shape<decltype(mn::max_pool2d(x<dims<batch, 8, 27, 26>>))> == dims<batch, 8, 13, 13>);
static_assert(
    shape<decltype(mn::avg_pool2d<mn::pool2d_options{.window = 3, .stride = 2, .padding = 1}>(x<dims<1, 1, 8, 8>>))> ==
    dims<1, 1, 4, 4>);

// layers keep or change the last axis only; with and without a batch
static_assert(shape<decltype(mn::linear<"l", 5>(x<dims<batch, seq, 8>>))> == dims<batch, seq, 5>);
static_assert(shape<decltype(mn::rms_norm<"n">(x<dims<seq, 8>>))> == dims<seq, 8>);
static_assert(shape<decltype(mn::layer_norm<"n">(x<dims<seq, 8>>))> == dims<seq, 8>);
static_assert(shape<decltype(mn::softmax<0>(x<dims<seq, 8>>))> == dims<seq, 8>);
static_assert(shape<decltype(mn::log_softmax(x<dims<seq, 8>>))> == dims<seq, 8>);
static_assert(shape<decltype(mn::gelu(mn::gelu_tanh(mn::silu(mn::sigmoid(x<dims<seq>>)))))> == dims<seq>);
static_assert(shape<decltype(mn::rope(x<dims<batch, seq, 3, 8>>))> == dims<batch, seq, 3, 8>);
static_assert(shape<decltype(mn::attend(x<dims<seq, 4, 8>>, y<dims<9, 2, 8>>, y<dims<9, 2, 8>>))> == dims<seq, 4, 8>);
static_assert(
    shape<decltype(mn::attend<mn::gqa_options{.causal = true}>(x<dims<batch, seq, 4, 8>>, y<dims<batch, seq, 4, 8>>,
                                                               y<dims<batch, seq, 4, 8>>))> == dims<batch, seq, 4, 8>);
static_assert(
    shape<decltype(mn::attend<mn::gqa_options{.causal = true}>(
        x<dims<batch, fresh, 4, 8>>, y<dims<batch, past + fresh, 4, 8>>, y<dims<batch, past + fresh, 4, 8>>))> ==
    dims<batch, fresh, 4, 8>);
static_assert(shape<decltype(mn::cross_entropy_loss(x<dims<batch, seq, 7>>, y<dims<batch, seq>, mn::dtype::i32>))> ==
              dims<>);

// dtypes: a number takes the other operand's, a cast to the same is nothing
static_assert(decltype(x<dims<4>, mn::dtype::i32> * mn::constant<2>)::element_type == mn::dtype::i32);
static_assert(decltype(mn::constant<1.0f> - x<dims<4>, mn::dtype::f16>)::element_type == mn::dtype::f16);
static_assert(decltype(mn::cast<mn::dtype::f32>(x<dims<4>, mn::dtype::i32>))::element_type == mn::dtype::f32);
static_assert(same<decltype(mn::cast<mn::dtype::f32>(x<dims<4>>)), decltype(x<dims<4>>)>);

// sharing: equal nodes are one
static_assert(nodes<decltype(x<dims<4>> + x<dims<4>>)> == 2);
static_assert(nodes<decltype(mn::exp(x<dims<4>>) * mn::exp(x<dims<4>>))> == 3);

// peepholes
static_assert(same<decltype(-(-x<dims<4>>)), decltype(x<dims<4>>)>);
static_assert(same<decltype(mn::transpose(mn::transpose(x<dims<3, 4>>))), decltype(x<dims<3, 4>>)>);
static_assert(same<decltype(mn::permute<0>(x<dims<3>>)), decltype(x<dims<3>>)>);
static_assert(same<decltype(mn::permute<1, 2, 0>(mn::permute<1, 2, 0>(x<dims<2, 3, 4>>))),
                   decltype(mn::permute<2, 0, 1>(x<dims<2, 3, 4>>))>);
static_assert(same<decltype(mn::reshape<dims<12>>(mn::reshape<dims<4, 3>>(x<dims<3, 4>>))),
                   decltype(mn::reshape<dims<12>>(x<dims<3, 4>>))>);
static_assert(
    same<decltype(mn::constant<2.0f> * mn::constant<3.0f> + mn::constant<1.0f>), decltype(mn::constant<7.0f>)>);
static_assert(same<decltype(-mn::constant<2.0f>), decltype(mn::constant<-2.0f>)>);

// one argument by two names: a template's and a function's
static_assert(same<decltype(mn::softmax<-1>(x<dims<3, 4>>)), decltype(mn::softmax(x<dims<3, 4>>, mn::c<-1>))>);
static_assert(same<decltype(mn::sum<0, 1>(x<dims<3, 4>>)), decltype(mn::sum(x<dims<3, 4>>, mn::c<0>, mn::c<1>))>);
static_assert(
    same<decltype(mn::reshape<dims<12>>(x<dims<3, 4>>)), decltype(mn::reshape(x<dims<3, 4>>, mn::c<dims<12>>))>);

// GCC 12.2 takes arrays that differ in the place of their zeros for one template argument (see detail::natural).
static_assert(!same<decltype(x<dims<4>> - y<dims<4>>), decltype(y<dims<4>> - x<dims<4>>)>);
static_assert(!same<decltype((x<dims<4>> + y<dims<4>>)*(x<dims<4>> - y<dims<4>>)),
                    decltype((x<dims<4>> + y<dims<4>>)*(y<dims<4>> - x<dims<4>>))>);
static_assert(decltype(mn::pad<0, 1, 2>(x<dims<3, 4>>))::graph.nodes[1].list->values[mn::max_rank] == 2);
static_assert(decltype(mn::permute<1, 2, 0>(x<dims<2, 3, 4>>))::graph.nodes[1].list->values[1] == 2);
