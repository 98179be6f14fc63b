// The program itself on a display of its own, driven by the X server's mouse and key events as fast
// as they come (xdotool), and seen by what it saves.

#include <signal.h>
#include <sys/prctl.h>

#include "analysis/base/system/child_process.h"
#include "tests/app/virtual_display.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;

struct RealEvents : testing::Test {
  void SetUp() override {
    if (const std::string problem = need_own_display(); !problem.empty()) GTEST_SKIP() << problem;
    if (find_program("xdotool").empty()) GTEST_SKIP() << "install the package xdotool";
    write_synthetic_trace(path("small.h5"), {.layers = 3, .clusters = 4});
  }
  void TearDown() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
  }

  fs::path path(const char* name) const { return folder_.path() / name; }

  /// Starts the program and waits until its window shows the trace: before, most keys do nothing.
  void start(const std::vector<std::string>& words) {
    const std::string program = std::string(KVLOUPE_BIN_DIR) + "/kvloupe";
    child_ = fork();
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      setenv("XDG_CONFIG_HOME", folder_.path().c_str(), 1);
      setenv("XDG_STATE_HOME", folder_.path().c_str(), 1);
      setenv("HOME", folder_.path().c_str(), 1);
      if (chdir(folder_.path().c_str()) != 0) _exit(126);
      std::vector<char*> argv{const_cast<char*>(program.c_str())};
      for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      execv(program.c_str(), argv.data());
      _exit(127);
    }
    ASSERT_TRUE(until([&] {
      window_.clear();
      send({"search", "--onlyvisible", "--name", "^small.h5"});
      return !window_.empty();
    })) << "no window with the trace came up";
    send({"windowfocus", window_});
    std::this_thread::sleep_for(500ms);  // the first frames
  }

  void send(std::vector<std::string> words) {
    words.insert(words.begin(), "xdotool");
    run_child(words, unwatched, [&](const std::string& line) { window_ = line; });
  }
  void keys(std::vector<std::string> names) {
    names.insert(names.begin(), "key");
    send(names);
  }
  void type(const std::string& text) { send({"type", "--delay", "2", text}); }

  static bool until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(50ms);
    }
    return true;
  }

  /// Types the file's name where a sheet asks for one, and waits for the file.
  void name_file(const fs::path& file) {
    keys({"ctrl+a"});
    type(file.string());
    keys({"Return"});
    ASSERT_TRUE(until([&] { return fs::exists(file); })) << file << " was not written";
  }
  /// The session as saved now.
  Json session(const char* name) {
    fs::remove(path(name));
    keys({"ctrl+s"});
    name_file(path(name));
    std::ifstream in(path(name));
    return Json::parse(in, nullptr, false);
  }
  /// The exit code once it has ended.
  int end() {
    int status = -1;
    const bool ended = until([&] { return waitpid(child_, &status, WNOHANG) == child_; });
    EXPECT_TRUE(ended) << "it does not quit";
    if (!ended) return -1;
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  TemporaryFolder folder_;
  pid_t child_ = -1;
  std::string window_;
};

TEST_F(RealEvents, NothingIsLostFromOpeningToSavingAndBack) {
  start({"small.h5", "--size", "1280x800"});
  const Json first = session("first.json");
  ASSERT_TRUE(first.is_object());
  EXPECT_EQ(fs::path(first["trace"].get<std::string>()), path("small.h5"))
      << "found again from any folder";

  // A head, the budget, the policy: no frame waited for between the keys.
  keys({"Down", "Right", "bracketright", "slash"});
  type("tova+recent(20%)");
  keys({"Return"});
  ASSERT_TRUE(until([&] { return session("typed.json")["policy_a"] == "tova+recent(20%)"; }));
  keys({"comma", "comma"});
  const Json second = session("second.json");
  EXPECT_EQ(second["selection"]["layer"], first["selection"]["layer"].get<int>() + 1);
  EXPECT_EQ(second["selection"]["head"], first["selection"]["head"].get<int>() + 1);
  EXPECT_NE(second["budget"], first["budget"]);
  EXPECT_EQ(second["policy_a"], "tova+recent(20%)");
  EXPECT_NE(second["selection"]["step"], first["selection"]["step"]);

  // Two undone changes, one done again.
  keys({"ctrl+z", "ctrl+z", "ctrl+shift+z"});
  const Json undone = session("undone.json");
  EXPECT_EQ(undone["policy_a"], first["policy_a"]);
  EXPECT_EQ(undone["budget"], second["budget"]);

  // The palette, with the first letters already behind its key.
  keys({"ctrl+k"});
  type("similarity");
  keys({"Return"});
  EXPECT_EQ(session("palette.json")["tiles"][0]["view"], "similarity");

  // The pointer: a zoom at it, a drag, a click on a token. Again, where there is no picture yet.
  ASSERT_TRUE(until([&] {
    send({"mousemove", "620", "330", "sleep", "0.3", "click", "4", "sleep", "0.1", "click", "4"});
    return !session("zoomed.json")["tiles"][0]["x_range"].is_null();
  }));
  const Json zoomed = session("zoomed_again.json");
  EXPECT_TRUE(until([&] {
    // All of it may come within one frame.
    send({"mousemove", "620", "330", "mousedown", "1", "mousemove", "560", "330", "mousemove",
          "520", "330", "mouseup", "1"});
    return session("panned.json")["tiles"][0]["x_range"] != zoomed["tiles"][0]["x_range"];
  }));
  EXPECT_TRUE(until([&] {
    send({"sleep", "0.5", "click", "1", "sleep", "0.5"});
    return session("clicked.json")["selection"]["token"] >= 0;
  }));
  keys({"Escape", "Escape", "0"});

  // Every layout, a comparison, an export.
  for (const char* layout : {"ctrl+2", "ctrl+3", "ctrl+4", "ctrl+5", "ctrl+1"}) keys({layout});
  keys({"ctrl+2"});
  EXPECT_TRUE(session("compared.json")["policy_b_on"].get<bool>());
  keys({"ctrl+e"});
  name_file(path("view.svg"));
  EXPECT_GT(fs::file_size(path("view.svg")), 1000U);

  const Json last = session("last.json");
  keys({"ctrl+q"});
  EXPECT_EQ(end(), 0);

  start({"--session", path("last.json").string(), "--size", "1280x800"});
  EXPECT_EQ(session("restored.json"), last);
  keys({"F1"});
  keys({"Escape"});
  keys({"ctrl+q"});
  EXPECT_EQ(end(), 0);
}

}  // namespace
}  // namespace kvloupe::test
