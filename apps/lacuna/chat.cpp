#include "chat.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "cache/kv_cache.h"
#include "commands.h"
#include "engine/inference_session.h"
#include "engine/result.h"
#include "generation_flags.h"
#include "line_editor.h"
#include "parse_message.h"
#include "saved_chat.h"
#include "suggest.h"
#include "terminal.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

constexpr std::string_view kChatHelp =
    R"(/set FLAG VALUE  change a flag of `lacuna run`; without VALUE turn it on; default takes it back
/regenerate      answer the last question again, with the next seed
/system TEXT     set the system turn; without TEXT remove it
/clear           forget the chat, but not the system turn
/save FILE       write the chat to a file
/load FILE       continue a chat from a file
/quit            end, as Ctrl-D does
Ctrl-C stops an answer. A question that begins with / is typed with two: //like this.
)";

/// Replaces one setting of `options` by its default; false if there is none of this name.
bool reset_setting(std::string_view wanted, GenerationOptions& options) {
  bool is_known = false;
  visit_options(options, [&](const Setting& setting, auto& field) {
    const auto is_wanted = [&](std::string_view alias) {
      return wanted == alias || (alias.starts_with('-') && wanted == alias.substr(1));
    };
    if (wanted != setting.name && std::ranges::none_of(setting.aliases, is_wanted)) return;
    is_known = true;
    field = {};
  });
  return is_known;
}

/// Returns the options with one setting changed, parsed like a flag. Throws InputError.
GenerationOptions with_setting(GenerationOptions options, std::string name, const std::string& value) {
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  std::replace(name.begin(), name.end(), '_', '-');
  if (name.empty()) throw InputError("/set: expected a flag and its value, such as /set temperature 0.7");
  if (value == "default") {
    if (!reset_setting(name, options)) throw InputError("/set: there is no flag {}", in_quotes(name));
    return options;
  }
  CLI::App parser;
  add_generation_flags(parser, options);
  const std::string flag = (name.size() == 1 ? "-" : "--") + name;
  std::vector<std::string> arguments = {flag};
  if (!value.empty()) arguments.insert(arguments.begin(), value);  // CLI11 takes them from the back
  try {
    parser.parse(arguments);
  } catch (const CLI::ExtrasError&) {
    const CLI::Option* const known = parser.get_option_no_throw(flag);
    if (known != nullptr && value.empty()) throw;
    if (known != nullptr) throw InputError("/set: {} takes no value", in_quotes(name));
    throw InputError("/set: there is no flag {}{}", in_quotes(name), did_you_mean(flag, names_of(parser)));
  } catch (const CLI::ParseError& error) {
    throw InputError("/set: {}", sentence_of(error, parser));
  }
  return options;
}

/// Splits off the first word; the rest is trimmed.
std::pair<std::string, std::string> split_word(std::string_view text) {
  const std::string_view rest = trim_start(text);
  const size_t end = std::min(rest.find_first_of(" \t"), rest.size());
  return {std::string(rest.substr(0, end)), std::string(trim_end(trim_start(rest.substr(end))))};
}

/// A conversation with one model.
class ChatSession {
 public:
  explicit ChatSession(const ChatFlags& flags)
      : flags_(flags),
        options_(flags.generation),
        system_(flags.system),
        is_interactive_(isatty(STDIN_FILENO) != 0),
        opened_(open_chat_model(flags)) {
    if (opened_->tokenizer() == nullptr)
      throw InputError("{} has no tokenizer; a chat needs one", flags_.model);
    options_ = resolve_run(flags_, *opened_, flags.generation);
    // Report errors in the flags before the weights are read.
    opened_->make_decoder(make_chat_request({{"user", "?"}}));
    // The prefix cache holds one chat of full context length.
    SchedulerLimits limits = own_limits(1);
    const WeightFormats formats = weight_formats(flags, opened_->source());
    limits.prefix_memory = predict_run_memory(opened_->source(), formats, opened_->config().max_positions).kv;
    session_ = load_session(flags, opened_, limits);
  }

  void run() {
    LineEditor editor("> ", state_file("chat_history"));
    greet();
    std::string line;
    for (LineEvent event = editor.read(line); event != LineEvent::kEnd; event = editor.read(line)) {
      if (event == LineEvent::kInterrupted) {
        say("Ctrl-D or /quit ends the chat");
        continue;
      }
      try {
        if (!obey(line)) return;
      } catch (const InputError& error) {
        if (!is_interactive_) throw;
        say("{}", error.what());
      }
    }
    if (is_interactive_) print_message("\n");
  }

 private:
  /// Prints a line for interactive users; scripts do not get it.
  template <typename... Arguments>
  void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    if (is_interactive_) print_message("{}\n", fmt::format(format, std::forward<Arguments>(arguments)...));
  }

  void greet() const {
    say("{} is ready; /help lists commands, Ctrl-D ends the chat.", flags_.model);
    if (opened_->chat_template().is_none()) {
      say("There is no chat template: the model continues the text of all turns.");
    } else if (!opened_->chat_template().problem().empty()) {
      say("The chat template cannot be used: {}", safe_for_terminal(opened_->chat_template().problem()));
    } else {
      say("Chat template: {}", safe_for_terminal(opened_->chat_template().description()));
    }
  }

  /// Handles one line of input. Returns false if the chat is over.
  bool obey(const std::string& line) {
    const std::string_view text = trim_end(trim_start(line));
    if (text.empty()) return true;
    if (text.front() != '/' || text.starts_with("//")) {
      ask(std::string(text.substr(text.front() == '/' ? 1 : 0)));
      return true;
    }
    const auto [command, rest] = split_word(text);
    if (command == "/quit" || command == "/exit" || command == "/bye") return false;
    obey_command(command, rest);
    return true;
  }

  void obey_command(const std::string& command, const std::string& rest) {
    if (command == "/help" || command == "/?") {
      print_message("{}", kChatHelp);
    } else if (command == "/set") {
      const auto [name, value] = split_word(rest);
      set(name, value);
    } else if (command == "/regenerate") {
      regenerate();
    } else if (command == "/system") {
      set_system(rest);
    } else if (command == "/clear") {
      forget();
      say("The chat is forgotten{}.", system_.empty() ? "" : "; the system turn stays");
    } else if (command == "/save" || command == "/load") {
      if (rest.empty()) throw InputError("{}: expected the name of a file", command);
      command == "/save" ? save(rest) : load(rest);
    } else {
      throw InputError("{} is not a command; /help lists them", in_quotes(command));
    }
  }

  void set(const std::string& name, const std::string& value) {
    GenerationOptions changed = with_setting(options_, name, value);
    std::swap(options_, changed);
    try {
      opened_->make_decoder(make_chat_request({{"user", "?"}}));
    } catch (const InputError&) {
      std::swap(options_, changed);
      throw;
    }
    const std::string flag = name.substr(std::min(name.find_first_not_of('-'), name.size()));
    say("{} is {}", safe_for_terminal(flag),
        value == "default" ? "the default again"
        : value.empty()    ? "on"
                           : safe_for_terminal(value));
  }

  void set_system(const std::string& text) {
    if (!text.empty() && opened_->chat_template().is_none()) {
      throw InputError("/system needs a chat template; {} is run without one", flags_.model);
    }
    system_ = text;
    say("{}", text.empty() ? "There is no system turn." : "The system turn is set; /clear keeps it.");
  }

  void forget() {
    messages_.clear();
    first_sent_ = 0;
  }

  void save(const std::string& file) const {
    save_chat({flags_.model, system_, messages_}, file);
    say("{} turns saved to {}", messages_.size() / 2, file);
  }

  void load(const std::string& file) {
    SavedChat chat = load_chat(file);
    if (!chat.system.empty() && opened_->chat_template().is_none()) {
      throw InputError("{}: has a system turn, which needs a chat template; {} is run without one", file,
                       flags_.model);
    }
    forget();
    system_ = std::move(chat.system);
    messages_ = std::move(chat.messages);
    say("{} turns with {} loaded", messages_.size() / 2, in_quotes(chat.model));
  }

  void ask(std::string question) {
    num_regenerated_ = 0;
    messages_.push_back({"user", std::move(question)});
    std::optional<std::string> text;
    try {
      text = answer();
    } catch (...) {
      messages_.pop_back();
      throw;
    }
    if (text) {
      messages_.push_back({"assistant", *std::move(text)});
    } else {
      messages_.pop_back();
    }
  }

  void regenerate() {
    if (messages_.empty()) throw InputError("/regenerate: nothing was answered yet");
    const Message before = std::move(messages_.back());
    messages_.pop_back();
    ++num_regenerated_;
    std::optional<std::string> text;
    try {
      text = answer();
    } catch (...) {
      messages_.push_back(before);
      throw;
    }
    if (text == before.content && options_.temperature.value_or(0) == 0) {
      say("The same answer: nothing is sampled at temperature 0; try /set temperature 0.7");
    }
    messages_.push_back({"assistant", text.value_or(before.content)});
  }

  /// Draws the canvas, and stops the answer on Ctrl-C.
  class AnswerListener final : public SessionListener {
   public:
    AnswerListener(const ChatFlags& flags, const OpenedModel& opened) : flags_(flags), opened_(opened) {}

    void accepted(size_t /*index*/, const Decoder& decoder) override {
      if (flags_.live.can_draw()) {
        live_.emplace(flags_.live, opened_.config(), *opened_.tokenizer(), decoder);
      }
    }
    bool stepped(size_t /*index*/, const StepEvent& event) override {
      if (live_) live_->update(event);
      if (!event.decoder.done() && LineEditor::interrupted()) throw Cancelled();
      return true;
    }

   private:
    const ChatFlags& flags_;
    const OpenedModel& opened_;
    std::optional<LiveRequest> live_;
  };

  /// Answers the last message; empty if Ctrl-C stopped it.
  std::optional<std::string> answer() {
    const GenerateRequest request = make_chat_request(fitting_messages());
    std::optional<GenerationResult> result;
    try {
      AnswerListener listener(flags_, *opened_);
      result = session_->generate(request, &listener);
    } catch (const Cancelled&) {
      say("Stopped. The question is not kept.");
      return {};
    }
    print_data("{}\n", result->text);
    std::fflush(stdout);
    summarise(*result);
    return replace_ill_formed(result->text);
  }

  void summarise(const GenerationResult& result) const {
    const RunStatistics& statistics = result.statistics;
    const std::string note = explain_no_text(result, opened_->config(), opened_->tokenizer(), options_.stop);
    if (!note.empty()) say("{}", note);
    const std::string kept =
        statistics.shared_tokens > 0
            ? fmt::format(", {} of {} prompt tokens kept", statistics.shared_tokens, result.prompt_tokens)
            : "";
    say("[{} steps, {:.2f} s, {:.1f} tokens/s{}]", statistics.steps, statistics.seconds,
        result.tokens_per_second(), kept);
  }

  /// The system turn and the last turns that leave room for an answer. Reports dropped turns.
  std::vector<Message> fitting_messages() {
    const int64_t most = opened_->config().max_positions;
    const int64_t room =
        options_.gen_length.value_or(static_cast<int32_t>(std::min<int64_t>(kDefaultGenLength, most / 2)));
    const size_t first_before = first_sent_;
    first_sent_ = std::min(first_sent_, messages_.size() - 1);
    std::vector<Message> sent = messages_from(first_sent_);
    while (static_cast<int64_t>(tokens_of(sent).size()) + room > most && first_sent_ + 2 < messages_.size()) {
      first_sent_ += 2;
      sent = messages_from(first_sent_);
    }
    if (first_sent_ > first_before) {
      const std::string sentence =
          fmt::format("The context of {} tokens is full: the first {} of {} turns are no longer read.", most,
                      first_sent_ / 2, (messages_.size() + 1) / 2);
      print_message("{}\n", sentence);
    }
    return sent;
  }

  std::vector<Message> messages_from(size_t first) const {
    return {messages_.begin() + static_cast<std::ptrdiff_t>(first), messages_.end()};
  }

  /// Without a template: the text of all turns, each in a paragraph of its own.
  std::vector<TokenId> tokens_of(const std::vector<Message>& messages) const {
    return opened_->tokens_of(with_system(messages));
  }

  std::vector<Message> with_system(const std::vector<Message>& messages) const {
    std::vector<Message> all;
    if (opened_->chat_template().is_none()) {
      all.push_back({"user", ""});
      for (const Message& message : messages) {
        if (!all.back().content.empty()) all.back().content += '\n';
        all.back().content += message.content;
      }
      return all;
    }
    if (!system_.empty()) all.push_back({"system", system_});
    all.insert(all.end(), messages.begin(), messages.end());
    return all;
  }

  uint64_t seed() const { return options_.seed.value_or(0) + num_regenerated_; }

  GenerateRequest make_chat_request(const std::vector<Message>& messages) const {
    GenerationOptions options = options_;
    options.seed = seed();
    return make_generate_request(*opened_, options, with_system(messages));
  }

  ChatFlags flags_;
  GenerationOptions options_;
  std::string system_;
  bool is_interactive_;
  std::shared_ptr<const OpenedModel> opened_;
  std::unique_ptr<InferenceSession> session_;
  std::vector<Message> messages_;  // user and assistant alternate
  size_t first_sent_ = 0;          // earlier messages no longer fit
  uint64_t num_regenerated_ = 0;   // regenerations of the last answer
};

}  // namespace

void add_chat_flags(CLI::App& command, ChatFlags& flags) {
  add_model_flags(command, flags);
  add_guide_flag(command, flags.guide);
  command.add_option("--system,--sys", flags.system, "Text of the system turn")->group("Prompt");
  add_template_flags(command, flags.prompt_template, "Prompt");
  command.add_flag("--raw", flags.prompt_template.raw, "Apply no chat template")->group("Prompt");
}

std::shared_ptr<const OpenedModel> open_chat_model(const ChatFlags& flags) {
  std::shared_ptr<const OpenedModel> opened = open_model(flags, flags.prompt_template);
  expect_writer(*opened);
  if (!flags.system.empty() && opened->chat_template().is_none()) {
    throw InputError("--system needs a chat template; this run uses none");
  }
  return opened;
}

void chat(ChatFlags flags) {
  ChatSession(flags).run();
}

void add_chat_command(CLI::App& program) {
  auto flags = std::make_shared<ChatFlags>();
  CLI::App* command = program.add_subcommand("chat", "Answer questions one after the other");
  add_chat_flags(*command, *flags);
  add_generation_flags(*command, flags->generation);
  add_live_flags(*command, flags->live);
  command->callback([flags] { chat(*flags); });
}

}  // namespace lacuna
