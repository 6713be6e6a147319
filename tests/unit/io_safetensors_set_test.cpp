// SPDX-License-Identifier: MIT
// Checkpoints of several files: an index, its files, and what is said where they do not fit; files of other kinds.
#include <meganeura/io/safetensors_set.hpp>

#include <support/sentence_of.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <numeric>
#include <random>

namespace io = meganeura::io;
namespace support = meganeura::support;

namespace {

std::vector<float> counting(std::size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

void write_part(const std::string& path, std::initializer_list<const char*> names) {
  const std::vector<float> values = counting(6, static_cast<float>(names.size()));
  std::vector<io::safetensors_entry> entries;
  for (const char* name : names) entries.push_back({name, "F32", {2, 3}, std::as_bytes(std::span(values))});
  io::write_safetensors(path, entries);
}

std::string index_of(const std::string& map) {
  return "{\"metadata\":{\"total_size\":72},\"weight_map\":{" + map + "}}";
}
constexpr const char* good_map =
    R"("a":"m-00001-of-00002.safetensors","b":"m-00002-of-00002.safetensors","c":"m-00001-of-00002.safetensors")";

struct folder_of_parts : support::temporary_folder {
  folder_of_parts() {
    write_part(*this / "m-00001-of-00002.safetensors", {"a", "c"});
    write_part(*this / "m-00002-of-00002.safetensors", {"b"});
    write_index(index_of(good_map));
  }
  void write_index(const std::string& text) { support::write(*this / "m.safetensors.index.json", text); }
  [[nodiscard]] std::string refusal() const {
    const std::string path = *this / "m.safetensors.index.json";
    const std::string text = support::sentence_of([&] { (void)io::safetensors_set::open(path); });
    const auto at = text.find(": expected ");
    return at == text.npos ? text : text.substr(at + 2);
  }
};

TEST(io_safetensors_set, an_index_a_folder_and_a_file_are_read) {
  const folder_of_parts folder;
  for (const std::string& path : {folder / "m.safetensors.index.json", folder.path().string()}) {
    const auto set = io::safetensors_set::open(path);
    ASSERT_EQ(set.tensors().size(), 3u);
    EXPECT_EQ(set.path(), path);
    for (const char* name : {"a", "b", "c"}) {
      const auto* found = set.find(name);
      ASSERT_NE(found, nullptr) << name;
      const std::vector<float> expected = counting(6, name[0] == 'b' ? 1.0f : 2.0f);
      const io::safetensors_tensor copy = *found;
      EXPECT_TRUE(std::ranges::equal(set.read(copy), std::as_bytes(std::span(expected)))) << name;
    }
    EXPECT_EQ(set.find("d"), nullptr);
  }
  const auto one = io::safetensors_set::open(folder / "m-00002-of-00002.safetensors");
  EXPECT_EQ(one.tensors().size(), 1u);
}

TEST(io_safetensors_set, a_folder_needs_one_index_or_one_file) {
  const support::temporary_folder folder;
  const auto open = [&] {
    return support::sentence_of([&] { (void)io::safetensors_set::open(folder.path().string()); });
  };
  EXPECT_NE(open().find("is a folder with 0 indices"), std::string::npos) << open();
  support::write(folder / "pytorch_model.bin", "PK\3\4 and so on");
  EXPECT_NE(open().find("safetensors.torch.save_file"), std::string::npos) << open();
  write_part(folder / "x.safetensors", {"a"});
  EXPECT_EQ(io::safetensors_set::open(folder.path().string()).tensors().size(), 1u);
  write_part(folder / "y.safetensors", {"b"});
  EXPECT_NE(open().find("0 indices (*.safetensors.index.json) and 2 files *.safetensors; name one of them"),
            std::string::npos)
      << open();
}

TEST(io_safetensors_set, an_index_that_does_not_fit_its_files_is_refused) {
  folder_of_parts folder;
  const auto refusal = [&](const std::string& text) {
    folder.write_index(text);
    return folder.refusal();
  };
  EXPECT_EQ(refusal(index_of(good_map)), "no error");
  EXPECT_EQ(refusal(index_of(R"("a":"m-00001-of-00002.safetensors","b":"m-00002-of-00002.safetensors")")),
            "expected all 2 tensors of \"m-00001-of-00002.safetensors\" in the index, found 1, without \"c\"");
  EXPECT_EQ(
      refusal(index_of(std::string(good_map) + R"(,"d":"m-00002-of-00002.safetensors")")),
      "expected tensor \"d\" in \"m-00002-of-00002.safetensors\", found 1 tensors of other names there; index and "
      "file belong to different models");
  for (const char* file :
       {"\"../x.safetensors\"", "\"\"", "\"/etc/passwd\"", "\"..\"", "3", "\"a\\\\b\"", "\"a\\u0000\""}) {
    const std::string text = refusal(index_of("\"a\":" + std::string(file)));
    EXPECT_TRUE(text.starts_with("expected a file beside the index for tensor \"a\"")) << file << ": " << text;
  }
  EXPECT_NE(refusal(index_of(R"("a":"missing.safetensors")")).find("missing.safetensors"), std::string::npos);
  for (const char* text : {"[]", "{}", "{\"weight_map\":[]}", "{\"weight_map\":{}}", "3"}) {
    EXPECT_EQ(refusal(text),
              "expected an index of .safetensors files, {\"weight_map\": {\"name\": \"file\", ..}}, found "
              "JSON without such a map")
        << text;
  }
  EXPECT_TRUE(refusal("{\"weight_map\":").starts_with("expected valid JSON")) << folder.refusal();
  EXPECT_EQ(refusal(std::string(1000, '[')),
            "expected an index of .safetensors files, found JSON nested 17 levels deep");
  EXPECT_EQ(refusal(index_of("\"a\":\"" + std::string(1000, '[') + "\\\"[\"")).find("nested"), std::string::npos);
  std::string many = "[";
  for (int i = 0; i < 200'000; ++i) many += "{\"\":{}},";  // the time of one after the other
  EXPECT_TRUE(refusal(many + "0]").ends_with("JSON without such a map"));
}

TEST(io_safetensors_set, files_of_other_kinds_are_named) {
  const support::temporary_folder folder;
  const auto refusal = [&](std::string bytes) {
    bytes.resize(std::max<std::size_t>(bytes.size(), 64), '\x01');
    support::write(folder / "model", bytes);
    return support::sentence_of([&] { (void)io::safetensors_set::open(folder / "model"); });
  };
  const std::pair<std::string, const char*> kinds[] = {
      {std::string("PK\x03\x04\x14\0\0\0", 8), "found a zip archive, as torch.save"},
      {std::string("\x80\x02\x8a\x0al\xfc\x9c", 7), "found a pickle, as torch.save wrote before"},
      {"\x80\x04\x95", "found a Python pickle"},
      {"GGUF\x03", "found a GGUF file"},
      {"\x89HDF\r\n\x1a\n", "found an HDF5 file"},
      {"\x1f\x8b\x08", "found a gzip archive"},
      {"\x93NUMPY\x01", "found a .npy file"},
      {"version https://git-lfs.github.com/spec/v1\n", "found a Git LFS pointer"},
      {"<!DOCTYPE html><html>", "found a web page"},
      {"{\"weight_map\": {}}", "found text, beginning"}};
  for (const auto& [bytes, expected] : kinds) {
    const std::string text = refusal(bytes);
    EXPECT_NE(text.find(expected), std::string::npos) << expected << ": " << text;
  }
}

TEST(io_safetensors_set, elements_of_every_size_are_counted) {
  const support::temporary_folder folder;
  const std::array<std::byte, 24> bytes{};
  const std::tuple<const char*, std::int64_t, std::size_t> each[] = {
      {"F4", 6, 3}, {"F6_E2M3", 8, 6}, {"F6_E3M2", 4, 3}, {"F8_E8M0", 5, 5}, {"C64", 3, 24}, {"F64", 3, 24}};
  std::vector<io::safetensors_entry> entries;
  for (const auto& [dtype, count, size] : each)
    entries.push_back({dtype, dtype, {count}, std::span(bytes).first(size)});
  io::write_safetensors(folder / "m", entries);
  EXPECT_EQ(io::safetensors_set::open(folder / "m").tensors().size(), entries.size());
  const io::safetensors_entry half[] = {{"x", "F4", {3}, std::span(bytes).first(1)}};
  EXPECT_EQ(support::thrown_by([&] { io::write_safetensors(folder / "n", half); }),
            meganeura::error_category::invalid_argument)
      << "three elements of four bits";
}

// What is accepted in spite of a damage is whole: its ranges lie in the file and its bytes are read.
void read_all(const std::string& path) {
  const auto set = io::safetensors_set::open(path);
  std::uint64_t total = 0;
  for (const auto& tensor : set.tensors()) {
    const auto bytes = set.read(tensor);
    ASSERT_EQ(bytes.size(), tensor.size);
    total += tensor.size;
  }
  ASSERT_LT(total, 4096u);
}

TEST(io_safetensors_set, thousands_of_damaged_files_are_refused_or_whole) {
  const folder_of_parts folder;
  const std::vector<float> values = counting(6, 1);
  const io::safetensors_entry entries[] = {{"layers.0.weight", "F32", {2, 3}, std::as_bytes(std::span(values))},
                                           {"empty", "BF16", {0, 7}, {}},
                                           {"scalar", "F64", {}, std::as_bytes(std::span(values)).first(8)}};
  io::write_safetensors(folder / "ours.safetensors", entries, {{"format", "pt"}});
  const std::string foreign_header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]},"v":{"dtype":"U8","shape":[4],"data_offsets":[8,12]}})";
  std::string foreign(8, '\0');
  foreign[0] = static_cast<char>(foreign_header.size());
  foreign += foreign_header + "0123456789ab";
  const auto read = [&](const std::string& name) {
    const auto bytes = io::read_file(folder / name);
    return std::string(bytes.begin(), bytes.end());
  };
  const std::pair<const char*, std::string> sources[] = {
      {"x.safetensors", read("ours.safetensors")},
      {"x.safetensors", foreign},
      {"m.safetensors.index.json", read("m.safetensors.index.json")}};
  const char* tokens[] = {"18446744073709551615",
                          "9223372036854775807",
                          "-1",
                          "1e400",
                          "null",
                          "[",
                          "{",
                          "}",
                          "\"",
                          "\\u0000",
                          "data_offsets",
                          "F4",
                          "\xff",
                          "../",
                          "99999999999999999999"};
  std::mt19937 random(7);
  std::size_t refused = 0, accepted = 0;
  for (const auto& [name, source] : sources) {
    for (int i = 0; i < 1200; ++i) {
      std::string bytes = source;
      const auto at = [&] { return random() % bytes.size(); };
      for (unsigned damage = 0; damage <= random() % 3; ++damage) {
        switch (random() % 6) {
          case 0:
            bytes[at()] ^= static_cast<char>(1 << random() % 8);
            break;
          case 1:
            bytes.resize(at() + 1);
            break;
          case 2:
            bytes.insert(at(), tokens[random() % std::size(tokens)]);
            break;
          case 3:
            bytes[random() % std::min<std::size_t>(8, bytes.size())] = static_cast<char>(random());  // of the length
            break;
          case 4:
            bytes.erase(at(), 1 + random() % 8);
            if (bytes.empty()) bytes = "x";
            break;
          case 5: {
            const std::size_t from = at();
            bytes.insert(at(), bytes.substr(from, random() % 64));
            break;
          }
        }
      }
      support::write(folder / name, bytes);
      try {
        read_all(folder / name);
        ++accepted;
      } catch (const meganeura::error& problem) {
        ASSERT_TRUE(problem.category() == meganeura::error_category::invalid_file ||
                    problem.category() == meganeura::error_category::io)
            << problem.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 2000u);
  EXPECT_GT(accepted, 10u) << "some damage is none, as a space in the index";
}

}  // namespace
