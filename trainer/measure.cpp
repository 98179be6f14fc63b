#include "trainer/measure.h"
#include "tests/capture/whole_model.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace kvloupe::train {
namespace {

constexpr double kSinkThreshold = 0.3;

at::Tensor id_tensor(std::span<const TokenId> ids, at::Device device) {
  at::Tensor tensor = at::empty({1, static_cast<std::int64_t>(ids.size())}, at::kLong);
  std::copy(ids.begin(), ids.end(), tensor.data_ptr<std::int64_t>());
  return tensor.to(device);
}

/// Mean loss of tokens 2 onwards: token 1 has only token 0 before it.
double later_loss(const at::Tensor& logits, const at::Tensor& ids) {
  const std::int64_t last = ids.size(1) - 1;
  const at::Tensor rows = at::log_softmax(logits[0].slice(0, 1, last).to(at::kFloat), -1);
  const at::Tensor targets = ids[0].slice(0, 2).unsqueeze(1);
  return -rows.gather(1, targets).mean().item<double>();
}

/// The model's forward pass with token 0 masked from later queries.
at::Tensor forward_without_first(const Transformer& model, const at::Tensor& ids) {
  const ModelConfig& config = model.config();
  const std::int64_t length = ids.size(1);
  const Rotations rotations = model.rotations(at::arange(length, ids.options()));
  at::Tensor hidden = model.embed(ids);
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const StateTensors states = model.states(layer, hidden, rotations);
    const at::Tensor attention = attention_without_first(states, model.attention_scale());
    const at::Tensor values = states.value.repeat_interleave(config.group_size(), 1);
    hidden =
        model.finish_layer(layer, hidden, at::matmul(attention.to(values.scalar_type()), values));
  }
  return model.logits(hidden);
}

}  // namespace

at::Tensor attention_without_first(const StateTensors& states, double scale) {
  const StateTensors later{states.query.slice(2, 1), states.key.slice(2, 1),
                           states.value.slice(2, 1)};
  const at::Tensor rows = causal_attention(later, scale);  // queries and keys from token 1 on
  const std::int64_t length = states.query.size(2);
  at::Tensor attention =
      at::zeros({states.query.size(0), states.query.size(1), length, length}, rows.options());
  attention.select(2, 0).select(2, 0).fill_(1.0);
  attention.slice(2, 1).slice(3, 1).copy_(rows);
  return attention;
}

double SinkReport::at(int layer, int head) const {
  return strength.at(static_cast<std::size_t>(layer * heads + head));
}

double SinkReport::sink_head_share() const {
  const auto count = std::count_if(strength.begin(), strength.end(),
                                   [](double value) { return value > kSinkThreshold; });
  return static_cast<double>(count) / static_cast<double>(strength.size());
}

double SinkReport::strongest() const { return *std::max_element(strength.begin(), strength.end()); }

double SinkReport::sink_value_ratio() const {
  std::vector<double> ratios;
  const int group = heads / kv_heads;
  for (int layer = 0; layer < layers; ++layer) {
    for (int head = 0; head < heads; ++head) {
      if (at(layer, head) <= kSinkThreshold) continue;
      ratios.push_back(value_ratio.at(static_cast<std::size_t>(layer * kv_heads + head / group)));
    }
  }
  if (ratios.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2),
                   ratios.end());
  return ratios[ratios.size() / 2];
}

std::string SinkReport::picture() const {
  std::ostringstream out;
  out << "layer  query heads 0 to " << heads - 1 << ": tenths of the attention given to token 0\n";
  for (int layer = 0; layer < layers; ++layer) {
    out << "  " << layer << "    ";
    for (int head = 0; head < heads; ++head) {
      out << ' ' << std::min(9, static_cast<int>(at(layer, head) * 10.0));
    }
    out << '\n';
  }
  return out.str();
}

SinkReport measure_sinks(const Transformer& model, std::span<const TokenId> ids,
                         at::Device device) {
  const at::NoGradGuard no_gradients;
  const ModelConfig& config = model.config();
  SinkReport report;
  report.layers = static_cast<int>(config.num_layers);
  report.heads = static_cast<int>(config.num_heads);
  report.kv_heads = static_cast<int>(config.num_kv_heads);
  run_whole(model, id_tensor(ids, device), [&](int, const StateTensors& states) {
    const at::Tensor attention = causal_attention(states, model.attention_scale());
    const at::Tensor strength = attention[0].slice(1, 1).select(2, 0).mean(1).to(at::kDouble).cpu();
    const at::Tensor norms = states.value[0].to(at::kFloat).norm(2, -1);  // [Hk,T]
    const at::Tensor ratio =
        (norms.select(1, 0) / std::get<0>(norms.median(1))).to(at::kDouble).cpu();
    for (std::int64_t head = 0; head < config.num_heads; ++head) {
      report.strength.push_back(strength[head].item<double>());
    }
    for (std::int64_t head = 0; head < config.num_kv_heads; ++head) {
      report.value_ratio.push_back(ratio[head].item<double>());
    }
  });
  return report;
}

double needle_accuracy(const Transformer& model, const Corpus& corpus, const NeedleTest& test,
                       at::Device device) {
  const at::NoGradGuard no_gradients;
  int asked = 0;
  int right = 0;
  for (int i = 0; i < test.prompts; ++i) {
    const NeedlePrompt prompt =
        corpus.needle_prompt(test.first + static_cast<std::uint64_t>(i), test.length, test.needles);
    for (std::size_t needle = 0; needle < prompt.words.size(); ++needle) {
      std::vector<TokenId> ids(prompt.ids.begin(), prompt.ids.begin() + prompt.question_begin);
      const std::vector<TokenId> question = corpus.question(prompt.words[needle]);
      ids.insert(ids.end(), question.begin(), question.end());
      const at::Tensor logits = run_whole(model, id_tensor(ids, device));
      ++asked;
      if (logits[0][-1].argmax().item<std::int64_t>() == prompt.answers[needle]) ++right;
    }
  }
  return static_cast<double>(right) / static_cast<double>(asked);
}

SinkRemoval measure_sink_removal(const Transformer& model, std::span<const TokenId> ids,
                                 at::Device device) {
  const at::NoGradGuard no_gradients;
  const at::Tensor tokens = id_tensor(ids, device);
  return {later_loss(run_whole(model, tokens), tokens),
          later_loss(forward_without_first(model, tokens), tokens)};
}

}  // namespace kvloupe::train
