// Requests that a small file must not make: docs/reliability.md, "Resources". The memory of readers
// is counted in tests/fuzz/memory_test.cpp.
#include "analysis/base/system/read_file.h"
#include "analysis/policy/kit/head_table_file.h"
#include "analysis/policy/kit/kept_sets.h"
#include "analysis/replay/sweep.h"
#include "analysis/study/prompt_set.h"
#include "analysis/study/study.h"
#include "analysis/study/study_plan.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

template <typename Work>
std::string problem_of(const Work& work) {
  return test::error_of<FileError>(work, "nothing");
}

TEST(ReadLine, ReadsAsGetlineDoes) {
  std::vector<std::string> texts = {"", "\n", "a", "a\n", "\n\na\r\nb", "a\n\n"};
  for (const int length : {65534, 65535, 65536, 131070, 131071}) {  // around the pieces it reads
    texts.push_back(std::string(length, 'x'));
    texts.push_back(texts.back() + "\n");
    texts.push_back(texts.back() + "y");
  }
  for (const std::string& text : texts) {
    std::istringstream ours(text), theirs(text);
    std::string our_line, their_line;
    while (true) {
      const bool more = static_cast<bool>(std::getline(theirs, their_line));
      ASSERT_EQ(read_line(ours, our_line, 1'000'000), more);
      EXPECT_EQ(ours.eof(), theirs.eof());
      if (!more) break;
      EXPECT_EQ(our_line, their_line);
    }
  }
}

TEST(ReadLine, AnErrorOfTheDiskIsNotTheEnd) {
  struct Broken : std::streambuf {
    int_type underflow() override { throw std::ios::failure("input/output error"); }
  } broken;
  std::istream in(&broken);
  std::string line;
  EXPECT_FALSE(read_line(in, line, 10));
  EXPECT_TRUE(in.bad());
}

TEST(ReadLine, ALongLineIsNotKept) {
  std::istringstream in(std::string(100'000, 'x') + "\nnext\n");
  std::string line;
  ASSERT_TRUE(read_line(in, line, 10));
  EXPECT_EQ(line, std::string(11, 'x'));
  ASSERT_TRUE(read_line(in, line, 10));
  EXPECT_EQ(line, "next");
}

TEST(Resources, AStudyHasAtMostAMillionItems) {
  test::TemporaryFolder folder;
  test::write_synthetic_trace(folder / "t.h5", {.prompt_length = 20, .generated = 4});
  const auto planned = [&](int policies, int budgets) {
    std::ostringstream text;
    text << R"({"traces": ["t.h5"], "measures": ["retained"], "policies": [)";
    for (int i = 0; i < policies; ++i) text << (i > 0 ? "," : "") << "\"random(" << i << ")\"";
    text << R"(], "budgets": [)";
    for (int i = 1; i <= budgets; ++i) text << (i > 1 ? "," : "") << i;
    text << "]}";
    std::ofstream(folder / "study.json") << text.str();
    return problem_of([&] { plan_study(read_study(folder / "study.json")); });
  };
  EXPECT_THAT(planned(1001, 1000), HasSubstr("asks for 1001000 replays and runs"));
  EXPECT_EQ(planned(3, 5), "nothing");
}

TEST(Resources, APolicysFileIsAFile) {
  test::TemporaryFolder folder;
  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ModelInfo model;
  model.num_layers = model.num_heads = model.num_kv_heads = 1;
  // Nobody writes to the pipe: whoever opens it waits for ever.
  for (const std::string& path : {pipe, std::string("/dev/zero"), folder.path().string()}) {
    EXPECT_THAT(problem_of([&] { read_kept_sets(path, 0); }), HasSubstr("is not a file"));
    EXPECT_THAT(problem_of([&] { read_head_table(path, model); }), HasSubstr("is not a file"));
  }
}

TEST(Resources, ATableOfHeadsHasItsLimit) {
  test::TemporaryFolder folder;
  const fs::path path = folder / "table.csv";
  std::ofstream(path) << "1\n";
  ModelInfo model;
  model.num_layers = model.num_heads = model.num_kv_heads = 1;
  EXPECT_EQ(problem_of([&] { read_head_table(path.string(), model); }), "nothing");
  fs::resize_file(path, 17 << 20);
  EXPECT_THAT(problem_of([&] { read_head_table(path.string(), model); }),
              HasSubstr("larger than 16 MB"));
}

TEST(Resources, ALineWithoutEndIsNotRead) {
  test::TemporaryFolder folder;
  // Sparse: they take no space.
  std::ofstream(folder / "set.jsonl") << "{}";
  fs::resize_file(folder / "set.jsonl", std::uintmax_t{300} << 20U);
  EXPECT_THAT(problem_of([&] { find_prompts(folder / "set.jsonl", "set"); }),
              HasSubstr("more than 256 MB"));
  std::ofstream(folder / "sweep.csv") << "trace";
  fs::resize_file(folder / "sweep.csv", std::uintmax_t{20} << 20U);
  EXPECT_THAT(problem_of([&] { SweepTable::load((folder / "sweep.csv").string()); }),
              HasSubstr("is not a sweep of this version"));
}

}  // namespace
}  // namespace kvloupe
