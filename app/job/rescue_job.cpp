#include "app/job/rescue_job.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/job/capture_program.h"

namespace kvloupe::job {

std::vector<std::string> rescue_command(const RescueOptions& o, const std::string& program) {
  return {program,     "rescue",  "--model",    o.model,
          "--results", o.results, "--row",      std::to_string(o.row),
          "--output",  o.output,  "--progress", "json"};
}

void run_rescue_program(const RescueOptions& options, Progress& progress,
                        const std::function<void(const RescueProgress&)>& on_run) {
  int runs = 0;
  run_own_program(rescue_command(options, own_program(options.program)), progress,
                  [&](const std::string& line) {
                    const auto json = nlohmann::json::parse(line, nullptr, false);
                    if (!json.is_object() || json.value("event", nlohmann::json()) != "run") return;
                    const auto number = [&](const char* name) {
                      const auto found = json.find(name);
                      return found != json.end() && found->is_number() ? found->get<double>() : 0.0;
                    };
                    ++runs;
                    on_run({std::max(runs, static_cast<int>(number("run"))),
                            static_cast<int>(number("most")), number("seconds_left")});
                  });
}

}  // namespace kvloupe::job
