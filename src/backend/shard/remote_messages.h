// Results of a pass, and follow-ups on its rows, as messages between two processes of the same program.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "model/pass_result.h"
#include "model/pass_times.h"

namespace lacuna {

/// PassResult with the memory that its spans view.
struct OwnPassResult {
  std::vector<RowStatistics> samples;
  std::vector<float> kv_drift;
};
/// FollowUp with the memory that its spans and pointers view.
struct OwnFollowUp {
  std::vector<LogitRow> logits;
  std::vector<DriftProbe> probes;
  std::vector<TokenClasses> partitions;
  std::vector<ClassRow> classes;  ///< they refer to `partitions`
};
struct OwnFollowUpResult {
  std::vector<RowStatistics> samples;
  std::vector<Drift> drifts;
  std::vector<ClassStatistics> classes;
};

// Conversions keep all bits. Functions that read a message throw nlohmann::json::exception if it is
// malformed.
nlohmann::json to_message(const PassResult& result);
OwnPassResult pass_result_of(const nlohmann::json& message);
nlohmann::json to_message(const FollowUp& wanted);
OwnFollowUp follow_up_of(const nlohmann::json& message);
nlohmann::json to_message(const FollowUpResult& result);
OwnFollowUpResult follow_up_result_of(const nlohmann::json& message);
nlohmann::json to_message(const PassTimes& times);
PassTimes pass_times_of(const nlohmann::json& message);

}  // namespace lacuna
