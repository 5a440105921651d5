#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "backend/shard/remote_messages.h"
#include "backend/shard/remote_model.h"
#include "base/communicator.h"
#include "base/error.h"
#include "base/mutex.h"
#include "model/plan_json.h"

namespace lacuna {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kBetweenPings{1000};

json failure_message(const RankError& error) {
  const std::string prefix = fmt::format("rank {} ", error.rank());
  return {{"rank", error.rank()}, {"error", std::string(error.what()).substr(prefix.size())}};
}

/// Objects that the client process created, by the ids that it assigned.
class HostedModel {
 public:
  HostedModel(const BackendModel& model, RemoteConnection& connection)
      : model_(model), connection_(connection), sizes_(model.make_pool()) {}

  void run(const std::function<void()>& check) {
    const ModelBytes bytes = model_.bytes_of_passes();
    connection_.passes.send({{"device", model_.device()},
                             {"dtype", static_cast<int>(model_.dtype())},
                             {"weight_bytes", model_.weight_bytes()},
                             {"bytes_of_passes", {bytes.layers, bytes.head, bytes.cell}}});
    std::thread questions([this] { answer_questions(); });
    try {
      for (;;) {
        if (const std::optional<json> request = connection_.passes.receive(kBetweenPings)) {
          connection_.passes.send(answer(*request));
        } else {
          check_ranks(check);
        }
      }
    } catch (const ConnectionLost&) {  // the client has ended
    }
    connection_.questions.shut_down();
    questions.join();
  }

 private:
  struct Ticket {
    StepPlan plan;
    std::unique_ptr<PassTicket> ticket;
  };

  void check_ranks(const std::function<void()>& check) {
    if (failure()) return;
    try {
      check();
    } catch (const RankError& error) {
      const MutexLock lock(mutex_);
      failure_ = error;
    }
  }

  std::optional<RankError> failure() const {
    const MutexLock lock(mutex_);
    return failure_;
  }

  /// Runs in its own thread, so that the host also responds during a long pass.
  void answer_questions() {
    try {
      while (const std::optional<json> question = connection_.questions.receive()) {
        json reply = json::object();
        if (const std::optional<RankError> error = failure()) reply = failure_message(*error);
        if (question->contains("cells")) {
          reply["bytes"] =
              sizes_->bytes_for({question->at("cells").get<int64_t>(), question->at("remembers").get<bool>()},
                                question->at("shared").get<int64_t>());
        }
        connection_.questions.send(reply);
      }
    } catch (const std::exception&) {
      return;  // the other end has closed the connection
    }
  }

  json answer(const json& request) {
    try {
      for (const json& change : request.at("freed")) {
        if (change.contains("ticket")) tickets_.erase(change["ticket"].get<int64_t>());
        if (change.contains("sequence")) sequences_.erase(change["sequence"].get<int64_t>());
      }
      return act(request.at("do").get<std::string>(), request);
    } catch (const RankError& error) {
      return failure_message(error);
    } catch (const std::exception& error) {
      return {{"error", error.what()}};
    }
  }

  json act(const std::string& what, const json& request) {
    if (what == "pass") return make_pass(request);
    if (what == "follow up") return follow_up(request);
    if (what == "remember") {
      ticket(request).ticket->remember_outputs();
      return json::object();
    }
    if (what == "pool") {
      pools_.push_back(model_.make_pool(request.at("limit").get<int64_t>()));
      return {{"pool", pools_.size() - 1}};
    }
    KvPool& pool = *pools_.at(request.at("pool").get<size_t>());
    if (what == "make") return make_sequence(pool, request);
    if (what == "prefix") {
      pool.take_prefix(sequence(request.at("to")), prefix_of(request));
    } else if (what == "bytes") {
      return {{"bytes", pool.bytes()}};
    } else if (what == "bytes of") {
      std::vector<const KvSequence*> some;
      for (const json& id : request.at("sequences")) some.push_back(&sequence(id));
      return {{"bytes", pool.bytes_of(some)}};
    }
    return json::object();
  }

  KvSequence& sequence(const json& id) { return *sequences_.at(id.get<int64_t>()); }
  Ticket& ticket(const json& request) { return tickets_.at(request.at("ticket").get<int64_t>()); }
  KvPrefix prefix_of(const json& request) {
    const auto count = request.at("count").get<int64_t>();
    return count == 0 ? KvPrefix() : KvPrefix{&sequence(request.at("from")), count};
  }

  json make_sequence(KvPool& pool, const json& request) {
    const SequenceShape shape{request.at("cells").get<int64_t>(), request.at("remembers").get<bool>()};
    std::unique_ptr<KvSequence> made = pool.make_sequence(shape, prefix_of(request));
    if (made == nullptr) return {{"made", false}};
    const int32_t sink_cell = made->sink_cell();
    sequences_[request.at("sequence").get<int64_t>()] = std::move(made);
    return {{"made", true}, {"sink_cell", sink_cell}};
  }

  json make_pass(const json& request) {
    const auto id = request.at("ticket").get<int64_t>();
    try {
      Ticket& made = tickets_[id];
      made.plan = plan_from_json(request.at("plan"), "a plan");
      std::vector<KvSequence*> sequences;
      for (const json& each : request.at("sequences")) sequences.push_back(&sequence(each));
      made.ticket = model_.submit(made.plan, sequences);
      json reply = to_message(made.ticket->wait());
      reply["times"] = to_message(made.ticket->times());
      return reply;
    } catch (...) {  // the client gets an error and no ticket
      tickets_.erase(id);
      throw;
    }
  }

  json follow_up(const json& request) {
    Ticket& made = ticket(request);
    const OwnFollowUp wanted = follow_up_of(request.at("wanted"));
    json reply = to_message(made.ticket->follow_up({wanted.logits, wanted.probes, wanted.classes}));
    reply["times"] = to_message(made.ticket->times());
    return reply;
  }

  const BackendModel& model_;
  RemoteConnection& connection_;
  std::unique_ptr<KvPool> sizes_;  // pool without sequences, for questions about sizes
  std::vector<std::unique_ptr<KvPool>> pools_;
  std::map<int64_t, std::unique_ptr<KvSequence>> sequences_;
  std::map<int64_t, Ticket> tickets_;  // destroyed before the sequences
  mutable Mutex mutex_;
  std::optional<RankError> failure_ LACUNA_GUARDED_BY(mutex_);
};

}  // namespace

RemoteConnection connect_as_host(const std::string& name) {
  RemoteConnection connection;
  connection.passes = connect_to(name);
  connection.questions = connect_to(name);
  return connection;
}

void host_model(const BackendModel& model, RemoteConnection connection, const std::function<void()>& check) {
  HostedModel(model, connection).run(check);
}

void refuse_model(RemoteConnection connection, const std::string& sentence) {
  connection.passes.send({{"refused", sentence}});
}

}  // namespace lacuna
