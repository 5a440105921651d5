#include "server/access.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "server/api_error.h"
#include "temporary_folder.h"

namespace lacuna::access_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

HttpRequest request_with(const std::string& host, const std::string& origin = "") {
  return {"POST", "/v1/completions", "", "", host, origin, "127.0.0.1"};
}

/// The status that a check fails with; 200: it passes.
template <typename Check>
int status_of(const Check& check) {
  try {
    check();
  } catch (const ApiError& error) {
    return error.status();
  }
  return 200;
}

int site_status(const AccessRules& rules, const HttpRequest& request) {
  return status_of([&] { AccessControl(rules).check_site(request); });
}

TEST(AccessControl, RefusesHostNamesThatMayBeRebound) {
  AccessRules rules;
  rules.allowed_hosts = {"box.example"};
  for (const char* host : {"", "localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:8080", "[::1]",
                           "192.168.1.5:80", "a.localhost", "box.example:8080"}) {
    EXPECT_EQ(site_status(rules, request_with(host)), 200) << host;
  }
  for (const char* host :
       {"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "[",
        "notlocalhost", "[::1]evil.example", "localhost:80@evil.example", "localhost:80:evil.example"}) {
    EXPECT_EQ(site_status(rules, request_with(host)), 403) << host;
  }
}

TEST(AccessControl, RefusesPagesOfOtherOrigins) {
  const AccessRules closed;
  EXPECT_EQ(site_status(closed, request_with("localhost:8080", "http://localhost:8080")), 200);
  for (const char* origin :
       {"http://localhost:8081", "https://localhost:8080", "https://evil.example", "null"}) {
    EXPECT_EQ(site_status(closed, request_with("localhost:8080", origin)), 403) << origin;
  }
  AccessRules open;
  open.allowed_origins = {"https://app.example"};
  EXPECT_EQ(site_status(open, request_with("localhost", "https://app.example")), 200);
  EXPECT_EQ(site_status(open, request_with("localhost", "https://evil.example")), 403);
  open.allowed_origins = {"*"};
  EXPECT_EQ(site_status(open, request_with("localhost", "https://evil.example")), 200);
}

TEST(AccessControl, NamesTheOriginsThatMayReadReplies) {
  const auto origin_of = [](const AccessRules& rules, const std::string& origin) {
    return AccessControl(rules).allow_origin(request_with("localhost", origin));
  };
  AccessRules rules;
  EXPECT_EQ(origin_of(rules, "https://evil.example"), "");
  rules.keys = {"secret"};
  EXPECT_EQ(origin_of(rules, "https://app.example"), "*");
  rules.allowed_origins = {"https://app.example"};
  EXPECT_EQ(origin_of(rules, "https://app.example"), "https://app.example");
  EXPECT_EQ(origin_of(rules, "https://evil.example"), "");
}

TEST(AccessControl, KnowsClientsByKeyOrAddress) {
  AccessRules rules;
  HttpRequest request = request_with("localhost");
  EXPECT_EQ(AccessControl(rules).identify(request), "127.0.0.1");
  rules.keys = {"first", "second"};
  const AccessControl access(rules);
  EXPECT_EQ(status_of([&] { access.identify(request); }), 401);
  for (const char* wrong :
       {"Bearer ", "Bearer firs", "Bearer firstfirst", "Basic first", "first", "Bearer third"}) {
    request.authorization = wrong;
    EXPECT_EQ(status_of([&] { access.identify(request); }), 401) << wrong;
  }
  request.authorization = "Bearer first";
  const std::string first = access.identify(request);
  request.authorization = "Bearer second";
  EXPECT_NE(access.identify(request), first);
}

TEST(AccessControl, LimitsTheRequestsOfAMinute) {
  AccessRules rules;
  rules.requests_per_minute = 2;
  AccessControl access(rules);
  access.count("one");
  access.count("one");
  EXPECT_EQ(status_of([&] { access.count("one"); }), 429);
  EXPECT_EQ(status_of([&] { access.count("other"); }), 200);
}

TEST(AccessControl, KeepsItsCountsWhereMoreClientsAskThanItCountsOneByOne) {
  AccessRules rules;
  rules.requests_per_minute = 2;
  AccessControl access(rules);
  access.count("early");
  access.count("early");
  for (int i = 0; i < 80'000; ++i) access.count(fmt::format("client {}", i));
  EXPECT_EQ(status_of([&] { access.count("early"); }), 429);
  EXPECT_EQ(status_of([&] { access.count("late"); }), 200);
  EXPECT_EQ(status_of([&] { access.count("late"); }), 200);
  EXPECT_EQ(status_of([&] { access.count("late"); }), 429);
}

TEST(AccessControl, ReadsKeysFromAFile) {
  const TemporaryFolder folder;
  folder.write("keys", "# of the team\n\n  first \r\nsecond");
  EXPECT_THAT(read_keys((folder.path() / "keys").string()), ElementsAre("first", "second"));
  folder.write("none", "# nothing\n");
  EXPECT_THROW(read_keys((folder.path() / "none").string()), InputError);
  EXPECT_THROW(read_keys((folder.path() / "missing").string()), InputError);
  EXPECT_THROW(read_keys("/dev/zero"), InputError);
}

TEST(AccessControl, KnowsLoopbackAddresses) {
  for (const char* host : {"localhost", "127.0.0.1", "127.5.0.1", "::1"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "example.org", ""})
    EXPECT_FALSE(is_loopback(host)) << host;
}

TEST(AccessControl, TakesAKeyInEitherHeader) {
  AccessRules rules;
  rules.keys = {"secret"};
  const AccessControl access(rules);
  HttpRequest request = request_with("localhost");
  const auto status = [&] { return status_of([&] { (void)access.identify(request); }); };
  EXPECT_EQ(status(), 401);
  request.api_key = "secret";
  EXPECT_EQ(status(), 200);
  request.authorization = "Bearer wrong";
  EXPECT_EQ(status(), 401);
}

TEST(AdmitHeaders, AdmitsWhatClientsSend) {
  const std::string wanted =
      "authorization, content-type,X-Api-Key, anthropic-version , anthropic-dangerous-direct-browser-access, "
      "x-stainless-retry-count, openai-organization, x-request-id";
  const std::string admitted = admit_headers(wanted);
  for (const char* name : {"authorization", "X-Api-Key", "anthropic-dangerous-direct-browser-access",
                           "x-stainless-retry-count", "openai-organization"}) {
    EXPECT_THAT(admitted, HasSubstr(name));
  }
  EXPECT_EQ(admit_headers("authorization, cookie, x-stainlessly, a\r\nb"), "authorization");
  EXPECT_THAT(admit_headers(""), HasSubstr("Authorization"));
}

}  // namespace
}  // namespace lacuna::access_test
