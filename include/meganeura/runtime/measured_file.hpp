// SPDX-License-Identifier: MIT
// Files of what was measured on a device: JSON that says where it comes from, with a checksum.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/io/bounded_json.hpp>
#include <meganeura/io/crc32.hpp>
#include <meganeura/io/file.hpp>
#include <meganeura/runtime/device.hpp>
#include <meganeura/version.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::detail {

/// Of which device, driver and version of the library.
[[nodiscard]] inline nlohmann::json measured_origin(const device& on) {
  return {{"device", on.facts().name},
          {"driver", on.facts().driver},
          {"driver_version", on.facts().driver_version},
          {"meganeura",
           fmt::format("{}.{}.{}", MEGANEURA_VERSION_MAJOR, MEGANEURA_VERSION_MINOR, MEGANEURA_VERSION_PATCH)}};
}

[[nodiscard]] inline std::string checksum_of(const nlohmann::json& content) {
  const std::string text = content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return io::crc32(std::as_bytes(std::span(text)));
}

/// errors: io.
inline void write_measured(const std::string& path, const nlohmann::json& origin, const char* name,
                           const nlohmann::json& content) {
  const nlohmann::json whole{{"origin", origin}, {name, content}, {"crc32", checksum_of(content)}};
  const std::string text = whole.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  io::write_file(path, std::span(&bytes, 1));
}

/// Empty where the file has another origin. errors: io; invalid_file for a damaged one, where `what` was expected.
[[nodiscard]] inline std::optional<nlohmann::json> read_measured(const std::string& path, const nlohmann::json& origin,
                                                                 const char* name, const char* what) {
  constexpr std::uint64_t most = 16 << 20;
  const std::vector<std::uint8_t> bytes = io::read_file(path, most);
  const std::string text(bytes.begin(), bytes.end());
  const nlohmann::json whole = io::detail::parse_bounded_json(text, path, what);
  if (!whole.is_object() || !whole.contains("origin") || !whole.contains(name) || !whole.contains("crc32"))
    io::bad_file(path, 0, what, "something else");
  if (whole["origin"] != origin) return {};
  if (whole["crc32"] != checksum_of(whole[name])) io::bad_file(path, 0, what, "another checksum");
  return whole[name];
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
