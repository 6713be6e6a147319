// SPDX-License-Identifier: MIT
// Where MNIST comes from: each place in its order, the split, the download's checksum, and the sentences when it fails.
#include <meganeura/data/download.hpp>
#include <meganeura/data/mnist.hpp>
#include <meganeura/io/file.hpp>
#include <meganeura/io/sha256.hpp>

#include <support/sentence_of.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

namespace data = meganeura::data;
namespace fs = std::filesystem;

namespace {

namespace support = meganeura::support;

/// Points the environment at nothing but a temporary folder, and back again.
class data_mnist : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"MEGANEURA_DATA", "XDG_CACHE_HOME", "HOME"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
    }
    ::unsetenv("MEGANEURA_DATA");
    ::setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  }
  void TearDown() override {
    for (const auto& entry : before_) {
      entry.second ? ::setenv(entry.first, entry.second->c_str(), 1) : ::unsetenv(entry.first);
    }
  }

  /// An IDX pair of `count` images of 28x28 whose pixels and labels are the index modulo 10.
  static void write_pair(const fs::path& where, const std::string& prefix, std::uint32_t count) {
    fs::create_directories(where);
    const auto word = [](std::uint32_t value) {
      std::string text;
      for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
      return text;
    };
    std::string images = word(0x803) + word(count) + word(28) + word(28), labels = word(0x801) + word(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      images += std::string(784, static_cast<char>(i % 10));
      labels += static_cast<char>(i % 10);
    }
    support::write((where / (prefix + "-images-idx3-ubyte")).string(), images);
    support::write((where / (prefix + "-labels-idx1-ubyte")).string(), labels);
  }

  static data::mnist_options offline(const std::string& directory = {}) {
    data::mnist_options options;
    options.directory = directory;
    options.draw = true;
    return options;
  }

  std::string rejection(const std::string& directory) const {
    return support::sentence_of([&] { (void)data::load_mnist(offline(directory)); });
  }

  /// What MEGANEURA_DATA was outside the test.
  [[nodiscard]] std::string data_before() const { return before_.at(0).second.value_or(""); }

  support::temporary_folder folder;

 private:
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

}  // namespace

TEST_F(data_mnist, both_pairs_are_taken_as_they_are) {
  write_pair(folder.path(), "train", 30);
  write_pair(folder.path(), "t10k", 20);
  const auto set = data::load_mnist(offline(folder.path().string()));
  EXPECT_EQ(set.train.size(), 30u);
  EXPECT_EQ(set.test.size(), 20u);
  EXPECT_EQ(set.source,
            "MNIST from " + folder.path().string() + " (the folder asked for): 30 images to train on, 20 to test");
}

TEST_F(data_mnist, one_pair_is_split_four_to_one_without_losing_an_image) {
  write_pair(folder.path(), "t10k", 10000);
  const auto set = data::load_mnist(offline(folder.path().string()));
  EXPECT_EQ(set.train.size(), 8000u);
  EXPECT_EQ(set.test.size(), 2000u);
  EXPECT_EQ(set.test.labels[0], 4);  // every fifth
  for (std::size_t i = 0; i < set.train.size(); ++i) ASSERT_EQ(set.train.image(i)[3], set.train.labels[i]);
  for (std::size_t i = 0; i < set.test.size(); ++i) ASSERT_EQ(set.test.image(i)[3], set.test.labels[i]);
  EXPECT_NE(set.source.find("only the 10000-image pair is there: split into 8000"), std::string::npos) << set.source;
}

TEST_F(data_mnist, the_environment_comes_before_the_cache_and_the_cache_before_drawing) {
  write_pair(folder / "cache/meganeura/mnist", "t10k", 10);
  EXPECT_NE(data::load_mnist(offline()).source.find("(the user's cache)"), std::string::npos);
  write_pair(folder / "data/mnist", "t10k", 20);
  ::setenv("MEGANEURA_DATA", (folder / "data").c_str(), 1);
  EXPECT_NE(data::load_mnist(offline()).source.find("(MEGANEURA_DATA)"), std::string::npos);
}

TEST_F(data_mnist, without_files_digits_are_drawn_and_the_sentence_says_so) {
  const auto set = data::load_mnist(offline());
  EXPECT_EQ(set.train.size(), 8000u);
  EXPECT_EQ(set.test.size(), 2000u);
  EXPECT_TRUE(set.source.starts_with("digits drawn by a program")) << set.source;
  EXPECT_NE(set.train.pixels, set.test.pixels);
}

TEST_F(data_mnist, without_a_home_there_is_no_cache_and_the_current_folder_is_none) {
  write_pair(folder.path(), "t10k", 10);
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  for (const char* name : {"XDG_CACHE_HOME", "HOME"}) ::unsetenv(name);
  const auto set = data::load_mnist(offline());
  fs::current_path(before);
  EXPECT_TRUE(
      set.source.starts_with("digits drawn by a program, not MNIST (no files, and neither XDG_CACHE_HOME nor "
                             "HOME names a place for a download)"))
      << set.source;
}

TEST_F(data_mnist, a_folder_that_is_not_there_or_has_no_files_is_an_error) {
  const std::string missing = folder / "missing";
  EXPECT_EQ(rejection(missing), missing + ": the data folder cannot be read: No such file or directory");
  EXPECT_EQ(rejection(folder.path().string()),
            folder.path().string() + ": expected t10k-images-idx3-ubyte or t10k-images-idx3-ubyte.gz, found neither");
  ::setenv("MEGANEURA_DATA", missing.c_str(), 1);
  EXPECT_EQ(rejection(""), missing + "/mnist: the data folder cannot be read: No such file or directory");
}

TEST_F(data_mnist, half_a_pair_is_an_error) {
  write_pair(folder.path(), "t10k", 10);
  fs::remove(folder / "t10k-labels-idx1-ubyte");
  const std::string images = folder / "t10k-images-idx3-ubyte";
  EXPECT_EQ(rejection(folder.path().string()),
            folder.path().string() + ": expected t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz beside " + images +
                ", found neither");
}

TEST_F(data_mnist, what_was_asked_for_by_name_is_not_replaced_by_another) {
  fs::create_directories(folder / "data/mnist");
  ::setenv("MEGANEURA_DATA", (folder / "data").c_str(), 1);
  write_pair(folder / "cache/meganeura/mnist", "t10k", 10);
  EXPECT_EQ(rejection(""),
            folder / "data/mnist" + ": expected t10k-images-idx3-ubyte or t10k-images-idx3-ubyte.gz, found neither");
}

TEST_F(data_mnist, without_files_or_leave_to_draw_the_error_says_what_to_do) {
  data::mnist_options options;
  EXPECT_EQ(support::sentence_of([&] { (void)data::load_mnist(options); }),
            "no MNIST: " + folder / "cache/meganeura/mnist" +
                " has no files of it, and no download was allowed; get t10k-images-idx3-ubyte.gz and its like from "
                "https://storage.googleapis.com/cvdf-datasets/mnist/, and name their folder, or let digits be drawn");
  options.download = [](const std::string&, const data::byte_sink&) {
    meganeura::fail(meganeura::error_category::io, "the cable is out");
  };
  EXPECT_NE(support::sentence_of([&] { (void)data::load_mnist(options); }).find("the cable is out"), std::string::npos);
  options.draw = true;
  EXPECT_NE(data::load_mnist(options).source.find("not MNIST (no files, and the cable is out)"), std::string::npos);
}

TEST_F(data_mnist, a_download_of_other_bytes_is_thrown_away) {
  data::mnist_options options;
  const std::string cache = folder / "cache/meganeura/mnist";
  for (const std::size_t bytes : {std::size_t{4542}, std::size_t{4541}, std::size_t{1} << 20}) {
    std::size_t sent = 0;
    options.download = [&](const std::string&, const data::byte_sink& sink) {
      const std::vector<std::byte> piece(100);
      for (sent = 0; sent < bytes; sent += piece.size()) {
        sink(std::span(piece).first(std::min(piece.size(), bytes - sent)));
      }
    };
    const std::string sentence = support::sentence_of([&] { (void)data::load_mnist(options); });
    EXPECT_NE(sentence.find(bytes > 4542 ? "sends more than the 4542 bytes" : "are not the 4542 that were published"),
              std::string::npos)
        << sentence;
    EXPECT_LE(sent, 4600u);  // what is too long is not waited for
    EXPECT_TRUE(fs::is_empty(cache));
  }
}

TEST_F(data_mnist, libcurl_brings_bytes_and_reasons) {
  std::string content(300000, 'x');
  content[200000] = 'y';
  support::write(folder / "file", content);
  const data::published_file good{
      "file", meganeura::io::sha256({reinterpret_cast<const std::uint8_t*>(content.data()), content.size()}),
      content.size()};
  fs::create_directories(folder / "into");
  data::fetch_file(data::download, "file://" + folder / "", folder / "into", good);
  EXPECT_EQ(meganeura::io::read_file(folder / "into/file").size(), content.size());
  const auto problem = [&](const data::published_file& file) {
    return support::sentence_of(
        [&] { data::fetch_file(data::download, "file://" + folder / "", folder / "into", file); });
  };
  EXPECT_NE(problem({"none", "", 1}).find("cannot be downloaded: "), std::string::npos) << problem({"none", "", 1});
  EXPECT_NE(problem({"file", good.sha256, 5}).find("sends more than the 5 bytes"), std::string::npos);
  EXPECT_EQ(support::sentence_of([] { data::download("ftp://127.0.0.1/x", [](auto) {}); }).find("no error"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "into/none"));
}

/// Four programs start at once on an empty cache. The first download of each file is slow, so that the others look
/// while the cache is half full.
TEST_F(data_mnist, programs_that_start_together_all_get_the_real_files) {
  const std::string real = data_before() + "/mnist/";
  if (!fs::exists(real + "train-images-idx3-ubyte.gz") && !fs::exists(real + "t10k-images-idx3-ubyte.gz")) {
    GTEST_SKIP() << "needs MEGANEURA_DATA with the published .gz files";
  }
  std::vector<pid_t> programs;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      programs.push_back(child);
      continue;
    }
    data::mnist_options options;
    options.mirror = real;
    options.download = [](const std::string& path, const data::byte_sink& sink) {
      const auto bytes = meganeura::io::read_file(path);
      const auto all = std::as_bytes(std::span(bytes));
      ::usleep(20000);
      sink(all.first(all.size() / 2));
      ::usleep(20000);
      sink(all.subspan(all.size() / 2));
    };
    try {
      ::_exit(data::load_mnist(options).source.starts_with("MNIST") ? 0 : 1);
    } catch (...) {
      ::_exit(2);
    }
  }
  for (const pid_t program : programs) {
    int status = -1;
    ::waitpid(program, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(data_mnist, a_download_of_the_real_files_is_cached) {
  const std::string real = data_before() + "/mnist/";
  if (!fs::exists(real + "t10k-images-idx3-ubyte.gz"))
    GTEST_SKIP() << "needs MEGANEURA_DATA with the published .gz files";
  data::mnist_options options;
  options.mirror = "file://" + real;
  options.download = data::download;
  EXPECT_NE(data::load_mnist(options).source.find("(downloaded just now)"), std::string::npos);
  EXPECT_NE(data::load_mnist(offline()).source.find("(the user's cache)"), std::string::npos);
}
