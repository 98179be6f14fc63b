#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/study/database.h"
#include "analysis/study/item_queue.h"
#include "analysis/study/study_results.h"
#include "analysis/study/study_work.h"

namespace kvloupe {

/// The part of a study that a program computes: `kvloupe study` the replays, `kvloupe-capture
/// study` the runs in the model.
enum class StudyPart { replays, runs };

/// A study's file, and what the command line changes in it.
struct StudyFile {
  std::filesystem::path path;
  std::function<void(Study&)> change = {};

  template <typename Path>
  requires std::is_convertible_v<Path, std::filesystem::path> StudyFile(const Path& path)
      : path(path) {}  // NOLINT: it is its path
};

/// Makes what computes items of a part, on so many threads; 0: all cores.
using MakeWorker = std::function<std::unique_ptr<ItemWorker>(int threads)>;
std::unique_ptr<ItemWorker> make_replay_worker(int threads);

/// The side of a study that plans, hands out items and writes results. Exactly one process has one
/// of these; any number of workers compute.
class StudyRun {
 public:
  /// A line for a person, and how many items of the part and the shard are done, failed and there;
  /// a remark has none there.
  struct News {
    std::string line;
    int done = 0, failed = 0, items = 0;
    operator const std::string&() const { return line; }  // NOLINT: for who wants the line alone
  };
  /// Gets progress, and problems of items.
  using Report = std::function<void(const News& news)>;

  /// Reads and checks the study, locks and opens the results file. Items whose trace cannot be
  /// opened are recorded as failed. Throws FileError, also if the study has no items of this part;
  /// the message names the program that computes the others. For a shard, only its items are
  /// computed.
  StudyRun(const StudyFile& study, const std::filesystem::path& results, Report report,
           StudyPart part = StudyPart::replays, const Shard& shard = {});
  /// The same for a study that is in memory, of runs in the model; `results` must outlive it.
  StudyRun(Study study, StudyPlan plan, OutcomeStore& results, Report report);

  /// The next task of a worker (any number that stays the same); none if all are handed out.
  std::optional<StudyTask> next(int worker);
  /// The next ones, of one trace or context, at most so many, where questions about one context at
  /// one setting count once.
  std::vector<StudyTask> next(int worker, int most);
  /// Writes the outcome of a task.
  void record(const StudyOutcome& outcome);
  /// To be called at the end. Throws WorkError where items failed; all others are in the file.
  void finish() const;

 private:
  void begin(const Shard& shard);
  std::string place_of(int item) const;
  void say(std::string line) const { report_({std::move(line), done_, failed_, items_}); }

  Study study_;
  StudyPlan plan_;
  std::string path_;
  std::unique_ptr<StudyLock> lock_;
  std::unique_ptr<OutcomeStore> own_;
  OutcomeStore& results_;
  Report report_;
  std::unique_ptr<ItemQueue> queue_;
  StudyPart part_;
  std::string largest_budget_;
  int items_ = 0, done_ = 0, failed_ = 0;  // of the part and the shard
};

/// The output of a study's progress: "lines" on standard error; "json", one object per line on
/// standard output; or "none". Throws UsageError for another word.
StudyRun::Report study_report(const std::string& kind);

/// Runs a study in this process, each item on all cores. Throws what StudyRun throws.
void run_study(const StudyFile& study, const std::filesystem::path& results,
               const StudyRun::Report& report, StudyPart part = StudyPart::replays,
               const MakeWorker& make_worker = make_replay_worker, const Shard& shard = {});

}  // namespace kvloupe
