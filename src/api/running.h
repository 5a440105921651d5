// A request of the C++ interface while it runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "engine/opened_model.h"
#include "engine/result.h"
#include "engine/scheduler.h"
#include "lacuna/session.h"

namespace lacuna {

/// Wraps the caller's unmask function, which may throw or return an invalid choice. After such an error the
/// decoder continues with the first candidate until the request's listener ends it. Used only by the
/// session's thread.
class GuardedUnmask {
 public:
  explicit GuardedUnmask(UnmaskFunction function) : function_(std::move(function)) {}

  std::vector<int32_t> choose(const Candidates& candidates);
  /// Returns the error once and clears it; null if there is no error.
  std::exception_ptr take_error() { return std::exchange(error_, nullptr); }
  /// Destroys the function; choose() then returns the first candidate.
  void drop() { function_ = nullptr; }

 private:
  UnmaskFunction function_;  ///< empty after an error or the request's end
  std::exception_ptr error_;
};

Answer answer_of(GenerationResult result);
/// Calls a callback with the PassEvent of a pass.
bool call(const PassCallback& callback, const StepEvent& event);

/// State shared by a request's listener and the caller who waits for it.
class Running final : public RequestListener {
 public:
  Running(std::shared_ptr<const OpenedModel> opened, const GenerateRequest& request, PassCallback callback,
          std::shared_ptr<GuardedUnmask> unmask)
      : opened_(std::move(opened)),
        seed_(request.seed),
        stop_(request.stop),
        may_call_tools_(request.constraint &&
                        std::holds_alternative<ToolCallConstraint>(*request.constraint)),
        callback_(std::move(callback)),
        unmask_(std::move(unmask)) {}

  bool stepped(const StepEvent& event) override;
  void finished(const Decoder& decoder, const RunStatistics& statistics) override;
  void failed(const std::string& sentence) override;
  void lost(const std::exception_ptr& error) noexcept override { end({}, error); }

  void cancel() { is_cancelled_ = true; }
  /// Waits for the answer; call it once. Throws the request's error.
  Answer wait();

 private:
  /// Stores the result; keeps the first error. Destroys the caller's functions, which may own this request.
  void end(Answer answer, const std::exception_ptr& error);

  const std::shared_ptr<const OpenedModel> opened_;
  const uint64_t seed_;
  const std::vector<std::string> stop_;
  const bool may_call_tools_;
  PassCallback callback_;
  const std::shared_ptr<GuardedUnmask> unmask_;
  std::atomic<bool> is_cancelled_ = false;
  Mutex mutex_;
  Condition ended_;
  bool is_over_ LACUNA_GUARDED_BY(mutex_) = false;
  Answer answer_ LACUNA_GUARDED_BY(mutex_);
  std::exception_ptr error_ LACUNA_GUARDED_BY(mutex_);
};

}  // namespace lacuna
