// The parts of a tokenizer.json one by one, each against pieces worked out by hand from its
// definition, and the patterns against scanners written without regular expressions.
#include <utf8proc.h>

#include <cctype>

#include "capture/tokenizer/hugging_face/bpe_model.h"
#include "capture/tokenizer/hugging_face/decoder.h"
#include "capture/tokenizer/hugging_face/normaliser.h"
#include "capture/tokenizer/hugging_face/piece_table.h"
#include "capture/tokenizer/hugging_face/pre_tokeniser.h"
#include "capture/tokenizer/hugging_face/regex.h"
#include "capture/tokenizer/tokenizer.h"
#include "capture/tokenizer/unicode.h"
#include "tests/support/test.h"
#include "tests/tokenizer/bpe_files.h"
#include "tests/tokenizer/library_nfc.h"

namespace kvloupe::test {
namespace {

using nlohmann::json;

Limits a_minute() { return Limits(std::chrono::minutes(1)); }

std::string normalised(const char* description, const std::string& text) {
  const json value = json::parse(description);
  return make_normaliser(JsonPart(value, "file", "normalizer"))(AlignedText(text), a_minute())
      .text();
}

Pieces pieces_of(const PieceList& list) {
  Pieces pieces;
  for (const auto& piece : list.pieces) pieces.emplace_back(list.text.view(piece.begin, piece.end));
  return pieces;
}

Pieces cut(const json& description, const std::string& text) {
  PieceList list;
  const AlignedText whole(text);
  list.append(whole, 0, whole.size());
  return pieces_of(
      make_pre_tokeniser(JsonPart(description, "file", "pre_tokenizer"))(list, a_minute()));
}

Pieces cut(const char* description, const std::string& text) {
  return cut(json::parse(description), text);
}

json split_by(const std::string& kind, const std::string& pattern,
              const std::string& behaviour = "Isolated", bool invert = false) {
  return {{"type", "Split"},
          {"pattern", {{kind, pattern}}},
          {"behavior", behaviour},
          {"invert", invert}};
}

std::string decoded(const char* description, const Pieces& tokens, bool of_one_piece = false) {
  const json value = json::parse(description);
  std::vector<DecodedToken> list;
  for (const std::string& token : tokens) list.push_back({token, false});
  make_decoder(JsonPart(value, "file", "decoder"), of_one_piece)(list, a_minute());
  std::string text;
  for (const DecodedToken& token : list) text += token.text;
  return text;
}

/// As a file's reader gives it: whole numbers built in a test are signed, read ones are not.
json as_read(const json& value) { return json::parse(value.dump()); }

std::string refusal(const std::function<void()>& act) {
  return error_of<UnsupportedTokenizer>(act, "nothing was refused");
}

TEST(NormalFormC, ComposesAndOrders) {
  const auto nfc = [](const std::string& text) { return to_nfc(AlignedText(text)).text(); };
  EXPECT_EQ(nfc("e\u0301"), "é");
  EXPECT_EQ(nfc("\u212B"), "\u00C5");                // the Ångström sign
  EXPECT_EQ(nfc("q\u0307\u0323"), "q\u0323\u0307");  // by combining class
  EXPECT_EQ(nfc("d\u0307\u0323"), "\u1E0D\u0307");   // the dot below composes across
  EXPECT_EQ(nfc("\u1112\u1161\u11AB"), "한");
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C");  // excluded from composition
  EXPECT_EQ(nfc("\uFB01"), "\uFB01");        // a compatibility character stays
  EXPECT_EQ(nfc("plain"), "plain");
  EXPECT_EQ(nfc("\u09C7\u09BE"), "\u09CB");
}

TEST(NormalFormC, StretchByStretchIsTheWholeTextsForm) {
  std::mt19937 random(2);
  for (int round = 0; round < 4000; ++round) {
    const std::string text = random_unicode(random, 1 + random() % 12);
    ASSERT_EQ(to_nfc(AlignedText(text)).text(), library_nfc(text)) << text;
  }
  std::string every;
  for (char32_t c = 1; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    append_character(every, c);
  }
  EXPECT_EQ(to_nfc(AlignedText(every)).text(), library_nfc(every));
}

TEST(NormalFormC, KnowsWhereEachCharacterCameFrom) {
  const AlignedText text = to_nfc(AlignedText("ae\u0301b"));
  EXPECT_EQ(text.text(), "aéb");
  EXPECT_EQ(text.origin(1, 3).begin, 1U);
  EXPECT_EQ(text.origin(1, 3).end, 4U);
  EXPECT_EQ(text.origin(3, 4).begin, 4U);
}

TEST(HuggingFaceNormaliser, DoesWhatItsNameSays) {
  EXPECT_EQ(normalised(R"({"type":"Prepend","prepend":"▁"})", "a b"), "▁a b");
  EXPECT_EQ(normalised(R"({"type":"Prepend","prepend":"▁"})", ""), "");
  EXPECT_EQ(normalised(R"({"type":"Replace","pattern":{"String":" "},"content":"▁"})", " a  b"),
            "▁a▁▁b");
  EXPECT_EQ(
      normalised(R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":"_"})", "a   b c"),
      "a_b c");
  EXPECT_EQ(normalised(R"({"type":"Replace","pattern":{"String":"."},"content":"\\1"})", "a.b"),
            "a\\1b");
  EXPECT_EQ(
      normalised(R"({"type":"Strip","strip_left":true,"strip_right":true})", " \u3000\na b\u00A0 "),
      "a b");
  EXPECT_EQ(normalised(R"({"type":"Strip","strip_left":false,"strip_right":true})", " a \n"), " a");
  EXPECT_EQ(normalised(R"({"type":"Sequence","normalizers":[{"type":"NFC"},
      {"type":"Replace","pattern":{"String":"é"},"content":"e"}]})",
                       "e\u0301"),
            "e");
  const json precompiled{{"type", "Precompiled"}};
  EXPECT_THAT(refusal([&] { make_normaliser(JsonPart(precompiled, "file", "normalizer")); }),
              HasSubstr("file: normalizer \"Precompiled\" is not supported; "));
}

TEST(HuggingFaceSplit, KnowsEveryBehaviour) {
  const std::string text = "--a-b--";
  EXPECT_THAT(cut(split_by("String", "-", "Isolated"), text),
              ElementsAre("-", "-", "a", "-", "b", "-", "-"));
  EXPECT_THAT(cut(split_by("String", "-", "Removed"), text), ElementsAre("a", "b"));
  EXPECT_THAT(cut(split_by("String", "-", "MergedWithPrevious"), text),
              ElementsAre("-", "-", "a-", "b-", "-"));
  EXPECT_THAT(cut(split_by("String", "-", "MergedWithNext"), text),
              ElementsAre("-", "-a", "-b", "-", "-"));
  EXPECT_THAT(cut(split_by("String", "-", "Contiguous"), text),
              ElementsAre("--", "a", "-", "b", "--"));
  EXPECT_THAT(cut(split_by("Regex", "[a-z]", "Removed", true), text), ElementsAre("a", "b"));
  EXPECT_THAT(cut(split_by("Regex", "[a-z]", "Isolated", true), text),
              ElementsAre("--", "a", "-", "b", "--"));
  EXPECT_THAT(cut(split_by("Regex", "x*", "Isolated"), "ab"), ElementsAre("a", "b"));
  EXPECT_THAT(refusal([&] { cut(split_by("String", "-", "Kept"), text); }), HasSubstr("\"Kept\""));
}

TEST(HuggingFaceSplit, CutsLikeLlama3AndQwen2) {
  const std::string text = "I'LL pay  1234€\n\n  don't";
  EXPECT_THAT(cut(split_by("Regex", kLlama3Pattern), text),
              ElementsAre("I", "'LL", " pay", " ", " ", "123", "4", "€\n\n", " ", " don", "'t"));
  EXPECT_THAT(
      cut(split_by("Regex", kQwen2Pattern), text),
      ElementsAre("I", "'LL", " pay", " ", " ", "1", "2", "3", "4", "€\n\n", " ", " don", "'t"));
  EXPECT_THAT(cut(split_by("Regex", kLlama3Pattern), "x = y;  \n\tz   "),
              ElementsAre("x", " =", " y", ";", "  \n", "\tz", "   "));
}

/// The characters that PCRE2, too, puts into this general category.
std::set<std::string> category_in_patterns(const char* expression) {
  std::string every;
  for (char32_t c = 1; c < 0x110000; ++c) {
    if (c < 0xD800 || c > 0xDFFF) append_character(every, c);
  }
  const json value{{"pattern", {{"Regex", expression}}}};
  const Regex pattern(JsonPart(value, "file", "pre_tokenizer"));
  std::set<std::string> found;
  for (const Regex::Match& match : pattern.find_all(every, a_minute())) {
    found.insert(every.substr(match.begin, match.end - match.begin));
  }
  return found;
}

struct Character {
  std::string bytes;
  bool letter = false, number = false, space = false, line_end = false;
};

std::vector<Character> classified(const std::string& text) {
  std::vector<Character> result;
  for (const std::string& bytes : characters_of(text)) {
    utf8proc_int32_t c = 0;
    utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()),
                     static_cast<utf8proc_ssize_t>(bytes.size()), &c);
    const char* category = utf8proc_category_string(c);
    const bool space = category[0] == 'Z' || (c >= 9 && c <= 13) || c == 0x85;
    result.push_back({bytes, category[0] == 'L', category[0] == 'N', space, c == 10 || c == 13});
  }
  return result;
}

std::size_t contraction(const std::vector<Character>& text, std::size_t at, bool any_case) {
  if (text[at].bytes != "'") return at;
  for (const std::string ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
    bool same = at + ending.size() < text.size();
    for (std::size_t i = 0; same && i < ending.size(); ++i) {
      std::string c = text[at + 1 + i].bytes;
      if (any_case && c == "ſ") c = "s";
      if (any_case && c.size() == 1) c[0] = static_cast<char>(std::tolower(c[0]));
      same = c == std::string(1, ending[i]);
    }
    if (same) return at + 1 + ending.size();
  }
  return at;
}

/// The end of the piece that begins at `at`, alternative by alternative; digits: at most that many
/// in a piece, 0: GPT-2's pattern.
std::size_t piece_end(const std::vector<Character>& text, std::size_t at, std::size_t digits) {
  const std::size_t size = text.size();
  const auto run = [&](std::size_t from, auto is) {
    while (from < size && is(text[from])) ++from;
    return from;
  };
  const auto letter = [](const Character& c) { return c.letter; };
  const auto number = [](const Character& c) { return c.number; };
  const auto other = [](const Character& c) { return !c.letter && !c.number && !c.space; };
  const auto space = [](const Character& c) { return c.space; };
  const auto line_end = [](const Character& c) { return c.line_end; };
  if (const std::size_t end = contraction(text, at, digits > 0); end > at) return end;
  const std::size_t after_space = at + (text[at].bytes == " " ? 1 : 0);
  if (digits == 0) {
    if (run(after_space, letter) > after_space) return run(after_space, letter);
    if (run(after_space, number) > after_space) return run(after_space, number);
    if (run(after_space, other) > after_space) return run(after_space, other);
  } else {
    const Character& c = text[at];
    const std::size_t begin = at + (c.line_end || c.letter || c.number ? 0 : 1);
    if (run(begin, letter) > begin) return run(begin, letter);
    if (c.number) return std::min(run(at, number), at + digits);
    if (run(after_space, other) > after_space) return run(run(after_space, other), line_end);
  }
  const std::size_t end = run(at, space);
  for (std::size_t last = end; digits > 0 && last > at; --last) {
    if (text[last - 1].line_end) return last;
  }
  if (end < size && end > at + 1) return end - 1;
  return end;
}

TEST(HuggingFaceSplit, MatchesScannersWithoutRegularExpressions) {
  std::mt19937 random(7);
  // PCRE2 and utf8proc may follow different versions of Unicode: characters new to one are left
  // out.
  const std::set<std::string> letters = category_in_patterns("\\p{L}");
  const std::set<std::string> numbers = category_in_patterns("\\p{N}");
  std::size_t left_out = 0, checked = 0;
  const json gpt2{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  for (int round = 0; round < 1500; ++round) {
    std::string text;
    std::vector<Character> characters = classified(random_unicode(random, 1 + random() % 25));
    left_out += std::erase_if(characters, [&](const Character& c) {
      return c.letter != letters.contains(c.bytes) || c.number != numbers.contains(c.bytes);
    });
    checked += characters.size();
    for (const Character& c : characters) text += c.bytes;
    for (const std::size_t digits : {std::size_t{3}, std::size_t{1}, std::size_t{0}}) {
      Pieces expected;
      for (std::size_t at = 0; at < characters.size();) {
        const std::size_t end = piece_end(characters, at, digits);
        expected.emplace_back();
        for (; at < end; ++at) expected.back() += characters[at].bytes;
        if (digits == 0) expected.back() = as_byte_characters(expected.back());
      }
      const json description = digits == 0   ? gpt2
                               : digits == 1 ? split_by("Regex", kQwen2Pattern)
                                             : split_by("Regex", kLlama3Pattern);
      ASSERT_EQ(cut(description, text), expected) << digits << ": " << text;
    }
  }
  EXPECT_LT(left_out * 100, checked);
}

TEST(HuggingFaceSplit, OrdinaryTextDoesNotMeetTheStepLimit) {
  const std::string spaces(1 << 20, ' ');
  EXPECT_EQ(cut(split_by("Regex", kLlama3Pattern), spaces + "x").size(), 2U);
  EXPECT_EQ(cut(split_by("Regex", kLlama3Pattern), "x" + spaces).size(), 2U);
  EXPECT_EQ(cut(split_by("Regex", kLlama3Pattern), std::string(1 << 20, 'x')).size(), 1U);
}

TEST(HuggingFaceSplit, HostilePatternsEndInAnError) {
  EXPECT_THROW(cut(split_by("Regex", "(?:a+)+$"), std::string(60, 'a') + "b"), WorkError);
  const json value{{"pattern", {{"Regex", "(?:(?:a{1,9}){1,9}b)?a"}}}};
  const Regex slow(JsonPart(value, "file", "pre_tokenizer"));
  EXPECT_THROW(slow.find_all(std::string(100000, 'a'), Limits(std::chrono::milliseconds(50))),
               WorkError);
}

TEST(HuggingFaceSequence, EndsInAnErrorWhereTheTextGrowsAndGrows) {
  const auto forty = [](const char* list, const json& step) {
    return json{{"type", "Sequence"}, {list, std::vector<json>(40, step)}};
  };
  const json twice{{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  const Limits limits(std::chrono::minutes(1), 100000);
  const json normaliser = forty("normalizers", twice);
  EXPECT_THROW(make_normaliser(JsonPart(normaliser, "f", "n"))(AlignedText("ba"), limits),
               WorkError);
  // Each step writes every byte that is no ASCII as a character of two.
  const json bytes = forty("pretokenizers", {{"type", "ByteLevel"}});
  PieceList list;
  list.append(AlignedText("é"), 0, 2);
  EXPECT_THROW(make_pre_tokeniser(JsonPart(bytes, "f", "p"))(list, limits), WorkError);
  const json decoder = forty("decoders", twice);
  std::vector<DecodedToken> tokens{{"ba", false}};
  EXPECT_THROW(make_decoder(JsonPart(decoder, "f", "d"), false)(tokens, limits), WorkError);
}

TEST(HuggingFaceSplit, WhatTwoEnginesReadDifferentlyIsRefused) {
  for (const char* pattern :
       {R"(\w+)", R"(\h)",          R"(\v)",     "[a[b]]",    "[a&&b]",        "(?m:a)",
        "a(?i)b", "(*FAIL)",        "a{1,2}+",   "a{,2}",     "a{2}?",         "a{x}",
        "a{}",    R"(\p{Unheard})", R"(\p{L&})", R"(\p{Lx})", R"(\p{sc:Han})", "(a",
        R"(\)",   "[]a]",           R"(\Ka)",    "(?R)"}) {
    EXPECT_THAT(refusal([&] { cut(split_by("Regex", pattern), "a"); }), HasSubstr("not supported"))
        << pattern;
  }
  EXPECT_THAT(cut(split_by("Regex", R"(\s)"), "a\u180Eb c"), ElementsAre("a\u180Eb", " ", "c"));
  EXPECT_THAT(cut(split_by("Regex", R"([\s])"), "a\u180Eb\u0085c"),
              ElementsAre("a\u180Eb", "\u0085", "c"));
  EXPECT_THAT(cut(split_by("Regex", R"(\S+)"), "a\u180Eb c"), ElementsAre("a\u180Eb", " ", "c"));
  EXPECT_THAT(cut(split_by("Regex", R"([一-龥぀-ゟ]+|\u0041|\x42)"), "xy漢字かAB"),
              ElementsAre("xy", "漢字か", "A", "B"));
  // A script by its bare name is what belongs to it alone, without what it shares.
  EXPECT_THAT(cut(split_by("Regex", R"(\p{Han}+)"), "漢字。々、x"),
              ElementsAre("漢字", "。", "々", "、x"));
  EXPECT_THAT(cut(split_by("Regex", R"([\p{Hiragana}\p{Lu}]+|\p{^Han})"), "かカーA漢"),
              ElementsAre("か", "カ", "ー", "A", "漢"));
  EXPECT_THAT(cut(split_by("Regex", "a{2,3}?"), "aaaa"), ElementsAre("aa", "aa"));
  EXPECT_THAT(cut(split_by("Regex", R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"), "a[b-c"),
              ElementsAre("a", "[b", "-c"));
}

TEST(HuggingFaceByteLevel, MapsBytesAndAddsASpace) {
  EXPECT_THAT(cut(R"({"type":"ByteLevel","add_prefix_space":true})", "Hi there\n é"),
              ElementsAre("ĠHi", "Ġthere", "Ċ", "ĠÃ©"));
  EXPECT_THAT(cut(R"({"type":"ByteLevel","add_prefix_space":true})", " x"), ElementsAre("Ġx"));
  EXPECT_THAT(cut(R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})", "a b"),
              ElementsAre("aĠb"));
}

TEST(HuggingFaceMetaspace, MarksAndCuts) {
  const auto metaspace = [](const std::string& more) {
    return R"({"type":"Metaspace","replacement":"▁")" + more + "}";
  };
  EXPECT_THAT(cut(metaspace("").c_str(), "Hey  you"), ElementsAre("▁Hey", "▁", "▁you"));
  EXPECT_THAT(cut(metaspace("").c_str(), " Hey"), ElementsAre("▁Hey"));
  EXPECT_THAT(cut(metaspace(R"(,"prepend_scheme":"never")").c_str(), "a b"),
              ElementsAre("a", "▁b"));
  EXPECT_THAT(cut(metaspace(R"(,"add_prefix_space":false)").c_str(), "a b"),
              ElementsAre("a", "▁b"));
  EXPECT_THAT(cut(metaspace(R"(,"prepend_scheme":"always","split":false)").c_str(), "a b"),
              ElementsAre("▁a▁b"));
  // "first": only the piece at the very beginning of the text.
  EXPECT_THAT(cut(json::parse(R"({"type":"Sequence","pretokenizers":[
      {"type":"Split","pattern":{"String":"-"},"behavior":"Isolated","invert":false},)" +
                              metaspace(R"(,"prepend_scheme":"first")") + "]}"),
                  "a-b"),
              ElementsAre("▁a", "-", "b"));
}

TEST(HuggingFaceDigits, CutsAtNumbers) {
  EXPECT_THAT(cut(R"({"type":"Digits","individual_digits":true})", "ab12٣x½"),
              ElementsAre("ab", "1", "2", "٣", "x", "½"));
  EXPECT_THAT(cut(R"({"type":"Digits","individual_digits":false})", "ab12x3"),
              ElementsAre("ab", "12", "x", "3"));
  EXPECT_THAT(refusal([] { cut(R"({"type":"BertPreTokenizer"})", "a"); }),
              HasSubstr("pre_tokenizer \"BertPreTokenizer\" is not supported"));
}

TEST(HuggingFaceDecoder, GivesTheTextBack) {
  EXPECT_EQ(decoded(R"({"type":"ByteLevel"})", {"ĠHi", "Ċ", "Ã", "©", "日"}), " Hi\né日");
  constexpr const char* kLlama = R"({"type":"Sequence","decoders":[
      {"type":"Replace","pattern":{"String":"▁"},"content":" "},
      {"type":"ByteFallback"},{"type":"Fuse"},
      {"type":"Strip","content":" ","start":1,"stop":0}]})";
  EXPECT_EQ(decoded(kLlama, {"▁▁Hi", "▁you", "<0xE2>", "<0x98>", "<0x83>"}), " Hi you☃");
  EXPECT_EQ(decoded(kLlama, {"▁Hi"}, /*of_one_piece=*/true), " Hi");
  EXPECT_EQ(decoded(R"({"type":"Strip","content":"x","start":0,"stop":2})", {"xxx", "ax"}), "xa");
  EXPECT_EQ(decoded(R"({"type":"Metaspace","replacement":"▁"})", {"▁Hi", "▁you"}), "Hi you");
  EXPECT_EQ(decoded(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"never"})", {"▁Hi"}),
            " Hi");
  EXPECT_EQ(decoded(R"({"type":"Sequence","decoders":[{"type":"ByteFallback"},
      {"type":"Replace","pattern":{"Regex":"a+"},"content":"b"}]})",
                    {"<0xE2>", "caat"}),
            "\uFFFDcbt");
  // Bytes are characters again for the step that follows.
  EXPECT_EQ(decoded(R"({"type":"Sequence","decoders":[{"type":"ByteFallback"},
      {"type":"Replace","pattern":{"String":"☃"},"content":"!"}]})",
                    {"a", "<0xE2>", "<0x98>", "<0x83>", "<0x41>", "☃"}),
            "a!A!");
  EXPECT_EQ(decoded(R"({"type":"Sequence","decoders":[{"type":"ByteLevel"},
      {"type":"Strip","content":" ","start":1,"stop":0}]})",
                    {"ĠHi", "Ġyou"}),
            "Hi you");
  EXPECT_EQ(decoded(R"({"type":"Sequence","decoders":[{"type":"Fuse"},
      {"type":"Replace","pattern":{"Regex":"x*"},"content":"-"}]})",
                    {}),
            "");
  EXPECT_THAT(refusal([] { decoded(R"({"type":"WordPiece"})", {}); }),
              HasSubstr("decoder \"WordPiece\" is not supported"));
}

TEST(HuggingFaceBpe, MergesLikeTheLoop) {
  std::vector<Pieces> words;
  std::mt19937 random(1);
  for (int i = 0; i < 600; ++i) {
    words.emplace_back();
    for (unsigned n = 0; n < 2 + random() % 9; ++n) {
      words.back().push_back(characters_of("abcdé")[std::min(random() % 5, random() % 5)]);
    }
  }
  const BpeVocabulary vocabulary = train_bpe(words, 300);
  json description = as_read(bpe_model_json(vocabulary));
  const BpeModel model(JsonPart(description, "file", "model"));
  for (json& merge : description["merges"]) {  // the newer way to write them
    const auto text = merge.get<std::string>();
    merge = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
  }
  const BpeModel same_model(JsonPart(description, "file", "model"));
  for (int round = 0; round < 3000; ++round) {
    std::string word;
    const unsigned size = round < 2990 ? 1 + random() % 20 : 1500;
    for (unsigned n = 0; n < size; ++n) {
      word += characters_of("abcdé")[round % 3 == 0 ? 0 : random() % 5];
    }
    std::vector<BpeModel::Token> tokens, same;
    BpeModel::Cache cache, same_cache;
    model.encode(word, cache, tokens);
    same_model.encode(word, same_cache, same);
    Pieces pieces;
    ASSERT_EQ(same.size(), tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      pieces.push_back(word.substr(tokens[i].begin, tokens[i].end - tokens[i].begin));
      ASSERT_EQ(model.find(pieces.back()), tokens[i].id);
      ASSERT_EQ(same[i].id, tokens[i].id);
    }
    ASSERT_EQ(pieces, merge_by_the_loop(characters_of(word), vocabulary)) << word;
  }
}

/// Long words are cut where no merge joins; what a merge of bytes or of the unknown token joins is
/// not.
TEST(HuggingFaceBpe, LongWordsAreMergedLikeTheLoopToo) {
  BpeVocabulary bytes;
  Pieces first;
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    first.emplace_back(name);
  }
  bytes.merges = {{"a", "b"},      {"<0xE6>", "<0x97>"}, {"b", "<0xE6>"},
                  {"<0xA5>", "a"}, {"ab", "<0xE6>"},     {"c", "c"},
                  {"cc", "cc"},    {"日", "本"},         {"<0xA5>a", "日本"}};
  bytes.pieces = {
      "a",       "b",       "c",        "日本", "本",   "日",         "ab", "<0xE6><0x97>",
      "b<0xE6>", "<0xA5>a", "ab<0xE6>", "cc",   "cccc", "<0xA5>a日本"};
  BpeVocabulary unknown{.pieces = {"a", "b", "<unk>", "<unk>a", "b<unk>", "b<unk><unk>a"},
                        .merges = {{"<unk>", "a"}, {"b", "<unk>"}, {"b<unk>", "<unk>a"}}};
  json of_bytes = bpe_model_json(bytes, first), of_unknown = bpe_model_json(unknown);
  of_bytes["byte_fallback"] = true;
  of_unknown["byte_fallback"] = false;
  of_unknown["unk_token"] = "<unk>";
  of_unknown["fuse_unk"] = false;
  of_bytes = as_read(of_bytes);
  of_unknown = as_read(of_unknown);
  const BpeModel with_bytes(JsonPart(of_bytes, "file", "model"));
  const BpeModel with_unknown(JsonPart(of_unknown, "file", "model"));
  BpeModel::Cache cache_of_bytes, cache_of_unknown;
  std::vector<std::string> words;  // a cache refers to the texts
  std::mt19937 random(47);
  for (int round = 0; round < 400; ++round) {
    std::string word;
    while (word.size() < 20 + random() % 200) {
      word += characters_of("aabbcccc日本旧é時")[random() % 13];
    }
    words.push_back(word);
  }
  for (const std::string& word : words) {
    Pieces symbols_of_bytes, symbols_of_unknown;
    for (const std::string& c : characters_of(word)) {
      const bool known = of_bytes["vocab"].contains(c);
      if (known) symbols_of_bytes.push_back(c);
      for (const char byte : known ? std::string() : c) {
        symbols_of_bytes.push_back(first[static_cast<unsigned char>(byte)]);
      }
      symbols_of_unknown.push_back(of_unknown["vocab"].contains(c) ? c : "<unk>");
    }
    const auto check = [&](const BpeModel& model, BpeModel::Cache& cache, const Pieces& symbols,
                           const BpeVocabulary& vocabulary) {
      std::vector<BpeModel::Token> tokens;
      model.encode(word, cache, tokens);
      std::vector<std::int32_t> ids, expected;
      std::size_t end = 0;
      for (const BpeModel::Token& token : tokens) {
        ids.push_back(token.id);
        EXPECT_EQ(token.begin, end);
        end = token.end;
      }
      EXPECT_EQ(end, word.size());
      for (const std::string& piece : merge_by_the_loop(symbols, vocabulary)) {
        expected.push_back(model.find(piece));
      }
      ASSERT_EQ(ids, expected) << word;
    };
    check(with_bytes, cache_of_bytes, symbols_of_bytes, bytes);
    check(with_unknown, cache_of_unknown, symbols_of_unknown, unknown);
  }
}

TEST(HuggingFaceBpe, MoreWordsThanAreRememberedGiveTheSameTokens) {
  std::vector<Pieces> training;
  for (const char* word : {"0123", "4567", "0145", "7777"}) training.push_back(characters_of(word));
  BpeVocabulary vocabulary = train_bpe(training, 6);
  for (const char digit : std::string("0123456789")) {
    const std::string piece(1, digit);
    if (std::find(vocabulary.pieces.begin(), vocabulary.pieces.end(), piece) ==
        vocabulary.pieces.end()) {
      vocabulary.pieces.push_back(piece);
    }
  }
  const json description = as_read(bpe_model_json(vocabulary));
  const BpeModel model(JsonPart(description, "file", "model"));
  std::vector<std::string> words;
  for (int i = 0; i < 80000; ++i) words.push_back(std::to_string(7 * i));
  words.insert(words.end(), words.begin(), words.begin() + 500);
  BpeModel::Cache cache;
  for (const std::string& word : words) {
    std::vector<BpeModel::Token> tokens, alone;
    BpeModel::Cache fresh;
    model.encode(word, cache, tokens);
    model.encode(word, fresh, alone);
    ASSERT_EQ(tokens.size(), alone.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      ASSERT_EQ(tokens[i].id, alone[i].id);
      ASSERT_EQ(tokens[i].begin, alone[i].begin);
      ASSERT_EQ(tokens[i].end, alone[i].end);
    }
  }
}

TEST(HuggingFaceTables, FindWhatWasPutIn) {
  std::mt19937 random(53);
  PieceTable pieces;  // grows
  MergeTable merges;
  std::map<std::string, std::int32_t> known_pieces;
  std::map<std::pair<std::int32_t, std::int32_t>, std::uint32_t> known_merges;
  for (std::int32_t id = 0; id < 5000; ++id) {
    std::string text;
    for (unsigned n = random() % 5; n > 0; --n) text += "abc\0"[random() % 4];
    ASSERT_EQ(pieces.add(text, id), known_pieces.emplace(text, id).second);
    const auto left = static_cast<std::int32_t>(random() % 60);
    const auto right = static_cast<std::int32_t>(random() % 60);
    merges.set(left, right, {static_cast<std::uint32_t>(id), id});
    known_merges[{left, right}] = static_cast<std::uint32_t>(id);
  }
  ASSERT_EQ(pieces.size(), known_pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    ASSERT_EQ(known_pieces.at(std::string(pieces.piece(i).text)), pieces.piece(i).id);
  }
  for (const auto& [text, id] : known_pieces) ASSERT_EQ(pieces.find(text), id);
  EXPECT_EQ(pieces.find("d"), -1);
  for (const auto& [left, right] : cells(70, 70)) {
    const PairMerge* merge = merges.find(left, right);
    const auto known = known_merges.find({left, right});
    ASSERT_EQ(merge != nullptr, known != known_merges.end());
    if (merge != nullptr) {
      ASSERT_EQ(merge->rank, known->second);
    }
  }
}

TEST(HuggingFaceBpe, TreatsUnknownCharactersAsTheFileSays) {
  const auto ids = [](json more, const std::string& word) {
    json description{{"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}, {"<unk>", 3}, {"xyz", 4}}},
                     {"merges", {"a b"}}};
    description.update(more);
    description = as_read(description);
    std::vector<BpeModel::Token> tokens;
    BpeModel::Cache cache;
    BpeModel(JsonPart(description, "file", "model")).encode(word, cache, tokens);
    std::vector<int> list;
    for (const BpeModel::Token& token : tokens) list.push_back(token.id);
    return list;
  };
  EXPECT_THAT(ids(json::object(), "abba"), ElementsAre(2, 1, 0));
  EXPECT_THAT(ids(json::object(), "xyz"), ElementsAre());
  EXPECT_THAT(ids({{"ignore_merges", true}}, "xyz"), ElementsAre(4));
  EXPECT_THAT(ids({{"unk_token", "<unk>"}}, "xyab"), ElementsAre(3, 3, 2));
  EXPECT_THAT(ids({{"unk_token", "<unk>"}, {"fuse_unk", true}}, "xyabz"), ElementsAre(3, 2, 3));
  EXPECT_THROW(ids({{"unk_token", "none"}}, "x"), WorkError);
  EXPECT_THAT(refusal([&] { ids({{"dropout", 0.1}}, "a"); }), HasSubstr("dropout"));
  EXPECT_THAT(ids({{"dropout", 0.0}}, "a"), ElementsAre(0));
  EXPECT_THAT(refusal([&] { ids({{"type", "Unigram"}}, "a"); }), HasSubstr("\"Unigram\""));
  EXPECT_THAT(refusal([&] {
                ids({{"end_of_word_suffix", "</w>"}}, "a");
              }),
              HasSubstr("end_of_word_suffix"));
}

}  // namespace
}  // namespace kvloupe::test
