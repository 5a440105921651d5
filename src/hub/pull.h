// Downloads a model into the local hub cache.
#pragma once

#include <atomic>
#include <filesystem>

#include "hub/pull_options.h"

namespace lacuna {

/// Downloads missing files and returns the snapshot's folder. Each blob is written under its lock, so other
/// processes, such as the hub's Python client, may download the same files. Broken transfers are retried and
/// resumed. A blob is renamed into place after its digest was checked. Snapshot and reference are written
/// last, so an interrupted update leaves the previous snapshot usable. Throws InputError if the model,
/// revision or token is not accepted, std::runtime_error if the network or the disk fails.
std::filesystem::path pull(const PullOptions& options, PullObserver& observer, const std::atomic<bool>& stop);

}  // namespace lacuna
