// Calls of the C interface: each is a byte and the texts that it takes, which end with a zero byte. Handles
// are valid or NULL. Each call returns, and one that fails has a sentence.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.h"
#include "lacuna/lacuna.h"
#include "tokenizer/tiny_tokenizer.h"

namespace {

constexpr int kMaxCalls = 8;

/// A golden checkpoint with a short context and a tokenizer of those bytes that its vocabulary has room for.
void write_model(const fuzz::ScratchFolder& folder) {
  const std::filesystem::path golden = std::filesystem::path(LACUNA_SOURCE_DIR) / "tests/golden/llada";
  std::filesystem::copy_file(golden / "model.safetensors", folder.path() / "model.safetensors");
  std::ifstream file(golden / "config.json");
  nlohmann::json config = nlohmann::json::parse(file);
  config["max_sequence_length"] = 96;
  folder.write("config.json", config.dump());
  nlohmann::json tokenizer = lacuna::tiny_tokenizer();
  nlohmann::json vocab = nlohmann::json::object();
  constexpr int kBytes = 88;
  for (int i = 0; i < kBytes; ++i) {
    const char byte = static_cast<char>(' ' + i);
    vocab[lacuna::to_byte_characters({&byte, 1})] = i;
  }
  tokenizer["model"]["vocab"] = vocab;
  int id = kBytes;
  for (const char* special : {"<|eot_id|>", "<|endoftext|>", "<|mdm_mask|>"}) {
    lacuna::add_token(tokenizer, id++, special, true);
  }
  folder.write("tokenizer.json", tokenizer.dump());
}

struct FreeSession {
  void operator()(lacuna_session* session) const { lacuna_free(session); }
};
struct FreeAnswer {
  void operator()(lacuna_answer* answer) const { lacuna_answer_free(answer); }
};
using SessionHandle = std::unique_ptr<lacuna_session, FreeSession>;
using AnswerHandle = std::unique_ptr<lacuna_answer, FreeAnswer>;

void check_failure() {
  fuzz::check(lacuna_error()[0] != '\0');
  fuzz::check(lacuna_error_kind() == LACUNA_INVALID_INPUT);  // nothing else can go wrong here
}

int count_passes(const lacuna_pass_event* event, void* user) {
  fuzz::check(event->size == sizeof *event && event->prompt_tokens >= 0);
  fuzz::check(static_cast<size_t>(event->prompt_tokens) <= event->canvas_length);
  for (size_t i = 0; i < event->num_committed; ++i) {
    fuzz::check(event->committed[i].position >= 0);
    fuzz::check(static_cast<size_t>(event->committed[i].position) < event->canvas_length);
  }
  return --*static_cast<int*>(user) > 0 ? 1 : 0;
}

/// The state of one input's calls.
class Calls {
 public:
  Calls(lacuna_session* session, std::string folder, std::string_view input)
      : session_(session), folder_(std::move(folder)), rest_(input) {}

  void run() {
    for (int calls = 0; calls < kMaxCalls && !rest_.empty(); ++calls) {
      const auto choice = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      call(choice);
    }
  }

 private:
  std::string text() { return std::string(fuzz::next_text(rest_)); }
  std::vector<int32_t> tokens() {
    std::vector<int32_t> tokens;
    for (const char byte : text()) tokens.push_back(static_cast<signed char>(byte));
    tokens.resize(std::min<size_t>(tokens.size(), 32));
    return tokens;
  }

  void call(uint8_t choice) {
    lacuna_session* const session = choice < 250 ? session_ : nullptr;
    switch (choice % 8) {
      case 0:
        return load();
      case 1: {
        const std::string request = text();
        int passes = 12;
        return keep(lacuna_generate(session, request.c_str(), count_passes, &passes));
      }
      case 2: {
        const std::string canvas = text(), options = text();
        int passes = 12;
        return keep(lacuna_infill(session, canvas.c_str(), options.empty() ? nullptr : options.c_str(),
                                  count_passes, &passes));
      }
      case 3:
        return tokenize(session);
      case 4:
        return detokenize(session);
      case 5:
        return logits(session);
      case 6:
        if (!answers_.empty()) answers_.pop_back();
        return;
      default:
        lacuna_info_json(session);
        lacuna_answer_text(nullptr);
    }
  }

  void load() {
    const std::string options = text();
    if (has_loaded_) return;  // once: it takes longest
    has_loaded_ = true;
    const SessionHandle session(lacuna_load(folder_.c_str(), options.empty() ? nullptr : options.c_str()));
    if (!session) return check_failure();
    fuzz::check(nlohmann::json::accept(lacuna_info_json(session.get())));
    fuzz::check(lacuna_vocab_size(session.get()) == lacuna_vocab_size(session_));
  }

  void keep(lacuna_answer* answer) {
    if (answer == nullptr) return check_failure();
    answers_.emplace_back(answer);
    fuzz::check(nlohmann::json::accept(lacuna_answer_json(answer)));
    size_t count = 0;
    const int32_t* const tokens = lacuna_answer_tokens(answer, &count);
    for (size_t i = 0; i < count; ++i) fuzz::check(tokens[i] >= 0 && tokens[i] < lacuna_vocab_size(session_));
    fuzz::check(std::string_view(lacuna_answer_text(answer)).size() <= size_t{1} << 16);
  }

  void tokenize(lacuna_session* session) {
    const std::string given = text();
    std::array<int32_t, 16> ids{};
    const int64_t count = lacuna_tokenize(session, given.data(), given.size(), ids.data(), ids.size());
    if (count < 0) return check_failure();
    for (int64_t i = 0; i < std::min<int64_t>(count, ids.size()); ++i) {
      fuzz::check(ids[static_cast<size_t>(i)] < lacuna_vocab_size(session));
    }
  }

  void detokenize(lacuna_session* session) {
    const std::vector<int32_t> ids = tokens();
    std::array<char, 8> written{};
    if (lacuna_detokenize(session, ids.data(), ids.size(), written.data(), written.size()) < 0)
      check_failure();
  }

  void logits(lacuna_session* session) {
    const std::vector<int32_t> ids = tokens();
    std::vector<float> values(ids.size() * static_cast<size_t>(lacuna_vocab_size(session_)) + 1);
    if (lacuna_logits(session, ids.data(), ids.size(), values.data()) < 0) check_failure();
  }

  lacuna_session* session_;
  std::string folder_;
  std::string_view rest_;
  std::vector<AnswerHandle> answers_;
  bool has_loaded_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::ScratchFolder folder;
  static const SessionHandle session = [] {
    write_model(folder);
    return SessionHandle(lacuna_load(folder.path().c_str(), R"({"threads": 1, "memory": 16777216})"));
  }();
  fuzz::check(session != nullptr);
  Calls(session.get(), folder.path().string(), fuzz::text_of(data, size)).run();
  return 0;
}
