#include "capture/eval/rescue_file.h"

#include <cstdint>
#include <filesystem>
#include <utility>

#include "analysis/error.h"
#include "analysis/json_depth.h"
#include "analysis/output_file.h"
#include "capture/tokenizer/read_file.h"

namespace kvloupe {

namespace {
constexpr const char* kRescueFormat = "kvloupe-rescue";
constexpr int kRescueVersion = 1;
constexpr std::uintmax_t kLargestRescueFile = 256U << 20U;
}  // namespace

RescueFile::RescueFile(std::string path, const Json& settings) : path_(std::move(path)) {
  results_ = {{"format", kRescueFormat}, {"format_version", kRescueVersion}, {"settings", settings}};
  results_["runs"] = Json::object();
  if (!std::filesystem::exists(path_)) return;
  const std::string text = read_file(path_, kLargestRescueFile);
  if (is_deep_json(text)) throw FileError(path_, "is nested too deeply; choose another name");
  const Json old = Json::parse(text, nullptr, false);
  const auto is = [&](const char* field, auto test) {
    return old.contains(field) && test(old[field]);
  };
  if (!old.is_object() || !is("format", [](const Json& f) { return f == kRescueFormat; }) ||
      !is("format_version", [](const Json& v) { return v.is_number_integer(); }) ||
      !is("runs", [](const Json& runs) { return runs.is_object(); })) {
    throw FileError(path_, "is not a results file of kvloupe-capture rescue; choose another name");
  }
  if (old["format_version"].get<int>() > kRescueVersion) {
    throw FileError(path_, "is of a newer version; use a newer kvloupe");
  }
  if (!old.contains("settings") || old["settings"] != settings) {
    throw FileError(path_, "holds runs of other settings; choose another name");
  }
  for (const auto& [spec, run] : old["runs"].items()) {
    if (run.is_object() && run.contains("right") && run["right"].is_boolean() &&
        run.contains("logprob") && run["logprob"].is_number()) {
      results_["runs"][spec] = run;
    }
  }
}

std::optional<RescueOutcome> RescueFile::find(const std::string& spec) const {
  const auto found = results_["runs"].find(spec);
  if (found == results_["runs"].end()) return std::nullopt;
  return RescueOutcome{(*found)["right"].get<bool>(), (*found)["logprob"].get<double>()};
}

void RescueFile::add(const std::string& spec, const RescueOutcome& outcome) {
  results_["runs"][spec] = {{"right", outcome.right}, {"logprob", outcome.logprob}};
  save();
}

void RescueFile::save() const {
  OutputFile out(path_);
  out.write(results_.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  out.finish();
}

}  // namespace kvloupe
