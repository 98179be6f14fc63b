// Our reading of SentencePiece files against the library's own.
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include "analysis/base/text/utf8.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"
#include "capture/tokenizer/prompt.h"
#include "capture/tokenizer/tokenizer.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Trains a small model by the library on made-up text and leaves tokenizer.model in the folder.
void train(const TemporaryFolder& folder, const std::string& options,
           const std::string& normaliser = "identity") {
  std::mt19937 random(5);
  std::ostringstream text;
  const std::vector<std::string> parts{
      "the",  "re", "lea", "d", "ing", "caf\xC3\xA9",  "un",           "able",   "key",
      "cach", "e",  "s",   "-", "10",  "\xE6\x97\xA5", "\xE6\x9C\xAC", "nation", "ly"};
  for (int line = 0; line < 400; ++line) {
    for (int word = 0; word < 8; ++word) {
      for (unsigned part = 0; part < 1 + random() % 3; ++part)
        text << parts[random() % parts.size()];
      text << (random() % 9 == 0 ? "  " : " ");
    }
    text << "\n";
  }
  write(folder / "text.txt", text.str());
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      "--input=" + (folder / "text.txt").string() +
      " --model_prefix=" + (folder / "tokenizer").string() +
      " --vocab_size=300 --hard_vocab_limit=false --normalization_rule_name=" + normaliser +
      " --minloglevel=2 --num_threads=1 " + options);
  ASSERT_TRUE(status.ok()) << status.ToString();
}

std::string random_text(std::mt19937& random,
                        const sentencepiece::SentencePieceProcessor& library) {
  std::string text;
  const unsigned parts = random() % 30;
  for (unsigned i = 0; i < parts; ++i) {
    switch (random() % 8) {
      case 0:
        text += static_cast<char>(random() % 256);  // seldom UTF-8
        break;
      case 1:
        text += std::string(1 + random() % 3, ' ');
        break;
      case 2:
        text += random() % 2 == 0 ? "\xE2\x98\x83" : "\n";
        break;
      default: {
        std::string piece = library.IdToPiece(static_cast<int>(random()) & 127);
        if (piece.rfind("\xE2\x96\x81", 0) == 0) piece = " " + piece.substr(3);
        text += piece;
      }
    }
  }
  return text;
}

void expect_same_as_library(const std::filesystem::path& folder) {
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.LoadFromSerializedProto(bytes_of(folder / "tokenizer.model")).ok());
  const auto ours = open_tokenizer(folder);
  ASSERT_EQ(ours->size(), library.GetPieceSize());
  EXPECT_EQ(ours->bos().value_or(-1), library.bos_id());
  EXPECT_EQ(ours->eos().value_or(-1), library.eos_id());
  std::mt19937 random(11);
  for (int round = 0; round < 1500; ++round) {
    const std::string text = random_text(random, library);
    const std::vector<EncodedToken> tokens = ours->encode(text);
    const auto expected = library.EncodeAsImmutableProto(text);
    std::vector<int> ids, expected_ids;
    std::vector<std::size_t> begins, expected_begins;
    for (const EncodedToken& token : tokens) {
      ids.push_back(token.id);
      begins.push_back(token.begin);
    }
    for (const auto& piece : expected.pieces()) {
      expected_ids.push_back(static_cast<int>(piece.id()));
      expected_begins.push_back(piece.begin());
    }
    ASSERT_EQ(ids, expected_ids) << text;
    ASSERT_EQ(begins, expected_begins) << text;
    ASSERT_EQ(ours->decode(ids), library.DecodeIds(ids)) << text;
  }
}

TEST(SentencePiece, GivesTheLibrarysTokens) {
  for (const char* options :
       {"--model_type=bpe --byte_fallback=true", "--model_type=bpe --byte_fallback=false",
        "--model_type=bpe --user_defined_symbols=able,10 --remove_extra_whitespaces=false",
        "--model_type=unigram --byte_fallback=true",
        "--model_type=unigram --add_dummy_prefix=false --user_defined_symbols=able,10",
        "--model_type=unigram --bos_id=-1 --remove_extra_whitespaces=false"}) {
    SCOPED_TRACE(options);
    const TemporaryFolder folder;
    train(folder, options);
    if (HasFatalFailure()) return;
    expect_same_as_library(folder.path());
  }
}

TEST(SentencePiece, GivesTheLibrarysTokensOnTheRealModel) {
  const auto folder = std::filesystem::path(KVLOUPE_SOURCE_DIR) / "../shared/models/stories260K";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "stories260K is not beside the project";
  expect_same_as_library(folder);
}

TEST(SentencePiece, PiecesAreShownAsAPersonReadsThem) {
  const TemporaryFolder folder;
  train(folder, "--model_type=bpe --byte_fallback=true");
  const auto tokenizer = open_tokenizer(folder.path());
  const std::vector<EncodedToken> tokens = tokenizer->encode("the\n\xE2\x98\x83");
  std::string shown;
  for (const EncodedToken& token : tokens) shown += spell_bytes(tokenizer->piece_bytes(token.id));
  EXPECT_EQ(shown, " the\\n\\xE2\\x98\\x83");
  EXPECT_EQ(tokenizer->piece_bytes(100000), "[100000]");
}

TEST(SentencePiece, BrokenFilesAreRefusedInOneLine) {
  const TemporaryFolder folder;
  EXPECT_THROW(open_tokenizer(folder.path()), FileError);
  train(folder, "--model_type=unigram --byte_fallback=true");
  const std::string whole = bytes_of(folder / "tokenizer.model");
  const auto opens = [&](const std::string& bytes) {
    write(folder / "tokenizer.model", bytes);
    try {
      const auto tokenizer = open_tokenizer(folder.path());
      tokenizer->encode("the reading caf\xC3\xA9 10");
      for (std::int32_t id = 0; id < tokenizer->size(); ++id) tokenizer->piece_bytes(id);
      return true;
    } catch (const FileError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return false;
    }
  };
  EXPECT_TRUE(opens(whole));
  EXPECT_FALSE(opens(""));
  EXPECT_FALSE(opens("{}"));
  EXPECT_FALSE(opens(whole.substr(0, whole.size() / 2)));
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {  // damaged anyhow: a tokenizer or one clear error
    std::string damaged = whole;
    for (int change = 0; change < 4; ++change) {
      damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    }
    opens(damaged);
  }
  write(folder / "tokenizer.model", whole);
  write(folder / "tokenizer_config.json", R"({"add_bos_token": false})");
  EXPECT_FALSE(open_tokenizer(folder.path())->bos());
  write(folder / "tokenizer_config.json", R"({"add_bos_token": 3})");
  EXPECT_THROW(open_tokenizer(folder.path()), FileError);
}

TEST(SentencePiece, CharacterMapsAreRefusedByName) {
  const TemporaryFolder folder;
  train(folder, "--model_type=bpe", "nmt_nfkc");
  EXPECT_THAT(error_of<FileError>([&] { open_tokenizer(folder.path()); }), HasSubstr("nmt_nfkc"));
}

TEST(Prompt, MarkerLinesCutTheTextAndAreNoPartOfIt) {
  const Prompt prompt =
      parse_prompt("before\n@@needle\nthe key\n@@not a marker\n@@question \r\nwhich?\n");
  EXPECT_EQ(prompt.text, "before\nthe key\n@@not a marker\nwhich?");
  ASSERT_EQ(prompt.segments.size(), 3U);
  EXPECT_EQ(prompt.segments[0].name, "context");
  EXPECT_EQ(prompt.segments[1].name, "needle");
  EXPECT_EQ(prompt.segments[1].begin, 7U);
  EXPECT_EQ(prompt.segments[2].name, "question");
  EXPECT_EQ(prompt.text.substr(prompt.segments[2].begin), "which?");
  EXPECT_EQ(parse_prompt("@@needle\nx").segments.size(), 1U);
  EXPECT_EQ(parse_prompt("").text, "");
  EXPECT_EQ(parse_prompt("a\r\n").text, "a");
  EXPECT_EQ(parse_text("a\n@@needle\nb\n").text, "a\nb\n");  // of no file: all of it
  EXPECT_EQ(parse_prompt("@@question").text, "");
}

TEST(Prompt, LinesThatLookLikeMarkersAreNotLostWithoutAWord) {
  const Prompt sql = parse_prompt("SELECT\n@@VERSION\nFROM t\n@@rowcount\n\\@@question\n\\\\@@a\n");
  EXPECT_EQ(sql.text, "SELECT\n@@VERSION\nFROM t\n@@question\n\\@@a");
  ASSERT_EQ(sql.segments.size(), 2U);
  EXPECT_EQ(sql.segments[1].name, "rowcount");
  ASSERT_EQ(sql.notes.size(), 2U);
  EXPECT_THAT(sql.notes[0], HasSubstr("line 2, @@VERSION, is text"));
  EXPECT_THAT(sql.notes[1], HasSubstr("line 4, @@rowcount, starts a segment"));
  EXPECT_THAT(parse_prompt("a\n@@needle\nb\n@@answer\nc").notes, IsEmpty());
  EXPECT_EQ(parse_prompt("@@ -1,2 +1,2 @@\n@@-1\n").text, "@@ -1,2 +1,2 @@\n@@-1");
}

TEST(Prompt, EncodingsAreRecognisedOrRefused) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& bytes) {
    std::ofstream(folder / "p.txt", std::ios::binary) << bytes;
    return read_prompt(folder / "p.txt").text;
  };
  const auto refusal = [&](const std::string& bytes) -> std::string {
    try {
      return "read: " + read(bytes);
    } catch (const FileError& error) {
      return error.what();
    }
  };
  using namespace std::string_literals;
  EXPECT_EQ(read("\xFF\xFEh\0\xE9\0\n\0"s), "hé");
  EXPECT_EQ(read("\xFE\xFF\0h\xD8\x3D\xDE\x00"s), "h😀");
  EXPECT_EQ(read("\xEF\xBB\xBFhé"), "hé");
  EXPECT_THAT(refusal("\xFF\xFEh\0\xE9"s), HasSubstr("mark of UTF-16"));
  EXPECT_THAT(refusal("\xFF\xFE\0\xDCh\0"s), HasSubstr("mark of UTF-16")) << "half a pair";
  EXPECT_THAT(refusal("a\ncaf\xE9\n"), HasSubstr("line 2 has the byte \\xE9"));
  EXPECT_THAT(refusal("h\0e\0"s), HasSubstr("line 1 has the byte \\x00"));
  std::ofstream(folder / "ids", std::ios::binary) << "\xEF\xBB\xBF"
                                                     "1 2";
  EXPECT_THAT(read_ids(folder / "ids", 9), ElementsAre(1, 2));
}

TEST(Prompt, EveryTokenKnowsItsSegment) {
  const TemporaryFolder folder;
  train(folder, "--model_type=bpe --byte_fallback=true");
  const auto tokenizer = open_tokenizer(folder.path());
  const TokenSequence tokens = encode_prompt(
      parse_prompt("the reading\n@@needle\ncaf\xC3\xA9 10\n@@mine\nable"), *tokenizer);
  EXPECT_EQ(tokens.ids.front(), *tokenizer->bos());
  EXPECT_EQ(tokens.names[tokens.segment.front()], "special");
  EXPECT_EQ(tokens.names[tokens.segment[1]], "context");
  EXPECT_EQ(tokens.names[tokens.segment.back()], "mine");
  std::string needle;
  for (std::size_t t = 0; t < tokens.ids.size(); ++t) {
    if (tokens.names[tokens.segment[t]] == "needle")
      needle += tokenizer->piece_bytes(tokens.ids[t]);
  }
  EXPECT_EQ(needle, "caf\xC3\xA9 10\n");
}

TEST(Prompt, IdsAreReadAndWrongOnesNamed) {
  const TemporaryFolder folder;
  const auto problem = [&](const std::string& text) {
    write(folder / "ids", text);
    return test::error_of<FileError>([&] { read_ids(folder / "ids", 10); });
  };
  EXPECT_EQ(problem("1 2\n\t9 0\r\n"), "");
  EXPECT_THAT(problem("1 2 10"), HasSubstr("token 2, 10, is outside"));
  EXPECT_THAT(problem("1 -2"), HasSubstr("token 1, -2, is outside"));
  EXPECT_THAT(problem("1 2,3"), HasSubstr("\"2,3\""));
  EXPECT_THAT(problem("99999999999999999999"), HasSubstr("token 0"));
  EXPECT_THAT(problem(" \n"), HasSubstr("no token ids"));
  EXPECT_THROW(read_ids(folder / "none", 10), FileError);
  EXPECT_THROW(read_ids(folder.path(), 10), FileError);
}

}  // namespace
}  // namespace kvloupe::test
