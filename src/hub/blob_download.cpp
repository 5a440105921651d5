#include "hub/blob_download.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/open_file.h"
#include "hub/digest.h"
#include "hub/hub_api.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, std::string_view what) {
  throw std::runtime_error(fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

/// Lock of one blob, compatible with the hub's Python client.
class BlobLock {
 public:
  BlobLock(const fs::path& path, const std::atomic<bool>& stop, const std::function<void()>& waiting)
      : file_(open_shared(path)) {
    for (bool told = false; flock(file_.number(), LOCK_EX | LOCK_NB) != 0;) {
      if (errno != EWOULDBLOCK && errno != EINTR) return;  // a file system without locks
      if (!std::exchange(told, true)) waiting();
      if (stop) throw TransferStopped();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }

 private:
  FileDescriptor file_;
};

/// Partial blob: the bytes on disk and their digest.
class PartialBlob {
 public:
  PartialBlob(const fs::path& path, const HubFile& file, std::atomic<int64_t>& present,
              const std::atomic<bool>& stop)
      : file_(file), path_(path), disk_(open_shared(path)), present_(present), digest_(fresh_digest()) {
    const off_t size = lseek(disk_.number(), 0, SEEK_END);
    if (size < 0) fail(path, "cannot be read");
    size_ = size;
    // present_bytes() counted no more than the file's size.
    if (size_ > file_.size) {
      present_ += size_ - file_.size;
      clear();
    } else {
      read_back(stop);
    }
  }

  int64_t size() const { return size_; }
  bool is_whole() const { return size_ == file_.size; }

  void append(std::string_view bytes) {
    digest_.update(bytes);
    while (!bytes.empty()) {
      const ssize_t written = pwrite(disk_.number(), bytes.data(), bytes.size(), size_);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail(path_, "cannot be written");
      size_ += written;
      present_ += written;
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }

  void clear() {
    if (ftruncate(disk_.number(), 0) != 0) fail(path_, "cannot be written");
    present_ -= size_;
    size_ = 0;
    digest_ = fresh_digest();
  }

  std::string digest() { return digest_.hex(); }

  void rename_to(const fs::path& blob) {
    if (fsync(disk_.number()) != 0) fail(path_, "cannot be written");
    fs::rename(path_, blob);
  }

 private:
  Digest fresh_digest() const { return file_.has_sha256() ? Digest::sha256() : Digest::git_blob(file_.size); }

  void read_back(const std::atomic<bool>& stop) {
    std::vector<char> buffer(1 << 20);
    for (int64_t position = 0; position < size_;) {
      if (stop) throw TransferStopped();
      const ssize_t count = pread(disk_.number(), buffer.data(), buffer.size(), position);
      if (count <= 0) fail(path_, "cannot be read");
      digest_.update({buffer.data(), static_cast<size_t>(count)});
      position += count;
    }
  }

  const HubFile& file_;
  const fs::path path_;
  FileDescriptor disk_;
  std::atomic<int64_t>& present_;
  Digest digest_;
  int64_t size_ = 0;
};

/// The value of an ETag without quotes and the weak prefix W/.
std::string etag_value(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

/// Retries until all bytes are there.
class BlobTransfer {
 public:
  BlobTransfer(HttpClient& client, const PullOptions& options, const std::string& commit, const HubFile& file,
               PartialBlob& blob)
      : client_(client), options_(options), url_(file_url(options, commit, file)), file_(file), blob_(blob) {}

  void run(const std::atomic<bool>& stop) {
    Retries retries(options_.first_wait, stop);
    int64_t furthest = blob_.size();
    while (!blob_.is_whole()) {
      retry_after_.clear();
      transfer_error_.reset();
      const std::string problem = attempt();
      if (problem.empty() && blob_.is_whole()) return;
      const bool progress = blob_.size() > furthest;
      furthest = std::max(furthest, blob_.size());
      if (transfer_error_) {
        retries.wait(*transfer_error_, progress);
      } else {
        retries.wait(problem.empty() ? short_reply() : problem, progress, retry_after_);
      }
    }
  }

 private:
  /// Makes one attempt. Returns the error if it failed and may be retried; empty after success.
  std::string attempt() {
    HttpGet request{.url = url_, .token = options_.access.token, .first_byte = blob_.size(), .is_file = true};
    if (request.first_byte > 0) request.if_range = validator_;
    bool is_first = true;
    bool is_usable = false;
    HttpHead head;
    try {
      head = client_.get(request, [&](const HttpHead& reply, std::string_view bytes) {
        if (std::exchange(is_first, false)) is_usable = begin_body(reply);
        if (!is_usable) return false;
        if (static_cast<int64_t>(bytes.size()) > file_.size - blob_.size()) refuse_size(reply);
        blob_.append(bytes);
        return true;
      });
    } catch (const TransferError& error) {
      transfer_error_ = error;
      return error.what();
    }
    if (is_usable || head.status == 200 || head.status == 206) return "";
    if (head.status == 416) {
      blob_.clear();
      return fmt::format("{}: the hub does not accept the range", file_.path);
    }
    if (!is_transient(head.status)) refuse_status(head, options_);
    retry_after_ = head.last("retry-after");
    return fmt::format("{}: {} answers with HTTP status {}", file_.path, options_.access.endpoint,
                       head.status);
  }

  /// Whether the reply's body can be appended. Deletes the bytes on disk if the body starts at the first
  /// byte.
  bool begin_body(const HttpHead& head) {
    if (head.status != 200 && head.status != 206) return false;
    check_linked(head);
    if (head.status == 206 && !continues_at(head.last("content-range"))) {
      blob_.clear();
      return false;
    }
    if (head.status == 200 && blob_.size() > 0) blob_.clear();
    const std::string etag = head.last("etag");
    validator_ = etag.starts_with('"') ? etag : "";  // a weak ETag does not guarantee equal bytes
    return true;
  }

  /// Whether a Content-Range continues the blob: "bytes FIRST-LAST/SIZE", with SIZE possibly *.
  bool continues_at(std::string_view range) const {
    return range.starts_with(fmt::format("bytes {}-", blob_.size())) &&
           (range.ends_with(fmt::format("/{}", file_.size)) || range.ends_with("/*"));
  }

  /// Checks that the file is the one that the hub listed: its ETag is the name of the blob.
  void check_linked(const HttpHead& head) const {
    const std::string etag = etag_value(head.first("x-linked-etag"));
    if (etag.size() != file_.blob.size() || etag == file_.blob) return;
    throw std::runtime_error(fmt::format("{}: the hub offers the content {}, and its list of files says {}",
                                         file_.path, in_quotes(etag), file_.blob));
  }

  [[noreturn]] void refuse_size(const HttpHead& /*head*/) {
    blob_.clear();
    throw std::runtime_error(
        fmt::format("{}: more bytes arrive than the {} that the hub lists", file_.path, file_.size));
  }

  std::string short_reply() const {
    return fmt::format("{}: the transfer ended after {} of {} bytes", file_.path, blob_.size(), file_.size);
  }

  HttpClient& client_;
  const PullOptions& options_;
  std::string url_;
  const HubFile& file_;
  PartialBlob& blob_;
  std::string validator_;  // ETag of the bytes on disk; empty if an earlier run received them
  std::optional<TransferError> transfer_error_;  // error of the last attempt
  std::string retry_after_;                      // Retry-After header of the last reply
};

}  // namespace

int64_t present_bytes(const PullOptions& options, const HubFile& file) {
  if (has_blob(options, file)) return file.size;
  std::error_code error;
  const auto size = fs::file_size(options.cache.partial_blob(options.model, file.blob), error);
  return error ? 0 : static_cast<int64_t>(std::min<uintmax_t>(size, static_cast<uintmax_t>(file.size)));
}

bool has_blob(const PullOptions& options, const HubFile& file) {
  std::error_code error;
  const auto size = fs::file_size(options.cache.blob(options.model, file.blob), error);
  return !error && size == static_cast<uintmax_t>(file.size);
}

void download_blob(HttpClient& client, const PullOptions& options, const std::string& commit,
                   const HubFile& file, int64_t counted, std::atomic<int64_t>& present,
                   const std::atomic<bool>& stop, const std::function<void()>& waiting) {
  const fs::path path = options.cache.partial_blob(options.model, file.blob);
  const fs::path lock_path = options.cache.lock_file(options.model, file.blob);
  fs::create_directories(path.parent_path());
  fs::create_directories(lock_path.parent_path());
  const BlobLock lock(lock_path, stop, waiting);
  // Another process may have written a part of the blob in the meantime.
  present += present_bytes(options, file) - counted;
  if (has_blob(options, file)) return;
  PartialBlob blob(path, file, present, stop);
  const bool was_resumed = blob.size() > 0;
  BlobTransfer transfer(client, options, commit, file, blob);
  transfer.run(stop);
  std::string digest = blob.digest();
  if (digest != file.blob && was_resumed) {  // the resumed part may have been wrong
    blob.clear();
    transfer.run(stop);
    digest = blob.digest();
  }
  if (digest != file.blob) {
    blob.clear();
    throw std::runtime_error(
        fmt::format("{}: what arrived has the {} {}, and the hub lists {}; nothing of it was kept", file.path,
                    file.has_sha256() ? "SHA-256" : "git object id", digest, file.blob));
  }
  blob.rename_to(options.cache.blob(options.model, file.blob));
}

}  // namespace lacuna
