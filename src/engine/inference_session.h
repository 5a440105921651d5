// The API for programs that embed the engine: weights, tokenizer, chat template and a thread that runs
// passes. The command line and the server use it too.
//
//   auto opened = std::make_shared<OpenedModel>("mini-llada", find_model("mini-llada"));
//   const auto session = InferenceSession::load(opened, {});
//   const GenerationResult answer = session->generate({.prompt = std::vector<Message>{{"user", "Hi"}}});
//
// Lengths count tokens, memory is in bytes, times are in seconds. A session is thread-safe: concurrent
// requests share passes, and results are bitwise identical to those of a request alone.
//
// Errors. InputError: an argument is invalid; the sentence names it and what is accepted. SettingError, an
// InputError: a field of a strategy or request is invalid; problem() has the field, its value and what is
// accepted, and rename_fields() uses the caller's names. SchedulingError: the session cannot accept the
// request now. Cancelled: the stop token was set.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/device.h"
#include "engine/infill.h"
#include "engine/opened_model.h"
#include "engine/result.h"
#include "engine/scheduler.h"
#include "model/model.h"

namespace lacuna {

/// A call was ended by its stop token. It returns no partial answers.
class Cancelled : public std::runtime_error {
 public:
  Cancelled() : std::runtime_error("the request was cancelled") {}
};

/// How a model is loaded, and limits on concurrent requests.
struct SessionOptions {
  WeightFormats formats{DType::kBF16};
  WeightFormats guide_formats{DType::kBF16};
  DeviceName device;         ///< device that computes passes
  int threads = 0;           ///< 0: one for each core that the process may use
  bool pin = false;          ///< bind threads to cores
  uint64_t random_seed = 0;  ///< for the weights of a "random:" model
  SchedulerLimits limits;
  /// Called while parameters of `model` are loaded.
  std::function<void(const std::string& model, int64_t done, int64_t total)> progress;
};

/// Limits for a program's own requests: none is refused, and no prefix is shared.
///   most_running  largest number of requests that share a pass
SchedulerLimits own_limits(int32_t most_running);

/// Observes requests. `index` is the request's index in the call. An exception ends the call, which rethrows
/// it.
class SessionListener {
 public:
  virtual ~SessionListener() = default;

  /// The request is valid and was accepted. Runs in the caller's thread.
  virtual void accepted(size_t /*index*/, const Decoder& /*decoder*/) {}
  /// Called after a pass, in the session's thread, where it delays every request. Return false to end the
  /// answer.
  virtual bool stepped(size_t /*index*/, const StepEvent& /*event*/) { return true; }
};

/// Texts, tokens and holes, and how to fill the holes.
struct InfillRequest {
  std::vector<CanvasPart> canvas;
  std::optional<Strategy> strategy = {};  ///< default: the model's default
  uint64_t seed = 0;
  std::optional<Constraint> constraint = {};  ///< constraint on the filled text; empty: none
  bool gives_literals = false;                ///< see GenerateRequest
  LogitAdjustments adjustments = {};          ///< see GenerateRequest
  bool one_at_a_time = false;  ///< tries lengths of holes one after the other, not in shared passes
};

/// Sets `canvas` as the canvas that `request` fills.
void take_canvas(InfillCanvas canvas, const ModelConfig& config, GenerateRequest& request);

/// One request for each layout, in the order of infill_canvases(). Throws InputError and SettingError.
std::vector<GenerateRequest> infill_candidates(const OpenedModel& opened, const InfillRequest& request);

struct FilledHole {
  int32_t position = 0;  ///< canvas position of its first token
  std::vector<TokenId> tokens;
  std::string text;  ///< empty without a tokenizer
};

/// The best of the lengths tried: the one with the largest CandidateScore::mean(); the first on a tie.
struct InfillResult {
  std::vector<TokenId> canvas;
  std::string text;  ///< of the canvas; empty without a tokenizer
  std::vector<FilledHole> holes;
  double mean_log_confidence = 0;
  size_t candidates = 0;     ///< lengths that were tried
  RunStatistics statistics;  ///< statistics of all of them together
};

class InferenceSession {
 public:
  /// Loads the weights of the model and of its guide, if any. Throws InputError.
  static std::unique_ptr<InferenceSession> load(std::shared_ptr<const OpenedModel> opened,
                                                const SessionOptions& options);

  /// Models whose weights are loaded.
  struct Parts {
    std::shared_ptr<const BackendModel> model;
    std::shared_ptr<const BackendModel> guide = nullptr;  ///< null: none
    std::string version = {};  ///< version of the weights, for replies; empty: replies have none
  };
  InferenceSession(std::shared_ptr<const OpenedModel> opened, Parts parts, const SchedulerLimits& limits);
  /// Unfinished requests fail.
  ~InferenceSession();
  InferenceSession(const InferenceSession&) = delete;
  InferenceSession& operator=(const InferenceSession&) = delete;

  /// Config, tokenization and chat rendering.
  const OpenedModel& opened() const { return *opened_; }
  /// For objects that may outlive the session.
  const std::shared_ptr<const OpenedModel>& shared_opened() const { return opened_; }
  const Parts& parts() const { return parts_; }

  /// Answers one request and waits for it.
  ///   listener  may be null     stop  ends the call early, with Cancelled
  GenerationResult generate(const GenerateRequest& request, SessionListener* listener = nullptr,
                            const std::stop_token& stop = {});
  /// Answers several requests, in shared passes if the limits allow. Checks all before the first begins.
  /// Results are in the order of `requests`.
  std::vector<GenerationResult> generate_all(std::span<const GenerateRequest> requests,
                                             SessionListener* listener = nullptr,
                                             const std::stop_token& stop = {});
  /// Fills the holes of a canvas. The listener's indices count the candidates (lengths) tried.
  InfillResult infill(const InfillRequest& request, SessionListener* listener = nullptr,
                      const std::stop_token& stop = {});

  /// The scheduler, for callers such as the server that submit decoders of opened().make_decoder() without
  /// blocking.
  Scheduler& scheduler() { return *scheduler_; }

 private:
  std::shared_ptr<const OpenedModel> opened_;
  Parts parts_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace lacuna
