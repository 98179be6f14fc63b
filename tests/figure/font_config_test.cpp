// Fonts that come with the program, as in the Python wheel.
#include "app/scene/font_config.h"

#include <gtest/gtest.h>

#include "app/scene/text_metrics.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::figure {
namespace {

namespace fs = std::filesystem;

fs::path font_of_letters() {
  const TextMetrics metrics;
  return metrics.face(metrics.layout("a", Font::regular).front().face).path;
}

TEST(FontConfig, AFamilyIsTakenFromTheFolderOfTheProgram) {
  const test::TemporaryFolder folder;
  const fs::path usual = font_of_letters();
  const fs::path own = folder.path() / usual.filename();
  fs::copy_file(usual, own);
  use_font_folder(folder.path());
  EXPECT_EQ(font_of_letters(), own);
  use_font_folder("/nowhere/fonts");
  EXPECT_EQ(font_of_letters(), own);
  use_font_folder({});  // it counts for the whole process, whose next test has the usual fonts
  EXPECT_EQ(font_of_letters(), usual);
}

}  // namespace
}  // namespace kvloupe::figure
