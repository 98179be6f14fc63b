#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "analysis/study/run_study.h"

namespace kvloupe {

/// The value of an environment variable, or null.
using Variable = std::function<const char*(const char* name)>;

/// How many processes a launcher started together, by the variables that it sets; 1 without one.
/// Knows mpirun of Open MPI (OMPI_COMM_WORLD_SIZE), launchers that speak PMI (PMI_SIZE: MPICH's,
/// and srun --mpi=pmi2), and srun --mpi=pmix (PMIX_RANK beside SLURM_STEP_NUM_TASKS). Throws
/// UsageError where srun started several processes without either, which would each be alone. Does
/// not start MPI, which may fail without a launcher.
int launched_processes(const Variable& variable = [](const char* name) {
  return static_cast<const char*>(std::getenv(name));
});

/// Runs a study, or `shard` ("3/10") of it, in this process, or with those that a launcher started
/// beside it. Throws UsageError for an invalid shard, and the exceptions of both functions;
/// FileError where the results would replace the study.
void run_study_as_started(const StudyFile& study, const std::filesystem::path& results,
                          const std::string& shard, const StudyRun::Report& report, StudyPart part,
                          const MakeWorker& make_worker);

/// Runs a study with the other processes: rank 0 plans, hands out the items, and is the only one
/// that reads the study file and writes results; all others compute. To be called once, by every
/// process. Rank 0 throws what run_study() throws. Other ranks throw only for an outcome that
/// cannot be sent. Throws UsageError where kvloupe was built without MPI.
void run_study_on_ranks(const StudyFile& study, const std::filesystem::path& results,
                        const StudyRun::Report& report, StudyPart part = StudyPart::replays,
                        const MakeWorker& make_worker = make_replay_worker,
                        const Shard& shard = {});

}  // namespace kvloupe
