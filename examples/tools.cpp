// Lets a model call a function, and gives it the result: tools MODEL
#include <cstdio>
#include <lacuna/lacuna.hpp>

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fputs("usage: tools MODEL\n", stderr);
    return 2;
  }
  const auto session = lacuna::Session::load(argv[1]);
  lacuna::Request request;
  request.messages = {{"user", "Are the shells of Mia in the barn?"}};
  request.tools = {{.name = "find",
                    .description = "Says where something is.",
                    .parameters = R"({"type": "object", "required": ["what"],
                    "properties": {"what": {"enum": ["shells", "barn"]}}})"}};
  request.tool_choice = "required";
  request.parallel_tool_calls = false;
  const lacuna::ToolAnswer answer = lacuna::read_tool_answer(session.generate(request));
  for (const lacuna::ToolCall& call : answer.calls)
    std::printf("%s %s\n", call.name.c_str(), call.arguments.c_str());
  const std::string results[] = {"in the barn"};  // one for each call
  request.messages.push_back(lacuna::assistant_turn(answer.content, answer.calls));
  request.messages.push_back(lacuna::tool_results(results));
  request.tool_choice = "auto";
  std::puts(lacuna::read_tool_answer(session.generate(request)).content.c_str());
} catch (const lacuna::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 2;
}
