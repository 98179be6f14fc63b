#include "analysis/study/run_study.h"

#include <fmt/format.h>

#include <utility>

#include "analysis/error.h"
#include "analysis/one_line.h"

namespace kvloupe {

StudyRun::StudyRun(const std::filesystem::path& study, const std::filesystem::path& results,
                   Report report)
    : study_(read_study(study)),
      plan_(plan_study(study_)),
      path_(results.string()),
      lock_(results),
      results_(results, study_, plan_),
      report_(std::move(report)) {
  std::vector<int> waiting, broken;
  for (const StudyResults::Item& item : results_.items()) {
    if (item.state == "done") {
      ++done_;
    } else if (plan_.items.at(static_cast<std::size_t>(item.number)).problem.empty()) {
      waiting.push_back(item.number);
    } else {
      broken.push_back(item.number);
    }
  }
  report_(fmt::format("{} items, {} of them done before", plan_.items.size(), done_));
  for (const int item : broken) {
    record({item, plan_.items[static_cast<std::size_t>(item)].problem, 0.0, {}});
  }
  queue_ = std::make_unique<ItemQueue>(plan_, waiting);
}

std::string StudyRun::place_of(int item) const {
  const StudyItem& one = plan_.items.at(static_cast<std::size_t>(item));
  return fmt::format("{}, {}, budget {}, block {}",
                     in_one_line(study_.traces[static_cast<std::size_t>(one.trace)].name, 200),
                     one.policy, one.budget, one.block_word);
}

std::optional<StudyTask> StudyRun::next(int worker) {
  const std::optional<int> number = queue_->next(worker);
  if (!number) return std::nullopt;
  const StudyItem& item = plan_.items[static_cast<std::size_t>(*number)];
  const auto trace = static_cast<std::size_t>(item.trace);
  StudyTask task;
  task.item = *number;
  // Another process may have another current folder.
  task.trace = std::filesystem::absolute(study_.traces[trace].path).string();
  task.identity = plan_.identities[trace];
  task.policy = item.policy;
  task.entries = item.entries;
  task.block = item.block;
  task.compression = item.compression;
  task.measures = study_.measures;
  task.reduce = study_.reduce;
  return task;
}

void StudyRun::record(const StudyOutcome& outcome) {
  results_.record(outcome);
  if (outcome.problem.empty()) {
    ++done_;
    report_(fmt::format("{} of {}: {} ({:.2f} s)", done_ + failed_, plan_.items.size(),
                        place_of(outcome.item), outcome.seconds));
  } else {
    ++failed_;
    report_(fmt::format("{} of {} failed: {}: {}", done_ + failed_, plan_.items.size(),
                        place_of(outcome.item), outcome.problem));
  }
}

void StudyRun::finish() const {
  if (failed_ == 0) return;
  throw WorkError(
      fmt::format("{} of {} items failed; the others are in {}; run the same command "
                  "again when the lines above are dealt with",
                  failed_, plan_.items.size(), path_));
}

void run_study(const std::filesystem::path& study, const std::filesystem::path& results,
               const StudyRun::Report& report) {
  StudyRun run(study, results, report);
  StudyWorker worker;
  while (const std::optional<StudyTask> task = run.next(0)) run.record(worker.compute(*task));
  run.finish();
}

}  // namespace kvloupe
