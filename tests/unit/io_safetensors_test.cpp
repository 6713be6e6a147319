// SPDX-License-Identifier: MIT
// safetensors: what is written is read back, and every way to be damaged is one sentence.
#include <meganeura/io/crc32.hpp>
#include <meganeura/io/safetensors.hpp>

#include <support/sentence_of.hpp>
#include <support/temporary_folder.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>

namespace io = meganeura::io;

namespace {

namespace support = meganeura::support;

std::string file_of(const std::string& header, std::size_t data_bytes) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
  return bytes + header + std::string(data_bytes, 'd');
}

/// The sentence for a file of these bytes, its path cut off.
std::string rejection(const std::string& bytes) {
  const support::temporary_folder folder;
  const std::string path = folder / "bad.safetensors";
  support::write(path, bytes);
  const std::string text = support::sentence_of([&] { (void)io::safetensors_file::open(path); });
  return text.starts_with(path + ": ") ? text.substr(path.size() + 2) : text;
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& range) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" + range + "]}";
}

}  // namespace

TEST(io_safetensors, what_is_written_is_read_back) {
  const support::temporary_folder folder;
  const std::array weights{1.5f, -2.0f, 3.25f, 0.0f, 1e-30f, 7.0f};
  const std::array<std::uint8_t, 3> flags{1, 0, 255};
  const std::array entries{io::safetensors_entry{"fc1.weight", "F32", {2, 3}, std::as_bytes(std::span(weights))},
                           io::safetensors_entry{"odd \"name\"", "U8", {3}, std::as_bytes(std::span(flags))},
                           io::safetensors_entry{"empty", "F16", {0, 4}, {}},
                           io::safetensors_entry{"scalar", "F32", {}, std::as_bytes(std::span(weights)).first(4)}};
  io::write_safetensors(folder / "m", entries, {{"format", "mn"}});
  const auto file = io::safetensors_file::open(folder / "m");
  ASSERT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.metadata(), (io::safetensors_metadata{{"format", "mn"}}));
  for (const auto& entry : entries) {
    const auto* found = file.find(entry.name);
    ASSERT_NE(found, nullptr) << entry.name;
    EXPECT_EQ(found->dtype, entry.dtype);
    EXPECT_EQ(found->shape, entry.shape);
    EXPECT_TRUE(std::ranges::equal(file.read(*found), entry.bytes));
  }
  EXPECT_EQ(file.find("fc2.weight"), nullptr);
}

TEST(io_safetensors, data_begins_at_a_multiple_of_eight_bytes) {
  const support::temporary_folder folder;
  io::write_safetensors(folder / "m", {});
  std::vector<std::uint8_t> bytes = io::read_file(folder / "m");
  EXPECT_EQ(bytes.size() % 8, 0u);
  EXPECT_TRUE(io::safetensors_file::open(folder / "m").tensors().empty());
}

TEST(io_safetensors, bytes_that_come_one_tensor_at_a_time_make_the_same_file) {
  const support::temporary_folder folder;
  const std::array weights{1.5f, -2.0f, 3.25f, 0.0f, 1e-30f, 7.0f};
  const auto bytes = std::as_bytes(std::span(weights));
  std::vector<io::safetensors_entry> entries{{"a", "F32", {2, 3}, bytes}, {"b", "F16", {3, 2}, bytes.first(12)}};
  io::write_safetensors(folder / "whole", entries, {{"format", "mn"}});
  const auto part = [&](std::size_t i) {
    const auto all = i == 0 ? bytes : bytes.first(12);
    return std::vector<std::byte>(all.begin(), all.end());
  };
  io::write_safetensors(folder / "parts", entries, {{"format", "mn"}}, part);
  EXPECT_EQ(io::read_file(folder / "parts"), io::read_file(folder / "whole"));
  const auto too_few = [&](std::size_t i) { return i == 0 ? part(0) : std::vector<std::byte>(3); };
  EXPECT_EQ(support::sentence_of([&] { io::write_safetensors(folder / "parts", entries, {}, too_few); }),
            folder / "parts" + std::string(": tensor \"b\", F16 [3, 2], needs 12 bytes; 3 were given"));
  EXPECT_EQ(io::read_file(folder / "parts"), io::read_file(folder / "whole"));
  EXPECT_EQ(folder.files(), 2);
}

TEST(io_safetensors, the_ranges_may_come_in_any_order) {
  const support::temporary_folder folder;
  support::write(folder / "m",
                 file_of("{" + tensor("b", "U8", "2", "4,6") + "," + tensor("a", "F32", "1", "0,4") + "}", 6));
  EXPECT_EQ(io::safetensors_file::open(folder / "m").tensors()[0].name, "b");
}

TEST(io_safetensors, a_damaged_start_is_refused) {
  const std::string no_file =
      "at byte 0: expected a .safetensors file, which begins with the length of its header, at most 100000000, found ";
  EXPECT_EQ(
      rejection("abc"),
      "at byte 0: expected a .safetensors file, which begins with 8 bytes of header length, found a file of 3 bytes");
  EXPECT_EQ(rejection(std::string(7, '\0') + "\x80" + "{}"), no_file + "a length of 9223372036854775808");
  EXPECT_EQ(rejection("\x7f"
                      "ELF\2\1\1 and so on"),
            no_file + "a program (ELF)");
  EXPECT_EQ(rejection("#include <vector>\n"), no_file + "text, beginning \"#include\"");
  EXPECT_EQ(rejection("PK\x03\x04 and so on"),
            no_file +
                "a zip archive, as torch.save (.pt, .bin) and numpy.savez write; in Python, "
                "safetensors.torch.save_file(torch.load(path), ..) makes a .safetensors file of it");
  EXPECT_EQ(
      rejection(file_of("{" + std::string(70, ' ') + "}", 0).substr(0, 30)),
      "at byte 30: expected the 72 bytes of header that its first 8 bytes promise, found the end of the file after "
      "22 of them");
  EXPECT_EQ(rejection(file_of("[]", 0)), "at byte 8: expected a header that begins with '{', found \"[\"");
  EXPECT_EQ(rejection(file_of("", 0)), "at byte 8: expected a header that begins with '{', found \"\"");
}

TEST(io_safetensors, what_is_no_json_is_refused) {
  EXPECT_EQ(rejection(file_of("{\"a\":", 0)),
            "at byte 13: expected valid JSON, found \"unexpected end of input; expected '[', '{', or a literal\" at "
            "\"\\\"a\\\":\"");
  EXPECT_NE(rejection(file_of("{\"\xff\":1}", 0)).find("ill-formed UTF-8 byte\" at \"\\\"\\xff\""), std::string::npos);
  EXPECT_NE(rejection(file_of("{\"\\ud800x\":1}", 0)).find("expected valid JSON"), std::string::npos);
  EXPECT_EQ(rejection(file_of(std::string("{} \0", 4), 0)), "at byte 11: expected valid JSON, found a zero byte");
  EXPECT_NE(rejection(file_of("{}{}", 0)).find("at byte 10: expected valid JSON"), std::string::npos);
}

TEST(io_safetensors, a_damaged_entry_is_refused) {
  const auto of = [](const std::string& header, std::size_t data = 4) { return rejection(file_of(header, data)); };
  EXPECT_EQ(of("{\"a\":3}"), "at byte 14: expected tensor \"a\" to be an object, found 3");
  EXPECT_EQ(of("{\"a\":[]}"), "at byte 13: expected tensor \"a\" to be an object, found an array");
  EXPECT_EQ(of("{\"__metadata__\":{\"k\":1}}"), "at byte 30: expected metadata \"k\" to be a string, found 1");
  EXPECT_EQ(of("{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}"),
            "at byte 8: expected metadata used once, found a second \"k\"");
  EXPECT_EQ(of("{\"__metadata__\":{\"a\":\"\"},\"__metadata__\":{\"b\":\"\"}}"),
            "at byte 48: expected one __metadata__, found a second one");
  EXPECT_EQ(of("{\"a\":{}}"), "at byte 13: expected a member dtype of tensor \"a\", found none");
  EXPECT_EQ(of("{\"a\":{\"dtype\":4}}"), "at byte 23: expected the dtype of tensor \"a\" to be a string, found 4");
  EXPECT_EQ(of("{\"a\":{\"shape\":{}}}"),
            "at byte 22: expected the shape of tensor \"a\" to be an array, found an object");
  EXPECT_EQ(of("{" + tensor("a", "F33", "1", "0,4") + "}"),
            "at byte 26: expected a dtype of the format for tensor \"a\", found \"F33\"");
  for (const char* extent : {"\"x\"", "-1", "1.5", "9223372036854775808", "null", "[]"}) {
    EXPECT_NE(of("{" + tensor("a", "F32", extent, "0,4") + "}")
                  .find("each extent of tensor \"a\" to be an integer from 0 to 2^63 - 1, found "),
              std::string::npos);
  }
  for (const char* range : {"0", "0,4,4", "0,4],\"data_offsets\":[0,4"}) {
    EXPECT_NE(of("{" + tensor("a", "F32", "1", range) + "}").find("data_offsets of tensor \"a\", found "),
              std::string::npos);
  }
  EXPECT_NE(of("{" + tensor("a", "F32", "1],\"shape\":[1", "0,4") + "}").find("expected one shape"), std::string::npos);
  EXPECT_NE(of("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}").find("expected one dtype"), std::string::npos);
}

TEST(io_safetensors, a_name_used_twice_is_refused) {
  EXPECT_EQ(rejection(file_of("{" + tensor("a", "U8", "1", "0,1") + "," + tensor("a", "U8", "1", "1,2") + "}", 2)),
            "at byte 65: expected names used once, found a second tensor \"a\"");
}

TEST(io_safetensors, members_that_the_format_does_not_have_are_skipped) {
  const support::temporary_folder folder;
  support::write(folder / "m", file_of("{\"a\":{\"dtype\":\"U8\",\"new\":{\"shape\":[[-1.5,null],{\"dtype\":true}]},"
                                       "\"shape\":[4],\"data_offsets\":[0,4]}}",
                                       4));
  EXPECT_EQ(io::safetensors_file::open(folder / "m").tensors()[0].shape, std::vector<std::int64_t>{4});
}

TEST(io_safetensors, a_shape_whose_size_overflows_is_refused) {
  EXPECT_EQ(
      rejection(file_of("{" + tensor("a", "F32", "4294967296,4294967296", "0,4") + "}", 4)),
      "at byte 13: expected a shape of tensor \"a\" whose bytes can be counted, found F32 [4294967296, 4294967296]");
}

TEST(io_safetensors, a_range_must_fit_shape_and_file) {
  EXPECT_EQ(rejection(file_of("{" + tensor("a", "F32", "2,3", "0,20") + "}", 20)),
            "at byte 13: expected 24 bytes for tensor \"a\", F32 [2, 3], found 20");
  EXPECT_EQ(
      rejection(file_of("{" + tensor("a", "F32", "2,3", "0,24") + "}", 20)),
      "at byte 13: expected data_offsets of tensor \"a\" within the 20 bytes of data the file has, found [0, 24]");
  EXPECT_EQ(rejection(file_of("{" + tensor("a", "F32", "1", "4,0") + "}", 4)),
            "at byte 13: expected data_offsets of tensor \"a\" within the 4 bytes of data the file has, found [4, 0]");
}

TEST(io_safetensors, a_hostile_header_takes_little_and_its_words_reach_no_terminal) {
  const std::string steering(5'000'000, '\x1b');
  std::string escaped;
  for (int i = 0; i < 100'000; ++i) escaped += "\\u001b";
  for (const std::string& header :
       {"{\"" + steering + "\":3}", "{\"" + escaped + "\":3}", "{\"a\":{\"dtype\":\"" + escaped + "\"}}",
        "{" + tensor(escaped, "F32", "7", "0,4") + "}", "{\"a\":" + std::string(1'000'000, '9') + "}",
        "{" + tensor("a", "F32", std::string(1'000'000, '0'), "0,4") + "}", std::string(1'000'000, '['),
        "{\"a\":{\"b\":" + std::string(1'000'000, '[')}) {
    const std::string text = rejection(file_of(header, 4));
    EXPECT_LE(text.size(), 2000u);
    EXPECT_EQ(text.find('\x1b'), text.npos);
    EXPECT_TRUE(text.starts_with("at byte ")) << text;
  }
  std::string many;
  for (int i = 0; i < 100; ++i) many += "1,";
  EXPECT_NE(rejection(file_of("{" + tensor("a", "U8", many + "1", "0,1") + "}", 1)).find("at most 64 extents"),
            std::string::npos);
}

TEST(io_safetensors, a_checkpoint_shortened_after_opening_is_an_error_and_no_signal) {
  const support::temporary_folder folder;
  const std::vector<std::byte> bytes(100'000);
  io::write_safetensors(folder / "m", std::array{io::safetensors_entry{"a", "U8", {100'000}, bytes}});
  const auto file = io::safetensors_file::open(folder / "m");
  std::filesystem::resize_file(folder / "m", 4096);
  EXPECT_NE(support::sentence_of([&] { (void)file.read(*file.find("a")); }).find("another program shortened"),
            std::string::npos);
}

TEST(io_safetensors, ranges_must_cover_the_data_exactly) {
  const auto two = [](const char* first, const char* second) {
    return "{" + tensor("a", "U8", "4", first) + "," + tensor("b", "U8", "4", second) + "}";
  };
  const std::string overlap = two("0,4", "2,6"), gap = two("0,4", "6,10"), rest = two("0,4", "4,8");
  const auto at = [](const std::string& header, std::size_t offset) {
    return std::to_string(8 + header.size() + offset);
  };
  EXPECT_EQ(rejection(file_of(overlap, 6)),
            "at byte " + at(overlap, 2) +
                ": expected tensor \"b\" to begin at 4 of the data, where the one before it ends, found 2, an overlap");
  EXPECT_EQ(rejection(file_of(gap, 10)),
            "at byte " + at(gap, 4) +
                ": expected tensor \"b\" to begin at 4 of the data, where the one before it ends, found 6, a gap");
  EXPECT_EQ(rejection(file_of(rest, 9)),
            "at byte " + at(rest, 8) + ": expected the end of the file after the last tensor, found 1 more bytes");
}

TEST(io_safetensors, entries_that_cannot_be_written_leave_the_old_file) {
  const support::temporary_folder folder;
  const std::string path = folder / "m";
  io::write_safetensors(path, {});
  const std::array<std::byte, 4> four{};
  const auto problem = [&](std::vector<io::safetensors_entry> entries) {
    return support::sentence_of([&] { io::write_safetensors(path, entries); }).substr(path.size() + 2);
  };
  EXPECT_EQ(problem({{"a", "F32", {2}, four}}), "tensor \"a\", F32 [2], needs 8 bytes; 4 were given");
  EXPECT_EQ(problem({{"a", "X", {1}, four}}), "cannot hold tensor \"a\": the format has no dtype \"X\"");
  EXPECT_EQ(problem({{"a", "F32", {1}, four}, {"a", "F32", {1}, four}}),
            "cannot hold tensor \"a\": the name is used twice");
  EXPECT_EQ(problem({{"__metadata__", "F32", {1}, four}}), "cannot hold tensor \"__metadata__\": the name is reserved");
  EXPECT_EQ(problem({{"a\xff", "F32", {1}, four}}), "cannot hold tensor \"a\\xff\": the name is no UTF-8");
  EXPECT_TRUE(io::safetensors_file::open(path).tensors().empty());
}

TEST(io_safetensors, a_tensor_that_changed_on_the_disk_is_refused) {
  const support::temporary_folder folder;
  const std::string path = folder / "m";
  const std::array weights{1.5f, -2.0f};
  const std::array<std::uint8_t, 3> flags{1, 0, 255};
  const std::array entries{io::safetensors_entry{"w", "F32", {2}, std::as_bytes(std::span(weights))},
                           io::safetensors_entry{"flags", "U8", {3}, std::as_bytes(std::span(flags))}};
  for (const std::string key : {"crc32.w", "meganeura.crc32"}) {
    EXPECT_EQ(support::sentence_of([&] {
                io::write_safetensors(path, entries, {{key, "0"}});
              }),
              path + ": cannot hold metadata \"" + key + "\": the name is used twice");
  }
  io::write_safetensors(path, entries, {{"format", "mn"}});
  std::vector<std::uint8_t> bytes = io::read_file(path);
  bytes[bytes.size() - 2] ^= 4;
  support::write(path, bytes);
  const auto file = io::safetensors_file::open(path);
  EXPECT_EQ(file.read(*file.find("w")).size(), 8u);
  EXPECT_EQ(
      support::sentence_of([&] { (void)file.read(*file.find("flags")); }),
      path + ": at byte " + std::to_string(bytes.size() - 3) + ": expected tensor \"flags\" with the CRC-32 \"" +
          file.find("flags")->crc32 +
          "\" that it was written with, found \"b7ed99ac\": the file was damaged or changed since; take another copy");
}

// What was written and one or two of its bits say nothing wrong: a tensor loses no guard unseen.
TEST(io_safetensors, checksums_of_many_bytes_are_those_of_their_parts) {
  std::vector<std::byte> bytes(9'000'001);  // three parts, the last of another length
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 2654435761u >> 24);
  const auto* first = reinterpret_cast<const Bytef*>(bytes.data());
  for (const std::size_t size : {std::size_t{1}, std::size_t{4 << 20}, std::size_t{(4 << 20) + 1}, bytes.size()}) {
    EXPECT_EQ(io::crc32(std::span(bytes).first(size)), fmt::format("{:08x}", ::crc32_z(0, first, size))) << size;
  }
}

TEST(io_safetensors, a_header_that_changed_on_the_disk_is_refused) {
  const support::temporary_folder folder;
  const std::string path = folder / "m";
  const std::array weights{1.5f, -2.0f};
  io::write_safetensors(path,
                        std::array{io::safetensors_entry{"w", "F32", {2}, std::as_bytes(std::span(weights))},
                                   io::safetensors_entry{"b", "F32", {1, 2}, std::as_bytes(std::span(weights))}},
                        {{"step", "7"}});
  const std::vector<std::uint8_t> whole = io::read_file(path);
  const std::string text(whole.begin(), whole.end());
  const auto damage = [&](std::string_view lost, std::string_view seen) {
    std::vector<std::uint8_t> bytes = whole;
    bytes[text.find(lost) + 1] ^= 1;
    if (!seen.empty()) bytes[text.find(seen) + 1] ^= 1;
    bytes.back() ^= 0x40;
    support::write(path, bytes);
    return support::sentence_of([&] { (void)io::safetensors_file::open(path); });
  };
  const std::string damaged = ": the file was damaged or changed since; take another copy";
  EXPECT_TRUE(damage("\"crc32.b", "").ends_with(damaged));
  EXPECT_TRUE(damage("\"step", "").ends_with(damaged));
  EXPECT_TRUE(damage("\"shape", "").ends_with(damaged));
  EXPECT_EQ(damage("\"crc32.b", "\"meganeura.crc32"),
            path +
                ": at byte 8: expected the CRC-32 of the header, as in every file that meganeura writes, found none" +
                damaged);
  // A key of ours in a header that another program wrote: what it says cannot be checked.
  support::write(
      folder / "m",
      file_of("{\"__metadata__\":{\"meganeura.crc32\" : \"00000000\"}," + tensor("a", "U8", "4", "0,4") + "}", 4));
  EXPECT_NE(
      support::sentence_of([&] { (void)io::safetensors_file::open(path); }).find("expected the CRC-32 of the header"),
      std::string::npos);
}

TEST(io_safetensors, a_file_without_checksums_is_read_as_it_is) {
  const support::temporary_folder folder;
  support::write(folder / "m",
                 file_of("{\"__metadata__\":{\"crc32.b\":\"1\"}," + tensor("a", "U8", "4", "0,4") + "}", 4));
  const auto file = io::safetensors_file::open(folder / "m");
  EXPECT_EQ(file.read(file.tensors()[0]).size(), 4u);
  EXPECT_EQ(file.metadata(), (io::safetensors_metadata{{"crc32.b", "1"}}));  // of no tensor: somebody's own
}
