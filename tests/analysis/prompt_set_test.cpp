// Sets of prompts: folders, text files and JSON lines in the layouts of RULER and LongBench.

#include "analysis/study/prompt_set.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using testing::Pair;

class PromptSetTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  PromptParts line(const std::string& json) {
    return read_prompt_line({"x", write("one.jsonl", json + "\n"), 0});
  }
  static std::string failure(const std::function<void()>& work) {
    return test::error_of<FileError>(work);
  }
  static std::vector<std::string> names(const std::vector<PromptPlace>& places) {
    std::vector<std::string> result;
    for (const PromptPlace& place : places) result.push_back(place.name);
    return result;
  }
  test::TemporaryFolder folder_;
};

TEST_F(PromptSetTest, FoldersFilesAndLinesAreFound) {
  write("set/b.txt", "b");
  write("set/a.md", "a");
  write("set/c.json", "{}");
  write("set/below/d.txt", "d");
  write("set/._b.txt", std::string("\0\5\26\7", 4));  // archives of macOS leave these
  EXPECT_THAT(names(find_prompts(folder_ / "set", "set")), ElementsAre("set/a.md", "set/b.txt"));
  EXPECT_THAT(names(find_prompts(folder_ / "set", "set/")), ElementsAre("set/a.md", "set/b.txt"));
  EXPECT_THAT(names(find_prompts(folder_ / "set" / "b.txt", "b")), ElementsAre("b"));
  // Without an end of line at the end, with one of another system, and blank lines.
  const auto lines =
      find_prompts(write("s.jsonl", "{\"text\": \"1\"}\r\n\n  \n{\"text\": \"2\"}"), "s.jsonl");
  EXPECT_THAT(names(lines), ElementsAre("s.jsonl#0", "s.jsonl#3"));
  EXPECT_THAT(read_prompt_line(lines[1]).segments, ElementsAre(Pair("context", "2")));
  EXPECT_GT(lines[1].at, 0);
  for (const std::int64_t at : {0, 3, 1000}) {  // not known, or of a file that has changed
    PromptPlace place = lines[1];
    place.at = at;
    EXPECT_THAT(read_prompt_line(place).segments, ElementsAre(Pair("context", "2")));
  }
  const std::string identity = prompt_identity(lines[0]);
  EXPECT_NE(identity, "");
  PromptIdentities identities;
  EXPECT_EQ(identities.of(lines[0]), identity);
  // The content tells, not the time of a copy.
  const auto time = std::filesystem::last_write_time(lines[0].path);
  std::filesystem::last_write_time(lines[0].path, time + std::chrono::hours(1));
  EXPECT_EQ(prompt_identity(lines[0]), identity);
  write("s.jsonl", "{\"text\": \"3\"}\r\n\n  \n{\"text\": \"2\"}");
  std::filesystem::last_write_time(lines[0].path, time);
  EXPECT_NE(prompt_identity(lines[0]), identity) << "of the same size and time";
  EXPECT_NE(identities.of(lines[1]), identity);
  EXPECT_EQ(prompt_identity({"x", folder_ / "none", 0}), "");
}

TEST_F(PromptSetTest, LayoutsOfBenchmarksAreRead) {
  // As RULER writes a needle: https://github.com/NVIDIA/RULER, scripts/data/synthetic/niah.py.
  const PromptParts ruler = line(
      R"({"index": 0, "input": "A special magic number is hidden.\nThe grass is green.\nWhat is the number for x?", "outputs": ["8231", "77"], "length": 40, "answer_prefix": " The number is"})");
  EXPECT_THAT(
      ruler.segments,
      ElementsAre(Pair("context", "A special magic number is hidden.\nThe grass is green.\n"),
                  Pair("question", "What is the number for x? The number is")));
  EXPECT_THAT(ruler.answers, ElementsAre("8231", "77"));
  // Ends of lines after the question are a part of it.
  EXPECT_THAT(line(R"({"input": "a\nb?\n\n", "outputs": ["c"]})").segments,
              ElementsAre(Pair("context", "a\n"), Pair("question", "b?\n\n")));
  EXPECT_THAT(line(R"({"input": "one line", "outputs": []})").segments,
              ElementsAre(Pair("context", "one line")));
  // As LongBench: https://github.com/THUDM/LongBench, the task's question is the input.
  const PromptParts bench = line(
      R"({"input": "Who?", "context": "A story.", "answers": ["A", "B"], "length": 2, "dataset": "narrativeqa", "language": "en", "all_classes": null, "_id": "1"})");
  EXPECT_THAT(bench.segments,
              ElementsAre(Pair("context", "A story.\n\n"), Pair("question", "Who?")));
  EXPECT_THAT(bench.answers, ElementsAre("A", "B"));
  // A summary has no question.
  EXPECT_THAT(line(R"({"input": "", "context": "A report.", "answers": ["s"]})").segments,
              ElementsAre(Pair("context", "A report.")));
  EXPECT_THAT(line(R"({"prompt": "Hello", "answers": "yes"})").answers, ElementsAre("yes"));
  EXPECT_THAT(line(R"({"text": "Hello"})").answers, IsEmpty());
}

TEST_F(PromptSetTest, ColumnsAreReadOrNamed) {
  const PromptParts ruler =
      line(R"({"context": "c", "question": "q?", "answer_prefix": "It is", "answer": ["47"],)"
           R"( "task": "niah", "max_new_tokens": 8})");
  EXPECT_THAT(ruler.segments, ElementsAre(Pair("context", "c\n\n"), Pair("question", "q?\nIt is")));
  EXPECT_THAT(ruler.answers, ElementsAre("47"));
  EXPECT_THAT(ruler.unread, IsEmpty()) << "labels of the line";
  EXPECT_THAT(line(R"({"text": "t", "hint": "h", "all_classes": null})").unread,
              ElementsAre("hint"));
  const PromptParts choices = line(R"({"text": "t", "question": "q?", "choices": ["a", "b"]})");
  EXPECT_THAT(choices.segments, ElementsAre(Pair("context", "t\n\n"), Pair("question", "q?")));
  EXPECT_THAT(choices.unread, ElementsAre("choices"));
  const PromptParts marked =
      line(R"({"input": "one two three\nq?", "outputs": ["c"], "needle": ["three", "one"]})");
  EXPECT_THAT(marked.segments,
              ElementsAre(Pair("needle", "one"), Pair("context", " two "), Pair("needle", "three"),
                          Pair("context", "\n"), Pair("question", "q?")));
  EXPECT_THAT(marked.unread, IsEmpty());
  const PromptParts nowhere = line(R"({"text": "one", "question": "q?", "needle": "q?"})");
  EXPECT_THAT(nowhere.segments, ElementsAre(Pair("context", "one\n\n"), Pair("question", "q?")));
  EXPECT_THAT(nowhere.unread, ElementsAre("needle"));
  EXPECT_THAT(line(R"({"text": "abcd", "needle": ["bcd", "ab", ""]})").segments,
              ElementsAre(Pair("needle", "ab"), Pair("context", "cd")));
  EXPECT_THAT(line(R"({"context": "c", "input": "q", "answers": []})").unread, IsEmpty());
  EXPECT_THAT(failure([&] { line(R"({"context": "c", "input": "i", "question": "q"})"); }),
              HasSubstr("has both \"input\" and \"question\""));
}

TEST_F(PromptSetTest, RulesAreReadOrRefused) {
  const PromptParts parts = line(
      R"({"text": "t", "question": "q", "rules": [{"rule": "no_comma"}, {"rule": "bullets", "count": 2}]})");
  EXPECT_THAT(parts.rules, ElementsAre(AnswerRule{"no_comma"}, AnswerRule{"bullets", "", 2}));
  EXPECT_THAT(parts.unread, IsEmpty());
  for (const char* other : {R"("be kind")", R"(["be kind"])", R"([{"text": "be kind"}])"}) {
    const PromptParts foreign = line(fmt::format(R"({{"text": "t", "rules": {}}})", other));
    EXPECT_THAT(foreign.rules, IsEmpty());
    EXPECT_THAT(foreign.unread, ElementsAre("rules")) << other;
  }
  for (const auto& [rule, why] : std::map<std::string, std::string>{
           {R"({"rule": "rhyme"})", "line 1 has a rule that cannot be checked: \"rhyme\" is not"},
           {R"({"rule": "bullets"})", "needs a \"count\""},
           {R"({"rule": "bullets", "count": "two"})", "or \"count\" not a number"},
           {R"({"rule": 3})", "are not texts"}}) {
    EXPECT_THAT(failure([&] { line(R"({"text": "t", "rules": [)" + rule + "]}"); }),
                HasSubstr(why));
  }
}

TEST_F(PromptSetTest, ScoresThatMayMisleadAreDoubted) {
  const auto doubt = [&](const std::string& fields) { return line("{" + fields + "}").doubt; };
  const std::string needle = R"("context": "a. The key is 47. b", "needle": "The key is 47.", )";
  EXPECT_EQ(doubt(needle + R"("question": "Which key?", "answers": ["47"])"), "");
  EXPECT_EQ(doubt(R"("context": "a. The key is 47. b 47", "question": "q?", "answers": ["47"])"),
            "")
      << "no needle is marked: the answer may stand anywhere";
  EXPECT_EQ(doubt(R"("context": "It is 147 or 47. The key is 47.", "needle": "The key is 47.", )"
                  R"("question": "q?", "answers": ["47"])"),
            "line 1 has the answer \"47\" outside of its needle, too");
  EXPECT_THAT(doubt(R"("context": "GATE; at the gate now", "needle": "at the gate", )"
                    R"("question": "q?", "answers": ["gate"])"),
              HasSubstr("outside"));
  EXPECT_EQ(doubt(R"("input": "a x\nx\nq?", "outputs": ["y"], "needle": "x")"),
            "line 1 has the needle \"x\" twice; marked is the first");
  EXPECT_THAT(doubt(needle + R"("question": "Is it 47?", "answers": ["47"])"),
              HasSubstr("in its question"));
  EXPECT_EQ(doubt(needle + R"("question": "Is it 147?", "answers": ["47"])"), "");
  EXPECT_THAT(doubt(needle + R"("question": "q?", "answers": ["47", "47"])"),
              HasSubstr("has the answer \"47\" twice"));
  const PromptParts empty = line(R"({"context": "c", "question": "q?", "answers": ["47", " "]})");
  EXPECT_THAT(empty.doubt, HasSubstr("line 1 has an empty answer"));
  EXPECT_THAT(empty.answers, ElementsAre("47"));
  for (const char* none :
       {R"({"context": "", "question": "q?", "answers": ["a"]})",
        R"({"text": "", "question": "q?"})", R"({"context": null, "text": "", "question": "q"})"})
    EXPECT_THAT(failure([&] { line(none); }), HasSubstr("line 1 has a question, but no context"));
}

TEST_F(PromptSetTest, SeveralQuestionsAboutOneContextAreAPromptEach) {
  const std::string many =
      R"({"context": "One rose. Two.", "id": 3, "questions": [
          {"question": "How many roses?", "answers": ["1", "one"], "needle": "One rose."},
          {"input": "And then?", "answer": "Two", "answer_prefix": "Then"}]})";
  std::string one_line = many;
  std::erase(one_line, '\n');
  const auto file = write("m.jsonl", "{\"text\": \"a \\\"questions\\\" b\"}\n" + one_line + "\n");
  const auto places = find_prompts(file, "m.jsonl");
  EXPECT_THAT(names(places), ElementsAre("m.jsonl#0", "m.jsonl#1.q0", "m.jsonl#1.q1"));
  const PromptParts first = read_prompt_line(places[1]), second = read_prompt_line(places[2]);
  EXPECT_THAT(first.segments, ElementsAre(Pair("needle", "One rose."), Pair("context", " Two.\n\n"),
                                          Pair("question", "How many roses?")));
  EXPECT_THAT(first.answers, ElementsAre("1", "one"));
  EXPECT_EQ(first.questions, 2);
  EXPECT_THAT(second.segments, ElementsAre(Pair("context", "One rose. Two.\n\n"),
                                           Pair("question", "And then?\nThen")));
  EXPECT_THAT(second.answers, ElementsAre("Two"));
  EXPECT_THAT(second.unread, IsEmpty());
  // SCBench's name of the list; a line that asks itself is one prompt, as ever.
  EXPECT_EQ(
      find_prompts(write("s.jsonl", R"({"context": "c", "multi_turns": [{"input": "q"}]})"), "s")
          .front()
          .question,
      0);
  EXPECT_THAT(line(R"({"context": "c", "input": "i", "questions": ["q"]})").unread,
              ElementsAre("questions"));
  EXPECT_EQ(context_of("answer: m.jsonl#1.q12"), "answer: m.jsonl#1");
  for (const char* other :
       {"m.jsonl#1", "a.q1", "m.jsonl#1.q", "m.jsonl#x.q1", "m.jsonl#1.q1x", ""})
    EXPECT_EQ(context_of(other), other);
}

TEST_F(PromptSetTest, AFaultOfAQuestionIsSaidWithLineAndQuestionBeforeAnythingRuns) {
  const auto said = [&](const std::string& bad) {
    const auto file = write("f.jsonl", "{\"text\": \"1\"}\n" + bad + "\n");
    return failure([&] { find_prompts(file, "f"); });
  };
  EXPECT_THAT(said(R"({"questions": [{"question": "q", "answers": ["a"]}]})"),
              HasSubstr("line 2 has \"questions\" without a \"context\""));
  EXPECT_THAT(said(R"({"context": "c", "questions": []})"), HasSubstr("line 2 has \"questions\""));
  EXPECT_THAT(said(R"({"context": "c", "questions": "q"})"), HasSubstr("not a list of questions"));
  const auto of = [&](const std::string& question) {
    return said(R"({"context": "c", "questions": [{"question": "q"}, )" + question + "]}");
  };
  EXPECT_THAT(of(R"("q")"), HasSubstr("line 2, question 2, is not an object"));
  EXPECT_THAT(of(R"({"answers": ["a"]})"), HasSubstr("line 2, question 2, has no text"));
  EXPECT_THAT(of(R"({"question": "q", "answers": ["a", " "]})"),
              HasSubstr("line 2, question 2, has an empty text in \"answers\""));
  EXPECT_THAT(of(R"({"question": "q", "answers": 3})"),
              HasSubstr("line 2, question 2, has \"answers\" that are not a list of texts"));
}

TEST_F(PromptSetTest, WhatIsWrongIsSaidWithItsLine) {
  EXPECT_THAT(failure([&] { line("[1]"); }), HasSubstr("one.jsonl: line 1 is not a JSON object"));
  EXPECT_THAT(failure([&] { line("{\"text\": \"cut"); }), HasSubstr("is not a JSON object"));
  EXPECT_THAT(failure([&] { line(R"({"question": "a"})"); }), HasSubstr("known layout"));
  EXPECT_THAT(failure([&] { line(R"({"input": "a"})"); }), HasSubstr("known layout"));
  EXPECT_THAT(failure([&] { line(R"({"context": 3, "input": "a"})"); }),
              HasSubstr("has a \"context\" that is not a text"));
  EXPECT_THAT(failure([&] { line(R"({"input": "a", "outputs": [1]})"); }),
              HasSubstr("\"outputs\" that are not a list of texts"));
  EXPECT_THAT(failure([&] { line(R"({"text": ""})"); }), HasSubstr("has no text"));
  const auto file = write("s.jsonl", "{\"text\": \"1\"}\n");
  EXPECT_THAT(failure([&] { read_prompt_line({"s", file, 7}); }), HasSubstr("no line 8 any more"));
  EXPECT_THAT(failure([&] { find_prompts(write("e.jsonl", "\n \n"), "e"); }),
              HasSubstr("has no lines"));
  EXPECT_THAT(failure([&] { find_prompts(folder_ / "none.txt", "n"); }), HasSubstr("not a file"));
  std::filesystem::create_directory(folder_ / "empty");
  EXPECT_THAT(failure([&] { find_prompts(folder_ / "empty", "e"); }), HasSubstr("has no prompts"));
}

}  // namespace
}  // namespace kvloupe
