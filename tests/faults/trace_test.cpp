// SPDX-License-Identifier: MIT
// A trace while memory and the disk end: what is in the file is whole events, and nothing is thrown.
#include "inject.hpp"

#include <meganeura/io/trace_file.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace mn = meganeura;
namespace io = meganeura::io;
namespace faults = meganeura::faults;
namespace support = meganeura::support;

namespace {

std::size_t events_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::string all = text.str();
  if (!all.ends_with("]\n")) all += "]";
  return nlohmann::json::parse(all).size();
}

constexpr io::trace_slice one{1, "a name that has no room in a short string", "step", 1, 2};
constexpr std::array slices{one, one, one};
constexpr std::array arrows{io::trace_arrow{1, 1, 2, 1, 2}};

TEST(trace_faults, a_disk_that_is_full_ends_the_trace_with_a_warning) {
  const support::temporary_folder folder;
  std::vector<std::string> said;
  const mn::log_sink log = [&](mn::log_level, std::string_view text) { said.emplace_back(text); };
  const auto trace = io::trace_file::open(folder / "t.json", 100, log);
  trace->write(slices, arrows, log);
  {
    const faults::file_fault full(faults::file_fault::kind::refused, 0, ENOSPC);  // writes the half before
    trace->write(slices, arrows, log);
  }
  EXPECT_FALSE(trace->is_open());
  trace->write(slices, arrows, log);
  EXPECT_EQ(said, std::vector<std::string>{"the trace " + folder / "t.json" +
                                           " ends here: it cannot be written: No space left on device"});
  EXPECT_EQ(events_of(folder / "t.json"), 6u);
}

TEST(trace_faults, where_memory_is_short_events_are_left_out) {
  const support::temporary_folder folder;
  const auto trace = io::trace_file::open(folder / "t.json", 100'000, {});
  std::size_t failed = 0;
  for (std::uint64_t point = 0; point < 100; ++point) {
    const std::size_t before = events_of(folder / "t.json");
    {
      const faults::allocation_fault fault(point);
      (void)trace->add_track("a name that has no room in a short string", {});
      (void)trace->thread_track({});
      trace->write(slices, arrows, {});
    }
    failed += events_of(folder / "t.json") < before + 2 + slices.size() + 2 * arrows.size();
  }
  EXPECT_GT(failed, 5u);
  EXPECT_LT(failed, 95u);
  EXPECT_TRUE(trace->is_open());
}

}  // namespace
