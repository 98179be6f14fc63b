#include "app/window/state/preferences.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace kvloupe::window {
namespace {

class PreferencesFile : public testing::Test {
 protected:
  Preferences read(const std::string& text) {
    std::ofstream(path()) << text;
    return read_preferences(path());
  }
  std::filesystem::path path() { return folder_.path() / "preferences.json"; }
  test::TemporaryFolder folder_;
};

TEST_F(PreferencesFile, WhatIsWrittenIsReadAndTheFolderIsMade) {
  Preferences p;
  p.theme = Theme::dark;
  p.amounts = figure::AmountMap::grey;
  p.scale = 1.25;
  p.model = "/models/träumer";
  p.export_format = "pdf";
  p.export_size = "double column";
  p.export_text = 7.5;
  p.plugins = {"/a/b.so", "/ä/c.so"};
  p.patterns = false;
  p.reduced_motion = true;
  p.sizes = {.left = 0.25, .bottom = 0.4, .tiles = {{2, {0.25, 0.75}}, {4, {0, 0, 0.4, 0.6}}}};
  const auto file = folder_.path() / "a" / "b" / "preferences.json";
  write_preferences(p, file);
  EXPECT_EQ(read_preferences(file), p);
  p.theme = Theme::high_contrast;
  p.patterns.reset();
  write_preferences(p, file);
  EXPECT_EQ(read_preferences(file), p);
}

TEST_F(PreferencesFile, WhatIsBrokenIsAsIfItWereNotThere) {
  EXPECT_EQ(read_preferences(folder_.path() / "none.json"), Preferences{});
  EXPECT_EQ(read_preferences(folder_.path()), Preferences{});
  for (const char* text :
       {"", "[1]", "{\"theme\"", "{\"theme\": 3, \"scale\": 1e9, \"colours\": \"pink\"}"}) {
    EXPECT_EQ(read(text), Preferences{}) << text;
  }
  EXPECT_EQ(read(R"({"plugins": "x.so"})"), Preferences{});
  EXPECT_EQ(read(R"({"patterns": "on", "reduced_motion": 1})"), Preferences{});
  for (const char* sizes :
       {"3", "[]", R"({"left": "wide", "right": -1, "bottom": 1e9, "tiles": []})",
        R"({"left": 300.5, "bottom": 398})",  // pixels of an earlier version
        R"({"tiles": {"2": [0.5], "3": [0.2, "x", 0.3], "4": [0.1, 0.1, 0.1, 1.5], "9": [1]}})"}) {
    EXPECT_EQ(read(std::string("{\"sizes\": ") + sizes + "}"), Preferences{}) << sizes;
  }
  EXPECT_EQ(read(R"({"plugins": ["x.so", 3, null]})").plugins, std::vector<std::string>{"x.so"});
  EXPECT_EQ(read(R"({"scale": "large", "model": "/m"})").model, "/m") << "the rest still counts";
}

TEST_F(PreferencesFile, WhatCannotBeWrittenIsForgotten) {
  std::ofstream(path()) << "a file where a folder should be";
  EXPECT_NO_THROW(write_preferences({}, path() / "preferences.json"));
  EXPECT_NO_THROW(write_preferences({}, {}));
}

}  // namespace
}  // namespace kvloupe::window
