#include "analysis/trace/layer_kinds_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/base/text/text.h"

namespace kvloupe {

std::string window_note_in_brief(const std::string& note) {
  return note.ends_with(kLeavesTheWindow) ? note.substr(0, note.size() - kLeavesTheWindow.size())
                                          : "";
}

std::string window_text(const Trace& trace) {
  std::map<std::pair<std::string, int>, int> layers;  // of each window or chunk
  const int count = static_cast<int>(trace.storing_layers().size());
  for (const int layer : trace.storing_layers()) {
    const Reach reach = trace.reach(layer);
    if (!reach.all()) ++layers[{reach.name(), reach.span()}];
  }
  std::string text;
  for (const auto& [reach, of_layers] : layers) {
    text += (text.empty() ? "" : ", ") + reach.first + " of " + std::to_string(reach.second) +
            " tokens";
    if (of_layers < count) {
      text += " in " + std::to_string(of_layers) + " of " + std::to_string(count) + " layers";
    }
  }
  return text;
}

namespace {
/// How many of each, in the order in which they come first.
class Counts {
 public:
  void add(const std::string& what) {
    const auto found = std::find_if(counts_.begin(), counts_.end(),
                                    [&](const auto& one) { return one.first == what; });
    if (found == counts_.end()) {
      counts_.emplace_back(what, 1);
    } else {
      ++found->second;
    }
  }
  std::size_t kinds() const { return counts_.size(); }
  std::string text(const char* separator, const char* between) const {
    std::string all;
    for (const auto& [what, count] : counts_) {
      all += fmt::format("{}{}{}{}", all.empty() ? "" : separator, count, between, what);
    }
    return all;
  }

 private:
  std::vector<std::pair<std::string, int>> counts_;
};

std::string kind_of(const ModelInfo& layer) {
  std::string text = layer.mixer.empty() ? "without a cache" : in_one_line(layer.mixer, 40);
  switch (layer.kind) {
    case LayerKind::none:
      return text;
    case LayerKind::shared:
      return "with a shared cache";
    case LayerKind::latent:
      return "latent attention";
    case LayerKind::attention:
      break;
  }
  const std::string attention = layer.expanded_latent ? "expanded latent attention" : "attention";
  return layer.mixer.empty() ? attention : attention + " beside " + text;
}
}  // namespace

std::string layer_kinds_text(const Trace& trace) {
  Counts kinds;
  bool same = trace.model().cache_heads.empty() && !trace.model().expanded_latent;
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    const ModelInfo& own = trace.layer_model(layer);
    kinds.add(kind_of(own));
    same = same && own.kind == LayerKind::attention && own.mixer.empty() &&
           own.num_heads == trace.model().num_heads && own.head_dim == trace.model().head_dim &&
           own.value_width() == trace.model().value_width();
  }
  return same ? "" : kinds.text(", ", " ");
}

std::vector<std::string> layer_kinds_notes(const Trace& trace) {
  std::vector<std::string> notes;
  std::string shared;
  bool latent = false, gated = false;
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    const ModelInfo& own = trace.layer_model(layer);
    latent = latent || own.kind == LayerKind::latent;
    gated = gated || trace.has_gate(layer);
    if (own.shares_with >= 0)
      shared +=
          fmt::format("{}layer {} reads {}", shared.empty() ? "" : ", ", layer, own.shares_with);
  }
  if (latent) notes.emplace_back("keys and their scores are latents (MLA), one head per layer");
  if (trace.model().expanded_latent)
    notes.emplace_back("MLA as expanded heads: not realisable, all heads share one cache");
  if (!shared.empty()) notes.push_back("shared caches: " + shared);
  if (gated) notes.emplace_back("measures count the output gates, policies do not");
  return notes;
}

std::string layer_shapes_text(const Trace& trace) {
  Counts shapes;
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    const ModelInfo& own = trace.layer_model(layer);
    if (!own.attends()) continue;
    shapes.add(fmt::format("{} query heads, {} key-value head{}, keys of {}, values of {}{}",
                           own.num_heads, own.num_kv_heads, own.num_kv_heads == 1 ? "" : "s",
                           own.head_dim, own.value_width(),
                           own.value_is_key_prefix ? " (a part of the keys)" : ""));
  }
  return shapes.text("; ", " × ");
}

}  // namespace kvloupe
