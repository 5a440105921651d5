// Downloads one file into the cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/hub_cache.h"
#include "hub/http.h"
#include "hub/pull_options.h"

namespace lacuna {

/// Bytes of the file that the cache holds, partial ones included.
int64_t present_bytes(const PullOptions& options, const HubFile& file);

/// Whether the cache holds the whole file.
bool has_blob(const PullOptions& options, const HubFile& file);

/// Downloads the missing bytes of a file's blob; waits while another process does so.
///   counted  an earlier result of present_bytes(), already added to `present`
///   present  updated with the bytes on disk; decreases if some must be dropped
///   waiting  called once if another process holds the lock
void download_blob(HttpClient& client, const PullOptions& options, const std::string& commit,
                   const HubFile& file, int64_t counted, std::atomic<int64_t>& present,
                   const std::atomic<bool>& stop, const std::function<void()>& waiting);

}  // namespace lacuna
