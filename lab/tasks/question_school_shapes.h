// Questions as in schoolbooks, about two or three people and what they have, their ages, money and scores.
#pragma once

#include <array>

#include "tasks/question_shapes.h"
#include "tasks/question_themes.h"

namespace lacuna {

inline constexpr auto kPairRows = std::to_array<QuestionShape>({
    // How many more, how many fewer.
    {"~compare/look at~ the ~collections/piles/boxes~ of {N} and {B}: {ao} for {N}, {b} for {B}. ~how many "
     "more {os} has {N}/by how many is {N} ahead of {B}/how many {os} is {B} behind {N}~?",
     "a-b!"},
    {"who has more {os}, {N} with {a} or {B} with {b}, and ~how many more/by how many/what is the "
     "difference~?",
     "a-b!"},
    {"both {N} and {B} ~collect/love/like~ {os}. {N} has {a}, {B} only {b}. ~what is the difference/by how "
     "many is {N} in the lead/how many is {B} behind~?",
     "a-b!"},
    {"{N} and {B} had a ~contest/bet/game~: who finds more {os}? {N} found {a}, {B} {b}. By how many did {N} "
     "~win/beat {B}/come out ahead~?",
     "a-b!"},
    {"{N} lost the ~contest/bet/game~ against {B}. {N} had ~collected/gathered/brought~ {bo}, {B} {a}. By "
     "how many {os} did {N} lose?",
     "a-b!"},
    {"{B}'s {ao} against {N's} {b}: how many more ~has {B}/does {B} have/are on {B}'s side~?", "a-b!"},
    {"{N} wants as many {os} as {B}. {B} has {a}, {N} has {b}. How many more does {N} have to "
     "~get/find/collect~?",
     "a-b!"},
    {"how many {os} must {N} ~give away/put away/lose~ so that only as many as {B}'s {b} are left of {his} "
     "{a}?",
     "a-b*!"},
    {"{N} has {ao} and {B} has {b}. How many {os} should {B} ~still get/still find/be given~ so that both "
     "have ~the same number/equally many~?",
     "a-b!"},
    {"I am a little jealous: {B} has {ao} and I only have {b}. ~how many more does {B} have than I do/how "
     "many more would I need to have as many/by how many is {B} ahead of me~?",
     "a-b!"},
    {"I have {ao}, my ~brother/sister/cousin/friend~ has {b}. ~+how many do we have together/how many is "
     "that for both of us/what do we have in all-how many more do I have/by how many am I ahead~?",
     "a?b!"},
    {"{os} of {N}: {a}; of {B}: {b}. ~+all together/total for both/both counted together-difference/how many "
     "more for {N}~?",
     "a?b!"},
    {"how many {os} ~+do {N} and {B} have between them/do {N} and {B} own in all/do {N} and {B} count "
     "together-more does {N} have than {B}/fewer has {B} than {N}~, if {N} has {a} and {B} has {b}?",
     "a?b!"},
    {"{N} owns {ao} whereas {B} owns {b}. ~find the difference/work out the difference/calculate how many "
     "more {N} owns~.",
     "a-b!"},
    {"can you tell me how many more {os} {N} has than {B}? {N} ~has/owns/holds~ {a} and {B} {b}.", "a-b!"},
    {"{B} has {b} and {N} has {a} {oa}. Write down ~how many fewer {B} has/how many more {N} has/the "
     "difference~.",
     "a-b!"},
    {"{N} only has {bo}. {B} is proud of having {a}. How many fewer than {B} has {N} got?", "a-b!"},
    {"out of {N} and {B}, {N} has ~more/the most~ {os}: {a} against {b}. How many more is that?", "a-b!"},
    {"it's {a} {oa} for {N} and {b} for {B} so far. ~how many does {B} need to draw level/how many is {B} "
     "short of {N}/how many must {B} add to catch up~?",
     "a-b!"},
    // More than and fewer than.
    {"what number of {os} does {N} have, ~if/when/given that~ {B} has {a} and {N} has {b} "
     "~+more-fewer/less~?",
     "a?b!"},
    {"{N} has {b} ~+more-fewer~ {ob} than {B}. Now, {B} has {a}. ~what about {N}/how many has {N}/how many "
     "does that make for {N}~?",
     "a?b!"},
    {"{N} has {ao}. With {b} ~+more-fewer/less~, {he} would have ~as many as/the same number as/just as many "
     "as~ {B}. How many does {B} have?",
     "a?b!"},
    {"{B} ~needs/must get/has to find~ {b} more {ob} to have as many as {N}. {B} has {a}. How many does {N} "
     "have?",
     "a+b"},
    {"{B} would have to ~lose/give away/sell~ {b} {ob} to have as many as {N}, who has {a}. How many does "
     "{B} have?",
     "a+b"},
    {"{N} says: I have {ao}. {B} ~says/answers/replies~: I have {b} ~+more-fewer~ than you. How many {os} "
     "does {B} have?",
     "a?b!"},
    {"my ~friend/brother/sister/neighbor~ has {ao} and I have {b} ~+more-fewer/less~. How many {os} ~do I "
     "have/are mine/have I got~?",
     "a?b!"},
    {"I've got {ao}, that's {b} ~+fewer/less-more~ than {B}'s got. ~how many has {B} got?/what does {B} "
     "have?/tell me {B}'s number.~",
     "a?b!"},
    {"{b} ~+more-fewer~ than {N}: that is what {B} has. {N} has {ao}. How many {os} does {B} have?", "a?b!"},
    {"the numbers of {os} that {N} and {B} have differ by {b}. {N} has ~+fewer/less-more~, namely {a}. How "
     "many does {B} have?",
     "a?b!"},
    {"{N} and {B} counted their {os}. {N} got to {a}, and {B} ~+got {b} further/counted {b} more-counted {b} "
     "fewer/was done {b} earlier~. To what number did {B} count?",
     "a?b!"},
    {"take the number of {os} that {B} has, {a}, and ~+add/put on-take off/subtract~ {b}: so many does {N} "
     "have. How many is it?",
     "a?b!"},
    {"{N} has {ao}, which is {b} ~+fewer than/less than/below-more than/above~ {B}'s number. ~find {B}'s "
     "number./how many has {B}?/what is {B}'s number?~",
     "a?b!"},
    {"when {N} ~gives away/loses/sells~ {b} of {his} {ao}, {he} has as many as {B}. How many does {B} have?",
     "a-b*!"},
    {"after {N} ~found/got/bought~ {b} more {ob}, {he} had as many as {B}, who had {a}. How many did {N} "
     "have ~before/at first~?",
     "a-b!"},
    {"{B} has {bo} too few to match {N's} {a}. How many does {B} have?", "a-b!"},
    {"if {B} had {b} more {ob}, {B} would have {a}, just like {N}. How many has {B} ~really/now/got so far~?",
     "a-b!"},
    {"yesterday {N} ~counted/found/sold~ {ao}. {B} ~+beat that by {b}-stayed {b} below that~. How many were "
     "{B}'s?",
     "a?b!"},
    {"imagine {N} with {ao} and {B} with {b} ~+more-fewer~ than that. ~how many are {B}'s?/what does {B} "
     "have?/give {B}'s number.~",
     "a?b!"},
    {"{N} brought {ao} to ~school/class/the party~, {B} brought {b} ~+more-fewer~ than {N}. How many {os} "
     "did {N} and {B} bring together?",
     "a?b;a+R!"},
    {"{B} has {b} ~+more-fewer~ {ob} than {N}. {N} has {a}. ~first find {B}'s number. Then: how many do both "
     "have/how many have they got together/add both up. How many is that~?",
     "a?b;a+R!"},
    {"{N} ~owns/has~ {ao} and {B} {b}. If {B} gets {c} more, how many do they have together?", "a+b+c"},
    {"{N} ~picked/collected/found~ {ao} and {B} {b}. They need {c} for the class. ~how many are still "
     "missing/how many more must they bring/how many do they still lack~?",
     "a+b;c-R!"},
    {"{N} had {ao} and {B} {b}, but {N} ~lost/broke/sold~ {c}. How many do they have together now?",
     "a+b-c;&a-c"},
    // Both together.
    {"the {os} of {N} and {B} go in one ~box/pile/row~. {N} ~adds/puts in/gives~ {a}, {B} {b}. How many will "
     "there be?",
     "a+b"},
    {"{N} and {B} put their {os} together and ~count/get~ {a}. {b} of them belonged to {N}. How many were "
     "{B}'s?",
     "a-b*!"},
    {"divide {ao} between {N} and {B}: {b} for {N}, the rest for {B}. How many ~does {B} get/are for {B}/go "
     "to {B}~?",
     "a-b*!"},
    {"{N} and {B} ~bought/found/shared~ a ~box/bag/pack~ of {ao}. {N} took {b} and {B} all the others. How "
     "many did {B} take?",
     "a-b*!"},
    {"{N} has {ao}, and so does {B}. How many do they have ~together/in all/between them~?", "a+a"},
    {"hi! {N} has {ao}, {B} has {b}, I have none. How many {os} have we got ~altogether/together/in total~?",
     "a+b"},
    {"{N} and {B} want {ao} for the ~party/fair/class~. {N} brings {b}. How many must {B} bring?", "a-b*!"},
    {"~what do you get/how many are there/how many will it be~ when {N} adds {his} {ao} to {B}'s {b}?",
     "b+a"},
    {"if {N} ~gets/makes/brings~ {ao} and {B} {b}, then how many {os} ~is that in all/is that for both/are "
     "there together~?",
     "a+b"},
});

inline constexpr auto kGivingRows = std::to_array<QuestionShape>({
    {"{N} ~hands/passes/slips~ {B} {c} of {his} {ao}. {B} ~already had/had before/used to have~ {b}. How "
     "many does {B} have now?",
     "b+c;&a-c*"},
    {"{N} has {ao}, {B} has {b}. {N} gives {B} {c}; ~how many has {B} now/what does {B} have after that/how "
     "many does {B} then have~?",
     "b+c;&a-c"},
    {"{B} has {b} {ob}, {N} {a}. {N} gives {c} of {his} {os} to {B}. How many has {N} ~now/left~?",
     "a-c;&b+c*"},
    {"{N} and {B} have {ao} each. {N} gives {b} of them to {B}. How many does ~+{B}-{N}~ have "
     "~then/now/after that~?",
     "a?b;&a-b*"},
    {"{N} with {ao} and {B} with {b} ~trade/swap~: {N} gives {B} {c} {oc} and gets {d}. How many does {N} "
     "have ~then/after that~?",
     "a-c+d;&b-d"},
    {"{B} gave {N} {bo}, and that made {a} for {N}. How many did {N} have ~before/at first/without them~?",
     "a-b!"},
    {"after giving {b} {ob} to {B}, {N} ~has {a} left/is left with {a}/still has {a}~. How many did {N} have "
     "before that?",
     "a+b"},
    {"{N} had {ao} and gave some to {B}. {b} ~were left/stayed with {N}/remained~. How many did {B} get?",
     "a-b*!"},
    {"{B} had {b} {ob}. {N} gave {B} some more, and now {B} has {a}. How many came from {N}?", "a-b!"},
    {"{N} has {ao}, gets {b} from {B} and {c} from {C}. How many are ~{N's}/in {N's} hands~ at the end?",
     "a+b+c"},
    {"from {his} {ao}, {N} gave {b} to {B} and {c} to {C}. What number of {os} ~was left/remained/did {N} "
     "keep~?",
     "a-b-c"},
    {"{N} lends {B} {b} of {his} {ao}. {B} ~brings/gives~ {c} of them back. How many does {N} have now?",
     "a-b+c;&b-c*"},
    {"I gave {B} {b} of my {ao}. How many ~do I still have/have I got left/are left for me~?", "a-b*"},
    {"if I give you {b} {ob} and you already have {a}, how many ~do you have/is that/have you got then~?",
     "a+b"},
    {"you have {ao} and ~give/hand/send~ {B} {b}. What's left?", "a-b"},
    {"{B} asks {N} for {b} of {his} {ao}. {N} says yes. How many will {N} have after that?", "a-b*"},
    {"{N} ~promised/owes~ {B} {ao} and has already given {b}. How many does {B} still have to get?", "a-b*!"},
    {"{N} gives {B} {b} {ob}, and {C} gives {B} {c}. {B} had {a} ~before/already/to begin with~. How many "
     "has {B} now?",
     "a+b+c"},
    {"{N} ~wins/gets~ {b} {ob} from {B}, then ~loses/gives~ {c} to {C}. {N} began with {a}. With how many "
     "does {N} end?",
     "a+b-c"},
    {"from the {ao} that {N} ~had/brought/owned~, {B} took {b}, and {C} took {c}. How many did {B} and {C} "
     "take together?",
     "b+c;&a-b-c*"},
    {"{N} will give {B} {b} of {his} {ao} if {B} helps. {B} helps. How many will {N} have ~after "
     "that/then/in the end~?",
     "a-b*"},
    {"{N} gave {bo} to {B}. Now {N} and {B} both have {a}. How many did ~+{N}-{B}~ have before that?",
     "a?b!"},
    {"pass {b} {ob} from {N}, who has {a}, to {B}, who has {c}. What does {B} have then?", "c+b;&a-b"},
});

inline constexpr auto kTrioRows = std::to_array<QuestionShape>({
    {"{N}, {B} and {C} are ~friends/neighbors/cousins~. {N} has {ao}, {B} {b} and {C} {c}. ~how many do the "
     "three have/how many {os} have they got together/add up all their {os}. How many~?",
     "a+b+c"},
    {"three ~children/friends/players~: {N} {ao}, {B} {b}, {C} {c}. ~total/sum/all together~?", "a+b+c"},
    {"how many {os} are there if {N} brings {a}, {B} brings {b} and {C} ~brings {c}/adds {c} more~?",
     "a+b+c"},
    {"{N} and {B} have {a} and {b} {os}, and {C} has {c} more than those two together. How many has {C}?",
     "a+b+c*"},
    {"{C} has as many {os} as {N} and {B} together, ~but gave {c} away/minus {c}/less {c}~. {N} has {a} and "
     "{B} {b}. How many has {C}?",
     "a+b-c!"},
    {"altogether {N}, {B} and {C} ~picked/found/made~ {ao}: {b} by {N}, {c} by {B}, the others by {C}. How "
     "many by {C}?",
     "a-b-c*!"},
    {"{ao} for three people: {b} for {N}, {c} for {B}, and what is left for {C}. How many ~are for {C}/does "
     "{C} get~?",
     "a-b-c*!"},
    {"{N} has {ao}. {B} has {b} ~+more-fewer~, and {C} has ~none at all/not a single one~. How many do the "
     "three have together?",
     "a?b;a+R!"},
    {"{N} has {ao}, {B} {b}, {C} {c}. How many more do {N} and {B} have together than {C}?", "a+b-c!"},
    {"{N} has {c} ~+more-fewer~ than {B}, and {B} has {b} ~+more-fewer~ {ob} than {C}. {C} has {a}. How many "
     "has {N}?",
     "a?b?c!"},
    {"with {ao}, {N} has the most. {B} has {b} fewer than {N}, and {C} has {c} fewer than {B}. How many are "
     "{C}'s?",
     "a-b-c!"},
    {"{N} and {B} each have {ao}, {C} has {b}. How many {os} ~are there in all/do all three have/have they "
     "together~?",
     "a+a+b"},
    {"{N} gave {B} {b} of {ao}, {B} gave {c} of those to {C}. How many of them ~did {B} keep/stayed with "
     "{B}~?",
     "b-c;&a-b*"},
    {"{N}, {B} and {C} need {a} {oa} together. {N} has {b}, {B} has {c}. How many must {C} have?", "a-b-c*!"},
});

inline constexpr auto kAgeRows = std::to_array<QuestionShape>({
    {"{N} is {a}. ~how old will {he} be/what will {his} age be~ in {bo}?", "a+b*^", 95},
    {"how old was {N} {b} {ob} ago, if {he} is {a} ~now/today/this year~?", "a-b*!^"},
    {"today {N} turns {a}. ~+what age will {he} be in {bo}/how old will {he} be {bo} from now-what age was "
     "{he} {bo} ago/how old was {he} {bo} earlier~?",
     "a?b*!^", 95},
    {"{N's} ~sister/brother/cousin~ is {b} {ob} ~+older-younger~ than {N}, who just turned {a}. ~how old is "
     "that person/what age is that/how many years is that~?",
     "a?b*!^", 90},
    {"{N} is {b} and {B} is {a}. In how many years will {N} be as old as {B} is now?", "a-b*!"},
    {"{N} is {a}, {B} is {b}. ~what is the age difference/how much older is {N}/how many {os} lie between "
     "them/by how many {os} is {B} younger~?",
     "a-b*!"},
    {"{B} is younger than {N} by {bo}. ~what is {B}'s age/how old is {B}/what age is {B}~ if {N} is {a}?",
     "a-b*!"},
    {"when {N} was {b}, {B} was born. Today {N} is {a}. How old is {B}?", "a-b*!"},
    {"when {N} was {b}, {B} was born. Now {B} is {a}. How old is {N}?", "a+b*", 90},
    {"add the ages of {N} and {B}: {a} and {b}. What ~is it/do you get/is the sum~?", "a+b*"},
    {"together {N} and {B} are {ao} old. {N} is {b}. ~how old is {B}/what is {B}'s age/and {B}~?", "a-b*!"},
    {"{N} is {a}, {B} is {b} and {C} is {c}. What do their ages ~add up to/make together/come to~?",
     "a+b+c*"},
    {"my ~mother/father/aunt/teacher~ is {a} and I am {b}. ~how many {os} younger am I/by how many {os} am I "
     "the younger one/what's the difference in our ages~?",
     "a-b*!"},
    {"I'm {a}. My ~friend/cousin/neighbor~ is {b} {ob} ~+older-younger~. ~how old is my friend/what age is "
     "that/so how old would that be~?",
     "a?b*!", 95},
    {"{N} moved ~here/to this town/to our street~ at {b} and is {a} now. For how many {os} has {he} lived "
     "there?",
     "a-b*!^"},
    {"{N} started ~school/football/the piano/yoga~ at {a} and ~kept on/went on/did it~ for {bo}. How old was "
     "{he} ~then/at the end~?",
     "a+b*^", 90},
    {"{N} will be {a} in {bo}. ~what is {his} age now?/how old is {he} right now?/tell me {his} age today.~",
     "a-b*!^"},
    {"{b} {ob} ago {N} was {a}. How old will {N} be {c} {oc} from now?", "a+b+c*^", 95},
    {"if {N} is {b} {ob} ~+older-younger~ than {B} and {B} is {a}, what is the ~sum/total~ of their ages?",
     "a?b;a+R!"},
    {"the ~oak/church/bridge/clock~ is {ao} old, the ~wall/barn/fence/tower~ {b} {ob} "
     "~+older-younger/newer~. What age is the ~second/latter~?",
     "a?b*!"},
});

inline constexpr auto kPursesRows = std::to_array<QuestionShape>({
    {"{N} has saved {ao}, {B} {b}. How much ~+have they saved together/is that for both/do they have in "
     "all-more has {N} saved/less has {B} saved~?",
     "a?b!"},
    {"{N} earns {ao} and {B} earns {b} {ob} ~+more-less~. ~how much does {B} earn/what does {B} get/what are "
     "{B}'s earnings~?",
     "a?b!"},
    {"{N} has {b} {ob}. The ~ticket/game/ball/book~ {he} wants costs {a}. How much must {he} borrow from {B} "
     "to buy it?",
     "a-b!"},
    {"{N} ~borrowed/got~ {ao} from {B} and paid back {b}. ~how much does {N} still owe/what is still "
     "owed/what must {N} still pay~?",
     "a-b"},
    {"{N} and {B} buy a ~gift/cake/game~ for {ao} together. {N} pays {b}. What ~must {B} pay/is {B}'s "
     "share/is left for {B} to pay~?",
     "a-b*!"},
    {"{N} pays {ao} for a ~bag/coat/hat~, {B} pays {b} for the same one in another shop. How much less does "
     "{B} pay?",
     "a-b!"},
    {"{N} spent {ao}, {B} spent {b} and {C} spent {c}. What did the three ~spend together/pay in all~?",
     "a+b+c"},
    {"{N} gave {B} {bo} and has {a} left. How much money did {N} have ~at first/before that~?", "a+b"},
    {"{N} had {ao}. After ~lunch/the fair/the movie~ {he} paid {B} {b} and {C} {c}. What's left for {N}?",
     "a-b-c"},
    {"{B} has {b} {ob} less than {N}. If {N} has {a}, what do {N} and {B} have together?", "a-b;a+R!"},
    {"{N} can pay {a} and {B} can pay {b}. The ~boat/tent/kite~ costs {c} {oc}. How much is left over?",
     "a+b-c*"},
    {"{N} can pay {a} and {B} can pay {b}. The ~boat/tent/kite~ costs {c} {oc}. How much are they short?",
     "a+b;c-R*!"},
    {"weekly money: {N} {ao}, {B} {b}. ~+how much for both/what do the parents pay-how much more for "
     "{N}/what is the difference~?",
     "a?b!"},
    {"{N} sold lemonade for {ao} and {B} for {b}. ~by how much did {N} do better/how much more did {N} take "
     "in/what is the gap between the two~?",
     "a-b!"},
    {"{N} pays {B} {b} {ob} of the {a} that {he} owes. What debt ~remains/is left~?", "a-b*"},
});

inline constexpr auto kFiguresRows = std::to_array<QuestionShape>({
    {"a table is {b} ~centimeters/inches~ high, and {N} is {a} taller than the table. How tall is {N}?",
     "b+a*^"},
    {"{N} and {B} stand back to back. {N} measures {a} inches, {B} {b}. How much ~taller is {N}/shorter is "
     "{B}/is the difference~?",
     "a-b*!"},
    {"{B} is {b} centimeters ~+taller-shorter~ than {N's} {a} centimeters. How tall is {B}?", "a?b*!"},
    {"a child who is {a} centimeters tall stands on a ~box/chair/stool~ of {b} centimeters. How high up is "
     "the top of that child?",
     "a+b*"},
    {"score: {N} {a}, {B} {b}. ~+points in all/sum of both scores-how far ahead is {N}/how big is the lead~?",
     "a?b*!"},
    {"{N} ~beat/defeated~ {B} by {b} points and scored {a}. What was {B}'s score?", "a-b*!"},
    {"{N} lost to {B} by {b} points. {N} scored {a}. What did {B} score?", "a+b*"},
    {"{N} is on {b} points, {B} on {a}. How many points does {N} need ~to tie/to be level/to catch {B}~?",
     "a-b*!"},
    {"{N} got {a} points in round one, {b} in round two and {c} in round three. What is {his} total?",
     "a+b+c*^"},
    {"in the first half our team ~made/scored~ {a} points and in the second half {b}. The others made {c} in "
     "all. By how many did we win?",
     "a+b-c*!"},
    {"at half time it was {a} to {b}. How many points were ~they apart/between the teams/missing for a "
     "draw~?",
     "a-b*!"},
    {"the ~blue/home/older~ team has {a} goals this year, the other team {b} ~+more-fewer~. How many goals "
     "is that for the other team?",
     "a?b*!"},
    {"{N} got {a} answers right in the test, {B} {b}. How many more right answers ~has {N}/did {N} give/are "
     "{N's}~?",
     "a-b*!"},
    {"a test has {a} questions. {N} got {b} of them right. How many were wrong?", "a-b*!^"},
    {"{N} lives {a} ~miles/kilometers/blocks~ from school, {B} {b} ~+more/farther-fewer/less~. ~how far does "
     "{B} live from school/what is {B}'s distance to school/how far is the way for {B}~?",
     "a?b*!"},
    {"{N} swam {a} lengths and {B} swam {b}. ~+how many lengths is that in all/how many did they swim "
     "together-how many more did {N} swim/by how many was {B} behind~?",
     "a?b*!"},
    {"{N} needs {a} seconds for the race. {B} is {b} seconds ~+slower-faster~. ~what is {B}'s time/how long "
     "does {B} take/in what time does {B} finish~?",
     "a?b*!"},
    {"{N} practices {a} minutes a day, {B} {b}. ~how much longer does {N} practice/how much less does {B} "
     "practice/what is the difference in minutes~?",
     "a-b*!"},
    {"{N} has read {a} pages of the book and {B} {b}. How many pages ~+have they read together/is that in "
     "total-is {N} ahead/is {B} behind~?",
     "a?b*!"},
    {"{N} is on page {a} of the same book as {B}, who is {b} pages ~+further-behind~. On what page is {B}?",
     "a?b*!"},
    {"{N's} ~bag/suitcase/pumpkin/cat~ weighs {a} kilos and {B}'s {b} kilos ~+more-less~. What does {B}'s "
     "weigh?",
     "a?b*!"},
    {"on the seesaw {N} weighs {a} kilos and {B} {b}. How many kilos must be put on {B}'s side ~to make it "
     "level/to get the same weight~?",
     "a-b*!"},
    {"in ~London/Rome/our town/the city~ it is {a} degrees, ~by the sea/in the mountains/in the north~ {b} "
     "degrees ~+warmer-colder~. What is the second temperature?",
     "a?b*!", 60},
    {"class A has {a} ~pupils/students/children~, class B has {b} ~+more-fewer~. How many are in class B?",
     "a?b*!"},
    {"our class has {a} girls and {b} boys. ~+how many children are in our class/how big is our class/how "
     "many is that all together-how many more girls than boys are there/by how many do the girls outnumber "
     "the boys~?",
     "a?b*!"},
    {"room one has {a} ~chairs/seats/desks~, room two has {b}. ~how many more must be bought for room two to "
     "have as many/how many more has room one/by how many is room two behind~?",
     "a-b*!"},
    {"{N} did {a} ~push-ups/jumps/laps~ and then {b}; {B} did {c} in all. How many more did {N} do than {B}?",
     "a+b-c*!"},
    {"{N} slept {a} hours this week, {B} {b}. How many hours less did {B} sleep?", "a-b*!"},
    {"{N} waited {a} minutes, {B} came {b} minutes later and waited for the same bus. How long did {B} wait?",
     "a-b*!"},
    {"{N} lives on floor {b} and {B} on floor {a} of the same house. How many floors does {N} climb to visit "
     "{B}?",
     "a-b*!", 60},
    {"{N} stands in place {b} of the line and {B} in place {a}. How many places ~is {B} behind {N}/is {N} "
     "ahead of {B}~?",
     "a-b*!"},
    {"{N} has {a} days of holiday, {B} {b} ~+more-fewer~. How many days off does {B} have?", "a?b*!"},
});

inline constexpr auto kSchoolThemes = std::to_array<ShapeTheme>({
    {QuestionForm::kComparison, kGoods, kNone, kPairRows},
    {QuestionForm::kComparison, kFoods, kNone, kPairRows},
    {QuestionForm::kComparison, kGoods, kNone, kGivingRows},
    {QuestionForm::kComparison, kGoods, kNone, kTrioRows},
    {QuestionForm::kComparison, kYears, kNone, kAgeRows},
    {QuestionForm::kComparison, kMoneyUnits, kNone, kPursesRows},
    {QuestionForm::kComparison, kNone, kNone, kFiguresRows},
});

}  // namespace lacuna
