#include "app/report/finding_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "analysis/base/text/text.h"
#include "analysis/trace/model_files.h"
#include "app/figure/figures/figure_catalog.h"
#include "version.h"

namespace kvloupe::report {

namespace document = figure::document;

namespace {

constexpr std::size_t kMostHeads = 12;
constexpr int kTokensAround = 200;

std::string number(double value, const char* form = "{:.3g}") {
  return std::isfinite(value) ? fmt::format(fmt::runtime(form), value) : "–";
}

Table table_of(const std::vector<FollowedHead>& heads) {
  Table table;
  table.columns = {"head",           ">question", ">answer", ">later", ">kept",
                   ">first lost at", ">loss",     ">change", ">logit"};
  for (std::size_t i = 0; i < std::min(kMostHeads, heads.size()); ++i) {
    const FollowedHead& one = heads[i];
    const TokenReads& reads = one.reads;
    table.add({fmt::format("{}.{}", reads.layer, reads.head), number(reads.question, "{:.3f}"),
               number(reads.answer, "{:.3f}"), number(reads.later, "{:.3f}"),
               number(one.fate.kept, "{:.3f}"),
               one.fate.first_loss < 0 ? "–" : fmt::format("step {}", one.fate.first_loss),
               number(one.loss, "{:.3f}"), number(one.restored.change),
               number(one.restored.effect)});
  }
  table.notes = {fmt::format(
      "The first {} of {} heads by falling {}. Question, answer, later: the attention that these "
      "queries give to the tokens with the full cache. Kept: the share of the tokens still in the "
      "cache at the end. Loss: attention read × share lost. Change, logit: what the head would add "
      "to the residual stream, and to the next token's logit, if the lost tokens were back.",
      table.rows.size(), heads.size(), blame_name(heads))};
  return table;
}

}  // namespace

document::Document finding_page(const window::FindingSource& source,
                                const request::FigureMaker& maker, const figure::TextMetrics& fonts,
                                Progress& progress) {
  const window::Finding found = window::finding(source);
  const Trace& trace = source.trace;
  const FollowedHead& head = source.heads.front();
  request::FigureSettings settings{.layer = head.reads.layer,
                                   .head = head.reads.head,
                                   .token = source.tokens.front(),
                                   .policy = parse_policy(source.policy),
                                   .budget = parse_budget(source.budget),
                                   .block = source.block,
                                   .compression = source.compression};
  const auto picture = [&](const char* name) {
    const figure::FigureInfo& info = figure::find_figure(name);
    document::PageFigure made =
        document::page_figure(info, maker.make(info, settings, progress), {}, fonts);
    made.title.clear();  // the section has one
    return made;
  };
  const std::string of_head = fmt::format("head {}.{}", head.reads.layer, head.reads.head);

  document::Document page;
  page.title = fmt::format("{} under {}, {} entries", window::tokens_in_words(source.tokens),
                           source.policy, source.entries);
  page.title.front() = static_cast<char>(std::toupper(page.title.front()));
  page.in_turn = false;
  page.lead = found.sentences();
  if (!trace.run().closed_loop()) {
    page.cautions = {
        "The policy was replayed on the states of a run with the full cache (an open loop): above "
        "layer 0 a replay does not know how earlier evictions change the states."};
  }
  if (head.fate.last_loss >= 0) settings.step = head.fate.last_loss;
  settings.tokens = {std::max(0, source.tokens.front() - kTokensAround),
                     std::min(trace.length() - 1, source.tokens.back() + kTokensAround)};
  page.sections.push_back({.title = "The text around them, coloured by what " + of_head + " keeps",
                           .figures = {picture("tokens")}});
  settings.step.reset();
  settings.tokens.reset();
  page.sections.push_back(
      {.title = "Step by step in " + of_head, .figures = {picture("filmstrip")}});
  settings.choices["tokens"] = ranges_text(source.tokens, "-", ",");
  page.sections.push_back({.title = "Every head", .figures = {picture("follow")}});
  page.sections.push_back({.title = "The first heads in numbers", .table = table_of(source.heads)});
  document::Section check{.title = "Check it", .commands = found.commands};
  check.facts = {{"trace", trace.path().filename().string()},
                 {"model", in_one_line(trace.model().name)},
                 {"model's fingerprint", stored_model_fingerprint(trace.path())},
                 {"policy", source.policy},
                 {"budget", source.budget},
                 {"version", "kvloupe " KVLOUPE_VERSION}};
  if (source.rescue != nullptr) {
    check.facts.insert(
        check.facts.end() - 1,
        {{"the full cache says", in_one_line(source.rescue->full_says)},
         {"with the policy the model says", in_one_line(source.rescue->policy_says)}});
  }
  std::erase_if(check.facts, [](const auto& fact) { return fact.second.empty(); });
  page.sections.push_back(std::move(check));
  return page;
}

}  // namespace kvloupe::report
