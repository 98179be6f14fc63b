#include "analysis/evaluation/study_runs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "analysis/read_file.h"
#include "analysis/study/study_measures.h"
#include "analysis/study/study_results.h"
#include "analysis/study/study_table.h"
#include "analysis/unknown.h"

namespace kvloupe {

namespace {
using StoredJson = nlohmann::json;

StoredJson parsed(const std::string& text) {
  return is_deep_json(text) ? StoredJson() : StoredJson::parse(text, nullptr, false);
}

/// "red or crimson": the right answers.
std::string answers_text(const std::string& expected) {
  std::string text;
  const StoredJson answers = parsed(expected);
  if (!answers.is_array()) return text;
  for (const StoredJson& answer : answers) {
    if (answer.is_string()) text += (text.empty() ? "" : " or ") + answer.get<std::string>();
  }
  return text;
}

/// How many ids the prompt has, which stand with blanks between them.
double tokens_in(const StoredJson& stored) {
  const StoredJson ids = stored.is_object() ? stored.value("ids", StoredJson()) : StoredJson();
  if (!ids.is_string() || ids.get_ref<const std::string&>().empty()) return kUnknown;
  const auto& text = ids.get_ref<const std::string&>();
  return 1.0 + static_cast<double>(std::count(text.begin(), text.end(), ' '));
}
}  // namespace

void add_study_runs(Evaluation& evaluation) {
  const StudyTable& study = *evaluation.study;
  StudyResults results(evaluation.path);
  evaluation.model = std::filesystem::path(results.setting("model")).filename().string();
  evaluation.compact = results.setting("positions") == "compact";
  for (std::size_t i = 0; i < study.items.size(); ++i) {
    const StudyResults::Item& item = study.items[i];
    EvaluationRun run;
    run.policy = item.policy;
    run.budget = item.budget;
    run.entries = item.entries;
    if (item.seconds > 0.0) run.seconds = item.seconds;
    const auto take = [&](double& number, const char* measure) {
      const int place = study.measure(measure);
      if (place >= 0) number = study.values[static_cast<std::size_t>(place)][i];
    };
    if (item.task == kNeedleTask) take(run.correct, "needle_found");
    if (item.task == kAnswerTask) take(run.correct, "answer_found");
    if (item.task == kPerplexityTask) {
      take(run.loss, "perplexity_loss");
      take(run.loss_difference, "perplexity_loss_difference");
      take(run.kl, "perplexity_kl");
      take(run.same_top1, "perplexity_same_top1");
    }
    if (item.task != kReplayTask && item.state == "done") {
      const StudyPrompt prompt = results.prompt(item.number);
      const StoredJson stored = parsed(prompt.stored);
      run.tokens = tokens_in(stored);
      run.length = run.tokens;
      run.expected = answers_text(prompt.expected);
      run.answer = prompt.answer;
      if (evaluation.fingerprint.empty() && stored.is_object()) {
        const StoredJson fingerprint = stored.value("fingerprint", StoredJson());
        if (fingerprint.is_string()) evaluation.fingerprint = fingerprint.get<std::string>();
      }
    }
    evaluation.runs.push_back(std::move(run));
  }
}

bool has_prompt(const EvaluationRun& run) { return std::isfinite(run.tokens); }

}  // namespace kvloupe
