#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/read_file.h"
#include "canvas_view.h"
#include "commands.h"
#include "engine/result.h"
#include "engine/trace.h"
#include "live_view.h"
#include "loading.h"
#include "numbers.h"
#include "terminal.h"
#include "tokenizer/thoughts.h"

namespace lacuna {
namespace {

struct ReplayFlags {
  std::string trace;
  ModelFlags model;
  uint32_t request = 0;
  LiveFlags live;
};

/// Supplies data that older traces lack, such as token texts, from the model.
struct ReplayModel {
  explicit ReplayModel(const ModelFlags& flags)
      : source(find_model(flags)), tokenizer(tokenizer_of(source)) {}

  ModelSource source;
  std::optional<Tokenizer> tokenizer;
};

CanvasFrame frame_of(const CanvasFollower& follower, const TraceReplay& replay) {
  CanvasFrame frame = follower.frame(replay.committed().empty() ? 0 : replay.committed().front().position);
  if (replay.num_passes() > 0) frame.status.push_back(fmt::format("step {}", replay.step() + 1));
  frame.status.push_back(fmt::format("{} masked", follower.num_masked()));
  if (replay.num_passes() > 0) {
    frame.status.push_back(fmt::format("{:.2f} s", replay.seconds()));
    frame.status.push_back(fmt::format("{} rows", replay.num_rows()));
  }
  return frame;
}

void replay(const ReplayFlags& flags) {
  constexpr size_t kMaxTraceBytes = size_t{256} << 20;
  std::istringstream stream(read_whole_file(flags.trace, kMaxTraceBytes, FileKind::kAnything));
  TraceReplay trace(stream, flags.trace, flags.request);
  std::optional<ReplayModel> model;
  if (!flags.model.model.empty()) model.emplace(flags.model);
  const Tokenizer* const tokenizer = model && model->tokenizer ? &*model->tokenizer : nullptr;
  const auto text_of = [&](TokenId token) {
    return tokenizer != nullptr ? tokenizer->decode(std::array{token}, false) : trace.piece(token);
  };
  const TokenId mask_id = trace.mask_id() < 0 && model ? model->source.config.mask_id : trace.mask_id();
  const std::vector<TokenId> ends =
      trace.end_ids().empty() && model ? model->source.config.end_ids : trace.end_ids();
  const auto prompt_length = static_cast<size_t>(trace.prompt_length());
  CanvasFollower follower({mask_id, ends, prompt_length}, text_of, trace.canvas());

  if (flags.live.can_draw()) {
    LiveFlags live = flags.live;
    constexpr double kPassesPerSecond = 10;
    live.fps = live.fps.value_or(kPassesPerSecond);
    LiveView view(live);
    view.show(frame_of(follower, trace));
    while (trace.next()) {
      follower.follow(trace.canvas(), trace.committed(), trace.edits());
      if (view.is_time()) view.show(frame_of(follower, trace));
    }
  } else {
    while (trace.next()) {
    }
  }
  const std::span<const TokenId> generated =
      trace.canvas().subspan(std::min(prompt_length, trace.canvas().size()));
  const std::span<const TokenId> answer = answer_part(generated, ends);
  std::string text;
  if (tokenizer != nullptr) {
    text = tokenizer->decode(ThoughtFilter(tokenizer).remove(answer));
  } else {
    for (const TokenId token : answer) text += trace.piece(token);
  }
  print_data("{}\n", text);
}

}  // namespace

void add_replay_command(CLI::App& program) {
  auto flags = std::make_shared<ReplayFlags>();
  CLI::App* command = program.add_subcommand("replay", "Show a run again that --trace recorded");
  command->add_option("TRACE", flags->trace, "File that `lacuna run --trace` wrote")->required();
  command->add_option("-m,--model", flags->model.model,
                      "Model whose tokenizer has the texts (default: the texts in the trace)");
  command->add_option("--request", flags->request, "Which of several prompts, from 0 (default 0)")
      ->check(number<uint32_t>());
  add_config_flags(*command, flags->model);
  add_view_flags(*command, flags->live);
  command->callback([flags] { replay(*flags); });
}

}  // namespace lacuna
