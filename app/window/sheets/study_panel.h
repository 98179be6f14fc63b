#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "app/job/computed.h"
#include "app/job/study_job.h"
#include "app/window/sheets/file_panel.h"

namespace kvloupe::window {

struct PanelContext;

/// A sheet that leads from traces or prompts to results: what to read, which policies and budgets,
/// then the run (kvloupe study, or kvloupe-capture study, as a child process) with its progress.
/// The results open when it is done; the same sheet goes on with a study that was stopped.
class StudyPanel {
 public:
  explicit StudyPanel(const std::function<void()>& wake)
      : files_(wake), queue_(1, wake), size_queue_(1, wake) {}

  /// Begins with the open trace's folder, and the policies in hand.
  void open_new(const PanelContext& context);
  bool is_open() const { return open_; }
  void close() { open_ = false; }
  /// Draws the sheet if it is open, and opens the results when they are written.
  void draw(const PanelContext& context);

  bool running() const { return run_.computing(); }
  /// 0 to 1 while running.
  double fraction() const;
  /// Whether what the sheet says is still being worked out. A run is not: it may take hours.
  bool busy() const { return open_ && ((!running() && size_.computing()) || files_.listing()); }
  void start();
  void cancel();

  job::StudyOptions options;

 private:
  void draw_form(const PanelContext& context);
  void draw_run(const PanelContext& context);
  void draw_buttons(const PanelContext& context);
  void follow(const PanelContext& context);
  void measure();
  std::string time_left() const;

  bool open_ = false;
  bool appeared_ = false;
  float height_ = 0.0F;  // of the sheet, when it was drawn last
  long runs_ = 0;
  std::string told_;     // the run whose end was told
  std::string problem_;  // of the last run
  std::string stopped_;  // what a cancelled run had done
  std::chrono::steady_clock::time_point started_;
  FilePanel files_;
  job::JobQueue queue_;
  job::Computed<job::StudyProgress> run_;
  job::JobQueue size_queue_;         // separate, because a run may take long
  job::Computed<std::string> size_;  // how many traces or prompts there are
};

}  // namespace kvloupe::window
