// SPDX-License-Identifier: MIT
// The progress line: in a log one line an epoch and no control characters, on a terminal one that is written anew.
#include <meganeura/runtime/progress.hpp>

#include <gtest/gtest.h>

#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace {

// What so many epochs of 100 samples, or of none, leave in a log.
std::string log_of(std::size_t epochs, std::size_t samples, int done) {
  std::FILE* file = std::tmpfile();
  meganeura::progress line(file, epochs, samples);
  for (int epoch = 0; epoch < done; ++epoch) {
    for (std::size_t part = 1; part <= 10; ++part) line.update(part * samples / 10, 0.5f);
    line.finish_epoch(0.25f);
  }
  std::rewind(file);
  char buffer[1024];
  const std::string text(buffer, std::fread(buffer, 1, sizeof buffer, file));
  std::fclose(file);
  return text;
}

TEST(runtime_progress, a_log_gets_one_plain_line_an_epoch) {
  const std::string text = log_of(2, 100, 2);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_EQ(text.find_first_of("\r\x1b"), std::string::npos) << text;
  EXPECT_EQ(text.find("epoch 1/2  100 %  loss 0.2500"), 0u) << text;
  EXPECT_NE(text.find("epoch 2/2  100 %"), std::string::npos) << text;
  EXPECT_NE(text.find("samples/s"), std::string::npos) << text;
}

TEST(runtime_progress, epochs_of_nothing_and_more_than_were_announced_are_shown) {
  const std::string none = log_of(1, 0, 1), more = log_of(1, 100, 3);
  EXPECT_EQ(none.find("100 %  loss 0.2500  0 samples/s"), 0u) << none;
  EXPECT_EQ(more.find('-'), std::string::npos) << more;
  EXPECT_NE(more.find(", 0.0 s left\n"), std::string::npos) << more;
}

TEST(runtime_progress, any_number_of_losses_is_kept_as_a_few_means) {
  meganeura::detail::neighbour_means kept;
  for (int i = 0; i < 48; ++i) kept.add(i);
  ASSERT_EQ(kept.means().size(), 48u);
  EXPECT_EQ(kept.means()[47], 47);
  for (int i = 48; i < 1000; ++i) kept.add(i);
  ASSERT_EQ(kept.means().size(), 32u);  // of 32 numbers each, the last of 8
  for (std::size_t i = 0; i < 31; ++i) EXPECT_DOUBLE_EQ(kept.means()[i], 32.0 * static_cast<double>(i) + 15.5);
  EXPECT_DOUBLE_EQ(kept.means()[31], 995.5);
}

TEST(runtime_progress, a_terminal_shows_the_losses_so_far_as_blocks) {
  int master = -1, slave = -1;
  ASSERT_EQ(::openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
  std::FILE* terminal = ::fdopen(slave, "w");
  meganeura::progress line(terminal, 1, 100);
  line.update(10, 4);
  ::usleep(110'000);  // the line is refreshed ten times a second
  line.update(20, 2);
  line.update(30, 1);
  line.clear();
  std::string text;
  char buffer[1024];
  for (pollfd ready{master, POLLIN, 0}; ::poll(&ready, 1, 200) == 1;) {  // it comes in pieces
    text.append(buffer, static_cast<std::size_t>(::read(master, buffer, sizeof buffer)));
  }
  std::fclose(terminal);
  ::close(master);
  EXPECT_EQ(text.find("\r\x1b[K 10 %  loss 4.0000"), 0u) << text;
  EXPECT_NE(text.find(" s left  █▁"), std::string::npos) << text;
  EXPECT_EQ(text.find(" 30 %"), std::string::npos) << text;
  EXPECT_EQ(text.substr(text.size() - 4), "\r\x1b[K");
}

}  // namespace
