#include "server/request_log.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "server/utc_time.h"

namespace lacuna {
namespace {

constexpr size_t kMaxPathBytes = 512;
constexpr size_t kMaxMethodBytes = 32;

/// Escapes spaces, quotes and bytes other than printable ASCII as \xNN.
std::string escaped(std::string_view text, size_t most_bytes = kMaxPathBytes) {
  std::string result;
  for (const char c : text.substr(0, most_bytes)) {
    if (c > ' ' && c < 0x7F && c != '"' && c != '\\') {
      result += c;
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (text.size() > most_bytes) result += "...";
  return result.empty() ? "-" : result;
}

std::string json_line(const RequestRecord& record, const std::string& time) {
  nlohmann::ordered_json line{{"time", time},
                              {"request_id", escaped(record.id)},
                              {"address", record.address},
                              {"method", escaped(record.method, kMaxMethodBytes)},
                              {"path", escaped(record.path)},
                              {"status", record.status},
                              {"seconds", std::round(record.seconds * 1e6) / 1e6},
                              {"complete", record.is_whole}};
  if (record.answer) {
    line["model"] = record.answer->model;
    line["prompt_tokens"] = record.answer->prompt_tokens;
    line["completion_tokens"] = record.answer->answer_tokens;
  }
  if (!record.ignored.empty()) line["ignored"] = record.ignored;
  return dump_json(line);
}

}  // namespace

std::optional<LogFormat> log_format_named(std::string_view name) {
  if (name == "text") return LogFormat::kText;
  if (name == "json") return LogFormat::kJson;
  return {};
}

std::string log_line(const RequestRecord& record, LogFormat format,
                     std::chrono::system_clock::time_point time) {
  if (format == LogFormat::kJson) return json_line(record, utc_time(time));
  std::string line = fmt::format("{} {} {} {} {} {:.3f}s {}", utc_time(time), escaped(record.address),
                                 escaped(record.method, kMaxMethodBytes), escaped(record.path), record.status,
                                 record.seconds, escaped(record.id));
  if (record.answer) {
    line += fmt::format(" model={} prompt_tokens={} completion_tokens={}", escaped(record.answer->model),
                        record.answer->prompt_tokens, record.answer->answer_tokens);
  }
  if (!record.ignored.empty()) line += fmt::format(" ignored=\"{}\"", record.ignored);
  if (!record.is_whole) line += " incomplete";
  return line;
}

RequestLog::RequestLog(LogFormat format, int descriptor)
    : format_(format), descriptor_(descriptor), thread_([this] { work(); }) {}

RequestLog::~RequestLog() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void RequestLog::add(const RequestRecord& record) {
  std::string line = log_line(record, format_, std::chrono::system_clock::now()) + "\n";
  {
    const MutexLock lock(mutex_);
    if (lines_.size() >= kMaxLines) {
      ++num_dropped_;
      return;
    }
    if (num_dropped_ > 0) {
      const size_t dropped = std::exchange(num_dropped_, 0);
      line = (format_ == LogFormat::kJson ? fmt::format("{{\"dropped_lines\":{}}}\n", dropped)
                                          : fmt::format("{} lines were dropped\n", dropped)) +
             line;
    }
    lines_.push_back(std::move(line));
  }
  changed_.notify_one();
}

void RequestLog::work() {
  const MutexLock lock(mutex_);
  for (;;) {
    while (!is_stopping_ && lines_.empty()) changed_.wait(mutex_);
    if (lines_.empty()) return;
    const std::string line = std::move(lines_.front());
    lines_.pop_front();
    mutex_.unlock();
    const bool is_written = write(line);
    mutex_.lock();
    if (!is_written) return;
  }
}

bool RequestLog::write(const std::string& line) {
  // Lines are shorter than PIPE_BUF, so writing one to a ready pipe is atomic.
  constexpr int kMilliseconds = 200;
  for (std::string_view rest = line; !rest.empty();) {
    pollfd state{descriptor_, POLLOUT, 0};
    if (::poll(&state, 1, kMilliseconds) <= 0) {
      const MutexLock lock(mutex_);
      if (is_stopping_) return false;
      continue;
    }
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return true;  // an error of the log cannot be reported
    rest.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace lacuna
