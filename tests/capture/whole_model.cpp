#include "tests/capture/whole_model.h"

#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/trace/safetensors_header.h"

namespace kvloupe {

at::Tensor run_whole(const Transformer& model, const at::Tensor& ids, const StatesHook& hook) {
  const ModelConfig& config = model.config();
  const Rotations angles = model.rotations(at::arange(ids.size(1), ids.options()));
  at::Tensor hidden = model.embed(ids);
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const StateTensors at_layer = model.states(layer, hidden, angles);
    if (hook) hook(layer, at_layer);
    const at::Tensor rows = causal_attention(at_layer, model.attention(layer));
    const at::Tensor weights = rows.to(at_layer.value.scalar_type());
    // One product per key-value head: its queries' rows stacked, [b,Hk,G·m,m] · [b,Hk,m,d].
    const std::int64_t b = ids.size(0);
    const std::int64_t m = ids.size(1);
    const at::Tensor stacked =
        weights.reshape({b, config.num_kv_heads, config.group_size() * m, m});
    const at::Tensor outputs =
        at::matmul(stacked, at_layer.value).reshape({b, config.num_heads, m, config.head_dim});
    hidden = model.finish_layer(layer, hidden, outputs);
  }
  return model.logits(hidden);
}

namespace {
at::Tensor softly_capped(const at::Tensor& x, double cap) {
  return cap > 0.0 ? (x / cap).tanh() * cap : x;
}
}  // namespace

at::Tensor causal_attention(const StateTensors& states, const AttentionRule& rule) {
  const std::int64_t b = states.query.size(0);
  const std::int64_t query_heads = states.query.size(1);
  const std::int64_t heads = states.key.size(1);
  const std::int64_t m = states.query.size(2);
  const at::Tensor stacked =
      states.query.reshape({b, heads, (query_heads / heads) * m, states.query.size(3)});
  const at::Tensor products = at::matmul(stacked, states.key.transpose(-1, -2)).to(at::kFloat);
  const at::Tensor all = at::ones({m, m}, products.options().dtype(at::kBool));
  at::Tensor unseen = all.triu(1);
  if (rule.window > 0) unseen = unseen.logical_or(all.tril(-rule.window));
  const at::Tensor logits =
      softly_capped(products.view({b, query_heads, m, m}) * rule.scale, rule.softcap)
          .masked_fill(unseen, -std::numeric_limits<double>::infinity());
  if (!rule.sink_logits.defined()) return at::softmax(logits, -1);
  const at::Tensor sinks = rule.sink_logits.view({1, -1, 1, 1}).expand({b, query_heads, m, 1});
  return at::softmax(at::cat({logits, sinks}, -1), -1).slice(-1, 0, m);
}

void write_safetensors(const std::filesystem::path& target,
                       const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const at::ScalarType type = tensor.scalar_type();
    const char* dtype = type == at::kFloat      ? "F32"
                        : type == at::kHalf     ? "F16"
                        : type == at::kBFloat16 ? "BF16"
                                                : nullptr;
    if (dtype == nullptr) throw WorkError("tensor " + name + " is not F32, F16 or BF16");
    const std::uint64_t end =
        offset + static_cast<std::uint64_t>(tensor.numel()) * safetensors_dtype_bytes(dtype);
    header[name] = {
        {"dtype", dtype}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.is_null() ? "{}" : header.dump();
  text.append(
      (kSafetensorsLengthBytes - text.size() % kSafetensorsLengthBytes) % kSafetensorsLengthBytes,
      ' ');  // aligns the data

  OutputFile file(target.string());
  const auto write_all = [&](const void* data, std::size_t size) {
    file.write({static_cast<const char*>(data), size});
  };
  std::array<unsigned char, kSafetensorsLengthBytes> length{};
  for (std::size_t i = 0; i < kSafetensorsLengthBytes; ++i) {
    length[i] = static_cast<unsigned char>(text.size() >> (8 * i));
  }
  write_all(length.data(), length.size());
  write_all(text.data(), text.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor bytes = tensor.detach().to(at::kCPU).contiguous();
    write_all(bytes.data_ptr(), bytes.nbytes());
  }
  file.finish();
}

}  // namespace kvloupe
