// The default number of threads, on made-up trees of /sys and /proc.

#include "analysis/trace/kept_files.h"
#include "capture/eval/runs_forecast.h"
#include "capture/run/compute.h"
#include "capture/run/run_rates.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

struct Processors : testing::Test {
  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    write_file(root_ / path, text + "\n");
  }
  void siblings(int processor, const std::string& list, const char* file = "core_cpus_list") const {
    put("sys/devices/system/cpu/cpu" + std::to_string(processor) + "/topology/" + file, list);
  }
  /// Four cores of two hyperthreads, numbered as most machines do.
  void eight_processors() const {
    for (int i = 0; i < 8; ++i) {
      siblings(i, std::to_string(i % 4) + "," + std::to_string(i % 4 + 4));
    }
  }
  int cores(const std::vector<int>& allowed) const { return usable_cores(allowed, root_.path()); }

  const TemporaryFolder root_;
  const std::vector<int> all_{0, 1, 2, 3, 4, 5, 6, 7};
};

TEST_F(Processors, HyperthreadsOfACoreCountOnce) {
  eight_processors();
  EXPECT_EQ(cores(all_), 4);
  EXPECT_EQ(cores({0, 4}), 1);
  EXPECT_EQ(cores({0, 1, 5}), 2);
  EXPECT_EQ(cores({7}), 1);
}

TEST_F(Processors, AnOlderKernelsNamesAreRead) {
  siblings(0, "0-1", "thread_siblings_list");
  siblings(1, "0-1", "thread_siblings_list");
  siblings(2, "2", "thread_siblings_list");
  EXPECT_EQ(cores({0, 1, 2}), 2);
}

TEST_F(Processors, WithoutATreeEveryProcessorIsACore) {
  EXPECT_EQ(cores({0, 1, 2}), 3);
  EXPECT_EQ(cores({}), 1);
}

TEST_F(Processors, AQuotaOfVersion2LimitsThemWhereverItStands) {
  eight_processors();
  put("proc/self/cgroup", "0::/user.slice/job");
  EXPECT_EQ(cores(all_), 4);
  put("sys/fs/cgroup/user.slice/job/cpu.max", "max 100000");
  EXPECT_EQ(cores(all_), 4);
  put("sys/fs/cgroup/user.slice/cpu.max", "250000 100000");  // of a group above
  EXPECT_EQ(cores(all_), 2);
  put("sys/fs/cgroup/user.slice/job/cpu.max", "50000 100000");
  EXPECT_EQ(cores(all_), 1);
  EXPECT_EQ(cores({0, 4}), 1);
}

TEST_F(Processors, AContainerSeesItsGroupAtTheMount) {
  eight_processors();
  put("proc/self/cgroup", "0::/outer/name/that/is/not/here");
  put("sys/fs/cgroup/cpu.max", "300000 100000");
  EXPECT_EQ(cores(all_), 3);
}

TEST_F(Processors, AQuotaOfVersion1LimitsThem) {
  eight_processors();
  put("proc/self/cgroup", "9:name=systemd:/\n4:memory:/a\n3:cpuset:/a\n2:cpu,cpuacct:/a/b\n0::/");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cores(all_), 4);
  put("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "199999");
  put("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cores(all_), 1);
  put("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "200000");
  EXPECT_EQ(cores(all_), 2);
}

TEST_F(Processors, NonsenseLimitsNothing) {
  eight_processors();
  put("proc/self/cgroup", "0::/a\nnonsense\n:\n2:cpu:");
  put("sys/fs/cgroup/a/cpu.max", "ten years");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "0");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "0");
  EXPECT_EQ(cores(all_), 4);
}

TEST(AllowedProcessors, AreSomeAndAscend) {
  const std::vector<int> allowed = allowed_processors();
  ASSERT_FALSE(allowed.empty());
  EXPECT_TRUE(std::is_sorted(allowed.begin(), allowed.end()));
  EXPECT_GE(usable_cores(allowed), 1);
  EXPECT_LE(usable_cores(allowed), static_cast<int>(allowed.size()));
}

// The time of a run, from how fast the last one was.

struct RunRates : testing::Test {
  void SetUp() override {
    config_.num_layers = 2;
    config_.num_heads = config_.num_kv_heads = 4;
    config_.head_dim = 8;
    config_.hidden_size = 32;
    config_.intermediate_size = 64;
    config_.vocab_size = 100;
    config_.layers.resize(2);
    run_.dtype = "f32";
    run_.device = "cpu";
    run_.threads = 2;
    run_.block_size = 10;
    run_.prompt_length = 100;
  }
  TemporaryFolder folder_;
  EnvironmentVariable cache_{"XDG_CACHE_HOME", (folder_ / "xdg").string()};
  ModelConfig config_;
  RunInfo run_;
};

TEST_F(RunRates, WorkIsThatOfTheWeightsAndOfTheAttention) {
  const double weights = prompt_work(config_, run_) / 100 - 2.0 * 2 * 4 * 8 * 50;
  // Four projections of the attention and three of the MLP in two layers, the output head, and the
  // norms' weights, one for each of D.
  EXPECT_NEAR(weights, 2 * (4 * 32 * 32 + 3 * 32 * 64) + 100 * 32, 6 * 32);
  RunInfo closed = run_;
  closed.policy = "h2o";
  closed.budget = 15;
  EXPECT_DOUBLE_EQ(prompt_work(config_, closed),
                   100 * (weights + 2.0 * 2 * 4 * 8 * 25));  // budget and block
}

TEST_F(RunRates, ATokenWorksWithTheExpertsThatItTakes) {
  const double dense = prompt_work(config_, run_);
  for (LayerConfig& layer : config_.layers) layer.experts = true;
  config_.experts.count = 8;
  config_.experts.per_token = 1;
  config_.experts.intermediate_size = 64;
  // One expert is as large as the MLP; the router is added.
  EXPECT_NEAR(prompt_work(config_, run_) - dense, 100.0 * 2 * 8 * 32, 1e-6 * dense);
}

TEST_F(RunRates, TheLastRunTellsTheNextOne) {
  const std::string key = rate_key("v1:a", run_);
  EXPECT_FALSE(remembered_rate(key));
  EXPECT_FALSE(foreseen_time(std::nullopt, config_, run_));
  remember_rate(key, {prompt_work(config_, run_) / 4.0, 0.0, 1.0});
  auto time = foreseen_time(remembered_rate(key), config_, run_);
  ASSERT_TRUE(time);
  EXPECT_NEAR(time->seconds, 5.0, 1e-3);
  EXPECT_FALSE(time->at_least);
  EXPECT_EQ(foreseen_text(time), "about 5 s, as fast as the last run of this model here");
  RunInfo generates = run_;
  generates.generated = 20;
  EXPECT_TRUE(foreseen_time(remembered_rate(key), config_, generates)->at_least);
  remember_rate(key, {prompt_work(config_, run_) / 4.0, 10.0, 1.0});
  remember_rate(key, {prompt_work(config_, run_) / 4.0, 0.0, 1.0});  // generated nothing
  EXPECT_NEAR(foreseen_time(remembered_rate(key), config_, generates)->seconds, 7.0, 1e-3);
  for (const char* other : {"v1:b", ""}) EXPECT_FALSE(remembered_rate(rate_key(other, run_)));
  RunInfo threads = run_;
  threads.threads = 4;
  EXPECT_FALSE(remembered_rate(rate_key("v1:a", threads)));
}

TEST_F(RunRates, ManyRunsLoadTheModelOnce) {
  RunInfo closed = run_;
  closed.policy = "h2o";
  closed.budget = 15;
  EXPECT_FALSE(foreseen_time("v1:a", config_, {{run_, 1}})) << "nothing ran yet";
  remember_rate(rate_key("v1:a", run_), {prompt_work(config_, run_) / 4.0, 10.0, 1.0});
  EXPECT_NEAR(foreseen_time("v1:a", config_, {{run_, 3}})->seconds, 3 * 4.0 + 1.0, 1e-3);
  const double at_full = 4.0 * prompt_work(config_, closed) / prompt_work(config_, run_);
  EXPECT_NEAR(foreseen_time("v1:a", config_, {{run_, 1}, {closed, 2}})->seconds,
              4.0 + 2 * at_full + 1.0, 1e-3)
      << "at the full cache's rate, as long as no policy ran";
  remember_rate(rate_key("v1:a", closed), {prompt_work(config_, closed) / 8.0, 0.0, 2.0});
  auto time = foreseen_time("v1:a", config_, {{run_, 1}, {closed, 2}});
  EXPECT_NEAR(time->seconds, 4.0 + 2 * 8.0 + 2.0, 1e-3);
  RunsForecast forecast;
  forecast.missing = 3;
  set_time(time, forecast);
  EXPECT_EQ(forecast.time_text,
            "at most about 30 s, as fast as the last capture of this model here");
  closed.generated = 5;
  time = foreseen_time("v1:a", config_, {{closed, 1}});
  EXPECT_TRUE(time->at_least) << "how fast it generates is not known";
  set_time(time, forecast);
  EXPECT_THAT(forecast.time_text, StartsWith("without the tokens of the answers"));
  forecast.seconds.reset();
  set_time(std::nullopt, forecast);
  EXPECT_FALSE(forecast.seconds);
}

TEST_F(RunRates, ABrokenFileSaysNothing) {
  const std::string key = rate_key("v1:a", run_);
  std::filesystem::create_directories(cache_folder());
  for (const std::string& text : {std::string("nonsense\n"), key + " -1 0 0\n", key + " nan 0 0\n",
                                  key + " 0 0 0\n", key + "\n", std::string(1 << 17, 'x')}) {
    std::ofstream(cache_folder() / "run-rates") << text;
    EXPECT_FALSE(remembered_rate(key)) << text.substr(0, 50);
  }
  remember_rate(key, {1e9, 5.0, 1.0});
  ASSERT_TRUE(remembered_rate(key));
  for (int i = 0; i < 200; ++i) remember_rate("other" + std::to_string(i), {1e9, 5.0, 1.0});
  EXPECT_FALSE(remembered_rate(key)) << "the file stays small";
  EXPECT_LT(std::filesystem::file_size(cache_folder() / "run-rates"), 1U << 16U);
}

}  // namespace
}  // namespace kvloupe::test
