#include "train/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/error.h"
#include "eval/decisions.h"
#include "train/export.h"

namespace lacuna::train {
namespace {

/// A positive number; empty for another text.
std::optional<double> parse_positive(std::string_view text) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size() || !(number > 0) || number > 1e9) return {};
  return number;
}

}  // namespace

NamedShare parse_share(std::string_view flag, const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos) return {text, 1};
  const std::optional<double> share = parse_positive(std::string_view(text).substr(equals + 1));
  if (!share || equals == 0)
    throw InputError("{}: '{}' is not NAME or NAME=SHARE with a share above 0", flag, text);
  return {text.substr(0, equals), *share};
}

namespace {

/// Sets the shares of tasks and of decisions.
void parse_tasks(const Arguments& arguments, DataOptions& data) {
  std::vector<std::string> texts = arguments.tasks;
  if (texts.empty() && arguments.data_files.empty()) texts = {"arithmetic=0.7", "stories=0.1"};
  for (const std::string& text : texts) {
    const auto [name, share] = parse_share("--tasks", text);
    if (name == kDecisionsTask) {
      data.decision_share = share;
      continue;
    }
    const Task& task = find_task(name);
    if (task.name == "infill") throw InputError("--tasks infill: holes are learned with --infill-share");
    data.tasks.push_back({&task, share});
  }
  if (data.tasks.empty() && arguments.data_files.empty())
    throw InputError("--tasks decisions: expected another task with it");
}

/// Reads "r=16,alpha=32".
LoraShape parse_lora(const std::string& text) {
  constexpr double kMaxRank = 1024;
  LoraShape lora;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = std::string_view(text).substr(begin, end - begin);
    const std::optional<double> number =
        parse_positive(part.substr(std::min(part.find('=') + 1, part.size())));
    if (part.starts_with("r=") && number && *number <= kMaxRank && std::floor(*number) == *number) {
      lora.rank = static_cast<int64_t>(*number);
    } else if (part.starts_with("alpha=") && number) {
      lora.alpha = *number;
    } else {
      throw InputError("--lora {}: expected r=RANK or r=RANK,alpha=ALPHA, with a rank of 1 to {}", text,
                       kMaxRank);
    }
    begin = end + 1;
  }
  if (lora.rank == 0) throw InputError("--lora {}: expected r=RANK", text);
  if (lora.alpha == 0) lora.alpha = 2 * static_cast<double>(lora.rank);
  return lora;
}

bool bf16_products(const std::string& matmul) {
  if (matmul != "auto") return matmul == "bf16";
  return __builtin_cpu_supports("avx512bf16") != 0;
}

void check_experts(const ModelShape& shape) {
  const ExpertShape& experts = shape.experts;
  if (shape.traits().has_canvases()) {
    if (experts.per_token <= experts.count) return;
    throw InputError("--experts-per-token {}: expected 1 to {}", experts.per_token, experts.count);
  }
  if (experts.count < 2 * kExpertGroups || experts.count % kExpertGroups != 0) {
    throw InputError("--experts {}: expected a multiple of {} from {} on", experts.count, kExpertGroups,
                     2 * kExpertGroups);
  }
  const int64_t open = kGroupsPerToken * experts.count / kExpertGroups;
  if (experts.per_token > open) {
    throw InputError("--experts-per-token {}: expected 1 to {}, the experts of {} groups", experts.per_token,
                     open, kGroupsPerToken);
  }
}

/// Settings that only gidd and gidd-mask have.
void complete_interpolation(Arguments& arguments) {
  constexpr int64_t kContext = 128;
  ModelShape& shape = arguments.shape;
  const FamilyTraits& traits = shape.traits();
  if (shape.left_to_right && !traits.first_phase) {
    throw InputError(
        "--left-to-right: {} has no such phase; gidd, gidd-mask, llada2-moe and diffusion-gemma have",
        traits.name);
  }
  if (!traits.interpolates()) {
    shape.context = arguments.context.value_or(shape.context);
    return;
  }
  shape.context = arguments.context.value_or(kContext);
  if (!shape.left_to_right) arguments.data.context = shape.context;
}

void complete_lengths(Arguments& arguments) {
  DataOptions& data = arguments.data;
  if (!arguments.lengths.empty()) {
    data.min_length = arguments.lengths[0];
    data.max_length = arguments.lengths[1];
    if (data.min_length < kMinLength || data.max_length > kMaxLength || data.min_length > data.max_length) {
      throw InputError("--lengths {},{}: expected two ascending numbers from {} to {}", data.min_length,
                       data.max_length, kMinLength, kMaxLength);
    }
  }
  if (arguments.shape.objective() == Objective::kBlocks) data.block_length = arguments.shape.block_length;
}

/// Settings of the objectives.
void complete_objective(Arguments& arguments) {
  const FamilyTraits& family = arguments.shape.traits();
  TrainOptions& train = arguments.train;
  const DataOptions& data = arguments.data;
  const auto refuse_unless = [](bool is_right, std::string_view flag, std::string_view expected) {
    if (!is_right) throw InputError("{}: expected {}", flag, expected);
  };
  train.is_paper = arguments.objective == "paper";
  if (train.is_paper) {
    refuse_unless(has_paper_objective(family) && !arguments.shape.left_to_right, "--objective paper",
                  "--family llada, dream, refusion, sdar, fast-dllm-v2 or llada2-moe");
    refuse_unless(
        train.half_written_share == 0 && train.copies_share == 0 && data.given_tail_share == 0 &&
            data.decision_auxiliary == 0,
        "--objective paper",
        "none of --half-written-share, --copies-share, --given-tail-share and --decision-auxiliary, "
        "which the papers do not have");
  }
  refuse_unless(!arguments.lambda || (train.is_paper && family.objective == Objective::kSlots), "--lambda",
                "--family refusion --objective paper");
  refuse_unless(!arguments.cart_p || (train.is_paper && family.family == Family::kDream), "--cart-p",
                "--family dream --objective paper");
  refuse_unless(!arguments.clean_weight || family.objective == Objective::kStrided, "--clean-weight",
                "--family i-dlm");
  refuse_unless(!arguments.shape.uniform_shift || family.interpolates(), "--uniform-shift",
                "--family gidd or gidd-mask");
  refuse_unless(train.confidence_weight == 0 || (has_masks(family) && !arguments.shape.left_to_right),
                "--confidence-weight", "--family llada, dream, sdar, fast-dllm-v2 or llada2-moe");
  if (!arguments.teacher.empty()) {
    refuse_unless(has_trajectories(family), "--teacher", "--family llada, dream or sdar");
    refuse_unless(!train.is_paper && train.copies_share == 0 && data.decision_auxiliary == 0, "--teacher",
                  "none of --objective paper, --copies-share and --decision-auxiliary");
  }
  train.lambda = arguments.lambda.value_or(train.lambda);
  train.cart_p = arguments.cart_p.value_or(train.cart_p);
  train.clean_weight = arguments.clean_weight.value_or(train.clean_weight);
  if (!arguments.slot_sizes.empty()) {
    train.slot_sizes = arguments.slot_sizes;
    return;
  }
  const int64_t room =
      std::max({data.canvas, data.longest_canvas, arguments.data_files.empty() ? 0 : arguments.row_length});
  std::erase_if(train.slot_sizes, [&](int64_t size) { return size > room; });
  if (train.slot_sizes.empty()) train.slot_sizes = {room};
}

}  // namespace

void complete(Arguments& arguments) {
  arguments.shape.family = find_family(arguments.family);
  if (arguments.train.minutes <= 0 && arguments.train.steps <= 0 && !arguments.only_exports) {
    throw InputError("training needs an end: give --minutes or --steps");
  }
  check_experts(arguments.shape);
  if (arguments.shape.width % (2 * arguments.shape.heads) != 0) {
    throw InputError("--width {} is not a multiple of twice --heads {}", arguments.shape.width,
                     arguments.shape.heads);
  }
  const int64_t ffn_width =
      arguments.shape.traits().interpolates() ? 4 * arguments.shape.width : arguments.shape.ffn_width;
  arguments.shape.ffn_width = arguments.ffn_width.value_or(ffn_width);
  parse_tasks(arguments, arguments.data);
  if (!arguments.lora.empty()) arguments.lora_shape = parse_lora(arguments.lora);
  if (!arguments.adapter.empty()) arguments.lora_shape = adapter_shape(arguments.adapter);
  if ((arguments.only_exports || !arguments.adapter.empty()) && arguments.start.empty())
    throw InputError("{}: expected --init as well, the checkpoint that is adapted",
                     arguments.only_exports ? "--only-export" : "--adapter");
  if (!arguments.data_files.empty() && arguments.start.empty())
    throw InputError("--data: expected --init as well, the checkpoint whose tokenizer reads the texts");
  if (!arguments.data_files.empty() && (arguments.wide_vocabulary || arguments.max_vocabulary))
    throw InputError(
        "--data: the tokenizer of --init is kept; expected no --wide-vocabulary or --max-vocabulary");
  for (const QuestionKind kind : {QuestionKind::kPredicate, QuestionKind::kChoice, QuestionKind::kScore}) {
    const std::vector<std::string>& names = arguments.decision_kinds;
    if (std::find(names.begin(), names.end(), name_of(kind)) != names.end())
      arguments.data.decision_kinds.push_back(kind);
  }
  const Objective objective = arguments.shape.traits().objective;
  if (arguments.data.decision_auxiliary > 0 && objective != Objective::kMaskedTokens) {
    throw InputError("--decision-auxiliary: {} has no auxiliary targets; expected llada or dream",
                     arguments.shape.traits().name);
  }
  if (arguments.data.decision_auxiliary > 0 && arguments.shape.layers < 3) {
    throw InputError(
        "--layers {}: expected at least 3 with --decision-auxiliary, some of whose rows are read two layers "
        "early",
        arguments.shape.layers);
  }
  if (objective == Objective::kNextToken || objective == Objective::kSlots ||
      objective == Objective::kStrided || arguments.shape.left_to_right) {
    arguments.data.single_line_share = 1;
  } else if (objective == Objective::kBlocks) {
    arguments.data.single_line_share = 0.5;
  }
  arguments.data.seed = arguments.train.seed;
  arguments.data.one_end_token = arguments.shape.traits().objective == Objective::kSlots;
  if (arguments.data.one_end_token || arguments.data.tasks.empty()) arguments.data.drill_share = 0;
  if (arguments.drill_share) arguments.data.drill_share = *arguments.drill_share;
  complete_interpolation(arguments);
  complete_objective(arguments);
  complete_lengths(arguments);
  arguments.train.bf16_products = bf16_products(arguments.matmul);
}

}  // namespace lacuna::train
