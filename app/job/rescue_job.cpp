#include "app/job/rescue_job.h"

#include <nlohmann/json.hpp>

#include "app/job/capture_program.h"

namespace kvloupe::job {

std::vector<std::string> rescue_command(const RescueOptions& o, const std::string& program) {
  std::vector<std::string> words = {program, "rescue"};
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    words.emplace_back(name);
    words.push_back(value);
  };
  add("--model", o.model);
  add("--trace", o.trace);
  add("--policy", o.policy);
  add("--budget", o.budget);
  const bool is_list = o.tokens.find_first_not_of("0123456789-,;") == std::string::npos;
  add(is_list ? "--tokens" : "--segment", o.tokens);
  if (!o.expect.empty()) words.push_back("--expect=" + o.expect);  // may begin with -
  add("--block", std::to_string(o.block));
  add("--dtype", o.dtype);
  add("--output", o.output);
  add("--progress", "json");
  return words;
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
