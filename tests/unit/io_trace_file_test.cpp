// SPDX-License-Identifier: MIT
// The writer of traces: one file of a process, whole whoever writes, bounded, and never an error.
#include <meganeura/io/trace_file.hpp>

#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace meganeura;
using io::trace_file;

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Of a trace that its process may still be writing.
nlohmann::json events_of(const std::string& path) {
  std::string text = text_of(path);
  if (!text.ends_with("]\n")) text += "]";
  return nlohmann::json::parse(text);
}

struct warnings {
  std::vector<std::string> texts;
  log_sink sink = [this](log_level level, std::string_view text) {
    if (level == log_level::warning) texts.emplace_back(text);
  };
};

TEST(io_trace_file, slices_and_arrows_are_events_of_perfettos_format) {
  const support::temporary_folder folder;
  const auto trace = trace_file::open(folder / "t.json", 100, {});
  const std::uint32_t device = trace->add_track("a \"device\"", {}), host = trace->thread_track({});
  EXPECT_EQ(trace->thread_track({}), host);
  const std::array slices{io::trace_slice{host, "submit", "step", 1'000'001, 1'002'000, R"("step":7)"},
                          io::trace_slice{device, "a\nb\\\"c\x01\xff", "dispatch", 1'001'500, 3'000'000}};
  const io::trace_arrow arrow{5, host, device, 1'000'001, 1'001'500};
  trace->write(slices, {&arrow, 1}, {});
  const nlohmann::json all = events_of(folder / "t.json");
  ASSERT_EQ(all.size(), 9u) << all.dump(1);
  EXPECT_EQ(all[0]["name"], "process_name");
  EXPECT_NE(all[0]["args"]["name"], "");
  EXPECT_EQ(all[1]["args"]["name"], "a \"device\"");
  EXPECT_EQ(all[1]["tid"], device);
  EXPECT_EQ(all[3]["args"]["name"], "host thread 1");
  EXPECT_EQ(all[5], (nlohmann::json{{"ph", "X"},
                                    {"pid", ::getpid()},
                                    {"tid", host},
                                    {"ts", 1000.001},
                                    {"dur", 1.999},
                                    {"cat", "step"},
                                    {"name", "submit"},
                                    {"args", {{"step", 7}}}}));
  EXPECT_EQ(all[6]["name"], "a\nb\\\"c\x01\xef\xbf\xbd");
  EXPECT_EQ(all[6]["dur"], 1998.5);
  EXPECT_EQ(all[7]["ph"], "s");
  EXPECT_EQ(all[7]["tid"], host);
  EXPECT_EQ(all[8]["ph"], "f");
  EXPECT_EQ(all[8]["tid"], device);
  EXPECT_EQ(all[8]["id"], all[7]["id"]);
}

TEST(io_trace_file, one_path_is_one_file_of_the_process) {
  const support::temporary_folder folder;
  const auto trace = trace_file::open(folder / "t.json", 100, {});
  EXPECT_EQ(trace_file::open(folder / "t.json", 100, {}), trace);
  EXPECT_EQ(trace_file::open(folder / "./none/../t.json", 100, {}), trace) << "however it is spelt";
  std::filesystem::create_symlink("t.json", folder / "link.json");
  EXPECT_EQ(trace_file::open(folder / "link.json", 100, {}), trace);
  EXPECT_NE(trace_file::open(folder / "u.json", 100, {}), trace);
}

TEST(io_trace_file, a_trace_that_was_there_is_replaced_and_nothing_else) {
  const support::temporary_folder folder;
  support::write(folder / "s.json", std::string());
  const auto older = trace_file::open(folder / "s.json", 100, {});
  older->close();
  support::write(folder / "t.json", text_of(folder / "s.json") + std::string(100'000, ' '));
  (void)trace_file::open(folder / "t.json", 100, {});
  EXPECT_EQ(events_of(folder / "t.json").size(), 1u);
  for (const std::string& other : {std::string(100'000, 'x'), std::string("{}"), std::string("[\n{\"a\":1}]")}) {
    warnings log;
    const std::string path = folder / ("other" + std::to_string(other.size()));
    support::write(path, other);
    EXPECT_EQ(trace_file::open(path, 100, log.sink), nullptr);
    EXPECT_EQ(log.texts.size(), 1u);
    EXPECT_EQ(text_of(path), other) << "nothing of it is lost";
  }
}

TEST(io_trace_file, a_trace_that_is_full_says_so_and_ends) {
  const support::temporary_folder folder;
  warnings log;
  const auto trace = trace_file::open(folder / "t.json", 10, log.sink);
  const std::uint32_t track = trace->add_track("d", log.sink);  // two events
  const std::vector<io::trace_slice> slices(4, {track, "s", "step", 1, 2});
  trace->write(slices, {}, log.sink);
  EXPECT_TRUE(trace->is_open());
  trace->write(slices, {}, log.sink);
  EXPECT_TRUE(trace->is_open()) << "10 events are no more than 10";
  trace->write(slices, {}, log.sink);
  EXPECT_FALSE(trace->is_open());
  trace->write(slices, {}, log.sink);
  EXPECT_EQ(trace->add_track("e", log.sink), 0u);
  const nlohmann::json all = nlohmann::json::parse(text_of(folder / "t.json"));
  EXPECT_EQ(all.size(), 12u) << "the process's name, 10 events and the last one";
  EXPECT_EQ(all.back()["ph"], "i");
  EXPECT_EQ(all.back()["name"], "the trace was cut after 10 events: see device_options::trace_events");
  EXPECT_TRUE(log.texts.empty());
}

TEST(io_trace_file, arrows_have_both_ends_or_none) {
  const support::temporary_folder folder;
  const auto trace = trace_file::open(folder / "t.json", 3, {});
  const std::vector<io::trace_arrow> arrows(2, {1, 1, 1, 5, 6});
  trace->write({}, arrows, {});
  EXPECT_EQ(nlohmann::json::parse(text_of(folder / "t.json")).size(), 4u);
}

TEST(io_trace_file, a_path_that_cannot_be_written_is_a_warning) {
  const support::temporary_folder folder;
  const auto said = [](const std::string& path) {
    warnings log;
    EXPECT_EQ(trace_file::open(path, 100, log.sink), nullptr);
    EXPECT_EQ(log.texts.size(), 1u);
    return log.texts.empty() ? std::string() : log.texts[0];
  };
  const std::string advice = "; set MEGANEURA_TRACE or device_options::trace to a file that can be written";
  EXPECT_EQ(said(folder / "no/t.json"),
            "there is no trace: " + folder / "no/t.json" + " cannot be written: No such file or directory" + advice);
  EXPECT_EQ(said(folder.path().string()),
            "there is no trace: " + folder.path().string() + " cannot be written: Is a directory" + advice);
  EXPECT_EQ(said("/dev/null"), "there is no trace: /dev/null cannot be written: it is no ordinary file" + advice);
}

TEST(io_trace_file, a_file_that_another_process_writes_is_left_alone) {
  const support::temporary_folder folder;
  const std::string path = folder / "t.json", own = folder / ("t." + std::to_string(::getpid()) + ".json");
  support::write(path, std::string("theirs"));
  const int theirs = ::open(path.c_str(), O_WRONLY);
  ASSERT_EQ(::flock(theirs, LOCK_EX), 0);
  const auto trace = trace_file::open(path, 100, {});
  ASSERT_NE(trace, nullptr);
  EXPECT_EQ(trace->path(), own);
  EXPECT_EQ(text_of(path), "theirs");
  EXPECT_EQ(events_of(own).size(), 1u);
  ::close(theirs);
}

TEST(io_trace_file, threads_do_not_garble_each_others_events) {
  const support::temporary_folder folder;
  const auto trace = trace_file::open(folder / "t.json", 1'000'000, {});
  constexpr int threads = 4, rounds = 200;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      const std::uint32_t track = trace->thread_track({});
      const std::string name(static_cast<std::size_t>(100 + 37 * t), static_cast<char>('a' + t));
      for (int i = 0; i < rounds; ++i) {
        const std::vector<io::trace_slice> slices(7, {track, name, "step", i, i + 1});
        trace->write(slices, {}, {});
      }
    });
  }
  for (std::thread& each : all) each.join();
  std::set<std::uint32_t> tracks;
  int slices = 0;
  for (const nlohmann::json& each : events_of(folder / "t.json")) {
    if (each["ph"] != "X") continue;
    ++slices;
    tracks.insert(each["tid"].get<std::uint32_t>());
    const std::string name = each["name"];
    EXPECT_EQ(name, std::string(name.size(), name[0]));
  }
  EXPECT_EQ(slices, threads * rounds * 7);
  EXPECT_EQ(tracks.size(), static_cast<std::size_t>(threads));
}

TEST(io_trace_file, a_process_ends_its_own_trace_and_no_other_one) {
  const support::temporary_folder folder;
  const std::string path = folder / "t.json", childs = folder / "child.json";
  const auto trace = trace_file::open(path, 100, {});
  EXPECT_EXIT(
      {
        const auto own = trace_file::open(childs, 100, {});
        (void)own->add_track("d", {});
        EXPECT_EQ(trace->add_track("d", {}), 0u);
        std::exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(nlohmann::json::parse(text_of(childs)).size(), 3u);
  (void)trace->add_track("d", {});
  EXPECT_EQ(events_of(path).size(), 3u);
}

}  // namespace
