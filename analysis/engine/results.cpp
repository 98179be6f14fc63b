// Results files of studies for other programs.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analysis/base/text/unknown.h"
#include "analysis/engine/calls.h"
#include "analysis/study/database.h"
#include "analysis/study/study_results.h"

/// The definition of the opaque type kvloupe_engine_results.
struct kvloupe_engine_results {
  kvloupe::StudyLock lock;
  kvloupe::StudyResults results;
};

namespace kvloupe {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(StudySource, name, identity, task)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(StudyItem, trace, policy, budget, block_word, block,
                                                compression)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(StudyPlan, sources, items)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(StudyPrompt, stored, expected, answer)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(StudyOutcome, item, problem, seconds, entries,
                                                at_once, prompt)

nlohmann::json engine::results_table(const std::string& path, bool heads) {
  using Json = nlohmann::json;
  StudyResults results(path);
  Json items = Json::array(), values = Json::array();
  std::string stored;
  long tokens = 0;
  for (const StudyResults::Item& one : results.items()) {
    Json row = {one.state,   nullptr,        one.task,        one.trace,   one.policy, one.budget,
                one.entries, one.block_word, one.compression, one.seconds, nullptr,    nullptr};
    if (const StudyPrompt prompt = results.prompt(one.number); !prompt.stored.empty()) {
      if (prompt.stored != stored) {  // items of one prompt follow each other
        const std::string ids = Json::parse(prompt.stored).at("ids");
        tokens = 1 + std::count(ids.begin(), ids.end(), ' ');
        stored = prompt.stored;
      }
      row[1] = tokens;
      row[10] = prompt.expected;
      row[11] = prompt.answer;
    }
    items.push_back(std::move(row));
  }
  const auto add = [&](int item, int measure, int layer, int head, double value) {
    values.push_back({item, layer, head, measure, value});
  };
  if (heads) {
    results.each_head_value(add);
  } else {
    results.each_replay_value(
        [&](int item, int measure, double value) { add(item, measure, -1, -1, value); });
  }
  return {{"settings", results.settings()},
          {"measures", results.measures()},
          {"items", items},
          {"values", values}};
}
}  // namespace kvloupe

using namespace kvloupe;          // NOLINT: the functions below have no namespace of their own
using namespace kvloupe::engine;  // NOLINT

int32_t kvloupe_engine_results_open(const char* path, const char* plan, int64_t bytes,
                                    kvloupe_engine_results** made, char* error) {
  return guarded(error, [&] {
    require(made, "results");
    *made = nullptr;
    require(path, "path");
    require(plan, "plan");
    require_count(bytes, "plan");
    const auto given = nlohmann::json::parse(plan, plan + bytes);
    *made = new kvloupe_engine_results{
        StudyLock(path), StudyResults(path, given.at("settings"), given.at("measures"), given)};
  });
}

int32_t kvloupe_engine_results_record(kvloupe_engine_results* results, const char* outcome,
                                      int64_t bytes, char* error) {
  return guarded(error, [&] {
    require(results, "results");
    require(outcome, "outcome");
    require_count(bytes, "outcome");
    const auto given = nlohmann::json::parse(outcome, outcome + bytes);
    auto made = given.get<StudyOutcome>();
    for (const auto& [measure, layer, value] :
         given.at("values").get<std::vector<std::tuple<int, int, nlohmann::json>>>()) {
      made.values.push_back(
          {measure, layer, -1, -1, value.is_null() ? kUnknown : value.get<double>()});
    }
    results->results.record(made);
  });
}

void kvloupe_engine_results_close(kvloupe_engine_results* results) { delete results; }
