// A server whose memory, files, sockets and clock fail as a seed says, and clients that are slow or go away.
// For any failure: nothing hangs, every client gets an answer, an error in the form of its API or a closed
// connection, every answer that is whole is the one that the request has alone, and afterwards the server
// answers as before and holds nothing.
//
//   LACUNA_FAULT_SEEDS=FIRST:COUNT  other seeds than those of a usual run

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/inference_session.h"
#include "fault/faulty_calls.h"
#include "fault/raw_client.h"
#include "server/http_server.h"
#include "server/model_pool.h"
#include "server/service.h"

namespace lacuna::server_faults_test {
namespace {

using nlohmann::json;
using Random = std::mt19937_64;

/// A masked model, and one of blocks, whose requests share prefixes.
constexpr const char* kModels[] = {"mini-llada", "mini-sdar"};

/// Opened once: files are mapped, and every scenario loads the weights.
std::shared_ptr<const OpenedModel> opened_model(const std::string& name) {
  static std::map<std::string, std::shared_ptr<const OpenedModel>> all;
  std::shared_ptr<const OpenedModel>& opened = all[name];
  if (opened == nullptr) {
    const std::filesystem::path folder = std::filesystem::path(LACUNA_SOURCE_DIR) / "models" / name;
    opened = std::make_shared<const OpenedModel>(name, find_model(folder.string()));
  }
  return opened;
}

/// A server of two models, of which one is loaded at a time.
class FaultyServer {
 public:
  FaultyServer() : service_(settings()), pool_(models(), limits_of_pool()) {
    service_.start(pool_);
    HttpLimits limits;
    limits.body_seconds = std::chrono::seconds(5);
    http_ = std::make_unique<HttpServer>(
        "127.0.0.1", 0,
        [this](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
          // A probe is answered on the thread of the connections. Asio cannot bear that its own small
          // allocations fail.
          if (request.path == "/health") spare_small_allocations_of_this_thread();
          service_.handle(request, reply);
        },
        limits, [this](const HttpRequest& head) { return service_.find_refusal(head); },
        [this](const RequestRecord& /*record*/) { ++num_logged_; });
    ask(http_->port(), "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        Manner::kPatient);
  }
  ~FaultyServer() {
    pool_.stop();
    for (const ModelPool::Loaded& each : pool_.loaded()) each.lease->scheduler().stop();
    http_->stop(std::chrono::seconds(1));
  }
  FaultyServer(const FaultyServer&) = delete;
  FaultyServer& operator=(const FaultyServer&) = delete;

  uint16_t port() const { return http_->port(); }

  /// Whether no request is left, and no K/V of one, within a few seconds.
  bool becomes_idle() {
    for (int i = 0; i < 2000; ++i) {
      bool is_idle = pool_.num_waiting() == 0;
      for (const ModelPool::Loaded& each : pool_.loaded()) {
        const Scheduler::Totals totals = each.lease->scheduler().totals();
        is_idle = is_idle && totals.running == 0 && totals.waiting == 0 && totals.memory == 0;
      }
      if (is_idle) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

 private:
  static ServiceSettings settings() {
    ServiceSettings settings;
    settings.version = "test";
    settings.audit.share = 0.25;
    return settings;
  }
  static PoolLimits limits_of_pool() {
    PoolLimits limits;
    limits.bytes = 1;
    return limits;
  }
  static std::vector<PoolModel> models() {
    std::vector<PoolModel> models;
    for (const char* const name : kModels) {
      const std::shared_ptr<const OpenedModel> opened = opened_model(name);
      models.push_back({name, opened, 1, [opened] {
                          SessionOptions options;
                          options.formats = DType::kF32;
                          options.threads = 1;
                          return std::shared_ptr<InferenceSession>(InferenceSession::load(opened, options));
                        }});
    }
    return models;
  }

  Service service_;
  ModelPool pool_;
  std::atomic<int> num_logged_{0};
  std::unique_ptr<HttpServer> http_;
};

/// A request and how to read its reply.
struct Question {
  enum class Form : uint8_t { kWhole, kEvents, kLines, kRefused };

  std::string name;
  std::string method = "POST";
  std::string path;
  std::string body;
  Form form = Form::kWhole;

  std::string request() const {
    return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }
};

/// Texts of an answer as the client of an API reads them, joined; empty: the reply ended with an error, or
/// before its end. Fails the test where it is neither answer nor error.
std::string texts_of(const json& reply) {
  std::string text;
  for (const char* list : {"choices", "content", "answers"}) {
    if (!reply.contains(list)) continue;
    for (const json& each : reply[list]) {
      if (each.contains("text")) text += each.value("text", "") + "|";
      if (each.contains("message")) text += each["message"].value("content", "") + "|";
      if (each.contains("delta") && each["delta"].contains("content")) {
        text += each["delta"].value("content", "");
      }
      if (each.contains("probabilities")) text += each["probabilities"].dump();
    }
  }
  if (reply.contains("message")) text += reply["message"].value("content", "");
  if (reply.contains("tokens")) text += reply["tokens"].dump();
  return text;
}

bool is_error(const json& reply) {
  if (!reply.contains("error")) return false;
  const json& error = reply["error"];
  return error.is_string() ? !error.get<std::string>().empty()
                           : error.is_object() && !error.value("message", "").empty();
}

/// The answer of a reply that is whole; null: an error, or a connection that was closed.
std::optional<std::string> answer_of(const Question& question, const Heard& heard) {
  if (!heard.is_whole) return {};
  if (heard.status != 200) {
    const json reply = json::parse(heard.body, nullptr, false);
    EXPECT_TRUE(is_error(reply)) << question.name << ": " << heard.status << " " << heard.body;
    return {};
  }
  if (question.path == "/metrics") return "";
  if (question.form == Question::Form::kWhole) {
    const json reply = json::parse(heard.body, nullptr, false);
    EXPECT_TRUE(reply.is_structured()) << question.name << ": " << heard.body;
    return question.method == "GET" ? "" : texts_of(reply);
  }
  std::string text;
  bool has_ended = false;
  for (size_t begin = 0; begin < heard.body.size();) {
    const size_t end = std::min(heard.body.find('\n', begin), heard.body.size());
    std::string_view line = std::string_view(heard.body).substr(begin, end - begin);
    begin = end + 1;
    if (question.form == Question::Form::kEvents) {
      if (!line.starts_with("data: ")) continue;
      line.remove_prefix(6);
      if (line == "[DONE]") has_ended = true;
      if (line == "[DONE]") continue;
    }
    const json part = json::parse(line, nullptr, false);
    EXPECT_FALSE(part.is_discarded()) << question.name << ": " << line;
    if (is_error(part)) return {};
    if (part.value("done", false)) has_ended = true;
    text += texts_of(part);
  }
  EXPECT_TRUE(has_ended) << question.name << " ended without its end: " << heard.body;
  return text;
}

/// Requests that only a masked model answers.
template <typename Add>
void add_of_masked(const Add& add) {
  using Form = Question::Form;
  const json dual{{"cache", "dual"}, {"block_length", 8}};
  add("/v1/completions", {{"prompt", "Mia has"}, {"max_tokens", 16}, {"lacuna", dual}}, Form::kWhole);
  add("/v1/completions", {{"prompt", "Mia has"}, {"suffix", " shells."}, {"max_tokens", 8}}, Form::kWhole);
  add("/v1/completions", {{"prompt", "Mia has 3"}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}},
      Form::kWhole);
}

std::vector<Question> all_questions() {
  using Form = Question::Form;
  std::vector<Question> questions;
  for (const std::string name : kModels) {
    const json messages = json::array({{{"role", "user"}, {"content", "Tom has 3 shells and finds 4."}}});
    const auto add = [&](const std::string& path, json body, Form form) {
      body["model"] = name;
      questions.push_back({path + " " + body.dump(), "POST", path, body.dump(), form});
    };
    add("/v1/completions", {{"prompt", "Mia has"}, {"max_tokens", 8}, {"seed", 1}}, Form::kWhole);
    add("/v1/completions",
        {{"prompt", {"Mia has", "Tom has 5"}}, {"max_tokens", 8}, {"n", 2}, {"temperature", 0.7}},
        Form::kWhole);
    const std::string story(400, 'x');  // fills tiles of keys and values
    add("/v1/completions", {{"prompt", story}, {"max_tokens", 8}}, Form::kWhole);
    if (name == "mini-llada") add_of_masked(add);
    add("/v1/chat/completions", {{"messages", messages}, {"max_tokens", 16}, {"stream", true}},
        Form::kEvents);
    add("/v1/chat/completions",
        {{"messages", messages}, {"max_tokens", 8}, {"stream", true}, {"lacuna", {{"events", true}}}},
        Form::kEvents);
    add("/v1/chat/completions",
        {{"messages", messages}, {"max_tokens", 8}, {"logprobs", true}, {"top_logprobs", 3}}, Form::kWhole);
    add("/v1/messages", {{"messages", messages}, {"max_tokens", 8}}, Form::kWhole);
    add("/api/chat", {{"messages", messages}, {"options", {{"num_predict", 8}}}}, Form::kLines);
    add("/tokenize", {{"content", "Tom has 3 shells."}}, Form::kWhole);
  }
  questions.push_back({"broken JSON", "POST", "/v1/completions", R"({"prompt": )", Form::kRefused});
  for (const char* path : {"/metrics", "/slots", "/v1/models", "/props"}) {
    questions.push_back({path, "GET", path, "", Form::kWhole});
  }
  return questions;
}

size_t num_open_files() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                           std::filesystem::directory_iterator()));
}

size_t num_threads() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                                           std::filesystem::directory_iterator()));
}

/// Aborts the program where something takes two minutes.
class Watchdog {
 public:
  explicit Watchdog(std::string what) : thread_([this, what = std::move(what)] { work(what); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void work(const std::string& what) {
    spare_this_thread();
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::minutes(2), [this] { return is_over_; })) return;
    std::fprintf(stderr, "%s hangs\n", what.c_str());
    std::abort();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

/// Asks everything of a server without faults, one after the other.
const std::map<std::string, std::string>& answers_alone() {
  static const std::map<std::string, std::string> answers = [] {
    std::map<std::string, std::string> all;
    FaultyServer server;
    for (const Question& question : all_questions()) {
      const Heard heard = ask(server.port(), question.request(), Manner::kPatient);
      const std::optional<std::string> answer = answer_of(question, heard);
      EXPECT_EQ(answer.has_value(), question.form != Question::Form::kRefused) << question.name << heard.body;
      if (answer) all[question.name] = *answer;
    }
    return all;
  }();
  return answers;
}

FaultPlan plan_of(uint64_t seed) {
  Random random(seed);
  FaultPlan plan{seed, {}};
  const auto set = [&](FaultyCall call, std::initializer_list<uint32_t> choices) {
    plan.one_in[static_cast<size_t>(call)] = *(choices.begin() + random() % choices.size());
  };
  set(FaultyCall::kAllocate, {0, 50, 300, 2000, 10000, 50000});
  set(FaultyCall::kOpen, {0, 0, 2, 10});
  set(FaultyCall::kReceive, {0, 2, 10});
  set(FaultyCall::kSend, {0, 2, 10, 50});
  set(FaultyCall::kAccept, {0, 0, 3, 8});
  set(FaultyCall::kClock, {0, 2});
  set(FaultyCall::kRead, {0, 0, 2, 10});
  return plan;
}

/// One client: some questions after each other, each in a manner of its own.
void ask_some(const FaultyServer& server, uint64_t seed, std::atomic<int>& whole) {
  spare_this_thread();
  static const std::vector<Question> questions = all_questions();
  Random random(seed);
  for (int i = 0; i < 4; ++i) {
    const Question& question = questions[random() % questions.size()];
    constexpr Manner kManners[] = {Manner::kPatient, Manner::kPatient,       Manner::kPatient,
                                   Manner::kSlow,    Manner::kDiesInRequest, Manner::kDiesInReply};
    const Manner manner = kManners[random() % std::size(kManners)];
    const Heard heard = ask(server.port(), question.request(), manner);
    const std::optional<std::string> answer = answer_of(question, heard);
    if (!answer) continue;
    ++whole;
    EXPECT_EQ(*answer, answers_alone().at(question.name)) << question.name;
  }
}

void expect_as_before(FaultyServer& server) {
  for (const Question& question : all_questions()) {
    // Both models, so that each is loaded again.
    if (question.path != "/v1/completions" || question.form != Question::Form::kWhole) continue;
    const Heard heard = ask(server.port(), question.request(), Manner::kPatient);
    EXPECT_EQ(answer_of(question, heard), answers_alone().at(question.name)) << question.name << heard.body;
  }
  EXPECT_TRUE(server.becomes_idle());
}

std::pair<uint64_t, uint64_t> wanted_seeds() {
  unsigned long long first = 1;
  unsigned long long count = 40;
  if (const char* const text = std::getenv("LACUNA_FAULT_SEEDS"))
    std::sscanf(text, "%llu:%llu", &first, &count);
  return {first, count};
}

TEST(ServerFaults, EveryClientGetsAnAnswerOrAnErrorAndTheServerGoesOn) {
  spare_this_thread();
  answers_alone();
  const auto [first, count] = wanted_seeds();
  uint64_t num_faults = 0;
  std::atomic<int> whole{0};
  for (uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE("LACUNA_FAULT_SEEDS=" + std::to_string(seed) + ":1");
    const size_t files_before = num_open_files();
    const size_t threads_before = num_threads();
    {
      const Watchdog watchdog("LACUNA_FAULT_SEEDS=" + std::to_string(seed) + ":1");
      FaultyServer server;
      begin_faults(plan_of(seed));
      {
        std::vector<std::jthread> clients;
        for (uint64_t i = 0; i < 3; ++i) {
          clients.emplace_back([&, i] { ask_some(server, seed * 10 + i, whole); });
        }
      }
      num_faults += end_faults();
      expect_as_before(server);
    }
    EXPECT_EQ(num_open_files(), files_before);
    EXPECT_EQ(num_threads(), threads_before);
  }
  EXPECT_GT(num_faults, count);
  if (count >= 10) {
    EXPECT_GT(static_cast<uint64_t>(whole), count);
  }
  std::printf("%llu seeds: %llu injected failures, %d whole answers\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(num_faults),
              whole.load());
}

}  // namespace
}  // namespace lacuna::server_faults_test
