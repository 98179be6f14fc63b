#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/demo/demo_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::test {

/// A demo model that is none, and in the place of kvloupe-capture a script that copies a synthetic
/// trace to where the capture goes, and notes that it ran.
class FakeDemo {
 public:
  FakeDemo();
  const demo::DemoPlaces& places() const { return places_; }
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

  /// The command lines of all runs so far.
  std::vector<std::string> runs() const;
  /// Adds lines of shell that the script runs before it copies the trace; `$out` is the target.
  void before(const std::string& lines);
  /// As a new version of the file would be; a kept trace is older than it from then on.
  void renew(const std::filesystem::path& file) const;

 private:
  void write_program(const std::string& lines);

  TemporaryFolder folder_;
  demo::DemoPlaces places_;
};

}  // namespace kvloupe::test
