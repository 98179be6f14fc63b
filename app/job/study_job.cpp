#include "app/job/study_job.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <system_error>
#include <tuple>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/system/prompt_file.h"
#include "analysis/base/text/typed_number.h"
#include "analysis/base/text/utf8.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/replay/typed_values.h"
#include "analysis/study/study.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/trace.h"
#include "app/job/assets.h"

namespace kvloupe::job {

namespace fs = std::filesystem;

namespace {

/// The parts of a text between commas that are not empty.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts = comma_list(text);
  std::erase(parts, "");
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

/// The prompts of a file or of a folder of texts; none where there are none.
std::vector<PromptPlace> prompts_in(const fs::path& path) {
  try {
    return find_prompts(path, path.string());
  } catch (const FileError&) {
    return {};
  }
}

std::string without_line_ends(const std::string& text) {
  return text.substr(0, text.find_last_not_of('\n') + 1);
}

/// The file of prompts: beside the results where a folder of texts was given.
std::string prompts_file(const StudyOptions& o) {
  std::error_code error;
  if (!fs::is_directory(o.prompts, error)) return o.prompts;
  return fs::path(o.results).replace_extension().string() + "-prompts.jsonl";
}

/// Files and patterns; a name with a comma in it is one.
std::vector<std::string> traces_of(const StudyOptions& o) {
  std::error_code error;
  if (fs::exists(o.traces, error)) return {o.traces};
  return parts_of(o.traces);
}

/// Whether a trace may stand beside another in a mean: of the same model in the same precision,
/// with the full cache.
bool is_alike(const Trace& a, const Trace& b) {
  if (a.run().closed_loop() || a.run().dtype != b.run().dtype) return false;
  const std::string of_a = stored_model_fingerprint(a.path());
  const std::string of_b = stored_model_fingerprint(b.path());
  if (!of_a.empty() && !of_b.empty()) return of_a == of_b;
  const auto shape = [](const ModelInfo& m) {
    return std::tie(m.name, m.architecture, m.num_layers, m.num_heads, m.num_kv_heads, m.head_dim,
                    m.hidden_size);
  };
  return shape(a.model()) == shape(b.model());
}

}  // namespace

std::string study_problem(const StudyOptions& o) {
  std::error_code error;
  if (!o.replays && !o.in_model) return "Choose what to measure: replays, answers, or both.";
  if (o.replays && o.traces.empty())
    return "Choose traces: a file, or a pattern such as traces/*.h5.";
  if (o.in_model) {
    if (o.model.empty()) return "Choose a model: a GGUF file, or a folder with config.json.";
    if (!holds_model(o.model))
      return o.model + ": is neither a GGUF file nor a folder with config.json; choose a model";
    if (o.prompts.empty()) return "Choose prompts with their answers.";
    if (!fs::is_regular_file(o.prompts, error) && prompts_in(o.prompts).empty())
      return o.prompts + ": no such file of prompts, and no folder of texts (*.txt)";
  }
  try {
    if (o.policies.empty()) return "Write policies, separated by commas.";
    (void)parse_policy_list(o.policies);
    const std::vector<std::string> budgets = parts_of(o.budgets);
    if (budgets.empty()) return "Write budgets, such as 10%, 25%, 50%.";
    for (const std::string& budget : budgets) (void)parse_entries_budget(budget);
  } catch (const UsageError& wrong) {
    return wrong.what();
  }
  const std::vector<std::string> blocks = parts_of(o.block);
  const auto is_block = [](const std::string& block) { return block_in(block, 1).has_value(); };
  if (o.block != "capture" &&
      (blocks.empty() || !std::all_of(blocks.begin(), blocks.end(), is_block)))
    return "blocks: write numbers of tokens or all, separated by commas, or only capture";
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
    if (o.chat) study["chat"] = true;
    study["tasks"] = nlohmann::ordered_json::array(
        {{{"task", "answer"},
          {"tokens", o.answer_tokens},
          {"prompts", nlohmann::ordered_json::array({from_folder_of(file, prompts_file(o))})}}});
    if (o.context_only) study["compression"] = compression_name(Compression::context_only);
  }
  if (o.replays) {
    for (const std::string& traces : traces_of(o))
      study["traces"].push_back(from_folder_of(file, traces));
    study["measures"] = default_measures();
  }
  for (const PolicySpec& policy : parse_policy_list(o.policies))
    study["policies"].push_back(policy.text());
  for (const std::string& budget : parts_of(o.budgets))
    study["budgets"].push_back(parse_budget(budget).text());
  for (const std::string& block : parts_of(o.block)) {
    if (block == "capture") continue;
    nlohmann::ordered_json value = block;
    if (block != "all") value = std::stoi(block);
    study["blocks"].push_back(value);
  }
  return study.dump(2) + "\n";
}

std::string study_size(const StudyOptions& o) {
  const auto counted = [](std::size_t count, const char* one, const char* many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
  };
  std::string size;
  if (o.replays) {
    std::set<std::string> traces;
    for (const std::string& pattern : traces_of(o)) {
      glob_t found = {};
      if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
        traces.insert(found.gl_pathv, found.gl_pathv + found.gl_pathc);
      globfree(&found);
    }
    if (traces.empty()) return o.traces + ": no trace there";
    size = counted(traces.size(), "trace", "traces");
  }
  if (o.in_model) {
    std::vector<PromptPlace> prompts;
    try {
      prompts = find_prompts(o.prompts, o.prompts);
    } catch (const FileError& wrong) {
      return wrong.what();
    }
    std::set<std::string> contexts;
    for (const PromptPlace& one : prompts) contexts.insert(context_of(one.name));
    const std::string count =
        contexts.size() == prompts.size()
            ? counted(prompts.size(), "prompt", "prompts")
            : fmt::format("{} about {}", counted(prompts.size(), "question", "questions"),
                          counted(contexts.size(), "context", "contexts"));
    size = size.empty() ? count : fmt::format("({} + {})", size, count);
  }
  const std::size_t blocks = parts_of(o.block).size();
  return fmt::format("{} × {} × {}{}", size,
                     counted(parse_policy_list(o.policies).size(), "policy", "policies"),
                     counted(parts_of(o.budgets).size(), "budget", "budgets"),
                     blocks > 1 ? fmt::format(" × {} blocks", blocks) : "");
}

std::vector<std::string> study_command(const StudyOptions& o, bool in_model,
                                       const std::string& program) {
  std::vector<std::string> words = {program, "study"};
  if (!in_model) words.emplace_back("run");
  words.insert(words.end(), {study_file(o), "--output", o.results, "--progress", "json"});
  return words;
}

std::string prompt_lines(const fs::path& folder) {
  std::string lines;
  for (const PromptPlace& place : prompts_in(folder)) {
    const fs::path& file = place.path;
    std::string text = content_of(file.string());
    if (escape_invalid_utf8(text) != text) throw WorkError(file.string() + ": is not UTF-8");
    std::erase(text, '\r');
    const Prompt prompt = parse_prompt(text);
    std::string context, question, answer;
    std::vector<std::string> needles;
    std::string* part = &context;
    for (std::size_t i = 0; i < prompt.segments.size(); ++i) {
      const auto& [begin, name] = prompt.segments[i];
      const bool last = i + 1 == prompt.segments.size();
      const std::string words = prompt.text.substr(
          begin, last ? std::string::npos : prompt.segments[i + 1].begin - begin);
      const bool asked = part == &question || part == &answer;
      if (asked && (name == "context" || name == "needle"))
        throw WorkError(file.string() + ": has a line @@" + name +
                        " behind its question; put it before");
      // What else stands behind a question ends it, such as a template's last words.
      part = name == "answer" ? &answer : name == "question" || asked ? &question : &context;
      *part += words;
      if (name == "needle") needles.push_back(without_line_ends(words));
    }
    std::vector<std::string> answers;
    std::istringstream right(answer);
    for (std::string line; std::getline(right, line);) {
      if (!line.empty()) answers.push_back(line);
    }
    if (answers.empty())
      throw WorkError(file.string() +
                      ": has no answer; write a line @@answer and the answer below");
    lines += nlohmann::ordered_json{{"id", file.filename().string()},
                                    {"context", without_line_ends(context)},
                                    {"question", without_line_ends(question)},
                                    {"needle", needles},
                                    {"answers", answers}}
                 .dump() +
             "\n";
  }
  return lines;
}

std::string traces_alike(const fs::path& path, Progress& progress) {
  constexpr std::size_t kMost = 500;
  const Trace trace(path);
  std::vector<fs::path> beside;
  std::error_code error;
  for (fs::directory_iterator at(path.parent_path(), error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == ".h5" && beside.size() < kMost) beside.push_back(at->path());
  }
  std::sort(beside.begin(), beside.end());
  std::string alike;
  bool all = path.extension() == ".h5" && !beside.empty();
  for (const fs::path& file : beside) {
    progress.check();
    bool fits = false;
    try {
      fits = is_alike(Trace(file), trace);
    } catch (const FileError&) {  // a broken file
    }
    if (fits) alike += (alike.empty() ? "" : ", ") + file.string();
    all = all && fits;
  }
  return all ? (path.parent_path() / "*.h5").string() : alike;
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
  const std::string file = study_file(o), text = study_text(o);
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) {
    write_whole_file(file, text);
  } else if (size != text.size() || content_of(file) != text) {
    throw WorkError(file + ": says another study already; give the results another name");
  }
  if (o.in_model && prompts_file(o) != o.prompts)
    write_whole_file(prompts_file(o), prompt_lines(o.prompts));
  StudyProgress state;
  state.parts = (o.replays ? 1 : 0) + (o.in_model ? 1 : 0);
  int part = 0, done = 0;
  std::string failed;  // replays that fail do not keep the runs from being made
  for (const bool in_model : {false, true}) {
    if (!(in_model ? o.in_model : o.replays)) continue;
    const int parts = state.parts;
    state = {};
    state.part = part++;
    state.parts = parts;
    state.began = std::chrono::steady_clock::now();
    try {
      run_own_program(
          study_command(o, in_model,
                        own_program(o.program, in_model ? "kvloupe-capture" : "kvloupe")),
          progress, [&](const std::string& line) {
            read_study_line(line, state);
            publish(state);
          });
    } catch (const WorkError& problem) {
      failed += (failed.empty() ? "" : "\n") + std::string(problem.what());
    }
    done += state.done;
  }
  if (!failed.empty()) throw WorkError(failed);
  state.done = done;
  return state;
}

}  // namespace kvloupe::job
