// Studies in parts, and what goes wrong on the way: nothing that was done is lost, and what is
// computed later is as if nothing had happened.

#include <signal.h>

#include "analysis/study/database.h"
#include "analysis/study/item_queue.h"
#include "analysis/study/merge_results.h"
#include "analysis/study/run_study.h"
#include "analysis/study/study_results.h"
#include "analysis/study/study_table.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

template <typename Error>
std::string failure_of(const std::function<void()>& work) {
  return test::error_of<Error>(work);
}

struct StudyFaults : testing::Test {
  void SetUp() override {
    for (const std::string name : {"a.h5", "b.h5", "c.h5"}) {
      test::write_synthetic_trace(
          folder_ / name, {.prompt_length = 64, .seed = static_cast<std::uint64_t>(name[0])});
    }
    write("study.json", R"({"traces": ["*.h5"], "policies": ["h2o", "keydiff"],
                            "budgets": ["20%", 12], "measures": ["retained", "perturbation_l1"],
                            "reduce": "none"})");
  }
  std::filesystem::path write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  void run(const std::string& results, const Shard& shard = {}) {
    said_.clear();
    run_study(
        folder_ / "study.json", folder_ / results,
        [this](const std::string& line) { said_ += line + "\n"; }, StudyPart::replays,
        make_replay_worker, shard);
  }
  std::string csv(const std::string& results) const {
    StudyResults read(folder_ / results);
    write_study_csv(read, folder_ / "out.csv");
    return test::file_text(folder_ / "out.csv");
  }
  std::string whole() {
    run("whole.sqlite");
    return csv("whole.sqlite");
  }
  std::map<std::string, int> states(const std::string& results) const {
    std::map<std::string, int> counts;
    for (const StudyResults::Item& item : StudyResults(folder_ / results).items())
      ++counts[item.state];
    return counts;
  }
  test::TemporaryFolder folder_;
  std::string said_;
};

TEST(Shard, EveryItemIsInOneOfThemAndTheirCostsAreAlike) {
  StudyPlan plan;
  std::vector<int> items;
  double all = 0.0;
  for (int i = 0; i < 60; ++i) {
    plan.items.push_back({});
    plan.items.back().cost = 10.0 + (i * 37) % 50;
    all += plan.items.back().cost;
    if (i % 7 != 0) items.push_back(i);  // the others are of another part
  }
  for (const int count : {1, 2, 7, 100}) {
    std::vector<int> together;
    for (int number = 1; number <= count; ++number) {
      const std::vector<int> own = items_of_shard(plan, items, {number, count});
      double cost = 0.0;
      for (const int item : own) cost += plan.items[item].cost;
      EXPECT_LE(cost, all / count + 60.0) << number << " of " << count;
      together.insert(together.end(), own.begin(), own.end());
    }
    EXPECT_EQ(together, items) << count;  // in order: neighbours stay together
  }
  // Traces that cannot be opened have no cost.
  for (StudyItem& item : plan.items) item.cost = 0.0;
  EXPECT_EQ(items_of_shard(plan, items, {1, 3}).size(), items.size() / 3);
  EXPECT_EQ(parse_shard("3/10"), (Shard{3, 10}));
  for (const char* wrong :
       {"", "3", "0/3", "4/3", "1/0", "a/b", "1/2/3", "-1/3", "1/9999999", "1/"})
    EXPECT_THROW(parse_shard(wrong), UsageError) << wrong;
}

TEST_F(StudyFaults, ShardsThatAreJoinedAreTheStudyOfOneProcess) {
  const std::string expected = whole();
  std::vector<std::filesystem::path> parts;
  for (int number = 1; number <= 5; ++number) {
    const std::string name = "part" + std::to_string(number) + ".sqlite";
    run(name, {number, 5});
    EXPECT_THAT(said_, HasSubstr("shard " + std::to_string(number) + " of 5: "));
    parts.push_back(folder_ / name);
  }
  const std::string before = csv("part1.sqlite");
  std::reverse(parts.begin(), parts.end());
  // A part at a time, and one twice.
  MergedResults merged = merge_results({parts[0], parts[1]}, folder_ / "joined.sqlite");
  EXPECT_EQ(merged.items, 12);
  EXPECT_GT(merged.done, 3);
  EXPECT_LT(merged.done, 7);
  merged = merge_results(parts, folder_ / "joined.sqlite");
  EXPECT_EQ(merged.done, 12);
  EXPECT_EQ(csv("joined.sqlite"), expected);
  run("joined.sqlite");  // the study goes on there, and has nothing to do
  EXPECT_EQ(said_, "12 items, 12 of them done before\n");
  EXPECT_EQ(csv("part1.sqlite"), before);
  // Where the traces are is known in another folder, too.
  std::filesystem::create_directory(folder_ / "below");
  merge_results(parts, folder_ / "below" / "joined.sqlite");
  EXPECT_EQ(StudyResults(folder_ / "below" / "joined.sqlite").study_folders(),
            std::vector<std::string>{".."});
}

TEST_F(StudyFaults, WhatALostShardHadIsComputedLater) {
  const std::string expected = whole();
  run("part1.sqlite", {1, 3});
  run("part3.sqlite", {3, 3});
  merge_results({folder_ / "part1.sqlite", folder_ / "part3.sqlite"}, folder_ / "joined.sqlite");
  run("joined.sqlite");
  EXPECT_THAT(said_, HasSubstr("12 items, 8 of them done before\n"));
  EXPECT_EQ(csv("joined.sqlite"), expected);
}

TEST_F(StudyFaults, FilesThatDoNotBelongTogetherAreNotJoined) {
  run("part1.sqlite", {1, 2});
  const auto joining = [&](const std::string& part, const std::string& target) {
    return failure_of<FileError>([&] {
      merge_results({folder_ / "part1.sqlite", folder_ / part}, folder_ / target);
    });
  };
  EXPECT_THAT(joining("part1.sqlite", "part1.sqlite"), HasSubstr("is among the files to join"));
  EXPECT_THAT(joining("none.sqlite", "x.sqlite"), HasSubstr("is not a file"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.sqlite"));
  write("text.sqlite", "not a database, but a text of some length\n");
  EXPECT_THAT(joining("text.sqlite", "x.sqlite"), HasSubstr("is not a results file"));
  std::filesystem::copy(folder_ / "part1.sqlite", folder_ / "newer.sqlite");
  Database(folder_ / "newer.sqlite", Database::Access::write).run("PRAGMA user_version = 9");
  EXPECT_THAT(joining("newer.sqlite", "x.sqlite"), HasSubstr("written by a newer kvloupe"));
  std::filesystem::copy(folder_ / "part1.sqlite", folder_ / "damaged.sqlite");
  Database(folder_ / "damaged.sqlite", Database::Access::write)
      .run("UPDATE items SET policy = 'tova' WHERE item = 2");
  EXPECT_THAT(joining("damaged.sqlite", "x.sqlite"), HasSubstr("damaged.sqlite: is damaged"));
  write("study.json", R"({"traces": ["*.h5"], "policies": ["h2o"], "budgets": ["20%", 12],
                          "measures": ["retained", "perturbation_l1"], "reduce": "none"})");
  run("other.sqlite");
  EXPECT_THAT(joining("other.sqlite", "x.sqlite"),
              HasSubstr("holds a study with other policies: \"h2o\" there, \"h2o, keydiff\" in "));
  // The part that was sound is there all the same.
  EXPECT_EQ(states("x.sqlite")["done"], 6);
}

TEST_F(StudyFaults, ATraceThatChangedBetweenShardsIsNotJoined) {
  run("part1.sqlite", {1, 2});
  test::write_synthetic_trace(folder_ / "b.h5", {.prompt_length = 64, .seed = 99});
  run("part2.sqlite", {2, 2});
  EXPECT_THAT(failure_of<FileError>([&] {
                merge_results({folder_ / "part1.sqlite", folder_ / "part2.sqlite"},
                              folder_ / "joined.sqlite");
              }),
              HasSubstr("part2.sqlite: has results of \"b.h5\" as that file was before or after"));
}

TEST_F(StudyFaults, ATraceThatANodeDoesNotHaveCostsItsOwnItems) {
  const std::string expected = whole();
  std::string line;
  {
    StudyRun study(folder_ / "study.json", folder_ / "out.sqlite",
                   [&](const std::string& said) { said_ += said + "\n"; });
    // The plan is made where the trace is; then a node computes that has no such file.
    std::filesystem::rename(folder_ / "b.h5", folder_ / "b.away");
    StudyWorker worker(1);
    while (const std::optional<StudyTask> task = study.next(1)) study.record(worker.compute(*task));
    line = failure_of<WorkError>([&] { study.finish(); });
  }
  EXPECT_THAT(line, HasSubstr("4 of 12 items failed; the others are in"));
  EXPECT_THAT(said_, HasSubstr("failed: b.h5, h2o, budget 20%, block capture: "));
  EXPECT_THAT(said_, HasSubstr("b.h5: "));
  EXPECT_EQ(states("out.sqlite")["done"], 8);
  EXPECT_EQ(states("out.sqlite")["failed"], 4);
  std::filesystem::rename(folder_ / "b.away", folder_ / "b.h5");
  run("out.sqlite");
  EXPECT_EQ(csv("out.sqlite"), expected);
}

TEST_F(StudyFaults, OneTruncatedTraceAmongManyCostsItsOwnItems) {
  for (int i = 0; i < 60; ++i)
    std::filesystem::copy(folder_ / "a.h5", folder_ / ("m" + std::to_string(i) + ".h5"));
  std::filesystem::resize_file(folder_ / "m31.h5", 3000);
  write("study.json", R"({"traces": ["m*.h5"], "policies": ["keynorm"], "budgets": [12],
                          "measures": ["retained"], "reduce": "all"})");
  EXPECT_THAT(failure_of<WorkError>([&] { run("out.sqlite"); }), HasSubstr("1 of 60 items failed"));
  EXPECT_EQ(states("out.sqlite")["done"], 59);
  const std::size_t first = said_.find("failed: m31.h5");
  ASSERT_NE(first, std::string::npos) << said_;
  EXPECT_EQ(said_.find("failed: ", first + 1), std::string::npos);
}

TEST_F(StudyFaults, WhatAKilledWriterLeftHalfDoneIsUndoneByWhoReadsNext) {
  const std::string expected = whole();
  const pid_t writer = fork();
  if (writer == 0) {
    Database database(folder_ / "whole.sqlite", Database::Access::write);
    // So little memory that changes reach the file before the transaction ends.
    database.run("PRAGMA cache_size = 1; BEGIN IMMEDIATE; DELETE FROM step_values;");
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(writer, &status, 0), writer);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::filesystem::path journal = folder_ / "whole.sqlite-journal";
  ASSERT_GT(std::filesystem::file_size(journal), 0U) << "nothing was half done";
  EXPECT_EQ(csv("whole.sqlite"), expected);
  EXPECT_FALSE(std::filesystem::exists(journal));
}

TEST_F(StudyFaults, ResultsThatMayNotBeWrittenAreRead) {
  const std::string expected = whole();
  std::filesystem::permissions(folder_ / "whole.sqlite", std::filesystem::perms::owner_read);
  EXPECT_EQ(csv("whole.sqlite"), expected);
  // Who reads changes nothing, also as root, whom permissions do not stop.
  Database database(folder_ / "whole.sqlite", Database::Access::read);
  EXPECT_THROW(database.run("DELETE FROM items"), FileError);
}

/// No file can grow beyond so many bytes as long as this object lives: a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : signal_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, signal_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_ = {};
  void (*signal_)(int);
};

TEST_F(StudyFaults, AFullDiskEndsTheStudyWithOneLineAndWhatIsDoneStays) {
  const std::string expected = whole();
  const std::uintmax_t size = std::filesystem::file_size(folder_ / "whole.sqlite");
  std::set<int> done;
  // From a disk without room for the tables to one that is almost large enough.
  for (const double share : {0.02, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95}) {
    std::filesystem::remove(folder_ / "out.sqlite");
    std::string line;
    {
      const FullDisk full(static_cast<rlim_t>(static_cast<double>(size) * share));
      line = failure_of<FileError>([&] { run("out.sqlite"); });
    }
    EXPECT_THAT(line, HasSubstr("out.sqlite: ")) << share;
    EXPECT_THAT(line, HasSubstr("check the disk's space")) << share;
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const int before =
        std::filesystem::file_size(folder_ / "out.sqlite") == 0 ? 0 : states("out.sqlite")["done"];
    done.insert(before);
    EXPECT_LT(before, 12);
    run("out.sqlite");  // with room, the study goes on
    EXPECT_THAT(said_, HasSubstr("12 items, " + std::to_string(before) + " of them done before"));
    EXPECT_EQ(csv("out.sqlite"), expected);
  }
  EXPECT_GE(done.size(), 3U) << "the disk was full at different places";
}

}  // namespace
}  // namespace kvloupe
