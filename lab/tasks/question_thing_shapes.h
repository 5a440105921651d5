// Questions about things that people have, about food and about money.
#pragma once

#include <array>

#include "tasks/question_shapes.h"
#include "tasks/question_themes.h"

namespace lacuna {

inline constexpr auto kThingsRows = std::to_array<QuestionShape>({
    // Groups of one whole.
    {"{N} <has|had> {ao} in one box and {b} in ~another/a second one/the other~. {ALL}?", "a+b"},
    {"{ao} in a red box, {b} in a blue one. ~how many {os} in all/how many together/how many is that~?",
     "a+b"},
    {"{N} <keeps|kept> {ao} at school and {b} at home. How many {os} <does|did> {he} have ~altogether/in "
     "all~?",
     "a+b"},
    {"{N} <carries|carried> {ao} in {his} left hand and {b} in {his} right. {ALL}?", "a+b"},
    {"{N} <counts|counted> {his} {os}. In the ~first/upper/big~ drawer there ([a:are|is]|[a:were|was]) {a}, "
     "in the ~second/lower/small~ one {b}. {ALL}?",
     "a+b"},
    {"how many {os} <does|did> {N} have if {he} <has|had> {a} in {his} bag and {b} in {his} "
     "~pocket/room/desk~?",
     "a+b"},
    {"on the ~table/desk/shelf~ there ([a:are|is]|[a:were|was]) {ao}, under it {b}. How many {os} in all?",
     "a+b"},
    {"{N} <has|had> {ao} and {bq}. How many things (is|was) that ~together/in all/altogether~?", "a+b"},
    {"{N} <puts|put> {ao} and {bq} into a bag. How many things (are|were) in the bag?", "a+b"},
    {"{N} <buys|bought> {ao}, {bq} and nothing else. How many things <does|did> {he} buy?", "a+b"},
    {"{N} <has|had> {a} {color} {oa} and {b} others. {ALL}?", "a+b*"},
    {"{N} <gets|got> {ao} from {x} and {b} from {B}. How many <does|did> {he} get ~in all/together/in "
     "total~?",
     "a+b"},
    {"on Monday {N} <makes|made> {ao}, on Tuesday {b} and on Wednesday {c}. How many (is|was) that ~in three "
     "days/in all/altogether~?",
     "a+b+c"},
    {"monday: {ao}. Tuesday: {b}. Wednesday: {c}. ~total/how many in all/sum~?", "a+b+c"},
    {"{N} <finds|found> {ao} in May, {b} in June and ~none/not one~ in July. How many {os} <does|did> {he} "
     "find?",
     "a+b"},
    {"one ~box/bag/drawer~ (holds|held) {ao}, the next {b}, and the last {c}. {ALL}?", "a+b+c"},
    {"{a} here, {b} there: how many {os} ~are there/is that/do we have~?", "a+b"},
    {"besides {his} {ao}, {N} <owns|owned> {bq}. How many things <does|did> {he} own?", "a+b"},
    {"there ([a:are|is]|[a:were|was]) {ao} in {N's} bag, as well as {bq}. How many things (are|were) in it?",
     "a+b"},
    // Parts.
    {"{N} <has|had> {ao}, of which {b} ([b:are|is]|[b:were|was]) broken. How many (are|were) ~not "
     "broken/whole~?",
     "a-b"},
    {"of the {ao} that {N} <has|had>, {b} ([b:are|is]|[b:were|was]) {color}. How many (are|were) not "
     "{color}?",
     "a-b*!"},
    {"{N} <has|had> {ao}: {b} red, {c} blue and the rest green. How many ~(are|were) green/green ones "
     "<does|did> {he} have~?",
     "a-b-c*!"},
    {"all of {N's} {ao} except {b} (are|were) new. How many (are|were) new?", "a-b*!"},
    {"{N} <sorts|sorted> {ao} into two boxes. {b} ([b:go|goes]|went) into the first. How many (go|went) into "
     "the ~second/other~?",
     "a-b*!"},
    {"{N} <packs|packed> {ao} into three bags: {b} into the first, {c} into the second, the ~rest/others~ "
     "into the third. How many (are|were) in the third?",
     "a-b-c*!"},
    {"two bags (hold|held) {ao} together. In one of them there ([b:are|is]|[b:were|was]) {b}. How many "
     "(are|were) in the other?",
     "a-b*!"},
    {"{N} <keeps|kept> {b} of {his} {ao} and <gives|gave> the ~rest/others~ to {B}. How many {os} (does|did) "
     "{B} get?",
     "a-b*!"},
    {"{N} and {B} (share|shared) {ao}. {N} <takes|took> {b}, and {B} (gets|got) the rest. How many "
     "(does|did) {B} get?",
     "a-b*!"},
    {"out of {ao}, {b} ([b:belong|belongs]|belonged) to {x} and all others to {N}. How many "
     "(belong|belonged) to {N}?",
     "a-b*!"},
    {"{N} <has|had> {ao}. Without the {b} that ([b:are|is]|[b:were|was]) broken, how many (are|were) there?",
     "a-b"},
    // Changes in one sentence.
    {"{ao}, ~+{b} more bought/{b} more found/{b} more from a friend-{b} broken/{b} sold/{b} lost/{b} given "
     "away/{b} stolen~. ~how many now/how many {os} now/how many are there now~?",
     "a?b"},
    {"{N} <has|had> {ao} and ~+<gets|got> {b} more from {x}/<finds|found> {b} more/<is|was> given {b} "
     "more-<gives|gave> {b} of them to {x}/<loses|lost> {b} of them/<hands|handed> {b} of them to {x}~. "
     "{HAS}?",
     "a?b"},
    {"{x} (takes|took) {b} of {N's} {ao}. {LEFT}?", "a-b*"},
    {"while {N} <sleeps|slept>, {x} ~+(adds|added) {b} to/(puts|put) {b} more with-(takes|took) {b} "
     "of/(steals|stole) {b} of~ {his} {ao}. {HAS}?",
     "a?b*"},
    {"{N}, who (collects|collected) {os}, <has|had> {a} and ~+<receives|received> {b} more/<buys|bought> "
     "{b} more-<sells|sold> {b}/<gives|gave> away {b}~. {HAS}?",
     "a?b^"},
    {"{x} (lends|lent) {M} {ao}. {he} ~+<borrows|borrowed> {b} more-<returns|returned> {b}/<brings|brought> "
     "back {b}/<gives|gave> {b} back~. How many borrowed {os} <does|did> {he} have (now|then)?",
     "a?b"},
    {"{N} <lends|lent> {x} {b} of {his} {ao}. How many <does|did> {he} have ~left/at home~?", "a-b*"},
    {"{N} <has|had> {a} broken {oa}. ~+{b} more ([b:break|breaks]|broke)-{he} <repairs|repaired> {b} of "
     "them/{b} of them ([b:are|is]|[b:were|was]) repaired~. How many (are|were) broken (now|then)?",
     "a?b"},
    {"{N} <drops|dropped> a box of {ao}, and {b} ([b:break|breaks]|broke). How many (do|did) not break?",
     "a-b*"},
    {"{N} <opens|opened> a ~box/pack/bag~ of {ao} and <uses|used> {b}. {LEFT}?", "a-b*"},
    {"from a ~pack/box/set~ of {ao}, {b} ([b:are|is]|[b:were|was]) ~used/missing/taken~. {LEFT}?", "a-b*"},
    {"{N} <has|had> {ao}, ~+<buys|bought>/<finds|found>/<wins|won>-<sells|sold>/<loses|lost>/<breaks|broke>~ "
     "{b}, then ~+<gets|got> {c} more-<gives|gave> away {c}~. {HAS}?",
     "a?b?c"},
    {"{N} <has|had> {ao}. First {he} ~+<finds|found> {b}/<gets|got> {b} more-<gives|gave> away "
     "{b}/<loses|lost> {b}~, later {x} ~+(brings|brought) {him} {c}-(takes|took) {c} from {him}~. {HAS}?",
     "a?b?c"},
    {"{N} <trades|traded> {b} of {his} {ao} for a ~cap/lamp/drum~. How many {os} <does|did> {he} have left?",
     "a-b*"},
    {"{ao}. ~+add {b}/put {b} more with them-take away {b}/lose {b}/give away {b}~. How many {os}?", "a?b*"},
    {"{N} <starts|started> the week with {ao}, and until Friday {he} ~+<makes|made> {b} more/<gets|got> {b} "
     "more-<uses|used> {b}/<sells|sold> {b}~. {HAS}?",
     "a?b"},
    {"although {N} <loses|lost> {b} of {his} {ao}, {he} <is|was> happy. {REST}?", "a-b*"},
    {"thanks to {x}, who (gives|gave) {him} {b} more, {N} now <has|had> more than {his} {ao}. {HAS}?",
     "a+b*"},
    {"{N} <has|had> {ao} too many for {his} box, which (holds|held) {b}. How many {os} <does|did> {he} have?",
     "b+a"},
    // Unknown start, change or goal.
    {"after ~+giving away {bo}/losing {bo}/selling {bo}-finding {bo}/buying {bo}/winning {bo}~, {N} has {a}. "
     "How many did {he} have ~before/at first~?",
     "a?b!^"},
    {"{N} had some {os}. {he} ~+gave away/lost/sold/used-found/bought/won/got~ {b} and now <has|has> {a}. "
     "How many did {he} have ~before/at first/at the start~?",
     "a?b!"},
    {"how many {os} did {N} have before, if {he} <has|has> {a} after ~+losing/selling-finding/buying~ {b}?",
     "a?b!"},
    {"{x} took {b} of {N's} {os}, and then {a} [a:were|was] left. How many {os} did {he} have at first?",
     "a+b"},
    {"there were {ao} ~in the box/on the shelf/in the drawer~, and now there [b:are|is] only {b}. How many "
     "~were taken/are gone/have disappeared~?",
     "a-b!"},
    {"there [b:were|was] {bo} in the box. {x} put in some more, and now there are {a}. How many were put in?",
     "a-b!"},
    {"{N} had {bo} yesterday and <has|has> {a} today. How many {os} did {he} get?", "a-b!"},
    {"{N} had {ao} in the morning and only {b} in the evening. How many did {he} ~lose/give away~ during the "
     "day?",
     "a-b!"},
    {"yesterday {N} had {ao}. Today {he} <has|has> {b} ~+more-fewer/less~. How many {os} <does|does> {he} "
     "have today?",
     "a?b"},
    {"{N} thought there were {ao}, but there were {b} ~+more-fewer~. How many were there really?", "a?b*!"},
    {"{N} <needs|needed> {ao} and <has|had> {b}. How many {os} (are|were) missing?", "a-b!"},
    {"to fill {his} ~album/shelf/box~, {N} <needs|needed> {ao}. {b} ([b:are|is]|[b:were|was]) there already. "
     "How many (are|were) still missing?",
     "a-b!"},
    {"{N} <is|was> {bo} short of {a}. How many <does|did> {he} have?", "a-b!"},
    {"how many of {his} {ao} must {N} ~sell/give away/lose~ so that {b} [b:are|is] left?", "a-b*!^"},
    {"{N} <gives|gave> away so many of {his} {ao} that only {b} ([b:are|is]|[b:were|was]) left. How many "
     "<does|did> {he} give away?",
     "a-b*!"},
    {"how many {os} must {N} ~add to/buy besides~ {his} {b} to have {a}?", "a-b*!^"},
    {"{N} <orders|ordered> {ao}, but only {b} ([b:arrive|arrives]|arrived). How many {os} (are|were) "
     "missing?",
     "a-b!"},
    {"a ~box/case/bag~ (holds|held) {ao}. {N} <has|had> already put in {b}. How many more can {he} put in?",
     "a-b"},
    {"there (is|was) room for {ao} on {N's} shelf, and {b} ([b:are|is]|[b:were|was]) there already. How many "
     "more can {he} put there?",
     "a-b*"},
    {"{N} <wants|wanted> to give each of {a} children one {o1}, but <has|had> only {b}. How many children "
     "(get|got) none?",
     "a-b*!"},
    {"{N} <has|had> {ao}. Each of {his} {b} friends (gets|got) one. {LEFT}?", "a-b*"},
    {"for {a} guests {N} <needs|needed> one {o1} each. {he} <has|had> {b}. How many must {he} still "
     "~buy/get~?",
     "a-b*!"},
    {"how many {os} are left of {a} if {b} [b:are|is] ~taken away/lost/used/sold~?", "a-b*"},
    {"{N} <has|has> {ao}. How many would {he} have if {he} ~+got {b} more/found {b} more-lost {b}/gave away "
     "{b}~?",
     "a?b"},
    // With irrelevant numbers.
    {"{N}, who (is|was) {z} years old, <has|had> {ao} and "
     "~+<finds|found>/<gets|got>/<buys|bought>-<loses|lost>/<sells|sold>/<breaks|broke>~ {b}. {HAS}?",
     "a?b^"},
    {"{N} <takes|took> bus {z} to the shop and <buys|bought> {ao}. {x} (brings|brought) {him} {b} more. "
     "{HAS}?",
     "a+b"},
    {"in room {z} there ([a:are|is]|[a:were|was]) {ao}. {N} ~+<brings|brought> {b} more-<takes|took> away "
     "{b}~. {THERE}?",
     "a?b"},
    {"at 5 o'clock {N} <has|had> {ao}, at 6 o'clock {he} <has|had> {b} ~+more-fewer~. How many {os} "
     "<does|did> {he} have at 6 o'clock?",
     "a?b"},
    {"one {o1} (costs|cost) {z} cents. {N} <has|had> {ao} and <sells|sold> {b}. {REST}?", "a-b"},
    {"{N} <lives|lived> at number {z}. In {his} house there ([a:are|is]|[a:were|was]) {ao}. {he} "
     "~+<buys|bought> {b} more-<gives|gave> away {b}~. {HAS}?",
     "a?b"},
    {"on page {z} of a book, {N} <reads|read> about a man with {ao} who ~+(finds|found) {b} "
     "more-(loses|lost) {b}~. How many (does|did) the man have then?",
     "a?b"},
    {"{N} <has|had> {ao} and {z} {qs}. {x} (takes|took) {b} of the {os}. How many {os} <does|did> {he} have "
     "left?",
     "a-b*^"},
    // Later parts are compared with earlier ones.
    {"{N} <sells|sold> {ao} before noon. After noon {he} <sells|sold> {b} ~+more-fewer~ than before noon. "
     "How many <does|did> {he} sell after noon?",
     "a?b!"},
    {"{N} <makes|made> {ao} on Monday. On Tuesday it (is|was) {b} ~+more-fewer~ than on Monday. How many "
     "(is|was) that on both days together?",
     "a?b;a+R"},
    {"{N} <has|had> {ao} and {b} ~+more-fewer~ {qs} than {os}. How many {qs} <does|did> {he} have?", "a?b!"},
    {"{N} <finds|found> {ao} in the first hour and twice as many in the second. How many in the second?",
     "a+a"},
    {"of {his} {ao}, {N} <gives|gave> {b} to {B} and {c} to {C}. {REST}?", "a-b-c*"},
    {"{N} <buys|bought> {ao} and {bq} and <loses|lost> {c} of these things. How many things <does|did> {he} "
     "have left?",
     "a+b-c"},
});

inline constexpr auto kMealsRows = std::to_array<QuestionShape>({
    {"{ao} on the plate, {b} eaten. ~left/how many left/how many are left~?", "a-b"},
    {"{ao}, {b} ~rotten/bad/eaten/burned~. How many good ones ~left/remain~?", "a-b"},
    {"{N} <bakes|baked> {ao}. {b} ([b:burn|burns]|burned), and {x} (eats|ate) {c}. {LEFT}?", "a-b-c"},
    {"after eating {b} of {his} {ao}, {N} <has|had> how many left?", "a-b*"},
    {"{N} <picks|picked> {ao} from one tree and {b} from ~another/the next~. {ALL}?", "a+b"},
    {"for a ~cake/salad/soup/party~ {N} <needs|needed> {ao}. In the kitchen there ([b:are|is]|[b:were|was]) "
     "{b}. How many must {he} still buy?",
     "a-b!"},
    {"{N} <eats|ate> {ao} at breakfast, {b} at lunch and {c} at dinner. How many {os} (is|was) that?",
     "a+b+c"},
    {"of {ao}, {b} ([b:are|is]|[b:were|was]) ~bad/rotten/green~. How many (are|were) not?", "a-b*"},
    {"a basket (holds|held) {ao}. ~+{N} <puts|put> in {b} more-{N} <takes|took> out {b}/{N} <eats|ate> {b}~. "
     "How many {os} (are|were) in the basket (now|then)?",
     "a?b"},
    {"until lunch the ~baker/shop/stall~ (sells|sold) {ao}, and after that {b} more. How many (is|was) that "
     "~in all/on that day~?",
     "a+b"},
    {"the baker (makes|made) {ao}. By noon only {b} ([b:are|is]|[b:were|was]) left. How many (are|were) "
     "gone?",
     "a-b!"},
    {"the cook (finds|found) {bo} in the fridge, but the recipe (asks|asked) for {a}. How many (are|were) "
     "missing?",
     "a-b!"},
    {"there ([a:are|is]|[a:were|was]) {ao} and {z} {qs} ~in a bowl/on a plate/in a bag~. {x} (eats|ate) {b} "
     "of the {os}. How many {os} (are|were) left?",
     "a-b*"},
    {"in the ~bowl/basket/fridge~ there ([a:are|is]|[a:were|was]) {ao} and {bq}, and nothing else. How many "
     "pieces of food (are|were) in it?",
     "a+b"},
    {"{N} <expects|expected> {a} [a:guests|guest] for dinner, but {b} ~+more "
     "([b:come|comes]|came)-([b:do|does]|did) not come~. How many guests (come|came)?",
     "a?b"},
    {"a tree (carries|carried) {ao}. {b} ([b:fall|falls]|fell) to the ground. How many still (hang|hung) on "
     "the tree?",
     "a-b"},
    {"who ate the {os}? There were {a}, and now there [b:are|is] {b}. How many were eaten?", "a-b!"},
    {"a hungry ~mouse/dog/goat~ (finds|found) {ao} and (eats|ate) all but {b}. How many (does|did) it eat?",
     "a-b*!"},
    {"{N} <fills|filled> one bowl with {ao} and another with {b}, then {he} <eats|ate> {c}. {LEFT}?",
     "a+b-c"},
    {"they (serve|served) {ao} at noon and {b} at night. How many {os} (do|did) they serve?", "a+b"},
});

inline constexpr auto kCurrenciesNouns =
    std::to_array<std::string_view>({"dollar", "euro", "pound", "cent", "dollar"});
inline constexpr auto kPricesRows = std::to_array<QuestionShape>({
    {"a ~toy/book/ball/game/ticket~ (costs|cost) {ao}. {N} <has|had> {b}. How much more money <does|did> "
     "{he} need?",
     "a-b!"},
    {"{N} <has|had> {ao} and <buys|bought> a ~book/cap/kite/cake~ for {b}. ~how much money (is|was) left/how "
     "much <does|did> {he} have left/how many {os} (are|were) left~?",
     "a-b"},
    {"a pen (costs|cost) {ao}, a book {b}. How much (do|did) both cost ~together/in all~?", "a+b"},
    {"one ~ticket/meal/cap~ (costs|cost) {ao} and one ~drink/ball/map~ {b}. What (is|was) the price "
     "of both?",
     "a+b"},
    {"a ~bike/coat/lamp/chair~ (costs|cost) {ao}. The price ~+(rises|rose)/(goes|went) "
     "up/(climbs|climbed)-(falls|fell)/(goes|went) down/(drops|dropped)/(sinks|sank)~ by {b}. What (is|was) "
     "the new price?",
     "a?b!"},
    {"a ~coat/bag/table~ was {ao}. Now it is {b} ~+dearer/more expensive-cheaper~. ~what is the price "
     "now/how much does it cost now~?",
     "a?b!"},
    {"{N} <pays|paid> with {ao} for a ~cake/book/meal~ that (costs|cost) {b}. How much change <does|did> "
     "{he} get?",
     "a-b"},
    {"{N} <spends|spent> {ao} on ~food/books/shoes~ and {b} on ~toys/a ticket/flowers~. How much <does|did> "
     "{he} spend ~in all/altogether/together~?",
     "a+b"},
    {"{N} had {ao}. After shopping {he} <has|has> {b} left. How much did {he} spend?", "a-b!"},
    {"{N} <earns|earned> {ao} and <spends|spent> {b} of it. How much (is|was) left?", "a-b"},
    {"a game (costs|cost) {ao}. {N's} grandmother (pays|paid) {b} of it. How much (is|was) left to "
     "pay?",
     "a-b"},
    {"{N} <pays|paid> {ao} for a ticket and later <gets|got> {b} back. How much (does|did) the ticket cost "
     "{him} in the end?",
     "a-b!"},
    {"with {b} off, what (does|did) a ticket for {ao} cost?", "a-b!"},
    {"{N} <owes|owed> "  // words: meant
     "{x} {ao} and ~+<borrows|borrowed> {b} more-<pays|paid> back {b}/<returns|returned> {b}~. How much "
     "<does|did> {he} owe (now|then)?",
     "a?b"},
    {"the museum (costs|cost) {ao} for an adult and {b} for a child. What (do|did) one adult and one child "
     "pay?",
     "a+b"},
    {"{N} <saves|saved> {ao} in May, {b} in June and {c} in July. How much (is|was) that?", "a+b+c"},
    {"{N} <wants|wanted> a bike for {ao}. {he} <has|had> {b}, and {x} (gives|gave) {him} {c}. How much "
     "(is|was) still missing?",
     "a-b-c!"},
    {"a doll (costs|cost) {ao} and a ball {b}. How much ~more (does|did) the doll cost/cheaper (is|was) the "
     "ball~?",
     "a-b!"},
    {"{N} <finds|found> {ao} in one pocket and {b} in the other. How much money (is|was) that?", "a+b"},
    {"in {N's} ~purse/wallet/bank~ there ([a:are|is]|[a:were|was]) {ao}. {he} ~+<puts|put> in "
     "{b}-<takes|took> out {b}~. How much (is|was) in it (now|then)?",
     "a?b"},
    {"the bus (costs|cost) {ao} and the museum {b}. {N} <has|had> {c} and <pays|paid> for both. How much "
     "<does|did> {he} have left?",
     "a+b;c-R"},
    {"{N's} account (shows|showed) {ao}. Then {b} ([b:are|is]|[b:were|was]) ~+paid in/added-taken "
     "out/spent~. What (does|did) it show (now|then)?",
     "a?b"},
    {"with ticket number {z}, {N} <wins|won> {ao}. {he} <spends|spent> {b}. How much (is|was) left?", "a-b"},
    {"{ao} saved, {b} ~+more earned/more found/more from grandma-spent/lost/given away~. How much "
     "now?",
     "a?b"},
    {"{N} <gets|got> {ao} for {his} work and {b} as a present. {MONEY}?", "a+b"},
    {"the price of a ~kite/drum/lamp~ went from {b} to {ao}. By how much did it rise?", "a-b!"},
    {"a ~lamp/coat/clock~ was {ao} and is {b} now. By how much did the price fall?", "a-b!"},
    {"selling a ~bike/chair/guitar~ for {ao} that had cost {b}, how much did {N} earn?", "a-b!^"},
    {"if a ~ball/pen/ring~ (is|was) {b} cheaper than a ~bag/hat/lamp~ for {ao}, what (does|did) it "
     "cost?",
     "a-b!"},
});

inline constexpr auto kThingThemes = std::to_array<ShapeTheme>({
    {QuestionForm::kStory, kGoods, kNone, kThingsRows},
    {QuestionForm::kStory, kFoods, kNone, kMealsRows},
    {QuestionForm::kStory, kCurrenciesNouns, kNone, kPricesRows},
});

}  // namespace lacuna
