// From a results file to the content of a report: the request, parts, commands.

#include "app/report/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/evaluation/evaluation.h"
#include "analysis/replay/measure/foretold_answers.h"
#include "analysis/study/foretell.h"
#include "analysis/study/study_measures.h"
#include "analysis/study/study_statistics.h"
#include "analysis/study/study_table.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/figure/figures/of_study.h"
#include "app/plot/ticks.h"
#include "app/report/study_facts.h"
#include "app/request/command_line.h"
#include "app/request/figure_service.h"
#include "version.h"

namespace kvloupe::report {

using figure::format_count;
using figure::format_counted;
using figure::format_number;
using figure::document::PageFigure;
using figure::document::paragraph;
using figure::document::Section;
using request::shell_word;

namespace {

constexpr std::size_t kMostNames = 8;   // of policies and budgets in a line
constexpr std::size_t kMostRows = 16;   // policies of a table
constexpr std::size_t kMostPanels = 8;  // policies of the figure certificate on these pages
constexpr std::size_t kTopHeads = 5;
constexpr std::size_t kMostForetelling = 4;  // measures of replays
/// The losses by head that found proofs best, the best first, as in `kvloupe follow`: the logit
/// that the head's loss takes, else its part of the residual stream's change.
constexpr const char* kHeadLosses[] = {"answer_logit_part", "answer_residual_part"};
constexpr std::size_t kLongestName = 60;  // bytes of a policy in a table

/// The known values' mean, with an interval if it is a share out of so many.
struct Known : MeanInterval {
  long count = 0;
};
Known known_mean(std::vector<double> values, bool share) {
  std::erase_if(values, [](double one) { return !std::isfinite(one); });
  return {counted_share(values, share), std::ssize(values)};
}

void require_fit(const StudyTable& study) {
  require_one_model(study.path);
  if (study.compared_policies == 0) {
    throw FileError(study.path.string(),
                    fmt::format("has no values yet ({} of {} items are done); let the study finish "
                                "some items first",
                                study.done(), study.items.size()));
  }
}

/// Puts a report together.
class Maker {
 public:
  Maker(const std::string& results, ReportRequest request, Progress& progress)
      : results_(results), request_(std::move(request)), progress_(progress) {
    if (!is_study_results(results)) throw FileError(results, not_results(results));
    evaluation_ = std::make_shared<const Evaluation>(read_evaluation(results));
  }

  Report make() {
    require_fit(study());
    choose();
    facts_ = study_facts(study(), table_, progress_);
    name_report();
    recommend();
    add_facts();
    add_curves();
    if (advice_) add_promises();
    add_foretelling();
    add_heads();
    add_commands();
    constexpr std::size_t kOnFirstPage = 2;  // what was studied, and the curves
    report_.sections[kOnFirstPage].new_page = true;
    return std::move(report_);
  }

 private:
  const StudyTable& study() const { return *evaluation_->study; }
  AdviceRequest& asked() { return request_.advice; }
  const AdviceRequest& asked() const { return request_.advice; }

  /// Loss, limit and block, and the bounds where there is a limit.
  void choose() {
    asked().together = true;
    const bool own_measure = asked().measure.empty();
    const FirstMeasure first = own_measure ? first_measure(study()) : FirstMeasure{};
    if (own_measure) asked().measure = first.name;
    const int measure = study().measure(asked().measure);
    if (measure < 0 || blocks_of(study(), measure).empty()) {
      throw UsageError(fmt::format("report: the study has no values of {}; it has {}",
                                   in_one_line(asked().measure),
                                   fmt::join(in_lines(study().measures), ", ")));
    }
    measure_ = figure::described(asked().measure);
    choose_block(blocks_of(study(), measure));
    table_ = measure_table(study(), measure, block_);
    if (own_measure) {
      report_.cautions.push_back(fmt::format(
          "The loss was not chosen: the report takes {}. {} --loss names another one{}.",
          in_one_line(asked().measure), first.why, other_measures()));
    }
    const bool has_limit = asked().at_most > 0.0;
    const bool bounded = measure_.better != Better::neither &&
                         (measure_.share || measure_.better == Better::smaller);
    const bool promises = (bounded || !own_measure) && (measure_.share || has_limit);
    if (!has_limit) asked().at_most = kUsualLimit;
    if (!has_limit && promises) {
      report_.cautions.push_back(fmt::format(
          "The limit was not chosen: the report takes {:g}. --at-most names the loss that you can "
          "accept.",
          kUsualLimit));
    }
    try {
      advice_ = advise(study(), asked());
      no_promise_ = "give --at-most as well, the loss that you can accept";
    } catch (const UsageError& error) {
      constexpr std::string_view kPrefix = "advise: ";
      no_promise_ = error.what();
      if (no_promise_.starts_with(kPrefix)) no_promise_.erase(0, kPrefix.size());
      if (promises) throw UsageError("report: " + no_promise_);
    }
    if (!promises) advice_.reset();
  }

  void choose_block(const std::vector<std::string>& blocks) {
    block_ = block_of(study(), study().measure(asked().measure), asked().block);
    if (asked().block.empty() && blocks.size() > 1) {
      report_.cautions.push_back(
          fmt::format("The study has several block sizes ({}); this report shows the first. "
                      "--block gives another one.",
                      short_list(in_lines(blocks), kMostNames)));
    }
  }

  std::string other_measures() const {
    std::vector<std::string> names;
    for (const std::string& name : measures_in_order(study())) {
      if (name != asked().measure && figure::described(name).share &&
          compares_policies(study(), static_cast<std::size_t>(study().measure(name))))
        names.push_back(in_one_line(name));
    }
    return names.empty() ? "" : ", such as " + short_list(names, 3);
  }

  static std::vector<std::string> in_lines(const std::vector<std::string>& names) {
    std::vector<std::string> lines;
    for (const std::string& name : names) lines.push_back(in_one_line(name, kLongestName));
    return lines;
  }

  std::string prompts_in_words() const {
    if (facts_.lengths.empty()) return facts_.prompts;
    return facts_.prompts + "; " + facts_.lengths;
  }

  void name_report() {
    const auto policies = static_cast<long>(table_.policies.size());
    report_.title = fmt::format("Which policy, and which budget? {} on {}",
                                policies == 1 ? in_one_line(table_.policies.front(), kLongestName)
                                              : format_count(policies) + " policies",
                                figure::prompts_text(table_, std::ssize(table_.prompts)));
    report_.summary =
        fmt::format("A study of KV-cache eviction. Results: {}. Model: {}.",
                    in_one_line(std::filesystem::path(results_).filename().string()), facts_.model);
    report_.foot = fmt::format("{} · kvloupe {}",
                               in_one_line(std::filesystem::path(results_).filename().string()),
                               KVLOUPE_VERSION);
    report_.metadata = {{"report", report_.foot}};
    report_.script = false;
  }

  // --- the recommendation

  void recommend() {
    const bool replays = measure_.task == kReplayTask;
    if (advice_) {
      report_.lead = recommendation_of(*advice_, asked(), prompts_in_words(), replays);
    } else {
      recommend_nothing(replays);
    }
    if (study().done() < std::ssize(study().items)) {
      report_.cautions.push_back("The study is not finished: " + facts_.progress +
                                 ". Let it finish before you decide.");
    }
    if (!advice_) return;
    add_full_cache_caution();
    if (std::string left_out = left_out_text(*advice_); !left_out.empty())
      report_.cautions.push_back(std::move(left_out));
    for (const PolicyAdvice& one : advice_->policies) {
      for (const int rise : one.rises) {
        const auto b = static_cast<std::size_t>(rise);
        rises_.push_back(fmt::format("{} from {} to {}", in_one_line(one.policy, kLongestName),
                                     in_one_line(one.budgets[b - 1].budget),
                                     in_one_line(one.budgets[b].budget)));
      }
    }
    if (!rises_.empty()) {
      report_.cautions.push_back(fmt::format(
          "The mean loss rises with the budget: {}. Either the difference is chance, or the policy "
          "does not use the entries well.",
          short_list(rises_, 3)));
    }
  }

  /// Curves alone: there is no limit, or the measure has no direction.
  void recommend_nothing(bool replays) {
    report_.lead.push_back("This report recommends no budget: " + no_promise_ + ".");
    if (const auto best = best_mean(); !best.empty()) report_.lead.push_back(best);
    report_.lead.push_back(fmt::format(
        "All numbers are for prompts drawn like these ({}), for this model{}, and not for other "
        "tasks, longer prompts or other models{}.",
        prompts_in_words(), table_.block == "capture" ? "" : " and " + block_words(table_.block),
        replays
            ? "; they are of replays of a run with the full cache, not of the model's own answers"
            : ""));
  }

  /// A policy and a budget of a table, by their places.
  struct Setting {
    std::size_t policy = 0, budget = 0;
    Known mean;
  };
  /// Those with the best mean, several where they tie; none where the measure has no direction, or
  /// no value is known.
  std::vector<Setting> best_settings() const {
    std::vector<Setting> best;
    if (measure_.better == Better::neither) return best;
    const double sign = measure_.better == Better::larger ? 1.0 : -1.0;
    for (std::size_t p = 0; p < table_.policies.size(); ++p) {
      for (std::size_t b = 0; b < table_.budgets.size(); ++b) {
        const Known mean = known_mean(table_.row(p, b), measure_.share);
        if (mean.count == 0) continue;
        const double more = best.empty() ? 1.0 : sign * (mean.mean - best.front().mean.mean);
        if (more > 0.0) best.clear();
        if (more >= 0.0) best.push_back({p, b, mean});
      }
    }
    return best;
  }

  std::string best_mean() const {
    const std::vector<Setting> best = best_settings();
    if (best.empty()) return {};
    std::vector<std::string> names;
    for (const Setting& one : best)
      names.push_back(fmt::format("{} at {}", in_one_line(table_.policies[one.policy], 200),
                                  figure::budget_text(in_one_line(table_.budgets[one.budget]))));
    const Known& mean = best.front().mean;
    return fmt::format("The {} mean of {} is {}, on {}, with {}{}.",
                       measure_.better == Better::larger ? "largest" : "smallest",
                       in_one_line(asked().measure), with_interval(mean),
                       figure::prompts_text(table_, mean.count), short_list(names, 3),
                       best.size() > 1 ? ", which tie" : "");
  }

  void add_full_cache_caution() {
    if (asked().over_full || advice_->loss.find("full cache") != std::string::npos) return;
    std::vector<double> losses = table_.full;
    if (measure_.better == Better::larger)
      for (double& one : losses) one = 1.0 - one;
    const Known full = known_mean(std::move(losses), measure_.share);
    if (full.count == 0) return;
    full_loss_ = full;
    if (full.mean < 0.5 * asked().at_most) return;
    report_.cautions.push_back(fmt::format(
        "The full cache itself has a mean loss of {} on {}{}. --over-full counts "
        "only what a prompt loses beside the full cache.",
        with_interval(full), figure::prompts_text(table_, full.count),
        full.mean >= asked().at_most - 1e-9 ? ", so no policy that does as well can stay within "
                                              "the limit"
                                            : ""));
  }

  // --- parts

  void add_facts() {
    Section part{.title = "What was studied"};
    part.facts.emplace_back("Model", facts_.model);
    part.facts.emplace_back("Prompts", prompts_in_words());
    part.facts.emplace_back("How", facts_.work);
    part.facts.emplace_back("Policies",
                            fmt::format("{}: {}", table_.policies.size(),
                                        short_list(in_lines(table_.policies), kMostNames)));
    part.facts.emplace_back("Budgets", budget_words());
    part.facts.emplace_back(
        "Measure",
        fmt::format("{} ({}): {}", in_one_line(asked().measure), in_one_line(measure_.title),
                    measure_.formula.empty() ? "a measure that this version does not know"
                                             : measure_.formula));
    part.facts.emplace_back("Progress", facts_.progress);
    report_.sections.push_back(std::move(part));
  }

  std::string budget_words() const {
    std::string text = short_list(in_lines(table_.budgets), kMostNames);
    double least = 0.0, most = 0.0;
    for (const double entries : table_.entries) {
      if (!std::isfinite(entries)) continue;
      least = least == 0.0 ? entries : std::min(least, entries);
      most = std::max(most, entries);
    }
    const bool shares = std::any_of(table_.budgets.begin(), table_.budgets.end(),
                                    [](const auto& budget) { return budget.ends_with('%'); });
    if (shares) text += " of the prompt";
    if (most > 0.0)
      text += fmt::format(" ({} to {} entries per head on average)",
                          format_count(std::lround(least)), format_count(std::lround(most)));
    return text;
  }

  void add_curves() {
    Section part{.title = in_one_line(measure_.title) + " by budget"};
    figure::Choices choices = loss_choices();
    if (advice_) {
      part.text.push_back(paragraph(
          fmt::format("{} The recommendation counts a loss: {}.",
                      measure_.better == Better::larger ? "More is better." : "Less is better.",
                      advice_->loss)));
    } else if (measure_.better != Better::neither) {
      part.text.push_back(
          paragraph(measure_.better == Better::larger ? "More is better." : "Less is better."));
    }
    add_figure(part, "study-budget", std::move(choices), "curves");
    report_.sections.push_back(std::move(part));
  }

  figure::Choices loss_choices() const {
    figure::Choices choices{{"measure", asked().measure}};
    if (!asked().block.empty()) choices["block"] = asked().block;
    return choices;
  }

  /// The figure, or the reason why it is missing; the command that repeats it.
  void add_figure(Section& part, const std::string& name, figure::Choices choices,
                  const std::string& file, bool drawn = true) {
    progress_.check();
    const figure::FigureInfo& info = figure::find_figure(name);
    std::string command = fmt::format("kvloupe export {} --figure {}", shell_word(results_), name);
    for (const auto& [choice, value] : choices)
      command += " --set " + shell_word(choice + "=" + value);
    commands_.push_back(command + " -o " + file + ".pdf");
    if (!drawn) return;
    request::FigureSettings settings;
    settings.choices = std::move(choices);
    try {
      PageFigure figure{.info = &info};
      figure.made = request::FigureMaker(evaluation_).make(info, settings, progress_);
      figure.caption = figure.made.figure->caption();
      part.figures.push_back(std::move(figure));
    } catch (const WorkError& error) {
      part.text.push_back(
          paragraph(std::string("There is no figure: ") + in_one_line(error.what(), 400)));
    }
  }

  void add_promises() {
    Section part{.title = "Which budget can be promised"};
    part.text.push_back(paragraph(fmt::format(
        "For each policy the smallest budget from which on the bound of the expected loss ({}) is "
        "at most {:g}. The promises of all policies hold together with a probability of at least "
        "{:g} %, so a reader may choose among the policies by this table.",
        advice_->loss, asked().at_most, 100.0 * (1.0 - asked().risk))));
    figure::Choices choices = loss_choices();
    choices["at-most"] = fmt::format("{:.12g}", asked().at_most);
    choices["risk"] = fmt::format("{:.12g}", 100.0 * asked().risk);
    choices["together"] = "yes";
    if (asked().largest > 0.0) choices["largest"] = fmt::format("{:.12g}", asked().largest);
    if (asked().over_full) choices["beside"] = "full";
    const bool drawn = advice_->policies.size() <= kMostPanels;
    if (!drawn)
      part.text.push_back(
          paragraph(fmt::format("A figure of {} policies has no room here; the command is below.",
                                advice_->policies.size())));
    add_figure(part, "certificate", std::move(choices), "certificate", drawn);
    part.table = promise_table();
    report_.sections.push_back(std::move(part));
  }

  std::string prompts_of(const PolicyAdvice& one) const {
    return one.prompts < advice_->studied ? fmt::format("{} of {}", one.prompts, advice_->studied)
                                          : std::to_string(one.prompts);
  }

  Table promise_table() const {
    Table table{.columns = {"policy", ">smallest budget", ">entries", ">mean loss [95 %]", ">bound",
                            ">prompts"}};
    std::vector<std::size_t> order(advice_->policies.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // As the recommendation ranks them; then those without a budget, the closest first.
    const auto key = [&](std::size_t i) {
      const PolicyAdvice& one = advice_->policies[i];
      const bool none = one.promised < 0;
      return std::tuple(none, none ? 0.0 : one.shown().entries, one.shown().bound);
    };
    std::erase_if(order, [&](std::size_t i) { return advice_->policies[i].budgets.empty(); });
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    bool any_none = false;
    for (const std::size_t i : order) {
      if (table.rows.size() == kMostRows) break;
      const PolicyAdvice& one = advice_->policies[i];
      const bool none = one.promised < 0;
      any_none |= none;
      const BudgetRisk& at = one.shown();
      table.add({in_one_line(one.policy, kLongestName), none ? "none" : in_one_line(at.budget),
                 fmt::format("{:.0f}", at.entries), with_interval({at.mean, at.low, at.high}),
                 fmt::format("{:.3g}", at.bound), prompts_of(one)});
    }
    if (order.size() > table.rows.size())
      table.notes.push_back(fmt::format("{} more policies: the command advise shows all.",
                                        order.size() - table.rows.size()));
    if (any_none)
      table.notes.emplace_back(
          "none: not with these prompts and budgets; the row's numbers are those "
          "of the largest budget.");
    if (full_loss_)
      table.notes.push_back("Mean loss of the full cache: " + with_interval(*full_loss_) + ".");
    return table;
  }

  /// How well the replays foretold these very answers, where the study has both.
  void add_foretelling() {
    std::vector<std::string> runs = measures_in_order(study());
    std::erase_if(runs, [](const auto& one) { return figure::described(one).task == kReplayTask; });
    if (runs.empty() || !facts_.has_replays) return;
    const std::string outcome = measure_.task != kReplayTask ? asked().measure : runs.front();
    Table table{.columns = {"measure of the replays", ">rank correlation [95 %]",
                            ">pairs in order [95 %]"}};
    try {
      for (const Foretelling& row : foretell(study(), outcome)) {
        if (table.rows.size() == kMostForetelling || !std::isfinite(row.settings.value)) break;
        const auto cell = [](const Foretold& one) {
          return fmt::format("{:.2f} [{:.2f}, {:.2f}]", one.value, one.low, one.high);
        };
        table.add({row.measure, cell(row.settings), cell(row.pairs)});
        table.notes = {
            fmt::format("Beside {}, on {} prompts that the full cache answers, over {} policies "
                        "and budgets. Rank "
                        "correlation (Spearman’s ρ, of means over the prompts): 1 foretells, 0 is "
                        "chance, and an "
                        "interval with 0 tells nothing. Pairs of runs: 1 foretells, 0.5 is chance.",
                        in_one_line(outcome), row.prompts, row.settings_count)};
      }
    } catch (const UsageError&) {
      return;  // the replays are of other prompts
    }
    if (!table.rows.empty())
      report_.sections.push_back(
          {.title = "How well the replays foretold these runs", .table = std::move(table)});
  }

  // --- heads

  /// The measure by head that found proofs best, and why it was taken; none: no name.
  FirstMeasure head_measure() const {
    std::vector<std::string> names(std::begin(kHeadLosses), std::end(kHeadLosses));
    for (std::string& name : measures_in_order(study())) names.push_back(std::move(name));
    for (std::size_t i = 0; i < names.size(); ++i) {
      const int m = study().measure(names[i]);
      if (m < 0 || study().by_head[static_cast<std::size_t>(m)] == 0 ||
          !compares_policies(study(), static_cast<std::size_t>(m)) || !of_heads(names[i]))
        continue;
      std::string why =
          ", as in kvloupe follow: of a replay's numbers, this kind found the heads "
          "behind wrong answers best (docs/follow.md).";
      if (i >= std::size(kHeadLosses))
        why = ", because the study lacks answer_residual_part. " + foretold_text(names[i]);
      return {names[i], fmt::format("Heads are ranked by {}{}", in_one_line(names[i]), why)};
    }
    return {};
  }

  /// Some measures have values of layers only.
  bool of_heads(const std::string& name) const {
    const MeasureTable table = first_table(name);
    if (table.policies.empty()) return false;
    const HeadMeasureTable heads = head_table(study(), table, 0, 0);
    return !heads.heads.empty() && heads.heads.front().head >= 0;
  }

  MeasureTable first_table(const std::string& name) const {
    const int measure = study().measure(name);
    const std::vector<std::string> blocks = blocks_of(study(), measure);
    const std::string& wanted = table_.block;
    const bool same = std::find(blocks.begin(), blocks.end(), wanted) != blocks.end();
    return measure_table(study(), measure, same ? wanted : blocks.front());
  }

  void add_heads() {
    Section part{.title = "Heads that matter"};
    const FirstMeasure chosen = head_measure();
    if (chosen.name.empty()) {
      part.text.push_back(paragraph(
          "These results have no loss of each head. A study of replays keeps them with \"reduce\": "
          "\"steps\" and a measure by head, such as answer_residual_part."));
      report_.sections.push_back(std::move(part));
      return;
    }
    const StudyMeasure measure = figure::described(chosen.name);
    const MeasureTable table = first_table(chosen.name);
    const auto [policy, budget] = setting_for_heads(table);
    const HeadMeasureTable heads = head_table(study(), table, policy, budget);
    part.text.push_back(paragraph(chosen.why +
                                  " A head that loses much need not be one that breaks an answer: "
                                  "kvloupe-capture rescue tests that in the model."));
    part.table = head_rows(table, heads, measure);
    part.table->notes.insert(
        part.table->notes.begin(),
        fmt::format("{}, {}, {}; [95 %]: Student's interval over the prompts. Heads are named "
                    "layer.head, from 0.",
                    in_one_line(table.policies[policy], kLongestName),
                    figure::budget_text(in_one_line(table.budgets[budget])),
                    figure::prompts_text(table, static_cast<long>(table.prompts.size()))));
    figure::Choices choices{{"policy", table.policies[policy]}, {"budget", table.budgets[budget]}};
    if (!asked().block.empty() && table.block == asked().block) choices["block"] = table.block;
    if (const std::string other = other_head_measure(chosen.name); !other.empty()) {
      choices["x"] = other;
      choices["y"] = chosen.name;
      add_figure(part, "head-scatter", std::move(choices), "heads");
    } else {
      choices["measure"] = chosen.name;
      choices["prompts"] = "mean";
      add_figure(part, "study-heads", std::move(choices), "heads");
    }
    report_.sections.push_back(std::move(part));
  }

  /// Another measure of the same heads, for the figure's x axis; empty: none.
  std::string other_head_measure(const std::string& chosen) const {
    const std::string task = figure::described(chosen).task;
    std::vector<std::string> names;
    for (const std::string& name : figure::measures_by_head(study()))
      if (name != chosen && figure::described(name).task == task && of_heads(name))
        names.push_back(name);
    for (const char* usual : {"retained_mass", "answer_kept_attention", "role_sink"}) {
      if (std::find(names.begin(), names.end(), usual) != names.end()) return usual;
    }
    return names.empty() ? "" : names.front();
  }

  /// The recommended policy and budget, or the nearest to it, where these heads have them; else the
  /// first.
  std::pair<std::size_t, std::size_t> setting_for_heads(const MeasureTable& table) const {
    std::string policy, budget;
    int chosen = advice_ ? recommended_policy(*advice_) : -1;
    if (advice_ && chosen < 0) chosen = closest_policy(*advice_);
    if (chosen >= 0) {
      policy = advice_->policies[static_cast<std::size_t>(chosen)].policy;
      budget = advice_->policies[static_cast<std::size_t>(chosen)].shown().budget;
    } else if (const auto settings = best_settings(); !settings.empty()) {
      policy = table_.policies[settings.front().policy];
      budget = table_.budgets[settings.front().budget];
    }
    const auto place = [](const std::vector<std::string>& names, const std::string& name) {
      const auto found = std::find(names.begin(), names.end(), name);
      return found == names.end() ? 0 : static_cast<std::size_t>(found - names.begin());
    };
    return {place(table.policies, policy), place(table.budgets, budget)};
  }

  static Table head_rows(const MeasureTable& table, const HeadMeasureTable& heads,
                         const StudyMeasure& measure) {
    struct Row {
      HeadMeasureTable::Head head;
      StudentMean mean;
    };
    std::vector<Row> rows;
    const std::size_t prompts = table.prompts.size();
    for (std::size_t h = 0; h < heads.heads.size(); ++h) {
      const StudentMean mean =
          student_mean(std::span<const double>(heads.values).subspan(h * prompts, prompts));
      if (mean.count > 0) rows.push_back({heads.heads[h], mean});
    }
    const bool smaller = measure.better == Better::smaller;
    std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
      return smaller ? a.mean.mean > b.mean.mean : a.mean.mean < b.mean.mean;
    });
    Table result{.columns = {"head", ">mean [95 %]"}};
    for (std::size_t i = 0; i < std::min(kTopHeads, rows.size()); ++i) {
      const Row& row = rows[i];
      result.add({fmt::format("{}.{}", row.head.layer, row.head.head),
                  row.mean.count > 1
                      ? fmt::format("{} [{}, {}]", format_number(row.mean.mean),
                                    format_number(row.mean.low), format_number(row.mean.high))
                      : format_number(row.mean.mean)});
    }
    if (!rows.empty()) {
      const std::size_t middle = rows.size() / 2;  // from the smallest
      const Row& median = rows[smaller ? rows.size() - 1 - middle : middle];
      result.notes.push_back(
          fmt::format("The worst {} of {}; the median head has {}.", result.rows.size(),
                      format_counted(std::ssize(rows), "head"), format_number(median.mean.mean)));
    }
    return result;
  }

  // --- commands

  void add_commands() {
    Section part{.title = "How to repeat it"};
    const std::string results = shell_word(results_);
    const std::string file =
        facts_.study_file.empty() ? "STUDY.json" : shell_word(facts_.study_file);
    if (facts_.study_file.empty()) {
      part.text.push_back(paragraph(
          "Write your study file for STUDY.json: no file beside the results, or where they were "
          "written, is of this study."));
    }
    if (facts_.has_replays)
      part.commands.push_back(fmt::format("kvloupe study run {} -o {}", file, results));
    if (facts_.has_runs)
      part.commands.push_back(fmt::format("kvloupe-capture study {} -o {}", file, results));
    std::string flags;
    if (advice_) {
      flags = fmt::format(" --loss {} --at-most {:.12g} --risk {:.12g}%",
                          shell_word(asked().measure), asked().at_most, 100.0 * asked().risk);
      if (asked().largest > 0.0) flags += fmt::format(" --largest {:.12g}", asked().largest);
      if (asked().over_full) flags += " --over-full";
    } else {
      flags = " --loss " + shell_word(asked().measure);
    }
    if (!asked().block.empty()) flags += " --block " + shell_word(asked().block);
    if (advice_) part.commands.push_back("kvloupe advise " + results + flags + " --together");
    for (std::string& command : commands_) part.commands.push_back(std::move(command));
    std::string report = "kvloupe report " + results + flags;
    for (const std::string& output : request_.outputs) report += " -o " + shell_word(output);
    part.commands.push_back(report + (request_.outputs.empty() ? " -o report.html" : ""));
    for (std::string& command : part.commands) command = in_one_line(command, 4000);
    report_.sections.push_back(std::move(part));
  }

  std::string results_;
  ReportRequest request_;
  Progress& progress_;
  std::shared_ptr<const Evaluation> evaluation_;
  StudyMeasure measure_;
  std::string block_;
  MeasureTable table_;  // of the loss
  std::optional<Advice> advice_;
  std::string no_promise_;  // why there is none
  std::optional<MeanInterval> full_loss_;
  StudyFacts facts_;
  std::vector<std::string> rises_;
  std::vector<std::string> commands_;
  Report report_;
};

}  // namespace

Report make_report(const std::string& results, const ReportRequest& request, Progress& progress) {
  return Maker(results, request, progress).make();
}

void check_report_name(const std::string& name) {
  if (name.ends_with(".html") || name.ends_with(".pdf")) return;
  throw UsageError("-o " + name + ": the name of a report must end in .html or .pdf");
}

std::string report_file(Report report, const std::string& name, const figure::TextMetrics& fonts) {
  check_report_name(name);
  if (name.ends_with(".pdf"))
    return figure::document::write_paper(report, figure::document::kReportLook, fonts);
  constexpr double kPixelsPerPoint = 1.75, kWidest = 872.0;
  constexpr double kAlone = 420.0;  // points: a figure without a table beside it
  for (Section& part : report.sections) {
    for (PageFigure& figure : part.figures) {
      figure::FileOptions options;
      if (!part.table)
        options.width = std::max(kAlone, figure.info->width_mm * figure::kPointsPerMillimetre);
      PageFigure drawn = figure::document::page_figure(*figure.info, figure.made, options, fonts);
      figure.pictures = std::move(drawn.pictures);
      figure.width_px = std::min(kWidest, figure.pictures[0].light.width * kPixelsPerPoint);
    }
  }
  return figure::document::write_page(report);
}

}  // namespace kvloupe::report
