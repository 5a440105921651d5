// Short stories in the words of many different people: crowds, shops, mail, money, measures.
#pragma once

#include <array>

#include "tasks/question_shapes.h"
#include "tasks/question_themes.h"

namespace lacuna {

inline constexpr auto kBookNouns =
    std::to_array<std::string_view>({"book", "comic", "magazine", "novel", "cookbook", "atlas|atlases",
                                     "storybook", "dictionary|dictionaries"});
inline constexpr auto kMailNouns =
    std::to_array<std::string_view>({"letter", "postcard", "card", "greeting card", "invitation", "note"});
inline constexpr auto kFileNouns = std::to_array<std::string_view>(
    {"photo", "video", "song", "message", "file", "game", "recording", "drawing"});
inline constexpr auto kToyNouns = std::to_array<std::string_view>(
    {"toy car", "doll", "ball", "building block", "teddy bear", "marble", "robot", "puppet", "toy soldier",
     "toy train", "dinosaur", "spinning top"});
inline constexpr auto kCurrencyNouns =
    std::to_array<std::string_view>({"dollar", "euro", "pound", "cent", "dollar"});
inline constexpr auto kVolumeNouns =
    std::to_array<std::string_view>({"liter", "gallon", "cup", "bucket", "pint", "glass|glasses"});
inline constexpr auto kLengthNouns =
    std::to_array<std::string_view>({"centimeter", "meter", "inch|inches", "cm|cm"});
inline constexpr auto kWayNouns = std::to_array<std::string_view>({"kilometer", "mile", "meter", "km|km"});
inline constexpr auto kSpanNouns = std::to_array<std::string_view>({"minute", "hour", "second", "minute"});
inline constexpr auto kPointNouns = std::to_array<std::string_view>({"point"});

inline constexpr auto kPeopleRows = std::to_array<QuestionShape>({
    {"{ao} gathered {p}. A phone rang and {b} had to ~rush off/hurry away/leave~; a little later {c} "
     "~strolled in/walked in/arrived~. How many {os} were together then?",
     "a-b+c*"},
    {"of the {ao} who signed up, {b} ~canceled/changed their minds/fell ill~ and {c} ~overslept/missed "
     "the bus/got lost~. How many actually turned up?",
     "a-b-c*"},
    {"on the dance floor there were {ao}. {b} sat down to rest, and {c} jumped up to dance. How many "
     "{os} were on the dance floor then?",
     "a-b+c*"},
    {"today there were {ao} {p}, {b} ~+fewer-more~ than yesterday. How many were there "
     "yesterday?",
     "a?b*!"},
    {"how many {os} were {p} without a ticket, if there were {a} and {b} had one?", "a-b*!"},
    {"during the last hour {b} of the {ao} {p} ~slipped away/headed home/grew tired and left~. How many "
     "stayed to the end?",
     "a-b*"},
    {"the guard let in {ao} at ten, {b} at eleven and sent {c} back out for being ~loud/rude/late~. How "
     "many {os} were inside?",
     "a+b-c"},
    {"we expected {ao} {p}; {b} sent word that they were ill, and {c} came without being asked. How many "
     "{os} were with us?",
     "a-b+c*"},
    {"{b} of the {ao} {p} raised their hands. How many kept them down?", "a-b*"},
    {"when the music stopped, {ao} were still {p}; {b} had ~crept out/slipped away/left~ during the last "
     "song. How many had been there before it?",
     "a+b*"},
    {"two groups met ~at the lake/in the park/at the camp~, one of {ao} and one of {b}. {c} from the "
     "second group could not stay. How many {os} spent the day there?",
     "a+b-c;&b-c*"},
    {"{N} invited {ao}. So far {b} have accepted and {c} have declined. How many have not answered yet?",
     "a-b-c*"},
    {"as the lights went out, {b} {os} ~screamed/shouted/cried~ and {a} stayed calm. How many {os} were "
     "{p}?",
     "a+b*"},
    {"the first {b} of {ao} {p} were ~served/let in/helped~ at once; the others had to be patient. How "
     "many had to be patient?",
     "a-b*!"},
    {"with {b} more {os}, there would be {a} {p}. How many are there?", "a-b*!"},
    {"{a} {os} were {p}. Nobody left, but after {b} and then {c} others had ~squeezed in/crowded "
     "in/joined~, it was crowded. How many {os} was that?",
     "a+b+c*"},
    {"in the quiz, {ao} ~played/started/took part~. {b} were knocked out in round one, {c} in round two. "
     "How many made it to round three?",
     "a-b-c*"},
    {"{b} of the {ao} {p} wore a ~hat/mask/red coat~. Then {c} of those took it off. How many wore one "
     "after that?",
     "b-c;&a-b*"},
    {"~in the hall/in the tent/at the fair~ the heat was unbearable: {b} of {ao} went out for fresh air, "
     "and {c} of those came back. How many were there then?",
     "a-b+c;&b-c*"},
    {"a photo shows {ao} {p}. {b} look at the camera, {c} look away and the rest have their eyes shut. "
     "How many have their eyes shut?",
     "a-b-c*!"},
});

inline constexpr auto kTeamRows = std::to_array<QuestionShape>({
    {"in our class there are {a} pupils. {b} take the bus, {c} cycle, and everybody else walks. How many "
     "walk to school?",
     "a-b-c*!"},
    {"our choir had {a} singers. {b} ~quit/left/stopped~ after the summer, but {c} joined in September. "
     "How many of us sing now?",
     "a-b+c*"},
    {"at camp {a} children slept in tents and {b} in huts. {c} ~got homesick/fell ill/hurt themselves~ "
     "and were picked up. How many slept there the last night?",
     "a+b-c*"},
    {"the village lost {b} inhabitants when the mill closed, and {a} remained. How many had lived there?",
     "a+b*"},
    {"a summer course began with {a} learners; {b} ~dropped out/gave up/quit~. How many took the final "
     "test, if everyone else did?",
     "a-b*"},
    {"{a} knights rode out. {b} ~fell off their horses/turned back/fell asleep~, {c} got lost. How many "
     "reached the castle?",
     "a-b-c*"},
    {"we were {a} on the hike. At the hut {b} ~turned back/stayed behind/gave up~, at the lake {c} "
     "others caught up with us. How many were we on the summit?",
     "a-b+c*"},
    {"the hotel had {a} guests. In the morning {b} checked out, in the afternoon {c} checked in. How "
     "many guests stayed overnight?",
     "a-b+c*"},
    {"{b} patients were sent home today, {c} were admitted. Yesterday the ward had {a}. How many does it "
     "have tonight?",
     "a-b+c*"},
    {"a firm with {a} ~workers/employees~ hired {b} and fired nobody, but {c} retired. How many are on "
     "the payroll?",
     "a+b-c*"},
    {"{a} kids lined up for the slide. {b} have gone down it, and {c} lost courage and left. How many "
     "are still lined up?",
     "a-b-c*"},
    {"how many chess players were knocked out, if {a} entered the contest and {b} are still in?", "a-b*!"},
    {"at the crossing {a} pedestrians were waiting; {b} hurried across on red. How many waited for green?",
     "a-b*"},
    {"{a} elves and {b} dwarfs guard the gold. {c} of them ~fall asleep/doze off/nod off~. How many stay "
     "awake?",
     "a+b-c*"},
    {"a new flat block has {a} flats. {b} families moved in this month, one to a flat. How many flats "
     "are still empty?",
     "a-b*"},
    {"the escape room takes {a} people. {b} have booked and {c} want to come along. How many places will "
     "be free?",
     "a-b-c*"},
});

inline constexpr auto kRideRows = std::to_array<QuestionShape>({
    {"{ao} boarded at the ~harbor/terminal/first stop~, {b} at the next, and {c} ~got out/got off/left~ "
     "there. How many {os} rode on?",
     "a+b-c;&a-c*"},
    {"{p} the driver counts {ao}; at the school {b} ~hop/get/climb~ off, at the zoo {c} ~hop/get/climb~ "
     "on. What does he count after that?",
     "a-b+c*"},
    {"when the doors closed, there were {ao} {p}. {b} of those had just squeezed in. How many were there "
     "before?",
     "a-b*"},
    {"{b} of the {ao} {p} had no seat. How many had one?", "a-b*"},
    {"the conductor checked the tickets of {b} of the {ao} {p}. How many {os} must he still "
     "check?",
     "a-b*!"},
    {"at the terminus the last {a} {os} got off. On the way {b} had left and nobody had "
     "~joined/boarded/got on~. How many {os} were there at the start?",
     "a+b*"},
    {"it was a quiet ride: {ao} {p}. Then a school class of {b} ~burst/rushed/crowded~ in, and {c} of "
     "the first {os} fled. How many were riding along then?",
     "a+b-c;&a-c*"},
    {"how many {os} can still get in, if there is room for {a} {p} and {b} are seated?", "a-b*"},
    {"next stop: {b} out, {c} in. {ao} were {p} until now. How many will be there?", "a-b+c*"},
    {"{p} {b} {os} were asleep and {a} awake. At the border {c} got off. How many {os} "
     "traveled on?",
     "b+a-c*"},
});

inline constexpr auto kStockRows = std::to_array<QuestionShape>({
    {"the shop window displayed {ao}. Customers ~bought/took home/carried off~ {b}, and the owner put "
     "{c} from the storeroom in their place. How many {os} are in the window?",
     "a-b+c*"},
    {"stock list. Monday: {ao}. Shipped: {b}. Received: {c}. How many {os} ~in stock/on the "
     "list/available~?",
     "a-b+c"},
    {"the factory turned out {ao} before the machine jammed. Repaired, it turned out {b} more. {c} "
     "~failed the inspection and [c:were|was] scrapped/had a fault/came out wrong~. How many were fine?",
     "a+b-c"},
    {"a customer ordered {ao}. We have ~mailed/shipped/sent off~ {b}, and {c} [c:are|is] packed for "
     "tomorrow. How many remain to be packed?",
     "a-b-c"},
    {"the clerk scanned {ao}, then noticed that {b} had been scanned by mistake and removed those. How "
     "many {os} are on the bill?",
     "a-b*"},
    {"a theft was reported: of {ao}, the shop is missing {b}. How many did the thieves overlook?", "a-b*"},
    {"the museum lends out {b} of its {ao} and borrows {c} from Paris. How many {os} are on "
     "show?",
     "a-b+c*"},
    {"to empty the storeroom, the shop gave away {b} of its {os}, and {a} were put up for sale. How many "
     "had been in the storeroom?",
     "a+b*"},
    {"the truck set off with {ao}; {b} went to the school, {c} to the hospital, and what remained to the "
     "town hall. How many did the town hall get?",
     "a-b-c!"},
    {"the vending machine was filled with {ao}. {b} got sold, {c} got ~stuck/jammed/caught in the slot~. "
     "How many will it still give out, if those never come out?",
     "a-b-c"},
    {"due to a flood, {b} of the {ao} in the cellar of the shop were ~ruined/soaked through/swept away~; "
     "{c} more were only wet. How many stayed dry?",
     "a-b-c*"},
    {"the shop ~guessed/expected/hoped~ it would sell {ao} a week. It sold {b} ~+more-fewer~. How many "
     "did it sell?",
     "a?b!"},
});

inline constexpr auto kSchoolBookRows = std::to_array<QuestionShape>({
    {"{N} checked out {ao} from the library, brought back {b} ~the next week/in May/early~ and checked "
     "out {c} [c:others|other]. How many must {he} return one day?",
     "a-b+c"},
    {"the shelf sagged under {ao}, so {N} moved {b} to the ~attic/hallway/next room~. How many {os} does "
     "it bear now?",
     "a-b"},
    {"{N} got {ao} for {his} birthday, of which {b} were already on {his} shelf, so {he} exchanged those "
     "for {c} others. How many new {os} did {he} have?",
     "a-b+c*"},
    {"of the {ao} on the list, {N} finished {b} in June and {c} in July. How many did {he} not finish by "
     "August?",
     "a-b-c"},
    {"the school library received {ao} from parents and {b} from a shop, and sorted out {c} that "
     "[c:were|was] torn. How many {os} were put on the shelves?",
     "a+b-c"},
    {"an author wrote {ao} under her own name and {b} under another. {c} are out of print. How many can "
     "you still buy?",
     "a+b-c*"},
});

inline constexpr auto kMailRows = std::to_array<QuestionShape>({
    {"{N} ~mailed/posted/sent off~ {b} of the {ao} that {he} had written. How many were still on {his} "
     "desk?",
     "a-b*"},
    {"the mail carrier delivered {b} of {ao} before ~the dog chased him away/his bike broke down/it grew "
     "dark~. How many {os} were still in his bag?",
     "a-b*"},
    {"in the mailbox {N} found {ao} on Monday, {b} on Tuesday and {c} on Thursday. How many {os} did "
     "{he} find there in that week, if there were no more?",
     "a+b+c"},
    {"{N} wrote {ao}, ~tore up/burned/threw away~ {b} and sent off the remaining ones. How many {os} "
     "were sent?",
     "a-b*!"},
    {"at the post office {ao} came in, {b} went out, and it had {c} before. How many {os} does it have?",
     "c+a-b"},
    {"{N} had {ao} to answer. {he} answered {b}, and then {c} more came. How many had {he} still to "
     "answer?",
     "a-b+c"},
});

inline constexpr auto kScreenRows = std::to_array<QuestionShape>({
    {"{N} ~deleted/erased/removed~ {b} of the {ao} on {his} phone and then ~downloaded/saved/received~ "
     "{c} new [c:ones|one]. How many are on the phone?",
     "a-b+c*"},
    {"the tablet is full! It holds {ao}. I ~erased/deleted/wiped~ {b}, my sister ~erased/deleted/wiped~ "
     "{c}. How many {os} survived?",
     "a-b-c*"},
    {"{N} posted {ao} this week and took {b} down again. How many can be seen online?", "a-b"},
    {"my folder had {bo} yesterday and has {a} today. Nothing was deleted. How many {os} did "
     "I add?",
     "a-b*!"},
    {"{N} uploaded {ao} in the morning. {b} failed and were lost, {c} more were uploaded at night. How "
     "many {os} are stored?",
     "a-b+c*"},
    {"by accident {N} wiped {b} {ob}; a backup brought back {c} of them. There had been {a}. How many "
     "<does|does> {he} have now?",
     "a-b+c;&b-c*"},
});

inline constexpr auto kToyRows = std::to_array<QuestionShape>({
    {"the twins own {ao} together. One has {b}. How many has the other?", "a-b*!"},
    {"the toddler ~flung/threw/hurled~ {b} of the {ao} out of the ~crib/playpen/window~. How many did "
     "she keep?",
     "a-b*"},
    {"I started with nothing, won {ao} on day one, lost {b} on day two and found {c} on day three. How "
     "many {os} am I holding?",
     "a-b+c"},
    {"{N} hid {ao} around the house for a game. The kids found {b} upstairs and {c} downstairs. How many "
     "are still hidden?",
     "a-b-c"},
    {"at kindergarten there were {ao}. {b} broke, and a kind father repaired {c} of those. How many {os} "
     "were fit for playing?",
     "a-b+c;&b-c*"},
    {"{N} arranged {ao} on the rug, {B} ~knocked over/pushed over/bumped into and upset~ {b}, and {N} "
     "stood {c} of those up again. How many were standing?",
     "a-b+c;&b-c*"},
    {"how many {os} does the ~baby/puppy/kitten~ still have, after {b} of {ao} rolled under the "
     "couch?",
     "a-b*"},
    {"{N} ~crammed/squeezed/packed~ {ao} into {his} backpack and {b} into a bag, while {c} would not fit "
     "anywhere. How many {os} <has|has> {he} got?",
     "a+b+c"},
    {"{N} bought {B} {bo}, as {B} had so few. Now {B} has {a}. How few had they been?", "a-b!"},
});

inline constexpr auto kMoneyRows = std::to_array<QuestionShape>({
    {"{N} broke open the piggy bank and found {ao}. A ~comic/movie ticket/kite~ cost {him} {b}, an ice "
     "cream {c}. How much can {he} put back?",
     "a-b-c"},
    {"please help me with my pocket money: I had {ao}, mowed the lawn for {b} and bought a cap for {c}. "
     "What have I got now?",
     "a+b-c"},
    {"{N} ~withdrew/took out/spent~ {bo}, so the account went down to {a}. How much was in it "
     "before?",
     "a+b"},
    {"the bill came to {ao}. {N} paid {b} of it, and {B} paid the rest. How much did {B} pay?", "a-b*!"},
    {"a ~jacket/tent/lamp/bike~ is ~reduced/marked down~ from {ao} to {b}. How much does one "
     "save?",
     "a-b!"},
    {"{N} tipped the waiter {bo} after a meal for {a}. How much did {he} spend altogether?", "a+b*"},
    {"bus {b}, lunch {c}: that is what {N} spent of {his} {ao}. What was ~left/left over/not "
     "spent~?",
     "a-b-c"},
    {"{N} collected {ao} for the ~shelter/school trip/poor~, {B} {b}, and {C} {c}. How much did the "
     "three hand in?",
     "a+b+c"},
    {"after paying a fine of {bo}, {N} still had {a}. What did {he} have before the fine?", "a+b"},
    {"{N} is saving for a ~drone/guitar/skateboard~ that costs {ao}. {he} has saved {b}, and grandma "
     "chips in {c}. How much must {N} still save?",
     "a-b-c!^"},
    {"ticket {a}, discount {b}, booking fee {c}. How many {os} must {N} pay for the ticket?", "a-b+c*"},
    {"{N} lost a bet and paid {B} {bo}; then {he} won {c} back. {he} had started with {a}. How many {os} "
     "did {N} have in the end?",
     "a-b+c;&b-c"},
    {"{N} sold lemonade and took in {ao}. Lemons and sugar had cost {b}. What was the profit?", "a-b!"},
    {"the ~fare/rent/ticket price~ ~rose/went up~ by {bo} and is {a} now. What was it ~before/last "
     "year/in the past~?",
     "a-b!"},
    {"the ~fare/rent/ticket price~ was ~cut/lowered/reduced~ by {bo} and is {a} now. What was it "
     "~before/last year/in the past~?",
     "a+b"},
    {"a wallet with {ao} was found. The owner took {b} out of it as a reward for the finder. How many "
     "{os} were in the wallet after that?",
     "a-b"},
    {"mom gave me {ao} for the shopping: milk and bread came to {b}. Then I had to buy stamps for {c}. "
     "How much change does mom get?",
     "a-b-c"},
    {"{N} ~repaid/paid back/returned~ {b} of the {ao} that {he} had borrowed. How many {os} of debt "
     "remained?",
     "a-b*"},
    {"the fund for the class trip stands at {ao}. Today {b} came in and {c} went out for the bus. At "
     "what amount does it stand now?",
     "a+b-c"},
    {"if {N} buys the ~globe/tent/drum~ for {bo}, {he} will be left with {a}. How much money does {he} "
     "have?",
     "a+b^"},
    {"{N} wants a ~ring/vase/clock~ for {ao}. The seller comes down by {b}, then by another {c}. For how "
     "much can {N} have it?",
     "a-b-c!^*"},
    {"who paid more? {N} paid {ao}, {B} paid {b} ~+more-less~. How much did {B} pay?", "a?b!"},
    {"the till held {ao} in the morning; sales brought {b}, and {c} [c:were|was] paid to the milkman. "
     "How much was in the till at night?",
     "a+b-c"},
});

inline constexpr auto kLiquidRows = std::to_array<QuestionShape>({
    {"of the {ao} of ~lemonade/soup/punch~ that {N} made, {b} got spilled and {c} got drunk. How many "
     "{os} were left over?",
     "a-b-c*"},
    {"the cistern held {ao}. A ~storm/shower/thunderstorm~ ~filled in/added/brought~ {b}, and the "
     "gardener drew {c}. How many {os} are in it?",
     "a+b-c"},
    {"the ~camel/elephant/horse~ slurped up {b} of the {ao} in the trough. How many {os} can the others "
     "drink?",
     "a-b*!"},
    {"{N} milked {ao} and sold {b}; the ~cat/calf/cook~ got {c}, and the rest was turned into cheese. "
     "How much was turned into cheese?",
     "a-b-c!"},
    {"how much must {N} pour into the tub to reach {ao}, if {b} [b:have|has] flowed in?", "a-b!"},
    {"some water stood in the boat. {N} ~bailed/scooped/pumped~ out {bo}, and {a} remained. How many "
     "{os} had it been?",
     "a+b"},
    {"ice melted in the bowl and raised the water from {b} to {ao}. How many {os} did the "
     "ice add?",
     "a-b!"},
    {"in the sun {b} of {ao} of water evaporated by noon and {c} more by evening. How many {os} stayed "
     "in the basin?",
     "a-b-c*"},
    {"a leaky bucket: {ao} at the well, {b} at home. How many {os} dripped out?", "a-b!"},
});

inline constexpr auto kLengthRows = std::to_array<QuestionShape>({
    {"{N} ~snipped/cut/trimmed~ {bo} off a ribbon of {a} and later another {c}. How long was what "
     "remained?",
     "a-b-c!*"},
    {"the vine measured {ao}. It shot up {b} in spring and was ~pruned/cut back/shortened~ by {c} in "
     "autumn. What did it measure after that?",
     "a+b-c!"},
    {"a scarf is {ao} long. {N} knits {b} more, then unravels {c} because of a mistake. How long is it "
     "then?",
     "a+b-c!^"},
    {"the hole was {ao} deep. The dog dug {b} {ob} further; the rain washed {c} back in. How deep is the "
     "hole?",
     "a+b-c!"},
    {"to hang up the clock, {N} needs {ao} of string. One piece has {b}, another has {c}. Tied end to "
     "end, how much are they too short, not counting the knots?",
     "a-b-c!^"},
    {"{N's} hair grew by {bo} and is {a} long now. How long was it before?", "a-b!"},
    {"a frog leaps {ao}, then {b}, then {c}. How far has it come, if all leaps go straight "
     "ahead?",
     "a+b+c"},
    {"{N} threw the ball {ao}, {B} threw it {b} ~+farther-less far~ than that. How far did {B} throw it?",
     "a?b!"},
    {"the icicle was {ao} long and lost {b} in the sun. At night it gained {c}. How long was it in the "
     "morning?",
     "a-b+c!"},
    {"the shelf is {ao} wide. {N} put a radio of {b} and a row of books of {c} on it. How much width is "
     "free?",
     "a-b-c"},
});

inline constexpr auto kWayRows = std::to_array<QuestionShape>({
    {"it is {ao} to ~grandma/the sea/the airport~. We drove {b}, had ice cream, and drove {c} more. How "
     "far is it still?",
     "a-b-c!"},
    {"{N} ~jogged {ao} north/ran {ao} north/rode {ao} north~, turned around and went {b} back south. How "
     "far away <was|was> {he} from the start?",
     "a-b"},
    {"the ship sailed {ao} toward the island but was blown back {b}. Then it made {c} again. How much "
     "nearer to the island was it than at the start?",
     "a-b+c!"},
    {"by bike {N} covered {ao}, on foot {b} and by boat {c}. How long was the tour?", "a+b+c"},
    {"{N} <has|has> {bo} behind {him} and {a} still ahead. How long is the whole hike?", "b+a"},
    {"a detour made the trip {bo} longer, so that it came to {a}. How long is the trip "
     "without it?",
     "a-b!"},
});

inline constexpr auto kTimeRows = std::to_array<QuestionShape>({
    {"{N} promised to practice for {ao}. {he} ~managed/did/finished~ {b} before supper and {c} after it. "
     "How much was still missing?",
     "a-b-c!"},
    {"the match was to last {ao} but was stopped after {b} because of rain. How much was not "
     "played?",
     "a-b!"},
    {"the delay was {ao} at first. The ~pilot made up/crew made up/tailwind saved~ {b} of it. How late "
     "did the plane land?",
     "a-b!"},
    {"{N} shaved {bo} off {his} old time and now <needs|needs> {a}. What was {his} old time?", "a+b"},
    {"add it up: getting dressed {ao}, breakfast {b}, walking to school {c}. How much time is that for "
     "{M}?",
     "a+b+c"},
    {"the bread has to rise for {ao} and bake for {b}. {c} {oc} of all that [c:have|has] passed. How "
     "long until it is done?",
     "a+b-c!"},
    {"the timer was set to {ao}. {b} [b:have|has] ticked away, then {N} added {c}. What does the timer "
     "show?",
     "a-b+c"},
    {"the parking meter allows {ao}. {N} shops for {b} and drinks tea for {c}. How much time is unused?",
     "a-b-c^"},
});

inline constexpr auto kPageRows = std::to_array<QuestionShape>({
    {"{N} skipped {b} of the {ao} of a dull ~novel/report/chapter~ and read the rest. How many {os} did "
     "{he} read?",
     "a-b*!"},
    {"after the {bo} that {N} read on the train, {a} [a:were|was] left. How many {os} does the book "
     "have, if {he} had not read any before?",
     "a+b*"},
    {"{N} ~typed/wrote~ {ao}, ~threw out/deleted/tore up~ {b} and ~typed/wrote/added~ {c} more. How many "
     "{os} is the essay long now?",
     "a-b+c"},
    {"chapter one has {ao}, chapter two {b}. {N} <has|has> read {c} {oc} of these. How many {os} are "
     "unread?",
     "a+b-c"},
    {"the printer was to print {ao}. {b} came out clean, {c} ~got smudged/got crumpled/came out blank~, "
     "and then the paper ran out. How many {os} are missing altogether?",
     "a-b-c"},
});

inline constexpr auto kPointRows = std::to_array<QuestionShape>({
    {"{N} scored {ao} in the first half and {b} in the second, but the ~judges/referees~ took {c} off. "
     "What was {his} final score?",
     "a+b-c"},
    {"two rounds ago {N} <was|was> at {a}. {he} picked up {b}, then forfeited {c}. Where <does|does> "
     "{he} stand?",
     "a+b-c"},
    {"our team trails {b} to {a}. How many {os} do we need to draw level?", "a-b!"},
    {"how many {os} did {N} drop in the second game, if the first brought {him} {a} and {he} ended with "
     "{b}?",
     "a-b!"},
    {"{N} led with {ao}. A penalty cost {him} {b}, a bonus brought {c}. How many {os} are on {his} board?",
     "a-b+c"},
    {"{N} and {B} scored {ao} as a pair, and {B} alone made {b}. How many did {N} make?", "a-b!*"},
});

inline constexpr auto kFixedRows = std::to_array<QuestionShape>({
    {"it was warm, and {b} of our {a} snowmen ~melted/fell over/were knocked down~. How many are "
     "standing?",
     "a-b*"},
    {"a duck sat on {a} eggs. {b} hatched on Sunday and {c} on Monday. How many eggs have not hatched?",
     "a-b-c*"},
    {"of {a} candles lit at dinner, the draft blew out {b}; {N} lit {c} of those again. How many were "
     "burning?",
     "a-b+c;&b-c*"},
    {"I blew up {a} balloons. {b} ~popped/burst/were pricked~, {c} ~floated away/flew off/got lost~. How "
     "many are left for the party?",
     "a-b-c*"},
    {"the dragon had {a} heads. The knight ~chopped/cut/hacked~ off {b}, and {c} grew back. How many "
     "heads has it now?",
     "a-b+c*"},
    {"in the night sky I counted {a} stars, then a cloud covered {b}. How many could I see after "
     "that?",
     "a-b*"},
    {"{N's} to do list had {a} tasks. {he} ~ticked off/finished/crossed out~ {b} and thought of {c} "
     "more. How many tasks are open?",
     "a-b+c*"},
    {"a comb had {a} teeth before {b} ~snapped/broke~ off. How many teeth are left?", "a-b*"},
    {"{a} dominoes stood in a row until {b} ~toppled/fell/tipped over~. How many were still "
     "standing?",
     "a-b*"},
    {"the necklace needs {a} beads. {N} threaded {b}; then {c} slid off again. How many beads are on it?",
     "b-c;&a-b*"},
    {"a street has {a} lamps. At midnight {b} ~are switched off/go out/fail~, and at one o'clock {c} "
     "more. How many still shine?",
     "a-b-c*"},
    {"a spider spun {a} webs in the ~barn/shed/attic~. The ~broom/wind/cat~ ~destroyed/tore/ruined~ {b}, "
     "so it spun {c} new ones. How many webs hang there?",
     "a-b+c*"},
    {"the deck has {a} cards. {N} deals {b} to {B} and {c} to {C}. How many cards remain in the deck?",
     "a-b-c*"},
    {"the bakery's oven broke down with {a} loaves inside: {b} were done, the rest raw. How many were "
     "raw?",
     "a-b*!"},
    {"{b} tickets have been sold and {a} are still to be had. How many tickets were printed?", "a+b*"},
    {"from the roof {b} tiles ~came down/blew off/fell~ in the storm; it had {a}. Workers laid {c} new "
     "ones. How many tiles does it have?",
     "a-b+c*"},
    {"{N} had {a} seeds. {he} ~sowed/planted/put~ {b} in the garden and {c} in pots, then saved the "
     "others for next year. How many did {he} save?",
     "a-b-c*!"},
    {"a zoo needs {a} bales of hay for the winter. {b} lie in the barn, {c} are on the way. How many "
     "must be ordered?",
     "a-b-c*!"},
    {"a shark has {a} teeth, loses {b} and grows {c} new ones. How many teeth does it have after that?",
     "a-b+c*"},
    {"the guitar shop restrung {b} of {a} guitars on Friday. How many are to be restrung on Saturday, if "
     "all must be done by then?",
     "a-b*!"},
    {"the mole made {a} hills on the lawn; I ~flattened/leveled/stamped down~ {b}, and overnight it made "
     "{c} new ones. How many hills are on the lawn?",
     "a-b+c*"},
    {"{a} pieces of a puzzle lay in the box. {N} fitted {b} today and {c} the day before. How many was "
     "that in both days?",
     "b+c;&a-b-c*"},
    {"a football club ordered {a} jerseys; {b} were too small and were sent back, and {c} in the right "
     "size came for them. How many jerseys has the club?",
     "a-b+c*"},
    {"{N} rang {a} doorbells and {b} doors were opened. At how many doors did nobody answer?", "a-b*!"},
    {"in the bathroom {a} tiles were blue and {b} white. {c} of these ~cracked/came loose/got chipped~ "
     "and were removed. How many tiles are still on the wall?",
     "a+b-c*"},
    {"on Halloween {N} carved {a} pumpkins and {B} carved {b}. {c} ~rotted/were smashed/fell apart~ "
     "before the party. How many pumpkins glowed at the party?",
     "a+b-c*"},
    {"{a} lights on the Christmas tree: {b} flicker, {c} are out, the rest are fine. How many are fine?",
     "a-b-c*!"},
    {"a ladder has {a} rungs. {N} has climbed {b}, then gone down {c}. On which rung "
     "is {he}?",
     "b-c;&a-b*!^"},
});

inline constexpr auto kDailyMoreThemes = std::to_array<ShapeTheme>({
    {QuestionForm::kStory, kPeopleKinds, kRooms, kPeopleRows},
    {QuestionForm::kStory, kNone, kNone, kTeamRows},
    {QuestionForm::kStory, kRiders, kRides, kRideRows},
    {QuestionForm::kStory, kGoods, kNone, kStockRows},
    {QuestionForm::kStory, kBookNouns, kNone, kSchoolBookRows},
    {QuestionForm::kStory, kMailNouns, kNone, kMailRows},
    {QuestionForm::kStory, kFileNouns, kNone, kScreenRows},
    {QuestionForm::kStory, kToyNouns, kNone, kToyRows},
    {QuestionForm::kStory, kCurrencyNouns, kNone, kMoneyRows},
    {QuestionForm::kStory, kVolumeNouns, kNone, kLiquidRows},
    {QuestionForm::kStory, kLengthNouns, kNone, kLengthRows},
    {QuestionForm::kStory, kWayNouns, kNone, kWayRows},
    {QuestionForm::kStory, kSpanNouns, kNone, kTimeRows},
    {QuestionForm::kStory, kPages, kNone, kPageRows},
    {QuestionForm::kStory, kPointNouns, kNone, kPointRows},
    {QuestionForm::kStory, kNone, kNone, kFixedRows},
});

}  // namespace lacuna
