#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "analysis/matrix.h"
#include "analysis/progress.h"
#include "analysis/trace/trace.h"
#include "app/request/figure_service.h"

namespace kvloupe::lesson {

/// Keeps results that take long and that several values need: replays and the sinks of a trace.
/// Thread-safe, also with the window's or a gallery's replays.
class ValueStore {
 public:
  explicit ValueStore(
      std::shared_ptr<request::FigureService> figures = std::make_shared<request::FigureService>())
      : figures_(std::move(figures)) {}

  request::FigureService& figures() const { return *figures_; }
  const std::shared_ptr<request::FigureService>& shared_figures() const { return figures_; }
  figure::ReplayService& replays() const { return *figures_->replays(); }

  /// The attention sink: numbers of token 0.
  struct Sinks {
    Matrix strengths;     // [L,Hq] mean attention from the later queries that see it
    Matrix value_ratios;  // [L,Hk] norm of its value over the median of all tokens'
    int heads = 0;        // query heads above kSinkHead
    int layer = 0;        // of the query head to look at: see strongest_sink()
    int query_head = 0;
  };
  std::shared_ptr<const Sinks> sinks(const Trace& trace, Progress& progress);

 private:
  struct Entry {
    std::string trace;
    std::shared_ptr<const Sinks> sinks;
  };
  std::shared_ptr<request::FigureService> figures_;
  std::mutex mutex_;
  std::vector<Entry> entries_;  // the one used last at the end
};

}  // namespace kvloupe::lesson
