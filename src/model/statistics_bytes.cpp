#include "model/statistics_bytes.h"

#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace lacuna {
namespace {

class Writer {
 public:
  template <typename Value>
  void operator()(const Value& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
  }
  template <typename Value>
  void list(const std::vector<Value>& values, auto&& visit) {
    (*this)(uint64_t{values.size()});
    for (const Value& value : values) visit(*this, value);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename Value>
  void operator()(Value& value) {
    expects(bytes_.size() >= sizeof value, "the bytes of statistics are complete");
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
  }
  template <typename Value>
  void list(std::vector<Value>& values, auto&& visit) {
    uint64_t count = 0;
    (*this)(count);
    expects(count <= bytes_.size(), "the bytes of statistics are complete");
    values.resize(count);
    for (Value& value : values) visit(*this, value);
  }
  bool is_done() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

/// Lists the fields once, for reading and writing.
template <typename Archive, typename Row>
void visit_fields(Archive& archive, Row& row) {
  archive(row.token);
  archive(row.confidence);
  archive(row.best_logit);
  archive(row.best_token);
  archive(row.second_token);
  archive(row.scored_rank);
  archive(row.scored_logit);
  archive(row.scored_probability);
  archive(row.entropy);
  archive(row.margin);
  archive(row.is_finite);
  archive.list(row.listed_logprobs, [](auto& inner, auto& logprob) { inner(logprob); });
  archive.list(row.likeliest, [](auto& inner, auto& token) {
    inner(token.first);
    inner(token.second);
  });
}

}  // namespace

std::vector<std::byte> to_bytes(std::span<const RowStatistics> rows) {
  Writer writer;
  for (const RowStatistics& row : rows) visit_fields(writer, row);
  return writer.take();
}

void from_bytes(std::span<const std::byte> bytes, std::span<RowStatistics> rows) {
  Reader reader(bytes);
  for (RowStatistics& row : rows) visit_fields(reader, row);
  expects(reader.is_done(), "the bytes of statistics are those of the rows");
}

}  // namespace lacuna
