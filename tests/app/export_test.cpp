// kvloupe export and gallery as a person calls them: files, exit codes, one clear line.

#include "tests/app/cli_call.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

struct ExportTest : ::testing::Test, test::Caller {
  void SetUp() override { test::write_synthetic_trace(folder / "t.h5"); }

  std::string trace() const { return (folder / "t.h5").string(); }
  std::string out(const char* name) const { return (folder / name).string(); }

  test::TemporaryFolder folder;
};

TEST_F(ExportTest, WritesEachFormat) {
  for (const char* name : {"a.svg", "a.pdf", "a.png", "a.csv", "a.html"}) {
    EXPECT_EQ(call({"export", trace(), "--figure", "pca", "-o", out(name)}), 0) << error;
    EXPECT_GT(fs::file_size(out(name)), 100U);
  }
  EXPECT_EQ(call({"export", trace(), "--figure", "attention", "--layer", "1", "--query-head", "3",
                  "--tokens", "0-31", "--size", "85x80mm", "--theme", "dark", "--set",
                  "pooling=mean", "--caption", "-o", out("b.svg")}),
            0)
      << error;
}

TEST_F(ExportTest, SeveralFilesAreWhatEachWouldBeAlone) {
  std::vector<std::string> words{"export", trace(), "--figure", "block-size", "--policies", "h2o"};
  const std::vector<const char*> endings{"svg", "pdf", "png", "csv"};
  for (const char* ending : endings) {
    words.insert(words.end(), {"-o", out((std::string("all.") + ending).c_str())});
    EXPECT_EQ(call({"export", trace(), "--figure", "block-size", "--policies", "h2o", "-o",
                    out((std::string("one.") + ending).c_str())}),
              0)
        << error;
  }
  EXPECT_EQ(call(words), 0) << error;
  const auto bytes = [&](const std::string& name) { return test::file_text(out(name.c_str())); };
  for (const char* ending : endings) {
    const std::string all = bytes(std::string("all.") + ending);
    EXPECT_FALSE(all.empty()) << ending;
    EXPECT_EQ(all, bytes(std::string("one.") + ending)) << ending;
  }
}

TEST_F(ExportTest, SeveralFilesAreCheckedBeforeTheWork) {
  EXPECT_EQ(call({"export", trace(), "--figure", "pca", "-o", out("a.svg"), "-o", out("a.docx")}),
            2);
  EXPECT_THAT(error, HasSubstr("a.docx"));
  EXPECT_EQ(call({"export", trace(), "--figure", "pca", "-o", out("a.svg"), "-o", out("a.pdf"),
                  "-o", out("./a.svg")}),
            2);
  EXPECT_THAT(error, HasSubstr("is given twice"));
  EXPECT_EQ(
      call({"export", trace(), "--figure", "pca", "-o", out("a.svg"), "-o", out("none/a.svg")}), 1);
  EXPECT_FALSE(fs::exists(out("a.svg")));
  // What follows a file is the next input, not a second file.
  EXPECT_EQ(call({"export", "--figure", "pca", "-o", out("b.svg"), trace()}), 0) << error;
  EXPECT_TRUE(fs::exists(out("b.svg")));
}

TEST_F(ExportTest, ListsOfPoliciesAndBudgetsHaveOptionsOfTheirOwn) {
  EXPECT_EQ(call({"export", trace(), "--figure", "budget-curve", "--policies",
                  "h2o+kvmerger(recent=17%,heavy=12%),B", "--policy-b", "tova", "--budgets",
                  "12,50%", "-o", out("c.csv")}),
            0)
      << error;
  const std::string text = test::file_text(out("c.csv"));
  EXPECT_THAT(text, HasSubstr("tova"));
  EXPECT_THAT(text, HasSubstr("kvmerger"));
  EXPECT_THAT(text, HasSubstr("budgets: 12,50%"));
  EXPECT_EQ(call({"export", trace(), "--figure", "budget-curve", "--policies", "h2o,,tova", "-o",
                  out("d.csv")}),
            2);
  EXPECT_THAT(error, HasSubstr("remove a comma"));
}

TEST_F(ExportTest, WrongCommandLinesExitWith2AndLeaveNothing) {
  const std::string target = out("x.svg");
  const auto refused = [&](std::vector<std::string> more, const char* says) {
    std::vector<std::string> words{"export", trace(), "-o", target};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(call(words), 2);
    EXPECT_THAT(error, HasSubstr(says));
    EXPECT_FALSE(fs::exists(target));
  };
  refused({"--figure", "filmstripe"}, "'filmstrip'");
  refused({"--figure", "filmstrip", "--policy-b", "tova"}, "filmstrip draws one policy");
  refused({"--figure", "budget-curve", "--policy-b", "tova", "--policies", "A"}, "one policy");
  refused({"--figure", "pca", "--layer", "7"}, "nearest is 1");
  refused({"--figure", "pca", "--head", "2"}, "nearest is 1");
  refused({"--figure", "pca", "--step", "99"}, "--step 99");
  refused({"--figure", "pca", "--step", "-1"}, "--step -1");
  refused({"--figure", "similarity", "--tokens", "0-999"}, "--tokens 999");
  refused({"--figure", "similarity", "--tokens", "a-b"}, "--tokens a-b");
  refused({"--figure", "pca", "--size", "85x60"}, "--size 85x60");
  refused({"--figure", "pca", "--policy", "keydif"}, "keydiff");
  refused({"--figure", "pca", "--budget", "0"}, "0");
  refused({"--figure", "pca", "--set", "rope=sideways"}, "sideways");
  refused({"--figure", "pca", "--set", "rop=after"}, "'rope'");
  refused({"--figure", "pca", "--theme", "blue"}, "blue");
  refused({trace(), "--figure", "pca"}, "reads one trace");
  refused({"--figure", "pca", "--policies", "h2o"}, "'rope'");
  refused({}, "--figure");
  EXPECT_EQ(call({"export", trace(), "--figure", "pca", "-o", out("x.bmp")}), 2);
  EXPECT_THAT(error, HasSubstr(".svg"));
}

TEST_F(ExportTest, FilesThatFailExitWith1) {
  EXPECT_EQ(call({"export", out("none.h5"), "--figure", "pca", "-o", out("x.svg")}), 1);
  EXPECT_THAT(error, HasSubstr("none.h5"));
  EXPECT_FALSE(fs::exists(out("x.svg")));
  EXPECT_EQ(call({"export", trace(), "--figure", "pca", "-o", (folder / "no").string() + "/x.svg"}),
            1);
  EXPECT_THAT(error, HasSubstr("x.svg"));
  fs::create_directory(folder / "dir.svg");
  EXPECT_EQ(call({"export", trace(), "--figure", "pca", "-o", out("dir.svg")}), 1);
  EXPECT_EQ(call({"export", trace(), "--figure", "overview", "-o", "/dev/full/x.svg"}), 1);
  EXPECT_EQ(call({"gallery", trace(), "-o", trace() + "/in/a/file"}), 1);
  // Nothing half-written was left beside the targets.
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
}

TEST_F(ExportTest, AGallerySkipsWhatATraceDoesNotGive) {
  test::SyntheticTraceOptions options;  // shorter than a block, and nothing written
  options.prompt_length = 9;
  options.generated = options.question = 0;
  test::write_synthetic_trace(folder / "short.h5", options);
  ASSERT_EQ(call({"gallery", out("short.h5"), "-o", out("gallery")}), 0) << error;
  EXPECT_THAT(output, HasSubstr("loss-table: skipped: figure loss-table: no query"));
  EXPECT_THAT(output, HasSubstr("index: html"));
}

TEST_F(ExportTest, GalleryWritesEveryFigure) {
  ASSERT_EQ(call({"gallery", trace(), "-o", out("gallery"), "--policy", "h2o"}), 0) << error;
  for (const char* figure : {"overview", "similarity", "attention", "pca", "filmstrip", "tokens"}) {
    EXPECT_THAT(output, HasSubstr(figure));
    for (const char* ending : {".svg", ".pdf", ".png", ".csv", ".html"}) {
      EXPECT_GT(fs::file_size(folder.path() / "gallery" / (std::string(figure) + ending)), 100U);
    }
  }
  // Every file that the index links to is there, and no figure is missing in it.
  EXPECT_THAT(output, HasSubstr("loss-table: svg pdf png csv html tex"));
  EXPECT_THAT(output, HasSubstr("index: html"));
  const std::string index = test::file_text(folder.path() / "gallery/index.html");
  std::size_t links = 0;
  const std::string mark = "<a href=\"";
  for (std::size_t at = index.find(mark); at != std::string::npos; at = index.find(mark, at + 1)) {
    const std::size_t from = at + mark.size();
    const std::string address = index.substr(from, index.find('"', from) - from);
    if (address.starts_with("#")) continue;
    EXPECT_TRUE(fs::exists(folder.path() / "gallery" / address)) << address;
    ++links;
  }
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder.path() / "gallery"))
    files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(links + 1, files) << "all but the index itself";
}

}  // namespace
}  // namespace kvloupe
