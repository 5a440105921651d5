// Downloads a model into the local hub cache.
#pragma once

#include <atomic>
#include <filesystem>

#include "hub/pull_options.h"

namespace lacuna {

/// Downloads what is missing and returns the snapshot's folder. Other processes may download the same files,
/// the hub's Python client included: each blob is written under its lock. Broken transfers are retried and
/// resumed; a blob is renamed into place after its digest was checked; snapshot and reference are written
/// when all blobs are there, so an interrupted update leaves the previous snapshot usable. Throws InputError
/// where the model, revision or token is not accepted, std::runtime_error where the network or the disk
/// fails.
std::filesystem::path pull(const PullOptions& options, PullObserver& observer, const std::atomic<bool>& stop);

}  // namespace lacuna
