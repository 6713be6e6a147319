// SPDX-License-Identifier: MIT
// Looking at what is bound before a step runs, so that a mistake has a name and a place.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/graph/graph.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// What a program looks at on the host. Without, nothing is undefined: an index out of range reads zeros or adds
/// nothing, a label that is no class is left out, and NaN spreads to the loss.
enum class checks : std::uint8_t {
  none = 0,
  indices = 1,       // tokens that are bound, and
  labels = indices,  // labels, which are indices of classes: "label[17] = 12: cross_entropy has 10 classes"
  finite = 2,        // no NaN and no infinity in the float inputs and in the loss of a step
  all = 3,
  automatic = 4  // alone: all where a unit with the library's bodies was compiled without NDEBUG, otherwise none
};

[[nodiscard]] constexpr checks operator|(checks a, checks b) {
  return static_cast<checks>(static_cast<int>(a) | static_cast<int>(b));
}
[[nodiscard]] constexpr bool includes(checks set, checks one) {
  return (static_cast<int>(set) & static_cast<int>(one)) != 0;
}

namespace detail {

// `automatic` made one of the others, the same in every translation unit: the compiled library decides, or header-only
// all units together, of which one without NDEBUG is enough for `all`.
[[nodiscard]] checks resolved(checks chosen);

// The values one input should have: those elements of it that are read as indices.
struct index_check {
  std::string input;
  std::int64_t count = 0;
  std::optional<std::int64_t> ignored;
  std::string rule;
  std::vector<bool> read;
  // Of an input of which only some are read, as another one says: its name, and for each element which number of it has
  // to be greater than what.
  std::string counts{};
  struct condition {
    std::int64_t element = 0, above = 0;
  };
  std::vector<condition> conditions{};
};

// Of all index ranges whose indices are an input, or a view of one; indices computed on the device are left out.
[[nodiscard]] std::vector<index_check> index_checks(const graph& g);

// "label[3, 17]"; a scalar is just "label".
[[nodiscard]] std::string place_of(std::string_view name, const shape& extents, std::size_t element);
// `counts`: the values of that input, where there is one. errors: invalid_argument, naming the step ("step 17: ", or
// nothing), input, position, value and rule.
void check_indices(std::string_view step, const index_check& check, const shape& extents,
                   std::span<const std::byte> values, std::span<const std::byte> counts);
// `stored`: the input's dtype, in which a number may be infinity that is none in the dtype it was given in.
void check_finite(std::string_view step, std::string_view input, dtype stored, const shape& extents, dtype given,
                  std::span<const std::byte> values);

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/checks.ipp>
#endif
