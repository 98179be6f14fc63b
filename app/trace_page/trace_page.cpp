#include "app/trace_page/trace_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "analysis/error.h"
#include "analysis/policy/policy_files.h"
#include "analysis/replay/compression.h"
#include "analysis/trace/given_tokens.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/sha256.h"
#include "app/plot/printable.h"
#include "app/request/command_line.h"
#include "app/scene/png_encoder.h"
#include "app/scene/svg_text.h"
#include "app/trace_page/page_data.h"
#include "version.h"

namespace kvloupe::trace_page {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostAnswers = 500;

/// JSON inside a page, in ASCII: nothing in it can end the element it stands in.
std::string embedded(const Json& json) {
  std::string out;
  for (const char c : json.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    if (c == '<' || c == '>' || c == '&' || c == '\x7f') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

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

/// "0-3,7"
std::string index_list(const std::vector<int>& list) {
  std::string text;
  for (std::size_t i = 0; i < list.size();) {
    std::size_t end = i + 1;
    while (end < list.size() && list[end] == list[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(list[i]);
    if (end > i + 1) text += "-" + std::to_string(list[end - 1]);
    i = end;
  }
  return text;
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
  std::vector<std::string> plugins;
  for (const PolicySpec& policy : request.policies)
    for (const std::string& plugin : policy_plugins(policy))
      if (std::find(plugins.begin(), plugins.end(), plugin) == plugins.end())
        plugins.push_back(plugin);
  for (const std::string& plugin : plugins) add("--plugin", plugin);
  add("--policies", texts_of(request.policies));
  add("--budgets", texts_of(request.budgets));
  add("--layers", index_list(request.layers));
  add("--heads", index_list(request.heads));
  if (request.block != 0)
    add("--block", request.block == kWholePrompt ? "all" : std::to_string(request.block));
  if (request.compression) add("--compression", compression_name(*request.compression));
  add("--results", request.results_path);
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

/// Everything that the script does not fill in: headings, controls, and the places of pictures.
constexpr const char* kBody = R"~(<p class="note" id="loop"></p>
<div id="problems" role="note"></div>
<noscript><p class="problem">This page is drawn by its own script: allow scripts for it. It loads nothing.</p></noscript>
<form id="controls" aria-label="What is shown" hidden>
<label>Policy A <select id="a"></select></label>
<label>Policy B <select id="b"></select></label>
<label class="wide">Budget <input type="range" id="budget" min="0" step="1"><output id="budget-said" for="budget"></output></label>
<label class="wide">Step <input type="range" id="step" min="0" step="1"><output id="step-said" for="step"></output></label>
<label>Head <select id="head"></select></label>
<label>Search <input type="search" id="find" size="12"></label><button type="button" id="next">Next</button><output id="find-said"></output>
<label>Follow <input id="follow" size="12" placeholder="120-131" aria-describedby="follow-said"></label>
<label>Segment <select id="segment"></select></label>
</form>
<main hidden>
<div>
<section><h2 id="text-name">Text</h2> <span class="key fates" id="key"></span>
<div id="text" class="fates" tabindex="0" role="group" aria-labelledby="text-name" dir="auto"></div><p class="note" id="follow-said"></p></section>
<section><h2>Film strip</h2> <span class="faint" id="strip-said"></span><canvas id="strip" tabindex="0" role="img"></canvas>
<div id="strip-b-part" hidden><span class="faint">Policy B</span><canvas id="strip-b" tabindex="0" role="img"></canvas></div></section>
<section id="answers" hidden><h2>What the model answered</h2><div id="answers-list"></div></section>
</div>
<div>
<section><h2>Layers and heads</h2> <select id="measure" aria-label="Colour"></select>
<canvas id="grid" tabindex="0" role="img"></canvas><p class="note" id="grid-said"></p></section>
<section><h2>Why</h2><dl id="why" aria-live="polite"></dl></section>
<section><h2>Keys</h2> <span class="faint" id="keys-said"></span><canvas id="keys" tabindex="0" role="img"></canvas></section>
<section><h2>Attention</h2> <label class="faint">of query <select id="row"></select></label><ul class="reads" id="reads"></ul>
<p class="note">Mean over the query heads, with the full cache; struck through: gone under policy A when the query came. Queries: the last of each block, and the answer's. The 16 tokens read most, rounded to 8 bits.</p></section>
</div>
</main>
<footer><details><summary>How this page was made</summary><dl id="made"></dl></details>
<p>Point at a token, a head or a step to see it everywhere; click or Enter holds it, Esc lets go. Arrow keys move in the text and in each picture, with Shift by ten. The address names what is shown: copy it to share the view.</p></footer>
<div id="said" class="said" role="status"></div>
)~";

}  // namespace

PagePlan plan_page(const Trace& trace, const PageRequest& request) {
  if (request.policies.empty()) throw UsageError("page: name at least one policy");
  if (request.budgets.empty()) throw UsageError("page: name at least one budget");
  for (std::size_t i = 0; i < request.policies.size(); ++i) {
    check_combination(request.policies[i]);
    for (std::size_t j = 0; j < i; ++j)
      if (request.policies[i].text() == request.policies[j].text())
        throw UsageError("page: " + request.policies[i].text() + " is named twice");
  }
  for (std::size_t i = 0; i < request.budgets.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (request.budgets[i].text() == request.budgets[j].text())
        throw UsageError("page: budget " + request.budgets[i].text() + " is named twice");
  const std::vector<Block> blocks = replay_blocks(trace, request.block, request.compression);
  PagePlan plan;
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    if (!trace.attends(layer) ||
        (!request.layers.empty() &&
         std::find(request.layers.begin(), request.layers.end(), layer) == request.layers.end()))
      continue;
    for (int head = 0; head < trace.layer_model(layer).num_kv_heads; ++head) {
      if (!request.heads.empty() &&
          std::find(request.heads.begin(), request.heads.end(), head) == request.heads.end())
        continue;
      plan.heads.emplace_back(layer, head);
      if (plan.layers.empty() || plan.layers.back() != layer) plan.layers.push_back(layer);
    }
  }
  if (plan.heads.empty())
    throw UsageError("page: none of these layers and heads has a cache; see kvloupe info");
  // Measured on traces of real models: steps take about 0.1 + 0.3 per budget bytes a token when
  // deflated, keys 2; in base64 a third more.
  const double tokens = trace.length(), rows = static_cast<double>(read_rows(trace, blocks).size());
  const double one_head =
      tokens * (2.0 + static_cast<double>(request.policies.size()) *
                          (0.1 + 0.3 * static_cast<double>(request.budgets.size()))) +
      rows * kMostReads * 2.5;
  const auto bytes_of = [&](std::size_t heads) {
    return static_cast<std::size_t>(one_head * static_cast<double>(heads) * 4.0 / 3.0 +
                                    tokens * 12.0) +
           60'000;
  };
  plan.bytes = bytes_of(plan.heads.size());
  if (plan.bytes > kMostBytes) {
    const std::size_t a_layer = (plan.heads.size() + plan.layers.size() - 1) / plan.layers.size();
    std::size_t fit = plan.layers.size();
    while (fit > 0 && bytes_of(fit * a_layer) > kMostBytes) --fit;
    const std::vector<int> first(plan.layers.begin(),
                                 plan.layers.begin() + static_cast<std::ptrdiff_t>(fit));
    throw UsageError(fmt::format(
        "page: about {:.0f} MB, more than {:.0f}; {}", static_cast<double>(plan.bytes) / 1e6,
        static_cast<double>(kMostBytes) / 1e6,
        fit > 0
            ? fmt::format("choose layers, for example --layers {}, or fewer policies or budgets",
                          index_list(first))
            : "choose fewer policies or budgets, and one layer with --layers"));
  }
  return plan;
}

std::string make_page(const Trace& trace, const PageRequest& request, Progress& progress,
                      const std::function<void(const std::string&)>& say) {
  const PagePlan plan = plan_page(trace, request);
  PageData data = page_data(trace, request, plan, progress, say);
  Json& about = data.about;
  add_trace(trace, about);
  Json policies = Json::array(), budgets = Json::array();
  for (const PolicySpec& policy : request.policies) policies.push_back(policy.text());
  for (const Budget& budget : request.budgets) budgets.push_back(budget.text());
  about.update({{"policies", policies}, {"budgets", budgets}, {"loop", loop_text(trace)}});
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
  const std::string title = figure::xml_text("Trace " + name), style(trace_page_style()),
                    script(trace_page_script());
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; connect-src "
      "'none'; base-uri 'none'; form-action 'none'; style-src {}; script-src {}\">\n"
      "<meta name=\"generator\" content=\"kvloupe " KVLOUPE_VERSION
      "\">\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n"
      "<header><h1>{}</h1><button type=\"button\" id=\"theme\">Theme</button></header>\n{}",
      hash_of(style), hash_of(script), title, style, title, kBody);
  out += "<script type=\"application/json\" id=\"about\">" + embedded(about) + "</script>\n";
  for (const auto& [section, bytes] : data.sections) {
    out += "<script type=\"application/octet-stream\" id=\"data-" + section + "\">" +
           figure::base64(bytes) + "</script>\n";
  }
  return out + "<script>" + script + "</script>\n</body>\n</html>\n";
}

}  // namespace kvloupe::trace_page
