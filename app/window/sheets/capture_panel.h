#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "app/job/capture_job.h"
#include "app/window/sheets/run_sheet.h"

namespace kvloupe::window {

struct PanelContext;

/// A sheet to make a trace: model, prompt, block, policy. kvloupe-capture runs as a child process;
/// the trace opens when it is ready.
class CapturePanel : public RunSheet<CaptureState> {
 public:
  CapturePanel(const std::function<void()>& wake, KnownModels& models, std::filesystem::path cache)
      : RunSheet(wake, models, std::move(cache)), forecast_queue_(1, wake) {}

  /// A new capture, with the full cache; of the open trace's model where that is known.
  void open_new(const PanelContext& context);
  /// The same, of this model.
  void open_model(const PanelContext& context, const std::string& model);
  /// The open trace's tokens again, with policy A in the cache.
  void open_closed_loop(const PanelContext& context);
  /// Draws the sheet if it is open, and opens the trace when it is written.
  void draw(const PanelContext& context);

  void start();
  void cancel() { run_.clear(); }
  /// Whether the search for the folder of the open trace's model, or the check of the named folder,
  /// still runs.
  bool looking() const { return search_.computing() || check_.computing(); }
  /// The forecast size and time of the run, in one line; empty until the program has given it.
  std::string forecast() const;
  /// Whether the program is being asked for the forecast.
  bool foreseeing() const { return forecast_.computing(); }
  /// Whether what the sheet says is still being worked out. A run is not: it may take hours.
  bool busy() const {
    return open_ && (looking() || (foreseeing() && !running()) || files_.listing());
  }
  /// One line if the folder contains another model than the one whose tokens are forced, because
  /// the two runs could not be compared; empty if it is the same, or not known.
  std::string mismatch() const;

  CaptureOptions options;

 private:
  void draw_form(const PanelContext& context);
  void draw_model(const PanelContext& context);
  void draw_prompt(const PanelContext& context);
  void draw_policy(const PanelContext& context);
  void draw_run(const PanelContext& context);
  void follow(const PanelContext& context);
  /// Fills in the folder that the search has found, and checks the model in the named folder.
  void follow_model();
  void use_trace(const PanelContext& context);
  void search();
  void foresee();
  /// The line above the buttons while no capture runs, and whether it is an error.
  std::pair<std::string, bool> state_line() const;

  /// An answer's length where the prompt asks, unless the user has chosen one.
  void propose_length();

  std::string asked_of_;  // the prompt that propose_length() looked at
  int proposed_length_ = 0;
  std::string trace_;  // whose tokens are run: so many of its prompt, and given after it
  int prompt_tokens_ = 0, given_tokens_ = 0;
  std::string fingerprint_;       // of the model that made them; empty: not known, or not yet
  std::string made_by_;           // its name, for a line
  bool model_chosen_ = false;     // by the user, since the sheet opened
  std::string last_model_;        // the folder used last, to offer it
  std::string run_model_;         // the folder of the current run
  job::JobQueue forecast_queue_;  // the program takes a second to start
  job::Computed<CaptureForecast> forecast_;
  job::Computed<std::string> check_;  // the fingerprint of the folder named
};

}  // namespace kvloupe::window
