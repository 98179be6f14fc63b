// The loss of a policy when its sets are restricted to those that an engine can hold: one set for
// each head, one for all heads of a layer, and that one in whole pages.

#include <fmt/ranges.h>

#include <utility>

#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/published.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/typed_values.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure::realisable_figure {

namespace {

/// Kinds of sets, from the finest on.
constexpr std::size_t kKinds = 3;

struct Wanted {
  std::vector<PolicySpec> policies;            // that can be shown
  std::vector<std::vector<PolicySpec>> kinds;  // of each, its three kinds of sets
  std::vector<std::string> refusals;           // of the others, why not
  std::string how;
  int page = 0;
};

Wanted wanted_of(const FigureInput& input) {
  Wanted wanted;
  wanted.how = input.choice("how");
  // A page larger than the budget would leave nothing: the largest that fits, as the legend says.
  wanted.page = std::min(static_cast<int>(chosen_number(input, "page")),
                         budget_entries(input.budget, *input.trace));
  for (const PolicySpec& policy : chosen_policies(input)) {
    if (keeps_everything(policy)) continue;
    try {
      const std::string shared = policy.text() + "+shared(" + wanted.how + ")";
      std::vector<PolicySpec> kinds = {
          policy, parse_policy(shared),
          parse_policy(fmt::format("{}+pages({})", shared, wanted.page))};
      for (const PolicySpec& kind : kinds) check_combination(kind);
      wanted.policies.push_back(policy);
      wanted.kinds.push_back(std::move(kinds));
    } catch (const UsageError& error) {
      wanted.refusals.push_back(fmt::format("{} is left out ({})", policy.text(), error.what()));
    }
  }
  if (!wanted.policies.empty()) return wanted;
  throw UsageError(wanted.refusals.empty() ? "figure realisable: choose a policy that evicts"
                                           : "figure realisable: " + wanted.refusals.front());
}

/// Entries of a head after the last step, mean over all heads.
double entries_held(const Replay& replay) {
  double sum = 0.0;
  for (const HeadReplay& head : replay.heads) sum += head.steps.back().retained;
  return sum / static_cast<double>(replay.heads.size());
}

class Parts {
 public:
  Parts(const FigureInput& input, const Wanted& wanted)
      : input_(input),
        wanted_(wanted),
        asked_(asked_first(input.trace->tokens(), input.trace->run())),
        answers_(wanted.policies.size() * kKinds) {}

  /// Asks the replays that were not asked yet.
  void ask_new(const Replays& replays, Progress& progress) {
    std::vector<const Replay*> fresh;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < replays.size(); ++i) {
      if (!replays[i] || !answers_[i].layer_errors.empty()) continue;
      fresh.push_back(replays[i].get());
      places.push_back(i);
    }
    if (fresh.empty()) return;
    AskOptions options{.states = &input_.replays->states()};
    std::vector<AskedReplay> found = ask(*input_.trace, fresh, asked_, options, progress);
    for (std::size_t i = 0; i < found.size(); ++i) answers_[places[i]] = std::move(found[i]);
  }

  std::unique_ptr<const Figure> drawn(const Replays& replays) const {
    auto figure = std::make_unique<LinePanels>();
    const std::string kinds[kKinds] = {
        "one set for each head", "one set for each layer",
        fmt::format("one set for each layer, pages of {}", wanted_.page)};
    std::string held;
    for (std::size_t p = 0; p < wanted_.policies.size(); ++p) {
      LinePanels::Panel panel{.title = wanted_.policies[p].text()};
      std::vector<std::string> entries, changes;
      for (std::size_t k = 0; k < kKinds; ++k) {
        const std::size_t at = p * kKinds + k;
        if (!replays[at]) continue;
        add_kind(panel, kinds[k], static_cast<int>(k), answers_[at]);
        changes.push_back(format_number(answers_[at].residual_change));
        entries.push_back(fmt::format("{:.4g}", entries_held(*replays[at])));
      }
      if (panel.lines.empty()) continue;
      held += fmt::format("{}{}: {} with {} entries", held.empty() ? "" : "; ", panel.title,
                          fmt::join(changes, ", "), fmt::join(entries, ", "));
      panel.x = layer_names_axis(input_.trace->model().num_layers, "Layer", {"all"});
      panel.y = curve_axis("Change of the output", panel, input_.choice("scale"));
      panel.y_grid = true;
      figure->panels.push_back(std::move(panel));
    }
    figure->legend = true;
    figure->x_measure = "layer";
    figure->y_measure = "change_of_output";
    figure->caption_text = fmt::format(
        "Change of the attention output, √(Σ‖Σ(o′ − o)W_O‖² / Σ‖ΣoW_O‖²), of each layer and of all "
        "layers together (all), {}, with sets from the finest that a policy can choose to those "
        "that an engine with one table of blocks can hold; heads share by {}. N = {}. All layers "
        "together, with the mean entries of a head after the last step: {}. The last page always "
        "stays, so a policy that keeps no recent tokens by itself can lose less with pages.",
        asked_text(*input_.trace), wanted_.how, replays.front()->budget, held);
    figure->caption_text += curve_scale_words(figure->panels.front());
    for (const std::string& refusal : wanted_.refusals) figure->caption_text += " " + refusal + ".";
    return figure;
  }

 private:
  /// A line over the layers, and a mark for all of them together.
  void add_kind(LinePanels::Panel& panel, const std::string& name, int look,
                const AskedReplay& answer) const {
    LinePanels::Line line{.name = name, .look = look, .marked = true};
    for (std::size_t layer = 0; layer < answer.layer_errors.size(); ++layer) {
      if (!input_.trace->attends(static_cast<int>(layer))) continue;
      line.points.push_back({static_cast<double>(layer) + 0.5, answer.layer_errors[layer]});
    }
    const double last = static_cast<double>(answer.layer_errors.size()) + 0.5;
    line.points.push_back({std::nan(""), std::nan("")});  // a gap: the last number is no layer's
    line.points.push_back({last, answer.residual_change});
    panel.lines.push_back(std::move(line));
  }

  const FigureInput& input_;
  const Wanted& wanted_;
  Asked asked_;
  std::vector<AskedReplay> answers_;
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Wanted wanted = wanted_of(input);
  std::vector<WantedReplay> replays;
  for (const auto& kinds : wanted.kinds) {
    for (const PolicySpec& kind : kinds) replays.push_back({.policy = kind});
  }
  Parts parts(input, wanted);
  const FigureOfReplays so_far = [&](const Replays& made) {
    Progress unseen(progress, 0);
    parts.ask_new(made, unseen);
    return parts.drawn(made);
  };
  const Replays made = replays_of(input, replays, progress, kReplaySteps, so_far);
  Progress asking(progress, kReplaySteps);
  parts.ask_new(made, asking);
  asking.finish();
  return parts.drawn(made);
}

std::string without_weights(const Trace& trace) {
  return trace.has_output_weight() ? without_full_cache(trace)
                                   : "the trace has no output weights, which the heads of a layer "
                                     "are added with";
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "realisable", "What an engine can hold",
      "What is lost when each head has a set of its own, when all heads of a layer share one, and "
      "when that one consists of whole pages, as engines such as vLLM and SGLang hold them: the "
      "change of each layer's attention output and of all layers together, for the answer's "
      "queries (else the question's, else later ones), at the same budget",
      Topic::comparisons, compute, kTwoColumns, 2.2);
  info.needs.comparison = true;
  info.choices = {
      policies_choice(published_list({"A", "B", "snapkv", "h2o"})),
      word_choice("how", "Heads share by",
                  "How the scores of a layer's heads become one: their mean, the best rank in any "
                  "head, or the heads' votes",
                  {"mean", "rank", "votes"}),
      number_choice("page", "Page", "Tokens of a page; at most the budget", "16", 1, 4096),
      curve_scale_choice()};
  info.unavailable = without_weights;
  return info;
}

}  // namespace kvloupe::figure::realisable_figure
