// An option that a verb does not have, where the name of a file to write belongs.

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "tests/app/cli_call.h"

namespace kvloupe {
namespace {

TEST(OutputOption, AnUnknownOptionIsNotAFile) {
  for (const std::vector<std::string>& verb : std::vector<std::vector<std::string>>{
           {"sweep"}, {"study", "run"}, {"advise"}, {"report"}, {"export"}, {"gallery"}}) {
    std::vector<std::string> line = verb;
    line.push_back("--help");
    ASSERT_THAT(test::call(line).out, testing::HasSubstr("--output"));
    line.back() = "-o";
    line.push_back("--no-measures");
    const test::Called said = test::call(line);
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
