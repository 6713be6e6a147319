// SPDX-License-Identifier: MIT
// A file and a process for each module that is new.
#include <meganeura/spirv/opcodes.hpp>

#include <support/spirv_validator.hpp>

#include <unistd.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

namespace {

std::string program() {
  const char* named = std::getenv("MEGANEURA_SPIRV_VAL");
  return named != nullptr && *named != 0 ? named : "spirv-val";
}

// What it prints, and whether it ended well.
std::string output_of(const std::string& command, bool& succeeded) {
  std::string text;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  char line[512];
  while (pipe != nullptr && std::fgets(line, sizeof line, pipe) != nullptr) text += line;
  succeeded = pipe != nullptr && ::pclose(pipe) == 0;
  return text;
}

// Of its version, "SPIRV-Tools v2023.1 ..."; 0 where there is none.
int year() {
  static const int found = [] {
    bool succeeded = false;
    const std::string text = output_of("'" + program() + "' --version", succeeded);
    const std::size_t at = text.find("SPIRV-Tools v");
    return succeeded && at != std::string::npos ? std::atoi(text.c_str() + at + 13) : 0;
  }();
  return found;
}

constexpr int recent = 2025;

}  // namespace

bool can_validate(const spirv::module& kernel) {
  if (year() == 0 || year() >= recent) return year() != 0;
  for (std::size_t i = 5; i < kernel.words.size() && (kernel.words[i] & 0xffffu) == 17u; i += kernel.words[i] >> 16) {
    for (const spirv::capability young : {spirv::capability::cooperative_matrix, spirv::capability::bfloat16_type}) {
      if (kernel.words[i + 1] == static_cast<std::uint32_t>(young)) return false;
    }
  }
  return true;
}

std::string validation_of(const spirv::module& kernel) {
  static std::set<std::vector<std::uint32_t>> known;
  if (!can_validate(kernel) || !known.insert(kernel.words).second) return {};
  const auto path = std::filesystem::temp_directory_path() / ("meganeura_" + std::to_string(::getpid()) + ".spv");
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(kernel.words.data()), static_cast<std::streamsize>(kernel.words.size() * 4));
  std::vector<std::string> targets{kernel.words[1] > 0x10500 ? "vulkan1.3" : "vulkan1.2"};
  if (year() >= recent) targets.emplace_back("vulkan1.4");
  std::string said;
  for (const std::string& target : targets) {
    bool succeeded = false;
    const std::string text =
        output_of("'" + program() + "' --target-env " + target + " '" + path.string() + "'", succeeded);
    if (!succeeded || !text.empty()) said += "spirv-val, " + target + ": " + text;
  }
  std::filesystem::remove(path);
  return said;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
