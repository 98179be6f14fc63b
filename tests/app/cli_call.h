#pragma once
// The command line kvloupe, run in this process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "app/cli/commands.h"

namespace kvloupe::test {

struct Called {
  int code = 0;  // the exit code
  std::string out, error;
};

/// `words` are what follows the program's name. What it prints goes to the result alone.
inline Called call(std::vector<std::string> words, const char* commit = "unknown") {
  words.insert(words.begin(), "kvloupe");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  return Called{.code = cli::run(static_cast<int>(argv.size()), argv.data(), commit),
                .out = testing::internal::GetCapturedStdout(),
                .error = testing::internal::GetCapturedStderr()};
}

/// The same for words of which some come from elsewhere.
inline Called call(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return call(std::move(words));
}

/// Calls one after the other, of which a test reads the last one's texts.
struct Caller {
  int call(const std::vector<std::string>& words) {
    const Called called = test::call(command, words);
    error = called.error;
    output = called.out;
    return called.code;
  }
  std::vector<std::string> command;  // the first words of each call
  std::string error, output;
};

/// Ends with this exit code and prints one error alone, which says this.
inline void expect_refused(const std::vector<std::string>& words, int code,
                           const std::string& says) {
  const Called called = call(words);
  EXPECT_EQ(called.code, code) << says;
  EXPECT_EQ(called.out, "") << says;
  EXPECT_THAT(called.error, testing::HasSubstr(says));
}

}  // namespace kvloupe::test
