#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/progress.h"
#include "app/figure/figure.h"

namespace kvloupe::figure {

/// What a person asked for; what is absent has a default.
struct FigureSettings {
  std::optional<int> layer;                   // default: the middle one
  std::optional<int> head;                    // default: that of query_head, else 0
  std::optional<int> query_head;              // default: the mean over the head's group
  std::optional<int> step;                    // default: the last of the prompt
  std::optional<std::pair<int, int>> tokens;  // both included; default: all
  std::optional<int> token;                   // default: the figure's own
  std::string policy = "keydiff";
  std::string policy_b;  // empty: none; a figure that needs one takes h2o, or keydiff beside h2o
  std::string budget = "25%";
  int block = 0;  // 0: the capture's own
  Choices choices;
};

/// A computed figure, with the settings it was made from in words: trace, model, policy, ...
struct MadeFigure {
  std::shared_ptr<const Figure> figure;
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<std::shared_ptr<const Trace>> traces;  // none where made from an evaluation
  std::vector<Block> steps;                          // of the replay it shows; may be empty
};

/// What a figure is made from, in words: trace, model, policy, layer, ..., the program's version.
/// The input's selection is resolved.
std::vector<std::pair<std::string, std::string>> settings_in_words(const FigureInfo& info,
                                                                   const FigureInput& input);

/// Computes the figure. The input is complete and its selection resolved. Throws Cancelled through
/// progress.
MadeFigure made_from(const FigureInfo& info, const FigureInput& input, Progress& progress);

/// Throws UsageError where a figure does not take that many traces; `last` names the one too many.
void check_trace_count(const FigureInfo& info, std::size_t count, const std::string& last);

/// Makes figures of the same traces; a replay that several figures need is computed once. Safe to
/// use from several threads at once.
class FigureMaker {
 public:
  /// With replays of its own, or those that others make and use too.
  explicit FigureMaker(std::vector<std::shared_ptr<const Trace>> traces,
                       std::shared_ptr<ReplayStore> replays = std::make_shared<ReplayStore>())
      : traces_(std::move(traces)), replays_(std::move(replays)) {}
  explicit FigureMaker(std::shared_ptr<const Trace> trace)
      : FigureMaker(std::vector{std::move(trace)}) {}
  /// For figures with needs.evaluation.
  explicit FigureMaker(std::shared_ptr<const Evaluation> evaluation)
      : evaluation_(std::move(evaluation)) {}

  /// Throws UsageError for a spec, budget, layer, head, step, token or choice that is none, or a
  /// number of traces that the figure does not take; WorkError where the figure cannot be drawn
  /// from this trace, Cancelled through progress.
  MadeFigure make(const FigureInfo& info, const FigureSettings& settings, Progress& progress) const;

 private:
  std::vector<std::shared_ptr<const Trace>> traces_;  // at least one, or evaluation_
  std::shared_ptr<const Evaluation> evaluation_;
  std::shared_ptr<ReplayStore> replays_;
};

}  // namespace kvloupe::figure
