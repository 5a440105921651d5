#include "engine/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "decode/edits.h"
#include "engine/result.h"
#include "model/plan_json.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr Range<int64_t> kTokens{0, std::numeric_limits<TokenId>::max()};

/// Resizes `canvas`; new positions are masks.
void resize_canvas(std::vector<TokenId>& canvas, size_t length, TokenId mask_id) {
  canvas.resize(length, std::max<TokenId>(mask_id, 0));
}

/// The list under `key`; empty if the key is missing.
const json& list_at(const json& line, std::string_view key, std::string_view place) {
  static const json kNone = json::array();
  const auto found = line.find(key);
  if (found == line.end()) return kNone;
  if (!found->is_array()) throw InputError("{}: \"{}\" is not a list", place, key);
  return *found;
}

/// Reads a line of at most `most` bytes, without its newline; returns false at the end of the stream.
bool read_bounded_line(std::istream& stream, size_t most, std::string& line, std::string_view place) {
  line.clear();
  std::streambuf& buffer = *stream.rdbuf();
  constexpr int kEnd = std::char_traits<char>::eof();
  try {
    for (int next = buffer.sbumpc(); next != '\n'; next = buffer.sbumpc()) {
      if (next == kEnd) return !line.empty();
      if (line.size() == most) throw InputError("{}: is longer than {} bytes", place, most);
      line += static_cast<char>(next);
    }
  } catch (const std::ios_base::failure&) {  // read(2) failed
    throw InputError("{}: cannot be read", place);
  }
  return true;
}

}  // namespace

void PieceLog::add(ordered_json& json, std::span<const TokenId> ids) {
  if (tokenizer_ == nullptr) return;
  ordered_json pieces = ordered_json::object();
  for (const TokenId id : ids) {
    if (!told_.insert(id).second) continue;
    pieces[std::to_string(id)] = replace_ill_formed(tokenizer_->decode(std::span(&id, 1), false));
  }
  if (!pieces.empty()) json["pieces"] = std::move(pieces);
}

ordered_json TraceLog::start(size_t request, const Decoder& decoder) {
  canvas_.assign(decoder.canvas().begin(), decoder.canvas().end());
  ordered_json line = trace_start(request, canvas_, decoder.prompt_length());
  line["v"] = kTraceVersion;
  line["mask"] = config_.mask_id;
  line["ends"] = config_.end_ids;
  pieces_.add(line, canvas_);
  return line;
}

ordered_json TraceLog::step(const StepEvent& event) {
  ordered_json line = trace_step(event);
  const std::span<const TokenId> now = event.decoder.canvas();
  apply_edits(event.report.edits, config_.mask_id, canvas_);
  if (now.size() != canvas_.size()) line["length"] = now.size();
  resize_canvas(canvas_, now.size(), config_.mask_id);
  for (const Commit& commit : event.report.committed) {
    const auto index = static_cast<size_t>(commit.position);
    if (index < canvas_.size()) canvas_[index] = commit.token;
  }
  ordered_json changed = ordered_json::array();
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i] != canvas_[i]) changed.push_back(ordered_json{i, now[i]});
  }
  if (!changed.empty()) line["changed"] = std::move(changed);
  canvas_.assign(now.begin(), now.end());
  std::vector<TokenId> shown = canvas_;
  for (const SlotReport& slot : event.report.slots)
    shown.insert(shown.end(), slot.tokens.begin(), slot.tokens.end());
  pieces_.add(line, shown);
  if (with_plans_) line["plan"] = to_json(event.plan);
  return line;
}

TraceReplay::TraceReplay(std::istream& stream, std::string name, int64_t request)
    : stream_(stream), name_(std::move(name)), request_(request) {
  json line;
  if (!read_own_line(true, line)) {
    throw InputError("{}: holds no request {}; expected the file that `lacuna run --trace` writes", name_,
                     request_);
  }
  read_start(line);
}

bool TraceReplay::next() {
  json line;
  if (!read_own_line(false, line)) return false;
  read_step(line);
  return true;
}

std::string TraceReplay::piece(TokenId token) const {
  const auto found = pieces_.find(token);
  return found == pieces_.end() ? fmt::format("<{}>", token) : found->second;
}

bool TraceReplay::read_own_line(bool is_first, json& line) {
  std::string text;
  while (true) {
    place_ = fmt::format("{}, line {}", name_, ++line_number_);
    if (!read_bounded_line(stream_, kMaxLineBytes, text, place_)) return false;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    line = parse_json(text, place_);
    if (!line.is_object()) throw InputError("{}: not a JSON object", place_);
    if (line.contains("canvas") != is_first) continue;
    if (JsonObject(line, place_).integer("request", {0, std::numeric_limits<int64_t>::max()}, 0) == request_)
      return true;
  }
}

void TraceReplay::read_start(const json& line) {
  const JsonObject object(line, place_);
  object.integer("v", {1, kTraceVersion}, 1);
  const std::vector<int64_t> canvas = object.integers("canvas", kTokens);
  if (canvas.size() > size_t{kMaxPositions}) {
    throw InputError("{}: \"canvas\" has {} positions; expected at most {}", place_, canvas.size(),
                     kMaxPositions);
  }
  canvas_.assign(canvas.begin(), canvas.end());
  prompt_length_ =
      static_cast<int32_t>(object.integer("prompt_tokens", {0, static_cast<int64_t>(canvas.size())}));
  mask_id_ = static_cast<TokenId>(object.integer("mask", {-1, kTokens.last}, -1));
  if (object.has("ends")) {
    const std::vector<int64_t> ends = object.integers("ends", kTokens);
    end_ids_.assign(ends.begin(), ends.end());
  }
  read_pieces(line);
}

void TraceReplay::read_step(const json& line) {
  const JsonObject object(line, place_);
  step_ = object.integer("step", {0, std::numeric_limits<int64_t>::max()});
  num_rows_ = static_cast<int64_t>(list_at(line, "rows", place_).size());
  seconds_ += object.number("seconds", {0, 1e9}, 0.0F);
  ++num_passes_;
  const json& commits = list_at(line, "committed", place_);
  read_edits(line);
  if (object.has("length")) {
    const int64_t length = object.integer("length", {prompt_length_, kMaxPositions});
    change_length(static_cast<size_t>(length));
  }
  committed_.clear();
  for (const json& each : commits) {
    const JsonObject commit(each, place_, "committed.");
    const auto position = static_cast<int32_t>(commit.integer("position", {0, kMaxPositions - 1}));
    const auto token = static_cast<TokenId>(commit.integer("token", kTokens));
    committed_.push_back({position, token, commit.number("confidence", {-1e9, 1e9}, -1.0F)});
    set(position, token);
  }
  read_changes(line);
  read_pieces(line);
}

void TraceReplay::read_edits(const json& line) {
  edits_ = {};
  const auto size = std::ssize(canvas_);
  const auto is_in = [](const json& value, int64_t least, int64_t most) {
    return value.is_number_integer() && value >= least && value <= most;
  };
  for (const json& position : list_at(line, "drop", place_)) {
    const int64_t least = edits_.dropped.empty() ? 0 : int64_t{edits_.dropped.back()} + 1;
    if (!is_in(position, least, size - 1)) {
      throw InputError("{}: \"drop\" holds {}; expected ascending positions below {}", place_,
                       in_quotes(dump_json(position)), size);
    }
    edits_.dropped.push_back(position.get<int32_t>());
  }
  int64_t length = size - std::ssize(edits_.dropped);
  int64_t least = 0;
  for (const json& insertion : list_at(line, "insert", place_)) {
    const bool is_pair = insertion.is_array() && insertion.size() == 2 &&
                         is_in(insertion[0], least, length) && is_in(insertion[1], 1, kMaxPositions - length);
    if (!is_pair) {
      throw InputError(
          "{}: \"insert\" holds {}; expected ascending pairs of a position and a number of masks, {} "
          "positions together at most",
          place_, in_quotes(dump_json(insertion)), kMaxPositions);
    }
    edits_.inserted.push_back({insertion[0].get<int32_t>(), insertion[1].get<int32_t>()});
    length += edits_.inserted.back().count;
    least = edits_.inserted.back().position + edits_.inserted.back().count;
  }
  if (edits_.empty()) return;
  count_moved(std::max(canvas_.size(), static_cast<size_t>(length)));
  apply_edits(edits_, std::max<TokenId>(mask_id_, 0), canvas_);
}

void TraceReplay::read_changes(const json& line) {
  for (const json& change : list_at(line, "changed", place_)) {
    const auto is_in = [&](const json& value, int64_t most) {
      return value.is_number_integer() && value >= 0 && value <= most;
    };
    const bool is_pair = change.is_array() && change.size() == 2 && is_in(change[0], kMaxPositions - 1) &&
                         is_in(change[1], kTokens.last);
    if (!is_pair) {
      throw InputError("{}: \"changed\" holds {}; expected pairs of a position below {} and a token", place_,
                       in_quotes(dump_json(change)), kMaxPositions);
    }
    set(change[0].get<int64_t>(), change[1].get<TokenId>());
  }
}

void TraceReplay::read_pieces(const json& line) {
  const auto found = line.find("pieces");
  if (found == line.end()) return;
  const JsonObject pieces(*found, place_, "pieces.");
  for (const auto& [key, value] : found->items()) {
    TokenId id = -1;
    const auto [rest, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || rest != key.data() + key.size() || id < 0) {
      throw InputError("{}: \"pieces\" has the key {}; expected token ids", place_, in_quotes(key));
    }
    std::string text = pieces.text(key);
    piece_bytes_ += text.size() + sizeof(std::string);
    if (piece_bytes_ > kMaxPieceBytes) {
      throw InputError("{}: \"pieces\" so far hold more than {} bytes", place_, kMaxPieceBytes);
    }
    pieces_[id] = std::move(text);
  }
}

void TraceReplay::set(int64_t position, TokenId token) {
  const auto index = static_cast<size_t>(position);
  if (index >= canvas_.size()) change_length(index + 1);
  canvas_[index] = token;
}

void TraceReplay::change_length(size_t length) {
  if (length > canvas_.size()) count_moved(length - canvas_.size());
  resize_canvas(canvas_, length, mask_id_);
}

void TraceReplay::count_moved(size_t positions) {
  num_moved_ += positions;
  if (num_moved_ > kMaxMoved) {
    throw InputError("{}: the edits so far move more than {} positions; expected fewer or a shorter canvas",
                     place_, kMaxMoved);
  }
}

}  // namespace lacuna
