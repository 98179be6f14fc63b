#include "app/trace_page/trace_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>

#include "analysis/base/core/error.h"
#include "analysis/policy/policy_files.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/typed_values.h"
#include "analysis/trace/given_tokens.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/sha256.h"
#include "app/document/document.h"
#include "app/plot/printable.h"
#include "app/request/command_line.h"
#include "app/scene/png_encoder.h"
#include "app/scene/svg_text.h"
#include "version.h"

namespace kvloupe::trace_page {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostAnswers = 500;
constexpr std::size_t kMostRows = 96;  // of attention: ends of blocks, and the answer's

/// Of the policy for scripts and styles: no other script on the page may run.
std::string hash_of(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  const std::string hex = hash.hex();
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return "'sha256-" + figure::base64(bytes) + "'";
}

std::string fingerprint_of(const std::filesystem::path& path, Progress& progress) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> part(std::size_t{1} << 20U);
  Sha256 hash;
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())) || file.gcount() > 0) {
    progress.check();
    hash.add(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  return "sha256:" + hash.hex();
}

template <typename List>
std::string texts_of(const List& list) {
  std::vector<std::string> texts;
  for (const auto& one : list) texts.push_back(one.text());
  return fmt::format("{}", fmt::join(texts, ","));
}

/// The command that makes the page again.
std::string command_of(const Trace& trace, const PageRequest& request) {
  std::string line = "kvloupe page " + request::shell_word(trace.path().string());
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) line += std::string(" ") + name + " " + request::shell_word(value);
  };
  std::set<std::string> plugins;
  for (const PolicySpec& policy : request.policies)
    for (std::string& plugin : policy_plugins(policy)) plugins.insert(std::move(plugin));
  for (const std::string& plugin : plugins) add("--plugin", plugin);
  add("--policies", texts_of(request.policies));
  add("--budgets", texts_of(request.budgets));
  add("--layers", request.layers);
  add("--heads", request.heads);
  if (request.block == kWholePrompt)
    add("--block", "all");
  else if (request.block != 0)
    add("--block", std::to_string(request.block));
  if (request.compression) add("--compression", compression_name(*request.compression));
  if (request.results != nullptr) add("--results", request.results->path.string());
  add("-o", request.output);
  return line;
}

std::string loop_text(const Trace& trace) {
  const std::string run = trace.run().closed_loop()
                              ? "a run with " + trace.run().policy + " in the model's cache"
                              : "one run with the full cache";
  return "Open loop: each policy acts on the states of " + run +
         ". Layer 0 is exact; in deeper layers a real run differs, because evictions above change "
         "the states that follow. Runs of the model with a policy in its cache show what it then "
         "answers.";
}

Json answers_of(const Evaluation& results) {
  Json runs = Json::array();
  for (const EvaluationRun& run : results.runs) {
    if (run.answer.empty() && run.expected.empty()) continue;
    if (runs.size() == kMostAnswers) break;
    Json correct;
    if (!std::isnan(run.correct)) correct = run.correct;
    runs.push_back({{"policy", run.policy},
                    {"budget", run.budget},
                    {"prompt", run.prompt},
                    {"expected", run.expected},
                    {"answer", run.answer},
                    {"correct", correct}});
  }
  return runs;
}

/// What the page says of the trace itself.
void add_trace(const Trace& trace, Json& about) {
  const TokenTable& table = trace.tokens();
  const GivenTokens given = given_tokens(trace);
  Json tokens = Json::array(), parts = Json::array();
  std::string before, answer;
  for (int t = 0; t < trace.length(); ++t) {
    const std::size_t i = static_cast<std::size_t>(t);
    tokens.push_back(table.text.empty() ? "#" + std::to_string(table.ids[i])
                                        : figure::printable(table.text[i]));
    const std::string part = part_name(trace, given, t);
    if (parts.empty() || part != before) parts.push_back({t, part});
    before = part;
    if (t >= trace.run().prompt_length && !table.text.empty()) answer += table.text[i];
  }
  about.update({{"tokens", std::move(tokens)},
                {"segments", std::move(parts)},
                {"prompt", trace.run().prompt_length},
                {"wrote", answer},
                {"model", trace.model().name}});
}

}  // namespace

PagePlan plan_page(const Trace& trace, const PageRequest& request) {
  const auto check_list = [](const char* what, const auto& list) {
    std::set<std::string> names;
    for (const auto& one : list)
      if (!names.insert(one.text()).second)
        throw UsageError("page: " + one.text() + " is named twice");
    if (names.empty()) throw UsageError(std::string("page: name at least one ") + what);
  };
  check_list("policy", request.policies);
  check_list("budget", request.budgets);
  for (const PolicySpec& policy : request.policies) check_combination(policy);
  const auto indices = [](const std::string& text, const char* what, int count) {
    return parse_index_list(text.empty() ? fmt::format("0-{}", count - 1) : text, what, count);
  };
  PagePlan plan;
  plan.blocks = replay_blocks(trace, request.block, request.compression);
  std::vector<int> layers;
  for (const int layer : indices(request.layers, "layer", trace.model().num_layers)) {
    for (const int head : indices(request.heads, "head", trace.most_heads()))
      if (trace.attends(layer) && head < trace.layer_model(layer).num_kv_heads)
        plan.heads.emplace_back(layer, head);
    if (!plan.heads.empty() && plan.heads.back().first == layer) layers.push_back(layer);
  }
  if (plan.heads.empty())
    throw UsageError("page: none of these layers and heads has a cache; see kvloupe info");
  std::set<int> rows;
  std::vector<int> ends;
  for (const Block& block : plan.blocks) ends.push_back(block.end - 1);
  const Asked asked = asked_first(trace.tokens(), trace.run());
  for (const auto& list : {ends, asked_queries(trace, asked, plan.blocks.front().end)}) {
    const std::size_t count = std::min(list.size(), kMostRows);  // evenly spaced, with the last
    for (std::size_t i = 1; i <= count; ++i) rows.insert(list[i * list.size() / count - 1]);
  }
  plan.rows.assign(rows.begin(), rows.end());
  // Measured on traces of real models: steps take about 0.1 + 0.3 per budget bytes a token when
  // deflated, keys 2, an entry of an attention row 2.5; in base64 a third more.
  const double steps = 0.1 + 0.3 * static_cast<double>(request.budgets.size());
  const double a_head =
      4.0 / 3.0 *
      (trace.length() * (2.0 + steps * static_cast<double>(request.policies.size())) +
       2.5 * kMostReads * static_cast<double>(rows.size()));
  plan.bytes = static_cast<std::size_t>(a_head * static_cast<double>(plan.heads.size())) + 80'000;
  if (plan.bytes <= kMostBytes) return plan;
  const std::size_t fit = layers.size() * kMostBytes / (plan.bytes + kMostBytes / 20);
  throw UsageError(fmt::format(
      "page: about {} MB, more than {}; choose fewer policies or budgets, or layers{}",
      plan.bytes / 1'000'000, kMostBytes / 1'000'000,
      fit > 0 ? fmt::format(", such as --layers {}-{}", layers.front(), layers[fit - 1]) : ""));
}

std::string make_page(const Trace& trace, const PageRequest& request, Progress& progress,
                      const Say& say) {
  const PagePlan plan = plan_page(trace, request);
  PageData data = page_data(trace, request, plan, progress, say);
  Json& about = data.about;
  add_trace(trace, about);
  Json policies = Json::array(), budgets = Json::array();
  for (const PolicySpec& policy : request.policies) policies.push_back(policy.text());
  for (const Budget& budget : request.budgets) budgets.push_back(budget.text());
  about.update({{"policies", policies},
                {"budgets", budgets},
                {"loop", loop_text(trace)},
                {"typed", {request.typed_policies, request.typed_budgets}}});
  if (request.results != nullptr) about["answers"] = answers_of(*request.results);
  const std::string name = trace.path().filename().string();
  const std::string model = stored_model_fingerprint(trace.path());
  about["made"] = Json::array({{"Trace", name + ", " + fingerprint_of(trace.path(), progress)},
                               {"Model", trace.model().name + (model.empty() ? "" : ", " + model)},
                               {"Captured", trace.created() + " by " + trace.generator()},
                               {"Policies", texts_of(request.policies)},
                               {"Budgets", texts_of(request.budgets)},
                               {"Made with", "kvloupe " KVLOUPE_VERSION},
                               {"Make it again", command_of(trace, request)}});
  // A data block of its own for each array: the script reads those that it shows first.
  std::string arrays;
  for (const auto& [section, bytes] : data.sections) {
    arrays += "<script type=\"application/octet-stream\" id=\"data-" + section + "\">" +
              figure::base64(bytes) + "</script>\n";
  }
  const std::string_view style = trace_page_style(), script = trace_page_script();
  return fmt::format(fmt::runtime(trace_page_frame()), fmt::arg("version", KVLOUPE_VERSION),
                     fmt::arg("title", figure::xml_text("Trace " + name)), fmt::arg("style", style),
                     fmt::arg("style_hash", hash_of(style)), fmt::arg("script", script),
                     fmt::arg("script_hash", hash_of(script)), fmt::arg("arrays", arrays),
                     fmt::arg("about", figure::document::embedded(about)));
}

}  // namespace kvloupe::trace_page
