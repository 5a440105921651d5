#include "npy.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "temporary_folder.h"

namespace lacuna::npy_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Npy : public testing::Test {
 protected:
  std::filesystem::path path_of(const std::string& name) const { return folder_.path() / name; }

  /// A file as NumPy writes it, but for what a test does to it.
  ///   header  with a line break at its end
  std::filesystem::path write(const std::string& header, const std::string& numbers, char version = 1) const {
    std::ofstream file(path_of("made.npy"), std::ios::binary);
    file << "\x93NUMPY" << version << '\0';
    for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file << static_cast<char>(header.size() >> 8 * i & 255);
    file << header << numbers;
    return path_of("made.npy");
  }

  template <typename T>
  static std::string bytes_of(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
  }

  TemporaryFolder folder_;
  std::string header_ = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
  std::string numbers_ = bytes_of<float>({1, 2, 3, 4, 5, 6});
};

TEST_F(Npy, ReadsBackWhatItWrote) {
  for (const int64_t cols : {1, 3, 257}) {
    std::vector<float> values;
    for (int64_t i = 0; i < 4 * (cols + 2); ++i) values.push_back(static_cast<float>(i) / 3);
    write_npy(path_of("m.npy"), {values.data(), 4, cols, cols + 2});  // rows with a gap after them
    std::vector<float> expected;
    for (int64_t row = 0; row < 4; ++row)
      expected.insert(expected.end(), values.begin() + row * (cols + 2),
                      values.begin() + row * (cols + 2) + cols);
    EXPECT_EQ(read_npy(path_of("m.npy"), 4, cols), expected);
    EXPECT_THROW(read_npy(path_of("m.npy"), cols + 4, 4), InputError);
    EXPECT_EQ((std::filesystem::file_size(path_of("m.npy")) - expected.size() * 4) % 64, 0U);
  }
}

TEST_F(Npy, ReadsWhatNumpyWritesOfEitherVersionAndType) {
  EXPECT_THAT(read_npy(write(header_, numbers_), 2, 3), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(read_npy(write(header_, numbers_, 2), 2, 3), ElementsAre(1, 2, 3, 4, 5, 6));
  const std::string wide = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }\n";
  EXPECT_THAT(read_npy(write(wide, bytes_of<double>({0.5, -3})), 1, 2), ElementsAre(0.5, -3));
}

TEST_F(Npy, SaysWhatItExpectedInsteadOfAnotherFile) {
  const auto refused = [&](const std::filesystem::path& path, const std::string& found) {
    EXPECT_THAT([&] { read_npy(path, 2, 3); },
                ThrowsMessage<InputError>(AllOf(
                    HasSubstr("made.npy: "), HasSubstr(found),
                    HasSubstr("expected a NumPy file of float32 or float64 [2, 3] in row-major order"))))
        << found;
  };
  const auto with = [&](const std::string& part, const std::string& other) {
    std::string header = header_;
    header.replace(header.find(part), part.size(), other);
    return header;
  };
  refused(write(with("(2, 3)", "(3, 2)"), numbers_), "of another shape");
  refused(write(with("(2, 3)", "(2, 30)"), numbers_), "of another shape");
  refused(write(with("(2, 3)", "(6,)"), numbers_), "of another shape");
  refused(write(with("<f4", ">f4"), numbers_), "of another type");
  refused(write(with("<f4", "<i4"), numbers_), "of another type");
  refused(write(with("False", "True"), numbers_), "in column-major order");
  refused(write("{}\n", numbers_), "of another type");
  refused(write(header_, numbers_.substr(1)), "23 bytes of numbers");
  refused(write(header_, numbers_ + "x"), "25 bytes of numbers");
  refused(write(header_, ""), "0 bytes of numbers");
  refused(write(header_, bytes_of<float>({1, 2, 3, 4, 5, std::numeric_limits<float>::infinity()})),
          "infinity");
  std::ofstream(path_of("made.npy")) << "PK not one of these";
  refused(path_of("made.npy"), "not a NumPy file");
  std::ofstream(path_of("made.npy"), std::ios::binary) << std::string("\x93NUMPY\x01\x00\xff\xff{}\n", 13);
  refused(path_of("made.npy"), "its header does not fit into the file");
  std::ofstream(path_of("made.npy"), std::ios::binary) << "\x93NUMPY\x01";
  refused(path_of("made.npy"), "not a NumPy file");
  EXPECT_THAT([&] { read_npy(path_of("none.npy"), 2, 3); }, ThrowsMessage<InputError>(HasSubstr("none.npy")));
}

}  // namespace
}  // namespace lacuna::npy_test
