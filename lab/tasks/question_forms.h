// Wordings of stories about one number in the task `questions`, by theme; the language is that of
// question_text.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "tasks/question_words.h"

namespace lacuna {

using Wordings = std::span<const std::string_view>;

/// The kind of actor of a theme.
enum class ActorKind : uint8_t { kPerson, kOwner, kNobody };

/// Wordings of {m}. kCounted: "7 more shells", "7 more", "7 of them"; kUnit: "7 dollars", "7 more dollars".
enum class AmountKind : uint8_t { kCounted, kUnit };

struct Theme {
  std::string_view name;
  ActorKind actor = ActorKind::kPerson;
  AmountKind amount = AmountKind::kCounted;
  Wordings nouns, places;  ///< places may be empty
  Wordings openings;
  Wordings gains, losses;  ///< one of them may be empty
  Wordings questions;      ///< empty: the wordings of changes are questions themselves
  int share = 1;           ///< weight among all themes
  int max_changes = 4;
};

// A person has things.
inline constexpr auto kThingOpenings = std::to_array<std::string_view>({
    "{N} <has|had> {n} {o}",
    "{N} <has|had> {n} {o}",
    "{N} <has|had> {n} {o}",
    "{N} <owns|owned> {n} {o}",
    "{N} <starts|started> with {n} {o}",
    "at first {N} <has|had> {n} {o}",
    "there ([are|is]|[were|was]) {n} {o} in {N's} bag",
    "{N} <keeps|kept> {n} {o} in a box",
    "in the morning {N} <has|had> {n} {o}",
    "{N} <has got|had got> {n} {o}",
    "{N} <brings|brought> {n} {o} to school",
    "{N} <holds|held> {n} {o}",
    "{N} <finds|found> {n} {o}",
    "{N} <buys|bought> {n} {o}",
    "there ([are|is]|[were|was]) {n} {o} on {N's} table",
    "{n} {o} ([belong|belongs]|belonged) to {M}",
    "{N} <begins|began> the day with {n} {o}",
    "{N} <collects|collected> {n} {o}",
    "{N} <carries|carried> {n} {o} in a bag",
    "{N's} collection (has|had) {n} {o}",
    "on Monday {N} <has|had> {n} {o}",
    "{N} <gets|got> {n} {o} for {his} birthday",
    "{N} <makes|made> {n} {o}",
    "in {N's} room there ([are|is]|[were|was]) {n} {o}",
    "{N} <is|was> given {n} {o}",
    "{N} <counts|counted> {n} {o} in {his} bag",
    "{x} (gives|gave) {M} {n} {o}",
    "{n} {o} ([are|is]|[were|was]) in {N's} pocket",
    "this week {N} <has|had> {n} {o}",
    "{N} <has|had> exactly {n} {o}",
    "{N} already <has|had> {n} {o}",
    "{N} <has|had> a box with {n} {o} in it",
    "{N} <stores|stored> {n} {o} at home",
    "{N} <wins|won> {n} {o} at the fair",
    "{N} <picks|picked> {n} {o}",
    "{N} <has|had> {n} {o} on a shelf",
    "{N's} shelf (holds|held) {n} {o}",
    "one day {N} <has|had> {n} {o}",
    "{N} <takes|took> {n} {o} to the park",
    "{N} <has|had> a total of {n} {o}",
    "{N} <packs|packed> {n} {o}",
    "{N} <receives|received> {n} {o}",
    "{N} <orders|ordered> {n} {o}",
    "{N} <puts|put> {n} {o} in a basket",
    "once {N} <has|had> {n} {o}",
    "{n} {o} ([lie|lies]|lay) on {N's} desk",
    "{N} <gathers|gathered> {n} {o}",
    "{N} <saves|saved> {n} {o}",
    "in {N's} drawer there ([are|is]|[were|was]) {n} {o}",
    "{N} <comes|came> home with {n} {o}",
    "{N} <arrives|arrived> with {n} {o}",
});
inline constexpr auto kThingGains = std::to_array<std::string_view>({
    "{A} <finds|found> {m}",
    "{A} <buys|bought> {m}",
    "{A} <gets|got> {m}",
    "{A} <collects|collected> {m}",
    "{A} <wins|won> {m}",
    "{A} <picks up|picked up> {m}",
    "{A} <makes|made> {m}",
    "{A} <receives|received> {m}",
    "{A} <gathers|gathered> {m}",
    "{A} <adds|added> {m}",
    "{A} <earns|earned> {m}",
    "{A} <picks|picked> {m}",
    "{A} <discovers|discovered> {m}",
    "{A} <orders|ordered> {m}",
    "{A} <gains|gained> {m}",
    "{A} <borrows|borrowed> {m} from {x}",
    "{A} <takes|took> {m} from {x}",
    "{A} <gets|got> {m} from {x}",
    "{A} <receives|received> {m} from {x}",
    "{A} <buys|bought> {m} from {x}",
    "{A} <wins|won> {m} from {x}",
    "{A} <collects|collected> {m} from {x}",
    "{A} <accepts|accepted> {m} from {x}",
    "{x} (gives|gave) {him} {m}",
    "{x} (gives|gave) {him} {m}",
    "{x} (brings|brought) {him} {m}",
    "{x} (hands|handed) {him} {m}",
    "{x} (sends|sent) {him} {m}",
    "{x} (lends|lent) {him} {m}",
    "{x} (buys|bought) {him} {m}",
    "{x} (passes|passed) {him} {m}",
    "{x} (sells|sold) {him} {m}",
    "{x} (leaves|left) {him} {m}",
    "{x} (gives|gave) {m} to {him}",
    "{x} (sends|sent) {m} to {him}",
    "{x} (makes|made) {m} for {him}",
    "{x} (hands|handed) {m} over to {him}",
    "{A} <is|was> given {m}",
    "{A} <is|was> given {m} by {x}",
    "{A} <is|was> handed {m} by {x}",
    "{A} <is|was> sent {m}",
    "{A} <comes|came> across {m}",
    "{A} <digs up|dug up> {m}",
    "{A} <brings|brought> home {m}",
    "{A} <goes|went> to the shop and <buys|bought> {m}",
    "{A} <puts|put> {m} with the others",
    "{m} ([come|comes]|came) in the mail",
    "{m} ([arrive|arrives]|arrived)",
    "{m} ([are|is]|[were|was]) added",
    "{m} ([are|is]|[were|was]) given to {him}",
    "for {his} birthday {A} <gets|got> {m}",
    "as a present {A} <gets|got> {m}",
    "on the way home {A} <finds|found> {m}",
    "{A} <takes|took> {m} out of the cupboard",
    "{A} <chooses|chose> {m} at the market",
    "{A} <has|had> {m} delivered",
    "{A} <unpacks|unpacked> {m}",
    "{A} <finds|found> {m} under the bed",
    "at the shop {A} <buys|bought> {m}",
    "{x} (has|had) too many and (gives|gave) {him} {m}",
    "{A} <gets|got> {m} back from {x}",
    "{x} (returns|returned) {m} to {him}",
    "{A} <buys|bought> {m} at the store",
    "{A} <picks out|picked out> {m}",
    "{A} <grabs|grabbed> {m}",
    "{A} <pulls|pulled> out {m}",
    "{A} <is|was> lucky and <finds|found> {m}",
    "{A} <saves|saved> {m}",
    "{x} (drops|dropped) off {m} for {him}",
    "{A} <brings|brought> in {m}",
    "{A} <trades|traded> a hat for {m}",
    "a new box (brings|brought) {m}",
    "{A} <spots|spotted> {m} and <takes|took> [them|it]",
    "{A} <fetches|fetched> {m}",
    "{x} (shares|shared) {m} with {him}",
    "{A} <inherits|inherited> {m}",
});
inline constexpr auto kThingLosses = std::to_array<std::string_view>({
    "{A} <loses|lost> {m}",
    "{A} <loses|lost> {m}",
    "{A} <sells|sold> {m}",
    "{A} <gives|gave> away {m}",
    "{A} <throws|threw> away {m}",
    "{A} <breaks|broke> {m}",
    "{A} <uses|used> {m}",
    "{A} <uses|used> up {m}",
    "{A} <drops|dropped> {m}",
    "{A} <forgets|forgot> {m} at school",
    "{A} <leaves|left> {m} on the bus",
    "{A} <donates|donated> {m}",
    "{A} <gives|gave> {m} to {x}",
    "{A} <gives|gave> {m} to {x}",
    "{A} <gives|gave> {x} {m}",
    "{A} <sells|sold> {m} to {x}",
    "{A} <lends|lent> {m} to {x}",
    "{A} <lends|lent> {x} {m}",
    "{A} <hands|handed> {m} to {x}",
    "{A} <sends|sent> {m} to {x}",
    "{A} <sends|sent> {x} {m}",
    "{A} <donates|donated> {m} to the school",
    "{A} <returns|returned> {m} to {x}",
    "{A} <shares|shared> {m} with {x}",
    "{A} <mails|mailed> {m} to {x}",
    "{x} (takes|took) {m} from {him}",
    "{x} (borrows|borrowed) {m} from {him}",
    "{x} (steals|stole) {m} from {him}",
    "{x} (buys|bought) {m} from {him}",
    "{x} (gets|got) {m} from {him}",
    "{x} (receives|received) {m} from {him}",
    "{x} (takes|took) {m}",
    "{x} (wins|won) {m} from {him}",
    "{m} ([get|gets]|got) lost",
    "{m} ([break|breaks]|broke)",
    "{m} ([are|is]|[were|was]) stolen",
    "{m} ([are|is]|[were|was]) sold",
    "{m} ([are|is]|[were|was]) lost",
    "{m} ([are|is]|[were|was]) given to {x}",
    "{m} ([go|goes]|went) missing",
    "{m} ([fall|falls]|fell) out of {his} bag",
    "{m} ([go|goes]|went) to {x}",
    "{m} ([are|is]|[were|was]) broken",
    "{m} ([are|is]|[were|was]) taken away",
    "{m} ([disappear|disappears]|disappeared)",
    "{A} <gets|got> rid of {m}",
    "{A} <parts|parted> with {m}",
    "{A} <leaves|left> {m} at home",
    "a dog (runs|ran) off with {m}",
    "{A} <has|had> to give {m} back",
    "{A} <passes|passed> {m} on to {x}",
    "{A} <misplaces|misplaced> {m}",
    "{A} <trades|traded> {m} away",
    "{A} <gives|gave> {m} back to {x}",
    "{A} <tosses|tossed> out {m}",
    "on the way {A} <loses|lost> {m}",
    "by accident {A} <breaks|broke> {m}",
    "at school {A} <gives|gave> away {m}",
    "{A} <needs|needed> {m} for a project and <uses|used> [them|it]",
    "{x} (asks|asked) for some and (gets|got) {m}",
    "{A} <leaves|left> {m} behind",
    "{A} <removes|removed> {m}",
    "{A} <takes|took> {m} back to the shop",
    "{A} <sells|sold> {m} at the market",
    "{A} <puts|put> {m} in the trash",
    "the wind (blows|blew) {m} away",
    "{m} ([fall|falls]|fell) into the river",
    "{A} <presents|presented> {x} with {m}",
    "{A} <pays|paid> with {m}",
    "{A} <hands|handed> out {m}",
    "{A} <offers|offered> {m} to {x}, who (takes|took) [them|it]",
    "{m} ([are|is]|[were|was]) damaged and thrown away",
});
inline constexpr auto kThingQuestions = std::to_array<std::string_view>({
    "how many {os} (are|were) there (now|then)",
    "how many {os} (are|were) left",
    "how many {os} (are|were) there in the end",
    "what (is|was) the number of {os} (now|in the end)",
    "with how many {os} <does|did> {N} end up",
    "how many {os} <does|did> {he} end up with",
    "how many {os} (remain|remained)",
    "how many {os} <has|had> {N} got (now|then)",
    "how many {os} <has|had> {he} got left",
    "what (is|was) the total",
    "how many (are|were) left",
    "how many (are|were) there (now|in the end)",
    "how many <does|did> {he} have",
    "how many {os} <is|was> {N} left with",
    "how many <is|was> {he} left with",
    "how many {os} (are|were) still there",
    "how many {os} <does|did> {N} still have",
    "how many <does|did> {he} still have",
    "how many {os} (are|were) with {him} (now|then)",
    "how many {os} (belong|belonged) to {M} (now|then)",
    "how large (is|was) the collection (now|then)",
    "what number of {os} <does|did> {N} have (now|then)",
    "find the number of {os} that {N} <has|had> (now|then)",
    "tell me how many {os} {N} <has|had> left",
    "how many {os} will {N} have",
    "how many will {he} have (left|then)",
    "how many of the {os} (remain|remained)",
    "how many {os} (does|did) that make",
    "how many {os} <does|did> {N} have",
    "how many {os} <does|did> {he} have (now|then)",
    "how many <does|did> {N} have (now|left)",
    "can you say how many {os} {N} <has|had> (now|then)",
    "what <does|did> {N} have in the end",
    "how many {os} <does|did> {N} have at the end of the day",
    "how many {os} (are|were) in {N's} bag (now|then)",
    "{N} (now|then) <has|had> how many {os}",
    "do you know how many {os} {he} <has|had> (now|left)",
    "how many {os} can {N} count (now|at the end)",
    "so how many {os} <does|did> {he} have (today|after that)",
});
// "So how many shells does Mia have left" is one choice from each list.
inline constexpr auto kAskLeads = std::to_array<std::string_view>(
    {"", "", "", "", "so ", "now ", "then ", "in the end, ", "after all that, ", "tell me: ", "after this, ",
     "and ", "at the end, ", "please tell me: ", "altogether, ", "after that, "});
inline constexpr auto kAskCounted =
    std::to_array<std::string_view>({"how many {os} <does|did>", "how many {os} <does|did>",
                                     "how many <does|did>", "what number of {os} <does|did>"});
inline constexpr auto kAskPossessions =
    std::to_array<std::string_view>({"have", "have", "have", "have", "own", "hold", "keep"});
inline constexpr auto kAskEnds = std::to_array<std::string_view>(
    {" (now|then)", " left", " left", "", " in the end", " at the end", " in all", " in total", " altogether",
     " after that", " left over", " at last", " by the end", " all together", " (today|that day)",
     " after all this"});

// A person has food, which may be eaten.
inline constexpr auto kFoodGains = std::to_array<std::string_view>(
    {"{A} <bakes|baked> {m}", "{A} <cooks|cooked> {m}", "{x} (bakes|baked) {him} {m}",
     "{A} <picks|picked> {m}", "{A} <makes|made> {m}", "{A} <gets|got> {m} from the kitchen",
     "{A} <buys|bought> {m} at the market", "{A} <finds|found> {m} in the kitchen",
     "{A} <prepares|prepared> {m}"});
inline constexpr auto kFoodLosses = std::to_array<std::string_view>(
    {"{A} <eats|ate> {m}", "{A} <eats|ate> {m}", "{x} (eats|ate) {m}", "{m} ([are|is]|[were|was]) eaten",
     "{m} ([go|goes]|went) bad", "{m} ([are|is]|[were|was]) rotten and thrown away",
     "{A} <eats|ate> {m} for breakfast", "for lunch {A} <eats|ate> {m}", "{A} <shares|shared> {m} with {x}",
     "a bird (eats|ate) {m}", "{A} <cooks|cooked> {m} for dinner", "{A} <feeds|fed> {m} to a horse",
     "{A} <swallows|swallowed> {m}", "{A} <bites|bit> into {m}", "{A} <burns|burned> {m}",
     "{m} ([are|is]|[were|was]) eaten by {x}", "{A} <finishes|finished> {m}"});

// A shop, a school or a club has things.
inline constexpr auto kStockOpenings = std::to_array<std::string_view>(
    {"{N} <has|had> {n} {o}", "{N} <has|had> {n} {o} in stock", "{N} <owns|owned> {n} {o}",
     "{N} <starts|started> the day with {n} {o}", "{N} <keeps|kept> {n} {o}",
     "there ([are|is]|[were|was]) {n} {o} in stock at {M}", "{N} <opens|opened> with {n} {o}",
     "{N} <orders|ordered> {n} {o}", "on the shelves of {M} there ([are|is]|[were|was]) {n} {o}"});
inline constexpr auto kStockGains = std::to_array<std::string_view>(
    {"{A} <buys|bought> {m}", "{A} <orders|ordered> {m}", "{A} <receives|received> {m}", "{A} <gets|got> {m}",
     "a delivery of {n} {o} (comes|came) in", "a truck (brings|brought) {m}",
     "{m} ([are|is]|[were|was]) delivered", "{m} ([arrive|arrives]|arrived)", "{A} <adds|added> {m}",
     "{x} (donates|donated) {m}", "customers (return|returned) {m}", "{A} <is|was> given {m}",
     "{m} ([come|comes]|came) in", "{A} <makes|made> {m}"});
inline constexpr auto kStockLosses = std::to_array<std::string_view>(
    {"{A} <sells|sold> {m}", "{A} <sells|sold> {m} in the morning", "{m} ([are|is]|[were|was]) sold",
     "customers (buy|bought) {m}", "a customer (buys|bought) {m}", "{A} <gives|gave> away {m}",
     "{m} ([are|is]|[were|was]) stolen", "{m} ([are|is]|[were|was]) broken", "{A} <lends|lent> out {m}",
     "{A} <throws|threw> away {m}", "{m} ([get|gets]|got) lost", "{x} (buys|bought) {m}",
     "{A} <sends|sent> back {m}", "{A} <loses|lost> {m}", "{A} <sells|sold> {m} to {x}",
     "{m} ([are|is]|[were|was]) taken away", "{m} ([are|is]|[were|was]) used"});
inline constexpr auto kStockQuestions = std::to_array<std::string_view>(
    {"how many {os} (are|were) in stock (now|then)", "how many {os} (are|were) left",
     "how many {os} <does|did> {N} have (now|left)", "how many (are|were) left",
     "how many {os} <does|did> {he} have at the end of the day", "how many {os} (remain|remained) in stock",
     "how many {os} (are|were) there (now|then)", "what (is|was) the stock of {os} (now|then)",
     "how many {os} (are|were) not sold", "how many {os} (can|could) still be sold"});

// Things in a place.
inline constexpr auto kBoxOpenings = std::to_array<std::string_view>(
    {"there ([are|is]|[were|was]) {n} {o} {p}", "there ([are|is]|[were|was]) {n} {o} {p}",
     "{n} {o} ([are|is]|[were|was]) {p}", "{p} there ([are|is]|[were|was]) {n} {o}",
     "{x} (puts|put) {n} {o} {p}", "{n} {o} ([lie|lies]|lay) {p}", "we (see|saw) {n} {o} {p}",
     "{x} (finds|found) {n} {o} {p}", "someone (leaves|left) {n} {o} {p}",
     "at first there ([are|is]|[were|was]) {n} {o} {p}", "{x} (counts|counted) {n} {o} {p}"});
inline constexpr auto kBoxGains = std::to_array<std::string_view>(
    {"{x} (adds|added) {m}", "{x} (puts|put) in {m}", "{m} ([are|is]|[were|was]) added",
     "{m} ([are|is]|[were|was]) put there", "{x} (brings|brought) {m}", "{m} ([are|is]|[were|was]) brought",
     "{x} (places|placed) {m} there", "{x} (lays|laid) {m} beside [them|it]", "{x} (drops|dropped) in {m}",
     "we (add|added) {m}", "{x} (buys|bought) {m} and (puts|put) [them|it] there",
     "{m} ([join|joins]|joined) the others", "{m} ([are|is]|[were|was]) placed there"});
inline constexpr auto kBoxLosses = std::to_array<std::string_view>(
    {"{x} (takes|took) {m}", "{x} (takes|took) out {m}", "{m} ([are|is]|[were|was]) taken out",
     "{m} ([are|is]|[were|was]) removed", "{m} ([fall|falls]|fell) down", "{x} (removes|removed) {m}",
     "{x} (takes|took) {m} away", "{m} ([get|gets]|got) lost", "{m} ([break|breaks]|broke)",
     "we (take|took) away {m}", "{m} ([are|is]|[were|was]) stolen", "{x} (uses|used) {m}",
     "{x} (picks|picked) out {m}", "{m} ([are|is]|[were|was]) given away", "{m} ([are|is]|[were|was]) used",
     "{x} (carries|carried) {m} away", "{m} ([disappear|disappears]|disappeared)"});
inline constexpr auto kPlaceQuestions = std::to_array<std::string_view>(
    {"how many {os} (are|were) {p} (now|then)", "how many {os} (are|were) there (now|then)",
     "how many {os} (are|were) left", "how many (are|were) left", "how many {os} (remain|remained)",
     "how many {os} (are|were) still {p}", "how many {os} (are|were) left {p}",
     "how many (are|were) there (now|in the end)", "what (is|was) the number of {os} {p} (now|then)",
     "how many (are|were) {p} (now|then)", "how many {os} (stay|stayed) {p}",
     "how many {os} can you see {p} now", "how many {os} (are|were) there in the end",
     "how many {os} (are|were) there altogether", "so how many {os} (are|were) {p}",
     "how many of them (are|were) there (now|then)"});

// Beings in a place, who come and go.
inline constexpr auto kCrowdOpenings = std::to_array<std::string_view>(
    {"there ([are|is]|[were|was]) {n} {o} {p}", "there ([are|is]|[were|was]) {n} {o} {p}",
     "{n} {o} ([are|is]|[were|was]) {p}", "{p} there ([are|is]|[were|was]) {n} {o}",
     "we (see|saw) {n} {o} {p}", "{n} {o} ([wait|waits]|waited) {p}",
     "at first there ([are|is]|[were|was]) {n} {o} {p}", "in the morning {n} {o} ([are|is]|[were|was]) {p}",
     "{x} (counts|counted) {n} {o} {p}", "{x} (sees|saw) {n} {o} {p}"});
inline constexpr auto kCrowdGains = std::to_array<std::string_view>(
    {"{m} ([come|comes]|came)", "{m} ([arrive|arrives]|arrived)", "{m} ([join|joins]|joined) them",
     "{m} ([come|comes]|came) in", "{m} ([enter|enters]|entered)",
     "{m} ([come|comes]|came) to join the others", "a group of {n} {o} (arrives|arrived)",
     "{m} ([walk|walks]|walked) in", "{m} ([turn|turns]|turned) up", "{m} ([show|shows]|showed) up",
     "{m} ([appear|appears]|appeared)", "{m} ([follow|follows]|followed)", "they (are|were) joined by {m}",
     "{m} ([run|runs]|ran) in"});
inline constexpr auto kCrowdLosses = std::to_array<std::string_view>(
    {"{m} ([leave|leaves]|left)", "{m} ([go|goes]|went) away", "{m} ([go|goes]|went) home",
     "{m} ([walk|walks]|walked) away", "{m} ([run|runs]|ran) away", "{m} ([leave|leaves]|left) early",
     "{m} ([go|goes]|went) out", "a group of {n} {o} (leaves|left)",
     "{m} ([disappear|disappears]|disappeared)", "{m} ([have|has]|had) to leave",
     "{m} ([say|says]|said) goodbye and ([leave|leaves]|left)", "{m} ([are|is]|[were|was]) sent home",
     "{m} ([move|moves]|moved) away", "{m} ([get|gets]|got) tired and ([leave|leaves]|left)"});
inline constexpr auto kBirdOpenings = std::to_array<std::string_view>(
    {"{n} {o} ([sit|sits]|sat) {p}", "there ([are|is]|[were|was]) {n} {o} {p}",
     "{n} {o} ([rest|rests]|rested) {p}", "{n} {o} ([are|is]|[were|was]) sitting {p}",
     "{x} (watches|watched) {n} {o} {p}", "{n} {o} ([land|lands]|landed) {p}",
     "{n} {o} ([live|lives]|lived) {p}"});
inline constexpr auto kBirdGains = std::to_array<std::string_view>(
    {"{m} ([land|lands]|landed)", "{m} ([fly|flies]|flew) in", "{m} ([join|joins]|joined) them",
     "{m} ([come|comes]|came)", "{m} ([arrive|arrives]|arrived)", "{m} ([land|lands]|landed) next to them",
     "a flock of {n} {o} (lands|landed)", "{m} ([fly|flies]|flew) over to them"});
inline constexpr auto kBirdLosses = std::to_array<std::string_view>(
    {"{m} ([fly|flies]|flew) away", "{m} ([fly|flies]|flew) off", "{m} ([leave|leaves]|left)",
     "{m} ([take|takes]|took) off", "a cat (scares|scared) away {m}", "{m} ([go|goes]|went) away",
     "a loud noise (scares|scared) off {m}", "{m} ([fly|flies]|flew) south"});
inline constexpr auto kAnimalOpenings = std::to_array<std::string_view>(
    {"there ([are|is]|[were|was]) {n} {o} {p}", "{n} {o} ([live|lives]|lived) {p}",
     "{n} {o} ([stand|stands]|stood) {p}", "{x} (keeps|kept) {n} {o} {p}",
     "{n} {o} ([sleep|sleeps]|slept) {p}", "{n} {o} ([are|is]|[were|was]) {p}", "{x} (has|had) {n} {o} {p}"});
inline constexpr auto kAnimalGains = std::to_array<std::string_view>(
    {"{m} ([are|is]|[were|was]) born", "{m} ([join|joins]|joined) them", "{m} ([come|comes]|came)",
     "{x} (buys|bought) {m}", "{x} (brings|brought) {m}", "{m} ([arrive|arrives]|arrived)",
     "{m} ([come|comes]|came) running", "{x} (adds|added) {m} to [them|it]"});
inline constexpr auto kAnimalLosses = std::to_array<std::string_view>(
    {"{m} ([run|runs]|ran) away", "{m} ([are|is]|[were|was]) sold", "{x} (sells|sold) {m}",
     "{m} ([escape|escapes]|escaped)", "{m} ([leave|leaves]|left)", "{x} (takes|took) {m} home",
     "{m} ([go|goes]|went) away", "{m} ([die|dies]|died)", "{m} ([get|gets]|got) lost",
     "{x} (buys|bought) {m}", "{m} ([are|is]|[were|was]) moved to another place",
     "{m} ([are|is]|[were|was]) given to {x}"});
inline constexpr auto kFishGains = std::to_array<std::string_view>(
    {"{x} (puts|put) {m} in", "{m} ([swim|swims]|swam) in", "{x} (buys|bought) {m}",
     "{m} ([are|is]|[were|was]) born", "{m} ([are|is]|[were|was]) added", "{m} ([come|comes]|came)"});
inline constexpr auto kFishLosses = std::to_array<std::string_view>(
    {"{m} ([swim|swims]|swam) away", "{m} ([die|dies]|died)", "{x} (catches|caught) {m}",
     "{m} ([are|is]|[were|was]) caught", "{x} (takes|took) out {m}", "a bird (eats|ate) {m}",
     "{m} ([are|is]|[were|was]) eaten"});
inline constexpr auto kFishOpenings = std::to_array<std::string_view>(
    {"there ([are|is]|[were|was]) {n} {o} {p}", "{n} {o} ([swim|swims]|swam) {p}",
     "{n} {o} ([live|lives]|lived) {p}", "{x} (has|had) {n} {o} {p}", "{x} (keeps|kept) {n} {o} {p}"});
inline constexpr auto kRideOpenings = std::to_array<std::string_view>(
    {"there ([are|is]|[were|was]) {n} {o} {p}", "{n} {o} ([are|is]|[were|was]) {p}",
     "{n} {o} ([sit|sits]|sat) {p}", "{n} {o} ([travel|travels]|traveled) {p}",
     "{p} there ([are|is]|[were|was]) {n} {o}", "at the start there ([are|is]|[were|was]) {n} {o} {p}"});
inline constexpr auto kRideGains = std::to_array<std::string_view>(
    {"{m} ([get|gets]|got) on", "{m} ([get|gets]|got) in", "{m} ([board|boards]|boarded)",
     "at the next stop {m} ([get|gets]|got) on", "{m} ([step|steps]|stepped) in",
     "{m} ([climb|climbs]|climbed) aboard", "at the station {m} ([get|gets]|got) on",
     "{m} ([come|comes]|came) on board", "{m} ([enter|enters]|entered)",
     "at the first stop, {m} ([board|boards]|boarded)"});
inline constexpr auto kRideLosses = std::to_array<std::string_view>(
    {"{m} ([get|gets]|got) off", "{m} ([get|gets]|got) out", "at the next stop {m} ([get|gets]|got) off",
     "{m} ([leave|leaves]|left)", "{m} ([step|steps]|stepped) out", "at the station {m} ([get|gets]|got) off",
     "{m} ([exit|exits]|exited)", "at the second stop, {m} ([get|gets]|got) off"});
inline constexpr auto kPlantOpenings = std::to_array<std::string_view>(
    {"there ([are|is]|[were|was]) {n} {o} {p}", "{n} {o} ([grow|grows]|grew) {p}",
     "{x} (plants|planted) {n} {o} {p}", "{n} {o} ([stand|stands]|stood) {p}", "{x} (has|had) {n} {o} {p}",
     "{p} there ([are|is]|[were|was]) {n} {o}"});
inline constexpr auto kPlantGains = std::to_array<std::string_view>(
    {"{m} ([are|is]|[were|was]) planted", "{x} (plants|planted) {m}", "{m} ([grow|grows]|grew)",
     "the workers (plant|planted) {m}", "{x} (adds|added) {m}", "{m} ([come|comes]|came) up",
     "{m} ([are|is]|[were|was]) added"});
inline constexpr auto kPlantLosses = std::to_array<std::string_view>(
    {"{m} ([are|is]|[were|was]) cut down", "{x} (cuts|cut) down {m}", "{m} ([die|dies]|died)",
     "a storm (destroys|destroyed) {m}", "{m} ([fall|falls]|fell)", "{x} (digs|dug) out {m}",
     "{m} ([dry|dries]|dried) up", "{m} ([are|is]|[were|was]) removed",
     "{m} ([are|is]|[were|was]) lost in a storm"});
inline constexpr auto kLotOpenings = std::to_array<std::string_view>(
    {"there ([are|is]|[were|was]) {n} {o} {p}", "{n} {o} ([are|is]|[were|was]) {p}",
     "{n} {o} ([stand|stands]|stood) {p}", "{n} {o} ([are|is]|[were|was]) parked {p}",
     "we (see|saw) {n} {o} {p}"});
inline constexpr auto kLotGains = std::to_array<std::string_view>(
    {"{m} ([arrive|arrives]|arrived)", "{m} ([come|comes]|came)", "{m} ([come|comes]|came) in",
     "{m} ([pull|pulls]|pulled) in", "{m} ([enter|enters]|entered)"});
inline constexpr auto kLotLosses = std::to_array<std::string_view>(
    {"{m} ([leave|leaves]|left)", "{m} ([drive|drives]|drove) away", "{m} ([drive|drives]|drove) off",
     "{m} ([go|goes]|went) away", "{m} ([pull|pulls]|pulled) out"});

}  // namespace lacuna
