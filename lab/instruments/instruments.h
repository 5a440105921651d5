// Instruments that observe a decoder: drift of keys and values, confidence of the model, staleness of the
// cache, and time spent. The definitions are those of Uniform-Cache (Barry 2026), chapters 4 and 6; choices
// that it leaves open are noted at each value.
//
// An instrument may request additional outputs of a pass but never changes the decoder's results.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/threads.h"
#include "decode/decoder.h"
#include "instruments/follow.h"
#include "instruments/step_map.h"

namespace lacuna {

// Quantities that are measured. All requests count in the same averages.

/// 1 - cosine of keys and of values, all heads as one vector; [0, 2], each the mean over layers and
/// positions.
struct KvAverage {
  Average key, value;
  double mean() const { return (key.mean() + value.mean()) / 2; }
};

/// Drift of the cache's contents from one pass to the next. A position that a pass did not compute has drift
/// 0; before its second computation it does not count. At a boundary, regions are those of the new block.
struct DriftFindings {
  std::array<KvAverage, kRegions> within{};    ///< passes in the same block as the previous pass
  std::array<KvAverage, kRegions> boundary{};  ///< passes in another block than the previous pass
  // Pearson's r over positions and passes; empty if a variable is constant.
  std::optional<double> key_value;     ///< key drift against value drift, over layers too
  std::optional<double> key_layers;    ///< key drifts of two layers, the mean over pairs of layers
  std::optional<double> value_layers;  ///< value drifts of two layers, likewise
  /// 1 - cosine of keys, then of values, between consecutive passes, at the later step. Maps of steps by
  /// layers distinguish DriftParts.
  std::optional<StepMap> map;
};

/// Parts of the positions in maps of drift by steps and layers; see Content.
enum class DriftPart : uint8_t {
  kPrompt,
  kDecoded,      ///< the token was the input of an earlier pass too
  kJustDecoded,  ///< this pass is the first with the token as input
  kMasked,
  kFiller,
};
inline constexpr size_t kDriftParts = 5;
std::string_view name_of(DriftPart part);

/// Statistics by StepReport::step of the softmax of logits at temperature 1 without the mask token: the mean
/// over the rows of the block that the pass computed.
struct EntropyFindings {
  struct Step {
    Average entropy;              ///< nats, [0, ln(vocabulary - 1)]
    Average largest_probability;  ///< (0, 1]
  };
  std::map<int32_t, Step> steps;
};

/// Committed tokens by StepReport::step. Steps that a decoder skips because they change nothing do not count.
struct ChangeFindings {
  struct Step {
    int64_t committed = 0;  ///< tokens of all requests
    Average of_answer;      ///< committed / positions of the answer, [0, 1]
    Average of_block;       ///< committed / positions of the current block, [0, 1]
  };
  std::map<int32_t, Step> steps;
};

/// Steps since a position was computed: 0, 1, 2-3, 4-7, 8-15, 16 and more.
inline constexpr size_t kAges = 6;
std::string_view name_of_age(size_t index);

/// Content of the cache compared with that of a pass that computes everything.
struct StalenessFindings {
  std::array<std::array<KvAverage, kAges>, kRegions> error{};
  Average kl;     ///< KL(full || cached) of the block's rows, nats, without the mask token
  Average flips;  ///< share of these rows in which the most probable token differs, [0, 1]
};

struct ProfileFindings {
  /// Sums over passes.
  struct Passes {
    int64_t count = 0;
    int64_t rows = 0;
    double seconds = 0;  ///< wall time of the work in `times`
    PassTimes times;

    Passes& operator+=(const Passes& more);
  };
  Passes all;
  std::map<std::string, Passes> by_kind;  ///< by StepReport::kind
  std::map<int32_t, Passes> by_rows;      ///< by the number of rows that a pass computes
};

// Each function runs all requests, one by one, until they are done; `threads` run the measurements
// themselves. Throws InputError like follow() and, for staleness, like expect_uncached_plan().
DriftFindings analyze_drift(const BackendModel& model, Requests requests,
                            const std::optional<MapSettings>& map = {},
                            const AnalysisProgress& progress = {});
EntropyFindings analyze_entropy(const BackendModel& model, Requests requests,
                                const AnalysisProgress& progress = {});
ChangeFindings analyze_changes(const BackendModel& model, Requests requests,
                               const AnalysisProgress& progress = {});
StalenessFindings analyze_staleness(const BackendModel& model, ThreadPool& threads, Requests requests,
                                    const AnalysisProgress& progress = {});
/// Profiles requests of any decoder.
///   guide  guide of guided diffusion, whose passes count too; null: none
ProfileFindings analyze_profile(const BackendModel& model, Requests requests,
                                const BackendModel* guide = nullptr, const AnalysisProgress& progress = {});

// Lists of flat objects, labels before figures. Rows of one kind are adjacent and have the same keys.
nlohmann::ordered_json to_json(const DriftFindings& findings);
nlohmann::ordered_json to_json(const EntropyFindings& findings);
nlohmann::ordered_json to_json(const ChangeFindings& findings);
nlohmann::ordered_json to_json(const StalenessFindings& findings);
nlohmann::ordered_json to_json(const ProfileFindings& findings);

}  // namespace lacuna
