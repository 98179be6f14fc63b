// docs/plugins.md as it stands there, from `cmake --install` on: the example is built from the
// installed tree alone, and used with the installed programs.

#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// The lines of a page's sh blocks.
std::vector<std::string> commands_of(const fs::path& page) {
  std::ifstream in(page);
  std::vector<std::string> commands;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      inside = line == "```sh";
    } else if (inside) {
      commands.push_back(line);
    }
  }
  return commands;
}

struct InstalledPlugin : testing::Test {
  /// Runs a line of a shell in the folder: its exit code, and what it said in said_.
  int run(const std::string& line) {
    const std::string whole =
        "cd '" + folder_.path().string() + "' && export HOME=\"$PWD\" PATH=\"" +
        "$PWD/kvloupe/bin:" + fs::path(KVLOUPE_CMAKE).parent_path().string() +
        ":$PATH\" CXX='" KVLOUPE_CXX_COMPILER "' && " + line + " > out.txt 2> error.txt";
    const int status = std::system(whole.c_str());
    out_ = test::file_text(folder_ / "out.txt");
    error_ = test::file_text(folder_ / "error.txt");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }
  std::string kept(const std::string& policy, const std::string& file) {
    EXPECT_EQ(run("kvloupe replay trace.h5 --plugin policy-plugin/build/small_keys.so --budget 25% "
                  "--policy '" +
                  policy + "' --json " + file),
              0)
        << error_;
    std::string sets;
    const auto document = nlohmann::json::parse(test::file_text(folder_ / file));
    for (const auto& head : document["heads"]) {
      for (const auto& step : head["steps"]) sets += step["retained"].dump() + "\n";
    }
    return sets;
  }

  test::TemporaryFolder folder_;
  std::string out_, error_;
};

TEST_F(InstalledPlugin, TheDocsCommandsWorkOnAnInstalledTree) {
  const fs::path build = KVLOUPE_BUILD_DIR;
  const bool capture = fs::exists(build / "bin/kvloupe-capture");
  fs::create_directory_symlink(build, folder_ / "build");
  fs::create_directory_symlink(fs::path(KVLOUPE_SOURCE_DIR) / "assets", folder_ / "assets");
  test::write_synthetic_trace(folder_ / "trace.h5");

  int done = 0;
  for (const std::string& command : commands_of(fs::path(KVLOUPE_SOURCE_DIR) / "docs/plugins.md")) {
    if (!capture && command.starts_with("kvloupe-capture")) continue;
    ASSERT_EQ(run(command), 0) << command << "\n" << out_ << error_;
    if (command.starts_with("kvloupe policies")) {
      EXPECT_THAT(out_, HasSubstr("\nsmallkeys "));
    }
    ++done;
  }
  EXPECT_GE(done, 8);
  EXPECT_THAT(test::file_text(folder_ / "sweep.csv"), HasSubstr("\"smallkeys\""));
  EXPECT_THAT(test::file_text(folder_ / "strip.svg"), HasSubstr("smallkeys"));

  // The same decisions as the program's own score.
  const std::string own = kept("keynorm", "own.json");
  EXPECT_GT(own.size(), 1000U);
  EXPECT_EQ(kept("smallkeys", "plugin.json"), own);
  EXPECT_EQ(kept("smallkeys+recent(10%)", "recent.json"), kept("keynorm+recent(10%)", "own2.json"));

  // Another build of the plugin: what a sweep has of it is computed again, the rest is kept.
  const std::string sweep =
      "kvloupe sweep trace.h5 --plugin policy-plugin/build/small_keys.so --policies "
      "'smallkeys,keydiff' --budgets 10%,25% -o sweep.csv";
  const std::string first = test::file_text(folder_ / "sweep.csv");
  ASSERT_EQ(run(sweep), 0) << error_;
  EXPECT_EQ(test::file_text(folder_ / "sweep.csv"), first);
  ASSERT_EQ(run("sed -i 's/scores.i. = /scores[i] = -1.0F * /' policy-plugin/small_keys.cpp && "
                "cmake --build policy-plugin/build"),
            0)
      << out_ << error_;
  ASSERT_EQ(run(sweep), 0) << error_;
  const std::string second = test::file_text(folder_ / "sweep.csv");
  EXPECT_NE(second, first);
  EXPECT_EQ(std::count(second.begin(), second.end(), '\n'),
            std::count(first.begin(), first.end(), '\n'));
  EXPECT_NE(kept("smallkeys", "changed.json"), own);

  // A study of the first build is refused by the second, and a study goes on with one build.
  std::ofstream(folder_ / "study.json")
      << R"({"traces": ["trace.h5"], "policies": ["smallkeys"], "budgets": ["25%"],
             "measures": ["retained_mass"]})";
  const std::string study =
      "kvloupe study study.json --plugin policy-plugin/build/small_keys.so -o results.sqlite";
  ASSERT_EQ(run(study), 0) << error_;
  ASSERT_EQ(run(study), 0) << error_;
  ASSERT_EQ(run("touch -d '1 hour ago' policy-plugin/build/small_keys.so"), 0);
  EXPECT_EQ(run(study), 1);
  EXPECT_THAT(error_, HasSubstr("policy files"));

  if (!capture) return;
  // The closed loop names its policy: it opens with the plugin, and without it says what is
  // missing.
  EXPECT_EQ(run("kvloupe info closed.h5"), 0) << error_;
  EXPECT_EQ(run("kvloupe replay closed.h5 --policy smallkeys --budget 4"), 2);
  EXPECT_THAT(error_, HasSubstr("unknown score"));
  // An evaluation does not go on with another build of the plugin.
  const std::string eval =
      "kvloupe-capture eval --model assets/demo-model --task perplexity --policies smallkeys "
      "--budgets 25% --lengths 64 --samples 1 -o eval.json "
      "--plugin policy-plugin/build/small_keys.so";
  ASSERT_EQ(run(eval), 0) << error_;
  ASSERT_EQ(run(eval), 0) << error_;
  ASSERT_EQ(run("touch -d '2 hours ago' policy-plugin/build/small_keys.so"), 0);
  EXPECT_EQ(run(eval), 1);
  EXPECT_THAT(error_, HasSubstr("another build of its plugin"));
}

TEST_F(InstalledPlugin, ABuildThatLacksTheEngineSaysWhatToBuild) {
  const std::string build = KVLOUPE_BUILD_DIR, empty = (folder_ / "build").string();
  std::string script = test::file_text(fs::path(build) / "cmake_install.cmake");
  for (std::size_t at = 0; (at = script.find(build, at)) != std::string::npos; at += empty.size()) {
    script.replace(at, build.size(), empty);
  }
  std::ofstream(folder_ / "install.cmake") << script;
  EXPECT_EQ(run("cmake -DCMAKE_INSTALL_PREFIX=there -P install.cmake"), 1) << out_;
  EXPECT_THAT(error_, AllOf(HasSubstr("is not built"), HasSubstr("kvloupe_engine")));
  EXPECT_FALSE(fs::exists(folder_ / "there"));
}

}  // namespace
}  // namespace kvloupe
