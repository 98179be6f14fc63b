#pragma once

#include <map>
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
  std::string policy = "keydiff";
  std::string policy_b;  // empty: none
  std::string budget = "25%";
  int block = 0;  // 0: the capture's own
  Choices choices;
};

/// A computed figure, with the settings it was made from in words: trace, model, policy, ...
struct MadeFigure {
  std::shared_ptr<const Figure> figure;
  std::vector<std::pair<std::string, std::string>> settings;
};

/// What a figure is made from, in words: trace, model, policy, layer, ..., the program's version.
/// The input's selection is resolved.
std::vector<std::pair<std::string, std::string>> settings_in_words(const FigureInfo& info,
                                                                   const FigureInput& input);

/// Makes figures of one trace; a replay that several figures need is computed once.
class FigureMaker {
 public:
  explicit FigureMaker(std::shared_ptr<const Trace> trace) : trace_(std::move(trace)) {}

  /// Throws UsageError for a spec, budget, layer, head, step, token or choice that is none,
  /// WorkError where the figure cannot be drawn from this trace, Cancelled through progress.
  MadeFigure make(const FigureInfo& info, const FigureSettings& settings, Progress& progress);

 private:
  std::shared_ptr<const Replay> replay_of(const std::string& policy, const FigureSettings& settings,
                                          const Needs& needs, const Selection& selection,
                                          Progress& progress);

  std::shared_ptr<const Trace> trace_;
  std::map<std::string, std::shared_ptr<const Replay>> replays_;
};

}  // namespace kvloupe::figure
