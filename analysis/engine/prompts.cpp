// Prompts, answers and tables of results for other programs, as JSON.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/system/prompt_file.h"
#include "analysis/engine/calls.h"
#include "analysis/policy/policy_files.h"
#include "analysis/study/answer_score.h"
#include "analysis/study/needle_template.h"
#include "analysis/study/prompt_set.h"
#include "analysis/trace/loops.h"
#include "analysis/trace/model_files.h"

namespace kvloupe {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NeedleTemplate, needle, question, words, lowest, highest, filler,
                                   answer_tokens)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PromptPlace, name, path, line, at, question)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PromptParts, segments, answers, rules, unread, doubt, questions)

namespace engine {
namespace {
using Json = nlohmann::json;

Json first_loop(const std::vector<std::int32_t>& ids) {
  const std::vector<Loop> spans = find_loops(ids, 0).spans;
  return spans.empty() ? Json() : Json(spans.front().first);
}

Json places(const std::string& path, const std::string& name) {
  PromptIdentities identities;  // reads each file once
  Json found = Json::array();
  for (const PromptPlace& place : find_prompts(path, name)) {
    found.push_back(place);
    found.back()["identity"] = identities.of(place);
  }
  return found;
}

Json parts_of_file(const std::string& path) {
  const Prompt prompt = parse_prompt(read_text(path));
  PromptParts parts;
  std::size_t end = prompt.text.size();
  for (auto one = prompt.segments.rbegin(); one != prompt.segments.rend(); end = (one++)->begin) {
    if (one->begin == end) continue;
    parts.segments.insert(parts.segments.begin(),
                          {one->name, prompt.text.substr(one->begin, end - one->begin)});
  }
  Json found = parts;
  found["notes"] = prompt.notes;
  return found;
}

Json answer(const std::string& function, const std::string& path, const Json& given) {
  const auto texts = [&] { return given.at(1).get<std::vector<std::string>>(); };
  const auto asked = [&] { return given.size() > 2 ? given.at(2).get<int>() : -1; };
  if (function == "first_number") return first_number(given);
  if (function == "has_answer") return has_answer(given.at(0).get<std::string>(), texts());
  if (function == "found_share") return found_share(given.at(0).get<std::string>(), texts());
  if (function == "rules_followed")
    return rules_followed(given.at(0).get<std::string>(),
                          given.at(1).get<std::vector<AnswerRule>>());
  if (function == "answer_f1") return answer_f1(given.at(0).get<std::string>(), texts());
  if (function == "first_loop") return first_loop(given);
  if (function == "fingerprint") {
    Progress progress;
    return model_fingerprint(path, progress);
  }
  if (function == "gguf_parts") return gguf_parts(path);
  if (function == "policy_files") return policy_files(parse_policy(given.get<std::string>()));
  if (function == "needle_template")
    return path.empty() ? general_needle_template() : needle_template_of(path, {}, {});
  if (function == "read_text") return read_text(path);
  if (function == "find_prompts") return places(path, given);
  if (function == "parse_prompt")
    return parse_prompt_line({"", path, given.at(0), 0, asked()}, given.at(1));
  if (function == "results_table") return results_table(path, given);
  if (function != "read_prompt") throw UsageError(function + ": is not a function");
  if (given.at(0) < 0) return parts_of_file(path);
  return read_prompt_line({"", path, given.at(0), given.at(1), asked()});
}
}  // namespace
}  // namespace engine
}  // namespace kvloupe

using namespace kvloupe::engine;  // NOLINT: the function has no namespace of its own

int32_t kvloupe_engine_ask(const char* function, const char* path, const char* given, int64_t bytes,
                           kvloupe_engine_text** made, char* error) {
  return created(made, "text", error, [&] {
    require(function, "function");
    require(given, "given");
    require_count(bytes, "given");
    const Json found =
        answer(function, path == nullptr ? "" : path, Json::parse(given, given + bytes));
    return std::unique_ptr<kvloupe_engine_text>(
        new kvloupe_engine_text{found.dump(-1, ' ', false, Json::error_handler_t::replace)});
  });
}
