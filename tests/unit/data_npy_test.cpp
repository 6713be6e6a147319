// SPDX-License-Identifier: MIT
// NumPy's files, as Python wrote them, and one sentence for each way to be another.
#include <meganeura/data/npy.hpp>

#include <support/sentence_of.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace {

using namespace meganeura;
using support::sentence_of;

std::string sample(const std::string& name) { return std::string(MEGANEURA_SOURCE_DIR "/tests/fuzz/corpus/") + name; }

/// A file of version 1 with this header.
std::vector<std::uint8_t> file_of(const std::string& header, std::span<const std::uint8_t> data) {
  const std::string start = "\x93NUMPY\1";
  std::vector<std::uint8_t> result(start.begin(), start.end());
  result.insert(result.end(), {0, static_cast<std::uint8_t>(header.size()), 0});
  result.insert(result.end(), header.begin(), header.end());
  result.insert(result.end(), data.begin(), data.end());
  return result;
}

data::npy_array parse(const std::vector<std::uint8_t>& bytes) {
  return data::parse_npy(data::source_of(bytes), bytes.size(), "f");
}

template <class T>
data::npy_array array_of(const std::string& descr, const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
  return parse(file_of(fmt::format("{{\"descr\": '{}', 'shape': ({},), 'fortran_order': False}}", descr, values.size()),
                       {bytes, values.size() * sizeof(T)}));
}

TEST(data_npy, what_python_wrote_is_read) {
  const auto f4 = data::read_npy(sample("npy/f4"));
  EXPECT_EQ(f4.type, data::npy_type::f32);
  EXPECT_EQ(f4.shape, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(f4.floats(), (std::vector<float>{0, 1, 2, 3, 4, 5.5f}));
  const auto big = data::read_npy(sample("npy/i8_big"));  // version 2
  EXPECT_EQ(big.floats(), (std::vector<float>{-1, 2, 0x1p40f}));
  EXPECT_EQ(support::refusal([&] { (void)big.integers(); }),
            "npy_array::integers: element 2 is 1099511627776, which i32 does not hold");
  const auto scalar = data::read_npy(sample("npy/f2_scalar"));  // version 3
  EXPECT_TRUE(scalar.shape.empty());
  EXPECT_EQ(scalar.floats(), (std::vector<float>{-1.5f}));
  EXPECT_EQ(support::refusal([&] { (void)scalar.integers(); }),
            "npy_array::integers: the array is f16; take its floats()");
  EXPECT_EQ(data::read_npy(sample("npy/bool")).integers(), (std::vector<std::int32_t>{0, 1}));
  const auto empty = data::read_npy(sample("npy/empty"));
  EXPECT_EQ(empty.shape, (std::vector<std::size_t>{0, 4}));
  EXPECT_EQ(empty.size(), 0u);
}

TEST(data_npy, every_type_keeps_its_extremes) {
  using int32 = std::numeric_limits<std::int32_t>;
  EXPECT_EQ(array_of<std::int8_t>("|i1", {-128, 127}).integers(), (std::vector<std::int32_t>{-128, 127}));
  EXPECT_EQ(array_of<std::uint8_t>("|u1", {0, 255}).integers(), (std::vector<std::int32_t>{0, 255}));
  EXPECT_EQ(array_of<std::int16_t>("<i2", {-32768, 5}).integers(), (std::vector<std::int32_t>{-32768, 5}));
  EXPECT_EQ(array_of<std::uint16_t>("<u2", {65535}).integers(), (std::vector<std::int32_t>{65535}));
  EXPECT_EQ(array_of<std::int32_t>("=i4", {int32::min(), int32::max()}).integers(),
            (std::vector<std::int32_t>{int32::min(), int32::max()}));
  EXPECT_EQ(array_of<std::uint32_t>("<u4", {7}).integers(), (std::vector<std::int32_t>{7}));
  EXPECT_EQ(array_of<std::int64_t>("<i8", {int32::min()}).integers(), (std::vector<std::int32_t>{int32::min()}));
  EXPECT_EQ(support::refusal([] { (void)array_of<std::uint64_t>("<u8", {~std::uint64_t{0}}).integers(); }),
            "npy_array::integers: element 0 is 18446744073709551615, which i32 does not hold");
  const auto doubles = array_of<double>("<f8", {1.0 + 0x1p-30, -1e300, std::nan("")}).floats();
  EXPECT_EQ(doubles[0], 1);
  EXPECT_EQ(doubles[1], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(doubles[2]));
  EXPECT_EQ(array_of<float>("<f4", {2.5f}).type, data::npy_type::f32);
}

TEST(data_npy, what_is_another_file_is_a_sentence) {
  const auto of = [](const std::string& header) {
    return sentence_of([&] { (void)parse(file_of(header, std::vector<std::uint8_t>(8))); });
  };
  const std::string rest = ", 'fortran_order': False, 'shape': (2,)}";
  EXPECT_EQ(of("{'descr': '<f4'" + rest), "no error");
  EXPECT_EQ(of("{'descr': '<c8'" + rest),
            "f: at byte 20: expected a dtype of one number, floats of 2 to 8 bytes, integers of 1 to 8 or bool, found "
            "\"<c8\"");
  EXPECT_EQ(of("{'descr': [('a', '<f4')]" + rest),
            "f: at byte 20: expected a string, found \"[('a', '<f4')], 'for\"... "
            "(54 bytes)");
  EXPECT_EQ(
      of("{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}"),
      "f: at byte 48: expected an array in C order; save numpy.ascontiguousarray(it), found one in Fortran order");
  EXPECT_EQ(of("{'descr': '<f4', 'descr': '<f4'" + rest),
            "f: at byte 27: expected 'descr', 'fortran_order' and 'shape', each once, found \"descr\"");
  EXPECT_EQ(of("{'descr': '<f4', 'shape': (2,)}"),
            "f: at byte 41: expected 'descr', 'fortran_order' and 'shape', each once, found the end of the header");
  EXPECT_EQ(of("{'descr': '<f4'" + rest + "}"), "f: at byte 65: expected the end of the header, found \"}\"");
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': False, 'shape': (2"),
            "f: at byte 62: expected ')', found the end of "
            "the header");
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}"),
            "f: at byte 61: expected an extent, found \"-2,)}\"");
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}"),
            "f: at byte 10: expected extents of at most 8 bytes of data, found [3]");
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}"),
            "f: at byte 69: expected 4 bytes of data for the extents [1], found more");
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': False, 'shape': (576460752303423487, 1048576, 1048576)}"),
            "f: at byte 10: expected extents of at most 8 bytes of data, found [576460752303423487, 1048576, 1048576]");
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': False, 'shape': (576460752303423488,)}"),
            "f: at byte 61: expected an extent below 2^59, found \"576460752303423488,)\"... (21 bytes)");
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}").find("f: at byte"), 0u);
  auto other = file_of("{'descr': '<f4'" + rest, std::vector<std::uint8_t>(8));
  other[6] = 4;
  EXPECT_EQ(sentence_of([&] { (void)parse(other); }),
            "f: at byte 6: expected version 1, 2 or 3 of the format, found 4");
  other[0] = 'x';
  EXPECT_EQ(sentence_of([&] { (void)parse(other); }),
            "f: at byte 0: expected \"\\x93NUMPY\", as .npy files begin, found \"xNUMPY\"");
  EXPECT_EQ(sentence_of([&] { (void)parse({}); }),
            "f: at byte 0: expected a beginning of 8 bytes, found the end of the file");
  EXPECT_EQ(of("{'descr': '<f4"), "f: at byte 21: expected a string that ends, found \"<f4\"");
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}"),
            "f: at byte 44: expected True or False, found \"0, 'shape': (2,)}\"");
  const std::string second = std::string("\x93NUMPY\2\0", 8) + std::string("\0\0\2\0", 4);
  EXPECT_EQ(sentence_of([&] {
              (void)parse({second.begin(), second.end()});
            }),
            "f: at byte 8: expected a header of at most 65536 bytes, found 131072");
}

TEST(data_npy, archives_of_python_are_read_stored_and_deflated) {
  for (const char* name : {"npz/stored", "npz/deflated"}) {
    const auto file = data::npz_file::open(sample(name));
    EXPECT_EQ(file.read("weight").floats(), (std::vector<float>{0, 1, 2, 3, 4, 5.5f})) << name;
    EXPECT_EQ(file.read("label").integers(), (std::vector<std::int32_t>{3, 1, 4, 1})) << name;
    EXPECT_EQ(support::refusal([&] { (void)file.read("wieght"); }),
              sample(name) + ": has no array \"wieght\"; did you mean \"weight\"?");
  }
  const auto deflated = data::npz_file::open(sample("npz/deflated"));
  EXPECT_EQ(deflated.names(), (std::vector<std::string>{"label", "weight", "zeros"}));
  EXPECT_EQ(deflated.read("zeros").floats(), std::vector<float>(1000));
  EXPECT_TRUE(data::npz_file::open(sample("npz/none")).names().empty());
}

TEST(data_npy, archives_that_are_damaged_or_not_read_are_sentences) {
  const support::temporary_folder folder;
  const std::string path = folder / "f.npz";
  // The archive with one byte changed where the given bytes first stand, or cut.
  const auto changed = [&](const char* name, const std::string& before, std::size_t at, const std::string& by) {
    std::ifstream in(sample(name), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    const std::size_t place = before.empty() ? 0 : bytes.rfind(before);
    EXPECT_NE(place, bytes.npos);
    bytes.replace(place + at, by.size(), by);
    support::write(path, bytes);
    const auto read = [&] {
      const auto file = data::npz_file::open(path);
      for (const char* each : {"weight", "label"}) (void)file.read(each);
    };
    return sentence_of(read).substr(path.size());
  };
  const auto damaged = [&](const char* name, const std::string& before, std::size_t at, char by) {
    return changed(name, before, at, std::string(1, by));
  };
  const std::string end = "PK\5\6", entry = "PK\1\2", numbers = "\x40\x40";  // of 3, as f32
  EXPECT_EQ(damaged("npz/stored", end, 0, 'x'),
            ": at byte 548: expected a zip file, with its directory at the end, found none");
  EXPECT_EQ(damaged("npz/stored", end, 4, 1), ": at byte 530: expected a zip file in one part, found one in several");
  EXPECT_EQ(damaged("npz/stored", end, 19, 'x').substr(0, 60),
            ": at byte 538: expected a directory that ends before byte 52");
  const std::pair<std::string, std::string> list[] = {
      {changed("npz/stored", end, 10, "\xff\xff"),
       "expected a zip file of less than 4 GiB and 65535 arrays; save arrays as .npy, found zip64"},
      {changed("npz/stored", end, 8, std::string("\3\0\3\0", 4)), "expected entry 3 of 3 of the directory, found none"},
      {changed("npz/stored", entry, 20, "\xff\xff\xff\xff"),
       "expected arrays of less than 4 GiB; save larger ones as .npy, found zip64"},
      {changed("npz/deflated", entry, 46, "label"), "expected each name once, found a name that was there before"},
      {damaged("npz/stored", entry, 8, 1), "expected an array that is not encrypted, found an encrypted one"},
      {damaged("npz/stored", entry, 42, 1), "expected an array's header, found none"},
      {damaged("npz/stored", entry, 22, 1), " bytes before the directory at byte "},
  };
  for (const auto& [said, part] : list) EXPECT_NE(said.find(part), std::string::npos) << said;
  EXPECT_NE(damaged("npz/stored", numbers, 1, 'x').find("(weight): at byte"), std::string::npos);
  EXPECT_NE(damaged("npz/stored", numbers, 1, 'x').find("expected bytes of CRC-32"), std::string::npos);
  EXPECT_EQ(sentence_of([&] { (void)data::npz_file::open(sample("npz/bzip2")).read("weight"); }),
            sample("npz/bzip2") + "(weight): at byte 60: expected compression 0 (none) or 8 (deflate), found 12");
  EXPECT_EQ(sentence_of([&] { (void)data::npz_file::open(folder / "none"); }),
            folder / "none" + ": cannot be opened for reading: No such file or directory");
}

}  // namespace
