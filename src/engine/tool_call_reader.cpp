#include "engine/tool_call_reader.h"

#include <algorithm>
#include <utility>

namespace lacuna {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";

/// Begin of the text's longest suffix that may start `tag`, including white space before it.
size_t begin_of_possible_tag(std::string_view text, std::string_view tag) {
  size_t size = std::min(text.size(), tag.size() - 1);
  while (size > 0 && !text.ends_with(tag.substr(0, size))) --size;
  const size_t last = text.substr(0, text.size() - size).find_last_not_of(kWhiteSpace);
  return last == std::string_view::npos ? 0 : last + 1;
}

bool may_become(std::string_view text, std::string_view literal) {
  return literal.starts_with(text.substr(0, literal.size()));
}

}  // namespace

std::vector<ToolCallReader::Piece> ToolCallReader::advance(std::string_view text, bool is_all) {
  unread_ += text;
  std::vector<Piece> pieces;
  while (read_part(is_all, pieces)) {
  }
  if (is_all && part_ == Part::kHead) give_up(form_->is_whole_answer ? "" : form_->begin);
  if (part_ == Part::kMalformed && !unread_.empty())
    pieces.push_back({.text = std::exchange(unread_, std::string())});
  return pieces;
}

bool ToolCallReader::read_part(bool is_all, std::vector<Piece>& pieces) {
  switch (part_) {
    case Part::kText:
      return read_text(is_all, pieces);
    case Part::kHead:
      return read_head(pieces);
    case Part::kArguments:
      return read_arguments(pieces);
    case Part::kTail:
      return read_literal(std::string(form_->tail) + std::string(form_->end), Part::kBetween);
    case Part::kBetween:
      is_complete_ = true;
      return read_literal(std::string(form_->separator) + std::string(form_->begin), Part::kHead);
    case Part::kMalformed:
      break;
  }
  return false;
}

bool ToolCallReader::read_text(bool is_all, std::vector<Piece>& pieces) {
  if (form_->is_whole_answer) return read_whole_answer(is_all, pieces);
  const size_t tag = unread_.find(form_->begin);
  const bool has_tag = tag != std::string::npos;
  size_t end = unread_.size();
  if (has_tag) {
    const size_t last = std::string_view(unread_).substr(0, tag).find_last_not_of(kWhiteSpace);
    end = last == std::string_view::npos ? 0 : last + 1;
  } else if (!is_all) {
    end = begin_of_possible_tag(unread_, form_->begin);
  }
  if (end > 0) pieces.push_back({.text = unread_.substr(0, end)});
  unread_.erase(0, has_tag ? tag + form_->begin.size() : end);
  return has_tag && enter(Part::kHead);
}

bool ToolCallReader::read_whole_answer(bool is_all, std::vector<Piece>& pieces) {
  const std::string_view begin = form_->begin;
  if (unread_.starts_with(begin)) unread_.erase(0, begin.size());
  const std::string_view head = form_->head;
  if (unread_.starts_with(head)) return enter(Part::kHead);
  if (!is_all && (may_become(unread_, head) || may_become(unread_, begin))) return false;
  if (!unread_.empty()) pieces.push_back({.text = std::exchange(unread_, std::string())});
  return is_all ? false : enter(Part::kMalformed);
}

bool ToolCallReader::read_head(std::vector<Piece>& pieces) {
  is_complete_ = false;
  const std::string_view unread = unread_;
  const std::string_view begin = form_->is_whole_answer ? "" : form_->begin;
  if (!may_become(unread, form_->head)) return give_up(begin);
  if (unread.size() < form_->head.size()) return false;
  const std::string_view rest = unread.substr(form_->head.size());
  const std::string_view name = rest.substr(0, rest.find(form_->arguments_key.empty() ? '{' : '"'));
  const std::string_view key = rest.substr(name.size());
  const bool fits = name.size() <= kMaxFunctionName && (key.empty() || is_function_name(name)) &&
                    may_become(key, form_->arguments_key);
  if (!fits) return give_up(begin);
  if (key.size() <= form_->arguments_key.size()) return false;
  if (key[form_->arguments_key.size()] != '{') return give_up(begin);
  pieces.push_back({.call = num_calls_++, .name = std::string(name)});
  unread_.erase(0, form_->head.size() + name.size() + form_->arguments_key.size());
  return enter(Part::kArguments);
}

bool ToolCallReader::read_quoted_arguments(std::vector<Piece>& pieces) {
  std::string json = quoted_.advance(unread_, form_->quote);
  if (!json.empty()) pieces.push_back({.call = num_calls_ - 1, .text = std::move(json)});
  if (!quoted_.is_over()) return false;
  quoted_ = {};
  return enter(Part::kTail);
}

bool ToolCallReader::read_arguments(std::vector<Piece>& pieces) {
  if (!form_->quote.empty()) return read_quoted_arguments(pieces);
  size_t size = 0;
  bool is_over = false;
  while (size < unread_.size() && !is_over) {
    const char c = unread_[size++];
    if (is_in_string_) {
      is_in_string_ = is_escaped_ || c != '"';
      is_escaped_ = !is_escaped_ && c == '\\';
    } else if (c == '"') {
      is_in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      is_over = --depth_ == 0;
    }
  }
  if (size > 0) pieces.push_back({.call = num_calls_ - 1, .text = unread_.substr(0, size)});
  unread_.erase(0, size);
  return is_over && enter(Part::kTail);
}

bool ToolCallReader::read_literal(std::string_view literal, Part next) {
  if (!may_become(unread_, literal)) return enter(Part::kMalformed);
  if (unread_.size() < literal.size()) return false;
  unread_.erase(0, literal.size());
  return enter(next);
}

bool ToolCallReader::enter(Part part) {
  part_ = part;
  return true;
}

bool ToolCallReader::give_up(std::string_view read) {
  unread_.insert(0, read);
  return enter(Part::kMalformed);
}

}  // namespace lacuna
