// Task and outcome as bytes: the list of each one's fields as CBOR. One list serves writing and
// reading.

#include <nlohmann/json.hpp>
#include <tuple>

#include "analysis/error.h"
#include "analysis/study/study_work.h"

namespace kvloupe {

using nlohmann::json;

namespace {
auto fields_of(PromptPlace& place) {
  return std::tie(place.name, place.path, place.line, place.at);
}
auto fields_of(StudySource& source) {
  return std::tie(source.name, source.identity, source.task, source.prompt, source.length,
                  source.depth, source.sample, source.needles, source.seed, source.answer_tokens);
}
auto fields_of(StudyTask& task) {
  return std::tie(task.item, task.trace, task.identity, task.policy, task.source, task.model,
                  task.dtype, task.compact, task.probe, task.budget, task.largest_budget,
                  task.entries, task.block, task.compression, task.reduce, task.measures);
}
auto fields_of(StudyRole& role) {
  return std::tie(role.layer, role.head, role.query_head, role.role, role.value);
}
auto fields_of(StudyValue& value) {
  return std::tie(value.measure, value.layer, value.head, value.step, value.value);
}
auto fields_of(StudyPrompt& prompt) {
  return std::tie(prompt.stored, prompt.expected, prompt.answer);
}
auto fields_of(StudyOutcome& outcome) {
  return std::tie(outcome.item, outcome.problem, outcome.seconds, outcome.entries, outcome.at_once,
                  outcome.prompt, outcome.values, outcome.model, outcome.roles);
}

template <typename Value>
concept HasFields = requires(Value value) { fields_of(value); };
template <typename... Fields>
std::tuple<Fields...> values_of(const std::tuple<Fields&...>&);
}  // namespace

template <HasFields Value>
void to_json(json& list, Value value) {
  list = std::apply([](auto&... field) { return json{json(field)...}; }, fields_of(value));
}

template <HasFields Value>
void from_json(const json& list, Value& value) {
  fields_of(value) = list.get<decltype(values_of(fields_of(value)))>();
}

namespace {
template <typename Value>
std::string written(const Value& value) {
  std::string bytes;
  json::to_cbor(value, bytes);
  return bytes;
}

template <typename Value>
Value read_from(const std::string& bytes) try {
  return json::from_cbor(bytes).get<Value>();
} catch (const json::exception&) {
  throw WorkError("study: a message between processes is cut; start the study again");
}
}  // namespace

std::string to_bytes(const StudyTask& task) { return written(task); }
std::string to_bytes(const StudyOutcome& outcome) { return written(outcome); }
StudyTask task_of(const std::string& bytes) { return read_from<StudyTask>(bytes); }
StudyOutcome outcome_of(const std::string& bytes) { return read_from<StudyOutcome>(bytes); }

}  // namespace kvloupe
