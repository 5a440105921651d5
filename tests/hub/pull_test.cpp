#include "hub/pull.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "hub/fake_hub.h"
#include "temporary_folder.h"

namespace lacuna::pull_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;
using Reply = FakeHub::Reply;
using Request = FakeHub::Request;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Recorder : PullObserver {
  void planned(const PullPlan& whole) override { plan = whole; }
  void progressed(int64_t bytes) override {
    present = bytes;
    if (on_progress) on_progress(bytes);
  }
  void finished(const HubFile& file) override { files.push_back(file.path); }
  void noted(std::string_view sentence) override { notes.emplace_back(sentence); }

  PullPlan plan;
  int64_t present = 0;
  std::vector<std::string> files, notes;
  std::function<void(int64_t)> on_progress;
};

class PullTest : public testing::Test {
 protected:
  /// A hub with a small model: a config, a tokenizer and 300 kB of weights.
  FakeHub& hub(FakeHub::Fault fault = {}) {
    hub_.reset();
    hub_ = std::make_unique<FakeHub>(std::move(fault));
    hub_->add("config.json", config_);
    hub_->add("tokenizer.json", R"({"model":{}})");
    hub_->add("model.safetensors", weights_, true);
    return *hub_;
  }

  PullOptions options(const std::string& model = "org/name") const {
    PullOptions options;
    options.model = *HubModel::parse(model);
    options.cache = HubCache(folder_.path());
    options.first_wait = std::chrono::milliseconds(1);
    options.access.endpoint = hub_->endpoint();
    return options;
  }

  fs::path pull_model() { return pull(options(), seen_, stop_); }

  void expect_whole(const fs::path& snapshot) const {
    EXPECT_EQ(content_of(snapshot / "config.json"), config_);
    EXPECT_TRUE(content_of(snapshot / "model.safetensors") == weights_);
    EXPECT_EQ(sha256_of(content_of(snapshot / "model.safetensors")), hub_->blob_of("model.safetensors"));
  }

  template <typename Error>
  void expect_refused(const std::vector<std::string>& parts) {
    for (const std::string& part : parts) {
      EXPECT_THAT([&] { pull_model(); }, ThrowsMessage<Error>(HasSubstr(part)));
    }
    EXPECT_FALSE(fs::exists(folder_.path() / "models--org--name" / "snapshots"));
    EXPECT_FALSE(fs::exists(folder_.path() / "models--org--name" / "refs"));
  }

  fs::path partial_weights() const {
    return folder_.path() / "models--org--name/blobs" / (sha256_of(weights_) + ".incomplete");
  }

  void write_partial(const std::string& bytes) const {
    fs::create_directories(partial_weights().parent_path());
    std::ofstream(partial_weights(), std::ios::binary) << bytes;
  }

  TemporaryFolder folder_;
  std::string config_ = R"({"architectures":["X"]})";
  std::string weights_ = noise(300'000);
  std::unique_ptr<FakeHub> hub_;
  Recorder seen_;
  std::atomic<bool> stop_ = false;
};

TEST_F(PullTest, WritesTheLayoutOfThePythonClient) {
  hub().add("pytorch_model.bin", "pickle");
  const fs::path snapshot = pull_model();
  const fs::path repository = folder_.path() / "models--org--name";
  EXPECT_EQ(snapshot, repository / "snapshots" / hub_->commit);
  EXPECT_EQ(content_of(repository / "refs/main"), hub_->commit);
  EXPECT_EQ(fs::read_symlink(snapshot / "config.json"), "../../blobs/" + git_id_of(config_));
  EXPECT_EQ(fs::read_symlink(snapshot / "model.safetensors"), "../../blobs/" + sha256_of(weights_));
  expect_whole(snapshot);
  EXPECT_FALSE(fs::exists(snapshot / "pytorch_model.bin"));
  EXPECT_FALSE(fs::exists(partial_weights()));
  EXPECT_TRUE(fs::exists(folder_.path() / ".locks/models--org--name" / (sha256_of(weights_) + ".lock")));
  EXPECT_THAT(seen_.files, UnorderedElementsAre("config.json", "tokenizer.json", "model.safetensors"));
  EXPECT_EQ(seen_.present, seen_.plan.total_bytes);
}

TEST_F(PullTest, LinksFilesOfFoldersBelowEachOther) {
  hub().add("sub/deeper/file.txt", "text");
  PullOptions wanted = options();
  wanted.include = {"sub/*"};
  const fs::path snapshot = pull(wanted, seen_, stop_);
  EXPECT_EQ(fs::read_symlink(snapshot / "sub/deeper/file.txt"), "../../../../blobs/" + git_id_of("text"));
  EXPECT_EQ(content_of(snapshot / "sub/deeper/file.txt"), "text");
}

TEST_F(PullTest, DownloadsNothingTwice) {
  hub();
  pull_model();
  const size_t transfers = hub_->num_transfers();
  expect_whole(pull_model());
  EXPECT_EQ(hub_->num_transfers(), transfers);
}

TEST_F(PullTest, ResumesWhereAConnectionEnds) {
  hub([](const Request& request, Reply& reply) {
    if (request.target.starts_with("/cdn/")) reply.cut_after = 70'000;
  });
  expect_whole(pull_model());
  std::vector<int64_t> starts;
  for (const Request& request : hub_->requests()) {
    if (request.target.starts_with("/cdn/")) starts.push_back(request.first_byte());
  }
  EXPECT_EQ(starts, (std::vector<int64_t>{0, 70'000, 140'000, 210'000, 280'000}));
}

TEST_F(PullTest, AsksForTheRestOfWhatAnEarlierProcessLeft) {
  hub();
  write_partial(weights_.substr(0, 100'000));
  expect_whole(pull_model());
  EXPECT_EQ(seen_.plan.present_bytes, 100'000);
  const std::vector<Request> requests = hub_->requests();
  // Files are fetched at the same time, so the weights need not be the last.
  EXPECT_TRUE(std::any_of(requests.begin(), requests.end(),
                          [](const Request& request) { return request.first_byte() == 100'000; }));
}

TEST_F(PullTest, ReplacesAPartialFileWithWrongBytes) {
  for (const size_t size : {size_t{100'000}, weights_.size(), weights_.size() + 5}) {
    hub();
    write_partial(std::string(size, 'x'));
    expect_whole(pull_model());
    EXPECT_EQ(seen_.present, seen_.plan.total_bytes) << size;
    fs::remove_all(folder_.path() / "models--org--name");
  }
}

TEST_F(PullTest, BeginsAnewWhereRangesAreIgnored) {
  int cuts = 2;
  hub([&](const Request& request, Reply& reply) {
    if (!request.target.starts_with("/cdn/")) return;
    reply = {.headers = "", .body = weights_};
    if (cuts-- > 0) reply.cut_after = 100'000;
  });
  expect_whole(pull_model());
}

TEST_F(PullTest, DropsAPartWithTheWrongRange) {
  int wrong = 1;
  hub([&](const Request& request, Reply& reply) {
    if (request.target.starts_with("/cdn/") && request.first_byte() > 0 && wrong-- > 0)
      reply = {
          .status = 206, .headers = "Content-Range: bytes 7-299999/300000\r\n", .body = weights_.substr(7)};
  });
  write_partial(weights_.substr(0, 50'000));
  expect_whole(pull_model());
}

TEST_F(PullTest, KeepsNothingOfWrongBytes) {
  hub([](const Request& request, Reply& reply) {
    if (request.target.starts_with("/cdn/")) reply.body[1000] ^= 1;
  });
  expect_refused<std::runtime_error>(
      {"model.safetensors: what arrived has the SHA-256", "nothing of it was kept"});
  EXPECT_EQ(fs::file_size(partial_weights()), 0U);
  fs::remove_all(folder_.path() / "models--org--name");
  hub([](const Request& request, Reply& reply) {
    if (request.target.ends_with("/config.json")) reply.body[3] ^= 1;
  });
  expect_refused<std::runtime_error>({"config.json: what arrived has the git object id"});
}

TEST_F(PullTest, EndsBodiesAtTheListedSize) {
  hub([&](const Request& request, Reply& reply) {
    if (request.target.starts_with("/cdn/")) reply.body += noise(50'000'000);
  });
  expect_refused<std::runtime_error>({"more bytes arrive than the 300000 that the hub lists"});
  EXPECT_EQ(fs::file_size(partial_weights()), 0U);
}

TEST_F(PullTest, GivesUpWhereFilesStayTooShort) {
  hub([&](const Request& request, Reply& reply) {
    if (request.target.starts_with("/cdn/")) reply = {.headers = "", .body = weights_.substr(0, 1000)};
  });
  expect_refused<std::runtime_error>({"ended after 1000 of 300000 bytes"});
}

TEST_F(PullTest, RetriesWhenTheHubIsBusy) {
  std::atomic<int> failures = 4;
  hub([&](const Request& /*request*/, Reply& reply) {
    if (failures-- > 0)
      reply = {.status = failures % 2 == 0 ? 503 : 429, .headers = "Retry-After: 0\r\n", .body = ""};
  });
  expect_whole(pull_model());
  hub([](const Request& request, Reply& reply) {
    if (request.is_file()) reply = {.status = 500, .headers = "", .body = ""};
  });
  fs::remove_all(folder_.path() / "models--org--name");
  expect_refused<std::runtime_error>(
      {"HTTP status 500 (tried 6 times); run the command again to continue from here"});
}

TEST_F(PullTest, SaysWhatToDoAboutARefusal) {
  struct Case {
    int status;
    std::string headers;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {401, "", {"org/name is private, gated or does not exist", "set HF_TOKEN"}},
      {403, "X-Error-Code: GatedRepo\r\n", {"is gated", "accept its terms at http://127.0.0.1:", "HF_TOKEN"}},
      {404, "X-Error-Code: RepoNotFound\r\n", {"There is no model org/name at http://"}},
      {404, "X-Error-Code: RevisionNotFound\r\n", {"has no revision \"main\""}},
  };
  for (const Case& tried : cases) {
    hub([&](const Request& /*request*/, Reply& reply) {
      reply = {.status = tried.status, .headers = tried.headers, .body = "{}"};
    });
    expect_refused<InputError>(tried.parts);
  }
}

TEST_F(PullTest, SendsTheTokenToTheEndpointAlone) {
  FakeHub elsewhere;
  elsewhere.add("model.safetensors", weights_, true);
  hub([&](const Request& request, Reply& reply) {
    if (request.target.ends_with("/model.safetensors"))
      reply = {.status = 302,
               .headers = "Location: " + elsewhere.endpoint() + "/cdn/model.safetensors\r\n",
               .body = ""};
  });
  PullOptions with_token = options();
  with_token.access.token = "hf_secret";
  expect_whole(pull(with_token, seen_, stop_));
  for (const Request& request : hub_->requests()) {
    EXPECT_THAT(request.headers, Contains(testing::Pair("authorization", "Bearer hf_secret")))
        << request.target;
  }
  ASSERT_EQ(elsewhere.requests().size(), 1U);
  EXPECT_THAT(elsewhere.requests()[0].headers, Not(Contains(testing::Key("authorization"))));
}

TEST_F(PullTest, FollowsNoRedirectOutOfTheWeb) {
  for (const char* const target : {"file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x"}) {
    hub([&](const Request& request, Reply& reply) {
      if (request.target.ends_with("/model.safetensors"))
        reply = {.status = 302, .headers = std::string("Location: ") + target + "\r\n", .body = ""};
    });
    expect_refused<std::runtime_error>({"model.safetensors"});
    EXPECT_LE(fs::file_size(partial_weights()), 0U);
  }
}

TEST_F(PullTest, EndsALoopOfRedirects) {
  hub([&](const Request& request, Reply& reply) {
    if (request.is_file())
      reply = {.status = 302, .headers = "Location: " + request.target + "\r\n", .body = ""};
  });
  expect_refused<std::runtime_error>({"redirects"});
  EXPECT_LT(hub_->requests().size(), 40U);
}

TEST_F(PullTest, ReadsAllPagesOfTheList) {
  hub().page_size = 1;
  hub_->commit = std::string(40, 'a');
  expect_whole(pull_model());
  EXPECT_EQ(seen_.plan.files.size(), 3U);
}

TEST_F(PullTest, TakesNoPageFromElsewhere) {
  FakeHub elsewhere;
  for (const std::string& target : {elsewhere.endpoint() + "/x", std::string("file:///etc/passwd")}) {
    hub([&](const Request& request, Reply& reply) {
      if (request.target.find("/tree/") != std::string::npos)
        reply.headers = "Link: <" + target + ">; rel=\"next\"\r\n";
    });
    expect_refused<InputError>({"the list of files continues at"});
  }
  EXPECT_THAT(elsewhere.requests(), IsEmpty());
}

TEST_F(PullTest, EndsAListWithoutEnd) {
  hub([&](const Request& request, Reply& reply) {
    if (request.target.find("/tree/") != std::string::npos)
      reply.headers = "Link: <" + hub_->endpoint() + request.target + ">; rel=\"next\"\r\n";
  });
  expect_refused<InputError>({"more than 1000 pages"});
}

TEST_F(PullTest, EndsAReplyWithoutEnd) {
  hub([&](const Request& request, Reply& reply) {
    if (request.target.find("/tree/") != std::string::npos) reply.body = std::string(20'000'000, ' ');
  });
  expect_refused<std::runtime_error>({"the reply is longer than"});
}

TEST_F(PullTest, RefusesAListThatCannotBeRight) {
  const std::string id = std::string(40, '0');
  const std::vector<std::pair<std::string, std::string>> lists = {
      {R"([{"type":"file","path":"../x","size":1,"oid":")" + id + "\"}]", "a file below the model's folder"},
      {R"([{"type":"file","path":"/etc/x","size":1,"oid":")" + id + "\"}]",
       "a file below the model's folder"},
      {R"([{"type":"file","path":"a//b","size":1,"oid":")" + id + "\"}]", "a file below the model's folder"},
      {R"([{"type":"file","path":"a\nb","size":1,"oid":")" + id + "\"}]", "a file below the model's folder"},
      {R"([{"type":"file","path":"x","size":-1,"oid":")" + id + "\"}]", "\"size\" is -1"},
      {R"([{"type":"file","path":"x","size":1e300,"oid":")" + id + "\"}]", "\"size\""},
      {R"([{"type":"file","path":"x","size":1,"oid":"../../x"}])", "git object id"},
      {R"([{"type":"file","path":"x","size":1,"oid":"a","lfs":{"oid":"../x","size":1}}])", "SHA-256"},
      {R"({"error":"x"})", "a list of files"},
      {"not JSON", "JSON"},
      {std::string(100, '['), "JSON"},
  };
  for (const auto& [list, sentence] : lists) {
    hub([&](const Request& request, Reply& reply) {
      if (request.target.find("/tree/") != std::string::npos) reply.body = list;
    });
    expect_refused<InputError>({sentence});
  }
  hub_->commit = "../../../x";
  hub([](const Request& request, Reply& reply) {
    if (request.target.find("/revision/") != std::string::npos) reply.body = R"({"sha":"../../x"})";
  });
  expect_refused<InputError>({"a commit of 40 hexadecimal digits"});
}

TEST_F(PullTest, RefusesWhatTheDiskCannotHold) {
  hub([](const Request& request, Reply& reply) {
    if (request.target.find("/tree/") == std::string::npos) return;
    reply.body = R"([{"type":"file","path":"config.json","size":70368744177664,"oid":")" +
                 std::string(40, '0') + R"("},{"type":"file","path":"model.safetensors","size":1,"oid":")" +
                 std::string(40, '1') + "\"}]";
  });
  expect_refused<std::runtime_error>({"org/name needs 70368.7 GB more", "HF_HUB_CACHE"});
  EXPECT_EQ(hub_->num_transfers(), 0U);
}

TEST_F(PullTest, RefusesContentThatIsNotTheListedOne) {
  hub([](const Request& request, Reply& reply) {
    if (request.target.ends_with("/model.safetensors") && reply.status == 302)
      reply.headers += "X-Linked-Etag: \"" + std::string(64, 'a') + "\"\r\n";
  });
  expect_refused<std::runtime_error>({"the hub offers the content"});
}

TEST_F(PullTest, WaitsForAnotherProcess) {
  hub();
  const HubCache cache(folder_.path());
  const fs::path path = cache.lock_file(*HubModel::parse("org/name"), sha256_of(weights_));
  fs::create_directories(path.parent_path());
  const int lock = open(path.c_str(), O_RDWR | O_CREAT, 0666);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  // The other process has written half of the file when it ends.
  seen_.on_progress = [&](int64_t /*bytes*/) {
    if (seen_.notes.empty() || fs::exists(partial_weights())) return;
    write_partial(weights_.substr(0, 150'000));
    close(lock);
  };
  expect_whole(pull_model());
  EXPECT_THAT(seen_.notes, Contains(HasSubstr("model.safetensors: another process is downloading it")));
  EXPECT_EQ(seen_.present, seen_.plan.total_bytes);
}

TEST_F(PullTest, KeepsPartialFilesWhenStopped) {
  hub([](const Request& request, Reply& reply) {
    if (request.target.starts_with("/cdn/")) reply.pause = std::chrono::milliseconds(30);
  });
  seen_.on_progress = [&](int64_t bytes) {
    if (bytes > 60'000) stop_ = true;
  };
  EXPECT_THROW(pull_model(), PullStopped);
  EXPECT_GT(fs::file_size(partial_weights()), 30'000U);
  EXPECT_FALSE(fs::exists(folder_.path() / "models--org--name/snapshots"));
  stop_ = false;
  hub();
  seen_.on_progress = {};
  expect_whole(pull_model());
  EXPECT_GT(hub_->requests().back().first_byte(), 0);
}

TEST_F(PullTest, LeavesThePreviousSnapshotUntilTheNextIsWhole) {
  hub();
  const std::string before = hub_->commit;
  const fs::path old_snapshot = pull_model();
  weights_ = noise(200'000, 7);
  hub([](const Request& request, Reply& reply) {
    if (request.target.starts_with("/cdn/")) reply = {.status = 500, .headers = "", .body = ""};
  });
  hub_->commit = std::string(40, 'b');
  EXPECT_THROW(pull_model(), std::runtime_error);
  const HubCache cache(folder_.path());
  EXPECT_EQ(cache.commit(*HubModel::parse("org/name")), before);
  EXPECT_FALSE(fs::exists(old_snapshot.parent_path() / hub_->commit));
  hub().commit = std::string(40, 'b');
  expect_whole(pull_model());
  EXPECT_EQ(cache.commit(*HubModel::parse("org/name")), hub_->commit);
}

TEST_F(PullTest, TakesACommitWithoutAskingForIt) {
  hub();
  const fs::path snapshot = pull(options("org/name@" + hub_->commit), seen_, stop_);
  expect_whole(snapshot);
  EXPECT_FALSE(fs::exists(folder_.path() / "models--org--name/refs"));
  for (const Request& request : hub_->requests()) EXPECT_THAT(request.target, Not(HasSubstr("/revision/")));
}

TEST_F(PullTest, EscapesRevisionsAndNames) {
  hub().add("model with space & #.safetensors", "x");
  PullOptions wanted = options("org/name@refs/pr/1");
  wanted.include = {"*space*"};
  EXPECT_THAT([&] { pull(wanted, seen_, stop_); }, ThrowsMessage<InputError>(HasSubstr("no model")));
  std::vector<std::string> targets;
  for (const Request& request : hub_->requests()) targets.push_back(request.target);
  EXPECT_THAT(targets, Contains("/api/models/org/name/revision/refs%2Fpr%2F1"));
  EXPECT_THAT(targets, Contains(HasSubstr("/model%20with%20space%20%26%20%23.safetensors")));
}

TEST_F(PullTest, DownloadsFilesOfOneContentOnce) {
  hub().add("generation_config.json", config_);
  const fs::path snapshot = pull_model();
  EXPECT_EQ(content_of(snapshot / "generation_config.json"), config_);
  EXPECT_EQ(seen_.plan.files.size(), 3U);
}

TEST_F(PullTest, RefusesWhenOffline) {
  hub();
  PullOptions offline = options();
  offline.access.offline = true;
  EXPECT_THAT([&] { pull(offline, seen_, stop_); },
              ThrowsMessage<InputError>(HasSubstr("HF_HUB_OFFLINE is set")));
  EXPECT_THAT(hub_->requests(), IsEmpty());
}

TEST(HubAccess, ReadsTheEnvironmentOfThePythonClient) {
  const TemporaryFolder folder;
  folder.write("token", "hf_file\n");
  for (const char* const name :
       {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT", "HF_HUB_OFFLINE"})
    unsetenv(name);
  setenv("HF_HOME", folder.path().c_str(), 1);
  EXPECT_EQ(HubAccess::from_environment().token, "hf_file");
  EXPECT_EQ(HubAccess::from_environment().endpoint, "https://huggingface.co");
  setenv("HF_TOKEN", " hf_variable\n", 1);
  setenv("HF_ENDPOINT", "https://mirror.example/", 1);
  setenv("HF_HUB_OFFLINE", "yes", 1);
  EXPECT_EQ(HubAccess::from_environment().token, "hf_variable");
  EXPECT_EQ(HubAccess::from_environment().endpoint, "https://mirror.example");
  EXPECT_TRUE(HubAccess::from_environment().offline);
  setenv("HF_TOKEN", "hf_a\r\nHost: elsewhere", 1);
  EXPECT_THROW(HubAccess::from_environment(), InputError);
  unsetenv("HF_TOKEN");
  setenv("HF_ENDPOINT", "file:///etc", 1);
  EXPECT_THAT([] { HubAccess::from_environment(); },
              ThrowsMessage<InputError>(HasSubstr("begins with https://")));
  for (const char* const name : {"HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE"}) unsetenv(name);
}

}  // namespace
}  // namespace lacuna::pull_test
