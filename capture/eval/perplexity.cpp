#include "capture/eval/perplexity.h"

#include <numeric>

namespace kvloupe {

namespace {

/// Log-probabilities of the next tokens, float32 [m,vocab], in the computer's memory.
at::Tensor log_probabilities(const Transformer& model, const at::Tensor& hidden) {
  return at::log_softmax(model.logits(hidden)[0].to(at::kFloat), -1).to(at::kCPU);
}

double mean(const std::vector<double>& losses) {
  if (losses.empty()) return 0.0;
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

bool is_last(const Transformer& model, int layer) { return layer + 1 == model.config().num_layers; }

}  // namespace

Perplexity::Perplexity(EvalRun full, std::span<const std::int32_t> ids, std::int64_t room,
                       const Progress& progress,
                       const std::function<void(const std::string&)>& note)
    : ids_(ids), losses_(ids.size() - 1) {
  const Transformer& model = full.model();
  const int length = static_cast<int>(ids.size());
  const auto fits = [&](std::int64_t bytes, const char* what, const char* missing) {
    if (bytes <= room) {
      room -= bytes;
      return true;
    }
    if (note) {
      note("the full cache's " + std::string(what) + " over " + std::to_string(length) +
           " tokens need more than the 1 GiB that is reserved: no " + missing);
    }
    return false;
  };
  if (fits(std::int64_t{4} * length * model.config().vocab_size, "distributions",
           "KL and no share of equal tokens")) {
    log_probabilities_ = at::empty({length, model.config().vocab_size}, at::kFloat);
  }
  if (fits(HiddenStates::bytes(model, length), "hidden states", "distance per layer")) {
    hidden_.emplace(model, 0, length);
  }
  full.read(ids, true, progress, [&](int layer, int first, const at::Tensor& hidden) {
    if (hidden_) hidden_->keep(layer, first, hidden);
    if (!is_last(model, layer)) return;
    const at::Tensor rows = log_probabilities(model, hidden);
    enter_losses(rows, first, losses_);
    if (log_probabilities_.defined()) {
      log_probabilities_.slice(0, first, first + rows.size(0)).copy_(rows);
    }
  });
}

void Perplexity::enter_losses(const at::Tensor& rows, int first,
                              std::vector<double>& losses) const {
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const std::size_t token = static_cast<std::size_t>(first + i);
    if (token < losses.size()) losses[token] = -rows[i][ids_[token + 1]].item<double>();
  }
}

double Perplexity::loss() const { return mean(losses_); }

void Perplexity::compare(EvalRun run, const Progress& progress, EvaluationRun& result) const {
  const Transformer& model = run.model();
  std::vector<double> losses = losses_;
  double kl = 0.0, differ = 0.0;
  std::optional<HiddenDrift> drift;
  if (hidden_) drift.emplace(model, *hidden_);
  run.read(ids_, true, progress, [&](int layer, int first, const at::Tensor& hidden) {
    if (drift) drift->add(layer, first, hidden);
    if (!is_last(model, layer)) return;
    const at::Tensor rows = log_probabilities(model, hidden);
    enter_losses(rows, first, losses);
    if (!log_probabilities_.defined()) return;
    const at::Tensor full = log_probabilities_.slice(0, first, first + rows.size(0));
    kl += (full.exp() * (full - rows)).sum().item<double>();
    differ += full.argmax(-1).ne(rows.argmax(-1)).sum().item<double>();
  });
  const auto tokens = static_cast<double>(ids_.size());
  result.loss = mean(losses);
  result.loss_difference = result.loss - loss();
  if (log_probabilities_.defined()) {
    result.kl = kl / tokens;
    result.same_top1 = (tokens - differ) / tokens;
  }
  if (drift) drift->enter_means(result);
}

}  // namespace kvloupe
