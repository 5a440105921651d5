#include "server/batch.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/written_file.h"
#include "server/api_request.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

/// The non-empty lines of a text. The last one may lack a line break.
std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

BatchRequest parse_request(std::string_view line, const std::string& place) {
  if (line.size() > kMaxBatchLineBytes) {
    throw InputError("{} has {} bytes; expected at most {}", place, line.size(), kMaxBatchLineBytes);
  }
  const ordered_json parsed = parse_ordered_json(line, place, kMaxBodyValues);
  const auto text = [&](const char* key, size_t most) {
    const auto found = parsed.is_object() ? parsed.find(key) : parsed.end();
    if (found == parsed.end() || !found->is_string() || found->get_ref<const std::string&>().empty() ||
        found->get_ref<const std::string&>().size() > most) {
      throw InputError("{}: \"{}\" is {}; expected a text of 1 to {} bytes", place, key,
                       found == parsed.end() ? "missing" : in_quotes(found->dump()), most);
    }
    return found->get<std::string>();
  };
  constexpr size_t kMaxPathBytes = 256;
  BatchRequest request{text("custom_id", kMaxCustomIdBytes), text("url", kMaxPathBytes), "", ""};
  if (text("method", kMaxPathBytes) != "POST") {
    throw InputError("{}: \"method\" is {}; expected POST", place, in_quotes(parsed["method"].dump()));
  }
  if (!request.path.starts_with('/')) {
    throw InputError("{}: \"url\" is {}; expected the path of an endpoint, such as /v1/chat/completions",
                     place, in_quotes(request.path));
  }
  const auto body = parsed.find("body");
  if (body == parsed.end() || !body->is_object()) {
    throw InputError("{}: \"body\" is {}; expected an object", place,
                     body == parsed.end() ? "missing" : in_quotes(body->dump()));
  }
  if (body->contains("stream") && (*body)["stream"] == true) {
    throw InputError("{}: \"body.stream\" is true; expected false, since a batch has whole answers", place);
  }
  request.body = body->dump();
  for (const auto& [key, value] : parsed.items()) {
    if (key == "custom_id" || key == "url" || key == "method" || key == "body") continue;
    request.ignored += (request.ignored.empty() ? "" : ", ") + in_quotes(key);
  }
  return request;
}

/// Sets the answer's id, and removes values that depend on time or on concurrent requests.
void leave_out_times(ordered_json& body, const std::string& id) {
  if (!body.is_object()) return;
  if (body.contains("id")) body["id"] = id;
  for (const char* key : {"created", "created_at"}) {
    if (body.contains(key) && body[key].is_number()) body[key] = 0;
  }
  body.erase("timings");
  if (const auto usage = body.find("usage"); usage != body.end() && usage->is_object()) {
    usage->erase("prompt_tokens_details");
  }
  const auto choices = body.find("choices");
  if (choices == body.end() || !choices->is_array()) return;
  for (ordered_json& choice : *choices) {
    if (choice.is_object() && choice.contains("lacuna") && choice["lacuna"].is_object()) {
      choice["lacuna"].erase("stats");
    }
  }
}

std::string line_name(const std::filesystem::path& path, size_t index) {
  return fmt::format("{}, request {}", path.string(), index + 1);
}

/// Checks that the file's whole lines answer the first requests; returns their number of bytes and of lines.
std::pair<size_t, size_t> find_answers(const std::filesystem::path& path, std::string_view text,
                                       const BatchInput& input) {
  const size_t whole = text.rfind('\n') == text.npos ? 0 : text.rfind('\n') + 1;
  size_t index = 0;
  for (const std::string_view line : split_lines(text.substr(0, whole))) {
    const std::string place = line_name(path, index);
    const ordered_json parsed = parse_ordered_json(line, place);
    const std::string id = parsed.is_object() ? parsed.value("custom_id", "") : "";
    const std::string expected = index < input.size() ? input.at(index).custom_id : "";
    if (expected.empty() || id != expected) {
      throw InputError(
          "{} answers {}; expected {}: the file has answers to other requests, give another one or delete it",
          place, in_quotes(id), expected.empty() ? "no more lines" : in_quotes(expected));
    }
    ++index;
  }
  return {whole, index};
}

}  // namespace

BatchInput::BatchInput(const std::filesystem::path& path)
    : file_(MappedFile::open(path)), lines_(split_lines(file_.text())) {
  if (lines_.empty()) throw InputError("{} has no requests; expected one a line", path.string());
  std::unordered_set<std::string> ids;
  for (size_t i = 0; i < lines_.size(); ++i) {
    const BatchRequest request = parse_request(lines_[i], line_name(path, i));
    if (!ids.insert(request.custom_id).second) {
      throw InputError("{}: \"custom_id\" is {}, as in an earlier line; expected an id of its own",
                       line_name(path, i), in_quotes(request.custom_id));
    }
  }
}

BatchRequest BatchInput::at(size_t index) const {
  return parse_request(lines_[index], fmt::format("request {}", index + 1));
}

std::string batch_answer_line(const BatchRequest& request, size_t index, const BatchAnswer& answer) {
  const std::string id = fmt::format("batch_req_{}", index + 1);
  ordered_json body;
  try {
    body = parse_ordered_json(answer.body, "the answer");
    leave_out_times(body, id);
  } catch (const std::exception&) {
    body = answer.body;
  }
  const ordered_json line{
      {"id", id},
      {"custom_id", request.custom_id},
      {"response", {{"status_code", answer.status}, {"request_id", id}, {"body", std::move(body)}}},
      {"error", nullptr}};
  return dump_json(line);
}

BatchOutput::BatchOutput(const std::filesystem::path& path, const BatchInput& input) : path_(path.string()) {
  file_ = open_to_write(path, WriteFrom::kEnd);
  if (::flock(file_.number(), LOCK_EX | LOCK_NB) != 0) {
    throw InputError("{} is being written by another process; wait for it, or give another file", path_);
  }
  if (std::filesystem::file_size(path) == 0) return;
  const MappedFile written = MappedFile::open(path);
  const auto [bytes, lines] = find_answers(path, written.text(), input);
  size_ = lines;
  if (bytes < written.text().size() && ::ftruncate(file_.number(), static_cast<off_t>(bytes)) != 0) {
    throw InputError("{} cannot be shortened: {}", path_, std::strerror(errno));
  }
}

void BatchOutput::append(std::string line) {
  line += '\n';
  write_all(file_.number(), line, path_);
  ++size_;
}

}  // namespace lacuna
