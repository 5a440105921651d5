// Names, nouns and places of the task `questions`. A noun is given as its singular, followed by a bar and the
// plural if that is not the singular with "s".
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace lacuna {

/// A text as an argument of a template.
template <size_t kSize>
struct WordText {
  char text[kSize] = {};
  constexpr WordText(const char (&literal)[kSize]) {
    std::copy_n(literal, kSize, text);
  }  // NOLINT: literals become one
  constexpr std::string_view view() const { return {text, kSize - 1}; }
};

/// The parts of a text between commas: word_list<"cow, sheep|sheep">().
template <WordText kText>
constexpr auto word_list() {
  constexpr std::string_view kSeparator = ", ";
  std::array<std::string_view, std::ranges::count(kText.view(), ',') + 1> list;
  std::string_view rest = kText.view();
  for (std::string_view& word : list) {
    word = rest.substr(0, rest.find(kSeparator));
    rest.remove_prefix(std::min(word.size() + kSeparator.size(), rest.size()));
  }
  return list;
}

inline constexpr auto kGirls = word_list<

    "Mia, Ada, Zoe, Lea, Ida, Eva, Nora, Ruth, Clara, Irma, Anna, Emma, Lisa, Sara, Maria, Lily, Emily, "
    "Alice, Kate, Mary, Lucy, Sophie, Olivia, Ella, Grace, Julia, Laura, Nina, Rosa, Amy, Sally, Jane, "
    "Susan, Helen, Linda, Karen, Betty, Nancy, Diana, Paula, Sofia, Chloe, Hannah, Leah, Sarah, Rachel, "
    "Megan, Molly, Ivy, Daisy, Rose, Violet, Hazel, Ruby, Pia, Greta, Frida, Elsa, Inga, Aisha, Fatima, "
    "Leila, Yara, Amina, Priya, Anika, Mei, Yuki, Hana, Carmen, Elena, Lucia, Ines, Bella, Tina, Vera, "
    "Olga, Tanya, Katya, Zara, Jenny, Maya, Lena, Tess, Abby, Wendy, Peggy, Rita, Gina, Naomi, Esther, "
    "Miriam, Layla, Nadia, Freya, Astrid, Sandra, Martha, Agnes, Edith, Mrs. Green, Mrs. Lee, Mrs. Brown, "
    "Ms. Clark, Mrs. Hill, Aunt Mary, Aunt Sue, Grandma, Mom">();

inline constexpr auto kBoys = word_list<

    "Ben, Tom, Max, Sam, Leo, Jon, Hugo, Otto, Felix, Paul, John, Peter, Tim, Alex, David, Jack, Omar, "
    "Bob, James, Daniel, Lukas, Noah, Liam, Ethan, Jacob, Adam, Luke, Mark, Matt, Nick, Oscar, Oliver, "
    "Henry, George, Harry, Charlie, William, Robert, Simon, Andrew, Kevin, Brian, Eric, Frank, Carl, "
    "Karl, Hans, Finn, Lars, Sven, Erik, Anton, Ivan, Boris, Pavel, Marek, Ali, Hassan, Ahmed, Yusuf, "
    "Raj, Arjun, Ravi, Kenji, Hiro, Chen, Wei, Carlos, Diego, Pablo, Jose, Luis, Juan, Pedro, Marco, "
    "Luca, Enzo, Hector, Victor, Martin, Tony, Billy, Jimmy, Joe, Dan, Ted, Ron, Greg, Ian, Neil, Owen, "
    "Dylan, Ryan, Kyle, Theo, Emil, Jonas, Elias, Levi, Caleb, Mr. Green, Mr. Lee, Mr. Brown, Mr. Clark, "
    "Mr. Hill, Uncle Bob, Uncle Joe, Grandpa, Dad">();

/// People without a name, referred to by "he" or "she".
inline constexpr auto kDescribed = word_list<

    "a farmer, a teacher, a baker, a boy, a girl, a gardener, a shopkeeper, a student, a painter, a "
    "fisher, a collector, a neighbor, a child, a sailor, an artist, the cook, a pupil, my friend, my "
    "brother, my sister, my uncle, my aunt, my cousin, the coach, a tailor, a florist, a waiter, a "
    "carpenter, a librarian, a king, a queen, a wizard">();

/// Owners of things that are referred to by "it".
inline constexpr auto kOwners = word_list<

    "a shop, a store, a school, a library, a museum, a bakery, a market stall, a club, a factory, a toy "
    "shop, a hotel, a company, a kitchen, a hospital, a theater, a class">();

/// Groups, referred to by "they".
inline constexpr auto kGroups = word_list<

    "the children, the twins, the students, the neighbors, my parents, the boys, the girls, the farmers, "
    "the scouts, the players, the teachers, some friends">();

/// Other participants; {his} is the actor's possessive.
inline constexpr auto kOthers = word_list<

    "a friend, the teacher, a neighbor, {his} brother, {his} sister, {his} mother, {his} father, {his} "
    "friend, {his} aunt, {his} uncle, {his} cousin, {his} son, {his} daughter, {his} neighbor, a "
    "stranger, another child, someone, the boy next door, {his} grandmother, {his} grandfather, a "
    "classmate, the girl next door">();

inline constexpr auto kGoods = word_list<

    "shell, coin, book, stone, card, stamp, ball, pen, key, ring, cup, bag, toy, seed, hat, marble, "
    "pencil, sticker, flower, ticket, pebble, bead, button, leaf|leaves, car, doll, kite, rose, crayon, "
    "rock, balloon, notebook, magazine, comic, poster, picture, photo, postcard, letter, envelope, "
    "eraser, ruler, brush|brushes, marker, map, badge, medal, trophy|trophies, puzzle, game, block, "
    "brick, stick, feather, candle, lamp, lantern, bell, drum, flute, whistle, spoon, fork, knife|knives, "
    "plate, bowl, glass|glasses, mug, bottle, jar, can, box|boxes, basket, bucket, pot, pan, chair, "
    "table, pillow, blanket, towel, shirt, sock, shoe, scarf|scarves, glove, coat, dress|dresses, belt, "
    "bracelet, necklace, jewel, pearl, diamond, robot, rocket, train, truck, boat, bike, wheel, nail, "
    "screw, hammer, tool, rope, ribbon, string, paper clip, folder, chalk stick, painting, drawing, "
    "mirror, clock, watch|watches, battery|batteries, light, flag, crown, mask, costume, teddy bear, "
    "figure, dice|dice, token, gift, present, parcel, package, newspaper, tile, log, plank, umbrella, "
    "tent, phone, camera, tulip, daisy|daisies, lily|lilies, cactus|cactuses, plant, bulb, toy car, "
    "building block, seashell, acorn, pine cone, bookmark, keychain, magnet, note">();

inline constexpr auto kFoods = word_list<

    "apple, pear, plum, nut, egg, cookie, orange, candy|candies, muffin, banana, sweet, cake, "
    "tomato|tomatoes, carrot, lemon, cherry|cherries, grape, peach|peaches, strawberry|strawberries, "
    "berry|berries, potato|potatoes, onion, mushroom, pepper, pumpkin, melon, mango|mangoes, walnut, "
    "almond, chestnut, donut, pancake, waffle, sandwich|sandwiches, pizza, pie, roll, bun, pretzel, "
    "biscuit, cracker, cupcake, chocolate, lollipop, raisin, olive, radish|radishes, bean, loaf|loaves, "
    "bagel, taco, dumpling, sausage, snack, apricot, fig, coconut, kiwi, lime, bread roll">();

/// Living beings that come and go, grouped by the verbs that fit them.
inline constexpr auto kBirds = word_list<

    "bird, crow, duck, pigeon, sparrow, owl, swan, parrot, gull, robin, goose|geese, "
    "butterfly|butterflies, bee, eagle, stork, dove, swallow, bat">();
inline constexpr auto kAnimalKinds = word_list<

    "cow, sheep|sheep, horse, goat, pig, hen, rabbit, dog, cat, deer|deer, fox|foxes, mouse|mice, donkey, "
    "lamb, pony|ponies, chicken, kitten, puppy|puppies, camel, llama, elephant, monkey, squirrel, frog, "
    "zebra, turtle, calf|calves">();
inline constexpr auto kFishKinds = word_list<

    "fish|fish, goldfish|goldfish, trout|trout, crab, snail, shrimp|shrimp, frog, turtle, carp|carp, "
    "tadpole">();
inline constexpr auto kPeopleKinds = word_list<

    "person|people, child|children, man|men, woman|women, boy, girl, student, guest, visitor, player, "
    "pupil, kid, adult, tourist, teacher, dancer, singer, worker, soldier, scout, runner, customer, "
    "swimmer, reader, friend, nurse, actor, member">();
inline constexpr auto kRiders = word_list<

    "passenger, person|people, child|children, tourist, student, traveler, worker, man|men, woman|women, "
    "rider">();
inline constexpr auto kPlants = word_list<

    "tree, rose, bush|bushes, flower, apple tree, tulip, oak, plant, pine, palm, sunflower, cherry tree, "
    "vine, shrub, birch|birches, lily|lilies">();
inline constexpr auto kVehicles =
    word_list<"car, bike, truck, van, bus|buses, taxi, boat, ship, plane, scooter, motorcycle, wagon">();

// Places with their prepositions.
inline constexpr auto kPerches = word_list<

    "in the tree, on the roof, on the wire, on the lake, in the garden, on the fence, in the nest, by the "
    "pond, on the branch, in the park, on the wall, on the bridge">();
inline constexpr auto kFields = word_list<

    "on the farm, in the field, in the barn, on the hill, in the zoo, in the meadow, in the stable, in "
    "the pen, in the yard, in the forest, by the river, in the shelter">();
inline constexpr auto kWaters = word_list<

    "in the tank, in the pond, in the lake, in the aquarium, in the bowl, in the river, in the pool, in "
    "the stream">();
inline constexpr auto kRooms = word_list<

    "in the room, in the hall, at the party, in the cafe, in the library, in the museum, in the class, in "
    "the pool, on the beach, in the park, in the shop, in the classroom, in the cinema, at the concert, "
    "on the playground, in the line, in the club, at the camp, in the gym, in the choir, on the team, in "
    "the restaurant, in the waiting room, in the house, in the village, at the meeting, on the field, on "
    "the ice">();
inline constexpr auto kRides = word_list<

    "on the bus, on the train, on the boat, on the plane, on the ferry, on the tram, in the elevator, on "
    "the ship, in the van, in the lift, in the subway car, in the cable car">();
inline constexpr auto kBoxes = word_list<

    "in the box, in the jar, in the basket, on the table, on the shelf, in the bag, in the drawer, in the "
    "bowl, in the bucket, on the plate, in the cupboard, in the fridge, in the crate, on the tray, in the "
    "sack, in the chest, on the counter, in the tin, on the desk, in the kitchen, in the cellar, in the "
    "closet, in the suitcase, on the floor, in the pile, in the store, in the warehouse, in the backpack">();
inline constexpr auto kGardens = word_list<

    "in the garden, in the park, in the yard, in the forest, on the hill, in the orchard, along the road, "
    "by the lake, behind the house, in the greenhouse, on the farm">();
inline constexpr auto kLots = word_list<

    "in the parking lot, in the garage, on the street, in the harbor, at the station, on the ferry, in "
    "front of the school, in the yard, at the port, in the car park">();

// Units.
inline constexpr auto kMoneyUnits =
    std::to_array<std::string_view>({"dollar", "euro", "coin", "pound", "cent", "dollar", "euro"});
inline constexpr auto kLiquidUnits =
    std::to_array<std::string_view>({"liter", "gallon", "cup", "bucket", "glass|glasses", "milliliter"});
inline constexpr auto kLengthUnits =
    std::to_array<std::string_view>({"kilometer", "mile", "meter", "km|km", "block", "step"});
inline constexpr auto kSizeUnits =
    std::to_array<std::string_view>({"centimeter", "meter", "inch|inches", "foot|feet", "cm|cm"});
inline constexpr auto kTimeUnits =
    std::to_array<std::string_view>({"minute", "hour", "second", "day", "week"});
inline constexpr auto kWeightUnits =
    std::to_array<std::string_view>({"kilogram", "pound", "kilo", "kg|kg", "gram"});
inline constexpr auto kDegrees = std::to_array<std::string_view>({"degree"});
inline constexpr auto kYears = std::to_array<std::string_view>({"year"});
inline constexpr auto kPages = std::to_array<std::string_view>({"page"});
inline constexpr auto kPoints = std::to_array<std::string_view>({"point", "point", "goal", "life|lives"});
inline constexpr auto kFloors = std::to_array<std::string_view>({"floor"});
inline constexpr auto kPercents = std::to_array<std::string_view>({"percent|percent"});

inline constexpr auto kColors = word_list<

    "red, blue, green, yellow, white, black, brown, pink, big, small, old, new, large, gray, purple, "
    "long, short, wooden">();

/// Words that may open a sentence.
inline constexpr auto kOpeners = std::to_array<std::string_view>({
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "then ",
    "later ",
    "after that, ",
    "next, ",
    "today ",
    "soon ",
    "in the afternoon ",
    "the next day ",
    "on Monday ",
    "on Friday ",
    "after lunch, ",
    "in the evening, ",
    "a little later, ",
    "at noon, ",
    "during the day, ",
    "this morning, ",
    "after school, ",
    "on Sunday, ",
    "an hour later, ",
    "that night, ",
    "the day after, ",
    "later that day, ",
    "on Tuesday, ",
    "suddenly, ",
    "by the evening, ",
    "a week later, ",
    "meanwhile, ",
    "in the meantime, ",
    "afterwards, ",
    "on the way home, ",
    "after a while, ",
    "unfortunately, ",
    "luckily, ",
    "before lunch, ",
    "at the weekend, ",
    "on Saturday ",
    "on Thursday, ",
    "however, ",
    "finally, ",
    "also, ",
});

/// Sentences that are irrelevant to the result; {N} is the actor's name.
inline constexpr auto kFacts = std::to_array<std::string_view>({
    "it (is|was) a sunny day",
    "it (is|was) raining",
    "everyone (is|was) happy",
    "it (is|was) a cold morning",
    "the weather (is|was) nice",
    "it (is|was) very warm outside",
    "the sun (is|was) shining",
    "it (is|was) late",
    "the day (is|was) long",
    "it (is|was) a holiday",
    "there (is|was) no wind",
    "it (is|was) spring",
    "nobody (sees|saw) it",
    "the wind (is|was) strong",
    "school (is|was) closed",
    "it (is|was) Monday",
});
inline constexpr auto kActorFacts = std::to_array<std::string_view>({
    "{A} <is|was> very happy",
    "{A} <likes|liked> them a lot",
    "{A} <lives|lived> near the sea",
    "{A} <has|had> a little dog",
    "{A} <walks|walked> to school",
    "{A} <loves|loved> music",
    "{A} <has|had> a blue hat",
    "{A} <is|was> tired",
    "{A} <goes|went> for a walk",
    "{A} <has|had> a good day",
    "{A} <sings|sang> a song",
    "{A} <likes|liked> to play outside",
    "{his} favorite color (is|was) green",
    "{his} room (is|was) big",
});
/// Rarely used irrelevant sentences with a number.
inline constexpr auto kNumberFacts = std::to_array<std::string_view>({
    "it (is|was) 3 o'clock",
    "the house (has|had) 2 doors",
    "the bus (comes|came) at 8 o'clock",
    "there (are|were) 7 days in that week",
    "it (takes|took) 10 minutes",
    "the school (has|had) 4 floors",
    "the street (is|was) 2 miles long",
    "dinner (is|was) at 6",
});

}  // namespace lacuna
