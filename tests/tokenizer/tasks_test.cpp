// Prompts with answers that are made by rule: what holds for every task, length and seed. What each
// task asks is read again from the written JSON in tests/python/test_tasks.py.

#include "analysis/study/prompt_set.h"
#include "capture/tasks/make_tasks.h"
#include "capture/tasks/task_catalog.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// A token for every four characters of a run of letters or digits, and for every other character
/// but blanks.
class CuttingTokenizer final : public Tokenizer {
 public:
  std::int32_t size() const override { return 1; }
  std::optional<std::int32_t> bos() const override { return 0; }
  std::optional<std::int32_t> eos() const override { return {}; }
  bool is_special(std::int32_t) const override { return false; }
  std::vector<EncodedToken> encode(std::string_view text) const override {
    std::vector<EncodedToken> tokens;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::size_t begin = i;
      while (i - begin < 4 && i < text.size() && std::isalnum(text[i])) ++i;
      if (i > begin) --i;
      if (text[begin] != ' ') tokens.push_back({0, begin, i + 1});
    }
    return tokens;
  }
  std::string piece_bytes(std::int32_t) const override { return {}; }
  std::string decode(const std::vector<std::int32_t>&) const override { return {}; }
};

const CuttingTokenizer kTokenizer;

std::vector<nlohmann::json> lines_of(const TaskSet& set) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(set.lines);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TaskSet made(const std::string& name, int length, int count, std::uint64_t seed = 42) {
  return make_tasks({{name}, length, count, seed}, kTokenizer).at(0);
}

class TaskTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, TaskTest, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const PromptTask& task : task_catalog()) names.push_back(task.name);
                           return names;
                         }()));

TEST_P(TaskTest, PromptsFillTheirLengthAndDiffer) {
  for (const int length : {1200, 2500, 4300}) {
    const TaskSet set = made(GetParam(), length, 7);
    std::set<std::string> inputs;
    for (const nlohmann::json& line : lines_of(set)) {
      const std::string input = line.at("input");
      const std::string text = input + std::string(line.at("answer_prefix"));
      const int tokens = static_cast<int>(kTokenizer.encode(text).size()) + 1;
      EXPECT_EQ(line.at("length"), tokens + set.answer_tokens);
      EXPECT_EQ(line.at("max_new_tokens"), set.answer_tokens);
      EXPECT_LE(tokens + set.answer_tokens, length);
      // A line of noise has 26 tokens, a needle with UUIDs 53.
      EXPECT_GE(tokens + set.answer_tokens, length - 53) << length;
      EXPECT_LE(set.fewest, tokens);
      EXPECT_GE(set.most, tokens);
      EXPECT_TRUE(inputs.insert(input).second);
    }
    EXPECT_THAT(inputs, SizeIs(7));
  }
}

TEST_P(TaskTest, BytesFollowFromTheRequest) {
  const TaskSet set = made(GetParam(), 1500, 4);
  EXPECT_EQ(made(GetParam(), 1500, 4).lines, set.lines);
  EXPECT_THAT(set.lines, StartsWith(made(GetParam(), 1500, 2).lines));
  EXPECT_NE(made(GetParam(), 1500, 4, 43).lines, set.lines);
}

TEST_P(TaskTest, AStudyReadsPromptsWithEvidenceAndNoDoubt) {
  const TaskSet set = made(GetParam(), 1500, 6);
  std::istringstream in(set.lines);
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    const PromptParts parts = parse_prompt_line({"x", "x", 0}, line);
    EXPECT_EQ(parts.doubt, "");
    EXPECT_THAT(parts.unread, IsEmpty());
    EXPECT_EQ(parts.segments.back().first, "question");
    EXPECT_THAT(parts.segments.back().second, testing::EndsWith(json.at("answer_prefix")));
    EXPECT_EQ(parts.answers.empty(), !parts.rules.empty());
    std::string whole, needles;
    for (const auto& [name, text] : parts.segments) {
      whole += text;
      if (name == "needle") needles += text + "\n";
    }
    EXPECT_EQ(whole, std::string(json.at("input")) + std::string(json.at("answer_prefix")));
    for (const auto& needle : json.value("needle", std::vector<std::string>()))
      EXPECT_THAT(needles, HasSubstr(needle + "\n"));
    if (set.name == "cwe" || set.name == "fwe") continue;  // all of the context is the evidence
    EXPECT_NE(needles, "");
    for (const std::string& answer : parts.answers) EXPECT_THAT(needles, HasSubstr(answer));
  }
}

TEST(TasksTest, WhatCannotBeMadeIsSaid) {
  const auto failure = [](const std::string& name, int length) {
    return test::error_of<UsageError>([&] { made(name, length, 1); });
  };
  EXPECT_THAT(failure("niah_single", 900),
              HasSubstr("\"niah_single\": is not a task; do you mean niah_single_1?"));
  EXPECT_THAT(failure("vt", 100), HasSubstr("--length 100: vt needs at least"));
  const TaskSet none = make_tasks({{"vt"}, 2000, 0}, kTokenizer).at(0);
  EXPECT_EQ(none.lines, "");
  EXPECT_THAT(make_tasks({{"vt", "all", "fwe"}, 2000, 1}, kTokenizer),
              SizeIs(task_catalog().size()))
      << "each once";
  // The length that the message names is enough, and one less is not.
  for (const PromptTask& task : task_catalog()) {
    std::smatch found;
    const std::string why = failure(task.name, 20);
    ASSERT_TRUE(std::regex_search(why, found, std::regex("at least ([0-9]+) tokens"))) << why;
    const int least = std::stoi(found[1]);
    if (task.name != "vt" && task.name != "fwe") {  // whose smallest prompts follow from the length
      EXPECT_EQ(lines_of(made(task.name, least, 1)).at(0).at("length"), least) << task.name;
    }
    EXPECT_THAT(failure(task.name, least - 1), HasSubstr("at least")) << task.name;
  }
  const test::TemporaryFolder folder;
  std::ofstream(folder / "names.txt") << [] {
    std::string text;
    for (const std::string& name : read_task_material({}).names) text += name + " is here. ";
    return text;
  }();
  TaskRequest request{{"paraphrase"}, 800, 1};
  request.filler = folder / "names.txt";
  EXPECT_THAT(test::error_of<WorkError>([&] { make_tasks(request, kTokenizer); }),
              HasSubstr("outside of its needle, too, whatever is drawn; take another --filler"));
}

TEST(TasksTest, TheLargestSizeIsFoundFromAnyGuess) {
  for (int most = 2; most < 70; ++most) {
    for (const int guess : {0, 3, most - 1, most, most + 1, 200}) {
      int asked = 0;
      const auto fits = [&](int size) { return ++asked, size <= most; };
      EXPECT_EQ(largest_size(3, guess, fits), most) << guess;
      EXPECT_LT(asked, 25);
    }
  }
}

TEST(TasksTest, NoWordIsPartOfAnother) {
  const TaskMaterial of = read_task_material({});
  EXPECT_THAT(of.pairs, SizeIs(40));
  std::vector<std::string> words = of.nouns;
  words.insert(words.end(), of.adjectives.begin(), of.adjectives.end());
  for (const std::vector<std::string>& list : {words, of.names}) {
    for (const std::string& a : list)
      EXPECT_EQ(std::count_if(list.begin(), list.end(),
                              [&](const std::string& b) { return b.find(a) != std::string::npos; }),
                1)
          << a;
  }
  for (const auto& [needle, question] : of.pairs) EXPECT_THAT(needle, StartsWith("{name}"));
}

}  // namespace
}  // namespace kvloupe
