#include "constraint/automaton_cache.h"

#include <algorithm>
#include <memory>

namespace lacuna {
namespace {

size_t text_bytes(const Constraint& constraint) {
  if (const auto* schema = std::get_if<JsonSchemaConstraint>(&constraint)) return schema->schema.size();
  if (const auto* regex = std::get_if<RegexConstraint>(&constraint)) return regex->pattern.size();
  if (const auto* grammar = std::get_if<GrammarConstraint>(&constraint)) return grammar->grammar.size();
  size_t bytes = 0;
  if (const auto* choice = std::get_if<ChoiceConstraint>(&constraint)) {
    for (const std::string& text : choice->choices) bytes += text.size() + sizeof(std::string);
  }
  if (const auto* tools = std::get_if<ToolCallConstraint>(&constraint)) {
    for (const CallableFunction& each : tools->functions)
      bytes += each.name.size() + each.parameters.size() + each.place.size() + sizeof(CallableFunction);
    if (tools->answer) bytes += text_bytes(as_constraint(*tools->answer));
  }
  return bytes;
}

}  // namespace

std::shared_ptr<const TokenAutomaton> AutomatonCache::find(const Constraint& constraint,
                                                           const TokenVocabulary* vocabulary) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& each) {
    return each.vocabulary.get() == vocabulary && each.constraint == constraint;
  });
  if (entry == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, entry);
  return entry->automaton;
}

std::shared_ptr<const TokenAutomaton> AutomatonCache::get(
    const Constraint& constraint, const std::shared_ptr<const TokenVocabulary>& vocabulary) {
  {
    const MutexLock lock(mutex_);
    if (auto automaton = find(constraint, vocabulary.get())) return automaton;
  }
  auto automaton = std::make_shared<const TokenAutomaton>(compile_constraint(constraint), *vocabulary);
  const size_t bytes = automaton->memory_bytes() + text_bytes(constraint) + sizeof(Entry);
  const MutexLock lock(mutex_);
  if (auto other = find(constraint, vocabulary.get())) return other;
  if (bytes > max_bytes_) return automaton;
  entries_.push_front({constraint, vocabulary, automaton, bytes});
  bytes_ += bytes;
  while (bytes_ > max_bytes_) {
    bytes_ -= entries_.back().bytes;
    entries_.pop_back();
  }
  return automaton;
}

size_t AutomatonCache::memory_bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

size_t AutomatonCache::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace lacuna
