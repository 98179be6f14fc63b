"""The words of the generated corpus. Chosen by hand for this project: short, common, concrete English words, none
twice over all lists."""

# People, written with a capital.
NAMES = """
    Ada Abel Agnes Alma Amos Anton Arlo Basil Bela Boris Bruno Cara Cecil Clara Cleo Conrad Cora Dana Darius Delia
    Edith Edgar Elias Ella Emil Enid Esther Ezra Fanny Felix Fergus Flora Freda Gideon Gita Greta Gustav Hanna Hector
    Hilda Hugo Ida Igor Ines Irma Isaac Ivo Jasper Joan Jonas Judith Karla Kilian Lars Lena Leo Linus Lotte Ludo Mabel
    Magnus Maya Mila Milo Mona Nadia Nina Noor Oda Olga Orson Oscar Otto Paula Petra Quentin Rafael Rita Rosa Rufus
    Ruth Sasha Selma Silas Stella Tamar Tessa Theo Tilda Tobias Ulla Ursula Vera Viktor Wanda Wilma Yara Yusuf Zelda
    Zora
""".split()

# Countable things, singular.
THINGS = """
    acorn anchor anvil apple apron arrow axe badge bag ball banner barrel basin basket bead beam bean bell belt bench
    berry blade blanket boat bolt bone book boot bottle bowl bracelet branch brick bridle broom brush bucket buckle
    button cabinet cable cage cake camera candle canoe cap card carpet cart carving chain chair chalk chart cheese
    chest chisel cigar clasp clay cloak clock coat coin collar comb compass cork cradle crate crown crystal cup
    curtain cushion dagger desk diary dial dish doll door drawer dress drill drum easel egg engine envelope fan
    feather fence fiddle file flag flask flute fork fossil frame funnel gate gear globe glove goblet gong gown grape
    guitar hammer hammock handle harp hat helmet hinge hook horn hose jacket jar jewel jug kettle key kite knife knob
    knot label lace ladder ladle lamp lantern lemon lens letter lever lid lock locket loom lute magnet mallet map
    marble mask mat medal melon mirror mitten mop mortar mug nail napkin necklace needle nest net nut oar onion orange
    organ oven paddle padlock paint pan parcel peach pearl pear pebble pen pencil pepper piano picture pillow pin pipe
    pitcher plank plate plough plum pocket pot potato pouch prism pulley pump pumpkin purse puzzle quill quilt radio
    raft rake rattle razor reed ribbon ring robe rocket rope rug ruler saddle sail sandal saucer saw scale scarf
    scissor scroll seed shawl shell shield shirt shoe shovel sieve skate sled sleeve slipper soap sock spade spear
    spindle spoon spring spur stamp statue stool stove strap straw string sword table tablet tag teapot telescope tent
    thimble thread ticket tile tongs torch towel toy tray trophy trumpet tub turnip umbrella urn vase veil vest vial
    violin wagon wallet watch wheel whip whistle wick wig window wire wreath wrench
""".split()

# Places of a thing: each follows "in the".
PLACES = """
    abbey alley arcade attic bakery bank barn bay beach bridge cabin canal castle cave cellar chapel church cinema
    circus cliff college corner cottage court desert dock farm ferry field forest forge fort fountain garage garden
    grove hall harbour hill hotel house hut inn island jungle kitchen lake library lighthouse market marsh meadow mill
    mine monastery moor museum office orchard palace park pasture path pier pond port prison quarry ranch river road
    roof ruin school shed shop shore stable stadium station street studio swamp temple theatre tower town tunnel
    valley village vineyard wall warehouse well wharf wood workshop yard
""".split()

ADJECTIVES = """
    amber ancient bent bitter black blue blunt bold brass bright brittle broad broken bronze brown calm cheap clean
    clear clever cold copper cracked crimson crooked curly curved damp dark deep dirty dull dusty dry empty faded
    fancy fine flat foreign fragile fresh frozen gentle giant golden grand green grey hairy hard heavy hidden hollow
    hot huge humble icy iron ivory jagged large late lazy leather light little lonely long loose loud lovely lucky
    mild modern muddy narrow neat new noble noisy odd old pale patient pink plain polished proud pure purple quick
    quiet rare raw red rich ripe rough round royal rusty sacred sad salty scarlet secret shabby shallow sharp shiny
    short silent silver simple sleepy slim slow small smooth soft solid sour spare square steep sticky stiff stout
    strange striped strong sturdy sunny sweet tall tame tender thick thin tidy tight tiny tough vast velvet violet
    warm weak wet white wide wild wise wooden yellow young
""".split()

# Verbs in the past tense that take a thing: "Ada painted the kettle".
VERBS = """
    admired baked borrowed bought broke brought built buried burned carried carved caught chose cleaned closed
    collected copied covered cut delivered described dragged drew dropped dug earned emptied examined filled fixed
    folded followed forgot found gathered guarded held hid hung invented kept kicked kissed labelled lifted liked lit
    lost loved made measured mended missed moved noticed offered opened ordered owned packed painted passed picked
    planted pointed pulled pushed raised reached received repaired saved sewed shared shook sold stole stored studied
    swapped swept threw tied touched traded trusted turned untied used wanted washed wore weighed wrapped
""".split()

# Words of the closed classes and of the passages' fixed phrases, with and without a capital.
FUNCTION_WORDS = """
    a again all also an and are as asked at away back be because before behind beside but by came did down each every
    far first for from gave had has have he her here him his how if in inside into is it later list magic me my near
    next no not note now number numbers of off on once one only or other our out over page put reads said same says
    sat second she so some special stands still story than that the their them then there they third this time to
    today told too took two under until up very walked was we went were what when where which while who why will with
    word words write writes wrote you your A Again All And Answer At But Cipher Code Here How In It Later Ledger List
    Near Next No Note Now Once One Page Question She So Story The Then There They Today What When Where Who Why Yes
    You
""".split()
