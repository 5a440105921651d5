// The runs of `lacuna tune` on disk, so that an interrupted tuning can continue and a changed risk or
// confidence reuses all runs. An append-only file of JSON lines; unreadable lines, such as the last one of a
// killed process, are ignored.
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

/// Work of a run. All members but the time are the same on every machine.
struct RunWork {
  double flops = 0;
  double bytes = 0;  ///< weights and K/V that passes read and write, as if the request ran alone
  int64_t rows = 0;
  double seconds = 0;  ///< wall time of the batch, shared equally by its prompts
};

/// Peak speeds of a machine, by which settings are compared.
struct MachinePeaks {
  double flops = 0;      ///< per second
  double bandwidth = 0;  ///< bytes per second

  /// Seconds of the work if computing and reading do not overlap: at most twice the time of the roofline
  /// model (Williams et al. 2009), in which each pass takes the longer of the two.
  double seconds(const RunWork& work) const { return work.flops / flops + work.bytes / bandwidth; }
  bool operator==(const MachinePeaks&) const = default;
};

/// The baseline's answer to a prompt.
struct BaselineRun {
  std::string text_hash;        ///< of the answer's text
  std::vector<TokenId> tokens;  ///< of the answer, up to its first end token
  bool correct = false;         ///< by the checker; false without one
  RunWork work;
  std::optional<double> mean_nll = {};  ///< nats per token under the judge, if there is one
};

/// Losses of a setting on a prompt, relative to the baseline. Each lies in [0, 1].
struct TunedRun {
  double changed = 0;        ///< 1: the text differs
  double wrong = 0;          ///< 1: the baseline is correct and the setting is not
  double token = 0;          ///< share of tokens that differ
  std::optional<double> kl;  ///< mean over positions of min(KL, 1 nat), if measured
  RunWork work;
  std::optional<double> judge = {};  ///< increase of the judge's negative log-likelihood, nats per token, at
                                     ///< most 1, if there is a judge
};

class TuningLog {
 public:
  /// Reads the log and locks it for this process. Throws InputError if it cannot be read or written, or
  /// another process has locked it.
  ///   path     empty: nothing is stored
  ///   prompts  number of prompts
  TuningLog(const std::filesystem::path& path, int32_t prompts);

  /// Null if the prompt has not been run.
  const BaselineRun* baseline(int32_t prompt) const;
  const TunedRun* tuned(const std::string& setting, int32_t prompt) const;
  /// FLOPs per second of the baseline, by which a time budget is converted into work. Set once.
  std::optional<double> speed() const { return speed_; }

  void add(int32_t prompt, const BaselineRun& run);
  void add(const std::string& setting, int32_t prompt, const TunedRun& run);
  void set_speed(double flops_per_second);
  /// Peaks of the first tuning with this log, which later ones reuse.
  const std::optional<MachinePeaks>& peaks() const { return peaks_; }
  void set_peaks(const MachinePeaks& peaks);

  /// Number of runs that were found on disk.
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
