#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "app/job/study_job.h"
#include "app/window/sheets/run_sheet.h"

namespace kvloupe::window {

struct PanelContext;

/// A sheet that leads from traces or prompts to results: what to read, which policies and budgets,
/// then the run (kvloupe study, or kvloupe-capture study, as a child process) with its progress.
/// The results open when it is done; the same sheet goes on with a study that was stopped.
class StudyPanel : public RunSheet<job::StudyProgress> {
 public:
  StudyPanel(const std::function<void()>& wake, KnownModels& models, std::filesystem::path cache)
      : RunSheet(wake, models, std::move(cache)), size_queue_(1, wake) {}

  /// Begins with the traces beside the open one that are like it, with its model, and with the
  /// policies in hand; without a trace with the model used last. What the user has changed stays.
  void open_new(const PanelContext& context, const std::string& last_model);
  /// Draws the sheet if it is open, and opens the results when they are written.
  void draw(const PanelContext& context);

  /// Whether what the sheet says is still being worked out. A run is not: it may take hours.
  bool busy() const {
    return open_ && (looking() || (!running() && size_.computing()) || files_.listing());
  }
  void start();
  void cancel();

  job::StudyOptions options;

 private:
  void draw_form(const PanelContext& context);
  void draw_run(const PanelContext& context);
  void draw_buttons(const PanelContext& context);
  void follow(const PanelContext& context);
  void measure();
  bool looking() const { return alike_.computing() || search_.computing(); }
  /// Takes a value into a field that the user has not changed.
  void propose(std::string job::StudyOptions::*field, const std::string& value);
  void find_alike(const std::string& trace);
  void follow_search();
  std::string time_left() const;

  job::StudyOptions proposed_;  // what the sheet has filled in
  std::string alike_taken_;     // the search whose result was taken
  std::string run_model_;       // of the last run
  std::string stopped_;         // what a cancelled run had done
  job::JobQueue size_queue_;
  job::Computed<std::string> alike_;        // traces like the one chosen
  job::Computed<std::string> fingerprint_;  // of the last run's model
  job::Computed<std::string> size_;         // how many traces or prompts there are
};

}  // namespace kvloupe::window
