// Compiled constraints, kept for the next request that has the same one.
#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "base/mutex.h"
#include "constraint/constraint.h"
#include "constraint/token_automaton.h"
#include "constraint/token_vocabulary.h"

namespace lacuna {

/// Keeps the most recently used automata within a number of bytes. Any thread may call.
class AutomatonCache {
 public:
  explicit AutomatonCache(size_t max_bytes = size_t{64} << 20) : max_bytes_(max_bytes) {}

  /// The automaton of a constraint for a vocabulary, compiled unless it is cached. Vocabularies are compared
  /// by address. Two threads that miss the same entry at once both compile it and get the same object.
  /// Throws as compile_constraint() and TokenAutomaton() do; failures are not cached.
  std::shared_ptr<const TokenAutomaton> get(const Constraint& constraint,
                                            const std::shared_ptr<const TokenVocabulary>& vocabulary);

  size_t memory_bytes() const;
  size_t size() const;

 private:
  struct Entry {
    Constraint constraint;
    std::shared_ptr<const TokenVocabulary> vocabulary;
    std::shared_ptr<const TokenAutomaton> automaton;
    size_t bytes;
  };

  std::shared_ptr<const TokenAutomaton> find(const Constraint& constraint, const TokenVocabulary* vocabulary)
      LACUNA_REQUIRES(mutex_);

  const size_t max_bytes_;
  mutable Mutex mutex_;
  std::list<Entry> entries_ LACUNA_GUARDED_BY(mutex_);  // most recently used first
  size_t bytes_ LACUNA_GUARDED_BY(mutex_) = 0;
};

}  // namespace lacuna
