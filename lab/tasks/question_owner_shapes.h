// Questions about things that have parts: houses, albums, games, teams, machines, ships.
#pragma once

#include <array>

#include "tasks/question_shapes.h"
#include "tasks/question_themes.h"

namespace lacuna {

inline constexpr auto kOwnerRows = std::to_array<QuestionShape>({
    {"a ~house/castle/school~ (has|had) {a} windows. {b} ~+new ones (are|were) put in-of them (are|were) "
     "closed up~. How many windows (does|did) it have (now|then)?",
     "a?b*"},
    {"a ~necklace/crown/belt~ (has|had) {a} ~beads/stones/pearls~. {b} ~+more (are|were) added-(fall|fell) "
     "off~. How many (are|were) on it (now|then)?",
     "a?b*"},
    {"a ~wall/tower~ of {a} bricks ~+(gets|got) {b} more-(loses|lost) {b}~. How many bricks (does|did) it "
     "have (now|then)?",
     "a?b*"},
    {"a ~fence/ladder/bridge~ (has|had) {a} boards, and {b} of them (are|were) broken. How many (are|were) "
     "whole?",
     "a-b*"},
    {"a ~piano/computer/machine~ (has|had) {a} keys, {b} of which (do|did) not work. How many keys "
     "(work|worked)?",
     "a-b*"},
    {"an album (has|had) room for {a} photos and already (holds|held) {b}. How many more can be put in?",
     "a-b*"},
    {"a ~song/poem/list~ (has|had) {a} lines. {b} (are|were) ~+added-crossed out/taken out~. How many lines "
     "(does|did) it have (now|then)?",
     "a?b*"},
    {"a calendar (has|had) {a} doors. {b} (are|were) open. How many (are|were) still closed?", "a-b*!"},
    {"a puzzle (has|had) {a} pieces. {b} (are|were) ~in place/missing/turned over~. How many (are|were) not?",
     "a-b*"},
    {"a clock (strikes|struck) {a} times in the morning and {b} times in the evening. How many times "
     "(is|was) that?",
     "a+b*"},
    {"a ~robot/printer/machine~ (prints|printed) {a} sheets in the morning and {b} ~+more-fewer~ in the "
     "afternoon than in the morning. How many (does|did) it print in the afternoon?",
     "a?b*!"},
    {"a ~spider/dragon/cat~ (catches|caught) {a} flies and (lets|let) {b} of them go. How many (does|did) it "
     "keep?",
     "a-b*"},
    {"a ~phone/camera/computer~ (has|had) {a} ~photos/songs/messages~ on it. {b} (are|were) ~+added/saved "
     "too-deleted/lost~. How many (are|were) on it (now|then)?",
     "a?b*"},
    {"a ~ship/plane/truck~ (carries|carried) {a} boxes. {b} (are|were) full, the others (are|were) empty. "
     "How many (are|were) empty?",
     "a-b*!"},
    {"a ~string/chain/rope~ (has|had) {a} ~lamps/flags/rings~. {b} (are|were) green and all others white. "
     "How many (are|were) white?",
     "a-b*!"},
    {"a bookcase (has|had) {a} books on the upper shelf, {b} on the middle one and {c} on the lower one. How "
     "many books (does|did) it hold?",
     "a+b+c*"},
    {"a ~theater/cinema/zoo~ (sells|sold) {a} tickets at the door and {b} by phone. How many tickets "
     "(is|was) that?",
     "a+b*"},
    {"{a} ants (carry|carried) a leaf. {b} ~+more (come|came) to help-(get|got) tired and (stop|stopped)~. "
     "How many ants (carry|carried) it (now|then)?",
     "a?b*"},
    {"a boat (makes|made) {a} trips in May and {b} ~+more-fewer~ in June than in May. How many trips "
     "(does|did) it make in June?",
     "a?b*!"},
    {"on a cake there (are|were) {a} candles. {b} of them (go|went) out. How many still (burn|burned)?",
     "a-b*"},
    {"a newspaper (has|had) {a} pages, {b} of them with photos. How many pages (have|had) no photos?",
     "a-b*"},
    {"at the red light {a} cars (wait|waited). {b} ~+more (come|came) up behind them-(turn|turned) back and "
     "(leave|left)~. How many cars (wait|waited) (now|then)?",
     "a?b*"},
    {"a game (has|had) {a} cards. {b} (lie|lay) on the table, and the players (hold|held) the rest. How many "
     "(do|did) they hold?",
     "a-b*!"},
    {"a chest of {a} gold coins (is|was) dropped, and {b} coins (roll|rolled) away. How many (stay|stayed) "
     "in it?",
     "a-b*"},
    {"a show (has|had) {a} actors. {b} (fall|fell) ill, and {c} others (come|came) for them. How many actors "
     "(are|were) there (now|then)?",
     "a-b+c*"},
    {"a cart (loses|lost) {b} of its {a} sacks on the road. With how many (does|did) it arrive?", "a-b*"},
    {"a team won {a} games, lost {b} and played no others. How many games did it play?", "a+b*"},
    {"of {a} games, a team won {b} and lost {c}. In the others nobody won. How many were these?", "a-b-c*"},
    {"{a} days were rainy, the other {b} days were dry. How many days were there ~in all/altogether~?",
     "a+b*"},
    {"a year ago a club had {b} members, and now it has {a}. By how many did it grow?", "a-b*!"},
    {"a year ago a club had {a} members, and now it has {b}. By how many did it shrink?", "a-b*!"},
    {"a museum (shows|showed) {a} paintings, of which {b} (are|were) old. How many (are|were) not old?",
     "a-b*"},
    {"a keeper (has|had) {a} ~bananas/carrots/apples~ for the monkeys, who (eat|ate) {b}. How many "
     "(are|were) left?",
     "a-b*"},
    {"{a} people (are|were) on a tram: {b} (sit|sat), the others (stand|stood). How many (stand|stood)?",
     "a-b*!"},
    {"{b} balloons burst, so that {a} were left. How many had there been?", "a+b*"},
    {"a worker used {b} bricks for a wall, and {a} bricks are left. How many were there at first?", "a+b*"},
    {"how many candles must be lit to have {a} burning, if {b} burn already?", "a-b*!"},
    {"a coat with {a} buttons (loses|lost) {b} of them, but {c} of those (are|were) found and put back. How "
     "many buttons (does|did) it have (now|then)?",
     "a-b+c;&b-c*"},
    {"a pack of {a} cards should have {b} cards ~+more-fewer~. How many should it have?", "a?b*!"},
    {"a train (has|had) {a} cars. At a station {b} (are|were) ~+added-taken off~. How long (is|was) the "
     "train (now|then), counted in cars?",
     "a?b*"},
    {"a bus line (has|had) {a} stops. The bus (has|had) passed {b}. How many stops (are|were) still to come?",
     "a-b*"},
    {"a garden (has|had) {a} beds with flowers and {b} with beans. How many beds (does|did) it have?",
     "a+b*"},
    {"the first bell (rings|rang) {a} times, the second {b} times ~+more-less~. How many times (does|did) "
     "the second ring?",
     "a?b*!"},
    {"in a town with {a} bridges, {b} (are|were) closed, {c} of these for a year. How many (are|were) open?",
     "a-b;&b-c*"},
    {"a library (lends|lent) out {a} books on Monday. {b} (come|came) back on Tuesday. How many of these "
     "(are|were) still out?",
     "a-b*"},
});

inline constexpr auto kOwnerThemes =
    std::to_array<ShapeTheme>({{QuestionForm::kStory, kNone, kNone, kOwnerRows}});

}  // namespace lacuna
