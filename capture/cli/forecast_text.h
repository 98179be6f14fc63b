#pragma once

#include <filesystem>
#include <string>

#include "capture/eval/runs_forecast.h"

namespace kvloupe::capture_cli {

/// Prints the forecast of `--dry-run` for an evaluation or a search: one object with "event"
/// "forecast" for --progress json, else lines. `most`: the search may need fewer runs.
void print_forecast(const RunsForecast& forecast, const std::filesystem::path& results, bool most,
                    const std::string& progress);

}  // namespace kvloupe::capture_cli
