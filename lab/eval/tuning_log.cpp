#include "eval/tuning_log.h"

#include <sys/file.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/read_file.h"
#include "base/written_file.h"

namespace lacuna {
namespace {

constexpr size_t kLongestLogLine = size_t{1} << 22;
constexpr int64_t kMaxLogBytes = int64_t{1} << 30;
constexpr size_t kLongestSetting = 1000;

double number_of(const nlohmann::json& json, const char* key, double first, double last) {
  const auto value = json.find(key);
  if (value == json.end() || !value->is_number()) throw InputError("{} is missing or of another type", key);
  const double number = value->get<double>();
  if (!(number >= first && number <= last)) throw InputError("{} is out of range", key);
  return number;
}

RunWork work_from(const nlohmann::json& json) {
  return {number_of(json, "flops", 0, 1e30), number_of(json, "bytes", 0, 1e30),
          static_cast<int64_t>(number_of(json, "rows", 0, 9e15)), number_of(json, "seconds", 0, 1e12)};
}

nlohmann::ordered_json with_work(nlohmann::ordered_json json, const RunWork& work) {
  json["flops"] = work.flops;
  json["bytes"] = work.bytes;
  json["rows"] = work.rows;
  json["seconds"] = work.seconds;
  return json;
}

}  // namespace

TuningLog::TuningLog(const std::filesystem::path& path, int32_t prompts)
    : path_(path.string()), num_prompts_(prompts) {
  if (path.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  constexpr bool kIsPrivate = true;
  file_ = open_to_write(path, WriteFrom::kEnd, kIsPrivate);
  if (flock(file_.number(), LOCK_EX | LOCK_NB) != 0) {
    throw InputError("{}: another lacuna tune with the same model and prompts is running", path_);
  }
  if (static_cast<int64_t>(std::filesystem::file_size(path, error)) > kMaxLogBytes) {
    throw InputError("{}: is larger than {} bytes; delete it to begin anew", path_, kMaxLogBytes);
  }
  const std::string text = read_whole_file(path, kMaxLogBytes);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (take_line(text.substr(begin, end - begin))) ++num_found_;
    begin = end + 1;
  }
  if (!text.empty() && text.back() != '\n') write("");  // begin a new line for the next record
}

bool TuningLog::take_line(const std::string& line) {
  if (line.empty() || line.size() > kLongestLogLine) return false;
  try {
    const nlohmann::json json = parse_json(line, "log");
    if (!json.is_object()) return false;
    if (json.contains("speed")) {
      speed_ = number_of(json, "speed", 1, 1e30);
      return false;
    }
    if (json.contains("peak_flops")) {
      peaks_ = {number_of(json, "peak_flops", 1, 1e30), number_of(json, "peak_bandwidth", 1, 1e30)};
      return false;
    }
    const auto prompt = static_cast<int32_t>(number_of(json, "prompt", 0, num_prompts_ - 1));
    const std::string setting = json.value("setting", "");
    if (setting.size() > kLongestSetting) return false;
    if (json.contains("text")) {
      BaselineRun run;
      run.text_hash = json["text"].get<std::string>();
      run.tokens = json.at("tokens").get<std::vector<TokenId>>();
      run.correct = json.at("correct").get<bool>();
      run.work = work_from(json);
      if (json.contains("mean_nll")) run.mean_nll = number_of(json, "mean_nll", 0, 1e9);
      baselines_[prompt] = std::move(run);
    } else {
      TunedRun run{number_of(json, "changed", 0, 1),
                   number_of(json, "wrong", 0, 1),
                   number_of(json, "token", 0, 1),
                   {},
                   work_from(json)};
      if (json.contains("kl")) run.kl = number_of(json, "kl", 0, 1);
      if (json.contains("judge")) run.judge = number_of(json, "judge", 0, 1);
      tuned_[{setting, prompt}] = run;
    }
    return true;
  } catch (const InputError&) {
    return false;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

void TuningLog::write(const std::string& line) {
  if (file_.number() >= 0) write_all(file_.number(), line + '\n', path_);
}

const BaselineRun* TuningLog::baseline(int32_t prompt) const {
  const auto found = baselines_.find(prompt);
  return found == baselines_.end() ? nullptr : &found->second;
}

const TunedRun* TuningLog::tuned(const std::string& setting, int32_t prompt) const {
  const auto found = tuned_.find({setting, prompt});
  return found == tuned_.end() ? nullptr : &found->second;
}

void TuningLog::add(int32_t prompt, const BaselineRun& run) {
  baselines_[prompt] = run;
  nlohmann::ordered_json json{
      {"prompt", prompt}, {"text", run.text_hash}, {"tokens", run.tokens}, {"correct", run.correct}};
  if (run.mean_nll) json["mean_nll"] = *run.mean_nll;
  write(with_work(std::move(json), run.work).dump());
}

void TuningLog::add(const std::string& setting, int32_t prompt, const TunedRun& run) {
  tuned_[{setting, prompt}] = run;
  nlohmann::ordered_json json{{"setting", setting},
                              {"prompt", prompt},
                              {"changed", run.changed},
                              {"wrong", run.wrong},
                              {"token", run.token}};
  if (run.kl) json["kl"] = *run.kl;
  if (run.judge) json["judge"] = *run.judge;
  write(with_work(std::move(json), run.work).dump());
}

void TuningLog::set_speed(double flops_per_second) {
  speed_ = flops_per_second;
  write(nlohmann::ordered_json{{"speed", flops_per_second}}.dump());
}

void TuningLog::set_peaks(const MachinePeaks& peaks) {
  peaks_ = peaks;
  write(nlohmann::ordered_json{{"peak_flops", peaks.flops}, {"peak_bandwidth", peaks.bandwidth}}.dump());
}

}  // namespace lacuna
