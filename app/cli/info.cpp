// kvloupe info TRACE [--json]: the content of a trace.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/text.h"
#include "analysis/trace/given_tokens.h"
#include "analysis/trace/layer_kinds_text.h"
#include "analysis/trace/loops.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/shared_weights.h"
#include "analysis/trace/trace_final_norm.h"
#include "analysis/trace/trace_layout.h"
#include "analysis/trace/trace_probe.h"
#include "analysis/trace/trace_size.h"
#include "app/cli/commands.h"
#include "app/plot/printable.h"

namespace kvloupe::cli::info_verb {

namespace {
using json = nlohmann::ordered_json;

std::string megabytes(std::size_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  if (bytes < 1'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  if (bytes < 1'000'000'000) return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
  return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9);
}

/// A run of tokens of one segment: [first, end).
struct Segment {
  std::string name;
  int first = 0, end = 0;
};

/// As the trace names them, or, with `given`, as they are shown.
std::vector<Segment> segments_of(const Trace& trace, const GivenTokens* given) {
  const TokenTable& table = trace.tokens();
  std::vector<Segment> segments;
  for (int i = 0; i < static_cast<int>(table.segment.size()); ++i) {
    const std::string name = given != nullptr
                                 ? part_name(trace, *given, i)
                                 : table.segment_names[table.segment[static_cast<std::size_t>(i)]];
    if (segments.empty() || segments.back().name != name) segments.push_back({name, i, 0});
    segments.back().end = i + 1;
  }
  return segments;
}

std::string text_at(const Trace& trace, int token) {
  const auto at = static_cast<std::size_t>(token);
  return at < trace.tokens().text.size() ? trace.tokens().text[at]
                                         : fmt::format("#{}", trace.tokens().ids[at]);
}

/// Loops in the text after the prompt.
Loops loops_of(const Trace& trace) {
  return find_loops(trace.tokens().ids, trace.run().prompt_length);
}

/// The text that a loop repeats, once.
std::string text_of(const Loop& loop, const TokenTable& tokens) {
  std::string text;
  for (int i = loop.first; i < loop.first + loop.length && !tokens.text.empty(); ++i) {
    text += tokens.text[static_cast<std::size_t>(i)];
  }
  return text;
}

/// The file's reason why output weights are missing: "; layer 2 and 3 more: a norm …"; empty if it
/// gives none.
std::string why_without_output_weight(const Trace& trace) {
  int first = -1, layers = 0;
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    if (trace.without_output_weight(layer).empty()) continue;
    if (first < 0) first = layer;
    ++layers;
  }
  if (first < 0) return "";
  return fmt::format("; layer {}{}: {}", first,
                     layers > 1 ? fmt::format(" and {} more", layers - 1) : "",
                     in_one_line(trace.without_output_weight(first), 160));
}

std::vector<std::string> notes_of(const Trace& trace,
                                  const std::vector<Trace::DatasetInfo>& datasets) {
  std::vector<std::string> notes;
  if (const std::string missing = missing_weights(trace); !missing.empty()) {
    notes.push_back(missing);
  } else if (uses_shared_weights(trace)) {
    notes.push_back(
        "the model's weights are read from the cache folder; for another machine, make a trace "
        "that holds them: kvloupe-capture pack TRACE -o FILE");
  } else if (!trace.has_output_weight()) {
    notes.push_back("no output weights: output perturbation and its bound cannot be computed" +
                    why_without_output_weight(trace));
  }
  if (!trace.predictions()) notes.push_back("no predictions: next-token losses are unknown");
  const auto has = [&](const std::string& path) {
    return std::any_of(datasets.begin(), datasets.end(),
                       [&](const auto& dataset) { return dataset.path == path; });
  };
  if (!trace.has_lm_head() && missing_weights(trace).empty()) {
    notes.push_back(fmt::format("{} for logit effects, and for the exact KL of a drift, {}",
                                has(layout::kHeadRows)
                                    ? "of the output head only the rows of the trace's own tokens:"
                                    : "no output head: for the logits of the trace's own tokens,",
                                kCaptureOutputHead));
  }
  if (trace.tokens().text.empty()) notes.push_back("no token text: tokens are shown by their ids");
  if (trace.run().closed_loop()) {
    notes.push_back("closed loop: the model ran with " + trace.run().policy +
                    " in its cache; replay accepts only the trace's own blocks");
  }
  if (const std::optional<ProbeInfo> probe = TraceProbe(trace).info()) {
    notes.push_back(fmt::format(
        "a probe ({}): a second reading of the first {} tokens, for policies such as kvzip",
        probe->kind.empty() ? "of no kind" : in_one_line(probe->kind, 40), probe->context_end));
  }
  if (!trace.narrowest_reach().all()) {
    notes.push_back(
        fmt::format("the model attends within a {}, fewer than the trace "
                    "has: entries beyond leave a cache without an eviction",
                    window_text(trace)));
  }
  for (std::string& note : layer_kinds_notes(trace)) notes.push_back(std::move(note));
  std::size_t half = 0, wide = 0;
  for (const Trace::DatasetInfo& dataset : datasets) {
    if (!dataset.path.starts_with("/layers/") || dataset.shape.size() != 3) continue;
    const std::string name = dataset.path.substr(dataset.path.rfind('/') + 1);
    if (name != "query" && name != "key" && name != "value") continue;
    ++(dataset.type == "float16" ? half : wide);
  }
  if (half > 0 && wide > 0) {
    notes.push_back(fmt::format(
        "{} of {} state datasets are stored as float32 because their values overflow float16", wide,
        half + wide));
  }
  return notes;
}

/// Datasets that differ only in their layer, as one line.
struct DatasetLine {
  std::string path, type, shape;
  std::size_t count = 0, bytes = 0;
};

std::string shape_text(const std::vector<std::size_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::vector<DatasetLine> lines_of(const std::vector<Trace::DatasetInfo>& datasets) {
  static constexpr std::string_view kLayers = "/layers/";
  std::vector<DatasetLine> lines;
  for (const Trace::DatasetInfo& dataset : datasets) {
    std::string path = dataset.path;
    if (path.starts_with(kLayers)) {
      path = "/layers/*" + path.substr(std::min(path.find('/', kLayers.size()), path.size()));
    }
    const std::string shape = shape_text(dataset.shape);
    auto line = std::find_if(lines.begin(), lines.end(), [&](const DatasetLine& known) {
      return known.path == path && known.type == dataset.type && known.shape == shape;
    });
    if (line == lines.end()) line = lines.insert(line, {path, dataset.type, shape, 0, 0});
    ++line->count;
    line->bytes += dataset.stored_bytes;
  }
  return lines;
}

const char* pairing_name(RopePairing pairing) {
  return pairing == RopePairing::half ? "half" : "interleaved";
}

/// "GGUF Q4_K_M (Q5_0, Q4_K), model.gguf".
std::string weights_text(const ModelInfo& model) {
  std::string text = model.weights_format;
  if (!model.weights_type.empty()) text += " " + model.weights_type;
  if (!model.weights_file.empty()) text += ", " + model.weights_file;
  return in_one_line(text, 200);
}

std::string or_unknown(const std::string& text) { return text.empty() ? "unknown" : text; }

/// The device, threads and speed of the run, as far as the trace says.
std::string computed_text(const RunInfo& run) {
  std::string text = run.dtype;
  const auto add = [&](const std::string& separator, const std::string& part) {
    text += (text.empty() ? "" : separator) + part;
  };
  if (!run.device.empty()) add(" ", "on " + run.device);
  if (run.threads > 0)
    add(", ", fmt::format("{} thread{}", run.threads, run.threads == 1 ? "" : "s"));
  if (run.seconds > 0.0) add(", ", fmt::format("{:.1f} s", run.seconds));
  return text;
}

/// How layers attend where that is more than a scale: "soft cap 50 in 26 of 26 layers, …".
std::string attention_text(const Trace& trace) {
  const int count = trace.model().num_layers;
  int caps = 0, sinks = 0, scales = 0, rotations = 0, gates = 0;
  for (int layer = 0; layer < count; ++layer) {
    if (!trace.attends(layer)) continue;
    const LayerAttention attention = trace.attention(layer);
    const ModelInfo& model = trace.layer_model(layer);
    if (attention.softcap > 0.0) ++caps;
    if (trace.has_gate(layer)) ++gates;
    if (!attention.sink_logits.empty()) ++sinks;
    if (attention.scale != trace.run().attention_scale) ++scales;
    if (model.rope_theta != trace.model().rope_theta ||
        model.rope_scaling != trace.model().rope_scaling) {
      ++rotations;
    }
  }
  std::string text;
  for (const auto& [what, layers] : {std::pair{"logits with a soft cap", caps},
                                     {"sink logits", sinks},
                                     {"another scale", scales},
                                     {"another rotation", rotations},
                                     {"an output gate", gates}}) {
    if (layers == 0) continue;
    text += fmt::format("{}{} in {} of {} layers", text.empty() ? "" : ", ", what, layers, count);
  }
  return text;
}

std::string as_text(const Trace& trace, std::size_t bytes) {
  const ModelInfo& model = trace.model();
  const RunInfo& run = trace.run();
  const std::vector<Trace::DatasetInfo> datasets = trace.datasets();
  std::string out;
  const auto field = [&](std::string_view name, const std::string& value) {
    constexpr std::size_t kLongest = 4096;
    out += fmt::format("  {:<16}{}\n", name, in_one_line(value, kLongest));
  };
  out += fmt::format("{}\n", trace.path().string());
  field("size", megabytes(bytes));
  field("written by", or_unknown(trace.generator()));
  field("created", or_unknown(trace.created()));

  out += "\nmodel\n";
  field("name", or_unknown(model.name));
  field("architecture", or_unknown(model.architecture));
  const std::string kinds = layer_kinds_text(trace);
  field("layers",
        std::to_string(model.num_layers) + (kinds.empty() ? "" : fmt::format(" ({})", kinds)));
  if (kinds.empty()) {
    field("heads",
          fmt::format("{} key-value heads, {} query heads ({} each), {} dimensions",
                      model.num_kv_heads, model.num_heads, model.group_size(), model.head_dim));
  } else {
    field("heads", layer_shapes_text(trace));
    const CacheBytes bytes = cache_bytes(trace);
    field("cache", fmt::format("{:.4g} kB for each token in 16 bits{}", bytes.per_token / 1000.0,
                               bytes.states > 0.0 ? fmt::format(", and {:.4g} kB of fixed states",
                                                                bytes.states / 1000.0)
                                                  : ""));
  }
  field("hidden size", std::to_string(model.hidden_size));
  field("vocabulary", std::to_string(model.vocab_size));
  field("RoPE", model.rope_theta > 0.0
                    ? fmt::format("theta {:g}, pairing {}, scaling {}", model.rope_theta,
                                  pairing_name(model.rope_pairing),
                                  model.rope_scaling == "null" ? "none" : model.rope_scaling)
                    : std::string("unknown"));
  if (!model.weights_format.empty()) field("weights", weights_text(model));
  field("fingerprint", or_unknown(stored_model_fingerprint(trace.path())));
  if (model.sliding_window > 0) field("sliding window", std::to_string(model.sliding_window));
  if (model.rotary_dim > 0) {
    field("rotated",
          model.rotary_start > 0
              ? fmt::format("dimensions {} to {} of {}", model.rotary_start,
                            model.rotary_start + model.rotary_dim - 1, model.head_dim)
              : fmt::format("the first {} of {} dimensions", model.rotary_dim, model.head_dim));
  }
  if (const std::string special = attention_text(trace); !special.empty()) {
    field("attention", special);
  }

  out += "\nrun\n";
  const GivenTokens given = given_tokens(trace);
  field("tokens", fmt::format("{} = {} prompt{}", trace.length(), run.prompt_length,
                              count_after_prompt(run, given)));
  if (!given.range.empty()) field("answer", own_answer_note(given));
  constexpr std::size_t kShown = 5;
  for (std::size_t i = 0; i < std::min(given.others.size(), kShown); ++i) {
    const int token = given.others[i].token;
    field(i == 0 ? "not its own" : "",
          fmt::format("token {} “{}” · {}", token, figure::printable(text_at(trace, token)),
                      part_text(trace, given, token)));
  }
  if (given.others.size() > kShown)
    field("", fmt::format("and {} more (--json)", given.others.size() - kShown));
  field("steps", fmt::format("{}, prompt in blocks of {}", trace.blocks().size(),
                             trace.blocks().front().size()));
  field("policy",
        !run.closed_loop() ? run.policy : fmt::format("{}, budget {}", run.policy, run.budget));
  if (const std::string chat = stored_chat(trace.path()); !chat.empty()) field("chat", chat);
  field("positions", run.positions);
  if (run.compression != Compression::regular) {
    field("compression", compression_name(run.compression));
  }
  field("attention scale", fmt::format("{:.6g}", run.attention_scale));
  if (const std::string computed = computed_text(run); !computed.empty())
    field("computed", computed);
  field("seed", std::to_string(run.seed));

  const std::vector<Segment> segments = segments_of(trace, &given);
  if (!segments.empty()) out += "\nsegments\n";
  for (const Segment& segment : segments) {
    field(segment.name, fmt::format("tokens {} to {}", segment.first, segment.end - 1));
  }

  const Loops loops = loops_of(trace);
  if (!loops.spans.empty()) {
    out += fmt::format("\nloops: {} of {} tokens after the prompt ({:.0f} %) repeat themselves\n",
                       loops.tokens, loops.of, 100.0 * loops.share());
  }
  for (const Loop& loop : loops.spans) {
    const std::string text = in_one_line(text_of(loop, trace.tokens()), 60);
    field(fmt::format("token {}", loop.first),
          fmt::format("{} token{}, {} times{}{}", loop.length, loop.length == 1 ? "" : "s",
                      loop.repeats(), text.empty() ? "" : ": ", text));
  }

  out += "\ndatasets\n";
  const std::vector<DatasetLine> lines = lines_of(datasets);
  std::size_t path_width = 0, shape_width = 0;
  for (const DatasetLine& line : lines) {
    path_width = std::max(path_width, line.path.size());
    shape_width = std::max(shape_width, line.shape.size());
  }
  for (const DatasetLine& line : lines) {
    const std::string times = line.count > 1 ? fmt::format("{} ×", line.count) : "";
    out += fmt::format("  {:<{}}  {:>5} {:<{}}  {:<8} {:>10}\n", line.path, path_width, times,
                       line.shape, shape_width, line.type, megabytes(line.bytes));
  }

  const std::vector<std::string> notes = notes_of(trace, datasets);
  if (!notes.empty()) out += "\nnotes\n";
  for (const std::string& note : notes) out += "  " + note + "\n";
  return out;
}

/// The kind and shape of each layer, for a model whose layers differ.
json layers_json(const Trace& trace) {
  json layers = json::array();
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    const ModelInfo& model = trace.layer_model(layer);
    json one = {{"kind", layer_kind_name(model.kind)}, {"state_bytes", model.state_bytes}};
    if (!model.mixer.empty()) one["mixer"] = model.mixer;
    if (model.attends()) {
      one["num_heads"] = model.num_heads;
      one["num_kv_heads"] = model.num_kv_heads;
      one["key_dim"] = model.head_dim;
      one["value_dim"] = model.value_width();
      one["sliding_window"] = model.sliding_window;
      if (model.chunk_size > 0) one["chunk_size"] = model.chunk_size;
      one["gate"] = trace.has_gate(layer);
    }
    if (model.shares_with >= 0) one["shares_with"] = model.shares_with;
    layers.push_back(std::move(one));
  }
  return layers;
}

std::string as_json(const Trace& trace, std::size_t bytes) {
  const ModelInfo& model = trace.model();
  const RunInfo& run = trace.run();
  json out;
  out["trace"] = trace.path().string();
  out["bytes"] = bytes;
  out["generator"] = trace.generator();
  out["created"] = trace.created();
  out["model"] = {{"name", model.name},
                  {"architecture", model.architecture},
                  {"num_layers", model.num_layers},
                  {"num_heads", model.num_heads},
                  {"num_kv_heads", model.num_kv_heads},
                  {"head_dim", model.head_dim},
                  {"hidden_size", model.hidden_size},
                  {"vocab_size", model.vocab_size},
                  {"rope_theta", model.rope_theta},
                  {"rope_scaling", model.rope_scaling},
                  {"rope_pairing", pairing_name(model.rope_pairing)},
                  {"sliding_window", model.sliding_window},
                  {"rotary_dim", model.rotary_dim},
                  {"attention", attention_text(trace)},
                  {"fingerprint", stored_model_fingerprint(trace.path())}};
  if (!layer_kinds_text(trace).empty()) out["layers"] = layers_json(trace);
  const GivenTokens given = given_tokens(trace);
  out["run"] = {{"tokens", trace.length()},
                {"prompt_length", run.prompt_length},
                {"generated", run.generated},
                {"given", given.range.end - given.range.first},
                {"steps", trace.blocks().size()},
                {"block_size", run.block_size},
                {"policy", run.policy},
                {"budget", run.budget},
                {"positions", run.positions},
                {"chat", stored_chat(trace.path())},
                {"compression", compression_name(run.compression)},
                {"attention_scale", run.attention_scale},
                {"dtype", run.dtype},
                {"device", run.device},
                {"threads", run.threads},
                {"seed", run.seed},
                {"seconds", run.seconds}};
  if (!given.range.empty()) {
    json& answer = out["given"];
    answer = {{"first", given.range.first},
              {"end", given.range.end},
              {"compared", given.compared},
              {"others", json::array()},
              {"own_answer", {{"ids", given.own_ids}, {"text", given.own_text}}}};
    for (const GivenTokens::Other& one : given.others) {
      answer["others"].push_back({{"token", one.token},
                                  {"text", text_at(trace, one.token)},
                                  {"choice", one.id},
                                  {"choice_text", one.text}});
    }
  }
  out["segments"] = json::array();
  for (const Segment& segment : segments_of(trace, nullptr)) {
    out["segments"].push_back(
        {{"name", segment.name}, {"first", segment.first}, {"end", segment.end}});
  }
  const Loops loops = loops_of(trace);
  out["loops"] = {{"generated", loops.of},
                  {"tokens", loops.tokens},
                  {"share", loops.share()},
                  {"spans", json::array()}};
  for (const Loop& loop : loops.spans) {
    out["loops"]["spans"].push_back({{"first", loop.first},
                                     {"length", loop.length},
                                     {"repeats", loop.repeats()},
                                     {"tokens", loop.tokens},
                                     {"text", text_of(loop, trace.tokens())}});
  }
  const std::vector<Trace::DatasetInfo> datasets = trace.datasets();
  out["datasets"] = json::array();
  for (const Trace::DatasetInfo& dataset : datasets) {
    out["datasets"].push_back({{"path", dataset.path},
                               {"type", dataset.type},
                               {"shape", dataset.shape},
                               {"stored_bytes", dataset.stored_bytes}});
  }
  out["notes"] = notes_of(trace, datasets);
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

int info(const std::filesystem::path& path, bool want_json) {
  const Trace trace(path);
  const std::size_t bytes = std::filesystem::file_size(path);
  write_whole_file("-", want_json ? as_json(trace, bytes) : in_lines(as_text(trace, bytes)));
  return 0;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  struct Options {
    std::filesystem::path trace;
    bool json = false;
  };
  CLI::App* verb =
      app.add_subcommand("info", "Print the contents of a trace: model, run, tokens, datasets");
  const auto options = std::make_shared<Options>();
  verb->add_option("TRACE", options->trace, "The trace file; without one: the program itself");
  verb->add_flag("--json", options->json, "As JSON (docs/trace-format.md)");
  verb->callback([&app, &action, options] {
    action = [&app, options] {
      if (!options->trace.empty()) return info(options->trace, options->json);
      if (options->json) throw UsageError("info: --json needs a TRACE");
      fmt::print("{}\nthreads: {}\n", app.version(), std::thread::hardware_concurrency());
      return 0;
    };
  });
}

}  // namespace kvloupe::cli::info_verb
