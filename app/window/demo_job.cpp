#include "app/window/demo_job.h"

#include <memory>
#include <utility>

namespace kvloupe::window {

void DemoJob::start(std::vector<demo::DemoRun> runs, const demo::DemoPlaces& places) {
  taken_ = false;
  traces_.request(
      queue_, std::to_string(++starts_),
      [runs = std::move(runs), places](Progress& progress, const auto&) {
        constexpr long kParts = 1000;  // of one run
        progress.set_total(kParts * static_cast<long>(runs.size()));
        std::vector<TracePointer> traces;
        for (const demo::DemoRun& run : runs) {
          Progress part(progress, kParts);
          traces.push_back(std::make_shared<const Trace>(demo::demo_trace(run, part, places)));
          part.finish();
        }
        return traces;
      });
}

void DemoJob::cancel() {
  traces_.clear();
  taken_ = true;
}

std::optional<DemoJob::Outcome> DemoJob::take() {
  if (taken_ || traces_.computing()) return std::nullopt;
  taken_ = true;
  Outcome outcome;
  outcome.error = traces_.error();
  if (const auto traces = traces_.current()) outcome.traces = *traces;
  return outcome;
}

}  // namespace kvloupe::window
