#include "app/window/state/demo_job.h"

#include <memory>
#include <utility>

#include "analysis/error.h"
#include "app/job/assets.h"

namespace kvloupe::window {

void DemoJob::start(std::vector<demo::DemoRun> runs, const demo::DemoPlaces& places) {
  taken_ = false;
  outcome_.request(queue_, std::to_string(++starts_),
                   [runs = std::move(runs), places](Progress& progress, const auto&) {
                     constexpr long kParts = 1000;  // of one run
                     progress.set_total(kParts * static_cast<long>(runs.size()));
                     Outcome outcome;
                     for (const demo::DemoRun& run : runs) {
                       Progress part(progress, kParts);
                       outcome.traces.push_back(
                           std::make_shared<const Trace>(demo::demo_trace(run, part, places)));
                       part.finish();
                     }
                     if (!outcome.traces.empty()) {
                       const Trace& first = *outcome.traces.front();
                       Progress part;
                       outcome.rests_most =
                           strongest_sink(sink_strengths(first, 0, part), first.most_heads());
                     }
                     return outcome;
                   });
}

void DemoJob::cancel() {
  outcome_.clear();
  taken_ = true;
}

std::optional<DemoJob::Outcome> DemoJob::take() {
  if (taken_ || outcome_.computing()) return std::nullopt;
  taken_ = true;
  if (const auto outcome = outcome_.current()) return *outcome;
  Outcome failed;
  failed.error = outcome_.error();
  return failed;
}

std::string demo_model_folder() {
  try {
    return job::find_asset("demo-model").string();
  } catch (const FileError&) {  // an installation without it
    return {};
  }
}

}  // namespace kvloupe::window
