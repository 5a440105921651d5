#include "backend/shard/command.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/plan_json.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const SequenceChange& change) {
  ordered_json json{{"kind", static_cast<int>(change.kind)}, {"sequence", change.sequence}};
  if (change.kind == SequenceChange::Kind::kMake) json["num_cells"] = change.num_cells;
  if (change.from >= 0) {
    json["from"] = change.from;
    json["prefix"] = change.prefix;
  }
  if (!change.cells.empty()) {
    json["cells"] = change.cells;
    json["distributions"] = change.distributions;
  }
  return json;
}

SequenceChange change_from_json(const nlohmann::json& json) {
  SequenceChange change;
  const int kind = json.at("kind").get<int>();
  if (kind < 0 || kind > static_cast<int>(SequenceChange::Kind::kFree))
    throw InputError("a command of rank 0 has a change of kind {}", kind);
  change.kind = static_cast<SequenceChange::Kind>(kind);
  json.at("sequence").get_to(change.sequence);
  change.num_cells = json.value("num_cells", int64_t{0});
  change.from = json.value("from", int64_t{-1});
  change.prefix = json.value("prefix", int64_t{0});
  change.cells = json.value("cells", std::vector<int32_t>());
  change.distributions = json.value("distributions", std::vector<float>());
  return change;
}

}  // namespace

std::vector<std::byte> to_bytes(const Command& command) {
  ordered_json json{{"number", command.number}};
  for (const SequenceChange& change : command.changes) json["changes"].push_back(to_json(change));
  if (command.stops) {
    json["stops"] = true;
  } else if (command.is_ping) {
    json["ping"] = true;
  } else {
    json["plan"] = lacuna::to_json(command.plan);
    json["sequences"] = command.sequences;
  }
  const std::vector<uint8_t> encoded = ordered_json::to_cbor(json);
  const auto* begin = reinterpret_cast<const std::byte*>(encoded.data());
  return {begin, begin + encoded.size()};
}

Command command_from_bytes(std::span<const std::byte> bytes) {
  try {
    // char, not uint8_t: json 3.11.2 needs std::char_traits, which libc++ 19 and newer lack for bytes.
    const auto* begin = reinterpret_cast<const char*>(bytes.data());
    const nlohmann::json json = nlohmann::json::from_cbor(begin, begin + bytes.size());
    Command command;
    json.at("number").get_to(command.number);
    for (const nlohmann::json& change : json.value("changes", nlohmann::json::array()))
      command.changes.push_back(change_from_json(change));
    command.stops = json.value("stops", false);
    command.is_ping = json.value("ping", false);
    if (command.stops || command.is_ping) return command;
    command.plan = plan_from_json(json.at("plan"), "a command of rank 0");
    json.at("sequences").get_to(command.sequences);
    return command;
  } catch (const nlohmann::json::exception& error) {
    throw InputError("a command of rank 0 cannot be read: {}", error.what());
  }
}

}  // namespace lacuna
