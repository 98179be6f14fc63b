#include "capture/run/probe.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "analysis/base/core/error.h"
#include "capture/run/block_runner.h"
#include "capture/run/layer_writer.h"
#include "capture/run/model_description.h"

namespace kvloupe {

namespace {
// KVzip's own numbers and words.
constexpr int kPart = 2048;   // tokens of the context that are repeated at a time
constexpr int kReminder = 8;  // the last tokens of the part before, which say where to go on
constexpr std::string_view kFirstRequest = "\n\nRepeat the previous context exactly.";
constexpr std::string_view kNextRequest =
    "\n\nRepeat the part of the previous context exactly, starting with";
constexpr std::string_view kAnswer = "\n";  // between the request and what is repeated
constexpr Eigen::Index kNormRows = 256;     // outputs at once

Matrix matrix_of(const at::Tensor& x) {
  const at::Tensor dense = x.to(at::kCPU, at::kFloat).contiguous();
  return Eigen::Map<const Matrix>(dense.data_ptr<float>(), dense.size(0), dense.size(1));
}
}  // namespace

const char* probe_name(ProbeKind kind) { return kind == ProbeKind::repeat ? "repeat" : "reread"; }

const std::map<std::string, ProbeKind>& probe_words() {
  static const std::map<std::string, ProbeKind> words{{"repeat", ProbeKind::repeat},
                                                      {"reread", ProbeKind::reread}};
  return words;
}

ProbeInfo make_probe(ProbeKind kind, std::span<const std::int32_t> context,
                     const Tokenizer* tokenizer) {
  const int length = static_cast<int>(context.size());
  if (length == 0) {
    throw UsageError(
        "--probe: the prompt begins with its question, so there is no context to read again");
  }
  if (kind == ProbeKind::repeat && tokenizer == nullptr) {
    throw UsageError(
        "--probe repeat: the request to repeat the context needs the model's tokenizer, which its "
        "folder does not have; use --probe reread");
  }
  ProbeInfo probe;
  probe.kind = probe_name(kind);
  probe.context_end = length;
  const auto add_text = [&](std::string_view text) {
    for (const EncodedToken& token : tokenizer->encode(text)) probe.ids.push_back(token.id);
  };
  const int part = kind == ProbeKind::repeat ? kPart : length;
  for (int first = 0; first < length; first += part) {
    const Block again{first, std::min(first + part, length)};
    const int begin = probe.tokens();
    if (kind == ProbeKind::repeat) {
      add_text(first == 0 ? kFirstRequest : kNextRequest);
      for (int token = std::max(first - kReminder, 0); token < first; ++token) {
        probe.ids.push_back(context[static_cast<std::size_t>(token)]);
      }
      add_text(kAnswer);
    }
    probe.ids.insert(probe.ids.end(), context.begin() + again.first, context.begin() + again.end);
    probe.passes.push_back({{begin, probe.tokens()}, again});
  }
  return probe;
}

ModelProbe::ModelProbe(const Transformer& model, ModelInfo model_info, ProbeInfo probe,
                       Storage storage)
    : model_(model),
      model_info_(std::move(model_info)),
      probe_(std::move(probe)),
      storage_(storage),
      layers_(static_cast<std::size_t>(model_info_.num_layers)) {}

void ModelProbe::take_context(int layer, const LayerCache& cache) {
  std::vector<at::Tensor> keys, values;
  for (std::int64_t head = 0; head < cache.heads(); ++head) {
    keys.push_back(cache.keys(head).slice(0, 0, probe_->context_end));
    values.push_back(cache.values(head).slice(0, 0, probe_->context_end));
  }
  Layer& entry = layers_[static_cast<std::size_t>(layer)];
  entry.keys = at::stack(keys);
  entry.values = at::stack(values);
}

void ModelProbe::take(const ProbeStates& states) {
  Layer& entry = layers_[static_cast<std::size_t>(states.layer)];
  entry.queries.push_back(states.states.query[0]);
  entry.own_keys.push_back(states.states.key[0]);
  entry.input_norms.push_back(states.input_norm);
}

LayerProbe ModelProbe::layer(int layer, LayerProbeParts parts) const {
  const Layer& entry = layers_[static_cast<std::size_t>(layer)];
  const auto heads_of = [&](const at::Tensor& states) {
    const at::Tensor stored = as_stored(states, storage_);
    std::vector<Matrix> heads;
    for (std::int64_t head = 0; head < stored.size(0); ++head) {
      heads.push_back(matrix_of(stored[head]));
    }
    return heads;
  };
  LayerProbe result;
  result.model = layer_model(model_info_, model_.config(), layer);
  result.attention = layer_attention(model_, layer);
  result.queries = heads_of(at::cat(entry.queries, 1));
  result.own_keys = heads_of(at::cat(entry.own_keys, 1));
  result.keys = heads_of(entry.keys);
  if (parts.values) result.values = heads_of(entry.values);
  if (!parts.norms) return result;
  const at::Tensor norms = at::cat(entry.input_norms).to(at::kCPU, at::kFloat).contiguous();
  result.input_norms.assign(norms.data_ptr<float>(), norms.data_ptr<float>() + norms.numel());
  const std::vector<Matrix> values = heads_of(entry.values);
  for (int query_head = 0; query_head < model_info_.num_heads; ++query_head) {
    const Matrix weight = matrix_of(output_slice(model_, layer, query_head, storage_));
    const Matrix& own = values[static_cast<std::size_t>(model_info_.head_of(query_head))];
    std::vector<float> lengths;
    for (Eigen::Index first = 0; first < own.rows(); first += kNormRows) {
      const Matrix outputs =
          own.middleRows(first, std::min(kNormRows, own.rows() - first)) * weight;
      for (Eigen::Index row = 0; row < outputs.rows(); ++row) {
        lengths.push_back(outputs.row(row).norm());
      }
    }
    result.out_norms.push_back(std::move(lengths));
  }
  return result;
}

void run_probe(const BlockRunner& runner, const ProbeInfo& probe, const Progress& progress,
               const std::function<void(const ProbeStates&)>& on_states) {
  const std::span<const std::int32_t> ids = probe.ids;
  for (const ProbePass& pass : probe.passes) {
    runner.run_aside(
        ids.subspan(static_cast<std::size_t>(pass.tokens.first),
                    static_cast<std::size_t>(pass.tokens.size())),
        probe.context_end,
        [&](int layer, const StateTensors& states, const at::Tensor& input_norm) {
          on_states({layer, pass.tokens.first, states, input_norm});
        },
        progress);
  }
}

}  // namespace kvloupe
