// Themes of the task `questions` in addition to question_forms.h: money, water, temperature, distance, age
// and the like, and the parts of a whole.
#pragma once

#include <array>
#include <string_view>

#include "tasks/question_forms.h"

namespace lacuna {

inline constexpr std::array<std::string_view, 0> kNone = {};

inline constexpr auto kFoodBoxLosses = std::to_array<std::string_view>(
    {"{x} (eats|ate) {m}", "{m} ([are|is]|[were|was]) eaten", "{x} (takes|took) {m}",
     "{m} ([go|goes]|went) bad", "{m} ([are|is]|[were|was]) taken out", "{x} (takes|took) out {m}",
     "the children (eat|ate) {m}", "{m} ([are|is]|[were|was]) thrown away", "a mouse (eats|ate) {m}",
     "{m} ([are|is]|[were|was]) sold", "we (eat|ate) {m}"});

inline constexpr auto kMoneyOpenings = std::to_array<std::string_view>(
    {"{N} <has|had> {n} {o}", "{N} <has|had> {n} {o} in {his} pocket", "{N} <saves|saved> {n} {o}",
     "{N} <starts|started> with {n} {o}", "{N} <has|had> {n} {o} in the bank",
     "there ([are|is]|[were|was]) {n} {o} in {N's} wallet", "{N} <earns|earned> {n} {o}",
     "{N} <goes|went> to the shop with {n} {o}", "{N's} piggy bank (holds|held) {n} {o}"});
inline constexpr auto kMoneyGains = std::to_array<std::string_view>(
    {"{A} <earns|earned> {m}", "{A} <gets|got> {m} from {x}", "{x} (gives|gave) {him} {m}",
     "{A} <finds|found> {m}", "{A} <saves|saved> {m}", "{A} <receives|received> {m}", "{A} <is|was> paid {m}",
     "{x} (pays|paid) {him} {m}", "{A} <wins|won> {m}", "{x} (sends|sent) {him} {m}",
     "{A} <sells|sold> a toy for {n} {o}", "{A} <puts|put> {m} in", "for {his} birthday {A} <gets|got> {m}",
     "{A} <works|worked> and <earns|earned> {m}", "{A} <is|was> given {m}"});
inline constexpr auto kMoneyLosses = std::to_array<std::string_view>(
    {"{A} <spends|spent> {m}", "{A} <pays|paid> {m}", "{A} <loses|lost> {m}", "{A} <gives|gave> {m} to {x}",
     "{A} <spends|spent> {m} on a book", "{A} <pays|paid> {n} {o} for lunch",
     "{A} <buys|bought> a toy for {n} {o}", "{A} <lends|lent> {m} to {x}",
     "{A} <buys|bought> a ticket that (costs|cost) {n} {o}", "{x} (borrows|borrowed) {m} from {him}",
     "{A} <donates|donated> {m}", "a cake (costs|cost) {him} {n} {o}", "{A} <spends|spent> {m} on food",
     "{A} <takes|took> out {m}", "{A} <uses|used> {m} to buy a ball",
     "{A} <pays|paid> {n} {o} for a bus ticket", "{m} ([are|is]|[were|was]) spent",
     "{A} <gives|gave> {x} {m}"});
inline constexpr auto kMoneyQuestions = std::to_array<std::string_view>(
    {"how much money <does|did> {N} have (now|then)", "how many {os} <does|did> {he} have left",
     "how much money (is|was) left", "how much <does|did> {he} have (now|left)",
     "how many {os} <does|did> {N} have in the end", "how much money <does|did> {he} have left",
     "how many {os} (are|were) left", "how much <does|did> {N} still have", "how many {os} (remain|remained)",
     "how much money <has|had> {N} got (now|then)", "what (is|was) left of the money",
     "how many {os} can {he} still spend"});
inline constexpr auto kLiquidOpenings = std::to_array<std::string_view>(
    {"there ([are|is]|[were|was]) {n} {o} of water in the tank", "a tank (holds|held) {n} {o} of water",
     "a barrel (has|had) {n} {o} of water", "a bucket (contains|contained) {n} {o}",
     "a pot (holds|held) {n} {o} of soup", "a can (has|had) {n} {o} of oil in it",
     "there ([are|is]|[were|was]) {n} {o} of juice in the jug", "{x} (has|had) {n} {o} of milk"});
inline constexpr auto kLiquidGains = std::to_array<std::string_view>(
    {"{x} (pours|poured) in {m}", "{m} ([are|is]|[were|was]) added", "{m} ([flow|flows]|flowed) in",
     "the rain (adds|added) {m}", "{x} (adds|added) {m}", "{m} ([are|is]|[were|was]) poured in",
     "{x} (fills|filled) in {m}"});
inline constexpr auto kLiquidLosses = std::to_array<std::string_view>(
    {"{m} ([leak|leaks]|leaked) out", "{x} (uses|used) {m}", "{x} (pours|poured) out {m}",
     "{m} ([are|is]|[were|was]) used", "{x} (drinks|drank) {m}", "{m} ([flow|flows]|flowed) out",
     "{m} ([are|is]|[were|was]) spilled", "{x} (takes|took) {m}", "{m} ([dry|dries]|dried) up",
     "{m} ([are|is]|[were|was]) drunk"});
inline constexpr auto kLiquidQuestions = std::to_array<std::string_view>(
    {"how many {os} (are|were) left", "how many {os} (are|were) there (now|then)", "how much (is|was) left",
     "how many {os} (are|were) in it (now|then)", "how many {os} (remain|remained)",
     "how much (is|was) in it (now|in the end)", "how much (is|was) there (now|then)"});
inline constexpr auto kHeatOpenings = std::to_array<std::string_view>(
    {"the temperature (is|was) {n} {o}", "it (is|was) {n} {o} in the morning",
     "in the morning the temperature (is|was) {n} {o}", "the room (has|had) a temperature of {n} {o}",
     "the water (is|was) {n} {o} warm", "the oven (is|was) at {n} {o}",
     "the thermometer (shows|showed) {n} {o}"});
inline constexpr auto kHeatGains = std::to_array<std::string_view>(
    {"it (rises|rose) by {m}", "it (gets|got) {n} {o} warmer", "the temperature (rises|rose) by {m}",
     "the temperature (goes|went) up by {m}", "it (climbs|climbed) {m}", "it (increases|increased) by {m}",
     "it (goes|went) up {m}", "it (gets|got) hotter by {m}", "it (warms|warmed) up by {m}"});
inline constexpr auto kHeatLosses = std::to_array<std::string_view>(
    {"it (falls|fell) by {m}", "it (drops|dropped) by {m}", "it (gets|got) {n} {o} colder",
     "the temperature (falls|fell) by {m}", "the temperature (drops|dropped) {m}",
     "it (cools|cooled) down by {m}", "it (goes|went) down by {m}", "it (sinks|sank) by {m}",
     "it (decreases|decreased) by {m}", "the temperature (goes|went) down {m}"});
inline constexpr auto kHeatQuestions = std::to_array<std::string_view>(
    {"what (is|was) the temperature (now|then)", "how warm (is|was) it (now|then)",
     "how many {os} (is|was) it (now|then)", "what (is|was) the temperature in the end",
     "how many {os} does the thermometer show now", "what temperature (is|was) it (now|at the end)",
     "how hot (is|was) it (now|then)"});
inline constexpr auto kRoadOpenings = std::to_array<std::string_view>(
    {"{N} <walks|walked> {n} {o}", "{N} <drives|drove> {n} {o}", "{N} <runs|ran> {n} {o}",
     "{N} <rides|rode> {n} {o} on {his} bike", "on the first day {N} <walks|walked> {n} {o}",
     "{N} <travels|traveled> {n} {o} by train", "in the morning {N} <hikes|hiked> {n} {o}",
     "{N} <swims|swam> {n} {o}"});
inline constexpr auto kRoadGains = std::to_array<std::string_view>(
    {"{A} <walks|walked> {m}", "{A} <goes|went> {m}", "{A} <drives|drove> {m}", "{A} <runs|ran> {m}",
     "after a rest {A} <walks|walked> {m}", "on the second day {A} <walks|walked> {m}",
     "in the evening {A} <goes|went> {m}", "{A} <travels|traveled> {m} by bus",
     "{A} <continues|continued> for {m}"});
inline constexpr auto kRoadQuestions = std::to_array<std::string_view>(
    {"how many {os} <does|did> {he} go in all", "how many {os} (is|was) that altogether",
     "how far <does|did> {N} go in total", "how far <does|did> {he} travel altogether",
     "how long (is|was) the whole way", "what (is|was) the total distance",
     "how many {os} <has|had> {N} covered", "how far (is|was) that in all"});
inline constexpr auto kTripOpenings = std::to_array<std::string_view>(
    {"the way to school (is|was) {n} {o} long", "a trip (is|was) {n} {o} long",
     "{N} <has|had> to walk {n} {o}", "it (is|was) {n} {o} to the lake", "{N} <wants|wanted> to run {n} {o}",
     "a road (is|was) {n} {o} long", "the distance to the town (is|was) {n} {o}",
     "{N} <has|had> a trip of {n} {o} to make"});
inline constexpr auto kTripLosses = std::to_array<std::string_view>(
    {"{N} <has|had> walked {n} {o}", "{N} already <goes|went> {n} {o}", "{N} <goes|went> {n} {o}",
     "{N} <drives|drove> {n} {o}", "{N} <has|had> done {n} {o} already",
     "{N} <rides|rode> {n} {o} before lunch", "{N} <stops|stopped> after {n} {o}"});
inline constexpr auto kTripQuestions = std::to_array<std::string_view>(
    {"how many {os} (are|were) left", "how far (is|was) it still", "how many {os} (remain|remained)",
     "how many {os} <does|did> {he} still have to go", "how much farther <does|did> {N} have to go",
     "how many more {os} <does|did> {he} need to go", "how long (is|was) the rest of the way"});
inline constexpr auto kSizeOpenings = std::to_array<std::string_view>(
    {"a plant (is|was) {n} {o} tall", "a tree (is|was) {n} {o} high", "a rope (is|was) {n} {o} long",
     "a tower (is|was) {n} {o} high", "a ribbon (is|was) {n} {o} long", "the snow (is|was) {n} {o} deep",
     "a candle (is|was) {n} {o} tall", "the river (is|was) {n} {o} deep"});
inline constexpr auto kSizeGains = std::to_array<std::string_view>(
    {"it (grows|grew) {m}", "it (grows|grew) by {m}", "{x} (makes|made) it {n} {o} longer",
     "it (gets|got) {n} {o} higher", "it (becomes|became) {n} {o} taller",
     "{m} ([are|is]|[were|was]) added to it"});
inline constexpr auto kSizeLosses = std::to_array<std::string_view>(
    {"{x} (cuts|cut) off {m}", "it (shrinks|shrank) by {m}", "{m} ([are|is]|[were|was]) cut off",
     "it (loses|lost) {m}", "it (gets|got) {n} {o} shorter", "{m} ([break|breaks]|broke) off",
     "it (becomes|became) {n} {o} lower"});
inline constexpr auto kSizeQuestions = std::to_array<std::string_view>(
    {"how many {os} does it measure now", "how tall (is|was) it (now|then)",
     "how long (is|was) it (now|then)", "how high (is|was) it (now|in the end)",
     "what (is|was) its length (now|then)", "what (is|was) its height (now|then)",
     "how many {os} (are|were) left", "how many {os} (is|was) it (now|then)"});
inline constexpr auto kTimeOpenings = std::to_array<std::string_view>(
    {"{N} <works|worked> for {n} {o}", "{N} <reads|read> for {n} {o}", "{N} <waits|waited> {n} {o}",
     "{N} <practices|practiced> {n} {o} on Monday", "{N} <sleeps|slept> for {n} {o}",
     "{N} <plays|played> for {n} {o}", "{N} <cycles|cycled> for {n} {o}"});
inline constexpr auto kTimeGains = std::to_array<std::string_view>(
    {"{A} <works|worked> {m}", "{A} <waits|waited> {m}", "{A} <goes|went> on for {m}",
     "{A} <practices|practiced> {m}", "{A} <needs|needed> {m}", "{A} <continues|continued> for {m}",
     "{A} <takes|took> {m} for the rest", "{A} <spends|spent> {m} on it"});
inline constexpr auto kTimeQuestions = std::to_array<std::string_view>(
    {"how many {os} (is|was) that in all", "how long <does|did> {he} need altogether",
     "how many {os} (is|was) that in total", "how much time (is|was) that",
     "how many {os} <does|did> {N} spend in all", "what (is|was) the total time",
     "how long (is|was) that altogether"});
inline constexpr auto kClockOpenings = std::to_array<std::string_view>(
    {"a film (lasts|lasted) {n} {o}", "a lesson (is|was) {n} {o} long", "the game (lasts|lasted) {n} {o}",
     "a cake (must|had to) bake for {n} {o}", "the train ride (takes|took) {n} {o}",
     "{N} <has|had> {n} {o} for a test", "it (is|was) {n} {o} until the party",
     "the holidays (are|were) {n} {o} long", "the show (goes|went) on for {n} {o}"});
inline constexpr auto kClockLosses = std::to_array<std::string_view>(
    {"{n} {o} [are|is] over", "{n} {o} [have|has] passed", "{n} {o} ([are|is]|[were|was]) gone",
     "{N} <has|had> watched for {n} {o}", "{n} {o} ([go|goes]|went) by",
     "so far {n} {o} [have|has] gone by"});
inline constexpr auto kClockQuestions = std::to_array<std::string_view>(
    {"how many {os} (are|were) left", "how long does it still take", "how many {os} (remain|remained)",
     "how much time (is|was) left", "how many more {os} (are|were) there", "how many {os} are still to come",
     "how many {os} does one still have to wait"});
inline constexpr auto kAgeOpenings = std::to_array<std::string_view>(
    {"{N} <is|is> {n} [years|year] old", "{N} <is|is> {n}", "{N} <turns|turned> {n} today",
     "today {N} <is|is> {n} [years|year] old", "this year {N} <is|is> {n} [years|year] old",
     "{N} <is|is> now {n} [years|year] old", "{N's} age is {n}"});
inline constexpr auto kAgeGains = std::to_array<std::string_view>(
    {"how old will {he} be in {n} {o}", "how old will {N} be in {n} {o}", "what will {his} age be in {n} {o}",
     "in {n} {o}, how old will {he} be", "how old will {he} be {n} {o} from now",
     "how old will {he} be after {n} {o}", "{x} is {n} {o} older. How old is {x}",
     "{x} is older by {n} {o}. How old is {x}", "how old will {he} be when {n} more {o} [have|has] passed"});
inline constexpr auto kAgeLosses = std::to_array<std::string_view>(
    {"how old <was|was> {he} {n} {o} ago", "how old <was|was> {N} {n} {o} ago",
     "what was {his} age {n} {o} ago", "{n} {o} ago, how old <was|was> {he}",
     "{x} is {n} {o} younger. How old is {x}", "{x} is younger by {n} {o}. What is the age of {x}",
     "how old <was|was> {he} {n} {o} earlier", "how old <was|was> {N} {n} {o} before that"});
inline constexpr auto kReadOpenings = std::to_array<std::string_view>(
    {"{N} <reads|read> {n} {o} on Monday", "{N} <reads|read> {n} {o} of a book", "{N} <writes|wrote> {n} {o}",
     "yesterday {N} read {n} {o}", "in the morning {N} <reads|read> {n} {o}",
     "{N} already <has|had> read {n} {o}"});
inline constexpr auto kReadGains = std::to_array<std::string_view>(
    {"{A} <reads|read> {m}", "on Tuesday {A} <reads|read> {m}", "in the evening {A} <reads|read> {m}",
     "{A} <reads|read> {m} in bed", "after dinner {A} <reads|read> {m}", "{A} <finishes|finished> {m}"});
inline constexpr auto kReadQuestions = std::to_array<std::string_view>(
    {"how many {os} (is|was) that in all", "how many {os} <does|did> {he} read in all",
     "how many {os} <has|had> {N} read (now|by then)", "how many {os} <does|did> {N} read altogether",
     "what (is|was) the total number of {os}", "how many {os} <has|had> {he} read so far"});
inline constexpr auto kBookOpenings = std::to_array<std::string_view>(
    {"a book (has|had) {n} {o}", "{N's} book (has|had) {n} {o}", "{N} <has|had> to read {n} {o}",
     "a story (is|was) {n} {o} long", "a notebook (has|had) {n} {o}", "{N} <reads|read> a book of {n} {o}"});
inline constexpr auto kBookLosses = std::to_array<std::string_view>(
    {"{N} <has|had> read {n} {o}", "{N} <has|had> read {n} of them", "{N} <reads|read> {n} {o}",
     "{N} <reads|read> {n} {o} on Monday", "{n} {o} ([are|is]|[were|was]) done",
     "{N} <finishes|finished> {n} {o}", "{N} already <knows|knew> {n} {o}"});
inline constexpr auto kBookQuestions = std::to_array<std::string_view>(
    {"how many {os} (are|were) left", "how many {os} (remain|remained)",
     "how many {os} <does|did> {he} still have to read", "how many more {os} (are|were) there to read",
     "how many {os} <has|had> {he} not read yet", "how many {os} (are|were) left to read"});
inline constexpr auto kScoreOpenings = std::to_array<std::string_view>(
    {"{N} <has|had> {n} {o} in a game", "{N} <scores|scored> {n} {o}",
     "{N} <gets|got> {n} {o} in the first round", "{N} <starts|started> with {n} {o}",
     "after the first half {N} <has|had> {n} {o}"});
inline constexpr auto kScoreGains = std::to_array<std::string_view>(
    {"{A} <scores|scored> {m}", "{A} <gets|got> {m}", "{A} <wins|won> {m}", "{A} <makes|made> {m}",
     "in the second round {A} <scores|scored> {m}", "{A} <earns|earned> {m}", "{A} <is|was> given {m}"});
inline constexpr auto kScoreLosses = std::to_array<std::string_view>(
    {"{A} <loses|lost> {m}", "{A} <gives|gave> up {m}", "for a mistake {A} <loses|lost> {m}",
     "{m} ([are|is]|[were|was]) taken away", "the judge (takes|took) {m} away", "{A} <drops|dropped> {m}"});
inline constexpr auto kScoreQuestions = std::to_array<std::string_view>(
    {"what (is|was) the score (now|then)", "how many {os} <does|did> {he} have (now|then)",
     "how many {os} (are|were) there in the end", "what (is|was) the final score",
     "how many {os} (is|was) that", "how many {os} <does|did> {he} have at the end"});
inline constexpr auto kFloorOpenings = std::to_array<std::string_view>(
    {"an elevator (is|was) on floor {n}", "a lift (starts|started) on floor {n}",
     "the lift (waits|waited) on floor {n}", "a goods lift (is|was) on floor {n}",
     "the lift (is|was) at floor {n}"});
inline constexpr auto kFloorGains = std::to_array<std::string_view>(
    {"it (goes|went) up {n} {o}", "it (moves|moved) {n} {o} up", "it (rises|rose) {n} {o}",
     "it (climbs|climbed) {n} {o}", "it (travels|traveled) up {n} {o}"});
inline constexpr auto kFloorLosses = std::to_array<std::string_view>(
    {"it (goes|went) down {n} {o}", "it (moves|moved) {n} {o} down", "it (sinks|sank) {n} {o}",
     "it (comes|came) down {n} {o}", "it (travels|traveled) down {n} {o}"});
inline constexpr auto kFloorQuestions = std::to_array<std::string_view>(
    {"on which floor (is|was) it (now|then)", "which floor (is|was) it on (now|then)",
     "at what floor (does|did) it stop", "what floor (is|was) it on (now|at the end)",
     "where (is|was) the lift (now|then)"});
inline constexpr auto kPowerOpenings = std::to_array<std::string_view>(
    {"a phone (has|had) {n} {o} of battery", "the battery (is|was) at {n} {o}",
     "my phone (is|was) at {n} {o}", "a tank (is|was) {n} {o} full", "the battery (shows|showed) {n} {o}"});
inline constexpr auto kPowerLosses = std::to_array<std::string_view>(
    {"a game (uses|used) {n} {o}", "it (loses|lost) {m}", "it (falls|fell) by {m}",
     "a call (takes|took) {n} {o}", "it (drops|dropped) by {m}", "{m} ([are|is]|[were|was]) used up"});
inline constexpr auto kPowerQuestions = std::to_array<std::string_view>(
    {"how many {os} (are|were) left", "how much (is|was) left", "what (does|did) it show (now|then)",
     "how full (is|was) it (now|then)", "at how many {os} (is|was) it (now|then)"});
inline constexpr auto kWeightOpenings = std::to_array<std::string_view>(
    {"a cat (weighs|weighed) {n} {o}", "a dog (weighs|weighed) {n} {o}", "a bag (weighs|weighed) {n} {o}",
     "{x} (buys|bought) {n} {o} of flour", "there ([are|is]|[were|was]) {n} {o} of rice",
     "a cart (carries|carried) {n} {o} of sand"});
inline constexpr auto kWeightGains = std::to_array<std::string_view>(
    {"{m} ([are|is]|[were|was]) added", "{m} ([come|comes]|came) on top", "{x} (adds|added) {m}",
     "the weight (grows|grew) by {m}", "it (becomes|became) {n} {o} more"});
inline constexpr auto kWeightLosses = std::to_array<std::string_view>(
    {"{m} ([are|is]|[were|was]) lost", "{m} ([are|is]|[were|was]) taken off", "{x} (takes|took) away {m}",
     "the weight (falls|fell) by {m}", "{m} ([are|is]|[were|was]) used"});
inline constexpr auto kWeightQuestions = std::to_array<std::string_view>(
    {"what (is|was) the weight (now|then)", "how many {os} (is|was) that (now|in the end)",
     "how many {os} (are|were) there (now|then)", "how heavy (is|was) that (now|then)",
     "what (does|did) it weigh (now|then)"});

// Questions about a part of a whole, a missing amount, or the amount at the start.
inline constexpr auto kClassOpenings = std::to_array<std::string_view>(
    {"there ([are|is]|[were|was]) {n} [children|child] in a class",
     "a class (has|had) {n} [students|student]", "{n} [children|child] ([play|plays]|played) in the yard",
     "a team (has|had) {n} [members|member]", "a choir (has|had) {n} [singers|singer]",
     "{n} [people|person] ([sit|sits]|sat) in a room", "{n} [kids|kid] ([come|comes]|came) to a party"});
inline constexpr auto kClassLosses = std::to_array<std::string_view>(
    {"{n} of them ([are|is]|[were|was]) [girls|a girl]", "{n} ([are|is]|[were|was]) [girls|a girl]",
     "{n} of these ([are|is]|[were|was]) [girls|a girl], the others (are|were) boys",
     "the girls (are|were) {n} of them", "among them ([are|is]|[were|was]) {n} [girls|girl]"});
inline constexpr auto kClassQuestions = std::to_array<std::string_view>(
    {"how many boys (are|were) there", "how many (are|were) boys", "how many of them (are|were) boys",
     "how many (are|were) not girls", "what (is|was) the number of boys", "how many boys (is|was) that"});
inline constexpr auto kSeatOpenings = std::to_array<std::string_view>(
    {"a bus (has|had) {n} [seats|seat]", "a hall (has|had) {n} [seats|seat]",
     "there ([are|is]|[were|was]) {n} [seats|seat] on a plane", "a cinema (has|had) {n} [seats|seat]",
     "a hotel (has|had) {n} [rooms|room]", "a car park (has|had) {n} [places|place]",
     "there ([are|is]|[were|was]) {n} [chairs|chair] in a room"});
inline constexpr auto kSeatLosses = std::to_array<std::string_view>(
    {"{n} of them ([are|is]|[were|was]) taken", "{n} ([are|is]|[were|was]) taken",
     "{n} ([are|is]|[were|was]) in use", "{n} of these ([are|is]|[were|was]) full",
     "{n} ([are|is]|[were|was]) not free", "people (use|used) {n} of them",
     "{n} of them ([are|is]|[were|was]) already sold"});
inline constexpr auto kSeatQuestions =
    std::to_array<std::string_view>({"how many (are|were) free", "how many (are|were) still free",
                                     "how many (are|were) empty", "how many free ones (are|were) there",
                                     "how many (are|were) left", "how many people (can|could) still come"});
inline constexpr auto kGoalOpenings =
    std::to_array<std::string_view>({"{N} <wants|wanted> to have {n} {o}", "{N} <needs|needed> {n} {o}",
                                     "{N} <wants|wanted> to collect {n} {o}", "{N's} goal (is|was) {n} {o}",
                                     "{N} <plans|planned> to make {n} {o}", "{N} <has|had> to bring {n} {o}",
                                     "for a game {N} <needs|needed> {n} {o}"});
inline constexpr auto kGoalLosses = std::to_array<std::string_view>(
    {"{A} already <has|had> {n}", "so far {A} <has|had> {n}", "{A} <has|had> {n} {o}",
     "{A} <has|had> only {n}", "{A} <has|had> found {n} of them", "until now {A} <has|had> {n} {o}",
     "at home {A} <has|had> {n}"});
inline constexpr auto kGoalQuestions = std::to_array<std::string_view>(
    {"how many more <does|did> {he} need", "how many {os} (are|were) missing",
     "how many more {os} <does|did> {N} need", "how many <does|did> {he} still need",
     "how many {os} <does|did> {he} still have to get", "how many {os} must {he} still find",
     "how many (are|were) still missing"});
inline constexpr auto kKindOpenings = std::to_array<std::string_view>(
    {"{N} <has|had> {n} {o}", "there ([are|is]|[were|was]) {n} {o} in a box", "{N} <buys|bought> {n} {o}",
     "{N} <collects|collected> {n} {o}", "there ([are|is]|[were|was]) {n} {o} on a table",
     "{N} <makes|made> {n} {o}"});
inline constexpr auto kKindLosses = std::to_array<std::string_view>(
    {"{n} of them ([are|is]|[were|was]) red and the rest (are|were) blue",
     "{n} ([are|is]|[were|was]) red, the others (are|were) blue",
     "{n} of the {os} ([are|is]|[were|was]) red, all others (are|were) blue",
     "{n} {o} ([are|is]|[were|was]) not blue", "all of them (are|were) blue, except {n}",
     "all but {n} (are|were) blue"});
inline constexpr auto kKindQuestions = std::to_array<std::string_view>(
    {"how many (are|were) blue", "how many {os} (are|were) blue", "how many of them (are|were) blue",
     "what (is|was) the number of blue {os}", "how many blue {os} (are|were) there",
     "how many blue ones (are|were) there"});
inline constexpr auto kGoneOpenings = std::to_array<std::string_view>(
    {"{N} had {n} {o}", "at first {N} had {n} {o}", "yesterday {N} had {n} {o}",
     "in the morning {N} had {n} {o}", "{N} started with {n} {o}", "{N} bought {n} {o}",
     "there were {n} {o} in {N's} bag"});
inline constexpr auto kGoneLosses = std::to_array<std::string_view>(
    {"now {A} <has|has> {n}", "now {A} <has|has> {n} left", "now only {n} [are|is] left",
     "in the evening {A} had {n} {o}", "after a while {A} had only {n}",
     "{A} gave some away and <has|has> {n} {o} left", "{A} lost some, and {n} [are|is] left",
     "today there [are|is] only {n}", "some were sold and {n} [are|is] left"});
inline constexpr auto kGoneQuestions = std::to_array<std::string_view>(
    {"how many {os} are gone", "how many {os} are missing", "how many did {he} lose", "how many are gone",
     "how many {os} <has|has> {N} no longer", "how many fewer are there now", "how many {os} went away"});
inline constexpr auto kBeforeOpenings = std::to_array<std::string_view>(
    {"{N} gave away {n} {o}", "{N} lost {n} {o}", "{N} sold {n} {o}", "{N} gave {n} {o} to {x}",
     "{N} used {n} {o}", "{x} took {n} {o} from {M}", "{N} dropped {n} {o}"});
inline constexpr auto kBeforeGains = std::to_array<std::string_view>(
    {"now {A} <has|has> {n} left", "{A} <has|has> {n} {o} left", "after that {A} had {n} left",
     "{n} [are|is] left", "then {A} had {n} {o}", "{A} still <has|has> {n}", "there [are|is] {n} left now"});
inline constexpr auto kBeforeQuestions = std::to_array<std::string_view>(
    {"how many {os} did {he} have at first", "how many {os} did {N} have before",
     "how many did {he} have at the start", "how many {os} were there at first",
     "how many {os} did {he} have in the beginning", "with how many {os} did {N} start",
     "how many had {he} before that"});
// Sums of two or more groups.
inline constexpr auto kGroupOpenings = std::to_array<std::string_view>(
    {"there ([are|is]|[were|was]) {n} {c} {o} {p}", "{x} (has|had) {n} {c} {o}",
     "{n} {c} {o} ([are|is]|[were|was]) {p}", "{x} (sees|saw) {n} {c} {o}", "a box (holds|held) {n} {c} {o}",
     "{x} (buys|bought) {n} {c} {o}", "we (count|counted) {n} {c} {o}"});
inline constexpr auto kGroupGains = std::to_array<std::string_view>(
    {"there ([are|is]|[were|was]) also {n} {c} [ones|one]", "there ([are|is]|[were|was]) {n} {c} {o}, too",
     "{n} {c} {o} ([lie|lies]|lay) next to them", "besides, there ([are|is]|[were|was]) {n} {c} {o}",
     "the {c} {os} (are|were) {n}", "in addition there ([are|is]|[were|was]) {n} {c} [ones|one]"});
inline constexpr auto kGroupQuestions = std::to_array<std::string_view>(
    {"how many {os} (are|were) there in all", "how many {os} (is|was) that altogether",
     "how many {os} (are|were) there in total", "what (is|was) the total number of {os}",
     "how many (are|were) there together", "how many {os} (is|was) that", "what (is|was) the sum"});
inline constexpr auto kDayOpenings = std::to_array<std::string_view>(
    {"on Monday {N} <finds|found> {n} {o}", "{N} <picks|picked> {n} {o} on Monday",
     "in the morning {N} <makes|made> {n} {o}", "on the first day {N} <sells|sold> {n} {o}",
     "{N} <collects|collected> {n} {o} in May", "last week {N} counted {n} {o}",
     "in the first hour {N} <catches|caught> {n} {o}", "{N} <sells|sold> {n} {o} before lunch"});
inline constexpr auto kDayGains = std::to_array<std::string_view>(
    {"on Tuesday {n} {o}", "on Tuesday it (is|was) {n}", "in the afternoon {n} more",
     "on the next day it (is|was) {n} {o}", "after lunch it (is|was) {n} more", "on Wednesday {n} more",
     "later there (are|were) {n} more", "the day after that {n} {o}", "on Thursday it (is|was) {n} {o}"});
inline constexpr auto kDayQuestions = std::to_array<std::string_view>(
    {"how many {os} (is|was) that in all", "how many (is|was) that altogether",
     "how many {os} (is|was) that in total", "what (is|was) the total", "how many {os} (is|was) it together",
     "how many {os} (is|was) that", "what (is|was) the sum of all days"});

inline constexpr auto kThemes = std::to_array<Theme>({
    {"things", ActorKind::kPerson, AmountKind::kCounted, kGoods, kNone, kThingOpenings, kThingGains,
     kThingLosses, kThingQuestions, 36},
    {"food", ActorKind::kPerson, AmountKind::kCounted, kFoods, kNone, kThingOpenings, kFoodGains, kFoodLosses,
     kThingQuestions, 14},
    {"stock", ActorKind::kOwner, AmountKind::kCounted, kGoods, kNone, kStockOpenings, kStockGains,
     kStockLosses, kStockQuestions, 6},
    {"box", ActorKind::kNobody, AmountKind::kCounted, kGoods, kBoxes, kBoxOpenings, kBoxGains, kBoxLosses,
     kPlaceQuestions, 8},
    {"bowl", ActorKind::kNobody, AmountKind::kCounted, kFoods, kBoxes, kBoxOpenings, kBoxGains,
     kFoodBoxLosses, kPlaceQuestions, 4},
    {"crowd", ActorKind::kNobody, AmountKind::kCounted, kPeopleKinds, kRooms, kCrowdOpenings, kCrowdGains,
     kCrowdLosses, kPlaceQuestions, 9},
    {"birds", ActorKind::kNobody, AmountKind::kCounted, kBirds, kPerches, kBirdOpenings, kBirdGains,
     kBirdLosses, kPlaceQuestions, 4},
    {"animals", ActorKind::kNobody, AmountKind::kCounted, kAnimalKinds, kFields, kAnimalOpenings,
     kAnimalGains, kAnimalLosses, kPlaceQuestions, 5},
    {"fish", ActorKind::kNobody, AmountKind::kCounted, kFishKinds, kWaters, kFishOpenings, kFishGains,
     kFishLosses, kPlaceQuestions, 2},
    {"ride", ActorKind::kNobody, AmountKind::kCounted, kRiders, kRides, kRideOpenings, kRideGains,
     kRideLosses, kPlaceQuestions, 6},
    {"plants", ActorKind::kNobody, AmountKind::kCounted, kPlants, kGardens, kPlantOpenings, kPlantGains,
     kPlantLosses, kPlaceQuestions, 3},
    {"vehicles", ActorKind::kNobody, AmountKind::kCounted, kVehicles, kLots, kLotOpenings, kLotGains,
     kLotLosses, kPlaceQuestions, 4},
    {"money", ActorKind::kPerson, AmountKind::kUnit, kMoneyUnits, kNone, kMoneyOpenings, kMoneyGains,
     kMoneyLosses, kMoneyQuestions, 9},
    {"water", ActorKind::kNobody, AmountKind::kUnit, kLiquidUnits, kNone, kLiquidOpenings, kLiquidGains,
     kLiquidLosses, kLiquidQuestions, 4},
    {"heat", ActorKind::kNobody, AmountKind::kUnit, kDegrees, kNone, kHeatOpenings, kHeatGains, kHeatLosses,
     kHeatQuestions, 4},
    {"road", ActorKind::kPerson, AmountKind::kUnit, kLengthUnits, kNone, kRoadOpenings, kRoadGains, kNone,
     kRoadQuestions, 2, 2},
    {"trip", ActorKind::kPerson, AmountKind::kUnit, kLengthUnits, kNone, kTripOpenings, kNone, kTripLosses,
     kTripQuestions, 2, 1},
    {"size", ActorKind::kNobody, AmountKind::kUnit, kSizeUnits, kNone, kSizeOpenings, kSizeGains, kSizeLosses,
     kSizeQuestions, 3},
    {"time", ActorKind::kPerson, AmountKind::kUnit, kTimeUnits, kNone, kTimeOpenings, kTimeGains, kNone,
     kTimeQuestions, 2, 2},
    {"clock", ActorKind::kPerson, AmountKind::kUnit, kTimeUnits, kNone, kClockOpenings, kNone, kClockLosses,
     kClockQuestions, 2, 1},
    {"age", ActorKind::kPerson, AmountKind::kUnit, kYears, kNone, kAgeOpenings, kAgeGains, kAgeLosses, kNone,
     5, 1},
    {"reading", ActorKind::kPerson, AmountKind::kUnit, kPages, kNone, kReadOpenings, kReadGains, kNone,
     kReadQuestions, 2, 2},
    {"book", ActorKind::kPerson, AmountKind::kUnit, kPages, kNone, kBookOpenings, kNone, kBookLosses,
     kBookQuestions, 3, 1},
    {"score", ActorKind::kPerson, AmountKind::kUnit, kPoints, kNone, kScoreOpenings, kScoreGains,
     kScoreLosses, kScoreQuestions, 4},
    {"floor", ActorKind::kNobody, AmountKind::kUnit, kFloors, kNone, kFloorOpenings, kFloorGains,
     kFloorLosses, kFloorQuestions, 1},
    {"power", ActorKind::kNobody, AmountKind::kUnit, kPercents, kNone, kPowerOpenings, kNone, kPowerLosses,
     kPowerQuestions, 1, 2},
    {"weight", ActorKind::kNobody, AmountKind::kUnit, kWeightUnits, kNone, kWeightOpenings, kWeightGains,
     kWeightLosses, kWeightQuestions, 2},
    {"class", ActorKind::kNobody, AmountKind::kCounted, kPeopleKinds, kNone, kClassOpenings, kNone,
     kClassLosses, kClassQuestions, 4, 1},
    {"seats", ActorKind::kNobody, AmountKind::kCounted, kGoods, kNone, kSeatOpenings, kNone, kSeatLosses,
     kSeatQuestions, 3, 1},
    {"goal", ActorKind::kPerson, AmountKind::kCounted, kGoods, kNone, kGoalOpenings, kNone, kGoalLosses,
     kGoalQuestions, 5, 1},
    {"colors", ActorKind::kPerson, AmountKind::kCounted, kGoods, kNone, kKindOpenings, kNone, kKindLosses,
     kKindQuestions, 4, 1},
    {"gone", ActorKind::kPerson, AmountKind::kCounted, kGoods, kNone, kGoneOpenings, kNone, kGoneLosses,
     kGoneQuestions, 6, 1},
    {"before", ActorKind::kPerson, AmountKind::kCounted, kGoods, kNone, kBeforeOpenings, kBeforeGains, kNone,
     kBeforeQuestions, 5, 1},
    {"groups", ActorKind::kNobody, AmountKind::kCounted, kGoods, kBoxes, kGroupOpenings, kGroupGains, kNone,
     kGroupQuestions, 5, 2},
    {"days", ActorKind::kPerson, AmountKind::kCounted, kGoods, kNone, kDayOpenings, kDayGains, kNone,
     kDayQuestions, 5, 2},
});

}  // namespace lacuna
