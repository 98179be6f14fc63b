#include "tests/app/fake_demo.h"

#include <chrono>
#include <fstream>
#include <thread>

#include "tests/support/synthetic_trace.h"

namespace kvloupe::test {

namespace fs = std::filesystem;

namespace {
/// Longer than the clock of any file system takes for a tick.
void let_a_tick_pass() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }
}  // namespace

FakeDemo::FakeDemo() {
  places_.assets = path("assets");
  places_.cache = path("cache/kvloupe");
  places_.program = path("capture").string();
  fs::create_directories(places_.assets / "demo-model");
  fs::create_directories(places_.assets / "prompts");
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.model"}) {
    std::ofstream(places_.assets / "demo-model" / name) << "{}";
  }
  for (const char* name : {"needle", "long"}) {
    std::ofstream(places_.assets / "prompts" / (std::string(name) + ".txt")) << "Once";
  }
  SyntheticTraceOptions options{.layers = 3, .clusters = 4};
  write_synthetic_trace(path("full.h5"), options);
  write_synthetic_closed_loop(path("closed.h5"), options, "h2o", 24);
  write_program("");
  let_a_tick_pass();
}

std::vector<std::string> FakeDemo::runs() const {
  std::ifstream in(path("runs"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void FakeDemo::before(const std::string& lines) {
  write_program(lines);
  let_a_tick_pass();
}

void FakeDemo::renew(const fs::path& file) const {
  const std::string text = file_text(file);
  let_a_tick_pass();
  std::ofstream(file, std::ios::binary) << text;
  let_a_tick_pass();
}

void FakeDemo::write_program(const std::string& lines) {
  {
    std::ofstream script(places_.program);
    script << "#!/bin/sh\n"
              "echo \"$*\" >> '"
           << path("runs").string()
           << "'\n"
              "from=full\n"
              "while [ $# -gt 0 ]; do\n"
              "  case $1 in --output) out=$2 ;; --policy) from=closed ;; esac\n"
              "  shift\n"
              "done\n"
              "echo '{\"event\":\"tokens\",\"done\":26,\"total\":104,\"prompt_length\":96}'\n"
           << lines
           << "\n"
              "echo '{\"event\":\"tokens\",\"done\":104,\"total\":104,\"prompt_length\":96}'\n"
              "cp '"
           << path("").string()
           << "'\"$from.h5\" \"$out.$$.tmp\" || exit 1\n"
              "mv \"$out.$$.tmp\" \"$out\"\n"
              "printf '{\"event\":\"done\",\"trace\":\"%s\"}\\n' \"$out\"\n";
  }
  fs::permissions(places_.program, fs::perms::owner_all);
}

}  // namespace kvloupe::test
