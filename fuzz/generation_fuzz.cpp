// The first byte names a model and the second one an endpoint; the rest is a body for it, which is answered
// to its end. Every reply is one that the API describes, and none says that the server is at fault.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.h"
#include "mutators.h"
#include "tiny_server.h"

namespace {

constexpr std::array<std::string_view, 14> kPaths = {"/v1/chat/completions",
                                                     "/v1/completions",
                                                     "/v1/responses",
                                                     "/v1/messages",
                                                     "/api/chat",
                                                     "/api/generate",
                                                     "/completion",
                                                     "/v1/infill",
                                                     "/v1/decisions",
                                                     "/v1/systemone",
                                                     "/tokenize",
                                                     "/detokenize",
                                                     "/api/show",
                                                     "/apply-template"};

/// Made when it is first asked for.
lacuna::Service& service_of(size_t number) {
  static const std::vector<lacuna::ModelConfig> configs = fuzz::tiny_text_configs();
  static std::vector<std::unique_ptr<fuzz::TinyServer>> servers(configs.size());
  std::unique_ptr<fuzz::TinyServer>& server = servers[number % servers.size()];
  if (!server) server = std::make_unique<fuzz::TinyServer>(configs[number % configs.size()]);
  return server->service();
}

void check_reply(int status, const lacuna::HttpReply::Head& head, const std::string& body) {
  constexpr std::string_view kTooSlow = "the request took longer than";
  const bool is_slow = body.find(kTooSlow) != std::string::npos;
  fuzz::check(status == 200 || status == 400 || status == 404 || status == 413 || (is_slow && status >= 500));
  fuzz::check(is_slow || body.find("\"server_error\"") == std::string::npos);
  if (!head.is_stream) fuzz::check(nlohmann::json::accept(body));
}

}  // namespace

LACUNA_FUZZ_MUTATOR(fuzz::mutate_json_after_two)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  lacuna::HttpRequest request;
  request.method = "POST";
  request.path = kPaths[data[1] % kPaths.size()];
  request.body = fuzz::text_of(data + 2, size - 2);
  lacuna::Call call(service_of(data[0]), std::move(request));
  const int status = call.status();
  check_reply(status, call.head(), call.body());
  return 0;
}
