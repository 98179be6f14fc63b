// Sets of prompts for the demo model: seeded, of the lengths asked for, and as the tokenizer reads
// them.
#include "trainer/prompt_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

#include "analysis/error.h"
#include "analysis/study/prompt_set.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"
#include "capture/tokenizer/prompt.h"
#include "capture/tokenizer/tokenizer.h"
#include "tests/support/temporary_folder.h"
#include "trainer/tokenizer_model.h"

namespace kvloupe::train {
namespace {

using testing::HasSubstr;

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class TrainPromptSet : public testing::Test {
 protected:
  /// Names and texts of a set.
  std::map<std::string, std::string> write(const std::string& name,
                                           const PromptSetRequest& wanted) {
    PromptSetRequest request = wanted;
    request.folder = folder_ / name;
    write_prompt_set(request);
    std::map<std::string, std::string> files;
    for (const PromptPlace& place : find_prompts(request.folder, name))
      files[place.path.filename().string()] = read(place.path);
    return files;
  }
  test::TemporaryFolder folder_;
};

TEST_F(TrainPromptSet, EveryKindIsReadBackAsItWasMade) {
  PromptSetRequest request;
  for (const PromptKind& kind : prompt_kinds()) request.kinds.push_back(kind.name);
  EXPECT_EQ(request.kinds.size(), 8U);
  request.lengths = {120, 300};
  request.count = 3;
  const auto files = write("set", request);
  ASSERT_EQ(files.size(), 8U * 2 * 3);
  std::filesystem::create_directory(folder_ / "model");
  std::ofstream(folder_ / "model" / "tokenizer.model", std::ios::binary)
      << tokenizer_model(Vocabulary());
  const auto tokenizer = open_tokenizer(folder_ / "model");
  std::istringstream table(read(folder_ / "set" / "prompts.csv"));
  std::string line;
  std::getline(table, line);
  EXPECT_EQ(line, "file,kind,tokens,answer");
  int rows = 0;
  while (std::getline(table, line)) {
    std::istringstream cells(line);
    std::string file, kind, tokens, answer;
    std::getline(cells, file, ',');
    std::getline(cells, kind, ',');
    std::getline(cells, tokens, ',');
    std::getline(cells, answer);
    SCOPED_TRACE(file);
    ++rows;
    const TokenSequence sequence = encode_prompt(read_prompt(folder_ / "set" / file), *tokenizer);
    const int length = file.find("-00120-") != std::string::npos ? 120 : 300;
    const auto made = static_cast<double>(std::stoi(tokens));
    EXPECT_LE(made, length);
    EXPECT_GT(made, 0.6 * length);
    // Line breaks beside a marker are not a part of the text.
    EXPECT_NEAR(static_cast<double>(sequence.ids.size()), made, 12.0);
    const std::string text = tokenizer->decode(sequence.ids);
    const bool needle = kind.starts_with("needle");
    EXPECT_EQ(needle, !answer.empty());
    EXPECT_EQ(needle, text.ends_with(" is:"));
    if (needle) {
      EXPECT_THAT(text, HasSubstr(" is: " + answer + "."));
    } else {
      EXPECT_EQ(made, length);
      EXPECT_NEAR(static_cast<double>(sequence.ids.size()), length, 2.0);
    }
  }
  EXPECT_EQ(rows, 48);
  EXPECT_THAT(files.at("ledger-00300-0000.txt"), HasSubstr("edger of"));
  EXPECT_THAT(files.at("cipher-00300-0000.txt"), HasSubstr("Cipher"));
}

TEST_F(TrainPromptSet, PromptsFollowFromTheSeedAndALargerSetKeepsTheSmaller) {
  PromptSetRequest request;
  request.kinds = {"needle", "mixed"};
  request.lengths = {200};
  request.count = 2;
  const auto small = write("small", request);
  request.count = 5;
  const auto large = write("large", request);
  EXPECT_EQ(large.size(), 10U);
  for (const auto& [name, text] : small) EXPECT_EQ(large.at(name), text) << name;
  std::map<std::string, int> different;
  for (const auto& [name, text] : large) ++different[text];
  EXPECT_EQ(different.size(), large.size());
  request.seed = 2;
  for (const auto& [name, text] : write("other", request)) EXPECT_NE(large.at(name), text) << name;
}

TEST_F(TrainPromptSet, JsonLinesHoldTheSamePrompts) {
  PromptSetRequest request;
  request.kinds = {"needles", "tale"};
  request.lengths = {200};
  request.count = 3;
  const auto files = write("files", request);
  std::istringstream table(read(folder_ / "files" / "prompts.csv"));
  std::map<std::string, std::string> answers;  // by file
  for (std::string line; std::getline(table, line);)
    answers[line.substr(0, line.find(','))] = line.substr(line.rfind(',') + 1);
  request.json_lines = true;
  request.folder = folder_ / "lines";
  write_prompt_set(request);
  for (const std::string kind : {"needles", "tale"}) {
    const std::filesystem::path path = folder_ / "lines" / (kind + "-00200.jsonl");
    const auto places = find_prompts(path, path.filename().string());
    ASSERT_EQ(places.size(), 3U);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::string name = kind + "-00200-000" + std::to_string(i) + ".txt";
      const Prompt expected = parse_prompt(files.at(name));
      const PromptParts parts = read_prompt_line(places[i]);
      std::string text;
      for (const auto& [segment, own] : parts.segments) text += own;
      EXPECT_EQ(text, expected.text);
      if (kind == "tale") {
        EXPECT_TRUE(parts.answers.empty());
        continue;
      }
      EXPECT_THAT(parts.answers, testing::ElementsAre(answers.at(name)));
      EXPECT_EQ(parts.segments.back().first, "question");
      EXPECT_EQ(parts.segments.back().second, expected.text.substr(expected.segments.back().begin));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "lines" / "prompts.csv"));
}

TEST_F(TrainPromptSet, WhatCannotBeWrittenIsSaid) {
  PromptSetRequest request;
  request.kinds = {"needl"};
  request.lengths = {200};
  EXPECT_THAT([&] { write("a", request); },
              testing::ThrowsMessage<UsageError>(HasSubstr("did you mean 'needle'?")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));
  request.kinds = {"needles"};
  request.lengths = {30};
  EXPECT_THROW(write("b", request), WorkError);
  std::ofstream(folder_ / "file") << "x";
  request.lengths = {200};
  EXPECT_THROW(write("file", request), FileError);
}

}  // namespace
}  // namespace kvloupe::train
