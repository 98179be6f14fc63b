#pragma once

#include <string>

#include "app/job/computed.h"

namespace kvloupe::window {

class Workspace;

/// A sheet to write the active view to a file: format, size, theme, caption, path. Written by a
/// background job.
class ExportPanel {
 public:
  void open(const std::string& view);
  bool is_open() const { return open_; }
  void close() { open_ = false; }
  void draw(Workspace& workspace);

 private:
  void start(Workspace& workspace);

  bool open_ = false;
  bool appeared_ = false;
  int format_ = 0;
  int size_ = 0;
  bool dark_ = false;
  bool legend_ = true;
  bool caption_ = false;
  std::string path_;
  long exports_ = 0;
  job::Computed<std::string> written_;
  std::string told_;
};

}  // namespace kvloupe::window
