#pragma once

#include <filesystem>

#include "analysis/study/run_study.h"

namespace kvloupe {

/// How many processes a launcher such as mpirun started together, by the variables that it sets; 1
/// without one. Does not start MPI, which may fail where no launcher is.
int launched_processes();

/// Runs a study with the other processes: rank 0 plans, hands out the items, and is the only one
/// that reads the study file and writes results; all others compute. To be called once, by every
/// process. Rank 0 throws what run_study() throws, the others nothing but for an outcome that
/// cannot be sent. Throws UsageError where kvloupe was built without MPI.
void run_study_on_ranks(const std::filesystem::path& study, const std::filesystem::path& results,
                        const StudyRun::Report& report);

}  // namespace kvloupe
