// Attention of the queries of the current block: by region, as in Uniform-Cache's Table 6.7, and by step,
// layer and position.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "instruments/follow.h"
#include "instruments/step_map.h"

namespace lacuna {

/// Parts of what a query attends to; see Content.
enum class AttendedPart : uint8_t {
  kSink,        ///< the learned key and value of a GIDD model
  kFirstToken,  ///< of the prompt
  kPrompt,      ///< the rest of the prompt
  kDecoded,
  kMasked,
  kSelf,  ///< the query's own position, which counts in no other part
  kFiller,
};
inline constexpr size_t kAttendedParts = 7;

std::string_view name_of(AttendedPart part);

/// Attention probability that a query of the block gives a region, [0, 1]: the mean over queries, heads,
/// layers and passes. The regions add up to 1.
struct AttentionFindings {
  std::array<Average, kRegions> mass{};
  /// Steps by layers: the mass of each part, which add up to 1; else that of each position, which add up to 1
  /// but for a sink's. Each the mean over queries and heads, then over passes.
  std::optional<StepMap> map;
};

/// Runs all requests, one by one, until they are done. InputErrors as follow(), and with sparse attention.
AttentionFindings analyze_attention(const BackendModel& model, Requests requests,
                                    const std::optional<MapSettings>& map = {},
                                    const AnalysisProgress& progress = {});

/// A list of flat objects, labels before figures: by region, then the cells of the map.
nlohmann::ordered_json to_json(const AttentionFindings& findings);

}  // namespace lacuna
