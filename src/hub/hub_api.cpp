#include "hub/hub_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "base/error.h"
#include "base/json.h"

namespace lacuna {
namespace {

constexpr int kMaxFailures = 6;
constexpr int kMaxFailuresWithoutHost = 2;
constexpr int kMaxAttempts = 1000;  // attempts for one file, even with progress
constexpr std::chrono::seconds kMaxWait{30};
constexpr size_t kMaxReply = 16 << 20;
constexpr int kMaxPages = 1000;

std::string api_url(const PullOptions& options, std::string_view path) {
  return options.access.endpoint + "/api/models/" + options.model.id() + std::string(path);
}

/// Gets a URL, with retries, and returns the reply with status 200.
HttpClient::Reply fetch(HttpClient& client, const PullOptions& options, const std::string& url,
                        const std::atomic<bool>& stop, PullObserver& observer) {
  Retries retries(options.first_wait, stop, &observer);
  for (;;) {
    try {
      HttpClient::Reply reply = client.get_text({.url = url, .token = options.access.token}, kMaxReply);
      if (reply.head.status == 200) return reply;
      if (!is_transient(reply.head.status)) refuse_status(reply.head, options);
      retries.wait(fmt::format("{} answers with HTTP status {}", options.access.endpoint, reply.head.status),
                   false, reply.head.last("retry-after"));
    } catch (const TransferError& error) {
      retries.wait(error, false);
    }
  }
}

}  // namespace

void Retries::wait(const TransferError& error, bool progress) {
  if (!error.may_retry) throw TransferError(error);
  const bool has_host = progress || error.has_reached == TransferError::Reached::kHost;
  if (!has_host && failures_ + 1 >= kMaxFailuresWithoutHost) {
    throw std::runtime_error(fmt::format(
        "{}; is there a network? Behind a proxy, set HTTPS_PROXY (or HTTP_PROXY, ALL_PROXY); for a mirror of "
        "the hub, set HF_ENDPOINT; meanwhile, lacuna list shows the models that can be run",
        error.what()));
  }
  wait(error.what(), progress);
}

void Retries::wait(const std::string& sentence, bool progress, const std::string& retry_after) {
  failures_ = progress ? 1 : failures_ + 1;
  if (failures_ >= kMaxFailures || ++total_ >= kMaxAttempts) {
    throw std::runtime_error(fmt::format("{} (tried {} times); run the command again to continue from here",
                                         sentence, std::max(failures_, total_)));
  }
  const auto most = std::chrono::duration_cast<std::chrono::milliseconds>(kMaxWait);
  auto wait = std::min(first_wait_ * (1 << std::min(failures_ - 1, 10)), most);
  int64_t seconds = 0;
  const char* const end = retry_after.data() + retry_after.size();
  if (const auto parsed = std::from_chars(retry_after.data(), end, seconds);
      parsed.ec == std::errc() && parsed.ptr == end && seconds >= 0 && seconds <= kMaxWait.count()) {
    wait = std::max(wait, std::chrono::milliseconds(1000 * seconds));
  }
  if (observer_ != nullptr) {
    observer_->noted(fmt::format("{}; another attempt in {:.1f} s", sentence,
                                 std::chrono::duration<double>(wait).count()));
  }
  const auto until = std::chrono::steady_clock::now() + wait;
  while (std::chrono::steady_clock::now() < until) {
    if (stop_) throw TransferStopped();
    std::this_thread::sleep_for(std::min(wait, std::chrono::milliseconds(20)));
  }
}

bool is_transient(long status) {
  return status == 408 || status == 425 || status == 429 || status >= 500;
}

void refuse_status(const HttpHead& head, const PullOptions& options) {
  const std::string id = options.model.id();
  const HubAccess& access = options.access;
  const std::string code = head.first("x-error-code");
  const bool has_token = !access.token.empty();
  if (code == "GatedRepo" || (head.status == 403 && code.empty())) {
    throw InputError(
        "{} is gated or closed to {}; accept its terms at {}/{}, then set HF_TOKEN to a token that may read "
        "it",
        id, has_token ? "the token from " + access.token_source : "requests without a token", access.endpoint,
        id);
  }
  if (code == "RevisionNotFound") {
    throw InputError("{} has no revision {}; expected a branch, tag or commit that {}/{}/commits lists", id,
                     in_quotes(options.model.revision), access.endpoint, id);
  }
  if (head.status == 401 || head.status == 403) {
    if (has_token) {
      throw InputError(
          "{} does not let the token from {} read {} (HTTP status {}); check the name and the token",
          access.endpoint, access.token_source, id, head.status);
    }
    throw InputError(
        "{} is private, gated or does not exist (HTTP status {} from {}); check the name, or set HF_TOKEN "
        "to a token that may read it",
        id, head.status, access.endpoint);
  }
  if (head.status == 404) {
    throw InputError("There is no model {} at {}; check the name{}", id, access.endpoint,
                     has_token ? "" : ", or set HF_TOKEN if it is private");
  }
  throw std::runtime_error(fmt::format("{} answers with HTTP status {}", access.endpoint, head.status));
}

std::string fetch_commit(HttpClient& client, const PullOptions& options, const std::atomic<bool>& stop,
                         PullObserver& observer) {
  if (is_commit(options.model.revision)) return options.model.revision;
  const std::string url = api_url(options, "/revision/" + escape_url(options.model.revision));
  return parse_commit(fetch(client, options, url, stop, observer).body, url);
}

std::vector<HubFile> fetch_files(HttpClient& client, const PullOptions& options, const std::string& commit,
                                 const std::atomic<bool>& stop, PullObserver& observer) {
  std::vector<HubFile> files;
  std::string url = api_url(options, "/tree/" + commit + "?recursive=true");
  for (int page = 0; page < kMaxPages; ++page) {
    const HttpClient::Reply reply = fetch(client, options, url, stop, observer);
    parse_tree_page(reply.body, url, files);
    const std::string link = next_page(reply.head.last("link"));
    if (link.empty()) return files;
    const std::string next = resolve_url(url, link);
    if (!have_same_origin(next, url)) {
      throw InputError("{}: the list of files continues at {}; expected a page of {}", url, in_quotes(link),
                       options.access.endpoint);
    }
    url = next;
  }
  throw InputError("{}: the list of files has more than {} pages", url, kMaxPages);
}

std::string file_url(const PullOptions& options, const std::string& commit, const HubFile& file) {
  return options.access.endpoint + "/" + options.model.id() + "/resolve/" + commit + "/" +
         escape_url(file.path, "/");
}

}  // namespace lacuna
