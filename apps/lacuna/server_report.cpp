#include "server_report.h"

#include <fmt/format.h>

#include <string_view>

namespace lacuna {
namespace {

/// A number of what a script printed.
std::string figure(const nlohmann::json& found, const char* key, int digits, std::string_view unit = "") {
  return fmt::format("{:.{}f}{}", found.at(key).get<double>(), digits, unit);
}

class ServerPage : private PageWriter {
 public:
  ServerPage(const ServerGrid& grid, const Measure& measure) : PageWriter(measure), grid_(grid) {}

  std::vector<PageFile> write() {
    loads();
    overheads();
    return files("server.md", introduction());
  }

 private:
  void loads() {
    heading("Many clients");
    paragraph(
        "Requests of mixed methods, lengths and streaming, of which some hang up. Closed loop (`--clients`): "
        "each client "
        "asks again once it is answered; open loop (`--rate`): requests come at random times, answered or "
        "not. A text "
        "differs if the same request, alone, gets another one. Memory is the server's.");
    Table result({"answers", "hung up", "refused", "errors", "texts that differ", "median latency",
                  "99 of 100", "memory, first third", "afterwards", "command"});
    for (const std::string& command : grid_.loads) {
      const nlohmann::json found = printed(command);
      result.row({figure(found, "answers", 0), figure(found, "hung_up", 0), figure(found, "refused", 0),
                  figure(found, "errors", 0), figure(found, "texts_that_differ", 0),
                  figure(found, "latency_median", 3, " s"), figure(found, "latency_99", 3, " s"),
                  figure(found, "memory_first_third", 0, " MiB"),
                  figure(found, "memory_afterwards", 0, " MiB"), code(command)});
    }
    table(result);
    paragraph(
        "200 clients are more than the 32 places of `--max-running`: nearly all of their latency is the "
        "queue's.");
  }

  void overheads() {
    heading("What the server costs, and what requests gain together");
    paragraph(
        "The same request to `lacuna run` and to the server in turn, then alone and several at once. Ratios "
        "are medians "
        "of pairs. Where passes are bound by arithmetic a batch gains little; blocks with cached "
        "surroundings wait for "
        "memory when they are alone, and share it when they are many.");
    Table result({"`lacuna run`", "server", "server by run", "client's wait by run", "alone", "at once", "",
                  "times the rows/s", "command"});
    for (const std::string& command : grid_.overheads) {
      const nlohmann::json found = printed(command);
      result.row({figure(found, "run_seconds", 3, " s"), figure(found, "server_seconds", 3, " s"),
                  figure(found, "server_by_run", 3), figure(found, "client_by_run", 3),
                  figure(found, "rows_per_second_alone", 1, " rows/s"),
                  figure(found, "rows_per_second_at_once", 1, " rows/s"),
                  figure(found, "batch", 0, " requests"), figure(found, "gain", 2), code(command)});
    }
    table(result);
  }

  std::string introduction() const {
    return fmt::format(R"(# The server, measured

What [the server](../guide/serve.md) does under load, and what it costs. Written by `make results` (`lacuna report server`, which
runs the scripts of `bench/`: Python's standard library is all that they use) from the raw rows in `server.jsonl`.

- Machine: {}.
- Commit: {}.
- Clients and server share the machine.
)",
                       machines(), commits());
  }

  const ServerGrid& grid_;
};

}  // namespace

ServerGrid server_grid() {
  const std::string load =
      "python3 bench/serve_load.py --cancel 0.1 --verify --memory-growth 0.1 --json --serve ";
  const std::string guided = "\"-m mini-llada --guide mini-qwen\"";
  const std::string overhead = "python3 bench/serve_overhead.py --json ";
  const std::string blocks = " --gen-length 64 --steps 64 --set cache=dual --set block_length=16";
  return {{load + guided + " --clients 200 --seconds 60",
           load + "\"-m mini-sdar --prefix-memory 16\" --clients 200 --seconds 30",
           load + guided + " --rate 20 --seconds 30"},
          {overhead + "-m random:llada-8b,layers=4 --canvas 256 --gen-length 32 --steps 4",
           overhead + "-m random:llada-8b,layers=4 --canvas 128" + blocks}};
}

std::vector<PageFile> write_server_page(const ServerGrid& grid, const Measure& measure) {
  return ServerPage(grid, measure).write();
}

}  // namespace lacuna
