// Audits what acceleration changes: some of the requests that were answered are answered again by the
// uncached baseline while the server is idle, and the two answers are compared. `lacuna serve --audit`.
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
  int64_t changed = 0;   ///< answers of `requests` whose text differs
  int64_t dropped = 0;   ///< chosen answers that were not compared
  double risk = 0;       ///< mean loss of those that were compared
  double low = 0;        ///< 95% interval of the risk
  double high = 1;
};

struct AuditSettings {
  double share = 0;                   ///< fraction of the prompts' answers that are audited, 0 to 1; 0: none
  std::optional<SavedPreset> preset;  ///< preset that the server was started with, which has the promise
  /// Hears a sentence, once, when the lower bound of the observed risk is above the promise.
  std::function<void(const std::string& sentence)> warn;
};

/// Options of the baseline for a request with `options`: without accelerations, but with what the preset was
/// tuned with.
GenerationOptions audited_options(const ModelConfig& config, GenerationOptions options,
                                  const std::optional<SavedPreset>& preset);

/// A request as the baseline gets it.
struct AuditedRequest {
  GenerateRequest baseline;       ///< with tokens as its prompt
  std::vector<std::string> stop;  ///< texts before which clients' answers end
  bool has_tools = false;         ///< the answer may call tools
};

/// Any thread may call anything.
class Audit : public std::enable_shared_from_this<Audit> {
 public:
  explicit Audit(AuditSettings settings) : settings_(std::move(settings)) {}

  const std::optional<SavedPreset>& preset() const { return settings_.preset; }

  /// Whether an answer is chosen: the same for the same id, seed and share.
  bool chooses(std::string_view request_id, uint64_t seed) const;

  /// A listener that tells `listener` all that it hears, and when the answer is finished gives `baseline` to
  /// the session's scheduler as idle work. An answer that cannot be compared counts as dropped.
  std::shared_ptr<RequestListener> follow(std::shared_ptr<InferenceSession> session, AuditedRequest request,
                                          std::shared_ptr<RequestListener> listener);
  /// A chosen answer cannot be compared.
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

  /// Whether the promise is about what can be observed here.
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
