// Questions about what is in a place: people, passengers, animals, plants, vehicles, containers, seats.
#pragma once

#include <array>

#include "tasks/question_shapes.h"
#include "tasks/question_themes.h"

namespace lacuna {

inline constexpr auto kPeopleShapes = std::to_array<QuestionShape>({
    {"{ao} ([a:are|is]|[a:were|was]) {p}. {b} ~+more ([b:come|comes]|came)/more "
     "([b:arrive|arrives]|arrived)/others ([b:join|joins]|joined) them-([b:leave|leaves]|left)/of them "
     "([b:go|goes]|went) home/of them ([b:walk|walks]|walked) away~. {THERE}?",
     "a?b*"},
    {"{p} there ([a:are|is]|[a:were|was]) {ao} and {bq}. How many (is|was) that ~together/in all~?", "a+b"},
    {"of the {ao} {p}, {b} ([b:are|is]|[b:were|was]) ~tall/tired/late/new/ill~. How many (are|were) not?",
     "a-b*"},
    {"{ao} were invited, {b} did not come. How many came?", "a-b*"},
    {"a ~club/team/choir/class~ (has|had) {a} members. {b} new [b:ones|one] ([b:join|joins]|joined), {c} old "
     "[c:ones|one] ([c:leave|leaves]|left). How many members (are|were) there (now|then)?",
     "a+b-c*"},
    {"a ~class/group/school~ of {a} children (goes|went) on a trip, but {b} ([b:stay|stays]|stayed) at home "
     "because they were ill. How many (go|went) along?",
     "a-b*!"},
    {"{a} boys and {b} girls (are|were) {p}. How many children (is|was) that?", "a+b*"},
    {"in the ~first/morning~ group there ([a:are|is]|[a:were|was]) {ao}, in the ~second/evening~ group {b}. "
     "{ALL}?",
     "a+b"},
    {"~while it (rains|rained)/during the game/at noon~, {b} of the {ao} {p} ~went home/left/walked away~. "
     "{LEFT}?",
     "a-b*"},
    {"until noon there were {ao} {p}, and then {b} ~+more came/more arrived/others walked in-left/went "
     "home/said goodbye~. {THERE}?",
     "a?b*"},
    {"when {b} of the {ao} {p} have gone, how many are still there?", "a-b*"},
    {"when {b} more {os} have come, how many are there {p}, if there were {a} before?", "a+b*"},
    {"{a} people were in line. {b} ~+more lined up behind them/more came-gave up and left/had their turn and "
     "left~. How many people were in line then?",
     "a?b*"},
    {"{x} (counts|counted) {a} people {p}: {b} (are|were) women and the rest men. How many men?", "a-b*!"},
    {"{a} [a:players|player] on one team, {b} on the other. How many players on the field?", "a+b"},
    {"{b} people came by bus and the others on foot. In all, {a} came. How many came on foot?", "a-b*!"},
    {"some {os} were {p}. {b} ~+left/went home-more came/more arrived~, and then there were {a}. How many "
     "were there at first?",
     "a?b*!"},
    {"the {os} {p} (are|were) {a} in number, after {b} ~+had left/had gone home-had joined them/had come "
     "in~. How many (had|had) there been before?",
     "a?b*!"},
    {"a ~hall/cinema/theater/bus/plane~ (has|had) {a} seats. {b} (are|were) taken. How many (are|were) "
     "~free/empty/not taken~?",
     "a-b*"},
    {"{a} seats, {b} people. How many seats stay ~free/empty~?", "a-b*"},
    {"{a} people, {b} chairs. How many people must stand?", "a-b*!"},
    {"a tent (has|had) room for {a}. {b} ([b:are|is]|[b:were|was]) inside. How many more (fit|fitted) in?",
     "a-b*"},
    {"a hotel (has|had) {a} rooms, and guests (stay|stayed) in {b} of them. How many rooms (are|were) free?",
     "a-b*"},
    {"a ~boat/van/lift~ (takes|took) {a} people. {b} (are|were) on it, and {c} more (get|got) on. How many "
     "more can get on?",
     "a-b-c*"},
    {"{a} children (play|played) {p}. {z} others only (look|looked) on, and {b} more (join|joined) in. How "
     "many children (play|played) (now|then)?",
     "a+b*"},
    {"in class {z} there (are|were) {a} children. {b} ~+new ones (come|came)-of them (move|moved) to another "
     "town~. How many children (are|were) in the class (now|then)?",
     "a?b*"},
    {"a village (has|had) {a} houses. {b} ~+new ones (are|were) built-old ones (are|were) pulled down~. How "
     "many houses (are|were) there (now|then)?",
     "a?b*"},
    {"{a} of the children (can|could) swim and {b} cannot. How many children (is|was) that?", "a+b*"},
    {"a school (has|had) {a} teachers. {b} (retire|retired) and {c} new ones (start|started). How many "
     "teachers (are|were) there (now|then)?",
     "a-b+c*"},
    {"of {a} runners, {b} gave up and {c} were sent off. How many finished?", "a-b-c*"},
    {"{a} adults and {b} children bought a ticket. {c} of them did not come. How many came?", "a+b-c*"},
    {"at a party in house {z}, there were {a} guests. Then {b} ~+more rang the bell-had to go~. How many "
     "guests were there after that?",
     "a?b*"},
    {"the list had {a} names. {b} ~+were added-were crossed out/were taken off it~. How many names are on it "
     "now?",
     "a?b*"},
});

inline constexpr auto kRideShapes = std::to_array<QuestionShape>({
    {"{ao} ([a:are|is]|[a:were|was]) {p}. {b} ~+([b:get|gets]|got) on/more ([b:climb|climbs]|climbed) "
     "in/([b:board|boards]|boarded)-([b:get|gets]|got) off/([b:step|steps]|stepped) out~. {THERE}?",
     "a?b"},
    {"{ao} {p}, {b} get ~+on/in-off/out~. ~how many now/how many are there now~?", "a?b*"},
    {"at the first stop {ao} ([a:get|gets]|got) on, at the second {b}. How many {os} (are|were) {p} "
     "(now|then)?",
     "a+b"},
    {"with {ao} {p}, the driver (starts|started). At the next stop {b} ~+([b:get|gets]|got) "
     "on-([b:get|gets]|got) off~. {THERE}?",
     "a?b"},
    {"{p} there were {ao}. {b} got off and {c} got on. {THERE}?", "a-b+c*"},
    {"{p} there were {ao}. {b} got on and {c} got off. {THERE}?", "a+b-c*"},
    {"{b} got on and {c} got off at the stop. Before it there were {ao} {p}. {THERE}?", "a+b-c*"},
    {"bus {z} (has|had) {ao} on it. {b} ~+([b:get|gets]|got) on-([b:get|gets]|got) off~. How many (are|were) "
     "on the bus (now|then)?",
     "a?b"},
    {"there were {ao} {p} before the stop and {b} after it. How many got off, if nobody got on?", "a-b*!"},
    {"there were {bo} {p} before the stop and {a} after it. How many got on, if nobody got off?", "a-b*!"},
    {"{b} of the {ao} {p} (get|got) off at the ~market/school/station~, and {c} at the ~lake/bridge/zoo~. "
     "{LEFT}?",
     "a-b-c*"},
    {"a ~bus/train/ferry~ (leaves|left) with {ao}. On the way {b} ~+get on-get off~. With how many does it "
     "arrive?",
     "a?b*"},
    {"{ao} in the first car of a train, {b} in the second, {c} in the third. How many {os} on the train?",
     "a+b+c"},
    {"some {os} were {p}. At the stop {b} got ~+off-on~, and {a} were there after that. How many were there "
     "before?",
     "a?b*!"},
});

inline constexpr auto kAnimalShapes = std::to_array<QuestionShape>({
    {"{ao} {p}, {b} ~+more come/are born-run away/are sold/leave~. ~how many now/how many {os} now/how many "
     "are there now~?",
     "a?b*"},
    {"a farmer (has|had) {ao} and {bq}. How many animals (is|was) that ~in all/together/altogether~?", "a+b"},
    {"{N} <sees|saw> {ao}, {bq} and no other animals. How many animals <does|did> {he} see?", "a+b"},
    {"a farmer (has|had) {ao}. {b} ~+young [b:ones|one] ([b:are|is]|[b:were|was]) born-of them "
     "([b:are|is]|[b:were|was]) sold/of them ([b:run|runs]|ran) off~. How many {os} (does|did) the farmer "
     "have (now|then)?",
     "a?b*"},
    {"of the {ao} {p}, {b} (sleep|slept) and the others (eat|ate). How many (eat|ate)?", "a-b*!"},
    {"when the gate (is|was) open, {b} of the {ao} {p} (run|ran) out. {LEFT}?", "a-b*"},
    {"{b} of {ao} ran off, but {c} of those came back later. How many of the {os} were at home in the end?",
     "a-b+c;&b-c*"},
    {"a ~shelter/zoo/farm~ (takes|took) in {ao} this year and (gives|gave) away {b}. How many of these {os} "
     "(are|were) left?",
     "a-b*"},
    {"a ~shelter/zoo/farm~ with {ao} ~+(takes|took) in {b} more/(buys|bought) {b} more-(gives|gave) away "
     "{b}/(sells|sold) {b}~. How many {os} (does|did) it have (now|then)?",
     "a?b*"},
    {"{b} of the {ao} (are|were) white, {c} (are|were) brown, and all others (are|were) black. How many "
     "(are|were) black?",
     "a-b-c*!"},
    {"there (are|were) {ao} {p}. As many as {b} (hide|hid). How many can you still see?", "a-b*"},
    {"{ao} on the left bank, {b} on the right. {c} (cross|crossed) from the left to the right. How many "
     "(are|were) on the right (now|then)?",
     "b+c;&a-c*"},
    {"the herd of {ao} (grows|grew) by {b}. How many {os} (are|were) in the herd (now|then)?", "a+b*"},
    {"the herd of {ao} (shrinks|shrank) by {b}. How many {os} (are|were) in the herd (now|then)?", "a-b*"},
    {"before the winter there were {ao} {p}, after it {b}. How many ~died/were lost/went away~?", "a-b*!"},
    {"in spring there were {bo} {p}, in autumn {a}. By how many did they become more?", "a-b*!"},
    {"a dog (guards|guarded) {ao}. {b} of them ([b:get|gets]|got) lost, and the dog (finds|found) none of "
     "these. {LEFT}?",
     "a-b*"},
});

inline constexpr auto kBirdShapes = std::to_array<QuestionShape>({
    {"{ao} {p}. {b} ~+more fly to them/more land/join them-fly away/fly off/leave~. How many {os} are there "
     "now?",
     "a?b*"},
    {"{ao} ([a:sit|sits]|sat) {p}, until {b} of them ([b:fly|flies]|flew) away. {LEFT}?", "a-b*"},
    {"{ao} ([a:sit|sits]|sat) {p}, and {b} ~+more ([b:come|comes]|came) flying-([b:take|takes]|took) off~. "
     "{THERE}?",
     "a?b*"},
    {"a hen (lays|laid) {a} [a:eggs|egg]. {b} ([b:hatch|hatches]|hatched). How many eggs (have|had) not "
     "hatched?",
     "a-b"},
    {"out of {a} eggs, chicks hatched from {b}. How many eggs are left?", "a-b*"},
    {"in the nest there ([a:are|is]|[a:were|was]) {a} [a:eggs|egg]. The bird (lays|laid) {b} more. How many "
     "eggs (are|were) in the nest (now|then)?",
     "a+b"},
    {"frightened by a ~cat/noise/dog~, {b} of the {ao} {p} (fly|flew) off. {LEFT}?", "a-b*"},
    {"{ao} on one tree, {b} on the next: how many {os} on both?", "a+b"},
    {"some {os} were {p}. {b} ~+flew away-landed~, so that there were {a}. How many were there before?",
     "a?b*!"},
    {"{ao} were {p}. When it got dark, only {b} [b:were|was] left. How many had flown away?", "a-b*!"},
    {"{ao} (swim|swam) on a lake. {b} ~+more (swim|swam) up to them-(dive|dived) and (are|were) gone~. How "
     "many {os} can you see (now|then)?",
     "a?b*"},
});

inline constexpr auto kFishShapes = std::to_array<QuestionShape>({
    {"a ~tank/pond/pool~ (holds|held) {ao}. {x} ~+(puts|put) in {b} more-(takes|took) out {b}~. How many "
     "{os} (are|were) in it (now|then)?",
     "a?b"},
    {"{x} (catches|caught) {ao} and (throws|threw) {b} back. How many {os} (are|were) kept?", "a-b*"},
    {"{ao} ([a:swim|swims]|swam) {p}. {b} ~+more ([b:swim|swims]|swam) by and "
     "([b:stay|stays]|stayed)-([b:swim|swims]|swam) away~. {THERE}?",
     "a?b*"},
    {"with the net {x} (catches|caught) {ao}, with the line {b}. How many {os} (is|was) that?", "a+b"},
    {"one tank (has|had) {ao}, the other {b}. {c} (move|moved) from the first to the second. How many {os} "
     "(are|were) in the first (now|then)?",
     "a-c;&b+c*"},
});

inline constexpr auto kPlantShapes = std::to_array<QuestionShape>({
    {"{ao} ([a:grow|grows]|grew) {p}. {x} ~+(plants|planted) {b} more/(adds|added) {b}-(cuts|cut) down "
     "{b}/(digs|dug) up {b}~. {THERE}?",
     "a?b"},
    {"after the storm only {b} of the {ao} {p} (stand|stood). How many (have|had) fallen?", "a-b*!"},
    {"{ao} {p}, {b} ~+more planted-cut down/dried up/fallen~. ~how many now/how many {os} now~?", "a?b*"},
    {"in the ~front/first~ row there ([a:are|is]|[a:were|was]) {ao}, in the ~back/second~ row {b}. {ALL}?",
     "a+b"},
    {"of {a} seeds, {b} did not come up. How many plants came up?", "a-b*"},
    {"{N} <plants|planted> {ao} on one side of the path and {b} on the other. {ALL}?", "a+b"},
    {"a ~rose/bush/plant~ (has|had) {a} flowers. {b} ~+more (open|opened)-(fade|faded)/(fall|fell) off~. How "
     "many flowers (does|did) it have (now|then)?",
     "a?b*"},
    {"{x} (wants|wanted) to plant {ao} and (has|had) planted {b} so far. How many (are|were) still to be "
     "planted?",
     "a-b*!"},
    {"a tree (has|had) {a} leaves. The wind (takes|took) {b}, and later {c} more (fall|fell). How many "
     "(hang|hung) on it (now|then)?",
     "a-b-c*"},
});

inline constexpr auto kVehicleShapes = std::to_array<QuestionShape>({
    {"{ao} {p}, {b} ~+arrive/drive in/come-leave/drive off/go~. ~how many now/how many {os} now/how many are "
     "there now~?",
     "a?b*"},
    {"{p} there ([a:are|is]|[a:were|was]) {ao} and {bq}. How many (is|was) that ~together/in all~?", "a+b"},
    {"a car park (has|had) {a} places. {b} cars (are|were) in it. How many more cars can park?", "a-b*"},
    {"of the {ao} {p}, {b} ([b:are|is]|[b:were|was]) broken. How many (are|were) not broken?", "a-b*"},
    {"{x} (rents|rented) out {b} of {ao}. How many {os} (are|were) still there?", "a-b*"},
    {"a shop (has|had) {ao} to rent. {b} ~+(are|were) brought back-(are|were) rented out~. {THERE}?", "a?b*"},
    {"in the morning {ao} ([a:leave|leaves]|left) the harbor, in the afternoon {b}. How many {os} "
     "(leave|left) on that day?",
     "a+b"},
    {"a workshop (has|had) {ao} to repair. {b} (are|were) done, and {c} new ones (come|came) in. How many "
     "(are|were) to be repaired (now|then)?",
     "a-b+c*"},
    {"{z} people (look|looked) at {ao}. {b} (are|were) sold. {LEFT}?", "a-b*"},
});

inline constexpr auto kStockShapes = std::to_array<QuestionShape>({
    {"a ~shop/store/market stall~ (starts|started) the day with {ao}. By the evening {b} ~+more (are|were) "
     "delivered-(are|were) sold~. {THERE}?",
     "a?b*"},
    {"a ~library/school/club~ (owns|owned) {ao}. {b} (are|were) ~+bought/given to it-lent out/lost/given "
     "away~. How many {os} (are|were) there (now|then)?",
     "a?b*"},
    {"a ~truck/van/ship~ (carries|carried) {ao}. At the first stop {b} (are|were) ~+loaded-unloaded/taken "
     "off~. How many (are|were) on it (now|then)?",
     "a?b*"},
    {"a machine (makes|made) {ao} in the first hour and {b} in the second. {ALL}?", "a+b"},
    {"a machine (makes|made) {ao}, but {b} of them (are|were) faulty. How many (are|were) good?", "a-b*"},
    {"the shelf (has|had) room for {ao}; {b} (stand|stood) on it. How many more (have|had) room?", "a-b*"},
    {"{ao} in stock, {b} ~+delivered/brought in/returned-sold/sent out/stolen~. ~stock now/how many now~?",
     "a?b"},
    {"a ~store/factory~ (orders|ordered) {ao}. {b} (come|came) on Monday, the rest on Friday. How many "
     "(come|came) on Friday?",
     "a-b*!"},
    {"sold today: {b}. In the shop this morning: {ao}. ~left/how many left~?", "a-b*"},
    {"the ~museum/library/school~ (has|had) {ao} on the first floor and {b} on the second. {ALL}?", "a+b"},
    {"customers (bring|brought) back {b} of the {ao} that they (have|had) bought. How many (do|did) they "
     "keep?",
     "a-b*"},
    {"a box of {ao} (falls|fell) from a ~truck/shelf/table~. {b} (are|were) broken. How many (are|were) "
     "still whole?",
     "a-b*"},
    {"a ~drawer/shelf/chest~ (is|was) empty. Then {ao} (are|were) put in, and later {b} ~+more-(are|were) "
     "taken out~. {THERE}?",
     "a?b*"},
    {"from a pile of {ao}, {b} (are|were) taken on Monday and {c} on Tuesday. {LEFT}?", "a-b-c*"},
    {"an empty box (gets|got) {ao}, then {b}, then {c}. How many {os} (are|were) in it?", "a+b+c"},
    {"{N} <moves|moved> {b} of the {ao} from the box to the shelf. How many (are|were) in the box "
     "(now|then)?",
     "a-b*"},
    {"the box (has|had) {ao}, the bag {b}. {N} <moves|moved> {c} from the box to the bag. How many "
     "(are|were) in the bag (now|then)?",
     "b+c;&a-c*"},
});

inline constexpr auto kPlaceThemes = std::to_array<ShapeTheme>({
    {QuestionForm::kStory, kPeopleKinds, kRooms, kPeopleShapes},
    {QuestionForm::kStory, kRiders, kRides, kRideShapes},
    {QuestionForm::kStory, kAnimalKinds, kFields, kAnimalShapes},
    {QuestionForm::kStory, kBirds, kPerches, kBirdShapes},
    {QuestionForm::kStory, kFishKinds, kWaters, kFishShapes},
    {QuestionForm::kStory, kPlants, kGardens, kPlantShapes},
    {QuestionForm::kStory, kVehicles, kLots, kVehicleShapes},
    {QuestionForm::kStory, kGoods, kNone, kStockShapes},
});

}  // namespace lacuna
