#include "tasks/question_people.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tasks/question_stories.h"
#include "tasks/question_text.h"

namespace lacuna {
namespace {

/// Verbs for having or changing things: third person present, past and plural.
struct Doing {
  std::string_view present, past;
};

constexpr auto kDoings = std::to_array<Doing>({{"has", "had"},
                                               {"has", "had"},
                                               {"has", "had"},
                                               {"owns", "owned"},
                                               {"finds", "found"},
                                               {"buys", "bought"},
                                               {"collects", "collected"},
                                               {"makes", "made"},
                                               {"picks", "picked"},
                                               {"sells", "sold"},
                                               {"wins", "won"},
                                               {"carries", "carried"},
                                               {"brings", "brought"},
                                               {"gets", "got"},
                                               {"counts", "counted"},
                                               {"gathers", "gathered"},
                                               {"holds", "held"},
                                               {"keeps", "kept"},
                                               {"draws", "drew"},
                                               {"loses", "lost"},
                                               {"needs", "needed"},
                                               {"packs", "packed"},
                                               {"sees", "saw"},
                                               {"hides", "hid"},
                                               {"takes", "took"}});

// {v} is the verb, {B} the other person of a comparison, {n} the number.
constexpr auto kFirst = std::to_array<std::string_view>(
    {"{N} {v} {n} {o}", "{N} {v} {n} {o}", "{N} {v} {n} {o}", "at school {N} {v} {n} {o}",
     "{N} {v} exactly {n} {o}", "on Monday {N} {v} {n} {o}", "today {N} {v} {n} {o}",
     "{N} {v} a total of {n} {o}", "this week {N} {v} {n} {o}", "in all {N} {v} {n} {o}"});
constexpr auto kSecond = std::to_array<std::string_view>(
    {"{N} {v} {n}", "{N} {v} {n} {o}", "{N} {v} {n} {o}", "{N} {v} only {n}", "{N} {v} {n}, too",
     "{N} also {v} some: {n} {o}", "{N} {v} some as well: {n} {o}", "at the same time {N} {v} {n} {o}"});
constexpr auto kBetween = std::to_array<std::string_view>(
    {". ", ". ", ". ", " and ", " and ", ", and ", " while ", " but ", ", while ", "; "});
constexpr auto kMoreThan = std::to_array<std::string_view>(
    {"{N} {v} {n} more than {B}", "{N} {v} {n} more {o} than {B}", "{N} {v} {n} more",
     "compared with {B}, {N} {v} {n} more", "{N} {v} {n} more {o} than {B} {v}",
     "{N} {v} as many as {B} and {n} more", "{N} {v} {n} {o} more than {B}"});
constexpr auto kFewerThan = std::to_array<std::string_view>(
    {"{N} {v} {n} fewer than {B}", "{N} {v} {n} fewer {o} than {B}", "{N} {v} {n} less than {B}",
     "{N} {v} {n} fewer", "compared with {B}, {N} {v} {n} fewer", "{N} {v} {n} less",
     "{N} {v} {n} {o} less than {B}", "{N} {v} {n} {o} fewer than {B}"});
constexpr auto kTwice = std::to_array<std::string_view>(
    {"{N} {v} twice as many as {B}", "{N} {v} twice as many", "{N} {v} double that number",
     "{N} {v} two times as many as {B}", "{N} {v} twice as many {os} as {B}"});
constexpr auto kSameNumber =
    std::to_array<std::string_view>({"{N} {v} as many as {B}", "{N} {v} the same number",
                                     "{N} {v} just as many", "{N} {v} the same number of {os} as {B}"});
// The first person's number is compared with the second's, which the question asks for.
constexpr auto kMoreThanAsked = std::to_array<std::string_view>(
    {"{N} {v} {n} more than {B}", "that (is|was) {n} more than {B} {v}",
     "this (is|was) {n} more than {B} {v}", "it (is|was) {n} more than {B} {v}"});
constexpr auto kFewerThanAsked =
    std::to_array<std::string_view>({"{N} {v} {n} fewer than {B}", "that (is|was) {n} fewer than {B} {v}",
                                     "this (is|was) {n} less than {B} {v}", "{N} {v} {n} less than {B}"});

// {both} is "Mia and Ben", {V} the verb after "do"; {N} is the person that the question asks about.
constexpr auto kTotals = std::to_array<std::string_view>(
    {"how many {os} (do|did) they {V} together",     "how many {os} (do|did) they {V} in all",
     "how many {os} (do|did) they {V} altogether",   "how many {os} (do|did) {both} {V} together",
     "how many {os} (do|did) {both} {V} in all",     "how many (do|did) they {V} in total",
     "what (is|was) the total number of {os}",       "how many {os} (are|were) there in all",
     "how many {os} (is|was) that together",         "how many (do|did) {both} {V} in total",
     "how many {os} (are|were) there altogether",    "together, how many {os} (do|did) they {V}",
     "in total, how many {os} (do|did) they {V}",    "what (is|was) the total",
     "how many {os} (does|did) that make",           "find how many {os} they {W} in all",
     "tell me how many {os} they {W} together",      "if you count all {os}, how many (are|were) there",
     "how many {os} (do|did) {both} {V} altogether", "how many (is|was) that together",
     "how many (do|did) they {V} between them",      "how many {os} (do|did) they {V} if you add them up"});
constexpr auto kBothTotals = std::to_array<std::string_view>(
    {"how many (do|did) both {V} together", "how many {os} (do|did) the two {V}",
     "how many {os} (do|did) both of them {V} in all",
     "how many {os} (do|did) the two of them {V} together"});
constexpr auto kAllTotals = std::to_array<std::string_view>(
    {"how many {os} (do|did) all three {V}", "how many {os} (do|did) the three {V} together",
     "how many (do|did) all of them {V} in all", "how many {os} (do|did) the three of them {V}"});
constexpr auto kOwn = std::to_array<std::string_view>(
    {"how many {os} (does|did) {N} {V}", "how many (does|did) {N} {V}", "so how many {os} (does|did) {N} {V}",
     "what (is|was) the number of {os} that {N} {v}", "tell me how many {os} {N} {v}",
     "how many {os} then (does|did) {N} {V}", "then how many (does|did) {N} {V}",
     "what number of {os} (does|did) {N} {V}", "and {N}? how many {os} (does|did) {he} {V}",
     "can you tell how many {os} {N} {v}"});
constexpr auto kMore = std::to_array<std::string_view>(
    {"how many more {os} (does|did) {N} {V} than {B}", "how many more (does|did) {N} {V}",
     "how many more (does|did) {N} {V} than {B}", "how many more {os} (does|did) {N} {V}",
     "what (is|was) the difference", "how many {os} more than {B} (does|did) {N} {V}",
     "what (is|was) the difference between {both}", "how big (is|was) the difference",
     "how many more than {B} (does|did) {N} {V}", "how large (is|was) the difference between them"});
constexpr auto kFewer = std::to_array<std::string_view>(
    {"how many fewer {os} (does|did) {N} {V} than {B}", "how many fewer (does|did) {N} {V}",
     "how many less (does|did) {N} {V} than {B}", "how many more (does|did) {N} need to have as many as {B}",
     "how many fewer (does|did) {N} {V} than {B}", "how many {os} (is|was) {N} behind {B}",
     "how many {os} (does|did) {N} need to catch up with {B}",
     "how many more {os} must {N} get to have as many as {B}"});

/// One person and their number.
struct Member {
  Actor actor;
  int number = 0;
};

/// Writes the facts and the question about two or three people, and works out the steps.
class PeopleWriter {
 public:
  explicit PeopleWriter(Draws& draws) : picker_(draws), style_(draw_number_style(draws)) {
    picker_.add(1000);
    constexpr size_t kPeopleCount = 3;
    while (members_.size() < kPeopleCount) {
      Actor actor = draw_person();
      if (actor.name != known_name(0) && actor.name != known_name(1)) members_.push_back({std::move(actor)});
    }
    doing_ = picker_.pick(kDoings);
    filling_.past = picker_.choose(2) == 0;
    filling_.noun = Noun::of(draws.below(12) == 0  ? std::string_view(made_up_ = random_word(draws))
                             : draws.below(3) == 0 ? draws.pick(kFoods)
                                                   : draws.pick(kGoods));
  }

  NumberQuestion write();

 private:
  Draws& draws() { return picker_.draws(); }
  std::string known_name(size_t i) const { return i < members_.size() ? members_[i].actor.name : ""; }

  Actor draw_person() {
    if (draws().below(8) != 0) return draw_named_actor(draws());
    constexpr auto kRoles =
        std::to_array<std::string_view>({"her brother", "the farmer", "the baker", "my brother", "my uncle",
                                         "the teacher", "my friend", "the boy"});
    return {std::string(draws().pick(kRoles)), "he", "him", "his"};
  }

  std::string fill(std::string_view wording, size_t who, size_t compared, int number) const;
  void say(const std::string& sentence, bool may_join);
  void say_first();
  void say_next(size_t who);
  bool say_inverse();
  void ask_total(size_t count);
  void ask_difference();
  void ask_own(size_t who);
  void end(const std::string& question);

  WordingPicker picker_;
  NumberStyle style_;
  Doing doing_;
  std::string made_up_;
  Filling filling_;
  std::vector<Member> members_;
  std::vector<Step> steps_;
  std::string text_;
  bool is_last_given_ = false;  ///< the last person's number stands in the text
};

std::string PeopleWriter::fill(std::string_view wording, size_t who, size_t compared, int number) const {
  const std::string_view verb = filling_.past ? doing_.past : doing_.present;
  std::string text(wording);
  const auto replace = [&](std::string_view slot, std::string_view value) {
    for (size_t at = text.find(slot); at != std::string::npos; at = text.find(slot, at + value.size()))
      text.replace(at, slot.size(), value);
  };
  replace("{v}", verb);
  replace("{V}", plural_verb(doing_.present));
  replace("{W}", filling_.past ? std::string(doing_.past) : plural_verb(doing_.present));
  replace("{B}", members_[compared].actor.name);
  replace("{both}", members_[0].actor.name + " and " + members_[1].actor.name);
  Filling filling = filling_;
  filling.actor = members_[who].actor;
  filling.number = number;
  filling.number_text = number_text(style_, number);
  return fill_in(text, filling);
}

void PeopleWriter::say(const std::string& sentence, bool may_join) {
  if (!text_.empty()) text_ += may_join ? picker_.pick(kBetween) : std::string_view(". ");
  text_ += sentence;
}

void PeopleWriter::say_first() {
  say(fill(picker_.pick(kFirst), 0, 1, members_[0].number), false);
}

/// Writes the number of person `who`, or its comparison with that of the previous person.
void PeopleWriter::say_next(size_t who) {
  constexpr auto kRelations = std::to_array<int>({0, 0, 0, 1, 1, 2, 2, 3, 4});
  Member& member = members_[who];
  const int before = members_[who - 1].number;
  int relation = draws().pick(kRelations);
  if (relation == 3 && (before == 0 || before > kMaxAsked)) relation = 0;
  if (relation == 2 && before == 0) relation = 1;
  if (relation == 1 && before >= kMaxAsked) relation = before > 0 ? 2 : 0;
  picker_.add(static_cast<uint64_t>(relation));
  const auto compare = [&](const auto& wordings, bool adds, int number) {
    steps_.push_back({before, adds, number});
    member.number = steps_.back().result();
    std::string_view wording = picker_.pick(wordings);
    while (who > 1 && wording.find("{B}") == std::string_view::npos) wording = picker_.pick(wordings);
    say(fill(wording, who, who - 1, number), true);
  };
  switch (relation) {
    case 1:
      return compare(kMoreThan, true, draw_further_number(draws(), kMaxAsked - before));
    case 2:
      return compare(kFewerThan, false, draw_further_number(draws(), std::min(before, kMaxAsked)));
    case 3:
      return compare(kTwice, true, before);
    case 4:
      member.number = before;
      return say(fill(picker_.pick(kSameNumber), who, who - 1, 0), true);
    default:
      break;
  }
  is_last_given_ = true;
  if (member.number == 0) member.number = draw_number_pair(draws(), false).second;
  say(fill(picker_.pick(kSecond), who, who - 1, member.number), true);
}

/// "Mia has 12. That is 5 more than Ben has.": the second person's number is worked out.
bool PeopleWriter::say_inverse() {
  if (!picker_.one_in(10)) return false;
  const int first = members_[0].number;
  const bool more = first > 0 && picker_.one_in(2);
  const int number = draw_further_number(draws(), more ? first : kMaxAnswer - first);
  steps_.push_back({first, !more, number});
  members_[1].number = steps_.back().result();
  say(fill(more ? picker_.pick(kMoreThanAsked) : picker_.pick(kFewerThanAsked), 0, 1, number), false);
  return true;
}

void PeopleWriter::end(const std::string& question) {
  const bool is_request = question.starts_with("tell me") || question.starts_with("find ");
  text_ += ". " + question + (is_request ? "." : draws().below(40) == 0 ? "" : "?");
}

void PeopleWriter::ask_total(size_t count) {
  int total = members_[0].number;
  for (size_t i = 1; i < count; ++i) {
    steps_.push_back({total, true, members_[i].number});
    total = steps_.back().result();
  }
  const bool own_words = picker_.one_in(4);
  std::string_view wording = picker_.pick(kTotals);
  while (count > 2 && wording.find("{both}") != std::string_view::npos) wording = picker_.pick(kTotals);
  if (own_words) wording = count > 2 ? picker_.pick(kAllTotals) : picker_.pick(kBothTotals);
  end(fill(wording, 0, 1, 0));
}

void PeopleWriter::ask_difference() {
  const size_t larger = members_[0].number >= members_[1].number ? 0 : 1;
  steps_.push_back({members_[larger].number, false, members_[1 - larger].number});
  const bool more = picker_.one_in(2);
  end(fill(more ? picker_.pick(kMore) : picker_.pick(kFewer), more ? larger : 1 - larger,
           more ? 1 - larger : larger, 0));
}

void PeopleWriter::ask_own(size_t who) {
  end(fill(picker_.pick(kOwn), who, 0, 0));
}

NumberQuestion PeopleWriter::write() {
  const bool three = picker_.one_in(5);
  const bool differs = !three && picker_.one_in(3);
  const NumberPair pair = draw_number_pair(draws(), false);
  members_[0].number = pair.first;
  members_[1].number = pair.second;
  if (differs && picker_.one_in(2)) std::swap(members_[0].number, members_[1].number);
  if (members_[0].number == 0) members_[0].number = 1;
  say_first();
  if (differs) {
    say(fill(picker_.pick(kSecond), 1, 0, members_[1].number), true);
    ask_difference();
  } else {
    if (!say_inverse()) say_next(1);
    if (three) say_next(2);
    const size_t last = three ? 2 : 1;
    if (!steps_.empty() && !is_last_given_ && picker_.one_in(2)) {
      ask_own(last);
    } else {
      ask_total(last + 1);
    }
  }
  return {QuestionForm::kComparison, with_capitals(text_), steps_, picker_.frame()};
}

}  // namespace

NumberQuestion draw_people_question(Draws& draws) {
  for (;;) {
    NumberQuestion question = PeopleWriter(draws).write();
    bool fits = !question.steps.empty();
    for (const Step& step : question.steps) fits = fits && step.result() <= kMaxAnswer && step.result() >= 0;
    if (fits) return question;
  }
}

std::vector<std::string_view> people_wordings(SentenceKind kind) {
  std::vector<std::string_view> all;
  const auto add = [&](const auto&... lists) { (all.insert(all.end(), lists.begin(), lists.end()), ...); };
  if (kind == SentenceKind::kOpening) add(kFirst, kSecond);
  if (kind == SentenceKind::kGain) add(kMoreThan, kFewerThanAsked, kTwice, kSameNumber);
  if (kind == SentenceKind::kLoss) add(kFewerThan, kMoreThanAsked);
  if (kind == SentenceKind::kQuestion) add(kTotals, kBothTotals, kAllTotals, kOwn, kMore, kFewer);
  return all;
}

std::vector<std::string> people_words() {
  std::vector<std::string> words;
  for (const SentenceKind kind :
       {SentenceKind::kOpening, SentenceKind::kGain, SentenceKind::kLoss, SentenceKind::kQuestion}) {
    for (const std::string_view wording : people_wordings(kind)) {
      std::string text(wording);
      for (const std::string_view slot : {"{v}", "{V}", "{W}", "{B}", "{both}"}) {
        for (size_t at = text.find(slot); at != std::string::npos; at = text.find(slot))
          text.erase(at, slot.size());
      }
      add_words(text, words);
    }
  }
  for (const std::string_view between : kBetween) add_words(between, words);
  for (const Doing& doing : kDoings) {
    words.push_back(fmt::format(" {} {} {}", doing.present, doing.past, plural_verb(doing.present)));
  }
  return words;
}

}  // namespace lacuna
