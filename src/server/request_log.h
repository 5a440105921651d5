// One line for each request, written by a thread of its own: whoever reads the lines slowly, or not at all,
// holds up no request.
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

/// The line without its end. Bytes of a client that are not printable ASCII are escaped, and a path is cut
/// after 512 bytes, so that no client writes lines of its own.
std::string log_line(const RequestRecord& record, LogFormat format,
                     std::chrono::system_clock::time_point time);

class RequestLog {
 public:
  ///   descriptor  of the file that is written to; it stays open
  RequestLog(LogFormat format, int descriptor);
  /// Writes what is left, as far as that needs no waiting.
  ~RequestLog();
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  /// Returns at once, from any thread. Where more than kMaxLines wait, the line is dropped and counted; a
  /// later line says how many were.
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
