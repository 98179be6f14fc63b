// From a results file to the content of a report: the request, parts, commands.

#include "app/report/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/error.h"
#include "analysis/evaluation/evaluation.h"
#include "analysis/measure/foretold_answers.h"
#include "analysis/measure/measure_catalog.h"
#include "analysis/one_line.h"
#include "analysis/study/foretell.h"
#include "analysis/study/intervals.h"
#include "analysis/study/study_measures.h"
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
using request::shell_word;

namespace {

constexpr std::size_t kMostNames = 8;   // of policies and budgets in a line
constexpr std::size_t kMostRows = 16;   // policies of a table
constexpr std::size_t kMostPanels = 8;  // policies of the figure certificate on these pages
constexpr std::size_t kTopHeads = 5;
constexpr std::size_t kLongestName = 60;  // bytes of a policy in a table

/// Whether the measure says something of the policy, and not of the full cache alone.
bool depends_on_policy(const std::string& name) {
  const Measure* measure = find_measure(name);
  return measure == nullptr ||
         (measure->family->scope != MeasureScope::trace && !measure->family->of_full_cache &&
          measure->family->group != MeasureGroup::full_cache);
}

bool known_under_every_policy(const StudyTable& study, int measure) {
  const std::vector<std::string> blocks = blocks_of(study, measure);
  if (blocks.empty()) return false;
  const MeasureTable table = measure_table(study, measure, blocks.front());
  for (std::size_t p = 0; p < table.policies.size(); ++p) {
    const auto first = table.values.begin() + static_cast<std::ptrdiff_t>(table.at(p, 0, 0));
    const auto count = static_cast<std::ptrdiff_t>(table.budgets.size() * table.prompts.size());
    if (std::none_of(first, first + count, [](double value) { return std::isfinite(value); }))
      return false;
  }
  return !table.policies.empty();
}

bool has_values(const StudyTable& study, std::size_t measure) {
  return std::any_of(study.values[measure].begin(), study.values[measure].end(),
                     [](double value) { return std::isfinite(value); });
}

/// Whether a measure has a direction, says something of the policy, and is known under every one.
bool is_loss(const StudyTable& study, std::size_t measure) {
  const std::string& name = study.measures[measure];
  return figure::described(name).better != Better::neither && depends_on_policy(name) &&
         known_under_every_policy(study, static_cast<int>(measure));
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
    add_heads();
    add_commands();
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
    if (own_measure) asked().measure = chosen_loss(study());
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
          "The loss was not chosen: the report takes {}, the first measure of the study that fits. "
          "--loss names another one{}.",
          in_one_line(asked().measure), other_measures()));
    }
    const bool has_limit = asked().at_most > 0.0;
    const bool bounded = measure_.better != Better::neither &&
                         (measure_.share || measure_.better == Better::smaller);
    if ((own_measure && !bounded) || (!measure_.share && !has_limit)) return;  // curves alone
    if (!has_limit) {
      asked().at_most = kUsualLimit;
      report_.cautions.push_back(fmt::format(
          "The limit was not chosen: the report takes {:g}. --at-most names the loss that you can "
          "accept.",
          kUsualLimit));
    }
    try {
      advice_ = advise(study(), asked());
    } catch (const UsageError& error) {
      constexpr std::string_view kPrefix = "advise: ";
      std::string said = error.what();
      if (said.starts_with(kPrefix)) said.erase(0, kPrefix.size());
      throw UsageError("report: " + said);
    }
  }

  void choose_block(const std::vector<std::string>& blocks) {
    block_ = asked().block.empty() ? blocks.front() : asked().block;
    if (std::find(blocks.begin(), blocks.end(), block_) == blocks.end()) {
      throw UsageError(fmt::format("report: the study has no block {}; it has {}",
                                   in_one_line(block_), fmt::join(blocks, ", ")));
    }
    if (asked().block.empty() && blocks.size() > 1) {
      report_.cautions.push_back(
          fmt::format("The study has several block sizes ({}); this report shows the first. "
                      "--block gives another one.",
                      short_list(in_lines(blocks), kMostNames)));
    }
  }

  std::string other_measures() const {
    std::vector<std::string> names;
    for (std::size_t m = 0; m < study().measures.size(); ++m) {
      const std::string& name = study().measures[m];
      if (name != asked().measure && figure::described(name).share && is_loss(study(), m))
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
    report_.subtitle =
        fmt::format("A study of KV-cache eviction. Results: {}. Model: {}.",
                    in_one_line(std::filesystem::path(results_).filename().string()), facts_.model);
    report_.foot = fmt::format("{} · kvloupe {}",
                               in_one_line(std::filesystem::path(results_).filename().string()),
                               KVLOUPE_VERSION);
  }

  // --- the recommendation

  void recommend() {
    const bool replays = measure_.task == kReplayTask;
    if (advice_) {
      report_.recommendation = recommendation_of(*advice_, asked(), prompts_in_words(), replays);
    } else {
      recommend_nothing(replays);
    }
    if (study().done() < std::ssize(study().items)) {
      report_.cautions.push_back("The study is not finished: " + facts_.progress +
                                 ". Let it finish before you decide.");
    }
    if (!advice_) return;
    add_full_cache_caution();
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
    const std::string name = in_one_line(asked().measure);
    std::string why;
    if (measure_.better == Better::neither) {
      why = fmt::format("nobody said which values of {} are better; --loss gives another measure",
                        name);
    } else if (measure_.better == Better::larger) {
      why = fmt::format("{} has no largest value to lose from; --loss gives another measure", name);
    } else {
      why = fmt::format(
          "{} has no upper limit, and a promise needs one; give --largest (larger losses count as "
          "that) and --at-most (the loss that you can accept)",
          name);
    }
    report_.recommendation.push_back("This report recommends no budget, because " + why + ".");
    if (const auto best = best_mean(); !best.empty()) report_.recommendation.push_back(best);
    report_.recommendation.push_back(fmt::format(
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
    StudentMean mean;
  };
  /// With the best mean; nothing where the measure has no direction, or no value is known.
  std::optional<Setting> best_setting() const {
    std::optional<Setting> best;
    if (measure_.better == Better::neither) return best;
    for (std::size_t p = 0; p < table_.policies.size(); ++p) {
      for (std::size_t b = 0; b < table_.budgets.size(); ++b) {
        const StudentMean mean = student_mean(table_.row(p, b));
        if (mean.count == 0) continue;
        const bool better =
            !best || (measure_.better == Better::larger ? mean.mean > best->mean.mean
                                                        : mean.mean < best->mean.mean);
        if (better) best = Setting{p, b, mean};
      }
    }
    return best;
  }

  std::string best_mean() const {
    const std::optional<Setting> best = best_setting();
    if (!best) return {};
    return fmt::format("The {} mean of {} is {}, with {} at {} on {}.",
                       measure_.better == Better::larger ? "largest" : "smallest",
                       in_one_line(asked().measure), format_number(best->mean.mean),
                       in_one_line(table_.policies[best->policy], 200),
                       figure::budget_text(in_one_line(table_.budgets[best->budget])),
                       figure::prompts_text(table_, best->mean.count));
  }

  void add_full_cache_caution() {
    if (asked().over_full || advice_->loss.find("full cache") != std::string::npos) return;
    const StudentMean full = student_mean(table_.full);
    if (full.count == 0) return;
    const double loss = measure_.better == Better::larger ? 1.0 - full.mean : full.mean;
    full_loss_ = loss;
    if (loss < 0.5 * asked().at_most) return;
    report_.cautions.push_back(fmt::format(
        "The full cache itself has a mean loss of {:.3g} on {}{}. --over-full counts "
        "only what a prompt loses beside the full cache.",
        loss, figure::prompts_text(table_, full.count),
        loss >= asked().at_most - 1e-9 ? ", so no policy that does as well can stay within "
                                         "the limit"
                                       : ""));
  }

  // --- parts

  void add_facts() {
    ReportPart part{.title = "What was studied"};
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
    report_.parts.push_back(std::move(part));
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
    ReportPart part{.title = in_one_line(measure_.title) + " by budget"};
    figure::Choices choices = loss_choices();
    if (advice_) {
      part.paragraphs.push_back(
          fmt::format("{} The recommendation counts a loss: {}.",
                      measure_.better == Better::larger ? "More is better." : "Less is better.",
                      advice_->loss));
    } else if (measure_.better != Better::neither) {
      part.paragraphs.emplace_back(measure_.better == Better::larger ? "More is better."
                                                                     : "Less is better.");
    }
    add_figure(part, "study-budget", std::move(choices), "curves");
    report_.parts.push_back(std::move(part));
  }

  figure::Choices loss_choices() const {
    figure::Choices choices{{"measure", asked().measure}};
    if (!asked().block.empty()) choices["block"] = asked().block;
    return choices;
  }

  /// The figure, or the reason why it is missing; the command that repeats it.
  void add_figure(ReportPart& part, const std::string& name, figure::Choices choices,
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
      part.figure =
          ReportFigure{&info, request::FigureMaker(evaluation_).make(info, settings, progress_)};
    } catch (const WorkError& error) {
      part.paragraphs.push_back(std::string("There is no figure: ") +
                                in_one_line(error.what(), 400));
    }
  }

  void add_promises() {
    ReportPart part{.title = "Which budget can be promised"};
    part.paragraphs.push_back(fmt::format(
        "For each policy the smallest budget from which on the bound of the expected loss ({}) is "
        "at most {:g}. The promises of all policies hold together with a probability of at least "
        "{:g} %, so a reader may choose among the policies by this table.",
        advice_->loss, asked().at_most, 100.0 * (1.0 - asked().risk)));
    figure::Choices choices = loss_choices();
    choices["at-most"] = fmt::format("{:.12g}", asked().at_most);
    choices["risk"] = fmt::format("{:.12g}", 100.0 * asked().risk);
    choices["together"] = "yes";
    if (asked().largest > 0.0) choices["largest"] = fmt::format("{:.12g}", asked().largest);
    if (asked().over_full) choices["beside"] = "full";
    const bool drawn = advice_->policies.size() <= kMostPanels;
    if (!drawn)
      part.paragraphs.push_back(
          fmt::format("A figure of {} policies has no room here; the command is below.",
                      advice_->policies.size()));
    add_figure(part, "certificate", std::move(choices), "certificate", drawn);
    part.table = promise_table();
    report_.parts.push_back(std::move(part));
  }

  ReportTable promise_table() const {
    ReportTable table;
    table.columns = {"policy", "smallest budget", "entries", "mean loss", "bound", "prompts"};
    table.numbers = {false, true, true, true, true, true};
    std::vector<std::size_t> order(advice_->policies.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // As the recommendation ranks them; then those without a budget, the closest first.
    const auto key = [&](std::size_t i) {
      const PolicyAdvice& one = advice_->policies[i];
      const bool none = one.promised < 0;
      const BudgetRisk& at =
          one.budgets[none ? one.budgets.size() - 1 : static_cast<std::size_t>(one.promised)];
      return std::tuple(none, none ? 0.0 : at.entries, at.bound);
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
      const BudgetRisk& at =
          one.budgets[none ? one.budgets.size() - 1 : static_cast<std::size_t>(one.promised)];
      table.rows.push_back({in_one_line(one.policy, kLongestName),
                            none ? "none" : in_one_line(at.budget),
                            fmt::format("{:.0f}", at.entries), fmt::format("{:.3g}", at.mean),
                            fmt::format("{:.3g}", at.bound), fmt::format("{}", one.prompts)});
    }
    if (order.size() > table.rows.size())
      table.notes.push_back(fmt::format("{} more policies: the command advise shows all.",
                                        order.size() - table.rows.size()));
    if (any_none)
      table.notes.emplace_back(
          "none: not with these prompts and budgets; the row's numbers are those "
          "of the largest budget.");
    if (full_loss_)
      table.notes.push_back(fmt::format("Mean loss of the full cache: {:.3g}.", *full_loss_));
    return table;
  }

  // --- heads

  /// A measure by head that gives a head's loss: the one that predicts best.
  struct HeadMeasure {
    std::string name, why;
  };
  std::optional<HeadMeasure> head_measure() const {
    std::vector<std::string> names;
    for (std::size_t m = 0; m < study().measures.size(); ++m) {
      const StudyMeasure measure = figure::described(study().measures[m]);
      if (study().by_head[m] != 0 && measure.better != Better::neither &&
          depends_on_policy(measure.name) && has_values(study(), m) && of_heads(measure.name))
        names.push_back(measure.name);
    }
    if (names.empty()) return std::nullopt;
    const auto has = [&](std::string_view name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (facts_.has_replays && facts_.has_runs && measure_.task != kReplayTask) {
      try {  // this study tells
        for (const Foretelling& row : foretell(study(), asked().measure)) {
          if (!has(row.measure) || !std::isfinite(row.settings.value)) continue;
          return HeadMeasure{
              row.measure,
              fmt::format("Of this study's measures by head, {} foretells {} best: Spearman’s ρ "
                          "{:.2f} over {} settings.",
                          row.measure, asked().measure, row.settings.value, row.settings_count)};
        }
      } catch (const UsageError&) {
        // The replays are of other prompts.
      }
    }
    for (const ForetoldAnswers& one : foretold_answers()) {
      if (!has(one.measure)) continue;
      return HeadMeasure{
          std::string(one.measure),
          fmt::format("Of this study's measures by head, {} foretells a real model's answers "
                      "best. {}",
                      one.measure, foretold_text(one.measure))};
    }
    const std::string& name = has(asked().measure) ? asked().measure : names.front();
    return HeadMeasure{name,
                       fmt::format("Whether {} foretells the model's answers is not known.", name)};
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
    ReportPart part{.title = "Heads that matter"};
    const std::optional<HeadMeasure> chosen = head_measure();
    if (!chosen) {
      part.paragraphs.emplace_back(
          "These results have no loss of each head. A study of replays keeps them with \"reduce\": "
          "\"steps\" and a measure by head, such as answer_residual_part.");
      report_.parts.push_back(std::move(part));
      return;
    }
    const StudyMeasure measure = figure::described(chosen->name);
    const MeasureTable table = first_table(chosen->name);
    const auto [policy, budget] = setting_for_heads(table);
    const HeadMeasureTable heads = head_table(study(), table, policy, budget);
    part.paragraphs.push_back(chosen->why +
                              " A head that loses much need not be one that breaks an answer: "
                              "kvloupe-capture rescue tests that in the model.");
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
    if (const std::string other = other_head_measure(chosen->name); !other.empty()) {
      choices["x"] = other;
      choices["y"] = chosen->name;
      add_figure(part, "head-scatter", std::move(choices), "heads");
    } else {
      choices["measure"] = chosen->name;
      choices["prompts"] = "mean";
      add_figure(part, "study-heads", std::move(choices), "heads");
    }
    report_.parts.push_back(std::move(part));
  }

  /// Another measure of the same heads, for the figure's x axis; empty: none.
  std::string other_head_measure(const std::string& chosen) const {
    const std::string task = figure::described(chosen).task;
    std::vector<std::string> names;
    for (std::size_t m = 0; m < study().measures.size(); ++m) {
      const std::string& name = study().measures[m];
      if (name != chosen && study().by_head[m] != 0 && has_values(study(), m) &&
          figure::described(name).task == task &&
          known_under_every_policy(study(), static_cast<int>(m)) && of_heads(name))
        names.push_back(name);
    }
    for (const char* usual : {"retained_mass", "answer_kept_attention", "role_sink"}) {
      if (std::find(names.begin(), names.end(), usual) != names.end()) return usual;
    }
    return names.empty() ? "" : names.front();
  }

  /// The recommended policy and budget, or the nearest to it, where these heads have them; else the
  /// first.
  std::pair<std::size_t, std::size_t> setting_for_heads(const MeasureTable& table) const {
    std::string policy, budget;
    if (const int best = advice_ ? recommended_policy(*advice_) : -1; best >= 0) {
      const PolicyAdvice& one = advice_->policies[static_cast<std::size_t>(best)];
      policy = one.policy;
      budget = one.budgets[static_cast<std::size_t>(one.promised)].budget;
    } else if (const int near = advice_ ? closest_policy(*advice_) : -1; near >= 0) {
      policy = advice_->policies[static_cast<std::size_t>(near)].policy;
      budget = advice_->policies[static_cast<std::size_t>(near)].budgets.back().budget;
    } else if (const auto setting = best_setting()) {
      policy = table_.policies[setting->policy];
      budget = table_.budgets[setting->budget];
    }
    const auto place = [](const std::vector<std::string>& names, const std::string& name) {
      const auto found = std::find(names.begin(), names.end(), name);
      return found == names.end() ? 0 : static_cast<std::size_t>(found - names.begin());
    };
    return {place(table.policies, policy), place(table.budgets, budget)};
  }

  static ReportTable head_rows(const MeasureTable& table, const HeadMeasureTable& heads,
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
    std::vector<double> means;
    for (const Row& row : rows) means.push_back(row.mean.mean);
    ReportTable result;
    result.columns = {"head", "mean [95 %]"};
    result.numbers = {false, true};
    for (std::size_t i = 0; i < std::min(kTopHeads, rows.size()); ++i) {
      const Row& row = rows[i];
      result.rows.push_back(
          {fmt::format("{}.{}", row.head.layer, row.head.head),
           row.mean.count > 1
               ? fmt::format("{} [{}, {}]", format_number(row.mean.mean),
                             format_number(row.mean.low), format_number(row.mean.high))
               : format_number(row.mean.mean)});
    }
    if (!means.empty()) {
      std::sort(means.begin(), means.end());
      result.notes.push_back(fmt::format(
          "The worst {} of {}; the median head has {}.", result.rows.size(),
          format_counted(std::ssize(means), "head"), format_number(means[means.size() / 2])));
    }
    return result;
  }

  // --- commands

  void add_commands() {
    ReportPart part{.title = "How to repeat it"};
    const std::string results = shell_word(results_);
    const std::string file =
        facts_.study_file.empty() ? "STUDY.json" : shell_word(facts_.study_file);
    if (facts_.study_file.empty()) {
      part.paragraphs.emplace_back(
          "Write your study file for STUDY.json: no file beside the results, or where they were "
          "written, is of this study.");
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
    report_.parts.push_back(std::move(part));
  }

  std::string results_;
  ReportRequest request_;
  Progress& progress_;
  std::shared_ptr<const Evaluation> evaluation_;
  StudyMeasure measure_;
  std::string block_;
  MeasureTable table_;  // of the loss
  std::optional<Advice> advice_;
  std::optional<double> full_loss_;
  StudyFacts facts_;
  std::vector<std::string> rises_;
  std::vector<std::string> commands_;
  Report report_;
};

}  // namespace

std::string chosen_loss(const StudyTable& study) {
  std::string with_direction, with_values;
  for (std::size_t m = 0; m < study.measures.size(); ++m) {
    if (!has_values(study, m)) continue;
    const std::string& name = study.measures[m];
    if (with_values.empty()) with_values = name;
    if (!is_loss(study, m)) continue;
    if (figure::described(name).share) return name;
    if (with_direction.empty()) with_direction = name;
  }
  return with_direction.empty() ? with_values : with_direction;
}

Report make_report(const std::string& results, const ReportRequest& request, Progress& progress) {
  return Maker(results, request, progress).make();
}

}  // namespace kvloupe::report
