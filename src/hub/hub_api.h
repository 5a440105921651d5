// The hub's API: the files of a model, and error messages for replies that are not 200.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "hub/http.h"
#include "hub/hub_files.h"
#include "hub/pull_options.h"

namespace lacuna {

/// Retries a few times, with growing waits; only once if no host can be reached.
class Retries {
 public:
  ///   observer  notified of each retry; may be null
  Retries(std::chrono::milliseconds first_wait, const std::atomic<bool>& stop,
          PullObserver* observer = nullptr)
      : first_wait_(first_wait), stop_(stop), observer_(observer) {}

  /// Waits after a failed transfer; throws if it must not be retried or the last attempt has been made.
  void wait(const TransferError& error, bool progress);

  /// Waits after a failure; throws std::runtime_error with `sentence` if the last attempt has been made.
  ///   progress     whether the attempt brought new bytes
  ///   retry_after  seconds that the server asks for; may be empty
  void wait(const std::string& sentence, bool progress, const std::string& retry_after = "");

 private:
  std::chrono::milliseconds first_wait_;
  const std::atomic<bool>& stop_;
  PullObserver* observer_;
  int failures_ = 0;  // consecutive failures without progress
  int total_ = 0;
};

/// Whether a request with this status should be retried.
bool is_transient(long status);

/// Throws InputError if model, revision or access is refused, std::runtime_error for any other status.
[[noreturn]] void refuse_status(const HttpHead& head, const PullOptions& options);

/// The commit that the model's revision names.
std::string fetch_commit(HttpClient& client, const PullOptions& options, const std::atomic<bool>& stop,
                         PullObserver& observer);
/// All files of a commit.
std::vector<HubFile> fetch_files(HttpClient& client, const PullOptions& options, const std::string& commit,
                                 const std::atomic<bool>& stop, PullObserver& observer);
std::string file_url(const PullOptions& options, const std::string& commit, const HubFile& file);

}  // namespace lacuna
