// The tokenizer in a GGUF file, against the same tokenizer as tokenizer.json and as
// tokenizer.model.
#include <sentencepiece_trainer.h>

#include "capture/tokenizer/kinds/gguf_tokenizer.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"
#include "capture/tokenizer/sentencepiece_model.h"
#include "capture/tokenizer/tokenizer.h"
#include "tests/support/gguf_bytes.h"
#include "tests/support/test.h"
#include "tests/tokenizer/bpe_files.h"

namespace kvloupe::test {
namespace {

using nlohmann::json;

constexpr int kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

std::vector<std::int32_t> token_ids(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::int32_t> ids;
  for (const EncodedToken& token : tokenizer.encode(text)) ids.push_back(token.id);
  return ids;
}

/// Learnt once.
const json& byte_level() {
  static const json file = byte_level_json(kLlama3Pattern);
  return file;
}

/// A tokenizer.json's vocabulary, merges and added tokens as a GGUF file has them.
GgufBytes as_gguf(const json& file, const std::string& split) {
  std::map<int, std::pair<std::string, int>> tokens;
  for (const auto& [piece, id] : file["model"]["vocab"].items()) tokens[id] = {piece, kNormal};
  for (const json& added : file["added_tokens"]) {
    tokens[added["id"]] = {added["content"],
                           added.value("special", false) ? kControl : kUserDefined};
  }
  std::vector<std::string> texts, merges;
  std::vector<std::int32_t> types;
  for (int id = 0; id <= tokens.rbegin()->first; ++id) {
    const auto found = tokens.find(id);
    texts.push_back(found == tokens.end() ? "[PAD" + std::to_string(id) + "]"
                                          : found->second.first);
    types.push_back(found == tokens.end() ? kUnused : found->second.second);
  }
  for (const json& merge : file["model"]["merges"]) merges.push_back(merge);
  GgufBytes bytes;
  bytes.text("general.architecture", "llama").text("tokenizer.ggml.model", "gpt2");
  bytes.text("tokenizer.ggml.pre", split).texts("tokenizer.ggml.tokens", texts);
  bytes.wholes("tokenizer.ggml.token_type", types).texts("tokenizer.ggml.merges", merges);
  return bytes;
}

struct GgufTokenizer : testing::Test {
  std::unique_ptr<Tokenizer> open(const GgufBytes& file) const { return open(file.bytes()); }
  std::unique_ptr<Tokenizer> open(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    return open_tokenizer(path_);
  }
  std::string problem(const GgufBytes& file) const {
    try {
      open(file);
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), HasSubstr("m.gguf"));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    return "";
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "m.gguf";
};

TEST_F(GgufTokenizer, ByteLevelGivesTheIdsOfTokenizerJson) {
  for (const auto& [pattern, split] :
       {std::pair{kLlama3Pattern, "llama-bpe"}, std::pair{kQwen2Pattern, "qwen2"}}) {
    SCOPED_TRACE(split);
    json file = byte_level_json(pattern);
    if (std::string(split) == "qwen2") file["normalizer"] = {{"type", "NFC"}};
    if (std::string(split) == "llama-bpe") file["model"]["ignore_merges"] = true;
    write_json(folder_ / "tokenizer.json", file);
    const auto expected = open_tokenizer(folder_.path());
    const auto ours = open(as_gguf(file, split));
    EXPECT_EQ(ours->size(), expected->size());
    std::mt19937 random(3);
    for (int round = 0; round < 400; ++round) {
      std::string text = random_unicode(random, 1 + round % 12);
      if (round % 5 == 0) text += file["added_tokens"][0]["content"].get<std::string>() + " x";
      const auto tokens = token_ids(*ours, text);
      ASSERT_EQ(tokens, token_ids(*expected, text)) << text;
      ASSERT_EQ(ours->decode(tokens), expected->decode(tokens));
      for (const std::int32_t id : tokens) {
        ASSERT_EQ(ours->piece_bytes(id), expected->piece_bytes(id));
        ASSERT_EQ(ours->is_special(id), expected->is_special(id));
      }
    }
  }
}

TEST_F(GgufTokenizer, EndsOfATextAreControlTokensWhateverTheirType) {
  json file = byte_level();
  std::map<std::string, std::uint32_t> ids{
      {"<|im_end|>", 5000}, {"<start>", 5001}, {"<other>", 5002}};
  for (const auto& [text, id] : ids) file["model"]["vocab"][text] = id;  // of the type normal
  GgufBytes bytes = as_gguf(file, "qwen2");
  bytes.whole("tokenizer.ggml.bos_token_id", ids["<start>"]);
  const auto tokenizer = open(bytes);
  for (const auto& [text, id] : ids) {
    const bool known = text != "<other>";  // nothing says that this is no text
    const auto tokens = token_ids(*tokenizer, "a" + text);
    EXPECT_EQ(tokens.back() == static_cast<std::int32_t>(id), known) << text;
    EXPECT_EQ(tokenizer->is_special(static_cast<std::int32_t>(id)), known) << text;
  }
}

TEST_F(GgufTokenizer, EverySplitCompilesAndCutsNothingAway) {
  std::mt19937 random(5);
  GgufBytes file = as_gguf(byte_level(), "");
  std::set<const GgufSplit*> seen;
  for (const GgufSplitName& name : gguf_splits()) {
    if (!seen.insert(name.split).second) continue;
    SCOPED_TRACE(name.name);
    const auto tokenizer = open(file.text("tokenizer.ggml.pre", std::string(name.name)));
    for (int round = 0; round < 40; ++round) {
      const std::string text = random_unicode(random, 8);
      if (!name.split->composes) {
        EXPECT_EQ(tokenizer->decode(token_ids(*tokenizer, text)), text);
      }
    }
  }
  EXPECT_EQ(find_gguf_split("smollm")->patterns.size(), 2);
  EXPECT_EQ(find_gguf_split("no-such"), nullptr);
}

TEST_F(GgufTokenizer, TheBeginningFollowsTheFileOrItsSplit) {
  const auto bos = [&](const char* split, const std::function<void(GgufBytes&)>& change) {
    GgufBytes file = as_gguf(byte_level(), split);
    file.whole("tokenizer.ggml.bos_token_id", 7).whole("tokenizer.ggml.eos_token_id", 9);
    change(file);
    const auto tokenizer = open(file);
    EXPECT_EQ(tokenizer->eos(), 9);
    return tokenizer->bos().value_or(-1);
  };
  const auto same = [](GgufBytes&) {};
  EXPECT_EQ(bos("llama-bpe", same), 7);
  EXPECT_EQ(bos("smollm", same), -1);
  EXPECT_EQ(bos("llama-bpe", [](auto& f) { f.flag("tokenizer.ggml.add_bos_token", false); }), -1);
  EXPECT_EQ(bos("smollm", [](auto& f) { f.flag("tokenizer.ggml.add_bos_token", true); }), 7);
  EXPECT_EQ(bos("llama-bpe", [](auto& f) { f.without("tokenizer.ggml.bos_token_id"); }), -1);
}

struct GgufByScores : GgufTokenizer {
  GgufByScores() {
    std::string text = training_text();  // the library leaves long lines out
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == ' ' && i % 7 == 0) text[i] = '\n';
    }
    std::ofstream(folder_ / "text.txt") << text;
    const auto status = sentencepiece::SentencePieceTrainer::Train(
        "--input=" + (folder_ / "text.txt").string() +
        " --model_prefix=" + (folder_ / "tokenizer").string() +
        " --vocab_size=400 --hard_vocab_limit=false --model_type=bpe --byte_fallback=true "
        "--normalization_rule_name=identity --user_defined_symbols=<tool> --minloglevel=2 "
        "--num_threads=1");
    if (!status.ok()) throw std::runtime_error(status.ToString());
    model_ = read_sentencepiece_model(folder_ / "tokenizer.model");
    std::vector<std::string> texts;
    std::vector<float> scores;
    std::vector<std::int32_t> types;
    for (const SentencePieceModel::Piece& piece : model_.pieces) {
      texts.push_back(piece.text);
      scores.push_back(piece.score);
      types.push_back(static_cast<std::int32_t>(piece.type));
    }
    file_.text("general.architecture", "llama").text("tokenizer.ggml.model", "llama");
    file_.texts("tokenizer.ggml.tokens", texts).reals("tokenizer.ggml.scores", scores);
    file_.wholes("tokenizer.ggml.token_type", types);
    file_.flag("tokenizer.ggml.add_space_prefix", model_.add_dummy_prefix);
    file_.flag("tokenizer.ggml.remove_extra_whitespaces", model_.remove_extra_whitespaces);
    for (std::size_t id = 0; id < texts.size(); ++id) {
      if (texts[id] == model_.bos_piece)
        file_.whole("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(id));
      if (texts[id] == model_.eos_piece)
        file_.whole("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(id));
    }
  }
  SentencePieceModel model_;
  GgufBytes file_;
};

TEST_F(GgufByScores, GivesTheIdsOfTokenizerModel) {
  const auto expected = open_tokenizer(folder_.path());
  const auto ours = open(file_);
  EXPECT_EQ(ours->size(), expected->size());
  EXPECT_EQ(ours->bos(), expected->bos());
  EXPECT_EQ(ours->eos(), expected->eos());
  std::mt19937 random(9);
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_unicode(random, 10);
    const auto tokens = token_ids(*ours, text);
    ASSERT_EQ(tokens, token_ids(*expected, text)) << text;
    ASSERT_EQ(ours->decode(tokens), expected->decode(tokens));
  }
}

TEST_F(GgufByScores, ControlTokensInATextAreTheTokensTheyName) {
  const auto tokenizer = open(file_);
  const std::int32_t eos = tokenizer->eos().value();
  const std::string text = "one" + model_.eos_piece + "two";
  const auto tokens = tokenizer->encode(text);
  const auto found = std::find_if(tokens.begin(), tokens.end(),
                                  [&](const EncodedToken& token) { return token.id == eos; });
  ASSERT_NE(found, tokens.end());
  EXPECT_EQ(text.substr(found->begin, found->end - found->begin), model_.eos_piece);
  EXPECT_EQ((found + 1)->begin, found->end);
  EXPECT_TRUE(tokenizer->is_special(eos));
}

TEST_F(GgufTokenizer, WhatIsWrongIsSaid) {
  const auto with = [&](const std::function<void(GgufBytes&)>& change) {
    GgufBytes file = as_gguf(byte_level(), "llama-bpe");
    change(file);
    return problem(file);
  };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_THAT(with([](auto& f) { f.without("tokenizer.ggml.merges"); }),
              AllOf(HasSubstr("tokenizer.ggml.merges"), HasSubstr("--tokenizer")));
  EXPECT_THAT(with([](auto& f) { f.without("tokenizer.ggml.pre"); }),
              AllOf(HasSubstr("tokenizer.ggml.pre"), HasSubstr("--tokenizer")));
  EXPECT_THAT(with([](auto& f) { f.text("tokenizer.ggml.pre", "novel"); }), HasSubstr("novel"));
  EXPECT_THAT(with([](auto& f) { f.text("tokenizer.ggml.model", "bert"); }), HasSubstr("bert"));
  EXPECT_THAT(with([](auto& f) { f.without("tokenizer.ggml.model"); }), HasSubstr("--ids"));
  EXPECT_THAT(with([](auto& f) { f.without("tokenizer.ggml.tokens"); }),
              HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(with([](auto& f) {
                f.wholes("tokenizer.ggml.token_type", {1, 1});
              }),
              HasSubstr("token_type"));
  EXPECT_THAT(with([](auto& f) { f.whole("tokenizer.ggml.bos_token_id", 1U << 30U); }),
              HasSubstr("bos_token_id"));
  EXPECT_THAT(with([](auto& f) { f.texts("tokenizer.ggml.merges", {"one"}); }),
              HasSubstr("tokenizer.ggml.merges"));
  EXPECT_THAT(with([](auto& f) { f.texts("tokenizer.ggml.merges", {"zzq qzz"}); }),
              HasSubstr("zzq"));
  GgufBytes file;
  file.text("general.architecture", "llama").text("tokenizer.ggml.model", "llama");
  file.texts("tokenizer.ggml.tokens", {"<unk>", "a\xFF"});
  EXPECT_THAT(problem(file), HasSubstr("UTF-8"));
  file.texts("tokenizer.ggml.tokens", {"<unk>", "a"}).reals("tokenizer.ggml.scores", {0.0F});
  EXPECT_THAT(problem(file), HasSubstr("scores"));
  file.reals("tokenizer.ggml.scores", {0.0F, 1.0F});
  file.wholes("tokenizer.ggml.token_type", {2, kByte});
  EXPECT_THAT(problem(file), HasSubstr("byte"));
}

}  // namespace
}  // namespace kvloupe::test
