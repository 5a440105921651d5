// The report that `lacuna tune` prints.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "eval/tuning.h"
#include "options/saved_preset.h"

namespace lacuna {

/// Contents of a report besides the result.
struct TuningReport {
  std::string model;
  std::string guide;         ///< value of --guide; empty: none
  std::string baseline;      ///< generation flags that select the baseline; often none
  std::string prompts_name;  ///< "task arithmetic", or a file
  TuningPlan plan;
  TuningResult result;
  bool has_checker = false;  ///< whether a checker judged the answers
  std::string saved_as;      ///< name of the preset that was written; empty if none was
  std::filesystem::path saved_to;
};

void print_report(const TuningReport& report);
nlohmann::ordered_json to_json(const TuningReport& report);

}  // namespace lacuna
