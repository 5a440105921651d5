#include "hub/pull.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/written_file.h"
#include "hub/blob_download.h"
#include "hub/hub_api.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

std::string human_size(int64_t bytes) {
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9);
}

/// Makes `link` point to the blob, unless it already does.
void link_blob(const fs::path& link, const fs::path& snapshot, const std::string& blob) {
  fs::create_directories(link.parent_path());
  const fs::path target =
      (snapshot.parent_path().parent_path() / "blobs" / blob).lexically_relative(link.parent_path());
  std::error_code ignored;
  if (fs::read_symlink(link, ignored) == target) return;
  const fs::path temporary = link.string() + fmt::format(".{}.tmp", getpid());
  fs::remove(temporary, ignored);
  fs::create_symlink(target, temporary);
  fs::rename(temporary, link);
}

/// Downloads files on several threads and reports on the calling one.
class Downloads {
 public:
  Downloads(const PullOptions& options, const PullPlan& plan, const std::vector<int64_t>& counted,
            PullObserver& observer, const std::atomic<bool>& stop)
      : options_(options),
        plan_(plan),
        counted_(counted),
        observer_(observer),
        stop_(stop),
        present_(plan.present_bytes) {}

  void run() {
    const size_t num_threads =
        std::min(plan_.files.size(), static_cast<size_t>(std::max(options_.parallel, 1)));
    running_ = num_threads;
    std::vector<std::thread> threads;
    threads.reserve(num_threads);
    for (size_t i = 0; i < num_threads; ++i) threads.emplace_back([this] { work(); });
    report();
    for (std::thread& thread : threads) thread.join();
    if (stop_) throw PullStopped();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work() {
    try {
      HttpClient client(halt_);
      for (size_t index = next_++; index < plan_.files.size() && !halt_; index = next_++) {
        const HubFile& file = plan_.files[index];
        if (has_blob(options_, file)) continue;
        download_blob(client, options_, plan_.commit, file, counted_[index], present_, halt_, [&] {
          post([this, &file] {
            observer_.noted(fmt::format("{}: another process is downloading it; waiting", file.path));
          });
        });
        post([this, &file] { observer_.finished(file); });
      }
    } catch (...) {
      const std::lock_guard guard(mutex_);
      if (!error_ && !halt_) error_ = std::current_exception();
      halt_ = true;
    }
    const std::lock_guard guard(mutex_);
    --running_;
    changed_.notify_one();
  }

  void post(std::function<void()> event) {
    const std::lock_guard guard(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_one();
  }

  void report() {
    std::unique_lock guard(mutex_);
    while (running_ > 0 || !events_.empty()) {
      changed_.wait_for(guard, std::chrono::milliseconds(100));
      if (stop_) halt_ = true;
      const std::vector<std::function<void()>> events = std::exchange(events_, {});
      guard.unlock();
      for (const std::function<void()>& event : events) event();
      observer_.progressed(present_);
      guard.lock();
    }
  }

  const PullOptions& options_;
  const PullPlan& plan_;
  const std::vector<int64_t>& counted_;
  PullObserver& observer_;
  const std::atomic<bool>& stop_;   // set by the caller
  std::atomic<bool> halt_ = false;  // set by the caller or by a failure
  std::atomic<int64_t> present_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;  // protects the members below
  std::condition_variable changed_;
  std::vector<std::function<void()>> events_;
  size_t running_ = 0;
  std::exception_ptr error_;
};

/// Lists the files to download, small ones first, so that errors in them are found early.
PullPlan make_plan(const PullOptions& options, PullObserver& observer, const std::atomic<bool>& stop) {
  HttpClient client(stop);
  PullPlan plan;
  plan.commit = fetch_commit(client, options, stop, observer);
  plan.files =
      choose_files(fetch_files(client, options, plan.commit, stop, observer), options.model, options.include);
  std::sort(plan.files.begin(), plan.files.end(), [](const HubFile& a, const HubFile& b) {
    return std::pair(a.has_sha256(), a.path) < std::pair(b.has_sha256(), b.path);
  });
  return plan;
}

/// Removes files with the same blob, so that each blob is downloaded once.
PullPlan distinct_blobs(const PullPlan& plan) {
  PullPlan distinct = plan;
  distinct.files.clear();
  std::set<std::string_view> seen;
  for (const HubFile& file : plan.files) {
    if (seen.insert(file.blob).second) distinct.files.push_back(file);
  }
  return distinct;
}

void check_disk(const PullOptions& options, const PullPlan& plan) {
  const fs::path folder = options.cache.repository(options.model);
  fs::create_directories(folder);
  const uintmax_t available = fs::space(folder).available;
  const int64_t missing = plan.total_bytes - plan.present_bytes;
  if (static_cast<uintmax_t>(missing) <= available) return;
  throw std::runtime_error(
      fmt::format("{} needs {} more in {}, where {} are free; set HF_HUB_CACHE to a folder on another disk",
                  options.model.id(), human_size(missing), options.cache.root().string(),
                  human_size(static_cast<int64_t>(available))));
}

}  // namespace

fs::path pull(const PullOptions& options, PullObserver& observer, const std::atomic<bool>& stop) {
  if (options.cache.empty()) {
    throw InputError("There is no folder to download {} into; set HF_HUB_CACHE, HF_HOME or HOME",
                     options.model.id());
  }
  if (options.access.offline) {
    throw InputError("HF_HUB_OFFLINE is set, so {} is not downloaded; unset it", options.model.id());
  }
  try {
    observer.noted(fmt::format("Asking {} for {}", options.access.endpoint, options.model.text()));
    PullPlan plan = make_plan(options, observer, stop);
    PullPlan blobs = distinct_blobs(plan);
    std::vector<int64_t> counted;
    for (const HubFile& file : blobs.files) {
      counted.push_back(present_bytes(options, file));
      blobs.present_bytes += counted.back();
      blobs.total_bytes += file.size;
    }
    observer.planned(blobs);
    check_disk(options, blobs);
    Downloads(options, blobs, counted, observer, stop).run();
    fs::path snapshot = options.cache.snapshot(options.model, plan.commit);
    for (const HubFile& file : plan.files) link_blob(snapshot / file.path, snapshot, file.blob);
    if (options.model.revision != plan.commit) {
      const fs::path ref = options.cache.repository(options.model) / "refs" / options.model.revision;
      fs::create_directories(ref.parent_path());
      write_whole_file(ref, plan.commit);
    }
    return snapshot;
  } catch (const TransferStopped&) {
    throw PullStopped();
  }
}

}  // namespace lacuna
