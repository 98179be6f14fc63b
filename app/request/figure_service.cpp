#include "app/request/figure_service.h"

#include <chrono>
#include <future>

#include "analysis/base/core/error.h"
#include "analysis/replay/typed_values.h"
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
  std::optional<figure::Table> table() const override { return own_->table(); }
  std::string value_text(const figure::Target& target) const override {
    return own_->value_text(target);
  }
  std::string caption() const override { return own_->caption() + " " + sentence_; }
  const std::shared_ptr<const Figure>& own() const { return own_; }

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

/// Gets a replay in a thread of its own, and meanwhile calls `use` in this one with the latest part
/// of it: a worker of the replay must not wait for work on its parts.
std::shared_ptr<const Replay> with_parts(Progress& progress,
                                         const std::function<std::shared_ptr<const Replay>(
                                             Progress&, const figure::ReplayService::OnPart&)>& get,
                                         const figure::ReplayService::OnPart& use) {
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<const Replay> part;
  bool done = false;
  constexpr long kWhole = 1000;
  progress.set_total(kWhole);
  const auto tell = [&](std::shared_ptr<const Replay> replay, bool last) {
    const std::lock_guard lock(mutex);
    part = std::move(replay);
    done = last;
    changed.notify_one();
  };
  Progress own(progress, kWhole);
  std::future<std::shared_ptr<const Replay>> whole = std::async(std::launch::async, [&] {
    std::shared_ptr<const Replay> replay;
    try {
      replay = get(own, [&](std::shared_ptr<const Replay> some) { tell(std::move(some), false); });
    } catch (...) {
      tell(nullptr, true);
      throw;
    }
    tell(nullptr, true);
    return replay;
  });
  try {
    for (std::unique_lock lock(mutex); !done;) {
      changed.wait(lock, [&] { return done || part; });
      if (done) break;
      const std::shared_ptr<const Replay> now = std::exchange(part, nullptr);
      lock.unlock();
      use(now);
      lock.lock();
    }
  } catch (...) {
    own.cancel();  // the thread ends before this function does
    throw;
  }
  return whole.get();
}

/// One figure on its way.
class Making {
 public:
  Making(const figure::FigureInfo& info, const FigureRequest& request, const Meanwhile& meanwhile,
         figure::FigureInput input, std::vector<Block> steps)
      : info_(info),
        request_(request),
        needs_(needs_of(info, request.choices)),
        meanwhile_(meanwhile),
        input_(std::move(input)),
        steps_(std::move(steps)) {
    if (!meanwhile_.on_part) return;
    const auto* with = dynamic_cast<const FigureWithSentence*>(meanwhile_.shown.get());
    input_.shown = with != nullptr ? with->own() : meanwhile_.shown;
    input_.on_part = [this](std::shared_ptr<const figure::Figure> part) {
      meanwhile_.on_part(made_of(std::move(part), input_, false));
    };
  }

  figure::MadeFigure whole(Progress& progress) {
    const int replays = !needs_.replay() ? 0 : request_.policy_b ? 2 : 1;
    progress.set_total(kFigureSteps + replays * kReplaySteps);
    if (needs_.replay()) {
      Progress own(progress, kReplaySteps);
      get(*request_.policy_a, &figure::FigureInput::policy_a, !request_.policy_b, progress, own);
      own.finish();
    }
    if (needs_.replay() && request_.policy_b) {
      Progress own(progress, kReplaySteps);
      get(*request_.policy_b, &figure::FigureInput::policy_b, true, progress, own);
      own.finish();
    }
    Progress own(progress, kFigureSteps);
    return made_of(info_.compute(input_, own), input_, true);
  }

 private:
  // Shares of the progress. A replay takes little time compared with its measures.
  static constexpr long kFigureSteps = 1000, kReplaySteps = 250;
  using Place = std::shared_ptr<const Replay> figure::FigureInput::*;

  figure::MadeFigure made_of(std::shared_ptr<const figure::Figure> figure,
                             const figure::FigureInput& input, bool complete) const {
    if (const std::string terms = terms_in_words(info_, request_, input); !terms.empty())
      figure = std::make_shared<FigureWithSentence>(std::move(figure), terms);
    return {std::move(figure), settings_in_words(info_, request_, input), input.traces, steps_,
            complete};
  }

  /// Publishes the figure of a part of a replay.
  void show_part(const std::shared_ptr<const Replay>& part, Place place, Progress& progress) const {
    figure::FigureInput input = input_;
    input.*place = part;
    input.partial = true;
    input.on_part = {};
    Progress own(progress, 0);
    std::shared_ptr<const figure::Figure> figure;
    try {
      figure = info_.compute(input, own);
    } catch (const WorkError&) {
      return;  // a part may lack what the whole has
    }
    if (figure) meanwhile_.on_part(made_of(std::move(figure), input, false));
  }

  /// Gets the replay of a selected policy; shows its parts if it is the last one. `own`: its part
  /// of the figure's progress.
  void get(const PolicySpec& policy, Place place, bool last, Progress& progress, Progress& own) {
    const Trace& trace = *input_.trace;
    figure::ReplayService& replays = *input_.replays;
    ReplayRequest wanted{.policy = policy,
                         .budget = budget_entries(*request_.budget, trace, policy),
                         .block = request_.block,
                         .compression = request_.compression};
    wanted.metrics = false;  // measured where it is looked at
    if (!needs_.all_layers) {
      const figure::Selection& at = input_.selection;
      input_.*place = replays.get(trace, figure::request_of_head(wanted, at.layer, at.head), own);
      return;
    }
    std::shared_ptr<const Replay> in_hand;
    if (meanwhile_.on_part) {
      Progress first(progress, 0);
      in_hand = replays.get(
          trace, figure::request_of_head(wanted, meanwhile_.layer, meanwhile_.head), first);
      wanted.background = true;  // who looks at one layer comes first
    }
    // Two that are compared head by head are shown when both are there.
    if (!in_hand || !last || needs_.policy_b) {
      input_.*place = replays.get(trace, wanted, own);
      return;
    }
    show_part(in_hand, place, progress);
    input_.*place = with_parts(
        own,
        [&](Progress& part, const figure::ReplayService::OnPart& on_part) {
          return replays.get(trace, wanted, part, on_part);
        },
        [&](const std::shared_ptr<const Replay>& part) { show_part(part, place, progress); });
  }

  const figure::FigureInfo& info_;
  const FigureRequest& request_;
  const figure::Needs needs_;
  const Meanwhile& meanwhile_;
  figure::FigureInput input_;
  const std::vector<Block> steps_;
};

}  // namespace

const figure::Figure& own_figure(const figure::Figure& made) {
  const auto* with = dynamic_cast<const FigureWithSentence*>(&made);
  return with != nullptr ? *with->own() : made;
}

figure::MadeFigure FigureService::compute(const figure::FigureInfo& info,
                                          const FigureRequest& request, const FigureInputs& inputs,
                                          Progress& progress, const Meanwhile& meanwhile) const {
  refuse_missing(info, request, inputs);
  const figure::Needs needs = needs_of(info, request.choices);
  figure::FigureInput input;
  input.info = &info;
  input.traces = traces_read(info, inputs);
  input.replays = replays_;
  input.choices = request.choices;
  if (request.policy_a) input.spec_a = *request.policy_a;
  input.spec_b = request.policy_b;
  if (request.budget) input.budget = *request.budget;
  input.block = request.block;
  input.compression = request.compression;
  if (const std::string why = unavailable(info, inputs); !why.empty())
    throw WorkError(needs.evaluation ? why : "figure " + info.name + ": " + why);
  std::vector<Block> shown;
  if (needs.evaluation) {
    input.evaluation = inputs.evaluation;
    input.selection = request.selection;
  } else {
    input.trace = input.traces.front();
    const std::vector<Block> steps =
        needs.steps_of_replay() ? replay_blocks(*input.trace, request.block, request.compression)
                                : input.trace->blocks();
    input.selection =
        figure::resolve(request.selection, *input.trace, static_cast<int>(steps.size()));
    shown = needs.replay() || needs.step ? steps : input.trace->blocks();
  }
  return Making(info, request, meanwhile, std::move(input), std::move(shown)).whole(progress);
}

figure::MadeFigure FigureService::make(const figure::FigureInfo& info, const FigureRequest& request,
                                       const FigureInputs& inputs, Progress& progress,
                                       const Meanwhile& meanwhile) {
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
    figure::MadeFigure made = compute(info, request, inputs, progress, meanwhile);
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
