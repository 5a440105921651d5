// Files of OpenAI's batch format: one request per line, and one answer per line in the same order.
//
//   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
//   {"id": "batch_req_1", "custom_id": "a", "response": {"status_code": 200, "request_id": "batch_req_1",
//    "body": {...}}, "error": null}
//
// Answers depend only on the requests: times, and counts that depend on concurrent requests, are left out. So
// a resumed batch has the same bytes as an uninterrupted one.
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
  std::string path;          ///< path of the endpoint: "/v1/chat/completions"
  std::string body;          ///< JSON
  std::string ignored = {};  ///< names of the line's unknown members, separated by ", "
};

struct BatchAnswer {
  int status = 200;          ///< HTTP status
  std::string body;          ///< JSON
  std::string ignored = {};  ///< value of X-Lacuna-Ignored; empty: no field was ignored
};

/// A file of requests. The constructor checks all lines; empty lines are skipped.
class BatchInput {
 public:
  /// Throws InputError, which names the file and the line, for a line that is not a request or is longer than
  /// kMaxBatchLineBytes, a duplicate id, a method other than POST, or a body that asks for a stream.
  explicit BatchInput(const std::filesystem::path& path);

  size_t size() const { return lines_.size(); }
  BatchRequest at(size_t index) const;

 private:
  MappedFile file_;
  std::vector<std::string_view> lines_;
};

/// The answer line, without its line break, of request `index` (0-based). A body that is not JSON is kept as
/// a string.
std::string batch_answer_line(const BatchRequest& request, size_t index, const BatchAnswer& answer);

/// The file of answers, locked against other processes.
class BatchOutput {
 public:
  /// Opens or creates the file, and removes an incomplete last line. Throws InputError if the file cannot be
  /// written, another process has locked it, or its lines do not answer the first requests of `input` in
  /// order.
  BatchOutput(const std::filesystem::path& path, const BatchInput& input);

  /// Number of lines in the file.
  size_t size() const { return size_; }
  /// Appends a line. Throws std::runtime_error if the write fails.
  void append(std::string line);

 private:
  std::string path_;
  FileDescriptor file_;
  size_t size_ = 0;
};

}  // namespace lacuna
