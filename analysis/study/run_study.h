#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "analysis/study/item_queue.h"
#include "analysis/study/study_lock.h"
#include "analysis/study/study_results.h"
#include "analysis/study/study_work.h"

namespace kvloupe {

/// The side of a study that plans, hands out items and writes results. Exactly one process has one
/// of these; any number of workers compute.
class StudyRun {
 public:
  /// Lines for a person: progress, and problems of items.
  using Report = std::function<void(const std::string& line)>;

  /// Reads and checks the study, locks and opens the results file. What cannot be computed, since
  /// its trace cannot be opened, is recorded as failed. Throws FileError.
  StudyRun(const std::filesystem::path& study, const std::filesystem::path& results, Report report);

  /// The next task of a worker (any number that stays the same); none if all are handed out.
  std::optional<StudyTask> next(int worker);
  /// Writes what became of a task.
  void record(const StudyOutcome& outcome);
  /// To be called at the end. Throws WorkError where items failed; all others are in the file.
  void finish() const;

 private:
  std::string place_of(int item) const;

  Study study_;
  StudyPlan plan_;
  std::string path_;
  StudyLock lock_;
  StudyResults results_;
  Report report_;
  std::unique_ptr<ItemQueue> queue_;
  int done_ = 0, failed_ = 0;
};

/// Runs a study in this process, each replay on all cores. Throws what StudyRun throws.
void run_study(const std::filesystem::path& study, const std::filesystem::path& results,
               const StudyRun::Report& report);

}  // namespace kvloupe
