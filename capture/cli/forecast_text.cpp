#include "capture/cli/forecast_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "analysis/output_file.h"
#include "analysis/trace/trace_size.h"

namespace kvloupe::capture_cli {

void print_forecast(const RunsForecast& forecast, const std::filesystem::path& results, bool most,
                    const std::string& progress) {
  OutputFile out("-");
  if (progress == "json") {
    const nlohmann::ordered_json line = {
        {"event", "forecast"},
        {"results", results.string()},
        {"bytes", forecast.bytes},
        {"free", forecast.free ? nlohmann::ordered_json(*forecast.free) : nullptr},
        {"runs", forecast.missing},
        {"known", forecast.known},
        {"dtype", forecast.dtype},
        {"seconds", forecast.seconds ? nlohmann::ordered_json(*forecast.seconds) : nullptr},
        {"time", forecast.time_text}};
    out.write(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    const std::string space = forecast.free
                                  ? fmt::format(", where {} are free", bytes_text(*forecast.free))
                                  : std::string();
    out.write(fmt::format(
        "runs: {}{}{}\nfile: {}, about {}{}\nprecision: the model computes in {}\ntime: {}\n",
        most ? "at most " : "", forecast.missing,
        forecast.known > 0 ? fmt::format(", {} are in the file", forecast.known) : "",
        results.string(), bytes_text(forecast.bytes), space, forecast.dtype, forecast.time_text));
  }
  out.finish();
}

}  // namespace kvloupe::capture_cli
