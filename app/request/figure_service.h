#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/base/core/progress.h"
#include "app/figure/figure.h"
#include "app/figure/replay_service.h"
#include "app/request/figure_request.h"

namespace kvloupe::request {

/// Partial results, for a viewer that watches while a figure is made.
struct Meanwhile {
  /// Takes figures of parts of the replays, the layer in hand first (MadeFigure::complete is
  /// false), from any thread, one at a time. Empty: nobody looks.
  std::function<void(figure::MadeFigure)> on_part;
  /// The figure shown until then, of the same subject. A part may take the data still to come from
  /// it.
  std::shared_ptr<const figure::Figure> shown;
  int layer = 0, head = 0;  // in hand
};

/// Makes figures for the window, the command line and lessons, all from one store of replays. A
/// figure that is requested twice, at the same time or while somebody still holds it, is computed
/// once. Safe to share by threads; not for use inside a parallel loop (see ReplayService).
class FigureService {
 public:
  explicit FigureService(
      std::shared_ptr<figure::ReplayService> replays = std::make_shared<figure::ReplayService>())
      : replays_(std::move(replays)) {}

  /// The figure of a request that was made of `inputs`. Throws UsageError or WorkError where an
  /// input is missing, WorkError where the figure cannot be drawn from these traces, Cancelled
  /// through progress; a figure that did not come to its end leaves nothing behind.
  figure::MadeFigure make(const figure::FigureInfo& info, const FigureRequest& request,
                          const FigureInputs& inputs, Progress& progress,
                          const Meanwhile& meanwhile = {});

  const std::shared_ptr<figure::ReplayService>& replays() const { return replays_; }

 private:
  struct Entry {
    bool under_way = true;
    std::weak_ptr<const figure::Figure> figure;
    std::vector<std::pair<std::string, std::string>> settings;
    std::vector<Block> steps;
  };
  figure::MadeFigure compute(const figure::FigureInfo& info, const FigureRequest& request,
                             const FigureInputs& inputs, Progress& progress,
                             const Meanwhile& meanwhile) const;

  std::shared_ptr<figure::ReplayService> replays_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<FigureRequest, Entry> entries_;  // those that somebody has, or waits for
};

/// The result of the catalogue's entry, for a figure to whose caption make() may have added a
/// sentence.
const figure::Figure& own_figure(const figure::Figure& made);

/// Makes figures of the same inputs. Safe to use from several threads at once.
class FigureMaker {
 public:
  explicit FigureMaker(FigureInputs inputs,
                       std::shared_ptr<FigureService> service = std::make_shared<FigureService>())
      : inputs_(std::move(inputs)), service_(std::move(service)) {}
  explicit FigureMaker(std::vector<std::shared_ptr<const Trace>> traces)
      : FigureMaker(FigureInputs{.traces = std::move(traces)}) {}
  explicit FigureMaker(std::shared_ptr<const Trace> trace)
      : FigureMaker(std::vector{std::move(trace)}) {}
  /// For figures of an evaluation.
  explicit FigureMaker(std::shared_ptr<const Evaluation> evaluation)
      : FigureMaker(FigureInputs{.evaluation = std::move(evaluation)}) {}

  /// Throws what make_request() and FigureService::make() throw.
  figure::MadeFigure make(const figure::FigureInfo& info, const FigureSettings& settings,
                          Progress& progress) const;
  const FigureInputs& inputs() const { return inputs_; }

 private:
  FigureInputs inputs_;
  std::shared_ptr<FigureService> service_;
};

}  // namespace kvloupe::request
