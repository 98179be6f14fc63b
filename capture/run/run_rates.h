#pragma once
// How fast models ran on this machine before, so that the time of the next run can be told.

#include <optional>
#include <string>

#include "analysis/trace/model_info.h"
#include "capture/model/model_config.h"

namespace kvloupe {

/// How fast a run was.
struct RunRate {
  double prompt_work = 0.0;  // multiply-adds a second while the prompt was read
  double generated = 0.0;    // tokens a second; 0: not known
  double beside = 0.0;       // seconds to load the model and to finish the trace
};

/// Multiply-adds that reading the prompt of a run takes: weights and attention.
double prompt_work(const ModelConfig& config, const RunInfo& run);

/// A rate depends on these: the model by its fingerprint, precision, device, threads, and whether a
/// policy evicts. One word.
std::string rate_key(const std::string& fingerprint, const RunInfo& run);

/// The rate of the last run, from the file `run-rates` in the user's cache folder; nothing if there
/// was none, or the file says nothing of it.
std::optional<RunRate> remembered_rate(const std::string& key);
/// Keeps it; the rate of generation of the run before, where this one generated nothing. A file
/// that cannot be written changes nothing but what is said before the next run.
void remember_rate(const std::string& key, RunRate rate);

/// Seconds that a run will take; nothing if no rate is known. `at_least`: it generates tokens, and
/// their rate is not known.
struct RunTime {
  double seconds = 0.0;
  bool at_least = false;
};
std::optional<RunTime> foreseen_time(const std::optional<RunRate>& rate, const ModelConfig& config,
                                     const RunInfo& run);

/// "about 25 s, as fast as the last run of this model here", or that it is not known.
std::string foreseen_text(const std::optional<RunTime>& time);

}  // namespace kvloupe
