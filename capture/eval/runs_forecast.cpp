#include "capture/eval/runs_forecast.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/base/text/text.h"

namespace kvloupe {

std::optional<RunTime> foreseen_time(const std::string& fingerprint, const ModelConfig& config,
                                     const std::vector<RunsAlike>& runs) {
  RunTime all;
  double loading = 0.0;  // once, not for each run
  for (const RunsAlike& alike : runs) {
    if (alike.count == 0) continue;
    RunInfo other = alike.run;
    other.policy = alike.run.closed_loop() ? RunInfo().policy : "any";
    std::optional<RunRate> rate = remembered_rate(rate_key(fingerprint, alike.run));
    if (!rate) rate = remembered_rate(rate_key(fingerprint, other));
    const std::optional<RunTime> one = foreseen_time(rate, config, alike.run);
    if (!one) return std::nullopt;
    all.seconds += static_cast<double>(alike.count) * (one->seconds - rate->beside);
    all.at_least = all.at_least || one->at_least;
    loading = std::max(loading, rate->beside);
  }
  all.seconds += loading;
  return all;
}

void set_time(const std::optional<RunTime>& time, RunsForecast& forecast) {
  if (forecast.missing == 0) {
    forecast.seconds = 0.0;
    forecast.time_text = "no run is missing";
  } else if (!time) {
    forecast.time_text = "the time is known after the first kvloupe-capture run of this model here";
  } else {
    if (!time->at_least) forecast.seconds = time->seconds;
    forecast.time_text =
        fmt::format("{}{}, as fast as the last capture of this model here",
                    time->at_least ? "without the tokens of the answers, at most " : "at most ",
                    duration_text(time->seconds));
  }
}

}  // namespace kvloupe
