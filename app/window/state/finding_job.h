#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/job/computed.h"
#include "app/session/finding.h"

namespace kvloupe::window {

struct PanelContext;

/// The result of following the state's tokens under policy A, computed in the background.
class FindingJob {
 public:
  /// Asks for what belongs to the state now. `model`: the folder for the command line, or empty.
  void request(const PanelContext& context, const std::string& model);
  void clear() { finding_.clear(); }
  /// Nothing until it is known.
  std::shared_ptr<const Finding> current() const { return finding_.current(); }
  std::string error() const { return finding_.error(); }
  bool computing() const { return finding_.computing(); }

 private:
  struct Key {
    std::string trace, rescue, model;
    PolicySpec policy;
    Budget budget;
    std::vector<int> tokens;
    int block = 0;
    std::optional<Compression> compression;
    bool operator==(const Key&) const = default;
  };
  job::Computed<Finding, Key> finding_;
};

/// Copies it, with a line that says so.
void copy_finding(const PanelContext& context, const Finding& finding);

}  // namespace kvloupe::window
