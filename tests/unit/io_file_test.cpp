// SPDX-License-Identifier: MIT
// Reading, mapping and replacing files, and the checksum of their content.
#include <meganeura/io/file.hpp>
#include <meganeura/io/sha256.hpp>

#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <array>
#include <iterator>

namespace io = meganeura::io;

namespace {

namespace support = meganeura::support;

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string content(const std::string& path) {
  const auto bytes = io::read_file(path);
  return {bytes.begin(), bytes.end()};
}

void replace(const std::string& path, const std::string& text) {
  const std::array pieces{std::as_bytes(std::span(text))};
  io::write_file(path, pieces);
}

}  // namespace

TEST(io_file, written_pieces_are_read_back_joined) {
  const support::temporary_folder folder;
  const std::string first = "abc", second = "de";
  const std::array pieces{std::as_bytes(std::span(first)), std::as_bytes(std::span(second))};
  io::write_file(folder / "f", pieces);
  EXPECT_EQ(content(folder / "f"), "abcde");
  EXPECT_EQ(io::mapped_file(folder / "f").bytes().size(), 5u);
}

TEST(io_file, replacing_leaves_no_other_file_behind) {
  const support::temporary_folder folder;
  replace(folder / "f", "old");
  replace(folder / "f", "new");
  EXPECT_EQ(content(folder / "f"), "new");
  const auto count =
      std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator());
  EXPECT_EQ(count, 1);
}

TEST(io_file, a_write_that_fails_removes_its_temporary_file) {
  const support::temporary_folder folder;
  std::filesystem::create_directories(folder / "taken/inside");  // a folder cannot be replaced by a file
  EXPECT_NE(support::sentence_of([&] { replace(folder / "taken", "x"); }).find("cannot be replaced"),
            std::string::npos);
  const auto count =
      std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator());
  EXPECT_EQ(count, 1);
}

TEST(io_file, the_reason_the_system_gives_is_in_the_sentence) {
  const support::temporary_folder folder;
  const std::string missing = folder / "missing";
  const std::string expected = missing + ": cannot be opened for reading: No such file or directory";
  EXPECT_EQ(support::sentence_of([&] { (void)io::read_file(missing); }), expected);
  EXPECT_EQ(support::sentence_of([&] { (void)io::mapped_file(missing); }), expected);
  EXPECT_EQ(support::sentence_of([&] { (void)io::read_file(folder.path().string()); }),
            folder.path().string() + ": cannot be read: it is a folder, not a file");
}

TEST(io_file, a_mapping_outlives_being_moved) {
  const support::temporary_folder folder;
  replace(folder / "f", "abc");
  io::mapped_file first(folder / "f");
  const io::mapped_file second(std::move(first));
  EXPECT_EQ(std::to_integer<char>(second.bytes()[2]), 'c');
}

TEST(io_file, an_empty_file_maps_to_no_bytes) {
  const support::temporary_folder folder;
  replace(folder / "f", "");
  EXPECT_TRUE(io::mapped_file(folder / "f").bytes().empty());
}

TEST(io_sha256, the_published_examples_come_out) {  // FIPS 180-4 examples, NIST
  EXPECT_EQ(io::sha256(bytes_of("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(io::sha256(bytes_of("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(io::sha256(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(io::sha256(bytes_of(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
