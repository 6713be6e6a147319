// SPDX-License-Identifier: MIT
// The one build switch (header-only or compiled) and the ABI namespace that keeps the two modes apart.
#pragma once
#include <meganeura/version.hpp>

// Header-only is the default. Linking the CMake target meganeura::runtime defines this as 0 and is the only opt-out.
#ifndef MEGANEURA_HEADER_ONLY
#define MEGANEURA_HEADER_ONLY 1
#endif

// Everything lives in `namespace meganeura::inline MEGANEURA_ABI`. The mode is part of that name, so that a program
// whose translation units disagree links two complete copies instead of breaking the one-definition rule.
#if MEGANEURA_HEADER_ONLY
#define MEGANEURA_ABI v0_1_header_only
#define MEGANEURA_INLINE inline
#else
#define MEGANEURA_ABI v0_1
#define MEGANEURA_INLINE
#endif
