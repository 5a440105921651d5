// Serves a model until standard input ends: serve MODEL [PORT]
#include <lacuna/server.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 3) {
    std::fputs("usage: serve MODEL [PORT]\n", stderr);
    return 2;
  }
  lacuna::ServerOptions options;
  options.models = {{argv[1], "example"}};
  options.defaults = {{"gen_length", int64_t{64}}};
  options.port = static_cast<uint16_t>(argc == 3 ? std::atoi(argv[2]) : 0);
  lacuna::Server server = lacuna::Server::start(options);
  std::printf("http://127.0.0.1:%d\n", server.port());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  server.stop(5);  // requests that run may finish for 5 seconds
} catch (const lacuna::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 2;
}
