// The runs of `lacuna tune` on disk, so that an interrupted tuning continues where it stopped and a changed
// risk or confidence computes nothing again. JSON lines that are only ever appended; a line that cannot be
// read, such as the last one of a process that was killed, counts as absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/open_file.h"
#include "base/token.h"

namespace lacuna {

/// Work of a run. Everything but the time is the same on every machine.
struct RunWork {
  double flops = 0;
  double bytes = 0;  ///< weights and K/V that passes read and write, as if the request ran alone
  int64_t rows = 0;
  double seconds = 0;  ///< wall time of the batch, shared equally by its prompts
};

/// How fast a machine can compute and read: by these, settings are compared.
struct MachinePeaks {
  double flops = 0;      ///< per second
  double bandwidth = 0;  ///< bytes per second

  /// Seconds that the work takes where computing and reading do not overlap: at most twice the time of the
  /// roofline model (Williams et al. 2009), which takes the longer of the two for each pass.
  double seconds(const RunWork& work) const { return work.flops / flops + work.bytes / bandwidth; }
  bool operator==(const MachinePeaks&) const = default;
};

/// The baseline's answer to a prompt.
struct BaselineRun {
  std::string text_hash;        ///< of the answer's text
  std::vector<TokenId> tokens;  ///< of the answer, up to its first end token
  bool correct = false;         ///< where a checker judges answers
  RunWork work;
  std::optional<double> mean_nll = {};  ///< of the judge, nats per token, where it was asked
};

/// Losses of a setting on a prompt, relative to the baseline. Each lies in [0, 1].
struct TunedRun {
  double changed = 0;        ///< 1: the text differs
  double wrong = 0;          ///< 1: the baseline is correct and the setting is not
  double token = 0;          ///< share of tokens that differ
  std::optional<double> kl;  ///< mean over positions of min(KL, 1 nat), where it was measured
  RunWork work;
  std::optional<double> judge =
      {};  ///< increase of the judge's negative log-likelihood, nats per token, at most 1; where it was asked
};

class TuningLog {
 public:
  /// Reads the log and keeps it open for this process alone. Throws InputError if it cannot be read or
  /// written, or another process has it.
  ///   path  empty: nothing is kept
  ///   prompts  indices of prompts lie below this
  TuningLog(const std::filesystem::path& path, int32_t prompts);

  /// Null where the prompt has not been run.
  const BaselineRun* baseline(int32_t prompt) const;
  const TunedRun* tuned(const std::string& setting, int32_t prompt) const;
  /// FLOPs per second of the baseline, which translate a time budget into work once and for all.
  std::optional<double> speed() const { return speed_; }

  void add(int32_t prompt, const BaselineRun& run);
  void add(const std::string& setting, int32_t prompt, const TunedRun& run);
  void set_speed(double flops_per_second);
  /// Those that settings were compared by first; they stay.
  const std::optional<MachinePeaks>& peaks() const { return peaks_; }
  void set_peaks(const MachinePeaks& peaks);

  /// Runs that were found on disk.
  size_t num_found() const { return num_found_; }

 private:
  bool take_line(const std::string& line);
  void write(const std::string& line);

  std::string path_;
  FileDescriptor file_;
  int32_t num_prompts_;
  std::map<int32_t, BaselineRun> baselines_;
  std::map<std::pair<std::string, int32_t>, TunedRun> tuned_;
  std::optional<double> speed_;
  std::optional<MachinePeaks> peaks_;
  size_t num_found_ = 0;
};

}  // namespace lacuna
