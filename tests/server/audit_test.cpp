#include "server/audit.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "running_server.h"

namespace lacuna::audit_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

SavedPreset promise_of(double risk, const std::string& loss = "changed-answer") {
  SavedPreset preset;
  preset.name = "quick";
  preset.certificate.loss = loss;
  preset.certificate.risk = risk;
  preset.certificate.confidence = 0.9;
  return preset;
}

constexpr std::array<const char*, 8> kAnimals{"fox", "dog", "cat", "bear", "owl", "deer", "frog", "mouse"};

/// A server whose answers are all audited.
class AuditedServer {
 public:
  AuditedServer(const std::optional<SavedPreset>& preset, const GenerationOptions& defaults) {
    ServiceSettings settings;
    settings.defaults = defaults;
    settings.audit = {1, preset, [this](const std::string& sentence) {
                        ++warnings_;
                        if (warnings_ == 1) warned_.set_value(sentence);
                      }};
    server_.emplace("mini-llada", SchedulerLimits(), std::move(settings));
  }

  RunningServer& server() { return *server_; }
  void ask(int count, json more = json::object()) {
    for (int i = 0; i < count; ++i) {
      // A story is decided word by word: whoever commits all of it in one pass mixes several.
      const std::string animal = kAnimals.at(i % kAnimals.size());
      json body{{"prompt", "Tell a story about Tom the " + animal + ", the lake and the lamp."},
                {"max_tokens", 32}};
      body.update(more);
      ASSERT_EQ(server_->post("/v1/completions", body).status(), 200);
    }
  }
  json audit() { return server_->get("/props").json()["audit"]; }
  /// Waits until this many answers were compared or dropped.
  json wait_for(int count) {
    for (int round = 0; round < 3000; ++round) {
      const json found = audit();
      if (found["requests"].get<int>() + found["dropped"].get<int>() >= count) return found;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "the answers were not compared";
    return audit();
  }
  std::string warning() {
    auto sentence = warned_.get_future();
    return sentence.wait_for(std::chrono::seconds(30)) == std::future_status::ready ? sentence.get() : "";
  }
  int num_warnings() const { return warnings_; }

 private:
  std::promise<std::string> warned_;
  std::atomic<int> warnings_{0};
  std::optional<RunningServer> server_;
};

TEST(Audit, FindsNothingWhereTheTextIsTheBaselines) {
  GenerationOptions defaults;
  defaults.block_length = 8;
  defaults.eos_exit = true;
  AuditedServer audited(promise_of(0.02), defaults);
  audited.ask(3);
  audited.ask(1, {{"temperature", 0.9}, {"seed", 5}});
  audited.ask(1, {{"lacuna", {{"regex", "[0-9]{2} pens"}}}, {"stop", "pens"}});
  const json found = audited.wait_for(5);
  EXPECT_EQ(found["requests"], 5);
  EXPECT_EQ(found["changed"], 0);
  EXPECT_EQ(found["risk"], 0);
  EXPECT_EQ(found["low"], 0);
  EXPECT_NEAR(found["high"].get<double>(), upper_bound(LossKind::kBinary, {5, 0}, 0.025), 1e-12);
  EXPECT_EQ(found["promise"]["is_broken"], false);
  EXPECT_EQ(audited.num_warnings(), 0);
}

TEST(Audit, RaisesTheAlertWhereAMethodIsBroken) {
  GenerationOptions defaults;
  defaults.unmask = "threshold=0.01";  // everything in one pass
  AuditedServer audited(promise_of(0.02), defaults);
  audited.ask(8);
  EXPECT_THAT(audited.warning(), HasSubstr("preset quick promises a risk of at most 0.02 (changed-answer)"));
  const json found = audited.wait_for(8);
  EXPECT_GT(found["low"].get<double>(), 0.02);
  EXPECT_EQ(found["promise"]["is_broken"], true);
  EXPECT_EQ(audited.num_warnings(), 1);
  const std::string metrics = audited.server().get("/metrics").body();
  EXPECT_THAT(metrics, HasSubstr("\nlacuna_audit_requests_total 8\n"));
  EXPECT_THAT(metrics,
              HasSubstr("\nlacuna_audit_changed_total " + std::to_string(found["changed"].get<int>())));
}

TEST(Audit, PromisesNothingOfItself) {
  GenerationOptions defaults;
  defaults.unmask = "threshold=0.01";
  for (const bool has_preset : {false, true}) {  // wrong answers are not what is observed
    AuditedServer audited(has_preset ? std::optional(promise_of(0.02, "wrong-answer")) : std::nullopt,
                          defaults);
    audited.ask(4);
    const json found = audited.wait_for(4);
    EXPECT_GT(found["changed"], 0);
    EXPECT_TRUE(found["promise"].is_null());
    EXPECT_EQ(audited.num_warnings(), 0);
  }
}

TEST(Audit, ComparesTokensWhereThePromiseIsAboutTokens) {
  GenerationOptions defaults;
  defaults.unmask = "threshold=0.01";
  AuditedServer audited(promise_of(0.02, "token"), defaults);
  audited.ask(4);
  const json found = audited.wait_for(4);
  EXPECT_EQ(found["loss"], "token");
  EXPECT_GT(found["risk"], 0);
  EXPECT_LT(found["risk"], found["changed"].get<double>() / 4);
}

TEST(Audit, ChoosesAboutItsShareByIdAndSeed) {
  const Audit audit({0.25, {}, {}});
  int chosen = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string id = "request-" + std::to_string(i);
    chosen += audit.chooses(id, 1) ? 1 : 0;
    EXPECT_EQ(audit.chooses(id, 1), audit.chooses(id, 1));
  }
  EXPECT_NEAR(chosen, 1000, 110);  // four standard deviations
  EXPECT_FALSE(Audit({0, {}, {}}).chooses("request-1", 1));
}

TEST(Audit, AsksTheBaselineForWhatThePresetWasTunedWith) {
  const OpenedModel opened("mini-llada", find_model(zoo_folder("mini-llada").string()));
  GenerationOptions options;
  options.unmask = "threshold=0.9";
  options.cache = "dual";
  options.block_length = 8;
  options.temperature = 0.5;
  SavedPreset preset = promise_of(0.02);
  preset.tested_with = {{"gen-length", "32"}, {"cache", "prefix"}};
  const GenerationOptions plain = audited_options(opened.config(), options, {});
  EXPECT_FALSE(plain.unmask);
  EXPECT_FALSE(plain.cache);
  EXPECT_EQ(plain.block_length, 8);
  EXPECT_EQ(plain.temperature, 0.5);
  const GenerationOptions tuned = audited_options(opened.config(), options, preset);
  EXPECT_EQ(tuned.cache, "prefix");
  EXPECT_EQ(tuned.gen_length, 32);
}

}  // namespace
}  // namespace lacuna::audit_test
