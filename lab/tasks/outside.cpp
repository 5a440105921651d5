// The questions of the task `outside`, handwritten by an author who did not look at the generation of
// training data. Models are never trained on them, and no wording is taken from them.
#include "tasks/outside.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "tasks/written_numbers.h"

namespace lacuna {
namespace {

// A line is the result, then turns, all separated by bars.

// clang-format off
// Stories of one number, of two people, bare sums, number words.
constexpr std::string_view kStories = R"(37|A baker puts 14 rolls on a tray. Then he adds 23 more. How many rolls are on the tray?
32|There were 50 apples in the crate. Grandma used 18 for a pie. How many apples are still in the crate?
34|Omar owned 31 stamps. His aunt sent him 9, and he traded away 6. How many stamps does Omar own now?
15|Lena picked 27 tulips. She handed 8 to her teacher and 4 to her neighbor. How many tulips did she keep?
80|A library had 63 comics. This week it bought 17. How many comics does it have?
53|Forty-five people sat on the bus. At the first stop 12 got off and 20 got on. How many people are on the bus?
16|Priya found 8 feathers on Monday and 8 on Tuesday. How many feathers did she find in all?
37|The tank held 72 liters of water. The garden took 35. What is left in the tank?
46|Ivan caught 19 fish in the morning, 24 at noon and 3 in the evening. How many fish is that?
49|A roll of tape is 90 meters long. Workers cut off 41 meters. How long is the roll now?
12|In the pond swam 16 ducks. 5 more landed, later 9 flew off. How many ducks are in the pond?
66|Each of the twins has 33 beads. How many beads do they have together?
29|Kim's book has 58 pages. She has read 29. How many pages are left?
39|Box A holds 12 screws, box B 13 and box C 14. How many screws are in the boxes?
35|Paul began the game with 40 points. He lost 7, then won 2. What is his score?
7|There are 77 seats in the hall and 70 guests. How many seats stay empty?
69|Nadia wrote 21 letters in May and 48 in June. How many letters did she write in those two months?
45|Out of 99 balloons, 54 burst. How many balloons are whole?
10|Six cats slept in the barn. Fifteen more came in, and 11 left at dawn. How many cats stayed in the barn?
27|Theo baked 36 muffins and sold 9 of them. How many muffins does he still have?
40|Sara had 25 euros, got 25 from her father, and spent 10. How many euros does she have?
50|The farmer keeps 84 hens. A fox takes 22, and he sells 12. How many hens does the farmer keep now?
49|There are 11 red tiles and 38 white tiles on the wall. How many tiles is that together?
48|Yuki's jar held 67 buttons. She sewed 19 onto coats. How many buttons remain in the jar?
32|A tree had 18 nests. Birds built 7 this spring and 7 in summer. How many nests does the tree have?
45|Bob carried 55 bricks. Two times he dropped 5. How many bricks is he carrying?
70|Our class collected 29 bottles, the other class 41. How many bottles did both classes collect?
50|The shop had 80 lamps in stock. It sold 33 and got 3 back. How many lamps are in stock?
39|Marta is 13 years old, her uncle is 26 years older. How old is her uncle?
31|Ed is 47. His daughter is 16 years younger... no, she is 16 years old. How much older is Ed?
30|Ali stacks 10 cups, then 10 more, then 10 more. How many cups are in the stack?
35|A train with 95 passengers lets 60 out. How many passengers ride on?
48|Eva planted 22 beans on Friday and 34 on Sunday, but 8 did not grow. How many beans grew?
56|Seventy candles stood in the church. The wind blew out 14. How many candles were burning?
91|A museum got 39 visitors before lunch and 52 after it. How many visitors came that day?
32|Half of 64 cards is 32. If Jo gives away 32 of her 64 cards, how many does she have?
10|The fridge holds 17 eggs. Dad adds 6 and uses 13 for a cake. How many eggs does the fridge hold?
79|Lou's puzzle has 88 pieces, but 9 are missing. How many pieces are there?
43|On the first shelf stand 24 mugs; on the second, 19. How many mugs stand on the shelves?
20|Zoe saved 53 coins. She paid 26 for a ball and 7 for a ticket. How many coins has she left?
90|Anton ran 15 minutes on Monday, 30 on Wednesday and 45 on Saturday. How many minutes did he run?
13|A ladder has 61 rungs. Gus climbed 48. How many rungs are above him?
36|The dog buried 9 bones last year and 27 this year. How many bones did it bury?
55|There are 76 sheep on the hill. 25 go home, 4 lambs are born. How many sheep are on the hill now?
84|Rosa knits 42 rows before supper and 42 rows after. How many rows does she knit?
8|Ten times three is 30. From 30 nuts the squirrel eats 11 and hides 11. How many nuts lie in the open?
78|Hugo's album had 57 photos until he glued in 21. How many photos are in it?
37|Of the 83 runners, 46 have reached the finish. How many are still running?
18|A parking lot had 20 cars. 16 drove in and 18 drove out. How many cars are parked there?
31|May I ask how many of 44 cookies are left when the children eat 13?
63|Tim counts 35 stars in the east and 28 in the west. What is the total?
55|The rope was 92 feet long before Ann cut away 37 feet. How long is what is left?
20|Noor has 26 pens. She receives 14 and lends out 20. How many pens are with her?
9|If a bottle with 68 pills loses 59, how many pills are inside?
56|In the zoo live 7 lions and 49 monkeys. How many of these animals live there?
66|Sam's phone was at 51 percent. It fell by 15, then he charged 30. At what percent is it?
85|A painter used 38 brushes for the house and 47 for the fence. How many brushes did he use?
46|The kite rose to 74 meters and sank by 28. How high is it?
30|Grandpa had 12 walnuts. He gathered 9, then 15, and ate 6. How many walnuts does he have?
15|The cinema sold 45 of its 60 seats. How many can still be bought?
41|There were 23 kids at the party when 18 more arrived. How many kids were at the party then?
20|A truck loads 86 boxes. At stop one it drops 52, at stop two 14. How many boxes are left on the truck?
40|Mila has 19 dolls, Jana has 19 and their baby sister has 2. How many dolls are in the room?
5|Only 66 of 71 pupils came today. How many pupils are missing?
42|Karl's garden had 34 roses. He planted 25 and frost killed 17. How many roses are alive?
54|A snail crawled 46 centimeters, rested, and crawled 8 more. How far did it crawl?
9|Nina typed 97 words; 88 were right. How many were wrong?
84|In one hive are 28 frames, in another 56. How many frames are in both hives?
50|The savings box holds 65 coins. Rick takes out 24 and later puts in 9. How many coins are in the box?
21|A pack of 41 wolves splits: 20 go north. How many go the other way?
51|Three ships carry 16, 17 and 18 sailors. How many sailors are there?
55|Lola wants to walk 89 steps and has walked 34. How many steps must she still walk?
15|Eleven plates are clean. Ben washes 11 more and breaks 7. How many clean plates does he have?
86|The choir has 54 women and 32 men. How many people sing in it?
50|Out of 78 tickets, 19 were sold on Monday and 9 on Tuesday. How many tickets are unsold?
43|Iris read 37 books this year. If she reads 6 more, how many will she have read?
31|A melon with 62 seeds was halved, and 31 seeds fell out. How many seeds stayed in?
34|Wes had 25 followers, then 13 joined and 4 quit. How many followers does Wes have?
19|The tower has 94 stairs and Ute stands on stair 75. How many stairs are left to the top?
81|Eighteen hats were on sale. The owner hangs up 63 more. How many hats are on sale?
39|In the freezer were 48 ice creams. 21 got eaten, 12 were bought. How many ice creams are there?
73|A dentist saw 59 people last month and 14 so far this month. How many is that?
29|Of 73 lightbulbs 44 work. How many do not work?
34|Aida had 32 grapes, took 32 more, and squashed 30. How many good grapes does she have?
69|There were 85 leaves on the plant. In the storm it lost 16. How many leaves does it have?
47|Jack sold 10 lemonades at nine, 29 at noon, 8 at four. How many lemonades did Jack sell?
29|Milo must solve 56 tasks. He solved 27. How many tasks are waiting?
82|Two fields: one with 43 cows, one with 39. Count the cows in both.
36|Tanya's tank has 98 fish. She gives 12 to Leo and 50 to the aquarium. How many fish swim in her tank?
25|The nest had 21 ants. Seven came, three went. How many ants now?
48|A bag with 66 kilos of rice loses 18 kilos. How heavy is it?
74|Vera swam 30 laps, Carl swam 44. How many laps did they swim altogether?
19|The band had 52 fans at first, lost 39, and gained 6. How many fans does the band have?
42|Each of three spiders catches 14 flies. How many flies are caught?
54|A farmer harvested 81 pumpkins. Twenty-seven were bad. How many were good?
81|There are 36 pears here and 45 over there. How many pears altogether?
20|Rita had 75 dollars. Shoes cost 30 and a coat 25. How much money is left?
75|The first team scored 17 and the second 58. What is the sum of their scores?
21|Uncle Joe's 49 keys: he lost 28. How many keys has he got?
36|In the box are 24 pencils; Otto puts in 24 and takes out 12. How many pencils are in it?
8|Mom made 91 dumplings. We ate 83! How many dumplings are left over?
50|A kitten weighs 13 ounces and gains 37. What does it weigh?
40|69 boats were in the harbor. 40 sailed out and 11 came back. How many boats are in the harbor?
55|Dora has 20 marbles. Emil gives her another 35. How many does she have now?
29|A cyclist plans 87 kilometers and has done 58. How many kilometers remain?
11|Fifteen frogs sat by the lake, 26 hopped over, 30 jumped in. How many sit by the lake?
59|Peter's stamp book has 40 stamps on the left page and 19 on the right. How many stamps are in the book?
27|We had 64 chairs. We lent 17 to the school and 20 to the church. How many chairs do we have?
19|Mia has 12 shells and Sam has 7. How many shells do they have together?
49|Anna owns 35 books; Ben owns 14. How many books do both own?
14|Lily has 23 pearls, Tom has 9. How many more pearls does Lily have?
41|Kai has 18 cards. Rob has 5 more than Kai. How many cards do they have in all?
65|Mona saved 40 coins. Finn saved 15 fewer. How many coins have they together?
58|Greta picked 27 berries and her brother picked 31. How many berries did they pick?
28|Ron has 50 nails, Lea has 22. How many nails must Lea get to have as many as Ron?
25|Pia is 16. Max is 9 years older. How old is Max?
72|Two friends count their shells: Nora 44, Jan 28. What is the total?
41|Oscar ran 60 rounds and Hana 19. By how many rounds did Oscar win?
40|Tess has 8 toys, Vic has 24, and Will has as many as Tess. How many toys are there?
22|Both had 33 sweets. Elif ate 11 of hers. How many sweets does Elif have?
35|Ugo gives his 15 stickers to Amy, who had 20. How many stickers does Amy have now?
85|Grandma is 72. Grandpa is 13 years older. How old is Grandpa?
17|Leo had 29 pens and gave 12 of them to Ida. How many pens does Leo have?
41|Ida had 29 pens and Leo gave her 12. How many pens does Ida have?
76|Bea has 38 beads. Cleo has just as many. How many beads do they have together?
9|Dan jumped 55 inches, Eli 46. How much farther did Dan jump?
28|Flo has 17 plums and Gil has 21. They eat 10. How many plums are left?
19|Hal brings 9 cakes, Ivy 6 and Jon 4. How many cakes are on the table?
45|Together Kim and Lou have 80 tickets. Kim has 35. How many does Lou have?
33|Mat and Ned share 46 nuts. Mat takes 13. How many nuts does Ned get?
73|Opa caught 26 fish, Oma 47. How many fish did the two catch?
50|Pat and Quin each had 31 stones. Pat threw 12 away. How many stones do both have now?
39|Ray's 14 goats and Sue's 25 goats share a meadow. How many goats are in the meadow?
22|Tia needs 70 points. She has 48. How many points does she need?
55|Uma sold 19 scarves, Vito sold 36. How many scarves were sold?
29|Wim has 53 coins more or less... exactly 53. Xena has 24. What is the difference?
44|Yan has 11 pears, Zoe has 11 and Abe has 22. How many pears do the three have?
36|Bert is 42 years old and his wife is 6 years younger. How old is she?
19|What is 12 plus 7?
27|What is 45 minus 18?
60|What's 30 + 30?
98|99 - 1 = ?
83|How much is 56 plus 27?
43|Calculate 83 minus 40.
15|7+8
35|Take 29 from 64.
31|Add 15 and 16.
45|Subtract 45 from 90.
55|What do 21 and 34 make?
69|78 minus 9 is?
99|Please tell me 50 plus 49.
16|What is the difference between 33 and 17?
52|What is the sum of 26 and 26?
39|What is 39 plus 0?
44|What do you get if you take 44 away from 88?
86|11 plus 75 equals what?
57|Can you compute 62 - 5?
59|I need 19 + 40. What is it?
42|70 less 28?
51|Sum: 37, 14.
59|Work out 95 minus 36.
56|How many are 48 and 8?
1|What is 51 - 50?
18|What is 6 plus 6 plus 6?
25|What is 40 minus 10 minus 5?
32|What is 23 plus 17 minus 8?
67|84 - 20 + 3 = ?
49|Add 16, 2 and 31.
58|Double 29 by adding 29. What is 29 plus 29?
9|Give me 76 minus 67.
93|13 + 80?
39|What remains of 58 after taking 19?
77|Quick question: 42 plus 35?
69|Tell me what 97 - 28 is.
63|What number is 54 more than 9?
53|What number is 13 less than 66?
60|20+20+20=
9|If I have 81 and lose 72, what is left?
19|What is twelve plus seven?
16|What is thirty minus fourteen?
35|Anna has twenty coins and finds fifteen. How many coins has she?
29|Fifty birds sat on the roof. Twenty-one flew away. How many birds are left?
20|Nine plus eleven is what?
22|Take eighteen from forty.
38|Six dogs met thirty-two other dogs. How many dogs were there?
50|Seventy-five minus twenty-five?
32|Sixteen and sixteen make how many?
53|Sixty-three roses stood in the vase, ten withered. How many fresh roses are there?
16|Thirteen kids played. Eight joined them and five went home. How many kids are playing?
66|Add forty-four and twenty-two.
71|Ninety pages, nineteen read. How many pages are unread?
30|Leo has twenty-seven stones and gets three. How many stones is that?
20|What is fifty-eight less thirty-eight?
29|Seventeen men and twelve women work here. How many people work here?
73|The shop had eighty hats and sold seven. How many hats does it have?
70|Thirty-five plus thirty-five, please.
40|Forty plus zero equals?
30|Nineteen ants, one beetle and ten flies: how many insects?)";

// With the system turn "Answer with the number only.".
constexpr std::string_view kNumbers = R"(23|Zara has 14 ribbons and buys 9. How many ribbons has she?
37|A jug with 60 cups of juice loses 23 cups. How many cups are in it?
74|What is 37 plus 37?
67|What is 81 minus 14?
36|A bus carries 25 people; 19 get on and 8 get off. How many ride on?
69|Ken has 48 figs and Ruth 21. How many figs do they have together?
7|Out of 72 eggs 65 hatched. How many did not?
66|Add 11, 22 and 33.
73|Olga had 90 pins. She lost 17. How many pins does she have?
59|Fifty-three plus six?
16|From 40 logs Rolf burns 12 today and 12 tomorrow. How many logs remain then?
47|There are 19 stars on one flag, 28 on the other. How many stars are there?
35|66 - 31
72|The florist binds 7, then 15, then 50 flowers. How many flowers did he bind?
6|Sven is 85, his sister 79. How many years lie between them?
76|32 + 44
49|Of 98 houses, 49 are white. How many are not white?
13|Gus has 26 worms, digs up 7 and uses 20. How many worms has he?
71|How much is 55 and 16?
35|Peel 38 of the 73 carrots. How many are not peeled?
27|Eighteen coats hang here, nine there. How many coats hang?
18|A tape of 47 inches minus 29 inches: how long?
48|Mr. Hill has 63 goats, buys 25, sells 40. How many goats has Mr. Hill?
24|A dozen eggs and 12 more: how many eggs?
61|94 guests came and 33 left early. How many stayed?
80|What is the total of 29 and 51?
26|Two bags of 6 are taken from 38 sacks, 12 in all. How many sacks are left?
58|Lisa wrote 41 pages and needs 17 more. How long will her text be?
64|Score 70, minus 11, plus 5. What is it now?
84|A boy of 16 plants 68... how many trees and boys is that together?
61|88 minus 27 is what?
38|Twenty spoons, nine forks, nine knives. How many pieces is that?
15|Ina counted 59 crows, 44 of them young. How many old crows did she count?
61|Joe lifts 35 kilos, then adds 26. How heavy is it now?
19|From 77 subtract 58.
72|Two baskets hold 24 and 48 kiwis. How many kiwis are there?
30|Of the 61 slices 30 are gone, and one fell down. How many slices are good?
86|Mirrors: 43 in the hall, 43 upstairs. How many mirrors are in the house?
28|A song lasts 92 bars and 64 are over. How many bars are to come?
67|Start at 10 and go up by 57. Where are you?
15|Pablo has 34 nuts; a jay steals 19. How many nuts does Pablo have?
90|What is 17 + 73?)";

// Conversations: user and assistant take turns, and the last turn is the question.
constexpr std::string_view kTalks = R"(35|Hello!|Hello! How can I help you?|Nils has 20 pens and gets 15 more. How many pens does he have?
35|What is 12 plus 7?|12+7=19. The answer is 19.|What is 44 minus 9?
39|Thank you.|You are welcome.|There were 31 geese by the river. 8 came. How many geese are there?
15|Ana has 12 dates and finds 7. How many dates does she have?|12+7=19. The answer is 19.|She eats 4. How many are left?
45|Rex had 50 bones and lost 15. How many bones does Rex have?|50-15=35. The answer is 35.|Then he digs up 10. How many does he have now?
32|Tell a story about Nora the deer, the forest and the candle.|Nora the deer lives in the forest. One day Nora finds the candle. Nora is very happy. The end.|Nice. And what is 64 minus 32?
54|Who are you?|I am a small language model.|Good. 27 plus 27?
50|A hen laid 30 eggs, then 12. How many eggs is that?|30+12=42. The answer is 42.|She laid 9 more and one broke. How many good eggs are there?
54|Hi|Hello! How can I help you?|Please compute 80 - 26.
56|Add 8 and 8.|8+8=16. The answer is 16.|Add 40 to that.
60|The hall has 90 lamps. 17 are broken. How many work?|90-17=73. The answer is 73.|Another 13 break. How many work now?
76|Good morning.|Good morning!|Ida sold 55 cups on Friday and 21 on Sunday. How many cups did she sell?
4|Sam has 5 pears and picks 7. How many pears are there?|5+7=12. The answer is 12.|He sells 8. How many does Sam keep?
52|What is 90 minus 50?|90-50=40. The answer is 40.|And 38 plus 14?
44|Lea owns 25 dolls.|That is a fine collection.|She gets another 25 and gives away 6. How many does she own?
15|Thanks!|You are welcome.|The clock shows 60 minutes; 45 are over. How many minutes are left?
49|Twenty plus thirteen?|20+13=33. The answer is 33.|Now add sixteen.
48|Kim planted 40 trees and then 30. How many trees did Kim plant?|40+30=70. The answer is 70.|A storm took 22. How many trees stand?
53|Goodbye|Goodbye!|Wait: what is 48 plus 5?
72|How are you?|I am well. How can I help you?|A ship of 91 sailors loses 19 in port. How many sail on?
34|Mo has 9 caps and buys 8. How many caps does Mo have?|9+8=17. The answer is 17.|His twin has just as many. How many caps do both have?
50|Mo has 9 caps and buys 8. How many caps does Mo have?|9+8=17. The answer is 17.|A new question: Ella has 20 rings and Fay 30. How many rings do they have together?
55|Hi!|Hello! How can I help you?|What is 6 plus 5?|6+5=11. The answer is 11.|Take that from 66.
39|Hello|Hello! How can I help you?|I have 20 cents and lose 6. How many cents do I have?|20-6=14. The answer is 14.|I find 25. How many cents do I have now?
6|Jo has 31 nails and gets 15. How many nails are there?|31+15=46. The answer is 46.|Thank you.|You are welcome.|Jo uses 40 of them. How many are left?
71|What is 10 plus 10?|10+10=20. The answer is 20.|What is 20 minus 5?|20-5=15. The answer is 15.|What is 53 plus 18?
17|Amy has 20 cats and gets 9. How many cats?|20+9=29. The answer is 29.|Tell a story about Ben the fox, the river and the drum.|Ben the fox lives by the river. One day Ben finds the drum. Ben is very happy. The end.|Back to Amy: she gives 12 cats away. How many cats has she?
78|Tell a story about Mia the owl, the hill and the book.|Mia the owl lives on the hill. One day Mia breaks the book. Mia is very sorry. The end.|Thank you.|You are welcome.|How much is 39 plus 39?
24|A box holds 50 pins. 34 are added. How many pins does it hold?|50+34=84. The answer is 84.|Hm.|How can I help you?|60 are taken out. How many pins are in the box?
33|Who made you?|I was trained on generated text.|What can you do?|I can answer small sums.|Then: 22 coins and 11 coins are how many coins?
67|70 plus 5?|70+5=75. The answer is 75.|Minus 8?
47|Luc has 30 kites and loses 12. How many kites does he have?|30-12=18. The answer is 18.|His friend brings 29. How many kites are there now?
34|Good evening.|Good evening!|Rosa counts 51 stars, and clouds hide 17. How many can she see?
53|Is it nice to be a model?|It is.|OK. There are 40 cows in one stable and 13 in the other. How many cows are there?
36|The pool has 62 guests.|I see.|30 leave and 4 come. How many guests does the pool have?
18|Vi had 18 beans and got 9. How many beans?|18+9=27. The answer is 27.|She cooks 9. How many beans are left?
72|12 plus 24?|12+24=36. The answer is 36.|Plus 36?
40|Thank you very much!|You are welcome.|Of 95 steps I took 55. How many steps remain?
31|Ty has 34 balls and loses 10. How many balls does he have?|34-10=24. The answer is 24.|He then wins 7. How many balls does he have?
30|Hi there|Hello! How can I help you?|A tree of 58 apples drops 28. How many apples hang on it?
81|20 plus 1?|20+1=21. The answer is 21.|21 plus 60?
34|Udo has 60 bees. 11 fly off. How many stay?|60-11=49. The answer is 49.|15 more fly off. How many stay then?
47|Let us count.|Yes, let us count.|30 red cars, 12 blue cars and 5 black cars pass by. How many cars pass by?
78|80 plus 7?|80+7=87. The answer is 87.|Thanks.|You are welcome.|Now 9 less.
10|Wu has 15 limes.|Wu has 15 limes.|He gets 6 and squeezes 11. How many limes does he have?
81|What is 70 minus 1?|70-1=69. The answer is 69.|Next: 69 plus 12.
42|Bye.|Goodbye!|One more: 76 buttons, 34 sewn on. How many are loose?
50|Tell a story about Leo the cat, the garden and the bell.|Leo the cat lives in the garden. One day Leo hides the bell. Leo is very proud. The end.|Leo has 41 mice. He catches 9. How many mice has he?
13|Fay has 13 eggs and Guy 13. How many eggs do they have?|13+13=26. The answer is 26.|Guy eats all 13 of his. How many eggs are left?
94|50 plus 4?|50+4=54. The answer is 54.|And 40 more?
62|The band has 83 songs.|That is a lot.|21 are old. How many are new?
60|Hello!|Hello! How can I help you?|Ten, twenty and thirty: what do they add up to?
19|19 plus 18?|19+18=37. The answer is 37.|Now take 18 away again... from 37. What is it?
90|Ron has 45 trains.|Fine.|Don has 45 as well. How many trains do Ron and Don have?
64|64 plus 7?|64+7=71. The answer is 71.|71 minus 7?
40|Nell had 40 fish and 8 died. How many fish does she have?|40-8=32. The answer is 32.|She buys 14 and sells 6. How many does she have now?
8|Thank you.|You are welcome.|88 birds; a shot scares 80 away. How many birds sit there?
73|Are you there?|Yes. How can I help you?|How many eggs are 23 brown eggs and 50 white eggs?
45|Ada has 61 notes.|Yes.|She burns 16. How many notes does she have?
30|Kit has 25 socks and loses 6. How many socks does Kit have?|25-6=19. The answer is 19.|Grandma knits 8, and later 3. How many socks does Kit have now?)";

// clang-format on

/// Parts of `text` between separators.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

void add_samples(std::string_view lines, bool number_only, std::vector<Sample>& samples) {
  for (const std::string_view line : split(lines, '\n')) {
    const std::vector<std::string_view> fields = split(line, '|');
    Sample sample;
    if (number_only) sample.history.push_back({"system", "Answer with the number only."});
    for (size_t i = 1; i + 1 < fields.size(); ++i)
      sample.history.push_back({i % 2 == 1 ? "user" : "assistant", std::string(fields[i])});
    sample.prompt = fields.back();
    sample.answer = number_only ? std::string(fields[0]) : "The answer is " + std::string(fields[0]) + ".";
    samples.push_back(std::move(sample));
  }
}

std::vector<Sample> all_samples() {
  std::vector<Sample> samples;
  add_samples(kStories, false, samples);
  add_samples(kNumbers, true, samples);
  add_samples(kTalks, false, samples);
  return samples;
}

}  // namespace

Sample draw_outside(Split split, uint64_t /*seed*/, uint64_t index, const TaskOptions& /*options*/) {
  static const std::vector<Sample> samples = all_samples();
  if (split == Split::kTrain) {
    throw InputError("task 'outside' has no samples to train on: it is what other people ask");
  }
  return samples[index % samples.size()];
}

bool check_outside(const Sample& sample, std::string_view text) {
  return last_number(text) == last_number(sample.answer);
}

}  // namespace lacuna
