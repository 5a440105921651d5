#include "tasks/word_problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace lacuna {
namespace {

constexpr auto kMoreNames = std::to_array<Person>({
    {"Anna", "She", "her"},  {"Emma", "She", "her"},  {"Lisa", "She", "her"},   {"Sara", "She", "her"},
    {"John", "He", "him"},   {"Peter", "He", "him"},  {"Tim", "He", "him"},     {"Alex", "He", "him"},
    {"Maria", "She", "her"}, {"Lily", "She", "her"},  {"Emily", "She", "her"},  {"David", "He", "him"},
    {"Jack", "He", "him"},   {"Omar", "He", "him"},   {"Alice", "She", "her"},  {"Kate", "She", "her"},
    {"Mary", "She", "her"},  {"Lucy", "She", "her"},  {"Sophie", "She", "her"}, {"Bob", "He", "him"},
    {"James", "He", "him"},  {"Daniel", "He", "him"}, {"Lukas", "He", "him"},
});

// Participants without a name.
constexpr auto kRelatives =
    std::to_array<std::string_view>({"a friend", "the teacher", "a neighbor", "{} brother", "{} sister",
                                     "{} mother", "{} father", "{} friend", "{} aunt", "{} uncle"});

constexpr auto kMoreObjects = std::to_array<std::string_view>(
    {"marbles", "pencils", "cookies", "stickers", "flowers",  "oranges", "candies", "tickets", "pebbles",
     "beads",   "buttons", "muffins", "bananas",  "sweets",   "leaves",  "cakes",   "cars",    "dolls",
     "dollars", "fish",    "kites",   "roses",    "tomatoes", "carrots", "lemons",  "crayons", "rocks"});

/// Roles of the person and the other participant in a change.
enum class Roles : uint8_t {
  kAlone,       ///< She finds 7.
  kFromOther,   ///< She gets 7 from Sam.
  kToOther,     ///< She gives 7 to Sam.
  kOtherFirst,  ///< She gives Sam 7.
  kOtherGives,  ///< Sam gives her 7.
  kOtherTakes,  ///< Sam takes 7 from her.
};

struct Verb {
  std::string_view present, past;
  bool gains;
  Roles roles;
};

constexpr auto kVerbs = std::to_array<Verb>({
    {"finds", "found", true, Roles::kAlone},
    {"buys", "bought", true, Roles::kAlone},
    {"gets", "got", true, Roles::kAlone},
    {"collects", "collected", true, Roles::kAlone},
    {"wins", "won", true, Roles::kAlone},
    {"picks up", "picked up", true, Roles::kAlone},
    {"earns", "earned", true, Roles::kAlone},
    {"makes", "made", true, Roles::kAlone},
    {"receives", "received", true, Roles::kAlone},
    {"picks", "picked", true, Roles::kAlone},
    {"bakes", "baked", true, Roles::kAlone},
    {"adds", "added", true, Roles::kAlone},
    {"gathers", "gathered", true, Roles::kAlone},
    {"catches", "caught", true, Roles::kAlone},
    {"borrows", "borrowed", true, Roles::kFromOther},
    {"takes", "took", true, Roles::kFromOther},
    {"lends", "lent", true, Roles::kOtherGives},
    {"buys", "bought", true, Roles::kOtherGives},
    {"gets", "got", true, Roles::kFromOther},
    {"receives", "received", true, Roles::kFromOther},
    {"buys", "bought", true, Roles::kFromOther},
    {"wins", "won", true, Roles::kFromOther},
    {"gives", "gave", true, Roles::kOtherGives},
    {"brings", "brought", true, Roles::kOtherGives},
    {"hands", "handed", true, Roles::kOtherGives},
    {"sends", "sent", true, Roles::kOtherGives},
    {"loses", "lost", false, Roles::kAlone},
    {"sells", "sold", false, Roles::kAlone},
    {"breaks", "broke", false, Roles::kAlone},
    {"drops", "dropped", false, Roles::kAlone},
    {"uses", "used", false, Roles::kAlone},
    {"eats", "ate", false, Roles::kAlone},
    {"gives away", "gave away", false, Roles::kAlone},
    {"throws away", "threw away", false, Roles::kAlone},
    {"spends", "spent", false, Roles::kAlone},
    {"forgets", "forgot", false, Roles::kAlone},
    {"lends", "lent", false, Roles::kToOther},
    {"donates", "donated", false, Roles::kToOther},
    {"loses", "lost", false, Roles::kToOther},
    {"lends", "lent", false, Roles::kOtherFirst},
    {"gives", "gave", false, Roles::kToOther},
    {"sells", "sold", false, Roles::kToOther},
    {"hands", "handed", false, Roles::kToOther},
    {"sends", "sent", false, Roles::kToOther},
    {"gives", "gave", false, Roles::kOtherFirst},
    {"hands", "handed", false, Roles::kOtherFirst},
    {"sends", "sent", false, Roles::kOtherFirst},
    {"takes", "took", false, Roles::kOtherTakes},
    {"borrows", "borrowed", false, Roles::kOtherTakes},
    {"steals", "stole", false, Roles::kOtherTakes},
    {"buys", "bought", false, Roles::kOtherTakes},
});

// {0} name, {1} number, {2} things.
struct Frame {
  std::string_view present, past;
};

constexpr auto kOpenings = std::to_array<Frame>({
    {"{0} has {1} {2}.", "{0} had {1} {2}."},
    {"{0} owns {1} {2}.", "{0} owned {1} {2}."},
    {"{0} starts with {1} {2}.", "{0} started with {1} {2}."},
    {"At first {0} has {1} {2}.", "At first {0} had {1} {2}."},
    {"There are {1} {2} in {0}'s bag.", "There were {1} {2} in {0}'s bag."},
    {"{0} keeps {1} {2} in a box.", "{0} kept {1} {2} in a box."},
    {"In the morning {0} has {1} {2}.", "In the morning {0} had {1} {2}."},
    {"{0} has got {1} {2}.", "{0} had got {1} {2}."},
    {"{0} brings {1} {2} to school.", "{0} brought {1} {2} to school."},
    {"{0} holds {1} {2}.", "{0} held {1} {2}."},
    {"{0} finds {1} {2}.", "{0} found {1} {2}."},
    {"{0} buys {1} {2}.", "{0} bought {1} {2}."},
    {"There are {1} {2} on {0}'s table.", "There were {1} {2} on {0}'s table."},
});

// Numbers of the gains and losses: {0} the number, {1} the things.
constexpr auto kGained = std::to_array<std::string_view>(
    {"{0} more", "{0} more", "another {0}", "{0}", "{0} {1}", "{0} more {1}"});
constexpr auto kLost =
    std::to_array<std::string_view>({"{0}", "{0}", "{0} {1}", "{0} of them", "{0} of the {1}"});

constexpr auto kConnectors =
    std::to_array<std::string_view>({"", "", "", "", "Then ", "Later ", "After that, ", "Next, ", "Today "});

constexpr auto kJoiners = std::to_array<std::string_view>({" and ", " and then ", ", then ", " but "});

// "So how many shells does Mia have left?" is one choice from each list; {0} stands for the things.
constexpr auto kLeads = std::to_array<std::string_view>(
    {"", "", "", "", "So ", "Now ", "Then ", "In the end, ", "After all that, ", "Tell me: "});
constexpr auto kCounted = std::to_array<std::string_view>({"how many {0}", "how many {0}", "how many"});
constexpr auto kPossessions = std::to_array<std::string_view>({"have", "have", "have", "own", "hold"});
constexpr auto kEnds = std::to_array<Frame>({
    {" now", " then"},
    {" now", " then"},
    {" left", " left"},
    {" left", " left"},
    {"", ""},
    {" in the end", " in the end"},
    {" at the end", " at the end"},
    {" in all", " in all"},
    {" in total", " in total"},
    {" altogether", " altogether"},
    {" after that", " after that"},
});

// Questions of other forms; {0} name, {1} pronoun, {2} things.
constexpr auto kQuestions = std::to_array<Frame>({
    {"How many {2} are there now?", "How many {2} were there then?"},
    {"How many {2} are left?", "How many {2} were left?"},
    {"How many {2} are there in the end?", "How many {2} were there in the end?"},
    {"What is the number of {2} now?", "What was the number of {2} in the end?"},
    {"With how many {2} does {0} end up?", "With how many {2} did {0} end up?"},
    {"How many {2} does {1} end up with?", "How many {2} did {1} end up with?"},
    {"How many {2} remain?", "How many {2} remained?"},
    {"How many {2} has {0} got now?", "How many {2} had {0} got then?"},
    {"How many {2} has {1} got left?", "How many {2} had {1} got left?"},
    {"What is the total?", "What was the total?"},
    {"How many are left?", "How many were left?"},
    {"How many are there now?", "How many were there in the end?"},
});

// {0} pronoun, {1} number, {2} things.
constexpr auto kStates = std::to_array<std::string_view>(
    {"Now {0} has {1} {2}.", "Now {0} has {1}.", "So {0} has {1} {2} now.", "Then {0} has {1} {2}."});

constexpr auto kFollowUpQuestions = std::to_array<std::string_view>(
    {"How many {2} does {0} have now?", "How many does {1} have now?", "How many does {1} have left?",
     "How many {2} does {1} have now?", "And now?", "How many now?"});

std::string made_up_word(Draws& draws) {
  constexpr std::string_view kConsonants = "bdfgklmnprstvz", kVowels = "aeiou";
  std::string word;
  for (uint32_t syllables = 2 + draws.below(2); syllables > 0; --syllables) {
    word += kConsonants[draws.below(kConsonants.size())];
    word += kVowels[draws.below(kVowels.size())];
  }
  return word;
}

std::string capitalized(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::string pronoun(const NumberProblem& problem) {
  return problem.feminine ? "she" : "he";
}
std::string object_pronoun(const NumberProblem& problem) {
  return problem.feminine ? "her" : "him";
}

/// Samples another participant: a known name, a random word as a name, or a relative of the person.
std::string draw_other(Draws& draws, const NumberProblem& problem) {
  const uint32_t kind = draws.below(10);
  if (kind == 0) return capitalized(made_up_word(draws));
  if (kind <= 2) {
    return fmt::format(fmt::runtime(draws.pick(kRelatives)), problem.feminine ? "her" : "his");
  }
  const std::string_view other = draws.pick(kPeople).name;
  return std::string(other == problem.name ? kMoreNames[0].name : other);
}

/// A sentence's parts: subject, verb and rest.
struct Clause {
  std::string subject, verb, rest;
  bool own_subject = true;  ///< the subject is the story's person
  std::string text() const { return subject + " " + verb + rest; }
};

Clause make_clause(const NumberProblem& problem, const Change& change, const Verb& verb, bool past,
                   const std::string& subject, const std::string& amount) {
  Clause clause{subject, std::string(past ? verb.past : verb.present), "", true};
  const std::string me = object_pronoun(problem);
  switch (verb.roles) {
    case Roles::kAlone:
      clause.rest = " " + amount;
      break;
    case Roles::kFromOther:
      clause.rest = fmt::format(" {} from {}", amount, change.other);
      break;
    case Roles::kToOther:
      clause.rest = fmt::format(" {} to {}", amount, change.other);
      break;
    case Roles::kOtherFirst:
      clause.rest = fmt::format(" {} {}", change.other, amount);
      break;
    case Roles::kOtherGives:
      clause = {change.other, clause.verb, fmt::format(" {} {}", me, amount), false};
      break;
    case Roles::kOtherTakes:
      clause = {change.other, clause.verb, fmt::format(" {} from {}", amount, me), false};
      break;
  }
  return clause;
}

const Verb& pick_verb(Draws& draws, bool gains) {
  const Verb* verb = &draws.pick(kVerbs);
  while (verb->gains != gains) verb = &draws.pick(kVerbs);
  return *verb;
}

/// Hashes the choices that make up the frames of a text.
class FrameHash {
 public:
  void add(uint64_t choice) { hash_ = mix_bits(hash_ * 31 + choice + 1); }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 1;
};

/// Picks from a list, and adds the choice to the hash.
template <typename List>
const auto& pick_frame(Draws& draws, FrameHash& hash, const List& list) {
  const uint32_t choice = draws.below(list.size());
  hash.add(choice);
  return list[choice];
}

constexpr uint64_t kHeldOutFrame = 0;  // a frame for which is_held_out() is true

/// Whether a question of these choices belongs to the test split. The commonest questions never do.
bool is_held_out_question(std::string_view lead, std::string_view possession, uint64_t choices) {
  return !(lead.empty() && possession == "have") && is_held_out(choices);
}

/// "Tell me: how many does she own in the end?" and whether it belongs to the test split.
std::pair<std::string, bool> sample_question(Draws& draws, FrameHash& frame, const NumberProblem& problem,
                                             bool past) {
  const auto in_tense = [&](const Frame& words) { return past ? words.past : words.present; };
  if (draws.below(4) == 0) {
    const std::string_view question = in_tense(pick_frame(draws, frame, kQuestions));
    return {fmt::format(fmt::runtime(question), problem.name, pronoun(problem), problem.object), false};
  }
  const std::string_view lead = draws.pick(kLeads), counted = draws.pick(kCounted);
  const bool by_name = draws.below(2) == 0;
  const std::string_view possession = draws.pick(kPossessions);
  std::string_view end = in_tense(draws.pick(kEnds));
  if (lead == "Now " || lead == "Then ") end = end == " now" || end == " then" ? "" : end;
  const auto ask = [&](std::string_view object, std::string_view person) {
    return capitalized(fmt::format("{}{} {} {} {}{}?", lead, fmt::format(fmt::runtime(counted), object),
                                   past ? "did" : "does", person, possession, end));
  };
  FrameHash choices;  // independent of the things and the person's name
  for (const char c : ask("things", by_name ? "Name" : "pronoun")) choices.add(static_cast<unsigned char>(c));
  frame.add(choices.value());
  return {ask(problem.object, by_name ? problem.name : pronoun(problem)),
          is_held_out_question(lead, possession, choices.value())};
}

/// The sentences that tell the changes, with a space before each.
std::string phrase_changes(Draws& draws, FrameHash& hash, const NumberProblem& problem,
                           const std::vector<Change>& changes, bool past) {
  std::string text;
  bool may_join = false;  // the sentence before is the person's own and has one change
  for (const Change& change : changes) {
    const Verb& verb = pick_verb(draws, change.gains);
    hash.add(static_cast<uint64_t>(&verb - kVerbs.data()));
    const std::string amount = fmt::format(
        fmt::runtime(change.gains ? pick_frame(draws, hash, kGained) : pick_frame(draws, hash, kLost)),
        change.amount, problem.object);
    const bool by_name = draws.below(5) == 0;
    hash.add(by_name);
    const Clause clause =
        make_clause(problem, change, verb, past, by_name ? problem.name : pronoun(problem), amount);
    if (may_join && clause.own_subject && draws.below(3) == 0) {
      text.pop_back();  // the period
      text += fmt::format("{}{}{}.", pick_frame(draws, hash, kJoiners), clause.verb, clause.rest);
      may_join = false;
      continue;
    }
    const std::string_view connector = pick_frame(draws, hash, kConnectors);
    text += fmt::format(" {}.", capitalized(std::string(connector) + clause.text()));
    may_join = clause.own_subject;
  }
  return text;
}

}  // namespace

int NumberProblem::number_after(size_t count) const {
  int number = start;
  for (size_t i = 0; i < count; ++i) number += changes[i].gains ? changes[i].amount : -changes[i].amount;
  return number;
}

Change draw_change(Draws& draws, const NumberProblem& problem) {
  const int number = problem.result();
  Change change;
  change.amount = draws.between(1, kMaxChange);
  const bool wants_gain = draws.below(2) == 0;
  change.gains = number < change.amount || (wants_gain && number + change.amount <= kMaxNumber);
  change.other = draw_other(draws, problem);
  return change;
}

NumberProblem draw_word_problem(Draws& draws) {
  NumberProblem problem;
  const uint32_t kind = draws.below(10);
  const size_t person = draws.below(kPeople.size() + kMoreNames.size());
  const Person& known = person < kPeople.size() ? kPeople[person] : kMoreNames[person - kPeople.size()];
  problem.name = kind == 0 ? capitalized(made_up_word(draws)) : std::string(known.name);
  problem.feminine = known.subject == "She";
  const size_t object = draws.below(kObjects.size() + kMoreObjects.size());
  problem.object = kind == 1 ? made_up_word(draws) + "s"
                             : std::string(object < kObjects.size() ? kObjects[object]
                                                                    : kMoreObjects[object - kObjects.size()]);
  problem.start = draws.between(2, 20);
  const int count = std::array{1, 2, 2, 2, 3}[draws.below(5)];
  for (int i = 0; i < count; ++i) problem.changes.push_back(draw_change(draws, problem));
  return problem;
}

std::string worked_answer(const NumberProblem& problem) {
  std::string answer;
  for (size_t i = 0; i < problem.changes.size(); ++i) {
    const Change& change = problem.changes[i];
    answer += fmt::format("{}{}{}={}. ", problem.number_after(i), change.gains ? '+' : '-', change.amount,
                          problem.number_after(i + 1));
  }
  return answer + fmt::format("The answer is {}.", problem.result());
}

Phrased phrase(Draws& draws, const NumberProblem& problem, bool held_out) {
  FrameHash hash;
  const bool past = draws.below(3) == 0;
  hash.add(past);
  const auto in_tense = [&](const Frame& frame) { return fmt::runtime(past ? frame.past : frame.present); };
  std::string text =
      fmt::format(in_tense(pick_frame(draws, hash, kOpenings)), problem.name, problem.start, problem.object);
  text += phrase_changes(draws, hash, problem, problem.changes, past);
  const bool new_question = held_out && draws.below(2) == 0;
  const FrameHash story = hash;
  for (;;) {
    hash = story;
    const auto [question, is_new] = sample_question(draws, hash, problem, past);
    if (is_new == new_question) {
      text += ' ';
      text += question;
      return {std::move(text), new_question ? kHeldOutFrame : hash.value()};
    }
  }
}

std::string phrase_follow_up(Draws& draws, const NumberProblem& problem, const Change& change) {
  FrameHash hash;
  std::string text = phrase_changes(draws, hash, problem, {change}, false).substr(1);
  const std::string_view question = pick_frame(draws, hash, kFollowUpQuestions);
  text += ' ';
  text += fmt::format(fmt::runtime(question), problem.name, pronoun(problem), problem.object);
  return text;
}

bool is_held_out(uint64_t frame) {
  return frame % 8 == 0;
}

InfillStory draw_infill_story(Draws& draws) {
  const NumberProblem problem = draw_word_problem(draws);
  InfillStory story;
  const auto append = [&](const std::string& text) { story.text += (story.text.empty() ? "" : " ") + text; };
  size_t change_index = 0;
  const auto blank = [&](std::string_view sentence, std::string_view part,
                         std::vector<std::string> accepted) {
    const size_t begin = story.text.size() - sentence.size() + sentence.find(part);
    story.blanks.push_back({begin, begin + part.size(), change_index, std::move(accepted)});
  };
  const auto blank_number = [&](const std::string& sentence, int number) {
    blank(sentence, std::to_string(number), {std::to_string(number)});
  };
  append(
      fmt::format(fmt::runtime(draws.pick(kOpenings).present), problem.name, problem.start, problem.object));
  const std::string start = std::to_string(problem.start);
  const size_t start_begin = story.text.find(start);
  story.start = {start_begin, start_begin + start.size(), 0, {start}};
  for (size_t i = 0; i < problem.changes.size(); ++i) {
    change_index = i;
    const Change& change = problem.changes[i];
    const Verb& verb = pick_verb(draws, change.gains);
    const std::string amount = fmt::format(
        fmt::runtime(change.gains ? draws.pick(kGained) : draws.pick(kLost)), change.amount, problem.object);
    const Clause clause = make_clause(problem, change, verb, false, pronoun(problem), amount);
    const std::string sentence = capitalized(clause.text()) + ".";
    append(sentence);
    std::vector<std::string> verbs;
    for (const Verb& other : kVerbs) {
      // "Sam gives her 7" and "She gives Sam 7" differ by more than the verb.
      if (other.gains == verb.gains && other.roles == verb.roles &&
          other.present.find(' ') == verb.present.find(' ')) {
        verbs.emplace_back(other.present);
      }
    }
    if (verb.present.find(' ') == std::string_view::npos) blank(sentence, verb.present, std::move(verbs));
    blank_number(sentence, change.amount);
    const std::string state = fmt::format(fmt::runtime(draws.pick(kStates)), pronoun(problem),
                                          problem.number_after(i + 1), problem.object);
    append(state);
    blank_number(state, problem.number_after(i + 1));
  }
  return story;
}

std::vector<std::string> word_problem_words() {
  std::vector<std::string> words;
  const auto add = [&](std::string_view text) { words.emplace_back(text); };
  for (const Person& person : kMoreNames) {
    add(person.name);
    words.push_back(fmt::format(" {}", person.name));
  }
  for (const auto& list :
       {std::span<const std::string_view>(kObjects), std::span<const std::string_view>(kMoreObjects)}) {
    for (const std::string_view object : list) add(object), words.push_back(fmt::format(" {}", object));
  }
  for (const Verb& verb : kVerbs) {
    for (const std::string_view form : {verb.present, verb.past}) {
      words.push_back(fmt::format(" {}", form));
      add(form);  // without a space: the form after a cut at a hole
    }
  }
  for (const std::string_view relative : kRelatives) {
    for (const char* const owner : {"her", "his"}) {
      words.push_back(fmt::format(" {}", fmt::format(fmt::runtime(relative), owner)));
      words.push_back(capitalized(fmt::format(fmt::runtime(relative), owner)));
    }
  }
  const auto add_frame = [&](std::string_view frame) {
    words.push_back(fmt::format(fmt::runtime(frame), "Mia", "7", "shells"));
  };
  for (const auto& list : {std::span<const Frame>(kOpenings), std::span<const Frame>(kQuestions),
                           std::span<const Frame>(kEnds)}) {
    for (const Frame& frame : list) add_frame(frame.present), add_frame(frame.past);
  }
  for (const std::string_view lead : kLeads) add(lead), add(fmt::format(" {}how many", lead));
  for (const std::string_view possession : kPossessions) add(fmt::format(" {}", possession));
  for (const std::string_view frame : kGained) add_frame(fmt::format(" {}", frame));
  for (const std::string_view frame : kLost) add_frame(fmt::format(" {}", frame));
  for (const std::string_view connector : kConnectors) add(fmt::format(" {}", connector));
  for (const std::string_view connector : kConnectors) add(connector);
  for (const std::string_view joiner : kJoiners) add(joiner);
  for (const std::string_view state : kStates) add_frame(fmt::format(" {}", state));
  for (const std::string_view question : kFollowUpQuestions) add_frame(fmt::format(" {}", question));
  return words;
}

}  // namespace lacuna
