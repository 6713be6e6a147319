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

TEST(runtime_progress, a_log_gets_one_plain_line_an_epoch) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  meganeura::progress line(file, 2, 100);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (std::size_t done = 10; done <= 100; done += 10) line.update(done, 0.5f);
    line.finish_epoch(0.25f);
  }
  std::rewind(file);
  char buffer[1024];
  const std::string text(buffer, std::fread(buffer, 1, sizeof buffer, file));
  std::fclose(file);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_EQ(text.find_first_of("\r\x1b"), std::string::npos) << text;
  EXPECT_EQ(text.find("epoch 1/2  100 %  loss 0.2500"), 0u) << text;
  EXPECT_NE(text.find("epoch 2/2  100 %"), std::string::npos) << text;
  EXPECT_NE(text.find("samples/s"), std::string::npos) << text;
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
