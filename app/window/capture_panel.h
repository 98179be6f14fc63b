#pragma once

#include <functional>
#include <string>

#include "app/job/computed.h"
#include "app/window/capture_job.h"
#include "app/window/file_panel.h"

namespace kvloupe::window {

class Workspace;

/// A sheet to make a trace: model, prompt, block, policy. kvloupe-capture runs as a child process;
/// the trace is opened when it is there.
class CapturePanel {
 public:
  explicit CapturePanel(std::function<void()> wake) : queue_(1, std::move(wake)) {}

  /// A new capture, with the full cache.
  void open_new(const Workspace& workspace);
  /// The open trace's tokens again, with policy A in the cache.
  void open_closed_loop(const Workspace& workspace);
  bool is_open() const { return open_; }
  void close() { open_ = false; }
  /// Draws the sheet where it is open, and opens the trace once it is written.
  void draw(Workspace& workspace);

  bool running() const { return run_.computing(); }
  /// 0 to 1 while running.
  double fraction() const;
  void start();
  void cancel();

  CaptureOptions options;

 private:
  void draw_form(Workspace& workspace);
  void draw_prompt(const Workspace& workspace);
  void draw_policy(const Workspace& workspace);
  void draw_run(const Workspace& workspace);
  void follow(Workspace& workspace);

  bool open_ = false;
  bool appeared_ = false;
  bool cancelled_ = false;
  long runs_ = 0;
  std::string told_;
  std::string problem_;
  FilePanel files_;
  job::JobQueue queue_;
  job::Computed<CaptureState> run_;
};

}  // namespace kvloupe::window
