// A model that answers: weights, tokenizer, chat template and the thread that runs its passes. What a program
// embeds, with all that the command line and the server do.
//
//   auto opened = std::make_shared<OpenedModel>("mini-llada", find_model("mini-llada"));
//   const auto session = InferenceSession::load(opened, {});
//   const GenerationResult answer = session->generate({.prompt = std::vector<Message>{{"user", "Hi"}}});
//
// Lengths count tokens, memory is in bytes, times are in seconds. Any number of threads may call a session at
// once: their requests share passes, and each gets the bits that it would get alone.
//
// Errors. InputError: something given cannot be used; one sentence says what, and what was expected.
// SettingError, an InputError: a strategy or a request is at fault; problem() has the field, its value and
// what was expected, and rename_fields() puts it in the caller's own names. SchedulingError: the session does
// not take the request now. Cancelled: the caller said so.
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

/// A call ended because its stop token said so. Nothing of its answers is given.
class Cancelled : public std::runtime_error {
 public:
  Cancelled() : std::runtime_error("the request was cancelled") {}
};

/// How a model is loaded, and what runs at once.
struct SessionOptions {
  WeightFormats formats{DType::kBF16};
  WeightFormats guide_formats{DType::kBF16};
  DeviceName device;         ///< device that computes passes
  int threads = 0;           ///< 0: one for each core that the process may use
  bool pin = false;          ///< bind threads to cores
  uint64_t random_seed = 0;  ///< of the weights of a random: model
  SchedulerLimits limits;
  /// Told as parameters of `model` arrive.
  std::function<void(const std::string& model, int64_t done, int64_t total)> progress;
};

/// The limits of a program that asks for itself: nothing is refused, and nothing but passes is shared.
///   most_running  requests that share a pass at most
SchedulerLimits own_limits(int32_t most_running);

/// Follows requests. `index` is the request's place in the call. An exception ends the call, which throws it.
class SessionListener {
 public:
  virtual ~SessionListener() = default;

  /// The request is valid and begins; in the thread that asks.
  virtual void accepted(size_t /*index*/, const Decoder& /*decoder*/) {}
  /// After a pass, in the session's thread: it holds up every request. False: the answer ends here.
  virtual bool stepped(size_t /*index*/, const StepEvent& /*event*/) { return true; }
};

/// Texts, tokens and holes, and how to fill the holes.
struct InfillRequest {
  std::vector<CanvasPart> canvas;
  std::optional<Strategy> strategy = {};  ///< default: the model's default
  uint64_t seed = 0;
  std::optional<Constraint> constraint = {};  ///< constraint on the filled text; empty: none
  bool gives_literals = false;                ///< the same as GenerateRequest's
  LogitAdjustments adjustments = {};          ///< the same as GenerateRequest's
  bool one_at_a_time = false;  ///< lengths of holes are tried one after the other, not in shared passes
};

/// Makes the canvas what a request, with its strategy, is to fill.
void take_canvas(InfillCanvas canvas, const ModelConfig& config, GenerateRequest& request);

/// One request for each way to lay out the canvas, as infill_canvases() orders them. InputError,
/// Throws SettingError.
std::vector<GenerateRequest> infill_candidates(const OpenedModel& opened, const InfillRequest& request);

struct FilledHole {
  int32_t position = 0;  ///< on the canvas, of its first token
  std::vector<TokenId> tokens;
  std::string text;  ///< empty without a tokenizer
};

/// The best of the lengths that were tried: the one whose tokens were committed with the largest mean of ln
/// confidence (of the confidence, where that is a negative entropy); of equal ones the first.
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
  /// Reads the weights, and those of the guide that `opened` has. Throws InputError.
  static std::unique_ptr<InferenceSession> load(std::shared_ptr<const OpenedModel> opened,
                                                const SessionOptions& options);

  /// Models whose weights are loaded.
  struct Parts {
    std::shared_ptr<const BackendModel> model;
    std::shared_ptr<const BackendModel> guide = nullptr;  ///< null: none
    std::string version = {};  ///< version of the weights, for replies; empty: replies have none
  };
  InferenceSession(std::shared_ptr<const OpenedModel> opened, Parts parts, const SchedulerLimits& limits);
  /// Requests that are left fail.
  ~InferenceSession();
  InferenceSession(const InferenceSession&) = delete;
  InferenceSession& operator=(const InferenceSession&) = delete;

  /// Config, tokenization and chat rendering.
  const OpenedModel& opened() const { return *opened_; }
  /// For what may outlive the session.
  const std::shared_ptr<const OpenedModel>& shared_opened() const { return opened_; }
  const Parts& parts() const { return parts_; }

  /// Answers one request and waits for it.
  ///   listener  null: nobody follows     stop  ends the call early, with Cancelled
  GenerationResult generate(const GenerateRequest& request, SessionListener* listener = nullptr,
                            const std::stop_token& stop = {});
  /// Answers several, in shared passes where the limits allow; all are checked before the first begins.
  /// Results keep the order.
  std::vector<GenerationResult> generate_all(std::span<const GenerateRequest> requests,
                                             SessionListener* listener = nullptr,
                                             const std::stop_token& stop = {});
  /// Fills the holes of a canvas. The listener's indices count the lengths that are tried.
  InfillResult infill(const InfillRequest& request, SessionListener* listener = nullptr,
                      const std::stop_token& stop = {});

  /// The scheduler that runs the requests, for callers that submit decoders of opened().make_decoder()
  /// themselves and listen without waiting, as the server does.
  Scheduler& scheduler() { return *scheduler_; }

 private:
  std::shared_ptr<const OpenedModel> opened_;
  Parts parts_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace lacuna
