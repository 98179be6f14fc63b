"""Small tokenizers of every layout that kvloupe-capture reads, trained on the spot, and texts in many scripts."""
from __future__ import annotations

import random
import sys
import unicodedata
from pathlib import Path
from typing import Any

SENTENCES = [
    "All human beings are born free and equal in dignity and rights. They're 1st, we'll see; it's O'Brien's.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits. L'été, 12 345,67 €.",
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Größe, Straße, ÄÖÜ.",
    "Todos los seres humanos nacen libres e iguales en dignidad y derechos. ¿Cuántos? ¡1 000!",
    "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "Tüm insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. İstanbul, ılık.",
    "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi.",
    "Все люди рождаются свободными и равными в своем достоинстве и правах. №7, ёж.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ ու իրավունքներով։",
    "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით.",
    "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. ١٢٣٤٥",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। १२३",
    "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।",
    "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心。２０２６年",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. \u1112\u1161\u11ab",
    "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።",
    "មនុស្សទាំងអស់កើតមកមានសេរីភាពនិងសមភាព",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪🇫🇷 ☃️ 1️⃣ ∑∫√∞ ≤≥ ℝ𝔽 𝒳 µm Å Å ﬁ ½ x² e\u0301 \u212b",
    "def f(x: int) -> list[int]:\n\treturn [i ** 2 for i in range(x) if i % 3 == 0]  # 100_000\n\n\nprint(f(12345678))\n",
    "  two  spaces   three\t\ttabs\r\nwindows\r\n\r\n   \n \n  x\u00a0y\u2003z\u3000w \u2028",
    "<html><body class=\"a-b\">&amp; {json: [1, 2.5e-3, null]} $x^2$ \\alpha #!/bin/sh --flag=1 a_b-c/d.e@f</body>",
]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
NEMO = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?"
        r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|"
        r"\s+(?!\S)|\s+")


def texts(count: int = 200) -> list[str]:
    """The sentences, and words of characters drawn from all of Unicode that this Python knows, with runs of spaces."""
    drawn = random.Random(13)
    letters = [chr(at) for at in range(0x20, 0x1FAFF) if unicodedata.category(chr(at))[0] in "LNPSM"
               and not 0xD800 <= at < 0xE000]
    found = list(SENTENCES)
    for _ in range(count):
        words = []
        for _ in range(drawn.randrange(5, 40)):
            kind = drawn.randrange(6)
            if kind == 0:
                words.append("".join(drawn.choices(letters, k=drawn.randrange(1, 8))))
            elif kind == 1:
                words.append(drawn.choice([" ", "  ", "\n", "\t", " \n ", "\r\n", "\u00a0", "    "]))
            elif kind == 2:
                words.append(str(drawn.randrange(10 ** drawn.randrange(1, 9))))
            elif kind == 3:
                words.append(drawn.choice(["'s", "'LL", "’s", "...", "!?", "—", "<|end|>", "<s>", "@", "#a"]))
            else:
                sentence = drawn.choice(SENTENCES)
                at = drawn.randrange(len(sentence))
                words.append(sentence[at:at + drawn.randrange(1, 30)])
            if drawn.random() < 0.6:
                words.append(" ")
        found.append("".join(words))
    return [text for text in found if not any(line.startswith("@@") for line in text.splitlines())]


def layouts() -> dict[str, Any]:
    """A trained tokenizer of the tokenizers library for each layout of tokenizer.json."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    special = [AddedToken("<s>", special=True), AddedToken("<|end|>", special=True)]
    split = lambda pattern: pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    start = lambda made: processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", made.token_to_id("<s>"))])
    corpus = SENTENCES * 4

    def byte_level(steps: list[Any], bos: bool = False, normalizer: Any = None, **model: Any) -> Any:
        made = Tokenizer(models.BPE(**model))
        if normalizer is not None:
            made.normalizer = normalizer
        made.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
        made.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special, show_progress=False,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
        made.train_from_iterator(corpus, trainer)
        if bos:
            made.post_processor = start(made)
        return made

    def sentencepiece(normalizer: Any, pre: Any = None) -> Any:
        made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        made.normalizer, made.pre_tokenizer = normalizer, pre
        if pre is None:  # as the files have it; training needs words
            made.pre_tokenizer = pre_tokenizers.Split("▁", behavior="merged_with_next")
        trainer = trainers.BpeTrainer(vocab_size=900, show_progress=False, special_tokens=[
            "<unk>", *special, *(f"<0x{byte:02X}>" for byte in range(256))])
        made.train_from_iterator(corpus, trainer)
        made.pre_tokenizer = pre
        made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
        made.post_processor = start(made)
        return made

    marks = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return {
        "GPT-2: byte-level, its pattern built in": byte_level([pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        "GPT-2 with a space before": byte_level([pre_tokenizers.ByteLevel(add_prefix_space=True)]),
        "SmolLM: digits one by one, byte-level": byte_level(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        "Llama 3: its pattern, start token": byte_level([split(LLAMA3), bytes_only], bos=True, ignore_merges=True),
        "Qwen 2 and 3: NFC, its pattern": byte_level([split(QWEN), bytes_only], normalizer=normalizers.NFC()),
        "Mistral Nemo: its pattern, start token": byte_level([split(NEMO), bytes_only], bos=True),
        "DeepSeek V3: three patterns": byte_level(
            [split(r"\p{N}{1,3}"), split(r"[一-龥぀-ゟ゠-ヿ]+"), split(
                r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
                r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), bytes_only], bos=True),
        "Llama 2: byte fallback, spaces by normalizer": sentencepiece(marks),
        "Mistral: byte fallback, Metaspace": sentencepiece(
            None, pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)),
    }


def unigram() -> Any:
    """A layout that kvloupe-capture refuses as tokenizer.json."""
    from tokenizers import SentencePieceUnigramTokenizer

    made = SentencePieceUnigramTokenizer()
    made.train_from_iterator(SENTENCES, vocab_size=600, show_progress=False, special_tokens=["<unk>"], unk_token="<unk>")
    return made


def sentencepiece_models(folder: Path) -> dict[str, Path]:
    """SentencePiece models trained on the spot: a folder with tokenizer.model for each."""
    import sentencepiece

    made = {}
    (folder / "corpus.txt").write_text("\n".join(SENTENCES * 4), encoding="utf-8")
    for kind, rest in (("bpe", {}), ("unigram", {}), ("bpe", dict(add_dummy_prefix=False, remove_extra_whitespaces=False)),
                       ("unigram", dict(byte_fallback=False))):
        name = kind + "".join(f", {key}={value}" for key, value in rest.items())
        own = folder / name.replace(" ", "")
        own.mkdir()
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "corpus.txt"), model_prefix=str(own / "tokenizer"), vocab_size=760, model_type=kind,
            normalization_rule_name="identity", character_coverage=0.99, minloglevel=2, num_threads=1, hard_vocab_limit=False,
            **({"byte_fallback": True} | rest))
        made[name] = own
    return made


if __name__ == "__main__":
    print(len(texts()), "texts,", sum(map(len, texts())), "characters", file=sys.stderr)
