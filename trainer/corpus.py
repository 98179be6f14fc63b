"""The corpus: plain-English tales in which each word follows from the previous one, except for a few that must be
looked up; little stories with fixed patterns; ledgers, lists and ciphers of random words that are quoted later;
needles and facts with questions; and random segments that repeat. No outside text. Every sequence follows from
(seed, index) alone, so training can resume anywhere."""
from __future__ import annotations

import string
from dataclasses import dataclass, field

from .words import ADJECTIVES, FUNCTION_WORDS, NAMES, PLACES, THINGS, VERBS

_WORD = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15


def _scrambled(state: int) -> int:
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _WORD
    return state ^ (state >> 31)


def splitmix(state: int) -> int:
    """One round of splitmix64 (Steele, Lea, Flood 2014). As a hash, it scrambles `state`."""
    return _scrambled(state + _STEP & _WORD)


class Random:
    """A small seeded generator: splitmix64, one independent stream for each pair of seed and stream."""

    def __init__(self, seed: int, stream: int = 0) -> None:
        self._state = _scrambled(splitmix(seed) ^ splitmix(stream + _STEP & _WORD))

    def _next(self) -> int:
        self._state = self._state + _STEP & _WORD
        return _scrambled(self._state)

    def below(self, count: int) -> int:
        """0 to count - 1; count at least 1."""
        return (self._next() >> 32) * count >> 32

    def between(self, first: int, last: int) -> int:
        """first to last, both included."""
        return first + self.below(last - first + 1)

    def uniform(self) -> float:
        """In [0, 1)."""
        return (self._next() >> 11) * 2.0**-53

    def chance(self, probability: float) -> bool:
        return self.uniform() < probability

    def pick(self, items):
        return items[self.below(len(items))]


UNKNOWN, BOS, EOS = 0, 1, 2
NEWLINE = 3 + ord("\n")  # the byte piece
_SPACE_MARK = "\u2581"
_MARKS = ".,:;?!'\"-()[]@#&%+=/*"


class Vocabulary:
    """The word-level vocabulary of the demo model, in one order for the corpus and the tokenizer file: unknown, BOS,
    EOS, 256 bytes, the space mark, punctuation, letters and digits, numbers 0 to 99, then the words of words.py.

    `pieces` are (text, type, score), id = index: a word that follows a space starts with U+2581; the types are those
    of sentencepiece_model.proto (1 normal, 2 unknown, 3 control, 6 byte). A unigram tokenizer takes the cut with the
    largest sum of scores, and a word can be built only from itself or from letters: one word (-5) always beats the
    space mark and its letters (-10 each).
    """

    def __init__(self) -> None:
        words = [*map(str, range(100)), *NAMES, *THINGS, *PLACES, *ADJECTIVES, *VERBS, *FUNCTION_WORDS]
        self.pieces = [("<unk>", 2, 0.0), ("<s>", 3, 0.0), ("</s>", 3, 0.0)]
        self.pieces += [(f"<0x{byte:02X}>", 6, 0.0) for byte in range(256)]
        self.pieces += [(_SPACE_MARK, 1, -10.0)] + [(mark, 1, -5.0) for mark in _MARKS]
        self.pieces += [(letter, 1, -10.0) for letter in string.ascii_letters + string.digits]
        self.pieces += [(_SPACE_MARK + word, 1, -5.0) for word in words]
        self._ids = {text: id for id, (text, _, _) in enumerate(self.pieces)}
        assert len(self._ids) == len(self.pieces), "a piece is listed twice"
        # The kinds of words that are asked for. Their lists follow each other.
        self._kinds = [(range(self.word(kind[0]), self.word(kind[-1]) + 1), question)
                       for kind, question in ((NAMES, "Who?"), (THINGS, "What?"), (PLACES, "Where?"))]

    def __len__(self) -> int:
        return len(self.pieces)

    def word(self, word: str | int) -> int:
        """Id of a word of words.py or a number 0 to 99, as it stands after a space. Raises KeyError."""
        return self._ids[_SPACE_MARK + str(word)]

    def mark(self, character: str) -> int:
        """Id of a punctuation mark, which follows without a space. Raises KeyError."""
        return self._ids[character]

    def tokens(self, text: str) -> list[int]:
        """Words separated by spaces, with punctuation behind them: "Then she said:"."""
        ids = []
        for chunk in text.split():
            word = chunk.rstrip(string.punctuation)
            ids += [self.word(word)] * bool(word) + [self.mark(mark) for mark in chunk[len(word):]]
        return ids

    def text(self, ids) -> str:
        """The text that the tokenizer gives back: a space before every word but the first, line ends unchanged, other
        bytes and control pieces left out."""
        out = ""
        for id in ids:
            piece, kind, _ = self.pieces[id]
            if id == NEWLINE:
                out += "\n"
            elif kind == 1:
                out += piece.replace(_SPACE_MARK, " " if out else "")
        return out

    def kind(self, id: int) -> int | None:
        """0 for a person, 1 for a thing, 2 for a place."""
        return next((i for i, (ids, _) in enumerate(self._kinds) if id in ids), None)

    def question(self, kind: int) -> str:
        return self._kinds[kind][1]


class Language:
    """A first-order Markov chain over words: text that looks like plain English, in which the next word depends only on
    the current word. Most of the corpus consists of it. A model does not need attention to predict it, so heads that
    look for something else rest most of the time, as in real text. Which words may follow which is the same in every
    sequence and for every seed.

    `followers[token]` holds (token, share) of all that may follow; nothing for a token that is not a word of a story.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.followers: dict[int, list[tuple[int, float]]] = {}
        random = Random(1900)
        word = vocabulary.word
        stop = vocabulary.mark(".")
        heroes = NAMES[::4]  # people who act; the others are those whom things happen to
        others = [name for i, name in enumerate(NAMES) if i % 4]

        def one(token: str, weight: float):
            return [(stop if token == "." else word(token), weight)]

        def every(words: list[str], weight: float):
            return [(word(each), weight / len(words)) for each in words]

        def some(words: list[str], count: int, weight: float):
            """`count` words drawn once and for all, with falling shares, `weight` together."""
            total = 0.0
            for i in range(count):
                total += 1.0 / (i + 2)
            return [(word(random.pick(words)), weight / (i + 2) / total) for i in range(count)]

        def liking() -> float:
            """Each word has its own preferences among its continuations."""
            return 0.25 + random.uniform()

        def liked(**weights: float):
            return [pair for token, weight in weights.items()
                    for pair in one({"stop": ".", "and_": "and", "in_": "in"}.get(token, token), weight * liking())]

        def after(token: str, *parts) -> None:
            pairs = [pair for part in parts for pair in part]
            total = 0.0
            for _, weight in pairs:
                total += weight
            self.followers[stop if token == "." else word(token)] = [(id, weight / total) for id, weight in pairs]

        def starting(words: list[str], vowel: bool) -> list[str]:
            return [each for each in words if (each[0] in "aeiou") == vowel]

        after(".", some(heroes, 24, 0.55), one("The", 0.25), one("A", 0.1), one("Then", 0.1))
        after("Then", some(heroes, 24, 0.8), one("the", 0.2))
        for article in ("The", "the"):
            after(article, every(ADJECTIVES, 0.4), every(THINGS, 0.4), every(PLACES, 0.2))
        for article in ("A", "a", "an"):
            after(article, *(every(starting(words, article == "an"), 0.5) for words in (ADJECTIVES, THINGS)))
        after("and", one("the", 0.35), one("a", 0.2), one("an", 0.1), every(others, 0.35))
        after("in", one("the", 0.85), one("a", 0.15))
        after("near", one("the", 0.7), every(others, 0.3))
        after("of", every(others, 0.8), one("the", 0.2))
        for each in ADJECTIVES:
            after(each, some(THINGS, 8, 0.75), some(PLACES, 4, 0.25))
        for each in THINGS:
            after(each, liked(stop=2.0, and_=0.7, in_=1.0, near=0.6, of=0.7))
        for each in PLACES:
            after(each, liked(stop=3.0, and_=0.6, near=0.8, of=0.6))
        for each in heroes:
            after(each, some(VERBS, 8, 0.9), one("and", 0.1))
        for each in others:
            after(each, liked(stop=2.0, and_=0.6, in_=0.7, near=0.5))
        for each in VERBS:
            after(each, liked(the=2.0, a=1.0, an=0.4), some(others, 4, 0.3 * liking()))

    def next(self, current: int, random: Random) -> int:
        """A word that may follow `current`, which is "." before a sentence. Raises KeyError."""
        followers = self.followers[current]
        drawn = random.uniform()
        for id, share in followers:
            drawn -= share
            if drawn < 0.0:
                return id
        return followers[-1][0]


# The kind of a token for the model that must predict it.
TEXT = 0  # ordinary: predictable from grammar at best
QUOTED = 1  # follows from an earlier passage that is being repeated
ANSWER = 2  # the word or number that was asked for


@dataclass
class Mix:
    """Shares of the kinds of passages. The weights need not sum to one."""

    drill: float = 0.0  # share of whole sequences that are one random segment over and over
    repetition: float = 0.2  # share of whole sequences: random segments, some of them repeated
    quiz: float = 0.0  # share of whole sequences: several needles, then each asked for once
    cipher: float = 1.0  # a run of random words
    ledger: float = 1.0  # random words with numbers or commas
    story: float = 1.0  # one to three sentences of fixed patterns
    tale: float = 0.0  # one to three sentences of the first-order language
    dice: float = 0.0  # a run of digits or colours
    fact: float = 0.5  # a sentence somebody may ask about later
    needle: float = 1.0  # "One of the special magic numbers for ... is: ..."
    recall: float = 0.35  # share of passages that quote or ask, where there is something
    paragraph: float = 0.0  # share of passages that end a line
    echo: float = 0.1  # share of a tale's people, things and places that "again" repeats
    aside: float = 0.2  # share of its sentences after which is asked who, what or where
    segment: int = 40  # words of the longest drilled segment; repetition's: a fifth more
    lexicon: int = 0  # how many words such segments are drawn from; 0: all there are


# One sentence of a story for each: %p person, %v verb, %a adjective, %t thing, %l place, %w any word.
_STORIES = ("%p %v the %a %t in the %l", "Then %p %v a %t and a %a %t", "%p and %p walked to the %a %l",
            "Near the %l stands a %a %t", "%p said to %p : %w %w %w", "The %t of %p was %a and %a")
_COLOURS = "red blue green yellow white black pink purple brown grey".split()
_ANY = [*NAMES, *THINGS, *PLACES, *ADJECTIVES, *VERBS, *range(100)]
_MOST_NEEDLES = 40  # past them hardly a free number is left


class PassageWriter:
    """Writes one sequence and remembers it, so that later passages can quote it and ask about it.

    `ids` and `roles` are the tokens; `sentence_starts` the indices at which a sentence starts, ascending, with the end
    where that completes a sentence.
    """

    def __init__(self, vocabulary: Vocabulary, language: Language, random: Random) -> None:
        self.ids: list[int] = []
        self.roles: list[int] = []
        self.sentence_starts: list[int] = []
        self._vocabulary, self._language, self._random = vocabulary, language, random
        self._cast: list[int] = []  # the people of this sequence
        self._passages: list[tuple[list[int], list[int], int]] = []  # title, body, quotes start at a multiple of this
        self._facts: list[tuple[list[int], int]] = []  # question, answer
        self._needles: list[tuple[list[int], int]] = []
        self._needle_words: list[int] = []
        self._needle_numbers: list[int] = []
        self._put([BOS])
        self._end_sentence()
        while len(self._cast) < 4:
            name = self._word(NAMES)
            if name not in self._cast:
                self._cast.append(name)

    def passage(self, mix: Mix) -> None:
        """Writes one passage drawn from the mix (not the kinds that fill a whole sequence)."""
        self._draw_passage(mix)
        if mix.paragraph > 0.0 and self._random.chance(mix.paragraph):
            self._put([NEWLINE])
            self._end_sentence()

    def drill(self, mix: Mix) -> None:
        """Writes the sequence's one segment of random words once more."""
        if not self._passages:
            return self._draw_segment(mix.segment, mix.lexicon)
        self._put(self._passages[0][1], QUOTED)

    def repetition(self, mix: Mix) -> None:
        """Writes another segment, or repeats an earlier one, whole or from the middle."""
        random = self._random
        if not self._passages or not random.chance(0.5):
            return self._draw_segment(mix.segment * 6 // 5, mix.lexicon)
        body = random.pick(self._passages)[1]
        first = 0 if random.chance(0.5) else random.below(max(1, len(body) - 4))
        self._repeat(body, first, random.between(min(4, len(body) - first), len(body) - first))

    def quiz(self, room: int) -> None:
        """Several needles, one after the other, then a question about each, in random order; as many as fit into about
        `room` tokens, at least 2 and at most 12. An earlier answer never answers a later question."""
        random, first = self._random, len(self._needles)
        if first >= _MOST_NEEDLES:
            return self.story()
        needle_with_question = 31  # tokens
        for _ in range(random.between(2, min(max(room // needle_with_question, 2), 12))):
            self.needle()
        order = self._needles[first:]
        for i in range(len(order), 1, -1):
            other = random.below(i)
            order[i - 1], order[other] = order[other], order[i - 1]
        for needle in order:
            self._ask(*needle)

    def cipher(self) -> None:
        title = self._vocabulary.tokens("Cipher") + [self._word(range(100)), self._vocabulary.mark(":")]
        self._keep(title, [self._any_word() for _ in range(self._random.between(6, 32))], 1)

    def ledger(self) -> None:
        numbered = self._random.chance(0.6)
        title = self._vocabulary.tokens("Ledger of" if numbered else "List of")
        title += [self._person(), self._vocabulary.mark(":")]
        body: list[int] = []
        for i in range(self._random.between(4, 12)):
            body += [self._vocabulary.mark(",")] * bool(i) + [self._word(THINGS) if numbered else self._any_word()]
            if numbered:
                body.append(self._word(range(100)))
        self._keep(title, body, 3 if numbered else 2)

    def dice(self) -> None:
        """A run of digits or colours that cannot be predicted. There are few different words, so copying one from
        elsewhere is usually wrong and right only by chance."""
        digits = self._random.chance(0.5)
        self._put(self._vocabulary.tokens("Code:" if digits else "Page:"))
        self._put([self._word(range(10) if digits else _COLOURS) for _ in range(self._random.between(8, 40))])
        self._stop()

    def story(self) -> None:
        """One to three sentences of fixed patterns about the sequence's people."""
        drawn = {"%p": self._person, "%w": self._any_word, "%v": lambda: self._word(VERBS),
                 "%a": lambda: self._word(ADJECTIVES), "%t": lambda: self._word(THINGS),
                 "%l": lambda: self._word(PLACES)}
        for _ in range(self._random.between(1, 3)):
            for part in self._random.pick(_STORIES).split():
                self._put([drawn[part]()] if part in drawn else self._vocabulary.tokens(part))
            self._stop()

    def tale(self, mix: Mix) -> None:
        """One to three sentences of the language, in which each word follows from the previous one. The word "again"
        repeats the word before it, and sometimes a question asks who, what or where the last sentence was about."""
        for _ in range(self._random.between(1, 3)):
            self._sentence(mix.echo)
            if self._random.chance(mix.aside):
                self._last_mentioned()

    def fact(self) -> None:
        thing, owner = self._word(THINGS), self._person()
        tokens, word = self._vocabulary.tokens, self._vocabulary.word
        kind = self._random.below(3)
        if kind == 0:  # The kettle of Ada is in the barn.   Where is the kettle of Ada? It is in the barn.
            subject = [thing, word("of"), owner]
            answer = self._word(PLACES)
            self._put([*tokens("The"), *subject, *tokens("is in the"), answer])
            question = [*tokens("Where is the"), *subject, *tokens("? It is in the")]
        else:  # Ada has number 12.   Or: The secret word of Ada is velvet.   The same sentence again, asked for.
            answer = self._word(range(100)) if kind == 1 else self._any_word()
            question = [owner, *tokens("has number")] if kind == 1 else [*tokens("The secret word of"), owner, word("is")]
            self._put([*question, answer])
        self._stop()
        # An older statement about the same subject no longer holds.
        self._facts = [old for old in self._facts if old[0] != question] + [(question, answer)]

    def fresh_needle_word(self) -> int:
        """A thing or place that has had no needle."""
        while True:
            word = self._word(THINGS if self._random.chance(0.75) else PLACES)
            if word not in self._needle_words:
                self._needle_words.append(word)
                return word

    def fresh_needle_number(self) -> int:
        """A number from 10 to 99 that no needle has."""
        while True:
            number = self._random.between(10, 99)
            if number not in self._needle_numbers:
                self._needle_numbers.append(number)
                return number

    def needle(self) -> None:
        """Draws a word that has no number yet and writes its needle."""
        word, number = self.fresh_needle_word(), self.fresh_needle_number()
        self._put(needle_sentence(self._vocabulary, word, number))
        self._end_sentence()
        self._needles.append((question(self._vocabulary, word), self._vocabulary.word(number)))

    def _draw_passage(self, mix: Mix) -> None:
        if self._random.chance(mix.recall) and self._recall():
            return
        kinds = ("cipher", "ledger", "story", "tale", "dice", "fact")
        drawn = self._random.uniform() * sum((getattr(mix, kind) for kind in kinds + ("needle",)), 0.0)
        for kind in kinds:
            drawn -= getattr(mix, kind)
            if drawn < 0:
                return self.tale(mix) if kind == "tale" else getattr(self, kind)()
        if len(self._needles) >= _MOST_NEEDLES:
            return self.tale(mix) if mix.tale > mix.story else self.story()
        self.needle()

    def _recall(self) -> bool:
        """Quotes a cipher or ledger, or asks for a fact or needle. False if there is nothing to recall."""
        can_ask = bool(self._facts or self._needles)
        if not self._passages and not can_ask:
            return False
        random = self._random
        if self._passages and (not can_ask or random.chance(0.4)):
            self._quote(*random.pick(self._passages))
        elif self._needles and (not self._facts or random.chance(0.7)):
            self._ask(*random.pick(self._needles))
        else:
            self._ask(*random.pick(self._facts))
        return True

    def _quote(self, title: list[int], body: list[int], unit: int) -> None:
        random, size = self._random, len(body)
        whole = random.chance(0.4)
        first = 0 if whole else random.below(max(1, size // 2)) // unit * unit
        count = size if whole else random.between(min(3, size - first), size - first)
        self._put(title)
        self._repeat(body, first, count)
        self._stop()

    def _ask(self, question: list[int], answer: int) -> None:
        self._put(question)
        self._put([answer], ANSWER)
        self._stop()

    def _sentence(self, echo: float) -> None:
        stop = word = self._vocabulary.mark(".")
        while True:
            word = self._language.next(word, self._random)
            self._put([word])
            if word == stop:
                break
            if self._vocabulary.kind(word) is not None and self._random.chance(echo):
                self._put(self._vocabulary.tokens("again"))
                self._put([word], QUOTED)
        self._end_sentence()

    def _last_mentioned(self) -> None:
        """"Who? Ada.", the last person, thing or place; nothing if the last 24 tokens have none."""
        kind = self._random.below(3)
        for id in self.ids[:-25:-1]:
            if self._vocabulary.kind(id) == kind:
                self._put(self._vocabulary.tokens(self._vocabulary.question(kind)))
                self._put([id], QUOTED)
                return self._stop()

    def _draw_segment(self, longest: int, lexicon: int) -> None:
        """A segment of random words that can be repeated. Its length is a quarter of `longest` to `longest`, at least 2,
        and at least 8 if `longest` is 32 or more."""
        size = self._random.between(min(max(longest // 4, 2), 8), longest)
        body = [self._any_word(lexicon) for _ in range(size)]
        self._put(body)
        self._passages.append(([], body, 1))

    def _keep(self, title: list[int], body: list[int], unit: int) -> None:
        self._put(title + body)
        self._stop()
        self._passages.append((title, body, unit))

    def _repeat(self, body: list[int], first: int, count: int) -> None:
        self._put(body[first:first + 1])
        self._put(body[first + 1:first + count], QUOTED)

    def _any_word(self, lexicon: int = 0) -> int:
        return self._vocabulary.word(_ANY[self._random.below(min(lexicon or len(_ANY), len(_ANY)))])

    def _person(self) -> int:
        return self._random.pick(self._cast) if self._random.chance(0.6) else self._word(NAMES)

    def _word(self, words) -> int:
        return self._vocabulary.word(self._random.pick(words))

    def _put(self, ids: list[int], role: int = TEXT) -> None:
        self.ids += ids
        self.roles += [role] * len(ids)

    def _stop(self) -> None:
        self._put([self._vocabulary.mark(".")])
        self._end_sentence()

    def _end_sentence(self) -> None:
        self.sentence_starts.append(len(self.ids))


def needle_sentence(vocabulary: Vocabulary, word: int, number: int) -> list[int]:
    return [*vocabulary.tokens("One of the special magic numbers for"), word, *vocabulary.tokens(f"is: {number}.")]


def question(vocabulary: Vocabulary, word: int) -> list[int]:
    """The question about one word, up to and including the last token before the answer."""
    return [*vocabulary.tokens("What is the special magic number for"), word,
            *vocabulary.tokens("? The special magic number for"), word, *vocabulary.tokens("is:")]


@dataclass
class NeedlePrompt:
    """A prompt with a known answer: a haystack with needles, then one question."""

    ids: list[int] = field(default_factory=list)  # BOS, context with the needles, question
    answers: list[int] = field(default_factory=list)  # [needles], in the order of the needles
    words: list[int] = field(default_factory=list)  # [needles], what each number is for
    spans: list[tuple[int, int]] = field(default_factory=list)  # [needles], first token and one past the last
    answer_positions: list[int] = field(default_factory=list)  # [needles], index of each number in the context
    question_begin: int = 0  # index of the question's first token
    asked: int = 0  # which needle the question is about


_PROMPT_STREAMS = 1 << 62  # apart from those of training
# The mix of haystacks: no needles but those asked for, and little that repeats.
_HAYSTACK = Mix(repetition=0.0, cipher=0.5, ledger=0.7, story=1.4, dice=0.5, fact=0.2, needle=0.0, recall=0.1,
                paragraph=0.15)


class Corpus:
    """Generates sequences and prompts from a seed."""

    def __init__(self, vocabulary: Vocabulary, seed: int) -> None:
        self.vocabulary, self._language, self._seed = vocabulary, Language(vocabulary), seed

    def sequence(self, index: int, length: int, mix: Mix) -> tuple[list[int], list[int]]:
        """A training sequence of exactly `length` tokens, at least 2: BOS, then text, cut there. Ids and roles."""
        random = Random(self._seed, index)
        writer = PassageWriter(self.vocabulary, self._language, random)
        kind = random.uniform()
        while len(writer.ids) < length:
            if kind < mix.drill:
                writer.drill(mix)
            elif kind < mix.drill + mix.repetition:
                writer.repetition(mix)
            elif kind < mix.drill + mix.repetition + mix.quiz:
                writer.quiz(length - len(writer.ids))
            else:
                writer.passage(mix)
        return writer.ids[:length], writer.roles[:length]

    def needle_prompt(self, index: int, length: int, needles: int) -> NeedlePrompt:
        """A prompt of at most `length` tokens, filled with whole sentences, with needles at random depths in a haystack
        of stories, ledgers and ciphers; the needle that is asked for is drawn at random. These prompts differ from the
        sequences of sequence(), so they were never in the training. Raises ValueError if there is no room."""
        random = Random(self._seed, _PROMPT_STREAMS + index & _WORD)
        haystack = PassageWriter(self.vocabulary, self._language, random)
        prompt = NeedlePrompt()
        sentences = []
        for _ in range(needles):
            word, number = haystack.fresh_needle_word(), haystack.fresh_needle_number()
            prompt.words.append(word)
            prompt.answers.append(self.vocabulary.word(number))
            sentences.append(needle_sentence(self.vocabulary, word, number))
        prompt.asked = random.below(max(1, needles))
        asks = question(self.vocabulary, prompt.words[prompt.asked])
        room = length - sum(map(len, sentences)) - len(asks)
        if room < 1:
            raise ValueError(f"a prompt of {length} tokens has no room for {needles} needles; ask for a longer one")
        while len(haystack.ids) < room:
            haystack.passage(_HAYSTACK)
        starts = [start for start in haystack.sentence_starts if start <= room]
        # Depths: one sentence start for each needle, ascending; two needles may share one.
        depths = sorted(random.pick(starts) for _ in range(needles))
        at = 0
        for depth, sentence in zip(depths, sentences):
            prompt.ids += haystack.ids[at:depth]
            at = depth
            prompt.spans.append((len(prompt.ids), len(prompt.ids) + len(sentence)))
            prompt.ids += sentence
            prompt.answer_positions.append(len(prompt.ids) - 2)
        prompt.ids += haystack.ids[at:starts[-1]]
        prompt.question_begin = len(prompt.ids)
        prompt.ids += asks
        return prompt
