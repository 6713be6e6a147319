// SPDX-License-Identifier: MIT
// Attention takes operands by name, each once: one of another layer would be dropped.
// expect: operands are attn_mask, key_lengths and attention_sinks, each at most once
// bytes: 3500
#include <meganeura/operations.hpp>

namespace mn = meganeura;

constexpr auto q = mn::state<"q", mn::dims<3, 2, 5, 8>>;
constexpr auto n = mn::state<"n", mn::dims<3>, mn::dtype::i32>;
#ifdef MEGANEURA_EXPECT_FAILURE
constexpr auto y = mn::attend(q, q, q, mn::key_lengths(n), mn::memory_lengths(n));
#else
constexpr auto y = mn::attend(q, q, q, mn::key_lengths(n));
#endif
static_assert(decltype(y)::shape.rank == 4);
