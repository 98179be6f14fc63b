#include "app/job/capture_job.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "analysis/base/core/error.h"
#include "analysis/trace/model_files.h"
#include "app/job/assets.h"

namespace kvloupe::window {

namespace fs = std::filesystem;

namespace {

int whole(const nlohmann::json& line, const char* field, int now) {
  const auto it = line.find(field);
  return it != line.end() && it->is_number_integer() ? it->get<int>() : now;
}
double number(const nlohmann::json& line, const char* field, double otherwise) {
  const auto it = line.find(field);
  return it != line.end() && it->is_number() ? it->get<double>() : otherwise;
}
std::string word(const nlohmann::json& line, const char* field, const std::string& now = {}) {
  const auto it = line.find(field);
  return it != line.end() && it->is_string() ? it->get<std::string>() : now;
}

}  // namespace

std::string precision_text(const std::string& dtype, const std::string& store) {
  std::string text = dtype;
  if (!store.empty())
    text += (text.empty() ? "stored as float" : ", stored as float") + store.substr(1);
  return text;
}

std::string forecast_text(const CaptureForecast& f) {
  std::string text = f.size;
  for (const std::string& part :
       {f.dtype.empty() ? std::string() : "computed in " + precision_text(f.dtype, f.store),
        f.time}) {
    if (!part.empty()) text += (text.empty() ? "" : "; ") + part;
  }
  return text;
}

bool asks_a_question(const CaptureOptions& o) {
  constexpr std::size_t kMost = 4U << 20U;
  std::string text = o.prompt == CaptureOptions::Prompt::text ? o.text : std::string();
  std::error_code error;
  if (o.prompt == CaptureOptions::Prompt::file && fs::is_regular_file(o.file, error)) {
    text.resize(kMost);
    std::ifstream file(o.file, std::ios::binary);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
  }
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  return ("\n" + text).find("\n@@question") != std::string::npos ||
         (last != std::string::npos && text[last] == '?');
}

std::string capture_problem(const CaptureOptions& o) {
  std::error_code error;
  if (o.model.empty()) {
    return "Choose a model: a GGUF file, or a folder with config.json, model.safetensors, "
           "tokenizer.";
  }
  if (!holds_model(o.model)) {
    return o.model + ": is neither a GGUF file nor a folder with config.json; choose a model";
  }
  if (o.prompt == CaptureOptions::Prompt::file && !fs::is_regular_file(o.file, error)) {
    return o.file.empty() ? "Choose a prompt file, or type a prompt."
                          : o.file + ": no such prompt file";
  }
  if (o.prompt == CaptureOptions::Prompt::text && o.text.empty()) return "Type a prompt.";
  if (o.prompt == CaptureOptions::Prompt::results && !fs::is_regular_file(o.file, error))
    return o.file + ": no such results file";
  if (o.prompt == CaptureOptions::Prompt::trace && !fs::is_regular_file(o.from, error))
    return "Open a trace for its tokens.";
  if (o.output.empty()) return "Choose a file for the trace.";
  if (fs::is_directory(o.output, error))
    return o.output + ": is a folder; name a file, such as trace.h5";
  return {};
}

std::vector<std::string> capture_command(const CaptureOptions& o, const std::string& program) {
  std::vector<std::string> words = {program, "run", "--model", o.model};
  const auto add = [&](const char* name, const std::string& value) {
    words.emplace_back(name);
    words.push_back(value);
  };
  switch (o.prompt) {
    case CaptureOptions::Prompt::file:
      add("--prompt", o.file);
      break;
    case CaptureOptions::Prompt::text:
      words.push_back("--text=" + o.text);
      break;  // may begin with -
    case CaptureOptions::Prompt::trace:
      add("--from", o.from);
      if (o.own_answer) words.emplace_back("--own-answer");
      break;
    case CaptureOptions::Prompt::results:
      add("--results", o.file);
      add("--row", std::to_string(o.row));
      break;
  }
  if (o.chat &&
      (o.prompt == CaptureOptions::Prompt::file || o.prompt == CaptureOptions::Prompt::text))
    words.emplace_back("--chat");
  if (o.block > 0) add("--block", std::to_string(o.block));
  if (o.generate > 0 && o.prompt != CaptureOptions::Prompt::trace) {
    add("--generate", std::to_string(o.generate));
  }
  if (o.closed_loop()) {
    add("--policy", o.policy);
    add("--budget", o.budget);
    if (o.compact) add("--positions", "compact");
    if (o.context_only) add("--compression", "context-only");
  }
  if (!o.dtype.empty()) add("--dtype", o.dtype);
  if (o.shared_weights) words.emplace_back("--shared-weights");
  add("--output", o.output);
  add("--progress", "json");
  return words;
}

void read_progress_line(const std::string& text, CaptureState& state) {
  const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
  if (!line.is_object()) return;
  const std::string event = word(line, "event");
  if (event == "tokens") {
    state.done = whole(line, "done", state.done);
    state.prompt_length = whole(line, "prompt_length", state.prompt_length);
    state.total = whole(line, "total", state.total);
    state.tokens_per_second = number(line, "tokens_per_second", 0.0);
    state.seconds_left = number(line, "seconds_left", -1.0);
  } else if (event == "note") {
    if (const std::string text = word(line, "text"); !text.empty()) state.notes.push_back(text);
  } else if (event == "size") {
    state.size = word(line, "text", state.size);
  } else if (event == "done") {
    state.trace = word(line, "trace", state.trace);
    state.model_fingerprint = word(line, "model_fingerprint", state.model_fingerprint);
    state.own_answer = word(line, "own_answer", state.own_answer);
    state.done = state.total;
    state.seconds_left = 0.0;
  }
}

CaptureForecast foresee_capture(const CaptureOptions& options, Progress& progress) {
  if (const std::string problem = capture_problem(options); !problem.empty())
    throw WorkError(problem);
  std::vector<std::string> words = capture_command(options, job::own_program(options.program));
  words.emplace_back("--dry-run");
  CaptureForecast forecast;
  job::run_own_program(words, progress, [&](const std::string& text) {
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object() || word(line, "event") != "forecast") return;
    const auto bytes = line.find("bytes");
    if (bytes != line.end() && bytes->is_number_unsigned())
      forecast.bytes = bytes->get<std::uint64_t>();
    if (const double seconds = number(line, "seconds", -1.0); seconds >= 0.0)
      forecast.seconds = seconds;
    forecast.size = word(line, "text");
    forecast.time = word(line, "time");
    forecast.dtype = word(line, "dtype");
    forecast.store = word(line, "store");
  });
  return forecast;
}

CaptureState run_capture_program(const CaptureOptions& options, Progress& progress,
                                 const std::function<void(const CaptureState&)>& publish) {
  if (const std::string problem = capture_problem(options); !problem.empty())
    throw WorkError(problem);
  const std::string program = job::own_program(options.program);
  CaptureState state;
  job::run_own_program(capture_command(options, program), progress, [&](const std::string& line) {
    read_progress_line(line, state);
    publish(state);
  });
  if (state.trace.empty()) state.trace = options.output;
  return state;
}

}  // namespace kvloupe::window
