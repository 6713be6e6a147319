// SPDX-License-Identifier: MIT
// Saving while the disk fills, the process is killed, others write and read: the old file or the new one, never a
// mixture, and nothing left lying about.
#include "inject.hpp"

#include <meganeura/core/error.hpp>
#include <meganeura/io/file.hpp>
#include <support/sentence_of.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>

namespace mn = meganeura;
namespace io = meganeura::io;
namespace fs = std::filesystem;
namespace faults = meganeura::faults;
namespace support = meganeura::support;
using faults::file_fault;

namespace {

constexpr std::size_t size = 100'000;  // of every file here; one letter repeated says who wrote it

void save(const std::string& path, char letter) {  // in pieces, as a checkpoint is
  const std::string part(size / 4, letter);
  const auto bytes = std::as_bytes(std::span(part));
  const std::array pieces{bytes, bytes, bytes, bytes};
  io::write_file(path, pieces);
}

/// The letter of a whole file; '?' for a mixture or a part of one.
char letter_of(const std::string& path) {
  const auto bytes = io::read_file(path);
  if (bytes.size() != size) return '?';
  return std::ranges::all_of(bytes, [&](std::uint8_t byte) { return byte == bytes[0]; }) ? static_cast<char>(bytes[0])
                                                                                         : '?';
}

/// Runs `work` in a child; its exit status, 40 for an io error, 41 for another one, or minus the signal that ended it.
template <class Work>
int in_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 42;
    try {
      code = work();
    } catch (const mn::error& problem) {
      code = problem.category() == mn::error_category::io              ? 40
             : problem.category() == mn::error_category::out_of_memory ? 43
                                                                       : 41;
    } catch (...) {
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

TEST(faults_files, killed_in_any_phase_of_a_save_the_file_is_the_old_or_the_new_one) {
  const support::temporary_folder folder;
  const std::string path = folder / "model.safetensors";
  for (const auto what : {file_fault::kind::killed, file_fault::kind::killed_within}) {
    bool saw_old = false, saw_new = false;
    for (std::uint64_t at = 0;; ++at) {
      save(path, 'o');
      EXPECT_EQ(folder.files(), 1) << "what the last one left was not cleaned at " << at;
      const int status = in_child([&] {
        const file_fault fault(what, at);
        save(path, 'n');
        return fault.happened() ? 1 : 0;
      });
      if (status == 0) break;  // more calls than there are
      ASSERT_EQ(status, -SIGKILL) << at;
      const char letter = letter_of(path);
      ASSERT_TRUE(letter == 'o' || letter == 'n') << letter << " at " << at;
      saw_old = saw_old || letter == 'o';
      saw_new = saw_new || letter == 'n';
      ASSERT_LT(at, 1000u);
    }
    EXPECT_TRUE(saw_old && saw_new);
  }
}

TEST(faults_files, what_the_system_refuses_is_an_error_and_leaves_the_old_file) {
  const support::temporary_folder folder;
  const std::string path = folder / "model.safetensors";
  save(path, 'o');
  int errors = 0;
  for (const int code : {ENOSPC, EIO, EDQUOT, EACCES}) {
    for (std::uint64_t at = 0; at < 1000; ++at) {
      const file_fault fault(file_fault::kind::refused, at, code);
      bool failed = false;
      try {
        save(path, 'n');
      } catch (const mn::error& problem) {
        failed = true;
        EXPECT_EQ(problem.category(), mn::error_category::io);
        EXPECT_NE(std::string(problem.what()).find(path), std::string::npos) << problem.what();
      }
      if (!fault.happened()) break;
      const char letter = letter_of(path);
      // A save may go on without a lock or a cleaning; one whose last flush fails has renamed already and says so.
      EXPECT_TRUE(letter == 'n' || (failed && letter == 'o')) << letter << " at " << at;
      errors += failed ? 1 : 0;
      if (letter == 'n') save(path, 'o');
    }
  }
  EXPECT_GT(errors, 4 * 5);  // creation, four pieces, flush and rename, at the least
  save(path, 'x');
  EXPECT_EQ(folder.files(), 1);
}

TEST(faults_files, a_full_disk_and_a_file_size_limit_leave_the_old_file) {
  const support::temporary_folder folder;
  const std::string path = folder / "model.safetensors";
  save(path, 'o');
  EXPECT_EQ(in_child([&] {
              const rlimit limit{size / 2, size / 2};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              ::signal(SIGXFSZ, SIG_IGN);
              save(path, 'n');
              return 0;
            }),
            40);
  EXPECT_EQ(letter_of(path), 'o');
  EXPECT_EQ(folder.files(), 1);
  fs::create_symlink("/dev/full", folder / "full");  // a link: were it replaced, the machine would keep its device
  EXPECT_NE(support::sentence_of([&] { save(folder / "full", 'n'); }).find("No space left"), std::string::npos);
  EXPECT_TRUE(fs::is_symlink(folder / "full"));
}

TEST(faults_files, folders_that_may_not_be_written_or_are_not_there_are_errors) {
  const support::temporary_folder folder;
  const std::string path = folder / "model.safetensors";
  save(path, 'o');
  EXPECT_NE(support::sentence_of([&] { save(folder / "none/model", 'n'); }).find("No such file"), std::string::npos);
  EXPECT_NE(support::sentence_of([&] { save(path + "/model", 'n'); }).find("Not a directory"), std::string::npos);
  ::chmod(folder.path().c_str(), 0555);
  EXPECT_EQ(in_child([&] {
              if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 40;  // no such right here
              save(path, 'n');
              return 0;
            }),
            40);
  ::chmod(folder.path().c_str(), 0755);
  EXPECT_EQ(letter_of(path), 'o');
}

TEST(faults_files, threads_and_processes_that_write_and_read_one_file_see_whole_ones) {
  const support::temporary_folder folder;
  const std::string path = folder / "model.safetensors";
  save(path, 'a');
  const int rounds = faults::all_points() ? 2000 : 60;
  std::vector<pid_t> children;
  for (const char letter : {'b', 'c'}) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0; i < rounds; ++i) save(path, letter);
      ::_exit(0);
    }
    children.push_back(child);
  }
  std::atomic<int> writers{2}, mixtures{0}, reads{0};
  std::vector<std::thread> threads;
  for (const char letter : {'d', 'e'}) {
    threads.emplace_back([&, letter] {
      for (int i = 0; i < rounds; ++i) save(path, letter);
      --writers;
    });
  }
  while (writers > 0) {
    ++reads;
    mixtures += letter_of(path) == '?' ? 1 : 0;
  }
  for (std::thread& thread : threads) thread.join();
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(mixtures, 0) << "of " << reads;
  save(path, 'z');
  EXPECT_EQ(folder.files(), 1);
}

TEST(faults_files, more_than_the_memory_there_is_is_an_error) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's shadow alone is more than the limit";
#endif
  const support::temporary_folder folder;
  const std::string path = folder / "large";
  support::write(path, std::string("x"));
  fs::resize_file(path, std::uintmax_t{900} << 20);
  EXPECT_EQ(in_child([&] {
              const rlimit limit{std::uint64_t{512} << 20, std::uint64_t{512} << 20};
              ::setrlimit(RLIMIT_AS, &limit);
              (void)io::read_file(path);
              return 0;
            }),
            43);
}
