// Constrained answers of models with random weights, whose unconstrained answers never match the constraint:
// every finished answer has to be accepted, whatever the method, the schedule and the length.
#include "decode/constrained.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/fake_device.h"
#include "base/clock.h"
#include "constraint/constraint.h"
#include "engine/engine.h"
#include "engine/result.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::constrained_test {
namespace {

using testing::HasSubstr;

/// Single characters, then texts of several, one of which is half of a character of two bytes.
TokenTable table_of(const ModelConfig& config) {
  TokenTable table;
  table.bytes.resize(static_cast<size_t>(config.vocab_size));
  const std::string characters = "{}[]\":, -.0123456789abcdefghijklmnopqrstuvwxyz\\";
  std::vector<std::string> texts;
  for (const char character : characters) texts.emplace_back(1, character);
  for (const char* more : {"{\"", "\": ", "\", \"", "true", "false", "null", "12", "345", "ab", "the ", " a",
                           "\"}", "}}", "]}", "\xC3", "\xA9", "\xC3\xA9", "name", "age"}) {
    texts.emplace_back(more);
  }
  for (size_t id = 0; id < table.bytes.size() && id < texts.size(); ++id) table.bytes[id] = texts[id];
  table.end_ids = config.end_ids;
  for (const TokenId end : config.end_ids) table.bytes[static_cast<size_t>(end)].clear();
  if (config.mask_id >= 0) {
    table.bytes[static_cast<size_t>(config.mask_id)].clear();
    table.excluded = {static_cast<TokenId>(config.mask_id)};
  }
  return table;
}

/// Every token writes a letter.
TokenTable letters_of(const ModelConfig& config) {
  TokenTable table;
  for (int64_t id = 0; id < config.vocab_size; ++id) {
    table.bytes.emplace_back(1, static_cast<char>('a' + id % 26));
  }
  table.end_ids = config.end_ids;
  return table;
}

struct Form {
  Constraint constraint;
  std::string pattern;  // for std::regex, an implementation of its own
};

std::vector<Form> forms() {
  const auto regex = [](const char* pattern) { return Form{RegexConstraint{pattern}, pattern}; };
  return {
      regex("[0-9]{3}-[0-9]{2}"),
      regex("(ab|the )*12+"),
      regex(R"(\{"name": "[a-z]{1,6}", "age": [1-9][0-9]?(, "a": (true|false|null))?\})"),
      {ChoiceConstraint{{"true", "false", "null"}}, "true|false|null"},
  };
}

/// The text of an answer up to its first end token.
std::string text_of(const TokenTable& table, std::span<const TokenId> answer) {
  std::string text;
  for (const TokenId token : answer) {
    if (std::find(table.end_ids.begin(), table.end_ids.end(), token) != table.end_ids.end()) break;
    text += table.bytes[static_cast<size_t>(token)];
  }
  return text;
}

class Constrained {
 public:
  explicit Constrained(const ModelConfig& config) : Constrained(config, table_of(config)) {}
  Constrained(const ModelConfig& config, TokenTable table)
      : table_(std::move(table)), model_(on_cpu(tiny_model(config), default_table(), threads_)) {}

  std::unique_ptr<Decoder> decoder(const Constraint* constraint, const GenerationOptions& options,
                                   uint64_t seed, const ModelConfig* guide = nullptr) {
    DecodeRequest request;
    request.prompt = random_tokens(seed, 9, 60);
    request.gen_length = options.gen_length;
    request.seed = seed;
    if (constraint != nullptr) {
      const TokenVocabulary vocabulary(table_);
      request.context.constraint =
          std::make_shared<const TokenAutomaton>(compile_constraint(*constraint), vocabulary);
    }
    if (gives_literals) {
      // The longest token first, as a tokenizer without merges would cut.
      request.context.encode_literal = [this](std::string_view text) { return cut(text); };
    }
    if (guide != nullptr) {
      request.context.guide =
          GuideContext{guide, request.prompt, shared_vocabulary(model_->config(), *guide)};
    }
    const Strategy strategy = choose_strategy(model_->config(), options, guide != nullptr);
    return make_decoder(model_->config(), strategy, std::move(request));
  }

  std::vector<TokenId> guided_answer(const Constraint& constraint, const GenerationOptions& options,
                                     uint64_t seed, const std::shared_ptr<const BackendModel>& guide) {
    Engine engine(model_, 1, guide);
    engine.add(decoder(&constraint, options, seed, &guide->config()));
    engine.run();
    return answer_of(engine.decoder(0));
  }

  std::vector<TokenId> answer(const Constraint* constraint, const GenerationOptions& options, uint64_t seed) {
    Engine engine(model_);
    engine.add(decoder(constraint, options, seed));
    engine.run();
    return answer_of(engine.decoder(0));
  }

  static std::vector<TokenId> answer_of(const Decoder& decoder) {
    const auto canvas = decoder.canvas().subspan(static_cast<size_t>(decoder.prompt_length()));
    return {canvas.begin(), canvas.end()};
  }

  void expect_accepted(const GenerationOptions& options, const std::string& name) {
    for (const Form& form : forms()) {
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        const std::string text = text_of(table_, answer(&form.constraint, options, seed));
        EXPECT_TRUE(std::regex_match(text, std::regex(form.pattern)))
            << name << ": '" << text << "' is no " << form.pattern;
      }
    }
  }

  std::vector<TokenId> cut(std::string_view text) const {
    std::vector<TokenId> tokens;
    while (!text.empty()) {
      size_t best = 0;
      for (size_t id = 1; id < table_.bytes.size(); ++id) {
        if (text.starts_with(table_.bytes[id]) && table_.bytes[id].size() > table_.bytes[best].size())
          best = id;
      }
      tokens.push_back(static_cast<TokenId>(best));
      text.remove_prefix(std::max(table_.bytes[best].size(), size_t{1}));
    }
    return tokens;
  }

  /// Passes of an answer.
  int num_passes(const Constraint& constraint, const GenerationOptions& options, uint64_t seed) {
    Engine engine(model_);
    engine.add(decoder(&constraint, options, seed));
    int passes = 0;
    engine.run([&](const StepEvent&) { ++passes; });
    return passes;
  }

  bool gives_literals = false;

  const TokenTable& table() const { return table_; }
  const std::shared_ptr<const BackendModel>& model() const { return model_; }

 private:
  ThreadPool threads_{1};
  TokenTable table_;
  std::shared_ptr<const BackendModel> model_;
};

GenerationOptions of_length(int32_t gen_length) {
  GenerationOptions options;
  options.gen_length = gen_length;
  return options;
}

GenerationOptions unmasked_by(const char* rule, int32_t gen_length, double temperature = 0) {
  GenerationOptions options = of_length(gen_length);
  options.unmask = rule;
  options.temperature = temperature;
  return options;
}

TEST(ConstrainedAnswers, AreAcceptedByEveryScheduleOfMaskedDiffusion) {
  for (const bool shifted : {false, true}) {
    ModelConfig config = tiny_configs()[0];
    config.shifted_logits = shifted;
    Constrained model(config);
    for (const double temperature : {0.0, 1.0}) {
      for (const char* rule : {"threshold=0.3", "factor=1", "low-confidence", "random"}) {
        for (const int32_t length : {32, 64}) {
          model.expect_accepted(unmasked_by(rule, length, temperature),
                                fmt::format("{} at temperature {}", rule, temperature));
        }
      }
    }
    GenerationOptions options = of_length(32);
    options.steps = 4;
    model.expect_accepted(options, "eight tokens a step");
    options.block_length = 8;
    options.steps = 8;
    model.expect_accepted(options, "blocks of eight");
    options.cache = "dual";
    options.lock = "eps=1e-3,gate=50";
    model.expect_accepted(options, "a cache and a lock");
  }
}

TEST(ConstrainedAnswers, AreAcceptedOfBlocksWithAndWithoutEditing) {
  for (const int32_t block_length : {4, 32}) {
    Constrained model(tiny_block_config(block_length));
    for (const double temperature : {0.0, 1.0}) {
      for (const char* rule : {"threshold=0.3", "dynamic=0.2", "low-confidence", "sequential"}) {
        model.expect_accepted(unmasked_by(rule, 48, temperature), rule);
      }
      GenerationOptions options = of_length(48);
      options.temperature = temperature;
      options.edit = "tau=0.01,most=4";
      model.expect_accepted(options, "edited");
      options.edit.reset();
      options.unmask = "dynamic=0.1";
      options.pipeline = "on";
      model.expect_accepted(options, "several blocks at once");
    }
  }
}

TEST(ConstrainedAnswers, AreAcceptedFromLeftToRight) {
  Constrained model(tiny_configs()[6]);
  for (const double temperature : {0.0, 1.0}) {
    GenerationOptions options = of_length(40);
    options.temperature = temperature;
    model.expect_accepted(options, "left to right");
  }
}

TEST(ConstrainedAnswers, AreAcceptedOfSlots) {
  Constrained model(tiny_refusion_config());
  for (const double temperature : {0.0, 1.0}) {
    for (const char* accept : {"exact", "threshold"}) {
      for (const double threshold : {0.02, 0.3, 0.9}) {
        GenerationOptions options = of_length(45);
        options.temperature = temperature;
        options.slot_threshold = threshold;
        options.block_length = 20;
        options.slot_size = 5;
        if (accept == std::string("exact")) {
          options.accept = accept;
        } else {
          options.token_threshold = threshold;
        }
        model.expect_accepted(options, fmt::format("{} {} at {}", accept, threshold, temperature));
        options.fill = "side-by-side";
        options.revoke = 0.3;
        model.expect_accepted(options, fmt::format("{} {} at {}, revoked", accept, threshold, temperature));
      }
    }
  }
}

/// A guide judges drafts in order; where it refuses one, its own token follows only if the form allows it.
TEST(ConstrainedAnswers, AreAcceptedWhereAGuideDecides) {
  Constrained model(tiny_configs()[4]);
  const Constrained guide(tiny_configs()[6], model.table());
  for (const char* fallback : {"dlm", "ar"}) {
    for (const char* match : {"exact", "top-k=8", "relative=0.1"}) {
      GenerationOptions options = of_length(48);
      options.block_length = 24;
      options.guide_match = match;
      options.guide_fallback = fallback;
      for (const Form& form : forms()) {
        for (uint64_t seed = 1; seed <= 3; ++seed) {
          const std::string text =
              text_of(model.table(), model.guided_answer(form.constraint, options, seed, guide.model()));
          EXPECT_TRUE(std::regex_match(text, std::regex(form.pattern)))
              << fallback << ", " << match << ": '" << text << "' is no " << form.pattern;
        }
      }
    }
  }
}

TEST(ConstrainedAnswers, AreAcceptedBehindACausalContext) {
  Constrained model(tiny_nemotron_config());
  for (const double temperature : {0.0, 1.0}) {
    for (const char* rule : {"threshold=0.3", "low-confidence"}) {
      model.expect_accepted(unmasked_by(rule, 45, temperature), rule);
      GenerationOptions options = unmasked_by(rule, 45, temperature);
      options.accept = "exact";
      model.expect_accepted(options, fmt::format("{}, judged", rule));
    }
  }
}

/// Self-speculation gives the text of the left-to-right mode, with a constraint as without one.
TEST(ConstrainedAnswers, AreThoseFromLeftToRightIfDraftsAreJudgedExactly) {
  Constrained drafted(tiny_nemotron_config());
  Constrained causal(tiny_nemotron_causal_config(), drafted.table());
  for (const Form& form : forms()) {
    for (const double temperature : {0.0, 1.0}) {
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        GenerationOptions options = of_length(40);
        options.temperature = temperature;
        const std::string wanted = text_of(causal.table(), causal.answer(&form.constraint, options, seed));
        options.accept = "exact";
        EXPECT_EQ(text_of(drafted.table(), drafted.answer(&form.constraint, options, seed)), wanted);
      }
    }
  }
}

TEST(ConstrainedAnswers, TakeNoPassForLiteralTextsThatAreGiven) {
  const Constraint form = RegexConstraint{R"(\{"name": "[a-c]{1,3}", "age": [1-9]\})"};
  for (const ModelConfig& config : {tiny_configs()[0], tiny_configs()[6]}) {
    for (const double temperature : {0.0, 1.0}) {
      GenerationOptions options = unmasked_by("low-confidence", 48, temperature);
      if (config.causal) options.unmask.reset();
      Constrained model(config);
      int decoded = 0, given = 0;
      for (uint64_t seed = 1; seed <= 3; ++seed) decoded += model.num_passes(form, options, seed);
      model.gives_literals = true;
      model.expect_accepted(options, "literals");
      for (uint64_t seed = 1; seed <= 3; ++seed) given += model.num_passes(form, options, seed);
      EXPECT_LT(given, decoded) << config.family;
    }
  }
  Constrained blocks(tiny_block_config(4));
  blocks.gives_literals = true;
  EXPECT_THROW(blocks.decoder(&form, of_length(48), 1), SettingError);
}

ModelConfig tiny_editing_config() {
  ModelConfig config = tiny_block_config(8);
  config.delete_id = 70;
  config.split_id = 71;
  return config;
}

ModelConfig tiny_growing_config() {
  ModelConfig config = tiny_configs()[0];
  config.shifted_logits = true;
  config.delete_id = 70;
  config.expand_id = 71;
  return config;
}

TEST(ConstrainedAnswers, AreNotEditedByInsertions) {
  Constrained model(tiny_editing_config());
  for (const double temperature : {0.0, 1.0}) {
    GenerationOptions options = of_length(48);
    options.temperature = temperature;
    model.expect_accepted(options, "editing");
  }
}

/// An answer of at most 48 tokens on a canvas that changes its length.
GenerationOptions growing(const std::string& grow, const std::string& unmask, double temperature) {
  GenerationOptions options = of_length(48);
  options.grow = grow;
  options.unmask = unmask;
  options.temperature = temperature;
  return options;
}

TEST(ConstrainedAnswers, AreAcceptedOnCanvasesThatGrowByTheirEndMass) {
  for (const int index : {0, 4}) {
    Constrained model(tiny_configs()[static_cast<size_t>(index)]);
    for (const char* unmask : {"threshold=0.9", "threshold=0.02"}) {
      for (const double temperature : {0.0, 1.0}) {
        for (const char* grow : {"end-mass,start=1,by=4,tail=4,enough=0,plenty=1,unsure=1",
                                 "end-mass,start=9,by=3,tail=2,enough=0.5,plenty=1,unsure=0.4"}) {
          model.expect_accepted(growing(grow, unmask, temperature), grow);
        }
      }
    }
  }
}

TEST(ConstrainedAnswers, AreAcceptedOnCanvasesThatTokensChange) {
  Constrained model(tiny_growing_config());
  for (const char* grow : {"tokens,start=1", "tokens,start=40", "tokens,start=12,rest=drop"}) {
    for (const char* unmask : {"entropy", "margin"}) {
      for (const double temperature : {0.0, 4.0}) {
        model.expect_accepted(growing(grow, unmask, temperature), grow);
      }
    }
  }
}

TEST(ConstrainedAnswers, ChangeNothingOnACanvasThatGrowsWhereTheConstraintAllowsEverything) {
  const Constraint anything = RegexConstraint{"[a-z]*"};
  for (const ModelConfig& config : {tiny_configs()[0], tiny_configs()[4]}) {
    Constrained model(config, letters_of(config));
    for (const double temperature : {0.0, 1.0}) {
      const GenerationOptions options = growing(
          "end-mass,start=3,by=4,tail=4,enough=0.02,plenty=1,unsure=0.3", "threshold=0.3", temperature);
      EXPECT_EQ(model.answer(&anything, options, 3), model.answer(nullptr, options, 3)) << config.family;
    }
  }
}

TEST(ConstrainedAnswers, StayPossibleWhereTokensBehindAreWrittenFirst) {
  Constrained model(tiny_configs()[0]);
  const std::string grow = "end-mass,start=1,by=4,tail=4,enough=0,plenty=1,unsure=1";
  for (const char* pattern : {"[xyz]{3}", "[xyz]{6}", "[xyz]{2}12?"}) {
    const Constraint exact = RegexConstraint{pattern};  // every position is unsure, and none may be added
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      const std::string text =
          text_of(model.table(), model.answer(&exact, growing(grow, "threshold=1", 0), seed));
      EXPECT_TRUE(std::regex_match(text, std::regex(pattern))) << text;
    }
  }
}

TEST(ConstrainedAnswers, KeepTheEditsThatLeaveAnAnswerPossible) {
  const ModelConfig config = tiny_growing_config();
  Constrained model(config);
  const TokenId x = 20 + ('x' - 'a');
  ASSERT_EQ(model.table().bytes[static_cast<size_t>(x)], "x");
  const auto keeps = [&](const char* pattern, int64_t edit) {
    const Constraint form = RegexConstraint{pattern};
    const auto decoder = model.decoder(&form, growing("tokens,start=3", "entropy", 0), 1);
    std::vector<RowStatistics> samples(decoder->plan().logits.size());
    EXPECT_EQ(samples.size(), 3U);
    for (RowStatistics& row : samples) {
      row.token = row.best_token = x;
      row.confidence = -1;
    }
    samples[1].token = samples[1].best_token = static_cast<TokenId>(edit);
    samples[1].confidence = -0.1;
    decoder->apply({samples});
    return decoder->follow_up().empty() ? static_cast<int>(decoder->canvas().size()) - 9 : -1;
  };
  EXPECT_EQ(keeps("[xyz]{3,4}", config.expand_id), 4);
  EXPECT_EQ(keeps("[xyz]{2,3}", config.delete_id), 2);
  EXPECT_EQ(keeps("[xyz]{3}", config.expand_id), -1);  // asks for the witness
  EXPECT_EQ(keeps("[xyz]{3}", config.delete_id), -1);
}

TEST(ConstrainedAnswers, GrowOnlyAsTheConstraintAllows) {
  Constrained model(tiny_configs()[0]);
  const Constraint digits = RegexConstraint{"[0-9]{30}"};
  const std::string grow = "end-mass,start=2,by=4,tail=4,enough=0,plenty=1,unsure=1";
  const std::string text = text_of(model.table(), model.answer(&digits, growing(grow, "threshold=1", 0), 1));
  EXPECT_TRUE(std::regex_match(text, std::regex("[0-9]{30}"))) << text;
  GenerationOptions options = growing(grow, "threshold=1", 0);
  options.gen_length = 9;
  EXPECT_THROW(model.decoder(&digits, options, 1), SettingError);
}

TEST(ConstrainedAnswers, AreAcceptedOfUniformDiffusion) {
  for (const float shift : {0.0F, 1000.0F}) {
    Constrained model(tiny_gidd_config(shift, 128));
    for (const double temperature : {0.0, 1.0}) {
      for (const char* sampler : {"adaptive", "ancestral", "threshold=0.3"}) {
        GenerationOptions options = of_length(48);
        options.temperature = temperature;
        options.sampler = sampler;
        options.block_length = 16;
        options.steps = 6;
        model.expect_accepted(options, fmt::format("{} at temperature {}", sampler, temperature));
      }
    }
  }
}

TEST(ConstrainedAnswers, AreAcceptedOfCanvases) {
  Constrained model(tiny_canvas_config());
  for (const double temperature : {0.0, 1.0}) {
    GenerationOptions options = of_length(40);
    options.temperature = temperature;
    options.block_length = 16;
    options.steps = 5;
    model.expect_accepted(options, "canvases");
  }
}

/// Two functions; the tags are tokens, or are written by their characters.
TokenTable tool_table(const ModelConfig& config, bool has_tags) {
  TokenTable table = table_of(config);
  TokenId id = 60;  // after some 46 characters and a few longer texts, which these replace
  for (const char* text : {"<", ">", "_", "/", "\n", "<tool_call>\n", "</tool"}) {
    table.bytes[static_cast<size_t>(id++)] = text;
  }
  if (has_tags) {
    for (const char* tag : {"<tool_call>", "</tool_call>"}) {
      table.bytes[static_cast<size_t>(id)] = tag;
      table.specials.push_back(id++);
    }
  }
  return table;
}

ToolCallConstraint two_tools(bool has_tags, bool is_required, bool is_parallel) {
  return {
      .functions = {{.name = "add",
                     .parameters = R"({"properties": {"a": {"type": "integer", "maximum": 99, "minimum": 0},
                                       "b": {"enum": ["x", "y"]}}, "required": ["a"]})"},
                    {.name = "now", .parameters = ""}},
      .is_required = is_required,
      .is_parallel = is_parallel,
      .has_tag_tokens = has_tags};
}

TEST(ConstrainedAnswers, AreTextOrCallsOfTools) {
  const std::string call =
      "<tool_call>\n\\{\"name\": \"(now\", \"arguments\": \\{\\}|add\", \"arguments\": "
      "\\{\"a\": [1-9]?[0-9](, \"b\": \"[xy]\")?\\})\\}\n</tool_call>";
  const std::string calls = call + "(\n" + call + ")*";
  int num_with_calls = 0;
  for (const ModelConfig& config :
       {tiny_configs()[0], tiny_block_config(4), tiny_configs()[6], tiny_gidd_config(1000, 192),
        tiny_canvas_config(), tiny_refusion_config(), tiny_nemotron_config()}) {
    for (const bool has_tags : {false, true}) {
      const TokenTable table = tool_table(config, has_tags);
      Constrained model(config, table);
      for (const bool is_required : {true, false}) {
        for (uint64_t seed = 1; seed <= 6; ++seed) {
          const bool is_parallel = seed % 2 == 0;
          GenerationOptions options = of_length(96);
          options.temperature = seed % 3 == 0 ? 1 : 0;
          const Constraint constraint = two_tools(has_tags, is_required, is_parallel);
          const std::string text = text_of(table, model.answer(&constraint, options, seed));
          const size_t begin = text.find("<tool_call>");
          EXPECT_TRUE(begin == 0 || !is_required) << text;
          if (begin == std::string::npos) continue;
          ++num_with_calls;
          EXPECT_TRUE(std::regex_match(text.substr(begin), std::regex(is_parallel ? calls : call)))
              << config.family << ": " << text;
        }
      }
    }
  }
  EXPECT_GE(num_with_calls, 60);
}

TEST(ConstrainedAnswers, ChangeNothingWhereTheConstraintAllowsEverything) {
  const Constraint anything = RegexConstraint{"[a-z]*"};
  for (const ModelConfig& config :
       {tiny_configs()[0], tiny_block_config(4), tiny_configs()[6], tiny_gidd_config(1000, 128),
        tiny_canvas_config(), tiny_refusion_config(), tiny_nemotron_config()}) {
    Constrained model(config, letters_of(config));
    for (const double temperature : {0.0, 1.0}) {
      GenerationOptions options = of_length(16);
      options.temperature = temperature;
      const std::vector<TokenId> free = model.answer(nullptr, options, 3);
      EXPECT_EQ(model.answer(&anything, options, 3), free) << config.family;
    }
  }
}

TEST(ConstrainedAnswers, AreTheSameInAnyBatchAndOnAnyDevice) {
  const Form form = forms()[2];
  for (const ModelConfig& config : {tiny_configs()[0], tiny_block_config(4), tiny_gidd_config(1000, 128),
                                    tiny_canvas_config(), tiny_refusion_config(), tiny_nemotron_config()}) {
    Constrained alone(config);
    const auto device = std::make_shared<FakeDevice>(alone.model());
    Engine engine(device, 3);
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      engine.add(alone.decoder(seed == 2 ? nullptr : &form.constraint, of_length(32), seed));
    }
    engine.run();
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const auto* constraint = seed == 2 ? nullptr : &form.constraint;
      EXPECT_EQ(Constrained::answer_of(engine.decoder(seed - 1)),
                alone.answer(constraint, of_length(32), seed))
          << config.family;
    }
  }
}

/// Requests of an expression whose automaton has many edges, and one request without a constraint that comes
/// after them. Returns the constrained passes made before that request was done, and its own.
std::pair<int, int> passes_before_the_plain_one(Constrained& tiny) {
  const Constraint heavy = RegexConstraint{"[a-y]*[aeiou][a-y]{12}"};
  Engine engine(tiny.model(), 32);
  engine.limit_rows(64);  // of rows alone, a constrained pass and the plain one would fit
  for (uint64_t seed = 1; seed <= 2; ++seed) engine.add(tiny.decoder(&heavy, of_length(24), seed));
  const size_t plain = engine.add(tiny.decoder(nullptr, of_length(8), 9));
  int of_constrained = 0, of_plain = 0;
  const auto observe = [&](const StepEvent& event) {
    ++(event.request == plain ? of_plain : of_constrained);
  };
  while (!engine.decoder(plain).done()) engine.step(observe);
  return {of_constrained, of_plain};
}

TEST(ConstrainedAnswers, LetOthersHaveTheirTurns) {
  ModelConfig config = tiny_configs()[0];
  Constrained tiny(config, letters_of(config));
  const auto [of_constrained, of_plain] = passes_before_the_plain_one(tiny);
  // A turn of a constraint counts as more rows than all of the short request's: it is done before the next.
  EXPECT_EQ(of_plain, 8);
  EXPECT_EQ(of_constrained, 0);
}

struct Waits {
  std::vector<double> turns;  ///< of two other requests, while a short one was answered
  std::vector<double> seconds;

  static double at(std::vector<double> values, double share) {
    std::sort(values.begin(), values.end());
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
  }
};

/// Short requests one after the other, while there are always two longer ones of another client.
Waits wait_beside(Constrained& tiny, const Constraint* constraint) {
  Engine engine(tiny.model(), 32);
  engine.limit_rows(64);
  Waits waits;
  std::vector<size_t> others;
  for (uint64_t turn = 0; turn < 40; ++turn) {
    std::erase_if(others, [&](size_t other) { return engine.decoder(other).done(); });
    while (others.size() < 2) {
      others.push_back(engine.add(tiny.decoder(constraint, of_length(24), 2 * turn + others.size())));
    }
    const size_t plain = engine.add(tiny.decoder(nullptr, of_length(8), turn));
    int of_others = 0;
    const Stopwatch clock;
    while (!engine.decoder(plain).done()) {
      engine.step([&](const StepEvent& event) { of_others += event.request == plain ? 0 : 1; });
    }
    waits.turns.push_back(of_others);
    waits.seconds.push_back(clock.seconds());
  }
  return waits;
}

TEST(ConstrainedAnswers, CostAnotherClientAtMostTwiceTheTurnsOfUnconstrainedOnes) {
  const ModelConfig config = tiny_configs()[0];
  Constrained tiny(config, letters_of(config));
  const Constraint heavy = RegexConstraint{"[a-y]*[aeiou][a-y]{9}"};
  const Waits beside_heavy = wait_beside(tiny, &heavy);
  const Waits beside_plain = wait_beside(tiny, nullptr);
  for (const auto& [what, waits] :
       {std::pair("constrained", &beside_heavy), {"unconstrained", &beside_plain}}) {
    std::printf("with %s requests: p50 %.0f, p99 %.0f turns of others; p50 %.4f s, p99 %.4f s\n", what,
                Waits::at(waits->turns, 0.5), Waits::at(waits->turns, 0.99), Waits::at(waits->seconds, 0.5),
                Waits::at(waits->seconds, 0.99));
  }
  for (const double share : {0.5, 0.99}) {
    EXPECT_LE(Waits::at(beside_heavy.turns, share), 2 * Waits::at(beside_plain.turns, share)) << share;
  }
}

TEST(ConstrainedAnswers, EndTheirWorkWithinAPassWhereNobodyWaits) {
  const ModelConfig config = tiny_configs()[0];
  Constrained tiny(config, letters_of(config));
  const Constraint heavy = RegexConstraint{"[a-y]*[aeiou][a-y]{9}"};
  Engine engine(tiny.model(), 2);
  const std::atomic<bool> stop{true};
  std::string failure;
  engine.when_failed([&](size_t request, const std::string& sentence) {
    EXPECT_EQ(request, 0U);
    failure = sentence;
  });
  engine.add(tiny.decoder(&heavy, of_length(24), 1), {.stop = &stop});
  engine.add(tiny.decoder(nullptr, of_length(8), 2));
  engine.run();
  EXPECT_EQ(failure, "the work was cancelled");
  EXPECT_TRUE(engine.decoder(1).done());
}

TEST(ConstrainedAnswers, AreRefusedBeforeTheFirstPassWhereNoneIsShortEnough) {
  Constrained model(tiny_configs()[0]);
  const Constraint digits = RegexConstraint{"[0-9]{30}"};
  try {
    model.decoder(&digits, of_length(8), 1);
    FAIL() << "expected an error";
  } catch (const SettingError& error) {
    EXPECT_EQ(error.problem().field, "gen_length");
    EXPECT_THAT(error.what(), HasSubstr("the shortest answer that the constraint allows has 10 tokens"));
  }
}

TEST(ConstrainedAnswers, AreRefusedWhereAMethodCannotGiveThem) {
  const Constraint digits = RegexConstraint{"[0-9]+"};
  Constrained slots(tiny_refusion_config());
  for (const char* rules : {"paper", "released"}) {
    GenerationOptions options = of_length(16);
    options.refusion = rules;
    EXPECT_THROW(slots.decoder(&digits, options, 1), SettingError) << rules;
  }
  GenerationOptions options = of_length(16);
  options.ignore_eos = true;
  Constrained blocks(tiny_block_config(4));
  EXPECT_THROW(blocks.decoder(&digits, options, 1), SettingError);
}

TEST(ConstrainedAnswers, FillHolesThatTheirTextLeaves) {
  Constrained model(tiny_configs()[0]);
  const Constraint form = RegexConstraint{"ab[0-9]{2}ab"};
  DecodeRequest request;
  request.prompt = random_tokens(1, 9, 60);
  const TokenVocabulary vocabulary(model.table());
  request.context.constraint = std::make_shared<const TokenAutomaton>(compile_constraint(form), vocabulary);
  const TokenId a = 20;
  const auto mask = static_cast<TokenId>(model.model()->config().mask_id);
  ASSERT_EQ(model.table().bytes[a], "a");
  request.context.answer = {a, a + 1, mask, mask, a, a + 1};
  const Strategy strategy = choose_strategy(model.model()->config(), {});
  Engine engine(model.model());
  engine.add(make_decoder(model.model()->config(), strategy, request));
  engine.run();
  const std::string text = text_of(model.table(), Constrained::answer_of(engine.decoder(0)));
  EXPECT_TRUE(std::regex_match(text, std::regex("ab[0-9]{2}ab"))) << text;
  request.context.answer = {a, mask, a};
  EXPECT_THROW(make_decoder(model.model()->config(), strategy, request), SettingError);
}

TEST(ConstrainedAnswers, HaveNoEndTokenInAHole) {
  Constrained model(tiny_configs()[0]);
  const Constraint form = RegexConstraint{"ab(12ab)?"};
  DecodeRequest request;
  const TokenVocabulary vocabulary(model.table());
  request.context.constraint = std::make_shared<const TokenAutomaton>(compile_constraint(form), vocabulary);
  const TokenId a = 20;
  const auto mask = static_cast<TokenId>(model.model()->config().mask_id);
  request.prompt = {a, a + 1};
  request.context.constrained_prefix = 2;
  request.context.answer = {mask, mask, a, a + 1};
  const Strategy strategy = choose_strategy(model.model()->config(), {});
  Engine engine(model.model());
  engine.add(make_decoder(model.model()->config(), strategy, request));
  engine.run();
  EXPECT_EQ(text_of(model.table(), Constrained::answer_of(engine.decoder(0))), "12ab");
  request.context.answer = {mask, mask, mask, mask, mask};  // one token more than the text can have
  EXPECT_THROW(make_decoder(model.model()->config(), strategy, request), SettingError);
}

}  // namespace
}  // namespace lacuna::constrained_test
