// Sums without a story.
#pragma once

#include <array>

#include "tasks/question_shapes.h"
#include "tasks/question_themes.h"

namespace lacuna {

inline constexpr auto kSumsRows = std::to_array<QuestionShape>({
    {"{b} and how ~many/much~ make {a}?", "a-b!"},
    {"{b} and what ~make/give/is~ {a}?", "a-b!"},
    {"{b} + ? = {a}", "a-b!"},
    {"? + {b} = {a}", "a-b!"},
    {"{a} - ? = {b}", "a-b!"},
    {"? - {b} = {a}", "a+b"},
    {"what plus {b} ~is/makes/gives~ {a}?", "a-b!"},
    {"what minus {b} ~is/makes/gives~ {a}?", "a+b"},
    {"{a} minus what ~is/makes/gives~ {b}?", "a-b!"},
    {"from what number must you take {b} to get {a}?", "a+b"},
    {"I think of a number. ~+when I take away {b}-when I add {b}~, I get {a}. What is my number?", "a?b!"},
    {"I think of a number and ~+take away/subtract-add~ {b}. The result is {a}. Which number is it?", "a?b!"},
    {"think of {a}. ~+add {b}/put {b} to it-take away {b}/take {b} from it~. ~what do you have/what is it "
     "now/what do you get~?",
     "a?b"},
    {"take {a}, ~+add-subtract/remove~ {b} and ~+add-subtract/remove~ {c}. What ~comes out/is left/do you "
     "get~?",
     "a?b?c"},
    {"~+add {b} to-take {b} from/subtract {b} from~ {a}. What is the ~result/answer~?", "a?b"},
    {"which number is {b} ~+more/greater/larger-less/smaller~ than {a}?", "a?b"},
    {"what number comes {b} ~+after-before~ {a}?", "a?b"},
    {"give the number that is {b} ~+above-below~ {a}.", "a?b"},
    {"{a} ~+and {b} more/and another {b}/increased by {b}-but {b} fewer/with {b} taken away/lowered by {b}~ "
     "is ~what/how much~?",
     "a?b*"},
    {"{a} ~+up-down~ by {b} is what?", "a?b"},
    {"count ~+forward/up-back/down~ {b} from {a}. ~where are you/where do you end/what number is that~?",
     "a?b"},
    {"go ~+up-down~ {b} from {a}.", "a?b"},
    {"start at {a} and go {b} ~+up/forward-down/back~. Where do you end?", "a?b"},
    {"let a be {a} and b be {b}. What is a ~+plus-minus~ b?", "a?b"},
    {"if x = {a} and y = {b}, what is x ~+plus-minus~ y?", "a?b"},
    {"x is {a}. What is x ~+plus/and-minus/less~ {b}?", "a?b"},
    {"x + {b} = {a}. ~find x/what is x/solve for x~.", "a-b!"},
    {"x - {b} = {a}. ~find x/what is x/solve for x~.", "a+b"},
    {"{a} - x = {b}. ~find x/what is x/solve for x~.", "a-b!"},
    {"the ~+sum-difference~ of two numbers is asked. They are {a} and {b}.", "a?b!"},
    {"two numbers: {a} and {b}. Their ~+sum/total-difference~?", "a?b!"},
    {"~+the sum-the difference~ of {a} and {b} is which number?", "a?b!"},
    {"write down the ~+sum-difference~ of {a} and {b}.", "a?b!"},
    {"the sum of two numbers is {a}. One of them is {b}. What is the other?", "a-b!"},
    {"two numbers make {a} together. If one is {b}, which is the other?", "a-b!"},
    {"the difference between two numbers is {b}. The ~+smaller-larger~ one is {a}. What is the other?",
     "a?b!"},
    {"how ~many/much~ must I ~add to {b} to get {a}/take from {a} to get {b}~?", "a-b!"},
    {"how much more than {b} is {a}?", "a-b!"},
    {"how much less than {a} is {b}?", "a-b!"},
    {"what is missing from {b} to {a}?", "a-b!"},
    {"what separates {b} from {a}?", "a-b!"},
    {"between {b} and {a}, how big is the gap?", "a-b!"},
    {"make {a} ~+bigger/larger-smaller~ by {b}.", "a?b"},
    {"~+join {a} and/combine {a} and/put together {a} and-reduce {a} by/shorten {a} by~ {b}.", "a?b"},
    {"double {a}.", "a+a"},
    {"what is twice {a}?", "a+a"},
    {"{a} and {a} again: how much is that?", "a+a"},
    {"{a}, plus {b}, ~+plus-minus~ {c}?", "a+b?c"},
    {"{a} plus {b} and then ~+{c} more-{c} less~ is what?", "a+b?c"},
    {"first {a} ~+plus-minus~ {b}, then the result ~+plus-minus~ {c}. ~what is it/what do you get~?",
     "a?b?c"},
    {"{a} minus {b} minus {c}?", "a-b-c"},
    {"from {a}, take {b} and then {c}. ~what is left/what remains~?", "a-b-c"},
    {"subtract both {b} and {c} from {a}.", "a-b-c"},
    {"to {a} add {b}, and to that {c}. What is it?", "a+b+c"},
    {"total of {a}, {b} and {c}, please.", "a+b+c"},
    {"{a}. {b}. {c}. ~add them all/what is their sum/sum them up~.", "a+b+c"},
    {"on a number line, {b} steps to the ~+right-left~ of {a} is which number?", "a?b*"},
    {"the answer to {a} ~+plus-minus~ {b} is what number?", "a?b"},
    {"~+adding {b} to-taking {b} from/subtracting {b} from~ {a} gives what?", "a?b"},
    {"when {b} is ~+added to-taken from/subtracted from~ {a}, what is the result?", "a?b"},
    {"if we ~+add {b} to-take {b} from~ {a}, which number do we get?", "a?b"},
    {"someone wrote {a} ~+and added-and subtracted~ {b}. What should come out?", "a?b"},
    {"my calculator is broken. What is {a} ~+plus-minus~ {b}?", "a?b"},
    {"question {z}: {a} ~+plus/and-minus/take away~ {b}?", "a?b"},
    {"{a} take {b}.", "a-b"},
    {"{a} and {b}, what do they make?", "a+b"},
    {"{a} and {b} make what?", "a+b"},
    {"{a} more than {b}, please.", "b+a"},
    {"{b} ~+is added to-is subtracted from~ {a}. Say the result.", "a?b"},
});

inline constexpr auto kSumThemes = std::to_array<ShapeTheme>({{QuestionForm::kSum, kNone, kNone, kSumsRows}});

}  // namespace lacuna
