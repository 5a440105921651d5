// Prints an answer as it is written: answer MODEL PROMPT
#include <cstdio>
#include <lacuna/lacuna.hpp>

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fputs("usage: answer MODEL PROMPT\n", stderr);
    return 2;
  }
  const auto session = lacuna::Session::load(argv[1]);
  lacuna::Request request;
  request.prompt = argv[2];
  request.options = {{"unmask", std::string("threshold=0.9")}};
  const lacuna::Answer answer = session.generate(request, [](const lacuna::PassEvent& pass) {
    std::fprintf(stderr, "pass %d wrote %zu tokens\n", pass.step + 1, pass.committed.size());
    return true;  // false would end the answer here
  });
  std::puts(answer.text.c_str());
} catch (const lacuna::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 2;
}
