// Audits how acceleration changes answers: while the server is idle, the uncached baseline answers a sample
// of the requests again, and both answers are compared. `lacuna serve --audit`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "engine/inference_session.h"
#include "engine/scheduler.h"
#include "options/saved_preset.h"
#include "tune/bounds.h"

namespace lacuna {

/// Results of an audit so far.
struct AuditState {
  int64_t observed = 0;  ///< answers that were compared with the baseline's
  int64_t changed = 0;   ///< answers of `observed` whose text differs
  int64_t dropped = 0;   ///< sampled answers that could not be compared
  double risk = 0;       ///< mean loss of the compared answers
  double low = 0;        ///< lower end of the 95% interval of the risk
  double high = 1;       ///< upper end
};

struct AuditSettings {
  double share = 0;                   ///< fraction of the answers that are audited, 0 to 1
  std::optional<SavedPreset> preset;  ///< the server's preset, which promises a maximum risk
  /// Called once, when the lower bound of the observed risk exceeds the promised risk.
  std::function<void(const std::string& sentence)> warn;
};

/// Options of the baseline for a request with `options`: without accelerations, but with the settings under
/// which the preset was tuned.
GenerationOptions audited_options(const ModelConfig& config, GenerationOptions options,
                                  const std::optional<SavedPreset>& preset);

/// A request for the baseline.
struct AuditedRequest {
  GenerateRequest baseline;       ///< its prompt is token ids
  std::vector<std::string> stop;  ///< texts before which clients' answers end
  bool has_tools = false;         ///< the answer may call tools
};

/// Thread-safe.
class Audit : public std::enable_shared_from_this<Audit> {
 public:
  explicit Audit(AuditSettings settings) : settings_(std::move(settings)) {}

  const std::optional<SavedPreset>& preset() const { return settings_.preset; }

  /// Whether an answer is sampled; deterministic in id, seed and share.
  bool chooses(std::string_view request_id, uint64_t seed) const;

  /// A listener that forwards all calls to `listener` and, when the answer is finished, submits
  /// `request.baseline` to the session's scheduler as idle work. An answer that cannot be compared counts as
  /// dropped.
  std::shared_ptr<RequestListener> follow(std::shared_ptr<InferenceSession> session, AuditedRequest request,
                                          std::shared_ptr<RequestListener> listener);
  /// Counts a sampled answer that cannot be compared.
  void count_dropped();

  AuditState state() const;
  /// For GET /props.
  nlohmann::ordered_json describe() const;

 private:
  struct Answer {
    std::string text;
    std::vector<TokenId> tokens;
  };
  struct Case;
  class Follower;
  class Rerun;

  /// Whether this audit measures the loss that the preset's promise is about.
  bool observes_promise() const;
  void offer(InferenceSession& session, std::shared_ptr<const Case> audited);
  void observe(const Answer& accelerated, const Answer& baseline);

  AuditSettings settings_;
  mutable Mutex mutex_;
  LossSum sum_ LACUNA_GUARDED_BY(mutex_);
  int64_t changed_ LACUNA_GUARDED_BY(mutex_) = 0;
  int64_t dropped_ LACUNA_GUARDED_BY(mutex_) = 0;
  bool has_warned_ LACUNA_GUARDED_BY(mutex_) = false;
};

}  // namespace lacuna
