// SPDX-License-Identifier: MIT
// The progress line in a log: one line an epoch, no control characters.
#include <meganeura/runtime/progress.hpp>

#include <gtest/gtest.h>

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

}  // namespace
