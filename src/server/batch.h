// Files of OpenAI's batch format: requests, one a line, and their answers, one a line in the same order.
//
//   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
//   {"id": "batch_req_1", "custom_id": "a", "response": {"status_code": 200, "request_id": "batch_req_1",
//    "body": {...}}, "error": null}
//
// Answers depend on the requests alone: times, and counts that depend on what else was running, are left out.
// So a batch that was interrupted and continued has the bytes of one that was not.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/open_file.h"

namespace lacuna {

inline constexpr size_t kMaxBatchLineBytes = size_t{4} << 20;
inline constexpr size_t kMaxCustomIdBytes = 512;

struct BatchRequest {
  std::string custom_id;     ///< 1 to kMaxCustomIdBytes bytes, unique within the file
  std::string path;          ///< of the endpoint: "/v1/chat/completions"
  std::string body;          ///< JSON
  std::string ignored = {};  ///< names of members of the line that the format does not have, ", " between
};

struct BatchAnswer {
  int status = 200;          ///< HTTP status
  std::string body;          ///< JSON
  std::string ignored = {};  ///< X-Lacuna-Ignored; empty: nothing was
};

/// A file of requests, which is checked whole before the first of them runs. Empty lines are skipped.
class BatchInput {
 public:
  /// Throws InputError naming the file, the line, and what was expected: a line that is not such an object or
  /// is longer than kMaxBatchLineBytes, an id that another line has, a method other than POST, a body that
  /// asks for a stream.
  explicit BatchInput(const std::filesystem::path& path);

  size_t size() const { return lines_.size(); }
  BatchRequest at(size_t index) const;

 private:
  MappedFile file_;
  std::vector<std::string_view> lines_;
};

/// The line, without its line break, that answers request `index` (from 0) of a batch. A body that is not
/// JSON is kept as a string.
std::string batch_answer_line(const BatchRequest& request, size_t index, const BatchAnswer& answer);

/// The file of answers. One process at a time may hold it.
class BatchOutput {
 public:
  /// Opens the file or creates it, and removes a last line that was not written to its end. Throws InputError
  /// where the file cannot be written, another process holds it, or its lines do not answer the first
  /// requests of `input` in their order.
  BatchOutput(const std::filesystem::path& path, const BatchInput& input);

  /// Lines in the file.
  size_t size() const { return size_; }
  /// Adds a line. Throws std::runtime_error where it cannot be written.
  void append(std::string line);

 private:
  std::string path_;
  FileDescriptor file_;
  size_t size_ = 0;
};

}  // namespace lacuna
