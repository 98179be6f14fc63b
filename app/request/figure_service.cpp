#include "app/request/figure_service.h"

#include <chrono>
#include <utility>

#include "analysis/error.h"
#include "app/figure/comparison.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/settings_in_words.h"

namespace kvloupe::request {

namespace {

/// A figure with a sentence more under it.
class FigureWithSentence final : public figure::Figure {
 public:
  FigureWithSentence(std::shared_ptr<const Figure> own, std::string sentence)
      : own_(std::move(own)), sentence_(std::move(sentence)) {}
  figure::Scene draw(const figure::DrawRequest& request) const override {
    return own_->draw(request);
  }
  double natural_height(const figure::DrawRequest& request) const override {
    return own_->natural_height(request);
  }
  void write_csv(figure::CsvWriter& csv) const override { own_->write_csv(csv); }
  std::string value_text(const figure::Target& target) const override {
    return own_->value_text(target);
  }
  std::string caption() const override { return own_->caption() + " " + sentence_; }

 private:
  std::shared_ptr<const Figure> own_;
  std::string sentence_;
};

constexpr auto kLookAgain = std::chrono::milliseconds(50);  // how often a waiting thread looks up

void refuse_missing(const figure::FigureInfo& info, const FigureRequest& request,
                    const FigureInputs& inputs) {
  switch (missing(info, request)) {
    case Missing::nothing:
      return;
    case Missing::evaluation:
      check_trace_count(info, inputs.traces.size(), "");  // a trace instead of results
      throw WorkError("figure " + info.name + ": the file has no results to show");
    case Missing::trace:
    case Missing::other_loop:
    case Missing::more_traces:
      check_trace_count(info, request.inputs.size(), "");
      break;
    case Missing::policy_b:
      break;
  }
  throw UsageError("figure " + info.name + " compares two policies; give --policy-b");
}

std::vector<Block> steps_of(const Reads& reads, const FigureRequest& request, const Trace& trace) {
  return reads.steps_of_replay ? replay_blocks(trace, request.block, request.compression)
                               : trace.blocks();
}

/// The replay of a selected policy, with what the figure needs of it.
std::shared_ptr<const Replay> selected_replay(const figure::FigureInput& input,
                                              const PolicySpec& policy, const Reads& reads,
                                              Progress& progress) {
  figure::WantedReplay wanted;
  wanted.policy = policy;
  if (!reads.all_layers) wanted.layers = {input.selection.layer};
  wanted.metrics = reads.metrics;
  wanted.scores = reads.scores;
  Progress part(progress, 0);  // the figure's own work is what progress counts
  return replay_of(input, wanted, part);
}

}  // namespace

figure::MadeFigure FigureService::compute(const figure::FigureInfo& info,
                                          const FigureRequest& request, const FigureInputs& inputs,
                                          Progress& progress, const ReadyReplays& ready) const {
  refuse_missing(info, request, inputs);
  const Reads reads = reads_of(info);
  figure::FigureInput input;
  input.traces = traces_read(info, inputs);
  input.replays = replays_;
  input.choices = request.choices;
  if (request.policy_a) input.spec_a = *request.policy_a;
  input.spec_b = request.policy_b;
  if (request.budget) input.budget = *request.budget;
  input.block = request.block;
  input.compression = request.compression;
  figure::MadeFigure made;
  if (const std::string why = unavailable(info, inputs); !why.empty())
    throw WorkError(reads.evaluation ? why : "figure " + info.name + ": " + why);
  if (reads.evaluation) {
    input.evaluation = inputs.evaluation;
  } else {
    input.trace = input.traces.front();
    const std::vector<Block> steps = steps_of(reads, request, *input.trace);
    input.selection =
        figure::resolve(request.selection, *input.trace, static_cast<int>(steps.size()));
    made.steps = reads.replay || reads.step ? steps : input.trace->blocks();
  }
  if (reads.replay) {
    input.policy_a = ready.a ? ready.a : selected_replay(input, *request.policy_a, reads, progress);
    if (request.policy_b) {
      input.policy_b =
          ready.b ? ready.b : selected_replay(input, *request.policy_b, reads, progress);
    }
  }
  made.figure = info.compute(input, progress);
  if (const std::string terms = terms_in_words(info, request, input); !terms.empty())
    made.figure = std::make_shared<FigureWithSentence>(made.figure, terms);
  made.settings = settings_in_words(info, request, input);
  made.traces = input.traces;
  made.complete = ready.complete;
  return made;
}

figure::MadeFigure FigureService::make(const figure::FigureInfo& info, const FigureRequest& request,
                                       const FigureInputs& inputs, Progress& progress,
                                       const ReadyReplays& ready) {
  if (!ready.complete) return compute(info, request, inputs, progress, ready);
  std::unique_lock lock(mutex_);
  std::erase_if(entries_, [](const auto& entry) {
    return !entry.second.under_way && entry.second.figure.expired();
  });
  for (;;) {
    progress.check();
    const auto found = entries_.find(request);
    if (found == entries_.end()) break;
    const Entry& entry = found->second;
    if (auto figure = entry.figure.lock())
      return {std::move(figure), entry.settings, traces_read(info, inputs), entry.steps, true};
    if (!entry.under_way) break;  // nobody has it any more
    changed_.wait_for(lock, kLookAgain);
  }
  entries_.insert_or_assign(request, Entry{});
  lock.unlock();
  try {
    figure::MadeFigure made = compute(info, request, inputs, progress, ready);
    lock.lock();
    entries_.insert_or_assign(request, Entry{false, made.figure, made.settings, made.steps});
    changed_.notify_all();
    return made;
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    entries_.erase(request);  // who waits for it computes it now
    changed_.notify_all();
    throw;
  }
}

figure::MadeFigure FigureMaker::make(const figure::FigureInfo& info, const FigureSettings& settings,
                                     Progress& progress) const {
  return service_->make(info, make_request(info, settings, inputs_), inputs_, progress);
}

}  // namespace kvloupe::request
