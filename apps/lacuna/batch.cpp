#include "server/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "commands.h"
#include "engine/inference_session.h"
#include "generation_flags.h"
#include "hub/http.h"
#include "lacuna/version.h"
#include "loading.h"
#include "progress_bar.h"
#include "server/service.h"
#include "stop_signals.h"
#include "terminal.h"

namespace lacuna {
namespace {

struct BatchFlags : GuidedModelFlags {
  std::string input;
  std::string output;
  TemplateFlags prompt_template;
  int32_t concurrency = 32;
  std::vector<std::string> endpoints;
  std::string api_key;
  double timeout = 600;
  int32_t retries = 8;
  bool json = false;
  GenerationOptions generation;
};

constexpr size_t kMaxReplyBytes = size_t{64} << 20;

/// The batch was interrupted during the wait for an answer.
struct BatchStopped : std::runtime_error {
  BatchStopped() : std::runtime_error("stopped") {}
};

/// Answers the requests of a batch. Thread-safe.
class Answerer {
 public:
  virtual ~Answerer() = default;
  /// Waits for the answer. Throws BatchStopped, or std::runtime_error if no answer can be obtained.
  ///   worker  the calling thread's number
  virtual BatchAnswer answer(const BatchRequest& request, size_t worker) = 0;
};

/// Answers with the model of --model, in this process.
class LocalAnswerer final : public Answerer {
 public:
  LocalAnswerer(BatchFlags flags, const std::atomic<bool>& stop) : stop_(stop) {
    const std::shared_ptr<const OpenedModel> opened = open_model(flags, flags.prompt_template);
    const GenerationOptions defaults = resolve_run(flags, *opened, flags.generation);
    const LoadedModel loaded = load_model(flags, opened->source());
    SchedulerLimits limits;
    limits.max_running = flags.concurrency;
    limits.max_per_client = std::numeric_limits<int32_t>::max();
    limits.memory = available_memory().bytes / 2;
    limits.prefix_memory = limits.memory / 4;
    service_ = std::make_unique<Service>(ServiceSettings{flags.model, LACUNA_VERSION, {}, defaults, {}});
    session_ = std::make_unique<InferenceSession>(
        opened,
        InferenceSession::Parts{loaded.model, load_guide(flags, opened->guide(), loaded),
                                weights_version(flags, opened->source())},
        limits);
    service_->start(*session_);
  }

  BatchAnswer answer(const BatchRequest& request, size_t /*worker*/) override {
    auto reply = std::make_shared<HttpReply>();
    std::mutex mutex;
    std::condition_variable changed;
    bool has_more = false;
    reply->when_ready([&] {
      const std::lock_guard lock(mutex);
      has_more = true;
      changed.notify_one();
    });
    HttpRequest asked{"POST", request.path, "", request.body};
    asked.host = "localhost";
    service_->handle(asked, reply);
    BatchAnswer answer;
    for (;;) {
      const HttpReply::Output output = reply->take();
      answer.status = output.head.status;
      answer.ignored = output.ignored;
      answer.body += output.data;
      if (output.has_head && output.has_ended) break;
      if (output.has_overflowed) throw std::runtime_error("there is not enough memory for an answer");
      std::unique_lock lock(mutex);
      constexpr std::chrono::milliseconds kPoll{100};
      changed.wait_for(lock, kPoll, [&] { return has_more; });
      has_more = false;
      lock.unlock();
      if (stop_) {
        reply->close();
        throw BatchStopped();
      }
    }
    reply->close();  // the lambda is not called after this
    return answer;
  }

 private:
  const std::atomic<bool>& stop_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<InferenceSession> session_;  // destroyed before the service, which observes its requests
};

/// Sends requests to servers with the same API. If a server is busy or unreachable, tries the next one.
class RemoteAnswerer final : public Answerer {
 public:
  RemoteAnswerer(const BatchFlags& flags, const std::atomic<bool>& stop) : flags_(flags), stop_(stop) {
    for (std::string& endpoint : flags_.endpoints) {
      if (!endpoint.starts_with("http://") && !endpoint.starts_with("https://")) {
        throw InputError("--endpoint is {}; expected a URL such as http://127.0.0.1:8080",
                         in_quotes(endpoint));
      }
      while (endpoint.ends_with('/')) endpoint.pop_back();
      if (endpoint.ends_with("/v1"))
        endpoint.resize(endpoint.size() - 3);  // other clients expect URLs with /v1
    }
    if (const char* key = std::getenv("LACUNA_API_KEY"); flags_.api_key.empty() && key != nullptr)
      flags_.api_key = key;
    for (int32_t i = 0; i < flags.concurrency; ++i) clients_.push_back(std::make_unique<HttpClient>(stop_));
  }

  BatchAnswer answer(const BatchRequest& request, size_t worker) override {
    std::string failure;
    std::optional<BatchAnswer> answer;
    for (int32_t attempt = 0; attempt <= flags_.retries; ++attempt) {
      if (attempt > 0) pause(attempt);
      const std::string& endpoint =
          flags_.endpoints[(worker + static_cast<size_t>(attempt)) % flags_.endpoints.size()];
      try {
        HttpClient::Reply reply = clients_[worker]->post(
            {endpoint + request.path, flags_.api_key, request.body, flags_.timeout}, kMaxReplyBytes);
        answer = {static_cast<int>(reply.head.status), std::move(reply.body),
                  reply.head.last("x-lacuna-ignored")};
        if (!is_busy(answer->status)) return *answer;
      } catch (const TransferStopped&) {
        throw BatchStopped();
      } catch (const TransferError& error) {
        failure = error.what();
        if (!error.may_retry) break;
      }
    }
    if (answer) return *answer;
    throw std::runtime_error(failure);
  }

 private:
  /// Whether a retry, later or on another server, may succeed.
  static bool is_busy(int status) { return status == 408 || status == 429 || status >= 502; }

  /// Waits before another attempt, longer each time.
  void pause(int32_t attempt) const {
    constexpr int32_t kSteps = 6;
    constexpr std::chrono::milliseconds kShort{50};
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(100 << std::min(attempt, kSteps));
    while (std::chrono::steady_clock::now() < end) {
      if (stop_) throw BatchStopped();
      std::this_thread::sleep_for(kShort);
    }
  }

  BatchFlags flags_;
  const std::atomic<bool>& stop_;
  std::vector<std::unique_ptr<HttpClient>> clients_;
};

/// Progress of a batch: a bar on a terminal, elsewhere a line every half minute.
class BatchReport {
 public:
  BatchReport(size_t done, size_t total) : first_(done), total_(total), bar_("Answering") {}

  void update(size_t done) {
    const double seconds = clock_.seconds();
    const double rate = static_cast<double>(done - first_) / std::max(seconds, 1e-3);
    const double left = static_cast<double>(total_ - done) / std::max(rate, 1e-6);
    const std::string detail =
        fmt::format("{} of {}, {:.1f}/s, {} left", done, total_, rate, duration_text(left));
    if (bar_.shown()) {
      bar_.update(static_cast<int64_t>(done), static_cast<int64_t>(total_), detail);
    } else if (seconds - last_line_ >= 30) {
      last_line_ = seconds;
      print_message("{}\n", detail);
    }
  }

  double seconds() const { return clock_.seconds(); }
  void clear() { bar_.clear(); }

 private:
  size_t first_;
  size_t total_;
  ProgressBar bar_;
  Stopwatch clock_;
  double last_line_ = 0;
};

/// Answers requests with several threads and writes the answers in the order of the requests.
class BatchRun {
 public:
  BatchRun(const BatchInput& input, BatchOutput& output, Answerer& answerer, int32_t concurrency,
           const std::atomic<bool>& stop)
      : input_(input),
        output_(output),
        answerer_(answerer),
        stop_(stop),
        concurrency_(static_cast<size_t>(concurrency)),
        next_(output.size()),
        report_(output.size(), input.size()) {}

  /// Returns when all are answered or the batch is stopped. Throws the first error of a worker.
  void run() {
    {
      std::vector<std::jthread> workers;
      for (size_t i = 0; i < std::min(concurrency_, input_.size() - next_); ++i) {
        workers.emplace_back([this, i] { work(i); });
      }
    }
    report_.clear();
    if (error_) std::rethrow_exception(error_);
  }

  size_t errors() const { return errors_; }
  double seconds() const { return report_.seconds(); }

 private:
  /// Waits until the next request is within a window after the first unwritten answer, and returns its index;
  /// empty after the last.
  std::optional<size_t> take_next() {
    std::unique_lock lock(mutex_);
    // Limits the answers that wait in memory for an earlier one.
    constexpr size_t kMaxAhead = 8;
    constexpr std::chrono::milliseconds kPoll{100};
    while (!stop_ && !error_ && next_ < input_.size() && next_ >= output_.size() + kMaxAhead * concurrency_) {
      written_.wait_for(lock, kPoll);
    }
    if (stop_ || error_ || next_ >= input_.size()) return {};
    return next_++;
  }

  void work(size_t worker) {
    try {
      while (const std::optional<size_t> index = take_next()) {
        const BatchRequest request = input_.at(*index);
        const BatchAnswer answer = answerer_.answer(request, worker);
        report_ignored(request.custom_id, request.ignored);
        report_ignored(request.custom_id, answer.ignored);
        write(*index, answer.status, batch_answer_line(request, *index, answer));
      }
    } catch (const BatchStopped&) {
      // A later run of the program answers this request.
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  /// Reports request fields that were ignored, each list of names once.
  void report_ignored(const std::string& id, const std::string& names) {
    constexpr size_t kMaxTold = 10;
    const std::lock_guard lock(mutex_);
    if (names.empty() || told_.size() > kMaxTold || !told_.insert(names).second) return;
    report_.clear();
    if (told_.size() > kMaxTold) {
      print_message("lacuna: other requests have fields that are ignored, too\n");
    } else {
      print_message("lacuna: ignored in request {}: {}\n", in_quotes(id), names);
    }
  }

  void write(size_t index, int status, std::string line) {
    const std::lock_guard lock(mutex_);
    if (error_) return;  // nothing may follow a line that could not be written
    if (status >= 400) ++errors_;
    waiting_[index] = std::move(line);
    try {
      while (!waiting_.empty() && waiting_.begin()->first == output_.size()) {
        output_.append(std::move(waiting_.begin()->second));
        waiting_.erase(waiting_.begin());
      }
    } catch (...) {
      error_ = std::current_exception();
      throw;
    }
    report_.update(output_.size());
    written_.notify_all();
  }

  const BatchInput& input_;
  BatchOutput& output_;
  Answerer& answerer_;
  const std::atomic<bool>& stop_;
  size_t concurrency_;
  std::mutex mutex_;
  std::condition_variable written_;
  size_t next_;
  std::map<size_t, std::string> waiting_;  // answers that wait for an earlier one, by index
  std::set<std::string> told_;             // lists of ignored names that were reported
  size_t errors_ = 0;
  std::exception_ptr error_;
  BatchReport report_;
};

void batch(const BatchFlags& flags) {
  if (flags.model.empty() == flags.endpoints.empty()) {
    throw InputError("lacuna batch needs either --model or --endpoint");
  }
  const BatchInput input(flags.input);
  BatchOutput output(flags.output, input);
  const size_t found = output.size();
  if (found > 0) {
    print_message("{} has {} of {} answers already\n", flags.output, found, input.size());
  }
  const std::atomic<bool>& stop = stop_on_signals();
  size_t errors = 0;
  double seconds = 0;
  if (found < input.size()) {
    std::unique_ptr<Answerer> answerer;
    if (flags.endpoints.empty()) {
      answerer = std::make_unique<LocalAnswerer>(flags, stop);
    } else {
      answerer = std::make_unique<RemoteAnswerer>(flags, stop);
    }
    BatchRun run(input, output, *answerer, flags.concurrency, stop);
    run.run();
    errors = run.errors();
    seconds = run.seconds();
  }
  if (output.size() < input.size()) {
    print_message("lacuna: stopped after {} of {} answers; the same command continues\n", output.size(),
                  input.size());
    std::exit(130);  // the shells' exit code for SIGINT
  }
  if (flags.json) {
    const nlohmann::ordered_json summary{{"requests", input.size()},
                                         {"found", found},
                                         {"answered", output.size() - found},
                                         {"errors", errors},
                                         {"seconds", seconds}};
    print_data("{}\n", summary.dump());
  }
  print_message("{} answers in {}, {} of them now in {:.1f} s{}\n", output.size(), flags.output,
                output.size() - found, seconds,
                errors == 0 ? "" : fmt::format("; {} are errors (status_code 400 or above)", errors));
}

}  // namespace

void add_batch_command(CLI::App& program) {
  auto flags = std::make_shared<BatchFlags>();
  CLI::App* command =
      program.add_subcommand("batch", "Answer a file of requests in OpenAI's batch format, resumably");
  add_model_flags(*command, *flags);
  command->get_option("--model")->required(false);
  command->add_option("INPUT", flags->input, "File of requests, one a line")->required();
  command->add_option("OUTPUT", flags->output, "File of answers; one that is not complete is continued")
      ->required();
  add_guide_flag(*command, flags->guide);
  const auto add = [&](const char* names, auto& field, const char* help) {
    return command->add_option(names, field, help)->group("Batch");
  };
  add("--concurrency", flags->concurrency, "Requests that are answered at once (default 32)")
      ->check(CLI::Range(1, 1024));
  add("--endpoint", flags->endpoints,
      "Ask a server instead of loading a model: http://127.0.0.1:8080; repeatable")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  add("--api-key", flags->api_key, "Key of these servers (default: LACUNA_API_KEY)");
  add("--timeout", flags->timeout, "Seconds to wait for a server's answer (default 600)")
      ->check(CLI::Range(0.1, 1e6));
  add("--retries", flags->retries,
      "Times that a request is sent again where a server is busy or cannot be reached (default 8)")
      ->check(CLI::Range(0, 1000));
  add_template_flags(*command, flags->prompt_template, "Batch");
  command->add_flag("--json", flags->json, "Print a summary as JSON")->group("Batch");
  add_generation_flags(*command, flags->generation);
  command->footer(
      "Answers come in the order of the requests. An interrupted batch is continued by the same command, and "
      "its file is the same as if it had not been interrupted: docs/guide/batch.md.");
  command->callback([flags] { batch(*flags); });
}

}  // namespace lacuna
