// The request log: one line per request, written by its own thread, so that a slow reader of the log does not
// block requests.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/mutex.h"
#include "server/http.h"

namespace lacuna {

enum class LogFormat : uint8_t { kText, kJson };

/// "text", "json".
std::optional<LogFormat> log_format_named(std::string_view name);

/// A log line without its line break. Bytes other than printable ASCII are escaped, so that clients cannot
/// inject lines, and a path is cut after 512 bytes.
std::string log_line(const RequestRecord& record, LogFormat format,
                     std::chrono::system_clock::time_point time);

class RequestLog {
 public:
  ///   descriptor  output file, which the log does not close
  RequestLog(LogFormat format, int descriptor);
  /// Writes the remaining lines if that does not block.
  ~RequestLog();
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  /// Queues a line and returns at once. Thread-safe. If kMaxLines lines wait, the line is dropped; a later
  /// line tells how many were dropped.
  void add(const RequestRecord& record);

  static constexpr size_t kMaxLines = 4096;

 private:
  void work();
  /// Whether the line was written.
  bool write(const std::string& line);

  LogFormat format_;
  int descriptor_;
  Mutex mutex_;
  Condition changed_;
  std::deque<std::string> lines_ LACUNA_GUARDED_BY(mutex_);
  size_t num_dropped_ LACUNA_GUARDED_BY(mutex_) = 0;
  bool is_stopping_ LACUNA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lacuna
