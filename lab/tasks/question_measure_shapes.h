// Questions about measures: lengths, weights, liquids, temperatures, times, pages, floors, charge, ages,
// points.
#pragma once

#include <array>

#include "tasks/question_shapes.h"
#include "tasks/question_themes.h"

namespace lacuna {

inline constexpr auto kWayUnitsNouns =
    std::to_array<std::string_view>({"kilometer", "mile", "meter", "km|km"});
inline constexpr auto kWaysRows = std::to_array<QuestionShape>({
    {"the way to ~school/the lake/the town/the beach~ (is|was) {ao} long. {N} <has|had> walked {b}. ~how far "
     "(is|was) it still/how many {os} (are|were) left/how much farther (is|was) it~?",
     "a-b"},
    {"{N} <walks|walked> {ao} to the ~lake/hill/shop~ and {b} back by another way. How far <does|did> {he} "
     "walk ~in all/altogether~?",
     "a+b"},
    {"{ao} on foot, {b} by bus, {c} by train: how long (is|was) the whole way?", "a+b+c"},
    {"from the farm to the mill it (is|was) {ao}, and from the mill on to the town {b}. How far (is|was) it "
     "from the farm to the town by way of the mill?",
     "a+b"},
    {"from the farm to the town it (is|was) {ao}. The mill (is|was) on the way, {b} from the farm. How far "
     "(is|was) it from the mill to the town?",
     "a-b!"},
    {"a road (should|should) be {ao} long. So far {bo} (are|were) built. How many {os} (are|were) missing?",
     "a-b*!"},
    {"{N} <goes|went> {ao} forward and {b} back. How far from the start <is|was> {he} then?", "a-b!"},
    {"a car (goes|went) {ao}, then {b} more, and (stops|stopped) {c} before the town. How far (is|was) the "
     "town from the start?",
     "a+b+c"},
    {"{N} <throws|threw> a ball {ao} far. The next time it (flies|flew) {b} {ob} ~+farther-less far~. How "
     "far (does|did) it fly the second time?",
     "a?b!"},
    {"on Monday {N} <runs|ran> {ao}, on Tuesday {b} ~+more-less/fewer~ than on Monday. How many {os} "
     "<does|did> {he} run on Tuesday?",
     "a?b!"},
    {"after {bo} of a trip of {a}, {N} <has|had> a rest. How many {os} (are|were) still ahead?", "a-b!"},
    {"{N} wanted to go {ao} but turned back {b} {ob} too early. How far did {he} go?", "a-b!"},
    {"{N} <has|had> gone {ao} by bike, and {b} {ob} (remain|remained). How long (is|was) the whole way?",
     "a+b*"},
    {"the counter of a ~car/bike/bus~ showed {bo} in the morning and {a} at night. How far did it go that "
     "day?",
     "a-b!"},
    {"a ~train/ship/plane~ with {z} people on board (covers|covered) {ao} and then {b} more. How many {os} "
     "(is|was) that?",
     "a+b"},
});

inline constexpr auto kLengthsNouns =
    std::to_array<std::string_view>({"centimeter", "meter", "inch|inches", "cm|cm"});
inline constexpr auto kSizesRows = std::to_array<QuestionShape>({
    {"a ~rope/ribbon/board/stick~ of {ao} (is|was) cut in two. One piece (is|was) {b} long. How long "
     "(is|was) the other piece?",
     "a-b*!"},
    {"a rope of {ao} and a rope of {b} lie in one line. How long are they together?", "a+b"},
    {"a candle of {ao} (burns|burned) down by {b}. How tall (is|was) it (now|then)?", "a-b!"},
    {"a tree was {bo} tall last year. Now it is {a}. How much did it grow?", "a-b!"},
    {"a ~tower/house/castle~ of {ao} (gets|got) a roof of {b}. How high (is|was) it with the roof?", "a+b"},
    {"the snow (is|was) {ao} deep. Then {b} {ob} ~+more (fall|fell)-(melt|melted)~. How deep (is|was) the "
     "snow (now|then)?",
     "a?b*!"},
    {"the water in the ~river/well/canal~ (is|was) {ao} deep. It ~+(rises|rose)-(sinks|sank)/(falls|fell)~ "
     "by {b}. How deep (is|was) it (now|then)?",
     "a?b!"},
    {"a ~snail/beetle/worm~ (climbs|climbed) {ao} up a wall and (slides|slid) back {b}. How high (is|was) it "
     "then?",
     "a-b!"},
    {"{N} <is|was> {bo} tall. How many {os} must {he} grow to be {a} tall?", "a-b!^"},
    {"a table (is|was) {ao} long. Pulled out, it (is|was) {b} {ob} longer. How long (is|was) it then?",
     "a+b"},
    {"a diver (is|was) {ao} under water and (goes|went) ~+down-up~ {b} {ob} ~more/further~. How deep "
     "(is|was) the diver (now|then)?",
     "a?b!"},
    {"a balloon (floats|floated) {ao} above the ground. It "
     "~+(rises|rose)/(climbs|climbed)-(sinks|sank)/(drops|dropped)~ {b}. How high (is|was) it (now|then)?",
     "a?b!"},
    {"trousers of {ao} (are|were) made {b} {ob} ~+longer-shorter~. How long (are|were) they (now|then)?",
     "a?b!"},
    {"a pile of ~books/boxes/bricks~ (is|was) {ao} high. With {b} {ob} ~+more-less~, how high would it be?",
     "a?b!"},
    {"{N} <needs|needed> {ao} of cloth and <has|had> {b}. How much <does|did> {he} still need?", "a-b!"},
    {"{ao} of wire, {b} ~used/cut off~. How much is left?", "a-b"},
    {"three boards: {ao}, {b} and {c}. How long are they in one line?", "a+b+c"},
    {"the ~kite/bird/plane~ (is|was) {ao} above a hill that (is|was) {b} {ob} high. How high (is|was) it "
     "above the ground?",
     "a+b"},
});

inline constexpr auto kWeightsNouns =
    std::to_array<std::string_view>({"kilogram", "pound", "kilo", "kg|kg", "gram"});
inline constexpr auto kLoadsRows = std::to_array<QuestionShape>({
    {"a bag (weighs|weighed) {ao} with the ~books/stones/apples~ and {b} without them. What (do|did) they "
     "weigh?",
     "a-b!"},
    {"a dog of {ao} and a cat of {b} (sit|sat) on a scale. What (does|did) it show?", "a+b"},
    {"{N} (weighs|weighed) {ao} before the ~summer/holidays/winter~ and {b} {ob} ~+more-less~ after. What "
     "(does|did) {he} weigh after?",
     "a?b!^"},
    {"a ~truck/cart/boat~ (carries|carried) {ao} of ~sand/coal/salt~. Then {b} ([b:are|is]|[b:were|was]) "
     "~+loaded on top-unloaded/taken off~. How much (does|did) it carry (now|then)?",
     "a?b"},
    {"a pumpkin (weighs|weighed) {ao}, a melon {b}. How much ~heavier (is|was) the pumpkin/lighter (is|was) "
     "the melon~?",
     "a-b!"},
    {"{N} <needs|needed> {ao} of flour and <has|had> {b}. ~how much (is|was) missing/how much more "
     "<does|did> {he} need~?",
     "a-b!"},
    {"{N} <mixes|mixed> {ao} of ~rice/sand/sugar~ with {b} of ~beans/salt/flour~. What (is|was) the weight "
     "of both?",
     "a+b"},
    {"a ~pig/calf/puppy~ of {ao} ~+(gains|gained)/(puts|put) on-(loses|lost)~ {b}. What (does|did) it weigh "
     "(now|then)?",
     "a?b!"},
    {"two boxes weigh {ao} together. One of them weighs {b}. How heavy is the other?", "a-b!*"},
    {"of {ao} of ~coal/hay/corn~, {b} ([b:are|is]|[b:were|was]) used in May and {c} in June. How much "
     "(is|was) left?",
     "a-b-c"},
});

inline constexpr auto kVolumesNouns =
    std::to_array<std::string_view>({"liter", "gallon", "cup", "bucket", "glass|glasses"});
inline constexpr auto kLiquidsRows = std::to_array<QuestionShape>({
    {"a ~tank/pot/barrel~ (holds|held) at most {ao}. There ([b:are|is]|[b:were|was]) {b} in it. How much "
     "more can be poured in?",
     "a-b"},
    {"from a barrel of {ao}, {b} ([b:are|is]|[b:were|was]) sold, and {c} more ([c:leak|leaks]|leaked) out. "
     "How much (is|was) left?",
     "a-b-c"},
    {"{ao} of ~water/milk/juice~, {b} ~+poured in/added-spilled/drunk/used~. How much now?", "a?b"},
    {"{N} <drinks|drank> {ao} of ~water/milk/tea~ in the morning and {b} at night. How much (is|was) that?",
     "a+b"},
    {"a cow (gives|gave) {ao} of milk in the morning and {b} {ob} ~+more-less~ in the evening than in the "
     "morning. How much milk (does|did) it give in the evening?",
     "a?b!"},
    {"{N} <mixes|mixed> {ao} of red paint with {b} of white paint. How much paint <does|did> {he} get?",
     "a+b"},
    {"the tank of a ~car/boat/truck~ (has|had) {ao} in it. {N} ~+<fills|filled> in {b} more-<uses|used> "
     "{b}~. How many {os} (are|were) in it (now|then)?",
     "a?b"},
    {"overnight {b} of {ao} ([b:run|runs]|ran) out of a tank. How many {os} (are|were) in it in the morning?",
     "a-b*"},
});

inline constexpr auto kHeatsRows = std::to_array<QuestionShape>({
    {"at noon it (is|was) {ao}, in the evening {b} {ob} ~+warmer-colder/cooler~. How warm (is|was) it in the "
     "evening?",
     "a?b", 60},
    {"{ao} in the morning, {b} ~+more-less~ at noon. How warm (is|was) it at noon?", "a?b", 60},
    {"yesterday it was {ao}, today it is {b}. By how many {os} did it get colder?", "a-b!", 60},
    {"yesterday it was {bo}, today it is {a}. By how many {os} did it get warmer?", "a-b!", 60},
    {"a bath should have {ao} but (has|had) only {b}. By how many {os} must it get warmer?", "a-b!", 60},
    {"the thermometer ~+(climbs|climbed)/(rises|rose)-(falls|fell)/(drops|dropped)~ from {ao} by {b}. What "
     "(does|did) it show (now|then)?",
     "a?b"},
    {"what (is|was) the temperature of a room with {ao} after it ~+(rises|rose)-(falls|fell)~ by {b}?",
     "a?b"},
    {"the soup had {ao} and cooled down to {b}. How many {os} is that less?", "a-b!"},
    {"in the cellar it (is|was) {b} {ob} colder than in the kitchen, where it (is|was) {ao}. How warm "
     "(is|was) it in the cellar?",
     "a-b", 60},
    {"the weather report (says|said) {ao} for Monday and {b} {ob} ~+more-less~ for Tuesday. What (does|did) "
     "it say for Tuesday?",
     "a?b", 60},
});

inline constexpr auto kSpansNouns = std::to_array<std::string_view>({"minute", "hour", "minute", "second"});
inline constexpr auto kTimesRows = std::to_array<QuestionShape>({
    {"a ~movie/show/game~ of {ao} has been on for {b}. How long until the end?", "a-b"},
    {"{N} <needs|needed> {ao} for the ~homework/garden~ and {b} for the ~dishes/windows~. How long "
     "<does|did> {he} need for both?",
     "a+b"},
    {"the ~soup/meat/rice~ must cook for {ao}. It has cooked for {b} already. How long must it still cook?",
     "a-b"},
    {"the train (takes|took) {ao}, the car {b} {ob} ~+longer-less~. How long (does|did) the car take?",
     "a?b!"},
    {"a ~trip/race/meeting~ was planned for {ao} but took {b} {ob} ~+longer-less~. How long did it take?",
     "a?b!"},
    {"a lesson (lasts|lasted) {ao} with a break of {b}. How long (is|was) it without the break?", "a-b!"},
    {"{N} <walks|walked> for {ao}, <rests|rested> for {b} and <walks|walked> on for {c}. How long (is|was) "
     "that ~altogether/in all~?",
     "a+b+c"},
    {"{N} <waits|waited> {ao} for the bus, which should have come after {b}. How late (is|was) the bus?",
     "a-b!"},
    {"of the {ao} that {N} <has|had> for a test, {b} ([b:are|is]|[b:were|was]) over. How much time (is|was) "
     "left?",
     "a-b*"},
    {"the cake (is|was) in the oven for {bo}. It needs {ao} in all. How much longer must it bake?", "a-b!"},
    {"the first part (lasts|lasted) {ao} and the second {b} {ob} ~+more-less~. How long (does|did) the "
     "second part last?",
     "a?b!"},
});

inline constexpr auto kReadingsRows = std::to_array<QuestionShape>({
    {"a book has {ao}. {N} <has|had> read to page {b}. How many {os} (are|were) left?", "a-b"},
    {"{N} <has|had> {b} of the {ao} of a ~book/comic/story~ left to read. How many {os} <has|had> {he} read?",
     "a-b*!"},
    {"{N} <is|was> on page {a} and <turns|turned> ~+on-back~ by {b} {ob}. On which page <is|was> {he} then?",
     "a?b!"},
    {"on the first day {N} <reads|read> {ao}, on the second {b} ~+more-fewer~ than on the first. How many "
     "<does|did> {he} read on the second day?",
     "a?b!"},
    {"a book of {ao}: {b} read on Monday, {c} on Tuesday, the rest on Wednesday. How many {os} on Wednesday?",
     "a-b-c!"},
    {"{N} <wants|wanted> to write {ao}. {b} ([b:are|is]|[b:were|was]) done. How many more must {he} write?",
     "a-b!^"},
    {"{a} {oa} of a notebook (are|were) empty, {b} (are|were) full. How many {os} (does|did) it have?",
     "a+b*"},
    {"{N} <tears|tore> {b} {ob} out of a notebook with {a}. How many {os} (does|did) it have (now|then)?",
     "a-b!"},
    {"{N's} story (has|had) {ao}, and {x} (writes|wrote) {b} more. How long (is|was) the story (now|then)?",
     "a+b"},
});

inline constexpr auto kLevelsRows = std::to_array<QuestionShape>({
    {"{N} <lives|lived> on floor {a}. {B} (lives|lived) {b} {ob} ~+higher/above {him}-lower/below {him}~. On "
     "which floor (does|did) {B} live?",
     "a?b!", 60},
    {"a lift (goes|went) from floor {b} up to floor {a}. How many {os} (is|was) that?", "a-b!", 60},
    {"a lift (goes|went) from floor {a} down to floor {b}. How many {os} (is|was) that?", "a-b!", 60},
    {"{N} <is|was> on floor {a} and <takes|took> the stairs {b} {ob} ~+up-down~. Where <is|was> {he} then?",
     "a?b!", 60},
    {"a house (has|had) {ao}. {b} more (are|were) built on top. How many {os} (does|did) it have (now|then)?",
     "a+b*"},
    {"the lift (starts|started) on floor {a}, (goes|went) ~+up-down~ {b} and then ~+up-down~ {c}. On which "
     "floor (is|was) it?",
     "a?b?c!", 90},
    {"{N} <stands|stood> on step {a} of a ladder and <climbs|climbed> {b} steps ~+higher/up-lower/down~. On "
     "which step <is|was> {he} (now|then)?",
     "a?b*!", 90},
});

inline constexpr auto kChargesRows = std::to_array<QuestionShape>({
    {"a ~phone/robot/tablet/camera~ (shows|showed) {a} percent. After ~+charging, it has {b} percent more-a "
     "long game, it has {b} percent less~. What does it show then?",
     "a?b!", 98},
    {"the battery of a ~phone/car/toy~ went from {a} to {b} percent. How many percent were used?", "a-b!",
     98},
    {"the battery of a ~phone/car/toy~ went from {b} to {a} percent. How many percent were charged?", "a-b!",
     98},
    {"a download (is|was) at {a} percent and (moves|moved) on by {b} percent. At how many percent (is|was) "
     "it (now|then)?",
     "a+b", 98},
    {"{N's} phone (is|was) at {a} percent. A movie (uses|used) {b} percent and a call {c}. How many percent "
     "(are|were) left?",
     "a-b-c", 98},
    {"a ~tank/barrel/pool~ (is|was) {a} percent full. It (gets|got) {b} percent ~+fuller-emptier~. How full "
     "(is|was) it (now|then)?",
     "a?b!", 98},
    {"{a} percent of the work (are|were) done in the morning and {b} percent in the afternoon. How many "
     "percent (is|was) that?",
     "a+b*", 98},
});

inline constexpr auto kAgesRows = std::to_array<QuestionShape>({
    {"in {bo}, {N} will be {a} years old. How old <is|is> {he} ~now/today~?", "a-b*!^"},
    {"{b} {ob} ago {N} was {a} years old. How old is {he} ~now/today~?", "a+b*^", 95},
    {"{N} was {a} when {his} family moved. That was {b} {ob} ago. How old is {he} ~now/today~?", "a+b*^", 95},
    {"when {N} was born, {his} ~sister/brother/cousin~ was {b} years old. Now {N} is {a}, and how old is "
     "that other child?",
     "a+b*^", 80},
    {"a ~house/tree/town/bridge~ is {a} years old. How old ~+will it be in {b} {ob}-was it {b} {ob} ago~?",
     "a?b*!"},
    {"a tree was planted {ao} ago and a bush {b} {ob} later. How old is the bush?", "a-b*!"},
    {"a ~car/clock/ship~ was {bo} old when {N} bought it. Now it is {a}. For how many years <has|has> {he} "
     "had it?",
     "a-b*!"},
    {"how many {os} are there from {N's} birthday number {b} to {his} birthday number {a}?", "a-b*!^"},
    {"{N} wants to be a ~pilot/captain/nurse~ at {a}. {he} <is|is> {b} now. How many {os} must {he} wait?",
     "a-b*!^"},
});

inline constexpr auto kScoresRows = std::to_array<QuestionShape>({
    {"{N} <has|had> {ao} from the first ~game/round~ and {b} from the second. How many {os} (is|was) that "
     "~in all/together~?",
     "a+b"},
    {"a game (ends|ended) {a} to {b}. How many {os} (are|were) there in all?", "a+b"},
    {"a game (ends|ended) {a} to {b}. By how many {os} (does|did) the better team win?", "a-b!"},
    {"the record (is|was) {ao}. {N} <has|had> {b}. How many {os} (are|were) missing to the record?", "a-b!"},
    {"{N} <has|had> {ao} and ~+<wins|won>/<scores|scored>/<gets|got>-<loses|lost>/<gives|gave> up~ {b}, then "
     "~+<wins|won>/<gets|got>-<loses|lost>~ {c}. What (is|was) {his} score (now|then)?",
     "a?b?c"},
    {"with {bo} already made, how many more <does|did> {N} need to reach {a}?", "a-b!"},
    {"the red team (has|had) {ao}, the blue team {b} ~+more-fewer~. How many {os} (does|did) the blue team "
     "have?",
     "a?b!"},
    {"player number {z} (makes|made) {ao}, and then {b} more. How many {os} (is|was) that?", "a+b"},
    {"{N} had {ao} before the last round and {b} after it. How many {os} did {he} lose in it?", "a-b!"},
    {"{N} had {bo} before the last round and {a} after it. How many {os} did {he} win in it?", "a-b!"},
});

inline constexpr auto kGamePointsNouns = std::to_array<std::string_view>({"point", "goal", "point"});

inline constexpr auto kMeasureThemes = std::to_array<ShapeTheme>({
    {QuestionForm::kStory, kWayUnitsNouns, kNone, kWaysRows},
    {QuestionForm::kStory, kLengthsNouns, kNone, kSizesRows},
    {QuestionForm::kStory, kWeightsNouns, kNone, kLoadsRows},
    {QuestionForm::kStory, kVolumesNouns, kNone, kLiquidsRows},
    {QuestionForm::kStory, kDegrees, kNone, kHeatsRows},
    {QuestionForm::kStory, kSpansNouns, kNone, kTimesRows},
    {QuestionForm::kStory, kPages, kNone, kReadingsRows},
    {QuestionForm::kStory, kFloors, kNone, kLevelsRows},
    {QuestionForm::kStory, kNone, kNone, kChargesRows},
    {QuestionForm::kStory, kYears, kNone, kAgesRows},
    {QuestionForm::kStory, kGamePointsNouns, kNone, kScoresRows},
});

}  // namespace lacuna
