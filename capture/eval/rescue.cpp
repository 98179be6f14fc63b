#include "capture/eval/rescue.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/user_files.h"
#include "analysis/base/text/text.h"
#include "analysis/policy/kit/policy.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/typed_values.h"
#include "analysis/study/answer_score.h"
#include "analysis/trace/loops.h"
#include "analysis/trace/model_files.h"
#include "capture/eval/rescue_search.h"
#include "capture/model/load_transformer.h"
#include "capture/run/capture_input.h"
#include "capture/run/compute.h"
#include "capture/run/model_description.h"

namespace kvloupe {

namespace {
using Part = RescueResults::Part;

/// The first of the tokens that the full cache says, until their text has the right answer: the
/// number that is asked for, or one of the answers.
std::vector<std::int32_t> up_to_answer(const RescueRequest& request, const RescuePrompt& prompt,
                                       const std::vector<std::int32_t>& said) {
  const auto is_right = [&](const std::vector<std::int32_t>& ids) {
    const std::string text = prompt.text_of(ids);
    return request.number ? first_number(text) == *request.number
                          : has_answer(text, request.answers);
  };
  if (!is_right(said)) {
    const std::string right =
        request.number ? *request.number : fmt::format("{}", fmt::join(request.answers, " or "));
    throw WorkError("the full cache says '" + prompt.text_of(said) + "', not " + right +
                    ": there is nothing to rescue");
  }
  std::vector<std::int32_t> begin;
  for (const std::int32_t id : said) {
    begin.push_back(id);
    if (is_right(begin)) break;
  }
  return begin;
}

RescueSettings settings_of(const RescueRequest& request, const RescuePrompt& prompt,
                           const ModelInfo& info, int budget, at::ScalarType type,
                           const RescueReport& report, Progress& progress) {
  RescueSettings settings;
  settings.model = info.name;
  settings.fingerprint = model_fingerprint(request.model.path, progress);
  const std::string note = other_model_note(request.trace.value_or(""), settings.fingerprint);
  if (!note.empty() && report.note) report.note(note);
  settings.policy = request.policy.text();
  settings.budget = budget;
  settings.block = request.block;
  settings.dtype = compute_type_name(type);
  settings.tokens = prompt.tokens;
  settings.prompt = prompt.name;
  settings.prompt_ids = prompt.ids;
  settings.expect = request.expect ? request.expect : request.number;
  if (request.no_loop) settings.expect = kNoLoop;
  if (!settings.expect) settings.answers = request.answers;
  settings.answer_tokens = request.answer_tokens;
  if (prompt.probe) settings.probe = prompt.probe->kind;
  return settings;
}

/// The settings with the runs of a file of the same settings.
RescueResults begin_or_go_on(const std::string& path, const RescueSettings& settings) {
  RescueResults results;
  static_cast<RescueSettings&>(results) = settings;
  std::optional<RescueResults> begun = begun_rescue(path);
  if (!begun) return results;
  if (static_cast<const RescueSettings&>(*begun) != settings)
    throw FileError(path, "holds runs of other settings; choose another name");
  results.runs = std::move(begun->runs);
  return results;
}

/// The right answer, and the answers of the full cache and the policy, with and without it.
void find_answers(const RescueRequest& request, const RescuePrompt& prompt, RescueRuns& runs,
                  const RescueReport& report, RescueResults& results) {
  const std::vector<std::int32_t> full_says = runs.record_full();
  results.expected_ids = prompt.expected;
  if (results.expected_ids.empty()) {
    const bool asked = !request.no_loop && (request.number || !request.answers.empty());
    results.expected_ids = asked ? up_to_answer(request, prompt, full_says) : full_says;
  }
  if (results.expected_ids.empty())
    throw WorkError("the full cache ends the text at once; nothing is lost");
  runs.expect(results.expected_ids);
  results.expected = prompt.text_of(results.expected_ids);
  results.reached = Part::expected;

  const RescueOutcome full = runs.outcome(kFullCache);
  results.full_right = full.right;
  results.full_logprob = full.logprob;
  results.full_says = prompt.text_of(full_says);
  results.reached = Part::full;
  if (!full.right) {
    write_rescue(results, request.output);
    if (request.no_loop)
      throw WorkError("the full cache's own text has a loop: there is nothing to rescue");
    throw WorkError("the full cache says '" + results.full_says + "', not '" + results.expected +
                    "': there is nothing to rescue");
  }
  const RescueOutcome policy = runs.outcome(results.policy);
  results.policy_right = policy.right;
  results.policy_logprob = policy.logprob;
  results.policy_says = prompt.text_of(runs.greedy(results.policy));
  results.reached = Part::policy;
  if (policy.right && report.note)
    report.note(fmt::format(
        "the answer “{}” ({} token{}) is right with the policy: nothing has to be rescued",
        in_one_line(results.expected, 80), results.expected_ids.size(),
        results.expected_ids.size() == 1 ? "" : "s"));
}

/// All that is known before the model is loaded.
struct Preparation {
  ModelConfig config;
  ModelInfo info;
  RescuePrompt prompt;
  at::Device device = at::kCPU;
  at::ScalarType type = at::kFloat;
  int threads = 0;
  RescueResults results;
};

Preparation prepare(const RescueRequest& request, Progress& progress, const RescueReport& report) {
  Preparation made;
  if (request.no_loop && request.answer_tokens < kLoopTokens) {
    throw UsageError(
        fmt::format("--expect {}: a loop takes {} tokens or more; give --answer-tokens "
                    "with so many, 128 for example",
                    kNoLoop, kLoopTokens));
  }
  made.config = read_model_config(request.model.path);
  made.info = describe_model(made.config, request.model.path);
  check_closed_loop(request.policy, true);
  check_combination(request.policy);
  made.prompt = read_rescue_prompt(request, made.config, report);
  const RescuePrompt& prompt = made.prompt;
  const int budget =
      budget_entries(request.budget, request.policy, layer_models(made.info, made.config),
                     prompt.length(), prompt.length() + request.answer_tokens);
  check_limits(request.policy, made.info, budget, prompt.length());
  check_limits(parse_policy(spec_keeping(request.policy, prompt.tokens)), made.info, budget,
               prompt.length());
  made.device = parse_device(request.device);
  made.type = parse_compute_type(request.dtype, made.device);
  made.threads = use_threads(request.threads, made.device, made.type);
  made.results = begin_or_go_on(
      request.output, settings_of(request, prompt, made.info, budget, made.type, report, progress));
  return made;
}

/// About what the results take with so many runs: their text with numbers of full length.
std::uint64_t bytes_with(const Preparation& made, const RescueRequest& request, int runs) {
  constexpr double kNumber = -0.12345678901234567;
  RescueResults results = made.results;
  const auto layers = static_cast<int>(made.info.num_layers);
  const auto heads = static_cast<int>(made.info.num_kv_heads);
  const std::string spec = spec_keeping(request.policy, made.prompt.tokens, {{layers - 1, 0}});
  for (int run = static_cast<int>(results.runs.size()); run < runs; ++run) {
    results.runs.emplace_back(spec + std::to_string(run), RescueOutcome{true, kNumber});
  }
  results.keep = results.drop = RescueSide::unknown(layers, heads);
  for (RescueSide* side : {&results.keep, &results.drop}) {
    for (std::vector<RescueEffect>* places : {&side->layers, &side->heads}) {
      for (RescueEffect& place : *places) place.logprob = place.gain = kNumber;
    }
  }
  for (const RescueEffect& head : results.keep.heads)
    results.predictions.push_back({head.at, kNumber, kNumber, kNumber, kNumber, kNumber});
  results.reached = Part::all;
  return rescue_text(results).size();
}
}  // namespace

RescueResults rescue(const RescueRequest& request, Progress& progress, const RescueReport& report) {
  const c10::InferenceMode no_gradients;
  Preparation made = prepare(request, progress, report);
  const ModelInfo& info = made.info;
  const RescuePrompt& prompt = made.prompt;
  RescueResults& results = made.results;
  RescueRuns runs(request, prompt, made.config, info, made.device, made.type, progress, report,
                  results);
  find_answers(request, prompt, runs, report, results);
  results.keep = results.drop =
      RescueSide::unknown(static_cast<int>(info.num_layers), static_cast<int>(info.num_kv_heads));
  const RescueBlame blame = predict_rescue(request, prompt, progress, results);
  results.reached = Part::predicted;
  search_rescue(runs, blame, {true, results.full_logprob},
                {results.policy_right, results.policy_logprob}, results);
  judge_blame(blame, results);
  results.reached = Part::all;
  write_rescue(results, request.output);
  return std::move(results);
}

RunsForecast forecast_rescue(const RescueRequest& request, Progress& progress,
                             const RescueReport& report) {
  const Preparation made = prepare(request, progress, report);
  const int most = most_rescue_runs(request, made.info);
  RunsForecast forecast;
  forecast.known = std::ssize(made.results.runs);
  forecast.missing = std::max(most - static_cast<int>(forecast.known), 0);
  forecast.bytes = bytes_with(made, request, most);
  forecast.free = free_space(std::filesystem::path(request.output).parent_path());
  forecast.dtype = compute_type_name(made.type);
  RunInfo full{.block_size = request.block,
               .prompt_length = made.prompt.length(),
               .generated = request.answer_tokens,
               .dtype = forecast.dtype,
               .device = made.device.str(),
               .threads = made.threads};
  RunInfo evicting = full;
  evicting.policy = request.policy.text();
  evicting.budget = made.results.budget;
  // The full cache reads the prompt once more than its runs are counted; so does the policy.
  set_time(foreseen_time(made.results.fingerprint, made.config,
                         {{full, 1}, {evicting, forecast.missing + 1}}),
           forecast);
  return forecast;
}

}  // namespace kvloupe
