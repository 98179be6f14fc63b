#include "analysis/study/run_study.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"

namespace kvloupe {

namespace {
Study of_part(const StudyFile& file, StudyPart part) {
  Study study = read_study(file.path);
  if (file.change) file.change(study);
  if (part == StudyPart::replays && study.traces.empty()) {
    throw FileError(study.path.string(),
                    "has no traces, only tasks in a model; run it with kvloupe-capture study");
  }
  if (part == StudyPart::runs && study.tasks.empty()) {
    throw FileError(study.path.string(),
                    "has no tasks in a model, only traces; run it with kvloupe study");
  }
  return study;
}
}  // namespace

StudyRun::StudyRun(const StudyFile& study, const std::filesystem::path& results, Report report,
                   StudyPart part, const Shard& shard)
    : study_(of_part(study, part)),
      plan_(plan_study(study_)),
      path_(results.string()),
      lock_(std::make_unique<StudyLock>(results)),
      own_(std::make_unique<StudyResults>(results, study_, plan_)),
      results_(*own_),
      report_(std::move(report)),
      part_(part) {
  begin(shard);
}

StudyRun::StudyRun(Study study, StudyPlan plan, OutcomeStore& results, Report report)
    : study_(std::move(study)),
      plan_(std::move(plan)),
      results_(results),
      report_(std::move(report)),
      part_(StudyPart::runs) {
  begin({});
}

void StudyRun::begin(const Shard& shard) {
  for (const Budget& budget : study_.budgets) {
    // Shares compare with counts on a prompt of a common length.
    constexpr int kTypical = 4096;
    if (largest_budget_.empty() ||
        budget.resolve(kTypical) > parse_budget(largest_budget_).resolve(kTypical)) {
      largest_budget_ = budget.text();
    }
  }
  std::vector<int> waiting, broken;
  std::vector<int> of_part;
  int others_wait = 0;
  const std::vector<std::string> states = results_.states();
  for (std::size_t i = 0; i < plan_.items.size(); ++i) {
    const bool replay = plan_.source(plan_.items[i]).task == kReplayTask;
    if (replay == (part_ == StudyPart::replays)) {
      of_part.push_back(static_cast<int>(i));
    } else if (states.at(i) == "waiting") {
      ++others_wait;
    }
  }
  for (const int number : items_of_shard(plan_, of_part, shard)) {
    const auto place = static_cast<std::size_t>(number);
    ++items_;
    if (states.at(place) == "done") {
      ++done_;
    } else {
      (plan_.items[place].problem.empty() ? waiting : broken).push_back(number);
    }
  }
  const std::string of =
      shard.count > 1 ? fmt::format("shard {} of {}: ", shard.number, shard.count) : "";
  say(fmt::format("{}{} items, {} of them done before", of, items_, done_));
  if (others_wait > 0) {
    say(fmt::format("{} more wait for {} with the same results file", others_wait,
                    part_ == StudyPart::replays ? "kvloupe-capture study" : "kvloupe study"));
  }
  for (const int item : broken) {
    StudyOutcome outcome;
    outcome.item = item;
    outcome.problem = plan_.items[static_cast<std::size_t>(item)].problem;
    record(outcome);
  }
  queue_ = std::make_unique<ItemQueue>(plan_, waiting);
}

std::string StudyRun::place_of(int item) const {
  const StudyItem& one = plan_.items.at(static_cast<std::size_t>(item));
  return fmt::format("{}, {}, budget {}, block {}", in_one_line(plan_.source(one).name, 200),
                     one.policy, one.budget, one.block_word);
}

std::optional<StudyTask> StudyRun::next(int worker) {
  const std::optional<int> number = queue_->next(worker);
  if (!number) return std::nullopt;
  const StudyItem& item = plan_.items[static_cast<std::size_t>(*number)];
  StudyTask task{.item = *number, .source = plan_.source(item)};
  task.identity = task.source.identity;
  // Another process may have another current folder.
  const auto absolute = [](const std::filesystem::path& path) {
    return path.empty() ? path : std::filesystem::absolute(path);
  };
  task.measures = study_.measures;
  if (part_ == StudyPart::replays) {
    task.trace = absolute(study_.traces[static_cast<std::size_t>(item.trace)].path).string();
  } else {
    task.source.prompt.path = absolute(task.source.prompt.path);
    task.trace = task.source.prompt.path.string();
    task.model = absolute(study_.model_path).string();
    task.dtype = study_.dtype;
    task.chat = study_.chat;
    task.system = study_.system;
    task.compact = study_.compact;
    task.probe = study_.probe;
    task.measures.clear();
    for (const StudyMeasure& one : task_measures()) {
      if (one.task == task.source.task) task.measures.push_back(one.name);
    }
  }
  task.budget = item.budget;
  task.largest_budget = largest_budget_;
  task.policy = study_.computed(parse_policy(item.policy)).text();
  task.entries = item.entries;
  task.block = item.block;
  task.compression = item.compression;
  task.reduce = study_.reduce;
  return task;
}

std::vector<StudyTask> StudyRun::next(int worker, int most) {
  std::vector<StudyTask> tasks;
  std::set<std::string> settings;  // questions about one context at one setting are one run
  while (tasks.empty() || (std::ssize(settings) < most && queue_->has_more(worker))) {
    std::optional<StudyTask> task = next(worker);
    if (!task) break;
    settings.insert(fmt::format("{}\n{}\n{}", task->policy, task->budget, task->block));
    tasks.push_back(std::move(*task));
  }
  if (tasks.size() > 1)
    report_({fmt::format("{} runs of {} come next", tasks.size(),
                         in_one_line(tasks.front().source.name, 200))});
  return tasks;
}

void StudyRun::record(const StudyOutcome& computed) {
  StudyOutcome outcome = computed;
  const int first = plan_.items.at(static_cast<std::size_t>(outcome.item)).first_measure;
  for (StudyValue& value : outcome.values) value.measure += first;
  results_.record(outcome);
  if (outcome.problem.empty()) {
    ++done_;
    say(fmt::format("{} of {}: {} ({:.2f} s)", done_ + failed_, items_, place_of(outcome.item),
                    outcome.seconds));
  } else {
    ++failed_;
    say(fmt::format("{} of {} failed: {}: {}", done_ + failed_, items_, place_of(outcome.item),
                    outcome.problem));
  }
}

void StudyRun::finish() const {
  if (failed_ == 0) return;
  throw WorkError(
      fmt::format("{} of {} items failed; the others are in {}; run the same command "
                  "again when the lines above are dealt with",
                  failed_, items_, path_));
}

StudyRun::Report study_report(const std::string& kind) {
  if (kind == "none") return [](const StudyRun::News&) {};
  if (kind == "lines")
    return [](const StudyRun::News& news) { fmt::print(stderr, "{}\n", in_lines(news.line)); };
  if (kind != "json") throw UsageError("--progress " + kind + ": give lines, json or none");
  return [](const StudyRun::News& news) {
    const nlohmann::ordered_json line = {{"event", news.items > 0 ? "items" : "note"},
                                         {"done", news.done},
                                         {"failed", news.failed},
                                         {"items", news.items},
                                         {"text", news.line}};
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    std::fflush(stdout);
  };
}

std::unique_ptr<ItemWorker> make_replay_worker(int threads) {
  return std::make_unique<StudyWorker>(threads);
}

void run_study(const StudyFile& study, const std::filesystem::path& results,
               const StudyRun::Report& report, StudyPart part, const MakeWorker& make_worker,
               const Shard& shard) {
  StudyRun run(study, results, report, part, shard);
  const std::unique_ptr<ItemWorker> worker = make_worker(0);
  for (;;) {
    const std::vector<StudyTask> tasks = run.next(0, worker->most_together());
    if (tasks.empty()) return run.finish();
    for (const StudyOutcome& outcome : worker->compute_all(tasks)) run.record(outcome);
  }
}

}  // namespace kvloupe
