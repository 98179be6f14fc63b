// The program kvloupe-capture as a person or the window meets it: exit codes, one line, no
// leftovers.
#include <fcntl.h>
#include <signal.h>

#include "tests/capture/capture_check.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

/// The program as a child process, its output in two files of `folder`.
class Child {
 public:
  Child(const TemporaryFolder& folder, std::vector<std::string> arguments,
        const std::string& program = "kvloupe-capture")
      : out_(folder / "stdout"), err_(folder / "stderr") {
    arguments.insert(arguments.begin(), std::string(KVLOUPE_BIN_DIR) + "/" + program);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    process_ = fork();
    if (process_ != 0) return;
    for (const auto& [path, descriptor] : {std::pair(out_, 1), std::pair(err_, 2)}) {
      const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(file, descriptor);
    }
    execv(argv[0], argv.data());
    _exit(127);
  }
  pid_t process() const { return process_; }
  /// The exit code; 128 + n where signal n ended it.
  int wait() const {
    int status = 0;
    waitpid(process_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string out() const { return file_text(out_); }
  std::string err() const { return file_text(err_); }

 private:
  std::filesystem::path out_, err_;
  pid_t process_ = -1;
};

struct Program : testing::Test {
  void SetUp() override {
    std::filesystem::create_directory(model_);
    std::filesystem::create_directory(work_);
    tiny_.write(model_);
    write_file(ids_, random_ids_text(50, tiny_.vocab_size, 2));
  }

  /// `run` on the tiny model and its ids, with more arguments.
  std::vector<std::string> run(std::vector<std::string> more) const {
    std::vector<std::string> all{"run", "--model", model_, "--ids", ids_, "-o", target_};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  /// Expects this exit code, one line on stderr with `text`, nothing on stdout and no new file.
  void expect_failure(int code, const std::string& text,
                      const std::vector<std::string>& arguments) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const Child child(folder_, arguments);
    EXPECT_EQ(child.wait(), code);
    EXPECT_THAT(child.err(), HasSubstr(text));
    const std::string error = child.err();
    EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
    EXPECT_EQ(child.out(), "");
    EXPECT_TRUE(std::filesystem::is_empty(work_));
  }

  const TinyCheckpoint tiny_;
  const TemporaryFolder folder_;
  const std::filesystem::path model_ = folder_ / "model";
  const std::filesystem::path work_ = folder_ / "work";
  const std::filesystem::path ids_ = folder_ / "ids.txt";
  const std::string target_ = (folder_ / "work" / "trace.h5").string();
};

TEST_F(Program, HelpAndVersion) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"run", "--help"}, {"--version"}}) {
    const Child child(folder_, arguments);
    EXPECT_EQ(child.wait(), 0);
    EXPECT_THAT(child.out(),
                HasSubstr(arguments.back() == "--help" ? "--help" : "kvloupe-capture "));
    EXPECT_EQ(child.err(), "");
  }
}

TEST_F(Program, TheManualPageHasEveryOption) {
  const Child page(folder_, {"--print-page", "man"});
  ASSERT_EQ(page.wait(), 0);
  const std::string text = page.out();
  for (const char* verb : {"run", "eval", "rescue", "tokens"}) {
    EXPECT_THAT(text, HasSubstr(std::string(".SS ") + verb + "\n"));
    const Child help(folder_, {verb, "--help"});
    ASSERT_EQ(help.wait(), 0);
    std::istringstream words(help.out());
    for (std::string word; words >> word;) {
      if (!word.starts_with("--")) continue;
      std::string option = "\\-\\-";  // as man(7) writes it
      for (const char c :
           word.substr(2, word.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", 2) - 2))
        option += c == '-' ? "\\-" : std::string(1, c);
      EXPECT_THAT(text, HasSubstr(option)) << verb;
    }
  }
}

TEST_F(Program, WrongCommandLinesGiveTwo) {
  expect_failure(2, "subcommand", {});
  expect_failure(2, "--model", {"run", "--ids", ids_, "-o", target_});
  expect_failure(2, "[--prompt,--text,--ids,--results,--from,--prompt-set] is required",
                 {"run", "--model", model_, "-o", target_});
  expect_failure(2, "[--prompt,--text,--ids,--results,--from,--prompt-set] is required",
                 run({"--text", "x"}));
  expect_failure(2, "--dtype", run({"--dtype", "f8"}));
  expect_failure(2, "--device", run({"--device", "tpu"}));
  expect_failure(2, "--attention", run({"--attention", "some"}));
  expect_failure(2, "--nonsense", run({"--nonsense"}));
  expect_failure(2, "contains only 50 ids", run({"--prompt-length", "51"}));
  expect_failure(2, "--prompt-length", run({"--prompt-length", "9", "--generate", "3"}));
  expect_failure(2, "--prompt-length: Value 0 not in range 1 to 1073741824;",
                 run({"--prompt-length", "0"}));
  expect_failure(2, "--row requires --results",
                 {"run", "--model", model_, "--text", "x", "--row", "3", "-o", target_});
  expect_failure(2, "give one of --prompt, --trace and --results",
                 {"rescue", "--model", model_, "--policy", "h2o", "--budget", "9", "-o", target_});
  expect_failure(2, "needs --policy and --budget",
                 {"rescue", "--model", model_, "--prompt", "x", "-o", target_});
  expect_failure(2, "--prompt-length requires --ids",
                 {"run", "--model", model_, "--text", "x", "--prompt-length", "3", "-o", target_});
  expect_failure(2, "needs --budget", run({"--policy", "keydiff"}));
  expect_failure(2, "keydif", run({"--policy", "keydif", "--budget", "9"}));
  expect_failure(2, "must be at least 1", run({"--policy", "keydiff", "--budget", "0"}));
  expect_failure(2, "which a running model does not know",
                 run({"--policy", "oracle", "--budget", "9"}));
  expect_failure(2, "--positions", run({"--positions", "packed"}));
  expect_failure(2, "--budget", run({"--policy", "full", "--budget", "10"}));
}

TEST_F(Program, FilesThatAreMissingOrBrokenGiveOne) {
  expect_failure(1, "none: does not exist; a Hugging Face model folder or a GGUF",
                 {"run", "--model", folder_ / "none", "--ids", ids_, "-o", target_});
  expect_failure(1, "this file does not exist",
                 {"run", "--model", model_, "--ids", folder_ / "none", "-o", target_});
  expect_failure(1, "tokenizer.model", {"run", "--model", model_, "--text", "x", "-o", target_});
  expect_failure(1, "this file does not exist",
                 {"run", "--model", model_, "--prompt", folder_ / "none", "-o", target_});
  expect_failure(1, "cannot be written",
                 {"run", "--model", model_, "--ids", ids_, "-o", folder_ / "none" / "x.h5"});
  expect_failure(1, "/proc/x.h5", {"run", "--model", model_, "--ids", ids_, "-o", "/proc/x.h5"});
  write_file(ids_, "1 2 40");
  expect_failure(1, "outside the model's vocabulary", run({}));
  write_file(ids_, "1 2 3");
  write_file(model_ / "tokenizer.model", "broken");
  expect_failure(1, "not a SentencePiece model", run({}));
  std::filesystem::remove(model_ / "tokenizer.model");
  const std::string weights = file_text(model_ / "model.safetensors");
  write_file(model_ / "model.safetensors", weights.substr(0, weights.size() / 2));
  expect_failure(1, "beyond the end of the file", run({}));
  write_file(model_ / "config.json", "{");
  expect_failure(1, "not valid JSON", run({}));
}

TEST_F(Program, TokensAreCountedAndShown) {
  const auto tokens = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"tokens", "--model", model_});
    return more;
  };
  expect_failure(1, "contains no tokenizer.json", tokens({"--text", "x"}));
  write_file(model_ / "tokenizer.json", R"({
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, " ": 3}, "merges": ["a b"]},
      "added_tokens": [{"id": 4, "content": "<s>", "special": true},
                       {"id": 5, "content": "<turn>", "special": true}],
      "decoder": {"type": "Fuse"},
      "post_processor": {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
        "special_tokens": {"<s>": {"ids": [4]}}}})");
  std::filesystem::remove(model_ / "config.json");  // no model is needed
  const auto output = [&](const std::vector<std::string>& arguments) {
    const Child child(folder_, arguments);
    EXPECT_EQ(child.wait(), 0) << child.err();
    EXPECT_EQ(child.err(), "");
    return child.out();
  };
  EXPECT_EQ(output(tokens({"--text", "abb"})), "3 tokens: 2 context, 1 special\n");
  // The text may bring its own BOS; special tokens belong to no segment of the text.
  EXPECT_EQ(output(tokens({"--text", "<s><turn>ab a", "--list"})),
            "      0        4  special    <s>\n"
            "      1        5  special    <turn>\n"
            "      2        2  context    ab\n"
            "      3        3  context     \n"
            "      4        0  context    a\n"
            "5 tokens: 3 context, 2 special\n");
  write_file(folder_ / "prompt.txt", "\xEF\xBB\xBF<s>ab\n@@needle\nba\n");
  const auto json =
      nlohmann::json::parse(output(tokens({"--prompt", folder_ / "prompt.txt", "--json", "-"})));
  EXPECT_EQ(json["tokens"], 4);
  EXPECT_EQ(json["ids"], nlohmann::json({4, 2, 1, 0}));
  EXPECT_EQ(json["pieces"], nlohmann::json({"<s>", "ab", "b", "a"}));
  EXPECT_EQ(json["segments"], nlohmann::json({{"special", 1}, {"context", 1}, {"needle", 2}}));
  EXPECT_EQ(json["bos"], 4);
  EXPECT_EQ(json["vocabulary"], 6);
  EXPECT_EQ(json["text"], "abba");
  // Ids are shown as they are.
  write_file(ids_, "2 5 1\n");
  EXPECT_EQ(output(tokens({"--ids", ids_})), "3 tokens: 2 context, 1 special\n");
  EXPECT_EQ(output(tokens({"--ids", ids_, "--json", folder_ / "tokens.json"})), "");
  EXPECT_EQ(nlohmann::json::parse(file_text(folder_ / "tokens.json"))["text"], "abb");

  write_file(ids_, "2 6");
  expect_failure(1, "token 1, 6, is outside the model's vocabulary of 6", tokens({"--ids", ids_}));
  expect_failure(1, "this file does not exist", tokens({"--prompt", folder_ / "none"}));
  expect_failure(1, "cannot", tokens({"--text", "a", "--json", folder_ / "none" / "x.json"}));
  expect_failure(2, "is required", tokens({}));
  expect_failure(2, "is required", tokens({"--text", "a", "--ids", ids_}));
  expect_failure(2, "--list", tokens({"--text", "a", "--list", "--json", "-"}));
}

TEST_F(Program, ATraceOfAnotherTokenizerIsNotRunByItsIds) {
  const auto write_tokenizer = [&](const char* vocabulary) {
    write_file(model_ / "tokenizer.json",
               std::string(R"({"decoder": {"type": "Fuse"}, "model": {"type": "BPE", "merges": [],
                              "vocab": )") +
                   vocabulary + "}}");
  };
  write_tokenizer(R"({"a": 0, "b": 1, "c": 2})");
  const std::string trace = folder_ / "t.h5";
  const Child made(folder_, {"run", "--model", model_, "--text", "abab", "-o", trace});
  ASSERT_EQ(made.wait(), 0) << made.err();
  const std::vector<std::string> again = {"run", "--model",           model_, "--from", trace,
                                          "-o",  folder_ / "again.h5"};
  const auto notes_of_run = [&] {
    const Child child(folder_, again);
    EXPECT_EQ(child.wait(), 0) << child.err();
    return child.err();
  };
  EXPECT_THAT(notes_of_run(), Not(HasSubstr("another model")));
  const std::string weights = file_text(model_ / "model.safetensors");
  std::string others = weights;
  others.back() ^= 1;
  write_file(model_ / "model.safetensors", others);
  EXPECT_THAT(notes_of_run(), HasSubstr("are of a run of another model or model file"));
  write_tokenizer(R"({"b": 0, "a": 1, "c": 2})");
  expect_failure(
      1, "another tokenizer than the model's: token 0 (id 0) is \"a\" in the trace and \"b\"",
      {"run", "--model", model_, "--from", trace, "-o", target_});
  expect_failure(1, "another tokenizer",
                 {"rescue", "--model", model_, "--trace", trace, "--tokens", "1", "--policy",
                  "keydiff", "--budget", "2", "-o", target_});
}

TEST_F(Program, WhatAFullDiskDoesNotTakeFromStandardOutputGivesOne) {
  for (const char* words : {"kvloupe policies", "kvloupe --help", "kvloupe --print-page man",
                            "kvloupe-capture --help"}) {
    const std::string command =
        std::string(KVLOUPE_BIN_DIR) + "/" + words + " > /dev/full 2> " + (folder_ / "e").string();
    EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1) << words;
    EXPECT_THAT(file_text(folder_ / "e"), HasSubstr("standard output: cannot be written")) << words;
  }
}

TEST_F(Program, ControlCharactersOfAFileReachNoTerminal) {
  const std::string name = "m\x1B]0;t\x07\r\n\xC2\x9Bx";
  expect_failure(1, "m?]0;t?", {"run", "--model", folder_ / name, "--ids", ids_, "-o", target_});
  std::filesystem::rename(model_, folder_ / name);  // a trace has the name of the folder
  const Child made(folder_, {"run", "--model", folder_ / name, "--ids", ids_, "-o", target_});
  ASSERT_EQ(made.wait(), 0) << made.err();
  const Child info(folder_, {"info", target_}, "kvloupe");
  EXPECT_EQ(info.wait(), 0) << info.err();
  EXPECT_THAT(info.out(), HasSubstr("m?]0;t????x\n"));
  EXPECT_EQ(info.out().find_first_of("\x1B\x07\r"), std::string::npos);
}

TEST_F(Program, AMissingCudaDeviceGivesOne) {
  if (std::filesystem::exists("/dev/nvidia0")) GTEST_SKIP() << "this machine has a GPU";
  expect_failure(1, "no CUDA device", run({"--device", "cuda"}));
}

TEST_F(Program, JsonProgressIsOneObjectALine) {
  const Child child(folder_, run({"--progress", "json", "--generate", "4", "--block", "8",
                                  "--threads", "1", "--policy", "full", "--lm-head"}));
  ASSERT_EQ(child.wait(), 0) << child.err();
  EXPECT_EQ(child.err(), "");
  std::istringstream lines(child.out());
  std::string line;
  nlohmann::json last, size;
  int done = 0;
  while (std::getline(lines, line)) {
    last = nlohmann::json::parse(line);
    if (last["event"] == "size") {
      EXPECT_EQ(done, 0) << "it is told before the run";
      size = last;
    }
    if (last["event"] != "tokens") continue;
    EXPECT_GT(last["done"], done);
    done = last["done"];
    EXPECT_EQ(last["prompt_length"], 50);
    EXPECT_EQ(last["total"], 54);
  }
  EXPECT_EQ(done, 54);
  EXPECT_EQ(last["event"], "done");
  EXPECT_EQ(last["trace"], target_);
  EXPECT_EQ(last["generated"], 4);
  EXPECT_EQ(Trace(target_).length(), 54);
  EXPECT_EQ(Trace(target_).run().threads, 1);
  EXPECT_TRUE(Trace(target_).lm_head());
  ASSERT_TRUE(size.is_object());
  std::uint64_t sum = 0;
  for (const char* part : {"states", "attention", "output_projections", "output_head", "other"}) {
    sum += size[part].get<std::uint64_t>();
  }
  EXPECT_EQ(size["bytes"], sum);
  EXPECT_THAT(size["text"].get<std::string>(), HasSubstr("the trace will take at most "));
}

TEST_F(Program, AClosedLoopSaysWhatItDidInTheTrace) {
  const Child child(folder_, run({"--block", "8", "--generate", "3", "--policy", "h2o+recent(50%)",
                                  "--budget", "25%", "--positions", "compact"}));
  ASSERT_EQ(child.wait(), 0) << child.err();
  const Trace trace(target_);
  EXPECT_EQ(trace.run().policy, "h2o+recent(50%)");
  EXPECT_EQ(trace.run().budget, 12);
  EXPECT_EQ(trace.run().positions, "compact");
  EXPECT_EQ(trace.evicted_at(0, 0)->front() >= -1, true);
}

TEST_F(Program, AShardedFolderBecomesATraceThatIsReplayed) {
  TinyCheckpoint qwen3{.architecture = "Qwen3ForCausalLM", .layers = 3, .head_dim = 8};
  std::filesystem::remove(model_ / "model.safetensors");
  qwen3.write_sharded(model_, 3);
  const Child child(folder_, run({"--block", "16", "--dtype", "f32", "--store", "f32"}));
  ASSERT_EQ(child.wait(), 0) << child.err();
  const Trace trace(target_);
  EXPECT_EQ(trace.model().architecture, "Qwen3ForCausalLM");
  qwen3.write(model_);  // one file, as the naive model reads it
  expect_like_naive(trace, NaiveModel(model_), 1e-4);

  if (!std::filesystem::exists(std::string(KVLOUPE_BIN_DIR) + "/kvloupe")) {
    GTEST_SKIP() << "built without the window's program";
  }
  const Child replayed(
      folder_, {"replay", target_, "--policy", "h2o", "--budget", "10", "--json", "-"}, "kvloupe");
  ASSERT_EQ(replayed.wait(), 0) << replayed.err();
  const auto json = nlohmann::json::parse(replayed.out());
  ASSERT_EQ(json["heads"].size(), 6U);
  for (const nlohmann::json& head : json["heads"]) {
    EXPECT_EQ(head["steps"].size(), 4U);
    EXPECT_EQ(head["steps"].back()["retained"].size(), 10U);
  }
}

TEST_F(Program, WrongEvaluationsAreRefused) {
  const auto eval = [&](std::vector<std::string> more) {
    std::vector<std::string> all{"eval",      "--model", model_, "--policies", "h2o",
                                 "--budgets", "9",       "-o",   target_};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_failure(2, "--task", eval({}));
  expect_failure(2, "--task", eval({"--task", "chess"}));
  expect_failure(2, "--lengths", eval({"--task", "needle", "--lengths", "12,x"}));
  expect_failure(2, "--depths", eval({"--task", "needle", "--depths", "101"}));
  expect_failure(2, "does not ask a question",
                 eval({"--task", "perplexity", "--compression", "context-only"}));
  expect_failure(1, "tokenizer.model", eval({"--task", "needle"}));
  expect_failure(1, "tokenizer.model", eval({"--task", "needle", "--dry-run"}));
}

TEST_F(Program, SilenceAndSummary) {
  const Child silent(folder_, run({"--progress", "none"}));
  EXPECT_EQ(silent.wait(), 0);
  EXPECT_EQ(silent.out() + silent.err(), "");
  const Child plain(folder_, run({}));  // a finished run replaces the older trace
  EXPECT_EQ(plain.wait(), 0);
  EXPECT_THAT(plain.out(), HasSubstr("50 tokens of prompt"));
  // No bar where stderr is not a terminal.
  EXPECT_THAT(plain.err(), testing::MatchesRegex(
                               "kvloupe-capture: the trace will take about [^\n]* kB: [^\n]*\n"));
}

/// Whether a program has a file of this folder open.
bool has_open(pid_t process, const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd", error)) {
    const std::string file = std::filesystem::read_symlink(entry, error).string();
    if (file.starts_with(folder.string() + "/")) return true;
  }
  return false;
}

TEST_F(Program, SignalsInMidRunLeaveNothingButATemporaryName) {
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    const Child child(folder_,
                      run({"--generate", "200000", "--attention", "none", "--progress", "json"}));
    // The run is under way once its file is there.
    for (int i = 0; i < 1000 && !has_open(child.process(), work_); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(has_open(child.process(), work_)) << child.err();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    kill(child.process(), signal);
    EXPECT_EQ(child.wait(), signal == SIGKILL ? 128 + SIGKILL : 1);
    EXPECT_EQ(child.err(),
              signal == SIGKILL ? "" : "kvloupe-capture: cancelled; nothing was written\n");
    EXPECT_THAT(child.out(), Not(HasSubstr("done\",")));
    EXPECT_FALSE(std::filesystem::exists(target_));
    EXPECT_EQ(std::filesystem::is_empty(work_), signal != SIGKILL);
  }
}

TEST_F(Program, AFullDiskGivesOne) {
  // A limit on the size of files stands for a disk that fills up.
  const pid_t process = fork();
  if (process == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20000, 20000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const int file = open((folder_ / "stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(file, 2);
    const std::string program = std::string(KVLOUPE_BIN_DIR) + "/kvloupe-capture";
    execl(program.c_str(), program.c_str(), "run", "--model", model_.c_str(), "--ids", ids_.c_str(),
          "-o", target_.c_str(), "--progress", "none", nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(process, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  const std::string error = file_text(folder_ / "stderr");
  EXPECT_THAT(error, HasSubstr("trace.h5"));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
  EXPECT_TRUE(std::filesystem::is_empty(work_));
}

}  // namespace
}  // namespace kvloupe::test
