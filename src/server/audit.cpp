#include "server/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/rng.h"
#include "model/fingerprint.h"
#include "options/assign.h"
#include "options/tuning_paths.h"
#include "server/answer_text.h"
#include "server/transcript.h"
#include "tune/losses.h"

namespace lacuna {
namespace {

constexpr double kAuditLevel = 0.025;  // probability outside each side of the 95% interval
constexpr std::string_view kTokenLoss = "token";
constexpr std::string_view kChangedLoss = "changed-answer";

}  // namespace

GenerationOptions audited_options(const ModelConfig& config, GenerationOptions options,
                                  const std::optional<SavedPreset>& preset) {
  options = without_accelerations(std::move(options));
  if (preset) {
    for (const TuningSetting& setting : preset->tested_with) {
      set_if_unset(options, setting.name, setting.value);
    }
  }
  return baseline_options(config, options);
}

/// A sampled answer, with the baseline's request.
struct Audit::Case {
  std::shared_ptr<const OpenedModel> opened;
  AuditedRequest request;
  Answer accelerated = {};

  /// The answer of a decoder, as a client receives it.
  Answer answer_of(const Decoder& decoder) const {
    Transcript transcript(
        AnswerText(opened->tokenizer(), opened->config().end_ids, request.stop, request.has_tools));
    Piece piece = transcript.advance(decoder, decoder.done());
    Answer answer{std::move(piece.text), {}};
    for (const TokenRecord& record : piece.tokens) answer.tokens.push_back(record.token);
    return answer;
  }
};

/// Records the answer that the client gets, and offers it to the audit.
class Audit::Follower final : public RequestListener {
 public:
  Follower(std::shared_ptr<Audit> audit, std::shared_ptr<InferenceSession> session,
           std::shared_ptr<Case> audited, std::shared_ptr<RequestListener> listener)
      : audit_(std::move(audit)),
        session_(std::move(session)),
        case_(std::move(audited)),
        listener_(std::move(listener)) {}

  void started(const Decoder& decoder, double queue_seconds) override {
    listener_->started(decoder, queue_seconds);
  }
  bool stepped(const StepEvent& event) override { return listener_->stepped(event); }
  void finished(const Decoder& decoder, const RunStatistics& statistics) override {
    listener_->finished(decoder, statistics);
    try {
      case_->accelerated = case_->answer_of(decoder);
      audit_->offer(*session_, std::move(case_));
    } catch (const std::bad_alloc&) {  // only the audit fails; the client has its answer
      audit_->count_dropped();
    }
  }
  void failed(const std::string& sentence) override { listener_->failed(sentence); }
  void lost(const std::exception_ptr& error) noexcept override { listener_->lost(error); }

 private:
  std::shared_ptr<Audit> audit_;
  std::shared_ptr<InferenceSession> session_;
  std::shared_ptr<Case> case_;
  std::shared_ptr<RequestListener> listener_;
};

/// Compares the baseline's answer; counts the case as dropped if it gets none.
class Audit::Rerun final : public RequestListener {
 public:
  Rerun(std::shared_ptr<Audit> audit, std::shared_ptr<const Case> audited)
      : audit_(std::move(audit)), case_(std::move(audited)) {}
  ~Rerun() override {
    if (!has_compared_) audit_->count_dropped();
  }
  Rerun(const Rerun&) = delete;
  Rerun& operator=(const Rerun&) = delete;

  bool stepped(const StepEvent& /*event*/) override { return true; }
  void finished(const Decoder& decoder, const RunStatistics& /*statistics*/) override {
    audit_->observe(case_->accelerated, case_->answer_of(decoder));
    has_compared_ = true;
  }
  void failed(const std::string& /*sentence*/) override {}

 private:
  std::shared_ptr<Audit> audit_;
  std::shared_ptr<const Case> case_;
  bool has_compared_ = false;
};

bool Audit::chooses(std::string_view request_id, uint64_t seed) const {
  Fnv1a hash;
  hash.add(request_id);
  return RngStream(hash.value(), seed).uniform(0) < settings_.share;
}

std::shared_ptr<RequestListener> Audit::follow(std::shared_ptr<InferenceSession> session,
                                               AuditedRequest request,
                                               std::shared_ptr<RequestListener> listener) {
  auto audited = std::make_shared<Case>(Case{session->shared_opened(), std::move(request)});
  return std::make_shared<Follower>(shared_from_this(), std::move(session), std::move(audited),
                                    std::move(listener));
}

void Audit::offer(InferenceSession& session, std::shared_ptr<const Case> audited) {
  const auto make = [audited] { return audited->opened->make_decoder(audited->request.baseline); };
  // If too many wait, the job is refused; the listener's destructor counts the case as dropped.
  session.scheduler().submit_idle({make, std::make_shared<Rerun>(shared_from_this(), std::move(audited))});
}

bool Audit::observes_promise() const {
  if (!settings_.preset) return false;
  const std::string& loss = settings_.preset->certificate.loss;
  return loss == kChangedLoss || loss == kTokenLoss;
}

void Audit::observe(const Answer& accelerated, const Answer& baseline) {
  const bool has_changed = accelerated.text != baseline.text;
  const bool counts_tokens = settings_.preset && settings_.preset->certificate.loss == kTokenLoss;
  const double loss =
      counts_tokens ? token_difference(accelerated.tokens, baseline.tokens) : (has_changed ? 1 : 0);
  {
    const MutexLock lock(mutex_);
    sum_.prompts = std::min(sum_.prompts + 1, kMaxPrompts);
    sum_.losses = std::min(sum_.losses + loss, static_cast<double>(sum_.prompts));
    changed_ += has_changed ? 1 : 0;
  }
  if (!observes_promise()) return;
  const AuditState now = state();
  const Certificate& promise = settings_.preset->certificate;
  if (now.low <= promise.risk || !settings_.warn) return;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(has_warned_, true)) return;
  }
  settings_.warn(fmt::format(
      "audit: preset {} promises a risk of at most {} ({}); {} answers were compared with the baseline's, {} "
      "changed, and the risk is {:.4g}, at least {:.4g} (95% interval)",
      settings_.preset->name, promise.risk, promise.loss, now.observed, now.changed, now.risk, now.low));
}

void Audit::count_dropped() {
  const MutexLock lock(mutex_);
  ++dropped_;
}

AuditState Audit::state() const {
  const MutexLock lock(mutex_);
  const bool counts_tokens = settings_.preset && settings_.preset->certificate.loss == kTokenLoss;
  const LossKind kind = counts_tokens ? LossKind::kBounded : LossKind::kBinary;
  return {sum_.prompts,
          changed_,
          dropped_,
          sum_.mean(),
          lower_bound(kind, sum_, kAuditLevel),
          upper_bound(kind, sum_, kAuditLevel)};
}

nlohmann::ordered_json Audit::describe() const {
  const AuditState now = state();
  const bool counts_tokens = settings_.preset && settings_.preset->certificate.loss == kTokenLoss;
  nlohmann::ordered_json json{{"share", settings_.share}, {"loss", counts_tokens ? kTokenLoss : kChangedLoss},
                              {"requests", now.observed}, {"changed", now.changed},
                              {"dropped", now.dropped},   {"risk", now.risk},
                              {"low", now.low},           {"high", now.high},
                              {"promise", nullptr}};
  if (observes_promise()) {
    json["promise"] = {{"preset", settings_.preset->name},
                       {"risk", settings_.preset->certificate.risk},
                       {"confidence", settings_.preset->certificate.confidence},
                       {"is_broken", now.low > settings_.preset->certificate.risk}};
  }
  return json;
}

}  // namespace lacuna
