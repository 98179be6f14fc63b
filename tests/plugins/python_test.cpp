// The score python("file.py:name"): functions that write the program's own scores again, and every
// way in which a file or a function can be wrong.

#include <signal.h>

#include "analysis/policy/kit/allowed_python.h"
#include "analysis/policy/kit/python_process.h"
#include "analysis/policy/policy_files.h"
#include "tests/app/cli_call.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

constexpr const char* kFile = R"(
import math, os, time
print("what a file prints is no result")

def keynorm(step):
    return [-math.sqrt(sum(float(x) * float(x) for x in key)) for key in step.keys]

def valuenorm(step):
    print(step.head)
    return [math.sqrt(sum(float(x) * float(x) for x in value)) for value in step.values]

def last(step):
    rows = [step.attention(query, 1)[0] for query in range(len(step.queries))]
    return [sum(float(row[i]) for row in rows) for i in range(len(step))]

def received(step):  # by the whole block, without a count
    sums = [0.0] * len(step)
    for query in range(len(step.queries)):
        for row in step.attention(query):
            sums = [a + float(b) for a, b in zip(sums, row)]
    return sums

def first_query(step):
    query = [float(x) for x in step.queries[0][0]]
    return [sum(q * float(k) for q, k in zip(query, key)) for key in step.keys]

def tell(step):
    raise ValueError(" ".join(str(x) for x in (
        step.layer, step.layers, step.head, step.heads, step.query_heads, step.number, step.first_new,
        step.end_new, step.first_visible, step.budget, len(step), len(step.keys), len(step.queries),
        len(step.queries[0]), list(step.tokens)[-1])))

def raises(step):
    if step.layer == 1 and step.head == 1 and step.number == 2:
        raise KeyError("no\nsuch table")
    return step.tokens

def short(step):
    return [1.0, 2.0]

def deep(step):
    return [[1.0] * len(step)]

def words(step):
    return "abc"

def nothing(step):
    pass

def nan(step):
    return [float("nan") if token == 3 else 1.0 for token in step.tokens]

def slow(step):
    time.sleep(30)

def endless(step):
    with open(os.path.join(os.path.dirname(__file__), "pid"), "w") as out:
        out.write(str(os.getpid()))
    while True:
        pass

def leaves(step):
    os._exit(3)

def asks(step):
    return step.attention(99)[0]

not_a_function = 3
)";

struct PythonPolicy : testing::Test {
  static void SetUpTestSuite() {
    folder_ = new test::TemporaryFolder;
    test::SyntheticTraceOptions options;  // 2 layers, 2 heads, 4 query heads, T = 48 + 4, B = 16
    options.prompt_length = 48;
    options.generated = 4;
    options.block = 16;
    test::write_synthetic_trace(*folder_ / "trace.h5", options);
    std::ofstream(*folder_ / "own.py") << kFile;
    for (const char* file : {"own.py", "broken.py"}) allow_python(*folder_ / file);
    allow_python("/none.py");
  }
  static void TearDownTestSuite() { delete folder_; }

  static int call(std::vector<std::string> arguments) {
    return test::call(std::move(arguments)).code;
  }
  static std::string spec(const std::string& function, const std::string& more = "") {
    return "python(\"" + (*folder_ / "own.py").string() + ":" + function + "\"" + more + ")";
  }
  static Replay replayed(const std::string& policy, int budget = 10, int block = 0) {
    ReplayRequest request{
        .policy = parse_policy(policy), .budget = budget, .block = block, .metrics = false};
    return replay(Trace(*folder_ / "trace.h5"), request, test::unwatched);
  }
  static std::string failure(const std::string& policy) {
    return test::error_of<std::exception>([&] { replayed(policy); }, "no failure");
  }
  static void expect_equal(const std::string& python, const std::string& own) {
    for (const int block : {16, 48}) {
      const Replay a = replayed(python, 10, block);
      const Replay b = replayed(own, 10, block);
      ASSERT_EQ(a.heads.size(), b.heads.size());
      for (std::size_t h = 0; h < a.heads.size(); ++h) {
        for (std::size_t step = 0; step < a.heads[h].steps.size(); ++step) {
          ASSERT_EQ(a.retained_at(a.heads[h], static_cast<int>(step)),
                    b.retained_at(b.heads[h], static_cast<int>(step)))
              << python << ", head " << h << ", step " << step;
        }
      }
    }
  }
  static void expect_the_sets_of_own_scores() {
    expect_equal(spec("keynorm"), "keynorm");
    expect_equal(spec("keynorm") + "+recent(20%)+sinks(1)", "keynorm+recent(20%)+sinks(1)");
    expect_equal(spec("valuenorm"), "expr(\"value_norm\")");
    expect_equal(spec("last"), "tova");
    expect_equal(spec("last") + "+chunks(4)", "tova+chunks(4)");
  }
  static inline test::TemporaryFolder* folder_ = nullptr;
};

TEST_F(PythonPolicy, KeepsTheSetsOfTheScoresThatItWritesAgain) { expect_the_sets_of_own_scores(); }

TEST_F(PythonPolicy, NeedsNoNumpy) {
  std::filesystem::create_directory(*folder_ / "without");
  std::ofstream(*folder_ / "without/numpy.py") << "raise ImportError('none')\n";
  const test::EnvironmentVariable path("PYTHONPATH", (*folder_ / "without").string());
  expect_the_sets_of_own_scores();
  EXPECT_THAT(failure(spec("short")), HasSubstr("of shape (2,), not (16,)"));
  EXPECT_THAT(failure(spec("nothing")), HasSubstr("returned NoneType, not an array of numbers"));
}

TEST_F(PythonPolicy, SeesAllRowsOfTheStepAndItsQueries) {
  // At the first step of one block nothing has been summed before: h2o's sums are the step's.
  const Replay own = replayed("h2o", 10, 48);
  const Replay python = replayed(spec("received"), 10, 48);
  for (std::size_t h = 0; h < own.heads.size(); ++h) {
    EXPECT_EQ(own.retained_at(own.heads[h], 0), python.retained_at(python.heads[h], 0));
  }
  EXPECT_NO_THROW(replayed(spec("first_query")));
}

TEST_F(PythonPolicy, IsToldTheStep) {
  // The first head that is scored says so; which layer is first, is not said.
  EXPECT_THAT(failure(spec("tell")),
              testing::ContainsRegex("ValueError: [01] 2 [01] 2 4 0 0 16 0 10 16 16 2 16 15 "));
}

struct FailingFunction {
  const char* function;
  const char* said;
};

TEST_F(PythonPolicy, WhatGoesWrongIsOneLineWithThePlace) {
  for (const auto& [function, said] : {
           FailingFunction{"raises",
                           "raises at layer 1, head 1, step 2: KeyError: 'no\\nsuch table' (line "},
           FailingFunction{"short", "short returned an array of shape (2,), not (16,)"},
           FailingFunction{"deep", "deep returned "},
           FailingFunction{"words", "words returned str, not an array of numbers"},
           FailingFunction{"nothing", "nothing returned"},
           FailingFunction{"nan", "step 0: the score of token 3 is not a finite number"},
           FailingFunction{"leaves", "Python has ended before leaves was done"},
           FailingFunction{"asks", "attention: there are query heads 0 to 1"},
           FailingFunction{"absent", "NameError: the file has no function absent"},
           FailingFunction{"not_a_function", "the file has no function not_a_function"},
       }) {
    const std::string line = failure(spec(function));
    EXPECT_THAT(line,
                AllOf(HasSubstr((*folder_ / "own.py").string() + ": " + function + " at layer "),
                      HasSubstr(said)))
        << function;
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
  EXPECT_THAT(failure("python(\"/none.py:score\")"), HasSubstr("/none.py: score at layer"));
  std::ofstream(*folder_ / "broken.py") << "def score(step)\n    return step\n";
  EXPECT_THAT(failure("python(\"" + (*folder_ / "broken.py").string() + ":score\")"),
              HasSubstr("SyntaxError"));
}

TEST_F(PythonPolicy, ASlowFunctionIsEnded) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(
      failure(spec("slow", ",timeout=1")),
      HasSubstr("slow took longer than 1 s; make it faster, or raise the parameter timeout"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

/// The id of the child that runs `endless`, once it does.
pid_t endless_child(const std::filesystem::path& folder) {
  int id = 0;
  for (int i = 0; i < 2000 && id == 0; ++i) {
    std::ifstream(folder / "pid") >> id;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::filesystem::remove(folder / "pid");
  return id;
}
bool ends_soon(pid_t id) {
  for (int i = 0; i < 1000; ++i) {
    // One that has ended and that nobody has waited for is a zombie: its program is gone.
    if (!std::filesystem::exists("/proc/" + std::to_string(id) + "/exe")) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST_F(PythonPolicy, AFunctionThatNeverReturnsCanBeCancelled) {
  ReplayRequest request{
      .policy = parse_policy(spec("endless", ",timeout=3600")), .budget = 10, .layers = {0}};
  Progress progress;
  pid_t child = 0;
  std::thread later([&] {
    child = endless_child(folder_->path());
    progress.cancel();
  });
  EXPECT_THROW(replay(Trace(*folder_ / "trace.h5"), request, progress), Cancelled);
  later.join();
  ASSERT_GT(child, 0);
  EXPECT_TRUE(ends_soon(child));
}

TEST_F(PythonPolicy, TheChildrenOfACancelledRunAreNotWaitedForOneByOne) {
  std::ofstream(*folder_ / "lingers.py")
      << "import atexit, time\natexit.register(time.sleep, 9)\ndef score(step): pass\n";
  Progress progress;
  std::vector<std::unique_ptr<PythonProcess>> children;
  for (int i = 0; i < 6; ++i)
    children.push_back(std::make_unique<PythonProcess>((*folder_ / "lingers.py").string(), "score",
                                                       60, &progress));
  progress.cancel();
  const auto begin = std::chrono::steady_clock::now();
  children.clear();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(600));
}

TEST_F(PythonPolicy, AFunctionThatNeverReturnsEndsWithTheProgramThatAsked) {
  const pid_t asking = fork();
  if (asking == 0) {
    PythonProcess process((*folder_ / "own.py").string(), "endless", 3600);
    PythonMessage step{{{"layer", 0},
                        {"layers", 1},
                        {"head", 0},
                        {"heads", 1},
                        {"query_heads", 1},
                        {"number", 0},
                        {"first_new", 0},
                        {"end_new", 1},
                        {"first_visible", 0},
                        {"budget", 1},
                        {"attention_scale", 1.0},
                        {"n", 1},
                        {"d", 1},
                        {"value_dim", 1}}};
    step.numbers.assign(4 * sizeof(float), '\0');  // a token, its key, value and query
    process.request(step, 1, [](const nlohmann::json& asked) { return PythonMessage{asked}; });
    _exit(0);
  }
  const pid_t child = endless_child(folder_->path());
  kill(asking, SIGKILL);
  waitpid(asking, nullptr, 0);
  ASSERT_GT(child, 0);
  EXPECT_TRUE(ends_soon(child));
}

TEST_F(PythonPolicy, WithoutPythonItSaysSo) {
  std::string line;
  {
    const test::EnvironmentVariable path("PATH", folder_->path().string());
    line = failure(spec("keynorm"));
  }
  EXPECT_THAT(line, HasSubstr("the program python3 cannot be started"));
}

TEST_F(PythonPolicy, TheSpecNamesAFileAndAFunction) {
  EXPECT_THROW(parse_policy("python"), UsageError);
  EXPECT_THROW(parse_policy("python(\"own.py\")"), UsageError);
  EXPECT_THROW(parse_policy("python(\"own.py:\")"), UsageError);
  EXPECT_THROW(parse_policy("python(\":score\")"), UsageError);
  EXPECT_THROW(parse_policy("python(\"own.py:a b\")"), UsageError);
  EXPECT_EQ(parse_policy("python(\"own.py:score\")+sinks(2)").text(),
            "python(\"own.py:score\")+sinks(2)");
}

TEST_F(PythonPolicy, OnlyWhatAPersonNamedRuns) {
  // As where a session or a study that somebody sent names a file.
  std::ofstream(*folder_ / "sent.py") << "open('" << (*folder_ / "ran").string() << "', 'w')\n"
                                      << "def score(step):\n    return step.tokens\n";
  const std::string policy = "python(\"" + (*folder_ / "sent.py").string() + ":score\")";
  EXPECT_THAT(failure(policy), HasSubstr("sent.py: score at layer"));
  EXPECT_THAT(failure(policy),
              HasSubstr("is Python code and runs only if you allow it: start kvloupe "
                        "with --plugin "));
  EXPECT_FALSE(std::filesystem::exists(*folder_ / "ran"));
  std::ofstream(*folder_ / "study.json")
      << "{\"traces\": [\"trace.h5\"], \"policies\": [" << nlohmann::json(policy)
      << "], \"budgets\": [10], \"measures\": [\"retained_mass\"]}";
  EXPECT_EQ(call({"study", *folder_ / "study.json", "-o", *folder_ / "study.sqlite"}), 1);
  EXPECT_FALSE(std::filesystem::exists(*folder_ / "ran"));
  // The command line names it, in a policy.
  EXPECT_EQ(call({"replay", *folder_ / "trace.h5", "--policy", policy, "--budget", "10"}), 0);
  EXPECT_TRUE(std::filesystem::exists(*folder_ / "ran"));
}

TEST_F(PythonPolicy, ThePluginOptionNamesAFile) {
  const std::string file = *folder_ / "optional.py";
  std::ofstream(file) << "def score(step):\n    return step.tokens\n";
  EXPECT_FALSE(python_is_allowed(file));
  EXPECT_EQ(call({"policies", "--plugin", file}), 0);
  EXPECT_TRUE(python_is_allowed(file));
  EXPECT_TRUE(python_is_allowed(*folder_ / "../" / folder_->path().filename() / "optional.py"));
  EXPECT_EQ(call({"policies", "--plugin", *folder_ / "none.py"}), 1);
}

TEST(PythonFiles, AreFoundInAText) {
  EXPECT_THAT(
      python_files_in("h2o,python(\"a b.py:score\")+sinks(2),python( function=\"c:d.py:f\")"),
      ElementsAre("a b.py", "c:d.py"));
  EXPECT_THAT(python_files_in("python(timeout=3,function=\"x\"\"y.py:f\")"),
              ElementsAre("x\"y.py"));
  EXPECT_TRUE(python_files_in("keydiff --policy python").empty());
}

TEST_F(PythonPolicy, ResultsBelongToTheFileAsItWas) {
  const std::string file = *folder_ / "changing.py";
  const PolicySpec policy = parse_policy("python(\"" + file + ":score\")");
  EXPECT_EQ(policy_files(policy), " " + file + ":score=missing");
  std::ofstream(file) << "1\n";
  const std::string first = policy_files(policy);
  std::ofstream(file) << "12\n";
  EXPECT_NE(policy_files(policy), first);
}

}  // namespace
}  // namespace kvloupe
