#include "capture/eval/eval_results.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "analysis/error.h"
#include "analysis/json_depth.h"
#include "analysis/output_file.h"
#include "capture/tokenizer/read_file.h"
#include "version.h"

namespace kvloupe {

namespace {

constexpr std::uintmax_t kLargestResults = 256U << 20U;       // what readers take
constexpr std::size_t kMostPrompts = std::size_t{64} << 20U;  // bytes; the file is written often
constexpr const char* kFormat = "kvloupe-eval";
constexpr int kVersion = 1;

using Json = EvalResults::Json;

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_run(const Json& run) {
  return run.is_object() && run.contains("policy") && run["policy"].is_string() &&
         run.contains("budget") && run["budget"].is_string();
}

/// Mean of a member over those runs that have it as a number; null where none has.
Json mean_of(const std::vector<const Json*>& runs, const char* name) {
  double sum = 0.0;
  long count = 0;
  for (const Json* run : runs) {
    const auto found = run->find(name);
    if (found == run->end()) continue;
    if (found->is_boolean()) {
      sum += found->get<bool>() ? 1.0 : 0.0;
    } else if (found->is_number()) {
      sum += found->get<double>();
    } else {
      continue;
    }
    ++count;
  }
  return count > 0 ? Json(sum / static_cast<double>(count)) : Json();
}

/// Means, place by place, of a member that is an array of numbers over those runs that have it in
/// the first one's length; null where none has.
Json means_of(const std::vector<const Json*>& runs, const char* name) {
  std::vector<double> sums;
  long count = 0;
  for (const Json* run : runs) {
    const auto found = run->find(name);
    if (found == run->end() || !found->is_array() || found->empty()) continue;
    if (!std::all_of(found->begin(), found->end(), [](const Json& x) { return x.is_number(); }))
      continue;
    if (count > 0 && found->size() != sums.size()) continue;
    sums.resize(found->size(), 0.0);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += (*found)[i].get<double>();
    ++count;
  }
  if (count == 0) return {};
  for (double& sum : sums) sum /= static_cast<double>(count);
  return sums;
}

}  // namespace

EvalResults::EvalResults(std::string path, Json settings)
    : path_(std::move(path)), settings_(std::move(settings)) {
  std::error_code error;
  if (!std::filesystem::exists(path_, error)) return;
  const std::string text = read_file(path_, kLargestResults);
  if (is_deep_json(text)) throw FileError(path_, "is nested too deeply; choose another name");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("format", Json()) != Json(kFormat) ||
      json.value("format_version", Json()) != Json(kVersion) || !json.contains("runs") ||
      !json["runs"].is_array() || !std::all_of(json["runs"].begin(), json["runs"].end(), is_run)) {
    throw FileError(path_,
                    "does not contain results of this version; choose another name for the output");
  }
  if (json.value("settings", Json()) != settings_) {
    throw FileError(path_,
                    "contains results of other settings (model, block, template …); give the same "
                    "settings, or choose another name for the output");
  }
  runs_.assign(json["runs"].begin(), json["runs"].end());
  const Json prompts = json.value("prompts", Json::array());
  if (!prompts.is_array())
    throw FileError(path_, "has \"prompts\" that are not a list; choose another name");
  prompts_.assign(prompts.begin(), prompts.end());
  for (const Json& prompt : prompts_) prompt_bytes_ += line_of(prompt).size();
}

bool EvalResults::has(const Json& key) const {
  const auto matches = [&](const Json& run) {
    for (const auto& [name, value] : key.items()) {
      const auto found = run.find(name);
      if (found == run.end() || *found != value) return false;
    }
    return true;
  };
  return std::any_of(runs_.begin(), runs_.end(), matches);
}

void EvalResults::add(Json run) { runs_.push_back(std::move(run)); }

int EvalResults::prompt(const Json& prompt) {
  const auto known = std::find(prompts_.begin(), prompts_.end(), prompt);
  if (known == prompts_.end()) {
    const std::size_t bytes = line_of(prompt).size();
    if (prompt_bytes_ + bytes > kMostPrompts) return -1;
    prompt_bytes_ += bytes;
    prompts_.push_back(prompt);
    return static_cast<int>(prompts_.size()) - 1;
  }
  return static_cast<int>(known - prompts_.begin());
}

void EvalResults::save() const {
  OutputFile out(path_);
  out.write("{\"format\":\"" + std::string(kFormat) + "\",\"format_version\":" +
            std::to_string(kVersion) + ",\"generator\":\"kvloupe " KVLOUPE_VERSION "\"," +
            (fingerprint_.empty() ? "" : "\"fingerprint\":" + line_of(Json(fingerprint_)) + ",") +
            "\n\"settings\":" + line_of(settings_) + ",\n\"runs\":[");
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    out.write((i > 0 ? ",\n" : "\n") + line_of(runs_[i]));
  }
  out.write("],\n\"prompts\":[");
  for (std::size_t i = 0; i < prompts_.size(); ++i) {
    out.write((i > 0 ? ",\n" : "\n") + line_of(prompts_[i]));
  }
  out.write("],\n\"summary\":[");
  const Json summary = eval_summary(runs_);
  for (std::size_t i = 0; i < summary.size(); ++i) {
    out.write((i > 0 ? ",\n" : "\n") + line_of(summary[i]));
  }
  out.write("]}\n");
  out.finish();
}

nlohmann::ordered_json eval_summary(const std::vector<EvalResults::Json>& runs) {
  std::vector<std::pair<std::pair<std::string, std::string>, std::vector<const Json*>>> groups;
  for (const Json& run : runs) {
    const std::pair key(run["policy"].get<std::string>(), run["budget"].get<std::string>());
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& known) { return known.first == key; });
    if (group == groups.end()) group = groups.insert(groups.end(), {key, {}});
    group->second.push_back(&run);
  }
  Json summary = Json::array();
  for (const auto& [key, members] : groups) {
    Json line{{"policy", key.first}, {"budget", key.second}, {"runs", members.size()}};
    const Json accuracy = mean_of(members, "correct");
    if (!accuracy.is_null()) line["accuracy"] = accuracy;
    const Json loss = mean_of(members, "loss");
    if (!loss.is_null()) {
      line["loss"] = loss;
      line["perplexity"] = std::exp(loss.get<double>());
      line["loss_difference"] = mean_of(members, "loss_difference");
      line["kl"] = mean_of(members, "kl");
      line["same_top1"] = mean_of(members, "same_top1");
    }
    const Json distances = means_of(members, "hidden_distance");
    if (!distances.is_null()) {
      line["hidden_distance"] = distances;
      line["hidden_cosine_distance"] = means_of(members, "hidden_cosine_distance");
      line["normed_distance"] = mean_of(members, "normed_distance");
      line["normed_cosine_distance"] = mean_of(members, "normed_cosine_distance");
    }
    summary.push_back(std::move(line));
  }
  return summary;
}

}  // namespace kvloupe
