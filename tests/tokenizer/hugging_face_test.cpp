// tokenizer.json as a whole: small files learnt here, against the plain merge loop and against the
// SentencePiece library's ids; added tokens, BOS, and files that are hostile or broken.
#include <sentencepiece_trainer.h>

#include "analysis/base/text/utf8.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"
#include "capture/tokenizer/prompt.h"
#include "capture/tokenizer/sentencepiece_model.h"
#include "capture/tokenizer/tokenizer.h"
#include "tests/support/test.h"
#include "tests/tokenizer/bpe_files.h"
#include "tests/tokenizer/library_nfc.h"

namespace kvloupe::test {
namespace {

using nlohmann::json;

std::unique_ptr<Tokenizer> open(const json& file) {
  const TemporaryFolder folder;
  write_json(folder / "tokenizer.json", file);
  return open_tokenizer(folder.path());
}

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::int32_t> ids;
  for (const EncodedToken& token : tokenizer.encode(text)) ids.push_back(token.id);
  return ids;
}

Pieces shown(const Tokenizer& tokenizer, const std::string& text) {
  Pieces pieces;
  for (const EncodedToken& token : tokenizer.encode(text)) {
    pieces.push_back(spell_bytes(tokenizer.piece_bytes(token.id)));
  }
  return pieces;
}

std::string problem(const std::function<void()>& act) {
  try {
    act();
  } catch (const FileError& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "";
}

BpeVocabulary vocabulary_of(const json& file) {
  BpeVocabulary vocabulary;
  for (const json& merge : file["model"]["merges"]) {
    const auto text = merge.get<std::string>();
    vocabulary.merges.emplace_back(text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1));
  }
  return vocabulary;
}

const json& llama3() {
  static const json file = byte_level_json(kLlama3Pattern);
  return file;
}

const json& qwen2() {
  static const json file = [] {
    json made = byte_level_json(kQwen2Pattern);
    made["normalizer"] = {{"type", "NFC"}};
    return made;
  }();
  return file;
}

const json& llama2() {
  static const json file = sentencepiece_style_json();
  return file;
}

TEST(HuggingFace, AnyTextComesBack) {
  const auto bytes = open(llama3());
  const auto normal = open(qwen2());
  const auto pieces = open(llama2());
  std::mt19937 random(17);
  for (int round = 0; round < 1500; ++round) {
    const std::string text = random_unicode(random, 1 + random() % 25);
    ASSERT_EQ(bytes->decode(ids_of(*bytes, text)), text);
    ASSERT_EQ(normal->decode(ids_of(*normal, text)), library_nfc(text));
    ASSERT_EQ(pieces->decode(ids_of(*pieces, text)), text);
  }
  for (const Tokenizer* tokenizer : {bytes.get(), normal.get(), pieces.get()}) {
    EXPECT_TRUE(tokenizer->encode("").empty());
    EXPECT_EQ(tokenizer->decode({}), "");
  }
}

TEST(HuggingFace, EveryTokenKnowsItsBytes) {
  const auto bytes = open(llama3());
  const auto pieces = open(llama2());
  std::mt19937 random(19);
  for (int round = 0; round < 500; ++round) {
    const std::string text = random_unicode(random, 1 + random() % 25);
    for (const Tokenizer* tokenizer : {bytes.get(), pieces.get()}) {
      std::size_t begin = 0, end = 0;
      for (const EncodedToken& token : tokenizer->encode(text)) {
        ASSERT_GE(token.begin, begin);
        ASSERT_LE(token.begin, end);  // no gap
        ASSERT_GE(token.end, end);
        begin = token.begin;
        end = token.end;
      }
      ASSERT_EQ(end, text.size());
    }
  }
}

TEST(HuggingFace, ByteLevelTokensAreTheMergeLoops) {
  const auto tokenizer = open(llama3());
  const BpeVocabulary vocabulary = vocabulary_of(llama3());
  std::mt19937 random(23);
  const Pieces letters = characters_of("therealdingcahébl日本語наприветaaa");
  for (int round = 0; round < 1500; ++round) {
    std::string word = random() % 2 == 0 ? " " : "";  // one piece by itself
    for (unsigned n = 0; n < 1 + random() % 15; ++n) word += letters[random() % letters.size()];
    std::vector<std::int32_t> expected;
    for (const std::string& piece :
         merge_by_the_loop(characters_of(as_byte_characters(word)), vocabulary)) {
      expected.push_back(llama3()["model"]["vocab"][piece].get<std::int32_t>());
    }
    ASSERT_EQ(ids_of(*tokenizer, word), expected) << word;
  }
}

TEST(HuggingFace, SentencePieceStyleTokensAreTheMergeLoops) {
  const auto tokenizer = open(llama2());
  const BpeVocabulary vocabulary = vocabulary_of(llama2());
  std::mt19937 random(29);
  const Pieces letters = characters_of("therealdingcahébl日本語наприветaaa    ");
  for (int round = 0; round < 1500; ++round) {
    std::string text, marked = "▁";
    for (unsigned n = 0; n < 1 + random() % 40; ++n) {
      const std::string& letter = letters[random() % letters.size()];
      text += letter;
      marked += letter == " " ? "▁" : letter;
    }
    std::vector<std::int32_t> expected;
    for (const std::string& piece : merge_by_the_loop(characters_of(marked), vocabulary)) {
      expected.push_back(llama2()["model"]["vocab"][piece].get<std::int32_t>());
    }
    ASSERT_EQ(ids_of(*tokenizer, text), expected) << text;
  }
}

TEST(HuggingFace, AMegabyteWithoutAnEndIsNoTrouble) {
  const auto bytes = open(llama3());
  const auto normal = open(qwen2());
  const auto pieces = open(llama2());
  std::mt19937 random(31);
  std::string letters, marks = "a", text;
  while (letters.size() < 1 << 20) letters += "theraingcblsu"[random() % 13];
  while (marks.size() < 1 << 20) marks += random() % 2 == 0 ? "\u0301" : "\u0323";
  while (text.size() < 1 << 20) text += random_unicode(random, 20);
  const std::string spaces(1 << 20, ' '), same(1 << 20, 'a');
  for (const std::string& long_text : {letters, text, spaces}) {
    EXPECT_EQ(bytes->decode(ids_of(*bytes, long_text)), long_text);
  }
  for (const std::string& long_text : {letters, same}) {
    EXPECT_EQ(pieces->decode(ids_of(*pieces, long_text)), long_text);
  }
  EXPECT_FALSE(normal->encode(marks).empty());
}

/// The merges of a SentencePiece vocabulary, as the transformers library derives them: every way to
/// make a piece of two, in the order of the pieces' scores.
json made_over(const SentencePieceModel& model) {
  json file = llama2();
  json& vocabulary = file["model"]["vocab"] = json::object();
  std::map<std::string, int> ids;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    vocabulary[model.pieces[i].text] = i;
    if (model.pieces[i].type == SentencePieceModel::PieceType::normal) {
      ids[model.pieces[i].text] = static_cast<int>(i);
    }
  }
  struct Merge {
    float score;
    std::string left, right;
  };
  std::vector<Merge> merges;
  for (const auto& piece : model.pieces) {
    if (piece.type != SentencePieceModel::PieceType::normal) continue;
    const auto before = static_cast<std::ptrdiff_t>(merges.size());
    for (std::size_t cut = 1; cut < piece.text.size(); ++cut) {
      const std::string left = piece.text.substr(0, cut), right = piece.text.substr(cut);
      if (ids.contains(left) && ids.contains(right)) merges.push_back({piece.score, left, right});
    }
    std::sort(merges.begin() + before, merges.end(), [&](const Merge& a, const Merge& b) {
      return std::pair(ids[a.left], ids[a.right]) < std::pair(ids[b.left], ids[b.right]);
    });
  }
  std::stable_sort(merges.begin(), merges.end(),
                   [](const Merge& a, const Merge& b) { return a.score > b.score; });
  file["model"]["merges"] = json::array();
  for (const Merge& merge : merges) file["model"]["merges"].push_back({merge.left, merge.right});
  return file;
}

/// Both files of one model, each alone, give the same tokens.
void expect_equal_readings(const fs::path& model_file) {
  const TemporaryFolder model_folder, json_folder;
  fs::copy_file(model_file, model_folder / "tokenizer.model");
  const SentencePieceModel model = read_sentencepiece_model(model_file);
  write_json(json_folder / "tokenizer.json", made_over(model));
  const auto original = open_tokenizer(model_folder.path());
  const auto ours = open_tokenizer(json_folder.path());
  EXPECT_EQ(ours->size(), original->size());
  EXPECT_EQ(ours->bos(), original->bos());
  std::mt19937 random(37);
  for (int round = 0; round < 1500; ++round) {
    std::string text = random_unicode(random, 1 + random() % 25);
    if (round % 2 == 0) {
      text.clear();
      for (int i = 0; i < 20; ++i) {
        text += original->piece_bytes(static_cast<int>(259 + random() % (original->size() - 259)));
      }
    }
    if (model.remove_extra_whitespaces) {  // which a tokenizer.json of this kind cannot say
      text.erase(std::unique(text.begin(), text.end(),
                             [](char a, char b) { return a == ' ' && b == ' '; }),
                 text.end());
      if (text.starts_with(' ')) text.erase(0, 1);
      if (text.ends_with(' ')) text.pop_back();
    }
    ASSERT_EQ(ids_of(*ours, text), ids_of(*original, text)) << text;
    ASSERT_EQ(ours->decode(ids_of(*ours, text)), original->decode(ids_of(*original, text)));
  }
  for (std::int32_t id = 3; id < ours->size(); ++id) {
    ASSERT_EQ(ours->piece_bytes(id), original->piece_bytes(id));
  }
}

TEST(HuggingFace, GivesTheIdsOfTheTokenizerModelItWasMadeFrom) {
  const TemporaryFolder folder;
  std::string lines = training_text();
  for (std::size_t i = 60; i < lines.size(); i += 60) {
    if (const std::size_t space = lines.find(' ', i); space != lines.npos) lines[space] = '\n';
  }
  std::ofstream(folder / "text.txt") << lines;
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      "--input=" + (folder / "text.txt").string() +
      " --model_prefix=" + (folder / "tokenizer").string() +
      " --vocab_size=700 --hard_vocab_limit=false --normalization_rule_name=identity"
      " --minloglevel=2 --num_threads=1 --model_type=bpe --byte_fallback=true"
      " --remove_extra_whitespaces=false");
  ASSERT_TRUE(status.ok()) << status.ToString();
  expect_equal_readings(folder / "tokenizer.model");
}

TEST(HuggingFace, GivesTheIdsOfTheRealTokenizerModel) {
  const auto file = fs::path(KVLOUPE_SOURCE_DIR) / "../shared/models/stories260K/tokenizer.model";
  if (!fs::exists(file)) GTEST_SKIP() << "stories260K is not beside the project";
  expect_equal_readings(file);
}

TEST(HuggingFace, PiecesAreShownAsAPersonReadsThem) {
  EXPECT_THAT(shown(*open(llama3()), "the\n☃<tool>"),
              ElementsAre("the", "\\n", "\\xE2", "\\x98", "\\x83", "<tool>"));
  EXPECT_THAT(shown(*open(llama2()), "the\n☃"),
              ElementsAre(" the", "\\n", "\\xE2", "\\x98", "\\x83"));
  json file = llama3();
  file["added_tokens"][0]["id"] = 5000;  // ids may have holes
  const auto tokenizer = open(file);
  EXPECT_EQ(tokenizer->size(), 5001);
  EXPECT_EQ(tokenizer->piece_bytes(4000), "[4000]");
  EXPECT_EQ(tokenizer->piece_bytes(-1), "[-1]");
  EXPECT_EQ(tokenizer->decode({4000, -7, 9999}), "");
}

TEST(HuggingFace, AddedTokensAreFoundBeforeAnythingElse) {
  const auto tokenizer = open(llama3());
  EXPECT_THAT(shown(*tokenizer, "<|begin|>the<tool><|end|>\n"),
              ElementsAre("<|begin|>", "the", "<tool>", "<|end|>", "\\n"));
  const std::vector<std::int32_t> ids = ids_of(*tokenizer, "<|begin|>the<tool>");
  EXPECT_TRUE(tokenizer->is_special(ids.front()));
  EXPECT_FALSE(tokenizer->is_special(ids.back()));
  EXPECT_EQ(tokenizer->decode(ids), "the<tool>");

  // Special tokens end what the normaliser sees, so that each stretch gets its own space.
  EXPECT_THAT(shown(*open(llama2()), "<s>the</s>the"), ElementsAre("<s>", " the", "</s>", " the"));
}

TEST(HuggingFace, AddedTokensMatchByTheirFlags) {
  const auto shown_with = [](const json& tokens, const std::string& text) {
    json file = llama3();
    int id = 2000;
    file["added_tokens"] = json::array();
    for (json token : tokens) {
      token["id"] = id++;
      file["added_tokens"].push_back(token);
    }
    const auto tokenizer = open(file);
    std::vector<std::string> result;  // with the bytes they stand for
    for (const EncodedToken& token : tokenizer->encode(text)) {
      result.push_back(spell_bytes(tokenizer->piece_bytes(token.id)) + "=" +
                       text.substr(token.begin, token.end - token.begin));
    }
    return result;
  };
  // The longest at the leftmost place.
  EXPECT_THAT(
      shown_with({{{"content", "ab"}}, {{"content", "abc"}}, {{"content", "bcde"}}}, "abcde"),
      ElementsAre("abc=abc", "d=d", "e=e"));
  EXPECT_THAT(shown_with({{{"content", "qq"}, {"single_word", true}}}, "qq! éqq qq"),
              Contains("qq=qq").Times(2));
  EXPECT_THAT(shown_with({{{"content", "<m>"}, {"lstrip", true}, {"rstrip", true}}}, "d \t<m>\n d"),
              ElementsAre("d=d", "<m>= \t<m>\n ", "d=d"));
  EXPECT_THAT(shown_with({{{"content", "<m>"}, {"rstrip", true}}}, "d <m> d"),
              ElementsAre("d=d", " = ", "<m>=<m> ", "d=d"));

  EXPECT_THAT(
      shown_with({{{"content", "<m>"}, {"rstrip", true}}, {{"content", "\n"}, {"lstrip", true}}},
                 "d<m> \n d\n"),
      ElementsAre("d=d", "<m>=<m> \n ", "d=d", "\\n=\n"));

  // Tokens of the normalised text are normalised themselves; of two that become the same, the first
  // listed is found.
  json file = qwen2();
  file["added_tokens"] = {{{"id", 2000}, {"content", "\u212B!"}, {"normalized", true}},
                          {{"id", 2001}, {"content", "A\u030A!"}, {"normalized", true}}};
  EXPECT_THAT(ids_of(*open(file), "Å!"), ElementsAre(2000));
  file["added_tokens"] = {{{"id", 2000}, {"content", "e\u0301!"}, {"normalized", true}},
                          {{"id", 2001}, {"content", "o\u0301!"}, {"normalized", false}}};
  const auto tokenizer = open(file);
  EXPECT_THAT(ids_of(*tokenizer, "é!"), ElementsAre(2000));
  EXPECT_THAT(ids_of(*tokenizer, "e\u0301!"), ElementsAre(2000));
  EXPECT_THAT(ids_of(*tokenizer, "o\u0301!"), ElementsAre(2001));
  EXPECT_NE(ids_of(*tokenizer, "ó!").front(), 2001);
}

TEST(HuggingFace, BosIsWhatTheFilesSay) {
  const TemporaryFolder folder;
  const auto bos = [&](const json& file, const json& config) {
    write_json(folder / "tokenizer.json", file);
    write_json(folder / "tokenizer_config.json", config);
    return open_tokenizer(folder.path())->bos().value_or(-1);
  };
  const int begin = llama3()["added_tokens"][0]["id"];
  json with_template = llama3();
  with_template["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {{{"type", "ByteLevel"}},
        {{"type", "TemplateProcessing"},
         {"single", {{{"SpecialToken", {{"id", "B"}}}}, {{"Sequence", {{"id", "A"}}}}}},
         {"special_tokens", {{"B", {{"ids", {begin}}}}}}}}}};
  EXPECT_EQ(bos(llama2(), json::object()), 1);
  EXPECT_EQ(bos(llama2(), {{"add_bos_token", false}}), -1);
  EXPECT_EQ(bos(with_template, json::object()), begin);
  EXPECT_EQ(bos(llama3(), json::object()), -1);
  EXPECT_EQ(bos(llama3(), {{"bos_token", "<|begin|>"}}), -1);
  EXPECT_EQ(bos(llama3(), {{"bos_token", "<|begin|>"}, {"add_bos_token", true}}), begin);
  EXPECT_EQ(bos(llama3(), {{"bos_token", {{"content", "<|begin|>"}}}, {"add_bos_token", true}}),
            begin);
  EXPECT_THAT(problem([&] { bos(llama3(), {{"add_bos_token", true}}); }), HasSubstr("bos_token"));
  EXPECT_THAT(problem([&] { bos(llama3(), {{"bos_token", 3}}); }), HasSubstr("bos_token"));
  write_json(folder / "tokenizer_config.json", {{"eos_token", "<|end|>"}});
  EXPECT_EQ(open_tokenizer(folder.path())->eos(), llama3()["added_tokens"][1]["id"]);

  // Once: a text that begins with it gets no second.
  write_json(folder / "tokenizer.json", with_template);
  const auto tokenizer = open_tokenizer(folder.path());
  for (const char* text : {"the", "<|begin|>the"}) {
    const TokenSequence tokens = encode_prompt(parse_prompt(text), *tokenizer);
    EXPECT_EQ(tokens.ids.size(), 2U);
    EXPECT_EQ(tokens.ids.front(), begin);
  }

  json after = with_template;
  json& single = after["post_processor"]["processors"][1]["single"];
  std::swap(single[0], single[1]);
  EXPECT_THAT(problem([&] { open(after); }), HasSubstr("post_processor template"));
}

/// A chat written out as its template has it, in Llama 3's manner and in Qwen's.
TEST(HuggingFace, ChatsAreReadAsTheirTemplatesWriteThem) {
  const TemporaryFolder folder;
  const auto with_tokens = [](const json& base, const Pieces& contents) {
    json file = base;
    int id = 3000;
    file["added_tokens"] = json::array();
    for (const std::string& content : contents) {
      file["added_tokens"].push_back({{"id", id++}, {"content", content}, {"special", true}});
    }
    return file;
  };
  json llama = with_tokens(
      llama3(), {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"});
  llama["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<|begin_of_text|>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
      {"special_tokens", {{"<|begin_of_text|>", {{"ids", {3000}}}}}}};
  const std::string chat =
      "<|start_header_id|>the<|end_header_id|>\n\nthe<|eot_id|><|start_header_id|>the<|end_header_"
      "id|>"
      "\n\n";
  write_json(folder / "tokenizer.json", llama);
  for (const std::string& begin : {std::string(), std::string("<|begin_of_text|>"),
                                   std::string("\xEF\xBB\xBF<|begin_of_text|>")}) {
    std::ofstream(folder / "chat.txt", std::ios::binary) << begin << chat << "\n";
    const auto tokenizer = open_tokenizer(folder.path());
    const TokenSequence tokens = encode_prompt(read_prompt(folder / "chat.txt"), *tokenizer);
    Pieces pieces, specials;
    for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
      pieces.push_back(spell_bytes(tokenizer->piece_bytes(tokens.ids[i])));
      if (tokens.names[tokens.segment[i]] == "special") specials.push_back(pieces.back());
    }
    EXPECT_THAT(pieces,
                ElementsAre("<|begin_of_text|>", "<|start_header_id|>", "the", "<|end_header_id|>",
                            "\\n", "\\n", "the", "<|eot_id|>", "<|start_header_id|>", "the",
                            "<|end_header_id|>", "\\n", "\\n"));
    EXPECT_THAT(specials,
                ElementsAre("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                            "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"));
    EXPECT_EQ(tokenizer->decode(tokens.ids), "the\n\nthethe\n\n");
  }
  // Qwen's texts begin with no BOS.
  write_json(folder / "tokenizer.json", with_tokens(qwen2(), {"<|im_start|>", "<|im_end|>"}));
  const auto tokenizer = open_tokenizer(folder.path());
  const TokenSequence tokens =
      encode_prompt(parse_prompt("<|im_start|>the\nthe<|im_end|>\n"), *tokenizer);
  ASSERT_EQ(tokens.ids.size(), 5U);
  EXPECT_EQ(tokens.ids.front(), 3000);
  EXPECT_EQ(tokens.ids.back(), 3001);
}

TEST(HuggingFace, TheFileWithTheAddedTokensWinsWhereItIsSupported) {
  const TemporaryFolder folder;
  fs::copy_file(fs::path(KVLOUPE_SOURCE_DIR) / "assets/demo-model/tokenizer.model",
                folder / "tokenizer.model");
  const auto alone = open_tokenizer(folder.path())->size();
  write_json(folder / "tokenizer.json", llama3());
  EXPECT_NE(open_tokenizer(folder.path())->size(), alone);
  json unsupported = llama3();
  unsupported["normalizer"] = {{"type", "Precompiled"}};
  write_json(folder / "tokenizer.json", unsupported);
  EXPECT_EQ(open_tokenizer(folder.path())->size(), alone);
  std::ofstream(folder / "tokenizer.json") << "{";  // damaged is not unsupported
  EXPECT_THROW(open_tokenizer(folder.path()), FileError);
  fs::remove(folder / "tokenizer.model");
  write_json(folder / "tokenizer.json", unsupported);
  EXPECT_THAT(problem([&] { open_tokenizer(folder.path()); }),
              HasSubstr("tokenizer.json: normalizer \"Precompiled\" is not supported; "));
}

TEST(HuggingFace, WrongFilesAreRefusedByWhatIsWrong) {
  const auto with = [](const std::string& place, const json& value) {
    return problem([&] {
      json file = llama2();
      file[json::json_pointer(place)] = value;
      open(file);
    });
  };
  EXPECT_THAT(with("/model", 3), HasSubstr("model: must be an object"));
  EXPECT_THAT(with("/model", nullptr), HasSubstr("model: is missing"));
  EXPECT_THAT(with("/model/type", 3), HasSubstr("type must be a text"));
  EXPECT_THAT(with("/model/vocab", json::array()), HasSubstr("vocab must be an object"));
  for (const json& id : {json(-1), json(1e9), json(1 << 30), json("1"), json(nullptr)}) {
    EXPECT_THAT(with("/model/vocab/the", id), HasSubstr("id of the piece \"the\""));
  }
  EXPECT_THAT(with("/model/vocab/the", 7), HasSubstr("two pieces have the id 7"));
  EXPECT_THAT(with("/model/merges/3", "the nowhere"), HasSubstr("merge 3 needs the piece"));
  EXPECT_THAT(with("/model/merges/3", "the"), HasSubstr("merge 3, \"the\", must be two pieces"));
  EXPECT_THAT(with("/model/merges/3", {"a", "b", "c"}), HasSubstr("merge 3 must be two pieces"));
  EXPECT_THAT(with("/model/merges", 3), HasSubstr("merges must be a list"));
  EXPECT_THAT(with("/model/byte_fallback", 3), HasSubstr("byte_fallback must be true or false"));
  EXPECT_THAT(with("/added_tokens", 3), HasSubstr("added_tokens must be a list"));
  EXPECT_THAT(with("/added_tokens/1", 3), HasSubstr("list of objects"));
  EXPECT_THAT(with("/added_tokens/1/id", -1), HasSubstr("id must be a whole number"));
  EXPECT_THAT(with("/added_tokens/1/id", 77), HasSubstr("has the id 1 in the vocabulary"));
  EXPECT_THAT(with("/added_tokens/1/content", "new"), HasSubstr("another token has this id"));
  EXPECT_THAT(with("/added_tokens/1/content", std::string(5000, 'a')), HasSubstr("4096"));
  EXPECT_THAT(with("/normalizer/normalizers", 3), HasSubstr("normalizers must be a list"));
  EXPECT_THAT(with("/decoder/type", json::object()), HasSubstr("decoder: type must be a text"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "a\nb"}}), HasSubstr("pre_tokenizer \"a?b\""));
  EXPECT_THAT(with("/post_processor/special_tokens/<s>/ids", {100000}),
              HasSubstr("post_processor"));

  json deep = {{"type", "NFC"}};
  for (int i = 0; i < 20; ++i) deep = {{"type", "Sequence"}, {"normalizers", {deep}}};
  EXPECT_THAT(with("/normalizer", deep), HasSubstr("nested too deep"));
  const TemporaryFolder folder;
  for (const std::string& text : {std::string(), std::string("[]"), std::string("{\"model\""),
                                  std::string(3000000, '['), llama2().dump().substr(0, 5000)}) {
    std::ofstream(folder / "tokenizer.json", std::ios::binary) << text;
    EXPECT_NE(problem([&] { open_tokenizer(folder.path()); }), "");
  }
}

TEST(HuggingFace, DamagedFilesGiveATokenizerOrOneClearError) {
  const TemporaryFolder folder;
  std::mt19937 random(41);
  int opened = 0;
  for (const json& file : {llama2(), qwen2()}) {
    json small = file;  // so that damage often meets something else than the vocabulary
    std::size_t kept = 0;
    std::erase_if(small["model"]["merges"].get_ref<json::array_t&>(),
                  [&](const json&) { return ++kept > 12; });
    const std::string whole = small.dump();
    for (int round = 0; round < 600; ++round) {
      std::string damaged = whole;
      for (unsigned change = 0; change < 1 + random() % 3; ++change) {
        const std::size_t place = random() % damaged.size();
        switch (random() % 4) {
          case 0:
            damaged[place] = static_cast<char>(random() % 256);
            break;
          case 1:
            damaged[place] = "0123456789{}[]\",:\\"[random() % 18];
            break;
          case 2:
            damaged.erase(place, 1 + random() % 8);
            break;
          default:
            damaged.insert(place, damaged.substr(random() % damaged.size(), 1 + random() % 30));
        }
      }
      std::ofstream(folder / "tokenizer.json", std::ios::binary | std::ios::trunc) << damaged;
      try {
        const auto tokenizer = open_tokenizer(folder.path());
        const auto ids = ids_of(*tokenizer, random_unicode(random, 10) + "<s>the<|end|>");
        tokenizer->decode(ids);
        for (const std::int32_t id : ids) tokenizer->piece_bytes(id);
        ++opened;
      } catch (const FileError& error) {
        ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      } catch (const WorkError&) {  // the unknown token is not there any more
      }
    }
  }
  EXPECT_GT(opened, 0);
}

}  // namespace
}  // namespace kvloupe::test
