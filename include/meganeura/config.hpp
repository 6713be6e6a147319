// SPDX-License-Identifier: MIT
// The one build switch (header-only or compiled) and the ABI namespace.
#pragma once
#ifdef MEGANEURA_SINGLE_INCLUDE  // compilers stop at a file that is missing, and at nothing else
#define MEGANEURA_TWICE "meganeura: <meganeura/...> is included after <meganeura.hpp>, which holds it; include only one"
#include MEGANEURA_TWICE
#endif
#if __cplusplus < 202002L
#define MEGANEURA_OLD "meganeura needs C++20: compile with -std=c++20, or with CMake link meganeura::meganeura"
#include MEGANEURA_OLD
#endif
#include <meganeura/version.hpp>

// Headers without CMake hold every body. The CMake targets meganeura::meganeura and meganeura::runtime, which compile
// the bodies apart, define this as 0 and are the only opt-out.
#ifndef MEGANEURA_HEADER_ONLY
#define MEGANEURA_HEADER_ONLY 1
#endif

// Everything lives in `namespace meganeura::inline MEGANEURA_ABI`, in both modes the same: files of both may meet in
// one program, for instance a library's and its user's. What they define is the same, inline or not, and the linker
// keeps one of each: an error thrown by the one is caught by the other, and there is one state.
#define MEGANEURA_ABI v0_1
#if MEGANEURA_HEADER_ONLY
#define MEGANEURA_INLINE inline
#else
#define MEGANEURA_INLINE
#endif
