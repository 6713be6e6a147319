// SPDX-License-Identifier: MIT
// Causal attention over keys that need not be as many as the queries.
// expect: meganeura: attend<options>\(q, k, v\): causal needs a key for each query, behind those of a past
// bytes: 3500
#include <meganeura/operations.hpp>

namespace mn = meganeura;
inline constexpr mn::dim past = mn::sym<"past">, fresh = mn::sym<"fresh">;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr mn::dim keys = past;
#else
inline constexpr mn::dim keys = past + fresh;
#endif

constexpr auto q = mn::state<"q", mn::dims<fresh, 2, 8>>;
constexpr auto k = mn::state<"k", mn::dims<keys, 2, 8>>;
constexpr auto y = mn::attend<mn::gqa_options{.causal = true}>(q, k, k);
static_assert(decltype(y)::shape.rank == 3);
