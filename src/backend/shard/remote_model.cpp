#include "backend/shard/remote_model.h"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/shard/remote_messages.h"
#include "base/communicator.h"
#include "base/error.h"
#include "base/mutex.h"
#include "model/plan_json.h"

namespace lacuna {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kHeartbeatInterval{500};
constexpr int kTimeoutParts = 20;

/// The connection and the state of the host process.
class RemoteLine {
 public:
  RemoteLine(RemoteConnection connection, std::chrono::milliseconds heartbeat_timeout,
             std::function<void()> end)
      : connection_(std::move(connection)),
        heartbeat_timeout_(heartbeat_timeout),
        end_(std::move(end)),
        watcher_([this] { watch(); }) {}
  ~RemoteLine() {
    {
      const MutexLock lock(mutex_);
      is_closing_ = true;
    }
    wake_.notify_all();
    watcher_.join();
    connection_.passes.close();  // the host returns
    connection_.questions.close();
  }
  RemoteLine(const RemoteLine&) = delete;
  RemoteLine& operator=(const RemoteLine&) = delete;

  /// Sends a request and the ids freed since the last one; returns the reply. Throws RankError;
  /// std::runtime_error with the other end's error.
  json call(json request) {
    const MutexLock calling(passes_mutex_);
    {
      const MutexLock lock(mutex_);
      if (error_) throw RankError(*error_);
      request["freed"] = std::exchange(freed_, json::array());
    }
    std::optional<json> reply;
    try {
      connection_.passes.send(request);
      reply = connection_.passes.receive();
    } catch (const std::exception&) {  // bad_alloc too: half a message may be sent; connection unusable
      fail(RankError(0, "has ended"));
      throw_error();
    }
    if (!reply->contains("error")) return std::move(*reply);
    if (!reply->contains("rank")) throw std::runtime_error(reply->at("error").get<std::string>());
    fail(RankError(reply->at("rank").get<int>(), reply->at("error").get<std::string>()));
    throw_error();
  }

  /// call() for a byte count; 0 once the model has failed and it no longer matters.
  int64_t count(json request) noexcept {
    try {
      return call(std::move(request)).at("bytes").get<int64_t>();
    } catch (const std::exception&) {
      return 0;
    }
  }

  /// Releases a sequence or ticket in the host process, with the next call.
  void free(const char* kind, int64_t id) noexcept {
    try {
      const MutexLock lock(mutex_);
      freed_.push_back({{kind, id}});
    } catch (const std::bad_alloc&) {  // the host process keeps it until it ends
    }
  }

  int64_t bytes_for(const SequenceShape& shape, int64_t shared) noexcept {
    const auto key = std::make_tuple(shape.num_cells, shape.remembers_outputs, shared);
    const MutexLock asking(questions_mutex_);
    if (const auto found = known_bytes_.find(key); found != known_bytes_.end()) return found->second;
    const std::optional<json> reply =
        ask({{"cells", shape.num_cells}, {"remembers", shape.remembers_outputs}, {"shared", shared}});
    if (!reply || !reply->contains("bytes")) return 0;
    constexpr size_t kMaxKnown = 4096;
    if (known_bytes_.size() >= kMaxKnown) known_bytes_.clear();
    return known_bytes_[key] = reply->at("bytes").get<int64_t>();
  }

  std::string failure() const {
    const MutexLock lock(mutex_);
    return error_ ? error_->what() : std::string();
  }

 private:
  void watch() {
    const MutexLock lock(mutex_);
    while (!is_closing_ && !error_) {
      wake_.wait_for(mutex_, kHeartbeatInterval);
      if (is_closing_ || error_) return;
      mutex_.unlock();
      {
        const MutexLock asking(questions_mutex_);
        ask(json::object());
      }
      mutex_.lock();
    }
  }

  /// The answer; empty if the model has failed.
  std::optional<json> ask(const json& question) noexcept LACUNA_REQUIRES(questions_mutex_) {
    try {
      connection_.questions.send(question);
      // Several short waits: if the machine or container is suspended, only one of them times out.
      std::optional<json> reply;
      for (int part = 0; part < kTimeoutParts && !reply; ++part)
        reply = connection_.questions.receive(heartbeat_timeout_ / kTimeoutParts);
      if (!reply) {
        fail(RankError(0, fmt::format("has not responded for {} seconds",
                                      std::chrono::duration<double>(heartbeat_timeout_).count())));
        return {};
      }
      if (reply->contains("rank"))
        fail(RankError(reply->at("rank").get<int>(), reply->at("error").get<std::string>()));
      return reply;
    } catch (const std::exception&) {
      fail(RankError(0, "has ended"));
      return {};
    }
  }

  /// Records the first failure and ends the remaining ranks.
  void fail(const RankError& error) {
    {
      const MutexLock lock(mutex_);
      if (error_) return;
      error_ = error;
    }
    connection_.passes.shut_down();  // wakes a thread that waits for a pass
    end_();
  }

  [[noreturn]] void throw_error() const {
    const MutexLock lock(mutex_);
    throw RankError(*error_);
  }

  RemoteConnection connection_;
  std::chrono::milliseconds heartbeat_timeout_;
  std::function<void()> end_;
  Mutex passes_mutex_;
  Mutex questions_mutex_;
  std::map<std::tuple<int64_t, bool, int64_t>, int64_t> known_bytes_ LACUNA_GUARDED_BY(questions_mutex_);
  mutable Mutex mutex_;
  Condition wake_;
  std::optional<RankError> error_ LACUNA_GUARDED_BY(mutex_);
  json freed_ LACUNA_GUARDED_BY(mutex_) = json::array();
  bool is_closing_ LACUNA_GUARDED_BY(mutex_) = false;
  std::thread watcher_;  // declared last: it uses the other members
};

class RemoteSequence final : public KvSequence {
 public:
  RemoteSequence(const SequenceShape& shape, int64_t id, int32_t sink_cell, std::shared_ptr<RemoteLine> line)
      : KvSequence(shape), id_(id), sink_cell_(sink_cell), line_(std::move(line)) {}
  ~RemoteSequence() override { line_->free("sequence", id_); }

  int64_t id() const { return id_; }
  int32_t sink_cell() const override { return sink_cell_; }
  void read_cells(int64_t /*layer*/, int64_t /*kv_head*/, IndexRange /*cells*/, Matrix<float> /*keys*/,
                  Matrix<float> /*values*/) const override {
    throw InputError("K/V cells of a model in another process cannot be read; expected one process");
  }
  void read_outputs(std::span<const int32_t> /*cells*/, Matrix<float> /*out*/) const override {
    throw InputError("outputs of a model in another process cannot be read; expected one process");
  }

 private:
  int64_t id_;
  int32_t sink_cell_;
  std::shared_ptr<RemoteLine> line_;
};

int64_t id_of(const KvSequence& sequence) {
  return sequence_of<const RemoteSequence>(sequence).id();
}

class RemotePool final : public KvPool {
 public:
  RemotePool(int64_t limit, std::shared_ptr<std::atomic<int64_t>> num_made, std::shared_ptr<RemoteLine> line)
      : limit_(limit), num_made_(std::move(num_made)), line_(std::move(line)) {
    id_ = line_->call({{"do", "pool"}, {"limit", limit}}).at("pool").get<int64_t>();
  }

  int64_t bytes_for(const SequenceShape& shape, int64_t shared) const override {
    return line_->bytes_for(shape, shared);
  }
  int64_t limit() const override { return limit_; }
  int64_t bytes() const override { return line_->count({{"do", "bytes"}, {"pool", id_}}); }
  int64_t bytes_of(std::span<const KvSequence* const> sequences) const override {
    json request = {{"do", "bytes of"}, {"pool", id_}, {"sequences", json::array()}};
    for (const KvSequence* sequence : sequences) request["sequences"].push_back(id_of(*sequence));
    return line_->count(std::move(request));
  }

  using KvPool::make_sequence;
  std::unique_ptr<KvSequence> make_sequence(const SequenceShape& shape, const KvPrefix& prefix) override {
    const int64_t id = (*num_made_)++;
    json request = {{"do", "make"},
                    {"pool", id_},
                    {"sequence", id},
                    {"cells", shape.num_cells},
                    {"remembers", shape.remembers_outputs}};
    add_prefix(prefix, request);
    const json reply = line_->call(std::move(request));
    if (!reply.at("made").get<bool>()) return nullptr;
    return std::make_unique<RemoteSequence>(shape, id, reply.at("sink_cell").get<int32_t>(), line_);
  }

  void take_prefix(KvSequence& to, const KvPrefix& prefix) override {
    json request = {{"do", "prefix"}, {"pool", id_}, {"to", id_of(to)}};
    add_prefix(prefix, request);
    line_->call(std::move(request));
  }

 private:
  static void add_prefix(const KvPrefix& prefix, json& request) {
    request["count"] = prefix.count;
    if (prefix.count > 0) request["from"] = id_of(*prefix.sequence);
  }

  int64_t limit_;
  int64_t id_ = 0;
  std::shared_ptr<std::atomic<int64_t>> num_made_;
  std::shared_ptr<RemoteLine> line_;
};

/// A computed pass: the constructor gets the reply with its results.
class RemoteTicket final : public PassTicket {
 public:
  RemoteTicket(int64_t id, const json& reply, std::shared_ptr<RemoteLine> line)
      : id_(id),
        line_(std::move(line)),
        own_(pass_result_of(reply)),
        times_(pass_times_of(reply.at("times"))) {
    result_ = {own_.samples, own_.kv_drift};
  }
  ~RemoteTicket() override { line_->free("ticket", id_); }

  const PassResult& wait() override { return result_; }
  FollowUpResult follow_up(const FollowUp& wanted) override {
    const json reply = line_->call({{"do", "follow up"}, {"ticket", id_}, {"wanted", to_message(wanted)}});
    follow_up_ = follow_up_result_of(reply);
    times_ = pass_times_of(reply.at("times"));
    return {follow_up_.samples, follow_up_.drifts, follow_up_.classes};
  }
  void remember_outputs() override { line_->call({{"do", "remember"}, {"ticket", id_}}); }
  void read_logits(std::span<const LogitRow> /*wanted*/, Matrix<float> /*out*/) override {
    throw InputError("logits of a model in another process cannot be read; expected one process");
  }
  PassTimes times() const override { return times_; }

 private:
  int64_t id_;
  std::shared_ptr<RemoteLine> line_;
  OwnPassResult own_;
  PassResult result_;
  OwnFollowUpResult follow_up_;
  PassTimes times_;
};

class RemoteModel final : public BackendModel {
 public:
  RemoteModel(const ModelConfig& config, const json& hello, std::shared_ptr<RemoteLine> line)
      : config_(config), device_(hello.at("device").get<std::string>()), line_(std::move(line)) {
    dtype_ = static_cast<DType>(hello.at("dtype").get<int>());
    hello.at("weight_bytes").get_to(weight_bytes_);
    const json& bytes = hello.at("bytes_of_passes");
    bytes_ = {bytes.at(0).get<double>(), bytes.at(1).get<double>(), bytes.at(2).get<double>()};
  }

  const ModelConfig& config() const override { return config_; }
  std::string_view device() const override { return device_; }
  DType dtype() const override { return dtype_; }
  int64_t weight_bytes() const override { return weight_bytes_; }
  ModelBytes bytes_of_passes() const override { return bytes_; }
  std::string failure() const override { return line_->failure(); }

  std::unique_ptr<KvPool> make_pool(int64_t limit) const override {
    return std::make_unique<RemotePool>(limit, num_sequences_, line_);
  }

  std::unique_ptr<PassTicket> submit(const StepPlan& plan, std::span<KvSequence* const> sequences,
                                     const PassOptions& options) const override {
    if (options.observe_attention)
      throw InputError(
          "the attention of a model in another process cannot be observed; expected one process");
    const int64_t id = num_tickets_++;
    json request = {{"do", "pass"}, {"ticket", id}, {"plan", to_json(plan)}, {"sequences", json::array()}};
    for (const KvSequence* sequence : sequences) request["sequences"].push_back(id_of(*sequence));
    return std::make_unique<RemoteTicket>(id, line_->call(std::move(request)), line_);
  }

  void keep_soft_embeddings(KvSequence& /*sequence*/, std::span<const int32_t> /*cells*/,
                            ConstMatrix<float> /*distributions*/) const override {
    throw InputError("a model in another process takes no soft embeddings; expected one process");
  }
  void compare_outputs(ConstMatrix<float> /*now*/, ConstMatrix<float> /*before*/,
                       std::span<Drift> /*drifts*/) const override {
    throw InputError("outputs of a model in another process cannot be compared; expected one process");
  }

 private:
  ModelConfig config_;
  std::string device_;
  DType dtype_ = DType::kF32;
  int64_t weight_bytes_ = 0;
  ModelBytes bytes_;
  std::shared_ptr<RemoteLine> line_;
  std::shared_ptr<std::atomic<int64_t>> num_sequences_ = std::make_shared<std::atomic<int64_t>>(0);
  mutable std::atomic<int64_t> num_tickets_{0};
};

}  // namespace

std::shared_ptr<const BackendModel> remote_model(const ModelConfig& config, RemoteConnection connection,
                                                 std::chrono::milliseconds heartbeat_timeout,
                                                 std::function<void()> end) {
  std::optional<json> hello;
  try {
    hello = connection.passes.receive();
  } catch (const ConnectionLost&) {
    throw InputError("--shard: the ranks ended before they had loaded the model");
  }
  if (hello->contains("refused")) throw InputError("{}", hello->at("refused").get<std::string>());
  return std::make_shared<const RemoteModel>(
      config, *hello, std::make_shared<RemoteLine>(std::move(connection), heartbeat_timeout, std::move(end)));
}

}  // namespace lacuna
