#include "capture/eval/eval_run.h"

#include <algorithm>
#include <utility>

namespace kvloupe {

namespace {
BlockRunner::Options runner_options(const EvalRun::Options& options) {
  BlockRunner::Options result;
  result.most_tokens = options.most_tokens;
  if (options.loop) {
    const int block = std::min(options.block, options.most_tokens);
    result.capacity = std::min(options.loop->budget, options.most_tokens - block) + block;
    result.positions = options.loop->positions;
  }
  return result;
}
}  // namespace

void Recording::add(const LayerStep& step) {
  if (room_ < 0 || step.block.first > until_) return;
  next_.block = step.block;
  StateTensors states{step.states.query.to(at::kCPU), step.states.key.to(at::kCPU),
                      step.states.value.to(at::kCPU)};
  for (const at::Tensor& state : {states.query, states.key, states.value}) {
    room_ -= static_cast<std::int64_t>(state.nbytes());
  }
  next_.states.push_back(std::move(states));
}

void Recording::add_changes(std::vector<float> changes) {
  next_.residual_changes.push_back(std::move(changes));
}

void Recording::finish_block(const at::Tensor& last, const std::vector<at::Tensor>& outputs) {
  next_.last = last.to(at::kCPU).clone();  // not a part of the whole block
  for (const at::Tensor& output : outputs) next_.last_outputs.push_back(output.to(at::kCPU));
  if (room_ >= 0 && !next_.states.empty()) blocks_.push_back(std::move(next_));
  next_ = {};
}

const RecordedBlock* Recording::find(const Block& block) const {
  const auto found =
      std::find_if(blocks_.begin(), blocks_.end(), [&](const RecordedBlock& recorded) {
        return recorded.block.first == block.first && recorded.block.end == block.end;
      });
  return found == blocks_.end() ? nullptr : &*found;
}

EvalRun::EvalRun(const Transformer& model, const ModelInfo& info, const Options& options)
    : model_(model),
      block_(options.block),
      runner_(model, runner_options(options)),
      changes_(info.num_layers),
      record_(options.record),
      shared_(options.shared) {
  if (!options.loop) return;
  check_positions(model.config(), options.loop->positions, options.most_tokens);
  policy_.emplace(model, info, *options.loop, Storage::float32);
}

void EvalRun::read(std::span<const std::int32_t> ids, bool cut, const Progress& progress,
                   const HiddenHook& on_hidden) {
  bool changed = false;
  const auto on_layer = [&](const LayerStep& step) {
    if (record_ != nullptr) record_->add(step);
    if (policy_ && (cut || policy_->rounds())) changed = policy_->cut(step, false, cut) || changed;
  };
  const bool reads = policy_ && policy_->reads_residual();
  for (const Block& block : make_blocks(static_cast<int>(ids.size()), 0, block_)) {
    const int first = runner_.length();
    const RecordedBlock* same =
        shared_ != nullptr ? shared_->find({first, first + block.size()}) : nullptr;
    if (same != nullptr) {
      runner_.repeat(*same, on_layer, progress);
      if (reads) {
        for (int layer = 0; layer < static_cast<int>(same->residual_changes.size()); ++layer) {
          policy_->add_changes(layer, same->residual_changes[static_cast<std::size_t>(layer)]);
        }
        changes_.go_on_from(same->last_outputs);
      }
      last_ = same->last.to(model_.options().device());
    } else {
      const at::Tensor hidden =
          runner_.run(ids.subspan(static_cast<std::size_t>(block.first),
                                  static_cast<std::size_t>(block.size())),
                      on_layer, progress, [&](int layer, const at::Tensor& left) {
                        if (on_hidden) on_hidden(layer, first, left);
                        if (!reads && record_ == nullptr) return;
                        std::vector<float> changes = changes_.add(layer, left);
                        if (reads) policy_->add_changes(layer, changes);
                        if (record_ != nullptr) record_->add_changes(std::move(changes));
                      });
      last_ = hidden.slice(1, hidden.size(1) - 1);
      if (record_ != nullptr) record_->finish_block(last_, changes_.last());
    }
    if (cut && policy_) changed = policy_->end_pass() || changed;
    if (changed) shared_ = nullptr;
  }
}

void EvalRun::read_again(ModelProbe& probe, const Progress& progress) {
  for (int layer = 0; layer < static_cast<int>(model_.config().num_layers); ++layer) {
    probe.take_context(layer, runner_.cache(layer));
  }
  run_probe(runner_, *probe.info(), progress,
            [&](const ProbeStates& states) { probe.take(states); });
}

std::optional<EvalRun::Mark> EvalRun::mark(bool cuts) const try {
  Mark mark{runner_.state(), changes_, {}, last_};
  if (policy_) mark.policy = policy_->state(cuts);
  return mark;
} catch (const CannotCopy&) {
  return std::nullopt;
}

void EvalRun::return_to(const Mark& mark) {
  record_ = nullptr;
  shared_ = nullptr;
  runner_.go_on_from(mark.runner);
  changes_ = mark.changes;
  if (policy_) policy_->go_on_from(*mark.policy);
  last_ = mark.last;
}

double EvalRun::logprob(std::int32_t token) const {
  const at::Tensor logits = model_.logits(last_)[0][0].to(at::kDouble);
  return (logits[token] - logits.logsumexp(0)).item<double>();
}

std::int32_t EvalRun::choice() const {
  return static_cast<std::int32_t>(model_.logits(last_)[0][0].argmax().item<std::int64_t>());
}

}  // namespace kvloupe
