#include "tasks/question_stories.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"

namespace lacuna {
namespace {

// Numbers of gains and losses of things, and of units.
constexpr auto kGainAmounts = std::to_array<std::string_view>(
    {"{n} more", "{n} more", "{n} more", "{n} more {o}", "another {n}", "another {n} {o}", "{n}", "{n} {o}",
     "{n} new {o}", "{n} extra {o}", "{n} other {o}"});
constexpr auto kLossAmounts = std::to_array<std::string_view>(
    {"{n}", "{n}", "{n}", "{n} {o}", "{n} of them", "{n} of the {os}", "{n} of these", "{n} of those {os}"});
constexpr auto kUnitGainAmounts =
    std::to_array<std::string_view>({"{n} {o}", "{n} {o}", "{n} more {o}", "another {n} {o}"});
constexpr auto kUnitLossAmounts = std::to_array<std::string_view>({"{n} {o}", "{n} {o}", "{n} {o}", "{n}"});
constexpr auto kFurtherLossAmounts = std::to_array<std::string_view>(
    {"{n}", "{n} more", "another {n}", "{n} of them", "{n} {o}", "{n} more {o}"});

constexpr auto kAllBut = std::to_array<std::string_view>(
    {"{A} <loses|lost> all but {n}", "{A} <gives|gave> away all but {n} of them",
     "{A} <sells|sold> all but {n}", "all but {n} (are|were) lost", "{A} <uses|used> all but {n} of the {os}",
     "{A} <keeps|kept> only {n} and <gives|gave> the rest to {x}", "{x} (takes|took) all but {n}"});
constexpr auto kAll = std::to_array<std::string_view>(
    {"{A} <loses|lost> all of them", "{A} <gives|gave> all of them to {x}", "{A} <sells|sold> all {his} {os}",
     "{A} <uses|used> up all of them", "all of them (are|were) lost", "{x} (takes|took) all the {os}"});
constexpr auto kHalf = std::to_array<std::string_view>(
    {"{A} <loses|lost> half of them", "{A} <gives|gave> half of them to {x}",
     "{A} <sells|sold> half of the {os}", "half of the {os} (are|were) lost", "{x} (takes|took) half of them",
     "{A} <gives|gave> away half of {his} {os}"});
constexpr auto kDouble = std::to_array<std::string_view>(
    {"{A} <doubles|doubled> the number of {os}", "{A} <gets|got> as many again",
     "{x} (gives|gave) {him} as many again", "{A} <gets|got> twice as many",
     "the number of {os} (doubles|doubled)", "{A} <buys|bought> just as many again"});

constexpr auto kLeadIns = std::to_array<std::string_view>(
    {"{N}, who <has|had> {n} {o}, ", "{N}, who <owns|owned> {n} {o}, ",
     "{N}, who <starts|started> with {n} {o}, ", "with {n} {o} in {his} bag, {N} ",
     "starting with {n} {o}, {N} ", "having {n} {o}, {N} ", "of {his} {n} {o}, {N} "});
constexpr auto kJoins =
    std::to_array<std::string_view>({" and ", " and ", " and then ", ", then ", " and later ", " but "});
constexpr auto kIfs = std::to_array<std::string_view>({"if ", "when ", "after "});
constexpr auto kNextIfs = std::to_array<std::string_view>(
    {"and if ", "what if ", "and when ", "and after ", "but if ", "and what if "});
constexpr auto kNextQuestions = std::to_array<std::string_view>(
    {"how many are there now", "how many now", "and now", "how many are left", "how many are left now",
     "how many are there then", "what is the number now", "how many does that make", "how many is that now",
     "and how many now"});
constexpr auto kNextActorQuestions = std::to_array<std::string_view>(
    {"how many <does|did> {he} have now", "how many <does|did> {he} have left",
     "how many {os} <does|did> {he} have now", "now how many <does|did> {he} have",
     "how many <has|had> {he} got now", "how many {os} <does|did> {N} have now"});
constexpr auto kNextOpeners =
    std::to_array<std::string_view>({"", "", "", "then ", "now ", "later ", "after that, ", "next, ",
                                     "and then ", "the next day ", "afterwards, "});
constexpr auto kShortLeads = std::to_array<std::string_view>(
    {"", "", "", "", "", "so ", "and ", "tell me: ", "please tell me: ", "now tell me: "});

bool starts_with_slot(std::string_view wording) {
  return wording.starts_with("{A} ") || wording.starts_with("{m} ") || wording.starts_with("{x} ");
}

/// Whether the wording can follow "if".
bool is_clause(std::string_view wording) {
  return starts_with_slot(wording) || wording.starts_with("it ") || wording.starts_with("the ") ||
         wording.starts_with("a ");
}

bool is_own_clause(std::string_view wording) {
  return wording.starts_with("{A} <");
}

bool is_about_things(const Theme& theme) {
  return theme.questions.data() == kThingQuestions.data();
}

/// Whether the wordings of the theme are already in the past tense.
bool has_own_tense(const Theme& theme) {
  return theme.name == "age" || theme.name == "gone" || theme.name == "before";
}

const Theme& draw_theme(Draws& draws) {
  static const int all = std::accumulate(kThemes.begin(), kThemes.end(), 0,
                                         [](int sum, const Theme& theme) { return sum + theme.share; });
  int at = draws.between(0, all - 1);
  const Theme* theme = kThemes.data();
  for (; at >= theme->share; ++theme) at -= theme->share;
  return *theme;
}

Noun draw_noun(Draws& draws, const Theme& theme) {
  const bool is_thing = theme.nouns.data() == kGoods.data();
  if (is_thing && draws.below(12) == 0) return Noun::of(random_word(draws));
  Noun noun = Noun::of(draws.pick(theme.nouns));
  if (is_thing && theme.name != "groups" && theme.name != "colors" && draws.below(12) == 0) {
    const std::string color(draws.pick(kColors));
    noun = {color + " " + noun.one, color + " " + noun.many};
  }
  return noun;
}

/// Sets the number of a filling and how it is written.
void set_number(Draws& draws, Filling& filling, NumberStyle style, int number, bool counted) {
  filling.number = number;
  filling.number_text = number_text(style, number);
  if (counted && number == 12 && draws.below(5) == 0) filling.number_text = "a dozen";
  if (counted && number == 0 && draws.below(2) == 0) filling.number_text = "no";
}

std::string amount_text(std::string_view form, const Filling& filling) {
  Filling words = filling;
  const bool another = form.starts_with("another");
  if (another && words.number == 1) {
    if (form == "another {n}") return "another one";
    return "another " + words.noun.one;
  }
  if (another && words.number_text == "a dozen") words.number_text = "dozen";
  return fill_in(form, words);
}

/// Writes one story after its numbers have been drawn.
class StoryWriter {
 public:
  StoryWriter(Draws& draws, const Theme& theme) : picker_(draws), theme_(theme) {
    picker_.add(static_cast<uint64_t>(&theme - kThemes.data()));
    filling_.actor = draw_actor(draws, theme.actor);
    filling_.noun = draw_noun(draws, theme);
    if (!theme.places.empty()) filling_.place = std::string(draws.pick(theme.places));
    filling_.past = picker_.choose(2) == 0 && !has_own_tense(theme);
    style_ = draw_number_style(draws);
  }

  /// Continues the story of `state`.
  StoryWriter(Draws& draws, const StoryState& state)
      : picker_(draws), theme_(*state.theme), filling_(state.filling), known_(true) {
    picker_.add(static_cast<uint64_t>(&theme_ - kThemes.data()));
    filling_.past = false;
    style_ = draw_number_style(draws);
  }

  NumberQuestion write(const std::vector<Step>& steps);
  NumberQuestion write_next(const Step& step);
  const Filling& filling() const { return filling_; }

 private:
  Draws& draws() { return picker_.draws(); }
  bool counted() const { return theme_.amount == AmountKind::kCounted; }

  void draw_other() {
    const bool has_relatives = theme_.actor == ActorKind::kPerson && theme_.name != "age";
    filling_.other = draw_participant(draws(), filling_.actor, has_relatives);
    const std::string color = filling_.color;
    while (filling_.color == color) filling_.color = std::string(draws().pick(kColors));
  }

  void append(const std::string& sentence) { text_ += (text_.empty() ? "" : " ") + sentence; }

  /// Makes {A} the name now and then, and if nobody was named yet.
  void choose_name(std::string_view wording) {
    filling_.by_name = !known_ || picker_.one_in(5);
    if (wording.find("{A}") != std::string_view::npos) known_ = true;
  }

  std::string_view pick_change(const Step& step, bool may_be_special);
  void set_amount(const Step& step, bool is_next);
  void write_opening(const Step& first);
  bool write_lead_in(const Step& first, std::string_view wording);
  void write_change(std::string_view wording);
  void write_step(std::string_view wording, bool is_last);
  void write_fact();
  std::string write_question(bool plain);
  void end_question(const std::string& question);

  WordingPicker picker_;
  const Theme& theme_;
  Filling filling_;
  NumberStyle style_ = NumberStyle::kDigits;
  std::string text_;
  bool known_ = false;     ///< the actor has been named
  bool may_join_ = false;  ///< the last sentence is the actor's own
};

/// A wording for the step, or an equivalent special one ("all but 3"); sets the number of the filling.
std::string_view StoryWriter::pick_change(const Step& step, bool may_be_special) {
  draw_other();
  picker_.add(step.adds ? 1 : 0);
  const bool special = may_be_special && is_about_things(theme_);
  const auto with_number = [&](std::string_view wording, int number) {
    set_number(draws(), filling_, style_, number, false);
    picker_.add(4000);  // distinct from the usual wordings
    return wording;
  };
  if (special && step.adds && step.left == step.right) return with_number(picker_.pick(kDouble), step.right);
  if (special && !step.adds && step.left == step.right && draws().below(2) == 0)
    return with_number(picker_.pick(kAll), step.right);
  if (special && !step.adds && step.left == 2 * step.right && draws().below(2) == 0)
    return with_number(picker_.pick(kHalf), step.right);
  if (special && !step.adds && step.left > step.right && draws().below(24) == 0)
    return with_number(picker_.pick(kAllBut), step.result());
  Wordings wordings = step.adds ? theme_.gains : theme_.losses;
  if (theme_.name == "food" && picker_.one_in(2)) {
    wordings = step.adds ? Wordings(kThingGains) : Wordings(kThingLosses);
  }
  const std::string_view wording = picker_.pick(wordings);
  set_amount(step, false);
  return wording;
}

void StoryWriter::set_amount(const Step& step, bool is_next) {
  set_number(draws(), filling_, style_, step.right, counted());
  const Wordings forms = counted() ? (step.adds ? Wordings(kGainAmounts)
                                      : is_next ? Wordings(kFurtherLossAmounts)
                                                : Wordings(kLossAmounts))
                                   : (step.adds ? Wordings(kUnitGainAmounts) : Wordings(kUnitLossAmounts));
  filling_.amount = amount_text(picker_.pick(forms), filling_);
}

void StoryWriter::write_opening(const Step& first) {
  draw_other();
  const std::string_view wording = picker_.pick(theme_.openings);
  set_number(draws(), filling_, style_, first.left, counted());
  append(fill_in(wording, filling_) + ".");
  known_ = wording.find("{N") != std::string_view::npos || wording.find("{M") != std::string_view::npos;
  may_join_ = theme_.max_changes > 1 && wording.starts_with("{N} <");
  filling_.actor = filling_.actor.known();
}

/// Writes "Mia, who has 12 shells, finds 7 more."; false if the wording does not fit.
bool StoryWriter::write_lead_in(const Step& first, std::string_view wording) {
  if (!is_about_things(theme_) || !is_own_clause(wording) || !picker_.one_in(10)) return false;
  Filling before = filling_;
  set_number(draws(), before, style_, first.left, true);
  std::string_view lead = picker_.pick(kLeadIns);
  if (lead.starts_with("of ") && first.adds) lead = kLeadIns[0];
  append(fill_in(lead, before) + fill_in(wording.substr(std::string_view("{A} ").size()), filling_) + ".");
  known_ = true;
  may_join_ = true;
  filling_.actor = filling_.actor.known();
  return true;
}

void StoryWriter::write_change(std::string_view wording) {
  if (may_join_ && is_own_clause(wording) && picker_.one_in(3)) {
    text_.pop_back();  // the period
    text_ += picker_.pick(kJoins);
    text_ += fill_in(wording.substr(std::string_view("{A} ").size()), filling_) + ".";
    may_join_ = picker_.one_in(3);
    return;
  }
  choose_name(wording);
  const bool may_open = theme_.max_changes > 1 && starts_with_slot(wording);
  const std::string_view opener = may_open ? picker_.pick(kOpeners) : std::string_view();
  append(std::string(opener) + fill_in(wording, filling_) + ".");
  may_join_ = is_own_clause(wording);
}

void StoryWriter::write_fact() {
  const uint32_t kind = draws().below(60);
  if (kind > 6) return;
  picker_.add(5000 + kind);
  if (kind == 0) {
    append(fill_in(picker_.pick(kNumberFacts), filling_) + ".");
  } else if (kind <= 3 && theme_.actor == ActorKind::kPerson && known_) {
    filling_.by_name = draws().below(2) == 0;
    append(fill_in(picker_.pick(kActorFacts), filling_) + ".");
  } else {
    append(fill_in(picker_.pick(kFacts), filling_) + ".");
  }
  may_join_ = false;
}

/// A question without its question mark. `plain`: one that can follow "if she finds 7, ".
std::string StoryWriter::write_question(bool plain) {
  draw_other();
  if (is_about_things(theme_) && picker_.one_in(2)) {
    const bool by_name = picker_.one_in(2);
    const std::string_view lead = plain ? std::string_view() : picker_.pick(kAskLeads);
    const std::string_view counted = picker_.pick(kAskCounted), possession = picker_.pick(kAskPossessions);
    std::string_view end = picker_.pick(kAskEnds);
    if (lead.ends_with(", ") && end != " left") end = "";
    if ((lead == "now " || lead == "then ") && (end.starts_with(" (") || end == " at last")) end = "";
    return fill_in(fmt::format("{}{} {} {}{}", lead, counted, by_name ? "{N}" : "{he}", possession, end),
                   filling_);
  }
  const std::string_view wording = picker_.pick(theme_.questions);
  const bool asks = wording.starts_with("how") || wording.starts_with("what");
  if (plain) return asks ? fill_in(wording, filling_) : "how many are left";
  return std::string(asks ? picker_.pick(kShortLeads) : std::string_view()) + fill_in(wording, filling_);
}

void StoryWriter::end_question(const std::string& question) {
  const bool is_request = question.starts_with("tell me how") || question.starts_with("find ");
  const bool forgets = draws().below(40) == 0;
  append(question + (is_request ? "." : forgets ? "" : "?"));
}

NumberQuestion StoryWriter::write(const std::vector<Step>& steps) {
  std::string_view wording = pick_change(steps[0], true);
  const bool changes_ask = theme_.questions.empty();
  size_t told = 0;
  if (!changes_ask && write_lead_in(steps[0], wording)) {
    told = 1;
  } else {
    Filling change = filling_;
    write_opening(steps[0]);
    change.actor = filling_.actor;
    filling_ = change;
  }
  if (!changes_ask) write_fact();
  for (size_t i = told; i < steps.size(); ++i) {
    if (i > 0) wording = pick_change(steps[i], true);
    write_step(wording, i + 1 == steps.size());
  }
  if (told == steps.size()) end_question(write_question(false));
  filling_.past = false;
  return {QuestionForm::kStory, with_capitals(text_), steps, picker_.frame()};
}

/// Writes a change; for the last one, also the question after or around it.
void StoryWriter::write_step(std::string_view wording, bool is_last) {
  if (theme_.questions.empty()) {
    choose_name(wording);
    end_question(fill_in(wording, filling_));
    return;
  }
  if (is_last && theme_.max_changes > 2 && starts_with_slot(wording) && picker_.one_in(6)) {
    choose_name(wording);
    const std::string clause = std::string(picker_.pick(kIfs)) + fill_in(wording, filling_);
    const std::string question = write_question(true);
    end_question(picker_.one_in(2) ? clause + ", " + question : question + " " + clause);
    return;
  }
  write_change(wording);
  if (is_last) end_question(write_question(false));
}

NumberQuestion StoryWriter::write_next(const Step& step) {
  std::string_view wording = pick_change(step, false);
  while (!is_clause(wording)) wording = pick_change(step, false);
  set_amount(step, true);
  choose_name(wording);
  const std::string clause = fill_in(wording, filling_);
  if (picker_.one_in(3)) {
    end_question(std::string(picker_.pick(kNextIfs)) + clause);
  } else if (picker_.one_in(4)) {
    end_question("if " + clause + ", " + write_question(true));
  } else {
    append(std::string(picker_.pick(kNextOpeners)) + clause + ".");
    if (!counted() || picker_.one_in(3)) {
      end_question(write_question(false));
    } else if (theme_.actor == ActorKind::kPerson && picker_.one_in(2)) {
      end_question(fill_in(picker_.pick(kNextActorQuestions), filling_));
    } else {
      end_question(std::string(picker_.pick(kNextQuestions)));
    }
  }
  return {QuestionForm::kStory, with_capitals(text_), {step}, picker_.frame()};
}

Step draw_step(Draws& draws, const Theme& theme, int number) {
  bool adds = theme.losses.empty() || (!theme.gains.empty() && draws.below(2) == 0);
  if (!adds && number == 0) adds = true;
  if (adds && number >= kMaxAnswer) adds = false;
  const int limit = adds ? kMaxAnswer - number : number;
  return {number, adds, draw_further_number(draws, std::min(limit, kMaxAsked))};
}

std::vector<Step> draw_steps(Draws& draws, const Theme& theme) {
  constexpr auto kCounts = std::to_array<int>({1, 1, 1, 2, 2, 2, 2, 3, 3, 4});
  const int count = std::min(draws.pick(kCounts), theme.max_changes);
  const bool adds = theme.losses.empty() || (!theme.gains.empty() && draws.below(2) == 0);
  const NumberPair pair = draw_number_pair(draws, !adds);
  std::vector<Step> steps = {{pair.first, adds, pair.second}};
  if (is_about_things(theme) && draws.below(30) == 0) {  // doubled, halved or gone
    const int number = draws.between(1, kMaxAsked / 2);
    steps[0] = std::array<Step, 3>{
        {{number, true, number}, {2 * number, false, number}, {number, false, number}}}[draws.below(3)];
  }
  while (std::ssize(steps) < count) {
    const int number = steps.back().result();
    if ((number == 0 && theme.gains.empty()) || (number >= kMaxAnswer && theme.losses.empty())) break;
    steps.push_back(draw_step(draws, theme, number));
  }
  return steps;
}

}  // namespace

NumberStyle draw_number_style(Draws& draws) {
  return draws.below(4) == 0 ? NumberStyle::kWords : NumberStyle::kDigits;
}

std::string number_text(NumberStyle style, int number) {
  return style == NumberStyle::kWords && number <= kMaxAsked ? number_words(number) : std::to_string(number);
}

NumberPair draw_number_pair(Draws& draws, bool subtracts) {
  const bool small = draws.below(2) == 0;
  NumberPair pair{small ? draws.between(1, 30) : draws.between(0, kMaxAsked),
                  small ? draws.between(1, 20) : draws.between(1, kMaxAsked)};
  if (subtracts && pair.first < pair.second) std::swap(pair.first, pair.second);
  if (pair.second == 0) pair.second = pair.first;
  return pair;
}

int draw_further_number(Draws& draws, int limit) {
  return draws.between(1, std::min(limit, draws.below(2) == 0 ? 20 : kMaxAsked));
}

Actor draw_named_actor(Draws& draws) {
  const bool female = draws.below(2) == 0;
  Actor actor{"", female ? "she" : "he", female ? "her" : "him", female ? "her" : "his"};
  actor.name = std::string(female ? draws.pick(kGirls) : draws.pick(kBoys));
  if (draws.below(10) == 0) {
    actor.name = random_word(draws);
    actor.name[0] = static_cast<char>(actor.name[0] - 'a' + 'A');
  }
  return actor;
}

Actor draw_actor(Draws& draws, ActorKind kind) {
  if (kind == ActorKind::kOwner) return {std::string(draws.pick(kOwners)), "it", "it", "its"};
  const uint32_t choice = draws.below(25);
  if (choice == 0) return {"I", "I", "me", "my", true};
  if (choice == 1)
    return draws.below(3) == 0 ? Actor{"we", "we", "us", "our", true}
                               : Actor{"you", "you", "you", "your", true};
  if (choice == 2) return {std::string(draws.pick(kGroups)), "they", "them", "their", true};
  Actor actor = draw_named_actor(draws);
  if (choice == 3) {
    const Actor other = draw_named_actor(draws);
    if (other.name != actor.name) return {actor.name + " and " + other.name, "they", "them", "their", true};
  }
  if (choice > 5) return actor;
  const std::string name(draws.pick(kDescribed));
  constexpr auto kFemale = std::to_array<std::string_view>({"a girl", "a queen", "my sister", "my aunt"});
  constexpr auto kMale =
      std::to_array<std::string_view>({"a boy", "a king", "a wizard", "my brother", "my uncle"});
  const bool is_female = std::find(kFemale.begin(), kFemale.end(), name) != kFemale.end();
  const bool is_male = std::find(kMale.begin(), kMale.end(), name) != kMale.end();
  if (is_female || (!is_male && actor.subject == "she")) return {name, "she", "her", "her"};
  return {name, "he", "him", "his"};
}

std::string draw_participant(Draws& draws, const Actor& actor, bool has_relatives) {
  for (;;) {
    std::string other = draw_named_actor(draws).name;
    if (draws.below(2) == 0) {
      const std::string_view relative = draws.pick(kOthers);
      if (relative.starts_with("{his}") && !has_relatives) continue;
      other = fill_in(relative, {actor});
    }
    if (actor.name.find(other) == std::string::npos) return other;
  }
}

NumberQuestion draw_story_question(Draws& draws, StoryState* state) {
  const Theme& theme = draw_theme(draws);
  StoryWriter writer(draws, theme);
  NumberQuestion question = writer.write(draw_steps(draws, theme));
  if (state != nullptr) *state = {&theme, writer.filling(), question.steps.back().result()};
  return question;
}

NumberQuestion draw_next_change(Draws& draws, StoryState& state) {
  expects(state.can_continue(), "a story that continues");
  StoryWriter writer(draws, state);
  const Step step = draw_step(draws, *state.theme, state.number);
  NumberQuestion question = writer.write_next(step);
  state.number = step.result();
  return question;
}

/// Adds the words of a wording in the forms that stories use.
void add_words(std::string_view wording, std::vector<std::string>& words) {
  Filling filling{{"Mia", "she", "her", "her"}, Noun::of("shell"), "in the box", "Sam", "red"};
  filling.number_text = "7";
  filling.amount = "7 more";
  const Filling past = [&] {
    Filling other = filling;
    other.past = true;
    other.number = 1;
    return other;
  }();
  Filling several = filling;
  several.actor = {"they", "they", "them", "their", true};
  for (const Filling& one : {filling, past, several}) {
    std::string text = fill_in(wording, one);
    words.push_back(" " + text);
    words.push_back(with_capitals(std::move(text)));
  }
}

std::vector<std::string> story_words() {
  std::vector<std::string> words;
  const auto add = [&](const auto&... lists) {
    const auto add_list = [&](const auto& list) {
      for (const std::string_view wording : list) add_words(wording, words);
    };
    (add_list(lists), ...);
  };
  for (const Theme& theme : kThemes)
    add(theme.openings, theme.gains, theme.losses, theme.questions, theme.places);
  add(kGainAmounts, kLossAmounts, kUnitGainAmounts, kAllBut, kAll, kHalf, kDouble, kLeadIns, kJoins, kIfs,
      kNextIfs);
  add(kNextQuestions, kNextActorQuestions, kNextOpeners, kShortLeads, kOpeners, kFacts, kActorFacts,
      kNumberFacts);
  add(kAskLeads, kAskCounted, kAskPossessions, kAskEnds, kGirls, kBoys, kDescribed, kOwners, kGroups, kOthers,
      kColors);
  for (const Theme& theme : kThemes) {
    for (const std::string_view text : theme.nouns) {
      const Noun noun = Noun::of(text);
      words.push_back(" " + noun.one);
      words.push_back(" " + noun.many);
    }
  }
  for (int number = 0; number <= kMaxAsked; ++number) add_words(number_words(number), words);
  return words;
}

}  // namespace lacuna
