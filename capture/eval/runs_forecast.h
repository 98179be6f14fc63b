#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capture/model/model_config.h"
#include "capture/run/run_rates.h"

namespace kvloupe {

/// Time and memory of the runs of an evaluation or a search, as far as known before the
/// model is loaded.
struct RunsForecast {
  long known = 0;                     // runs that the results file already has
  long missing = 0;                   // to be made; of a search, at most
  std::uint64_t bytes = 0;            // of the results file when all are made, about
  std::optional<std::uint64_t> free;  // bytes that its file system has left
  std::string dtype;                  // in which the model will compute: "f32", "bf16"
  std::optional<double> seconds;  // at most, at the speed of the last capture of this model here
  std::string time_text;          // in words, also where it is not known
};

/// So many runs of one prompt length.
struct RunsAlike {
  RunInfo run;
  long count = 0;
};

/// Seconds of these runs of a model that is loaded once, at the rates that captures of the model
/// had (run_rates.h): with a policy, or with the full cache where no capture with a policy was
/// made, and the other way round. At most, because runs of one prompt share their first blocks.
/// Nothing where no rate is known.
std::optional<RunTime> foreseen_time(const std::string& fingerprint, const ModelConfig& config,
                                     const std::vector<RunsAlike>& runs);

/// Fills `seconds` and `time_text`.
void set_time(const std::optional<RunTime>& time, RunsForecast& forecast);

}  // namespace kvloupe
