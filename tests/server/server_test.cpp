#include "lacuna/server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace lacuna::server_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr const char* kQuestion = "Mia has 12 shells. She finds 5 more. How many shells does Mia have?";

ServerOptions options_for(std::vector<ServedModel> models) {
  ServerOptions options;
  for (ServedModel& each : models) {
    each.model = (std::filesystem::path(LACUNA_SOURCE_DIR) / "models" / each.model).string();
  }
  options.models = std::move(models);
  options.load.threads = 1;
  options.load.memory = int64_t{64} << 20;
  options.port = 0;
  return options;
}

/// Sends a request and reads until the connection is closed; "" where nobody listens.
std::string ask(uint16_t port, const std::string& head, const std::string& body = "") {
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string reply;
  if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request =
        fmt::format("{}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}", head,
                    body.size(), body);
    send(connection, request.data(), request.size(), MSG_NOSIGNAL);
    char bytes[4096];
    for (ssize_t count; (count = recv(connection, bytes, sizeof(bytes), 0)) > 0;) {
      reply.append(bytes, static_cast<size_t>(count));
    }
  }
  close(connection);
  return reply;
}

std::string completion(uint16_t port, const std::string& model, const std::string& key = "") {
  return ask(port,
             "POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json" +
                 (key.empty() ? "" : "\r\nAuthorization: Bearer " + key),
             fmt::format(R"({{"model": "{}", "messages": [{{"role": "user", "content": "{}"}}]}})", model,
                         kQuestion));
}

TEST(Server, AnswersOverHttpWithItsModelAndTellsTheLog) {
  ServerOptions options = options_for({{"mini-llada", "small"}});
  std::mutex mutex;
  std::string lines;
  options.log = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    lines += line;
  };
  Server server = Server::start(options);
  EXPECT_THAT(ask(server.port(), "GET /ready HTTP/1.1"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(completion(server.port(), "small"), HasSubstr("17"));
  EXPECT_THAT(ask(server.port(), "GET / HTTP/1.1"), HasSubstr("<html"));
  server.stop(0);
  EXPECT_THAT(lines, HasSubstr("\"/v1/chat/completions\""));
  EXPECT_EQ(ask(server.port(), "GET /ready HTTP/1.1"), "");
}

TEST(Server, LoadsSeveralModelsWhenTheyAreAskedFor) {
  ServerOptions options = options_for({{"mini-llada", "masked"}, {"mini-sdar", "blocks"}});
  options.page = false;
  options.defaults = {{"gen_length", int64_t{64}}};
  const Server server = Server::start(options);
  EXPECT_THAT(completion(server.port(), "blocks"), HasSubstr("17"));
  EXPECT_THAT(completion(server.port(), "masked"), HasSubstr("17"));
  EXPECT_THAT(completion(server.port(), "other"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask(server.port(), "GET / HTTP/1.1"), StartsWith("HTTP/1.1 404"));
}

TEST(Server, RequiresItsKey) {
  ServerOptions options = options_for({{"mini-llada", "small"}});
  options.api_keys = {"secret"};
  options.host = "0.0.0.0";
  const Server server = Server::start(options);
  EXPECT_THAT(completion(server.port(), "small"), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(completion(server.port(), "small", "secret"), StartsWith("HTTP/1.1 200"));
}

TEST(Server, EndsAWaitWhenAnotherThreadStopsIt) {
  Server server = Server::start(options_for({{"mini-llada", ""}}));
  std::thread other([&] { server.stop(1); });
  server.wait();
  other.join();
  server.stop();  // again, without effect
  Server moved = std::move(server);
  moved.wait();
}

TEST(Server, LetsARequestFinishWithinTheTimeOfItsDrain) {
  ServerOptions options = options_for({{"mini-llada", "small"}});
  Server server = Server::start(options);
  std::string reply;
  std::atomic<bool> has_reply = false;
  std::thread client([&] {
    reply = completion(server.port(), "small");
    has_reply = true;
  });
  while (ask(server.port(), "GET /metrics HTTP/1.1").find("lacuna_requests_running 1") == std::string::npos &&
         !has_reply) {
    std::this_thread::yield();
  }
  server.stop(60);
  client.join();
  EXPECT_THAT(reply, HasSubstr("17"));
}

TEST(Server, RefusesOptionsThatCannotBeUsed) {
  const auto refused = [](const auto& change) {
    ServerOptions options = options_for({{"mini-llada", "small"}});
    change(options);
    return [options] { Server::start(options); };
  };
  EXPECT_THAT(refused([](ServerOptions& options) { options.models.clear(); }),
              ThrowsMessage<Error>("models is empty; expected at least one model"));
  EXPECT_THAT(refused([](ServerOptions& options) { options.models.push_back(options.models.front()); }),
              ThrowsMessage<Error>("models has two models small; expected different names"));
  EXPECT_THAT(refused([](ServerOptions& options) { options.host = "0.0.0.0"; }),
              ThrowsMessage<Error>(HasSubstr("expected api_keys, or insecure = true")));
  EXPECT_THAT(refused([](ServerOptions& options) {
                options.api_keys = {"key", ""};
              }),
              ThrowsMessage<Error>(HasSubstr("api_keys has an empty key")));
  EXPECT_THAT(refused([](ServerOptions& options) { options.limits.max_connections = 0; }),
              ThrowsMessage<Error>("limits.max_connections is 0; expected 1 to 1048576"));
  EXPECT_THAT(refused([](ServerOptions& options) { options.load.threads = -1; }),
              ThrowsMessage<Error>("threads is -1; expected 0 to 1024"));
  EXPECT_THAT(refused([](ServerOptions& options) {
                options.defaults = {{"unmask", std::string("best")}};
              }),
              ThrowsMessage<Error>(StartsWith("unmask")));
  EXPECT_THAT(refused([](ServerOptions& options) {
                options.models.push_back({options.models.front().model, "second"});
                options.models_memory = 1 << 20;
              }),
              ThrowsMessage<Error>(HasSubstr("models_memory allows 1.0 MiB")));
  const Server first = Server::start(options_for({{"mini-llada", "small"}}));
  EXPECT_THAT(refused([&](ServerOptions& options) { options.port = first.port(); }),
              ThrowsMessage<Error>(HasSubstr(std::to_string(first.port()))));
}

}  // namespace
}  // namespace lacuna::server_test
