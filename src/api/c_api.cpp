// The C interface, on top of the C++ one.
#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/request_json.h"
#include "api/tools.h"
#include "base/error.h"
#include "base/json.h"
#include "lacuna/lacuna.h"
#include "lacuna/session.h"

using lacuna::Answer;
using lacuna::InputError;

struct lacuna_session {
  lacuna::Session session;
  std::string info;  // JSON of lacuna_info_json()
};

struct lacuna_answer {
  Answer answer;
  std::string json;
};

namespace {

struct Failure {
  std::string sentence;
  int kind = 0;
};

Failure& last_failure() {
  thread_local Failure failure;
  return failure;
}

int note_failure(int kind, std::string_view sentence) noexcept {
  Failure& failure = last_failure();
  failure.kind = kind;
  try {
    failure.sentence = sentence;
  } catch (...) {
    failure.sentence.clear();  // no memory for the sentence; the kind remains
  }
  return kind;
}

/// Runs `action`; stores an exception as the thread's last failure.
///   failed  returns the result after a failure, from its kind
template <typename Action, typename Failed>
auto guarded(Action&& action, Failed&& failed) noexcept -> decltype(action()) {
  try {
    return action();
  } catch (const lacuna::Error& error) {
    return failed(note_failure(LACUNA_INVALID_INPUT, error.what()));
  } catch (const std::exception& error) {
    return failed(note_failure(LACUNA_FAILED, error.what()));
  } catch (...) {
    return failed(note_failure(LACUNA_FAILED, "something other than a std::exception was thrown"));
  }
}

template <typename Handle, typename Action>
Handle* make(Action&& action) noexcept {
  return guarded([&]() -> Handle* { return std::make_unique<Handle>(action()).release(); },
                 [](int) -> Handle* { return nullptr; });
}

void expect_given(const void* argument, const char* name) {
  if (argument == nullptr) throw InputError("{} is NULL", name);
}

/// Parses an argument as a JSON object; NULL gives an empty one.
nlohmann::ordered_json parse_object(const char* text, const char* name) {
  if (text == nullptr) return nlohmann::ordered_json::object();
  nlohmann::ordered_json json = lacuna::parse_ordered_json(text, name);
  if (!json.is_object()) throw InputError("{}: not a JSON object", name);
  return json;
}

lacuna::PassCallback wrapped(lacuna_pass_callback callback, void* user) {
  if (callback == nullptr) return {};
  return [callback, user](const lacuna::PassEvent& event) {
    std::vector<lacuna_commit> committed;
    committed.reserve(event.committed.size());
    for (const lacuna::Commit& commit : event.committed) {
      committed.push_back({commit.position, commit.token, commit.confidence});
    }
    const std::string kind(event.kind);
    lacuna_pass_event shown = {};
    shown.size = sizeof(shown);
    shown.step = event.step;
    shown.prompt_tokens = event.prompt_tokens;
    shown.final_tokens = event.final_tokens;
    shown.kind = kind.c_str();
    shown.canvas = event.canvas.data();
    shown.canvas_length = event.canvas.size();
    shown.committed = committed.data();
    shown.num_committed = committed.size();
    shown.rows = event.rows;
    shown.seconds = event.seconds;
    return callback(&shown, user) != 0;
  };
}

lacuna_answer with_json(Answer answer, bool has_tools = false) {
  nlohmann::ordered_json shown = lacuna::to_json(answer);
  if (has_tools) shown["message"] = lacuna::to_json(lacuna::read_tool_answer(answer));
  std::string json = lacuna::dump_json(shown);
  return {std::move(answer), std::move(json)};
}

}  // namespace

const char* lacuna_version(void) {
  return LACUNA_VERSION;
}

const char* lacuna_error(void) {
  return last_failure().sentence.c_str();
}

int lacuna_error_kind(void) {
  return last_failure().kind;
}

lacuna_session* lacuna_load(const char* model, const char* options_json) {
  return make<lacuna_session>([&]() -> lacuna_session {
    expect_given(model, "model");
    const nlohmann::ordered_json options = parse_object(options_json, "options_json");
    lacuna::Session session = lacuna::Session::load(model, lacuna::load_options(options, "options_json"));
    std::string info = lacuna::dump_json(lacuna::to_json(session.info()));
    return {std::move(session), std::move(info)};
  });
}

void lacuna_free(lacuna_session* session) {
  delete session;
}

const char* lacuna_info_json(const lacuna_session* session) {
  return session == nullptr ? "{}" : session->info.c_str();
}

int64_t lacuna_vocab_size(const lacuna_session* session) {
  return session == nullptr ? 0 : session->session.info().vocab_size;
}

lacuna_answer* lacuna_generate(lacuna_session* session, const char* request_json,
                               lacuna_pass_callback callback, void* user) {
  return make<lacuna_answer>([&] {
    expect_given(session, "session");
    expect_given(request_json, "request_json");
    const lacuna::Request request =
        lacuna::request_of(parse_object(request_json, "request_json"), "request_json");
    return with_json(session->session.generate(request, wrapped(callback, user)), !request.tools.empty());
  });
}

lacuna_answer* lacuna_infill(lacuna_session* session, const char* text, const char* options_json,
                             lacuna_pass_callback callback, void* user) {
  return make<lacuna_answer>([&] {
    expect_given(session, "session");
    expect_given(text, "text");
    const lacuna::Options options =
        lacuna::options_of(parse_object(options_json, "options_json"), "options_json");
    return with_json(session->session.infill(text, options, wrapped(callback, user)));
  });
}

void lacuna_answer_free(lacuna_answer* answer) {
  delete answer;
}

const char* lacuna_answer_text(const lacuna_answer* answer) {
  return answer == nullptr ? "" : answer->answer.text.c_str();
}

const int32_t* lacuna_answer_tokens(const lacuna_answer* answer, size_t* count) {
  if (count != nullptr) *count = answer == nullptr ? 0 : answer->answer.tokens.size();
  return answer == nullptr ? nullptr : answer->answer.tokens.data();
}

const char* lacuna_answer_json(const lacuna_answer* answer) {
  return answer == nullptr ? "{}" : answer->json.c_str();
}

int64_t lacuna_tokenize(const lacuna_session* session, const char* text, size_t length, int32_t* tokens,
                        size_t capacity) {
  return guarded(
      [&]() -> int64_t {
        expect_given(session, "session");
        if (length > 0) expect_given(text, "text");
        if (capacity > 0) expect_given(tokens, "tokens");
        const std::vector<lacuna::TokenId> ids = session->session.tokenize({text, length});
        const size_t written = std::min(ids.size(), capacity);
        if (written > 0) std::memcpy(tokens, ids.data(), written * sizeof(int32_t));
        return static_cast<int64_t>(ids.size());
      },
      [](int kind) -> int64_t { return kind; });
}

int64_t lacuna_detokenize(const lacuna_session* session, const int32_t* tokens, size_t count, char* text,
                          size_t capacity) {
  return guarded(
      [&]() -> int64_t {
        expect_given(session, "session");
        if (count > 0) expect_given(tokens, "tokens");
        if (capacity > 0) expect_given(text, "text");
        const std::string bytes = session->session.detokenize({tokens, count});
        const size_t written = std::min(bytes.size(), capacity);
        std::copy_n(bytes.begin(), written, text);
        return static_cast<int64_t>(bytes.size());
      },
      [](int kind) -> int64_t { return kind; });
}

int lacuna_logits(lacuna_session* session, const int32_t* tokens, size_t count, float* logits) {
  return guarded(
      [&] {
        expect_given(session, "session");
        expect_given(tokens, "tokens");
        expect_given(logits, "logits");
        const lacuna::Logits result = session->session.logits({tokens, count});
        std::memcpy(logits, result.values.data(), result.values.size() * sizeof(float));
        return 0;
      },
      [](int kind) { return kind; });
}
