#include "server/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/budget.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/api_error.h"

namespace lacuna::http_server_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A client that can do what no good one does.
class Client {
 public:
  explicit Client(uint16_t port) : Client(port, socket(AF_INET, SOCK_STREAM, 0)) {}
  /// Connects a socket that there is already.
  Client(uint16_t port, int socket) : socket_(socket) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_open_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Client() { hang_up(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// False where the server has closed.
  bool say(const std::string& text) {
    return is_open_ &&
           send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  void stop_talking() { shutdown(socket_, SHUT_WR); }
  void hang_up() {
    if (is_open_) close(socket_);
    is_open_ = false;
  }
  /// Bytes received until `end`, or until the server closes or is silent for a minute.
  std::string hear(const std::string& end = "") {
    std::string heard;
    for (;;) {
      if (!end.empty() && heard.find(end) != std::string::npos) return heard;
      pollfd wait{socket_, POLLIN, 0};
      if (poll(&wait, 1, 60000) <= 0) return heard + "(silence)";
      char buffer[65536];
      const ssize_t size = recv(socket_, buffer, sizeof(buffer), 0);
      if (size <= 0) return heard;
      heard.append(buffer, static_cast<size_t>(size));
    }
  }

 private:
  int socket_;
  bool is_open_ = false;
};

void echo(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  reply->send({200, "text/plain"}, request.method + " " + request.path + " " + request.body);
}

HttpLimits short_limits() {
  HttpLimits limits;
  limits.header_bytes = 2000;
  limits.body_bytes = 10000;
  limits.header_seconds = seconds(1);
  limits.body_seconds = seconds(1);
  limits.ping_every = milliseconds(100);
  return limits;
}

std::string post(const std::string& body, const std::string& headers = "") {
  return "POST /a?b=c HTTP/1.1\r\nHost: x\r\n" + headers + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

TEST(HttpServer, CarriesRequestsAndReplies) {
  const HttpServer server("127.0.0.1", 0, echo);
  Client client(server.port());
  ASSERT_TRUE(client.say(post("hello", "X-Request-Id: 7\r\n")));
  const std::string heard = client.hear("hello");
  EXPECT_THAT(heard, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(heard, HasSubstr("POST /a hello"));
  EXPECT_THAT(heard, HasSubstr("X-Request-Id: 7"));
  EXPECT_THAT(heard, Not(HasSubstr("Access-Control-Allow-Origin")));
  ASSERT_TRUE(client.say("GET /again HTTP/1.1\r\nHost: x\r\n\r\n"));  // the connection is kept
  EXPECT_THAT(client.hear("again"), HasSubstr("GET /again"));
}

/// The value of X-Request-Id in a reply.
std::string id_in(const std::string& heard) {
  const std::string name = "X-Request-Id: ";
  const size_t begin = heard.find(name);
  if (begin == std::string::npos) return "(none)";
  return heard.substr(begin + name.size(), heard.find("\r\n", begin) - begin - name.size());
}

TEST(HttpServer, NamesEveryRequestInItsReply) {
  const HttpServer server("127.0.0.1", 0, echo);
  std::vector<std::string> generated;
  for (const std::string id : {"", "two words", "\"quoted\"", "<script>"}) {
    Client client(server.port());
    ASSERT_TRUE(client.say(post("hello", id.empty() ? "" : "X-Request-Id: " + id + "\r\n")));
    generated.push_back(id_in(client.hear("hello")));
    EXPECT_THAT(generated.back(), StartsWith("req_"));
  }
  EXPECT_NE(generated[0], generated[1]);
  Client long_id(server.port());
  ASSERT_TRUE(long_id.say(post("hello", "X-Request-Id: " + std::string(129, 'a') + "\r\n")));
  EXPECT_THAT(id_in(long_id.hear("hello")), StartsWith("req_"));
  Client nonsense(server.port());
  ASSERT_TRUE(nonsense.say("nonsense\r\n\r\n"));
  EXPECT_THAT(id_in(nonsense.hear()), StartsWith("req_"));
}

/// Records of requests, as the log gets them.
class Records {
 public:
  HttpLog log() {
    return [this](const RequestRecord& record) {
      const std::lock_guard lock(mutex_);
      records_.push_back(record);
      changed_.notify_all();
    };
  }
  RequestRecord wait_for(size_t index) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return records_.size() > index; });
    return records_[index];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<RequestRecord> records_;
};

TEST(HttpServer, RecordsEveryRequestOnce) {
  Records records;
  std::vector<std::shared_ptr<HttpReply>> unanswered;
  const auto handler = [&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
    if (request.path == "/forgotten") return;
    if (request.path == "/never") {
      unanswered.push_back(reply);
      return;
    }
    reply->record({"tiny", 3, 4});
    reply->send({200, "text/plain"}, "ok");
  };
  const HttpServer server("127.0.0.1", 0, handler, short_limits(), {}, records.log());
  Client client(server.port());
  ASSERT_TRUE(client.say(post("hello", "X-Request-Id: mine\r\n")));
  client.hear("ok");
  const RequestRecord answered = records.wait_for(0);
  EXPECT_EQ(answered.id, "mine");
  EXPECT_EQ(answered.method + " " + answered.path, "POST /a");
  EXPECT_EQ(answered.status, 200);
  EXPECT_TRUE(answered.is_whole);
  ASSERT_TRUE(answered.answer);
  EXPECT_EQ(answered.answer->answer_tokens, 4);
  ASSERT_TRUE(client.say("GET /never HTTP/1.1\r\nHost: x\r\n\r\n"));
  client.hang_up();
  const RequestRecord gone = records.wait_for(1);
  EXPECT_EQ(gone.status, 499);
  EXPECT_FALSE(gone.is_whole);
  Client forgotten(server.port());
  ASSERT_TRUE(forgotten.say("GET /forgotten HTTP/1.1\r\nHost: x\r\n\r\n"));
  forgotten.hear();
  EXPECT_EQ(records.wait_for(2).status, 500);
  Client nonsense(server.port());
  ASSERT_TRUE(nonsense.say("nonsense\r\n\r\n"));
  nonsense.hear();
  EXPECT_EQ(records.wait_for(3).status, 400);
}

TEST(HttpServer, StreamsAndPingsWhileSilent) {
  std::atomic<bool> goes_on{false};
  const HttpServer server(
      "127.0.0.1", 0,
      [&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
        reply->begin_stream("text/event-stream");
        reply->write("data: one\n\n");
        std::thread([&goes_on, reply] {
          while (!goes_on) std::this_thread::sleep_for(milliseconds(1));
          reply->write("data: two\n\n");
          reply->end();
        }).detach();
      },
      short_limits());
  Client client(server.port());
  ASSERT_TRUE(client.say(post("")));
  EXPECT_THAT(client.hear(": ping\n\n"), HasSubstr("data: one\n\n"));
  goes_on = true;
  const std::string rest = client.hear("0\r\n\r\n");
  EXPECT_THAT(rest, HasSubstr("data: two\n\n"));
}

TEST(HttpServer, AddsNothingToASilentStreamOfLines) {
  const HttpServer server(
      "127.0.0.1", 0,
      [&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
        reply->begin_stream("application/x-ndjson");
        reply->write("{}\n");
        std::thread([reply] {
          std::this_thread::sleep_for(5 * short_limits().ping_every);
          reply->write("[]\n");
          reply->end();
        }).detach();
      },
      short_limits());
  Client client(server.port());
  ASSERT_TRUE(client.say(post("")));
  EXPECT_THAT(client.hear("0\r\n\r\n"), EndsWith("3\r\n{}\n\r\n3\r\n[]\n\r\n0\r\n\r\n"));
}

TEST(HttpServer, ClosesTheConnectionOfAReplyThatIsAbandoned) {
  std::promise<int> status;
  HttpServer server(
      "127.0.0.1", 0, [](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) { reply->abandon(); },
      {}, {}, [&](const RequestRecord& record) { status.set_value(record.status); });
  Client client(server.port());
  client.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.hear(), "");
  EXPECT_EQ(status.get_future().get(), 500);
}

TEST(HttpServer, NoticesThatAClientHasGone) {
  for (const bool only_half : {false, true}) {
    std::atomic<int> gone{0};
    const HttpServer server("127.0.0.1", 0, [&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
      reply->when_closed([&gone] { ++gone; });
      reply->begin_stream("text/event-stream");
      reply->write("data: one\n\n");
    });
    Client client(server.port());
    ASSERT_TRUE(client.say(post("")));
    client.hear("one");
    if (only_half) {
      client.stop_talking();
    } else {
      client.hang_up();
    }
    const Stopwatch clock;
    while (gone == 0 && clock.seconds() < 60) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(gone, 1) << only_half;
  }
}

TEST(HttpServer, NoticesThatAClientHasGoneWhichSentMore) {
  std::atomic<int> gone{0};
  const HttpServer server("127.0.0.1", 0, [&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
    reply->when_closed([&gone] { ++gone; });
    reply->begin_stream("text/event-stream");
    reply->write("data: one\n\n");
  });
  Client client(server.port());
  ASSERT_TRUE(client.say(post("") + "G"));
  client.hear("one");
  client.stop_talking();
  const Stopwatch clock;
  while (gone == 0 && clock.seconds() < 20) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(gone, 1);
}

/// Whether a stream that its client does not read is closed, where its handler rests between writes.
bool ends_unread_stream(size_t stream_bytes, milliseconds rest) {
  std::atomic<bool> is_closed{false};
  HttpLimits limits = short_limits();
  limits.stream_bytes = stream_bytes;
  const HttpServer server(
      "127.0.0.1", 0,
      [&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
        reply->when_closed([&] { is_closed = true; });
        reply->begin_stream("text/event-stream");
        const std::string data(1 << 16, 'a');
        for (const Stopwatch clock; !is_closed && clock.seconds() < 20;) {
          reply->write(data);
          std::this_thread::sleep_for(rest);
        }
      },
      limits);
  Client client(server.port());
  client.say(post(""));
  for (const Stopwatch clock; !is_closed && clock.seconds() < 20;) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  return is_closed;
}

TEST(HttpServer, EndsStreamsThatAreNotRead) {
  EXPECT_TRUE(ends_unread_stream(1 << 20, milliseconds(0)));
}

// Slowly enough that a write waits for the client before the limit is passed.
TEST(HttpServer, EndsStreamsThatAreNotReadWhileTheyAreWritten) {
  EXPECT_TRUE(ends_unread_stream(256 << 10, milliseconds(2)));
}

TEST(HttpServer, AnswersGetWhileAllHandlersOfPostAreBusy) {
  std::atomic<bool> goes_on{false};
  const HttpServer server("127.0.0.1", 0,
                          [&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
                            while (request.method == "POST" && !goes_on) std::this_thread::yield();
                            echo(request, reply);
                          });
  Client busy[4]{Client(server.port()), Client(server.port()), Client(server.port()), Client(server.port())};
  for (Client& client : busy) ASSERT_TRUE(client.say(post("")));
  Client client(server.port());
  ASSERT_TRUE(client.say("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(client.hear("health"), HasSubstr("GET /health"));
  goes_on = true;
}

TEST(HttpServer, AnswersProbesWhileAllHandlersAreBusy) {
  std::atomic<bool> goes_on{false};
  const HttpServer server("127.0.0.1", 0,
                          [&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
                            while (request.path != "/health" && !goes_on) std::this_thread::yield();
                            echo(request, reply);
                          });
  std::vector<std::unique_ptr<Client>> busy;
  for (int i = 0; i < 40; ++i) {
    busy.push_back(std::make_unique<Client>(server.port()));
    ASSERT_TRUE(busy.back()->say(i % 2 == 0 ? post("") : "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"));
  }
  Client client(server.port());
  ASSERT_TRUE(client.say("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(client.hear("GET /health"), HasSubstr("GET /health"));
  goes_on = true;
}

/// A handler that works until its Budget ends that, and says how it ended.
class EndlessHandler {
 public:
  void operator()(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
    if (request.path == "/short") return echo(request, reply);
    ++num_begun;
    try {
      for (;;) spend_steps(100);
    } catch (const WorkCancelled& cancelled) {
      reply->send({503, "text/plain"}, cancelled.what());
      ++num_ended;
    } catch (const ApiError&) {  // of the pool: more long work than may wait
      ++num_refused;
      throw;
    }
  }

  static bool reaches(const std::atomic<int>& count, int wanted) {
    const Stopwatch clock;
    while (count < wanted && clock.seconds() < 60) std::this_thread::sleep_for(milliseconds(1));
    return count == wanted;
  }

  std::atomic<int> num_begun{0};
  std::atomic<int> num_ended{0};
  std::atomic<int> num_refused{0};
};

TEST(HttpServer, EndsTheWorkForAClientThatHasGone) {
  EndlessHandler handler;
  const HttpServer server("127.0.0.1", 0, std::ref(handler));
  for (int i = 1; i <= kHandlerThreads + 1; ++i) {  // otherwise the last would never begin
    Client client(server.port());
    ASSERT_TRUE(client.say(post("")));
    ASSERT_TRUE(EndlessHandler::reaches(handler.num_begun, i));
    client.hang_up();
    EXPECT_TRUE(EndlessHandler::reaches(handler.num_ended, i));
  }
  Client client(server.port());
  ASSERT_TRUE(client.say("POST /short HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_THAT(client.hear("/short"), HasSubstr("200"));
}

TEST(HttpServer, EndsTheWorkThatTakesTooLong) {
  EndlessHandler handler;
  HttpLimits limits;
  limits.work_time = milliseconds(20);
  const HttpServer server("127.0.0.1", 0, std::ref(handler), limits);
  Client client(server.port());
  ASSERT_TRUE(client.say(post("")));
  EXPECT_THAT(client.hear("is over"), HasSubstr("503"));
}

TEST(HttpServer, EndsAllWorkWhenItStopsAndTellsTheClients) {
  EndlessHandler handler;
  HttpServer server("127.0.0.1", 0, std::ref(handler));
  std::vector<std::unique_ptr<Client>> clients;
  const int num_clients = HandlerLimits().long_jobs + HandlerLimits().waiting_long_jobs;  // none is refused
  for (int i = 0; i < num_clients; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    ASSERT_TRUE(clients.back()->say(post("")));
  }
  ASSERT_TRUE(EndlessHandler::reaches(handler.num_begun, num_clients));
  server.stop(seconds(60));
  EXPECT_EQ(handler.num_ended, handler.num_begun);
  EXPECT_THAT(clients[0]->hear("cancelled"), HasSubstr("503"));
}

TEST(HttpServer, AnswersAShortRequestWhileAsManyEndlessOnesAsThreadsWereSent) {
  EndlessHandler handler;
  HttpServer server("127.0.0.1", 0, std::ref(handler));
  const int num_kept = HandlerLimits().long_jobs + HandlerLimits().waiting_long_jobs;
  const int num_refused = 2 * kHandlerThreads - num_kept;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 2 * kHandlerThreads; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    ASSERT_TRUE(clients.back()->say(post("")));
  }
  // Those refused made room for the last to begin; until it is refused, too, it is one that a stop would end.
  ASSERT_TRUE(EndlessHandler::reaches(handler.num_refused, num_refused));
  Client honest(server.port());
  ASSERT_TRUE(honest.say("POST /short HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_THAT(honest.hear("/short"), HasSubstr("200"));
  EXPECT_EQ(handler.num_ended, 0);
  server.stop(seconds(60));
  EXPECT_EQ(handler.num_ended, num_kept);
  int num_told = 0;
  for (const std::unique_ptr<Client>& client : clients) {
    const std::string heard = client->hear();
    EXPECT_THAT(heard, HasSubstr("Retry-After: "));
    if (heard.find("take much work") != std::string::npos) ++num_told;
  }
  EXPECT_EQ(num_told, num_refused);
}

TEST(HttpServer, RefusesRequestsThatWaitForTooLong) {
  HttpLimits limits;
  limits.handlers.waiting_jobs = 2;
  std::atomic<bool> goes_on{false};
  const HttpServer server(
      "127.0.0.1", 0,
      [&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
        while (!goes_on) std::this_thread::yield();
        echo(request, reply);
      },
      limits);
  std::atomic<int> num_refused{0}, num_answered{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < kHandlerThreads + 3; ++i) {  // in any order; threads may begin some after the next come
    clients.emplace_back([&] {
      Client client(server.port());
      EXPECT_TRUE(client.say(post("a", "Connection: close\r\n")));
      const std::string heard = client.hear();
      if (heard.find("to read this request now") != std::string::npos) ++num_refused;
      if (heard.find("200 OK") != std::string::npos) ++num_answered;
    });
  }
  for (const Stopwatch clock; num_refused == 0 && clock.seconds() < 60;) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  goes_on = true;
  for (std::thread& client : clients) client.join();
  EXPECT_GE(num_refused, 1);
  EXPECT_EQ(num_refused + num_answered, kHandlerThreads + 3);
}

TEST(HttpServer, RefusesWhatTakesMemoryThatThereIsNot) {
  std::atomic<int64_t> free{MemoryGuard::kReserve + (1 << 20)};
  HttpLimits limits;
  limits.free_memory = [&] { return free.load(); };
  const HttpServer server(
      "127.0.0.1", 0,
      [&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
        if (request.path == "/long") return reply->send({200, "text/plain"}, std::string(2 << 20, 'a'));
        if (request.body == "works") free = 0;
        for (const Stopwatch clock; request.body == "works" && clock.seconds() < 60;) spend_steps(1 << 14);
        echo(request, reply);
      },
      limits);
  const auto ask = [&](const std::string& body, const std::string& path = "/a") {
    Client client(server.port());
    EXPECT_TRUE(client.say("POST " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
                           std::to_string(body.size()) + "\r\n\r\n" + body));
    return client.hear();
  };
  EXPECT_THAT(ask(std::string(25 << 10, 'a')), HasSubstr("200 OK"));
  EXPECT_THAT(ask(std::string(200 << 10, 'a')), HasSubstr("503"));  // too much as JSON
  EXPECT_THAT(ask("", "/long"), HasSubstr("503"));
  EXPECT_THAT(ask("works"), HasSubstr("has no memory for this request"));
  EXPECT_THAT(ask("short"), HasSubstr("200 OK"));
}

TEST(HttpServer, GoesOnWithARequestOnItsOwnThreads) {
  std::thread loader;
  std::atomic<bool> has_budget{false};
  std::thread::id worked_on;
  {
    const HttpServer server("127.0.0.1", 0,
                            [&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
                              loader = std::thread([&, request, reply] {
                                reply->work_later([&, request, reply] {
                                  has_budget = Budget::current() != nullptr;
                                  worked_on = std::this_thread::get_id();
                                  echo(request, reply);
                                });
                              });
                            });
    Client client(server.port());
    ASSERT_TRUE(client.say(post("later")));
    EXPECT_THAT(client.hear("later"), HasSubstr("200"));
  }
  EXPECT_TRUE(has_budget);
  EXPECT_NE(worked_on, loader.get_id());
  loader.join();
}

TEST(HttpServer, AnswersProbesWhereTheProcessMayOpenNoMoreFiles) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<int> all;
  {
    const HttpServer server("127.0.0.1", 0, echo);
    Client waits(server.port());
    ASSERT_TRUE(waits.say("POST / HTTP/1.1\r\n"));  // never whole
    Client answered(server.port());
    ASSERT_TRUE(answered.say(post("once")));
    EXPECT_THAT(answered.hear("once"), HasSubstr("200"));
    const int late = socket(AF_INET, SOCK_STREAM, 0);
    rlimit low = before;
    low.rlim_cur = static_cast<rlim_t>(late) + 1;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int each = ::dup(late); each >= 0; each = ::dup(late)) all.push_back(each);
    Client probe(server.port(), late);
    ASSERT_TRUE(probe.say("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"));
    EXPECT_THAT(probe.hear("GET /health"), HasSubstr("GET /health"));
    EXPECT_EQ(waits.hear(), "");  // it gave its place
    ::setrlimit(RLIMIT_NOFILE, &before);
  }
  for (const int each : all) ::close(each);
}

TEST(HttpServer, AnswersProbesWhereAllConnectionsAreTaken) {
  std::atomic<bool> goes_on{false};
  HttpLimits limits;
  limits.connections = 32;
  const HttpServer server(
      "127.0.0.1", 0,
      [&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
        while (request.path != "/health" && !goes_on) std::this_thread::yield();
        echo(request, reply);
      },
      limits);
  EXPECT_EQ(server.max_connections(), 32U);
  std::vector<std::unique_ptr<Client>> busy;
  for (size_t i = 0; i < limits.connections; ++i) {
    busy.push_back(std::make_unique<Client>(server.port()));
    ASSERT_TRUE(busy.back()->say(post("")));
  }
  std::string heard;
  const Stopwatch clock;
  while (heard.find("503") == std::string::npos && clock.seconds() < 60) {  // until all were read
    Client other(server.port());
    other.say("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    std::this_thread::sleep_for(milliseconds(5));
    other.stop_talking();
    heard = other.hear("later");
  }
  EXPECT_THAT(heard, HasSubstr("too many connections"));
  Client probe(server.port());
  ASSERT_TRUE(probe.say("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(probe.hear("GET /health"), HasSubstr("200"));
  goes_on = true;
}

TEST(HttpServer, StopsWhileRepliesAreWritten) {
  std::atomic<bool> goes_on{true};
  std::atomic<int> closed{0};
  std::thread writer;
  {
    HttpServer server("127.0.0.1", 0, [&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
      reply->when_closed([&closed] { ++closed; });
      reply->begin_stream("text/event-stream");
      writer = std::thread([&goes_on, reply] {
        while (goes_on) reply->write(": comment\n\n");
        reply->end();
      });
    });
    Client client(server.port());
    ASSERT_TRUE(client.say(post("")));
    client.hear("comment");
    server.stop(milliseconds(10));
    EXPECT_EQ(closed, 1);
    server.stop();
  }
  goes_on = false;
  writer.join();
}

TEST(HttpServer, RefusesConnectionsOnceItHasStoppedEvenIfItsThreadWasBusy) {
  std::promise<void> is_busy;
  HttpServer server("127.0.0.1", 0, echo, {}, [&](const HttpRequest&) -> std::optional<HttpRefusal> {
    is_busy.set_value();
    std::this_thread::sleep_for(milliseconds(300));  // the server is stopped meanwhile
    return {};
  });
  Client client(server.port());
  ASSERT_TRUE(client.say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"));
  is_busy.get_future().wait();
  server.stop();
  EXPECT_FALSE(Client(server.port()).say("GET / HTTP/1.1\r\n\r\n"));
}

TEST(HttpServer, WaitsForRepliesThatAreAboutToBeWritten) {
  HttpServer server("127.0.0.1", 0, [&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
    std::thread([reply] {
      std::this_thread::sleep_for(milliseconds(50));
      reply->send({200, "text/plain"}, "the last");
    }).detach();
  });
  Client client(server.port());
  ASSERT_TRUE(client.say(post("")));
  std::this_thread::sleep_for(milliseconds(20));
  server.stop(seconds(20));
  EXPECT_THAT(client.hear(), HasSubstr("the last"));
}

TEST(HttpServer, NeedsOneHostAndKnowsOneTransferEncoding) {
  const HttpServer server("127.0.0.1", 0, echo, short_limits());
  for (const char* headers :
       {"", "Host: a\r\nHost: b\r\n", "Host: a\r\nTransfer-Encoding: identity\r\n",
        "Host: a\r\nTransfer-Encoding: gzip, chunked\r\n", "Host: a\r\nTransfer-Encoding: Chunked\r\n",
        "Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"}) {
    Client client(server.port());
    client.say("POST / HTTP/1.1\r\n" + std::string(headers) + "\r\n0\r\n\r\n");
    const std::string heard = client.hear();
    EXPECT_THAT(heard, StartsWith("HTTP/1.1 400")) << headers;
    EXPECT_THAT(heard, HasSubstr("Connection: close")) << headers;
  }
  Client old(server.port());
  old.say("GET / HTTP/1.0\r\n\r\n");
  EXPECT_THAT(old.hear(), StartsWith("HTTP/1.0 200"));
}

TEST(HttpServer, NoticesThatAClientHasGoneBehindAFullWindow) {
  std::atomic<int> gone{0};
  const HttpServer server("127.0.0.1", 0, [&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
    reply->when_closed([&gone] { ++gone; });
    reply->begin_stream("text/event-stream");
    reply->write("data: one\n\n");
  });
  Client client(server.port());
  ASSERT_TRUE(client.say(post("")));
  client.hear("one");
  ASSERT_TRUE(client.say(std::string(100'000, 'G')));  // more than may wait
  const Stopwatch clock;
  while (gone == 0 && clock.seconds() < 20) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(gone, 1);
}

TEST(HttpServer, GivesANewConnectionThePlaceOfTheOneThatWaitsLongest) {
  for (const bool by_address : {false, true}) {
    HttpLimits limits;
    (by_address ? limits.connections_per_address : limits.connections) = 2;
    const HttpServer server("127.0.0.1", 0, echo, limits);
    Client first(server.port()), second(server.port());
    first.say("POST / HTTP/1.1\r\n");  // not whole
    second.say(post("in"));
    EXPECT_THAT(second.hear("in"), HasSubstr("200"));
    Client third(server.port());
    third.say(post("in"));
    EXPECT_THAT(third.hear("in"), HasSubstr("200"));
    EXPECT_EQ(first.hear(), "") << by_address;
    second.say(post("out"));
    EXPECT_THAT(second.hear("out"), HasSubstr("200")) << by_address;
  }
}

TEST(HttpServer, ClosesANewConnectionWhereAllWaitForReplies) {
  std::atomic<bool> goes_on{false};
  HttpLimits limits;
  limits.connections = 1;
  const HttpServer server(
      "127.0.0.1", 0,
      [&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
        while (!goes_on) std::this_thread::yield();
        echo(request, reply);
      },
      limits);
  Client first(server.port());
  first.say("GET /first HTTP/1.1\r\nHost: x\r\n\r\n");
  std::string heard = "none";
  const Stopwatch clock;
  while (!heard.empty() && clock.seconds() < 20) {  // until the request of the first was read
    Client next(server.port());
    next.say("GET /next HTTP/1.1\r\n");
    std::this_thread::sleep_for(milliseconds(5));
    heard = next.say("more") ? "open" : "";
  }
  goes_on = true;
  EXPECT_THAT(first.hear("first"), HasSubstr("200"));
}

TEST(HttpServer, ReadsNoMoreBodiesThanItMay) {
  for (const bool by_address : {false, true}) {
    std::atomic<bool> is_read{false};
    std::atomic<bool> goes_on{false};
    HttpLimits limits = short_limits();
    (by_address ? limits.body_bytes_per_address : limits.all_body_bytes) = 10000;
    limits.body_seconds = seconds(30);
    const HttpServer server(
        "127.0.0.1", 0,
        [&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
          is_read = true;
          while (!goes_on) std::this_thread::yield();
          echo(request, reply);
        },
        limits);
    Client told(server.port());  // a length alone holds nothing
    told.say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n");
    Client first(server.port());
    first.say(post(std::string(9000, 'b')));
    while (!is_read) std::this_thread::yield();
    Client second(server.port());
    second.say(post(std::string(2000, 'a')));
    EXPECT_THAT(second.hear(), StartsWith("HTTP/1.1 503"));
    goes_on = true;
    EXPECT_THAT(first.hear("bbb"), HasSubstr("200 OK"));
    Client third(server.port());
    third.say(post("in"));
    EXPECT_THAT(third.hear("in"), HasSubstr("200"));
  }
}

TEST(HttpServer, AsksBeforeItReadsALongBody) {
  const HttpServer server("127.0.0.1", 0, echo, {},
                          [](const HttpRequest& head) -> std::optional<HttpRefusal> {
                            if (head.authorization == "Bearer key") return {};
                            return HttpRefusal{401, "no key"};
                          });
  Client unknown(server.port());
  unknown.say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_THAT(unknown.hear(), StartsWith("HTTP/1.1 401"));
  Client known(server.port());
  const std::string body(100'000, 'a');
  known.say("POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key\r\nContent-Length: 100000\r\n\r\n" +
            body);
  EXPECT_THAT(known.hear(body), HasSubstr("200 OK"));
}

TEST(HttpServer, RefusesWhatIsTooLong) {
  const HttpServer server("127.0.0.1", 0, echo, short_limits());
  Client body(server.port());
  body.say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n");
  EXPECT_THAT(body.hear(), StartsWith("HTTP/1.1 413"));
  Client chunked(server.port());
  chunked.say("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4e20\r\n" +
              std::string(20000, 'a'));
  EXPECT_THAT(chunked.hear(), StartsWith("HTTP/1.1 413"));
  Client header(server.port());
  header.say("GET / HTTP/1.1\r\nA: " + std::string(4000, 'a') + "\r\n\r\n");
  EXPECT_THAT(header.hear(), StartsWith("HTTP/1.1 431"));
  Client flood(server.port());
  bool is_open = flood.say("GET / HTTP/1.1\r\n");
  const Stopwatch clock;
  while (is_open && clock.seconds() < 60) is_open = flood.say("A: " + std::string(1000, 'b') + "\r\n");
  EXPECT_FALSE(is_open);
  Client after(server.port());
  after.say(post("still there"));
  EXPECT_THAT(after.hear("there"), HasSubstr("still there"));
}

TEST(HttpServer, RefusesWhatIsNotHttp) {
  const HttpServer server("127.0.0.1", 0, echo, short_limits());
  for (const std::string& nonsense :
       {std::string("nonsense\r\n\r\n"), std::string("GET / HTTP/9.9\r\n\r\n"),
        std::string("\0\x01\x02\xFF\r\n\r\n", 8),
        std::string("POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc")}) {
    Client client(server.port());
    client.say(nonsense);
    EXPECT_THAT(client.hear(), StartsWith("HTTP/1.1 400")) << nonsense;
  }
}

TEST(HttpServer, DoesNotWaitForSlowClients) {
  const HttpServer server("127.0.0.1", 0, echo, short_limits());
  Client silent(server.port());
  Client slow(server.port());
  Client slow_body(server.port());
  slow.say("POST / HTTP/1.1\r\n");
  slow_body.say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(slow.hear(), "");
  EXPECT_EQ(slow_body.hear(), "");
  EXPECT_EQ(silent.hear(), "");
}

TEST(HttpServer, SaysWhyItCannotListen) {
  const HttpServer server("127.0.0.1", 0, echo);
  EXPECT_THROW(HttpServer("127.0.0.1", server.port(), echo), InputError);
  EXPECT_THROW(HttpServer("no such host", 0, echo), InputError);
}

}  // namespace
}  // namespace lacuna::http_server_test
