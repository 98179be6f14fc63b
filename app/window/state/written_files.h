#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/job/computed.h"

namespace kvloupe::window {

struct PanelContext;

/// Files that background jobs write, any number at a time: a second one does not end the first.
class WrittenFiles {
 public:
  /// `write` writes a file and returns what to say then.
  void start(job::JobQueue& queue, std::function<std::string(Progress&)> write);
  /// Says of each file once that it is written, or what went wrong. Call once per frame.
  void follow(const PanelContext& context);
  bool writing() const { return !files_.empty(); }

 private:
  std::vector<std::unique_ptr<job::Computed<std::string>>> files_;
};

}  // namespace kvloupe::window
