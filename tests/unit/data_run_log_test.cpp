// SPDX-License-Identifier: MIT
// A run's curves: what the page draws, what TensorBoard's events say when they are read back, the line of blocks.
#include <meganeura/data/run_log.hpp>
#include <meganeura/io/crc32.hpp>
#include <meganeura/io/file.hpp>

#include <support/sentence_of.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace {

using namespace meganeura;

constexpr double infinity = std::numeric_limits<double>::infinity();

std::string text_of(const std::string& path) {
  const auto bytes = io::read_file(path);
  return {bytes.begin(), bytes.end()};
}

std::string page_of(const data::run_log& log, const std::string& title = "t") {
  const support::temporary_folder folder;
  log.save_page(folder / "run.html", title);
  return text_of(folder / "run.html");
}

std::ptrdiff_t times(const std::string& text, const std::string& part) {
  std::ptrdiff_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(data_run_log, a_page_draws_the_curves_of_a_picture_together_and_refers_to_nothing) {
  data::run_log log;
  log.add("loss/training", 0, 4);
  log.add("loss/training", 100, 1);
  log.add("loss/validation", 50, 3);
  log.add("rate", 0, 0.5);
  const std::string page = page_of(log, "a <run> & \"more\"");
  EXPECT_EQ(times(page, "<svg"), 2);
  EXPECT_EQ(times(page, "<polyline"), 3);
  EXPECT_NE(page.find("<polyline points=\"60.0,10.0 710.0,270.0 \""), std::string::npos) << page;  // corner to corner
  EXPECT_NE(page.find("<polyline points=\"385.0,96.7 \""), std::string::npos) << page;
  EXPECT_NE(page.find("<title>a &#60;run&#62; &#38; &#34;more&#34;</title>"), std::string::npos) << page;
  for (const char* outside : {"http", "src=", "href", "url("}) EXPECT_EQ(page.find(outside), std::string::npos);
}

TEST(data_run_log, long_curves_are_means_and_what_is_not_finite_is_left_out_and_counted) {
  data::run_log log;
  for (std::uint64_t i = 0; i < 5000; ++i) log.add("x", i, i == 77 ? infinity : i % 5 == 0 ? 10 : 5);
  for (std::uint64_t i = 0; i < 3; ++i) log.add("nothing", i, std::nan(""));
  const std::string page = page_of(log);
  const std::size_t points = page.find("points=\"") + 8;
  const std::string line = page.substr(points, page.find('"', points) - points);
  EXPECT_EQ(times(line, ","), 1000);
  EXPECT_NE(page.find("data-y=\"6 6.25\""), std::string::npos) << page.substr(0, points);
  EXPECT_NE(page.find("x (1 not finite)"), std::string::npos);
  EXPECT_NE(page.find("<polyline points=\"\"/>"), std::string::npos);
  EXPECT_EQ(times(page, ",nan"), 0);
}

TEST(data_run_log, numbers_that_are_almost_the_same_and_those_at_the_ends_are_drawn) {
  const double most = std::numeric_limits<double>::max(), least = std::numeric_limits<double>::denorm_min();
  const std::vector<double> ranges[] = {{0.3, 0.1 + 0.2}, {0.9, std::nextafter(0.9, 1)},
                                        {1e16, 1e16 + 2}, {1e17, 1e17},
                                        {-most, most},    {most, most},
                                        {0, least},       {-1e17, 7}};
  for (const std::vector<double>& range : ranges) {
    SCOPED_TRACE(range[0]);
    data::run_log log;
    std::uint64_t step = std::uint64_t{1} << 60;
    for (const double value : range) log.add("x", step++, value);
    const std::string page = page_of(log);
    const std::ptrdiff_t numbers = times(page, "class=\"y\">") - 1;  // but for the curve's name
    EXPECT_GE(numbers, 3);
    EXPECT_LE(numbers, 8);
    EXPECT_GE(times(page, "class=\"x\">"), 3);
    for (const char* wrong : {"nan,", ",nan", "inf"}) EXPECT_EQ(times(page, wrong), 0) << wrong;
  }
}

TEST(data_run_log, a_speed_is_what_came_since_the_call_before) {
  data::run_log log;
  log.add_speed("samples a second", 1, 100);
  EXPECT_EQ(log.curves().size(), 0u);
  log.add_speed("samples a second", 2, 100);
  log.add_speed("samples a second", 3, 1e9);
  ASSERT_EQ(log.curves()[0].points.size(), 2u);
  EXPECT_EQ(log.curves()[0].points[0].value, 0);
  EXPECT_GT(log.curves()[0].points[1].value, 1e6);  // within a thousand seconds
}

// An independent reader of records: {tag, value} as they were written, after checksums and lengths are found right.
struct event {
  double seconds = 0;
  std::uint64_t step = 0;
  std::string version, tag;
  float value = 0;
};

std::uint32_t masked(const std::string& bytes) {
  const std::uint32_t crc = io::crc32c(std::as_bytes(std::span(bytes)));
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

template <class T>
T take(std::string& from) {
  T value;
  std::memcpy(&value, from.data(), sizeof value);
  from.erase(0, sizeof value);
  return value;
}

std::uint64_t varint(std::string& from) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(take<char>(from));
    value |= std::uint64_t{byte & 127u} << shift;
    if (byte < 128) return value;
  }
}

std::string text(std::string& from) {
  const std::uint64_t size = varint(from);
  std::string result = from.substr(0, size);
  from.erase(0, size);
  return result;
}

event parsed(std::string bytes) {
  event result;
  while (!bytes.empty()) {
    switch (varint(bytes)) {
      case 1 << 3 | 1:
        result.seconds = take<double>(bytes);
        break;
      case 2 << 3 | 0:
        result.step = varint(bytes);
        break;
      case 3 << 3 | 2:
        result.version = text(bytes);
        break;
      case 5 << 3 | 2: {
        std::string summary = text(bytes);
        EXPECT_EQ(varint(summary), 1u << 3 | 2);
        std::string value = text(summary);
        EXPECT_EQ(summary, "");
        EXPECT_EQ(varint(value), 1u << 3 | 2);
        result.tag = text(value);
        EXPECT_EQ(varint(value), 2u << 3 | 5);
        result.value = take<float>(value);
        EXPECT_EQ(value, "");
        break;
      }
      default:
        ADD_FAILURE() << "a field that events have not";
        return result;
    }
  }
  return result;
}

TEST(data_run_log, events_are_read_back_as_they_were_added) {
  EXPECT_EQ(io::crc32c(std::as_bytes(std::span("123456789", 9))), 0xe3069283u);
  data::run_log log;
  log.add("loss", 1, 0.5);
  log.add("loss", 300, infinity);
  log.add("rate", 1, 1e-3);
  const support::temporary_folder folder;
  log.save_events(folder / "runs/one");
  log.save_events(folder / "runs/one");
  ASSERT_EQ(std::distance(std::filesystem::directory_iterator(folder / "runs/one"), {}), 1);
  const auto path = std::filesystem::directory_iterator(folder / "runs/one")->path();
  EXPECT_EQ(path.filename().string().substr(0, 20), "events.out.tfevents.");
  std::string bytes = text_of(path.string());
  std::vector<event> events;
  while (!bytes.empty()) {
    const std::string length = bytes.substr(0, 8);
    const auto size = take<std::uint64_t>(bytes);
    EXPECT_EQ(take<std::uint32_t>(bytes), masked(length));
    const std::string one = bytes.substr(0, size);
    bytes.erase(0, size);
    EXPECT_EQ(take<std::uint32_t>(bytes), masked(one));
    events.push_back(parsed(one));
  }
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  const auto expect = [&](std::size_t i, const std::string& tag, std::uint64_t step, float value) {
    EXPECT_EQ(events[i].tag, tag);
    EXPECT_EQ(events[i].step, step);
    EXPECT_EQ(events[i].value, value);
    EXPECT_GE(events[i].seconds, events[0].seconds);
  };
  expect(1, "loss", 1, 0.5f);
  expect(2, "loss", 300, std::numeric_limits<float>::infinity());
  expect(3, "rate", 1, 1e-3f);
  EXPECT_EQ(support::sentence_of([&] { log.save_events(path.string() + "/below"); }).find(path.string()), 0u);
}

TEST(data_run_log, a_line_of_blocks_goes_from_the_least_to_the_greatest) {
  EXPECT_EQ(data::sparkline(std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(data::sparkline(std::vector<double>{8, std::nan(""), 8, 0}), "█ █▁");
  EXPECT_EQ(data::sparkline(std::vector<double>{1, 1}), "▅▅");
  EXPECT_EQ(data::sparkline({}), "");
  EXPECT_EQ(data::sparkline(std::vector<double>{0, 2, 9, 9, 4, 6}, 3), "▁█▅");  // 1, 9, 5
}

}  // namespace
