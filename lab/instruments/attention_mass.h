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

/// Parts of the positions that a query attends to; see Content.
enum class AttendedPart : uint8_t {
  kSink,        ///< the learned key and value of a GIDD model
  kFirstToken,  ///< first token of the prompt
  kPrompt,      ///< the rest of the prompt
  kDecoded,
  kMasked,
  kSelf,  ///< the query's own position, which counts in no other part
  kFiller,
};
inline constexpr size_t kAttendedParts = 7;

std::string_view name_of(AttendedPart part);

/// Attention probability, [0, 1], that queries of the block give each region: the mean over queries, heads,
/// layers and passes. The regions add up to 1.
struct AttentionFindings {
  std::array<Average, kRegions> mass{};
  /// Mean mass over queries and heads, then over passes. A map of steps by layers has the mass of each part,
  /// in total 1; other maps have that of each position, in total 1 with the sink's share.
  std::optional<StepMap> map;
};

/// Runs all requests, one by one, until they are done. Throws InputError like follow(), and for sparse
/// attention.
AttentionFindings analyze_attention(const BackendModel& model, Requests requests,
                                    const std::optional<MapSettings>& map = {},
                                    const AnalysisProgress& progress = {});

/// A list of flat objects, labels before figures: by region, then the cells of the map.
nlohmann::ordered_json to_json(const AttentionFindings& findings);

}  // namespace lacuna
