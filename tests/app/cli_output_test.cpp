// An option that a verb does not have, where the name of a file to write belongs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "app/cli/commands.h"

namespace kvloupe {
namespace {

struct Said {
  int code = 0;
  std::string out, error;
};

Said run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "kvloupe");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Said said;
  said.code = cli::run(static_cast<int>(argv.size()), argv.data(), "");
  said.out = testing::internal::GetCapturedStdout();
  said.error = testing::internal::GetCapturedStderr();
  return said;
}

TEST(OutputOption, AnUnknownOptionIsNotAFile) {
  for (const std::vector<std::string>& verb : std::vector<std::vector<std::string>>{
           {"sweep"}, {"study", "run"}, {"advise"}, {"report"}, {"export"}, {"gallery"}}) {
    std::vector<std::string> line = verb;
    line.push_back("--help");
    ASSERT_THAT(run(line).out, testing::HasSubstr("--output"));
    line.back() = "-o";
    line.push_back("--no-measures");
    const Said said = run(line);
    EXPECT_EQ(said.code, 2);
    EXPECT_THAT(said.error, testing::HasSubstr("--output: '--no-measures' reads like an option; "
                                               "for a file of this name write ./--no-measures"))
        << verb.front();
    EXPECT_EQ(std::count(said.error.begin(), said.error.end(), '\n'), 1);
    EXPECT_FALSE(std::filesystem::exists("--no-measures"));
  }
}

}  // namespace
}  // namespace kvloupe
