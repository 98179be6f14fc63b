#include "app/job/study_job.h"

#include <fmt/format.h>
#include <glob.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "analysis/error.h"
#include "analysis/output_file.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/study/study.h"
#include "analysis/trace/model_place.h"
#include "app/job/capture_program.h"

namespace kvloupe::job {

namespace fs = std::filesystem;

namespace {

/// The parts of a text between commas, without the spaces around them.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::size_t first = text.find_first_not_of(' ', at);
    if (first < end)
      parts.push_back(text.substr(first, text.find_last_not_of(' ', end - 1) + 1 - first));
    at = end + 1;
  }
  return parts;
}

/// As a study file names it: from the file's own folder, so that both can be moved together.
std::string from_folder_of(const std::string& study, const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::absolute(study, error).parent_path();
  const fs::path there = fs::absolute(path, error).lexically_proximate(folder);
  return there.empty() || *there.begin() == ".." ? fs::absolute(path, error).string()
                                                 : there.string();
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::string study_problem(const StudyOptions& o) {
  std::error_code error;
  if (o.in_model) {
    if (o.model.empty()) return "Choose a model: a GGUF file, or a folder with config.json.";
    if (!holds_model(o.model))
      return o.model + ": is neither a GGUF file nor a folder with config.json; choose a model";
    if (!fs::is_regular_file(o.prompts, error)) {
      return o.prompts.empty() ? "Choose a file of prompts with their answers."
                               : o.prompts + ": no such file of prompts";
    }
  } else if (o.traces.empty()) {
    return "Choose traces: a file, or a pattern such as traces/*.h5.";
  }
  try {
    if (o.policies.empty()) return "Write policies, separated by commas.";
    (void)parse_policy_list(o.policies);
    const std::vector<std::string> budgets = parts_of(o.budgets);
    if (budgets.empty()) return "Write budgets, such as 10%, 25%, 50%.";
    for (const std::string& budget : budgets) (void)parse_budget(budget);
  } catch (const UsageError& wrong) {
    return wrong.what();
  }
  const bool number = !o.block.empty() && o.block.size() < 8 && o.block.front() != '0' &&
                      o.block.find_first_not_of("0123456789") == std::string::npos;
  if (!number && o.block != "all" && o.block != "capture")
    return "block: write a number of tokens, all, or capture";
  if (o.results.empty()) return "Choose a results file, such as study.sqlite.";
  if (!o.results.ends_with(".sqlite")) return o.results + ": give a name that ends with .sqlite";
  return {};
}

std::string study_file(const StudyOptions& o) {
  return fs::path(o.results).replace_extension(".json").string();
}

std::string study_text(const StudyOptions& o) {
  nlohmann::ordered_json study;
  const std::string file = study_file(o);
  if (o.in_model) {
    study["model"] = from_folder_of(file, o.model);
    study["tasks"] = nlohmann::ordered_json::array(
        {{{"task", "answer"},
          {"tokens", o.answer_tokens},
          {"prompts", nlohmann::ordered_json::array({from_folder_of(file, o.prompts)})}}});
  } else {
    study["traces"] = {from_folder_of(file, o.traces)};
    study["measures"] = default_measures();
  }
  for (const PolicySpec& policy : parse_policy_list(o.policies))
    study["policies"].push_back(policy.text());
  for (const std::string& budget : parts_of(o.budgets))
    study["budgets"].push_back(parse_budget(budget).text());
  if (o.block == "all") {
    study["blocks"] = {"all"};
  } else if (o.block != "capture") {
    study["blocks"] = {std::stoi(o.block)};
  }
  return study.dump(2) + "\n";
}

std::string study_size(const StudyOptions& o) {
  std::size_t inputs = 0;
  if (o.in_model) {
    std::ifstream file(o.prompts);
    for (std::string line; std::getline(file, line);)
      inputs += line.find_first_not_of(" \t\r") != std::string::npos ? 1 : 0;
  } else {
    glob_t found = {};
    if (glob(o.traces.c_str(), GLOB_NOSORT, nullptr, &found) == 0) inputs = found.gl_pathc;
    globfree(&found);
  }
  const char* what = o.in_model ? "prompt" : "trace";
  if (inputs == 0) return (o.in_model ? o.prompts : o.traces) + ": no " + what + " there";
  const auto counted = [](std::size_t count, const char* one, const char* many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
  };
  return fmt::format("{} × {} × {}", counted(inputs, what, o.in_model ? "prompts" : "traces"),
                     counted(parse_policy_list(o.policies).size(), "policy", "policies"),
                     counted(parts_of(o.budgets).size(), "budget", "budgets"));
}

std::vector<std::string> study_command(const StudyOptions& o, const std::string& program) {
  std::vector<std::string> words = {program, "study"};
  if (!o.in_model) words.emplace_back("run");
  words.insert(words.end(), {study_file(o), "--output", o.results, "--progress", "json"});
  return words;
}

void read_study_line(const std::string& text, StudyProgress& progress) {
  const auto line = nlohmann::json::parse(text, nullptr, false);
  if (!line.is_object() || line.value("event", nlohmann::json()) != "items") return;
  const auto number = [&](const char* field, int now) {
    const auto it = line.find(field);
    return it != line.end() && it->is_number_integer() ? it->get<int>() : now;
  };
  progress.done = number("done", progress.done);
  progress.failed = number("failed", progress.failed);
  progress.items = number("items", progress.items);
  if (progress.done_before < 0) progress.done_before = progress.done;
  const auto words = line.find("text");
  if (words != line.end() && words->is_string()) progress.line = words->get<std::string>();
}

StudyProgress run_study_program(const StudyOptions& o, Progress& progress,
                                const std::function<void(const StudyProgress&)>& publish) {
  if (const std::string problem = study_problem(o); !problem.empty()) throw WorkError(problem);
  const std::string program = own_program(o.program, o.in_model ? "kvloupe-capture" : "kvloupe");
  const std::string file = study_file(o), text = study_text(o);
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) {
    write_whole_file(file, text);
  } else if (size != text.size() || content_of(file) != text) {
    throw WorkError(file + ": says another study already; give the results another name");
  }
  StudyProgress state;
  run_own_program(study_command(o, program), progress, [&](const std::string& line) {
    read_study_line(line, state);
    publish(state);
  });
  return state;
}

}  // namespace kvloupe::job
