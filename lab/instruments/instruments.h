// Instruments that watch a decoder at work: how far keys and values move, how sure the model is, how stale a
// cache grows, where the time goes. Their definitions are those of Uniform-Cache (Barry 2026), chapters 4 and
// 6; decisions where it leaves a choice are noted at each value.
//
// The decoder writes what it would write unwatched: an instrument may ask for more of a pass, never change
// it.
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

/// How far the contents of the cache moved from one pass to the next. A position that a pass did not compute
/// has moved by 0; until it was computed twice it does not count. At a boundary, regions are those of the new
/// block.
struct DriftFindings {
  std::array<KvAverage, kRegions> within{};    ///< passes in the block of the pass before
  std::array<KvAverage, kRegions> boundary{};  ///< passes in another
  // Pearson's r over positions and passes; empty where nothing varies.
  std::optional<double> key_value;     ///< of key drift and value drift, over layers too
  std::optional<double> key_layers;    ///< of two layers' key drifts, the mean over pairs of layers
  std::optional<double> value_layers;  ///< the same of values
  /// 1 - cosine of keys, then of values, from one pass to the next, named by the later step. Steps by layers:
  /// by DriftPart.
  std::optional<StepMap> map;
};

/// Positions that maps of drift by steps and layers tell apart; see Content.
enum class DriftPart : uint8_t {
  kPrompt,
  kDecoded,      ///< for at least two passes
  kJustDecoded,  ///< this pass is the first that reads the token
  kMasked,
  kFiller,
};
inline constexpr size_t kDriftParts = 5;
std::string_view name_of(DriftPart part);

/// By StepReport::step. Softmax of the logits at temperature 1 without the mask token, mean over the rows of
/// the block that the pass computed.
struct EntropyFindings {
  struct Step {
    Average entropy;              ///< nats, [0, ln(vocabulary - 1)]
    Average largest_probability;  ///< (0, 1]
  };
  std::map<int32_t, Step> steps;
};

/// By StepReport::step. Steps that a decoder knows to change nothing, and so does not compute, do not count.
struct ChangeFindings {
  struct Step {
    int64_t committed = 0;  ///< tokens, of all requests
    Average of_answer;      ///< committed / positions of the answer, [0, 1]
    Average of_block;       ///< committed / positions of the current block, [0, 1]
  };
  std::map<int32_t, Step> steps;
};

/// Steps since a position was computed: 0, 1, 2-3, 4-7, 8-15, 16 and more.
inline constexpr size_t kAges = 6;
std::string_view name_of_age(size_t index);

/// Content of the cache, compared with that of a pass that computes everything.
struct StalenessFindings {
  std::array<std::array<KvAverage, kAges>, kRegions> error{};
  Average kl;     ///< KL(full || cached) of the block's rows, nats, the mask token left out
  Average flips;  ///< share of these rows whose likeliest token differs, [0, 1]
};

struct ProfileFindings {
  /// Sums over passes.
  struct Passes {
    int64_t count = 0;
    int64_t rows = 0;
    double seconds = 0;  ///< wall time of what `times` covers
    PassTimes times;

    Passes& operator+=(const Passes& more);
  };
  Passes all;
  std::map<std::string, Passes> by_kind;  ///< by StepReport::kind
  std::map<int32_t, Passes> by_rows;      ///< by the rows that a pass computes
};

// Each runs all requests, one by one, until they are done; `threads` compute what is measured besides passes.
// InputErrors as follow() and, for staleness, as expect_uncached_plan().
DriftFindings analyze_drift(const BackendModel& model, Requests requests,
                            const std::optional<MapSettings>& map = {},
                            const AnalysisProgress& progress = {});
EntropyFindings analyze_entropy(const BackendModel& model, Requests requests,
                                const AnalysisProgress& progress = {});
ChangeFindings analyze_changes(const BackendModel& model, Requests requests,
                               const AnalysisProgress& progress = {});
StalenessFindings analyze_staleness(const BackendModel& model, ThreadPool& threads, Requests requests,
                                    const AnalysisProgress& progress = {});
/// Every decoder's requests.
///   guide  of guided diffusion, whose passes count as well; null: none
ProfileFindings analyze_profile(const BackendModel& model, Requests requests,
                                const BackendModel* guide = nullptr, const AnalysisProgress& progress = {});

// Lists of flat objects, labels before figures. Rows of one kind stand together and have the same keys.
nlohmann::ordered_json to_json(const DriftFindings& findings);
nlohmann::ordered_json to_json(const EntropyFindings& findings);
nlohmann::ordered_json to_json(const ChangeFindings& findings);
nlohmann::ordered_json to_json(const StalenessFindings& findings);
nlohmann::ordered_json to_json(const ProfileFindings& findings);

}  // namespace lacuna
