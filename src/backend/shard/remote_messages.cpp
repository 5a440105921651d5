#include "backend/shard/remote_messages.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace lacuna {
namespace {

using nlohmann::json;

constexpr std::array kParts = {&PassTimes::qkv,    &PassTimes::attention, &PassTimes::selection,
                               &PassTimes::output, &PassTimes::ffn,       &PassTimes::norms,
                               &PassTimes::head,   &PassTimes::draws,     &PassTimes::other};

/// Numbers as raw bytes: both processes run on the same machine.
template <typename Number>
json packed(std::span<const Number> numbers) {
  std::vector<uint8_t> bytes(numbers.size_bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return json::binary(std::move(bytes));
}

json packed_numbers(std::initializer_list<double> numbers) {
  return packed(std::span(numbers.begin(), numbers.size()));
}

template <typename Number>
std::vector<Number> unpacked(const json& message) {
  const json::binary_t& bytes = message.get_binary();
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(Number));
  return numbers;
}

json sample_message(const RowStatistics& row) {
  json message = {{"t", {row.token, row.best_token, row.second_token, row.scored_rank}},
                  {"n", packed_numbers({row.confidence, row.best_logit, row.scored_logit,
                                        row.scored_probability, row.entropy, row.margin})}};
  if (!row.listed_logprobs.empty()) message["l"] = packed(std::span<const double>(row.listed_logprobs));
  for (const auto& [token, logprob] : row.likeliest) {
    message["k"].push_back(token);
    message["p"].push_back(packed_numbers({logprob}));
  }
  if (!row.is_finite) message["f"] = false;
  return message;
}

RowStatistics sample_of(const json& message) {
  RowStatistics row;
  const json& tokens = message.at("t");
  row.token = tokens.at(0).get<TokenId>();
  row.best_token = tokens.at(1).get<TokenId>();
  row.second_token = tokens.at(2).get<TokenId>();
  row.scored_rank = tokens.at(3).get<int32_t>();
  const std::vector<double> numbers = unpacked<double>(message.at("n"));
  row.confidence = numbers.at(0);
  row.best_logit = static_cast<float>(numbers.at(1));
  row.scored_logit = static_cast<float>(numbers.at(2));
  row.scored_probability = numbers.at(3);
  row.entropy = numbers.at(4);
  row.margin = numbers.at(5);
  if (message.contains("l")) row.listed_logprobs = unpacked<double>(message["l"]);
  if (message.contains("k")) {
    for (size_t i = 0; i < message["k"].size(); ++i)
      row.likeliest.emplace_back(message["k"][i].get<TokenId>(),
                                 unpacked<double>(message.at("p").at(i)).at(0));
  }
  row.is_finite = message.value("f", true);
  return row;
}

json samples_message(std::span<const RowStatistics> rows) {
  json message = json::array();
  for (const RowStatistics& row : rows) message.push_back(sample_message(row));
  return message;
}

std::vector<RowStatistics> samples_of(const json& message) {
  std::vector<RowStatistics> rows;
  for (const json& row : message) rows.push_back(sample_of(row));
  return rows;
}

json logit_message(const LogitRow& logit) {
  return {logit.row,         logit.unconditional_row, logit.guidance, logit.rule,
          logit.noise.key(), logit.num_likeliest,     logit.scored,   logit.soft_embedding_slack};
}

LogitRow logit_of(const json& message) {
  LogitRow logit;
  logit.row = message.at(0).get<int32_t>();
  logit.unconditional_row = message.at(1).get<int32_t>();
  logit.guidance = message.at(2).get<float>();
  logit.rule = message.at(3).get<int32_t>();
  logit.noise = RngStream::from_key(message.at(4).get<uint64_t>());
  logit.num_likeliest = message.at(5).get<int32_t>();
  logit.scored = message.at(6).get<TokenId>();
  logit.soft_embedding_slack = message.at(7).get<float>();
  return logit;
}

}  // namespace

json to_message(const PassResult& result) {
  return {{"samples", samples_message(result.samples)}, {"kv_drift", packed(result.kv_drift)}};
}

OwnPassResult pass_result_of(const json& message) {
  return {samples_of(message.at("samples")), unpacked<float>(message.at("kv_drift"))};
}

json to_message(const FollowUp& wanted) {
  json message = {{"logits", json::array()},
                  {"probes", json::array()},
                  {"partitions", json::array()},
                  {"classes", json::array()}};
  for (const LogitRow& logit : wanted.logits) message["logits"].push_back(logit_message(logit));
  for (const DriftProbe& probe : wanted.probes)
    message["probes"].push_back({probe.row, probe.unconditional_row, probe.guidance, probe.cell});
  std::vector<const TokenClasses*> partitions;
  for (const ClassRow& row : wanted.classes) {
    auto found = std::find(partitions.begin(), partitions.end(), row.classes);
    if (found == partitions.end()) {
      message["partitions"].push_back(
          {row.classes->count, packed(std::span<const uint16_t>(row.classes->of_token))});
      partitions.push_back(row.classes);
      found = partitions.end() - 1;
    }
    message["classes"].push_back({logit_message(row.logit), found - partitions.begin(), row.samples});
  }
  return message;
}

OwnFollowUp follow_up_of(const json& message) {
  OwnFollowUp wanted;
  for (const json& logit : message.at("logits")) wanted.logits.push_back(logit_of(logit));
  for (const json& probe : message.at("probes"))
    wanted.probes.push_back({probe.at(0).get<int32_t>(), probe.at(1).get<int32_t>(), probe.at(2).get<float>(),
                             probe.at(3).get<int32_t>()});
  for (const json& partition : message.at("partitions"))
    wanted.partitions.push_back({unpacked<uint16_t>(partition.at(1)), partition.at(0).get<int32_t>()});
  for (const json& row : message.at("classes"))
    wanted.classes.push_back(
        {logit_of(row.at(0)), &wanted.partitions.at(row.at(1).get<size_t>()), row.at(2).get<bool>()});
  return wanted;
}

json to_message(const FollowUpResult& result) {
  json message = {
      {"samples", samples_message(result.samples)}, {"drifts", json::array()}, {"classes", json::array()}};
  for (const Drift& drift : result.drifts)
    message["drifts"].push_back(packed_numbers({drift.kl, drift.max_log_change}));
  for (const ClassStatistics& row : result.classes)
    message["classes"].push_back({row.token, packed_numbers({row.logit, row.log_sum})});
  return message;
}

OwnFollowUpResult follow_up_result_of(const json& message) {
  OwnFollowUpResult result;
  result.samples = samples_of(message.at("samples"));
  for (const json& drift : message.at("drifts")) {
    const std::vector<double> numbers = unpacked<double>(drift);
    result.drifts.push_back({numbers.at(0), numbers.at(1)});
  }
  for (const json& row : message.at("classes")) {
    const std::vector<double> numbers = unpacked<double>(row.at(1));
    result.classes.push_back({row.at(0).get<TokenId>(), static_cast<float>(numbers.at(0)), numbers.at(1)});
  }
  return result;
}

json to_message(const PassTimes& times) {
  json message = json::array();
  for (const auto part : kParts) message.push_back(times.*part);
  return message;
}

PassTimes pass_times_of(const json& message) {
  PassTimes times;
  for (size_t i = 0; i < kParts.size(); ++i) times.*kParts[i] = message.at(i).get<double>();
  return times;
}

}  // namespace lacuna
