// Prompts with answers that are made by rule: what holds for every task, length and seed. What each
// task asks is read again from the written JSON in tests/python/test_tasks.py.

#include "capture/tasks/tasks.h"
#include "analysis/study/prompt_set.h"
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
    for (std::size_t i = 0, begin = 0; i < text.size(); begin = i) {
      while (i < text.size() && i - begin < 4 && std::isalnum(text[i])) ++i;
      if (i == begin && text[i++] == ' ') continue;
      tokens.push_back({0, begin, i});
    }
    return tokens;
  }
  std::string piece_bytes(std::int32_t) const override { return {}; }
  std::string decode(const std::vector<std::int32_t>&) const override { return {}; }
};

const CuttingTokenizer kTokenizer;

const PromptTask& task_of(const std::string& name) {
  const auto all = task_catalog();
  return *std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
}

std::string made(const std::string& name, int length, int count, std::uint64_t seed = 42) {
  return make_prompts(task_of(name), read_task_material({}, length, kTokenizer), count, seed);
}

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class TaskTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, TaskTest, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const PromptTask& task : task_catalog()) names.push_back(task.name);
                           return names;
                         }()));

TEST_P(TaskTest, PromptsFillTheirLengthAndDiffer) {
  for (const int length : {1200, 2500, 4300}) {
    std::set<std::string> inputs;
    for (const std::string& text : lines_in(made(GetParam(), length, 7))) {
      const auto line = nlohmann::json::parse(text);
      const std::string input = line.at("input"), prefix = line.at("answer_prefix");
      const int tokens = static_cast<int>(kTokenizer.encode(input + prefix).size()) + 1 +
                         task_of(GetParam()).answer_tokens;
      EXPECT_EQ(line.at("length"), tokens);
      EXPECT_LE(tokens, length);
      EXPECT_GE(tokens, length - 53) << "a line has 26 tokens, one with two UUIDs 53";
      inputs.insert(input);
    }
    EXPECT_THAT(inputs, SizeIs(7));
  }
}

TEST_P(TaskTest, BytesFollowFromTheRequest) {
  const std::string lines = made(GetParam(), 1500, 4);
  EXPECT_EQ(made(GetParam(), 1500, 4), lines);
  EXPECT_THAT(lines, StartsWith(made(GetParam(), 1500, 2)));
  EXPECT_NE(made(GetParam(), 1500, 4, 43), lines);
}

TEST_P(TaskTest, AStudyReadsPromptsWithEvidenceAndNoDoubt) {
  for (const std::string& line : lines_in(made(GetParam(), 1500, 6))) {
    const auto json = nlohmann::json::parse(line);
    const std::string prefix = json.at("answer_prefix");
    const PromptParts parts = parse_prompt_line({"x", "x", 0}, line);
    EXPECT_EQ(parts.doubt, "");
    EXPECT_THAT(parts.unread, IsEmpty());
    EXPECT_EQ(parts.segments.back().first, "question");
    EXPECT_THAT(parts.segments.back().second, testing::EndsWith(prefix));
    EXPECT_EQ(parts.answers.empty(), !parts.rules.empty());
    std::string whole, needles;
    for (const auto& [name, text] : parts.segments) {
      whole += text;
      if (name == "needle") needles += text + "\n";
    }
    EXPECT_EQ(whole, std::string(json.at("input")) + prefix);
    for (const auto& needle : json.value("needle", std::vector<std::string>()))
      EXPECT_THAT(needles, HasSubstr(needle + "\n"));
    if (GetParam() == "cwe" || GetParam() == "fwe") continue;  // the whole context is the evidence
    EXPECT_NE(needles, "");
    for (const std::string& answer : parts.answers) EXPECT_THAT(needles, HasSubstr(answer));
  }
}

TEST_P(TaskTest, ALengthThatIsTooSmallIsRefusedWithTheLeast) {
  const auto failure = [](int length) {
    return test::error_of<UsageError>([&] { made(GetParam(), length, 1); });
  };
  std::smatch found;
  const std::string why = failure(20);
  const std::regex named("--length 20: " + GetParam() + " needs at least ([0-9]+) tokens");
  ASSERT_TRUE(std::regex_search(why, found, named)) << why;
  const int least = std::stoi(found[1]);
  EXPECT_NE(failure(least - 1), "");
  if (GetParam() == "vt" || GetParam() == "fwe") return;  // the smallest depend on the length
  EXPECT_EQ(nlohmann::json::parse(made(GetParam(), least, 1)).at("length"), least);
}

TEST(TasksTest, AFillerWithTheAnswersIsRefused) {
  const test::TemporaryFolder folder;
  std::string text;
  for (const std::string& name : read_task_material({}, 800, kTokenizer).names)
    text += name + " is here. ";
  std::ofstream(folder / "names.txt") << text;
  const TaskMaterial of = read_task_material(folder / "names.txt", 800, kTokenizer);
  EXPECT_THAT(test::error_of<WorkError>([&] { make_prompts(task_of("paraphrase"), of, 1, 42); }),
              HasSubstr("outside of its needle, too, whatever is drawn; take another --filler"));
}

TEST(TasksTest, TheLargestSizeIsFoundFromAnyGuess) {
  for (int most = 2; most < 70; ++most) {
    for (const int guess : {0, 3, most - 1, most, most + 1, 200}) {
      EXPECT_EQ(largest_size(3, guess, [&](int size) { return size <= most; }), most) << guess;
    }
  }
}

}  // namespace
}  // namespace kvloupe
