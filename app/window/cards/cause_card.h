#pragma once

#include <imgui.h>

#include <filesystem>
#include <functional>
#include <string>

#include "analysis/math/sink.h"
#include "app/job/computed.h"
#include "app/job/eval_case_job.h"
#include "app/job/job_queue.h"
#include "app/window/state/jobs.h"
#include "app/window/state/known_models.h"
#include "app/window/state/results.h"

namespace kvloupe::window {

struct PanelContext;

/// From a cell of the needle grid, or of a study's prompts, to the eviction behind a wrong answer.
/// The card lists the cell's runs; one of them is captured again, with and without the policy, and
/// shown with its needle followed through all heads; then the running model says which heads'
/// entries would have saved the answer.
class CauseCard {
 public:
  /// `cache`: where captured traces are kept; empty: in the user's own folder. `program`:
  /// kvloupe-capture, or empty.
  CauseCard(const KnownModels& models, std::filesystem::path cache, std::string program,
            std::function<void()> wake);

  /// The runs of the cell of needles whose first run this is, or an item of a study, at a place in
  /// pixels.
  void open(const EvaluationPointer& evaluation, int run, ImVec2 at);
  void close();
  bool is_open() const { return open_; }
  void draw(const PanelContext& context);
  /// A run of the model is under way, or its outcome not yet shown.
  bool busy() const;
  /// Why the chosen run could not be captured; empty where it could.
  std::string error() const { return case_.error(); }

 private:
  struct Case {
    TracePointer full, closed;
    std::string model;     // folder
    bool follows = false;  // the prompt says which tokens are the needle
  };
  struct Searched {
    job::RescueProgress made;
    bool done = false;
  };
  /// The search for what would have saved the answer has come to its end.
  bool is_found() const;
  bool context_only(int run) const;
  void choose(int run);
  /// Asks for the forecast of a case of these runs, and shows it.
  void draw_forecast(const PanelContext& context);
  job::EvalCaseOptions options_of(int run) const;
  void show(const PanelContext& context, const Case& found);
  void draw_runs(const PanelContext& context);
  void draw_case(const PanelContext& context);
  void draw_rescue(const PanelContext& context, const Case& found);

  const KnownModels& models_;
  std::filesystem::path cache_;
  std::string program_;
  bool open_ = false;
  ImVec2 at_{};
  EvaluationPointer evaluation_;
  int first_ = -1;   // of the cell's runs
  int chosen_ = -1;  // whose cause is looked for; −1: none yet
  bool shown_ = false;
  bool rescue_shown_ = false;
  bool pointed_ = false;    // the head that the finding blames first was selected
  bool elsewhere_ = false;  // the window shows another trace
  FindingJob finding_;
  job::JobQueue queue_;
  job::JobQueue forecast_queue_;
  job::Computed<Case, job::EvalCaseOptions> case_;
  job::Computed<job::EvalCaseForecast, job::EvalCaseOptions> forecast_;
  job::Computed<Searched, job::RescueOptions> rescue_;
};

}  // namespace kvloupe::window
