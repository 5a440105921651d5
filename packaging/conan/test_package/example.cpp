// Answers a question with a model that is given.
#include <iostream>
#include <lacuna/lacuna.hpp>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const lacuna::Session session = lacuna::Session::load(argv[1]);
  lacuna::Request request;
  request.prompt = "Mia has 12 shells. She finds 5 more. How many shells does Mia have?";
  request.options = {{"gen_length", 32}};
  const lacuna::Answer answer = session.generate(request);
  std::cout << answer.text << "\n";
  return answer.text.find("17") == std::string::npos ? 1 : 0;
}
