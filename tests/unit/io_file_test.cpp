// SPDX-License-Identifier: MIT
// Reading, mapping and replacing files, and the checksum of their content.
#include <meganeura/io/file.hpp>
#include <meganeura/io/safetensors.hpp>
#include <meganeura/io/sha256.hpp>

#include <support/sentence_of.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <iterator>
#include <thread>

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

mode_t mode_of(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777 : 0;
}

TEST(io_file, a_path_that_cannot_be_shown_is_quoted) {
  const support::temporary_folder folder;
  const std::string lines = folder / "a\nb\x1b[31m";
  const std::string shown = "\"" + (folder / "a\\nb\\u{1b}[31m") + "\"";
  EXPECT_EQ(support::sentence_of([&] { (void)io::read_file(lines); }),
            shown + ": cannot be opened for reading: No such file or directory");
  EXPECT_EQ(support::sentence_of([&] { io::write_file(lines + "/c", {}); }),
            shown.substr(0, shown.size() - 1) + "/c\": cannot be created: No such file or directory");
  support::write(lines, std::vector<std::uint8_t>(3));
  EXPECT_TRUE(
      support::sentence_of([&] { (void)io::safetensors_file::open(lines); }).starts_with(shown + ": at byte 0"));
}

}  // namespace

TEST(io_file, written_pieces_are_read_back_joined) {
  const support::temporary_folder folder;
  const std::string first = "abc", second = "de";
  const std::array pieces{std::as_bytes(std::span(first)), std::as_bytes(std::span(second))};
  io::write_file(folder / "f", pieces);
  EXPECT_EQ(content(folder / "f"), "abcde");
}

TEST(io_file, replacing_leaves_no_other_file_behind) {
  const support::temporary_folder folder;
  replace(folder / "f", "old");
  replace(folder / "f", "new");
  EXPECT_EQ(content(folder / "f"), "new");
  EXPECT_EQ(folder.files(), 1);
}

TEST(io_file, a_write_that_fails_removes_its_temporary_file) {
  const support::temporary_folder folder;
  std::filesystem::create_directories(folder / "taken/inside");  // a folder cannot be replaced by a file
  EXPECT_EQ(support::sentence_of([&] { replace(folder / "taken", "x"); }),
            folder / "taken" + ": is a folder; name a file to write");
  {
    io::file_writer file(folder / "late");
    std::filesystem::create_directories(folder / "late/inside");
    EXPECT_EQ(support::sentence_of([&] { file.commit(); }), folder / "late" + ": cannot be replaced: Is a directory");
  }
  std::filesystem::remove_all(folder / "late");
  EXPECT_EQ(folder.files(), 1);
}

TEST(io_file, writers_at_the_same_moment_never_mix) {
  const support::temporary_folder folder;
  const std::string path = folder / "f", texts[] = {std::string(20'000, 'a'), std::string(30'000, 'b')};
  replace(path, texts[0]);
  std::atomic<bool> done = false;
  int bad = 0, reads = 0;
  std::thread reader([&] {
    for (; !done; ++reads) {
      const std::string found = content(path);
      bad += found != texts[0] && found != texts[1];
    }
  });
  std::vector<std::thread> writers;
  std::atomic<int> refused = 0;
  for (const std::string& text : texts) {
    writers.emplace_back([&] {
      for (int i = 0; i < 300; ++i) refused += support::sentence_of([&] { replace(path, text); }) != "no error";
    });
  }
  for (auto& writer : writers) writer.join();
  done = true;
  reader.join();
  EXPECT_EQ(bad, 0) << "of " << reads;
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(folder.files(), 1);
}

TEST(io_file, a_planted_name_is_neither_followed_nor_in_the_way) {  // the temporary name was once path.<pid>.part
  const support::temporary_folder folder;
  support::write(folder / "foreign", std::string("precious"));
  std::filesystem::create_symlink(folder / "foreign", folder / "f" + fmt::format(".{}.part", ::getpid()));
  io::check_writable(folder / "f");
  replace(folder / "f", "new");
  EXPECT_EQ(content(folder / "foreign"), "precious");
  EXPECT_EQ(content(folder / "f"), "new");
}

TEST(io_file, a_replaced_file_keeps_its_permissions_and_a_new_one_has_the_usual_ones) {
  const support::temporary_folder folder;
  replace(folder / "f", "old");
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(mode_of(folder / "f"), 0666 & ~mask);
  for (const mode_t mode : {0600u, 0640u, 0444u}) {
    ASSERT_EQ(::chmod((folder / "f").c_str(), mode), 0);
    replace(folder / "f", "new");
    EXPECT_EQ(mode_of(folder / "f"), mode);
  }
}

TEST(io_file, a_replaced_file_keeps_its_owner_where_that_is_permitted) {
  const support::temporary_folder folder;
  replace(folder / "f", "old");
  if (::chown((folder / "f").c_str(), 12345, 23456) != 0) GTEST_SKIP() << "only the superuser gives files away";
  replace(folder / "f", "new");
  struct stat facts {};
  ASSERT_EQ(::stat((folder / "f").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, 12345u);
  EXPECT_EQ(facts.st_gid, 23456u);
}

TEST(io_file, a_link_at_the_path_stays_and_its_target_is_replaced) {
  const support::temporary_folder folder;
  std::filesystem::create_directories(folder / "disk");
  std::filesystem::create_symlink("disk/model", folder / "relative");
  std::filesystem::create_symlink(folder / "relative", folder / "f");
  for (const char* text : {"created", "replaced"}) {
    replace(folder / "f", text);
    EXPECT_TRUE(std::filesystem::is_symlink(folder / "f"));
    EXPECT_TRUE(std::filesystem::is_symlink(folder / "relative"));
    EXPECT_EQ(content(folder / "disk/model"), text);
  }
  std::filesystem::create_symlink("round", folder / "round");
  EXPECT_EQ(support::sentence_of([&] { replace(folder / "round", "x"); }),
            folder / "round" + ": is not written: it leads through more than 40 links");
}

TEST(io_file, another_user_cannot_lead_a_write_elsewhere) {
  const support::temporary_folder folder;
  support::write(folder / "precious", std::string("old"));
  std::filesystem::create_directories(folder / "shared");
  std::filesystem::create_symlink(folder / "precious", folder / "shared/f");
  if (::lchown((folder / "shared/f").c_str(), 12345, 12345) != 0) GTEST_SKIP() << "only the superuser gives files away";
  ASSERT_EQ(::chmod((folder / "shared").c_str(), 01777), 0);
  EXPECT_EQ(support::sentence_of([&] { replace(folder / "shared/f", "x"); }),
            folder / "shared/f" + ": is not written: it is a link of another user in a folder open to all; remove it");
  EXPECT_EQ(content(folder / "precious"), "old");
}

TEST(io_file, what_is_no_ordinary_file_is_written_through) {
  const support::temporary_folder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  io::check_writable(folder / "fifo");
  EXPECT_EQ(support::sentence_of([&] { replace(folder / "fifo", "x"); }),
            folder / "fifo" + ": cannot be opened for writing: nobody reads it");
  const int reader = ::open((folder / "fifo").c_str(), O_RDONLY | O_NONBLOCK);
  std::filesystem::create_symlink(folder / "fifo", folder / "link");
  char buffer[8] = {};
  for (const char* name : {"fifo", "link"}) {
    replace(folder / name, "abc");
    EXPECT_EQ(::read(reader, buffer, sizeof buffer), 3) << name;
  }
  ::close(reader);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  for (const char* where : {"/dev/fd/{}", "/proc/self/fd/{}"}) {
    io::check_writable(fmt::format(fmt::runtime(where), ends[1]));
    replace(fmt::format(fmt::runtime(where), ends[1]), "abc");
    EXPECT_EQ(::read(ends[0], buffer, sizeof buffer), 3) << where;
  }
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(folder.files(), 2);
}

TEST(io_file, a_descriptor_that_does_not_block_is_waited_for) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_NONBLOCK), 0);
  const std::string text(1'000'000, 'x');
  std::size_t got = 0;
  std::thread reader([&] {
    char buffer[4096];
    while (const ssize_t piece = ::read(ends[0], buffer, sizeof buffer)) {  // 0 when the other end is closed
      if (piece > 0) got += static_cast<std::size_t>(piece);
      if (piece < 0) std::this_thread::yield();
    }
  });
  EXPECT_EQ(support::sentence_of([&] { replace(fmt::format("/dev/fd/{}", ends[1]), text); }), "no error");
  ::close(ends[1]);
  reader.join();
  EXPECT_EQ(got, text.size());
  ::close(ends[0]);
}

TEST(io_file, what_a_killed_run_left_is_removed_and_what_a_living_one_writes_is_not) {
  const support::temporary_folder folder;
  const std::string dead = folder / ".meganeura-0123456789abcdef.part";
  support::write(dead, std::string("half"));
  {
    io::file_writer other(folder / "g");
    other.write(std::as_bytes(std::span("slow", 4)));
    replace(folder / "f", "new");
    EXPECT_FALSE(std::filesystem::exists(dead));
    other.commit();
  }
  EXPECT_EQ(content(folder / "g"), "slow");
  EXPECT_EQ(folder.files(), 2);
}

TEST(io_file, files_whose_names_only_resemble_temporary_ones_stay) {
  const support::temporary_folder folder;
  const char* names[] = {".meganeura-mine.part", ".meganeura-0123456789abcde.part", ".meganeura-0123456789abcdef0.part",
                         ".meganeura-0123456789abcdeF.part", ".meganeura-0123456789abcde-.part"};
  for (const char* name : names) support::write(folder / name, std::string("precious"));
  replace(folder / "f", "new");
  for (const char* name : names) EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
}

TEST(io_file, a_name_of_the_greatest_length_can_be_written) {
  const support::temporary_folder folder;
  replace(folder / std::string(255, 'n'), "x");
  EXPECT_EQ(content(folder / std::string(255, 'n')), "x");
}

TEST(io_file, the_reason_the_system_gives_is_in_the_sentence) {
  const support::temporary_folder folder;
  const std::string missing = folder / "missing";
  const std::string expected = missing + ": cannot be opened for reading: No such file or directory";
  EXPECT_EQ(support::sentence_of([&] { (void)io::read_file(missing); }), expected);
  EXPECT_EQ(support::sentence_of([&] { (void)io::file_reader(missing); }), expected);
  EXPECT_EQ(support::sentence_of([&] { (void)io::read_file(folder.path().string()); }),
            folder.path().string() + ": cannot be read: it is a folder, not a file");
}

TEST(io_file, what_is_no_ordinary_file_is_refused_and_not_waited_for) {
  const support::temporary_folder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(support::sentence_of([&] { (void)io::read_file(folder / "fifo"); }),
            folder / "fifo" + ": cannot be read: it is a FIFO, not a file");
  EXPECT_EQ(support::sentence_of([&] { (void)io::read_file("/dev/zero"); }),
            "/dev/zero: cannot be read: it is a device, not a file");
}

TEST(io_file, a_file_larger_than_the_caller_can_use_is_not_read) {
  const support::temporary_folder folder;
  replace(folder / "f", "abcd");
  EXPECT_EQ(io::read_file(folder / "f", 4).size(), 4u);
  EXPECT_EQ(support::sentence_of([&] { (void)io::read_file(folder / "f", 3); }),
            folder / "f" + ": is not read: its 4 bytes are more than the 3 that such a file may have");
  std::filesystem::resize_file(folder / "f", std::uintmax_t{1} << 42);  // sparse
  EXPECT_NE(support::sentence_of([&] { (void)io::read_file(folder / "f"); }).find("is not read"), std::string::npos);
}

TEST(io_file, a_file_shortened_while_it_is_read_is_an_error) {
  const support::temporary_folder folder;
  replace(folder / "f", std::string(100'000, 'a'));
  const io::file_reader file(folder / "f");
  std::vector<std::byte> bytes(file.size());
  std::filesystem::resize_file(folder / "f", 10);
  EXPECT_EQ(support::sentence_of([&] { file.read(0, bytes); }),
            folder / "f" +
                ": at byte 10: expected 99990 more bytes, found the end of the file, which another program "
                "shortened while it was read");
  EXPECT_EQ(file.read_some(4, bytes), 6u);
}

TEST(io_file, what_does_not_fit_into_memory_is_an_error_of_ours) {
  EXPECT_EQ(support::sentence_of([] { (void)meganeura::allocate_for<float>("f", std::uint64_t{1} << 61); }),
            "f: 2305843009213693952 elements of 4 bytes do not fit into memory");
  EXPECT_EQ(support::sentence_of([] { (void)meganeura::allocate_for<char>("f", std::uint64_t{1} << 62); }),
            "f: 4611686018427387904 elements of 1 bytes do not fit into memory");
}

TEST(io_sha256, the_published_examples_come_out) {  // FIPS 180-4 examples, NIST
  EXPECT_EQ(io::sha256(bytes_of("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(io::sha256(bytes_of("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(io::sha256(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(io::sha256(bytes_of(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(io_file, a_path_that_a_zero_byte_would_cut_is_refused) {
  const support::temporary_folder folder;
  replace(folder / "a", "kept");
  const std::string cut = (folder / "a") + std::string("\0.txt", 5);
  const std::string sentence = "the path \"" + (folder / "a") + "\\u{0}.txt\" has a zero byte at " +
                               std::to_string((folder / "a").size()) + ", where the system would end it; leave it out";
  EXPECT_EQ(support::sentence_of([&] { (void)io::read_file(cut); }), sentence);
  EXPECT_EQ(support::sentence_of([&] { replace(cut, "new"); }), sentence);
  EXPECT_EQ(support::sentence_of([&] { io::check_writable(cut); }), sentence);
  EXPECT_EQ(content(folder / "a"), "kept");
}
