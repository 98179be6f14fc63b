// The default number of threads, on made-up trees of /sys and /proc.
#include "capture/run/compute.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::test {
namespace {

class Processors : public testing::Test {
 protected:
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

}  // namespace
}  // namespace kvloupe::test
