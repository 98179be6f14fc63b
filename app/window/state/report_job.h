#pragma once

#include <string>

#include "app/window/state/written_files.h"

namespace kvloupe::window {

struct PanelContext;

/// Writes the results of the open study to a file in the background: a report, or a table of
/// entries by head.
class ReportJob {
 public:
  /// Writes FILE.html or FILE.pdf. Loss, limit and risk are those of the view `certificate` where a
  /// tile shows it, else those of `kvloupe report`. Throws UsageError for another ending, FileError
  /// where the name is that of the results.
  void start(const PanelContext& context, const std::string& path);
  /// Writes FILE.csv, .npy or .json: entries by head with the state's budget as their mean, for
  /// policy A where the study has it, else its first (kvloupe advise --heads). Throws as start().
  void start_table(const PanelContext& context, const std::string& path);
  /// Call once per frame.
  void follow(const PanelContext& context) { written_.follow(context); }
  bool writing() const { return written_.writing(); }

 private:
  WrittenFiles written_;
};

}  // namespace kvloupe::window
