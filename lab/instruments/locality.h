// How far revealing one token changes other predictions: ReFusion's pilot study (section 4.1, Figure 3) on
// masked diffusion. Definitions and decisions: docs/methods/refusion.md, "The instrument".
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "instruments/instruments.h"

namespace lacuna {

/// Shares of an answer's positions that are masked before a token is revealed.
inline constexpr double kMaskRatios[] = {0.25, 0.5, 0.75, 1};
/// Positions revealed in each answer at each ratio, one at a time, each with its own random masks.
inline constexpr int32_t kReveals = 8;

struct LocalityFindings {
  struct Place {
    double masked = 0;     ///< one of kMaskRatios
    int32_t distance = 0;  ///< from the revealed token to the prediction; positive: to the right

    auto operator<=>(const Place&) const = default;
  };
  std::map<Place, Average> divergence;  ///< Jensen-Shannon, nats, [0, ln 2]
};

/// Jensen-Shannon divergence of softmax(a) and softmax(b), raw f32 logits, in nats: [0, ln 2].
double jensen_shannon(std::span<const float> a, std::span<const float> b);

/// Decodes each request's answer, then masks parts of it and reveals one token at a time. Throws InputError
/// like follow(), and for models that do not fill a canvas of masks.
LocalityFindings analyze_locality(const BackendModel& model, Requests requests, uint64_t seed,
                                  const AnalysisProgress& progress = {});

/// By ratio and distance; then by ratio the mean of near (up to 2) and far (8 and more) predictions.
nlohmann::ordered_json to_json(const LocalityFindings& findings);

}  // namespace lacuna
