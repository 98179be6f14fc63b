#include "analysis/evaluation/rescue_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/unknown.h"
#include "analysis/evaluation/fields.h"

namespace kvloupe {

namespace {
using results::Fields;
using results::Json;
using results::kAnyNumber;
using results::Wrong;

using Part = RescueResults::Part;

constexpr int kRescueVersion = 1;
constexpr std::size_t kMost = 1'000'000;  // tokens, or heads; more than any model has

/// The expected answer: a text, a list of texts, or null.
void describe_right_answer(Fields& fields, RescueSettings& settings) {
  if (!fields.reads()) {
    Json& written = fields.write("expect");
    if (settings.expect) {
      written = *settings.expect;
    } else if (!settings.answers.empty()) {
      written = settings.answers;
    }
    return;
  }
  const Json* found = fields.find("expect");
  if (found == nullptr) return;
  if (found->is_string()) settings.expect = found->get<std::string>();
  if (!found->is_array()) return;
  for (const Json& one : *found) {
    if (one.is_string()) settings.answers.push_back(one.get<std::string>());
  }
}

void describe_rescue_settings(Fields& fields, RescueSettings& settings) {
  fields.text("model", settings.model);
  fields.text("fingerprint", settings.fingerprint);
  fields.text("policy", settings.policy, Fields::refused);
  fields.whole("budget", settings.budget, 0.0, double{kMost});
  fields.whole("block", settings.block, 0.0, 1 << 30, Fields::written);
  fields.text("dtype", settings.dtype);
  fields.wholes("tokens", settings.tokens, double{kMost});
  fields.text("prompt", settings.prompt);
  fields.wholes("prompt_ids", settings.prompt_ids, std::numeric_limits<int>::max(), false);
  describe_right_answer(fields, settings);
  fields.whole("answer_tokens", settings.answer_tokens, 0.0, double{kMost}, Fields::written);
  fields.text("probe", settings.probe, Fields::not_written);
}

void describe_outcome(Fields& fields, bool& right, double& logprob) {
  fields.truth("right", right);
  fields.number("logprob", logprob);
}

/// The runs by their specs; those that cannot be read are left out, and then made again.
void describe_runs(Fields& fields, RescueResults& all) {
  if (!fields.reads()) {
    Json& runs = fields.write("runs") = Json::object();
    for (auto& [spec, outcome] : all.runs) {
      Fields own(&(runs[spec] = Json::object()));
      describe_outcome(own, outcome.right, outcome.logprob);
    }
    return;
  }
  const Json* runs = fields.find("runs");
  if (runs == nullptr || !runs->is_object()) return;
  for (const auto& [spec, run] : runs->items()) {
    try {
      Fields own(run);
      RescueOutcome outcome;
      describe_outcome(own, outcome.right, outcome.logprob);
      all.runs.emplace_back(spec, outcome);
    } catch (const Wrong&) {
    }
  }
}

void describe_effect(Fields& fields, RescueEffect& effect) {
  if (effect.at.layer >= 0) fields.whole("layer", effect.at.layer, 0.0, double{kMost});
  if (effect.at.head >= 0) fields.whole("head", effect.at.head, 0.0, double{kMost});
  describe_outcome(fields, effect.right, effect.logprob);
  fields.number("gain", effect.gain);
}

/// Layers and heads per layer.
struct Shape {
  int layers = 0;
  int heads = 0;
  bool all_known = false;
};

/// Files of earlier versions do not say: they have every layer and head.
void describe_shape(Fields& fields, Shape& shape) {
  shape.all_known = fields.reads() && fields.find("shape") == nullptr;
  if (shape.all_known) {
    fields.object("keep", [&](const Fields& keep) {
      const std::size_t layers = keep.array("layers").size(), heads = keep.array("heads").size();
      if (layers == 0 || heads > kMost || heads == 0 || heads % layers != 0)
        throw Wrong("does not have the effects of every layer and head");
      shape.layers = static_cast<int>(layers);
      shape.heads = static_cast<int>(heads / layers);
    });
  } else {
    fields.object("shape", [&](Fields& own) {
      own.whole("layers", shape.layers, 0.0, double{kMost});
      own.whole("heads", shape.heads, 0.0, double{kMost});
    });
  }
  if (shape.layers < 1 || shape.heads < 1 ||
      static_cast<std::size_t>(shape.layers) > kMost / static_cast<std::size_t>(shape.heads))
    throw Wrong("has a \"shape\" without layers or heads, or with too many");
}

/// The effects in the places that were run, ascending; of earlier versions, all.
void describe_effects(Fields& fields, const char* name, std::vector<RescueEffect>& effects,
                      const Shape& shape) {
  const HeadIndex kind = effects.front().at;  // of a layer, or of a head
  if (!fields.reads()) {
    std::vector<RescueEffect> known;
    std::copy_if(effects.begin(), effects.end(), std::back_inserter(known),
                 [](const RescueEffect& effect) { return effect.is_known(); });
    fields.list(name, known, describe_effect);
    return;
  }
  std::vector<RescueEffect> read;
  fields.list(name, read, [&](Fields& own, RescueEffect& effect) {
    effect.at = kind;
    describe_effect(own, effect);
  });
  std::size_t next = 0;
  for (const RescueEffect& effect : read) {
    const auto layer = static_cast<std::size_t>(effect.at.layer);
    std::size_t at = layer;
    if (kind.head >= 0) {
      at = layer * static_cast<std::size_t>(shape.heads) + static_cast<std::size_t>(effect.at.head);
    }
    if (at < next || at >= effects.size() || effect.at.head >= shape.heads ||
        (shape.all_known && at != next))
      throw Wrong(fmt::format("does not have the effects of {} in order", name));
    effects[at] = effect;
    next = at + 1;
  }
  if (shape.all_known && next != effects.size())
    throw Wrong("does not have the effects of every layer and head");
}

/// `right`: how the answer is with the smallest set.
void describe_smallest(Fields& fields, RescueSide& side, bool right, const Shape& shape) {
  if (fields.reads()) {
    side.smallest.emplace();
    for (const Json& head : fields.array("heads")) {
      if (!head.is_array() || head.size() != 2) throw Wrong("has a head that is not two numbers");
      side.smallest->push_back(
          {static_cast<int>(results::whole_in(head[0], "layer", 0.0, shape.layers - 1.0)),
           static_cast<int>(results::whole_in(head[1], "head", 0.0, shape.heads - 1.0))});
    }
    fields.whole("runs", side.set_tests, 0.0, 1 << 30, Fields::written);
    if (fields.find("minimal") != nullptr) fields.truth("minimal", side.minimal);
    return;
  }
  Json& heads = fields.write("heads") = Json::array();
  for (const HeadIndex& head : *side.smallest) heads.push_back({head.layer, head.head});
  fields.truth("right", right);
  fields.write("runs") = side.set_tests;
  fields.truth("minimal", side.minimal);
}

void describe_side(Fields& fields, RescueSide& side, bool right, const Shape& shape) {
  fields.object("all", [&](Fields& own) { describe_effect(own, side.all); });
  describe_effects(fields, "layers", side.layers, shape);
  describe_effects(fields, "heads", side.heads, shape);
  const Json* smallest = fields.reads() ? fields.find("smallest") : nullptr;
  if (fields.reads() ? smallest != nullptr && !smallest->is_null() : side.smallest.has_value()) {
    fields.object("smallest", [&](Fields& own) { describe_smallest(own, side, right, shape); });
  } else if (!fields.reads()) {
    fields.write("smallest") = Json();
  }
}

void describe_prediction(Fields& fields, RescuePrediction& head) {
  fields.whole("layer", head.at.layer, 0.0, double{kMost});
  fields.whole("head", head.at.head, 0.0, double{kMost});
  fields.number("loss", head.loss, -kAnyNumber, kAnyNumber, Fields::written);
  fields.number("question_loss", head.question_loss, -kAnyNumber, kAnyNumber, Fields::written);
  fields.number("change", head.change, -kAnyNumber, kAnyNumber, Fields::written);
  fields.number("logit", head.logit, -kAnyNumber, kAnyNumber, Fields::written);
  // Results of earlier versions have no blame.
  if (fields.reads() && fields.find("blame") == nullptr) {
    head.blame = head.loss;
  } else {
    fields.number("blame", head.blame, -kAnyNumber, kAnyNumber, Fields::written);
  }
  fields.number("attention", head.attention, -kAnyNumber, kAnyNumber, Fields::not_written);
  fields.number("score_rank", head.score_rank, 0.0, 1.0, Fields::not_written);
  fields.number("drop_blame", head.drop_blame, -kAnyNumber, kAnyNumber, Fields::not_written);
}

void describe_predictions(Fields& fields, RescueResults& all) {
  fields.text("by", all.predicted_by);
  if (all.predicted_by.empty()) all.predicted_by = "loss";  // of earlier versions
  fields.text("over", all.predicted_over, Fields::not_written);
  fields.list("heads", all.predictions, describe_prediction);
  if (!fields.reads() && all.reached < Part::all) return;
  fields.number("rank_correlation", all.rank_correlation, -1.0, 1.0, Fields::written);
  if (!fields.reads())
    fields.write("set_within") = all.keep.smallest ? Json(all.set_within()) : Json();
}

/// The results that a search derives from its runs.
void describe_findings(Fields& fields, RescueResults& all) {
  if (all.reached >= Part::expected) {
    fields.object("expected", [&](Fields& own) {
      own.wholes("ids", all.expected_ids, std::numeric_limits<int>::max(), false);
      own.text("text", all.expected);
    });
  }
  const auto answer = [&](const char* name, bool& right, double& logprob, std::string& says) {
    fields.object(name, [&](Fields& own) {
      describe_outcome(own, right, logprob);
      own.text("says", says);
    });
  };
  if (all.reached >= Part::full) answer("full", all.full_right, all.full_logprob, all.full_says);
  if (all.reached >= Part::policy)
    answer("policy", all.policy_right, all.policy_logprob, all.policy_says);
  if (all.reached < Part::predicted) return;
  Shape shape{all.layers(), all.heads()};
  describe_shape(fields, shape);
  if (fields.reads()) all.keep = all.drop = RescueSide::unknown(shape.layers, shape.heads);
  fields.object("predicted", [&](Fields& own) { describe_predictions(own, all); });
  if (all.reached < Part::all) return;
  if (fields.reads() ? fields.find("stopped") != nullptr : all.stopped)
    fields.truth("stopped", all.stopped);
  fields.object("keep", [&](Fields& own) { describe_side(own, all.keep, true, shape); });
  fields.object("drop", [&](Fields& own) { describe_side(own, all.drop, false, shape); });
}

void describe_rescue(Fields& fields, RescueResults& all) {
  fields.object("settings", [&](Fields& own) { describe_rescue_settings(own, all); });
  describe_runs(fields, all);
  describe_findings(fields, all);
}

}  // namespace

int RescueSide::known_heads() const {
  return static_cast<int>(std::count_if(heads.begin(), heads.end(),
                                        [](const RescueEffect& head) { return head.is_known(); }));
}

RescueSide RescueSide::unknown(int layers, int heads_per_layer) {
  RescueSide side;
  side.all.at = {-1, -1};
  for (int layer = 0; layer < layers; ++layer) {
    side.layers.push_back({{layer, -1}, false, kUnknown, kUnknown});
    for (int head = 0; head < heads_per_layer; ++head)
      side.heads.push_back({{layer, head}, false, kUnknown, kUnknown});
  }
  return side;
}

int RescueResults::set_within() const {
  if (!keep.smallest) return 0;
  std::size_t within = 0;
  for (const HeadIndex& head : *keep.smallest) {
    const double own = predicted[index(head)];
    if (std::isnan(own)) return static_cast<int>(predicted.size());
    std::size_t place = 1;  // of equals, those that stand first are first
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      if (predicted[i] > own || (predicted[i] == own && i < index(head))) ++place;
    }
    within = std::max(within, place);
  }
  return static_cast<int>(within);
}

std::string heads_text(const std::vector<HeadIndex>& heads, const char* between) {
  std::string text;
  for (const HeadIndex& head : heads)
    text += fmt::format("{}{}.{}", text.empty() ? "" : between, head.layer, head.head);
  return text;
}

const RescueOutcome* RescueResults::find_run(const std::string& spec) const {
  const auto found =
      std::find_if(runs.begin(), runs.end(), [&](const auto& run) { return run.first == spec; });
  return found == runs.end() ? nullptr : &found->second;
}

RescueResults rescue_results(const Json& json) {
  for (const char* part : {"expected", "full", "policy", "keep", "drop", "predicted"}) {
    if (json.find(part) == json.end())
      throw Wrong("is not complete; run the same command again, which continues it");
  }
  RescueResults all;
  all.reached = Part::all;
  Fields fields(json);
  describe_rescue(fields, all);
  all.predicted.assign(all.keep.heads.size(), kUnknown);
  for (const RescuePrediction& head : all.predictions) {
    if (head.at.layer >= all.layers() || head.at.head >= all.heads())
      throw Wrong("predicts a head that the model does not have");
    all.predicted[all.index(head.at)] = head.blame;
  }
  return all;
}

std::optional<RescueResults> begun_rescue(const std::string& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  Json json;
  try {
    json = results::read_json(path);
  } catch (const FileError&) {  // the next line says so
  }
  const Json version = json.is_object() ? json.value("format_version", Json()) : Json();
  if (!version.is_number_integer() || json.value("format", Json()) != Json(kRescueFormat) ||
      !json.value("runs", Json()).is_object()) {
    throw FileError(path, "is not a results file of kvloupe-capture rescue; choose another name");
  }
  if (version.get<int>() > kRescueVersion)
    throw FileError(path, "is of a newer version; use a newer kvloupe");
  RescueResults all;
  try {
    Fields fields(json);
    describe_rescue(fields, all);
  } catch (const Wrong& error) {
    throw FileError(path, std::string(error.what()) + "; choose another name");
  }
  return all;
}

std::string rescue_text(const RescueResults& results) {
  Json json = {{"format", kRescueFormat}, {"format_version", kRescueVersion}};
  Fields fields(&json);
  RescueResults all = results;
  describe_rescue(fields, all);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void write_rescue(const RescueResults& results, const std::string& path) {
  write_whole_file(path, rescue_text(results));
}

}  // namespace kvloupe
