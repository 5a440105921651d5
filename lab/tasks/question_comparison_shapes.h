// Questions that compare people and things, or add them up.
#pragma once

#include <array>

#include "tasks/question_shapes.h"
#include "tasks/question_themes.h"

namespace lacuna {

inline constexpr auto kPeopleAndThingsRows = std::to_array<QuestionShape>({
    // The same facts with one of two questions.
    {"{N} <has|had> {ao} and {B} {b}. ~+how many (do|did) they have together/how many {os} (is|was) that in "
     "all/what (is|was) their total-how many more (does|did) {N} have than {B}/how many more (does|did) {N} "
     "have/what (is|was) the difference/how many fewer (does|did) {B} have~?",
     "a?b!"},
    {"{N} <finds|found> {ao}, {B} {b}. ~+how many (do|did) they find together/how many {os} (do|did) both "
     "find in all-how many more (does|did) {N} find/how many fewer (does|did) {B} find~?",
     "a?b!"},
    {"while {N} <collects|collected> {ao}, {B} (collects|collected) {b}. ~+how many (is|was) that "
     "together/how many {os} (do|did) they collect in all-how many fewer (does|did) {B} collect/how many "
     "more (does|did) {N} collect~?",
     "a?b!"},
    {"{N}: {ao}. {B}: {b}. ~+sum/together/total/how many in all-difference/how many more for {N}/how many "
     "fewer for {B}~?",
     "a?b!"},
    {"{B} (has|had) {bo}, but {N} <has|had> {a}. ~+how many (is|was) that together/how many (do|did) both "
     "have-by how many (is|was) {N} ahead/how many more (does|did) {N} have~?",
     "a?b!"},
    {"{N} <sells|sold> {ao} and {B} {b}. ~+what (do|did) they sell in all/how many {os} (are|were) sold-how "
     "many more {os} (does|did) {N} sell than {B}~?",
     "a?b!"},
    {"{N} with {ao} and {B} with {b} ~+put all their {os} together. How many (are|were) there-compare. What "
     "(is|was) the difference~?",
     "a?b!"},
    {"with {ao}, {N} <has|had> ~more than/a lead over~ {B}, who (has|had) {b}. ~+how many (is|was) that "
     "together-how many more (is|was) that/how big (is|was) the difference~?",
     "a?b!"},
    {"the number of {os} that {N} <has|had> (is|was) {a}, and {B} (has|had) {b}. ~+how many (do|did) they "
     "have in all-who (has|had) more, and by how many~?",
     "a?b!"},
    {"let us count: {N} <has|had> {ao}, {B} (has|had) {b}. ~+what is the sum-what is the difference~?",
     "a?b!"},
    // More and fewer.
    {"{N} <has|had> {ao}, {B} {b} ~+more-fewer/less~. How many {os} (does|did) {B} have?", "a?b!"},
    {"{B} (has|had) {b} ~+more-fewer~ {os} than {N}, who <has|had> {a}. How many (does|did) {B} have?",
     "a?b!"},
    {"{N} <has|had> {ao}. That (is|was) {b} ~+fewer/less-more~ than {B} (has|had). How many (does|did) {B} "
     "have?",
     "a?b!"},
    {"{N} <has|had> {ao}, {b} ~+fewer-more~ than {B}. How many {os} (does|did) {B} have?", "a?b!"},
    {"if {B} (has|had) {b} ~+more-fewer~ than {N}, and {N} <has|had> {ao}, how many (has|had) {B}?", "a?b!"},
    {"how many {os} (does|did) {B} have with {b} ~+more-fewer~ than the {a} of {N}?", "a?b!"},
    {"{N} <makes|made> {ao}; {B} (makes|made) {b} ~+more-fewer~. How many {os} (does|did) {B} make?", "a?b!"},
    {"{N} <has|had> {ao}, {B} {b} ~+more-fewer~. How many {os} (do|did) they have together?", "a?b;a+R!"},
    {"{N} <picks|picked> {ao}. {B} (picks|picked) {b} ~+more-fewer~ than {N}. How many {os} (is|was) that in "
     "all?",
     "a?b;a+R!"},
    {"{B} (has|had) {b} ~+more-fewer~ than {N}, {C} {c} ~+more-fewer~ than {B}. {N} <has|had> {ao}. How many "
     "(does|did) {C} have?",
     "a?b?c!"},
    {"{N} <has|had> {ao}, {B} {b} ~+more-fewer~ than {N}, {C} {c} ~+more-fewer~ than {B}. How many "
     "(does|did) {C} have?",
     "a?b?c!"},
    {"{N} <has|had> {bo}, {B} {a}. How many fewer (does|did) {N} have?", "a-b!"},
    {"{N} <has|had> only {bo}. How many (is|was) {he} short of {B}, who (has|had) {a}?", "a-b!"},
    {"to have as many {os} as {B}, who (has|had) {a}, how many more <does|did> {N} need with {his} {b}?",
     "a-b!"},
    {"{N} <has|had> {bo} and {B} {a}. How many must {N} get to have as many as {B}?", "a-b!"},
    {"how many {os} more than {B}, who (has|had) {b}, <does|did> {N} have with {a}?", "a-b!"},
    // Two together.
    {"{N} and {B} (have|had) {a} and {b} {os}. How many (is|was) that ~together/in all~?", "a+b*"},
    {"{N} and {B} (have|had) {ao} together. {N} <has|had> {b} of them. How many (does|did) {B} have?",
     "a-b*!"},
    {"together {N} and {B} (find|found) {ao}. {B} (finds|found) {b}. How many <does|did> {N} find?", "a-b*!"},
    {"{N} and {B} (share|shared) {ao}. If {b} (are|were) for {B}, how many (are|were) for {N}?", "a-b*!"},
    {"neither {N} nor {B} had {os} at first. Then {N} got {a} and {B} got {b}. How many did they have "
     "together?",
     "a+b"},
    {"{N} <puts|put> {ao} into the box, {B} (adds|added) {b}, and {C} (takes|took) {c} out. {THERE}?",
     "a+b-c"},
    {"{N} <puts|put> {ao} into the box, and {B} and {C} (add|added) {b} and {c}. {THERE}?", "a+b+c"},
    {"{N}, {B} and {C} (have|had) {a}, {b} and {c} {os}. How many (is|was) that ~in all/together~?",
     "a+b+c*"},
    {"{N} <has|had> {ao}, {B} {b} and {C} {c}. How many (do|did) all three have?", "a+b+c"},
    {"{N} <has|had> {ao}, {B} {b} and {C} {c}. How many more (does|did) {N} have than {C}?", "a-c;&a+b!"},
    {"{N} <has|had> {ao}, {B} {b} and {C} {c}. How many (do|did) {N} and {C} have together?", "a+c;&a+b"},
    {"{N} <has|had> {ao} and {B} {b}. {C} (has|had) as many as both together. How many (does|did) {C} have?",
     "a+b"},
    {"{N} <has|had> {ao} and {B} {b}. {C} (has|had) {c} ~+more-fewer~ than both together. How many "
     "(does|did) {C} have?",
     "a+b?c!"},
    {"{N}, {B} and {C} (have|had) {ao} together: {N} {b}, {B} {c}, and {C} the rest. How many (does|did) {C} "
     "have?",
     "a-b-c*!"},
    {"{N} <has|had> {ao} and {B} twice as many. How many (does|did) {B} have?", "a+a"},
    {"{N} <has|had> {ao}, {B} twice as many. How many (do|did) both have together?", "a+a;a+R"},
    // From one to another.
    {"{N} <has|had> {ao}, {B} {b}. Then {N} <gives|gave> {c} to {B}. How many <does|did> {N} have then?",
     "a-c;&b+c*"},
    {"{N} <has|had> {ao}, {B} {b}. Then {N} <gives|gave> {c} to {B}. How many (does|did) {B} have then?",
     "b+c;&a-c*"},
    {"{B} (gives|gave) {N} {b} of {a} {os}. How many (does|did) {B} have left?", "a-b*"},
    {"{B} (gives|gave) {N} {bo}, and {he} already <has|had> {a}. How many <does|did> {N} have (now|then)?",
     "a+b"},
    {"{N} <gets|got> {ao} from {B} and <passes|passed> {b} of them on to {C}. How many <does|did> {N} keep?",
     "a-b*"},
    {"{N} won {bo} from {B}, who had {a} before. How many did {B} have left?", "a-b*"},
    {"{N} <has|had> {ao}. {B} (borrows|borrowed) {b} and (brings|brought) back {c}. How many <does|did> {N} "
     "have then?",
     "a-b+c;&b-c*"},
});

inline constexpr auto kTwoBoxesRows = std::to_array<QuestionShape>({
    {"the red ~box/bag/jar~ (holds|held) {ao}, the blue one {b} ~+more-fewer~. How many {os} (are|were) in "
     "the blue one?",
     "a?b!"},
    {"one box (holds|held) {ao}, the other {b}. ~+how many {os} (are|were) in both/how many {os} (is|was) "
     "that together-how many more (are|were) in the first/what (is|was) the difference~?",
     "a?b!"},
    {"on the table there ([a:are|is]|[a:were|was]) {ao}, on the floor {b} ~+more-fewer~ than on the table. "
     "How many (are|were) on the floor?",
     "a?b!"},
    {"there are {ao} and {bq}. ~+how many things are there-how many more {os} than {qs} are there/how many "
     "fewer {qs} are there~?",
     "a?b*!"},
    {"there are {b} ~+more-fewer~ {qs} than {os}. There are {ao}. How many {qs} are there?", "a?b*!"},
    {"a shop sold {ao} today and {b} yesterday. ~+how many on both days-how many more today/how many fewer "
     "yesterday~?",
     "a?b!"},
    {"this week {ao}, last week {b}. ~+how many {os} in both weeks-how many more this week~?", "a?b!"},
    {"in class one there ([a:are|is]|[a:were|was]) {ao}, in class two {b} ~+more-fewer~ than in class one. "
     "How many in class two?",
     "a?b!"},
    {"how many {os} must be moved away from {a} to leave {b}?", "a-b*!"},
    {"a large box has {ao}, and a small box has {b} fewer. How many {os} do both boxes have?", "a-b;a+R!"},
});

// Measures of two people or things.
inline constexpr auto kMeasuresRows = std::to_array<QuestionShape>({
    {"{N} (is|was) {a} years old, {B} {b} years ~+older-younger~. How old (is|was) {B}?", "a?b*!", 90},
    {"{N} is {a} years old and {B} is {b}. ~+how old are they together/what is the sum of their ages-how "
     "much older is {N}/how many years younger is {B}~?",
     "a?b*!"},
    {"{N} is {b} years ~+younger-older~ than {B}. {N} is {a}. How old is {B}?", "a?b*!", 90},
    {"{N} is {a}. {B} is {b} years ~+older-younger~ than {N}, and {C} is {c} years ~+older-younger~ than "
     "{B}. How old is {C}?",
     "a?b?c*!", 90},
    {"at {a}, {N} is {b} years ~+younger-older~ than {his} ~sister/brother/cousin~. How old is that "
     "~child/person~?",
     "a?b*!^", 90},
    {"{N} <runs|ran> {a} ~meters/miles/kilometers~, {B} {b} ~+more/farther-less~. How far (does|did) {B} "
     "run?",
     "a?b*!"},
    {"{N} <runs|ran> {a} ~meters/miles/kilometers~ and {B} {b}. ~+how far (do|did) they run together-how "
     "much farther (does|did) {N} run/how much less (does|did) {B} run~?",
     "a?b*!"},
    {"{N} <jumps|jumped> {a} inches high, {B} {b}. How many inches higher (does|did) {N} jump?", "a-b*!"},
    {"the dog of {N} weighs {a} ~kilograms/pounds~, that of {B} {b}. ~+what do both weigh together-how much "
     "heavier is the dog of {N}/how much lighter is the dog of {B}~?",
     "a?b*!"},
    {"a ~goat/sheep/box~ (weighs|weighed) {a} ~kilograms/pounds~, a ~pig/calf/bag~ {b} ~+more-less~. What "
     "(does|did) the second one weigh?",
     "a?b*!"},
    {"a chair is {a} centimeters high, a table {b} centimeters ~+higher-lower~. How high is the table?",
     "a?b*!"},
    {"the tower (is|was) {a} meters high, the tree next to it {b} meters ~+higher-lower/less~. How high "
     "(is|was) the tree?",
     "a?b*!"},
    {"the tower is {a} meters high, the tree {b}. ~how much higher is the tower/how much lower is the "
     "tree/by how many meters is the tower higher~?",
     "a-b*!"},
    {"one river is {a} miles long, another {b}. How much longer is the first?", "a-b*!"},
    {"the north had {a} degrees, the south {b} degrees ~+more-less~. How many degrees did the south have?",
     "a?b*!", 60},
    {"in one town it is {a} degrees, in another {b}. How much warmer is it in the first?", "a-b*!", 60},
    {"the ~ball/book/hat~ of {N} (costs|cost) {a} ~dollars/euros~, that of {B} {b} ~+more-less~. What "
     "(does|did) that of {B} cost?",
     "a?b*!"},
    {"a bike (costs|cost) {a} ~dollars/euros~, a scooter {b}. ~+what (do|did) both cost-how much cheaper "
     "(is|was) the scooter/how much more (does|did) the bike cost~?",
     "a?b*!"},
    {"{N} <scores|scored> {a} points, {B} {b}. ~+how many points (is|was) that together-by how many points "
     "(does|did) {N} win/how many points behind (is|was) {B}~?",
     "a?b*!"},
    {"{N} <reads|read> {a} pages, {B} {b}. ~+how many pages (is|was) that in all-how many more pages "
     "(does|did) {N} read~?",
     "a?b*!"},
    {"{N} <reads|read> {a} pages, {B} {b} ~+more-fewer~. How many pages (does|did) {B} read?", "a?b*!"},
    {"{N} <needs|needed> {a} minutes for the way, {B} {b} minutes ~+more/longer-less~. How long (does|did) "
     "{B} need?",
     "a?b*!"},
    {"{N} <needs|needed> {a} minutes and {B} {b}. How many minutes ~faster (is|was) {B}/longer (does|did) "
     "{N} need~?",
     "a-b*!"},
    {"{N} <has|had> {a} ~dollars/euros/cents~, {B} {b} ~+more-less~. How much money (does|did) {B} have?",
     "a?b*!"},
    {"{N} <has|had> {a} ~dollars/euros/cents~ and {B} {b}. ~+how much (is|was) that together-how much more "
     "(does|did) {N} have~?",
     "a?b*!"},
    {"a red rope is {a} meters long, a blue rope {b} meters ~+longer-shorter~. How long is the blue rope?",
     "a?b*!"},
    {"{N} lives on floor {a}, {B} on floor {b}. How many floors higher does {N} live?", "a-b*!", 60},
    {"a jug holds {a} cups, a pot {b} cups ~+more-less~. How many cups does the pot hold?", "a?b*!"},
    {"one bus has {a} seats, the other {b}. ~+how many seats have both-how many more seats has the first~?",
     "a?b*!"},
    {"the first class has {a} children, the second {b}. ~+how many children are in both classes-how many "
     "fewer children are in the second/how many more are in the first~?",
     "a?b*!"},
    {"a phone is at {a} percent and a robot at {b}. How many percent more has the phone?", "a-b*!", 98},
});

inline constexpr auto kComparisonThemes = std::to_array<ShapeTheme>({
    {QuestionForm::kComparison, kGoods, kNone, kPeopleAndThingsRows},
    {QuestionForm::kComparison, kFoods, kNone, kPeopleAndThingsRows},
    {QuestionForm::kComparison, kGoods, kNone, kTwoBoxesRows},
    {QuestionForm::kComparison, kNone, kNone, kMeasuresRows},
});

}  // namespace lacuna
