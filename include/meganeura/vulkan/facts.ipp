// SPDX-License-Identifier: MIT
// Choosing one of the devices that were found.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/vulkan/facts.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace meganeura::inline MEGANEURA_ABI::vulkan {

namespace detail {

inline std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return result;
}

inline std::string list_devices(const std::vector<device_facts>& found) {
  if (found.empty()) return "no device";
  std::string list;
  for (const device_facts& facts : found) {
    list += fmt::format("{}[{}] {} ({})", list.empty() ? "" : ", ", facts.index, facts.name, to_string(facts.type));
    if (!facts.unusable_because.empty()) list += fmt::format(" unusable: {}", facts.unusable_because);
  }
  return list;
}

inline int preference(device_type type) {
  switch (type) {
    case device_type::discrete_gpu:
      return 0;
    case device_type::integrated_gpu:
      return 1;
    case device_type::virtual_gpu:
      return 2;
    case device_type::other:
      return 3;
    case device_type::cpu:
      return 4;
  }
  return 5;
}

inline bool matches(const device_facts& facts, std::string_view wish) {
  if (wish.empty()) return true;
  std::uint32_t index = 0;
  const char* end = wish.data() + wish.size();
  const auto parsed = std::from_chars(wish.data(), end, index);
  if (parsed.ec == std::errc() && parsed.ptr == end) return facts.index == index;
  const std::string wanted = lower(wish);
  if (wanted == "cpu") return facts.type == device_type::cpu;
  return lower(facts.name).find(wanted) != std::string::npos;
}

}  // namespace detail

MEGANEURA_INLINE std::size_t choose_device(const std::vector<device_facts>& found, std::string_view wish) {
  constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::size_t best = none;
  std::size_t refused = none;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!detail::matches(found[i], wish)) continue;
    if (!found[i].unusable_because.empty()) {
      refused = i;
    } else if (best == none || detail::preference(found[i].type) < detail::preference(found[best].type)) {
      best = i;
    }
  }
  if (best != none) return best;
  if (refused != none) {
    fail(error_category::unsupported, "Vulkan device {} cannot be used: {}; found: {}", found[refused].name,
         found[refused].unusable_because, detail::list_devices(found));
  }
  if (wish.empty()) {
    fail(error_category::no_device,
         "no Vulkan device was found; install a driver (Mesa's lavapipe runs on any processor: mesa-vulkan-drivers)");
  }
  fail(error_category::no_device,
       "no Vulkan device matches \"{}\"; found: {}; ask for an index, a part of a name or cpu", wish,
       detail::list_devices(found));
}

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan
