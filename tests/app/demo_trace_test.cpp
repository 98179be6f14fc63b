#include "app/demo/demo_trace.h"
#include "analysis/replay/drift.h"
#include "tests/app/fake_demo.h"
#include "tests/support/test.h"

namespace kvloupe::demo {
namespace {

struct DemoTrace : testing::Test {
  fs::path make(const DemoRun& run = {}) {
    return demo_trace(run, test::unwatched, demo_.places());
  }
  /// The message if making it fails.
  template <class Error>
  std::string problem(const DemoRun& run = {}) {
    return test::error_of<Error>([&] { make(run); }, "nothing is wrong");
  }
  test::FakeDemo demo_;
};

TEST_F(DemoTrace, IsCapturedOnceAndKept) {
  Progress progress;
  const fs::path trace = demo_trace({}, progress, demo_.places());
  EXPECT_EQ(trace, demo_trace_path({}, demo_.places()));
  EXPECT_EQ(trace.parent_path(), demo_.places().cache);
  EXPECT_EQ(Trace(trace).length(), 104);
  EXPECT_DOUBLE_EQ(progress.fraction(), 1.0);
  ASSERT_THAT(demo_.runs(), SizeIs(1));
  EXPECT_THAT(demo_.runs()[0], AllOf(HasSubstr("needle.txt"), HasSubstr("--block 64"),
                                     HasSubstr("--generate 16"), Not(HasSubstr("--policy"))));
  EXPECT_EQ(make(), trace);
  EXPECT_THAT(demo_.runs(), SizeIs(1));
}

TEST_F(DemoTrace, OfAnotherRunIsAnotherFile) {
  std::set<fs::path> files = {make()};
  EXPECT_TRUE(files.insert(make({.prompt = "long"})).second);
  EXPECT_TRUE(files.insert(make({.generate = 8})).second);
  EXPECT_TRUE(files.insert(make({.block = 32})).second);
  EXPECT_TRUE(files.insert(make({.policy = "h2o", .budget = "24"})).second);
  EXPECT_TRUE(files.insert(make({.policy = "h2o", .budget = "25%"})).second);
  EXPECT_TRUE(files.insert(make({.policy = "tova", .budget = "25%"})).second);
  EXPECT_FALSE(files.insert(make({.policy = " tova", .budget = "25%"})).second) << "the same spec";
  EXPECT_FALSE(files.insert(make({.budget = "25%"})).second) << "without a policy, no budget";
  EXPECT_THAT(demo_.runs(), SizeIs(7));
}

TEST_F(DemoTrace, OfAClosedLoopRunsTheTokensOfTheFullRun) {
  const DemoRun run{.policy = "h2o", .budget = "24"};
  Progress progress;
  const fs::path closed = demo_trace(run, progress, demo_.places());
  EXPECT_DOUBLE_EQ(progress.fraction(), 1.0);
  EXPECT_EQ(Trace(closed).run().policy, "h2o");
  ASSERT_THAT(demo_.runs(), SizeIs(2)) << "the full run comes first";
  EXPECT_THAT(demo_.runs()[1],
              AllOf(HasSubstr("--from " + make().string()), HasSubstr("--block 64"),
                    HasSubstr("--policy h2o --budget 24"), Not(HasSubstr("--generate"))));
  EXPECT_TRUE(is_drift_pair(Trace(make()), Trace(closed)));
  make(run);
  EXPECT_THAT(demo_.runs(), SizeIs(2)) << "both are kept";
  demo_.renew(make());
  make(run);
  EXPECT_THAT(demo_.runs(), SizeIs(3)) << "of other tokens, perhaps";
}

TEST_F(DemoTrace, OfARunThatWritesItsOwnWordsGenerates) {
  const DemoRun run{.policy = "h2o", .budget = "24", .own_words = true};
  const fs::path writes = make(run);
  ASSERT_THAT(demo_.runs(), SizeIs(2));
  EXPECT_THAT(demo_.runs()[1],
              AllOf(HasSubstr("needle.txt"), HasSubstr("--generate 16"),
                    HasSubstr("--policy h2o --budget 24"), Not(HasSubstr("--from"))));
  EXPECT_NE(writes, make({.policy = "h2o", .budget = "24"})) << "the full cache's tokens";
  EXPECT_EQ(writes, make(run));
  EXPECT_EQ(make({.own_words = true}), make()) << "the full cache writes its own in any case";
  EXPECT_THAT(demo_.runs(), SizeIs(3));
}

TEST(DemoPolicy, NamesOfSegmentsStandForTheirTokens) {
  TokenTable tokens{.segment = {0, 1, 1, 0, 1, 2, 2},
                    .segment_names = {"context", "needle", "question"}};
  EXPECT_EQ(with_segments("snapkv+keep(\"{needle}\")", tokens), "snapkv+keep(\"1-2;4-4\")");
  EXPECT_EQ(with_segments("h2o", tokens), "h2o");
  EXPECT_THROW(with_segments("snapkv+keep(\"{answer}\")", tokens), WorkError);
  EXPECT_EQ(normal_policy(" h2o + recent(10%)"), "h2o+recent");
  EXPECT_EQ(normal_policy("snapkv+keep(\"{needle}\")"), "snapkv+keep(\"{needle}\")");
  EXPECT_THROW(normal_policy("snapkv+kep(\"{needle}\")"), UsageError);
}

TEST_F(DemoTrace, IsMadeAnewWhenWhatItIsMadeFromIs) {
  make();
  std::size_t runs = 1;
  for (const fs::path& file :
       {demo_.places().assets / "demo-model/model.safetensors",
        demo_.places().assets / "demo-model/tokenizer.model",
        demo_.places().assets / "prompts/needle.txt", fs::path(demo_.places().program)}) {
    demo_.renew(file);
    make();
    EXPECT_THAT(demo_.runs(), SizeIs(++runs)) << file;
    make();
    EXPECT_THAT(demo_.runs(), SizeIs(runs)) << file;
  }
  // Installed over the one before by a package that keeps the date of its files.
  const fs::path model = demo_.places().assets / "demo-model/model.safetensors";
  demo_.renew(model);
  fs::last_write_time(model, fs::file_time_type::clock::now() - std::chrono::hours(1000));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // a tick of the file system's clock
  make();
  EXPECT_THAT(demo_.runs(), SizeIs(++runs));
  demo_.renew(demo_.places().assets / "prompts/long.txt");
  make();
  EXPECT_THAT(demo_.runs(), SizeIs(runs)) << "of another prompt";
}

TEST_F(DemoTrace, ThatIsBrokenIsMadeAnew) {
  const fs::path trace = make();
  const auto size = fs::file_size(trace);
  std::size_t runs = 1;
  for (const std::uintmax_t left : {size / 2, size - 1, std::uintmax_t{0}}) {
    fs::resize_file(trace, left);
    EXPECT_EQ(make(), trace);
    EXPECT_THAT(demo_.runs(), SizeIs(++runs)) << left;
    EXPECT_EQ(fs::file_size(trace), size);
  }
  std::ofstream(trace) << "not a trace";
  make();
  EXPECT_THAT(demo_.runs(), SizeIs(++runs));
  EXPECT_EQ(Trace(trace).length(), 104);
}

TEST_F(DemoTrace, MadeByTwoProgramsAtOnceIsWhole) {
  demo_.before("sleep 0.5");
  std::thread other([&] { make(); });
  const fs::path trace = make();
  other.join();
  EXPECT_EQ(Trace(trace).length(), 104);
  const std::size_t runs = demo_.runs().size();
  make();
  EXPECT_THAT(demo_.runs(), SizeIs(runs));
  for (const auto& file : fs::directory_iterator(demo_.places().cache)) {
    if (file.path().filename() == "last-used") continue;  // when each trace was used
    EXPECT_EQ(file.path(), trace) << "left behind";
  }
}

TEST_F(DemoTrace, ThatCannotBeCapturedSaysWhyAndLeavesNothing) {
  demo_.before("echo 'kvloupe-capture: out of memory; try fewer tokens' >&2; exit 1");
  EXPECT_EQ(problem<WorkError>(), "out of memory; try fewer tokens");
  EXPECT_FALSE(fs::exists(demo_trace_path({}, demo_.places())));
  demo_.before("");
  EXPECT_NO_THROW(make());
}

TEST_F(DemoTrace, StopsWhenAsked) {
  demo_.before("sleep 30");
  Progress progress;
  std::thread asks([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    progress.cancel();
  });
  EXPECT_THROW(demo_trace({}, progress, demo_.places()), Cancelled);
  asks.join();
  EXPECT_FALSE(fs::exists(demo_trace_path({}, demo_.places())));
}

TEST_F(DemoTrace, AFolderThatCannotBeMadeIsNamed) {
  DemoPlaces places = demo_.places();
  std::ofstream(demo_.path("file")) << "no folder";
  for (const fs::path& cache : {demo_.path("file"), demo_.path("file") / "kvloupe"}) {
    places.cache = cache;
    EXPECT_THAT(test::error_of<FileError>([&] { demo_trace({}, test::unwatched, places); }),
                AllOf(StartsWith(cache.string()), HasSubstr("XDG_CACHE_HOME")))
        << cache;
  }
  EXPECT_THAT(demo_.runs(), SizeIs(0));
}

TEST_F(DemoTrace, AWrongRunIsRefused) {
  EXPECT_THAT(problem<FileError>({.prompt = "nothing"}), HasSubstr("nothing.txt: no such prompt"));
  for (const char* name : {"", "../needle", "/etc/passwd", ".hidden"}) {
    EXPECT_THAT(problem<UsageError>({.prompt = name}), HasSubstr("assets/prompts")) << name;
  }
  EXPECT_THAT(problem<UsageError>({.policy = "h2p", .budget = "25%"}), HasSubstr("h2o"));
  EXPECT_THAT(problem<UsageError>({.policy = "h2o", .budget = "none"}), HasSubstr("none"));
}

TEST_F(DemoTrace, IsKeptInTheUsersCacheFolder) {
  const auto cache_of = [&] {
    DemoPlaces places = demo_.places();
    places.cache.clear();
    return demo_trace_path({}, places).parent_path();
  };
  const std::string folder = demo_.path("home").string();
  const test::EnvironmentVariable home("HOME", folder),
      cache("XDG_CACHE_HOME", folder + "/elsewhere");
  EXPECT_EQ(cache_of(), folder + "/elsewhere/kvloupe");
  cache.set("not/absolute");
  EXPECT_EQ(cache_of(), folder + "/.cache/kvloupe");
  cache.set({});
  EXPECT_EQ(cache_of(), folder + "/.cache/kvloupe");
  home.set({});
  EXPECT_THROW(cache_of(), WorkError);
}

}  // namespace
}  // namespace kvloupe::demo
