// SPDX-License-Identifier: MIT
// Handwritten-like digits drawn by a program, for a machine that has neither files nor network.
#pragma once
#include <meganeura/data/labelled_images.hpp>

#include <cstddef>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::data {

/// `count` images of 28x28, labels 0 to 9 in random order: pen strokes, bent, tilted, scaled, moved and inked at
/// random. The same seed gives the same images (but for the last bit of another maths library), another seed others.
/// errors: out_of_memory.
[[nodiscard]] labelled_images make_digits(std::size_t count, std::uint64_t seed);

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/digits.ipp>
#endif
