// SPDX-License-Identifier: MIT
// A compiler that was not told to take C++20.
// expect: meganeura needs C\+\+20: compile with -std=c\+\+20
#ifdef MEGANEURA_EXPECT_FAILURE
#undef __cplusplus
#define __cplusplus 201703L
#endif
#include <meganeura/config.hpp>

int main() {}
