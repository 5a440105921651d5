// Runs a fuzz target without libFuzzer, for compilers that lack it: first every corpus file as it is, then
// seeded random mutations of them until the time is over. Takes libFuzzer's -max_total_time=SECONDS (0:
// corpus only) and -seed=N, and files or folders. A crash leaves the input in crash.bin.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// A target's own mutation, where it has one.
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most,
                                                                unsigned seed);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kInputBytesMax = size_t{1} << 16;

const Bytes* current_input = nullptr;  // for the signal handler

void save_input_and_die(int signal) {
  if (std::FILE* file = std::fopen("crash.bin", "wb")) {
    std::fwrite(current_input->data(), 1, current_input->size(), file);
    std::fclose(file);
  }
  std::fputs("the input that crashed is in crash.bin\n", stderr);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const Bytes& input) {
  current_input = &input;
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

std::vector<Bytes> read_corpus(const std::vector<std::filesystem::path>& paths) {
  std::vector<std::filesystem::path> files;
  for (const auto& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());  // the order of a folder is not the same everywhere
  std::vector<Bytes> corpus;
  for (const auto& file : files) corpus.push_back(read_file(file));
  return corpus;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  /// One of the corpus after the target's own mutation or up to eight small changes; `corpus` is not empty.
  Bytes mutate(const std::vector<Bytes>& corpus) {
    Bytes input = corpus[below(corpus.size())];
    if (LLVMFuzzerCustomMutator != nullptr && below(2) == 0) {
      const size_t size = input.size();
      input.resize(kInputBytesMax);
      input.resize(LLVMFuzzerCustomMutator(input.data(), std::min(size, kInputBytesMax), kInputBytesMax,
                                           static_cast<unsigned>(random_())));
      return input;
    }
    for (size_t count = 1 + below(8); count > 0; --count) change(input, corpus[below(corpus.size())]);
    if (input.size() > kInputBytesMax) input.resize(kInputBytesMax);
    return input;
  }

  /// One small change, no piece of another input.
  void change(Bytes& input) { change(input, {}); }

 private:
  size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }

  void change(Bytes& input, const Bytes& other) {
    const auto at = [](Bytes& bytes, size_t index) {
      return bytes.begin() + static_cast<std::ptrdiff_t>(index);
    };
    const size_t begin = below(input.size() + 1);
    const size_t end = std::min(input.size(), begin + below(16));
    switch (below(6)) {
      case 0:  // flip a bit
        if (begin < input.size()) input[begin] ^= static_cast<uint8_t>(1U << below(8));
        break;
      case 1:  // another byte; small, large and printable ones are the most telling
        if (begin < input.size()) {
          input[begin] =
              static_cast<uint8_t>(std::vector<size_t>{0, 0x7f, 0xff, '"', '9', below(256)}[below(6)]);
        }
        break;
      case 2:
        input.erase(at(input, begin), at(input, end));
        break;
      case 3: {  // repeat a piece
        const Bytes piece(at(input, begin), at(input, end));
        for (size_t times = 1 + below(4); times > 0; --times) {
          input.insert(at(input, begin), piece.begin(), piece.end());
        }
        break;
      }
      case 4: {  // take a piece of another input
        if (other.empty()) break;
        const size_t from = below(other.size());
        const size_t length = std::min(other.size() - from, 1 + below(64));
        const auto first = other.begin() + static_cast<std::ptrdiff_t>(from);
        const Bytes piece(first, first + static_cast<std::ptrdiff_t>(length));
        input.insert(at(input, begin), piece.begin(), piece.end());
        break;
      }
      default:
        if (below(4) == 0) input.resize(begin);
        break;
    }
  }

  std::mt19937_64 random_;
};

// Parses an argument of the form `name` and a number, which is stored in `value`.
bool read_flag(std::string_view argument, std::string_view name, uint64_t& value) {
  if (!argument.starts_with(name)) return false;
  const std::string_view number = argument.substr(name.size());
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  return error == std::errc() && end == number.data() + number.size();
}

}  // namespace

// Stand-in for the function that libFuzzer offers to custom mutators.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most) {
  static Mutator mutator(1);
  Bytes input(data, data + size);
  mutator.change(input);
  if (input.size() > most) input.resize(most);
  std::copy(input.begin(), input.end(), data);
  return input.size();
}

int main(int argc, char** argv) {
  uint64_t seconds = 0;
  uint64_t seed = 1;
  std::vector<std::filesystem::path> paths;
  for (int index = 1; index < argc; ++index) {
    const std::string_view argument = argv[index];
    if (read_flag(argument, "-max_total_time=", seconds) || read_flag(argument, "-seed=", seed)) continue;
    if (argument.starts_with('-') || !std::filesystem::exists(argument)) {
      std::fprintf(stderr, "usage: %s [-max_total_time=SECONDS] [-seed=N] FILE_OR_FOLDER...\n", argv[0]);
      return 2;
    }
    paths.emplace_back(argument);
  }
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS}) std::signal(signal, save_input_and_die);

  std::vector<Bytes> corpus = read_corpus(paths);
  uint64_t executions = corpus.size();
  for (const Bytes& input : corpus) run(input);

  if (corpus.empty()) corpus.emplace_back();
  Mutator mutator(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (; std::chrono::steady_clock::now() < end; ++executions) run(mutator.mutate(corpus));
  std::printf("%llu executions, seed %llu, no failure\n", static_cast<unsigned long long>(executions),
              static_cast<unsigned long long>(seed));
}
