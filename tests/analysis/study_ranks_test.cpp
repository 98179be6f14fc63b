// How many processes a launcher started, by what it says in the environment.

#include <gmock/gmock.h>

#include <map>
#include <string>

#include "analysis/error.h"
#include "analysis/study/mpi/ranks.h"

namespace kvloupe {
namespace {

using Environment = std::map<std::string, std::string>;

int processes(const Environment& environment) {
  return launched_processes([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(LaunchedProcesses, KnowsTheLaunchers) {
  EXPECT_EQ(processes({}), 1);
  EXPECT_EQ(processes({{"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_RANK", "2"}}), 3);
  EXPECT_EQ(processes({{"PMI_SIZE", "4"}, {"PMI_RANK", "0"}}), 4);
  const Environment step = {{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "5"}};
  Environment pmix = step;
  pmix["PMIX_RANK"] = "5";
  EXPECT_EQ(processes(pmix), 8);
  pmix["SLURM_STEP_NUM_TASKS"] = "1";
  EXPECT_EQ(processes(pmix), 1);
  // mpirun on the nodes of a job: its own number counts, not that of its daemons.
  Environment daemon = step;
  daemon["OMPI_COMM_WORLD_SIZE"] = "32";
  daemon["OMPI_COMM_WORLD_RANK"] = "7";
  daemon["PMIX_RANK"] = "7";
  EXPECT_EQ(processes(daemon), 32);
  // One process of mpirun inside a step.
  daemon["OMPI_COMM_WORLD_SIZE"] = "1";
  daemon.erase("PMIX_RANK");
  EXPECT_EQ(processes(daemon), 1);
}

TEST(LaunchedProcesses, ABatchScriptIsOneProcessWhateverTheJobHas) {
  EXPECT_EQ(processes({{"SLURM_NTASKS", "64"}, {"SLURM_PROCID", "0"}}), 1);
  EXPECT_EQ(processes({{"SLURM_STEP_NUM_TASKS", "64"}}), 1);
}

TEST(LaunchedProcesses, ProcessesThatCannotFindEachOtherAreRefused) {
  EXPECT_THAT(
      [] {
        processes({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "5"}});
      },
      testing::ThrowsMessage<UsageError>(testing::HasSubstr("srun --mpi=pmix")));
  EXPECT_EQ(processes({{"OMPI_COMM_WORLD_SIZE", "many"}}), 1);
}

}  // namespace
}  // namespace kvloupe
