// Short stories in the words of many different people: things, clothes, food, animals, plants, vehicles.
#pragma once

#include <array>

#include "tasks/question_shapes.h"
#include "tasks/question_themes.h"

namespace lacuna {

inline constexpr auto kTreasureNouns = std::to_array<std::string_view>(
    {"coin", "button", "marble", "bead", "shell", "stone", "key", "sticker", "stamp", "pebble", "acorn",
     "ring", "token", "badge", "paper clip", "eraser", "pearl", "jewel", "screw"});
inline constexpr auto kKnitNouns = std::to_array<std::string_view>(
    {"scarf|scarves", "sock", "hat", "glove", "sweater", "mitten", "cap", "blanket", "vest", "shawl"});
inline constexpr auto kBakeNouns =
    std::to_array<std::string_view>({"cookie", "muffin", "cupcake", "bun", "pretzel", "roll", "loaf|loaves",
                                     "pie", "cake", "bagel", "tart", "brownie", "scone"});
inline constexpr auto kFruitNouns =
    std::to_array<std::string_view>({"apple", "pear", "plum", "orange", "peach|peaches", "lemon", "apricot",
                                     "fig", "mango|mangoes", "quince", "cherry|cherries"});

inline constexpr auto kPossessionRows = std::to_array<QuestionShape>({
    {"how many {os} will {N} have if {he} already <has|has> {a} and {x} ~hands over/brings/adds~ {b} "
     "more?",
     "a+b"},
    {"{N} ~misplaced/mislaid/could not find~ {b} of {his} {ao} while ~moving house/cleaning "
     "up/traveling~. How many could {he} still find?",
     "a-b*"},
    {"{N} swapped {b} of {his} {ao} for {c} nicer [c:ones|one] from {B}. How many {os} did {N} own after "
     "the ~swap/trade/exchange~?",
     "a-b+c*"},
    {"{N} packed {ao}, but after the ~trip/holiday/move~ only {b} ~came out of the suitcase/were in the "
     "suitcase again/came home~. How many {os} had been left behind?",
     "a-b*!"},
    {"out of kindness {N} donated {bo} to the ~flea market/charity shop/school fair~ and kept {a}. How "
     "many had {he} owned ~before that/at first~?",
     "a+b"},
    {"my collection: {ao}. Yesterday I ~swapped away/parted with/gave up~ {b}, today I ~got/was "
     "given/received~ {c} new [c:ones|one]. How big is my collection now?",
     "a-b+c"},
    {"I had {ao} until my ~brother/sister/cousin~ ~borrowed/took/grabbed~ {b} of them. How many were "
     "left for me?",
     "a-b*"},
    {"can you tell me how many {os} I own? I bought {a}, my ~aunt/uncle/grandma~ sent me {b}, and I made "
     "{c} myself.",
     "a+b+c"},
    {"{N} opened the ~locker/cupboard/trunk~ and {ao} ~tumbled/fell/spilled/slid~ out. {he} "
     "~stuffed/pushed/put~ {b} back in. How many were still lying on the floor?",
     "a-b*"},
    {"{x} lent {M} {ao}, and {B} lent {him} {b}. In ~June/spring/the holidays~ {he} ~returned/gave "
     "back/brought back~ {c}. How many {os} does {N} still have to give back?",
     "a+b-c"},
    {"{N} started to collect {os} ~last year/in spring/at the age of nine~. First came {a}, then {he} "
     "tracked down {b} more, and {c} arrived by mail. How large was the collection then?",
     "a+b+c"},
    {"the teacher has {ao}. {b} pupils get one each, and the rest go back into the "
     "~cupboard/closet/box~. How many go back?",
     "a-b*!"},
    {"{N} ~polished/dusted/cleaned~ {b} of {his} {ao} ~before dinner/on Saturday/by noon~. How many "
     "(are|were) still waiting for their turn?",
     "a-b*!"},
    {"{ao} [a:have|has] to be ~labeled/wrapped/checked~ by Friday. {N} did {b} yesterday. How many must "
     "{he} still do?",
     "a-b!"},
    {"{N} thought all the {os} were in the chest, where {he} counted {a}. But {b} more turned up under "
     "the ~bed/sofa/rug~. How many {os} does that make?",
     "a+b"},
    {"{N} would have {ao} if {he} had not ~dropped and ruined/lost/burned by accident~ {b}. How many did "
     "{he} really have?",
     "a-b"},
    {"before lending {bo} to {B}, {N} had {a}. How many ~remained with {N}/stayed with {N}/did {N} keep "
     "at home~?",
     "a-b"},
    {"hello! My class collects {os}. On the first day we brought {a}, on the second {b}, but {c} ~got "
     "lost in the hallway/went missing/disappeared overnight~. How many do we have? ~Thanks/Thank "
     "you/Bye~!",
     "a+b-c"},
    {"{os} ~needed/required/wanted~: {a}. {os} in the box: {b}. How many do we have to ~order/buy/get~?",
     "a-b!"},
    {"{os} in the box: {a}. Then {b} got taken out and {c} of those got put back. How many are in there "
     "now?",
     "a-b+c;&b-c*"},
    {"the lost property office had {ao}. On Monday {b} [b:were|was] claimed and {c} [c:were|was] handed "
     "in. How many waited for their owners on Tuesday?",
     "a-b+c"},
    {"{N} put {ao} up for ~auction/sale~, and {b} ~found a buyer/were sold/changed hands~. How many {os} "
     "did nobody want?",
     "a-b*!"},
    {"{N} inherited {bo} from {his} ~aunt/grandfather/godmother~, and so {his} collection grew to {a}. "
     "How many {os} were in it before?",
     "a-b!"},
    {"what was the number of {os} on the shelf before {N} ~knocked over/smashed/cracked~ {b} and left "
     "only {a} whole?",
     "a+b"},
    {"{N} and {B} pool their {os}. {N} brings {a}, {B} brings {b}, and then they ~hand {c} on/pass {c} "
     "on/give {c}~ to {C}. How many do the two have left?",
     "a+b-c"},
    {"if {N} had not received {bo} for ~Christmas/a good report/helping~, {he} would own just {a}. How "
     "many {os} <does|does> {he} own?",
     "a+b"},
    {"{x} promised {M} {ao} and has ~delivered/brought/sent~ {b}. How many <is|is> {N} still waiting for?",
     "a-b!"},
    {"fewer and fewer: {ao} on Monday, {b} ~gone/missing/lost~ by Tuesday, another {c} gone by "
     "Wednesday. How many {os} on Wednesday?",
     "a-b-c*"},
    {"at the ~raffle/fair/lottery~ {N} won {bo}, which together with those at home made {a}. How many "
     "were at home?",
     "a-b!"},
    {"the parcel that {N} ordered should contain {ao}, yet {b} [b:were|was] missing and {c} [c:were|was] "
     "cracked. How many ~good/undamaged/usable~ {os} arrived?",
     "a-b-c"},
    {"{N} ~sorted/sorted out~ {his} {os}: {a} to keep, {b} to sell and {c} for the bin. How many {os} "
     "did {he} go through?",
     "a+b+c"},
    {"never lend things! I lent {bo} to ~my neighbor/a friend/my cousin~, and of my {a} only the others "
     "are still here. How many is that?",
     "a-b*!"},
    {"in the attic {N} ~discovered/uncovered/stumbled upon~ {ao} in one trunk and {b} in a second; a "
     "third trunk was empty. How many {os} did {he} bring downstairs, if {he} took them all?",
     "a+b"},
    {"{N's} ~desk/room/garage~ was a mess: {ao} on the floor and {b} on the chair. {he} tossed out {c}. "
     "How many stayed?",
     "a+b-c"},
    {"{N} ~carried/hauled/lugged/brought~ {ao} upstairs on the first trip, {b} on the second, and on the "
     "last trip the remaining {c}. How many had to be carried?",
     "a+b+c"},
    {"for the ~stall/bazaar/fair~ {N} prepared {ao}. By noon {b} had been snapped up, so {he} ran home "
     "and fetched {c} more. How many could be sold in the afternoon?",
     "a-b+c"},
    {"burglars carried off {b} of {N's} {ao}. The police ~recovered/found/brought back~ {c} of the "
     "stolen ones. How many did {he} have then?",
     "a-b+c;&b-c*"},
    {"{N} now <has|has> {ao}, {b} ~+fewer-more~ than last ~week/month/summer~. How many did {he} have "
     "then?",
     "a?b!"},
    {"of the {os} that {N} ~ordered/sent for/sent away for~, {b} went straight back to the shop, and "
     "{he} kept {a}. How many had been in the parcel?",
     "a+b"},
    {"{N} set out ~looking for/to find/in search of~ {ao}. Having found {b}, {he} took a break, and "
     "afterwards {he} found {c}. How many {os} had {he} still not found?",
     "a-b-c!"},
    {"do the {os} suffice? {N} <has|has> {a}, the guests take {b}, the helpers take {c}. How many will "
     "be left?",
     "a-b-c"},
    {"yesterday my drawer held {ao}; today, after a friend's visit, it ~holds/contains/has~ {b}. How "
     "many walked off with my friend?",
     "a-b!"},
    {"while tidying up, {N} ~came across/found/spotted~ {bo} that {he} had forgotten, so the total rose "
     "to {a}. What had {he} believed the total to be?",
     "a-b!"},
    {"{N} traded with {B}: {c} of {N's} {ao} against {d} of {B}'s {b}. How many {os} did {N} have after "
     "the trade?",
     "a-c+d;&b-d*"},
});

inline constexpr auto kPocketRows = std::to_array<QuestionShape>({
    {"{N} emptied {his} pockets: {ao} in the left one, {b} in the right one. {he} ~tossed/threw~ {c} "
     "away. How many did {he} keep?",
     "a+b-c"},
    {"a magpie made off with {b} of the {ao} that lay on {N's} ~windowsill/balcony/doorstep~. How many "
     "did the bird leave?",
     "a-b*"},
    {"through a hole in {his} pocket {N} lost {bo} on the way. At home {he} still counted {a}. With how "
     "many had {he} set out?",
     "a+b"},
    {"{N} slipped {ao} into a ~pouch/purse/sock~, then {b} more, and finally fished out {c} for {B}. How "
     "many {os} were inside after that?",
     "a+b-c"},
    {"the ~pirates/robbers/dwarfs~ buried {ao} on one island and {b} on another. {c} [c:were|was] dug up "
     "again. How many {os} are still under the ground?",
     "a+b-c"},
    {"{N} bet {bo} and lost the bet. Before, {he} had {a}. What is left for {him}?", "a-b"},
    {"{ao} lay in the grass. {N} ~picked up/collected/gathered~ {b}, {B} ~picked up/collected/gathered~ "
     "{c}, and nobody found the rest. How many {os} stayed in the grass?",
     "a-b-c*!"},
    {"I keep my {os} in a tin. This morning there were {a}. My ~baby brother/dog/little sister~ "
     "swallowed none, luckily, but hid {b}. How many are in the tin?",
     "a-b*"},
    {"{N} gambled: won {a}, won {b}, lost {c}. With how many {os} did {he} go home, if {he} came with "
     "none?",
     "a+b-c"},
    {"in ~exchange/return~ for an old watch, {N} received {bo} and thus had {a}. How many {os} did {he} "
     "have beforehand?",
     "a-b!"},
    {"{N} strung {ao} on a thread. The thread ~tore/broke/snapped~, {b} ~rolled/slid/jumped~ under the "
     "~stove/wardrobe/piano~ and could not be reached. How many could be strung again?",
     "a-b*"},
    {"three friends empty their pockets: {ao}, {b} and {c}. They throw {d} into the wishing well. How "
     "many {os} do they still have together?",
     "a+b+c-d*"},
});

inline constexpr auto kClothesRows = std::to_array<QuestionShape>({
    {"{N} ~knitted/made/crocheted~ {ao} in ~autumn/January/a month~ and {b} in ~winter/March/the next "
     "month~. All but {c} were given away. How many did {he} give away?",
     "a+b-c*!"},
    {"on the washing line {ao} hung to dry. The wind ~blew down/tore off/carried away~ {b}. How many "
     "were still hanging there?",
     "a-b*"},
    {"{N} unpicked {b} of the {ao} that {he} had knitted and then finished {c} new [c:ones|one]. How "
     "many finished {os} were there?",
     "a-b+c*"},
    {"~moths had eaten holes in/the puppy had chewed up/paint had ruined~ {b} of {N's} {ao}. How many "
     "could {he} still wear?",
     "a-b*"},
    {"{N} outgrew {b} of {his} {ao}, passed those on and got {c} in the right size. How many {os} "
     "<does|does> {he} have in the wardrobe?",
     "a-b+c*"},
    {"{ao} went into the wash, {b} [b:were|was] already clean in the drawer. How many clean {os} will "
     "there be after the wash?",
     "a+b"},
    {"grandma sews and sews: {ao} before Easter, {b} after it. She keeps just {c}. How many {os} does "
     "she give to us?",
     "a+b-c*"},
    {"our class knits for the ~bazaar/winter fair/shelter~. The goal is {ao}. The girls have finished "
     "{b}, the boys {c}. How many are we short?",
     "a-b-c*!"},
});

inline constexpr auto kFoodRows = std::to_array<QuestionShape>({
    {"{N} ~gobbled/munched/wolfed down~ {b} of the {ao} in the ~lunchbox/picnic basket/pantry~. How many "
     "were saved for later?",
     "a-b*"},
    {"{N} laid {ao} out on the kitchen table. The ~dog/cat/parrot~ ~snatched/stole/grabbed~ {b} when "
     "nobody was looking. How many {os} could still be served?",
     "a-b*"},
    {"who has been at the {os}? I counted {a} after breakfast and {b} before lunch. How many have "
     "~vanished/disappeared/been eaten~?",
     "a-b*!"},
    {"{N} served {a} {oa} to the guests and had {b} in reserve. {c} came back ~uneaten/untouched/to the "
     "kitchen~. How many {os} did {he} have then?",
     "b+c;&a-c*"},
    {"for lunch {N} packed {ao}, ~shared out/gave away/handed out~ {b} at school and was handed {c} by "
     "{B} in return. How many {os} did {N} have then?",
     "a-b+c"},
    {"the squirrels ~nibbled at/spoiled/gnawed at~ {b} of the {ao} in the pantry. How many are untouched?",
     "a-b*"},
    {"after {N} had ~dropped/lost/eaten~ {b} of the {os} on the way from the market, {a} arrived safely. "
     "How many had {he} bought?",
     "a+b*"},
    {"{N} ~divided/split~ {ao} between two friends. {B} received {b}. How many did {C} receive?", "a-b*!"},
    {"two ~trays/crates/sacks~ of {os} stood in the kitchen, one with {a} and one with {b}. Of all "
     "these, {c} had ~gone moldy/gone bad/turned brown~. How many were fine?",
     "a+b-c*"},
    {"we had a picnic. I brought {ao}, you brought {b}, the ants got {c}. How many {os} did we eat, if "
     "none were left?",
     "a+b-c*!"},
    {"{N} wants to ~pack/give out/hand out~ {ao}, but {he} has only {b}, and {B} can spare {c}. How many "
     "are still ~lacking/missing/needed~?",
     "a-b-c*!"},
    {"the cook ~peeled/washed/chopped~ {a} of the {os} and left {b} for the next day. How many {os} had "
     "he been given?",
     "a+b*"},
    {"there are {ao} on a tray. Take {b}, then take {c}. How many do you leave on the tray?", "a-b-c*"},
    {"suppose you have {ao}, eat {b} and are ~offered/given/handed~ {c} more. How many {os} do you have "
     "now?",
     "a-b+c"},
    {"with {b} of the {os} already eaten, {N} found {a} left in the ~tin/paper bag/box~. How many were "
     "there to begin with?",
     "a+b*"},
    {"{ao} for {b} hungry children: everyone gets one. How many {os} stay in the bowl?", "a-b*"},
    {"{N} put {ao} in the ~freezer/oven/cooler~. Two hours later {he} took out {b}, and in the evening "
     "another {c}. How many were still in there?",
     "a-b-c*"},
    {"grandpa's pantry: {ao} in the summer. He gave us {b}, ate {c} himself, and the rest kept until "
     "winter. How many kept until winter?",
     "a-b-c*!"},
    {"{x} offered {M} {ao}. {he} politely ~turned down/refused/declined~ {b} and took the others. How "
     "many {os} did {he} take?",
     "a-b*!"},
    {"so many {os}! {a} from our garden, {b} from the market, {c} from the neighbors. How many do we "
     "have to cook?",
     "a+b+c"},
    {"the fridge contained {ao}. At midnight somebody ~sneaked out with/pinched/nicked~ {b}. How many "
     "were found in the morning?",
     "a-b*"},
    {"how many {os} did {N} have to buy, if the recipe called for {a} and {b} lay in the basket at home?",
     "a-b!"},
    {"{N} had some {os}, ate {b} during the movie and {c} after it, and then there were {a}. How many "
     "did {he} have before the movie?",
     "a+c+b*"},
});

inline constexpr auto kBakingRows = std::to_array<QuestionShape>({
    {"{N} slid {ao} into the oven. {b} ~came out burnt/burned/fell apart~, so {he} baked {c} more, which "
     "turned out well. How many good {os} did {he} have?",
     "a-b+c"},
    {"at the bake sale our class ~sold/got rid of/found buyers for~ {b} of its {ao} in the morning and "
     "{c} in the afternoon. How many did we take home?",
     "a-b-c*"},
    {"the first tray held {ao}, the second {b}. {N} ~decorated/frosted/glazed~ {c} of all these. How "
     "many (are|were) still plain?",
     "a+b-c*!"},
    {"{N} frosted {b} {ob} with ~chocolate/sugar/vanilla~ and {c} with ~lemon/honey/cream~. {he} had "
     "baked {a}. How many had no frosting?",
     "a-b-c!"},
    {"by closing time the ~bakery/cafe/canteen~ had sold all of its {os} but {b}. In the morning there "
     "had been {a}. How many did it sell?",
     "a-b*!"},
    {"mom baked {ao}. Dad ~ate/took/pinched~ {b}, I ~ate/took/pinched~ {c}, and then she counted again. "
     "What number did she get?",
     "a-b-c"},
    {"the recipe yields {ao}; {N} baked it once and ~bought/ordered/got~ {b} ready-made for the "
     "~party/guests/feast~. How many {os} could {he} offer?",
     "a+b"},
    {"at the counter {b} {os} are picked up by a customer, then {c} by the next. That leaves {a}. How "
     "many lay there before?",
     "a+c+b*"},
});

inline constexpr auto kFruitRows = std::to_array<QuestionShape>({
    {"{N} ~plucked/gathered/harvested~ {ao} from the lower branches and {b} from the top ones. {c} ~had "
     "worms/were rotten/were still green~. How many could be eaten?",
     "a+b-c*"},
    {"the tree bore {ao}. The ~storm/wind/rain~ ~shook down/knocked down/tore off~ {b}, and then {N} "
     "picked {c}. How many are still hanging?",
     "a-b-c*"},
    {"{N} squeezed {b} of {his} {ao} for juice and cut the rest into a salad. How many {os} went into "
     "the salad?",
     "a-b*!"},
    {"{N} canned {b} of the {ao} from the ~orchard/garden/farm~ and dried {c}. How many were eaten "
     "fresh, if those were all the others?",
     "a-b-c*!"},
    {"a crate of {os} came from the orchard. {b} [b:were|was] bruised and went to the "
     "~pigs/goats/compost~, {a} could be sold. How many had been in the crate?",
     "a+b"},
    {"~birds pecked at/wasps got into/snails ate~ {b} of the {ao} in the orchard, frost spoiled {c} "
     "others. How many were harvested unharmed?",
     "a-b-c*"},
    {"of the {ao} on the scale, {N} put back {b} because they were too ~expensive/dear/hard~, and then "
     "added {c} cheap ones. How many {os} did {he} buy?",
     "a-b+c*"},
});

inline constexpr auto kAnimalRows = std::to_array<QuestionShape>({
    {"{ao} lived {p}. In spring {b} [b:were|was] born, and in autumn {c} [c:were|was] ~given to a "
     "neighbor/sold/taken to a zoo~. How many {os} lived there after that?",
     "a+b-c"},
    {"the vet has ~vaccinated/examined/weighed~ {b} of the {ao} {p}. How many {os} has she not seen to "
     "yet?",
     "a-b*!"},
    {"{p} I saw {ao}; my sister, who stood on a box, saw {b} more than I did. How many {os} did she see?",
     "a+b"},
    {"somebody left the gate open! Of {ao}, {b} ~escaped/ran off/got out~, and so far we have caught {c} "
     "of those. How many {os} are back home or never left?",
     "a-b+c;&b-c*"},
    {"how many {os} does the ~shepherd/keeper/ranger~ have to look for, if {a} went out in the morning "
     "and only {b} came home at night?",
     "a-b*!"},
    {"the circus owned {ao}. It bought {b} from a zoo and ~retired/sold/gave away~ {c}. How many {os} "
     "did it travel with after that?",
     "a+b-c*"},
    {"{b} of the {os} {p} [b:were|was] ~adopted/taken home/picked by a family~ this week, and {a} "
     "[a:are|is] still looking for a home. How many {os} were looking for one before?",
     "a+b"},
    {"at dawn {ao} stood {p}. When the ~hunter/wolf/storm~ came, {b} ~bolted/fled/ran~, and shortly "
     "afterwards {c} more. How many dared to stay?",
     "a-b-c*"},
    {"the children ~fed/petted/brushed~ {b} of the {ao} {p} before lunch. How many are left for the "
     "afternoon?",
     "a-b*!"},
    {"{ao} wandered into the ~village/woods/corn~; {b} [b:were|was] driven back by the dog, the others "
     "had to be fetched by hand. How many were those?",
     "a-b*!"},
    {"two herds met at the ~well/river/gate~: one of {ao}, one of {b}. When they parted, {c} {oc} had "
     "gone with the wrong herd. How many {os} were there before they parted?",
     "a+b;&a-c*"},
    {"old MacDonald sold {bo} at the ~market/fair/auction~ and now has {a}. How many {os} had he before "
     "the sale?",
     "a+b"},
    {"there used to be {ao} {p}, but {b} ~died/fell ill and died/were sold~ last winter and {c} moved "
     "on. How many live there today?",
     "a-b-c*"},
    {"{ao} took part in the ~show/parade/race~; {b} ~refused to walk/lay down/fell asleep~ and {c} ran "
     "the wrong way. How many did everything right?",
     "a-b-c*"},
    {"we counted the {os} {p} twice. First we got {a}, but {b} had been counted ~double/twice~. What is "
     "the right number?",
     "a-b*!"},
    {"tonight {b} {ob} will be allowed to sleep {p}, where {a} {oa} sleep anyway. How many {os} will "
     "spend the night there?",
     "a+b*"},
    {"{ao} were {p} until the thunder: {b} ~hid/sheltered/huddled~ in the barn, {c} under the trees. How "
     "many stood in the rain?",
     "a-b-c*"},
    {"the ark already carried {ao} when {b} more came aboard. Noah sent {c} back, as there was no room. "
     "How many {os} sailed along?",
     "a+b-c*"},
});

inline constexpr auto kBirdRows = std::to_array<QuestionShape>({
    {"{ao} rested {p}. Something rustled, and {b} fluttered off. How many ~did not stir/stayed calm/were "
     "not scared~?",
     "a-b*"},
    {"{p} sat {ao}. {b} ~flew off/took off/left~, {c} ~flew in/landed/arrived~. How many "
     "{os} now?",
     "a-b+c*"},
    {"how many {os} are {p}, if {a} landed at sunrise, {b} joined them at noon and {c} departed before "
     "dark?",
     "a+b-c*"},
    {"during the night {b} of the {ao} {p} ~set off/left/headed~ for the south. How many were seen there "
     "the next morning?",
     "a-b*"},
    {"{N} scattered crumbs {p}. {ao} came at once, {b} a minute later, and then {c} ~got scared and "
     "fled/had enough and left/were chased away~. How many {os} were still eating?",
     "a+b-c*"},
    {"at the first count there were {ao} {p}, at the second {b}. How many had disappeared between the "
     "counts, if none had come?",
     "a-b*!"},
    {"{p} I could hear {ao} but see only {b}. How many {os} were hidden, if I saw only some of those I "
     "heard?",
     "a-b*!"},
    {"a rescue station nursed {ao}. {b} ~recovered/got well/healed~ and [b:were|was] set free in May, "
     "{c} in June. How many {os} are still being nursed?",
     "a-b-c"},
    {"{b} of the {os} {p} took wing when a ~truck/train/jet~ ~roared/thundered/rumbled~ by. That left "
     "{a}. How many had been there?",
     "a+b*"},
    {"a flock of {ao} meets a flock of {b}. {c} lose their way in the fog. How many {os} fly on together?",
     "a+b-c*"},
    {"there were some {os} {p}. As soon as {b} more had come to them, {N} counted {a}. How many were "
     "there at the start?",
     "a-b*!"},
    {"of {ao} with a ring on the leg, {b} returned this spring. How many {os} with a ring did not come "
     "back?",
     "a-b*!"},
});

inline constexpr auto kFishRows = std::to_array<QuestionShape>({
    {"{ao} ~glided/drifted/moved~ about {p} until {b} [b:were|was] scooped out with a net. How many {os} "
     "did the net miss?",
     "a-b"},
    {"{N} netted {ao}, let the {b} ~smallest/thinnest/youngest~ go and cooked the rest. How many {os} "
     "were cooked?",
     "a-b*!"},
    {"the ~heron/otter/cat~ ~ate/caught/snapped up~ {b} of the {ao} {p}. Then {N} bought {c} at the pet "
     "shop and set them free there. How many were {p} after that?",
     "a-b+c*"},
    {"on Saturday {N} caught {ao}, on Sunday the {os} did not bite at first, then {he} caught {b}. {x} "
     "ate {c} of the whole catch. How many were left?",
     "a+b-c*"},
    {"how many {os} have to join the {b} {p} to make it {a}?", "a-b*!"},
    {"{p} lived {ao} and {bq}. Of these animals, {c} ~got sick/fell ill/looked sick~ and were put into a "
     "tank of their own. How many stayed?",
     "a+b-c*"},
    {"our aquarium: {ao}, and suddenly {b} babies! But {c} ~got eaten/died/did not survive~. How many "
     "{os}, big and small, swim around now?",
     "a+b-c*"},
});

inline constexpr auto kPlantRows = std::to_array<QuestionShape>({
    {"lightning and wind felled {b} of the {ao} {p}. The village replaced them with {c} young "
     "[c:ones|one]. How many {os} stand there today?",
     "a-b+c*"},
    {"{ao} were planted {p} last ~autumn/year/spring~. {b} ~froze/rotted/were eaten by deer~ and {c} "
     "~dried out/withered/broke off~. How many survived?",
     "a-b-c*"},
    {"{N} ~watered/sprayed/soaked~ {b} of the {ao} {p} before the rain began. How many did the rain "
     "water for {him}, if it took care of the rest?",
     "a-b*!"},
    {"to make room for a ~road/shed/pool~, {b} {ob} {p} had to be uprooted, and {a} could remain. How "
     "many {os} grew there before?",
     "a+b*"},
    {"by ~May/spring/Easter~ {b} of the {ao} {p} were in bloom. A week later {c} more were. How many had "
     "not bloomed yet?",
     "a-b-c*"},
    {"{N} raised {ao} on the balcony, ~moved/put/carried~ {b} of them outside and gave {c} to {B}. How "
     "many {os} are on the balcony?",
     "a-b-c*"},
    {"our school plants {os}. Class one planted {a}, class two {b}, class three {c}. How many did the "
     "school plant?",
     "a+b+c"},
    {"~beetles/worms/frost~ killed {b} {ob} {p}. Counting those, there had been {a}. How many {os} are "
     "alive?",
     "a-b*"},
    {"{p} I ~trimmed/pruned/watered/sprayed~ {ao} in the morning and {b} after lunch, and there are {c} "
     "to go. How many {os} are there {p}?",
     "a+b+c*"},
    {"if {N} digs up {b} of the {ao} {p} and plants {c} in their place, how many will there "
     "be?",
     "a-b+c*^"},
    {"{N} wants a hedge of {ao}. {b} [b:are|is] in the ground, {c} [c:stand|stands] ready in pots. How "
     "many must {he} still buy?",
     "a-b-c!^"},
    {"the nursery grew {ao}. {b} ~wilted/dried up/died~ before they could be sold, and {c} were sold. "
     "How many {os} did it still have?",
     "a-b-c*"},
});

inline constexpr auto kVehicleRows = std::to_array<QuestionShape>({
    {"{ao} [a:were|was] parked {p} at eight. By nine {b} had ~pulled out/driven off/left~ and {c} had "
     "~pulled in/driven up/arrived~. How many {os} were parked there at nine?",
     "a-b+c"},
    {"the ~police/guards/crane drivers~ ~towed away/removed/hauled off~ {b} of the {ao} {p}. How many "
     "were allowed to stay?",
     "a-b*"},
    {"{p}: {ao}. Two hours later only {b}, and no new ones came. How many have ~left/gone/disappeared~?",
     "a-b*!"},
    {"a rental firm owns {ao}. Today {b} are ~out with customers/rented out/on the road~ and {c} are in "
     "repair. How many can be rented?",
     "a-b-c*"},
    {"if {b} of the {ao} {p} are ~electric/brand new/rusty~, how many are not?", "a-b*!"},
    {"the ferry unloaded {bo} at the first ~island/pier/harbor~ and still had {a} aboard. How many {os} "
     "had it taken on?",
     "a+b"},
    {"{N} counts {os} on the way to school: {a} before the bridge, {b} after it. On the way back {he} "
     "counts {c}. How many {os} in both directions?",
     "a+b+c^"},
    {"due to snow, {b} of the {ao} {p} ~would not start/could not leave/did not get away~. How many did?",
     "a-b*!"},
    {"the collector parked {ao} {p}. He ~auctioned/sold/scrapped~ {b} and restored {c} new finds, which "
     "he parked there too. How many {os} stand there?",
     "a-b+c*"},
    {"a repair shop had {ao} waiting. The mechanics ~fixed/finished/repaired~ {b} before noon and {c} "
     "after noon. How many {os} still have to wait?",
     "a-b-c*"},
    {"at the toll gate {ao} were in line. {b} got through, then {c} more arrived. How long is the line, "
     "in {os}?",
     "a-b+c*"},
    {"in the race {ao} started, {b} ~crashed/broke down/gave up~ in the first lap and {c} ran out of "
     "fuel. How many {os} crossed the finish line?",
     "a-b-c*"},
});

inline constexpr auto kDailyThemes = std::to_array<ShapeTheme>({
    {QuestionForm::kStory, kGoods, kNone, kPossessionRows},
    {QuestionForm::kStory, kTreasureNouns, kNone, kPocketRows},
    {QuestionForm::kStory, kKnitNouns, kNone, kClothesRows},
    {QuestionForm::kStory, kFoods, kNone, kFoodRows},
    {QuestionForm::kStory, kBakeNouns, kNone, kBakingRows},
    {QuestionForm::kStory, kFruitNouns, kNone, kFruitRows},
    {QuestionForm::kStory, kAnimalKinds, kFields, kAnimalRows},
    {QuestionForm::kStory, kBirds, kPerches, kBirdRows},
    {QuestionForm::kStory, kFishKinds, kWaters, kFishRows},
    {QuestionForm::kStory, kPlants, kGardens, kPlantRows},
    {QuestionForm::kStory, kVehicles, kLots, kVehicleRows},
});

}  // namespace lacuna
