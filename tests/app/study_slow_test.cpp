// A study on several processes: equal results, and a rank that is killed on the way.
#include <fcntl.h>
#include <signal.h>

#include "analysis/plugin/load_plugin.h"
#include "analysis/study/run_study.h"
#include "analysis/study/study_results.h"
#include "analysis/study/study_table.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// The program of that name in $PATH; empty without one.
std::string in_path(const std::string& name) {
  std::istringstream folders(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((folder + "/" + name).c_str(), X_OK) == 0) return folder + "/" + name;
  }
  return "";
}

constexpr const char* kGate = KVLOUPE_TEST_PLUGINS "/gate.so";

/// Before anything reads the catalogue.
const bool loaded = [] {
  load_plugin(kGate);
  return true;
}();

struct StudyRanks : testing::Test {
  void SetUp() override {
    mpirun_ = in_path("mpirun");
    if (mpirun_.empty()) GTEST_SKIP() << "mpirun is not installed";
    ASSERT_TRUE(loaded);
    // Containers run tests as root, with fewer cores than processes.
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    for (int i = 0; i < 4; ++i) {
      test::SyntheticTraceOptions options{
          .layers = 4, .prompt_length = 512 + 64 * i, .seed = static_cast<std::uint64_t>(i) + 1};
      test::write_synthetic_trace(folder_ / ("t" + std::to_string(i) + ".h5"), options);
    }
    std::ofstream(folder_ / "study.json")
        << R"({"traces": ["*.h5"], "policies": ["h2o", "keydiff", "keydiff+kvmerger", "t_gate"],
               "budgets": ["10%", 100], "blocks": [8, 16],
               "measures": ["retained", "perturbation_l1"], "reduce": "none"})";
  }
  /// Starts the study on three processes.
  pid_t start(const std::string& results, const std::string& study = "study.json") {
    const std::string program = std::string(KVLOUPE_BIN_DIR) + "/kvloupe";
    const std::string from = folder_ / study, to = folder_ / results;
    const std::string said = folder_ / "said.txt";
    const pid_t process = fork();
    if (process != 0) return process;
    const int file = open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(file, 1);
    dup2(file, 2);
    execl(mpirun_.c_str(), "mpirun", "--oversubscribe", "-n", "3", program.c_str(), "study",
          from.c_str(), "-o", to.c_str(), "--plugin", kGate, nullptr);
    _exit(127);
  }
  static int wait(pid_t process) {
    int status = 0;
    waitpid(process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string csv(const std::string& results) const {
    StudyResults read(folder_ / results);
    write_study_csv(read, folder_ / "out.csv");
    return test::file_text(folder_ / "out.csv");
  }
  long done(const std::string& results) const {
    try {
      long count = 0;
      for (const StudyResults::Item& item : StudyResults(folder_ / results).items()) {
        if (item.state == "done") ++count;
      }
      return count;
    } catch (const std::exception&) {
      return 0;  // not there yet
    }
  }
  /// The process of a rank among the children of mpirun; −1: none.
  static pid_t rank_of(pid_t mpirun, int rank) {
    const std::string own = std::to_string(mpirun);
    std::istringstream children(test::file_text("/proc/" + own + "/task/" + own + "/children"));
    for (std::string child; children >> child;) {
      std::istringstream variables(test::file_text("/proc/" + child + "/environ"));
      for (std::string one; std::getline(variables, one, '\0');) {
        if (one == "OMPI_COMM_WORLD_RANK=" + std::to_string(rank)) return std::stoi(child);
      }
    }
    return -1;
  }
  test::TemporaryFolder folder_;
  std::string mpirun_;
};

TEST_F(StudyRanks, ResultsAreEqualAndOutliveAKilledRank) {
  run_study(folder_ / "study.json", folder_ / "one.sqlite", [](const std::string&) {});
  const std::string expected = csv("one.sqlite");
  ASSERT_GT(expected.size(), 100'000U);
  ASSERT_EQ(wait(start("ranks.sqlite")), 0) << test::file_text(folder_ / "said.txt");
  EXPECT_EQ(csv("ranks.sqlite"), expected);
  for (const int rank : {2, 0}) {  // a worker, and the one that writes
    const std::string results = "killed" + std::to_string(rank) + ".sqlite";
    // Both workers stop at the first item of t_gate, so that the study is half done until then.
    const std::string gate = folder_ / ("open" + std::to_string(rank));
    setenv("KVLOUPE_TEST_GATE", gate.c_str(), 1);
    const pid_t mpirun = start(results);
    using Clock = std::chrono::steady_clock;
    const Clock::time_point give_up = Clock::now() + std::chrono::seconds(60);
    while (done(results) < 3 && Clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    const pid_t victim = rank_of(mpirun, rank);
    ASSERT_GT(victim, 0) << test::file_text(folder_ / "said.txt");
    kill(victim, SIGKILL);
    EXPECT_NE(wait(mpirun), 0);
    std::ofstream(gate).put('1');
    const long before = done(results);
    EXPECT_GE(before, 3);
    EXPECT_LT(before, 64) << "nothing was left to do";
    ASSERT_EQ(wait(start(results)), 0) << test::file_text(folder_ / "said.txt");
    EXPECT_NE(
        test::file_text(folder_ / "said.txt").find(std::to_string(before) + " of them done before"),
        std::string::npos);
    EXPECT_EQ(csv(results), expected);
  }
}

TEST_F(StudyRanks, AWrongStudyEndsAllProcessesWithOneLine) {
  std::ofstream(folder_ / "wrong.json") << R"({"traces": ["*.h5"], "modl": "m"})";
  EXPECT_NE(wait(start("wrong.sqlite", "wrong.json")), 0);
  const std::string said = test::file_text(folder_ / "said.txt");
  const std::string line = "\"modl\": is not a field";
  ASSERT_NE(said.find(line), std::string::npos) << said;
  EXPECT_EQ(said.find(line), said.rfind(line));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "wrong.sqlite"));
}

}  // namespace
}  // namespace kvloupe
