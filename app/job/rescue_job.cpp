#include "app/job/rescue_job.h"

#include <nlohmann/json.hpp>

#include "app/job/capture_program.h"

namespace kvloupe::job {

std::vector<std::string> rescue_command(const RescueOptions& o, const std::string& program) {
  return {program,     "rescue",  "--model",    o.model,
          "--results", o.results, "--row",      std::to_string(o.row),
          "--output",  o.output,  "--progress", "json"};
}

void run_rescue_program(const RescueOptions& options, Progress& progress,
                        const std::function<void(int)>& on_run) {
  int runs = 0;
  run_capture_child(rescue_command(options, capture_program(options.program)), progress,
                    [&](const std::string& line) {
                      const auto json = nlohmann::json::parse(line, nullptr, false);
                      if (json.is_object() && json.value("event", nlohmann::json()) == "run")
                        on_run(++runs);
                    });
}

}  // namespace kvloupe::job
