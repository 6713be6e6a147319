// SPDX-License-Identifier: MIT
// Operands by name that are given twice, to a module that has none of the name, of another dtype, or too many.
// expect 1: meganeura: multi_head_attention<name, heads>\(x, operands...\): operands are attn_mask and key_lengths
// expect 2: meganeura: forward\(x...\): a module needs a static function forward that takes one value for each input
// expect 3: key_lengths\(n\)\): n must be i32, one for each sequence
// expect 4: meganeura: call<name, module>\(x...\): at most 4 operands
// expect 5: meganeura: call<name, lstm<options>>\(x\): dropout is from 0 to 1
// bytes: 7000
#include <meganeura/operations.hpp>

namespace mn = meganeura;
inline constexpr mn::transformer_options sizes{.width = 4, .heads = 2};
#if MEGANEURA_EXPECT_FAILURE == 5
inline constexpr mn::recurrent_options deep{.hidden = 4, .dropout = 1.5f};
#else
inline constexpr mn::recurrent_options deep{.hidden = 4, .dropout = 0.5f};
#endif

constexpr auto x = mn::state<"x", mn::dims<2, 3, 4>>;
constexpr auto counts = mn::state<"counts", mn::dims<2>, mn::dtype::i32>;
constexpr mn::key_lengths n(counts);
#if MEGANEURA_EXPECT_FAILURE == 1
constexpr auto y = mn::multi_head_attention<"attn", 2>(x, n, n);
#elif MEGANEURA_EXPECT_FAILURE == 2
constexpr auto y = mn::call<"lstm", mn::lstm<deep>>(x, n);
#elif MEGANEURA_EXPECT_FAILURE == 3
constexpr auto y = mn::multi_head_attention<"attn", 2>(x, mn::key_lengths(x));
#elif MEGANEURA_EXPECT_FAILURE == 4
constexpr auto y = mn::call<"decoder", mn::transformer_decoder_layer<sizes>>(x, x, n, mn::memory_lengths(counts),
                                                                             mn::memory_mask(counts));
#else
constexpr auto h = mn::call<"lstm", mn::lstm<deep>>(x, mn::sequence_lengths(counts));
constexpr auto y = mn::call<"decoder", mn::transformer_decoder_layer<sizes>>(h, x, n, mn::memory_lengths(counts));
#endif
static_assert(decltype(y)::shape.rank <= 3);
