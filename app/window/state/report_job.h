#pragma once

#include <string>

#include "app/job/computed.h"

namespace kvloupe::window {

struct PanelContext;

/// The report of the open study, written in the background.
class ReportJob {
 public:
  /// Writes FILE.html or FILE.pdf. Loss, limit and risk are those of the view `certificate` where a
  /// tile shows it, else those of `kvloupe report`. Throws UsageError for another ending, FileError
  /// where the name is that of the results.
  void start(const PanelContext& context, const std::string& path);
  /// Says once that the file is written, or what went wrong. Call once per frame.
  void follow(const PanelContext& context);
  bool writing() const { return written_.computing(); }

 private:
  job::Computed<std::string> written_;  // the name of the file
  std::string told_;                    // the key of what was said
  long reports_ = 0;
};

}  // namespace kvloupe::window
