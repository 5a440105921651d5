#include "npy.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/written_file.h"

namespace lacuna {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

/// The value of a key in the header, a Python literal, without spaces: "'<f4'".
std::string_view value_of(std::string_view header, std::string_view key) {
  const size_t found = header.find(fmt::format("'{}':", key));
  if (found == header.npos) return {};
  header.remove_prefix(found + key.size() + 3);
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

}  // namespace

void write_npy(const std::filesystem::path& path, ConstMatrix<float> values) {
  // Format 1.0: magic, header length, a Python literal padded to 64 bytes, the numbers.
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                                   values.rows, values.cols);
  constexpr size_t kPrefix = 10;
  header.append(63 - (kPrefix + header.size()) % 64, ' ');
  header += '\n';
  WrittenFile file(path);
  const auto length = static_cast<uint16_t>(header.size());
  const char version_and_length[] = {'\x01', '\0', static_cast<char>(length & 0xff),
                                     static_cast<char>(length >> 8)};
  file.write(kMagic);
  file.write(std::string_view(version_and_length, sizeof(version_and_length)));
  file.write(header);
  for (int64_t row = 0; row < values.rows; ++row) {
    file.write(std::as_bytes(std::span(values.row(row), static_cast<size_t>(values.cols))));
  }
  file.commit();
}

std::vector<float> read_npy(const std::filesystem::path& path, int64_t rows, int64_t cols) {
  const MappedFile file = MappedFile::open(path);
  const std::string_view text = file.text();
  const std::string expected =
      fmt::format("a NumPy file of float32 or float64 [{}, {}] in row-major order", rows, cols);
  const auto refuse = [&](const std::string& found) {
    throw InputError("{}: {}; expected {}", path.string(), found, expected);
  };
  if (text.size() < 12 || !text.starts_with(kMagic)) refuse("not a NumPy file");
  const bool is_first_version = text[6] == 1;
  size_t length = 0;
  for (size_t i = 0; i < (is_first_version ? 2U : 4U); ++i)
    length |= size_t{static_cast<unsigned char>(text[8 + i])} << 8 * i;
  const size_t begin = is_first_version ? 10 : 12;
  if (length > text.size() - begin) refuse("its header does not fit into the file");
  const std::string_view header = text.substr(begin, length);
  const bool is_double = value_of(header, "descr").starts_with("'<f8'");
  if (!is_double && !value_of(header, "descr").starts_with("'<f4'")) refuse("of another type");
  if (!value_of(header, "fortran_order").starts_with("False")) refuse("in column-major order");
  if (!value_of(header, "shape").starts_with(fmt::format("({}, {})", rows, cols))) refuse("of another shape");
  const size_t size = is_double ? sizeof(double) : sizeof(float);
  const std::string_view numbers = text.substr(begin + length);
  if (numbers.size() / size != static_cast<size_t>(rows * cols) || numbers.size() % size != 0)
    refuse(fmt::format("{} bytes of numbers", numbers.size()));
  std::vector<float> values(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < values.size(); ++i) {
    double wide = 0;
    if (is_double) {
      std::memcpy(&wide, numbers.data() + i * size, size);
      values[i] = static_cast<float>(wide);
    } else {
      std::memcpy(&values[i], numbers.data() + i * size, size);
    }
    if (!std::isfinite(values[i])) refuse("holds infinity or NaN");
  }
  return values;
}

}  // namespace lacuna
