// Decodes with an unmask rule of its own: own_rule MODEL PROMPT
#include <algorithm>
#include <cstdio>
#include <lacuna/lacuna.hpp>

namespace {

/// Every position whose distribution has little entropy, and always the one with the least.
std::vector<int32_t> nearly_certain(const lacuna::Candidates& candidates) {
  std::vector<int32_t> chosen;
  for (size_t i = 0; i < candidates.position.size(); ++i) {
    if (candidates.entropy[i] < 0.1) chosen.push_back(candidates.position[i]);
  }
  if (chosen.empty()) {
    const auto least = std::min_element(candidates.entropy.begin(), candidates.entropy.end());
    chosen.push_back(candidates.position[static_cast<size_t>(least - candidates.entropy.begin())]);
  }
  return chosen;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fputs("usage: own_rule MODEL PROMPT\n", stderr);
    return 2;
  }
  const auto session = lacuna::Session::load(argv[1]);
  lacuna::Request request;
  request.prompt = argv[2];
  request.unmask = nearly_certain;
  const lacuna::Answer answer = session.generate(request);
  std::printf("%s\n%d passes\n", answer.text.c_str(), answer.statistics.steps);
} catch (const lacuna::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 2;
}
