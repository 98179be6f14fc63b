// python: a function of a person's own file scores the entries.

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/allowed_python.h"
#include "analysis/policy/kit/python_process.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
struct FunctionName {
  std::string file, function;
};

/// "file.py:name"; the last colon counts.
FunctionName split(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  return colon == std::string::npos ? FunctionName{text, ""}
                                    : FunctionName{text.substr(0, colon), text.substr(colon + 1)};
}

std::optional<TextProblem> check(std::string_view text) {
  const auto [file, function] = split(std::string(text));
  const bool name = !function.empty() && std::all_of(function.begin(), function.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  });
  if (name && !file.empty()) return std::nullopt;
  return TextProblem{0, std::string(text), "write a file and a function: \"file.py:name\""};
}

/// One child process, started when the first step is scored: a policy may be made only to learn its
/// protection.
class PythonScore : public Score {
 public:
  PythonScore(const LayerContext& context, FunctionName what, double seconds)
      : model_(context.model),
        layer_(context.layer),
        scale_(context.attention.scale),
        progress_(context.progress),
        what_(std::move(what)),
        seconds_(seconds) {}

  bool needs_values() const override { return true; }
  void prepare(const StepView&, int budget) override { budget_ = budget; }

  std::vector<float> score(const StepView& view, int head) override {
    const std::lock_guard lock(one_call_);
    try {
      if (!process_ && !python_is_allowed(what_.file)) {
        throw FileError(
            what_.file,
            "is Python code and runs only if you allow it: start kvloupe with --plugin " +
                what_.file + ", or name it in a policy of the command line");
      }
      if (!process_) process_.emplace(what_.file, what_.function, seconds_, progress_);
      return scores_of(view, head);
    } catch (const FileError& error) {
      if (error.path != what_.file) throw;
      // Once more, with the place.
      const std::string why = std::string(error.what()).substr(what_.file.size() + 2);
      throw FileError(what_.file, what_.function + " at layer " + std::to_string(layer_) +
                                      ", head " + std::to_string(head) + ", step " +
                                      std::to_string(view.step) + ": " + why);
    }
  }

 private:
  std::vector<float> scores_of(const StepView& view, int head) {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    const std::size_t n = cache.tokens.size();
    const int group = model_.group_size();
    PythonMessage message{{{"layer", layer_},
                           {"layers", model_.num_layers},
                           {"head", head},
                           {"heads", model_.num_kv_heads},
                           {"query_heads", model_.num_heads},
                           {"number", view.step},
                           {"first_new", view.block.first},
                           {"end_new", view.block.end},
                           {"first_visible", view.first_token},
                           {"budget", budget_},
                           {"attention_scale", scale_},
                           {"n", n},
                           {"d", model_.head_dim},
                           {"value_dim", model_.value_width()}}};
    message.numbers.append(reinterpret_cast<const char*>(cache.tokens.data()),
                           n * sizeof(std::int32_t));
    message.add(cache.keys);
    message.add(cache.values);
    for (int i = 0; i < group; ++i)
      message.add(view.queries[static_cast<std::size_t>(head * group + i)]);
    const std::vector<float> result = process_->request(
        std::move(message), n,
        [&](const nlohmann::json& asked) { return attention(view, head, asked); });
    check_finite(view, head, result);
    return result;
  }

  /// The rows that the function asks for.
  PythonMessage attention(const StepView& view, int head, const nlohmann::json& asked) const {
    const int group = model_.group_size();
    const int query = asked.value("query", -1);
    const int count = asked.value("count", 0);
    if (query < 0 || query >= group || count < 1) {
      return {{{"problem", "attention: there are query heads 0 to " + std::to_string(group - 1) +
                               ", and at least 1 row"}}};
    }
    const MatrixView rows = view.attention->last_rows(head * group + query, count);
    PythonMessage message{{{"rows", rows.rows()}}};
    message.add(rows);
    return message;
  }

  /// Checks that the scores are finite if all inputs of the function are.
  void check_finite(const StepView& view, int head, const std::vector<float>& scores) const {
    const auto wrong = std::find_if(scores.begin(), scores.end(),
                                    [](float score) { return !std::isfinite(score); });
    if (wrong == scores.end()) return;
    const auto& tokens = view.caches[static_cast<std::size_t>(head)].tokens;
    throw FileError(what_.file,
                    "the score of token " +
                        std::to_string(tokens[static_cast<std::size_t>(wrong - scores.begin())]) +
                        " is not a finite number");
  }

  ModelInfo model_;
  int layer_;
  double scale_;
  const Progress* progress_;
  FunctionName what_;
  double seconds_;
  int budget_ = 0;
  std::mutex one_call_;
  std::optional<PythonProcess> process_;
};
}  // namespace

void python(PolicyEntry& entry) {
  entry.summary = "a function of your own Python file scores the entries, in a child process";
  entry.formula = "score = name(step), an array of n numbers; see docs/plugins.md";
  entry.source = "your own file; it runs with your rights";
  entry.needs = "token indices, keys, values, queries, the attention of a step";
  entry.work = "a call of your function";
  entry.parameters = {
      file_parameter("function", "a file and a function, in quotes: \"file.py:name\"", true),
      number_parameter("timeout", 60.0, 0.01, 86400, "the longest time of one call, in seconds")};
  entry.parameters.front().check = check;
  entry.builder = ScoreBuilder{[](const SpecPart& part, const LayerContext& context) {
                                 return std::make_unique<PythonScore>(
                                     context, split(part.word("function")), part.number("timeout"));
                               },
                               ScoreScale::signed_own};
}

}  // namespace kvloupe::policies
