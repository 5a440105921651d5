// Questions as in schoolbooks and as people ask them: parts, purchases, trips, books, warmth, lifts, seats,
// and bare sums in words.
#pragma once

#include <array>

#include "tasks/question_shapes.h"
#include "tasks/question_themes.h"

namespace lacuna {

inline constexpr auto kPartRows = std::to_array<QuestionShape>({
    {"there are {ao}, and {b} of these are ~{color}/cheap/dusty~. How many are not?", "a-b*!"},
    {"if {b} out of {ao} are ~gone/away/missing~, what remains?", "a-b*"},
    {"{a} {oa} in a ~bag/box/jar/pile~. {b} are mine, the rest ~are yours/are my friend's/belong to others~. "
     "How many are not mine?",
     "a-b*!"},
    {"part of the {ao} ~is hidden/is under the bed/is in the drawer~: {b}, to be exact. How many are not "
     "there?",
     "a-b*!"},
    {"{b} {ob} on the left, the others on the right, {a} in all. How many on the right?", "a-b*!"},
    {"{N} <wants|wanted> {ao} in all and <has|had> {b} so far. ~how many (are|were) still to find/how many "
     "(are|were) missing/what number (is|was) still needed~?",
     "a-b"},
    {"I need {a} {oa} but can only find {b}. How many ~am I missing/do I still need/are still to be found~?",
     "a-b!"},
    {"some {os} and {b} more make {a}. ~how many is some/how many were there without those/what is the "
     "unknown number~?",
     "a-b!"},
    {"{N} <has|had> a few {os}. {he} <gets|got> {b} more, and that (makes|made) {a}. How many <does|did> "
     "{he} start with?",
     "a-b!"},
    {"a ~box/bag/basket~ was full of {os}. {b} were taken, {a} are still in it. How many had been in it?",
     "a+b*"},
    {"{N} <gives|gave> away {bo} and still <has|had> {a}. ~what did {he} have before/how many had {he} "
     "before/with how many did {he} start~?",
     "a+b"},
    {"in the morning there were {ao}, in the evening only {b}. How many ~were gone/disappeared/were taken~?",
     "a-b!"},
    {"yesterday I had {bo}, now it's {a}. How many ~have I gained/came in/are new~?", "a-b!"},
    {"start: {ao}. Lost: {b}. Found again: {c}. ~how many now/what is left/end~?", "a-b+c;&b-c"},
    {"plus {b}, minus {c}: what becomes of {ao}?", "a+b-c"},
    {"{ao}. One ~friend/child/guest~ takes {b}, ~another/the next~ takes {c}. ~left over/what is left/how "
     "many remain~?",
     "a-b-c"},
    {"if I ~buy/get/order~ {ao} today, {b} tomorrow and {c} the day after, how many {os} do I have ~then/in "
     "all~?",
     "a+b+c"},
    {"{N} <puts|put> {b} {ob} back and <keeps|kept> {a}. How many <has|had> {he} taken?", "a+b"},
    {"{N} <counts|counted> {ao} but <forgets|forgot> {b}. What (is|was) the ~right/true/real~ number?",
     "a+b"},
    {"{N} <counts|counted> {ao}, but {b} of them (are|were) counted twice. What (is|was) the "
     "~right/true/real~ number?",
     "a-b;&a-b-b*!"},
    {"~hello/hi/hey~, I had {ao} and my ~dog/sister/friend~ took {b}. How many ~do I have now/have I got "
     "left/are still mine~?",
     "a-b"},
    {"quick question: {ao}, then {b} more ~arrive/come in/are delivered~. ~how many is that now/what's the "
     "new total/total~?",
     "a+b"},
    {"please ~help/help me/tell me~: I'm packing {ao}, {b} [b:are|is] packed already. How many to go?",
     "a-b"},
    {"for the ~party/fair/trip~ we ~need/want/ordered~ {ao} and {bq}. How many things are these?", "a+b*"},
    {"a ~machine/worker/printer~ makes {ao} before noon and {b} after noon; {c} [c:are|is] bad. How many "
     "good ones are made?",
     "a+b-c!"},
    {"I expected {ao} and got {b} {color} and {c} other ones. How many ~are lacking/did not come/are short~?",
     "b+c;a-R*!"},
    {"{os} in stock: {a}. Sold: {b}. New delivery: {c}. ~stock now/what is in stock/how many are there~?",
     "a-b+c;&b-c"},
    {"a ~shop/school/club~ needs {ao}. It gets {b} on Monday and {c} on Tuesday. How many more does it need?",
     "a-b-c!"},
    {"how many {os} were there before, if {b} were ~added/put in/brought~ and there are {a} now?", "a-b*!"},
    {"how many {os} ~vanished/were stolen/got lost~ if there were {a} and {b} are left?", "a-b*!"},
    {"all but {b} of the {ao} are ~sold/gone/packed~. How many is that?", "a-b*!"},
    {"not one of my {ao} is lost, and I just got {b} ~more/new ones/extra~. My total?", "a+b"},
});

inline constexpr auto kShoppingRows = std::to_array<QuestionShape>({
    {"a ~cake/pie/pizza~ is {ao}, a ~drink/coffee/juice~ is {b}. What do I pay for both?", "a+b"},
    {"what is the change from {ao} if a ~book/toy/lamp~ ~costs/is~ {b}?", "a-b"},
    {"{N} <pays|paid> with {ao} for a ~meal/ticket/hat~ of {b}. How much change ~(is|was) due/<does|did> "
     "{he} get back/(comes|came) back~?",
     "a-b"},
    {"~shirt/coat/bag~ {ao}, ~belt/cap/scarf~ {b}, ~socks/gloves/shoes~ {c}. ~total price/sum/what does it "
     "all cost~?",
     "a+b+c"},
    {"my wallet held {ao} before ~shopping/lunch/the trip~ and {b} after. How much did I spend?", "a-b!"},
    {"I bought a ~pen/comic/ball~ and got {bo} back from my {a}. What was the price?", "a-b*!"},
    {"a ~jacket/radio/lamp~ for {ao} is now {b} {ob} ~+dearer/more-cheaper/off~. ~what is the new price/what "
     "does it cost now/what must I pay~?",
     "a?b!"},
    {"the price ~fell/was cut/came down~ from {ao} to {b}. How big is the discount?", "a-b!"},
    {"the ~bus/train/zoo~ ticket ~rose/went up~ from {bo} to {a}. By how much did it get dearer?", "a-b!"},
    {"{N} <wants|wanted> a ~bike/guitar/tent~ for {ao}. {he} <has|had> {b}, and {x} (adds|added) {c}. How "
     "much (is|was) still missing?",
     "a-b-c!"},
    {"can I afford it? I have {ao}, the ~game/ring/kite~ costs {b}. Yes, but how much will I have "
     "~afterwards/left~?",
     "a-b"},
    {"with {ao} in my pocket I buy ~lunch/bread/fruit~ for {b} and a ~paper/drink/map~ for {c}. What's left?",
     "a-b-c"},
    {"{N} <has|had> {ao}, <earns|earned> {b} for ~washing a car/walking a dog/mowing the lawn~ and "
     "<spends|spent> {c}. ~what (does|did) that leave/how much (is|was) there in the end/what sum (is|was) "
     "left~?",
     "a+b-c"},
    {"the bill is {ao}, the tip {b}. ~total/what is paid/how much together~?", "a+b"},
    {"two ~shops/stores~ sell the same ~ball/lamp/drum~: one for {ao}, one for {b}. How much do you save in "
     "the cheaper one?",
     "a-b!"},
    {"{N} <needs|needed> {ao}, but {his} piggy bank (holds|held) {b}. What sum (is|was) {he} short of?",
     "a-b!"},
    {"piggy bank: {ao}. ~birthday/grandma/pocket money~: plus {b}. ~candy/movie/comics~: minus {c}. ~how "
     "much is in it/balance~?",
     "a+b-c"},
    {"{N} <saves|saved> {ao} in May and {b} in June. The ~watch/drum/desk~ {he} <wants|wanted> (costs|cost) "
     "{c}. How much (is|was) missing?",
     "a+b;c-R!"},
    {"what did the ~hat/mug/vase~ cost if it and a card for {b} {ob} came to {a} together?", "a-b!"},
});

inline constexpr auto kDailyRows = std::to_array<QuestionShape>({
    // Pages and lessons.
    {"my book is {a} pages long and I'm on page {b}. How many pages to the end?", "a-b*!"},
    {"{a} pages of homework reading: {b} done on the bus, {c} ~at lunch/in bed/at home~. What is left to "
     "read?",
     "a-b-c*"},
    {"{N} must learn {a} words. {b} are easy and known. How many ~are new/are left to learn/must {he} still "
     "learn~?",
     "a-b*!^"},
    {"chapter one has {a} pages, chapter two {b} and chapter three {c}. How long are the three chapters?",
     "a+b+c*"},
    {"I read {a} pages before ~dinner/school/noon~ and {b} after. How many did I read today?", "a+b*"},
    {"the teacher has checked {b} of {a} tests. How many ~wait/are unchecked/must still be checked~?",
     "a-b*!"},
    // Ways.
    {"we drove {a} miles, took a break, and drove {b} more. Then {c} were left. How long is the way?",
     "a+b+c*"},
    {"it's {a} kilometers to ~grandma/the sea/the camp~. After {b} we stop. How far is it ~still/from "
     "there~?",
     "a-b*!"},
    {"~a hiker/a cyclist/a runner/a driver~ does {a} kilometers on day one and {b} ~+more-fewer/less~ on day "
     "two. How many on day two?",
     "a?b*!"},
    {"the path is {a} meters. {N} <walks|walked> {b} meters, then {c} meters. How far (is|was) it ~from "
     "there to the end/still to the end/to the end of the path~?",
     "a-b-c*!"},
    {"from my house to the ~park/mill/pool~ {a} steps, on to the ~shop/church/bridge~ {b}. How many steps "
     "for the whole way?",
     "a+b*"},
    {"{N} <runs|ran> {a} laps, <wants|wanted> {b}. ~how many more/how many laps (are|were) left/what "
     "(is|was) missing~?",
     "b-a*!"},
    // Warmth.
    {"it's {a} degrees now and ~they say/the radio says/I think~ it will be {b} degrees "
     "~+warmer-colder/cooler~ ~tomorrow/at night~. What will it be?",
     "a?b*!", 60},
    {"morning {b} degrees, noon {a}. How ~many degrees did it rise/much did it warm up/big was the rise~?",
     "a-b*!", 60},
    {"{a} degrees at noon, {b} at midnight: ~how big was the drop/how many degrees did it fall/by how much "
     "did it cool~?",
     "a-b*!", 60},
    {"the ~oven/tea/bath~ had {a} degrees, ~+rose/warmed up-fell/cooled~ by {b}, and ~+rose/went "
     "up-fell/went down~ by {c}. ~temperature now/how hot is it/what does it have now~?",
     "a?b?c*!", 98},
    // Lifts and lines.
    {"I get in the lift on floor {a} and ride {b} floors ~+up-down~. Where do I get out?", "a?b*!", 60},
    {"an elevator at {a} ~+rises-sinks~ {b} floors, then ~+rises-sinks~ {c}. ~which floor/on what floor is "
     "it~?",
     "a?b?c*!", 90},
    {"{N} <lives|lived> on floor {a} and <has|had> walked down to floor {b}. How many floors (is|was) that?",
     "a-b*!", 60},
    {"I am number {a} in the queue. {b} people in front of me ~leave/are served/go home~. What number am I "
     "now?",
     "a-b*!"},
    {"{a} people stand in front of {N} and {b} behind. How many people are ~waiting besides {N}/in front and "
     "behind~?",
     "a+b*^"},
    {"the queue has {a} people. {b} ~+join-leave/give up/are served~, then {c} ~+join-leave~. ~length "
     "now/how long is the queue/how many are waiting~?",
     "a?b?c*"},
    {"number {b} is called, and I hold number {a}. By how many is my number ~higher/larger/further on~?",
     "a-b*!"},
    // Seats.
    {"{a} seats, {b} ~taken/full/reserved~. How many ~free/empty/open~?", "a-b*"},
    {"a bus has {a} seats, and {b} of them are free. How many people are sitting?", "a-b*!"},
    {"all but {b} of the {a} seats in the ~theater/plane/cinema~ are taken. How many ~people sit "
     "there/guests are sitting~?",
     "a-b*!"},
    {"{b} children and {c} adults get on a boat with {a} seats, and all of them sit down. How many seats "
     "stay free?",
     "b+c;a-R*!"},
    {"a tram carries {a} people. At the ~market/station/bridge~ {b} get on and {c} get off. ~how many ride "
     "on/how many are aboard/how many are on it then~?",
     "a+b-c*"},
    {"a class of {a} ~pupils/children/students~: {b} are ill, {c} are late. How many are there on time?",
     "a-b-c*"},
    {"{a} ~pupils/children/students~ in my class; {b} walk to school, the others take the bus. How many take "
     "the bus?",
     "a-b*!"},
    {"{a} girls, {b} boys and {c} teachers ~go on a trip/visit the zoo/take the train~. How many people?",
     "a+b+c*"},
    {"our club grew from {b} to {a} members. How many ~joined/are new~, if nobody left?", "a-b*!"},
    // Time.
    {"{a} days ~of holiday/until my birthday/of camp~, {b} ~of them are over/have passed~. How many days "
     "left?",
     "a-b*"},
    {"vacation starts in {a} days. How many days will be left ~in {b} days/{b} days from now/after {b} more "
     "days~?",
     "a-b*!"},
    {"the ~cake/bread/pie~ bakes for {a} minutes. {b} minutes ago I put it in. When is it done, in how many "
     "minutes?",
     "a-b*!"},
    {"{a} minutes of ~math/music/piano~, {b} of ~sports/reading/drawing~, {c} of rest. How many minutes are "
     "these?",
     "a+b+c*"},
    {"a film takes {a} minutes, the ads before it {b}. How long ~are we in the cinema/is it all~?", "a+b*"},
    {"the ~train/bus/plane~ should take {a} minutes but is {b} minutes ~+late/slower-early/faster~. How long "
     "does it take?",
     "a?b*!"},
    {"{N} <has|had> {a} minutes. Breakfast (takes|took) {b}, the way to school {c}. How many minutes "
     "(are|were) to spare?",
     "a-b-c*"},
    // Other things of the day.
    {"{N's} phone has {a} percent. {he} <plays|plays> and it loses {b} percent. ~what does it show/how much "
     "is left/what percentage remains~?",
     "a-b*", 98},
    {"my phone is at {b} percent. How much is missing ~to reach/up to~ {a} percent?", "a-b*!", 98},
    {"I weighed {a} kilos and ~+gained/put on-lost~ {b}. ~my weight now/what do I weigh/how heavy am I~?",
     "a?b*!"},
    {"a ~puppy/calf/baby~ weighed {b} pounds and weighs {a} now. How much did it gain?", "a-b*!"},
    {"the bag with books weighs {a} pounds. Without the books it's {b}. How heavy are the books?", "a-b*!"},
    {"mix {a} cups of ~milk/water/juice~ with {b} cups of ~cream/tea/soda~, then drink {c}. How many cups "
     "remain?",
     "a+b-c*!"},
    {"a ~rope/ribbon/board~ is {a} inches, but {b} inches are ~too many and cut off/sawed off/snipped away~. "
     "How long is it after that?",
     "a-b*!"},
    {"a plant was {a} inches, grew {b} inches in ~May/spring/one month~ and {c} more ~later/after that/by "
     "autumn~. How high is it?",
     "a+b+c*"},
    {"level {a} of the game, ~+up-down/back~ {b} levels. ~which level is that/on what level am I~?", "a?b*!",
     90},
    {"we scored {a} points, got {b} for ~speed/style/luck~ and lost {c} for ~a fault/being late/noise~. ~our "
     "score/what do we have/final score~?",
     "a+b-c*!"},
    {"the ~song/game/app~ had {b} likes, and now it has {a}. How many did it get since?", "a-b*!"},
    {"a ~farmer/vet/keeper~ has {a} ~cows/goats/sheep~ and {b} ~hens/ducks/pigs~. ~+how many animals is "
     "that/count all animals. How many-how many more are there of the first kind~?",
     "a?b*!"},
    {"in a quiz with {a} questions I skipped {b} and got {c} wrong. How many did I get right?", "a-b-c*!"},
});

inline constexpr auto kAskedSumRows = std::to_array<QuestionShape>({
    {"hey, what do I get for {a} ~+plus/and-minus/less~ {b}?", "a?b"},
    {"{b} from {a} leaves ~what/how many/how much/which number~?", "a-b"},
    {"take {b} off {a}~ and tell me the result./. What do you have?/, please./. What is that?~", "a-b"},
    {"~compute/calculate/work out/evaluate/figure out~ {a} ~+plus-minus~ {b} ~for me/in your "
     "head/quickly/now~.",
     "a?b"},
    {"double check, please: {a} ~+plus-minus~ {b} ~equals/is/gives~ what?", "a?b"},
    {"my ~teacher/friend/dad/sister~ ~asks/wants to know~: what is {a} ~+plus/and-minus/take away~ {b}?",
     "a?b"},
    {"quick ~math/maths/sum~: ? = {a} ~++--~ {b}", "a?b"},
    {"{a} ~++--~ {b} = ~what/how much/which number~?", "a?b"},
    {"so what's {a} ~+and {b} put together/added to {b}/with {b} on top-less {b}/without {b}/short of {b}~?",
     "a?b"},
    {"how much is the ~+sum/total-difference~ of {a} and {b}?", "a?b"},
    {"~find/state/determine/name~ the ~+sum/total-difference~ of {a} and {b}.", "a?b"},
    {"{a} ~+plus-minus~ {b}, ~quick!/go!/answer?/anyone?/please.~", "a?b"},
    {"just the ~number/result/answer~: {a} ~+plus/add-minus/less~ {b}.", "a?b"},
    {"do you know {a} ~+plus-minus~ {b}?", "a?b"},
    {"could you ~+add {a} and {b}/sum up {a} and {b}-subtract {b} from {a}/take {b} away from {a}~ ~for "
     "me/please/real quick~?",
     "a?b"},
    {"I can't do this one: {a} ~+plus-minus~ {b}. ~help!/can you?/what is it?~", "a?b"},
    {"is it hard to ~+add {b} to {a}-take {b} from {a}~? What do you get?", "a?b"},
    {"what total do {a} and {b} ~give/reach/make up/amount to~?", "a+b"},
    {"{a} and {b} ~total/add up to/make up/amount to~ what?", "a+b"},
    {"the numbers {a} and {b}, ~+added/summed up/taken together-the second taken from the first~: "
     "~result/answer~?",
     "a?b!"},
    {"let's ~+add-subtract~: {a} ~first/to start/in the beginning~, then {b}. ~result/what do we get/what "
     "comes out~?",
     "a?b"},
    {"enter {a}, press ~+plus-minus~, enter {b}. What ~does the calculator show/will be on the screen/comes "
     "up~?",
     "a?b"},
    {"~what do I have/where am I/what is it~ when {a} ~+grows by/goes up by/is raised by-shrinks by/goes "
     "down by/is cut by~ {b}?",
     "a?b"},
    {"by how much ~does {a} exceed {b}/is {a} bigger than {b}/is {b} smaller than {a}/is {b} below {a}~?",
     "a-b!"},
    {"how far ~apart are {a} and {b}/is it from {b} to {a}/is {a} from {b}~ on the number line?", "a-b!"},
    {"{a} is ~how much more/how much bigger/by how much greater~ than {b}?", "a-b!"},
    {"what do I add to {b} to ~reach/get/make/have~ {a}?", "a-b!"},
    {"what do I ~take off/subtract from/take away from~ {a} to ~get down to/reach/be left with~ {b}?",
     "a-b!"},
    {"{a} = {b} + what?", "a-b!"},
    {"{b} = {a} - what?", "a-b!"},
    {"{a} = what - {b}?", "a+b"},
    {"fill in the ~blank/gap/hole~: {b} plus ~blank/something/a number~ is {a}.", "a-b!"},
    {"fill in the ~blank/gap/hole~: {a} minus ~blank/something/a number~ is {b}.", "a-b!"},
    {"something minus {b} ~is/leaves/gives~ {a}. What is ~that number/it/the first number~?", "a+b"},
    {"the first addend is {b} and the sum is {a}. ~what is the second addend?/find the second addend./give "
     "the second addend.~",
     "a-b!"},
    {"the sum is {a}, one part is {b}. ~the other part?/and the other?/find the other part.~", "a-b!"},
    {"a number ~+minus {b}/lowered by {b}/with {b} taken off-plus {b}/raised by {b}/with {b} added~ "
     "~is/makes/gives~ {a}. ~what number?/which one?/name the number.~",
     "a?b!"},
    {"my secret number is {b} ~+more/bigger/higher-less/smaller/lower~ than {a}. ~guess it./what is it?/name "
     "it.~",
     "a?b!"},
    {"if you ~+take {b} from my number/take {b} off my number-add {b} to my number/put {b} on top of my "
     "number~ you get {a}~, so what is my number/. What was it/. What did I start with~?",
     "a?b!"},
    {"~minuend {a}, subtrahend {b}/from {a} subtract {b}/{a} reduced by {b}~: ~the difference/what is "
     "left/result~?",
     "a-b"},
    {"~+addends {a} and {b}: what is the sum/together {a} and {b}: what is the total-larger number {a}, "
     "smaller number {b}: what is the difference~?",
     "a?b!"},
    {"{a} without {b}, ~that is/that leaves/so that makes~ what?", "a-b"},
    {"begin with {a}. ~+then {b} more-then {b} less~. Then ~+{c} more-{c} less~. ~where do you land/final "
     "number/what now~?",
     "a?b?c"},
    {"from the sum of {a} and {b} ~take/subtract/take off~ {c}.", "a+b-c"},
    {"to the difference of {a} and {b} add {c}. ~what is the result/what comes out/what do you get~?",
     "a-b+c"},
    {"{c} ~+more than-less than~ the sum of {a} and {b} is ~what/which number~?", "a+b?c"},
    {"what is {c} ~+above-below~ {a} minus {b}?", "a-b?c"},
    {"the ~sum/total~ of the three numbers {a}, {b}, {c}: ~how much is it?/what is it?/tell me.~", "a+b+c"},
    {"? = {a} ~++--~ {b} ~++--~ {c}", "a?b?c"},
    {"~can you/would you/will you~ ~add up/sum up/total~ {a}, {b} and {c}?", "a+b+c"},
    {"start with {a}, lose {b}, ~win/gain/get~ {c}: ~what's the result/what's left/how much is that~?",
     "a-b+c"},
    {"{a} take off {b} take off {c} ~is/leaves/gives~ what?", "a-b-c"},
    {"what is {a} plus the same again?", "a+a"},
    {"{a} plus {a}, and then {b} ~+more/on top-off/less~: ~how much/what is it~?", "a+a?b"},
    {"{N} ~+<adds|added> {b} to-<subtracts|subtracted> {b} from/<takes|took> {b} from~ {a}. What should {he} "
     "get?",
     "a?b"},
    {"{N} <has|had> to ~solve/work out/calculate~ {a} ~+plus-minus~ {b}. What (is|was) the right answer?",
     "a?b"},
    {"on the board: {a} ~+plus-minus~ {b}. ~what must be written next to it/the answer/who knows it~?",
     "a?b"},
    {"exercise {z}. ~+add {a} and {b}-subtract {b} from {a}~.", "a?b!"},
    {"you are a calculator. {a} ~+plus-minus~ {b}.", "a?b"},
    {"~once more/again/next one/and now~: {a} ~+plus/and-minus/take away~ {b}?", "a?b"},
    {"I say {a}, you say {b}. ~+together we said/our sum is/added up, that is-my number less yours is/the "
     "difference is~ what?",
     "a?b!"},
});

inline constexpr auto kSchoolMoreThemes = std::to_array<ShapeTheme>({
    {QuestionForm::kStory, kGoods, kNone, kPartRows},
    {QuestionForm::kStory, kFoods, kNone, kPartRows},
    {QuestionForm::kStory, kMoneyUnits, kNone, kShoppingRows},
    {QuestionForm::kStory, kNone, kNone, kDailyRows},
    {QuestionForm::kSum, kNone, kNone, kAskedSumRows},
});

}  // namespace lacuna
