#include "hub/pull.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "commands.h"
#include "progress_bar.h"
#include "stop_signals.h"
#include "terminal.h"

namespace lacuna {
namespace {

struct PullFlags {
  std::string model;
  std::optional<std::string> revision;
  std::vector<std::string> include;
};

/// Formats a size in decimal units, like the hub.
std::string file_size_text(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1'000'000'000) return fmt::format("{:.1f} GB", value / 1e9);
  if (bytes >= 1'000'000) return fmt::format("{:.1f} MB", value / 1e6);
  if (bytes >= 1'000) return fmt::format("{:.1f} kB", value / 1e3);
  return fmt::format("{} B", bytes);
}

/// Download rate over the last seconds.
class Rate {
 public:
  void add(int64_t bytes) {
    const auto now = Clock::now();
    samples_.emplace_back(now, bytes);
    while (now - samples_.front().first > std::chrono::seconds(10)) samples_.pop_front();
  }

  /// Bytes per second; 0 while unknown.
  double value() const {
    const auto& [start, first] = samples_.front();
    const auto& [end, last] = samples_.back();
    const double seconds = std::chrono::duration<double>(end - start).count();
    return seconds < 0.5 || last <= first ? 0 : static_cast<double>(last - first) / seconds;
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::deque<std::pair<Clock::time_point, int64_t>> samples_;
};

/// Shows a bar with rate and remaining time on a terminal; elsewhere a line for each file and every half
/// minute.
class PullReport : public PullObserver {
 public:
  explicit PullReport(const std::string& model) : bar_("Pulling " + model) {}

  void planned(const PullPlan& plan) override {
    total_ = plan.total_bytes;
    const int64_t missing = plan.total_bytes - plan.present_bytes;
    print_message("{} files of {}{}\n", plan.files.size(), file_size_text(total_),
                  missing == 0 ? ", all here already"
                  : plan.present_bytes > 0
                      ? fmt::format(", {} here already, {} to download", file_size_text(plan.present_bytes),
                                    file_size_text(missing))
                      : " to download");
  }

  void progressed(int64_t present_bytes) override {
    rate_.add(present_bytes);
    present_ = present_bytes;
    if (bar_.shown()) {
      bar_.update(present_, total_, detail());
    } else if (Clock::now() - last_line_ >= std::chrono::seconds(30)) {
      print_line(detail());
    }
  }

  void finished(const HubFile& file) override {
    if (!bar_.shown()) print_line(fmt::format("{} ({})", file.path, file_size_text(file.size)));
  }

  void noted(std::string_view sentence) override {
    bar_.clear();
    print_line(sentence);
  }

  void clear() { bar_.clear(); }

 private:
  using Clock = std::chrono::steady_clock;

  std::string detail() const {
    std::string text = fmt::format("{} of {}", file_size_text(present_), file_size_text(total_));
    if (const double rate = rate_.value(); rate > 0) {
      text += fmt::format(", {}/s, {} left", file_size_text(static_cast<int64_t>(rate)),
                          duration_text(static_cast<double>(total_ - present_) / rate));
    }
    return text;
  }

  void print_line(std::string_view line) {
    print_message("{}\n", line);
    last_line_ = Clock::now();
  }

  ProgressBar bar_;
  Rate rate_;
  int64_t total_ = 0;
  int64_t present_ = 0;
  Clock::time_point last_line_ = Clock::now();
};

PullOptions pull_options(const PullFlags& flags) {
  PullOptions options;
  const std::optional<HubModel> model = HubModel::parse(flags.model);
  if (!model) {
    throw InputError(
        "{} is not the name of a model on the hub; expected ORG/NAME, ORG/NAME@REVISION or ORG/NAME:QUANT",
        in_quotes(flags.model));
  }
  options.model = *model;
  if (flags.revision) {
    if (!is_hub_revision(*flags.revision)) {
      throw InputError("--revision is {}; expected a branch, a tag or a commit", in_quotes(*flags.revision));
    }
    options.model.revision = *flags.revision;
  }
  options.include = flags.include;
  options.access = HubAccess::from_environment();
  options.cache = HubCache::from_environment();
  return options;
}

void pull_command(const PullFlags& flags) {
  const PullOptions options = pull_options(flags);
  const std::atomic<bool>& stop = stop_on_signals();
  PullReport report(options.model.text());
  try {
    const std::filesystem::path folder = pull(options, report, stop);
    report.clear();
    print_message("Ready: lacuna run -m {} -p \"...\"\n", options.model.text());
    print_text("{}\n", folder.string());
  } catch (const PullStopped&) {
    report.clear();
    print_message("lacuna: stopped; `lacuna pull {}` resumes the download\n", options.model.text());
    std::exit(130);  // the shells' exit code for SIGINT
  }
}

}  // namespace

void add_pull_command(CLI::App& program) {
  auto flags = std::make_shared<PullFlags>();
  CLI::App* command = program.add_subcommand("pull", "Download a model from the Hugging Face hub");
  command
      ->add_option("MODEL,-m,--model", flags->model,
                   "ORG/NAME, with @REVISION for a branch, tag or commit, or with :QUANT for one of several "
                   "GGUF files")
      ->required();
  command->add_option("--revision", flags->revision, "A branch, tag or commit (default: main)");
  command
      ->add_option("--include", flags->include,
                   "Download the files that match this pattern (*, ?, [...]; may be repeated) instead of "
                   "config, tokenizer and safetensors")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->footer(
      "The folder is printed at the end. An interrupted download is resumed by the same command. HF_TOKEN, "
      "HF_HOME, HF_HUB_CACHE, HF_ENDPOINT and the proxy variables are honoured: docs/guide/get_models.md.");
  command->callback([flags] { pull_command(*flags); });
}

}  // namespace lacuna
