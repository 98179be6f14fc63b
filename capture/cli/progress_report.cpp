#include "capture/cli/progress_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/text.h"
#include "analysis/trace/trace_size.h"

namespace kvloupe {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Speed and time left, from the tokens run since the present phase (prompt or generation) began.
class Pace {
 public:
  /// Whether to report: a tenth of a second after the last report, and at the ends of phases.
  bool update(int done, int prompt_length, int total) {
    const Clock::time_point now = Clock::now();
    const bool generating = done > prompt_length;
    if (generating && !generating_) {  // the last update of the prompt is where this phase began
      phase_first_ = done_;
      phase_start_ = last_;
      generating_ = true;
    }
    done_ = done;
    last_ = now;
    const double seconds = seconds_between(phase_start_, now);
    rate_ = seconds > 0 ? (done - phase_first_) / seconds : 0.0;
    // While the prompt runs, the speed of generation is not known yet.
    const bool foreseeable = generating || total == prompt_length;
    left_.reset();
    if (foreseeable && rate_ > 0) left_ = (total - done) / rate_;
    const bool milestone = done == prompt_length || done == total;
    if (!milestone && shown_ && seconds_between(*shown_, now) < 0.1) return false;
    shown_ = now;
    return true;
  }
  double rate() const { return rate_; }
  std::optional<double> seconds_left() const { return left_; }

 private:
  Clock::time_point phase_start_ = Clock::now();
  Clock::time_point last_ = phase_start_;
  std::optional<Clock::time_point> shown_;
  int phase_first_ = 0;
  int done_ = 0;
  bool generating_ = false;
  double rate_ = 0.0;
  std::optional<double> left_;
};

void print_note(const std::string& note) {
  std::fputs(fmt::format("kvloupe-capture: {}\n", in_lines(note)).c_str(), stderr);
}

/// Printed in one line, whatever the text holds. Bytes that are not UTF-8 become a replacement
/// character.
template <typename Json>
std::string json_line(const Json& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

double prompt_rate(const CaptureSummary& summary) {
  return summary.prompt_seconds > 0 ? summary.prompt_length / summary.prompt_seconds : 0.0;
}

class BarReport : public ProgressReport {
 public:
  ~BarReport() override { BarReport::clear(); }

  void on_tokens(int done, int prompt_length, int total) override {
    if (!pace_.update(done, prompt_length, total) || !terminal_) return;
    constexpr int kWidth = 30;
    const int filled = static_cast<int>(static_cast<long>(kWidth) * done / std::max(total, 1));
    std::string line = fmt::format("\r{} [{}{}] {}/{} tokens, {:.0f} tokens/s",
                                   done > prompt_length ? "generating" : "reading",
                                   std::string(static_cast<std::size_t>(filled), '#'),
                                   std::string(static_cast<std::size_t>(kWidth - filled), '.'),
                                   done, total, pace_.rate());
    if (pace_.seconds_left()) line += fmt::format(", {:.0f} s left", *pace_.seconds_left());
    show(line);
  }
  void on_run(const std::string& line, const nlohmann::ordered_json&) override {
    if (terminal_) show("\r" + line);
  }
  void on_note(const std::string& note) override {
    clear();
    print_note(note);
  }
  void on_done(const std::filesystem::path& trace, const CaptureSummary& summary) override {
    clear();
    std::string text =
        fmt::format("{}: {} tokens of prompt", trace.string(), summary.prompt_length);
    const int chosen = summary.generated - summary.given;
    if (summary.given > 0) text += fmt::format(" and {} given after it", summary.given);
    if (chosen > 0) text += fmt::format(" and {} generated", chosen);
    text += fmt::format(" in {:.1f} s ({:.0f} tokens/s in the prompt)\n", summary.seconds,
                        prompt_rate(summary));
    const auto add = [&](const char* what, const std::string& said) {
      if (!said.empty()) text += what + json_line(nlohmann::json(said));
    };
    add(summary.given > 0 ? "given continuation, not the model's: " : "continuation: ",
        summary.generated_text);
    add("the model's own answer: ", summary.own_answer);
    std::fputs(text.c_str(), stdout);
  }
  bool prints_results() const override { return true; }
  void clear() override {
    if (shown_) std::fputs("\r\x1B[K", stderr);
    shown_ = false;
  }

 private:
  void show(const std::string& line) {
    std::fputs((line + "\x1B[K").c_str(), stderr);
    shown_ = true;
  }

  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
  Pace pace_;
};

class JsonReport : public ProgressReport {
 public:
  void on_tokens(int done, int prompt_length, int total) override {
    if (!pace_.update(done, prompt_length, total)) return;
    nlohmann::json line{{"event", "tokens"},
                        {"done", done},
                        {"prompt_length", prompt_length},
                        {"total", total},
                        {"tokens_per_second", pace_.rate()},
                        {"seconds_left", nullptr}};
    if (pace_.seconds_left()) line["seconds_left"] = *pace_.seconds_left();
    print(line);
  }
  void on_note(const std::string& note) override { print({{"event", "note"}, {"text", note}}); }
  void on_run(const std::string&, const nlohmann::ordered_json& members) override {
    nlohmann::ordered_json line{{"event", "run"}};
    line.update(members);
    print(line);
  }
  void on_size(const TraceSize& size, const std::string& text) override {
    print({{"event", "size"},
           {"bytes", size.total()},
           {"states", size.states},
           {"attention", size.attention},
           {"output_projections", size.output_weights},
           {"output_head", size.lm_head},
           {"other", size.other},
           {"text", text}});
  }
  void on_done(const std::filesystem::path& trace, const CaptureSummary& summary) override {
    print({{"event", "done"},
           {"trace", trace.string()},
           {"model_fingerprint", summary.fingerprint},
           {"prompt_length", summary.prompt_length},
           {"generated", summary.generated},
           {"given", summary.given},
           {"seconds", summary.seconds},
           {"prompt_tokens_per_second", prompt_rate(summary)},
           {"generated_text", summary.generated_text},
           {"own_answer", summary.own_answer}});
  }

 private:
  template <typename Json = nlohmann::json>
  static void print(const Json& object) {
    std::fputs(json_line(object).c_str(), stdout);
    std::fflush(stdout);
  }

  Pace pace_;
};

class SilentReport : public ProgressReport {
 public:
  void on_tokens(int, int, int) override {}
  void on_note(const std::string& note) override { print_note(note); }
  void on_size(const TraceSize&, const std::string&) override {}
  void on_run(const std::string&, const nlohmann::ordered_json&) override {}
  void on_done(const std::filesystem::path&, const CaptureSummary&) override {}
};

}  // namespace

std::unique_ptr<ProgressReport> make_progress_report(const std::string& kind) {
  if (kind == "bar") return std::make_unique<BarReport>();
  if (kind == "json") return std::make_unique<JsonReport>();
  if (kind == "none") return std::make_unique<SilentReport>();
  throw UsageError("--progress " + kind + ": give bar, json or none");
}

void print_forecast(const RunsForecast& forecast, const std::filesystem::path& results, bool most,
                    const std::string& progress) {
  OutputFile out("-");
  if (progress == "json") {
    const nlohmann::ordered_json line = {
        {"event", "forecast"},
        {"results", results.string()},
        {"bytes", forecast.bytes},
        {"free", forecast.free ? nlohmann::ordered_json(*forecast.free) : nullptr},
        {"runs", forecast.missing},
        {"known", forecast.known},
        {"dtype", forecast.dtype},
        {"seconds", forecast.seconds ? nlohmann::ordered_json(*forecast.seconds) : nullptr},
        {"time", forecast.time_text}};
    out.write(json_line(line));
  } else {
    const std::string space = forecast.free
                                  ? fmt::format(", where {} are free", bytes_text(*forecast.free))
                                  : std::string();
    out.write(fmt::format(
        "runs: {}{}{}\nfile: {}, about {}{}\nprecision: the model computes in {}\ntime: {}\n",
        most ? "at most " : "", forecast.missing,
        forecast.known > 0 ? fmt::format(", {} are in the file", forecast.known) : "",
        results.string(), bytes_text(forecast.bytes), space, forecast.dtype, forecast.time_text));
  }
  out.finish();
}

}  // namespace kvloupe
