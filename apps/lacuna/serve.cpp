#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"
#include "commands.h"
#include "generation_flags.h"
#include "lacuna/version.h"
#include "served_models.h"
#include "server/api_request.h"
#include "server/descriptors.h"
#include "server/model_server.h"
#include "server/page/page.h"
#include "server/request_log.h"
#include "terminal.h"
#include "words.h"

namespace lacuna {
namespace {

struct ServeFlags : ServedModelFlags {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::vector<std::string> api_keys;
  std::string api_key_file;
  bool insecure = false;
  bool strict_fields = false;
  std::vector<std::string> allowed_origins;
  std::vector<std::string> allowed_hosts;
  int32_t requests_per_minute = 0;
  double drain_seconds = 10;
  HttpLimits http;
  std::string log_format = "text";
  double audit = 0;
};

std::array<int, 2> stop_pipe = {-1, -1};  // read and write end; holds a byte for each stop signal
std::atomic<bool> is_loaded{false};

/// API keys, allowed origins and rate limits. Throws InputError if the address is public and no key is
/// required.
AccessRules access_rules(const ServeFlags& flags) {
  AccessRules rules;
  rules.keys = flags.api_keys;
  const char* const variable = std::getenv("LACUNA_API_KEY");
  const bool is_empty = variable != nullptr && *variable == '\0' && rules.keys.empty();
  if (is_empty || std::find(rules.keys.begin(), rules.keys.end(), "") != rules.keys.end()) {
    throw InputError("--api-key is empty; expected a key, or leave the flag and LACUNA_API_KEY out");
  }
  if (!flags.api_key_file.empty()) {
    for (std::string& key : read_keys(flags.api_key_file)) rules.keys.push_back(std::move(key));
  }
  if (rules.keys.empty() && !flags.insecure && !is_loopback(flags.host)) {
    throw InputError(
        "--host {} lets other machines ask, and no key is required; expected --api-key, --api-key-file or "
        "--insecure",
        flags.host);
  }
  rules.allowed_origins = flags.allowed_origins;
  rules.allowed_hosts = flags.allowed_hosts;
  rules.allowed_hosts.push_back(flags.host);
  rules.requests_per_minute = flags.requests_per_minute;
  return rules;
}

/// The settings of --audit; warns about promises of the preset that it cannot check.
AuditSettings audit_settings(const ServeFlags& flags, const ServedModels& served) {
  AuditSettings audit{flags.audit, served.preset,
                      [](const std::string& sentence) { print_message("lacuna: {}\n", sentence); }};
  if (flags.audit == 0) return audit;
  if (served.models.size() > 1) {
    throw InputError(
        "--audit has no effect here: it requires a single --model, which alone decides when the server is "
        "idle");
  }
  const std::string loss = served.preset ? served.preset->certificate.loss : "changed-answer";
  if (loss == "wrong-answer" || loss == "kl") {
    print_message(
        "lacuna: --audit counts changed answers, and preset {} promises another loss, {}: there will be "
        "no alert\n",
        served.preset->name, loss);
  }
  return audit;
}

/// Waits for a stop signal; returns false after `most`. Negative: no time-out.
bool wait_for_signal(std::chrono::milliseconds most) {
  pollfd watched{stop_pipe[0], POLLIN, 0};
  char byte = 0;
  return ::poll(&watched, 1, static_cast<int>(most.count())) > 0 && ::read(stop_pipe[0], &byte, 1) == 1;
}

/// Waits up to `seconds` for running requests, then fails them. A second signal ends the wait.
void drain(ModelServer& server, double seconds) {
  server.begin_drain();
  const Stopwatch clock;
  constexpr std::chrono::milliseconds kPoll{20};
  if (!server.is_idle() && seconds > 0) {
    print_message("stopping: requests that run may finish for {} s; a second signal ends them\n", seconds);
  }
  while (!server.is_idle() && clock.seconds() < seconds && !wait_for_signal(kPoll)) {
  }
  server.stop();
}

extern "C" void stop_serving(int /*signal*/) {
  if (!is_loaded) _exit(0);  // nothing is under way
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(stop_pipe[1], "s", 1);  // the pipe holds thousands
  errno = error;
}

void serve(ServeFlags flags) {
#ifdef __GLIBC__
  // K/V buffers are freed in any order. Separate mappings avoid fragmentation of the heap.
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  mallopt(M_ARENA_MAX, 4);  // each arena keeps its peak memory
#endif
  raise_descriptor_limit();
  // Report errors in the flags before the weights are read.
  report_busy_cores(flags.threads);
  ServedModels served = open_served_models(flags);
  ServiceSettings settings;
  settings.version = LACUNA_VERSION;
  settings.access = access_rules(flags);
  settings.defaults = served.defaults;
  settings.refuses_unknown_fields = flags.strict_fields;
  settings.files = page_files();
  settings.audit = audit_settings(flags, served);
  std::optional<RequestLog> log;
  if (const std::optional<LogFormat> format = log_format_named(flags.log_format)) {
    log.emplace(*format, STDERR_FILENO);
  }
  if (!open_pipe(stop_pipe)) throw InputError("The server cannot make a pipe: {}", std::strerror(errno));
  std::signal(SIGINT, stop_serving);
  std::signal(SIGTERM, stop_serving);
  std::signal(SIGPIPE, SIG_IGN);
  flags.http.work_time = work_time(flags.limits.request_seconds);
  ModelServer server(flags.host, flags.port, std::move(settings), flags.http,
                     [&](const RequestRecord& record) {
                       if (log) log->add(record);
                     });
  if (server.max_connections() < flags.http.connections) {
    print_message(
        "at most {} connections: this process may open no more files (ulimit -n), and --max-connections is "
        "{}\n",
        server.max_connections(), flags.http.connections);
  }
  const size_t num_models = served.models.size();
  server.start(std::move(served.models), served.limits);
  is_loaded = true;
  const std::string what =
      num_models == 1 ? flags.models.front() : fmt::format("{} models, loaded when asked for,", num_models);
  print_message("serving {} at http://{}:{}\n", what, flags.host, server.port());
  print_message(
      "at most {} MiB for requests that are read, {} MiB to parse them and {} MiB for replies that wait\n",
      flags.http.all_body_bytes >> 20, kHandlerThreads * kMemoryPerBodyByte * flags.http.body_bytes >> 20,
      flags.http.all_reply_bytes >> 20);
  while (!wait_for_signal(std::chrono::milliseconds(-1))) {
  }
  drain(server, flags.drain_seconds);
}

/// Lets environment variables set flags: LACUNA_MAX_RUNNING sets --max-running. A typed flag wins.
void add_environment(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty() || option->get_lnames().front() == "help") continue;
    std::string name = "LACUNA_" + option->get_lnames().front();
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char character) {
      return character == '-' ? '_' : static_cast<char>(std::toupper(character));
    });
    option->envname(name);
  }
}

}  // namespace

void add_serve_command(CLI::App& program) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = program.add_subcommand("serve", "Answer clients of OpenAI's protocol over HTTP");
  CLI::Option* const model = command->add_option(
      "-m,--model", flags->models,
      "Model as lacuna run takes it, or NAME=MODEL; repeatable: several are loaded when asked for");
  add_model_word(*command, *model->required()->take_all());
  add_loading_flags(*command, *flags);
  add_rank_job_flags(*command, flags->job, *flags);
  add_guide_flag(*command, flags->guide);
  const auto add = [&](const char* names, auto& field, const char* help) {
    return command->add_option(names, field, help)->group("Server");
  };
  add("--host", flags->host, "Address to listen on (default 127.0.0.1: this machine alone)");
  add("--port", flags->port, "Port; 0: any that is free (default 8080)");
  add("--api-key", flags->api_keys,
      "Key that clients must send as Authorization: Bearer KEY; repeatable (default: none)")
      ->take_all();
  add("--api-key-file", flags->api_key_file, "File of keys, one a line");
  command->add_flag("--insecure", flags->insecure, "Serve other machines although no key is required")
      ->group("Server");
  add("--allow-origin", flags->allowed_origins,
      "Origin of pages that may send requests, or * for all; repeatable (default: the server's own page)")
      ->take_all();
  add("--allow-host", flags->allowed_hosts,
      "Name of this server in the Host header, besides localhost and IP addresses, where no key is required")
      ->take_all();
  add("--requests-per-minute", flags->requests_per_minute,
      "POST requests of one client (key or address); more get 429 (default: no limit)")
      ->check(CLI::NonNegativeNumber);
  add("--max-per-client", flags->limits.max_per_client,
      "Requests of one client that run or wait; more get 429 (default: 3/4 of all places)")
      ->check(CLI::PositiveNumber);
  add("--max-connections", flags->http.connections, "Open connections (default 1024)")
      ->check(CLI::Range(1, 1 << 20));
  add("--max-connections-per-address", flags->http.connections_per_address,
      "Open connections from one IP address (default 512)")
      ->check(CLI::Range(1, 1 << 20));
  add("--request-timeout", flags->limits.request_seconds,
      "Seconds from a request's arrival to its end; later it fails (default 0: no limit)")
      ->check(CLI::Range(0.0, 1e9));
  add("--drain", flags->drain_seconds,
      "Seconds that requests may continue after SIGTERM or Ctrl-C; then they end with an error (default 10)")
      ->check(CLI::Range(0.0, 86400.0));
  add("--log-format", flags->log_format,
      "Log of requests on standard error, a line each: text, json or off (default text)")
      ->check(CLI::IsMember({"text", "json", "off"}));
  command
      ->add_flag("--strict-fields", flags->strict_fields,
                 "Refuse requests with a field that no API has, instead of naming it in X-Lacuna-Ignored")
      ->group("Server");
  add("--audit", flags->audit,
      "Fraction of answers, 0 to 1, that the idle server compares with the baseline's (default 0)")
      ->check(CLI::Range(0.0, 1.0));
  add("--name,--served-model-name,--alias", flags->name, "The model's name for clients (default: --model)");
  add_template_flags(*command, flags->prompt_template, "Server");
  add("--rank-restarts", flags->rank_restarts,
      "Consecutive restarts of failed ranks before the server gives up (default 5)")
      ->check(CLI::Range(0, 1 << 20));
  add("--reload-from", flags->reload_from,
      "Folder whose subfolders POST /v1/reload may load as new weights (default: reloading is off)");
  add("--models-memory", flags->models_memory,
      "MiB that several models may take when they are loaded, K/V included (default: what is free)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  add("--unload-after", flags->unload_seconds,
      "Seconds without a request after which a model is unloaded until the next (default 0: never)")
      ->check(CLI::Range(0.0, 1e9));
  add("--max-running,--max-num-seqs,--parallel", flags->limits.max_running,
      "Requests that share passes (default 32)")
      ->check(CLI::Range(1, 65536));
  add("--max-queue", flags->limits.max_queue, "Requests that wait; more get 503 (default 256)")
      ->check(CLI::Range(0, 65536));
  add("--kv-memory", flags->kv_memory,
      "MiB for keys and values of a model's requests (default: half of what is free; of n models 1/(2n))")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  add("--prefix-memory", flags->prefix_memory,
      "MiB of --kv-memory for prompts and answers that later requests reuse (default: a quarter)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  add("--pass-rows", flags->limits.pass_rows,
      "Rows of a pass that several requests share; a longer canvas has its passes to itself (default 1024)")
      ->check(CLI::Range(1, 1 << 24));
  add_generation_flags(*command, flags->generation);
  add_environment(*command);
  command->footer(
      "Generation flags are what requests do not ask for otherwise. docs/guide/serve.md has the rest.");
  command->callback([flags, command] {
    flags->job.arguments = loading_arguments(*command);
    serve(*flags);
  });
}

}  // namespace lacuna
