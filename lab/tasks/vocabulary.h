// The words that the generated tasks are made of, and seeded random choices among them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/rng.h"

namespace lacuna {

struct Person {
  std::string_view name;
  std::string_view subject;  // pronoun
  std::string_view object;
};

inline constexpr auto kPeople = std::to_array<Person>({
    {"Mia", "She", "her"},   {"Ben", "He", "him"},   {"Ada", "She", "her"},  {"Tom", "He", "him"},
    {"Zoe", "She", "her"},   {"Max", "He", "him"},   {"Lea", "She", "her"},  {"Sam", "He", "him"},
    {"Ida", "She", "her"},   {"Leo", "He", "him"},   {"Eva", "She", "her"},  {"Jon", "He", "him"},
    {"Nora", "She", "her"},  {"Hugo", "He", "him"},  {"Ruth", "She", "her"}, {"Otto", "He", "him"},
    {"Clara", "She", "her"}, {"Felix", "He", "him"}, {"Irma", "She", "her"}, {"Paul", "He", "him"},
});

inline constexpr auto kObjects = std::to_array<std::string_view>(
    {"shells", "coins", "books", "apples", "stones", "cards", "stamps", "pears", "balls", "pens",
     "nuts",   "eggs",  "plums", "keys",   "rings",  "cups",  "bags",   "toys",  "seeds", "hats"});

inline constexpr auto kAnimals = std::to_array<std::string_view>(
    {"fox", "bear", "cat", "dog", "goat", "hare", "duck", "frog", "mouse", "horse", "crow", "deer"});

inline constexpr auto kPlaces =
    std::to_array<std::string_view>({"in the forest", "by the river", "on the hill", "in the barn",
                                     "near the sea", "under the bridge", "in the garden", "by the lake"});

inline constexpr auto kThings = std::to_array<std::string_view>(
    {"lantern", "key",  "drum",    "map",    "kite",  "boat",   "bell",  "coin", "hat",   "mirror",
     "ladder",  "rope", "whistle", "basket", "clock", "candle", "spoon", "flag", "crown", "flute"});

/// An event that happens to a thing, and the feeling that follows from it.
struct Event {
  std::string_view verb;
  std::string_view feeling;
};

inline constexpr auto kEvents = std::to_array<Event>({
    {"finds", "happy"},
    {"loses", "sad"},
    {"breaks", "sorry"},
    {"sees", "curious"},
    {"repairs", "proud"},
    {"shares", "kind"},
});

inline constexpr std::string_view kEventOpening = " One day ";

/// A sequence of random choices from one stream; equal streams give equal choices on every machine.
class Draws {
 public:
  explicit Draws(RngStream stream) : stream_(stream) {}
  uint32_t below(size_t count) { return stream_.below(next_++, static_cast<uint32_t>(count)); }
  int between(int low, int high) {
    return low + static_cast<int>(below(static_cast<size_t>(high - low) + 1));
  }
  template <typename List>
  const auto& pick(const List& list) {
    return list[below(list.size())];
  }

 private:
  RngStream stream_;
  uint64_t next_ = 0;
};

/// A random person other than `person`, which must be an element of kPeople.
inline const Person& pick_friend(Draws& draws, const Person& person) {
  // The offset is from 1 to size - 1, never a full turn of the list.
  const auto self = static_cast<size_t>(&person - kPeople.data());
  return kPeople[(self + 1 + draws.below(kPeople.size() - 1)) % kPeople.size()];
}

}  // namespace lacuna
